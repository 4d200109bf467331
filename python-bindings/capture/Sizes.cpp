//===- Sizes.cpp - Sizes that may differ between calls --------------------===//
//
// Once a size of some tensor is lifted, every size that Python asks for, of any
// tensor, is a number as those in Scalars.cpp: refgraph.size. Which of them
// differ between calls is found out by refgraph-lift-sizes; the others become
// constants again. What Python learns of a layout without asking for a size
// (whether it is contiguous, a slice that shows all of a dimension) is written
// down too.
//
//===----------------------------------------------------------------------===//

#include "Scalars.h"
#include "Session.h"
#include "TensorImpl.h"

#include <torch/csrc/autograd/python_variable.h>

#include <cstring>

using namespace pyjit;
using namespace pyjit::capture;

static const at::Tensor &unpack(PyObject *tensor) {
  return THPVariable_Unpack(tensor);
}

std::string Scalars::liftedSizes(const std::string &place, PyObject *tensor) {
  if (!sizes || place.empty())
    return "";
  const at::Tensor &t = unpack(tensor);
  std::string dims;
  for (int64_t d = 0; d < t.dim(); ++d)
    if (t.size(d) > 1 && places.count(place + "$" + std::to_string(d)))
      dims += (dims.empty() ? "" : ", ") + std::to_string(d);
  return dims.empty() ? "" : "lift_sizes = array<i64: " + dims + ">";
}

bool Scalars::isSize(PyObject *object) {
  return !std::strcmp(Py_TYPE(object)->tp_name, "torch.Size");
}

/// SSA value of size `dim` of a tensor, or -1.
int Scalars::sizeValue(PyObject *tensor, int64_t dim) {
  int of = s.isTensor(tensor) ? s.tensors->valueOf(tensor) : -1;
  if (of < 0)
    return -1;
  int value = s.writer.fresh();
  s.writer.line("%" + std::to_string(value) + " = refgraph.size %" +
                    std::to_string(of) + "[" + std::to_string(dim) + "] is(" +
                    std::to_string(unpack(tensor).size(dim)) +
                    ") : " + s.tensors->typeText(tensor),
                s.location());
  return value;
}

/// Python learns more of a tensor's layout than sizes.
void Scalars::layout(PyObject *tensor, const char *question) {
  int of = sizes && s.isTensor(tensor) ? s.tensors->valueOf(tensor) : -1;
  if (of >= 0)
    s.writer.line("refgraph.layout %" + std::to_string(of) + " " +
                      quoted(question) + " : " + s.tensors->typeText(tensor),
                  s.location());
}

void Scalars::layoutDeep(PyObject *object) {
  if (!sizes)
    return;
  if (s.isTensor(object))
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

/// A comparison of a number with a constant that held.
void Scalars::relate(const char *function, int value, int64_t constant) {
  int other = s.writer.fresh();
  s.writer.line("%" + std::to_string(other) + " = refgraph.constant " +
                    std::to_string(constant),
                s.location());
  s.writer.line("refgraph.compare \"" + std::string(function) + "\"(%" +
                    std::to_string(value) + ", %" + std::to_string(other) +
                    ") is true : !refgraph.obj<\"int\">, "
                    "!refgraph.obj<\"int\">",
                s.location());
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
    entry.dims.push_back(t.size(d) > 1 ? sizeValue(tensor, d) : -1);
    entry.shape.push_back(t.size(d));
  }
  pending.push_back(std::move(entry));
}

void Scalars::askNumber(int value, int64_t number) {
  pending.push_back(
      {frame, op, nullptr, nullptr, value, rt::Number::of(number), {}});
}

void Scalars::askSize(PyObject *tensor, int64_t dim) {
  int64_t rank = unpack(tensor).dim();
  dim = dim < 0 ? dim + rank : dim;
  if (dim < 0 || dim >= rank || unpack(tensor).size(dim) < 2)
    return;
  if (int value = sizeValue(tensor, dim); value >= 0)
    askNumber(value, unpack(tensor).size(dim));
}

/// A product of numbers, written as Python's.
void Scalars::askProduct(const std::vector<std::pair<int, int64_t>> &factors) {
  int product = -1;
  int64_t number = 1;
  const char *type = "!refgraph.obj<\"int\">";
  for (auto [value, factor] : factors) {
    if (value < 0) {
      value = s.writer.fresh();
      s.writer.line("%" + std::to_string(value) + " = refgraph.constant " +
                        std::to_string(factor),
                    s.location());
    }
    if (product < 0) {
      product = value;
      number = factor;
      continue;
    }
    if (__builtin_mul_overflow(number, factor, &number))
      return;
    int next = s.writer.fresh();
    s.writer.line("%" + std::to_string(next) + " = refgraph.arith \"mul\"(%" +
                      std::to_string(product) + ", %" + std::to_string(value) +
                      ") is(" + std::to_string(number) + ") : (" + type + ", " +
                      type + ") -> " + type,
                  s.location());
    product = next;
  }
  if (product >= 0)
    askNumber(product, number);
}

