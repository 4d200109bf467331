//===- Scalars.cpp - Numbers whose value may differ between calls ---------===//

#include "Scalars.h"
#include "Session.h"

#include <opcode.h>

#include <cstdio>
#include <cstring>

using namespace pyjit;
using namespace pyjit::capture;

bool pyjit::capture::asNumber(PyObject *object, rt::Number &number) {
  if (PyFloat_CheckExact(object)) {
    number = rt::Number::of(PyFloat_AS_DOUBLE(object));
    return true;
  }
  if (!PyLong_CheckExact(object))
    return false;
  int overflow;
  long long value = PyLong_AsLongLongAndOverflow(object, &overflow);
  number = rt::Number::of(int64_t(value));
  return !overflow;
}

static bool isNumber(PyObject *object) {
  rt::Number number;
  return asNumber(object, number);
}

Scalars::~Scalars() {
  for (auto &entry : tracked) {
    Py_DECREF(entry.first);
    Py_DECREF(entry.second.original);
  }
}

int Scalars::valueOf(PyObject *object) {
  auto it = tracked.find(object);
  if (it == tracked.end())
    return -1;
  Tracked &number = it->second;
  if (number.shadow >= 0 && number.value < 0) {
    number.value = s.writer.fresh();
    s.writer.line("%" + std::to_string(number.value) +
                      " = refgraph.create \"number\" [%" +
                      std::to_string(s.tensors->shadowValue(number.shadow)) +
                      "] : (" + s.tensors->shadowType(number.shadow) + ") -> " +
                      typeOf(number.number),
                  s.location());
  }
  return number.value;
}

int Scalars::shadowOf(PyObject *object) const {
  auto it = tracked.find(object);
  return it == tracked.end() ? -1 : it->second.shadow;
}

bool Scalars::isPinned(PyObject *object) const {
  auto it = tracked.find(object);
  return it != tracked.end() && it->second.pinned;
}

void Scalars::forgetValues(int first) {
  for (auto &entry : tracked)
    if (entry.second.shadow >= 0 && entry.second.value >= first)
      entry.second.value = -1;
}

const rt::Number *Scalars::numberOf(PyObject *object) const {
  auto it = tracked.find(object);
  return it == tracked.end() ? nullptr : &it->second.number;
}

std::string Scalars::typeOf(const rt::Number &number) const {
  return number.isFloat ? "!refgraph.obj<\"float\">" : "!refgraph.obj<\"int\">";
}

/// An object that equals `original` and is nobody else's.
PyObject *Scalars::track(PyObject *original, const rt::Number &number,
                         int value) {
  PyObject *unique = pyjitUniqueCopy(original);
  if (!unique) {
    s.end("out of memory");
    return nullptr;
  }
  tracked[unique] = {value, number, Py_NewRef(original)};
  return unique;
}

//===----------------------------------------------------------------------===//
// Reads
//===----------------------------------------------------------------------===//

std::string Scalars::placeOf(Node *owner, Select select, PyObject *key,
                             Py_ssize_t index) {
  if (!enabled())
    return "";
  std::string holder;
  if (owner && owner->pinned) {
    char text[32];
    std::snprintf(text, sizeof text, "@%p", static_cast<void *>(owner->object));
    holder = text;
  } else if (owner) {
    holder = owner->place;
    if (holder.empty())
      return "";
  }
  auto name = [&](const char *separator) -> std::string {
    const char *text =
        key && PyUnicode_CheckExact(key) ? PyUnicode_AsUTF8(key) : nullptr;
    PyErr_Clear();
    return text ? holder + separator + text : "";
  };
  switch (select) {
  case Select::Arg:
    return "#" + std::to_string(index);
  case Select::Attr:
    return name(".");
  case Select::Item:
    if (!key)
      return holder + "[" + std::to_string(index);
    if (PyLong_CheckExact(key)) {
      int overflow;
      long long number = PyLong_AsLongLongAndOverflow(key, &overflow);
      return overflow ? "" : holder + "[" + std::to_string(number);
    }
    return name(":");
  case Select::Cell:
    return holder + "^" + std::to_string(index);
  default:
    return "";
  }
}

