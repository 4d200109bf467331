//===- TailMerging.h - sink the common end of two arms ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Two recordings that start at the two sides of a branch run on to the end of
// the function, or to the next graph break, so most of the time they end with
// the same operators. Tail merging moves that common end behind the branch.
// What stays in the arms yields the tensors that the tail needs.
//
//===----------------------------------------------------------------------===//

#ifndef PYJIT_DIALECTS_REFGRAPH_TRANSFORMS_TAILMERGING_H
#define PYJIT_DIALECTS_REFGRAPH_TRANSFORMS_TAILMERGING_H

#include "dialects/refgraph/IR/RefGraph.h"

namespace pyjit::refgraph {

class SegmentComposer;

/// What one arm of a branch ends with.
struct ArmEnd {
  mlir::Value left;                            ///< the value it leaves
  llvm::SmallVector<mlir::Operation *> writes; ///< to external objects
};

/// Replaces `branch`, whose arms hold everything that the two sides did, by a
/// branch that holds only what differs, followed by the common tail. Returns
/// what both arms leave, as values behind the branch.
///
/// A result of the new branch is a fresh tensor with the same contents, so a
/// tensor can cross from an arm to the tail only if nobody else can see its
/// memory from there on. `seen` lists the values of the block around the branch
/// that are visible after it. Where no split meets this condition, reports why
/// at `branch` and fails; the IR is then not usable.
llvm::FailureOr<ArmEnd> mergeTails(IfOp branch, const ArmEnd (&arms)[2],
                                   llvm::ArrayRef<mlir::Value> seen,
                                   SegmentComposer &composer);

} // namespace pyjit::refgraph

#endif // PYJIT_DIALECTS_REFGRAPH_TRANSFORMS_TAILMERGING_H