void Scalars::attribute(PyObject *tensor, const char *name) {
  if (!sizes)
    return;
  if (!std::strcmp(name, "shape"))
    askShape(tensor);
  else if (!std::strcmp(name, "nbytes"))
    layout(tensor, "all");
}

/// A native function of Torch that is about to answer about a tensor.
bool Scalars::question(const Call &call, const char *name) {
  if (!sizes || call.args.empty())
    return false;
  PyObject *first = call.args[0];
  auto is = [&](const char *text) { return !std::strcmp(name, text); };
  if (is("prod") || is("numel")) {
    std::vector<std::pair<int, int64_t>> factors;
    if (call.args.size() == 1 && PyTuple_Check(first)) {
      for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(first); ++i) {
        PyObject *item = PyTuple_GET_ITEM(first, i);
        rt::Number number;
        if (!asNumber(item, number) || number.isFloat)
          return false;
        factors.emplace_back(valueOf(item), number.integer);
      }
      askProduct(factors);
      return !factors.empty();
    }
  }
  if (!s.isTensor(first))
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
      factors.emplace_back(t.size(d) > 1 ? sizeValue(first, d) : -1, t.size(d));
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
    layout(first, call.args.size() == 1 ? "contiguous" : "all");
    return false;
  }
  if (is("stride") || is("sym_size") || is("sym_stride") || is("sym_numel") ||
      is("is_same_size") || is("is_set_to"))
    for (PyObject *argument : call.args)
      layout(argument, "all");
  return false;
}

/// Two tuples are equal if their elements are, one after the other.
bool Scalars::compareTuples(rt::Compare function, PyObject *a, PyObject *b) {
  if ((function != rt::Compare::Eq && function != rt::Compare::Ne) ||
      !PyTuple_Check(a) || !PyTuple_Check(b))
    return false;
  bool any = false;
  for (PyObject *tuple : {a, b})
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
      rt::Number number;
      if (!asNumber(PyTuple_GET_ITEM(tuple, i), number))
        return false;
      any |= isTracked(PyTuple_GET_ITEM(tuple, i));
    }
  if (!any)
    return false;
  if (PyTuple_GET_SIZE(a) != PyTuple_GET_SIZE(b))
    return true; // lengths are no sizes
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(a); ++i) {
    PyObject *x = PyTuple_GET_ITEM(a, i), *y = PyTuple_GET_ITEM(b, i);
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
  if (!isSize(found) ||
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
      unique = track(item, rt::Number::of(entry.shape[d]), entry.dims[d]);
    PyTuple_SET_ITEM(size, d, Py_NewRef(unique ? unique : item));
  }
  if (!s.known(size))
    s.born(size);
  return size;
}

void Scalars::pinShape(const Pending &entry) {
  for (size_t d = 0; d < entry.dims.size(); ++d)
    if (entry.dims[d] >= 0)
      relate("is", entry.dims[d], entry.shape[d]);
}

//===----------------------------------------------------------------------===//
// Uses by operators
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

void Scalars::beginSlice(PyObject *tensor, PyObject *start, PyObject *stop) {
  PyObject *key = PySlice_New(start, stop, nullptr);
  if (!key)
    return s.end("out of memory");
  beginSubscript(tensor, key);
  Py_DECREF(key);
}

