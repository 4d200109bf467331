//===- Ranges.cpp - Loops that count --------------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An iterator of a range is three numbers: the one that comes next, the step,
// and how many are left. A continuation whose frame holds one that nobody else
// refers to takes the first and the last as inputs, so that the specialization
// does not depend on where the loop stands: FOR_ITER is a comparison, an
// addition and a subtraction. What looks at the iterator in any other way fixes
// its numbers.
//
//===----------------------------------------------------------------------===//

#include "Recording.h"
#include "numbers/Scalars.h"

#include <opcode.h>

using namespace pyjit;
using namespace pyjit::capture;

/// An int that lives as long as the recording.
PyObject *Scalars::constant(long value) {
  PyObject *object = PyLong_FromLong(value);
  s.objects.keep(object);
  Py_DECREF(object);
  return object;
}

/// A number that a range counts by; null if that ended the recording.
PyObject *Scalars::derive(rt::Arith function, PyObject *a, PyObject *b) {
  rt::Number x, y, result;
  if (!asNumber(a, x) || !asNumber(b, y) ||
      !rt::compute(function, x, y, result) || result.isFloat) {
    s.endWhole(ReasonKind::TooMuch, "a range of very large numbers");
    return nullptr;
  }
  PyObject *number = combine(function, a, b);
  if (!number) {
    specialize(a);
    specialize(b);
    if (!s.ended())
      s.endWhole(ReasonKind::ChangingValue, "a number that the loop changes");
  }
  return number;
}

void Scalars::followRange(PyObject *iterator, Py_ssize_t index,
                          PyObject *name) {
  Range parts;
  long next, left;
  pyjitRangeParts(iterator, &next, &parts.step, &left);
  int number = s.objects.pin(reinterpret_cast<PyObject *>(&PyLong_Type))->index;
  int kind =
      s.objects.pin(reinterpret_cast<PyObject *>(Py_TYPE(iterator)))->index;
  std::string label = name ? utf8(name) : "";
  PyjitValue holder =
      s.add(PyjitGetOp{.holder = s.objects.external,
                       .selector = PyjitSelectorArg,
                       .key = s.writer.integer(index),
                       .label = view(label),
                       .exactType = some(kind),
                       .resultType = s.objects.irType(iterator)});
  auto field = [&](const char *what, PyjitAttribute value, const char *type) {
    return PyjitGetOp{.holder = holder,
                      .selector = PyjitSelectorField,
                      .key = s.writer.string(what),
                      .equals = value,
                      .resultType = s.writer.object(type)};
  };
  auto lift = [&](const char *what, long value) {
    PyjitGetOp get = field(what, s.writer.integer(value), "int");
    get.exactType = some(number);
    get.lift = true;
    return track(constant(value), rt::Number::of(int64_t(value)), s.add(get));
  };
  // Another holder would see the specialization's loop leave its iterator as it
  // was.
  s.add(field("alone", s.writer.boolean(true), "bool"));
  s.add(field("step", s.writer.integer(parts.step), "int"));
  parts.next = lift("next", next);
  parts.left = lift("left", left);
  if (!parts.next || !parts.left)
    return;
  ranges[iterator] = parts;
  s.objects.allocated(iterator);
}

bool Scalars::rangeParts(PyObject *iterator, Range &parts) {
  long next, left;
  if (!pyjitRangeParts(iterator, &next, &parts.step, &left))
    return false;
  auto found = ranges.find(iterator);
  if (found == ranges.end()) {
    parts.next = constant(next);
    parts.left = constant(left);
    return true;
  }
  parts = found->second;
  rt::Number known, count;
  return asNumber(parts.next, known) && known.integer == next &&
         asNumber(parts.left, count) && count.integer == left;
}

void Scalars::specializeRange(PyObject *range) {
  auto found = ranges.find(range);
  if (found == ranges.end())
    return;
  Range parts = found->second;
  ranges.erase(found);
  specializeParts(parts, range);
}

/// What a range, or an iterator of one, counts by; `made`: it itself, or null.
void Scalars::specializeParts(const Range &parts, PyObject *made) {
  specialize(parts.next);
  specialize(parts.left);
  if (!made || !PyRange_Check(made))
    return;
  // Ranges with other ends may count as far.
  PyObject *stop = PyObject_GetAttrString(made, "stop");
  s.objects.keep(stop);
  Py_DECREF(stop);
  specialize(stop);
}

