//===- RulesPlaces.cpp - Derivatives of what moves elements ---------------===//

#include "Adjoint.h"

#include "pyjit/Operators/OperatorNames.h"

using namespace mlir;
using namespace pyjit;
using namespace pyjit::differentiation;
using tssa::Size;
using tssa::typeOf;
using tssa::ViewAttr;
using tssa::ViewKind;

//===----------------------------------------------------------------------===//
// Joins
//===----------------------------------------------------------------------===//

static Value slice(GradientBuilder &build, Value value, int64_t dim,
                   const Size &start, const Size &length) {
  MLIRContext *context = value.getContext();
  SmallVector<AffineExpr> numbers;
  for (const Size &number : {Size(dim), start, length, Size(1)})
    numbers.push_back(number.toExpr(context));
  return build.access(value,
                      ViewAttr::getSymbolic(context, ViewKind::slice, numbers));
}

LogicalResult gradient_rules::Concatenation(Adjoint &a) {
  int64_t rank = typeOf(a.gradient()).getRank();
  int64_t dim = a.dimensions(1, rank).front();
  Size start = 0;
  for (Value part : a.call.getOperands()) {
    // A tensor without elements may have any rank.
    if (typeOf(part).getRank() != rank)
      continue;
    Size length = tssa::getSizes(typeOf(part))[dim];
    if (a.wants(part))
      a.give(part, slice(a.build, a.gradient(), dim, start, length));
    start += length;
  }
  return success();
}

LogicalResult gradient_rules::Stack(Adjoint &a) {
  int64_t rank = typeOf(a.gradient()).getRank();
  int64_t dim = a.dimensions(1, rank).front();
  for (auto [i, part] : llvm::enumerate(a.call.getOperands()))
    if (a.wants(part))
      a.give(part,
             a.build.access(a.gradient(),
                            ViewAttr::get(a.call.getContext(), ViewKind::select,
                                          {dim, int64_t(i)})));
  return success();
}

/// Each dimension becomes one of repetitions and one of the operand's size.
LogicalResult gradient_rules::Repeat(Adjoint &a) {
  RankedTensorType from = typeOf(a.tensor(0)), to = typeOf(a.gradient());
  SmallVector<Size> small = tssa::getSizes(from), large = tssa::getSizes(to);
  SmallVector<Size> split;
  SmallVector<int64_t> repeated;
  size_t lead = large.size() - small.size();
  for (auto [i, size] : llvm::enumerate(large)) {
    Size own = i < lead ? Size(1) : small[i - lead];
    if (own.is(0) || size.is(0))
      return a.refuse("it repeats a tensor without elements");
    std::optional<Size> times = size.dividedBy(own);
    if (!times)
      return a.refuse("how often it repeats differs between calls");
    repeated.push_back(int64_t(split.size()));
    split.append({*times, own});
  }
  GradientBuilder &build = a.build;
  Type elementType = to.getElementType();
  Value gradient =
      build.reshape(a.gradient(), rowMajorType(split, elementType));
  gradient = build.sum(gradient, repeated);
  a.give(0, build.reshape(gradient, from));
  return success();
}

/// The inner part. A negative number cuts off, and its derivative pads.
LogicalResult gradient_rules::Pad(Adjoint &a) {
  auto amounts = dyn_cast_or_null<ArrayAttr>(a.constant(1));
  SmallVector<Size> sizes = tssa::getSizes(typeOf(a.tensor(0)));
  Value gradient = a.gradient();
  if (!amounts)
    return a.refuse("its width differs between calls");
  for (size_t i = 0; i < amounts.size(); i += 2) {
    auto before = dyn_cast<IntegerAttr>(amounts[i]);
    auto after = dyn_cast<IntegerAttr>(amounts[i + 1]);
    if (!before || !after || before.getInt() < 0 || after.getInt() < 0)
      return a.refuse("it cuts off, or its width differs between calls");
    int64_t dim = int64_t(sizes.size()) - 1 - int64_t(i / 2);
    gradient = slice(a.build, gradient, dim, before.getInt(), sizes[dim]);
  }
  a.give(0, gradient);
  return success();
}

LogicalResult gradient_rules::Flip(Adjoint &a) {
  a.give(0, a.build.call(operators::aten::flip, {a.gradient(), a.constant(1)},
                         gradientTypeOf(typeOf(a.gradient()))));
  return success();
}

//===----------------------------------------------------------------------===//
// Indexed reads: what was read several times adds up
//===----------------------------------------------------------------------===//

LogicalResult gradient_rules::Embedding(Adjoint &a) {
  GradientBuilder &build = a.build;
  RankedTensorType table = typeOf(a.tensor(0));
  if (a.flag(4))
    return a.refuse("its gradient is sparse");
  if (!table.hasStaticShape())
    return a.refuse("the size of its table differs between calls");
  a.give(0, build.call(
                operators::aten::embedding_dense_backward,
                {a.gradient(), a.tensor(1), build.integer(table.getDimSize(0)),
                 a.constant(2), a.constant(3)},
                rowMajorType(tssa::getSizes(table), table.getElementType())));
  return success();
}

LogicalResult gradient_rules::Gather(Adjoint &a) {
  RankedTensorType type = gradientTypeOf(typeOf(a.tensor(0)));
  if (a.flag(3))
    return a.refuse("its gradient is sparse");
  a.give(0, a.build.call(
                operators::aten::scatter_add,
                {a.build.zeros(type), a.constant(1), a.tensor(2), a.gradient()},
                type));
  return success();
}

LogicalResult gradient_rules::IndexSelect(Adjoint &a) {
  RankedTensorType type = gradientTypeOf(typeOf(a.tensor(0)));
  a.give(0, a.build.call(operators::aten::index_add,
                         {a.build.zeros(type), a.constant(1), a.tensor(2),
                          a.gradient(), a.build.integer(1)},
                         type));
  return success();
}

LogicalResult gradient_rules::Index(Adjoint &a) {
  GradientBuilder &build = a.build;
  RankedTensorType type = gradientTypeOf(typeOf(a.tensor(0)));
  // The list holds tensors, which a call of the builder's does not take.
  SmallVector<Value> operands{build.zeros(type)};
  llvm::append_range(operands, a.call.getOperands().drop_front());
  operands.push_back(a.gradient());
  Attribute operand = a.call.getArgs()[0];
  auto args = build.getBuilder().getArrayAttr(
      {operand, a.constant(1), operand, build.boolean(true)});
  a.give(0, tssa::AtenOp::create(build.getBuilder(), build.getLoc(),
                                 TypeRange{type}, operators::aten::index_put,
                                 operands, args, DenseI64ArrayAttr())
                .getResult(0));
  return success();
}
