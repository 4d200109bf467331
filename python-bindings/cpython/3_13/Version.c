//===- Version.c - What only CPython 3.13 does this way -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#define Py_BUILD_CORE 1
#include "CPython.h"
#include "Sets.h"

#include "internal/pycore_dict.h"
#include "internal/pycore_frame.h"
#include "internal/pycore_pystate.h"
#include "internal/pycore_setobject.h"

#if PY_VERSION_HEX < 0x030D0000 || PY_VERSION_HEX >= 0x030E0000
#error "this file is for CPython 3.13"
#endif

PyjitFrame *pyjitFrameOnTop(void) { return PyThreadState_Get()->current_frame; }

PyCodeObject *pyjitFrameCode(PyjitFrame *frame) {
  return _PyFrame_GetCode(frame);
}

/* Watchers are not told of stores to inline values, not even when there is a
   dict of them: from here on the dict has its own. (As `o.__dict__ =
   o.__dict__` does it.) */
PyObject *pyjitInstanceDict(PyObject *object) {
  PyObject **slot = _PyObject_GetDictPtr(object);
  PyObject *dict = slot ? *slot : NULL;
  if (dict && PyType_HasFeature(Py_TYPE(object), Py_TPFLAGS_INLINE_VALUES) &&
      _PyObject_InlineValues(object)->valid &&
      _PyObject_SetManagedDict(object, dict) < 0)
    PyErr_Clear();
  return dict;
}

int pyjitNextOfSet(PyObject *set, Py_ssize_t *position, PyObject **element,
                   Py_hash_t *hash) {
  return _PySet_NextEntry(set, position, element, hash);
}

int pyjitCacheEntries(int opcode) {
  switch (opcode) {
  case BINARY_SUBSCR:
  case STORE_SUBSCR:
  case UNPACK_SEQUENCE:
  case FOR_ITER:
  case COMPARE_OP:
  case CONTAINS_OP:
  case BINARY_OP:
  case SEND:
  case LOAD_SUPER_ATTR:
  case JUMP_BACKWARD:
  case POP_JUMP_IF_TRUE:
  case POP_JUMP_IF_FALSE:
  case POP_JUMP_IF_NONE:
  case POP_JUMP_IF_NOT_NONE:
    return 1;
  case CALL:
  case TO_BOOL:
    return 3;
  case STORE_ATTR:
  case LOAD_GLOBAL:
    return 4;
  case LOAD_ATTR:
    return 9;
  default:
    return 0;
  }
}
