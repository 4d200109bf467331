//===- ScalarCalls.cpp - Numbers that operators and functions take --------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Recording.h"
#include "interpreter/OpcodeTable.h"
#include "numbers/Scalars.h"
#include "objects/ObjectKinds.h"

#include <opcode.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

using namespace pyjit;
using namespace pyjit::capture;

//===----------------------------------------------------------------------===//
// Operators of tensors
//===----------------------------------------------------------------------===//

static bool takesLists(const std::string &name) {
  return name.rfind("_foreach_", 0) == 0 || name.rfind("_fused_adam", 0) == 0 ||
         name.rfind("_fused_sgd", 0) == 0;
}

OperatorUse::OperatorUse(PyjitFrame *frame, std::string function)
    : frame(frame), name(std::move(function)) {
  if (!name.empty() && name.back() == '_' && name.front() != '_')
    name.pop_back();
}

void Scalars::beginUse(const std::string &name, const Call &call) {
  endUse();
  currentUse = OperatorUse(frame, name);
  if (s.sizes.followed)
    currentUse.collectInts(call);
  for (size_t i = 0; i < call.args.size(); ++i) {
    PyObject *argument = call.args[i];
    std::string keyword;
    if (i >= call.positional())
      if (const char *text = PyUnicode_AsUTF8(
              PyTuple_GET_ITEM(call.kwnames, i - call.positional())))
        keyword = text;
    if (takesLists(name) &&
        (PyTuple_Check(argument) || PyList_CheckExact(argument))) {
      for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(argument); ++k) {
        PyObject *item = PySequence_Fast_GET_ITEM(argument, k);
        if (isTracked(item))
          currentUse.arguments.push_back({item, keyword, i, k});
        else if (!s.objects.isTensor(item))
          specializeDeep(item);
      }
      continue;
    }
    if (!isTracked(argument)) {
      if (s.sizes.followed &&
          (PyTuple_Check(argument) || PyList_CheckExact(argument))) {
        for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(argument); ++k) {
          PyObject *item = PySequence_Fast_GET_ITEM(argument, k);
          if (isTracked(item))
            currentUse.ints.push_back(item);
          else if (!s.objects.isTensor(item))
            specializeDeep(item);
        }
      } else if (!s.objects.isTensor(argument)) {
        specializeDeep(argument);
      }
      continue;
    }
    currentUse.arguments.push_back({argument, keyword, i});
  }
  hasUse = !currentUse.arguments.empty() || !currentUse.ints.empty();
}

OperatorUse::Argument *OperatorUse::findGiven(const Scalars &scalars,
                                              const c10::FunctionSchema &schema,
                                              size_t place,
                                              const rt::Number &value) {
  for (Argument &argument : arguments) {
    bool isHere = argument.keyword.empty()
                      ? argument.position == place
                      : schema.arguments()[place].name() == argument.keyword;
    if (!isHere || !scalars.isFollowed(argument.number))
      continue;
    const rt::Number &number = *scalars.numberOf(argument.number);
    if (number.isFloat == value.isFloat && number.bits() == value.bits())
      return &argument;
  }
  return nullptr;
}

bool OperatorUse::isTaken(PyObject *number) const {
  auto taken = usedInts.find(number);
  auto left = std::count(ints.begin(), ints.end(), number);
  if (taken != usedInts.end())
    left -= taken->second;
  for (const Argument &argument : arguments)
    left += argument.number == number && !argument.used;
  return left <= 0;
}

/// What no operator took as a number was used in a way that nobody saw.
void Scalars::endUse() {
  if (!hasUse)
    return;
  hasUse = false;
  bool clear = !currentUse.composite &&
               (currentUse.operators == 1 || !currentUse.ofRate.empty() ||
                currentUse.handed);
  std::string before = std::move(cause);
  cause = "it goes into '" + currentUse.name +
          "', where no operator is seen to take it";
  for (const OperatorUse::Argument &argument : currentUse.arguments)
    if (!clear || !currentUse.isTaken(argument.number))
      specialize(argument.number);
  clear |= currentUse.name == "getitem";
  for (PyObject *number : currentUse.ints)
    if (!clear || !currentUse.isTaken(number))
      specialize(number);
  cause = std::move(before);
}

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

