//===- PartAttributes.h - what a part of a call is --------------*- C++ -*-===//

#ifndef PYJIT_DIALECTS_REFGRAPH_TRANSFORMS_PARTATTRIBUTES_H
#define PYJIT_DIALECTS_REFGRAPH_TRANSFORMS_PARTATTRIBUTES_H

#include "llvm/ADT/StringRef.h"

namespace pyjit::refgraph {

/// Attributes of a part that its place in the call decides.
namespace part {
/// Which part: "prefix", "true", "false" or "rest".
inline constexpr llvm::StringLiteral kRole = "refgraph.part";
/// Numbers of the values that the arguments are; -1 is the result of the part
/// before.
inline constexpr llvm::StringLiteral kTakes = "refgraph.takes";
/// Entries of the prefix' object table, by the part's own numbers.
inline constexpr llvm::StringLiteral kObjects = "refgraph.objects";
/// The grad mode that a part leaves behind, if it set it.
inline constexpr llvm::StringLiteral kGradMode = "refgraph.leaves_grad_mode";
/// The part leaves frames, not a result.
inline constexpr llvm::StringLiteral kCut = "refgraph.cut";
/// Of the prefix: where its innermost frame has the tensor that is asked.
inline constexpr llvm::StringLiteral kCondition = "refgraph.condition";
/// Of the prefix: where `torch.Tensor` is in the object table.
inline constexpr llvm::StringLiteral kTensorClass = "refgraph.tensor_class";
/// What Python saw of sizes is written down (the recorder says so).
inline constexpr llvm::StringLiteral kFollowsSizes = "refgraph.follows_sizes";
} // namespace part

} // namespace pyjit::refgraph

#endif // PYJIT_DIALECTS_REFGRAPH_TRANSFORMS_PARTATTRIBUTES_H
