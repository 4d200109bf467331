//===- RulesWrites.cpp - Derivatives of indexed writes --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Formulas: derivatives.yaml and torch/csrc/autograd/FunctionsManual.cpp.
//
//===----------------------------------------------------------------------===//

#include "Adjoint.h"

#include "pyjit/Operators/CallArguments.h"
#include "pyjit/Operators/OperatorNames.h"

using namespace mlir;
using namespace pyjit;
using namespace pyjit::differentiation;
using tssa::Size;
using tssa::typeOf;

//===----------------------------------------------------------------------===//
// scatter: argument 1 is a dimension, 2 the indices, 3 the source
//===----------------------------------------------------------------------===//

static Value gatherAt(Adjoint &a, Value value) {
  int64_t rank = typeOf(value).getRank();
  int64_t dim = rank ? a.dimensions(1, rank).front() : 0;
  return a.build.gather(value, dim, a.tensor(2));
}

/// A source may be greater than the indices: what is not read has zeros.
static void giveSource(Adjoint &a, Value gradient) {
  GradientBuilder &build = a.build;
  SmallVector<Size> sizes = tssa::getSizes(typeOf(a.tensor(3)));
  SmallVector<Size> own = tssa::getSizes(typeOf(gradient));
  SmallVector<Attribute> pad;
  for (size_t i = sizes.size(); i-- > 0;) {
    Size rest = sizes[i] - own[i];
    pad.push_back(build.integer(0));
    pad.push_back(rest.isConstant() ? build.integer(rest.constant())
                                    : operators::makeSizeArgument(
                                          rest.toExpr(a.call.getContext())));
  }
  if (sizes != own)
    gradient =
        build.call(operators::aten::constant_pad_nd,
                   {gradient, build.list(pad), build.number(0)},
                   rowMajorType(sizes, typeOf(gradient).getElementType()));
  a.give(3, gradient);
}

static Value scatterZeros(Adjoint &a, Value value) {
  return a.build.callLike(
      operators::aten::scatter_value,
      {value, a.constant(1), a.tensor(2), a.build.number(0)});
}

LogicalResult gradient_rules::Scatter(Adjoint &a) {
  if (a.wants(0u))
    a.give(0, scatterZeros(a, a.gradient()));
  if (a.wants(3))
    giveSource(a, gatherAt(a, a.gradient()));
  return success();
}

LogicalResult gradient_rules::ScatterAdd(Adjoint &a) {
  if (a.wants(0u))
    a.give(0, a.gradient());
  if (a.wants(3))
    giveSource(a, gatherAt(a, a.gradient()));
  return success();
}

namespace {

class ScatterReduceRule {
public:
  ScatterReduceRule(Adjoint &a) : a(a), build(a.build) {}

  LogicalResult run() {
    auto reduce = dyn_cast_or_null<StringAttr>(a.constant(4));
    if (!reduce)
      return a.refuse("how it reduces differs between calls");
    Value ofSelf, ofSource;
    if (reduce == "sum") {
      ofSelf = a.gradient();
      ofSource = gatherAt(a, a.gradient());
    } else if (reduce == "mean") {
      ofSelf = build.divide(a.gradient(), counts());
      ofSource = gatherAt(a, ofSelf);
    } else if (reduce == "amax" || reduce == "amin") {
      std::tie(ofSelf, ofSource) = ofExtremes();
      if (!ofSelf)
        return a.refuse("its source is greater than its indices");
    } else {
      return a.refuse("a scattered product");
    }
    if (a.wants(0u))
      a.give(0, a.flag(5) ? ofSelf : scatterZeros(a, ofSelf));
    if (a.wants(3))
      giveSource(a, ofSource);
    return success();
  }

private:
  /// How many elements each mean is of; one where it is of none.
  Value counts() {
    RankedTensorType type = gradientTypeOf(typeOf(a.gradient()));
    Value start = a.flag(5) ? build.ones(type) : build.zeros(type);
    Value ones = build.ones(rowMajorType(tssa::getSizes(typeOf(a.tensor(2))),
                                         type.getElementType()));
    Value counts = build.callLike(operators::aten::scatter_add,
                                  {start, a.constant(1), a.tensor(2), ones});
    return build.select(build.equal(counts, build.wrapped(0)), build.wrapped(1),
                        counts);
  }

