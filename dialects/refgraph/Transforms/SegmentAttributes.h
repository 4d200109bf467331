//===- SegmentAttributes.h - what a segment of a call is --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_DIALECTS_REFGRAPH_TRANSFORMS_SEGMENTATTRIBUTES_H
#define PYJIT_DIALECTS_REFGRAPH_TRANSFORMS_SEGMENTATTRIBUTES_H

#include "llvm/ADT/StringRef.h"

namespace pyjit::refgraph {

/// Attributes of a segment that its place in the call decides.
namespace segment {
/// Which segment: "prefix", "true", "false" or "rest".
inline constexpr llvm::StringLiteral kRole = "refgraph.segment";
/// Numbers of the values that the arguments are; -1 is the result of the
/// segment before.
inline constexpr llvm::StringLiteral kTakes = "refgraph.takes";
/// Entries of the prefix' object table, by the segment's own numbers.
inline constexpr llvm::StringLiteral kObjects = "refgraph.objects";
/// The grad mode that a segment leaves behind, if it set it.
inline constexpr llvm::StringLiteral kGradMode = "refgraph.leaves_grad_mode";
/// The segment leaves frames, not a result.
inline constexpr llvm::StringLiteral kGraphBreak = "refgraph.graph_break";
/// Of the prefix: where its innermost frame has the tensor that is asked.
inline constexpr llvm::StringLiteral kCondition = "refgraph.condition";
/// Of the prefix: where `torch.Tensor` is in the object table.
inline constexpr llvm::StringLiteral kTensorClass = "refgraph.tensor_class";
/// What Python saw of sizes is written down (the recorder says so).
inline constexpr llvm::StringLiteral kFollowsSizes = "refgraph.follows_sizes";
} // namespace segment

} // namespace pyjit::refgraph

#endif // PYJIT_DIALECTS_REFGRAPH_TRANSFORMS_SEGMENTATTRIBUTES_H
