//===- OpcodeTable.h - What is known of each instruction --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The rows of cpython/Opcodes.def: to support an instruction is to
// add a row there and, where none of the handlers fits, a handler.
//
//===----------------------------------------------------------------------===//
#ifndef PYJIT_CAPTURE_INTERPRETER_OPCODETABLE_H
#define PYJIT_CAPTURE_INTERPRETER_OPCODETABLE_H

#include "interpreter/Frames.h"

namespace pyjit::capture {

struct Op;

/// Where execution goes on, other than to a handler of exceptions.
enum class Flow : unsigned char {
  Next,
  Call,    ///< next, when the frame that it may begin has returned
  Branch,  ///< forward, or to the next instruction
  Forward, ///< a jump
  Back,    ///< likewise
  End      ///< the frame is left
};

/// What becomes of the local that the argument names, or of the two.
enum class LocalUse : unsigned char {
  None,
  Use,
  Store,
  UseUse,
  StoreUse,
  StoreStore
};

/// What an instruction does with lifted numbers among its operands
/// (ScalarInstructions.cpp).
enum class NumberUse : unsigned char {
  Moves,         ///< it moves references, and looks at nothing
  MovesReturned, ///< likewise, to the caller
  Ignores,       ///< nothing that matters, or its handler says
  Arithmetic,
  Comparison,
  Negation,
  Truth,
  BranchTruth,
  NextOf,
  Identity,
  Subscript,
  Slice,
  StoredItem,
  StoredSlice,
  DeletedItem,
  Holder, ///< the top is looked into
  StoredAttribute,
  Contained,
  Top,    ///< the top's value matters
  TopTwo, ///< likewise that below it
  Formatted,
  Intrinsic,
  Keys,     ///< of `arg` entries
  Key,      ///< of one
  Elements, ///< the upper `arg` operands
  Raised
};

struct OpcodeInfo {
  Flow flow = Flow::Next;
  LocalUse local = LocalUse::None;
  NumberUse numbers = NumberUse::Ignores;
  /// Null where an instruction is not modelled.
  ResultKind (*handle)(const Op &op) = nullptr;
};

const OpcodeInfo &infoOf(int opcode);

inline bool isCall(int opcode) { return infoOf(opcode).flow == Flow::Call; }
/// A call whose arguments are on the stack, one by one.
bool takesArguments(int opcode);
/// Whether it asks for the truth of what another instruction then jumps by.
bool asksTruth(const Instruction &instruction);

/// The operator of a BINARY_OP, without `__`; in place it has the same name.
const char *binaryName(int arg);
/// The operator of a COMPARE_OP: lt, le, eq, ne, gt, ge.
int comparisonOf(int arg);

} // namespace pyjit::capture

#endif // PYJIT_CAPTURE_INTERPRETER_OPCODETABLE_H
