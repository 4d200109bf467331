//===- SizeUses.cpp - Sizes that operators are given ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A size that Python asked for comes back as a bound of a slice, or as one of
// the ints of a list.
//
//===----------------------------------------------------------------------===//

#include "Recording.h"
#include "numbers/Scalars.h"
#include "pyjit-c/Operators.h"
#include "tensors/TensorImpl.h"

#include <torch/csrc/autograd/python_variable.h>

using namespace pyjit;
using namespace pyjit::capture;

static const at::Tensor &unpack(PyObject *tensor) {
  return THPVariable_Unpack(tensor);
}

//===----------------------------------------------------------------------===//
// Lists of ints
//===----------------------------------------------------------------------===//

void OperatorUse::collectInts(const Call &call) {
  for (size_t i = 0; i < call.args.size(); ++i) {
    PyObject *argument = call.args[i];
    if (ObjectTable::isTensor(argument))
      continue;
    std::vector<PyObject *> group;
    if (PyTuple_Check(argument) || PyList_CheckExact(argument)) {
      for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(argument); ++k)
        group.push_back(PySequence_Fast_GET_ITEM(argument, k));
    } else if (PyLong_CheckExact(argument) && i < call.positional()) {
      // x.view(a, b): one list.
      if (!lists.empty() && open) {
        lists.back().push_back(argument);
        continue;
      }
      group.push_back(argument);
      lists.push_back(group);
      open = true;
      continue;
    }
    open = false;
    lists.push_back(group);
  }
  open = false;
}

std::vector<PyObject *>
OperatorUse::findInts(const Scalars &scalars,
                      const std::vector<int64_t> &values) {
  std::vector<PyObject *> found(values.size(), nullptr);
  const std::vector<PyObject *> *match = nullptr;
  for (const auto &list : lists) {
    bool equal = list.size() == values.size();
    for (size_t i = 0; equal && i < list.size(); ++i)
      equal =
          PyLong_CheckExact(list[i]) && PyLong_AsLongLong(list[i]) == values[i];
    PyErr_Clear();
    if (!equal)
      continue;
    if (match)
      return found; // which of the two is not known
    match = &list;
  }
  if (!match)
    return found;
  for (size_t i = 0; i < values.size(); ++i)
    if (scalars.isFollowed((*match)[i])) {
      found[i] = (*match)[i];
      ++usedInts[found[i]];
    }
  return found;
}

//===----------------------------------------------------------------------===//
// Subscripts
//===----------------------------------------------------------------------===//

void Scalars::beginSlice(PyObject *tensor, PyObject *start, PyObject *stop) {
  PyObject *key = PySlice_New(start, stop, nullptr);
  if (!key)
    return s.end(ReasonKind::TooMuch, "out of memory");
  beginSubscript(tensor, key);
  Py_DECREF(key);
}

/// A tensor between brackets.
void Scalars::beginSubscript(PyObject *tensor, PyObject *key) {
  std::vector<PyObject *> parts;
  if (PyTuple_CheckExact(key))
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); ++i)
      parts.push_back(PyTuple_GET_ITEM(key, i));
  else
    parts.push_back(key);
  endUse();
  currentUse = {};
  currentUse.frame = frame;
  currentUse.name = "getitem";
  hasUse = !isTransformed(tensor) && followParts(tensor, parts);
  if (!hasUse) {
    specializeDeep(key);
    return s.sizes.layout(tensor, "all");
  }
  for (PyObject *part : parts) {
    if (PySlice_Check(part)) {
      auto *slice = reinterpret_cast<PySliceObject *>(part);
      currentUse.ints.push_back(slice->start);
      currentUse.ints.push_back(slice->stop);
    } else {
      currentUse.ints.push_back(part);
    }
  }
}

/// `x[:, [-1, 0]]`: a tensor of positions, made of what is written there.
bool Scalars::isListOfInts(PyObject *part) const {
  if (!PyList_CheckExact(part) || PyList_GET_SIZE(part) == 0)
    return false;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(part); ++i)
    if (!PyLong_CheckExact(PyList_GET_ITEM(part, i)) ||
        isTracked(PyList_GET_ITEM(part, i)))
      return false;
  return true;
}

