//===- OpcodeTable.cpp - What is known of each instruction ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "interpreter/OpcodeTable.h"

#include "interpreter/Opcodes.h"

#include <opcode.h>

#include <array>

using namespace pyjit::capture;

static std::array<OpcodeInfo, 256> makeTable() {
  std::array<OpcodeInfo, 256> table;
#define OPCODE(NAME, FLOW, LOCAL, POPS, PUSHES, NUMBERS, HANDLER)              \
  table[NAME] = {Flow::FLOW, LocalUse::LOCAL, NumberUse::NUMBERS,              \
                 opcodes::HANDLER};
#include "Opcodes.def"
  return table;
}

const OpcodeInfo &pyjit::capture::infoOf(int opcode) {
  static const std::array<OpcodeInfo, 256> table = makeTable();
  return table[opcode & 0xff];
}

const char *pyjit::capture::binaryName(int arg) {
  static const char *names[] = {
      "add", "and", "floordiv", "lshift", "matmul",  "mul", "mod",
      "or",  "pow", "rshift",   "sub",    "truediv", "xor"};
  return names[arg % 13];
}

int pyjit::capture::comparisonOf(int arg) { return arg >> PYJIT_COMPARE_SHIFT; }

bool pyjit::capture::takesArguments(int opcode) {
  return isCall(opcode) && opcode != CALL_FUNCTION_EX;
}

bool pyjit::capture::asksTruth(const Instruction &instruction) {
  return int(instruction.op) == PYJIT_ASKS_TRUTH ||
         (instruction.op == COMPARE_OP &&
          (instruction.arg & PYJIT_COMPARE_ASKS_TRUTH));
}

bool CodeInfo::stackUse(const Instruction &instruction, int &pops,
                        int &pushes) {
  constexpr int ANY = -1;
  const int arg = instruction.arg;
  pops = ANY;
  switch (instruction.op) {
#define OPCODE(NAME, FLOW, LOCAL, POPS, PUSHES, NUMBERS, HANDLER)              \
  case NAME:                                                                   \
    pops = POPS, pushes = PUSHES;                                              \
    break;
#include "Opcodes.def"
  }
  return pops != ANY;
}

ResultKind pyjit::capture::handleOpcode(Recording &s, PyjitFrame *frame,
                                        PyCodeObject *code,
                                        const Instruction &in,
                                        PyObject *condition) {
  auto *handle = infoOf(in.op).handle;
  if (handle)
    return handle(Op{s, frame, code, in, condition});
  s.end(ReasonKind::PythonFeature, "opcode " + std::to_string(in.op));
  return ResultKind::Known;
}
