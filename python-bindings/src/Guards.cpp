//===- Guards.cpp - Carries out guard programs ----------------------------===//

#include "Guards.h"

#include "Reads.h"
#include "TorchState.h"

#include <torch/csrc/autograd/python_variable.h>

#include <cstring>

namespace pyjit::python {

bool Guards::load(const PyjitGuardProgram &guards, uint32_t numRegisters,
                  PyObject *objects, std::string &error) {
  if (guards.version != PYJIT_PROGRAMS_VERSION) {
    error = "guard program version " + std::to_string(guards.version) +
            ", this extension reads " + std::to_string(PYJIT_PROGRAMS_VERSION);
    return false;
  }
  program = &guards;
  registers.assign(std::max(numRegisters, guards.numRegisters), nullptr);
  if (!constants.load(guards.pools, objects, error))
    return false;
  splitTensors();
  watchKeys.resize(guards.numWatches);
  for (uint32_t i = 0; i < guards.numWatches; ++i) {
    const PyjitWatch &entry = guards.watches[i];
    if (entry.numKeys == PYJIT_WATCH_ALL_KEYS)
      continue;
    for (uint32_t k = 0; k < entry.numKeys; ++k)
      watchKeys[i].push_back(
          constants.constant(guards.pools.lists[entry.firstKey + k]));
  }
  // An instance of a heap type may change its class without any event, so its
  // type check has to be repeated.
  for (uint32_t i = 0; i < guards.numWatched; ++i) {
    const PyjitInst &inst = guards.watched[i];
    if (inst.op != PYJIT_GUARD_TYPE_IS ||
        !(inst.flags & PYJIT_GUARD_FLAG_STATIC_TYPE))
      continue;
    auto *type = reinterpret_cast<PyTypeObject *>(constants.object(inst.imm));
    if (PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE))
      watchable = false;
  }
  return true;
}

bool Guards::check(PyObject *const *args, Py_ssize_t nargs) {
  if (!watch.clean()) {
    if (!run(program->watched, program->numWatched, args, nargs))
      return false;
    if (watchable)
      armWatch();
  }
  return run(always.data(), always.size(), args, nargs) && checkTensors();
}

void Guards::splitTensors() {
  std::vector<bool> watched(registers.size());
  for (uint32_t i = 0; i < program->numWatched; ++i)
    if (program->watched[i].op < PYJIT_GUARD_NO_ATTR) // a read
      watched[program->watched[i].dst] = true;
  for (uint32_t i = 0; i < program->numAlways; ++i) {
    const PyjitInst &inst = program->always[i];
    if (inst.op == PYJIT_GUARD_TYPE_IS && i + 1 < program->numAlways &&
        watched[inst.a]) {
      const PyjitInst &next = program->always[i + 1];
      if (next.op == PYJIT_GUARD_TENSOR && next.a == inst.a) {
        tensors.push_back(
            {inst.a,
             reinterpret_cast<PyTypeObject *>(constants.object(inst.imm)),
             &program->pools.tensors[next.imm]});
        ++i;
        continue;
      }
    }
    always.push_back(inst);
  }
}

bool Guards::checkTensors() const {
  // The object names the implementation, which is a few cache lines long.
  constexpr size_t objectAhead = 12, implAhead = 6;
  size_t count = tensors.size();
  for (size_t i = 0; i < count; ++i) {
    if (i + objectAhead < count)
      __builtin_prefetch(registers[tensors[i + objectAhead].reg]);
    if (i + implAhead < count) {
      const TensorCheck &next = tensors[i + implAhead];
      PyObject *object = registers[next.reg];
      if (Py_TYPE(object) == next.type && THPVariable_Check(object)) {
        const char *impl = reinterpret_cast<const char *>(
            THPVariable_Unpack(object).unsafeGetTensorImpl());
        for (size_t offset = 0; offset < sizeof(c10::TensorImpl); offset += 64)
          __builtin_prefetch(impl + offset);
      }
    }
    const TensorCheck &check = tensors[i];
    PyObject *object = registers[check.reg];
    if (Py_TYPE(object) != check.type || !tensorMatches(object, *check.meta))
      return false;
  }
  return true;
}

