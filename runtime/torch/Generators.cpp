//===- Generators.cpp - What random numbers come next ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "pyjit-rt/Generators.h"

#include <ATen/Context.h>

using namespace pyjit::rt;

Generators::Generators(at::Device device) {
  keep(at::kCPU);
  if (!device.is_cpu())
    keep(device);
}

void Generators::keep(at::Device device) {
  at::Generator generator = at::globalContext().defaultGenerator(device);
  std::lock_guard<std::mutex> lock(generator.mutex());
  try {
    kept.emplace_back(generator, generator.get_state());
  } catch (const c10::Error &) {
    // A generator that a graph of the user's own captures tells nothing.
  }
}

void Generators::restore() const {
  for (const auto &[generator, state] : kept) {
    at::Generator own = generator;
    std::lock_guard<std::mutex> lock(own.mutex());
    own.set_state(state);
  }
}
