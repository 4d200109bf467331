//===- ScalarInstructions.cpp - Numbers that instructions take ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Recording.h"
#include "builtins/Natives.h"
#include "interpreter/OpcodeTable.h"
#include "numbers/Scalars.h"

#include <torch/csrc/autograd/python_variable.h>

#include <opcode.h>

#include <algorithm>

using namespace pyjit;
using namespace pyjit::capture;

void Scalars::specializeOperands(PyjitFrame *of, const Instruction &in,
                                 int count) {
  for (int i = 1; i <= count && i <= in.depth; ++i)
    specializeDeep(pyjitFrameStack(of)[in.depth - i]);
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
  if (!enabled() || (tracked.empty() && !s.sizes.followed))
    return;
  // A slot of the tensor's type is a Python method: it is given the number.
  if (hasUse && currentUse.slot && currentUse.frame != current &&
      !currentUse.operators && !currentUse.composite)
    hasUse = false;
  endUse();
  cause = "Python looks at its value";
  if (madeRange.frame == current)
    madeRange.frame = nullptr;
  if (!ranges.empty())
    beforeRanges(in);
  if (!followNumbers(in))
    specializeLookedAt(in);
}

/// An operator of Python's on a tensor: which one it calls, and with what.
void Scalars::beginSlot(const std::string &name, PyObject *a, PyObject *b) {
  Call call;
  call.args = {a, b};
  beginUse(name, call);
  currentUse.slot = true;
}

/// Puts the object back that a number stands for.
void Scalars::restore(PyObject **slot) {
  auto it = tracked.find(*slot);
  if (it == tracked.end())
    return;
  specialize(*slot);
  PyObject *old = *slot;
  *slot = Py_NewRef(it->second.original);
  Py_DECREF(old);
}

/// Instructions whose result the specialization can say in terms of numbers:
/// true if this is one of them.
bool Scalars::followNumbers(const Instruction &in) {
  PyObject **stack = pyjitFrameStack(frame);
  auto peek = [&](int i) { return stack[in.depth - i]; };
  switch (infoOf(in.op).numbers) {
  case NumberUse::Arithmetic: {
    PyObject *a = peek(2), *b = peek(1);
    if (s.objects.isTensor(a) || s.objects.isTensor(b)) {
      beginSlot(tensorName(binaryName(in.arg)), a, b);
      return true;
    }
    int function = rt::findName(rt::kArithNames, binaryName(in.arg));
    if ((isTracked(a) || isTracked(b)) && function >= 0)
      arith(rt::Arith(function), a, b);
    else if (isTracked(a) || isTracked(b) || in.arg % 13 != 0)
      // Concatenation hands references on; everything else may look.
      specializeOperands(frame, in, 2);
    return true;
  }
  case NumberUse::Comparison: {
    PyObject *a = peek(2), *b = peek(1);
    static const rt::Compare functions[] = {rt::Compare::Lt, rt::Compare::Le,
                                            rt::Compare::Eq, rt::Compare::Ne,
                                            rt::Compare::Gt, rt::Compare::Ge};
    rt::Compare function = functions[comparisonOf(in.arg)];
    if (s.objects.isTensor(a) || s.objects.isTensor(b))
      beginSlot(rt::kCompareNames[unsigned(function)], a, b);
    else if (isTracked(a) || isTracked(b))
      compare(function, a, b, /*branches=*/true);
    else if (!compareSequences(function, a, b))
      specializeOperands(frame, in, 2);
    return true;
  }
  case NumberUse::Negation:
    if (isTracked(peek(1)))
      arith(rt::Arith::Neg, peek(1), nullptr);
    return true;
  case NumberUse::Truth:
  case NumberUse::BranchTruth:
    if (isTracked(peek(1))) {
      PyObject *zero = PyLong_FromLong(0);
      bool branches = infoOf(in.op).numbers == NumberUse::BranchTruth;
      compare(rt::Compare::Ne, peek(1), zero, branches);
      Py_DECREF(zero);
    }
    return true;
  case NumberUse::NextOf:
    if (ranges.count(peek(1)))
      nextOfRange(peek(1));
    return true;
  case NumberUse::Identity:
    // As it is without us.
    restore(&stack[in.depth - 1]);
    restore(&stack[in.depth - 2]);
    return true;
  case NumberUse::MovesReturned:
    returned(peek(1));
    return true;
  case NumberUse::Subscript:
    if (!s.sizes.followed || !s.objects.isTensor(peek(2)))
      return false;
    beginSubscript(peek(2), peek(1));
    return true;
  case NumberUse::Slice:
    if (!s.sizes.followed || !s.objects.isTensor(peek(3)))
      return false;
    beginSlice(peek(3), peek(2), peek(1));
    return true;
  case NumberUse::StoredItem:
    if (!s.sizes.followed || !s.objects.isTensor(peek(2)))
      return false;
    specializeDeep(peek(3));
    beginSubscript(peek(2), peek(1));
    currentUse.target = THPVariable_Unpack(peek(2));
    return true;
  case NumberUse::StoredSlice:
    if (!s.sizes.followed || !s.objects.isTensor(peek(3)))
      return false;
    specializeDeep(peek(4));
    beginSlice(peek(3), peek(2), peek(1));
    currentUse.target = THPVariable_Unpack(peek(3));
    return true;
  default:
    return false;
  }
}

