//===- Scalars.cpp - Numbers whose value may differ between calls ---------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "numbers/Scalars.h"

#include "Recording.h"
#include "builtins/Natives.h"
#include "interpreter/OpcodeTable.h"
#include "numbers/HostScalars.h"
#include "tensors/Tensors.h"

#include <cmath>
#include <opcode.h>

#include <algorithm>
#include <cstdio>

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

bool pyjit::capture::isNumber(PyObject *object) {
  rt::Number number;
  return asNumber(object, number);
}

PyObject *pyjit::capture::makeNumber(Recording &recording,
                                     const rt::Number &number) {
  PyObject *object = number.isFloat ? PyFloat_FromDouble(number.real)
                                    : PyLong_FromLongLong(number.integer);
  recording.objects.keep(object);
  Py_DECREF(object);
  return object;
}

Scalars::Scalars(Recording &recording, AccessPaths paths) : s(recording) {
  for (const AccessPath &path : paths)
    lift(path);
}

Scalars::~Scalars() {
  for (auto &entry : tracked) {
    Py_DECREF(entry.first);
    Py_DECREF(entry.second.original);
  }
}

bool Scalars::enabled() const {
  return !paths.empty() || s.sizes.followed || !tracked.empty() ||
         !pending.empty();
}

void Scalars::lift(const AccessPath &path) {
  paths.insert(path);
  s.sizes.followed |= path.isSize();
}

int Scalars::valueOf(PyObject *object) {
  auto it = tracked.find(object);
  if (it == tracked.end())
    return -1;
  Tracked &number = it->second;
  if (number.proxy >= 0 && number.value < 0) {
    std::vector<PyjitValue> tensor{s.dataNumbers.proxyValue(number.proxy)};
    number.value = s.add(PyjitCreateOp{.kind = view("number"),
                                       .elements = view(tensor),
                                       .resultType = typeOf(number.number)});
  }
  return number.value;
}

int Scalars::proxyOf(PyObject *object) const {
  auto it = tracked.find(object);
  return it == tracked.end() ? -1 : it->second.proxy;
}

bool Scalars::isSpecialized(PyObject *object) const {
  auto it = tracked.find(object);
  return it != tracked.end() && it->second.specialized;
}

bool Scalars::isOfSize(PyObject *number) const {
  auto it = tracked.find(number);
  return it != tracked.end() && it->second.ofSize;
}

std::vector<PyObject *> Scalars::followed() const {
  std::vector<PyObject *> numbers;
  for (auto &[number, facts] : tracked)
    if (!facts.specialized && facts.proxy < 0)
      numbers.push_back(number);
  return numbers;
}

void Scalars::forgetValues(int first) {
  for (auto &entry : tracked)
    if (entry.second.proxy >= 0 && entry.second.value >= first)
      entry.second.value = -1;
}

const rt::Number *Scalars::numberOf(PyObject *object) const {
  auto it = tracked.find(object);
  return it == tracked.end() ? nullptr : &it->second.number;
}

PyjitType Scalars::typeOf(const rt::Number &number) const {
  return s.writer.object(number.isFloat ? "float" : "int");
}

/// An object that equals `original` and is nobody else's.
PyObject *Scalars::track(PyObject *original, const rt::Number &number,
                         int value, bool ofSize) {
  // `abs`, `int` and `float` give back the number that they were given, ours.
  auto given = tracked.find(original);
  if (given != tracked.end())
    original = given->second.original;
  PyObject *unique = pyjitUniqueCopy(original);
  if (!unique) {
    s.end(ReasonKind::TooMuch, "out of memory");
    return nullptr;
  }
  tracked[unique] = {value, number, Py_NewRef(original)};
  tracked[unique].ofSize = ofSize;
  s.run.copies->add(unique, original);
  return unique;
}

//===----------------------------------------------------------------------===//
// Reads
//===----------------------------------------------------------------------===//

AccessPath Scalars::pathTo(Node *owner, Select select, PyObject *key,
                           Py_ssize_t index) {
  using Step = AccessPath::Step;
  if (!enabled())
    return {};
  if (select == Select::Arg)
    return AccessPath::argument(int(index));
  if (!owner)
    return {};
  AccessPath holder =
      owner->pinned ? AccessPath::object(owner->object) : owner->path;
  auto named = [&](Step step) {
    const char *text =
        key && PyUnicode_CheckExact(key) ? PyUnicode_AsUTF8(key) : nullptr;
    PyErr_Clear();
    return text ? holder.then(step, text) : AccessPath();
  };
  switch (select) {
  case Select::Attr:
    return named(Step::Attr);
  case Select::TypeAttr:
    return named(Step::Class);
  case Select::Slot:
    return named(Step::Slot);
  case Select::Item:
    return key ? holder.entry(key) : holder.then(Step::Item, int64_t(index));
  case Select::Field:
    return AccessPath::leadsOn(key) ? named(Step::Attr) : AccessPath();
  case Select::Cell:
    return holder.then(Step::Cell, int64_t(index));
  case Select::Defaults:
    return holder.then(Step::Attr, "__defaults__");
  default:
    return {};
  }
}

