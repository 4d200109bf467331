//===- SegmentComposer.h - one recording after another ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A call with a graph break is recorded in segments: what one segment leaves,
// the next begins with as its arguments. The composer appends a segment to the
// trace in front of it: what it reads of arguments is found in what the trace
// leaves, now; what it reads of older objects becomes a read of the trace. It
// refuses what would not be the same if all checks came first.
//
//===----------------------------------------------------------------------===//

#ifndef PYJIT_DIALECTS_REFGRAPH_TRANSFORMS_SEGMENTCOMPOSER_H
#define PYJIT_DIALECTS_REFGRAPH_TRANSFORMS_SEGMENTCOMPOSER_H

#include "dialects/refgraph/IR/RefGraph.h"
#include "dialects/refgraph/Transforms/SegmentAttributes.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

namespace pyjit::refgraph {

class SegmentComposer {
public:
  explicit SegmentComposer(TraceOp trace);

  /// Whether the trace itself can be appended to.
  llvm::LogicalResult begin();
  /// Appends `segment`. Reads go where `reads` is, operators, objects and
  /// writes where `body` is. Returns what the segment leaves; `written` are the
  /// writes, which later segments see once they are noted.
  llvm::FailureOr<mlir::Value>
  append(TraceOp segment, llvm::ArrayRef<mlir::Value> arguments,
         mlir::OpBuilder &reads, mlir::OpBuilder &body,
         llvm::SmallVectorImpl<mlir::Operation *> &written);
  void noteWrite(mlir::Operation *op) { writes.push_back(op); }
  llvm::ArrayRef<mlir::Operation *> getWrites() const { return writes; }
  void noteVersions(mlir::Operation *op);

  /// Of what the segments leave, something requires grad.
  bool hasGradients() const { return !differentiable.empty(); }
  /// Whether what a segment leaves does.
  bool requiresGrad(mlir::Value tensor) const;
  /// Why gradients cannot flow from one segment to the next, where they do.
  llvm::LogicalResult checkGradients();
  /// No segment that follows may leave what requires grad.
  void endGradients() { gradientsEnded = true; }

  /// The object's first value: of versions, and of reads that found one object.
  mlir::Value getNode(mlir::Value value) const;
  /// State of the thread that a segment has to begin with.
  mlir::DictionaryAttr state;

private:
  using Place = std::tuple<mlir::Value, int, mlir::Attribute>;

  void note(mlir::Operation *op);
  void unite(mlir::Value a, mlir::Value b);
  void renumber(TraceOp segment);
  void noteShared(TraceOp segment);
  llvm::LogicalResult appendSource(mlir::Operation *op,
                                   llvm::ArrayRef<mlir::Value> arguments);
  llvm::LogicalResult appendComputed(mlir::Operation *op, mlir::OpBuilder &body,
                                     bool inArm);
  llvm::LogicalResult appendOperators(mlir::Operation *op,
                                      mlir::OpBuilder &body, bool inArm);
  llvm::LogicalResult appendGradient(DifferentiableOp op,
                                     mlir::OpBuilder &body);
  mlir::Value getObject(mlir::IntegerAttr index, mlir::Type type,
                        mlir::Location loc);
  void noteVariable(mlir::Operation *op);
  bool isLastSet(CreateOp token) const;

  // SegmentReads.cpp.
  llvm::LogicalResult appendRead(GetOp get);
  llvm::LogicalResult appendCheck(mlir::Operation *op);
  llvm::LogicalResult bind(GetOp get, mlir::Value value);
  llvm::LogicalResult mergeChecks(GetOp get, GetOp into);
  mlir::Value resolve(CreateOp created, Selector selector, mlir::Attribute key);
  llvm::LogicalResult checkUnwritten(mlir::Operation *read, mlir::Value holder,
                                     mlir::Attribute key, bool onePlace);
  mlir::Value findWritten(mlir::Value holder, Selector selector,
                          mlir::Attribute key);

  // SegmentNumbers.cpp.
  static bool isNumber(mlir::Value value);
  llvm::LogicalResult bindNumber(GetOp get, mlir::Value value);
  llvm::LogicalResult mergeLift(GetOp get, GetOp into);
  void mergeSizes(GetOp get, GetOp into);
  void beginSizes(TraceOp segment);
  void keepSizes(mlir::Value tensor, mlir::Location loc);
  void keepValue(mlir::Value number, mlir::Location loc);
  mlir::Value getConstant(mlir::Attribute value, mlir::Type type,
                          mlir::Location loc);
  mlir::Value getOperand(mlir::Value value);
  llvm::LogicalResult appendArith(ArithOp arith);
  llvm::LogicalResult appendCompare(CompareOp compare);
  void appendSize(mlir::Operation *op, mlir::OpBuilder &body);
  llvm::LogicalResult checkNumbers(TensorOp call, bool inArm);
  void foldSizes(TensorOp call);
  static bool isWrite(mlir::Operation *op) {
    return llvm::isa<SetOp, DeleteOp, AppendOp, ReplaceOp>(op);
  }

  TraceOp trace;
  mlir::IntegerAttr tensorClass;
  llvm::DenseMap<mlir::Value, mlir::Value> parent;
  llvm::DenseMap<int64_t, mlir::Value> byIndex;
  llvm::DenseMap<Place, GetOp> places;
  /// What the current segment is the first to read.
  llvm::DenseSet<mlir::Value> fresh;
  llvm::SmallVector<mlir::Operation *> writes;
  mlir::Value external;
  /// A context variable that is set: its token, and its value until the token
  /// is taken back.
  struct Variable {
    mlir::Value variable, token, value;
  };
  llvm::SmallVector<Variable> variables;
  /// A segment takes back what was set before the call.
  bool resetsFromBefore = false;
  /// What the segment that was appended last did to such, which it has recorded
  /// its own reads around.
  llvm::SmallVector<mlir::Operation *> settings;
  /// Nodes of tensors that a segment has computed, that leave it, and that
  /// require grad.
  llvm::DenseSet<mlir::Value> differentiable;
  bool gradientsEnded = false;
  /// A segment writes memory that it has not made: autograd may see the write
  /// otherwise than each segment's recording alone.
  mlir::Operation *sharedWrite = nullptr;
  /// Of numbers, in front of arms.
  llvm::DenseMap<std::pair<mlir::Attribute, mlir::Type>, mlir::Value> constants;
  llvm::SmallVector<ArithOp> computed;
  /// Sizes may differ between calls.
  bool followsSizes = false;
  // Of the segment that is being appended.
  bool keepsSizes = false;
  mlir::IRMapping mapping;
  mlir::OpBuilder *reads = nullptr;
};

} // namespace pyjit::refgraph

#endif // PYJIT_DIALECTS_REFGRAPH_TRANSFORMS_SEGMENTCOMPOSER_H
