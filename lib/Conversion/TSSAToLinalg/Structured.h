//===- Structured.h - Operators that no scalar expression says --*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Joins, rearrangements, indexed reads, positions of extremes, group norm and
// pools: operators whose record in the operator table is `Structured`. Each
// rule gives the values of all results, or none and the reason why the call
// stays with the library.
//
//===----------------------------------------------------------------------===//

#ifndef PYJIT_LIB_CONVERSION_TSSATOLINALG_STRUCTURED_H
#define PYJIT_LIB_CONVERSION_TSSATOLINALG_STRUCTURED_H

#include "Lowering.h"

#include "llvm/ADT/DenseSet.h"

#include <tuple>

namespace pyjit {

/// Indices that are known to be in [lowest, size) behind a check in a block.
using CheckedIndices =
    llvm::DenseSet<std::tuple<mlir::Block *, mlir::Value, int64_t, int64_t>>;

struct StructuredCall {
  mlir::OpBuilder &b;
  tssa::AtenOp op;
  /// One check is enough for all reads, and writes, at the same indices.
  CheckedIndices &checked;
  /// What kernels read for an operand: accesses are read through.
  llvm::function_ref<mlir::Value(mlir::Value)> shown;
  /// First operand of each schema argument.
  llvm::SmallVector<unsigned> firstOperand;
  std::string reason;

  mlir::Location loc() { return op.getLoc(); }
  mlir::Value tensor(unsigned argument);
  std::optional<int64_t> integer(unsigned argument);
  /// The numbers of a list of constants.
  std::optional<llvm::SmallVector<int64_t>> integers(unsigned argument);
  bool isOnDevice();
  /// The dimension that an argument names, of `rank`.
  std::optional<unsigned> dim(unsigned argument, unsigned rank);
  mlir::RankedTensorType result(unsigned number = 0) {
    return llvm::cast<mlir::RankedTensorType>(op.getResult(number).getType());
  }
  llvm::SmallVector<mlir::Value> stays(const llvm::Twine &why) {
    reason = why.str();
    return {};
  }
};

/// How the call of an operator that is `Structured` becomes kernels.
struct StructuredRule {
  /// What a rule takes, other than calls that make a tensor of known sizes.
  enum Takes : unsigned {
    AnySizes = 1, ///< sizes that are symbols: joins, indexed reads, pools
    Writes = 2,   ///< calls that write their input: the result is its contents
  };
  llvm::StringLiteral name;
  llvm::SmallVector<mlir::Value> (*lower)(StructuredCall &);
  unsigned takes = 0;
};

/// The rule that a record of the operator table names, or null.
const StructuredRule *lookupStructuredRule(llvm::StringRef name);

/// The dimension that `number` names, of `rank`; negative ones count from the
/// end.
std::optional<unsigned> dimOf(int64_t number, unsigned rank);

/// cat, concat, stack (Joins.cpp).
llvm::SmallVector<mlir::Value> lowerCat(StructuredCall &call);
llvm::SmallVector<mlir::Value> lowerStack(StructuredCall &call);
llvm::SmallVector<mlir::Value> lowerRepeat(StructuredCall &call);

/// Elements that stand elsewhere, constant pads (Rearrangements.cpp).
llvm::SmallVector<mlir::Value> lowerPixelShuffle(StructuredCall &call);
llvm::SmallVector<mlir::Value> lowerPixelUnshuffle(StructuredCall &call);
llvm::SmallVector<mlir::Value> lowerFlip(StructuredCall &call);
llvm::SmallVector<mlir::Value> lowerRoll(StructuredCall &call);
llvm::SmallVector<mlir::Value> lowerConstantPad(StructuredCall &call);

/// `operand` with so many elements `before` and `behind` it in each dimension,
/// which are `filler`, or without so many where they are negative.
mlir::Value padWith(StructuredCall &call, mlir::Value operand,
                    llvm::ArrayRef<int64_t> before,
                    llvm::ArrayRef<int64_t> behind, mlir::TypedAttr filler,
                    mlir::RankedTensorType type);

/// Reads at indices that are values (Gathers.cpp). An index out of range is
/// never followed: a check beside the read makes the launch fail, and eager
/// answers the call with its own exception.
llvm::SmallVector<mlir::Value> lowerEmbedding(StructuredCall &call);
llvm::SmallVector<mlir::Value> lowerIndexSelect(StructuredCall &call);
llvm::SmallVector<mlir::Value> lowerGather(StructuredCall &call);
llvm::SmallVector<mlir::Value> lowerIndex(StructuredCall &call);
llvm::SmallVector<mlir::Value> lowerIndexCopy(StructuredCall &call);

/// argmax, argmin, max.dim, min.dim (Extremes.cpp).
llvm::SmallVector<mlir::Value> lowerExtreme(StructuredCall &call, bool largest);
llvm::SmallVector<mlir::Value> lowerGroupNorm(StructuredCall &call);

/// Pools whose windows span the last `rank` dimensions (Windows.cpp).
llvm::SmallVector<mlir::Value> lowerMaxPool(StructuredCall &call,
                                            unsigned rank);
llvm::SmallVector<mlir::Value> lowerMaxPoolBackward(StructuredCall &call,
                                                    unsigned rank);
llvm::SmallVector<mlir::Value> lowerAvgPool(StructuredCall &call,
                                            unsigned rank);
llvm::SmallVector<mlir::Value> lowerAvgPoolBackward(StructuredCall &call,
                                                    unsigned rank);

} // namespace pyjit

#endif