bool Scalars::read(Node *owner, Select select, const std::string &selector,
                   const std::string &place, PyObject *result) {
  rt::Number number;
  if (place.empty() || !places.count(place) || !asNumber(result, number))
    return false;
  PyObject *&unique = reads[place];
  if (!unique) {
    int type = s.pin(reinterpret_cast<PyObject *>(Py_TYPE(result)))->index;
    int holder = owner ? s.ssa(owner) : s.external;
    int value = s.writer.fresh();
    s.writer.line(
        "%" + std::to_string(value) + " = refgraph.get %" +
            std::to_string(holder) + " " + selector + " type(" +
            std::to_string(type) + ") equals(" + s.keyText(result) +
            ") {lift} : " + (owner ? owner->type + " -> " : std::string()) +
            typeOf(number),
        s.location());
    unique = track(result, number, value);
    if (!unique)
      return true;
  }
  pending.push_back({frame, op, unique, result, -1, number, {}});
  return true;
}

PyObject *Scalars::takeArgument(PyObject *argument) {
  if (pending.empty() || pending.back().original != argument)
    return argument;
  PyObject *unique = pending.back().unique;
  pending.pop_back();
  return unique;
}

//===----------------------------------------------------------------------===//
// Pinning
//===----------------------------------------------------------------------===//

/// SSA value of any number, tracked or not.
std::string Scalars::operand(PyObject *number) {
  int value = valueOf(number);
  if (value < 0) {
    value = s.writer.fresh();
    s.writer.line("%" + std::to_string(value) + " = refgraph.constant " +
                      s.keyText(number),
                  s.location());
  }
  return "%" + std::to_string(value);
}

void Scalars::pin(PyObject *number) {
  auto it = tracked.find(number);
  if (it == tracked.end() || it->second.pinned)
    return;
  it->second.pinned = true;
  if (it->second.shadow >= 0)
    return lose(it->second.site, it->second.data);
  std::string constant = operand(it->second.original);
  std::string type = typeOf(it->second.number);
  s.writer.line("refgraph.compare \"is\"(%" + std::to_string(it->second.value) +
                    ", " + constant + ") is true" +
                    (cause.empty() ? "" : " {why = " + quoted(cause) + "}") +
                    " : " + type + ", " + type,
                s.location());
}

void Scalars::pinAll() {
  std::vector<PyObject *> numbers;
  for (auto &entry : tracked)
    numbers.push_back(entry.first);
  for (PyObject *number : numbers)
    pin(number);
}

/// Collects what an object of a built-in type refers to.
static int collectReferents(PyObject *referent, void *into) {
  static_cast<std::vector<PyObject *> *>(into)->push_back(referent);
  return 0;
}

void Scalars::pinDeep(PyObject *object, int depth) {
  if (!object || tracked.empty())
    return;
  if (isValue(object))
    return pin(object);
  if (depth > 8)
    return pinAll();
  if (PyTuple_Check(object) || PyList_Check(object)) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(object); ++i)
      pinDeep(PySequence_Fast_GET_ITEM(object, i), depth + 1);
  } else if (PyDict_Check(object)) {
    PyObject *key, *value;
    Py_ssize_t position = 0;
    while (PyDict_Next(object, &position, &key, &value)) {
      pinDeep(key, depth + 1);
      pinDeep(value, depth + 1);
    }
  } else if (PySlice_Check(object)) {
    auto *slice = reinterpret_cast<PySliceObject *>(object);
    for (PyObject *part : {slice->start, slice->stop, slice->step})
      pinDeep(part, depth + 1);
  } else if (PyMethod_Check(object)) {
    pinDeep(PyMethod_GET_SELF(object), depth + 1);
  } else if (s.isTensor(object) || PyType_Check(object) ||
             PyModule_Check(object) || PyCode_Check(object) ||
             PyAnySet_Check(object) || isProcessConstant(object)) {
    // Holds no number of ours; a set's elements were pinned when they were put
    // in.
  } else if (PyType_HasFeature(Py_TYPE(object), Py_TPFLAGS_HEAPTYPE) &&
             pyjitInstanceDict(object)) {
    // C code sees an instance's attributes by look-ups, which find the number
    // itself.
  } else if (PyFunction_Check(object) || PyGen_Check(object) ||
             PyCoro_CheckExact(object)) {
    // Run as Python code, which we see; what they hand to C code is pinned as
    // they do.
  } else if (PyCFunction_Check(object)) {
    pinDeep(PyCFunction_GET_SELF(object), depth + 1);
  } else if (PyObject_IS_GC(object) && Py_TYPE(object)->tp_traverse) {
    // Iterators and views of containers, cells, slots: what the collector sees.
    std::vector<PyObject *> parts;
    Py_TYPE(object)->tp_traverse(object, collectReferents, &parts);
    for (PyObject *part : parts)
      pinDeep(part, depth + 1);
  }
  // What the collector does not see was made by native code, and numbers that
  // native code was given were pinned then.
}

