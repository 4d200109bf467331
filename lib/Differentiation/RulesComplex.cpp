//===- RulesComplex.cpp - Derivatives of complex numbers ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Formulas: torch/csrc/autograd/FunctionsManual.cpp. The gradient is
// PyTorch's: of a real loss L, dL/d(re) + i dL/d(im).
//
//===----------------------------------------------------------------------===//

#include "Adjoint.h"

#include "pyjit/Operators/OperatorNames.h"

using namespace mlir;
using namespace pyjit;
using namespace pyjit::differentiation;
using tssa::Size;
using tssa::typeOf;

static Value unlessZero(GradientBuilder &build, Value divisor, Value quotient) {
  return build.select(build.equal(divisor, build.wrapped(0)), build.wrapped(0),
                      quotient);
}

/// z / |z|, which is a step function for real numbers.
LogicalResult gradient_rules::Direction(Adjoint &a) {
  GradientBuilder &build = a.build;
  Value self = a.tensor(0), result = a.call.getResult(0);
  if (!isComplex(self)) {
    a.give(0, build.zerosBy(a.gradient()));
    return success();
  }
  auto type = gradientTypeOf(typeOf(self));
  Type real = cast<ComplexType>(type.getElementType()).getElementType();
  Value length = build.call(operators::aten::abs, {self}, type.clone(real));
  Value gradient = build.divide(a.gradient(), length);
  Value along =
      realPart(build, build.multiply(gradient, conjugate(build, result)));
  gradient = build.subtract(gradient, build.multiply(along, result));
  a.give(0, unlessZero(build, length, gradient));
  return success();
}

/// Of a real number, a step function.
LogicalResult gradient_rules::Angle(Adjoint &a) {
  GradientBuilder &build = a.build;
  Value self = a.tensor(0);
  if (!isComplex(self)) {
    a.give(0, build.zerosBy(a.gradient()));
    return success();
  }
  Value real = realPart(build, self), imaginary = imaginaryPart(build, self);
  Value square = build.add(build.multiply(real, real),
                           build.multiply(imaginary, imaginary));
  auto share = [&](Value part) {
    return unlessZero(build, square,
                      build.divide(build.multiply(a.gradient(), part), square));
  };
  a.give(0, makeComplex(build, build.negate(share(imaginary)), share(real)));
  return success();
}

/// complex(real, imag)
LogicalResult gradient_rules::OfParts(Adjoint &a) {
  if (a.wants(0u))
    a.give(0, realPart(a.build, a.gradient()));
  if (a.wants(1))
    a.give(1, imaginaryPart(a.build, a.gradient()));
  return success();
}

/// polar(abs, angle)
LogicalResult gradient_rules::Polar(Adjoint &a) {
  GradientBuilder &build = a.build;
  Value result = a.call.getResult(0);
  Value turned = conjugate(build, a.gradient());
  if (a.wants(0u))
    a.give(0, realPart(build,
                       build.multiply(
                           turned, build.apply(operators::aten::sgn, result))));
  if (a.wants(1))
    a.give(1,
           build.negate(imaginaryPart(build, build.multiply(turned, result))));
  return success();
}

LogicalResult gradient_rules::ViewAsReal(Adjoint &a) {
  GradientBuilder &build = a.build;
  RankedTensorType type = typeOf(a.tensor(0));
  Value parts = a.gradient();
  parts = build.layOut(parts, tssa::getRowMajorType(typeOf(parts)));
  a.give(0, build.call(operators::aten::view_as_complex_copy, {parts},
                       tssa::getRowMajorType(type)));
  return success();
}

LogicalResult gradient_rules::ViewAsComplex(Adjoint &a) {
  a.give(0, a.build.call(operators::aten::view_as_real_copy, {a.gradient()},
                         tssa::getRowMajorType(typeOf(a.tensor(0)))));
  return success();
}

//===----------------------------------------------------------------------===//
// Fourier transforms: (self, dim, normalization, ...)
//===----------------------------------------------------------------------===//

/// The transform of complex numbers, in a layout that only the call knows.
static Value transform(Adjoint &a, Value value, bool forward) {
  GradientBuilder &build = a.build;
  return build.callLike(
      operators::aten::_fft_c2c,
      {value, a.constant(1), a.constant(2), build.boolean(forward)});
}

/// The last of the dimensions that it goes over, from the front.
static int64_t lastTransformed(Adjoint &a) {
  auto dims = cast<ArrayAttr>(a.constant(1));
  return a.dimension(dims[dims.size() - 1], typeOf(a.tensor(0)).getRank());
}

static bool goesOverNothing(Adjoint &a) {
  auto dims = dyn_cast_or_null<ArrayAttr>(a.constant(1));
  return !dims || dims.empty();
}

LogicalResult gradient_rules::FourierTransform(Adjoint &a) {
  a.give(0, transform(a, a.gradient(), !a.flag(3)));
  return success();
}

/// Half of the spectrum of real numbers, or all of it: the other half of the
/// gradient is zero.
LogicalResult gradient_rules::FourierOfReal(Adjoint &a) {
  GradientBuilder &build = a.build;
  if (goesOverNothing(a))
    return a.refuse("it goes over no dimension");
  Value gradient = a.gradient();
  if (a.flag(3)) {
    int64_t dim = lastTransformed(a);
    RankedTensorType type = typeOf(gradient);
    SmallVector<Size> sizes = tssa::getSizes(type);
    Size half = sizes[dim];
    sizes[dim] = tssa::getSizes(typeOf(a.tensor(0)))[dim];
    Size rest = sizes[dim] - half;
    if (!rest.is(0)) {
      SmallVector<Size> missing(sizes);
      missing[dim] = rest;
      Type element = type.getElementType();
      Value zeros = build.zeros(rowMajorType(missing, element));
      gradient = build.concatenate({gradient, zeros}, dim,
                                   rowMajorType(sizes, element));
    }
  }
  a.give(0, transform(a, gradient, /*forward=*/false));
  return success();
}

/// What half of a spectrum gives: those elements count twice whose mirror
/// images are not there.
LogicalResult gradient_rules::FourierToReal(Adjoint &a) {
  GradientBuilder &build = a.build;
  if (goesOverNothing(a))
    return a.refuse("it goes over no dimension");
  int64_t dim = lastTransformed(a);
  RankedTensorType type = typeOf(a.tensor(0));
  SmallVector<Size> sizes = tssa::getSizes(type);
  Size half = sizes[dim];
  Size twice = tssa::getSizes(typeOf(a.gradient()))[dim] - half;
  Value gradient = build.call(
      operators::aten::_fft_r2c,
      {a.gradient(), a.constant(1), a.constant(2), build.boolean(true)},
      tssa::getRowMajorType(type));
  if (twice.is(0)) {
    a.give(0, gradient);
    return success();
  }
  if (!half.isConstant() || !twice.isConstant())
    return a.refuse("the size that it transforms differs between calls");
  auto part = [&](int64_t start, int64_t end) {
    return build.slice(gradient, dim, start, end - start);
  };
  int64_t end = half.constant(), doubled = twice.constant() + 1;
  SmallVector<Value> parts{part(0, 1),
                           build.multiply(part(1, doubled), build.wrapped(2))};
  if (doubled < end)
    parts.push_back(part(doubled, end));
  a.give(0, build.concatenate(parts, dim,
                              rowMajorType(sizes, type.getElementType())));
  return success();
}
