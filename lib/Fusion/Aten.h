//===- Aten.h - Reading and building tssa.aten calls ------------*- C++ -*-===//

#ifndef PYJIT_LIB_FUSION_ATEN_H
#define PYJIT_LIB_FUSION_ATEN_H

#include "dialects/tssa/IR/TSSA.h"
#include "dialects/tssa/IR/Views.h"
#include "mlir/IR/Builders.h"
#include "pyjit/Operators/CallArguments.h"

namespace pyjit::fusion {

/// The arguments of a call by schema position.
class Arguments {
public:
  explicit Arguments(tssa::AtenOp op) : op(op) {
    operators::walkCallArguments(
        op.getArgs(), [&](unsigned, mlir::Attribute arg, unsigned first) {
          args.push_back({arg, first});
        });
  }
  unsigned size() const { return args.size(); }
  bool isNone(unsigned i) const {
    return operators::isNoneArgument(args[i].first);
  }
  /// The tensor at position i; null for none and for anything else.
  mlir::Value tensor(unsigned i) {
    return operators::isOperandPlaceholder(args[i].first)
               ? op.getInputs()[args[i].second]
               : mlir::Value();
  }
  mlir::Attribute attribute(unsigned i) const { return args[i].first; }
  std::optional<int64_t> integer(unsigned i) const {
    if (auto value = llvm::dyn_cast<mlir::IntegerAttr>(args[i].first))
      return value.getInt();
    return {};
  }
  /// A bool is an IntegerAttr of i1.
  bool isTrue(unsigned i) const { return integer(i).value_or(0) != 0; }
  std::optional<double> number(unsigned i) const {
    mlir::Attribute arg = args[i].first;
    if (mlir::TypedAttr wrapped = operators::getWrappedNumber(arg))
      arg = wrapped;
    if (auto value = llvm::dyn_cast<mlir::FloatAttr>(arg))
      return value.getValueAsDouble();
    if (auto value = llvm::dyn_cast<mlir::IntegerAttr>(arg))
      return double(value.getInt());
    return {};
  }
  /// A list of integers; one integer stands for `count` of them.
  std::optional<llvm::SmallVector<int64_t>> integers(unsigned i,
                                                     unsigned count) const {
    llvm::SmallVector<int64_t> values;
    if (auto one = integer(i))
      return llvm::SmallVector<int64_t>(count, *one);
    auto list = llvm::dyn_cast<mlir::ArrayAttr>(args[i].first);
    if (!list)
      return {};
    for (mlir::Attribute element : list) {
      auto value = llvm::dyn_cast<mlir::IntegerAttr>(element);
      if (!value)
        return {};
      values.push_back(value.getInt());
    }
    if (values.size() == 1)
      values.resize(count, values[0]);
    if (values.size() != count)
      return {};
    return values;
  }

private:
  tssa::AtenOp op;
  llvm::SmallVector<std::pair<mlir::Attribute, unsigned>> args;
};

/// Builds calls at one place.
class AtenBuilder {
public:
  AtenBuilder(mlir::OpBuilder &b, mlir::Location loc) : b(b), loc(loc) {}

  mlir::Attribute tensor() {
    return operators::getOperandPlaceholder(b.getContext());
  }
  mlir::Attribute none() { return operators::getNoneArgument(b.getContext()); }
  mlir::Attribute integer(int64_t value) { return b.getI64IntegerAttr(value); }
  mlir::Attribute number(double value) { return b.getF64FloatAttr(value); }
  mlir::Attribute string(llvm::StringRef value) {
    return b.getStringAttr(value);
  }
  mlir::Attribute list(llvm::ArrayRef<int64_t> values) {
    llvm::SmallVector<mlir::Attribute> elements;
    for (int64_t value : values)
      elements.push_back(integer(value));
    return b.getArrayAttr(elements);
  }
  mlir::Value call(llvm::StringRef overload, mlir::ValueRange inputs,
                   llvm::ArrayRef<mlir::Attribute> args, mlir::Type type) {
    return tssa::AtenOp::create(b, loc, mlir::TypeRange(type),
                                b.getStringAttr(overload), inputs,
                                b.getArrayAttr(args), mlir::DenseI64ArrayAttr())
        .getResult(0);
  }
  /// `value` under one view.
  mlir::Value view(mlir::Value value, tssa::ViewKind kind,
                   llvm::ArrayRef<int64_t> numbers) {
    auto attribute = tssa::ViewAttr::get(b.getContext(), kind, numbers);
    auto type = tssa::inferViewType(
        attribute, llvm::cast<mlir::RankedTensorType>(value.getType()),
        [&] { return mlir::emitError(loc); });
    return tssa::AccessOp::create(
        b, loc, type, value, b.getArrayAttr({attribute}), mlir::ValueRange());
  }

private:
  mlir::OpBuilder &b;
  mlir::Location loc;
};

/// Values of a function that depend on nothing but its parameters (arguments
/// with the attribute `pyjit.param`).
class ParameterValues {
public:
  bool contains(mlir::Value value);

private:
  llvm::DenseMap<mlir::Operation *, bool> known;
};

} // namespace pyjit::fusion

#endif
