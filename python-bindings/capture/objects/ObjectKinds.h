//===- ObjectKinds.h - Kinds of objects, told by their type -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef PYJIT_CAPTURE_OBJECTKINDS_H
#define PYJIT_CAPTURE_OBJECTKINDS_H

#include <Python.h>

#include <cstring>
#include <string>
#include <vector>

namespace pyjit::capture {

inline bool isHeapType(PyTypeObject *type) {
  return PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE);
}
/// An instance of a class that is not built in.
inline bool isHeap(PyObject *o) { return isHeapType(Py_TYPE(o)); }

/// Values: immutable, compared by content, known concretely wherever they are.
bool isValue(PyObject *object);
/// A value that is equal to nothing: containers find it by its identity.
bool isNan(PyObject *object);
/// Whether a key of a dict or a set is one, or a tuple with one in it.
bool holdsNan(PyObject *key);
/// Objects that live as long as the process and need no path: static types,
/// their methods, torch's dtypes.
bool isProcessConstant(PyObject *object);
std::string typeName(PyObject *object);

/// Native iterators over things that were read when they were made.
bool isNativeIterator(PyObject *o);
inline bool isRangeIterator(PyObject *o) {
  return Py_TYPE(o) == &PyRangeIter_Type || Py_TYPE(o) == &PyLongRangeIter_Type;
}
/// Views over things that were read when they were made.
bool isView(PyObject *o);
/// Iterators and views that make a tuple for each step; others hand out what
/// is known.
bool makesTuples(PyObject *o);
/// A property, or one of a class of Python's that hands out as properties do
/// (of which `__get__` was looked up).
bool isProperty(PyObject *descr);
/// The elements of a list or a tuple as they lie there, borrowed: what a
/// subclass says of its iteration is not asked.
std::vector<PyObject *> elementsOf(PyObject *sequence);
/// What iterating over a list, a tuple or a deque gives, borrowed.
std::vector<PyObject *> elementsIn(PyObject *sequence);

/// Compared by identity, or by C code over immutable data.
bool isPlainObject(PyObject *o);
/// A new list of a dict's keys, in the order in which Python shows them, which
/// an OrderedDict keeps beside the dict that it is.
PyObject *keysInOrder(PyObject *dict);
/// An `nn.Module`.
bool isModule(PyObject *o);
inline bool isTorchSize(PyObject *o) {
  return !std::strcmp(Py_TYPE(o)->tp_name, "torch.Size");
}
/// What `pyjit.compile` makes of a function: called, and bound, as it is.
inline bool isCompiledFunction(PyObject *o) {
  return !std::strcmp(Py_TYPE(o)->tp_name, "pyjit._C.CompiledFunction");
}
inline bool isDefaultDict(PyObject *o) {
  return !std::strcmp(Py_TYPE(o)->tp_name, "collections.defaultdict");
}
/// Torch's immutable descriptions: dtypes, devices, sizes, ...
bool isTorchValueType(PyTypeObject *type);
/// A class that pybind11 has made: its attributes are found as those of others,
/// but for functions of C++.
bool isPybindClass(PyTypeObject *type);
/// An enumeration of C++'s, whose members are known by identity.
bool isPybindEnum(PyTypeObject *type);

} // namespace pyjit::capture

#endif // PYJIT_CAPTURE_OBJECTKINDS_H