void Guards::armWatch() {
  std::vector<Watch::Dict> dicts;
  std::vector<PyObject *> functions;
  std::vector<PyTypeObject *> types;
  for (uint32_t i = 0; i < program->numWatches; ++i) {
    PyObject *holder = registers[program->watches[i].reg];
    switch (program->watches[i].kind) {
    case PYJIT_WATCH_DICT:
      dicts.push_back(
          {holder, program->watches[i].numKeys == PYJIT_WATCH_ALL_KEYS
                       ? nullptr
                       : &watchKeys[i]});
      break;
    case PYJIT_WATCH_FUNCTION:
      functions.push_back(holder);
      break;
    case PYJIT_WATCH_TYPE:
      types.push_back(reinterpret_cast<PyTypeObject *>(holder));
      break;
    }
  }
  watchable = watch.arm(dicts, functions, types);
}

void Guards::collectInputs(std::vector<at::Tensor> &inputs) const {
  for (uint32_t i = 0; i < program->numInputs; ++i)
    inputs[i] = THPVariable_Unpack(registers[program->inputs[i]]);
}

bool Guards::run(const PyjitInst *insts, uint32_t count, PyObject *const *args,
                 Py_ssize_t nargs) {
  for (uint32_t i = 0; i < count; ++i)
    if (!step(insts[i], args, nargs))
      return false;
  return true;
}

bool Guards::tensorMatches(PyObject *object,
                           const PyjitTensorMeta &meta) const {
  if (!THPVariable_Check(object))
    return false;
  const c10::TensorImpl *impl =
      THPVariable_Unpack(object).unsafeGetTensorImpl();
  if (meta.flags & PYJIT_TENSOR_HAS_KEYSET &&
      impl->key_set().raw_repr() != meta.keyset)
    return false;
  // The keys imply the layout.
  if (impl->dim() != int64_t(meta.rank) ||
      c10::typeMetaToScalarType(impl->dtype()) != c10::ScalarType(meta.dtype) ||
      (!(meta.flags & PYJIT_TENSOR_HAS_KEYSET) &&
       impl->layout() != c10::kStrided))
    return false;
  c10::Device device = impl->device();
  if (device.type() != c10::DeviceType(meta.deviceType) ||
      (meta.deviceIndex >= 0 && device.index() != meta.deviceIndex))
    return false;
  const int64_t *dims = program->pools.ints + meta.dims;
  const int64_t *sizes = impl->sizes().data(),
                *strides = impl->strides().data();
  for (uint32_t d = 0; d < meta.rank; ++d)
    if (sizes[d] != dims[d] || strides[d] != dims[meta.rank + d])
      return false;
  if (meta.flags & PYJIT_TENSOR_HAS_REQUIRES_GRAD &&
      impl->requires_grad() != bool(meta.requiresGrad))
    return false;
  return !(meta.flags & PYJIT_TENSOR_HAS_OFFSET) ||
         impl->storage_offset() == meta.offset;
}