//===----------------------------------------------------------------------===//
// Computation
//===----------------------------------------------------------------------===//

void Scalars::arith(rt::Arith function, PyObject *a, PyObject *b) {
  rt::Number x, y, result;
  bool unary = rt::isUnary(function);
  if (!asNumber(a, x) || (!unary && !asNumber(b, y)) ||
      !rt::compute(function, x, y, result)) {
    pinDeep(a);
    if (!unary)
      pinDeep(b);
    return;
  }
  if (shadowOf(a) >= 0 || (!unary && shadowOf(b) >= 0)) {
    if (compute(function, a, unary ? nullptr : b, result))
      return;
    pin(a);
    if (!unary)
      pin(b);
    return;
  }
  std::string first = operand(a), second = unary ? "" : ", " + operand(b);
  int value = s.writer.fresh();
  std::string text = result.isFloat ? floatText(result.real) + " : f64"
                                    : std::to_string(result.integer);
  s.writer.line("%" + std::to_string(value) + " = refgraph.arith \"" +
                    rt::kArithNames[unsigned(function)] + "\"(" + first +
                    second + ") is(" + text + ") : (" + typeOf(x) +
                    (unary ? "" : ", " + typeOf(y)) + ") -> " + typeOf(result),
                s.location());
  pending.push_back(
      {frame, op, nullptr, nullptr, value, result, {a, unary ? nullptr : b}});
}

void Scalars::compare(rt::Compare function, PyObject *a, PyObject *b,
                      bool branches) {
  rt::Number x, y;
  bool outcome;
  if (!asNumber(a, x) || !asNumber(b, y) ||
      !rt::compare(function, x, y, outcome)) {
    pinDeep(a);
    pinDeep(b);
    return;
  }
  if (shadowOf(a) >= 0 || shadowOf(b) >= 0)
    return compareComputed(function, a, b, outcome, branches);
  std::string first = operand(a), second = operand(b);
  s.writer.line("refgraph.compare \"" +
                    std::string(rt::kCompareNames[unsigned(function)]) + "\"(" +
                    first + ", " + second + ") is " +
                    (outcome ? "true" : "false") + " : " + typeOf(x) + ", " +
                    typeOf(y),
                s.location());
}

void Scalars::keepWithin(PyObject *number, double lowest, double highest) {
  rt::Number value;
  if (!asNumber(number, value))
    return;
  double real = value.isFloat ? value.real : double(value.integer);
  if (!(real >= lowest && real <= highest))
    return pin(number);
  auto bound = [&](rt::Compare function, double limit) {
    PyObject *object =
        value.isFloat ? PyFloat_FromDouble(limit) : PyLong_FromDouble(limit);
    s.keep(object);
    Py_DECREF(object);
    compare(function, number, object);
  };
  bound(rt::Compare::Ge, lowest);
  bound(rt::Compare::Le, highest);
}

//===----------------------------------------------------------------------===//
// Numbers that the record computes
//===----------------------------------------------------------------------===//

/// A number was used in a way that the record cannot repeat with another value.
void Scalars::lose(int site, bool data) {
  if (site >= 0)
    s.lostSites.insert(site);
  s.endWhole(data ? "a tensor's data as a Python number"
                  : "a number that the loop changes");
}