/// A tensor between brackets. Torch leaves out slices that show all of a
/// dimension, which another size may not be.
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
  auto giveUp = [&] {
    pinDeep(key);
    layout(tensor, "all");
    hasUse = false;
  };
  const at::Tensor &t = unpack(tensor);
  int64_t taken = 0;
  for (PyObject *part : parts) {
    if (PyBool_Check(part))
      return giveUp();
    if (s.isTensor(part)) {
      at::ScalarType type = unpack(part).scalar_type();
      bool mask = type == at::kBool || type == at::kByte;
      taken += mask ? unpack(part).dim() : 1;
    } else if (part != Py_None && part != Py_Ellipsis) {
      ++taken;
    }
  }
  int64_t dim = 0, shown = 0; // of the tensor, of what is shown so far
  auto number = [&](PyObject *part) -> PyObject * {
    return isTracked(part) ? part : nullptr;
  };
  auto expect = [&](const char *name, int64_t at, PyObject *a, PyObject *b) {
    if (a || b)
      currentUse.parts.push_back({name, at, a, b});
  };
  for (PyObject *part : parts) {
    if (part == Py_None) {
      ++shown;
    } else if (part == Py_Ellipsis) {
      dim += t.dim() - taken;
      shown += t.dim() - taken;
    } else if (PyLong_CheckExact(part)) {
      expect("aten::select.int", shown, number(part), nullptr);
      ++dim;
    } else if (PySlice_Check(part)) {
      auto *slice = reinterpret_cast<PySliceObject *>(part);
      auto isInt = [](PyObject *o) {
        return o == Py_None || PyLong_CheckExact(o);
      };
      if (!isInt(slice->start) || !isInt(slice->stop) || !isInt(slice->step) ||
          dim < 0 || dim >= t.dim())
        return giveUp();
      pinDeep(slice->step);
      expect("aten::slice.Tensor", shown, number(slice->start),
             number(slice->stop));
      auto asInt = [](PyObject *o, int64_t otherwise) {
        int overflow;
        return o == Py_None ? otherwise
                            : PyLong_AsLongLongAndOverflow(o, &overflow);
      };
      int64_t stop = asInt(slice->stop, INT64_MAX);
      if (slice->stop != Py_None && asInt(slice->start, 0) == 0 &&
          asInt(slice->step, 1) == 1 && stop >= t.size(dim)) {
        // No operator shows that all of it is meant.
        int of = t.size(dim) > 1 ? sizeValue(tensor, dim) : -1;
        int bound = valueOf(slice->stop);
        if (of >= 0 && bound >= 0) {
          s.writer.line("refgraph.compare \"le\"(%" + std::to_string(of) +
                            ", %" + std::to_string(bound) +
                            ") is true : !refgraph.obj<\"int\">, "
                            "!refgraph.obj<\"int\">",
                        s.location());
        } else if (of >= 0) {
          relate("le", of, stop);
        } else {
          pinDeep(slice->stop);
        }
        if (bound >= 0 && of >= 0)
          currentUse.usedInts.insert(slice->stop);
        pinDeep(slice->start);
      }
      ++dim;
      ++shown;
    } else if (s.isTensor(part)) {
      ++dim;
      ++shown;
    } else {
      return giveUp();
    }
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
  hasUse = true;
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
  static const std::set<std::string> names = {"T",
                                              "mT",
                                              "H",
                                              "mH",
                                              "absolute",
                                              "adjoint",
                                              "atleast_1d",
                                              "atleast_2d",
                                              "broadcast_to",
                                              "clip",
                                              "clip_",
                                              "concat",
                                              "concatenate",
                                              "contiguous",
                                              "conv2d",
                                              "conv_transpose1d",
                                              "conv_transpose2d",
                                              "divide",
                                              "dropout",
                                              "dropout_",
                                              "feature_dropout",
                                              "hstack",
                                              "isfinite",
                                              "kl_div",
                                              "log_sigmoid",
                                              "log_softmax",
                                              "matrix_H",
                                              "max", // .other
                                              "min",
                                              "movedim",
                                              "moveaxis",
                                              "multiply",
                                              "narrow",
                                              "negative",
                                              "nll_loss",
                                              "nll_loss_nd",
                                              "numpy_T",
                                              "pad",
                                              "ravel",
                                              "relu6",
                                              "relu6_",
                                              "selu",
                                              "softmax",
                                              "split",
                                              "square",
                                              "std",
                                              "subtract",
                                              "swapaxes",
                                              "swapdims",
                                              "to",
                                              "true_divide",
                                              "type_as",
                                              "upsample_bicubic2d",
                                              "upsample_bilinear2d",
                                              "upsample_nearest2d",
                                              "var",
                                              "vstack",
                                              "where",
                                              "_to_cpu",
                                              "sum_to_size_"};
  std::string base = name.substr(name.find("::") + 2);
  return names.count(base.substr(0, base.find('.')));
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
  // How many parts there are depends on one dimension.
  bool chunk = name == "aten::chunk" || name == "aten::unsafe_chunk";
  if (chunk && inputs.size() == 3 && inputs[0].isTensor() &&
      inputs[2].isInt()) {
    const at::Tensor &t = inputs[0].toTensor();
    TensorInfo *info = s.tensors->impl->find(t);
    int64_t dim = inputs[2].toInt();
    dim = dim < 0 ? dim + t.dim() : dim;
    if (info && info->value >= 0 && dim >= 0 && dim < t.dim()) {
      int value = s.writer.fresh();
      s.writer.line("%" + std::to_string(value) + " = refgraph.size %" +
                        std::to_string(info->value) + "[" +
                        std::to_string(dim) + "] is(" +
                        std::to_string(t.size(dim)) +
                        ") : " + s.tensors->impl->type(t),
                    s.location());
      return relate("is", value, t.size(dim));
    }
  }
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
