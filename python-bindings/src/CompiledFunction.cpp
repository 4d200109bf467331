//===- CompiledFunction.cpp - The callable that pyjit.compile returns -----===//
//
// Written against CPython's C API directly: this is the path that answers a
// call in microseconds.
//
//===----------------------------------------------------------------------===//

#include "CompiledFunction.h"

#include "Cut.h"
#include "Record.h"
#include "RecordObject.h"

#include "capture/Recorder.h"

#include <structmember.h>

#include <algorithm>
#include <new>
#include <vector>

namespace pyjit::python {
namespace {

struct CompiledFunction {
  PyObject_HEAD vectorcallfunc vectorcall;
  PyObject *target;
  PyObject *miss;
  PyObject *dict;
  PyObject *weakrefs;
  uint64_t hits, misses, eagerCalls;
  /// Strong; most recently hit first, but those whose launch may not answer in
  /// front: the others may be made for the same calls, with a cut in them.
  std::vector<PyObject *> *records;
};

CompiledFunction *self_of(PyObject *object) {
  return reinterpret_cast<CompiledFunction *>(object);
}

/// How many records stand in front whatever is hit.
size_t countFront(const std::vector<PyObject *> &records) {
  return std::find_if(records.begin(), records.end(),
                      [](PyObject *record) {
                        return !recordOf(record).mayNotAnswer();
                      }) -
         records.begin();
}

PyObject *callMiss(CompiledFunction *self, PyObject *const *args, size_t nargsf,
                   PyObject *kwnames) {
  ++self->misses;
  Py_ssize_t positional = PyVectorcall_NARGS(nargsf);
  PyObject *tuple = PyTuple_New(positional);
  PyObject *kwargs = PyDict_New();
  PyObject *result = nullptr;
  bool ok = tuple && kwargs;
  for (Py_ssize_t i = 0; ok && i < positional; ++i)
    PyTuple_SET_ITEM(tuple, i, Py_NewRef(args[i]));
  for (Py_ssize_t i = 0; ok && kwnames && i < PyTuple_GET_SIZE(kwnames); ++i)
    ok = PyDict_SetItem(kwargs, PyTuple_GET_ITEM(kwnames, i),
                        args[positional + i]) == 0;
  if (ok)
    result = PyObject_CallFunctionObjArgs(self->miss, tuple, kwargs, nullptr);
  Py_XDECREF(tuple);
  Py_XDECREF(kwargs);
  return result;
}

/// See `Answer`: everything but what follows a cut.
PyObject *answer(PyObject *callable, PyObject *const *args, size_t nargsf,
                 PyObject *kwnames, PyObject **cut) {
  CompiledFunction *self = self_of(callable);
  // A monitored run looks through compiled functions: it captures the whole.
  if (capture::isCapturing())
    return PyObject_Vectorcall(self->target, args, nargsf, kwnames);
  Py_ssize_t nargs =
      PyVectorcall_NARGS(nargsf) + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0);
  // By index: a guard may run no Python code, but a hit's mock may, and that
  // code may clear the records.
  for (size_t i = 0; i < self->records->size(); ++i) {
    PyObject *holder = Py_NewRef((*self->records)[i]);
    PyObject *result = nullptr;
    Record &record = recordOf(holder);
    Record::Outcome outcome = record.call(args, nargs, kwnames, &result);
    if (outcome == Record::Outcome::Hit) {
      ++self->hits;
      ++record.hits;
      *cut = Py_XNewRef(record.cut);
      if (i > 0 && i < self->records->size() && (*self->records)[i] == holder) {
        size_t first = record.mayNotAnswer() ? 0 : countFront(*self->records);
        std::rotate(self->records->begin() + first, self->records->begin() + i,
                    self->records->begin() + i + 1);
      }
    }
    Py_DECREF(holder);
    switch (outcome) {
    case Record::Outcome::Miss:
      continue;
    case Record::Outcome::Error:
      ++self->eagerCalls;
      return PyObject_Vectorcall(self->target, args, nargsf, kwnames);
    case Record::Outcome::Hit:
    case Record::Outcome::Raise:
      return result;
    }
  }
  return callMiss(self, args, nargsf, kwnames);
}

PyObject *vectorcall(PyObject *callable, PyObject *const *args, size_t nargsf,
                     PyObject *kwnames) {
  PyObject *cut = nullptr;
  PyObject *result = answer(callable, args, nargsf, kwnames, &cut);
  return cut ? goOn(cut, result, answer) : result;
}

PyObject *create(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  PyObject *target, *miss;
  static const char *names[] = {"target", "miss", nullptr};
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO:CompiledFunction",
                                   const_cast<char **>(names), &target, &miss))
    return nullptr;
  auto *self = reinterpret_cast<CompiledFunction *>(type->tp_alloc(type, 0));
  if (!self)
    return nullptr;
  self->vectorcall = vectorcall;
  self->target = Py_NewRef(target);
  self->miss = Py_NewRef(miss);
  self->records = new std::vector<PyObject *>();
  return reinterpret_cast<PyObject *>(self);
}

void dropRecords(CompiledFunction *self) {
  std::vector<PyObject *> dropped;
  dropped.swap(*self->records);
  for (PyObject *record : dropped)
    Py_DECREF(record);
}

