//===- Code.h - Static facts about a code object ----------------*- C++ -*-===//
#ifndef PYJIT_CAPTURE_CODE_H
#define PYJIT_CAPTURE_CODE_H

#include <Python.h>

#include <cstdint>
#include <vector>

namespace pyjit::capture {

/// One instruction, at its opcode (prefixes folded into `arg`).
struct Instruction {
  uint8_t op = 0;
  bool start = false; ///< an instruction starts at this code unit
  int arg = 0;
  int depth = -1;              ///< operand stack before it; -1: unreachable
  int next = 0;                ///< byte offset of the fall-through
  PyObject *kwnames = nullptr; ///< names before a CALL, borrowed from co_consts
};

/// The interpreter does not keep the operand stack's height while it runs, so
/// it is computed once per code object from the bytecode's stack effects.
struct CodeInfo {
  std::vector<Instruction> instructions; ///< by code unit (byte offset / 2)
  bool valid = false;

  explicit CodeInfo(PyCodeObject *code);
  const Instruction &at(int byteOffset) const {
    return instructions[byteOffset / 2];
  }
};

} // namespace pyjit::capture

#endif // PYJIT_CAPTURE_CODE_H
