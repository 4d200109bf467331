//===- CPython.c - What is the same in every supported version ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#define Py_BUILD_CORE 1
#include "CPython.h"

#include "internal/pycore_context.h"
#include "internal/pycore_descrobject.h"
#include "internal/pycore_frame.h"
#include "internal/pycore_interp.h"
#include "internal/pycore_long.h"
#include "internal/pycore_moduleobject.h"
#include "internal/pycore_object.h"
#include "internal/pycore_pystate.h"
#include "internal/pycore_range.h"

/* In Version.c: the thread's innermost frame, of C code's calls, too. */
PyjitFrame *pyjitFrameOnTop(void);

static PyjitFrame *skipCStack(PyjitFrame *frame) {
  while (frame && frame->owner == FRAME_OWNED_BY_CSTACK)
    frame = frame->previous;
  return frame;
}

PyjitFrame *pyjitCurrentFrame(void) { return skipCStack(pyjitFrameOnTop()); }

PyjitFrame *pyjitPreviousFrame(PyjitFrame *frame) {
  return skipCStack(frame->previous);
}

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

PyjitFrame *pyjitSuspendedFrame(PyObject *generator, int *offset) {
  PyGenObject *self = (PyGenObject *)generator;
  if (self->gi_frame_state == FRAME_CREATED ||
      self->gi_frame_state >= FRAME_EXECUTING)
    return NULL;
  PyjitFrame *frame = (PyjitFrame *)self->gi_iframe;
  *offset = _PyInterpreterFrame_LASTI(frame) * (int)sizeof(_Py_CODEUNIT);
  return frame;
}

PyObject *pyjitTypeLookup(PyTypeObject *type, PyObject *name) {
  return _PyType_Lookup(type, name);
}

PyMethodDef *pyjitMethodDef(PyObject *callable) {
  if (PyCFunction_Check(callable))
    return ((PyCFunctionObject *)callable)->m_ml;
  if (Py_IS_TYPE(callable, &PyMethodDescr_Type) ||
      Py_IS_TYPE(callable, &PyClassMethodDescr_Type))
    return ((PyMethodDescrObject *)callable)->d_method;
  return NULL;
}

typedef struct {
  PyObject_HEAD PyWrapperDescrObject *descr;
  PyObject *self;
} MethodWrapper;

/* CPython does not export it in each version. */
static PyTypeObject *methodWrapperType(void) {
  static PyTypeObject *type;
  if (!type) {
    PyObject *wrapper = PyObject_GetAttrString(Py_None, "__repr__");
    type = wrapper ? (PyTypeObject *)Py_NewRef(Py_TYPE(wrapper)) : NULL;
    Py_XDECREF(wrapper);
  }
  return type;
}

int pyjitIsMethodWrapper(PyObject *object) {
  return Py_TYPE(object) == methodWrapperType();
}

PyObject *pyjitMethodWrapperDescr(PyObject *wrapper) {
  return (PyObject *)((MethodWrapper *)wrapper)->descr;
}

void *pyjitWrappedSlot(PyObject *wrapper) {
  if (pyjitIsMethodWrapper(wrapper))
    wrapper = pyjitMethodWrapperDescr(wrapper);
  return ((PyWrapperDescrObject *)wrapper)->d_wrapped;
}

const char *pyjitWrapperName(PyObject *wrapper) {
  if (pyjitIsMethodWrapper(wrapper))
    wrapper = pyjitMethodWrapperDescr(wrapper);
  return ((PyWrapperDescrObject *)wrapper)->d_base->name;
}

PyTypeObject *pyjitDescrType(PyObject *descr) {
  return ((PyDescrObject *)descr)->d_type;
}

PyObject *pyjitDescrName(PyObject *descr) {
  return ((PyDescrObject *)descr)->d_name;
}

// classmethod and staticmethod have the same, private, layout.
typedef struct {
  PyObject_HEAD PyObject *callable;
  PyObject *dict;
} CallableHolder;

PyObject *pyjitInnerCallable(PyObject *object) {
  if (PyObject_TypeCheck(object, &PyClassMethod_Type) ||
      PyObject_TypeCheck(object, &PyStaticMethod_Type))
    return ((CallableHolder *)object)->callable;
  return NULL;
}

typedef struct {
  PyObject_HEAD PyObject *get;
  PyObject *set;
  PyObject *del;
  PyObject *doc;
  PyObject *name;
  int getterDoc;
} Property;

PyObject *pyjitPropertyGetter(PyObject *property) {
  return ((Property *)property)->get;
}

PyObject *pyjitPropertySetter(PyObject *property) {
  return ((Property *)property)->set;
}

typedef struct {
  PyObject_HEAD PyTypeObject *type;
  PyObject *obj;
  PyTypeObject *objType;
} Super;

int pyjitSuperParts(PyObject *super, PyTypeObject **type, PyObject **object,
                    PyTypeObject **objectType) {
  if (!Py_IS_TYPE(super, &PySuper_Type))
    return 0;
  Super *parts = (Super *)super;
  *type = parts->type;
  *object = parts->obj;
  *objectType = parts->objType;
  return parts->obj != NULL;
}

typedef struct {
  PyObject_HEAD Py_ssize_t index;
  PyObject *doc;
} TupleGetter;

