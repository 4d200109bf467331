//===- Liveness.cpp - What a cut has to carry -----------------------------===//

#include "CPython.h"
#include "interpreter/Code.h"

#include <opcode.h>

#include <cstring>

using namespace pyjit::capture;

bool CodeInfo::stackUse(const Instruction &in, int &pops, int &pushes) {
  auto is = [&](int taken, int put) {
    pops = taken;
    pushes = put;
    return true;
  };
  switch (in.op) {
  case CALL:
    return is(in.arg + 2, 1);
  case CALL_FUNCTION_EX:
    return is(3 + (in.arg & 1), 1);
  case LOAD_ATTR:
    return is(1, 1 + (in.arg & 1));
  case LOAD_GLOBAL:
    return is(0, 1 + (in.arg & 1));
  case LOAD_DEREF:
  case LOAD_BUILD_CLASS:
    return is(0, 1);
  case STORE_ATTR:
  case BINARY_OP:
  case COMPARE_OP:
  case BINARY_SUBSCR:
  case IS_OP:
  case CONTAINS_OP:
  case IMPORT_NAME:
    return is(2, in.op == STORE_ATTR ? 0 : 1);
  case DELETE_ATTR:
  case STORE_GLOBAL:
  case LIST_EXTEND:
  case SET_UPDATE:
  case DICT_UPDATE:
  case DICT_MERGE:
  case LIST_APPEND:
  case SET_ADD:
  case POP_JUMP_IF_FALSE:
  case POP_JUMP_IF_TRUE:
    return is(1, 0);
  case DELETE_SUBSCR:
  case MAP_ADD:
    return is(2, 0);
  case STORE_SUBSCR:
    return is(3, 0);
  case BINARY_SLICE:
    return is(3, 1);
  case STORE_SLICE:
    return is(4, 0);
  case UNARY_NEGATIVE:
  case UNARY_INVERT:
  case UNARY_NOT:
  case GET_ITER:
  case CALL_INTRINSIC_1:
    return is(1, 1);
  case FORMAT_VALUE:
    return is(in.arg & 4 ? 2 : 1, 1);
  case BUILD_TUPLE:
  case BUILD_LIST:
  case BUILD_SET:
  case BUILD_STRING:
    return is(in.arg, 1);
  case BUILD_MAP:
    return is(2 * in.arg, 1);
  case BUILD_CONST_KEY_MAP:
    return is(in.arg + 1, 1);
  case BUILD_SLICE:
    return is(in.arg == 3 ? 3 : 2, 1);
  case MAKE_FUNCTION:
    return is(1 + __builtin_popcount(in.arg & 15), 1);
  case UNPACK_SEQUENCE:
    return is(1, in.arg);
  case UNPACK_EX:
    return is(1, (in.arg & 0xff) + (in.arg >> 8) + 1);
  case BEFORE_WITH:
    return is(1, 2);
  case IMPORT_FROM:
  case FOR_ITER:
  case GET_LEN:
    return is(1, 2);
  default:
    return false;
  }
}

std::vector<Exit> CodeInfo::exits(int byteOffset) const {
  const Instruction &in = at(byteOffset);
  int pops, pushes;
  if (in.depth < 0 || !stackUse(in, pops, pushes))
    return {};
  Exit through{in.next, in.depth - pops + pushes, in.depth - pops};
  switch (in.op) {
  case LOAD_ATTR:
  case LOAD_GLOBAL:
    through.null = in.arg & 1;
    break;
  case FOR_ITER: {
    through.kept = in.depth;
    // The interpreter skips the END_FOR at the target.
    Exit done{jumpTarget(in) + 2, in.depth - 1, in.depth - 1};
    return {through, done};
  }
  case IMPORT_FROM:
  case GET_LEN:
    through.kept = in.depth;
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
  static const char *names[] = {"locals",
                                "vars",
                                "dir",
                                "eval",
                                "exec",
                                "super",
                                "currentframe",
                                "_getframe",
                                "breakpoint",
                                "set_trace",
                                "stack",
                                "weakref",
                                "ref",
                                "proxy",
                                "finalize",
                                "WeakMethod",
                                "WeakSet",
                                "WeakKeyDictionary",
                                "WeakValueDictionary"};
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(code->co_names); ++i)
    for (const char *name : names)
      if (!PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(code->co_names, i),
                                            name))
        return true;
  return false;
}

void CodeInfo::computeLiveness() {
  size_t slots = code->co_nlocalsplus;
  live.assign(instructions.size(),
              std::vector<bool>(slots, seesDeadLocals(code)));
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
        switch (in.op) {
        case STORE_FAST:
          now[in.arg] = seesDeadLocals(code);
          break;
        case LOAD_FAST:
        case LOAD_FAST_CHECK:
        case LOAD_FAST_AND_CLEAR:
        case DELETE_FAST:
        case LOAD_CLOSURE:
        case LOAD_DEREF:
        case STORE_DEREF:
        case DELETE_DEREF:
        case MAKE_CELL:
          now[in.arg] = true;
          break;
        }
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
