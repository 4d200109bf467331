//===- GuardSnapshot.cpp - What guards rest on, as words of memory --------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Guards.h"

#include "ObjectReads.h"

#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <unordered_set>

namespace pyjit::python {

/// What is known of registers while the snapshot holds.
struct Guards::Settled {
  /// The register holds the same object.
  std::vector<bool> registers;
  /// Objects that cannot die meanwhile.
  std::unordered_set<PyObject *> alive;

  bool has(uint32_t reg) const { return registers[reg]; }
};

/// Objects whose death nobody sees, and that never change.
static bool isPlainValue(PyObject *object) {
  return object == Py_None || PyBool_Check(object) ||
         PyLong_CheckExact(object) || PyFloat_CheckExact(object) ||
         PyUnicode_CheckExact(object) || PyBytes_CheckExact(object) ||
         PyCode_Check(object);
}

/// Where the attribute names of an instance of this exact type begin, by
/// CPython's own accounting: changes with any change along the MRO.
static const uintptr_t *versionPlace(PyTypeObject *type) {
  static_assert(offsetof(PyTypeObject, tp_version_tag) % sizeof(uintptr_t) ==
                0);
  return reinterpret_cast<const uintptr_t *>(&type->tp_version_tag);
}

/// Puts into the snapshot what one passed instruction depends on. False where
/// it has to be repeated at each call.
bool Guards::snapshotInstruction(const PyjitInst &inst, uint32_t owner,
                                 const std::vector<PyObject *> &registers,
                                 Settled &settled) {
  if (inst.op == PYJIT_GUARD_OBJECT) {
    settled.registers[inst.dst] = true;
    return true;
  }
  // Where a tensor's memory lies is no word of the tensor.
  if (inst.op == PYJIT_GUARD_ARG || inst.op == PYJIT_GUARD_STATE ||
      inst.op == PYJIT_GUARD_DISJOINT || inst.op == PYJIT_GUARD_UNALIASED ||
      inst.op >= PYJIT_GUARD_NUMBER || !settled.has(inst.a))
    return false;
  PyObject *a = registers[inst.a];
  auto typeIs = [&] { snapshot.word(&a->ob_type, owner); };
  /// The value read is the one at `place`; its address may stand for it only
  /// while it lives.
  auto reads = [&](PyObject **place) {
    PyObject *value = *place;
    if (!settled.alive.count(value)) {
      if (!isPlainValue(value))
        return false;
      snapshot.keep(value);
      settled.alive.insert(value);
    }
    snapshot.word(place, owner);
    settled.registers[inst.dst] = true;
    return true;
  };
  switch (inst.op) {
  case PYJIT_GUARD_CELL: {
    PyObject *cell = closureCell(a, inst.imm);
    if (!cell)
      return false;
    if (!reads(&reinterpret_cast<PyCellObject *>(cell)->ob_ref))
      return false;
    if (cell != a)
      snapshot.word(&reinterpret_cast<PyFunctionObject *>(a)->func_closure,
                    owner);
    return true;
  }
  case PYJIT_GUARD_SLOT: {
    PyTypeObject *type = Py_TYPE(a);
    PyObject **place = slotPlace(a, constants.constant(inst.b));
    if (!place || !PyUnstable_Type_AssignVersionTag(type) || !reads(place))
      return false;
    typeIs();
    snapshot.keep(reinterpret_cast<PyObject *>(type));
    snapshot.word(versionPlace(type), owner);
    return true;
  }
  case PYJIT_GUARD_FIELD: {
    PyObject **place = fieldPlace(a, constants.constant(inst.b));
    return place && !PyMethod_Check(a) && !PyCFunction_Check(a) && reads(place);
  }
  case PYJIT_GUARD_NO_ATTR: {
    // Of functions alone: their dict is no dict yet.
    if (!PyFunction_Check(a))
      return false;
    PyObject **dict = &reinterpret_cast<PyFunctionObject *>(a)->func_dict;
    if (*dict)
      return false;
    snapshot.word(dict, owner);
    return true;
  }
  case PYJIT_GUARD_TYPE_IS:
    typeIs();
    return true;
  case PYJIT_GUARD_IS:
  case PYJIT_GUARD_IS_CONST:
    return true;
  case PYJIT_GUARD_EQ_INT:
  case PYJIT_GUARD_EQ_FLOAT:
  case PYJIT_GUARD_EQ_STR:
    return isPlainValue(a);
  case PYJIT_GUARD_SAME:
  case PYJIT_GUARD_DISTINCT:
    return settled.has(inst.b);
  case PYJIT_GUARD_LENGTH:
    if (PyDict_CheckExact(a))
      snapshot.word(reinterpret_cast<const uintptr_t *>(
                        &reinterpret_cast<PyDictObject *>(a)->ma_used),
                    owner);
    else if (PyList_CheckExact(a))
      snapshot.word(reinterpret_cast<const uintptr_t *>(
                        &reinterpret_cast<PyVarObject *>(a)->ob_size),
                    owner);
    else
      return PyTuple_CheckExact(a) || isPlainValue(a);
    return true;
  case PYJIT_GUARD_INSTANCE: {
    PyObject **dict = PyType_Check(a) ? nullptr : _PyObject_GetDictPtr(a);
    if (!dict || !settled.has(inst.b))
      return false;
    snapshot.word(dict, owner);
    typeIs();
    return true;
  }
  }
  return false;
}

void Guards::takeSnapshot(Frame &frame) {
  snapshot.clear(frame.dropped);
  rest.clear();
  restTensors.clear();
  changing.resize(always.size() + tensors.size() + instances.size());
  const std::vector<PyObject *> &registers = frame.registers;
  Settled settled{isWatched, {}};
  for (uint32_t reg = 0; reg < isWatched.size(); ++reg)
    if (isWatched[reg])
      settled.alive.insert(registers[reg]);
  constants.eachObject([&](PyObject *object) { settled.alive.insert(object); });

  uint32_t owner = 0;
  for (const PyjitInst &inst : always) {
    if (changing[owner] ||
        !snapshotInstruction(inst, owner, registers, settled))
      rest.push_back(inst);
    ++owner;
  }
  std::vector<bool> sameTensor(registers.size());
  for (uint32_t i = 0; i < tensors.size(); ++i, ++owner) {
    if (!changing[owner] && snapshot.tensor(tensors[i].object, owner))
      sameTensor[tensors[i].reg] = true;
    else
      restTensors.push_back(i);
  }
  for (const InstanceCheck &check : instances) {
    // Nothing else would look at it.
    snapshot.word(&check.object->ob_type, owner);
    snapshot.word(check.place, owner++);
  }
  snapshot.seal();

  for (uint32_t reg = 0; reg < watchedRegisters.size(); ++reg)
    if (settled.has(reg))
      watchedRegisters[reg] = registers[reg];
  unbound.clear();
  for (uint32_t i = 0; i < program->numInputs; ++i)
    if (!isObjectInput(i) || !sameTensor[program->inputs[i]])
      unbound.push_back(i);
  frame.epoch = ++epoch;
}

} // namespace pyjit::python