/// The offset of the branch that takes what the running instruction leaves, or
/// that it is; -1 if there is none. (True and False cannot be followed.)
int Scalars::nextJump() {
  const ShadowFrame &top = s.frames.back();
  if (!top.code || top.frame != frame)
    return -1;
  const CodeInfo &info = s.info(top.code);
  int offset = top.offset;
  auto branches = [&] {
    int op = info.at(offset).op;
    return op == POP_JUMP_IF_TRUE || op == POP_JUMP_IF_FALSE;
  };
  if (branches())
    return offset;
  offset = info.at(offset).next;
  while (size_t(offset) / 2 < info.instructions.size() &&
         info.at(offset).op == EXTENDED_ARG)
    offset += 2;
  return size_t(offset) / 2 < info.instructions.size() && branches() ? offset
                                                                     : -1;
}

NumberOperand Scalars::computed(PyObject *number, const std::string &device) {
  NumberOperand operand;
  asNumber(number, operand.number);
  auto it = tracked.find(number);
  if (it == tracked.end())
    return operand;
  if (it->second.shadow >= 0)
    operand.shadow = it->second.shadow;
  else if (!it->second.pinned)
    operand.shadow =
        s.tensors->liftNumber(operand.number, it->second.value, device);
  return operand;
}

bool Scalars::carry(PyObject *number, const std::string &device) {
  Tracked &entry = tracked.find(number)->second;
  if (entry.shadow >= 0)
    return s.tensors->shadowDevice(entry.shadow) == device;
  int shadow = s.tensors->liftNumber(entry.number, entry.value, device);
  if (shadow < 0)
    return false;
  entry.shadow = shadow;
  entry.value = -1;
  return true;
}

void Scalars::expect(int shadow, bool outcome) {
  s.expect({s.tensors->shadowValue(shadow), s.tensors->shadowType(shadow)},
           outcome);
}

bool Scalars::compute(rt::Arith function, PyObject *a, PyObject *b,
                      const rt::Number &result) {
  bool data = false;
  int site = -1;
  std::string device;
  for (PyObject *number : {a, b})
    if (auto it = tracked.find(number);
        it != tracked.end() && it->second.shadow >= 0) {
      data |= it->second.data;
      site = std::max(site, it->second.site);
      device = s.tensors->shadowDevice(it->second.shadow);
    }
  NumberOperand operands[2] = {computed(a, device)};
  if (b)
    operands[1] = computed(b, device);
  std::vector<std::pair<int, bool>> expected;
  int shadow =
      s.tensors->computeNumber(function, operands, data ? nullptr : &expected);
  if (shadow < 0)
    return false;
  for (auto [flag, outcome] : expected)
    if (!s.tensors->shadowIs(flag, outcome ? Py_True : Py_False))
      shadow = -1;
  if (shadow < 0 || s.ended())
    return false;
  for (auto [flag, outcome] : expected)
    expect(flag, outcome);
  Pending entry{frame, op, nullptr, nullptr, -1, result, {a, b}};
  entry.shadow = shadow;
  entry.data = data;
  entry.site = site;
  pending.push_back(entry);
  return true;
}

/// What data decide is left to a branch; what a loop's numbers decide has to
/// be decided alike by each iteration.
void Scalars::compareComputed(rt::Compare function, PyObject *a, PyObject *b,
                              bool outcome, bool branches) {
  bool data = false;
  std::string device;
  for (PyObject *number : {a, b})
    if (auto it = tracked.find(number);
        it != tracked.end() && it->second.shadow >= 0) {
      data |= it->second.data;
      device = s.tensors->shadowDevice(it->second.shadow);
    }
  int jump = data && branches ? nextJump() : -1;
  int flag = -1;
  if (!data || jump >= 0) {
    NumberOperand operands[2] = {computed(a, device), computed(b, device)};
    flag = s.tensors->compareNumbers(function, operands);
  }
  if (flag < 0 || s.ended() ||
      !s.tensors->shadowIs(flag, outcome ? Py_True : Py_False)) {
    pin(a);
    pin(b);
    return;
  }
  if (data)
    s.truthAhead = {frame, jump, flag};
  else
    expect(flag, outcome);
}

