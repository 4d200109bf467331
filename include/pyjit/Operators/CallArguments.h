//===- CallArguments.h - arguments of an ATen call as IR --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `refgraph.tensor_op` and `tssa.aten` call an overload with the arguments of
// its full schema, in schema order: tensors are SSA operands, everything else
// is written in the op. Both ops keep one `args` ArrayAttr with one entry per
// schema argument:
//
//   written                  stored
//   %v                       UnitAttr: the next SSA operand stands here
//   1 : i64                  IntegerAttr of i64 (also dtypes, layouts, ...)
//   2.0 : f64                FloatAttr of f64
//   true, false              BoolAttr
//   "str"                    StringAttr
//   none                     TypeAttr of NoneType
//   [ ... ]                  ArrayAttr of the same, tensors included
//   device("cpu")            DictionaryAttr {device = "cpu"}
//   wrapped(2.0 : f64)       DictionaryAttr {wrapped = 2.0 : f64}: a Python
//                            scalar in a tensor argument's place
//   wrapped(%n)              DictionaryAttr {wrapped}: likewise, known at run
//                            time: the next operand, a 0-d f64 or i64 tensor
//   affine_map<()[s0] -> (s0 * 4)>
//                            AffineMapAttr: an int that is a size known at run
//                            time (SizeExpr.h)
//   number(%n)               DictionaryAttr {number}: the next operand, such a
//                            tensor, stands in a Scalar argument's place
//   size(%n)                 DictionaryAttr {size}: the next operand, a Python
//                            int, stands in an int argument's place (refgraph)
//
// Only builtin attributes, so that no dialect depends on another for them.
//
//===----------------------------------------------------------------------===//

#ifndef PYJIT_OPERATORS_CALLARGUMENTS_H
#define PYJIT_OPERATORS_CALLARGUMENTS_H

#include "mlir/IR/AffineExpr.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/OpImplementation.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace pyjit::operators {

struct OperatorInfo;

/// The SSA operand placeholder, and the value `none`.
mlir::Attribute getOperandPlaceholder(mlir::MLIRContext *context);
mlir::Attribute getNoneArgument(mlir::MLIRContext *context);

inline bool isOperandPlaceholder(mlir::Attribute arg) {
  return llvm::isa<mlir::UnitAttr>(arg);
}
bool isNoneArgument(mlir::Attribute arg);
/// The value of a number that is not wrapped; a flag's is 0 or 1, as Python's
/// is (getInt() of an i1 is -1).
std::optional<double> getNumber(mlir::Attribute arg);
/// The number inside `wrapped(...)`, or null.
mlir::TypedAttr getWrappedNumber(mlir::Attribute arg);
mlir::Attribute makeWrappedNumber(mlir::TypedAttr number);
/// Whether `arg` is `wrapped(%n)`, `number(%n)` or `size(%n)`: a Python number
/// that is an operand.
bool isNumberOperand(mlir::Attribute arg);
bool isWrappedOperand(mlir::Attribute arg);
bool isSizeOperand(mlir::Attribute arg);
mlir::Attribute makeNumberOperand(mlir::MLIRContext *context, bool wrapped);
mlir::Attribute makeSizeOperand(mlir::MLIRContext *context);
/// The expression of a size that differs between calls, or null.
mlir::AffineExpr getSizeArgument(mlir::Attribute arg);
mlir::Attribute makeSizeArgument(mlir::AffineExpr size);
/// Whether an argument, lists included, is such a size.
bool hasSizeArgument(mlir::ArrayAttr args);
/// The name inside `device("...")`, or null.
mlir::StringAttr getDeviceArgument(mlir::Attribute arg);
mlir::Attribute makeDeviceArgument(mlir::StringAttr name);

/// How many SSA operands `args` stands for, nested lists included.
unsigned countOperands(mlir::ArrayAttr args);

/// Calls `fn(arg, firstOperand)` for each schema argument; `firstOperand` is
/// the number of the first SSA operand at or after the argument.
void walkCallArguments(
    mlir::ArrayAttr args,
    llvm::function_ref<void(unsigned index, mlir::Attribute arg,
                            unsigned firstOperand)>
        fn);

/// `(…)` in the format above; usable as ODS directive
/// `custom<CallArguments>($operands, $args)`.
mlir::ParseResult parseCallArguments(
    mlir::OpAsmParser &parser,
    llvm::SmallVectorImpl<mlir::OpAsmParser::UnresolvedOperand> &operands,
    mlir::ArrayAttr &args);
void printCallArguments(mlir::OpAsmPrinter &printer, mlir::Operation *op,
                        mlir::OperandRange operands, mlir::ArrayAttr args);

/// Refuses attributes outside the format, and a placeholder count that differs
/// from the number of operands.
llvm::LogicalResult verifyCallArguments(mlir::Operation *op,
                                        mlir::ArrayAttr args,
                                        unsigned numOperands);

/// Refuses arguments of other kinds than the overload's schema has.
llvm::LogicalResult verifyArguments(mlir::Operation *op,
                                    const OperatorInfo &info,
                                    mlir::ArrayAttr args);
/// Likewise, and more results than it has; `numMutated` of them belong to
/// operands.
llvm::LogicalResult verifySchema(mlir::Operation *op, const OperatorInfo &info,
                                 mlir::ArrayAttr args, unsigned numMutated);

} // namespace pyjit::operators

#endif // PYJIT_OPERATORS_CALLARGUMENTS_H
