//===- Attention.h - Softmax between two sums of products -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_CODEGEN_ATTENTION_H
#define PYJIT_CODEGEN_ATTENTION_H

#include "pyjit/Codegen/KernelGraph.h"
#include <optional>

namespace pyjit::codegen {

/// A kernel that is no `KernelGraph`, since it sums along two dims of which
/// neither is the other's row: few queries times all keys, what is added to or
/// done with these sums, a softmax over the keys, and the values so weighted.
///
/// It is two graphs, whose dims are told apart by what they number.
struct Attention {
  /// The most queries that share the keys which a block reads.
  static constexpr int64_t kMostQueries = 8;
  /// A key is shared by the threads of a warp at most, a vector of up to so
  /// many elements for each.
  static constexpr int64_t kMostThreads = 32, kMostLanes = 16;

  /// Dims of one of the graphs.
  struct Dims {
    /// Of all operands: keys and values are others at each point of them.
    llvm::SmallVector<unsigned> outer;
    /// Of what reads the same keys.
    llvm::SmallVector<unsigned> queries;
    unsigned keys = 0;
    /// What vectors walk: features of queries and keys; columns of values.
    unsigned lane = 0;
  };

  /// Its one result is `logit` at each pair of a query and a key.
  std::shared_ptr<KernelGraph> scores;
  Dims ofScores;
  /// Of `scores`: the sum over the features, what the softmax takes, and the
  /// load of keys.
  Node *score = nullptr, *logit = nullptr, *key = nullptr;

  /// Its one result is the kernel's; a load stands for what the softmax gives.
  std::shared_ptr<KernelGraph> values;
  Dims ofValues;
  Node *sum = nullptr, *weight = nullptr, *value = nullptr;

  /// A query that sees no key gets zeros.
  bool safe = false;

  int64_t queryCount = 1;

  analysis::Size outerCount() const;
  analysis::Size keyCount() const {
    return scores->dims[ofScores.keys].getSize();
  }
  int64_t features() const { return scores->dims[ofScores.lane].size; }
  int64_t columns() const { return values->dims[ofValues.lane].size; }

  /// Sees `roots` as functions of `inputs`; null, and a reason, where they are
  /// something else. The buffers of both graphs are numbered as a kernel's.
  static std::optional<Attention> find(llvm::ArrayRef<mlir::Value> inputs,
                                       llvm::ArrayRef<mlir::Value> roots,
                                       std::string &reason);
};

} // namespace pyjit::codegen

#endif
