//===- Calls.h - Building and matching calls of operators -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_DIALECTS_TSSA_IR_CALLS_H
#define PYJIT_DIALECTS_TSSA_IR_CALLS_H

#include "dialects/tssa/IR/TSSA.h"

#include <variant>

namespace pyjit::tssa {

/// A number that differs between calls: a 0-d tensor that stands in a number's
/// place.
struct NumberOperand {
  mlir::Value value;
};

/// One argument of a call to build: a tensor, such a number, or an attribute in
/// the form of lib/Operators/CallArguments.
using Argument = std::variant<mlir::Value, NumberOperand, mlir::Attribute>;

/// The operands of a call, and its `args`, whose placeholders stand for them.
struct CallArguments {
  llvm::SmallVector<mlir::Value> operands;
  llvm::SmallVector<mlir::Attribute> args;
};
CallArguments splitArguments(mlir::MLIRContext *context,
                             llvm::StringRef overload,
                             llvm::ArrayRef<Argument> arguments);

/// Builds `tssa.aten` calls at one place.
class CallBuilder {
public:
  CallBuilder(mlir::OpBuilder &builder, mlir::Location loc)
      : builder(builder), loc(loc) {}

  mlir::Value call(llvm::StringRef overload, llvm::ArrayRef<Argument> arguments,
                   mlir::Type result);
  mlir::Value view(mlir::Value source, llvm::ArrayRef<int64_t> sizes);
  mlir::Value permute(mlir::Value source, llvm::ArrayRef<int64_t> dims);
  /// A call of `aten::cat`, whose list of tensors `call` does not take.
  mlir::Value concatenate(mlir::ValueRange values, int64_t dim,
                          mlir::RankedTensorType type);
  /// Likewise of tensors whose sizes along `dim` are known.
  mlir::Value concatenate(mlir::ValueRange values, int64_t dim);
  /// What a path of views shows; `indices` stand for its `?`. `source` itself,
  /// and an error, where the path does not fit it (`hasFailed`).
  mlir::Value access(mlir::Value source, llvm::ArrayRef<ViewAttr> path,
                     mlir::ValueRange indices = {});

  mlir::Location getLoc() const { return loc; }
  /// Whether something could not be built, which an error has told.
  bool hasFailed() const { return failed; }

  mlir::Attribute none() const;
  mlir::Attribute integer(int64_t value) const;
  mlir::Attribute number(double value) const;
  mlir::Attribute boolean(bool value) const;
  mlir::Attribute integers(llvm::ArrayRef<int64_t> values) const;
  mlir::Attribute string(llvm::StringRef value) const;
  mlir::Attribute list(llvm::ArrayRef<mlir::Attribute> values) const;
  /// The tensor, or `none` for null.
  Argument optional(mlir::Value value) const;

protected:
  bool failed = false;

private:
  mlir::OpBuilder &builder;
  mlir::Location loc;
};

/// What an operation of linalg that makes a tensor of this type writes to.
mlir::Value makeEmpty(mlir::OpBuilder &b, mlir::Location loc,
                      mlir::RankedTensorType type);

/// Erases the operations of a block whose results nothing uses and that may be
/// left out, and what only they used. Regions are left as they are.
void eraseUnused(mlir::Block &block);

inline mlir::RankedTensorType typeOf(mlir::Value value) {
  return mlir::cast<mlir::RankedTensorType>(value.getType());
}

/// The call that makes `value`, if it is of the overload `name` ("aten::relu")
/// or of its in-place form.
AtenOp matchCall(mlir::Value value, llvm::StringRef name);
/// The only use of `value` if it is an operand of a call, else null.
AtenOp onlyUser(mlir::Value value);
/// The overload's name without the in-place mark: "aten::add_.Tensor" ->
/// "aten::add.Tensor".
std::string functionalName(AtenOp op);
/// The operand that stands at schema argument `index`, or null.
mlir::Value tensorArgument(AtenOp op, unsigned index);
/// The operand that stands at schema argument `index` in a number's place.
mlir::Value numberOperand(AtenOp op, unsigned index);
/// The attribute at schema argument `index`; a UnitAttr stands for a tensor.
mlir::Attribute constantArgument(AtenOp op, unsigned index);
std::optional<double> numberArgument(AtenOp op, unsigned index);
/// The Python scalar at schema argument `index`, which stands for a tensor.
std::optional<double> wrappedArgument(AtenOp op, unsigned index);

} // namespace pyjit::tssa

#endif // PYJIT_DIALECTS_TSSA_IR_CALLS_H