/// A dict's method that hashes its first argument.
static bool looksUpKey(const char *name) {
  return !std::strcmp(name, "get") || !std::strcmp(name, "setdefault") ||
         !std::strcmp(name, "pop");
}

/// Native functions that hand references on and look at no number.
static bool onlyMoves(const char *name, const Call &call) {
  static const std::set<std::string> names = {"isinstance",
                                              "hasattr",
                                              "getattr",
                                              "len",
                                              "iter",
                                              "id",
                                              "append",
                                              "extend",
                                              "setattr",
                                              "items",
                                              "keys",
                                              "values",
                                              "update",
                                              "__instancecheck__",
                                              "issubclass",
                                              "get",
                                              "setdefault",
                                              "pop",
                                              "has_torch_function_unary",
                                              "has_torch_function_variadic",
                                              "_has_torch_function",
                                              "has_torch_function",
                                              "callable"};
  if (!names.count(name))
    return false;
  // A number is looked into, and a key is hashed.
  bool dictOnly = !std::strcmp(name, "update") || looksUpKey(name);
  return !dictOnly || (!call.args.empty() && PyDict_Check(call.args[0]));
}

/// `list.sort` and `list.remove`, whose handlers compare the elements once the
/// list is the call's own.
static bool comparesElements(const char *name, const Call &call) {
  return Py_IS_TYPE(call.callable, &PyMethodDescr_Type) &&
         pyjitDescrType(call.callable) == &PyList_Type &&
         (!std::strcmp(name, "sort") || !std::strcmp(name, "remove"));
}

static bool makesTensor(const char *name) {
  return !std::strcmp(name, "tensor") || !std::strcmp(name, "as_tensor") ||
         !std::strcmp(name, "scalar_tensor");
}

/// math.floor, math.ceil and math.trunc, said by Python's operators: `int(x //
/// 1.0)`, `-int(-x // 1.0)`, `int(x)`. They raise where those do.
bool Scalars::roundToInt(const char *name, PyObject *number) {
  bool floor = !std::strcmp(name, "floor"), ceil = !std::strcmp(name, "ceil");
  rt::Number x;
  if ((!floor && !ceil && std::strcmp(name, "trunc")) || proxyOf(number) >= 0 ||
      !asNumber(number, x))
    return false;
  auto follow = [&](rt::Arith function, PyObject *a, PyObject *b) {
    rt::Number y, result;
    if (!a || !asNumber(a, x) || (b && !asNumber(b, y)) ||
        !rt::compute(function, x, y, result))
      return static_cast<PyObject *>(nullptr);
    return track(makeNumber(s, result), result,
                 writeArith(function, a, b, result), isOfSize(a));
  };
  if (!x.isFloat || (!floor && !ceil)) {
    arith(rt::Arith::Int, number, nullptr);
    return true;
  }
  PyObject *one = makeNumber(s, rt::Number::of(1.0));
  if (ceil)
    number = follow(rt::Arith::Neg, number, nullptr);
  number = follow(rt::Arith::FloorDiv, number, one);
  if (ceil)
    number = follow(rt::Arith::Int, number, nullptr);
  if (!number)
    return false;
  arith(ceil ? rt::Arith::Neg : rt::Arith::Int, number, nullptr);
  return true;
}

/// Where a number belongs among sorted ones: compared as `bisect` does.
bool Scalars::compareSorted(const char *name, PyObject *sorted,
                            PyObject *number) {
  bool right = !std::strcmp(name, "bisect_right");
  rt::Number x, y;
  if ((!right && std::strcmp(name, "bisect_left")) || !isFollowed(number) ||
      !asNumber(number, x) || (x.isFloat && x.real != x.real) ||
      (!PyList_CheckExact(sorted) && !PyTuple_CheckExact(sorted)))
    return false;
  PyObject **elements = PySequence_Fast_ITEMS(sorted);
  Py_ssize_t low = 0, high = PySequence_Fast_GET_SIZE(sorted);
  if (!std::all_of(elements, elements + high, [&](PyObject *element) {
        return asNumber(element, y) && proxyOf(element) < 0;
      }))
    return false;
  while (low < high && !s.ended()) {
    Py_ssize_t middle = (low + high) / 2;
    PyObject *a = right ? number : elements[middle],
             *b = right ? elements[middle] : number;
    bool less = false;
    asNumber(a, x);
    asNumber(b, y);
    if (!rt::compare(rt::Compare::Lt, x, y, less))
      return false;
    compare(rt::Compare::Lt, a, b);
    if (less == right)
      high = middle;
    else
      low = middle + 1;
  }
  return true;
}

