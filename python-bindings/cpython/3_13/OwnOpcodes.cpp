//===- OwnOpcodes.cpp - How only CPython 3.13 calls and formats -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "interpreter/Opcodes.h"

using namespace pyjit::capture;

/// A callable and `self` or NULL below the arguments.
ResultKind opcodes::callOp(const Op &o) {
  int count = o.in.arg;
  return callWith(o, o.peek(count + 2), o.peek(count + 1), 0, nullptr);
}

/// Likewise, with the names on top.
ResultKind opcodes::callNamed(const Op &o) {
  int count = o.in.arg;
  return callWith(o, o.peek(count + 3), o.peek(count + 2), 1, o.peek(1));
}

ResultKind opcodes::formatTop(const Op &o) {
  return o.s.operators.format(o.peek(1));
}
ResultKind opcodes::formatBySpec(const Op &o) {
  return o.s.operators.format(o.peek(2));
}