/// `range` of ints, some of which are followed; false if the range is not.
bool Scalars::makeRange(const Call &call) {
  size_t count = call.args.size();
  if (call.kwnames || count < 1 || count > 3 || madeRange.frame)
    return false;
  bool any = false;
  for (PyObject *argument : call.args) {
    rt::Number number;
    if (!asNumber(argument, number) || number.isFloat || proxyOf(argument) >= 0)
      return false;
    any |= isTracked(argument);
  }
  // Where sizes are followed no loop goes round in a specialization, and one
  // that is unrolled (`range(x.shape[0])`) needs its number of iterations.
  if (!any || s.sizes.followed)
    return false;
  PyObject *start = count > 1 ? call.args[0] : constant(0);
  PyObject *stop = call.args[count > 1];
  rt::Number step = rt::Number::of(int64_t(1)), first, last;
  if (count == 3) {
    specialize(call.args[2]);
    asNumber(call.args[2], step);
  }
  asNumber(start, first);
  asNumber(stop, last);
  // Far from where CPython makes iterators of another kind.
  constexpr int64_t kMost = int64_t(1) << 31;
  auto fits = [](int64_t value) { return value > -kMost && value < kMost; };
  if (!step.integer || !fits(step.integer) || !fits(first.integer) ||
      !fits(last.integer))
    return false;
  auto within = [&](PyObject *number) {
    if (isTracked(number))
      keepWithin(number, double(-kMost), double(kMost));
  };
  within(start);
  within(stop);
  bool up = step.integer > 0;
  int64_t by = up ? step.integer : -step.integer;
  compare(up ? rt::Compare::Gt : rt::Compare::Lt, stop, start);
  PyObject *left = constant(0);
  if (up ? last.integer > first.integer : last.integer < first.integer) {
    left = derive(rt::Arith::Sub, up ? stop : start, up ? start : stop);
    if (left && by != 1) {
      left = derive(rt::Arith::Add, left, constant(long(by - 1)));
      if (left)
        left = derive(rt::Arith::FloorDiv, left, constant(long(by)));
    }
  }
  if (left && !s.ended())
    madeRange = {frame, {start, long(step.integer), left}};
  return true;
}

/// The instruction has made the range, or the iterator.
void Scalars::setRangeResult(PyObject *made) {
  Range parts = madeRange.parts;
  madeRange.frame = nullptr;
  long next, step, left;
  rt::Number first, count;
  bool known = made && asNumber(parts.next, first) &&
               asNumber(parts.left, count) && s.objects.find(made);
  if (known && PyRange_Check(made)) {
    known = PyObject_Size(made) == count.integer;
  } else if (known) {
    known = pyjitRangeParts(made, &next, &step, &left) &&
            next == first.integer && step == parts.step &&
            left == count.integer;
  }
  PyErr_Clear();
  if (known) {
    ranges[made] = parts;
    return;
  }
  specializeParts(parts, made);
}

/// Whatever looks at a range, other than a loop.
void Scalars::beforeRanges(const Instruction &in) {
  PyObject **stack = pyjitFrameStack(frame);
  if (in.op == GET_ITER) {
    auto range = ranges.find(stack[in.depth - 1]);
    if (range != ranges.end() && PyRange_Check(range->first))
      madeRange = {frame, range->second};
    return;
  }
  if (in.op == FOR_ITER || GraphBreaks::onlyMoves(in.op))
    return;
  int pops = 3, pushes;
  if (!CodeInfo::stackUse(in, pops, pushes))
    pops = in.depth;
  for (int i = 1; i <= pops && i <= in.depth; ++i)
    if (PyObject *object = stack[in.depth - i])
      specializeRange(object);
}

/// FOR_ITER of an iterator that is followed.
void Scalars::nextOfRange(PyObject *iterator) {
  Range &range = ranges.find(iterator)->second;
  Range now;
  if (!rangeParts(iterator, now))
    return s.endWhole(ReasonKind::NativeFunction,
                      "an iterator of a range that moved unseen");
  rt::Number left, next;
  asNumber(range.left, left);
  asNumber(range.next, next);
  compare(rt::Compare::Gt, range.left, constant(0));
  if (s.ended())
    return;
  if (left.integer <= 0) {
    s.decisions.heads.ranOut = s.decisions.heads.count > 0;
    return;
  }
  PyObject *given = range.next;
  PyObject *after = derive(rt::Arith::Add, given, constant(range.step));
  PyObject *rest =
      after ? derive(rt::Arith::Sub, range.left, constant(1)) : nullptr;
  if (!rest)
    return;
  range.next = after;
  range.left = rest;
  // What the frame finds is this very number.
  if (isTracked(given))
    pending.push_back({frame, op, given, given, -1, next, {}});
}