bool Scalars::readData(PyObject *tensor, NumberKind kind) {
  const ShadowFrame &top = s.frames.back();
  if (sizes || s.surveying || s.ended() || !top.code || top.frame != frame ||
      s.info(top.code).at(top.offset).op != CALL)
    return false;
  bool truth = kind == NumberKind::Bool ||
               (kind == NumberKind::Own && TensorRecorder::isBool(tensor));
  int jump = truth ? nextJump() : -1;
  if (truth && jump < 0)
    return false;
  int shadow = s.tensors->readNumber(tensor, kind);
  if (shadow < 0)
    return false;
  int site = s.noteSite();
  // The call itself is not recorded.
  s.deciding = true;
  if (truth) {
    s.truthAhead = {frame, jump, shadow};
    return true;
  }
  Pending entry{frame, op, nullptr, nullptr, -1, {}, {}};
  entry.shadow = shadow;
  entry.data = true;
  entry.site = site;
  pending.push_back(entry);
  return true;
}

//===----------------------------------------------------------------------===//
// Operators of tensors
//===----------------------------------------------------------------------===//

void Scalars::beginUse(const std::string &name, const Call &call) {
  endUse();
  currentUse = {};
  currentUse.frame = frame;
  currentUse.name = name;
  if (sizes)
    collectInts(call);
  for (size_t i = 0; i < call.args.size(); ++i) {
    PyObject *argument = call.args[i];
    if (!isTracked(argument)) {
      if (sizes && (PyTuple_Check(argument) || PyList_CheckExact(argument))) {
        for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(argument); ++k) {
          PyObject *item = PySequence_Fast_GET_ITEM(argument, k);
          if (isTracked(item))
            currentUse.ints.push_back(item);
          else if (!s.isTensor(item))
            pinDeep(item);
        }
      } else if (!s.isTensor(argument)) {
        pinDeep(argument);
      }
      continue;
    }
    std::string keyword;
    if (i >= call.positional())
      if (const char *text = PyUnicode_AsUTF8(
              PyTuple_GET_ITEM(call.kwnames, i - call.positional())))
        keyword = text;
    currentUse.arguments.push_back({argument, keyword});
  }
  hasUse = !currentUse.arguments.empty() || !currentUse.ints.empty();
  if (!currentUse.name.empty() && currentUse.name.back() == '_' &&
      currentUse.name.front() != '_')
    currentUse.name.pop_back();
}

/// What no operator took as a number was used in a way that nobody saw.
void Scalars::endUse() {
  if (!hasUse)
    return;
  hasUse = false;
  bool clear = currentUse.operators == 1 && !currentUse.composite;
  std::string before = std::move(cause);
  cause = "it goes into '" + currentUse.name +
          "', where no operator is seen to take it";
  for (const Use::Argument &argument : currentUse.arguments)
    if (!clear ||
        !(argument.used || currentUse.usedInts.count(argument.number)))
      pin(argument.number);
  clear |= currentUse.name == "getitem";
  for (PyObject *number : currentUse.ints)
    if (!clear || !currentUse.usedInts.count(number))
      pin(number);
  cause = std::move(before);
}

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

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
                                              "has_torch_function_unary",
                                              "has_torch_function_variadic",
                                              "_has_torch_function",
                                              "has_torch_function",
                                              "callable"};
  if (!names.count(name))
    return false;
  // A number is looked into, and a key is hashed.
  bool dictOnly = !std::strcmp(name, "update") || !std::strcmp(name, "get");
  return !dictOnly || (!call.args.empty() && PyDict_Check(call.args[0]));
}

