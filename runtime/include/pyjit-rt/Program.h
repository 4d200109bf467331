//===- Program.h - A validated launch program -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_RT_PROGRAM_H
#define PYJIT_RT_PROGRAM_H

#include "pyjit-rt/Launch.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace pyjit::rt {

/// A launch program in the form that executors walk. Owns a copy of the blob;
/// the spans point into it.
class Program {
public:
  /// Validates `size` bytes at `data`: magic, version, counts, every index.
  /// On failure returns false and says in `error` what does not hold.
  bool load(const void *data, size_t size, std::string &error);

  /// Puts the values of the symbols into a copy that can run, `out`. Fails
  /// where a number does not fit, or what comes out is no valid program.
  bool specialize(const int64_t *symbols, Program &out,
                  std::string &error) const;
  /// Likewise, with an arena that is laid out for `capacity`, where the values
  /// have room: `respecialize` may put other values into the copy, and every
  /// buffer stays where it is.
  bool specialize(const int64_t *symbols, const int64_t *capacity, Program &out,
                  std::string &error) const;
  /// Puts other values into `special`, such a copy. Fails as `specialize` does;
  /// `special` cannot run then until this succeeds. `isValid`: these values
  /// have been in such a copy for this capacity, which was valid.
  bool respecialize(const int64_t *symbols, const int64_t *capacity,
                    Program &special, std::string &error,
                    bool isValid = false) const;
  /// Whether each buffer of an arena that is laid out for `capacity` has room
  /// for these values.
  bool hasRoom(const int64_t *symbols, const int64_t *capacity) const;
  /// Of the arena for these values; nothing where that is no number.
  std::optional<uint64_t> arenaBytes(const int64_t *symbols) const;
  /// Where symbol `i` is found: an input, and a dimension or -1.
  std::pair<int64_t, int64_t> symbolSource(uint32_t i) const {
    const int64_t *words = intPool + header().symbolTable + 2 * i;
    return {words[0], words[1]};
  }
  uint32_t numSymbols() const { return header().symbols; }

  const Header &header() const {
    return *reinterpret_cast<const Header *>(blob.data());
  }
  const Slot *slots() const { return slotTable; }
  const Step *steps() const { return stepTable; }
  const Kernel *kernels() const { return kernelTable; }
  const int64_t *ints() const { return intPool; }
  const char *string(uint64_t index) const { return charPool + index; }

  uint32_t numSlots() const { return header().slots; }
  uint32_t numSteps() const { return header().steps; }
  uint32_t numKernels() const { return header().kernels; }
  uint32_t numInputs() const { return header().inputs; }
  uint32_t numOutputs() const { return header().outputs; }
  /// The slot that holds output `i`.
  uint32_t outputSlot(uint32_t i) const {
    return static_cast<uint32_t>(intPool[i]);
  }
  /// Whether output `i` is the new contents of an input, which has them.
  bool isInPlace(uint32_t i) const { return intPool[i] & kOutputInPlace; }

private:
  bool load(std::vector<uint64_t> words, size_t size, std::string &error);
  bool evaluate(uint64_t at, const int64_t *symbols, int64_t &value) const;
  bool fill(const int64_t *symbols, const int64_t *capacity,
            std::vector<uint64_t> &words, std::string &error) const;

  std::vector<uint64_t> blob; // 8-byte aligned
  const Slot *slotTable = nullptr;
  const Step *stepTable = nullptr;
  const Kernel *kernelTable = nullptr;
  const int64_t *intPool = nullptr;
  const char *charPool = nullptr;
};

/// The slot whose memory `slot` shows from its beginning on: itself, where it
/// is no view, or one of a place further on.
uint32_t wholeSlot(const Program &program, uint32_t slot);

} // namespace pyjit::rt

#endif // PYJIT_RT_PROGRAM_H
