//===- GraphPool.h - How many captured graphs are kept ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A program for calls of any size has graphs for each combination of sizes that
// comes back. Each holds memory of its own, so those that were used least
// recently make room. One pool serves all programs of a driver.
//
//===----------------------------------------------------------------------===//

#ifndef PYJIT_RT_CUDA_GRAPHPOOL_H
#define PYJIT_RT_CUDA_GRAPHPOOL_H

#include <cstddef>
#include <list>
#include <mutex>

namespace pyjit::rt::cuda {

class GraphPool {
public:
  /// Who holds graphs.
  class Tenant {
  public:
    virtual ~Tenant() = default;
    /// Gives its graphs up; false: it is at work, and keeps them. Must not wait
    /// for whoever calls.
    virtual bool giveUpGraphs() = 0;
  };

  explicit GraphPool(size_t capacity) : capacity(capacity) {}

  /// `tenant` uses its graphs, or is about to make some: others may have to
  /// give up theirs.
  void use(Tenant &tenant) {
    std::lock_guard<std::mutex> guard(lock);
    tenants.remove(&tenant);
    tenants.push_front(&tenant);
    for (auto last = tenants.end(); tenants.size() > capacity;) {
      if (--last == tenants.begin())
        return;
      if ((*last)->giveUpGraphs())
        last = tenants.erase(last);
    }
  }
  /// `tenant` has no graphs any more; before it dies.
  void leave(Tenant &tenant) {
    std::lock_guard<std::mutex> guard(lock);
    tenants.remove(&tenant);
  }
  size_t size() const {
    std::lock_guard<std::mutex> guard(lock);
    return tenants.size();
  }

private:
  mutable std::mutex lock;
  size_t capacity;
  std::list<Tenant *> tenants; ///< most recently used first
};

} // namespace pyjit::rt::cuda

#endif // PYJIT_RT_CUDA_GRAPHPOOL_H
