//===- Code.cpp - Stack heights and operands of bytecode ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "interpreter/Code.h"
#include "CPython.h"
#include "interpreter/OpcodeTable.h"

#include <opcode.h>

using namespace pyjit::capture;

int pyjit::capture::jumpTarget(const Instruction &instruction) {
  switch (infoOf(instruction.op).flow) {
  case Flow::Branch:
  case Flow::Forward:
    return instruction.next + 2 * instruction.arg;
  case Flow::Back:
    return instruction.next - 2 * instruction.arg;
  case Flow::Next:
  case Flow::Call:
  case Flow::End:
    return -1;
  }
  return -1;
}

bool pyjit::capture::looksUp(PyCodeObject *code,
                             std::initializer_list<const char *> names) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(code->co_names); ++i)
    for (const char *name : names)
      if (!PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(code->co_names, i),
                                            name))
        return true;
  return false;
}

bool pyjit::capture::isJumpIf(int op) {
  return op == POP_JUMP_IF_TRUE || op == POP_JUMP_IF_FALSE;
}

bool pyjit::capture::endsBlock(int op) {
  Flow flow = infoOf(op).flow;
  return flow == Flow::Forward || flow == Flow::Back || flow == Flow::End;
}

namespace {

/// Reads the variable-length integers of `co_exceptiontable`.
struct TableReader {
  const uint8_t *at, *end;
  int next() {
    int value = *at & 63;
    while (*at & 64) {
      ++at;
      value = (value << 6) | (*at & 63);
    }
    ++at;
    return value;
  }
};

} // namespace

int CodeInfo::jumpBehind(int byteOffset) const {
  auto skips = [](int op) {
    return op == EXTENDED_ARG || op == PYJIT_ASKS_TRUTH;
  };
  int offset = at(byteOffset).next;
  while (size_t(offset) / 2 < instructions.size() && skips(at(offset).op))
    offset = at(offset).next;
  return size_t(offset) / 2 < instructions.size() && isJumpIf(at(offset).op)
             ? offset
             : -1;
}

bool CodeInfo::decode() {
  PyObject *bytes = PyCode_GetCode(code);
  if (!bytes) {
    PyErr_Clear();
    return false;
  }
  auto *data = reinterpret_cast<const uint8_t *>(PyBytes_AS_STRING(bytes));
  int units = PyBytes_GET_SIZE(bytes) / 2;
  instructions.resize(units + 1);

  int extended = 0;
  PyObject *kwnames = nullptr;
  for (int unit = 0; unit < units;) {
    Instruction &instruction = instructions[unit];
    instruction.op = data[2 * unit];
    instruction.arg = extended << 8 | data[2 * unit + 1];
    instruction.start = true;
    instruction.next = 2 * (unit + 1 + pyjitCacheEntries(instruction.op));
    if (instruction.op == EXTENDED_ARG) {
      extended = instruction.arg;
      ++unit;
      continue;
    }
    extended = 0;
    if (int(instruction.op) == PYJIT_NAMES_OF_CALL)
      kwnames = PyTuple_GET_ITEM(code->co_consts, instruction.arg);
    if (instruction.op == CALL) {
      instruction.kwnames = kwnames;
      kwnames = nullptr;
    }
    unit = instruction.next / 2;
  }
  Py_DECREF(bytes);
  return true;
}

void CodeInfo::findDepths(int offset, int depth) {
  // The last one is no instruction: it stands behind the code.
  int end = 2 * (int(instructions.size()) - 1);
  std::vector<int> work;
  auto reach = [&](int offset, int depth) {
    if (offset < 0 || offset >= end || instructions[offset / 2].depth >= 0)
      return;
    instructions[offset / 2].depth = depth;
    work.push_back(offset);
  };
  reach(offset, depth);
  while (!work.empty()) {
    int offset = work.back();
    work.pop_back();
    const Instruction instruction = instructions[offset / 2];
    int depth = instruction.depth;
    if (instruction.op == EXTENDED_ARG) {
      reach(offset + 2, depth);
      continue;
    }
    int target = jumpTarget(instruction);
    int op = instruction.op;
    // Opcodes without an argument are asked for with 0.
    int arg = op >= HAVE_ARGUMENT ? instruction.arg : 0;
    if (target >= 0)
      reach(target, depth + PyCompile_OpcodeStackEffectWithJump(op, arg, 1));
    if (!endsBlock(op))
      reach(instruction.next,
            depth + PyCompile_OpcodeStackEffectWithJump(op, arg, 0));
  }
}

bool CodeInfo::isProtected(int byteOffset) const {
  for (const Handler &handler : handlers) {
    if (byteOffset < handler.start || byteOffset >= handler.end)
      continue;
    // Other handlers are a generator's own: that of a StopIteration, and that
    // of `yield from`, which may be within a `try` itself.
    int op = at(handler.target).op;
    return op == PUSH_EXC_INFO ||
           (op == CLEANUP_THROW && isProtected(handler.target));
  }
  return false;
}

CodeInfo::CodeInfo(PyCodeObject *code) : code(code) {
  if (!decode())
    return;
  // The POP_TOP behind RETURN_GENERATOR takes it away.
  bool generator =
      code->co_flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR);
  findDepths(0, generator ? PYJIT_GENERATOR_LEAVES : 0);
  TableReader table;
  table.at = reinterpret_cast<const uint8_t *>(
      PyBytes_AS_STRING(code->co_exceptiontable));
  table.end = table.at + PyBytes_GET_SIZE(code->co_exceptiontable);
  while (table.at < table.end) {
    int start = table.next();
    int length = table.next();
    int target = table.next();
    int packed = table.next();
    handlers.push_back(
        {2 * start, 2 * (start + length), 2 * target, packed >> 1});
    findDepths(2 * target, (packed >> 1) + (packed & 1) + 1);
  }
  valid = true;
}
