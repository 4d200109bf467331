//===- Constants.h - A program's constants as Python objects ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_PYTHON_CONSTANTS_H
#define PYJIT_PYTHON_CONSTANTS_H

#include "Reference.h"

#include "pyjit-c/Programs.h"

#include <string>
#include <vector>

namespace pyjit::python {

/// The constant pool and the object table of one program, made once at load.
class Constants {
public:
  /// `objects`: the specialization's object table, a list (borrowed; its
  /// entries are kept alive). On failure returns false and says why.
  bool load(const PyjitPools &pools, PyObject *objects, std::string &error);

  PyObject *constant(size_t index) const { return constants[index].get(); }
  PyObject *object(size_t index) const {
    return PyList_GET_ITEM(table.get(), index);
  }
  template <typename Visit> void eachObject(Visit visit) const {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(table.get()); ++i)
      visit(object(i));
  }
  Py_hash_t hash(size_t index) const { return hashes[index]; }

private:
  Reference make(const PyjitPools &pools, const PyjitConstant &constant) const;

  Reference table;
  std::vector<Reference> constants;
  std::vector<Py_hash_t> hashes; // -1 where not hashable
};

/// Equal exact types and equal in depth; floats compare by bits. Runs no Python
/// code. `constant` is made of builtin immutable types; anything else in it is
/// compared by identity.
bool sameConstant(PyObject *value, PyObject *constant);

} // namespace pyjit::python

#endif // PYJIT_PYTHON_CONSTANTS_H
