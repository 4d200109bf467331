//===- Planner.h - Making a fusion plan -------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_LIB_FUSION_PLANNER_H
#define PYJIT_LIB_FUSION_PLANNER_H

#include "pyjit/Fusion/Plan.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

#include <memory>

namespace pyjit::fusion {

/// What is so many times smaller than what a kernel reads costs nothing.
constexpr int64_t kMuchLess = 16;

/// Whether it is a generic with a reduction loop.
bool reduces(mlir::Operation *op);

class Planner {
public:
  Planner(mlir::Block &block, const PlanOptions &options)
      : block(block), options(options) {}
  Plan run();

private:
  using Operation = mlir::Operation;
  using Value = mlir::Value;
  using Ops = llvm::SetVector<Operation *>;
  struct Candidate {
    /// What the kernel computes; views are added where they are read through.
    Ops owned;
    /// What it has besides: such views, and operations of another candidate
    /// that it computes again.
    Ops views;
    /// Whether somebody reads what it stores.
    bool isNeeded = true;
  };

  /// The order of the operations, and what holds them in it.
  void readBlock();
  /// Each operation takes its producers' candidates into its own, nearest
  /// first, read through views or not.
  void joinProducers();
  void takeProducers(Operation *op, Candidate *mine);
  static Candidate join(Candidate a, const Candidate &b);
  void take(Candidate *mine, Candidate *other, Candidate merged);

  /// What is cheaper to compute again than to read back is not stored
  /// (Recompute.cpp).
  void recompute();
  struct Way;
  bool addReaders(Value value, llvm::SetVector<Candidate *> &readers);
  std::optional<llvm::SmallVector<Candidate *>> readersOf(Value result,
                                                          Candidate &owner);
  bool goThemselves(llvm::ArrayRef<Candidate *> readers, Candidate &owner,
                    Way &&way);
  bool addToWay(Operation *op, Candidate &owner, Way &way);
  bool addOperand(mlir::OpOperand *operand, Candidate &owner, Way &way);
  /// Reductions of one operand share the walk over it.
  void joinSiblings();
  bool shareWalk(const Group &a, const Group &b) const;
  /// Softmaxes between two sums of products, with these.
  void joinAttention();
  void takeIntoAttention(Candidate *mine);
  void joinEqualSizes();
  Candidate *onlyProducer(Value value, Candidate *reader);

  /// Whether no speculation stands between them.
  bool areTogether(const Candidate &a, const Candidate &b) const {
    return epoch.lookup(a.owned.front()) == epoch.lookup(b.owned.front());
  }
  /// The group with the kernel's boundary; ops in block order.
  Group boundary(const Candidate &candidate);
  bool isReadBy(Operation *user, Operation *root, const Candidate &candidate);
  bool isLiveOut(Value value, const Candidate &candidate);
  bool readThrough(Operation *view, const Candidate &candidate);
  bool isStoredAlone(Operation *view);
  void addViews(Operation *op, Candidate &candidate);
  bool leavesAndReturns(const Candidate &candidate);
  bool leavesItsReduction(Operation *op, const Candidate &merged,
                          const Candidate &consumer, const Candidate &producer);
  bool worthwhile(const Candidate &merged, const Candidate &consumer,
                  const Candidate &producer);

  mlir::Block &block;
  const PlanOptions &options;
  llvm::DenseMap<Operation *, unsigned> position;
  /// How many speculations stand in front of an operation: a kernel runs before
  /// one or behind it.
  llvm::DenseMap<Operation *, unsigned> epoch;
  /// What waits for an operation with effects: the next one.
  llvm::DenseMap<Operation *, Operation *> nextEffect;
  /// What waits for a reader of a value: the write that takes its memory.
  llvm::DenseMap<Operation *, llvm::SmallVector<Operation *, 1>> nextWrites;
  /// The inputs that the program gives new contents, and these.
  llvm::DenseSet<Value> written, updates;
  std::vector<std::unique_ptr<Candidate>> candidates;
  llvm::DenseMap<Operation *, Candidate *> groupOf;
  /// Who has an operation besides.
  llvm::DenseMap<Operation *, llvm::SetVector<Candidate *>> computedAgain;
};

} // namespace pyjit::fusion

#endif // PYJIT_LIB_FUSION_PLANNER_H
