//===- Parts.h - Launch programs made by hand -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_TEST_RUNTIME_HOST_PARTS_H
#define PYJIT_TEST_RUNTIME_HOST_PARTS_H

#include "pyjit-rt/Program.h"

#include <cstring>

namespace pyjit::rt {

/// The sections of a launch program.
struct Parts {
  Header header{};
  std::vector<Slot> slots;
  std::vector<Step> steps;
  std::vector<Kernel> kernels;
  std::vector<int64_t> ints;
  std::string chars;

  std::vector<char> blob() {
    header.magic = kLaunchMagic;
    header.version = kLaunchVersion;
    header.slots = slots.size();
    header.steps = steps.size();
    header.kernels = kernels.size();
    header.ints = ints.size();
    header.chars = chars.size();
    std::vector<char> bytes;
    auto append = [&](const void *data, size_t size) {
      const char *begin = static_cast<const char *>(data);
      bytes.insert(bytes.end(), begin, begin + size);
    };
    append(&header, sizeof(header));
    append(slots.data(), slots.size() * sizeof(Slot));
    append(steps.data(), steps.size() * sizeof(Step));
    append(kernels.data(), kernels.size() * sizeof(Kernel));
    append(ints.data(), ints.size() * sizeof(int64_t));
    append(chars.data(), chars.size());
    uint64_t size = bytes.size();
    std::memcpy(bytes.data() + offsetof(Header, size), &size, sizeof(size));
    return bytes;
  }
};

} // namespace pyjit::rt

#endif
