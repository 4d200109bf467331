//===- SizeUses.cpp - Sizes that operators are given ----------------------===//
//
// A size that Python asked for comes back as a bound of a slice, as one of the
// ints of a list, or not at all: an operator that is made of others computes
// with sizes by itself.
//
//===----------------------------------------------------------------------===//

#include "Scalars.h"
#include "Session.h"
#include "TensorImpl.h"

#include <torch/csrc/autograd/python_variable.h>

using namespace pyjit;
using namespace pyjit::capture;

static const at::Tensor &unpack(PyObject *tensor) {
  return THPVariable_Unpack(tensor);
}

//===----------------------------------------------------------------------===//
// Lists of ints
//===----------------------------------------------------------------------===//

/// The ints that a call's arguments hold, in their order.
void Scalars::collectInts(const Call &call) {
  for (size_t i = 0; i < call.args.size(); ++i) {
    PyObject *argument = call.args[i];
    if (s.isTensor(argument))
      continue;
    std::vector<PyObject *> group;
    if (PyTuple_Check(argument) || PyList_CheckExact(argument)) {
      for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(argument); ++k)
        group.push_back(PySequence_Fast_GET_ITEM(argument, k));
    } else if (PyLong_CheckExact(argument) && i < call.positional()) {
      // x.view(a, b): one list.
      if (!currentUse.lists.empty() && currentUse.open) {
        currentUse.lists.back().push_back(argument);
        continue;
      }
      group.push_back(argument);
      currentUse.lists.push_back(group);
      currentUse.open = true;
      continue;
    }
    currentUse.open = false;
    currentUse.lists.push_back(group);
  }
  currentUse.open = false;
}

