//===- MockWrites.cpp - Side effects of a call, made again ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Mock.h"

#include "CPython.h"
#include "ObjectReads.h"
#include "TensorGradients.h"

#include <c10/core/GradMode.h>
#include <structmember.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/autograd/variable.h>

namespace pyjit::python {
namespace {

/// Stores into a dict as its own type does, calling no override.
int storeKey(PyObject *dict, PyObject *key, PyObject *value) {
  return PyODict_Check(dict) ? PyODict_SetItem(dict, key, value)
                             : PyDict_SetItem(dict, key, value);
}

int deleteKey(PyObject *dict, PyObject *key) {
  int found = PyDict_Contains(dict, key);
  if (found < 1)
    return found;
  return PyODict_Check(dict) ? PyODict_DelItem(dict, key)
                             : PyDict_DelItem(dict, key);
}

/// Calls a method of a deque, which returns None.
bool callDeque(PyObject *deque, const char *method,
               PyObject *argument = nullptr) {
  PyObject *name = PyUnicode_InternFromString(method);
  PyObject *none =
      name ? PyObject_CallMethodObjArgs(deque, name, argument, nullptr)
           : nullptr;
  Py_XDECREF(name);
  Py_XDECREF(none);
  return none != nullptr;
}

/// Empties a dict as its own type does.
bool clearDict(PyObject *dict) {
  if (!PyODict_Check(dict)) {
    PyDict_Clear(dict);
    return true;
  }
  PyObject *none = PyObject_CallMethod(
      reinterpret_cast<PyObject *>(&PyODict_Type), "clear", "O", dict);
  Py_XDECREF(none);
  return none != nullptr;
}

int storeSlot(PyObject *object, PyObject *name, PyObject *value) {
  PyMemberDef *member = slotMember(object, name);
  if (!member) {
    PyErr_Format(PyExc_AttributeError, "%R has no slot %R", object, name);
    return -1;
  }
  auto *place = reinterpret_cast<PyObject **>(reinterpret_cast<char *>(object) +
                                              member->offset);
  PyObject *old = *place;
  *place = Py_XNewRef(value);
  Py_XDECREF(old);
  return 0;
}

/// `tensor.data = shown`.
bool setData(PyObject *tensor, PyObject *shown) {
  try {
    THPVariable_Unpack(tensor).set_data(THPVariable_Unpack(shown));
    return true;
  } catch (const std::exception &error) {
    PyErr_Format(PyExc_RuntimeError, "pyjit: setting a tensor's .data: %s",
                 error.what());
    return false;
  }
}

} // namespace

/// What a tensor holds, and what autograd knows of it.
bool Mock::writeTensor(const PyjitInst &inst,
                       const std::vector<PyObject *> &registers) {
  PyObject *a = registers[inst.a];
  auto b = [&] { return registers[inst.b]; };
  switch (inst.op) {
  case PYJIT_MOCK_COPY_BACK:
    if (b() == Py_None) { // the launch has written it
      const at::Tensor &input = THPVariable_Unpack(a);
      if (!input.is_inference())
        input.unsafeGetTensorImpl()->bump_version();
      return true;
    }
    try {
      // Autograd did not see the write: it was made under no_grad, or to a
      // tensor that does not require grad.
      c10::AutoGradMode noGrad(false);
      THPVariable_Unpack(a).copy_(THPVariable_Unpack(b()));
      return true;
    } catch (const std::exception &error) {
      PyErr_Format(PyExc_RuntimeError, "pyjit: writing an input back: %s",
                   error.what());
      return false;
    }
  case PYJIT_MOCK_ADVANCE: {
    at::TensorBase tensor = THPVariable_Unpack(a);
    if (!tensor.is_inference())
      setVersion(tensor, tensor._version() + inst.imm);
    return true;
  }
  case PYJIT_MOCK_REQUIRE_GRAD:
    THPVariable_Unpack(a).set_requires_grad(true);
    return true;
  case PYJIT_MOCK_FREED_GRAPH:
    markFreed(a);
    return true;
  case PYJIT_MOCK_SET_GRAD:
    setGradient(a, b());
    return true;
  case PYJIT_MOCK_SET_DATA:
    setNumber(a, b());
    return true;
  case PYJIT_MOCK_SET_STORAGE:
    return setData(a, b());
  }
  PyErr_Format(PyExc_SystemError, "pyjit: unknown mock instruction %d",
               int(inst.op));
  return false;
}

bool Mock::write(const PyjitInst &inst, std::vector<PyObject *> &registers) {
  PyObject *a = registers[inst.a];
  auto b = [&] { return registers[inst.b]; };
  auto name = [&] { return constants.constant(inst.imm); };
  switch (inst.op) {
  case PYJIT_MOCK_SET_ATTR:
    return PyObject_GenericSetAttr(a, name(), b()) == 0;
  case PYJIT_MOCK_SET_ITEM:
    if (PyDict_Check(a))
      return storeKey(a, name(), b()) == 0;
    return PyList_SetItem(a, PyLong_AsSsize_t(name()), Py_NewRef(b())) == 0;
  case PYJIT_MOCK_SET_TYPEATTR:
    return PyObject_SetAttr(a, name(), b()) == 0;
  case PYJIT_MOCK_SET_CELL:
    return PyCell_Set(closureCell(a, inst.imm), b()) == 0;
  case PYJIT_MOCK_SET_SLOT:
    return storeSlot(a, name(), b()) == 0;
  case PYJIT_MOCK_DEL_ATTR: {
    PyObject *dict = instanceDict(a);
    return !dict || deleteKey(dict, name()) >= 0;
  }
  case PYJIT_MOCK_DEL_ITEM:
    if (PyDict_Check(a))
      return deleteKey(a, name()) >= 0;
    if (PyAnySet_Check(a))
      return PySet_Discard(a, name()) >= 0;
    return PySequence_DelItem(a, PyLong_AsSsize_t(name())) == 0;
  case PYJIT_MOCK_DEL_TYPEATTR:
    return PyObject_SetAttr(a, name(), nullptr) == 0;
  case PYJIT_MOCK_DEL_CELL:
    return PyCell_Set(closureCell(a, inst.imm), nullptr) == 0;
  case PYJIT_MOCK_DEL_SLOT:
    if (PyContextToken_CheckExact(a))
      return PyContextVar_Reset(pyjitTokenVariable(a), a) == 0;
    return storeSlot(a, name(), nullptr) == 0;
  case PYJIT_MOCK_APPEND:
    if (pyjitIsCache(a)) {
      pyjitCacheHit(a, b());
      return true;
    }
    return PyList_Check(a)   ? PyList_Append(a, b()) == 0
           : pyjitIsDeque(a) ? callDeque(a, "append", b())
                             : PySet_Add(a, b()) == 0;
  case PYJIT_MOCK_REPLACE: {
    PyObject *elements = makeTuple(registers, inst.b, inst.imm);
    if (!elements)
      return false;
    bool ok;
    if (PyList_Check(a)) {
      ok = PyList_SetSlice(a, 0, PyList_GET_SIZE(a), elements) == 0;
    } else if (pyjitIsDeque(a)) {
      ok = callDeque(a, "clear") && callDeque(a, "extend", elements);
    } else {
      ok = PySet_Clear(a) == 0;
      for (uint32_t i = 0; ok && i < inst.imm; ++i)
        ok = PySet_Add(a, PyTuple_GET_ITEM(elements, i)) == 0;
    }
    Py_DECREF(elements);
    return ok;
  }
  case PYJIT_MOCK_CLEAR:
    return clearDict(a);
  default:
    return writeTensor(inst, registers);
  }
}

} // namespace pyjit::python