/// math.isnan, math.isinf, math.isfinite. What data decide is left to the
/// branch that takes the outcome.
bool Scalars::askKind(const char *name, PyObject *number) {
  bool nan = !std::strcmp(name, "isnan"), inf = !std::strcmp(name, "isinf");
  rt::Number x;
  if ((!nan && !inf && std::strcmp(name, "isfinite")) || !asNumber(number, x))
    return false;
  double real = x.toDouble();
  if (int proxy = proxyOf(number); proxy >= 0) {
    bool data = tracked.find(number)->second.data;
    int jump = nextJump();
    int flag = jump < 0 && data ? -1 : s.dataNumbers.askKind(proxy, nan, inf);
    bool outcome = nan   ? std::isnan(real)
                   : inf ? std::isinf(real)
                         : std::isfinite(real);
    if (flag < 0 || s.ended() ||
        !s.dataNumbers.proxyIs(flag, outcome ? Py_True : Py_False))
      return false;
    if (data)
      s.decisions.truthAhead = {frame, jump, flag};
    else
      speculate(flag, outcome);
    return true;
  }
  if (!x.isFloat || !std::isfinite(real))
    return false;
  if (nan)
    compare(rt::Compare::Eq, number, number);
  else
    keepWithin(number, -std::numeric_limits<double>::max(),
               std::numeric_limits<double>::max());
  return true;
}

void Scalars::native(const Call &call, const char *name) {
  if (question(call, name) || !enabled() || sumList(call) || takeBest(call) ||
      tracked.empty())
    return;
  cause = std::string("the native function '") + name + "' may look at it";
  bool tensor = false, any = false, numbers = !call.kwnames;
  for (PyObject *argument : call.args) {
    tensor |= s.objects.isTensor(argument);
    any |= isTracked(argument);
    numbers &= isNumber(argument);
  }
  static const std::set<std::string> factories = {
      "full",   "zeros", "ones",     "empty",  "rand",    "randn",
      "arange", "eye",   "linspace", "normal", "randint", "randperm"};
  if (onlyMoves(name, call)) {
    // Keys are looked at, and what `update` iterates over.
    if (looksUpKey(name) && call.args.size() > 1)
      specializeDeep(call.args[1]);
    if (!std::strcmp(name, "update"))
      for (size_t i = 1; i < call.args.size(); ++i)
        if (!PyDict_Check(call.args[i]))
          specializeDeep(call.args[i]);
    if (!std::strcmp(name, "id"))
      specializeDeep(call.args.empty() ? nullptr : call.args[0]);
    return;
  }
  if (comparesElements(name, call)) {
    PyObject *reverse = call.keyword("reverse");
    if (reverse)
      specializeDeep(reverse);
    return;
  }
  if (tensor || factories.count(name) || takesLists(name))
    return beginUse(name, call);
  if (makesTensor(name) && !call.args.empty() && isTracked(call.args[0]) &&
      proxyOf(call.args[0]) < 0 && !isSpecialized(call.args[0])) {
    s.now.tensorOf = call.args[0];
    for (size_t i = 1; i < call.args.size(); ++i)
      specializeDeep(call.args[i]);
    return;
  }
  if (call.args.size() == 2 && !call.kwnames &&
      compareSorted(name, call.args[0], call.args[1]))
    return;
  if (any && numbers && !call.args.empty()) {
    PyObject *first = call.args[0];
    int unary = rt::findName(rt::kArithNames, name);
    if (call.args.size() == 1 && unary >= 0 && rt::isUnary(rt::Arith(unary)))
      return arith(rt::Arith(unary), first, nullptr);
    if (call.args.size() == 1 &&
        (roundToInt(name, first) || askKind(name, first)))
      return;
  }
  for (PyObject *argument : call.args)
    specializeDeep(argument);
}