void Scalars::native(const Call &call, const char *name) {
  if (question(call, name) || tracked.empty())
    return;
  cause = std::string("the native function '") + name + "' may look at it";
  bool tensor = false, any = false, numbers = !call.kwnames;
  for (PyObject *argument : call.args) {
    tensor |= s.isTensor(argument);
    any |= isTracked(argument);
    numbers &= isNumber(argument);
  }
  static const std::set<std::string> factories = {
      "full", "zeros", "ones", "empty", "rand", "randn", "arange"};
  if (tensor || factories.count(name)) {
    if (!onlyMoves(name, call))
      beginUse(name, call);
    return;
  }
  if (onlyMoves(name, call)) {
    // Keys are looked at, and what `update` iterates over.
    if (!std::strcmp(name, "get") && call.args.size() > 1)
      pinDeep(call.args[1]);
    if (!std::strcmp(name, "update"))
      for (size_t i = 1; i < call.args.size(); ++i)
        if (!PyDict_Check(call.args[i]))
          pinDeep(call.args[i]);
    if (!std::strcmp(name, "id"))
      pinDeep(call.args.empty() ? nullptr : call.args[0]);
    return;
  }
  if (any && numbers && !call.args.empty()) {
    PyObject *first = call.args[0];
    int unary = rt::findName(rt::kArithNames, name);
    if (call.args.size() == 1 && unary >= 0 && rt::isUnary(rt::Arith(unary)))
      return arith(rt::Arith(unary), first, nullptr);
    bool least = !std::strcmp(name, "min");
    if ((least || !std::strcmp(name, "max")) && call.args.size() > 1) {
      // The result is one of the arguments.
      PyObject *best = first;
      for (size_t i = 1; i < call.args.size(); ++i) {
        rt::Compare function = least ? rt::Compare::Lt : rt::Compare::Gt;
        rt::Number x, y;
        bool outcome = false;
        asNumber(call.args[i], x);
        asNumber(best, y);
        if (!rt::compare(function, x, y, outcome))
          break;
        compare(function, call.args[i], best);
        if (outcome)
          best = call.args[i];
        if (i + 1 == call.args.size())
          return;
      }
    }
  }
  for (PyObject *argument : call.args)
    pinDeep(argument);
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
  if ((type == &PyTuple_Type || type == &PyList_Type || type == &PyDict_Type) &&
      !call.args.empty() &&
      (PyTuple_CheckExact(call.args[0]) || PyList_CheckExact(call.args[0]) ||
       PyDict_CheckExact(call.args[0]) || isSize(call.args[0])))
    return;
  cause = std::string("'") + type->tp_name + "' may look at it";
  for (PyObject *argument : call.args)
    pinDeep(argument);
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
    pinDeep(call.args[i]);
  }
}

/// A Python function that C code called gives its result to code that may look
/// at it.
void Scalars::returned(PyObject *value) {
  if (s.frames.size() < 2)
    return;
  const ShadowFrame &caller = s.frames[s.frames.size() - 2];
  // len(x): the number is on its way.
  if (lengthFrame && caller.frame == lengthFrame)
    return;
  if (!caller.code ||
      (!caller.native && (caller.op == CALL || caller.op == CALL_FUNCTION_EX ||
                          caller.op == LOAD_ATTR)))
    return;
  cause = "native code called the function that returns it";
  pinDeep(value);
}

//===----------------------------------------------------------------------===//
// Instructions
//===----------------------------------------------------------------------===//

void Scalars::pinOperands(PyjitFrame *of, const Instruction &in, int count) {
  for (int i = 1; i <= count && i <= in.depth; ++i)
    pinDeep(pyjitFrameStack(of)[in.depth - i]);
}

static const char *binaryName(int arg) {
  static const char *names[] = {
      "add", "and", "floordiv", "lshift", "matmul",  "mul", "mod",
      "or",  "pow", "rshift",   "sub",    "truediv", "xor"};
  return names[arg % 13];
}

/// The operator that a tensor's `+` calls, by ATen's name.
static std::string tensorName(const std::string &name) {
  if (name == "truediv")
    return "div";
  if (name == "floordiv")
    return "floor_divide";
  if (name == "mod")
    return "remainder";
  return name;
}

