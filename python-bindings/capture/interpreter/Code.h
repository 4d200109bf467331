//===- Code.h - Static facts about a code object ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef PYJIT_CAPTURE_CODE_H
#define PYJIT_CAPTURE_CODE_H

#include <Python.h>

#include <cstdint>
#include <initializer_list>
#include <vector>

namespace pyjit::capture {

/// One instruction, at its opcode (prefixes folded into `arg`).
struct Instruction {
  uint8_t op = 0;
  bool start = false; ///< an instruction starts at this code unit
  int arg = 0;
  int depth = -1; ///< operand stack before it; -1: unreachable
  int next = 0;   ///< byte offset of the fall-through
  /// Names that stand before a CALL, borrowed from co_consts.
  PyObject *kwnames = nullptr;
};

/// An entry of `co_exceptiontable`, in byte offsets.
struct Handler {
  int start, end, target, depth;
};

/// A place where the interpreter may go on after an instruction.
struct Exit {
  int offset;
  int depth;     ///< operand stack there
  int kept;      ///< so many values at the bottom are as they were before
  int null = -1; ///< the value that is a NULL (for a call)
};

/// The interpreter does not keep the operand stack's height while it runs, so
/// it is computed once per code object from the bytecode's stack effects.
struct CodeInfo {
  std::vector<Instruction> instructions; ///< by code unit (byte offset / 2)
  std::vector<Handler> handlers;
  bool valid = false;

  explicit CodeInfo(PyCodeObject *code);
  const Instruction &at(int byteOffset) const {
    return instructions[byteOffset / 2];
  }

  /// The offset of the jump that takes the truth that the instruction at
  /// `byteOffset` leaves; -1 if what follows it is none.
  int jumpBehind(int byteOffset) const;

  /// Whether a `try` or `with` of the program is around the instruction at
  /// `byteOffset`.
  bool isProtected(int byteOffset) const;

  // Liveness.cpp.
  /// How many values an instruction takes off the stack, and how many it then
  /// puts there when it falls through. False for what no graph break is made
  /// at.
  static bool stackUse(const Instruction &instruction, int &pops, int &pushes);
  /// Where execution may go on after the instruction at `byteOffset`, other
  /// than to a handler. Empty for what no graph break is made at.
  std::vector<Exit> exits(int byteOffset) const;
  /// The locals (index into `localsplus`) that may still be looked at from
  /// `byteOffset` on, handlers included.
  const std::vector<bool> &liveAt(int byteOffset);

private:
  /// Makes `instructions`; false where the code's bytes cannot be had.
  bool decode();
  /// Notes how high the stack is at what is reached from `offset`, where it is
  /// `depth` high. What is known already stays.
  void findDepths(int offset, int depth);
  void computeLiveness();
  PyCodeObject *code;
  std::vector<std::vector<bool>> live; ///< by code unit, once computed
};

/// Whether instructions of `code` look up one of `names`, as a global or as an
/// attribute.
bool looksUp(PyCodeObject *code, std::initializer_list<const char *> names);
/// Whether it jumps by a truth.
bool isJumpIf(int op);
/// Byte offset that `instruction` may jump to, or -1.
int jumpTarget(const Instruction &instruction);
/// Whether what follows is not reached by falling through.
bool endsBlock(int op);

} // namespace pyjit::capture

#endif // PYJIT_CAPTURE_CODE_H