  /// Those that are as great share the gradient.
  std::pair<Value, Value> ofExtremes() {
    Value self = a.tensor(0), source = a.tensor(3);
    if (tssa::getSizes(typeOf(source)) != tssa::getSizes(typeOf(a.tensor(2))))
      return {};
    Value result = a.call.getResult(0);
    Type type = typeOf(self).getElementType();
    Value selfShares = build.convert(build.equal(self, result), type);
    Value sourceShares =
        build.convert(build.equal(source, gatherAt(a, result)), type);
    Value counts =
        build.callLike(operators::aten::scatter_add,
                       {selfShares, a.constant(1), a.tensor(2), sourceShares});
    Value shared = build.divide(a.gradient(), counts);
    return {build.multiply(selfShares, shared),
            build.multiply(sourceShares, gatherAt(a, shared))};
  }

  Adjoint &a;
  GradientBuilder &build;
};

} // namespace

LogicalResult gradient_rules::ScatterReduce(Adjoint &a) {
  return ScatterReduceRule(a).run();
}

//===----------------------------------------------------------------------===//
// index_*: argument 1 is a dimension, 2 a vector of indices, 3 the source
//===----------------------------------------------------------------------===//

static void giveSelected(Adjoint &a, Value gradient) {
  GradientBuilder &build = a.build;
  RankedTensorType source = typeOf(a.tensor(3));
  Value index = a.tensor(2);
  SmallVector<Size> sizes = tssa::getSizes(typeOf(gradient));
  if (sizes.empty()) { // one element, which the index can but name
    a.give(3, build.reshape(gradient, source));
    return;
  }
  if (typeOf(index).getRank() == 0)
    index = build.unsqueeze(index, 0);
  int64_t dim = a.dimensions(1, int64_t(sizes.size())).front();
  sizes[dim] = tssa::getSizes(typeOf(index))[0];
  Value read = build.call(operators::aten::index_select,
                          {gradient, a.constant(1), index},
                          rowMajorType(sizes, source.getElementType()));
  // A source may be a single element for all.
  a.give(3, source.getRank() == int64_t(sizes.size())
                ? read
                : build.reshape(build.sumTo(read, source), source));
}

static Value fillZeros(Adjoint &a, Value value) {
  return a.build.callLike(
      operators::aten::index_fill_int_Scalar,
      {value, a.constant(1), a.tensor(2), a.build.number(0)});
}

LogicalResult gradient_rules::IndexAdd(Adjoint &a) {
  if (a.wants(0u))
    a.give(0, a.gradient());
  if (a.wants(3))
    giveSelected(a, a.times(a.gradient(), 4));
  return success();
}

LogicalResult gradient_rules::IndexCopy(Adjoint &a) {
  if (a.wants(0u))
    a.give(0, fillZeros(a, a.gradient()));
  if (a.wants(3))
    giveSelected(a, a.gradient());
  return success();
}