/// Tracked numbers among the elements of an operator's list of ints: told by
/// the whole list, which is one of the call's.
std::vector<PyObject *> Scalars::findInts(const std::vector<int64_t> &values) {
  std::vector<PyObject *> found(values.size(), nullptr);
  const std::vector<PyObject *> *match = nullptr;
  for (const auto &list : currentUse.lists) {
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
    if (isTracked((*match)[i])) {
      found[i] = (*match)[i];
      currentUse.usedInts.insert(found[i]);
    }
  return found;
}

//===----------------------------------------------------------------------===//
// Subscripts
//===----------------------------------------------------------------------===//

void Scalars::beginSlice(PyObject *tensor, PyObject *start, PyObject *stop) {
  PyObject *key = PySlice_New(start, stop, nullptr);
  if (!key)
    return s.end("out of memory");
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
  hasUse = followParts(tensor, parts);
  if (!hasUse) {
    pinDeep(key);
    return layout(tensor, "all");
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

/// Which operators the parts of a subscript will become. False: not known.
bool Scalars::followParts(PyObject *tensor,
                          const std::vector<PyObject *> &parts) {
  int64_t taken = 0; // dimensions, by all parts but an ellipsis
  for (PyObject *part : parts) {
    if (PyBool_Check(part))
      return false;
    if (s.isTensor(part)) {
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
      if (isTracked(part))
        currentUse.parts.push_back({"aten::select.int", shown, part, nullptr});
      ++dim;
    } else if (PySlice_Check(part)) {
      if (!followSlice(tensor, part, dim, shown))
        return false;
      ++dim;
      ++shown;
    } else if (s.isTensor(part)) {
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
  pinDeep(slice->step);
  PyObject *start = isTracked(slice->start) ? slice->start : nullptr;
  PyObject *end = isTracked(slice->stop) ? slice->stop : nullptr;
  if (start || end)
    currentUse.parts.push_back({"aten::slice.Tensor", shown, start, end});

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
  int of = t.size(dim) > 1 ? sizeValue(tensor, dim) : -1;
  int bound = valueOf(slice->stop);
  if (of >= 0 && bound >= 0) {
    s.writer.line("refgraph.compare \"le\"(%" + std::to_string(of) + ", %" +
                      std::to_string(bound) +
                      ") is true : !refgraph.obj<\"int\">, "
                      "!refgraph.obj<\"int\">",
                  s.location());
    currentUse.usedInts.insert(slice->stop);
  } else if (of >= 0) {
    relate("le", of, stop);
  } else {
    pinDeep(slice->stop);
  }
  pinDeep(slice->start);
  return true;
}

/// The numbers that a slice or selection of the running subscript was given.
std::pair<PyObject *, PyObject *> Scalars::findPart(const std::string &name,
                                                    int64_t dim) {
  if (!hasUse || currentUse.name != "getitem")
    return {};
  for (auto it = currentUse.parts.begin(); it != currentUse.parts.end(); ++it)
    if (name == it->name && dim == it->dim) {
      std::pair<PyObject *, PyObject *> found{it->first, it->second};
      currentUse.parts.erase(it);
      return found;
    }
  return {};
}

void Scalars::noteUsed(PyObject *number) { currentUse.usedInts.insert(number); }

//===----------------------------------------------------------------------===//
// Operators that are made of others
//===----------------------------------------------------------------------===//

/// Recorded whole once sizes matter: their parts are given sizes that nobody
/// wrote.
bool Scalars::keepsWhole(const std::string &name) const {
  static const std::set<std::string> names = {
      "aten::reshape", "aten::flatten.using_ints", "aten::unflatten.int",
      "aten::view_as", "aten::expand_as"};
  return sizes && names.count(name);
}

/// The parts of such an operator are given nothing but what it was given, and
/// are the same ones for all sizes (other than zero and one).
static bool isTransparent(const std::string &name) {
  // `max` and `min`: those of two tensors.
  // clang-format off
  static const std::set<std::string> names = {
      "T", "mT", "H", "mH", "__and__", "__or__", "__xor__", "absolute", "adjoint", "atleast_1d", "atleast_2d",
      "broadcast_to", "clip", "clip_", "concat", "concatenate", "contiguous",
      "conv2d", "conv_transpose1d", "conv_transpose2d", "divide", "dropout",
      "dropout_", "feature_dropout", "hstack", "isfinite", "kl_div",
      "log_sigmoid", "log_softmax", "matrix_H", "max", "min", "movedim",
      "moveaxis", "multiply", "narrow", "negative", "nll_loss", "nll_loss_nd",
      "numpy_T", "pad", "ravel", "relu6", "relu6_", "selu", "softmax", "split",
      "square", "std", "subtract", "swapaxes", "swapdims", "to", "true_divide",
      "type_as", "upsample_bicubic2d", "upsample_bilinear2d",
      "upsample_nearest2d", "var", "vstack", "where", "_to_cpu", "sum_to_size_"};
  // clang-format on
  std::string base = name.substr(name.find("::") + 2);
  return names.count(base.substr(0, base.find('.')));
}

/// How many parts a `chunk` has depends on one dimension only.
bool Scalars::compositeChunk(const std::string &name,
                             const std::vector<c10::IValue> &inputs) {
  if ((name != "aten::chunk" && name != "aten::unsafe_chunk") ||
      inputs.size() != 3 || !inputs[0].isTensor() || !inputs[2].isInt())
    return false;
  const at::Tensor &t = inputs[0].toTensor();
  TensorInfo *info = s.tensors->impl->find(t);
  int64_t dim = inputs[2].toInt();
  dim = dim < 0 ? dim + t.dim() : dim;
  if (!info || info->value < 0 || dim < 0 || dim >= t.dim())
    return false;
  int value = s.writer.fresh();
  s.writer.line("%" + std::to_string(value) + " = refgraph.size %" +
                    std::to_string(info->value) + "[" + std::to_string(dim) +
                    "] is(" + std::to_string(t.size(dim)) +
                    ") : " + s.tensors->impl->type(t),
                s.location());
  relate("is", value, t.size(dim));
  return true;
}

void Scalars::composite(const std::string &name,
                        const std::vector<c10::IValue> &inputs) {
  if (!sizes || isTransparent(name))
    return;
  // Without smoothing, the loss of a class is looked up. That of probabilities
  // is divided by the number of rows.
  if (name == "aten::cross_entropy_loss" && inputs.size() > 5 &&
      !inputs[1].toTensor().is_floating_point() && inputs[5].isDouble() &&
      inputs[5].toDouble() == 0)
    return;
  auto pinTensor = [&](const at::Tensor &t) {
    TensorInfo *info = t.defined() ? s.tensors->impl->find(t) : nullptr;
    if (info && info->value >= 0)
      s.writer.line("refgraph.layout %" + std::to_string(info->value) + " " +
                        quoted(name) + " : " + s.tensors->impl->type(t),
                    s.location());
  };
  if (compositeChunk(name, inputs))
    return;
  for (const c10::IValue &input : inputs) {
    if (input.isTensor())
      pinTensor(input.toTensor());
    else if (input.isTensorList())
      for (const at::Tensor &t : input.toTensorVector())
        pinTensor(t);
    else if (input.isList())
      for (const c10::IValue &element : input.toListRef())
        if (element.isTensor())
          pinTensor(element.toTensor());
  }
}
