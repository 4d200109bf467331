//===- SetContents.cpp - What sets hold -----------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "objects/SetContents.h"
#include "Sets.h"
#include "objects/ObjectKinds.h"

#include <algorithm>

using namespace pyjit::capture;

using Elements = std::vector<PyObject *>;

Elements pyjit::capture::walkOver(PyObject *set) {
  Elements found;
  PyObject *element;
  Py_ssize_t position = 0;
  Py_hash_t hash;
  while (pyjitNextOfSet(set, &position, &element, &hash))
    found.push_back(element);
  return found;
}

std::vector<char> pyjit::capture::tableOf(PyObject *set) {
  std::vector<char> table(pyjitPlacesOfSet(set));
  for (size_t i = 0; i < table.size(); ++i)
    table[i] = char(pyjitPlaceOfSet(set, Py_ssize_t(i)));
  return table;
}

bool pyjit::capture::isReadByElements(PyObject *set) {
  constexpr Py_ssize_t kMostElements = 1024;
  Elements elements = walkOver(set);
  return PyAnySet_CheckExact(set) && PySet_GET_SIZE(set) <= kMostElements &&
         std::all_of(elements.begin(), elements.end(), isValue);
}

bool pyjit::capture::isHashedInC(PyObject *element) {
  if (!PyTuple_CheckExact(element))
    return isValue(element);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(element); ++i)
    if (!isHashedInC(PyTuple_GET_ITEM(element, i)))
      return false;
  return true;
}
