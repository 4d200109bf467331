//===- SpecializationObject.h - The type Specialization ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_PYTHON_SPECIALIZATIONOBJECT_H
#define PYJIT_PYTHON_SPECIALIZATIONOBJECT_H

#include "Specialization.h"

namespace pyjit::python {

/// Creates the type `pyjit._C.Specialization` and adds it to `module`.
bool addSpecializationType(PyObject *module);

bool isSpecialization(PyObject *object);
Specialization &specializationOf(PyObject *object);

/// A new `Specialization` object that owns `specialization`.
PyObject *wrapSpecialization(std::unique_ptr<Specialization> specialization);

} // namespace pyjit::python

#endif // PYJIT_PYTHON_SPECIALIZATIONOBJECT_H