bool Guards::step(const PyjitInst &inst, PyObject *const *args,
                  Py_ssize_t nargs) {
  PyObject *a = inst.op == PYJIT_GUARD_OBJECT || inst.op == PYJIT_GUARD_ARG ||
                        inst.op == PYJIT_GUARD_STATE
                    ? nullptr
                    : registers[inst.a];
  auto put = [&](PyObject *value) {
    registers[inst.dst] = value;
    return value != nullptr;
  };
  auto constant = [&] { return constants.constant(inst.b); };
  switch (inst.op) {
  case PYJIT_GUARD_OBJECT:
    return put(constants.object(inst.imm));
  case PYJIT_GUARD_ARG:
    return inst.imm < nargs && put(args[inst.imm]);
  case PYJIT_GUARD_ATTR:
    return put(readAttribute(a, constant(), constants.hash(inst.b)));
  case PYJIT_GUARD_DICT:
    return put(instanceDict(a));
  case PYJIT_GUARD_ITEM:
    return put(PyDict_Check(a) ? readKey(a, constant(), constants.hash(inst.b))
                               : readIndex(a, inst.imm));
  case PYJIT_GUARD_KEY:
    return put(readKey(a, constant(), constants.hash(inst.b)));
  case PYJIT_GUARD_TYPE:
    return put(reinterpret_cast<PyObject *>(Py_TYPE(a)));
  case PYJIT_GUARD_TYPEATTR:
    return PyType_Check(a) &&
           put(_PyType_Lookup(reinterpret_cast<PyTypeObject *>(a), constant()));
  case PYJIT_GUARD_CODE:
    return PyFunction_Check(a) && put(PyFunction_GET_CODE(a));
  case PYJIT_GUARD_DEFAULTS:
    return PyFunction_Check(a) &&
           put(PyFunction_GET_DEFAULTS(a) ? PyFunction_GET_DEFAULTS(a)
                                          : Py_None);
  case PYJIT_GUARD_KWDEFAULTS:
    return PyFunction_Check(a) &&
           put(PyFunction_GET_KW_DEFAULTS(a) ? PyFunction_GET_KW_DEFAULTS(a)
                                             : Py_None);
  case PYJIT_GUARD_GLOBALS:
    return PyFunction_Check(a) && put(PyFunction_GET_GLOBALS(a));
  case PYJIT_GUARD_CELL: {
    PyObject *cell = closureCell(a, inst.imm);
    return cell && put(PyCell_GET(cell));
  }
  case PYJIT_GUARD_SLOT:
    return put(readSlot(a, constant()));
  case PYJIT_GUARD_FIELD:
    return put(readField(a, constant()));

  case PYJIT_GUARD_NO_ATTR:
    return !readAttribute(a, constant(), constants.hash(inst.b));
  case PYJIT_GUARD_NO_KEY:
    return PyDict_Check(a)     ? !readKey(a, constant(), constants.hash(inst.b))
           : PyAnySet_Check(a) ? PySet_Contains(a, constant()) == 0
                               : false;
  case PYJIT_GUARD_NO_TYPEATTR:
    return PyType_Check(a) &&
           !_PyType_Lookup(reinterpret_cast<PyTypeObject *>(a), constant());
  case PYJIT_GUARD_NO_CELL: {
    PyObject *cell = closureCell(a, inst.imm);
    return cell && !PyCell_GET(cell);
  }
  case PYJIT_GUARD_NO_SLOT:
    return !readSlot(a, constant());

  case PYJIT_GUARD_TYPE_IS:
    return reinterpret_cast<PyObject *>(Py_TYPE(a)) ==
           constants.object(inst.imm);
  case PYJIT_GUARD_IS:
    return a == constants.object(inst.imm);
  case PYJIT_GUARD_IS_CONST:
    return a == constant();
  case PYJIT_GUARD_EQ_INT: {
    if (!PyLong_CheckExact(a))
      return false;
    int overflow;
    long long value = PyLong_AsLongLongAndOverflow(a, &overflow);
    return !overflow && value == inst.imm;
  }
  case PYJIT_GUARD_EQ_FLOAT: {
    if (!PyFloat_CheckExact(a))
      return false;
    double value = PyFloat_AS_DOUBLE(a);
    return std::memcmp(&value, &inst.imm, sizeof value) == 0;
  }
  case PYJIT_GUARD_EQ_STR:
    return a == constant() ||
           (PyUnicode_CheckExact(a) && PyUnicode_Compare(a, constant()) == 0);
  case PYJIT_GUARD_EQ:
    return sameConstant(a, constant());
  case PYJIT_GUARD_LENGTH:
    return lengthOf(a) == inst.imm;
  case PYJIT_GUARD_KEYS:
    return keysAre(a, constant());
  case PYJIT_GUARD_SAME:
    return a == registers[inst.b];
  case PYJIT_GUARD_DISTINCT:
    return a != registers[inst.b];
  case PYJIT_GUARD_TENSOR:
    return tensorMatches(a, program->pools.tensors[inst.imm]);
  case PYJIT_GUARD_DISJOINT:
    return disjointMemory(a, registers[inst.b]);
  case PYJIT_GUARD_STATE:
    return stateMatches(program->pools.states[inst.imm]);
  case PYJIT_GUARD_INSTANCE:
    return instanceDict(a) == registers[inst.b] &&
           (inst.imm < 0 || reinterpret_cast<PyObject *>(Py_TYPE(a)) ==
                                constants.object(inst.imm));
  case PYJIT_GUARD_HOLDS:
    return PyDict_Check(a)
               ? readKey(a, constant(), constants.hash(inst.b)) != nullptr
               : PyAnySet_Check(a) && PySet_Contains(a, constant()) == 1;
  }
  return false; // an opcode of a newer compiler: refuse
}

} // namespace pyjit::python
