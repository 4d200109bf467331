//===- ListNumbers.cpp - Lists of numbers that the call changes -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "numbers/ListNumbers.h"
#include "objects/ObjectKinds.h"

#include <algorithm>
#include <cmath>
#include <numeric>

using namespace pyjit;
using namespace pyjit::capture;

/// Numbers of which comparisons say where each stands: no nan is among them.
static bool areOrdered(const std::vector<PyObject *> &elements) {
  return std::all_of(elements.begin(), elements.end(), [](PyObject *element) {
    return isNumber(element) && !(PyFloat_CheckExact(element) &&
                                  std::isnan(PyFloat_AS_DOUBLE(element)));
  });
}

static bool holds(rt::Compare function, PyObject *a, PyObject *b) {
  rt::Number x, y;
  bool outcome = false;
  return asNumber(a, x) && asNumber(b, y) &&
         rt::compare(function, x, y, outcome) && outcome;
}

/// What is not followed is known.
void ListNumbers::compare(rt::Compare function, PyObject *a, PyObject *b) {
  if (scalars.isTracked(a) || scalars.isTracked(b))
    scalars.compare(function, a, b);
}

/// Elements keep their values, and are found by their identity, too.
void ListNumbers::specialize(PyObject *list) {
  scalars.cause = "a list's elements are compared";
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i) {
    PyObject *element = PyList_GET_ITEM(list, i);
    scalars.specializeDeep(element);
    auto known = scalars.tracked.find(element);
    if (known == scalars.tracked.end())
      continue;
    PyList_SET_ITEM(list, i, Py_NewRef(known->second.original));
    Py_DECREF(element);
  }
}

/// Each element is compared with its neighbour in the result.
void ListNumbers::sort(PyObject *list, bool reverse) {
  std::vector<PyObject *> elements = elementsOf(list);
  if (scalars.tracked.empty())
    return;
  if (!areOrdered(elements))
    return specialize(list);
  rt::Compare before = reverse ? rt::Compare::Gt : rt::Compare::Lt;
  rt::Compare orEqual = reverse ? rt::Compare::Ge : rt::Compare::Le;
  std::vector<size_t> order(elements.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t i, size_t j) {
    return holds(before, elements[i], elements[j]);
  });
  // Of equals, the earlier one stays in front.
  for (size_t i = 1; i < order.size(); ++i)
    compare(order[i - 1] < order[i] ? orEqual : before, elements[order[i - 1]],
            elements[order[i]]);
}

/// Up to the first that is equal.
void ListNumbers::remove(PyObject *list, PyObject *number) {
  std::vector<PyObject *> elements = elementsOf(list);
  if (scalars.tracked.empty())
    return;
  if (!areOrdered(elements) || !isNumber(number)) {
    scalars.specializeDeep(number);
    return specialize(list);
  }
  scalars.searchesFor(number);
  for (PyObject *element : elements) {
    compare(rt::Compare::Eq, element, number);
    if (holds(rt::Compare::Eq, element, number))
      return;
  }
}
