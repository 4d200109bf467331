//===- Sums.cpp - sum() of numbers that differ between calls --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `sum()` starts from an int and adds each element to what it has. Beyond two
// floats it keeps what the additions round off, and adds that in the end
// (Neumaier's algorithm; with two floats this makes no difference).
//
// `max()` and `min()` of numbers compare each with the best so far. Of floats,
// and of what a generator yields (`max(len(t) for t in tensors)`), the
// specialization computes the best; else what each comparison came to is
// guarded, and the result is the element that it came to: a size, say, that
// others are known by.
//
//===----------------------------------------------------------------------===//

#include "Recording.h"
#include "builtins/Natives.h"
#include "numbers/Scalars.h"
#include "objects/ObjectKinds.h"

#include <algorithm>

using namespace pyjit;
using namespace pyjit::capture;

/// A new number, computed here and not by the running instruction; null if the
/// specialization cannot compute it.
PyObject *Scalars::combine(rt::Arith function, PyObject *a, PyObject *b) {
  rt::Number x, y, result;
  if (!asNumber(a, x) || !asNumber(b, y) ||
      !rt::compute(function, x, y, result))
    return nullptr;
  PyObject *number = makeNumber(s, result);
  if (!isTracked(a) && !isTracked(b))
    return number;
  if (proxyOf(a) < 0 && proxyOf(b) < 0)
    return track(number, result, writeArith(function, a, b, result),
                 isOfSize(a) || isOfSize(b));
  bool data;
  int site, proxy = computeProxy(function, a, b, data, site);
  if (proxy < 0 || !s.dataNumbers.proxyIs(proxy, number))
    return nullptr;
  PyObject *unique = track(number, result, -1);
  if (!unique)
    return nullptr;
  Tracked &made = tracked[unique];
  made.proxy = proxy;
  made.data = data;
  made.site = site;
  return unique;
}

/// False: what the sum is cannot be said, and all that went into it keeps its
/// value.
bool Scalars::addTo(Sum &sum, PyObject *number) {
  PyObject *total = nullptr, *lost = sum.lost;
  rt::Number addend;
  bool known = !sum.isOver && asNumber(number, addend);
  if (known && sum.best)
    total = sum.total ? combine(*sum.best, sum.total, number) : number;
  else if (known && !sum.best)
    total = combine(rt::Arith::Add, sum.total, number);
  if (total && !sum.best && addend.isFloat && sum.floats > 0) {
    lost = combine(rt::Arith::Lost, sum.total, number);
    if (lost && sum.lost)
      lost = combine(rt::Arith::Add, sum.lost, lost);
    if (!lost)
      total = nullptr;
  }
  if (!total) {
    for (PyObject *part : {number, sum.isOver ? nullptr : sum.total, sum.lost})
      specializeDeep(part);
    sum.isOver = true;
    return false;
  }
  sum.floats += addend.isFloat;
  sum.total = total;
  sum.lost = lost;
  return true;
}

/// The running instruction of the sum's frame leaves it.
void Scalars::leaveSum(const Sum &sum) {
  pending.erase(
      std::remove_if(pending.begin(), pending.end(),
                     [&](const Pending &e) { return e.frame == sum.frame; }),
      pending.end());
  if (sum.isOver)
    return;
  PyObject *total = sum.total;
  if (!sum.best && sum.floats > 2)
    total = combine(rt::Arith::Regain, total, sum.lost);
  if (!total) {
    specializeDeep(sum.total);
    return specializeDeep(sum.lost);
  }
  leaveResult(sum.frame, total);
}

/// A number that was computed here is what the running instruction of a frame
/// gives.
void Scalars::leaveResult(PyjitFrame *of, PyObject *number) {
  auto found = tracked.find(number);
  if (found == tracked.end())
    return;
  const Tracked &facts = found->second;
  Pending entry{of, op, nullptr, nullptr, facts.value, facts.number, {}};
  entry.proxy = facts.proxy;
  entry.data = facts.data;
  entry.site = facts.site;
  entry.ofSize = facts.ofSize;
  pending.push_back(entry);
}

Scalars::Sum Scalars::beginSum(PyObject *start) {
  rt::Number number;
  if (!start)
    return {frame, constant(0)};
  bool isFloat = asNumber(start, number) && number.isFloat;
  return {frame, start, isFloat};
}

/// Whether it is a list or a tuple of numbers.
static bool holdsNumbers(PyObject *object) {
  return (PyList_CheckExact(object) || PyTuple_CheckExact(object)) &&
         std::all_of(PySequence_Fast_ITEMS(object),
                     PySequence_Fast_ITEMS(object) +
                         PySequence_Fast_GET_SIZE(object),
                     isNumber);
}