bool Scalars::read(Node *owner, const Selector &selector,
                   const AccessPath &path, PyObject *result) {
  rt::Number number;
  // A nan is known by its identity (Scalars::searchesFor).
  if (!path || !isLifted(path) || !asNumber(result, number) ||
      (number.isFloat && std::isnan(number.real)))
    return false;
  PyObject *&unique = reads[path];
  if (!unique) {
    int type =
        s.objects.pin(reinterpret_cast<PyObject *>(Py_TYPE(result)))->index;
    PyjitValue holder = owner ? s.objects.ssa(owner) : s.objects.external;
    PyjitValue value = s.add(PyjitGetOp{.holder = holder,
                                        .selector = selector.kind,
                                        .key = selector.key,
                                        .label = selector.label(),
                                        .exactType = some(type),
                                        .equals = s.objects.constant(result),
                                        .lift = true,
                                        .resultType = typeOf(number)});
    if (owned.count(result) && !isTracked(result)) {
      unique = Py_NewRef(result);
      tracked[unique] = {value, number, Py_NewRef(result)};
      return true;
    }
    unique = track(result, number, value);
    if (!unique)
      return true;
  }
  if (unique == result || s.now.numbers == ReadNumbers::Computed ||
      s.now.numbers == ReadNumbers::Unseen)
    return true;
  pending.push_back({frame, op, unique, result, -1, number, {}});
  pending.back().handedOn = s.now.numbers == ReadNumbers::HandedOn;
  pending.back().lookedAt = s.now.numbers == ReadNumbers::LookedAt;
  return true;
}

void Scalars::ownNumbers(Node *list, size_t before) {
  PyObject *object = list->object;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(object); ++i) {
    if (pending.size() == before)
      return;
    auto known = reads.find(pathTo(list, Select::Item, nullptr, i));
    PyObject *number = PyList_GET_ITEM(object, i);
    auto isIt = [&](const Pending &entry) {
      return known != reads.end() && entry.unique == known->second &&
             entry.original == number;
    };
    auto found = std::find_if(pending.begin() + before, pending.end(), isIt);
    if (found == pending.end())
      continue;
    PyList_SET_ITEM(object, i, Py_NewRef(found->unique));
    pending.erase(found);
    Py_DECREF(number);
  }
}

void Scalars::unpackNumbers(PyObject *sequence, size_t before) {
  Node *node = s.objects.find(sequence);
  if (!node || s.dead ||
      (!PyTuple_CheckExact(sequence) && !PyList_CheckExact(sequence)))
    return;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(sequence); ++i) {
    if (pending.size() <= before)
      return;
    auto known = reads.find(pathTo(node, Select::Item, nullptr, i));
    if (known == reads.end())
      continue;
    for (auto entry = pending.begin() + before; entry != pending.end(); ++entry)
      if (entry->unique == known->second &&
          entry->original == PySequence_Fast_GET_ITEM(sequence, i))
        entry->below = int(i);
  }
}

PyObject *Scalars::takeArgument(PyObject *argument) {
  if (pending.empty() || pending.back().original != argument)
    return argument;
  PyObject *unique = pending.back().unique;
  pending.pop_back();
  return unique;
}

//===----------------------------------------------------------------------===//
// Specializing
//===----------------------------------------------------------------------===//

/// SSA value of any number, tracked or not.
PyjitValue Scalars::operand(PyObject *number) {
  PyjitValue value = valueOf(number);
  return value < 0 ? s.objects.addConstant(number) : value;
}

