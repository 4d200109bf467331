//===- SizeOps.cpp - Operations on sizes and ints -------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "numbers/SizeOps.h"

#include "Recording.h"
#include "tensors/TensorImpl.h"

#include <torch/csrc/autograd/python_variable.h>

using namespace pyjit::capture;

int SizeOps::valueOf(PyObject *tensor, int64_t dim) {
  int of = s.objects.isTensor(tensor) ? s.tensors->valueOf(tensor) : -1;
  if (of < 0)
    return -1;
  // Which of the plain tensor's sizes it is, the transform knows.
  if (isTransformed(tensor)) {
    layout(tensor, "all");
    return -1;
  }
  return s.add(PyjitSizeOp{.tensor = of,
                           .dim = dim,
                           .value = THPVariable_Unpack(tensor).size(dim),
                           .resultType = s.writer.object("int")});
}

void SizeOps::layout(PyObject *tensor, const char *question) {
  int of =
      followed && s.objects.isTensor(tensor) ? s.tensors->valueOf(tensor) : -1;
  if (of >= 0)
    s.add(PyjitLayoutOp{.tensor = of, .question = view(question)});
}

void SizeOps::layoutDeep(PyObject *object) {
  if (!followed)
    return;
  if (s.objects.isTensor(object))
    return layout(object, "all");
  if (PyTuple_Check(object) || PyList_Check(object)) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(object); ++i)
      layoutDeep(PySequence_Fast_GET_ITEM(object, i));
  } else if (PyDict_Check(object)) {
    PyObject *key, *value;
    Py_ssize_t position = 0;
    while (PyDict_Next(object, &position, &key, &value))
      layoutDeep(value);
  }
}

PyjitValue SizeOps::writeInt(int64_t value) {
  return s.add(PyjitConstantOp{.value = s.writer.integer(value),
                               .resultType = s.writer.object("int")});
}

PyjitValue SizeOps::writeInts(const char *function, PyjitValue a, PyjitValue b,
                              int64_t value) {
  std::vector<PyjitValue> operands{a, b};
  return s.add(PyjitArithOp{.function = view(function),
                            .operands = view(operands),
                            .value = s.writer.integer(value),
                            .resultType = s.writer.object("int")});
}

void SizeOps::relate(const char *function, int value, int64_t constant) {
  PyjitValue other = writeInt(constant);
  s.add(PyjitCompareOp{
      .function = view(function), .lhs = value, .rhs = other, .outcome = true});
}
