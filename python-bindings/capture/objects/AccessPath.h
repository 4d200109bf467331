//===- AccessPath.h - Where a guard reads something -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An access path (the *source* of a guard) begins at an argument of the call or
// at an object that is known by identity, and leads from holder to holder to a
// number, a tensor or a size or stride of one. Recorder, guards and the engine
// tell by their paths which numbers differ between calls.
//
//===----------------------------------------------------------------------===//
#ifndef PYJIT_CAPTURE_ACCESSPATH_H
#define PYJIT_CAPTURE_ACCESSPATH_H

#include <Python.h>

#include <compare>
#include <optional>
#include <string>
#include <vector>

namespace pyjit::capture {

class AccessPath {
public:
  enum class Step : unsigned char {
    Attr,   ///< `.name`
    Slot,   ///< `.name`, of a `__slots__`
    Key,    ///< `["name"]`
    Item,   ///< `[index]`
    Entry,  ///< `[key]`, of a dict, by a key that is known by identity
    Cell,   ///< the contents of a closure's cell
    Field,  ///< what CPython keeps in C, of an iterator
    Size,   ///< of a tensor's dimension
    Stride, ///< likewise, in elements
    Class,  ///< `.name` of a class, in it or what it inherits from
    Value   ///< `[name]`, of a dict: the key is a value that is written so
  };

  /// The path to nothing that has a name.
  AccessPath() = default;
  static AccessPath argument(int number);
  /// `object` has to stay alive.
  static AccessPath object(PyObject *object);

  /// Empty where this one is.
  AccessPath then(Step step, std::string name) const;
  AccessPath then(Step step, int64_t index) const;
  /// A dict's entry; a `key` that is no value has to stay alive.
  AccessPath entry(PyObject *key) const;
  AccessPath size(int64_t dim) const { return then(Step::Size, dim); }
  AccessPath stride(int64_t dim) const { return then(Step::Stride, dim); }

  /// Whether a field of this name leads to another object, as an attribute
  /// does: what a bound method is given first, what a weak reference shows.
  static bool leadsOn(PyObject *name);

  bool empty() const { return number < 0 && !root; }
  explicit operator bool() const { return !empty(); }
  /// The argument that it begins at, or -1.
  int getArgument() const { return number; }
  /// Whether it leads to a part of a tensor's layout: a size, or a stride.
  bool isSize() const { return endsWith(Step::Size) || endsWith(Step::Stride); }
  bool isField() const { return endsWith(Step::Field); }
  bool isPosition() const {
    return isField() && steps.back().name == "position";
  }
  /// Whether its first step is to an element.
  bool beginsWithItem() const {
    return !steps.empty() && steps[0].step == Step::Item;
  }

  /// Whether the other begins with this one.
  bool leadsTo(const AccessPath &other) const;

  /// What it is called where `arguments` are given and `values` are arguments:
  /// for each of these that it leads through, the way from there; itself where
  /// it begins at an object. What an object holds is looked up where it is one
  /// of `alive`; others may be gone. Runs none of the user's code.
  std::vector<AccessPath> seenFrom(const std::vector<PyObject *> &arguments,
                                   const std::vector<PyObject *> &values,
                                   const std::vector<PyObject *> &alive) const;

  /// For readers: `#0.weight$1` (argument 0, an attribute, size 1; `%` is a
  /// stride).
  std::string text() const;

  bool operator==(const AccessPath &) const = default;
  auto operator<=>(const AccessPath &) const = default;

private:
  struct Element {
    Step step;
    int64_t index = 0;
    std::string name;        ///< empty: `index` counts
    PyObject *key = nullptr; ///< of an entry; compared only
    bool operator==(const Element &) const = default;
    auto operator<=>(const Element &) const = default;
  };
  bool endsWith(Step step) const {
    return !steps.empty() && steps.back().step == step;
  }
  AccessPath from(int argument, size_t step) const;
  static PyObject *follow(PyObject *holder, const Element &element);

  int number = -1;          ///< of the argument
  PyObject *root = nullptr; ///< or the object; compared only
  std::vector<Element> steps;
};

/// Adds the type `AccessPath` to the module: immutable, compared by contents.
bool addAccessPathType(PyObject *module);
/// A new reference.
PyObject *wrapAccessPath(const AccessPath &path);
/// Null, with a TypeError, where it is none.
const AccessPath *accessPathOf(PyObject *object);

} // namespace pyjit::capture

#endif // PYJIT_CAPTURE_ACCESSPATH_H
