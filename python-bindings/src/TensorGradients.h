// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===- TensorGradients.h - What a backward in a call leaves behind -*- C++
//-*-===//

#ifndef PYJIT_PYTHON_TENSORGRADIENTS_H
#define PYJIT_PYTHON_TENSORGRADIENTS_H

#include <Python.h>

namespace pyjit::python {

/// A tensor's gradient or None, a new reference; null where there is no tensor.
PyObject *readGradient(PyObject *tensor);
/// `gradient`: a tensor or None.
void setGradient(PyObject *tensor, PyObject *gradient);
/// Whether nobody is told when the leaf gets a gradient, of its own element
/// type.
bool isUnhooked(PyObject *leaf);
/// The number that a tensor of the CPU without dimensions holds (float32,
/// float64, int64), a new reference; null, and no error, for any other.
PyObject *readNumber(PyObject *tensor);
/// Such a tensor's element, which counts as no write.
void setNumber(PyObject *tensor, PyObject *number);
/// Gives the tensor a `grad_fn` that a backward has been through: another one
/// raises what eager raises.
void markFreed(PyObject *tensor);

} // namespace pyjit::python

#endif // PYJIT_PYTHON_TENSORGRADIENTS_H
