//===- SetOrder.cpp - Sets that are made again ----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "objects/SetOrder.h"
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

/// Hashed and compared without code of the program's.
static bool isPlain(PyObject *element) {
  if (!PyTuple_CheckExact(element))
    return isValue(element);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(element); ++i)
    if (!isPlain(PyTuple_GET_ITEM(element, i)))
      return false;
  return true;
}

/// Whether a new set of `elements` is walked over as `set` is.
static bool gives(const Elements &elements, const Elements &wanted) {
  PyObject *made = PySet_New(nullptr);
  for (PyObject *element : elements)
    PySet_Add(made, element);
  bool same = walkOver(made) == wanted;
  Py_DECREF(made);
  PyErr_Clear();
  return same;
}

/// The free place that CPython finds for a hash: the next ones, and then
/// others that all bits of the hash have a say in.
static size_t placeOf(Py_hash_t hash, const std::vector<bool> &taken) {
  constexpr size_t kLinearProbes = 9, kShift = 5;
  size_t mask = taken.size() - 1, perturb = hash, i = hash & mask;
  for (;;) {
    size_t last = i + kLinearProbes <= mask ? i + kLinearProbes : i;
    for (size_t at = i; at <= last; ++at)
      if (!taken[at])
        return at;
    perturb >>= kShift;
    i = (i * 5 + 1 + perturb) & mask;
  }
}

/// Elements in an order in which each comes to lie where it lies in the set's
/// table; fewer if there is none.
static Elements orderOfPlaces(PySetObject *set) {
  std::vector<bool> taken(set->mask + 1);
  std::vector<size_t> left;
  for (size_t i = 0; i <= size_t(set->mask); ++i)
    if (set->table[i].key && set->table[i].hash != -1)
      left.push_back(i);
  Elements found;
  for (bool moved = true; moved && !left.empty();) {
    moved = false;
    for (size_t &i : left)
      if (placeOf(set->table[i].hash, taken) == i) {
        taken[i] = moved = true;
        found.push_back(set->table[i].key);
        i = size_t(-1);
      }
    std::erase(left, size_t(-1));
  }
  return found;
}

std::optional<Elements> pyjit::capture::orderOfAdding(PyObject *set) {
  Elements wanted = walkOver(set);
  if (!std::all_of(wanted.begin(), wanted.end(), isPlain) ||
      gives(wanted, wanted))
    return wanted;
  Elements places = orderOfPlaces(reinterpret_cast<PySetObject *>(set));
  if (places.size() == wanted.size() && gives(places, wanted))
    return places;
  Elements backwards(wanted.rbegin(), wanted.rend());
  if (gives(backwards, wanted))
    return backwards;
  return std::nullopt;
}

bool pyjit::capture::hasFixedOrder(PyObject *set) {
  Elements elements = walkOver(set);
  return std::all_of(elements.begin(), elements.end(), [](PyObject *element) {
    return PyLong_CheckExact(element) || PyFloat_CheckExact(element) ||
           PyBool_Check(element) || element == Py_None;
  });
}
