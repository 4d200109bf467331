// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===- CPython.h - What the recorder needs of CPython's inside -*- C -*-=//
//
// The only door to the interpreter's private structures. The implementation is
// C, because CPython's internal headers are: CPython.c where all versions that
// are supported agree, <version>/Version.c elsewhere.
//
//===----------------------------------------------------------------------===//
#ifndef PYJIT_CPYTHON_CPYTHON_H
#define PYJIT_CPYTHON_CPYTHON_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "Version.h"

#ifdef __cplusplus
extern "C" {
#endif

/// An interpreter frame. Valid only while the frame lives.
typedef struct _PyInterpreterFrame PyjitFrame;

/// The innermost Python frame of this thread, or null.
PyjitFrame *pyjitCurrentFrame(void);
/// The Python frame below, frames of the C stack skipped.
PyjitFrame *pyjitPreviousFrame(PyjitFrame *frame);

PyCodeObject *pyjitFrameCode(PyjitFrame *frame);
PyObject *pyjitFrameFunction(PyjitFrame *frame);
PyObject *pyjitFrameGlobals(PyjitFrame *frame);
PyObject *pyjitFrameBuiltins(PyjitFrame *frame);
/// Locals, cells and free variables, then the operand stack.
PyObject **pyjitFrameLocals(PyjitFrame *frame);
PyObject **pyjitFrameStack(PyjitFrame *frame);
/// The dict that a class body's names go to; null in a function.
PyObject *pyjitFrameNamespace(PyjitFrame *frame);
int pyjitFrameIsGenerator(PyjitFrame *frame);
/// The frame of a generator that waits at a `yield`, and the offset that it has
/// come to; null if it does not wait.
PyjitFrame *pyjitSuspendedFrame(PyObject *generator, int *offset);

/// The instance `__dict__` of `object`, borrowed; materialised where CPython
/// keeps inline values, so that watchers hear of stores of attributes. Null
/// where there is none (no error set).
PyObject *pyjitInstanceDict(PyObject *object);

/// `lookup` along the MRO of `type` without calling descriptors; borrowed.
PyObject *pyjitTypeLookup(PyTypeObject *type, PyObject *name);

/// A bound C method's or function's definition; null for other objects.
PyMethodDef *pyjitMethodDef(PyObject *callable);
/// The slot function behind a wrapper descriptor or a method wrapper.
void *pyjitWrappedSlot(PyObject *wrapper);
const char *pyjitWrapperName(PyObject *wrapper);
/// The descriptor of a method wrapper (`x.__init__` of a C slot).
PyObject *pyjitMethodWrapperDescr(PyObject *wrapper);
PyTypeObject *pyjitDescrType(PyObject *descr);
PyObject *pyjitDescrName(PyObject *descr);
int pyjitIsMethodWrapper(PyObject *object);
/// The callable inside a classmethod or staticmethod object; null for others.
PyObject *pyjitInnerCallable(PyObject *object);
PyObject *pyjitPropertyGetter(PyObject *property);
PyObject *pyjitPropertySetter(PyObject *property);
/// Type, class and object of a super object.
int pyjitSuperParts(PyObject *super, PyTypeObject **type, PyObject **object,
                    PyTypeObject **objectType);
/// The index behind a namedtuple's field; -1 for other objects.
Py_ssize_t pyjitTupleGetterIndex(PyObject *descr);
/* Keeps the collector from running by itself; what is handed back lets it run
   again, unless the program has set the threshold since. */
int pyjitHoldCollection(void);
void pyjitAllowCollection(int threshold);
/// Exactly a collections.deque.
int pyjitIsDeque(PyObject *object);
/// The dict of a functools.lru_cache, borrowed; null for other objects.
PyObject *pyjitCache(PyObject *object);
/// Whether it tells arguments apart by type.
int pyjitCacheTyped(PyObject *object);
/// A bounded cache's dict holds links: the result in one, borrowed; else null.
PyObject *pyjitCacheLink(PyObject *object);
/// Whether it is a functools.lru_cache that keeps anything.
int pyjitIsCache(PyObject *object);
/// What a call does that an lru_cache answers by `entry`, a value of its dict:
/// one hit more, and the entry is the latest.
void pyjitCacheHit(PyObject *object, PyObject *entry);
/// The context variable that a token of it belongs to, borrowed, and whether
/// the token has been used.
PyObject *pyjitTokenVariable(PyObject *token);
int pyjitTokenUsed(PyObject *token);
/// The variable that a reset by this token changes, borrowed; null where that
/// raises: it was used, or was made in another context.
PyObject *pyjitVariableToReset(PyObject *token);
PyObject *pyjitModuleDict(PyObject *module);
/// How often this interpreter's warning filters have changed.
long pyjitWarningFilters(void);
/// A number or string equal to `value` that is an object of its own, even where
/// CPython keeps one for all. Null for other types.
PyObject *pyjitUniqueCopy(PyObject *value);
/// Of a range's iterator: the number that comes next, the step, and how many
/// are left. False for other objects.
int pyjitRangeParts(PyObject *iterator, long *next, long *step, long *left);

/// An iterator over a container, or over what other iterators hand on.
typedef struct {
  /// Of one over a list, a tuple, a text, a dict, or of `reversed`: what it
  /// walks over, borrowed; else null.
  PyObject *container;
  /// The index that comes next; of a dict how many are left; of `enumerate` the
  /// number that comes next.
  Py_ssize_t position;
  /// Of `enumerate` and `zip`: the iterators in it, borrowed.
  PyObject *const *inner;
  Py_ssize_t numInner;
  int strict; ///< `zip(..., strict=True)`
} PyjitIteratorParts;
/// False for other objects, and for one that has run out or whose dict has
/// changed.
int pyjitIteratorParts(PyObject *iterator, PyjitIteratorParts *parts);
/// The iterator of which `elements`, a tuple, are the parts: container and
/// position, inner iterator and position, or `strict` and inner iterators. Runs
/// no code of the program's. A new reference.
PyObject *pyjitMakeIterator(PyTypeObject *type, PyObject *elements);
/// Number of inline cache entries behind an opcode.
int pyjitCacheEntries(int opcode);

#ifdef __cplusplus
}
#endif

#endif // PYJIT_CPYTHON_CPYTHON_H
