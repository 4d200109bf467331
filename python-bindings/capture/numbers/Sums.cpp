//===- Sums.cpp - sum() of numbers that differ between calls --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `sum()` starts from an int and adds each element to what it has. Beyond two
// floats it keeps what the additions round off, and adds that in the end:
// CPython's own, which no chain of additions gives.
//
//===----------------------------------------------------------------------===//

#include "Recording.h"
#include "builtins/Natives.h"
#include "numbers/Scalars.h"

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
    return track(number, result, writeArith(function, a, b, result));
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
  PyObject *total = nullptr;
  rt::Number addend;
  if (!sum.isOver && asNumber(number, addend) && sum.floats < 2)
    total = combine(rt::Arith::Add, sum.total, number);
  if (!total) {
    specializeDeep(number);
    if (!sum.isOver)
      specialize(sum.total);
    sum.isOver = true;
    return false;
  }
  sum.floats += addend.isFloat;
  sum.total = total;
  return true;
}

/// The running instruction of the sum's frame leaves it.
void Scalars::leaveSum(const Sum &sum) {
  pending.erase(
      std::remove_if(pending.begin(), pending.end(),
                     [&](const Pending &e) { return e.frame == sum.frame; }),
      pending.end());
  auto found = tracked.find(sum.total);
  if (sum.isOver || found == tracked.end())
    return;
  const Tracked &total = found->second;
  Pending entry{sum.frame, op, nullptr, nullptr, total.value, total.number, {}};
  entry.proxy = total.proxy;
  entry.data = total.data;
  entry.site = total.site;
  pending.push_back(entry);
}

Scalars::Sum Scalars::beginSum(PyObject *start) {
  rt::Number number;
  if (!start)
    return {frame, constant(0)};
  bool isFloat = asNumber(start, number) && number.isFloat;
  return {frame, start, isFloat};
}

/// `sum(numbers)` of a list or a tuple: false if it is something else.
bool Scalars::sumList(const Call &call) {
  static PyObject *builtin = findObject("builtins:sum");
  if (call.callable != builtin || call.args.empty() || call.args.size() > 2)
    return false;
  PyObject *list = call.args[0];
  if (!PyList_CheckExact(list) && !PyTuple_CheckExact(list))
    return false;
  PyObject **elements = PySequence_Fast_ITEMS(list);
  Py_ssize_t count = PySequence_Fast_GET_SIZE(list);
  rt::Number number;
  auto isNumber = [&](PyObject *o) { return asNumber(o, number); };
  if (!std::all_of(elements, elements + count, isNumber) ||
      (call.args.size() > 1 && !isNumber(call.args[1])))
    return false;
  Sum sum = beginSum(call.args.size() > 1 ? call.args[1] : nullptr);
  for (Py_ssize_t i = 0; i < count; ++i)
    addTo(sum, elements[i]);
  leaveSum(sum);
  return true;
}

/// `sum(f(x) for x in xs)`, whose elements come one by one.
void Scalars::sumYields(PyObject *start) {
  endSum(frame); // one that raised
  sums.push_back(beginSum(start));
  s.now.sumsYields = true;
}

bool Scalars::isSummed() const {
  const auto &frames = s.tracker.frames;
  return frames.size() > 1 && frames[frames.size() - 2].context.sumsYields;
}

void Scalars::yielded(PyObject *number) {
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