void Scalars::before(PyjitFrame *current, PyCodeObject *,
                     const Instruction &in) {
  frame = current;
  op = in.op;
  if (lengthFrame == current)
    lengthFrame = nullptr;
  if (!enabled() || (tracked.empty() && !sizes))
    return;
  // A slot of the tensor's type is a Python method: it is given the number.
  if (hasUse && currentUse.slot && currentUse.frame != current &&
      !currentUse.operators && !currentUse.composite)
    hasUse = false;
  endUse();
  cause = "Python looks at its value";
  PyObject **stack = pyjitFrameStack(current);
  auto peek = [&](int i) { return stack[in.depth - i]; };
  auto restore = [&](int i) {
    PyObject **slot = &stack[in.depth - i];
    auto it = tracked.find(*slot);
    if (it == tracked.end())
      return;
    pin(*slot);
    PyObject *old = *slot;
    *slot = Py_NewRef(it->second.original);
    Py_DECREF(old);
  };
  switch (in.op) {
  case BINARY_OP: {
    PyObject *a = peek(2), *b = peek(1);
    if (s.isTensor(a) || s.isTensor(b)) {
      Call call;
      call.args = {a, b};
      beginUse(tensorName(binaryName(in.arg)), call);
      currentUse.slot = true;
      return;
    }
    if (!isTracked(a) && !isTracked(b)) {
      // Concatenation hands references on; everything else may look.
      if (in.arg % 13 != 0)
        pinOperands(current, in, 2);
      return;
    }
    int function = rt::findName(rt::kArithNames, binaryName(in.arg));
    if (function < 0)
      return pinOperands(current, in, 2);
    return arith(rt::Arith(function), a, b);
  }
  case COMPARE_OP: {
    PyObject *a = peek(2), *b = peek(1);
    const char *name = rt::kCompareNames[0];
    static const rt::Compare functions[] = {rt::Compare::Lt, rt::Compare::Le,
                                            rt::Compare::Eq, rt::Compare::Ne,
                                            rt::Compare::Gt, rt::Compare::Ge};
    rt::Compare function = functions[in.arg >> 4];
    name = rt::kCompareNames[unsigned(function)];
    if (s.isTensor(a) || s.isTensor(b)) {
      Call call;
      call.args = {a, b};
      beginUse(name, call);
      currentUse.slot = true;
      return;
    }
    if (isTracked(a) || isTracked(b))
      return compare(function, a, b, /*branches=*/true);
    if (compareTuples(function, a, b))
      return;
    return pinOperands(current, in, 2);
  }
  case UNARY_NEGATIVE:
    if (isTracked(peek(1)))
      arith(rt::Arith::Neg, peek(1), nullptr);
    return;
  case UNARY_NOT:
  case POP_JUMP_IF_TRUE:
  case POP_JUMP_IF_FALSE:
    if (isTracked(peek(1))) {
      PyObject *zero = PyLong_FromLong(0);
      compare(rt::Compare::Ne, peek(1), zero, in.op != UNARY_NOT);
      Py_DECREF(zero);
    }
    return;
  case IS_OP:
    // As it is without us.
    restore(1);
    restore(2);
    return;
  case RETURN_VALUE:
    return returned(peek(1));

  // Numbers as holders, keys, bounds, text: their value matters. What is
  // stored keeps its identity.
  case LOAD_ATTR:
    if (isTracked(peek(1)))
      pin(peek(1));
    return;
  case STORE_ATTR:
    if (s.isTensor(peek(1)) ||
        !PyType_HasFeature(Py_TYPE(peek(1)), Py_TPFLAGS_HEAPTYPE))
      pinDeep(peek(2));
    return;
  case BINARY_SUBSCR:
    if (sizes && s.isTensor(peek(2)))
      return beginSubscript(peek(2), peek(1));
    return pinDeep(peek(1));
  case DELETE_SUBSCR:
    return pinDeep(peek(1));
  case BINARY_SLICE:
    if (sizes && s.isTensor(peek(3))) {
      PyObject *key = PySlice_New(peek(2), peek(1), nullptr);
      if (!key)
        return s.end("out of memory");
      beginSubscript(peek(3), key);
      Py_DECREF(key);
      return;
    }
    return pinOperands(current, in, 2);
  case STORE_SUBSCR:
    if (sizes && s.isTensor(peek(2))) {
      pinDeep(peek(3));
      return beginSubscript(peek(2), peek(1));
    }
    pinDeep(peek(1));
    if (!PyDict_CheckExact(peek(2)) && !PyList_CheckExact(peek(2)))
      pinDeep(peek(3));
    return;
  case STORE_SLICE:
    if (sizes && s.isTensor(peek(3))) {
      pinDeep(peek(4));
      PyObject *key = PySlice_New(peek(2), peek(1), nullptr);
      if (!key)
        return s.end("out of memory");
      beginSubscript(peek(3), key);
      Py_DECREF(key);
      return;
    }
    pinOperands(current, in, 2);
    if (!PyList_CheckExact(peek(3)))
      pinDeep(peek(4));
    return;
  case CONTAINS_OP:
    // Keys were pinned when they were put in.
    pinDeep(peek(2));
    if (!PyDict_Check(peek(1)) && !PyAnySet_Check(peek(1)))
      pinDeep(peek(1));
    return;
  case UNARY_INVERT:
  case FORMAT_VALUE:
    return pinOperands(current, in, 1 + (in.op == FORMAT_VALUE && in.arg & 4));
  case CALL_INTRINSIC_1:
    if (in.arg != 6) // INTRINSIC_LIST_TO_TUPLE
      pinOperands(current, in, 1);
    return;
  case BUILD_MAP:
    for (int i = 0; i < in.arg; ++i)
      pinDeep(peek(2 * i + 2));
    return;
  case BUILD_SET:
    return pinOperands(current, in, in.arg);
  case SET_ADD:
  case SET_UPDATE:
  case YIELD_VALUE: // C code may be the one that iterates
    return pinOperands(current, in, 1);
  case MAP_ADD:
    return pinDeep(peek(2));
  case RAISE_VARARGS:
    return pinOperands(current, in, in.arg);
  case UNPACK_SEQUENCE:
  case UNPACK_EX:
  case GET_ITER:
    if (isTracked(peek(1)))
      pin(peek(1));
    return;
  default:
    // Calls are looked at by what they call; the rest moves references, or ends
    // the capture.
    return;
  }
}