/// A search finds a nan by its identity, which comparisons do not tell: what is
/// searched for is none.
void Scalars::searchesFor(PyObject *number) {
  if (isTracked(number) && PyFloat_CheckExact(number))
    compare(rt::Compare::Eq, number, number);
}

/// `n in (100, 200)`: a comparison with each number in turn, up to the first
/// that is equal. Elements are guarded where the sequence is read.
bool Scalars::compareElements(PyObject *number, PyObject *sequence) {
  rt::Number n, element;
  if (!isTracked(number) || proxyOf(number) >= 0 || !asNumber(number, n) ||
      (n.isFloat && n.real != n.real) || // found by its identity
      (!PyTuple_CheckExact(sequence) && !PyList_CheckExact(sequence)))
    return false;
  Py_ssize_t size = PySequence_Fast_GET_SIZE(sequence);
  PyObject **elements = PySequence_Fast_ITEMS(sequence);
  constexpr Py_ssize_t kMany = 64;
  if (size > kMany || !std::all_of(elements, elements + size, [&](PyObject *e) {
        return asNumber(e, element) && proxyOf(e) < 0;
      }))
    return false;
  searchesFor(number);
  for (Py_ssize_t i = 0; i < size; ++i) {
    bool equal = false;
    asNumber(elements[i], element);
    compare(rt::Compare::Eq, number, elements[i]);
    if (rt::compare(rt::Compare::Eq, n, element, equal) && equal)
      break;
  }
  return true;
}

/// `n in {100: 1, 200: 2}`: a comparison with the key that is equal, or with
/// all. Who asks reads the dict's keys (Containers::contains).
bool Scalars::compareKeys(PyObject *number, PyObject *dict) {
  static PyObject *own = findObject("builtins:dict.__contains__");
  rt::Number n, k;
  if (!isFollowed(number) || !asNumber(number, n) ||
      (n.isFloat && n.real != n.real) || !PyDict_Check(dict) ||
      (!PyDict_CheckExact(dict) &&
       s.attributes.special(dict, "__contains__") != own))
    return false;
  constexpr size_t kMany = 64;
  std::vector<PyObject *> keys;
  PyObject *key;
  Py_ssize_t position = 0;
  while (PyDict_Next(dict, &position, &key, nullptr)) {
    if (!asNumber(key, k) || keys.size() == kMany)
      return false;
    bool equal = false;
    if (rt::compare(rt::Compare::Eq, n, k, equal) && equal) {
      compare(rt::Compare::Eq, number, key);
      return true;
    }
    keys.push_back(key);
  }
  searchesFor(number);
  for (PyObject *other : keys)
    compare(rt::Compare::Eq, number, other);
  return true;
}

