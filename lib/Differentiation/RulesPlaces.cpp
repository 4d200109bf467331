//===- RulesPlaces.cpp - Derivatives of what moves elements ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Adjoint.h"

#include "pyjit/Operators/CallArguments.h"
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

LogicalResult gradient_rules::Concatenation(Adjoint &a) {
  int64_t rank = typeOf(a.gradient()).getRank();
  int64_t dim = a.dimensions(1, rank).front();
  Size start = 0;
  for (Value part : a.call.getOperands()) {
    // One without elements may have any rank, and be joined along any
    // dimension.
    bool fits = typeOf(part).getRank() == rank && dim < rank;
    if (!fits) {
      if (a.wants(part))
        a.give(part, a.build.empty(a.gradient(), typeOf(part)));
      continue;
    }
    Size length = tssa::getSizes(typeOf(part))[dim];
    if (a.wants(part))
      a.give(part, a.build.slice(a.gradient(), dim, start, length));
    start += length;
  }
  return success();
}

/// Matrices along a diagonal: the part that each of them fills.
LogicalResult gradient_rules::BlockDiagonal(Adjoint &a) {
  GradientBuilder &build = a.build;
  Size row = 0, column = 0;
  for (Value part : a.call.getOperands()) {
    SmallVector<Size> sizes = tssa::getSizes(typeOf(part));
    Size rows = sizes.size() == 2 ? sizes[0] : Size(1);
    Size columns = sizes.empty() ? Size(1) : sizes.back();
    if (a.wants(part)) {
      Value gradient = build.slice(a.gradient(), 0, row, rows);
      gradient = build.slice(gradient, 1, column, columns);
      a.give(part, build.reshape(gradient, typeOf(part)));
    }
    row += rows;
    column += columns;
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
    if (own.is(0) || size.is(0)) { // the sum of no elements
      auto dims = llvm::to_vector(llvm::seq<int64_t>(0, to.getRank()));
      Value sum =
          a.build.reshape(a.build.sum(a.gradient(), dims),
                          rowMajorType(SmallVector<Size>(small.size(), 1),
                                       to.getElementType()));
      a.give(0, a.build.expand(sum, from));
      return success();
    }
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

/// By as much the other way: of widths that differ between calls it is not
/// known which of them pad and which cut off.
static LogicalResult padBack(Adjoint &a, ArrayAttr amounts) {
  MLIRContext *context = amounts.getContext();
  SmallVector<Attribute> back;
  for (Attribute amount : amounts) {
    AffineExpr size = operators::getSizeArgument(amount);
    auto number = dyn_cast<IntegerAttr>(amount);
    if (!size && !number)
      return a.refuse("its width differs between calls");
    back.push_back(number ? a.build.integer(-number.getInt())
                          : operators::makeSizeArgument(
                                (Size(0) - Size(size)).toExpr(context)));
  }
  a.give(0, a.build.call(operators::aten::constant_pad_nd,
                         {a.gradient(), a.build.list(back), a.build.number(0)},
                         rowMajorType(tssa::getSizes(typeOf(a.tensor(0))),
                                      typeOf(a.gradient()).getElementType())));
  return success();
}

/// The inner part. A negative number cuts off, and its derivative pads.
LogicalResult gradient_rules::Pad(Adjoint &a) {
  auto amounts = dyn_cast_or_null<ArrayAttr>(a.constant(1));
  SmallVector<Size> sizes = tssa::getSizes(typeOf(a.tensor(0)));
  Value gradient = a.gradient();
  if (!amounts)
    return a.refuse("its width differs between calls");
  if (operators::hasSizeArgument(amounts))
    return padBack(a, amounts);
  SmallVector<Attribute> cut;
  bool cuts = false;
  for (size_t i = 0; i < amounts.size(); i += 2) {
    auto before = dyn_cast<IntegerAttr>(amounts[i]);
    auto after = dyn_cast<IntegerAttr>(amounts[i + 1]);
    if (!before || !after)
      return a.refuse("its width differs between calls");
    int64_t dim = int64_t(sizes.size()) - 1 - int64_t(i / 2);
    int64_t front = std::max<int64_t>(0, -before.getInt());
    int64_t back = std::max<int64_t>(0, -after.getInt());
    Size length = sizes[dim] - Size(front + back);
    if (length.isConstant() && length.constant() < 0)
      return a.refuse("it cuts off more than there is");
    gradient = a.build.slice(gradient, dim,
                             std::max<int64_t>(0, before.getInt()), length);
    cut.append({a.build.integer(front), a.build.integer(back)});
    cuts |= front || back;
  }
  if (cuts)
    gradient =
        a.build.call(operators::aten::constant_pad_nd,
                     {gradient, a.build.list(cut), a.build.number(0)},
                     rowMajorType(sizes, typeOf(gradient).getElementType()));
  a.give(0, gradient);
  return success();
}

LogicalResult gradient_rules::Flip(Adjoint &a) {
  a.give(0, a.build.callLike(operators::aten::flip,
                             {a.gradient(), a.constant(1)}));
  return success();
}

/// By as much in the other direction.
LogicalResult gradient_rules::Roll(Adjoint &a) {
  auto shifts = dyn_cast_or_null<ArrayAttr>(a.constant(1));
  SmallVector<int64_t> back;
  for (Attribute shift : shifts ? shifts.getValue() : ArrayRef<Attribute>()) {
    auto number = dyn_cast<IntegerAttr>(shift);
    if (!number)
      return a.refuse("how far it rolls differs between calls");
    back.push_back(-number.getInt());
  }
  if (!shifts)
    return a.refuse("how far it rolls differs between calls");
  a.give(0, a.build.callLike(
                operators::aten::roll,
                {a.gradient(), a.build.integers(back), a.constant(2)}));
  return success();
}

LogicalResult gradient_rules::Rotation(Adjoint &a) {
  std::optional<double> times = a.number(1);
  if (!times)
    return a.refuse("how often it turns differs between calls");
  a.give(0, a.build.call(operators::aten::rot90,
                         {a.gradient(), a.build.integer(-int64_t(*times)),
                          a.constant(2)},
                         gradientTypeOf(typeOf(a.tensor(0)))));
  return success();
}

LogicalResult gradient_rules::ChannelShuffle(Adjoint &a) {
  std::optional<double> groups = a.number(1);
  Size channels = tssa::getSizes(typeOf(a.tensor(0)))[1];
  if (!groups || !channels.isConstant())
    return a.refuse("its channels differ between calls");
  a.give(0,
         a.build.callLike(operators::aten::channel_shuffle,
                          {a.gradient(), a.build.integer(channels.constant() /
                                                         int64_t(*groups))}));
  return success();
}

static ViewAttr diagonalOf(Adjoint &a, ArrayRef<int64_t> numbers) {
  return ViewAttr::get(a.call.getContext(), ViewKind::diagonal, numbers);
}

/// A diagonal that is copied or summed up: zeros with the gradient there.
LogicalResult gradient_rules::Diagonal(Adjoint &a) {
  GradientBuilder &build = a.build;
  SmallVector<int64_t> numbers{0, 0, 1};
  bool isSum = a.call.getOverload() == operators::aten::trace;
  for (unsigned i = 0; i < 3 && !isSum; ++i) {
    std::optional<double> number = a.number(i + 1);
    if (!number)
      return a.refuse("which diagonal it takes differs between calls");
    numbers[i] = int64_t(*number);
    int64_t rank = typeOf(a.tensor(0)).getRank();
    if (i && numbers[i] < 0)
      numbers[i] += rank;
  }
  RankedTensorType type = gradientTypeOf(typeOf(a.tensor(0)));
  ViewAttr view = diagonalOf(a, numbers);
  RankedTensorType part = tssa::inferViewType(
      view, type, [&] { return emitError(build.getLoc()); });
  if (!part)
    return failure();
  Value gradient = a.gradient();
  if (isSum)
    gradient = build.expand(build.unsqueeze(gradient, 0), part);
  a.give(0, tssa::AssignOp::create(
                build.getBuilder(), build.getLoc(), type, build.zeros(type),
                build.layOut(gradient, part),
                build.getBuilder().getArrayAttr(view), ValueRange()));
  return success();
}

LogicalResult gradient_rules::DiagonalMatrix(Adjoint &a) {
  SmallVector<int64_t> numbers;
  for (unsigned i = 1; i < 4; ++i) {
    std::optional<double> number = a.number(i);
    if (!number)
      return a.refuse("which diagonal it fills differs between calls");
    numbers.push_back(int64_t(*number));
    if (i > 1 && numbers.back() < 0)
      numbers.back() += typeOf(a.gradient()).getRank();
  }
  a.give(0, a.build.access(a.gradient(), diagonalOf(a, numbers)));
  return success();
}

//===----------------------------------------------------------------------===//
// Indexed reads: what was read several times adds up
//===----------------------------------------------------------------------===//

/// A size in the place of an int.
static Attribute sizeArgument(GradientBuilder &build, RankedTensorType type,
                              unsigned dim) {
  return cast<ArrayAttr>(build.sizes(type))[dim];
}

LogicalResult gradient_rules::Embedding(Adjoint &a) {
  GradientBuilder &build = a.build;
  RankedTensorType table = typeOf(a.tensor(0));
  if (a.flag(4))
    return a.refuse("its gradient is sparse");
  a.give(0, build.call(
                operators::aten::embedding_dense_backward,
                {a.gradient(), a.tensor(1), sizeArgument(build, table, 0),
                 a.constant(2), a.constant(3)},
                rowMajorType(tssa::getSizes(table), table.getElementType())));
  return success();
}

/// The rows that were summed up, without that of padding.
LogicalResult gradient_rules::EmbeddingBackward(Adjoint &a) {
  GradientBuilder &build = a.build;
  std::optional<double> padding = a.number(3);
  Value indices = a.tensor(1);
  if (!padding)
    return a.refuse("its padding differs between calls");
  Value rows = build.call(operators::aten::embedding,
                          {a.gradient(), indices, build.integer(-1),
                           build.boolean(false), build.boolean(false)},
                          rowMajorType(tssa::getSizes(typeOf(a.tensor(0))),
                                       typeOf(a.gradient()).getElementType()));
  if (*padding >= 0) {
    Value isPadding = build.unsqueeze(
        build.equal(indices, build.wrappedInteger(int64_t(*padding))),
        typeOf(indices).getRank());
    rows = build.select(isPadding, build.wrapped(0), rows);
  }
  a.give(0, rows);
  return success();
}

/// The results behind the first tell its backward what was put where.
LogicalResult gradient_rules::EmbeddingBag(Adjoint &a) {
  constexpr unsigned kSampleWeights = 6;
  GradientBuilder &build = a.build;
  RankedTensorType table = typeOf(a.tensor(0));
  if (a.flag(5))
    return a.refuse("its gradient is sparse");
  if (a.wants(kSampleWeights))
    return a.refuse("its weights of samples require grad");
  if (!a.isOfFirst())
    return a.refuse("a gradient of its indices");
  SmallVector<Argument> arguments{a.gradient(), a.tensor(1), a.tensor(2)};
  for (unsigned i = 1; i < 4; ++i)
    arguments.push_back(Value(a.call.getResult(i)));
  arguments.push_back(sizeArgument(build, table, 0));
  for (unsigned i = 3; i < kSampleWeights; ++i)
    arguments.push_back(a.constant(i));
  arguments.push_back(build.optional(a.tensor(kSampleWeights)));
  arguments.push_back(a.constant(8));
  a.give(0, build.call(
                operators::aten::_embedding_bag_backward, arguments,
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
