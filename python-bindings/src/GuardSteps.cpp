//===- GuardSteps.cpp - A guard program for readers -----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The instructions of a guard program as tuples, and which of them fails for a
// call that no specialization answered. The package makes expressions of the
// user's program of them (pyjit/_guards.py).
//
//===----------------------------------------------------------------------===//

#include "Guards.h"

#include "ObjectReads.h"
#include "capture/interpreter/DefaultDevice.h"

#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/tensor_dtypes.h>

#include <cstring>

namespace pyjit::python {

static const char *nameOf(uint16_t op) {
  switch (op) {
#define PYJIT_NAME(NAME)                                                       \
  case PYJIT_GUARD_##NAME:                                                     \
    return #NAME;
    PYJIT_NAME(OBJECT)
    PYJIT_NAME(ARG)
    PYJIT_NAME(ATTR)
    PYJIT_NAME(DICT)
    PYJIT_NAME(ITEM)
    PYJIT_NAME(KEY)
    PYJIT_NAME(TYPE)
    PYJIT_NAME(TYPEATTR)
    PYJIT_NAME(CODE)
    PYJIT_NAME(DEFAULTS)
    PYJIT_NAME(KWDEFAULTS)
    PYJIT_NAME(GLOBALS)
    PYJIT_NAME(CELL)
    PYJIT_NAME(SLOT)
    PYJIT_NAME(FIELD)
    PYJIT_NAME(GRAD)
    PYJIT_NAME(DATA)
    PYJIT_NAME(NO_ATTR)
    PYJIT_NAME(NO_KEY)
    PYJIT_NAME(NO_TYPEATTR)
    PYJIT_NAME(NO_CELL)
    PYJIT_NAME(NO_SLOT)
    PYJIT_NAME(TYPE_IS)
    PYJIT_NAME(IS)
    PYJIT_NAME(IS_CONST)
    PYJIT_NAME(EQ_INT)
    PYJIT_NAME(EQ_FLOAT)
    PYJIT_NAME(EQ_STR)
    PYJIT_NAME(EQ)
    PYJIT_NAME(LENGTH)
    PYJIT_NAME(KEYS)
    PYJIT_NAME(SAME)
    PYJIT_NAME(DISTINCT)
    PYJIT_NAME(TENSOR)
    PYJIT_NAME(DISJOINT)
    PYJIT_NAME(UNALIASED)
    PYJIT_NAME(STATE)
    PYJIT_NAME(INSTANCE)
    PYJIT_NAME(HOLDS)
    PYJIT_NAME(UNHOOKED)
    PYJIT_NAME(NUMBER)
    PYJIT_NAME(NUMBER_CONST)
    PYJIT_NAME(ARITH)
    PYJIT_NAME(COMPARE)
    PYJIT_NAME(SIZE)
    PYJIT_NAME(STRIDE)
    PYJIT_NAME(KEPT_CAST)
#undef PYJIT_NAME
  }
  return "UNKNOWN";
}

static PyObject *dimsTuple(const int64_t *dims, uint32_t count) {
  PyObject *tuple = PyTuple_New(count);
  for (uint32_t i = 0; tuple && i < count; ++i)
    PyTuple_SET_ITEM(tuple, i,
                     dims[i] == PYJIT_ANY_DIM ? Py_NewRef(Py_None)
                                              : PyLong_FromLongLong(dims[i]));
  return tuple;
}

/// Sizes and strides (None: any), dtype, device, requires_grad (None: any).
static PyObject *tensorTuple(const PyjitTensorMeta &meta,
                             const PyjitPools &pools) {
  const int64_t *dims = pools.ints + meta.dims;
  auto *dtype = reinterpret_cast<PyObject *>(
      torch::getTHPDtype(c10::ScalarType(meta.dtype)));
  c10::Device device(c10::DeviceType(meta.deviceType), meta.deviceIndex);
  PyObject *grad = !(meta.flags & PYJIT_TENSOR_HAS_REQUIRES_GRAD) ? Py_None
                   : meta.requiresGrad                            ? Py_True
                                                                  : Py_False;
  return Py_BuildValue("(NNOsO)", dimsTuple(dims, meta.rank),
                       dimsTuple(dims + meta.rank, meta.rank), dtype,
                       device.str().c_str(), grad);
}

/// What an instruction names besides registers: a constant, an object, or the
/// looks of a tensor.
PyObject *Guards::operandOf(const PyjitInst &inst) const {
  switch (inst.op) {
  case PYJIT_GUARD_OBJECT:
  case PYJIT_GUARD_TYPE_IS:
  case PYJIT_GUARD_IS:
    return Py_NewRef(constants.object(inst.imm));
  case PYJIT_GUARD_ITEM:
    return Py_NewRef(constants.constant(inst.b));
  case PYJIT_GUARD_ATTR:
  case PYJIT_GUARD_KEY:
  case PYJIT_GUARD_TYPEATTR:
  case PYJIT_GUARD_SLOT:
  case PYJIT_GUARD_FIELD:
  case PYJIT_GUARD_NO_ATTR:
  case PYJIT_GUARD_NO_KEY:
  case PYJIT_GUARD_NO_TYPEATTR:
  case PYJIT_GUARD_NO_SLOT:
  case PYJIT_GUARD_IS_CONST:
  case PYJIT_GUARD_EQ_FLOAT:
  case PYJIT_GUARD_EQ_STR:
  case PYJIT_GUARD_EQ:
  case PYJIT_GUARD_KEYS:
  case PYJIT_GUARD_TABLE:
  case PYJIT_GUARD_HOLDS:
    return Py_NewRef(constants.constant(inst.b));
  case PYJIT_GUARD_TENSOR:
    return tensorTuple(program->pools.tensors[inst.imm], program->pools);
  case PYJIT_GUARD_STATE: {
    const PyjitState &state = program->pools.states[inst.imm];
    capture::FunctionModes modes;
    modes.device = state.defaultDevice;
    modes.index = state.defaultDeviceIndex;
    return state.defaultDevice < 0
               ? Py_BuildValue("(IIO)", state.known, state.value, Py_None)
               : Py_BuildValue("(IIs)", state.known, state.value,
                               modes.text().c_str());
  }
  default:
    return Py_NewRef(Py_None);
  }
}

PyObject *Guards::steps() const {
  PyObject *list = PyList_New(0);
  for (auto [insts, count] : {std::pair(program->watched, program->numWatched),
                              std::pair(program->always, program->numAlways)})
    for (uint32_t i = 0; list && i < count; ++i) {
      const PyjitInst &inst = insts[i];
      Reference step = Reference::steal(Py_BuildValue(
          "(sIIIILN)", nameOf(inst.op), unsigned(inst.flags), inst.dst, inst.a,
          inst.b, static_cast<long long>(inst.imm), operandOf(inst)));
      if (!step || PyList_Append(list, step.get()) < 0)
        Py_CLEAR(list);
    }
  return list;
}

PyObject *Guards::firstFailure(Frame &frame, PyObject *const *args,
                               Py_ssize_t nargs) {
  std::vector<PyObject *> &registers = frame.registers;
  std::fill(registers.begin(), registers.end(), nullptr);
  frame.epoch = 0; // what is read here vouches for nothing
  Py_ssize_t index = 0;
  for (auto [insts, count] : {std::pair(program->watched, program->numWatched),
                              std::pair(program->always, program->numAlways)})
    for (uint32_t i = 0; i < count; ++i, ++index) {
      const PyjitInst &inst = insts[i];
      if (inst.op == PYJIT_GUARD_KEPT_CAST || step(inst, frame, args, nargs))
        continue;
      bool holdsObject =
          inst.op != PYJIT_GUARD_OBJECT && inst.op != PYJIT_GUARD_ARG &&
          inst.op != PYJIT_GUARD_STATE && inst.op != PYJIT_GUARD_DISJOINT &&
          inst.op != PYJIT_GUARD_UNALIASED && inst.op != PYJIT_GUARD_ARITH &&
          inst.op != PYJIT_GUARD_COMPARE;
      PyObject *found = holdsObject ? registers[inst.a] : nullptr;
      return Py_BuildValue("(nO)", index, found ? found : Py_None);
    }
  return Py_NewRef(Py_None);
}

} // namespace pyjit::python