/// Of a value that is written in several places, the sum over all of them: all
/// that the zeros take away.
LogicalResult gradient_rules::IndexFill(Adjoint &a) {
  Value filled = fillZeros(a, a.gradient());
  if (a.wants(0u))
    a.give(0, filled);
  if (a.wants(3)) {
    GradientBuilder &build = a.build;
    RankedTensorType type = typeOf(a.gradient());
    RankedTensorType bits = rowMajorType(
        tssa::getSizes(type), IntegerType::get(type.getContext(), 1));
    Value isKept = build.callLike(
        operators::aten::index_fill_int_Scalar,
        {build.ones(bits), a.constant(1), a.tensor(2), build.number(0)});
    a.give(3, build.select(isKept, build.wrapped(0), a.gradient()));
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Lists of indices, places, masks
//===----------------------------------------------------------------------===//

/// A call with the list of indices of index_put, which a call of the builder's
/// does not take.
static Value callAtIndices(Adjoint &a, StringRef overload, Value first,
                           Value last, ArrayRef<Attribute> more, Type type) {
  GradientBuilder &build = a.build;
  unsigned count = a.call.getOperands().size() - 1 - (a.tensor(2) ? 1 : 0);
  SmallVector<Value> operands{first};
  llvm::append_range(operands, a.call.getOperands().slice(1, count));
  Attribute operand = a.call.getArgs()[0];
  SmallVector<Attribute> args{operand, a.constant(1)};
  if (last) {
    operands.push_back(last);
    args.push_back(operand);
  }
  llvm::append_range(args, more);
  return tssa::AtenOp::create(build.getBuilder(), build.getLoc(),
                              TypeRange{type}, overload, operands,
                              build.getBuilder().getArrayAttr(args),
                              DenseI64ArrayAttr())
      .getResult(0);
}

namespace {

/// The tensors of index_put's list, by the dimensions they stand at.
class IndexList {
public:
  explicit IndexList(Adjoint &a) {
    unsigned next = 1;
    for (Attribute entry : cast<ArrayAttr>(a.constant(1))) {
      bool isTensor = entry == a.call.getArgs()[0];
      indices.push_back(isTensor ? a.call.getOperands()[next++] : Value());
    }
  }

  bool hasMask() const {
    return llvm::any_of(indices, [](Value index) {
      return index &&
             typeOf(index).getElementType().getIntOrFloatBitWidth() < 16;
    });
  }

  /// The mask, where there is nothing else.
  Value onlyMask() const {
    return indices.size() == 1 && indices[0] && hasMask() ? indices[0]
                                                          : Value();
  }

  /// The sizes of what is read of such a tensor: those of the indices,
  /// broadcast, in place of the first of them, or in front where others are in
  /// between.
  SmallVector<Size> sizesRead(ArrayRef<Size> sizes) const {
    SmallVector<Size> common, rest;
    std::optional<size_t> first;
    bool isApart = false, isOver = false;
    for (auto [dim, size] : llvm::enumerate(sizes)) {
      Value index = dim < indices.size() ? indices[dim] : Value();
      if (!index) {
        isOver = first.has_value();
        rest.push_back(size);
        continue;
      }
      isApart |= isOver;
      if (!first)
        first = rest.size();
      broadcast(common, tssa::getSizes(typeOf(index)));
    }
    rest.insert(rest.begin() + (isApart ? 0 : first.value_or(0)),
                common.begin(), common.end());
    return rest;
  }

private:
  static void broadcast(SmallVector<Size> &to, ArrayRef<Size> sizes) {
    if (sizes.size() > to.size())
      to.insert(to.begin(), sizes.size() - to.size(), Size(1));
    for (auto [size, known] :
         llvm::zip(sizes, MutableArrayRef(to).take_back(sizes.size())))
      if (known.is(1))
        known = size;
  }

  SmallVector<Value> indices;
};

} // namespace

/// The number of each element that a mask names among them, in one dimension;
/// zero where it names none.
static Value numberNamed(GradientBuilder &build, Value mask) {
  Type integer = IntegerType::get(mask.getContext(), 64);
  Value number =
      build.callLike(operators::aten::cumsum, {build.convert(mask, integer),
                                               build.integer(0), build.none()});
  return build.select(mask, build.subtract(number, build.wrappedInteger(1)),
                      build.wrappedInteger(0));
}

/// What was read one after the other, of as many rows of `type`, for each that
/// the mask names: the rows of `gradient` there.
static Value rowsNamed(GradientBuilder &build, Value mask, Value gradient,
                       RankedTensorType type) {
  Value isNamed = mask;
  for (int64_t i = 1; i < typeOf(gradient).getRank(); ++i)
    isNamed = build.unsqueeze(isNamed, i);
  return build.callLike(
      operators::aten::index_add,
      {build.zeros(type), build.integer(0), numberNamed(build, mask),
       build.select(isNamed, gradient, build.wrapped(0)), build.integer(1)});
}

/// Of values that were written where a mask says: one for each element that it
/// names, or the same ones for all.
static Value ofValuesAtMask(Adjoint &a, Value mask) {
  GradientBuilder &build = a.build;
  Type elementType = typeOf(a.gradient()).getElementType();
  SmallVector<Size> sizes = tssa::getSizes(typeOf(a.gradient()));
  SmallVector<Size> rows(sizes.begin() + typeOf(mask).getRank(), sizes.end());
  rows.insert(rows.begin(), countOf(tssa::getSizes(typeOf(mask))));
  Value gradient = build.reshape(a.gradient(), rowMajorType(rows, elementType));
  mask = build.flatten(mask);
  SmallVector<Size> own = tssa::getSizes(typeOf(a.tensor(2)));
  bool hasRows = own.size() == rows.size() && !own[0].is(1);
  rows[0] = hasRows ? own[0] : Size(1);
  if (hasRows)
    return rowsNamed(build, mask, gradient, rowMajorType(rows, elementType));
  for (size_t i = 1; i < rows.size(); ++i)
    mask = build.unsqueeze(mask, int64_t(i));
  return build.sum(build.select(mask, gradient, build.wrapped(0)), {0});
}

/// What was overwritten gets no gradient. `values` may be broadcast.
LogicalResult gradient_rules::IndexPut(Adjoint &a) {
  GradientBuilder &build = a.build;
  RankedTensorType type = gradientTypeOf(typeOf(a.tensor(0)));
  RankedTensorType values = typeOf(a.tensor(2));
  bool adds = a.flag(3);
  if (a.wants(0u))
    a.give(0, adds ? a.gradient()
                   : callAtIndices(
                         a, operators::aten::index_put, a.gradient(),
                         build.zeros(rowMajorType({}, values.getElementType())),
                         {build.boolean(false)}, type));
  if (!a.wants(2))
    return success();
  IndexList list(a);
  if (Value mask = list.onlyMask()) {
    a.give(2, ofValuesAtMask(a, mask));
    return success();
  }
  if (list.hasMask())
    return a.refuse("which elements it writes is told by masks and indices");
  SmallVector<Size> read = list.sizesRead(tssa::getSizes(typeOf(a.gradient())));
  a.give(2,
         callAtIndices(a, operators::aten::index_Tensor, a.gradient(), Value(),
                       {}, rowMajorType(read, values.getElementType())));
  return success();
}

/// By places in all of a tensor.
LogicalResult gradient_rules::Put(Adjoint &a) {
  GradientBuilder &build = a.build;
  bool adds = a.flag(3);
  Value source = a.tensor(2);
  if (a.wants(0u))
    a.give(0, adds ? a.gradient()
                   : build.callLike(operators::aten::put,
                                    {a.gradient(), a.tensor(1),
                                     build.zerosLike(source),
                                     build.boolean(false)}));
  if (a.wants(2)) {
    Value read = build.call(operators::aten::take, {a.gradient(), a.tensor(1)},
                            rowMajorType(tssa::getSizes(typeOf(a.tensor(1))),
                                         typeOf(source).getElementType()));
    a.give(2, build.reshape(read, typeOf(source)));
  }
  return success();
}

/// The elements of the source are read one after the other, one for each that
/// the mask names.
LogicalResult gradient_rules::MaskedScatter(Adjoint &a) {
  GradientBuilder &build = a.build;
  RankedTensorType type = typeOf(a.gradient());
  Value mask = a.tensor(1);
  if (a.wants(0u))
    a.give(0, build.select(mask, build.wrapped(0), a.gradient()));
  if (!a.wants(2))
    return success();
  RankedTensorType source = typeOf(a.tensor(2));
  Size count = countOf(tssa::getSizes(source));
  if (count.is(0)) {
    a.give(2, build.zerosLike(a.tensor(2)));
    return success();
  }
  Value isRead = build.flatten(build.expand(
      mask, rowMajorType(tssa::getSizes(type), typeOf(mask).getElementType())));
  Value sum = rowsNamed(build, isRead, build.flatten(a.gradient()),
                        rowMajorType({count}, source.getElementType()));
  a.give(2, build.reshape(sum, source));
  return success();
}
