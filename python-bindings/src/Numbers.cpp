//===- Numbers.cpp - Lifted numbers in guard programs ---------------------===//

#include "Guards.h"

#include <ATen/EmptyTensor.h>
#include <torch/csrc/autograd/python_variable.h>

#include <cstdio>
#include <cstring>

namespace pyjit::python {

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
    if (!THPVariable_Check(object))
      return false;
    const c10::TensorImpl *impl =
        THPVariable_Unpack(object).unsafeGetTensorImpl();
    // A tensor that the watched segment found is checked after this.
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

/// Sizes that keep a tensor from being what was recorded, if nothing but sizes
/// (and strides) does.
void Guards::collectChangedSizes(PyObject *object, const PyjitTensorMeta &meta,
                                 const std::string &place,
                                 std::vector<std::string> &places) const {
  if (place.empty() || !THPVariable_Check(object))
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
      places.push_back(place + "$" + std::to_string(d));
}

/// How the recorder names a place (capture/Scalars.cpp), or nothing.
std::string Guards::placeOf(uint32_t reg) const {
  for (auto [insts, count] : {std::pair(program->watched, program->numWatched),
                              std::pair(program->always, program->numAlways)}) {
    for (uint32_t i = 0; i < count; ++i) {
      const PyjitInst &inst = insts[i];
      if (inst.op >= PYJIT_GUARD_NO_ATTR || inst.dst != reg)
        continue;
      auto named = [&](const char *separator) {
        std::string holder = placeOf(inst.a);
        PyObject *key = constants.constant(inst.b);
        const char *text =
            PyUnicode_CheckExact(key) ? PyUnicode_AsUTF8(key) : nullptr;
        if (!text)
          PyErr_Clear();
        return holder.empty() || !text ? "" : holder + separator + text;
      };
      auto indexed = [&](const char *separator) {
        std::string holder = placeOf(inst.a);
        return holder.empty() ? ""
                              : holder + separator + std::to_string(inst.imm);
      };
      switch (inst.op) {
      case PYJIT_GUARD_OBJECT: {
        char text[32];
        std::snprintf(text, sizeof text, "@%p",
                      static_cast<void *>(constants.object(inst.imm)));
        return text;
      }
      case PYJIT_GUARD_ARG:
        return "#" + std::to_string(inst.imm);
      case PYJIT_GUARD_ATTR:
        return named(".");
      case PYJIT_GUARD_SLOT:
        return named("~");
      case PYJIT_GUARD_DICT: // the instance itself: see KEY
        return placeOf(inst.a) + "|";
      case PYJIT_GUARD_KEY: {
        std::string place = named(":");
        size_t dict = place.find("|:");
        return dict == std::string::npos ? place : place.replace(dict, 2, ".");
      }
      case PYJIT_GUARD_ITEM:
        return indexed("[");
      case PYJIT_GUARD_CELL:
        return indexed("^");
      case PYJIT_GUARD_FIELD: { // of a bound method, of a range's iterator
        std::string place = named(">");
        size_t field = place.rfind('>') + 1;
        auto is = [&](const char *name) {
          return place.compare(field, std::string::npos, name) == 0;
        };
        if (is("__self__"))
          return named(".");
        return is("next") || is("left") ? place : "";
      }
      default:
        return "";
      }
    }
  }
  return "";
}

void Guards::collectChangedNumbers(Frame &frame, PyObject *const *args,
                                   Py_ssize_t nargs,
                                   std::vector<std::string> &places) {
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
                            placeOf(inst.a), places);
        continue;
      }
      if (inst.op == PYJIT_GUARD_EQ_INT ? !PyLong_CheckExact(number)
                                        : !PyFloat_CheckExact(number))
        continue; // another type: another record
      std::string place = placeOf(inst.a);
      if (!place.empty())
        places.push_back(std::move(place));
    }
  }
}

void Guards::makeNumbers(Frame &frame) const {
  frame.numbers.resize(program->numNumbers);
  frame.numberInputs.resize(program->numInputs);
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
