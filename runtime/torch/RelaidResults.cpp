//===- RelaidResults.cpp - Results in other layouts than recorded ---------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "pyjit-rt/RelaidResults.h"

#include <mutex>

using namespace pyjit;

namespace {

struct Counts {
  std::mutex lock;
  std::map<std::string, uint64_t> byOverload;

  static Counts &get() {
    static Counts *const counts = new Counts;
    return *counts;
  }
};

} // namespace

std::map<std::string, uint64_t> rt::relaidResults() {
  Counts &counts = Counts::get();
  std::lock_guard<std::mutex> guard(counts.lock);
  return counts.byOverload;
}

void rt::noteRelaidResult(const std::string &overload) {
  Counts &counts = Counts::get();
  std::lock_guard<std::mutex> guard(counts.lock);
  ++counts.byOverload[overload];
}
