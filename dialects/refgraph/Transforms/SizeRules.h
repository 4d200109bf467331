//===- SizeRules.h - What operators make of sizes ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The second half of refgraph-lift-sizes: for each operator whose result sizes
// are known as expressions of its operands', the rule. A rule may rely on facts
// about sizes, which then become guards; where it does not know, the call's
// symbols get their recorded values back.
//
//===----------------------------------------------------------------------===//

#ifndef PYJIT_DIALECTS_REFGRAPH_TRANSFORMS_SIZERULES_H
#define PYJIT_DIALECTS_REFGRAPH_TRANSFORMS_SIZERULES_H

#include "dialects/refgraph/IR/RefGraph.h"
#include "pyjit/Operators/OperatorFacts.h"
#include "pyjit/Operators/OperatorInfo.h"

namespace pyjit::refgraph {

using analysis::SizePolynomial;
using analysis::SizePolynomials;

/// Of one tensor. A rule that leaves `strides` empty makes a fresh tensor,
/// whose layout has the order of the recorded one.
struct SymbolicShape {
  SizePolynomials sizes, strides;
  SizePolynomial offset = 0;
  /// Of part of a dimension: its first position, from the front.
  std::optional<SizePolynomial> start = {};

  unsigned rank() const { return sizes.size(); }
  SizePolynomial numElements() const;
  bool isSymbolic() const;
};

/// What rules may rely on.
class SizeFacts {
public:
  virtual ~SizeFacts() = default;
  /// In the recorded run.
  virtual int64_t evaluate(const SizePolynomial &size) const = 0;
  /// These return false where the recorded run says otherwise.
  virtual bool requireEqual(const SizePolynomial &a,
                            const SizePolynomial &b) = 0;
  virtual bool requireNotNegative(const SizePolynomial &size) = 0;
  virtual bool requireDifferent(const SizePolynomial &a,
                                const SizePolynomial &b) = 0;
  /// Rounded down; `by` is positive. Nothing where there are too many of them.
  virtual std::optional<SizePolynomial> floorDivide(const SizePolynomial &size,
                                                    int64_t by) = 0;
  /// It keeps its value, and so does what it was computed from.
  virtual bool requireRecorded(const SizePolynomial &size) = 0;
  virtual const SymbolicShape &shapeOf(mlir::Value tensor) = 0;
  /// An int that stands as `size(%n)`.
  virtual SizePolynomial sizeOf(mlir::Value number) = 0;
};

/// One call, by the names of its schema.
class SizeCall {
public:
  SizeCall(TensorOp op, SizeFacts &facts);

  mutable TensorOp op; // ops are handles; their accessors are not const
  SizeFacts &facts;
  operators::SizeRule rule;
  /// Null for an overload that the table does not know.
  const operators::OperatorInfo *info;

  /// Null where the argument is none, or there is no such argument.
  const SymbolicShape *tensor(llvm::StringRef argument = "self") const;
  llvm::SmallVector<const SymbolicShape *> tensors(llvm::StringRef list) const;
  llvm::SmallVector<const SymbolicShape *> allTensors() const;
  bool isNone(llvm::StringRef argument) const;
  std::optional<SizePolynomial> size(llvm::StringRef argument) const;
  std::optional<SizePolynomials> sizes(llvm::StringRef argument) const;
  /// A constant.
  std::optional<int64_t> integer(llvm::StringRef argument) const;
  /// Of an int, or a list of ints; nothing where it is missing or none.
  std::optional<llvm::SmallVector<int64_t>>
  integers(llvm::StringRef argument) const;
  bool isTrue(llvm::StringRef argument) const;
  /// Empty where it is no string.
  llvm::StringRef text(llvm::StringRef argument) const;
  /// Likewise, as a dimension of `rank`.
  std::optional<unsigned> dim(llvm::StringRef argument, unsigned rank,
                              std::optional<int64_t> otherwise = {}) const;
  TensorType resultType(unsigned i) const {
    return llvm::cast<TensorType>(op.getResult(i).getType());
  }

private:
  mlir::Attribute find(llvm::StringRef argument, unsigned *operand) const;
  std::optional<SizePolynomial> sizeAt(mlir::Attribute arg,
                                       unsigned &operand) const;
};

using SymbolicShapes = llvm::SmallVector<SymbolicShape, 2>;

/// The shapes of what the call returns, new versions of operands apart (they
/// keep their shape). Nothing where no rule is known, or a fact does not hold.
std::optional<SymbolicShapes> inferShapes(const SizeCall &call);

using SizeRuleFunction = std::optional<SymbolicShapes> (*)(const SizeCall &);
/// A function for each rule that the operator table names.
namespace size_rules {
#define PYJIT_SIZE_RULE(Name, name)                                            \
  std::optional<SymbolicShapes> name(const SizeCall &call);
#include "pyjit-c/OperatorFacts.h.inc"
} // namespace size_rules

// What rules are made of.
SymbolicShape fresh(SizePolynomials sizes);
/// These sizes for each result that the call returns.
SymbolicShapes allResults(const SizeCall &call, const SizePolynomials &sizes);
/// `into` becomes the sizes of both, broadcast together.
bool broadcast(SizePolynomials &into, llvm::ArrayRef<SizePolynomial> from,
               SizeFacts &facts);
bool broadcastsTo(llvm::ArrayRef<SizePolynomial> from,
                  llvm::ArrayRef<SizePolynomial> to, SizeFacts &facts);
/// Sizes of `x` from dimension `first` on keep their values.
bool fixSizes(const SizeCall &call, const SymbolicShape *x, unsigned first);
/// Of an operator on dimensions from number `copied` on, whose sizes keep their
/// values; results have those before them too.
std::optional<SymbolicShapes> leading(const SizeCall &call,
                                      const SymbolicShape *x, unsigned copied);
/// The strides of a view of these sizes, as ATen computes them.
std::optional<SizePolynomials>
inferViewStrides(const SymbolicShape &source,
                 llvm::ArrayRef<SizePolynomial> sizes, SizeFacts &facts);
/// The sizes that `view` and its like are asked for, -1 resolved.
std::optional<SizePolynomials> resolveViewSizes(const SizeCall &call);

} // namespace pyjit::refgraph

#endif // PYJIT_DIALECTS_REFGRAPH_TRANSFORMS_SIZERULES_H
