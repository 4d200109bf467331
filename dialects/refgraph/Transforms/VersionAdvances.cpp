//===- VersionAdvances.cpp - how far version counters go ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "dialects/refgraph/Transforms/VersionAdvances.h"

using namespace mlir;

namespace pyjit::refgraph {

llvm::MapVector<Value, Advance>
sumAdvances(llvm::iterator_range<Block::iterator> ops,
            const Counters &counters) {
  llvm::MapVector<Value, Advance> sums;
  for (Operation &op : ops)
    if (auto advance = dyn_cast<AdvanceOp>(op)) {
      Advance &sum = sums[counters.getCounter(advance.getTensor())];
      int64_t most = advance.getCount();
      int64_t least = advance.getLeast() ? int64_t(*advance.getLeast()) : most;
      sum = sum + Advance{least, most};
    }
  return sums;
}

} // namespace pyjit::refgraph
