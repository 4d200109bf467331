//===- DistinctObjects.cpp - Objects that are no others -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "DistinctObjects.h"

namespace pyjit::python {

PyObject *&DistinctObjects::find(PyObject *object) {
  // Objects lie at multiples of sixteen bytes (Fibonacci hashing, Knuth,
  // volume 3, section 6.4).
  uint64_t hash =
      (reinterpret_cast<uintptr_t>(object) >> 4) * UINT64_C(0x9E3779B97F4A7C15);
  size_t mask = table.size() - 1, place = (hash >> 32) & mask;
  while (table[place] && table[place] != object)
    place = (place + 1) & mask;
  return table[place];
}

bool DistinctObjects::check(const uint32_t *list, uint32_t count,
                            uint32_t written,
                            const std::vector<PyObject *> &registers) {
  size_t places = 16;
  while (places < 2 * size_t(written))
    places *= 2;
  table.assign(places, nullptr);
  for (uint32_t i = 0; i < count; ++i) {
    PyObject *object = registers[list[i]], *&place = find(object);
    if (place)
      return false;
    if (i < written)
      place = object;
  }
  return true;
}

} // namespace pyjit::python
