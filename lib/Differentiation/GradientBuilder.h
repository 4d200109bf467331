//===- GradientBuilder.h - What gradients are made of -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_LIB_DIFFERENTIATION_GRADIENTBUILDER_H
#define PYJIT_LIB_DIFFERENTIATION_GRADIENTBUILDER_H

#include "dialects/tssa/IR/Calls.h"
#include "dialects/tssa/IR/Views.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace pyjit::differentiation {

using tssa::Argument;

/// The type of a gradient of a value of type `type`: the same shape and element
/// type, and the same layout where that is dense.
mlir::RankedTensorType gradientTypeOf(mlir::RankedTensorType type);
/// Only values of these have gradients.
bool mayHaveGradient(mlir::Type type);
bool isComplex(mlir::Value value);

mlir::RankedTensorType rowMajorType(llvm::ArrayRef<tssa::Size> sizes,
                                    mlir::Type elementType);
tssa::Size countOf(llvm::ArrayRef<tssa::Size> sizes);

/// Builds calls of operators, and infers the types of pointwise ones.
///
/// The layout of a gradient on its way means nothing: shapes and element types
/// do.
class GradientBuilder : public tssa::CallBuilder {
public:
  GradientBuilder(mlir::OpBuilder &builder, mlir::Location loc);

  /// A pointwise call of tensors and wrapped numbers: sizes are broadcast, the
  /// element type follows from the table's rule. Null without a tensor; fails
  /// (`hasFailed`) where sizes may not fit.
  mlir::Value pointwise(llvm::StringRef overload,
                        llvm::ArrayRef<Argument> arguments);
  mlir::Value apply(llvm::StringRef overload, mlir::Value value) {
    return pointwise(overload, {value});
  }
  mlir::Value add(mlir::Value a, Argument b);
  mlir::Value subtract(mlir::Value a, Argument b);
  mlir::Value multiply(mlir::Value a, Argument b);
  mlir::Value divide(mlir::Value a, Argument b);
  mlir::Value select(mlir::Value condition, Argument a, Argument b);
  mlir::Value negate(mlir::Value value);
  /// 1 - value.
  mlir::Value oneMinus(mlir::Value value);
  mlir::Value equal(mlir::Value a, Argument b);
  mlir::Value zeros(mlir::RankedTensorType type);
  mlir::Value ones(mlir::RankedTensorType type);
  /// Zeros for the gradient of such a value.
  mlir::Value zerosLike(mlir::Value value) {
    return zeros(gradientTypeOf(tssa::typeOf(value)));
  }
  /// Zeros of this gradient's type: where there is none, there are none.
  mlir::Value zerosBy(mlir::Value gradient);
  /// Of complex numbers, as real ones, the real parts.
  mlir::Value convert(mlir::Value value, mlir::Type elementType);
  /// The same values laid out as `type` says.
  mlir::Value layOut(mlir::Value value, mlir::RankedTensorType type);
  /// Eager's forward operator computes this value, too, and saves it.
  mlir::Value savedInEager(mlir::Value value);
  /// Over these dimensions, which stay as ones.
  mlir::Value mean(mlir::Value value, llvm::ArrayRef<int64_t> dims);
  /// Of a tensor without elements, as something that is computed from
  /// `gradient`: where there is none, the engine is given none.
  mlir::Value empty(mlir::Value gradient, mlir::RankedTensorType type);
  /// The product of sizes, minus `less`, in a tensor's place.
  Argument count(llvm::ArrayRef<tssa::Size> sizes, double less = 0);
  mlir::Value sum(mlir::Value value, llvm::ArrayRef<int64_t> dims);
  /// The gradient of a value of type `type` that was broadcast, and converted,
  /// to what `gradient` is the gradient of.
  mlir::Value sumTo(mlir::Value gradient, mlir::RankedTensorType type);
  /// Repeats dimensions of size one.
  mlir::Value expand(mlir::Value value, mlir::RankedTensorType type);
  mlir::Value reshape(mlir::Value value, mlir::RankedTensorType type);
  /// What a view shows, of a copy where no strides would show it of the value
  /// as it lies: what vendor calls are given is a strided part of memory.
  mlir::Value show(mlir::Value value, tssa::ViewAttr view);
  mlir::Value unsqueeze(mlir::Value value, int64_t dim);
  /// All elements in one dimension.
  mlir::Value flatten(mlir::Value value);
  /// `length` elements of a dimension, from `start`.
  mlir::Value slice(mlir::Value value, int64_t dim, const tssa::Size &start,
                    const tssa::Size &length);
  /// A call whose result is like its first operand, in a layout of its own.
  mlir::Value callLike(llvm::StringRef overload,
                       llvm::ArrayRef<Argument> arguments);
  mlir::Value flip(mlir::Value value, int64_t dim);
  mlir::Value gather(mlir::Value value, int64_t dim, mlir::Value index);
  mlir::Value transpose(mlir::Value value, int64_t a, int64_t b);
  /// The matrix product of two or three dimensions.
  mlir::Value product(mlir::Value a, mlir::Value b);

  /// A call with several results.
  mlir::ValueRange callAll(llvm::StringRef overload,
                           llvm::ArrayRef<Argument> arguments,
                           llvm::ArrayRef<mlir::Type> results);

  /// A number in a tensor's place.
  mlir::Attribute wrapped(double number) const;
  mlir::Attribute wrappedInteger(int64_t number) const;
  mlir::Attribute sizes(mlir::RankedTensorType type) const;

  mlir::OpBuilder &getBuilder() { return builder; }

private:
  mlir::Value fail(mlir::Value other);

  mlir::OpBuilder &builder;
};

/// Complex numbers and their parts. Real numbers are their own conjugates.
mlir::Value conjugate(GradientBuilder &build, mlir::Value value);
mlir::Value realPart(GradientBuilder &build, mlir::Value value);
mlir::Value imaginaryPart(GradientBuilder &build, mlir::Value value);
mlir::Value makeComplex(GradientBuilder &build, mlir::Value real,
                        mlir::Value imaginary);

} // namespace pyjit::differentiation

#endif // PYJIT_LIB_DIFFERENTIATION_GRADIENTBUILDER_H
