//===- RecordObject.h - Records as Python objects ---------------*- C++ -*-===//

#ifndef PYJIT_PYTHON_RECORDOBJECT_H
#define PYJIT_PYTHON_RECORDOBJECT_H

#include "Record.h"

namespace pyjit::python {

/// Creates the type `pyjit._C.Record` and adds it to `module`.
bool addRecordType(PyObject *module);

bool isRecord(PyObject *object);
Record &recordOf(PyObject *object);

/// A new `Record` object that owns `record`.
PyObject *wrapRecord(std::unique_ptr<Record> record);

} // namespace pyjit::python

#endif // PYJIT_PYTHON_RECORDOBJECT_H
