//===- Sizes.cpp - Sizes that may differ between calls --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Once a size of some tensor is lifted, every size that Python asks for, of any
// tensor, is a number as those in Scalars.cpp: refgraph.size. Which of them
// differ between calls is found out by refgraph-lift-sizes; the others become
// constants again. What Python learns of a layout without asking for a size
// (whether it is contiguous, a slice that shows all of a dimension) is written
// down too. What operators do with such numbers is in SizeUses.cpp.
//
//===----------------------------------------------------------------------===//

#include "Recording.h"
#include "numbers/Scalars.h"
#include "tensors/TensorImpl.h"

#include <torch/csrc/autograd/python_variable.h>

#include <cstring>

using namespace pyjit;
using namespace pyjit::capture;

static const at::Tensor &unpack(PyObject *tensor) {
  return THPVariable_Unpack(tensor);
}

Scalars::LiftedDims Scalars::liftedDims(const AccessPath &path,
                                        PyObject *tensor) {
  LiftedDims lifted;
  if (!s.sizes.followed || !path)
    return lifted;
  const at::Tensor &t = unpack(tensor);
  for (int64_t d = 0; d < t.dim(); ++d) {
    if (t.size(d) < 2)
      continue;
    if (isLifted(path.size(d))) {
      lifted.sizes.push_back(d);
      s.sizes.lifted.insert(t.size(d));
    }
    if (t.stride(d) > 1 && isLifted(path.stride(d)))
      lifted.strides.push_back(d);
  }
  return lifted;
}

//===----------------------------------------------------------------------===//
// Questions
//===----------------------------------------------------------------------===//

/// `x.shape`, `x.size()`: the next object on the stack is a torch.Size.
void Scalars::askShape(PyObject *tensor) {
  if (s.tensors->valueOf(tensor) < 0)
    return;
  Pending entry{frame, op, nullptr, nullptr, -1, {}, {}};
  const at::Tensor &t = unpack(tensor);
  if (t.dim() == 0)
    return; // the empty torch.Size says nothing that could differ
  for (int64_t d = 0; d < t.dim(); ++d) {
    // One and zero decide about layouts: they stay what they are.
    entry.dims.push_back(t.size(d) > 1 ? s.sizes.valueOf(tensor, d) : -1);
    entry.shape.push_back(t.size(d));
  }
  pending.push_back(std::move(entry));
}

void Scalars::askNumber(int value, int64_t number) {
  pending.push_back(
      {frame, op, nullptr, nullptr, value, rt::Number::of(number), {}});
  pending.back().ofSize = true;
}

void Scalars::askSize(PyObject *tensor, int64_t dim) {
  int64_t rank = unpack(tensor).dim();
  dim = dim < 0 ? dim + rank : dim;
  if (dim < 0 || dim >= rank || unpack(tensor).size(dim) < 2)
    return;
  if (int value = s.sizes.valueOf(tensor, dim); value >= 0)
    askNumber(value, unpack(tensor).size(dim));
}

/// A product of numbers, written as Python's.
void Scalars::askProduct(const std::vector<std::pair<int, int64_t>> &factors) {
  int product = -1;
  int64_t number = 1;
  for (auto [value, factor] : factors) {
    if (value < 0)
      value = s.sizes.writeInt(factor);
    if (product < 0) {
      product = value;
      number = factor;
      continue;
    }
    if (__builtin_mul_overflow(number, factor, &number))
      return;
    product = s.sizes.writeInts("mul", product, value, number);
  }
  if (product >= 0)
    askNumber(product, number);
}

void Scalars::attribute(PyObject *tensor, const char *name) {
  if (!s.sizes.followed)
    return;
  if (!std::strcmp(name, "shape"))
    askShape(tensor);
  else if (!std::strcmp(name, "nbytes"))
    s.sizes.layout(tensor, "all");
}

