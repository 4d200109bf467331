//===- Driver.cpp - The CUDA driver, or something that behaves like it ----===//

#include "pyjit-rt/cuda/Driver.h"

#include <stdexcept>

using namespace pyjit::rt;
using namespace pyjit::rt::cuda;

Driver::~Driver() = default;

void cuda::check(const Driver &driver, Result result, const char *what) {
  if (result != kSuccess)
    throw std::runtime_error(std::string("CUDA driver: ") + what + ": " +
                             driver.describe(result));
}
