//===- ControlFlow.cpp - Where a launch program goes next -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "pyjit-rt/ControlFlow.h"

#include <algorithm>
#include <cstring>

namespace pyjit::rt {

bool hasLoops(const Program &program) {
  return std::any_of(program.steps(), program.steps() + program.numSteps(),
                     [](const Step &step) {
                       return step.kind == StepKind::While ||
                              step.kind == StepKind::For;
                     });
}

uint32_t followStep(const Program &program, uint32_t i, void *const *buffers) {
  const Step &step = program.steps()[i];
  auto flag = [&] { return *static_cast<const uint8_t *>(buffers[step.a]); };
  // Of a For: the number that the pair of words at `ints[at]` states.
  auto bound = [&](uint64_t at) {
    int64_t value = program.ints()[at + 1];
    return program.ints()[at] ? *static_cast<const int64_t *>(buffers[value])
                              : value;
  };
  switch (step.kind) {
  case StepKind::WhileTest:
    return flag() ? i + 1 : step.b + 1;
  case StepKind::WhileEnd:
    return step.a + 1;
  case StepKind::For: {
    auto *counter = static_cast<int64_t *>(buffers[step.a]);
    *counter = bound(step.b);
    return *counter < bound(step.b + 2) ? i + 1 : step.c + 1;
  }
  case StepKind::ForEnd: {
    const Step &loop = program.steps()[step.a];
    auto *counter = static_cast<int64_t *>(buffers[loop.a]);
    // The counter is below its bound here; compared like this, nothing
    // overflows.
    uint64_t left = uint64_t(bound(loop.b + 2)) - uint64_t(*counter);
    int64_t by = program.ints()[loop.b + 4];
    if (left <= uint64_t(by))
      return i + 1;
    *counter += by;
    return step.a + 1;
  }
  case StepKind::If:
    return flag() ? i + 1 : step.b + 1;
  case StepKind::Else:
    return step.a + 1;
  case StepKind::Undo:
    return i + 1 + step.a;
  default:
    return i + 1;
  }
}

bool viewOffset(const Program &program, const Step &step, void *const *buffers,
                int64_t &offset) {
  const int64_t *words = program.ints() + step.c;
  offset = words[0];
  if (!(step.flags & kStepDynamic))
    return true;
  int64_t count = words[1];
  for (words += 2; count > 0; --count, words += 5) {
    int64_t number = *static_cast<const int64_t *>(buffers[words[0]]), index;
    if (__builtin_mul_overflow(number, words[1], &index) ||
        __builtin_add_overflow(index, words[2], &index) || index < 0 ||
        index >= words[3])
      return false;
    offset += index * words[4];
  }
  return true;
}

bool pickSlot(const Program &program, const Step &step, void *const *buffers,
              uint32_t &slot) {
  const int64_t *words = program.ints() + step.b;
  int64_t index;
  if (__builtin_mul_overflow(*static_cast<const int64_t *>(buffers[words[0]]),
                             words[1], &index) ||
      __builtin_add_overflow(index, words[2], &index) || index < 0 ||
      index >= words[3])
    return false;
  slot = words[4 + index];
  return true;
}

void copySlot(const Program &program, const Slot &from, const void *source,
              const Slot &to, void *target) {
  static const uint8_t elementBytes[] = {1, 1, 2,  4, 8, 2, 4, 8,
                                         4, 8, 16, 1, 1, 1, 4, 2};
  struct Dim {
    int64_t size, from, to;
  };
  constexpr int kMaxRank = 64;
  Dim dims[kMaxRank];
  int rank = 0;
  const int64_t *a = program.ints() + from.dims, *b = program.ints() + to.dims;
  for (int d = 0; d < from.rank; ++d) {
    if (a[d] == 0)
      return;
    if (a[d] != 1)
      dims[rank++] = {a[d], a[from.rank + d], b[to.rank + d]};
  }
  // Outermost first by the target's strides, and neighbours joined where both
  // sides step over them as one. There are few, mostly in order already.
  for (int i = 1; i < rank; ++i)
    for (int k = i; k > 0 && dims[k - 1].to < dims[k].to; --k)
      std::swap(dims[k - 1], dims[k]);
  int joined = 0;
  for (int d = 0; d < rank; ++d) {
    Dim *last = joined ? &dims[joined - 1] : nullptr;
    if (last && last->from == dims[d].from * dims[d].size &&
        last->to == dims[d].to * dims[d].size)
      *last = {last->size * dims[d].size, dims[d].from, dims[d].to};
    else
      dims[joined++] = dims[d];
  }
  size_t bytes =
      from.dtype < sizeof elementBytes ? elementBytes[from.dtype] : 1;
  auto *in = static_cast<const char *>(source);
  auto *out = static_cast<char *>(target);
  size_t run = bytes;
  if (joined && dims[joined - 1].from == 1 && dims[joined - 1].to == 1)
    run *= dims[--joined].size;
  int64_t index[kMaxRank] = {};
  for (;;) {
    std::memcpy(out, in, run);
    int d = joined - 1;
    for (; d >= 0; --d) {
      in += dims[d].from * int64_t(bytes);
      out += dims[d].to * int64_t(bytes);
      if (++index[d] < dims[d].size)
        break;
      in -= dims[d].from * dims[d].size * int64_t(bytes);
      out -= dims[d].to * dims[d].size * int64_t(bytes);
      index[d] = 0;
    }
    if (d < 0)
      return;
  }
}

} // namespace pyjit::rt
