//===- NativesContext.cpp - contextvars -----------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "CPython.h"
#include "builtins/Calls.h"
#include "builtins/Natives.h"

using namespace pyjit::capture;

namespace {

/// A variable, and perhaps one argument.
bool isOfVariable(const Call &c) {
  return !c.args.empty() && PyContextVar_CheckExact(c.args[0]) && !c.kwnames &&
         c.args.size() <= 2;
}

ResultKind nativeGet(Recording &s, const Call &c) {
  if (!isOfVariable(c))
    return s.calls.unknownNative(c);
  PyObject *variable = c.args[0];
  Node *node = s.objects.require(variable);
  s.checkpoint.noteContextRead();
  if (!node || s.effects.context.depth(variable))
    return ResultKind::Known;
  if (s.effects.context.isResetFromBefore(variable)) {
    s.end(ReasonKind::ContextVariable, "a context variable that was reset");
    return ResultKind::Known;
  }
  PyObject *value = nullptr;
  static PyObject *missing = PyList_New(0);
  if (PyContextVar_Get(variable, missing, &value) < 0)
    return ResultKind::Known;
  static PyObject *field = PyUnicode_InternFromString("value");
  static PyObject *isSet = PyUnicode_InternFromString("is_set");
  if (value == missing)
    s.reads.read(node, Select::Field, isSet, Py_False);
  else
    s.reads.read(node, Select::Field, field, value);
  s.objects.keep(value);
  Py_DECREF(value);
  return ResultKind::Known;
}

ResultKind nativeSet(Recording &s, const Call &c) {
  if (!isOfVariable(c) || c.args.size() != 2)
    return s.calls.unknownNative(c);
  // Balanced by a reset, or left set at a graph break.
  if (s.objects.require(c.args[0]))
    s.effects.context.noteSet(c.args[0], s.objects);
  return ResultKind::Fresh;
}

ResultKind nativeReset(Recording &s, const Call &c) {
  PyObject *token = c.arg(1);
  if (!isOfVariable(c) || c.args.size() != 2 ||
      !PyContextToken_CheckExact(token))
    return s.calls.unknownNative(c);
  PyObject *variable = c.args[0];
  if (pyjitVariableToReset(token) != variable) // an exception
    return s.calls.unknownNative(c);
  Node *node = s.objects.require(token);
  if (!node)
    return ResultKind::Known;
  ContextLog &log = s.effects.context;
  if (node->external ? log.depth(variable) != 0
                     : !log.noteReset(token, s.objects)) {
    s.end(ReasonKind::ContextVariable,
          "a context variable that is set and reset across each other");
    return ResultKind::Known;
  }
  if (!node->external)
    return ResultKind::Known;
  static PyObject *field = PyUnicode_InternFromString("resets");
  s.reads.read(node, Select::Field, field, variable);
  log.noteReset(node);
  return ResultKind::Known;
}

} // namespace

void pyjit::capture::addContext(NativeTable &t) {
  t.add("_contextvars:ContextVar.get", nativeGet);
  t.add("_contextvars:ContextVar.set", nativeSet);
  t.add("_contextvars:ContextVar.reset", nativeReset);
}
