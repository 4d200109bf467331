//===- OperatorInfo.h - what is known of each ATen overload -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The operator table, generated from lib/Operators/*.td by pyjit-tblgen. One
// record per overload; everything is data. See lib/Operators/README.md.
//
//===----------------------------------------------------------------------===//

#ifndef PYJIT_OPERATORS_OPERATORINFO_H
#define PYJIT_OPERATORS_OPERATORINFO_H

#include "pyjit/Operators/ScalarExpr.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace pyjit::operators {

/// What a call may do besides computing its results.
enum class OperatorClass : uint8_t {
  Pure,     ///< nothing
  View,     ///< results share the first operand's memory
  Mutation, ///< writes operands
  Random,   ///< draws from a generator
  Metadata, ///< changes a tensor object's shape or flags
  Dynamic   ///< result shapes depend on data
};

/// One argument of a schema.
struct ArgumentInfo {
  llvm::StringRef name;
  llvm::StringRef type; ///< as the schema prints it, without alias marks
  bool mutated;         ///< `Tensor(a!)`
  bool aliased;         ///< a result has its alias set
};

enum class Lowering : uint8_t {
  Library, ///< called through the dispatcher
  Recipe,  ///< `expression`, see Recipe.h
  View,    ///< `rule`, on the imperative level
  /// `rule`, in lib/Conversion/TSSAToLinalg: what no scalar expression says
  Structured,
  InPlace ///< `functional`, whose result is stored in the first operand
};

/// Element type in which an expression is computed.
enum class ComputeRule : uint8_t {
  Result,  ///< the result's
  Promote, ///< PyTorch's common type of the promoted arguments
  Self     ///< the first operand's
};

/// Element type of the result.
enum class ResultRule : uint8_t {
  Promote, ///< common type of the promoted arguments
  Float,   ///< the same, but integers become the default float type
  Bool,
  Self,  ///< the first operand's
  Stated ///< depends on more: taken from the call
};

/// What eager makes of a Python number in a computation of half precision.
enum class NumberRule : uint8_t {
  Wide,           ///< nothing: it is as exact as the computation
  Narrow,         ///< it is rounded to half precision first
  NarrowOnCPU,    ///< on the processor it is, on a device it is not
  NarrowOnDevice, ///< the other way round
  /// As Wide, and so on the CPU a second operand of one element, of whatever
  /// type (TensorIterator's is_cpu_scalar).
  WideScalar
};

struct OperatorInfo {
  llvm::StringRef name;   ///< "aten::add.Tensor"
  llvm::StringRef schema; ///< as torch prints it
  OperatorClass kind;
  llvm::ArrayRef<ArgumentInfo> arguments;
  Lowering lowering;
  ComputeRule compute;
  ResultRule result;
  /// Arguments (bit i: argument i) that take part in type promotion.
  uint32_t promoted;
  /// Lowering::Recipe, in prefix order.
  llvm::ArrayRef<TableNode> expression;
  /// Lowering::View and Structured: the name of the rule.
  llvm::StringRef rule;
  /// Class Mutation: the functional form, an overload with the same arguments.
  llvm::StringRef functional;
  /// Lowering::Recipe.
  NumberRule numbers;

  int findArgument(llvm::StringRef argument) const {
    for (size_t i = 0; i < arguments.size(); ++i)
      if (arguments[i].name == argument)
        return i;
    return -1;
  }
};

/// The record of an overload ("aten::add.Tensor"), or null.
const OperatorInfo *lookupOperator(llvm::StringRef name);

/// Whether the work of an overload is more than that of reading its operands
/// and writing its results once: no call should do it twice.
bool isCostly(llvm::StringRef overload);

/// All records, sorted by name.
llvm::ArrayRef<OperatorInfo> getOperators();

} // namespace pyjit::operators

#endif // PYJIT_OPERATORS_OPERATORINFO_H
