//===- Liveness.cpp - What a graph break has to carry ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "CPython.h"
#include "interpreter/Code.h"
#include "interpreter/OpcodeTable.h"

#include <opcode.h>

using namespace pyjit::capture;

std::vector<Exit> CodeInfo::exits(int byteOffset) const {
  const Instruction &in = at(byteOffset);
  int pops, pushes;
  if (in.depth < 0 || !stackUse(in, pops, pushes))
    return {};
  Exit through{in.next, in.depth - pops + pushes, in.depth - pops};
  switch (in.op) {
  case LOAD_ATTR:
  case LOAD_GLOBAL:
    if (in.arg & 1)
      through.null = through.kept + PYJIT_NULL_ABOVE;
    break;
  case FOR_ITER: {
    through.kept = in.depth;
    int behind = jumpTarget(in) + 2 * PYJIT_FOR_ITER_SKIPS;
    Exit done{behind, in.depth - 1, in.depth - 1};
    return {through, done};
  }
  case IMPORT_FROM:
  case GET_LEN:
    through.kept = in.depth;
    break;
  case JUMP_BACKWARD:
    through.offset = jumpTarget(in);
    break;
  case POP_JUMP_IF_FALSE:
  case POP_JUMP_IF_TRUE:
    return {through, {jumpTarget(in), in.depth - 1, in.depth - 1}};
  }
  return {through};
}

/// Code that can see locals by other ways than instructions: its caller's, or
/// by weak references those that are not used any more.
static bool seesDeadLocals(PyCodeObject *code) {
  return looksUp(code,
                 {"locals", "vars", "dir", "eval", "exec", "super",
                  "currentframe", "_getframe", "breakpoint", "set_trace",
                  "stack", "weakref", "ref", "proxy", "finalize", "WeakMethod",
                  "WeakSet", "WeakKeyDictionary", "WeakValueDictionary"});
}

/// Backwards: what is alive before an instruction, of what is behind it.
static void useLocals(const Instruction &in, bool stays,
                      std::vector<bool> &live) {
  auto store = [&](int slot) { live[slot] = stays; };
  int first = in.arg >> 4, second = in.arg & 15;
  switch (infoOf(in.op).local) {
  case LocalUse::None:
    return;
  case LocalUse::Use:
    live[in.arg] = true;
    return;
  case LocalUse::Store:
    return store(in.arg);
  case LocalUse::UseUse:
    live[first] = live[second] = true;
    return;
  case LocalUse::StoreUse:
    live[second] = true;
    return store(first);
  case LocalUse::StoreStore:
    store(second);
    return store(first);
  }
}

void CodeInfo::computeLiveness() {
  size_t slots = code->co_nlocalsplus;
  bool all = seesDeadLocals(code);
  live.assign(instructions.size(), std::vector<bool>(slots, all));
  // Every pass goes backwards; loops need a few.
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t unit = instructions.size(); unit-- > 0;) {
      const Instruction &in = instructions[unit];
      if (!in.start || in.depth < 0)
        continue;
      std::vector<bool> now = live[unit];
      auto join = [&](int offset) {
        if (offset < 0 || size_t(offset) / 2 >= live.size())
          return;
        const std::vector<bool> &other = live[offset / 2];
        for (size_t i = 0; i < slots; ++i)
          if (other[i])
            now[i] = true;
      };
      if (in.op == EXTENDED_ARG) {
        join(2 * int(unit) + 2);
      } else {
        if (!endsBlock(in.op))
          join(in.next);
        join(jumpTarget(in));
        useLocals(in, all, now);
        for (const Handler &handler : handlers)
          if (handler.start <= int(2 * unit) && int(2 * unit) < handler.end)
            join(handler.target);
      }
      if (now != live[unit]) {
        live[unit] = std::move(now);
        changed = true;
      }
    }
  }
}

const std::vector<bool> &CodeInfo::liveAt(int byteOffset) {
  if (live.empty())
    computeLiveness();
  return live[byteOffset / 2];
}
