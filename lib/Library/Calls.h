//===- Calls.h - Building and matching vendor calls -------------*- C++ -*-===//

#ifndef PYJIT_LIB_LIBRARY_CALLS_H
#define PYJIT_LIB_LIBRARY_CALLS_H

#include "dialects/tssa/IR/TSSA.h"

#include <variant>

namespace pyjit::library {

/// One argument of a call to build: a tensor, or an attribute in the form of
/// lib/Operators/CallArguments.
using Argument = std::variant<mlir::Value, mlir::Attribute>;

/// Builds `tssa.aten` calls at one place.
class CallBuilder {
public:
  CallBuilder(mlir::OpBuilder &builder, mlir::Location loc)
      : builder(builder), loc(loc) {}

  mlir::Value call(llvm::StringRef overload, llvm::ArrayRef<Argument> arguments,
                   mlir::Type result);
  mlir::Value view(mlir::Value source, llvm::ArrayRef<int64_t> sizes);
  mlir::Value permute(mlir::Value source, llvm::ArrayRef<int64_t> dims);

  mlir::Location getLoc() const { return loc; }

  mlir::Attribute none() const;
  mlir::Attribute integer(int64_t value) const;
  mlir::Attribute number(double value) const;
  mlir::Attribute boolean(bool value) const;
  mlir::Attribute integers(llvm::ArrayRef<int64_t> values) const;
  mlir::Attribute string(llvm::StringRef value) const;
  mlir::Attribute list(llvm::ArrayRef<mlir::Attribute> values) const;
  /// The tensor, or `none` for null.
  Argument optional(mlir::Value value) const;

private:
  mlir::OpBuilder &builder;
  mlir::Location loc;
};

inline mlir::RankedTensorType typeOf(mlir::Value value) {
  return mlir::cast<mlir::RankedTensorType>(value.getType());
}

/// The call that makes `value`, if it is of the overload `name` ("aten::relu")
/// or of its in-place form.
tssa::AtenOp matchCall(mlir::Value value, llvm::StringRef name);
/// The only use of `value` if it is an operand of a call, else null.
tssa::AtenOp onlyUser(mlir::Value value);
/// The overload's name without the in-place mark: "aten::add_.Tensor" ->
/// "aten::add.Tensor".
std::string functionalName(tssa::AtenOp op);
/// The operand that stands at schema argument `index`, or null.
mlir::Value tensorArgument(tssa::AtenOp op, unsigned index);
/// The attribute at schema argument `index`; a UnitAttr stands for a tensor.
mlir::Attribute constantArgument(tssa::AtenOp op, unsigned index);
std::optional<double> numberArgument(tssa::AtenOp op, unsigned index);
/// The Python scalar at schema argument `index`, which stands for a tensor.
std::optional<double> wrappedArgument(tssa::AtenOp op, unsigned index);

/// Whether the value is a parameter or computed from parameters alone.
bool isFromParameters(mlir::Value value);

} // namespace pyjit::library

#endif // PYJIT_LIB_LIBRARY_CALLS_H
