//===- Opcodes.h - Handlers of single instructions --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// For Opcodes*.cpp only; the rest of the recorder calls `handleOpcode`.
//
//===----------------------------------------------------------------------===//
#ifndef PYJIT_CAPTURE_OPCODES_H
#define PYJIT_CAPTURE_OPCODES_H

#include "Recording.h"
#include "interpreter/OpcodeTable.h"

namespace pyjit::capture {

/// An instruction that is about to run.
struct Op {
  Recording &s;
  PyjitFrame *frame;
  PyCodeObject *code;
  const Instruction &in;
  PyObject *condition = nullptr; ///< on top of the stack, as in ShadowFrame

  PyObject *peek(int fromTop) const {
    if (condition && fromTop == 1)
      return condition;
    return pyjitFrameStack(frame)[in.depth - fromTop];
  }
  PyObject *name(int index) const {
    return PyTuple_GET_ITEM(code->co_names, index);
  }
};

inline ResultKind toResultKind(Attributes::Found found) {
  return found.kind == Attributes::Found::Fresh ? ResultKind::Fresh
                                                : ResultKind::Known;
}

/// A call of `callable`, of `self` if there is one, and of `o.in.arg` operands
/// below the upper `above` ones. kwnames: of the last of them; null: none.
ResultKind callWith(const Op &o, PyObject *callable, PyObject *self, int above,
                    PyObject *kwnames);
/// The namespace of a class body that the call runs, or null.
PyObject *ownNames(const Op &o);
/// Constants of code are fixed by the code's identity; tuples of them are
/// created anew where they escape.
void knowConstant(Recording &s, PyObject *constant);
/// LOAD_DEREF and friends: the cell lies among the locals.
void readDeref(const Op &o);

/// A handler for each row of Opcodes.def; several rows may share one.
namespace opcodes {
#define OPCODE(NAME, FLOW, LOCAL, POPS, PUSHES, NUMBERS, HANDLER)              \
  ResultKind HANDLER(const Op &o);
#include "Opcodes.def"
} // namespace opcodes

} // namespace pyjit::capture

#endif // PYJIT_CAPTURE_OPCODES_H