/// Hands out what lists and tuples hold, and looks at none of it.
static bool onlyWalks(PyTypeObject *type, const Call &call) {
  auto isSequence = [](PyObject *o) {
    return PyTuple_CheckExact(o) || PyList_CheckExact(o) || isTorchSize(o) ||
           Py_TYPE(o) == &PyReversed_Type || Py_TYPE(o) == &PyListRevIter_Type;
  };
  if (type == &PyEnum_Type || type == &PyReversed_Type)
    return call.args.size() == 1 && isSequence(call.args[0]);
  return type == &PyZip_Type &&
         std::all_of(call.args.begin(),
                     call.args.begin() + Py_ssize_t(call.positional()),
                     isSequence);
}

/// `dict(pairs)`: hashes what stands first in each, and moves the rest.
void Scalars::lookAtKeys(PyObject *pairs) {
  if (!PyTuple_CheckExact(pairs) && !PyList_CheckExact(pairs))
    return;
  cause = "'dict' hashes it";
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(pairs); ++i) {
    PyObject *pair = PySequence_Fast_GET_ITEM(pairs, i);
    bool moves = PyTuple_CheckExact(pair) || PyList_CheckExact(pair);
    if (!moves)
      specializeDeep(pair);
    else if (PySequence_Fast_GET_SIZE(pair) > 0)
      specializeDeep(PySequence_Fast_GET_ITEM(pair, 0));
  }
}

void Scalars::nativeType(PyTypeObject *type, const Call &call) {
  if (tracked.empty())
    return;
  if (call.args.size() == 1 && !call.kwnames && isTracked(call.args[0])) {
    if (type == &PyFloat_Type)
      return arith(rt::Arith::Float, call.args[0], nullptr);
    if (type == &PyLong_Type)
      return arith(rt::Arith::Int, call.args[0], nullptr);
  }
  if (type == &PyType_Type && call.args.size() == 1)
    return;
  if (type == &PySlice_Type && !call.kwnames)
    return; // it holds them, as one that `a:b` makes
  if (type == &PyRange_Type && makeRange(call))
    return;
  if (onlyWalks(type, call))
    return;
  bool makesSize = !std::strcmp(type->tp_name, "torch.Size");
  if ((type == &PyTuple_Type || type == &PyList_Type || type == &PyDict_Type ||
       makesSize) &&
      !call.args.empty() &&
      (PyTuple_CheckExact(call.args[0]) || PyList_CheckExact(call.args[0]) ||
       PyDict_CheckExact(call.args[0]) || isTorchSize(call.args[0]))) {
    if (type == &PyDict_Type)
      lookAtKeys(call.args[0]);
    return;
  }
  cause = std::string("'") + type->tp_name + "' may look at it";
  for (PyObject *argument : call.args)
    specializeDeep(argument);
}

void Scalars::wrapper(const char *slot, const Call &call) {
  if (tracked.empty())
    return;
  static const std::set<std::string> names = {
      "__setattr__", "__getattribute__", "__delattr__", "__len__",
      "__iter__",    "__get__",          "__call__"};
  if (names.count(slot))
    return;
  cause = std::string("the native method '") + slot + "' may look at it";
  for (size_t i = 0; i < call.args.size(); ++i) {
    if (!std::strcmp(slot, "__setitem__") && i == 2)
      continue;
    if (i == 0 && (PyDict_Check(call.args[0]) || PyList_Check(call.args[0])) &&
        (!std::strcmp(slot, "__setitem__") ||
         !std::strcmp(slot, "__getitem__") ||
         !std::strcmp(slot, "__contains__")))
      continue;
    specializeDeep(call.args[i]);
  }
}

/// A Python function that C code called gives its result to code that may look
/// at it.
void Scalars::returned(PyObject *value) {
  if (s.tracker.frames.size() < 2)
    return;
  const ShadowFrame &caller = s.tracker.frames[s.tracker.frames.size() - 2];
  // len(x): the number is on its way.
  if (lengthFrame && caller.frame == lengthFrame)
    return;
  if (!caller.code || (!caller.context.callsNative &&
                       (isCall(caller.op) || caller.op == LOAD_ATTR)))
    return;
  cause = "native code called the function that returns it";
  specializeDeep(value);
}