void Scalars::specialize(PyObject *number) {
  auto it = tracked.find(number);
  if (it == tracked.end() || it->second.specialized)
    return;
  it->second.specialized = true;
  if (it->second.proxy >= 0)
    return lose(it->second.site, it->second.data);
  if (it->second.number.isFloat && std::isnan(it->second.number.real))
    // By its identity, too, which a graph break would not keep.
    return s.endWhole(ReasonKind::UnusualObject, "a nan that Python looks for");
  // What the number is now, and not its value: a number that tells its place
  // already is its own original.
  PyjitValue constant = s.objects.addConstant(it->second.original);
  if (!it->second.ofSize)
    s.breaks.noteFixed(GraphBreaks::Fixes::Number, it->second.number.bits());
  s.add(PyjitCompareOp{.function = view("is"),
                       .lhs = it->second.value,
                       .rhs = constant,
                       .outcome = true,
                       .why = cause.empty() ? PyjitString{} : view(cause)});
}

void Scalars::specializeAll() {
  std::vector<PyObject *> numbers;
  for (auto &entry : tracked)
    numbers.push_back(entry.first);
  for (PyObject *number : numbers)
    specialize(number);
}

/// Collects what an object of a built-in type refers to.
static int collectReferents(PyObject *referent, void *into) {
  static_cast<std::vector<PyObject *> *>(into)->push_back(referent);
  return 0;
}

void Scalars::specializeDeep(PyObject *object, int depth) {
  if (!object || tracked.empty())
    return;
  if (isValue(object))
    return specialize(object);
  if (ranges.count(object))
    return specializeRange(object);
  if (depth > 8)
    return specializeAll();
  if (PyTuple_Check(object) || PyList_Check(object)) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(object); ++i)
      specializeDeep(PySequence_Fast_GET_ITEM(object, i), depth + 1);
  } else if (PyDict_Check(object)) {
    PyObject *key, *value;
    Py_ssize_t position = 0;
    while (PyDict_Next(object, &position, &key, &value)) {
      specializeDeep(key, depth + 1);
      specializeDeep(value, depth + 1);
    }
  } else if (PySlice_Check(object)) {
    auto *slice = reinterpret_cast<PySliceObject *>(object);
    for (PyObject *part : {slice->start, slice->stop, slice->step})
      specializeDeep(part, depth + 1);
  } else if (PyMethod_Check(object)) {
    specializeDeep(PyMethod_GET_SELF(object), depth + 1);
  } else if (s.objects.isTensor(object) || PyType_Check(object) ||
             PyModule_Check(object) || PyCode_Check(object) ||
             PyAnySet_Check(object) || isProcessConstant(object)) {
    // Holds no number of ours; a set's elements were specialized when they were
    // put in.
  } else if (PyType_HasFeature(Py_TYPE(object), Py_TPFLAGS_HEAPTYPE) &&
             pyjitInstanceDict(object)) {
    // C code sees an instance's attributes by look-ups, which find the number
    // itself.
  } else if (PyFunction_Check(object) || PyGen_Check(object) ||
             PyCoro_CheckExact(object)) {
    // Run as Python code, which we see; what they hand to C code is specialized
    // as they do.
  } else if (PyCFunction_Check(object)) {
    specializeDeep(PyCFunction_GET_SELF(object), depth + 1);
  } else if (PyObject_IS_GC(object) && Py_TYPE(object)->tp_traverse) {
    // Iterators and views of containers, cells, slots: what the collector sees.
    std::vector<PyObject *> parts;
    Py_TYPE(object)->tp_traverse(object, collectReferents, &parts);
    for (PyObject *part : parts)
      specializeDeep(part, depth + 1);
  }
  // What the collector does not see was made by native code, and numbers that
  // native code was given were specialized then.
}

//===----------------------------------------------------------------------===//
// Computation
//===----------------------------------------------------------------------===//

void Scalars::arith(rt::Arith function, PyObject *a, PyObject *b) {
  rt::Number x, y, result;
  bool unary = rt::isUnary(function);
  if (!asNumber(a, x) || (!unary && !asNumber(b, y)) ||
      !rt::compute(function, x, y, result)) {
    specializeDeep(a);
    if (!unary)
      specializeDeep(b);
    return;
  }
  if (proxyOf(a) >= 0 || (!unary && proxyOf(b) >= 0)) {
    if (compute(function, a, unary ? nullptr : b, result))
      return;
    specialize(a);
    if (!unary)
      specialize(b);
    return;
  }
  int value = writeArith(function, a, unary ? nullptr : b, result);
  pending.push_back(
      {frame, op, nullptr, nullptr, value, result, {a, unary ? nullptr : b}});
  pending.back().ofSize = isOfSize(a) || (!unary && isOfSize(b));
}

int Scalars::writeArith(rt::Arith function, PyObject *a, PyObject *b,
                        const rt::Number &result) {
  std::vector<PyjitValue> operands{operand(a)};
  if (b)
    operands.push_back(operand(b));
  return s.add(
      PyjitArithOp{.function = view(rt::kArithNames[unsigned(function)]),
                   .operands = view(operands),
                   .value = result.isFloat ? s.writer.real(result.real)
                                           : s.writer.integer(result.integer),
                   .resultType = typeOf(result)});
}

