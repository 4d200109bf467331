//===- Version.c - What only CPython 3.12 does this way -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#define Py_BUILD_CORE 1
#include "CPython.h"
#include "Sets.h"

#include "internal/pycore_frame.h"
#include "internal/pycore_pystate.h"

#if PY_VERSION_HEX < 0x030C0000 || PY_VERSION_HEX >= 0x030D0000
#error "this file is for CPython 3.12"
#endif

PyjitFrame *pyjitFrameOnTop(void) {
  return PyThreadState_Get()->cframe->current_frame;
}

PyCodeObject *pyjitFrameCode(PyjitFrame *frame) { return frame->f_code; }

PyObject *pyjitInstanceDict(PyObject *object) {
  PyObject **slot = _PyObject_GetDictPtr(object);
  return slot ? *slot : NULL;
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
  case BINARY_OP:
  case SEND:
  case LOAD_SUPER_ATTR:
    return 1;
  case CALL:
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