/// What the running instruction takes from a list or a tuple: lifted numbers in
/// the place of those that stand there.
std::vector<PyObject *> Scalars::numbersIn(PyObject *sequence) {
  std::vector<PyObject *> elements = elementsOf(sequence);
  // A list that the call has changed holds the lifted numbers themselves.
  Node *node = s.objects.find(sequence);
  if (!node || !node->external || node->owned || node->appended)
    return elements;
  s.now.numbers = ReadNumbers::Computed;
  s.containers.readDeep(sequence);
  for (size_t i = 0; i < elements.size(); ++i) {
    auto read = reads.find(pathTo(node, Select::Item, nullptr, Py_ssize_t(i)));
    if (read != reads.end())
      elements[i] = read->second;
  }
  return elements;
}

/// `sum(numbers)` of a list or a tuple: false if it is something else.
bool Scalars::sumList(const Call &call) {
  static PyObject *builtin = findObject("builtins:sum");
  if (call.callable != builtin || call.args.empty() || call.args.size() > 2 ||
      !holdsNumbers(call.args[0]) ||
      (call.args.size() > 1 && !isNumber(call.args[1])))
    return false;
  Sum sum = beginSum(call.args.size() > 1 ? call.args[1] : nullptr);
  for (PyObject *element : numbersIn(call.args[0]))
    addTo(sum, element);
  leaveSum(sum);
  return true;
}

/// `max(a, b, …)`, `max(numbers)`, and likewise `min`: false if it is something
/// else.
bool Scalars::takeBest(const Call &call) {
  static PyObject *const largest = findObject("builtins:max");
  static PyObject *const least = findObject("builtins:min");
  bool min = call.callable == least;
  if ((!min && call.callable != largest) || call.kwnames || call.args.empty())
    return false;
  std::vector<PyObject *> numbers;
  if (call.args.size() == 1 && holdsNumbers(call.args[0]))
    numbers = numbersIn(call.args[0]);
  else if (call.args.size() > 1 &&
           std::all_of(call.args.begin(), call.args.end(), isNumber))
    numbers.assign(call.args.begin(), call.args.end());
  auto tracks = [&](PyObject *number) { return isTracked(number); };
  if (std::none_of(numbers.begin(), numbers.end(), tracks))
    return false;
  bool floats = std::all_of(numbers.begin(), numbers.end(), [&](PyObject *n) {
    return PyFloat_CheckExact(n) && !isOfSize(n);
  });
  PyObject *best = floats ? numbers[0] : nullptr;
  for (size_t i = 1; best && i < numbers.size(); ++i)
    best = combine(min ? rt::Arith::Min : rt::Arith::Max, best, numbers[i]);
  if (best)
    leaveResult(frame, best);
  else if ((best =
                compareAll(min ? rt::Compare::Lt : rt::Compare::Gt, numbers)))
    leaveResult(frame, best);
  else
    for (PyObject *number : numbers)
      specialize(number);
  return true;
}

/// The one of the numbers that is the result, or null.
PyObject *Scalars::compareAll(rt::Compare function,
                              const std::vector<PyObject *> &numbers) {
  PyObject *best = numbers[0];
  for (size_t i = 1; i < numbers.size(); ++i) {
    rt::Number x, y;
    bool outcome = false;
    asNumber(numbers[i], x);
    asNumber(best, y);
    if (!rt::compare(function, x, y, outcome))
      return nullptr;
    compare(function, numbers[i], best);
    if (outcome)
      best = numbers[i];
  }
  return best;
}

/// `sum(f(x) for x in xs)`, whose elements come one by one.
void Scalars::sumYields(PyObject *start) {
  endSum(frame); // one that raised
  sums.push_back(beginSum(start));
  s.now.sumsYields = true;
}

/// `max(f(x) for x in xs)`.
void Scalars::bestOfYields(rt::Arith function) {
  endSum(frame);
  sums.push_back({frame, nullptr});
  sums.back().best = function;
  s.now.sumsYields = true;
}

bool Scalars::isMoved() const {
  const auto &frames = s.tracker.frames;
  return frames.size() > 1 && frames[frames.size() - 2].context.movesYields;
}

bool Scalars::isSummed() const {
  const auto &frames = s.tracker.frames;
  return frames.size() > 1 && frames[frames.size() - 2].context.sumsYields;
}

void Scalars::yielded(PyObject *number) {
  if (!isSummed())
    return;
  const auto &frames = s.tracker.frames;
  for (Sum &sum : sums)
    if (sum.frame == frames[frames.size() - 2].frame) {
      addTo(sum, number);
      leaveSum(sum);
    }
}

void Scalars::endSum(PyjitFrame *of) {
  sums.erase(std::remove_if(sums.begin(), sums.end(),
                            [&](const Sum &sum) { return sum.frame == of; }),
             sums.end());
}