void Scalars::compare(rt::Compare function, PyObject *a, PyObject *b,
                      bool branches) {
  rt::Number x, y;
  bool outcome;
  if (!asNumber(a, x) || !asNumber(b, y) ||
      !rt::compare(function, x, y, outcome)) {
    specializeDeep(a);
    specializeDeep(b);
    return;
  }
  if (proxyOf(a) >= 0 || proxyOf(b) >= 0)
    return compareComputed(function, a, b, outcome, branches);
  PyjitValue first = operand(a), second = operand(b);
  if (!isOfSize(a) && !isOfSize(b))
    s.breaks.noteFixed(GraphBreaks::Fixes::Outcome, outcome);
  s.add(PyjitCompareOp{.function = view(rt::kCompareNames[unsigned(function)]),
                       .lhs = first,
                       .rhs = second,
                       .outcome = outcome});
}

void Scalars::keepWithin(PyObject *number, double lowest, double highest) {
  rt::Number value;
  if (!asNumber(number, value))
    return;
  double real = value.isFloat ? value.real : double(value.integer);
  if (!(real >= lowest && real <= highest))
    return specialize(number);
  auto bound = [&](rt::Compare function, double limit) {
    PyObject *object =
        value.isFloat ? PyFloat_FromDouble(limit) : PyLong_FromDouble(limit);
    s.objects.keep(object);
    Py_DECREF(object);
    compare(function, number, object);
  };
  bound(rt::Compare::Ge, lowest);
  bound(rt::Compare::Le, highest);
}

//===----------------------------------------------------------------------===//
// Numbers that the specialization computes
//===----------------------------------------------------------------------===//

/// A number was used in a way that the specialization cannot repeat with
/// another value.
void Scalars::lose(int site, bool data) {
  if (site >= 0)
    s.dataNumbers.lostSites.insert(site);
  if (data)
    return s.endWhole(ReasonKind::DataInPython,
                      "a tensor's data as a Python number");
  s.endWhole(ReasonKind::ChangingValue, "a number that the loop changes");
}

/// The offset of the branch that takes what the running instruction leaves, or
/// that it is; -1 if there is none. (True and False cannot be followed.)
int Scalars::nextJump() {
  const ShadowFrame &top = s.tracker.frames.back();
  if (!top.code || top.frame != frame)
    return -1;
  const CodeInfo &info = s.tracker.info(top.code);
  return isJumpIf(info.at(top.offset).op) ? top.offset
                                          : info.jumpBehind(top.offset);
}

NumberOperand Scalars::computed(PyObject *number, const std::string &device) {
  NumberOperand operand;
  asNumber(number, operand.number);
  auto it = tracked.find(number);
  if (it == tracked.end())
    return operand;
  if (it->second.proxy >= 0) {
    operand.proxy = it->second.proxy;
    return operand;
  }
  constexpr int64_t kMost = DataScalars::kCount;
  bool bounded = !operand.number.isFloat && operand.number.integer <= kMost &&
                 operand.number.integer >= -kMost;
  if (bounded && !it->second.specialized)
    keepWithin(number, -double(kMost), double(kMost));
  if (!it->second.specialized)
    operand.proxy =
        s.dataNumbers.liftNumber(operand.number, it->second.value, device,
                                 bounded ? kMost : DataScalars::kUnbounded);
  return operand;
}

bool Scalars::carry(PyObject *number, const std::string &device) {
  Tracked &entry = tracked.find(number)->second;
  if (entry.proxy >= 0)
    return s.dataNumbers.proxyDevice(entry.proxy) == device;
  int proxy = s.dataNumbers.liftNumber(entry.number, entry.value, device);
  if (proxy < 0)
    return false;
  entry.proxy = proxy;
  entry.value = -1;
  return true;
}

void Scalars::speculate(int proxy, bool outcome) {
  s.decisions.speculate(s.dataNumbers.proxyValue(proxy), outcome);
}

bool Scalars::compute(rt::Arith function, PyObject *a, PyObject *b,
                      const rt::Number &result) {
  Pending entry{frame, op, nullptr, nullptr, -1, result, {a, b}};
  entry.proxy = computeProxy(function, a, b, entry.data, entry.site);
  if (entry.proxy < 0)
    return false;
  pending.push_back(entry);
  return true;
}