Py_ssize_t pyjitTupleGetterIndex(PyObject *descr) {
  if (strcmp(Py_TYPE(descr)->tp_name, "collections._tuplegetter") != 0)
    return -1;
  return ((TupleGetter *)descr)->index;
}

PyObject *pyjitTokenVariable(PyObject *token) {
  return (PyObject *)((PyContextToken *)token)->tok_var;
}

int pyjitTokenUsed(PyObject *token) {
  return ((PyContextToken *)token)->tok_used;
}

PyObject *pyjitVariableToReset(PyObject *token) {
  PyContextToken *of = (PyContextToken *)token;
  int resets =
      !of->tok_used && (PyObject *)of->tok_ctx == PyThreadState_Get()->context;
  return resets ? (PyObject *)of->tok_var : NULL;
}

PyObject *pyjitModuleDict(PyObject *module) {
  return ((PyModuleObject *)module)->md_dict;
}

long pyjitWarningFilters(void) {
  return PyInterpreterState_Get()->warnings.filters_version;
}

PyObject *pyjitUniqueCopy(PyObject *value) {
  if (PyFloat_CheckExact(value))
    return PyFloat_FromDouble(PyFloat_AS_DOUBLE(value));
  if (PyLong_CheckExact(value)) {
    PyLongObject *from = (PyLongObject *)value;
    Py_ssize_t digits = _PyLong_DigitCount(from);
    PyLongObject *copy = _PyLong_New(digits ? digits : 1);
    if (!copy)
      return NULL;
    copy->long_value.lv_tag = from->long_value.lv_tag;
    memcpy(copy->long_value.ob_digit, from->long_value.ob_digit,
           (digits ? digits : 1) * sizeof(digit));
    return (PyObject *)copy;
  }
  if (PyUnicode_CheckExact(value) && PyUnicode_GET_LENGTH(value) > 0) {
    PyObject *copy = PyUnicode_New(PyUnicode_GET_LENGTH(value),
                                   PyUnicode_MAX_CHAR_VALUE(value));
    if (copy)
      memcpy(PyUnicode_DATA(copy), PyUnicode_DATA(value),
             PyUnicode_GET_LENGTH(value) * PyUnicode_KIND(value));
    return copy;
  }
  return NULL;
}

int pyjitHoldCollection(void) {
  int *threshold = &PyInterpreterState_Get()->gc.generations[0].threshold;
  int before = *threshold;
  *threshold = 0;
  return before;
}

void pyjitAllowCollection(int threshold) {
  int *now = &PyInterpreterState_Get()->gc.generations[0].threshold;
  if (!*now) /* else the program has set it */
    *now = threshold;
}

int pyjitRangeParts(PyObject *iterator, long *next, long *step, long *left) {
  if (!Py_IS_TYPE(iterator, &PyRangeIter_Type))
    return 0;
  _PyRangeIterObject *range = (_PyRangeIterObject *)iterator;
  *next = range->start;
  *step = range->step;
  *left = range->len > 0 ? range->len : 0;
  return 1;
}

/* As Modules/_functoolsmodule.c declares them. */
typedef struct LruLink {
  PyObject_HEAD struct LruLink *prev, *next;
  Py_hash_t hash;
  PyObject *key, *result;
} LruLink;

typedef struct {
  LruLink root;
  ternaryfunc wrapper;
  int typed;
  PyObject *cache;
  Py_ssize_t hits;
} LruCache;

static PyTypeObject *lruCacheType(void) {
  static PyTypeObject *type;
  if (!type) {
    PyObject *error = PyErr_GetRaisedException();
    PyObject *module = PyImport_ImportModule("_functools");
    if (module)
      type =
          (PyTypeObject *)PyObject_GetAttrString(module, "_lru_cache_wrapper");
    Py_XDECREF(module);
    PyErr_Clear();
    PyErr_SetRaisedException(error);
  }
  return type;
}

int pyjitIsDeque(PyObject *object) {
  return !strcmp(Py_TYPE(object)->tp_name, "collections.deque");
}

PyObject *pyjitCache(PyObject *object) {
  if (Py_TYPE(object) != lruCacheType())
    return NULL;
  PyObject *cache = ((LruCache *)object)->cache;
  return cache && PyDict_CheckExact(cache) ? cache : NULL;
}

int pyjitIsCache(PyObject *object) { return pyjitCache(object) != NULL; }

void pyjitCacheHit(PyObject *object, PyObject *entry) {
  LruCache *self = (LruCache *)object;
  ++self->hits;
  if (!pyjitCacheLink(entry))
    return;
  LruLink *link = (LruLink *)entry, *root = &self->root;
  PyObject *error = PyErr_GetRaisedException();
  /* Somebody may have thrown it out since it was looked at. */
  if (_PyDict_GetItem_KnownHash(self->cache, link->key, link->hash) == entry) {
    link->prev->next = link->next;
    link->next->prev = link->prev;
    link->prev = root->prev;
    link->next = root;
    root->prev->next = link;
    root->prev = link;
  }
  PyErr_SetRaisedException(error);
}

int pyjitCacheTyped(PyObject *object) { return ((LruCache *)object)->typed; }

PyObject *pyjitCacheLink(PyObject *object) {
  return strcmp(Py_TYPE(object)->tp_name, "functools._lru_list_elem")
             ? NULL
             : ((LruLink *)object)->result;
}
