//===- Symbols.cpp - Numbers of a launch program that calls give ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Validator.h"
#include "pyjit-rt/Program.h"

#include <algorithm>
#include <cstring>
#include <limits>

using namespace pyjit::rt;

namespace {
bool fail(std::string &error, std::string what) {
  error = "launch program: " + std::move(what);
  return false;
}

bool apply(SizeOp op, int64_t a, int64_t b, int64_t &out) {
  switch (op) {
  case SizeOp::Add:
    return !__builtin_add_overflow(a, b, &out);
  case SizeOp::Mul:
    return !__builtin_mul_overflow(a, b, &out);
  case SizeOp::FloorDiv:
  case SizeOp::CeilDiv:
  case SizeOp::Mod:
    // Of sizes, which are not negative.
    if (a < 0 || b <= 0)
      return false;
    out = op == SizeOp::FloorDiv  ? a / b
          : op == SizeOp::CeilDiv ? a / b + (a % b != 0)
                                  : a % b;
    return true;
  default:
    return false;
  }
}
} // namespace

/// The value of a validated expression; false where it does not fit.
bool Program::evaluate(uint64_t at, const int64_t *symbols,
                       int64_t &value) const {
  int64_t stack[kMaxExpressionDepth];
  unsigned depth = 0;
  for (;;) {
    auto op = static_cast<SizeOp>(intPool[at++]);
    if (op == SizeOp::End)
      break;
    if (op == SizeOp::Number || op == SizeOp::Symbol) {
      int64_t word = intPool[at++];
      stack[depth++] = op == SizeOp::Number ? word : symbols[word];
      continue;
    }
    --depth;
    if (!apply(op, stack[depth - 1], stack[depth], stack[depth - 1]))
      return false;
  }
  value = stack[0];
  return true;
}

/// Writes the values into `words`, a copy of this program.
bool Program::fill(const int64_t *symbols, const int64_t *capacity,
                   std::vector<uint64_t> &words, std::string &error) const {
  const Header &h = header();
  auto *bytes = reinterpret_cast<char *>(words.data());
  auto in = [&](const void *place) {
    return bytes + (static_cast<const char *>(place) -
                    reinterpret_cast<const char *>(blob.data()));
  };
  auto *newHeader = reinterpret_cast<Header *>(bytes);
  auto *slots = reinterpret_cast<Slot *>(in(slotTable));
  auto *kernels = reinterpret_cast<Kernel *>(in(kernelTable));
  auto *ints = reinterpret_cast<int64_t *>(in(intPool));
  // What was evaluated last: those of one value stand together.
  struct {
    int64_t expression = -1, value = 0;
    const int64_t *of = nullptr;
    bool fits = false;
  } last;
  for (uint32_t i = 0; i < h.patches; ++i) {
    const int64_t *patch = intPool + h.patchTable + 3 * uint64_t(i);
    auto kind = static_cast<PatchKind>(patch[0]);
    bool laidOut = kind == PatchKind::ArenaBytes ||
                   (kind == PatchKind::SlotPlace &&
                    slots[patch[1]].kind == SlotKind::Arena);
    const int64_t *of = laidOut ? capacity : symbols;
    if (last.expression != patch[2] || last.of != of) {
      last.expression = patch[2];
      last.of = of;
      last.fits = evaluate(patch[2], of, last.value);
    }
    // Grains are quotients of what may be 0.
    int64_t value = last.value;
    if (!last.fits) {
      if (kind != PatchKind::KernelGrain)
        return fail(error, "a size of this call does not fit");
      value = 1;
    }
    // All but arguments count something.
    if (value < 0 && kind != PatchKind::Argument)
      return fail(error, "a size of this call is negative");
    switch (kind) {
    case PatchKind::Int:
    case PatchKind::Argument:
      ints[patch[1]] = value;
      break;
    case PatchKind::SlotBytes:
      slots[patch[1]].bytes = value;
      break;
    case PatchKind::SlotPlace:
      slots[patch[1]].place = value;
      break;
    case PatchKind::KernelWork:
      kernels[patch[1]].work = value;
      break;
    case PatchKind::KernelGrain:
      kernels[patch[1]].grain = std::max<int64_t>(1, value);
      break;
    case PatchKind::ArenaBytes:
      newHeader->arenaBytes = value;
      break;
    case PatchKind::SavedBytes:
      newHeader->savedBytes = value;
      break;
    case PatchKind::KernelBlocks:
      if (value > std::numeric_limits<int32_t>::max())
        return fail(error, "a kernel of this call has more blocks than a "
                           "launch can have");
      kernels[patch[1]].grid[0] = value;
      break;
    }
  }
  newHeader->symbols = newHeader->patches = 0;
  return true;
}

bool Program::hasRoom(const int64_t *symbols, const int64_t *capacity) const {
  const Header &h = header();
  for (uint32_t i = 0; i < h.patches; ++i) {
    const int64_t *patch = intPool + h.patchTable + 3 * uint64_t(i);
    int64_t need = 0, room = 0;
    if (static_cast<PatchKind>(patch[0]) == PatchKind::SlotBytes &&
        slotTable[patch[1]].kind == SlotKind::Arena &&
        (!evaluate(patch[2], symbols, need) ||
         !evaluate(patch[2], capacity, room) || need > room))
      return false;
  }
  return true;
}

std::optional<uint64_t> Program::arenaBytes(const int64_t *symbols) const {
  const Header &h = header();
  for (uint32_t i = 0; i < h.patches; ++i) {
    const int64_t *patch = intPool + h.patchTable + 3 * uint64_t(i);
    int64_t bytes = 0;
    if (static_cast<PatchKind>(patch[0]) != PatchKind::ArenaBytes)
      continue;
    if (!evaluate(patch[2], symbols, bytes) || bytes < 0)
      return std::nullopt;
    return bytes;
  }
  return h.arenaBytes;
}

bool Program::specialize(const int64_t *symbols, Program &out,
                         std::string &error) const {
  return specialize(symbols, symbols, out, error);
}

bool Program::specialize(const int64_t *symbols, const int64_t *capacity,
                         Program &out, std::string &error) const {
  std::vector<uint64_t> words(blob);
  return fill(symbols, capacity, words, error) &&
         out.load(std::move(words), header().size, error);
}

bool Program::respecialize(const int64_t *symbols, const int64_t *capacity,
                           Program &special, std::string &error,
                           bool isValid) const {
  return fill(symbols, capacity, special.blob, error) &&
         (isValid || validate(special, error));
}
