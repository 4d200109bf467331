//===- Driver.cpp - The CUDA driver, or something that behaves like it ----===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "pyjit-rt/cuda/Driver.h"

#include <sstream>
#include <stdexcept>

using namespace pyjit::rt;
using namespace pyjit::rt::cuda;

Driver::~Driver() = default;

void cuda::check(const Driver &driver, Result result, const char *what) {
  if (result != kSuccess)
    throw std::runtime_error(std::string("CUDA driver: ") + what + ": " +
                             driver.describe(result));
}

void cuda::checkCopy(const Driver &driver, Result result,
                     const CopyNodeParams &copy) {
  if (result == kSuccess)
    return;
  std::ostringstream what;
  what << "a copy of " << copy.bytes << " bytes from 0x" << std::hex
       << copy.source << " to 0x" << copy.target;
  check(driver, result, what.str().c_str());
}