/// Numbers as holders, keys, bounds, text: their value matters. What is stored
/// keeps its identity.
void Scalars::specializeLookedAt(const Instruction &in) {
  PyObject **stack = pyjitFrameStack(frame);
  auto peek = [&](int i) { return stack[in.depth - i]; };
  switch (infoOf(in.op).numbers) {
  case NumberUse::Holder:
    if (isTracked(peek(1)))
      specialize(peek(1));
    return;
  case NumberUse::StoredAttribute:
    if (s.objects.isTensor(peek(1)) ||
        !PyType_HasFeature(Py_TYPE(peek(1)), Py_TPFLAGS_HEAPTYPE))
      specializeDeep(peek(2));
    return;
  case NumberUse::Subscript:
  case NumberUse::DeletedItem:
    return specializeDeep(peek(1));
  case NumberUse::Slice:
    return specializeOperands(frame, in, 2);
  case NumberUse::StoredItem:
    specializeDeep(peek(1));
    if (!PyDict_Check(peek(2)) && !PyList_CheckExact(peek(2)))
      specializeDeep(peek(3));
    return;
  case NumberUse::StoredSlice:
    specializeOperands(frame, in, 2);
    if (!PyList_CheckExact(peek(3)))
      specializeDeep(peek(4));
    return;
  case NumberUse::Contained:
    if (compareElements(peek(2), peek(1)) || compareKeys(peek(2), peek(1)))
      return;
    // A nan is found by its identity.
    restore(&stack[in.depth - 2]);
    // Keys were specialized when they were put in.
    specializeDeep(peek(2));
    if (!PyDict_Check(peek(1)) && !PyAnySet_Check(peek(1)))
      specializeDeep(peek(1));
    return;
  case NumberUse::Formatted: // and what says how
    return specializeOperands(frame, in, in.arg & 4 ? 2 : 1);
  case NumberUse::Intrinsic:
    if (in.arg != 6) // INTRINSIC_LIST_TO_TUPLE
      specializeOperands(frame, in, 1);
    return;
  case NumberUse::Keys:
    for (int i = 0; i < in.arg; ++i)
      specializeDeep(peek(2 * i + 2));
    return;
  case NumberUse::Elements:
    return specializeOperands(frame, in, in.arg);
  case NumberUse::Top:
    if (in.op == YIELD_VALUE && (isSummed() || isMoved()))
      return;
    return specializeOperands(frame, in, 1);
  case NumberUse::TopTwo:
    return specializeOperands(frame, in, 2);
  case NumberUse::Key:
    return specializeDeep(peek(2));
  case NumberUse::Raised:
    return specializeOperands(frame, in, in.arg);
  default:
    // Calls are looked at by what they call; the rest moves references, or ends
    // the capture.
    return;
  }
}

void Scalars::specializePending(const Pending &entry) {
  if (entry.proxy >= 0)
    return lose(entry.site, entry.data);
  if (entry.unique)
    return specialize(entry.unique);
  if (!entry.dims.empty())
    return specializeShape(entry);
  PyObject *object = entry.number.isFloat
                         ? PyFloat_FromDouble(entry.number.real)
                         : PyLong_FromLongLong(entry.number.integer);
  if (PyObject *unique =
          object ? track(object, entry.number, entry.value, entry.ofSize)
                 : nullptr)
    specialize(unique);
  Py_XDECREF(object);
  for (PyObject *number : entry.operands)
    specialize(number);
}

void Scalars::placeUnpacked(const Pending &entry, PyObject **top) {
  PyObject **slot = top ? top - entry.below : nullptr;
  if (!slot || *slot != entry.original)
    return specializePending(entry);
  *slot = Py_NewRef(entry.unique);
  Py_DECREF(entry.original);
}

void Scalars::after(PyjitFrame *current, PyObject **top, bool completed) {
  endSum(current);
  if (!enabled())
    return;
  if (hasUse && currentUse.frame == current)
    endUse();
  if (madeRange.frame == current)
    setRangeResult(completed && top ? *top : nullptr);
  std::vector<Pending> mine;
  for (size_t i = 0; i < pending.size();) {
    if (pending[i].frame != current) {
      ++i;
      continue;
    }
    if (pending[i].lookedAt) // a small int may be the result's very object
      specializePending(pending[i]);
    else if (pending[i].below >= 0)
      placeUnpacked(pending[i], completed ? top : nullptr);
    else
      mine.push_back(pending[i]);
    pending.erase(pending.begin() + i);
  }
  if (mine.empty())
    return;
  if (!completed || !top || !*top || mine.size() > 1) {
    for (const Pending &entry : mine)
      specializePending(entry);
    return;
  }
  Pending &entry = mine.front();
  PyObject *unique = entry.unique;
  rt::Number number;
  if (entry.proxy >= 0) {
    if (!asNumber(*top, number) || !s.dataNumbers.proxyIs(entry.proxy, *top))
      return specializePending(entry);
    unique = track(*top, number, -1);
    if (!unique)
      return;
    Tracked &made = tracked[unique];
    made.proxy = entry.proxy;
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
      return specializePending(entry);
    PyObject *old = *top;
    *top = size;
    Py_DECREF(old);
    return;
  }
  if (unique) {
    bool plain = entry.op == LOAD_ATTR || entry.op == LOAD_GLOBAL ||
                 entry.op == LOAD_DEREF || entry.op == BINARY_SUBSCR ||
                 entry.handedOn;
    // An iterator of a range makes an int anew each time.
    bool same = entry.op == FOR_ITER
                    ? asNumber(*top, number) && !number.isFloat &&
                          number.integer == entry.number.integer
                    : plain && *top == entry.original;
    if (!same)
      return specializePending(entry);
  } else {
    if (!asNumber(*top, number) || number.isFloat != entry.number.isFloat ||
        number.bits() != entry.number.bits())
      return specializePending(entry);
    unique = track(*top, number, entry.value, entry.ofSize);
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
    specializePending(entry);
  pending.clear();
}