/// A native function of Torch that is about to answer about a tensor.
bool Scalars::question(const Call &call, const char *name) {
  if (!s.sizes.followed || call.args.empty())
    return false;
  PyObject *first = call.args[0];
  auto is = [&](const char *text) { return !std::strcmp(name, text); };
  if (is("prod") || is("numel")) {
    std::vector<std::pair<int, int64_t>> factors;
    if (call.args.size() == 1 && PyTuple_Check(first)) {
      for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(first); ++i) {
        PyObject *item = PyTuple_GET_ITEM(first, i);
        rt::Number number;
        if (!asNumber(item, number) || number.isFloat || proxyOf(item) >= 0)
          return false;
        factors.emplace_back(valueOf(item), number.integer);
      }
      askProduct(factors);
      return !factors.empty();
    }
  }
  if (!s.objects.isTensor(first))
    return false;
  const at::Tensor &t = unpack(first);
  if (is("size")) {
    PyObject *dim = call.args.size() > 1 ? call.args[1] : nullptr;
    if (!dim || dim == Py_None)
      askShape(first);
    else if (PyLong_CheckExact(dim))
      askSize(first, PyLong_AsLong(dim));
    return false;
  }
  if (is("numel") || is("nelement")) {
    std::vector<std::pair<int, int64_t>> factors;
    for (int64_t d = 0; d < t.dim(); ++d)
      factors.emplace_back(t.size(d) > 1 ? s.sizes.valueOf(first, d) : -1,
                           t.size(d));
    askProduct(factors);
    return false;
  }
  if (is("len")) {
    if (t.dim() > 0) {
      lengthFrame = frame;
      askSize(first, 0);
    }
    return true;
  }
  if (is("is_contiguous")) {
    s.sizes.layout(first, call.args.size() == 1 ? "contiguous" : "all");
    return false;
  }
  if (is("stride") || is("sym_size") || is("sym_stride") || is("sym_numel") ||
      is("is_same_size") || is("is_set_to"))
    for (PyObject *argument : call.args)
      s.sizes.layout(argument, "all");
  return false;
}

/// Two tuples, or two lists, are equal if their elements are, one after the
/// other. (Of floats, a nan equals itself there and nothing else.)
bool Scalars::compareSequences(rt::Compare function, PyObject *a, PyObject *b) {
  bool tuples = PyTuple_Check(a) && PyTuple_Check(b);
  bool lists = PyList_CheckExact(a) && PyList_CheckExact(b);
  if ((function != rt::Compare::Eq && function != rt::Compare::Ne) ||
      (!tuples && !lists))
    return false;
  bool any = false;
  for (PyObject *sequence : {a, b})
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(sequence); ++i) {
      rt::Number number;
      if (!asNumber(PySequence_Fast_GET_ITEM(sequence, i), number) ||
          number.isFloat)
        return false;
      any |= isTracked(PySequence_Fast_GET_ITEM(sequence, i));
    }
  if (!any)
    return false;
  Py_ssize_t size = PySequence_Fast_GET_SIZE(a);
  if (size != PySequence_Fast_GET_SIZE(b))
    return true; // lengths are no sizes
  for (Py_ssize_t i = 0; i < size; ++i) {
    PyObject *x = PySequence_Fast_GET_ITEM(a, i);
    PyObject *y = PySequence_Fast_GET_ITEM(b, i);
    rt::Number m, n;
    bool equal = false;
    asNumber(x, m);
    asNumber(y, n);
    if (isTracked(x) || isTracked(y))
      compare(rt::Compare::Eq, x, y);
    if (!rt::compare(rt::Compare::Eq, m, n, equal) || !equal)
      break;
  }
  return true;
}

//===----------------------------------------------------------------------===//
// What an instruction's result was
//===----------------------------------------------------------------------===//

/// The torch.Size on the stack, made of numbers that are told by identity.
PyObject *Scalars::makeSize(const Pending &entry, PyObject *found) {
  if (!isTorchSize(found) ||
      PyTuple_GET_SIZE(found) != Py_ssize_t(entry.dims.size()))
    return nullptr;
  for (size_t d = 0; d < entry.dims.size(); ++d)
    if (PyLong_AsLongLong(PyTuple_GET_ITEM(found, d)) != entry.shape[d])
      return nullptr;
  PyTypeObject *type = Py_TYPE(found);
  PyObject *size = type->tp_alloc(type, Py_ssize_t(entry.dims.size()));
  if (!size) {
    PyErr_Clear();
    return nullptr;
  }
  for (size_t d = 0; d < entry.dims.size(); ++d) {
    PyObject *item = PyTuple_GET_ITEM(found, d), *unique = nullptr;
    if (entry.dims[d] >= 0)
      unique = track(item, rt::Number::of(entry.shape[d]), entry.dims[d],
                     /*ofSize=*/true);
    PyTuple_SET_ITEM(size, d, Py_NewRef(unique ? unique : item));
  }
  if (!s.objects.known(size))
    s.objects.allocated(size);
  return size;
}

void Scalars::specializeShape(const Pending &entry) {
  for (size_t d = 0; d < entry.dims.size(); ++d)
    if (entry.dims[d] >= 0)
      s.sizes.relate("is", entry.dims[d], entry.shape[d]);
}
