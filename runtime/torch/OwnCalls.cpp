//===- OwnCalls.cpp - Library calls that PyTorch has no operator for ------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "OwnCalls.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <mutex>

void pyjit::rt::registerOwnCalls() {
  static std::once_flag once;
  std::call_once(once, [] {
    // Another library of pyjit may have come first.
    if (c10::Dispatcher::singleton().findSchema(
            {"pyjit::efficient_attention", ""}))
      return;
    static torch::Library library(torch::Library::FRAGMENT, "pyjit",
                                  std::nullopt, __FILE__, __LINE__);
    defineAttentionCalls(library);
    defineRecurrentCalls(library);
    defineHostRecurrence(library);
  });
}