/// Which operators the parts of a subscript will become. False: not known.
bool Scalars::followParts(PyObject *tensor,
                          const std::vector<PyObject *> &parts) {
  int64_t taken = 0; // dimensions, by all parts but an ellipsis
  for (PyObject *part : parts) {
    if (PyBool_Check(part))
      return false;
    if (s.objects.isTensor(part)) {
      at::ScalarType type = unpack(part).scalar_type();
      bool mask = type == at::kBool || type == at::kByte;
      taken += mask ? unpack(part).dim() : 1;
    } else if (part != Py_None && part != Py_Ellipsis) {
      ++taken;
    }
  }
  int64_t dim = 0, shown = 0; // of the tensor, of what is shown so far
  for (PyObject *part : parts) {
    if (part == Py_None) {
      ++shown;
    } else if (part == Py_Ellipsis) {
      dim += unpack(tensor).dim() - taken;
      shown += unpack(tensor).dim() - taken;
    } else if (PyLong_CheckExact(part)) {
      // One that is not followed takes its turn, too: `x[2, n]` selects twice
      // in the same dimension, and n may be 2.
      PyObject *number = isFollowed(part) ? part : nullptr;
      currentUse.parts.push_back(
          {operators::aten::select_int, shown, number, nullptr});
      ++dim;
    } else if (PySlice_Check(part)) {
      if (!followSlice(tensor, part, dim, shown))
        return false;
      ++dim;
      ++shown;
    } else if (s.objects.isTensor(part) || isListOfInts(part)) {
      ++dim;
      ++shown;
    } else {
      return false;
    }
  }
  return true;
}

/// A slice of dimension `dim`, which is `shown` of what is shown so far. Torch
/// leaves out slices that show all of a dimension, which another size may not
/// be.
bool Scalars::followSlice(PyObject *tensor, PyObject *part, int64_t dim,
                          int64_t shown) {
  const at::Tensor &t = unpack(tensor);
  auto *slice = reinterpret_cast<PySliceObject *>(part);
  auto isInt = [](PyObject *o) { return o == Py_None || PyLong_CheckExact(o); };
  if (!isInt(slice->start) || !isInt(slice->stop) || !isInt(slice->step) ||
      dim < 0 || dim >= t.dim())
    return false;
  specializeDeep(slice->step);
  PyObject *start = isFollowed(slice->start) ? slice->start : nullptr;
  PyObject *end = isFollowed(slice->stop) ? slice->stop : nullptr;
  if (start || end)
    currentUse.parts.push_back(
        {operators::aten::slice_Tensor, shown, start, end});

  auto asInt = [](PyObject *o, int64_t otherwise) {
    int overflow;
    return o == Py_None ? otherwise
                        : PyLong_AsLongLongAndOverflow(o, &overflow);
  };
  int64_t stop = asInt(slice->stop, INT64_MAX);
  bool showsAll = slice->stop != Py_None && asInt(slice->start, 0) == 0 &&
                  asInt(slice->step, 1) == 1 && stop >= t.size(dim);
  if (!showsAll)
    return true;
  // No operator shows that all of it is meant.
  int of = t.size(dim) > 1 ? s.sizes.valueOf(tensor, dim) : -1;
  bool ofData = proxyOf(slice->stop) >= 0;
  int bound = ofData ? -1 : valueOf(slice->stop);
  if (of >= 0 && bound >= 0) {
    s.add(PyjitCompareOp{
        .function = view("le"), .lhs = of, .rhs = bound, .outcome = true});
    ++currentUse.usedInts[slice->stop];
  } else if (of >= 0 && !ofData) {
    s.sizes.relate("le", of, stop);
  } else {
    specializeDeep(slice->stop);
  }
  specializeDeep(slice->start);
  return true;
}

std::pair<PyObject *, PyObject *>
OperatorUse::findPart(const std::string &overload, int64_t dim) {
  if (name != "getitem")
    return {};
  for (auto it = parts.begin(); it != parts.end(); ++it)
    if (overload == it->name && dim == it->dim) {
      std::pair<PyObject *, PyObject *> found{it->first, it->second};
      parts.erase(it);
      return found;
    }
  return {};
}
