//===- RecipeSteps.cpp - reductions, and the steps that they end ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Every reduction becomes a step, and so does what the table wants computed
// once.
//
//===----------------------------------------------------------------------===//

#include "Resolver.h"

using namespace mlir;

namespace pyjit::operators {

SmallVector<int64_t> Step::getResultShape() const {
  SmallVector<int64_t> result;
  for (auto [dim, size] : llvm::enumerate(shape))
    if (!llvm::is_contained(reducedDims, dim))
      result.push_back(size);
  return result;
}

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

FailureOr<SmallVector<unsigned>> Resolver::reducedDims(const TableNode &node,
                                                       unsigned rank) {
  SmallVector<unsigned> dims;
  auto every = [&] {
    for (unsigned i = 0; i < rank; ++i)
      dims.push_back(i);
    return dims;
  };
  if (node.dims == TableDims::Every)
    return every();
  Attribute arg = args[node.index];
  auto list = dyn_cast<ArrayAttr>(arg);
  if (node.dims == TableDims::Last) {
    if (!list || list.size() > rank)
      return failure();
    for (unsigned i = rank - list.size(); i < rank; ++i)
      dims.push_back(i);
    return dims;
  }
  // any and all take an empty list by its word; to the others it means all.
  bool literal = node.op == TableOp::ReduceAny || node.op == TableOp::ReduceAll;
  if (isNoneArgument(arg) || (list && list.empty() && !literal))
    return every();
  SmallVector<Attribute> named;
  if (list)
    llvm::append_range(named, list);
  else
    named.push_back(arg);
  for (Attribute attr : named) {
    auto dim = dyn_cast<IntegerAttr>(attr);
    if (!dim)
      return failure();
    // A 0-dim tensor reduces over dimension 0 or -1 of none.
    if (rank == 0)
      continue;
    int64_t value = dim.getInt() < 0 ? dim.getInt() + rank : dim.getInt();
    if (value < 0 || value >= static_cast<int64_t>(rank))
      return failure();
    dims.push_back(value);
  }
  llvm::sort(dims);
  return dims;
}

/// The lowest or the highest value of a type.
static TypedAttr extreme(Type type, bool lowest) {
  if (auto real = dyn_cast<FloatType>(type))
    return FloatAttr::get(type,
                          APFloat::getInf(real.getFloatSemantics(), lowest));
  auto integer = cast<IntegerType>(type);
  unsigned width = integer.getWidth();
  if (integer.isUnsigned() || width == 1)
    return IntegerAttr::get(type, lowest ? APInt::getZero(width)
                                         : APInt::getAllOnes(width));
  return IntegerAttr::get(type, lowest ? APInt::getSignedMinValue(width)
                                       : APInt::getSignedMaxValue(width));
}

std::pair<ScalarOp, TypedAttr> Resolver::combination(TableOp op, Type type) {
  auto number = [&](int64_t value) {
    return cast<TypedAttr>(constant(builder.getI64IntegerAttr(value), type)
                               ->nodes.front()
                               .constant);
  };
  switch (op) {
  case TableOp::ReduceSum:
    return {ScalarOp::Add, number(0)};
  case TableOp::ReduceProd:
    return {ScalarOp::Mul, number(1)};
  case TableOp::ReduceMax:
    return {ScalarOp::Maximum, extreme(type, true)};
  case TableOp::ReduceMin:
    return {ScalarOp::Minimum, extreme(type, false)};
  case TableOp::ReduceAny:
    return {ScalarOp::BitOr, number(0)};
  default:
    return {ScalarOp::BitAnd, number(1)};
  }
}

Resolver::MaybeValue Resolver::evalReduction(const TableNode &node,
                                             Type expected) {
  MaybeValue child = eval(compute);
  if (failed(child))
    return failure();
  unsigned rank = child->shape.size();
  FailureOr<SmallVector<unsigned>> dims = reducedDims(node, rank);
  if (failed(dims))
    return failure();
  if (node.op == TableOp::Count) {
    int64_t count = 1;
    for (unsigned dim : *dims) {
      if (ShapedType::isDynamic(child->shape[dim]))
        return failure();
      count *= child->shape[dim];
    }
    if (count == 0)
      return failure(); // eager has rules of its own for what divides by none
    return constant(builder.getI64IntegerAttr(count), expected);
  }

  Type type = child->type();
  auto [op, init] = combination(node.op, type);
  if ((op == ScalarOp::BitOr || op == ScalarOp::BitAnd) && !type.isInteger(1))
    return failure();

  if (failed(addStep(*child, child->shape, iota(rank))))
    return failure();
  Step &step = recipe.steps.back();
  step.isReduction = true;
  step.reducedDims = *dims;
  step.combine = op;
  step.init = init;
  Source source{
      true, static_cast<unsigned>(recipe.steps.size() - 1), child->shape, {}};
  for (unsigned i = 0; i < rank; ++i) {
    if (llvm::is_contained(*dims, i))
      source.shape[i] = 1;
    else
      source.dims.push_back(i);
  }
  return read(std::move(source), type);
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

/// Adds a step that computes `value` over `shape`. `positions[i]` is the
/// iteration dimension along which the value's dimension i lies; -1: the
/// dimension has size 1 and no counterpart.
LogicalResult Resolver::addStep(const Value &value, ArrayRef<int64_t> shape,
                                ArrayRef<int64_t> positions) {
  Step step;
  step.shape.assign(shape.begin(), shape.end());
  int64_t rank = value.shape.size();
  SmallVector<std::pair<unsigned, unsigned>> numbers; // source, input
  for (ScalarNode node : value.nodes) {
    if (node.op == ScalarOp::Index) {
      int64_t position = positions[rank - node.index];
      if (position < 0)
        return failure();
      node.index = position;
    }
    if (node.op == ScalarOp::Input) {
      auto *known = llvm::find_if(
          numbers, [&](auto &pair) { return pair.first == node.index; });
      if (known == numbers.end()) {
        const Source &source = sources[node.index];
        int64_t lead = rank - static_cast<int64_t>(source.shape.size());
        SmallVector<AffineExpr> exprs;
        for (unsigned dim : source.dims) {
          int64_t position = positions[lead + dim];
          bool repeated =
              position < 0 || (source.shape[dim] == 1 && shape[position] != 1);
          exprs.push_back(repeated ? builder.getAffineConstantExpr(0)
                                   : builder.getAffineDimExpr(position));
        }
        step.inputs.push_back(
            {source.isStep, source.number,
             AffineMap::get(shape.size(), 0, exprs, builder.getContext())});
        numbers.push_back({node.index, step.inputs.size() - 1});
        known = &numbers.back();
      }
      node.index = known->second;
    }
    step.expr.push_back(node);
  }
  recipe.steps.push_back(std::move(step));
  return success();
}

Value Resolver::materialize(const Value &value) {
  // Cannot fail: every dimension has its position.
  (void)addStep(value, value.shape, iota(value.shape.size()));
  Source source{
      true, static_cast<unsigned>(recipe.steps.size() - 1), value.shape, {}};
  for (int64_t dim : iota(value.shape.size()))
    source.dims.push_back(dim);
  return read(std::move(source), value.type());
}

/// Makes the last step give the call's result.
LogicalResult Resolver::finish(Value value) {
  value = convert(std::move(value), result.getElementType());
  ArrayRef<int64_t> target = result.getShape();

  // A reduction whose result is the call's already.
  const ScalarNode &root = value.nodes.front();
  if (root.op == ScalarOp::Input && sources[root.index].isStep &&
      sources[root.index].number + 1 == recipe.steps.size() &&
      ArrayRef<int64_t>(recipe.steps.back().getResultShape()) == target &&
      recipe.steps.back().isReduction)
    return success();

  // Only fill, copy and the like broadcast; a reduction of another shape is
  // one that we have misunderstood.
  // Unknown sizes apart, of which there have to be as many.
  auto countIn = [](ArrayRef<int64_t> shape) {
    std::pair<int64_t, int64_t> count{1, 0};
    for (int64_t size : shape) {
      if (ShapedType::isDynamic(size))
        ++count.second;
      else
        count.first *= size;
    }
    return count;
  };
  if (!recipe.steps.empty() && countIn(value.shape) != countIn(target))
    return failure();

  // Broadcast to the result.
  SmallVector<int64_t> positions;
  auto shape = broadcast(value.shape, target);
  if (value.shape.size() <= target.size() && shape &&
      ArrayRef<int64_t>(*shape) == target) {
    int64_t lead = target.size() - value.shape.size();
    for (int64_t dim : iota(value.shape.size()))
      positions.push_back(lead + dim);
    return addStep(value, target, positions);
  }

  // Or lose the dimensions of size 1 that a reduction kept.
  size_t next = 0;
  size_t surplus = value.shape.size() > target.size()
                       ? value.shape.size() - target.size()
                       : 0;
  for (int64_t size : value.shape) {
    if (next < target.size() && target[next] == size &&
        (size != 1 || surplus == 0)) {
      positions.push_back(next++);
    } else if (size == 1) {
      positions.push_back(-1);
      surplus -= surplus > 0;
    } else {
      // A dimension of size 1 of the result has no counterpart left.
      while (next < target.size() && target[next] == 1)
        ++next;
      if (next == target.size() || target[next] != size)
        return failure();
      positions.push_back(next++);
    }
  }
  for (; next < target.size(); ++next)
    if (target[next] != 1)
      return failure();
  return addStep(value, target, positions);
}
} // namespace pyjit::operators
