//===- Program.cpp - Loading launch programs ------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "pyjit-rt/Program.h"
#include "Validator.h"

#include <cstring>

using namespace pyjit::rt;

namespace {
bool fail(std::string &error, std::string what) {
  error = "launch program: " + std::move(what);
  return false;
}
} // namespace

bool Program::load(const void *data, size_t size, std::string &error) {
  std::vector<uint64_t> words((size + 7) / 8, 0);
  std::memcpy(words.data(), data, size);
  return load(std::move(words), size, error);
}

bool Program::load(std::vector<uint64_t> words, size_t size,
                   std::string &error) {
  if (size < sizeof(Header))
    return fail(error, "shorter than its header");
  blob = std::move(words);
  const Header &h = header();
  if (h.magic != kLaunchMagic)
    return fail(error,
                "wrong magic; this is not a launch program of this byte order");
  if (h.version != kLaunchVersion)
    return fail(error, "version " + std::to_string(h.version) +
                           ", this runtime reads version " +
                           std::to_string(kLaunchVersion) +
                           "; compile it again");
  // Counts are 32 bits or bounded by the size, so the sum below cannot wrap.
  if (h.size != size || h.ints > size / 8 || h.chars > size)
    return fail(error, "truncated");
  uint64_t need = sizeof(Header) + uint64_t(h.slots) * sizeof(Slot) +
                  uint64_t(h.steps) * sizeof(Step) +
                  uint64_t(h.kernels) * sizeof(Kernel) + h.ints * 8 + h.chars;
  if (need != size)
    return fail(error, "section sizes do not add up to its size");

  const char *at = reinterpret_cast<const char *>(blob.data()) + sizeof(Header);
  slotTable = reinterpret_cast<const Slot *>(at);
  at += h.slots * sizeof(Slot);
  stepTable = reinterpret_cast<const Step *>(at);
  at += h.steps * sizeof(Step);
  kernelTable = reinterpret_cast<const Kernel *>(at);
  at += h.kernels * sizeof(Kernel);
  intPool = reinterpret_cast<const int64_t *>(at);
  at += h.ints * 8;
  charPool = at;
  return validate(*this, error);
}

uint32_t pyjit::rt::wholeSlot(const Program &program, uint32_t slot) {
  for (uint32_t i = program.header().steps; i-- > 0;)
    if (const Step &step = program.steps()[i];
        step.kind == StepKind::View && step.a == slot) {
      if (program.ints()[step.c])
        return slot;
      slot = step.b;
    }
  return slot;
}
