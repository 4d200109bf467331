//===- ElementTypes.cpp - PyTorch's dtypes and type promotion -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "pyjit/Operators/ElementTypes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "pyjit/Operators/CallArguments.h"

using namespace mlir;

namespace pyjit::operators {

//===----------------------------------------------------------------------===//
// Numbers of dtypes
//===----------------------------------------------------------------------===//

/// c10::ScalarType's numbers.
enum ScalarType : int64_t {
  Byte = 0,
  Char = 1,
  Short = 2,
  Int = 3,
  Long = 4,
  Half = 5,
  Float = 6,
  Double = 7,
  ComplexHalf = 8,
  ComplexFloat = 9,
  ComplexDouble = 10,
  Boolean = 11,
  BFloat16 = 15
};

Type getElementType(MLIRContext *context, int64_t number) {
  switch (number) {
  case Byte:
    return IntegerType::get(context, 8, IntegerType::Unsigned);
  case Char:
    return IntegerType::get(context, 8);
  case Short:
    return IntegerType::get(context, 16);
  case Int:
    return IntegerType::get(context, 32);
  case Long:
    return IntegerType::get(context, 64);
  case Half:
    return Float16Type::get(context);
  case Float:
    return Float32Type::get(context);
  case Double:
    return Float64Type::get(context);
  case ComplexHalf:
    return ComplexType::get(Float16Type::get(context));
  case ComplexFloat:
    return ComplexType::get(Float32Type::get(context));
  case ComplexDouble:
    return ComplexType::get(Float64Type::get(context));
  case Boolean:
    return IntegerType::get(context, 1);
  case BFloat16:
    return BFloat16Type::get(context);
  default:
    return {};
  }
}

int64_t getScalarType(Type elementType) {
  for (int64_t number :
       {Byte, Char, Short, Int, Long, Half, Float, Double, ComplexHalf,
        ComplexFloat, ComplexDouble, Boolean, BFloat16})
    if (getElementType(elementType.getContext(), number) == elementType)
      return number;
  return -1;
}

bool isElementType(Type type) {
  if (auto complex = dyn_cast<ComplexType>(type)) {
    Type part = complex.getElementType();
    return part.isF16() || part.isF32() || part.isF64();
  }
  if (auto number = dyn_cast<FloatType>(type))
    return number.getWidth() <= 64;
  auto integer = dyn_cast<IntegerType>(type);
  if (!integer || integer.isSigned())
    return false;
  unsigned width = integer.getWidth();
  bool bytes = width == 8 || width == 16 || width == 32 || width == 64;
  return bytes || (width == 1 && integer.isSignless());
}

Type getComputeType(Type elementType) {
  if (elementType.isF16() || elementType.isBF16())
    return Float32Type::get(elementType.getContext());
  return elementType;
}

//===----------------------------------------------------------------------===//
// Promotion
//===----------------------------------------------------------------------===//

static bool isBool(Type type) { return type.isInteger(1); }

static Type promoteFloats(Type a, Type b) {
  if (a == b)
    return a;
  unsigned widthA = a.getIntOrFloatBitWidth();
  unsigned widthB = b.getIntOrFloatBitWidth();
  if (widthA != widthB)
    return widthA > widthB ? a : b;
  // f16 with bf16
  return Float32Type::get(a.getContext());
}

Type promoteTypes(Type a, Type b) {
  if (!a || !b)
    return a ? a : b;
  if (a == b)
    return a;
  auto complexA = dyn_cast<ComplexType>(a), complexB = dyn_cast<ComplexType>(b);
  if (complexA || complexB) {
    Type partA = complexA ? complexA.getElementType() : a;
    Type partB = complexB ? complexB.getElementType() : b;
    if (!isa<FloatType>(partA))
      return b;
    if (!isa<FloatType>(partB))
      return a;
    return ComplexType::get(promoteFloats(partA, partB));
  }
  if (isa<FloatType>(a) && isa<FloatType>(b))
    return promoteFloats(a, b);
  if (isa<FloatType>(a))
    return a;
  if (isa<FloatType>(b))
    return b;
  if (isBool(a))
    return b;
  if (isBool(b))
    return a;
  auto intA = cast<IntegerType>(a), intB = cast<IntegerType>(b);
  // uint8 with int8 needs the next wider signed type; with wider ones it fits.
  if (intA.getWidth() == intB.getWidth())
    return IntegerType::get(a.getContext(), 2 * intA.getWidth());
  return intA.getWidth() > intB.getWidth() ? a : b;
}

/// combine_categories of ATen's native/TypeProperties.cpp.
static Type combine(Type higher, Type lower) {
  if (!higher || !lower)
    return higher ? higher : lower;
  if (isa<ComplexType>(higher))
    return higher;
  if (isa<FloatType>(higher)) {
    if (isa<ComplexType>(lower))
      return ComplexType::get(higher);
    return higher;
  }
  if (isBool(higher) || isa<FloatType, ComplexType>(lower))
    return promoteTypes(higher, lower);
  return higher;
}

Type getCommonType(const OperatorInfo &info, ArrayAttr args, TypeRange operands,
                   Type defaultFloat) {
  Type withDims, zeroDim, number;
  auto addNumber = [&](Type type) {
    if (isa<FloatType>(type))
      type = defaultFloat;
    number = promoteTypes(number, type);
  };
  auto addTensor = [&](Type type) {
    auto tensor = cast<RankedTensorType>(type);
    Type &state = tensor.getRank() ? withDims : zeroDim;
    state = promoteTypes(state, tensor.getElementType());
  };
  walkCallArguments(args, [&](unsigned index, Attribute arg, unsigned first) {
    if (index >= 32 || !(info.promoted & (1u << index)))
      return;
    if (isOperandPlaceholder(arg))
      addTensor(operands[first]);
    else if (isNumberOperand(arg))
      addNumber(cast<RankedTensorType>(operands[first]).getElementType());
    else if (TypedAttr wrapped = getWrappedNumber(arg))
      addNumber(wrapped.getType());
    else if (isa<IntegerAttr, FloatAttr>(arg))
      addNumber(cast<TypedAttr>(arg).getType());
  });
  return combine(withDims, combine(zeroDim, number));
}

Type inferResultElementType(const OperatorInfo &info, ArrayAttr args,
                            TypeRange operands, Type defaultFloat) {
  switch (info.result) {
  case ResultRule::Stated:
    return {};
  case ResultRule::Bool:
    return IntegerType::get(args.getContext(), 1);
  case ResultRule::Self:
    if (operands.empty())
      return {};
    return cast<RankedTensorType>(operands[0]).getElementType();
  case ResultRule::Promote:
    return getCommonType(info, args, operands, defaultFloat);
  case ResultRule::Float: {
    Type type = getCommonType(info, args, operands, defaultFloat);
    return type && isa<IntegerType>(type) ? defaultFloat : type;
  }
  }
  return {};
}

} // namespace pyjit::operators
