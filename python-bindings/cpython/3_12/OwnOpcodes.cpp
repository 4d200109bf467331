//===- OwnOpcodes.cpp - How only CPython 3.12 calls and formats -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "interpreter/Opcodes.h"

using namespace pyjit::capture;

/// NULL and a callable, or a function and `self`, below the arguments; names
/// stand in an instruction before it.
ResultKind opcodes::callOp(const Op &o) {
  PyObject *method = o.peek(o.in.arg + 2), *callable = o.peek(o.in.arg + 1);
  return method ? callWith(o, method, callable, 0, o.in.kwnames)
                : callWith(o, callable, nullptr, 0, o.in.kwnames);
}

ResultKind opcodes::formatValue(const Op &o) {
  bool hasSpec = o.in.arg & 4;
  return o.s.operators.format(o.peek(hasSpec ? 2 : 1));
}
