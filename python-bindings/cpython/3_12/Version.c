//===- Version.c - What only CPython 3.12 does this way
//--------------------===//

#define Py_BUILD_CORE 1
#include "CPython.h"

#include "internal/pycore_frame.h"
#include "internal/pycore_pystate.h"

#if PY_VERSION_HEX < 0x030C0000 || PY_VERSION_HEX >= 0x030D0000
#error "this file is for CPython 3.12"
#endif

static PyjitFrame *skipCStack(PyjitFrame *frame) {
  while (frame && frame->owner == FRAME_OWNED_BY_CSTACK)
    frame = frame->previous;
  return frame;
}

PyjitFrame *pyjitCurrentFrame(void) {
  return skipCStack(PyThreadState_Get()->cframe->current_frame);
}

PyjitFrame *pyjitPreviousFrame(PyjitFrame *frame) {
  return skipCStack(frame->previous);
}

PyCodeObject *pyjitFrameCode(PyjitFrame *frame) { return frame->f_code; }
PyObject *pyjitFrameFunction(PyjitFrame *frame) { return frame->f_funcobj; }
PyObject *pyjitFrameGlobals(PyjitFrame *frame) { return frame->f_globals; }
PyObject *pyjitFrameBuiltins(PyjitFrame *frame) { return frame->f_builtins; }
PyObject **pyjitFrameLocals(PyjitFrame *frame) { return frame->localsplus; }
PyObject **pyjitFrameStack(PyjitFrame *frame) {
  return _PyFrame_Stackbase(frame);
}
PyObject *pyjitFrameNamespace(PyjitFrame *frame) { return frame->f_locals; }
int pyjitFrameIsGenerator(PyjitFrame *frame) {
  return frame->owner == FRAME_OWNED_BY_GENERATOR;
}

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