int traverse(PyObject *object, visitproc visit, void *arg) {
  CompiledFunction *self = self_of(object);
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(self->target);
  Py_VISIT(self->miss);
  Py_VISIT(self->dict);
  for (PyObject *record : *self->records)
    Py_VISIT(record);
  return 0;
}

int clearReferences(PyObject *object) {
  CompiledFunction *self = self_of(object);
  Py_CLEAR(self->target);
  Py_CLEAR(self->miss);
  Py_CLEAR(self->dict);
  dropRecords(self);
  return 0;
}

void destroy(PyObject *object) {
  PyTypeObject *type = Py_TYPE(object);
  PyObject_GC_UnTrack(object);
  CompiledFunction *self = self_of(object);
  if (self->weakrefs)
    PyObject_ClearWeakRefs(object);
  clearReferences(object);
  delete self->records;
  type->tp_free(object);
  Py_DECREF(type);
}

/// As a class attribute it binds like a function.
PyObject *bind(PyObject *self, PyObject *instance, PyObject *) {
  if (!instance || instance == Py_None)
    return Py_NewRef(self);
  return PyMethod_New(self, instance);
}

PyObject *represent(PyObject *self) {
  return PyUnicode_FromFormat("<pyjit compiled %R>", self_of(self)->target);
}

PyObject *addRecord(PyObject *self, PyObject *record) {
  if (!isRecord(record)) {
    PyErr_SetString(PyExc_TypeError, "add_record takes a Record");
    return nullptr;
  }
  auto &records = *self_of(self)->records;
  size_t first = recordOf(record).mayNotAnswer() ? 0 : countFront(records);
  records.insert(records.begin() + first, Py_NewRef(record));
  Py_RETURN_NONE;
}

PyObject *clear(PyObject *self, PyObject *) {
  CompiledFunction *function = self_of(self);
  dropRecords(function);
  function->hits = function->misses = function->eagerCalls = 0;
  Py_RETURN_NONE;
}

PyObject *dropAll(PyObject *self, PyObject *) {
  dropRecords(self_of(self));
  Py_RETURN_NONE;
}

PyObject *dropOne(PyObject *self, PyObject *record) {
  auto &records = *self_of(self)->records;
  auto found = std::find(records.begin(), records.end(), record);
  if (found != records.end()) {
    records.erase(found);
    Py_DECREF(record);
  }
  Py_RETURN_NONE;
}

PyObject *getRecords(PyObject *self, void *) {
  auto &records = *self_of(self)->records;
  PyObject *list = PyList_New(records.size());
  for (size_t i = 0; list && i < records.size(); ++i)
    PyList_SET_ITEM(list, i, Py_NewRef(records[i]));
  return list;
}

PyMethodDef methods[] = {
    {"add_record", addRecord, METH_O, "Adds a record; it is tried first."},
    {"drop_record", dropOne, METH_O, "Forgets a record."},
    {"drop_records", dropAll, METH_NOARGS, "Forgets all records."},
    {"clear", clear, METH_NOARGS, "Forgets all records and counters."},
    {nullptr, nullptr, 0, nullptr}};

PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(CompiledFunction, vectorcall),
     READONLY, nullptr},
    {"__dictoffset__", T_PYSSIZET, offsetof(CompiledFunction, dict), READONLY,
     nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(CompiledFunction, weakrefs),
     READONLY, nullptr},
    {"target", T_OBJECT, offsetof(CompiledFunction, target), READONLY,
     "What is compiled."},
    {"hits", T_ULONGLONG, offsetof(CompiledFunction, hits), READONLY,
     "Calls answered by compiled code."},
    {"misses", T_ULONGLONG, offsetof(CompiledFunction, misses), READONLY,
     "Calls that met no record."},
    {"eager_calls", T_ULONGLONG, offsetof(CompiledFunction, eagerCalls), 0,
     "Calls answered by eager PyTorch."},
    {nullptr, 0, 0, 0, nullptr}};

PyGetSetDef getset[] = {{"records", getRecords, nullptr,
                         "The records, most recently hit first.", nullptr},
                        {"__dict__", PyObject_GenericGetDict,
                         PyObject_GenericSetDict, nullptr, nullptr},
                        {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyType_Slot slots[] = {
    {Py_tp_new, reinterpret_cast<void *>(create)},
    {Py_tp_dealloc, reinterpret_cast<void *>(destroy)},
    {Py_tp_traverse, reinterpret_cast<void *>(traverse)},
    {Py_tp_clear, reinterpret_cast<void *>(clearReferences)},
    {Py_tp_call, reinterpret_cast<void *>(PyVectorcall_Call)},
    {Py_tp_descr_get, reinterpret_cast<void *>(bind)},
    {Py_tp_repr, reinterpret_cast<void *>(represent)},
    {Py_tp_methods, methods},
    {Py_tp_members, members},
    {Py_tp_getset, getset},
    {0, nullptr}};

PyType_Spec spec = {"pyjit._C.CompiledFunction", sizeof(CompiledFunction), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC |
                        Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_IMMUTABLETYPE,
                    slots};

} // namespace

bool addCompiledFunctionType(PyObject *module) {
  PyObject *type = PyType_FromModuleAndSpec(module, &spec, nullptr);
  if (!type)
    return false;
  bool ok = PyModule_AddObjectRef(module, "CompiledFunction", type) == 0;
  Py_DECREF(type);
  return ok;
}

} // namespace pyjit::python