int Scalars::computeProxy(rt::Arith function, PyObject *a, PyObject *b,
                          bool &data, int &site) {
  data = false;
  site = -1;
  std::string device;
  for (PyObject *number : {a, b})
    if (auto it = tracked.find(number);
        it != tracked.end() && it->second.proxy >= 0) {
      data |= it->second.data;
      site = std::max(site, it->second.site);
      device = s.dataNumbers.proxyDevice(it->second.proxy);
    }
  NumberOperand operands[2] = {computed(a, device)};
  if (b)
    operands[1] = computed(b, device);
  if (function == rt::Arith::TrueDiv && isFollowed(b)) {
    compare(rt::Compare::Ne, b, constant(0));
    operands[1].isNonzero = true;
  }
  std::vector<std::pair<int, bool>> expected;
  int proxy = s.dataNumbers.computeNumber(function, operands,
                                          data ? nullptr : &expected);
  if (proxy < 0)
    return -1;
  for (auto [flag, outcome] : expected)
    if (!s.dataNumbers.proxyIs(flag, outcome ? Py_True : Py_False))
      proxy = -1;
  if (proxy < 0 || s.ended())
    return -1;
  for (auto [flag, outcome] : expected)
    speculate(flag, outcome);
  return proxy;
}

/// What data decide is left to a branch; what a loop's numbers decide has to
/// be decided alike by each iteration.
void Scalars::compareComputed(rt::Compare function, PyObject *a, PyObject *b,
                              bool outcome, bool branches) {
  bool data = false;
  std::string device;
  for (PyObject *number : {a, b})
    if (auto it = tracked.find(number);
        it != tracked.end() && it->second.proxy >= 0) {
      data |= it->second.data;
      device = s.dataNumbers.proxyDevice(it->second.proxy);
    }
  int jump = data && branches ? nextJump() : -1;
  int flag = -1;
  if (!data || jump >= 0) {
    NumberOperand operands[2] = {computed(a, device), computed(b, device)};
    flag = s.dataNumbers.compareNumbers(function, operands);
  }
  if (flag < 0 || s.ended() ||
      !s.dataNumbers.proxyIs(flag, outcome ? Py_True : Py_False)) {
    specialize(a);
    specialize(b);
    return;
  }
  if (data)
    s.decisions.truthAhead = {frame, jump, flag};
  else
    speculate(flag, outcome);
}

bool Scalars::findData(PyObject *tensor, PyObject *item, bool negated) {
  static PyObject *own = findObject("torch:Tensor.__contains__");
  bool number =
      PyBool_Check(item) || PyLong_CheckExact(item) || PyFloat_CheckExact(item);
  if (s.surveying || s.ended() || s.tracker.frames.back().frame != frame ||
      !s.objects.isTensor(tensor) || !(number || s.objects.isTensor(item)))
    return false;
  int jump = nextJump();
  if (jump < 0 || s.attributes.special(tensor, "__contains__") != own)
    return false;
  specialize(item);
  s.containers.readDeep(item);
  int proxy =
      s.ended() ? -1 : s.dataNumbers.readContains(tensor, item, negated);
  if (proxy < 0)
    return false;
  s.decisions.truthAhead = {frame, jump, proxy};
  return true;
}

bool Scalars::readData(PyObject *tensor, NumberKind kind) {
  const ShadowFrame &top = s.tracker.frames.back();
  if (s.surveying || s.ended() || !top.code || top.frame != frame ||
      !takesArguments(s.tracker.info(top.code).at(top.offset).op))
    return false;
  bool truth = kind == NumberKind::Bool ||
               (kind == NumberKind::Own && DataScalars::isBool(tensor));
  int jump = truth ? nextJump() : -1;
  if (truth && jump < 0)
    return s.operators.assumesTruth(tensor);
  rt::Number number;
  if (int value = truth ? -1 : s.tensors->host().readAs(kind, tensor, number);
      value >= 0) {
    s.now.deciding = true;
    pending.push_back({frame, op, nullptr, nullptr, value, number, {}});
    return true;
  }
  int proxy = s.dataNumbers.readNumber(tensor, kind);
  if (proxy < 0)
    return false;
  int site = s.dataNumbers.noteSite();
  // The call itself is not recorded.
  s.now.deciding = true;
  if (truth) {
    s.decisions.truthAhead = {frame, jump, proxy};
    return true;
  }
  Pending entry{frame, op, nullptr, nullptr, -1, {}, {}};
  entry.proxy = proxy;
  entry.data = true;
  entry.site = site;
  pending.push_back(entry);
  return true;
}
