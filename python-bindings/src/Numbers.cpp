//===- Numbers.cpp - Lifted numbers in guard programs ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Guards.h"

#include "capture/objects/ObjectKinds.h"
#include "capture/tensors/TensorObject.h"

#include <ATen/EmptyTensor.h>
#include <torch/csrc/autograd/python_variable.h>

#include <cstring>

namespace pyjit::python {

using capture::AccessPath;

bool Guards::stepNumber(const PyjitInst &inst, Frame &frame) {
  std::vector<rt::Number> &numbers = frame.numbers;
  switch (inst.op) {
  case PYJIT_GUARD_NUMBER: {
    PyObject *object = frame.registers[inst.a];
    if (inst.flags & PYJIT_GUARD_FLAG_FLOAT) {
      if (!PyFloat_CheckExact(object))
        return false;
      numbers[inst.dst] = rt::Number::of(PyFloat_AS_DOUBLE(object));
      return true;
    }
    if (!PyLong_CheckExact(object))
      return false;
    int overflow;
    long long value = PyLong_AsLongLongAndOverflow(object, &overflow);
    numbers[inst.dst] = rt::Number::of(int64_t(value));
    return !overflow;
  }
  case PYJIT_GUARD_NUMBER_CONST:
    numbers[inst.dst] =
        rt::Number::fromBits(inst.flags & PYJIT_GUARD_FLAG_FLOAT, inst.imm);
    return true;
  case PYJIT_GUARD_ARITH:
    return rt::compute(rt::Arith(inst.imm), numbers[inst.a], numbers[inst.b],
                       numbers[inst.dst]);
  case PYJIT_GUARD_COMPARE: {
    bool outcome;
    return rt::compare(rt::Compare(inst.imm), numbers[inst.a], numbers[inst.b],
                       outcome) &&
           outcome == bool(inst.flags & PYJIT_GUARD_FLAG_TRUE);
  }
  case PYJIT_GUARD_SIZE:
  case PYJIT_GUARD_STRIDE: {
    PyObject *object = frame.registers[inst.a];
    if (!capture::isTensorObject(object))
      return false;
    const c10::TensorImpl *impl =
        THPVariable_Unpack(object).unsafeGetTensorImpl();
    // A tensor that the watched part found is checked after this.
    if (inst.imm >= impl->dim() || impl->layout() != c10::kStrided)
      return false;
    numbers[inst.dst] =
        rt::Number::of(inst.op == PYJIT_GUARD_SIZE ? impl->sizes()[inst.imm]
                                                   : impl->strides()[inst.imm]);
    return true;
  }
  }
  return false; // an opcode of a newer compiler: refuse
}

/// Sizes and strides that keep a tensor from being what was recorded, if
/// nothing else does. Strides follow from sizes where elements lie densely.
void Guards::collectChangedSizes(PyObject *object, const PyjitTensorMeta &meta,
                                 const AccessPath &path,
                                 std::vector<AccessPath> &changed) const {
  if (!path || !capture::isTensorObject(object))
    return;
  const c10::TensorImpl *impl =
      THPVariable_Unpack(object).unsafeGetTensorImpl();
  if (impl->dim() != int64_t(meta.rank) ||
      !tensorMatches(object, meta, /*layout=*/false))
    return;
  const int64_t *dims = program->pools.ints + meta.dims;
  for (uint32_t d = 0; d < meta.rank; ++d)
    if (dims[d] != PYJIT_ANY_DIM && impl->sizes()[d] != dims[d] &&
        impl->sizes()[d] > 1 && dims[d] > 1)
      changed.push_back(path.size(d));
  if (impl->is_non_overlapping_and_dense())
    return;
  const int64_t *strides = dims + meta.rank;
  for (uint32_t d = 0; d < meta.rank; ++d)
    if (strides[d] != PYJIT_ANY_DIM && impl->strides()[d] != strides[d] &&
        impl->strides()[d] > 1 && strides[d] > 1)
      changed.push_back(path.stride(d));
}

/// The instruction that reads a register, or null.
const PyjitInst *Guards::readOf(uint32_t reg) const {
  for (auto [insts, count] : {std::pair(program->watched, program->numWatched),
                              std::pair(program->always, program->numAlways)})
    for (uint32_t i = 0; i < count; ++i)
      if (insts[i].op < PYJIT_GUARD_NO_ATTR && insts[i].dst == reg)
        return &insts[i];
  return nullptr;
}

/// The path by which the recorder reads what is in a register, or nothing.
AccessPath Guards::pathOf(uint32_t reg) const {
  using Step = AccessPath::Step;
  const PyjitInst *found = readOf(reg);
  if (!found)
    return {};
  const PyjitInst &inst = *found;
  auto named = [&](uint32_t holder, Step step) -> AccessPath {
    PyObject *key = constants.constant(inst.b);
    const char *text =
        PyUnicode_CheckExact(key) ? PyUnicode_AsUTF8(key) : nullptr;
    PyErr_Clear();
    return text ? pathOf(holder).then(step, text) : AccessPath();
  };
  switch (inst.op) {
  case PYJIT_GUARD_OBJECT:
    return AccessPath::object(constants.object(inst.imm));
  case PYJIT_GUARD_ARG:
    return AccessPath::argument(int(inst.imm));
  case PYJIT_GUARD_ATTR:
    return named(inst.a, Step::Attr);
  case PYJIT_GUARD_TYPEATTR:
    return named(inst.a, Step::Class);
  case PYJIT_GUARD_SLOT:
    return named(inst.a, Step::Slot);
  case PYJIT_GUARD_KEY: {
    // An entry of an instance's `__dict__` is the instance's attribute.
    const PyjitInst *dict = readOf(inst.a);
    bool isAttr = dict && dict->op == PYJIT_GUARD_DICT;
    return isAttr ? named(dict->a, Step::Attr)
                  : pathOf(inst.a).entry(constants.constant(inst.b));
  }
  case PYJIT_GUARD_ITEM:
    return pathOf(inst.a).then(Step::Item, int64_t(inst.imm));
  case PYJIT_GUARD_DEFAULTS:
    return pathOf(inst.a).then(Step::Attr, "__defaults__");
  case PYJIT_GUARD_CELL:
    return pathOf(inst.a).then(Step::Cell, int64_t(inst.imm));
  case PYJIT_GUARD_FIELD: { // of a bound method, of an iterator
    PyObject *key = constants.constant(inst.b);
    auto is = [&](const char *name) {
      return PyUnicode_Check(key) &&
             !PyUnicode_CompareWithASCIIString(key, name);
    };
    if (AccessPath::leadsOn(key))
      return named(inst.a, Step::Attr);
    const char *text = PyUnicode_AsUTF8(key);
    bool inner = text && !std::strncmp(text, "inner", 5);
    return inner || is("next") || is("left") || is("position")
               ? named(inst.a, Step::Field)
               : AccessPath();
  }
  default:
    return {};
  }
}

void Guards::collectChangedNumbers(Frame &frame, PyObject *const *args,
                                   Py_ssize_t nargs,
                                   std::vector<AccessPath> &changed) {
  std::vector<PyObject *> &registers = frame.registers;
  std::fill(registers.begin(), registers.end(), nullptr);
  frame.epoch = 0; // what is read here vouches for nothing
  for (auto [insts, count] : {std::pair(program->watched, program->numWatched),
                              std::pair(program->always, program->numAlways)}) {
    for (uint32_t i = 0; i < count; ++i) {
      const PyjitInst &inst = insts[i];
      bool isRead = inst.op < PYJIT_GUARD_NO_ATTR;
      bool isRoot = inst.op == PYJIT_GUARD_OBJECT || inst.op == PYJIT_GUARD_ARG;
      if (!isRead && inst.op != PYJIT_GUARD_EQ_INT &&
          inst.op != PYJIT_GUARD_EQ_FLOAT && inst.op != PYJIT_GUARD_TENSOR)
        continue;
      if ((!isRoot && !registers[inst.a]) || step(inst, frame, args, nargs) ||
          isRead)
        continue;
      PyObject *number = registers[inst.a];
      if (inst.op == PYJIT_GUARD_TENSOR) {
        collectChangedSizes(number, program->pools.tensors[inst.imm],
                            pathOf(inst.a), changed);
        continue;
      }
      if (inst.op == PYJIT_GUARD_EQ_INT ? !PyLong_CheckExact(number)
                                        : !PyFloat_CheckExact(number))
        continue; // another type: another specialization
      if (AccessPath path = pathOf(inst.a))
        changed.push_back(std::move(path));
    }
  }
}

void Guards::makeNumbers(Frame &frame) const {
  frame.numbers.resize(program->numNumbers);
  frame.numberInputs.resize(program->numInputs);
  frame.keptCasts.resize(program->numKeptCasts);
}

c10::TensorImpl *Guards::numberInput(Frame &frame, uint32_t i) const {
  const rt::Number &number =
      frame.numbers[program->inputs[i] & ~PYJIT_INPUT_NUMBER];
  at::Tensor &tensor = frame.numberInputs[i];
  if (!tensor.defined())
    tensor =
        at::detail::empty_cpu({}, number.isFloat ? at::kDouble : at::kLong);
  int64_t bits = number.bits();
  std::memcpy(tensor.mutable_data_ptr(), &bits, sizeof bits);
  return tensor.unsafeGetTensorImpl();
}

} // namespace pyjit::python
