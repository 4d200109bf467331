//===- RefGraphDialect.cpp - the refgraph dialect and its types -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "dialects/refgraph/IR/RefGraph.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "pyjit/Operators/ElementTypes.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace pyjit::refgraph {

using analysis::SizePolynomial;
using analysis::SizePolynomials;

std::string lineOf(Location loc) {
  std::string text;
  loc->walk([&](Location part) {
    auto file = dyn_cast<FileLineColLoc>(part);
    if (!file)
      return WalkResult::advance();
    text = (file.getFilename().getValue() + ":" + Twine(file.getLine())).str();
    return WalkResult::interrupt();
  });
  return text;
}

/// What the three parameters of a layout hold.
static void splitLayout(ArrayRef<SizePolynomial> sizes,
                        ArrayRef<SizePolynomial> strides, MLIRContext *context,
                        SmallVectorImpl<int64_t> &shape,
                        SmallVectorImpl<int64_t> &steps,
                        SmallVectorImpl<AffineExpr> &exprs) {
  bool symbolic = false;
  auto split = [&](ArrayRef<SizePolynomial> from,
                   SmallVectorImpl<int64_t> &to) {
    for (const SizePolynomial &size : from) {
      auto constant = size.getConstant();
      to.push_back(constant.value_or(ShapedType::kDynamic));
      exprs.push_back(size.toAffine(context));
      symbolic |= !constant;
    }
  };
  split(sizes, shape);
  split(strides, steps);
  if (!symbolic)
    exprs.clear();
}

static ParseResult parseLayout(AsmParser &parser, SmallVector<int64_t> &shape,
                               SmallVector<int64_t> &strides,
                               SmallVector<AffineExpr> &exprs) {
  SizePolynomials sizes, steps;
  if (analysis::parseSizes(parser, sizes) || parser.parseComma() ||
      analysis::parseSizes(parser, steps))
    return failure();
  splitLayout(sizes, steps, parser.getContext(), shape, strides, exprs);
  return success();
}

static SizePolynomial sizeAt(ArrayRef<int64_t> numbers,
                             ArrayRef<AffineExpr> exprs, unsigned i) {
  return ShapedType::isDynamic(numbers[i])
             ? *SizePolynomial::fromAffine(exprs[i])
             : SizePolynomial(numbers[i]);
}

static void printLayout(AsmPrinter &printer, ArrayRef<int64_t> shape,
                        ArrayRef<int64_t> strides, ArrayRef<AffineExpr> exprs) {
  auto print = [&](ArrayRef<int64_t> numbers, ArrayRef<AffineExpr> among) {
    printer << "[";
    llvm::interleaveComma(llvm::seq<unsigned>(0, numbers.size()), printer,
                          [&](unsigned i) {
                            if (ShapedType::isDynamic(numbers[i]))
                              printer << among[i];
                            else
                              printer << numbers[i];
                          });
    printer << "]";
  };
  print(shape, exprs);
  printer << ", ";
  print(strides, exprs.drop_front(exprs.empty() ? 0 : shape.size()));
}

TensorType TensorType::get(MLIRContext *context, ArrayRef<SizePolynomial> sizes,
                           ArrayRef<SizePolynomial> strides, Type elementType,
                           StringRef device) {
  SmallVector<int64_t> shape, steps;
  SmallVector<AffineExpr> exprs;
  splitLayout(sizes, strides, context, shape, steps, exprs);
  return get(context, shape, steps, exprs, elementType, device);
}

SizePolynomial TensorType::getSize(unsigned dim) const {
  return sizeAt(getShape(), getExprs(), dim);
}

SizePolynomial TensorType::getStride(unsigned dim) const {
  return sizeAt(getStrides(),
                getExprs().drop_front(isSymbolic() ? getRank() : 0), dim);
}

LogicalResult TensorType::verify(function_ref<InFlightDiagnostic()> emitError,
                                 ArrayRef<int64_t> shape,
                                 ArrayRef<int64_t> strides,
                                 ArrayRef<AffineExpr> exprs, Type elementType,
                                 StringRef device) {
  if (shape.size() != strides.size())
    return emitError() << "tensor type has " << shape.size() << " sizes but "
                       << strides.size() << " strides";
  if (!exprs.empty() && exprs.size() != 2 * shape.size())
    return emitError() << "tensor type has " << exprs.size()
                       << " expressions for " << shape.size() << " dimensions";
  for (int64_t size : shape)
    if (size < 0 && !(ShapedType::isDynamic(size) && !exprs.empty()))
      return emitError() << "tensor type has negative size " << size;
  for (int64_t stride : strides)
    if (stride < 0 && !(ShapedType::isDynamic(stride) && !exprs.empty()))
      return emitError() << "tensor type has negative stride " << stride;
  if (!operators::isElementType(elementType))
    return emitError() << elementType << " is no tensor element type";
  if (device.empty())
    return emitError() << "tensor type names no device";
  return success();
}

SizePolynomial TensorType::getNumElements() const {
  SizePolynomial count = 1;
  for (unsigned i = 0; i < getRank(); ++i)
    count = count * getSize(i);
  return count;
}

bool TensorType::mayHaveGradient() const {
  return isa<FloatType, ComplexType>(getElementType());
}

/// Each next stride is what the dimensions below it span, whatever the order
/// that the strides then have.
bool TensorType::isDense() const {
  SmallVector<unsigned> left;
  for (unsigned i = 0; i < getRank(); ++i) {
    if (getShape()[i] == 0)
      return true;
    if (getShape()[i] != 1)
      left.push_back(i);
  }
  SizePolynomial expected = 1;
  while (!left.empty()) {
    auto *next = llvm::find_if(
        left, [&](unsigned i) { return getStride(i) == expected; });
    if (next == left.end())
      return false;
    expected = expected * getSize(*next);
    left.erase(next);
  }
  return true;
}

void registerRefGraphDialect(DialectRegistry &registry) {
  registry.insert<RefGraphDialect>();
}

void RefGraphDialect::initialize() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialects/refgraph/IR/RefGraphTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/refgraph/IR/RefGraphOps.cpp.inc"
      >();
}

} // namespace pyjit::refgraph

#include "dialects/refgraph/IR/RefGraphDialect.cpp.inc"
#include "dialects/refgraph/IR/RefGraphEnums.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "dialects/refgraph/IR/RefGraphTypes.cpp.inc"