void Scalars::pinPending(const Pending &entry) {
  if (entry.shadow >= 0)
    return lose(entry.site, entry.data);
  if (entry.unique)
    return pin(entry.unique);
  if (!entry.dims.empty())
    return pinShape(entry);
  PyObject *object = entry.number.isFloat
                         ? PyFloat_FromDouble(entry.number.real)
                         : PyLong_FromLongLong(entry.number.integer);
  if (PyObject *unique =
          object ? track(object, entry.number, entry.value) : nullptr)
    pin(unique);
  Py_XDECREF(object);
  for (PyObject *number : entry.operands)
    pin(number);
}

void Scalars::after(PyjitFrame *current, PyObject **top, bool completed) {
  if (!enabled())
    return;
  if (hasUse && currentUse.frame == current)
    endUse();
  std::vector<Pending> mine;
  for (size_t i = 0; i < pending.size();) {
    if (pending[i].frame != current) {
      ++i;
      continue;
    }
    mine.push_back(pending[i]);
    pending.erase(pending.begin() + i);
  }
  if (mine.empty())
    return;
  if (!completed || !top || !*top || mine.size() > 1) {
    for (const Pending &entry : mine)
      pinPending(entry);
    return;
  }
  Pending &entry = mine.front();
  PyObject *unique = entry.unique;
  rt::Number number;
  if (entry.shadow >= 0) {
    if (!asNumber(*top, number) || !s.tensors->shadowIs(entry.shadow, *top))
      return pinPending(entry);
    unique = track(*top, number, -1);
    if (!unique)
      return;
    Tracked &made = tracked[unique];
    made.shadow = entry.shadow;
    made.data = entry.data;
    made.site = entry.site;
    PyObject *old = *top;
    *top = Py_NewRef(unique);
    Py_DECREF(old);
    return;
  }
  if (!entry.dims.empty()) {
    PyObject *size = makeSize(entry, *top);
    if (!size)
      return pinPending(entry);
    PyObject *old = *top;
    *top = size;
    Py_DECREF(old);
    return;
  }
  if (unique) {
    bool plain = entry.op == LOAD_ATTR || entry.op == LOAD_GLOBAL ||
                 entry.op == LOAD_DEREF || entry.op == BINARY_SUBSCR;
    if (!plain || *top != entry.original)
      return pinPending(entry);
  } else {
    if (!asNumber(*top, number) || number.isFloat != entry.number.isFloat ||
        number.bits() != entry.number.bits())
      return pinPending(entry);
    unique = track(*top, number, entry.value);
    if (!unique)
      return;
  }
  PyObject *old = *top;
  *top = Py_NewRef(unique);
  Py_DECREF(old);
}

void Scalars::finish() {
  endUse();
  for (const Pending &entry : pending)
    pinPending(entry);
  pending.clear();
}
