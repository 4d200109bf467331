//===- Attributes.h - Attributes, as CPython looks them up ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef PYJIT_CAPTURE_OBJECTS_ATTRIBUTES_H
#define PYJIT_CAPTURE_OBJECTS_ATTRIBUTES_H

#include "objects/Node.h"

namespace pyjit::capture {

class Recording;

/// Look-ups and stores, taken apart into the reads and writes that they are.
class Attributes {
public:
  explicit Attributes(Recording &recording) : s(recording) {}

  /// Looks `name` up along the MRO and records it; borrowed or null.
  PyObject *typeLookup(PyTypeObject *type, PyObject *name);
  PyObject *typeLookup(PyTypeObject *type, const char *name);
  /// `hidden`: what is found there is not what the attribute is.
  PyObject *typeLookup(PyTypeObject *type, PyObject *name, bool hidden);
  struct Found {
    enum Kind { Value, Fresh, Python, Absent } kind = Absent;
    PyObject *object = nullptr;
  };
  Found loadAttr(PyObject *object, PyObject *name);
  Found genericAttr(PyObject *object, PyObject *name, bool skipDict = false);
  void descriptorKind(PyObject *descr);
  Found superAttr(PyTypeObject *cls, PyObject *self, PyTypeObject *start,
                  PyObject *name);
  Found throughDescriptor(PyObject *descr, PyObject *object, PyObject *name);
  Found throughItem(PyObject *object, PyObject *name, PyObject *hook);
  bool storesItem(PyObject *object, PyObject *setter, PyObject *value);
  void storeAttr(PyObject *object, PyObject *name, PyObject *value);
  void writeAttr(PyObject *object, PyObject *name, PyObject *value);
  void genericStore(PyObject *object, PyObject *name, PyObject *value);
  void writeGradient(PyObject *object, PyObject *value);
  void writeSlot(PyObject *object, PyObject *descr, PyObject *name,
                 PyObject *value);
  /// `type(object)`'s special method; records the look-up. Python functions
  /// become known. Null if there is none.
  PyObject *special(PyObject *object, const char *name);

private:
  Recording &s;
};

} // namespace pyjit::capture

#endif // PYJIT_CAPTURE_OBJECTS_ATTRIBUTES_H
