//===- Gathers.cpp - Reads at indices that are values ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A kernel cannot raise. It reads at an index that is forced into range, and
// beside it stands a reduction over all indices that says whether that changed
// one, with a call that fails if so: `aten::_assert_async`. The launch then
// reports an error and eager answers the call, with its own exception. Indices
// that are known (`pyjit.elements`) are checked here.
//
//===----------------------------------------------------------------------===//

#include "Structured.h"

#include "dialects/tssa/IR/KnownElements.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "pyjit/Operators/CallArguments.h"
#include "pyjit/Operators/OperatorNames.h"

using namespace mlir;

namespace pyjit {
namespace {

Value constant(OpBuilder &b, Location loc, Type type, int64_t value) {
  return arith::ConstantOp::create(b, loc, b.getIntegerAttr(type, value));
}

bool isIndexType(Type type) {
  return type.isSignlessInteger(64) || type.isSignlessInteger(32);
}

/// What a kernel reads for `operand`, indices; fails at run time if one is not
/// in [lowest, size).
Value checked(StructuredCall &call, Value operand, int64_t lowest,
              int64_t size) {
  Value indices = call.shown(operand);
  if (DenseI64ArrayAttr known = tssa::getKnownElements(operand))
    if (llvm::all_of(known.asArrayRef(), [&](int64_t index) {
          return index >= lowest && index < size;
        }))
      return indices;
  OpBuilder &b = call.b;
  if (!call.checked.insert({b.getInsertionBlock(), indices, lowest, size})
           .second)
    return indices;
  Location loc = call.loc();
  auto type = cast<RankedTensorType>(indices.getType());
  Type i1 = b.getI1Type();
  auto scalar = RankedTensorType::get({}, i1);
  unsigned rank = type.getRank();
  Value valid;
  auto inRange = [&](OpBuilder &in, Location at, Value index) -> Value {
    Type t = index.getType();
    Value low = arith::CmpIOp::create(in, at, arith::CmpIPredicate::sge, index,
                                      constant(in, at, t, lowest));
    Value high = arith::CmpIOp::create(in, at, arith::CmpIPredicate::slt, index,
                                       constant(in, at, t, size));
    return arith::AndIOp::create(in, at, low, high);
  };
  AffineMap none = AffineMap::get(rank, 0, {}, b.getContext());
  if (rank == 0) {
    valid = makeMap(b, loc, scalar, indices, b.getMultiDimIdentityMap(0),
                    [&](OpBuilder &in, Location at, ValueRange elements) {
                      return inRange(in, at, elements[0]);
                    });
  } else {
    Value yes = arith::ConstantOp::create(b, loc, b.getBoolAttr(true));
    Value empty = tensor::EmptyOp::create(b, loc, scalar, ValueRange());
    Value init = linalg::FillOp::create(b, loc, yes, empty).getResult(0);
    SmallVector<utils::IteratorType> iterators(rank,
                                               utils::IteratorType::reduction);
    valid =
        linalg::GenericOp::create(
            b, loc, TypeRange(scalar), ValueRange(indices), ValueRange(init),
            ArrayRef<AffineMap>{b.getMultiDimIdentityMap(rank), none},
            iterators,
            [&](OpBuilder &in, Location at, ValueRange args) {
              Value both = arith::AndIOp::create(
                  in, at, inRange(in, at, args[0]), args[1]);
              linalg::YieldOp::create(in, at, both);
            })
            .getResult(0);
  }
  SmallVector<Attribute> args{
      operators::getOperandPlaceholder(b.getContext()),
      b.getStringAttr("an index is out of range: eager answers the call")};
  tssa::AtenOp::create(b, loc, TypeRange(), operators::aten::_assert_async_msg,
                       valid, b.getArrayAttr(args), DenseI64ArrayAttr());
  return indices;
}

/// result[at] = table[position(at), with `dim` replaced by the index there]
Value read(StructuredCall &call, Value table, Value indices, AffineMap indexMap,
           unsigned dim, bool negative,
           llvm::function_ref<Value(OpBuilder &, Location, unsigned)> position,
           RankedTensorType type) {
  OpBuilder &b = call.b;
  auto from = cast<RankedTensorType>(table.getType());
  int64_t size = from.getDimSize(dim);
  return makeMap(
      b, call.loc(), type, indices, indexMap,
      [&](OpBuilder &in, Location at, ValueRange elements) -> Value {
        Value index = elements[0];
        Type t = index.getType();
        Value zero = constant(in, at, t, 0);
        if (negative) {
          Value below = arith::CmpIOp::create(in, at, arith::CmpIPredicate::slt,
                                              index, zero);
          Value wrapped =
              arith::AddIOp::create(in, at, index, constant(in, at, t, size));
          index = arith::SelectOp::create(in, at, below, wrapped, index);
        }
        index = arith::MaxSIOp::create(in, at, index, zero);
        index = arith::MinSIOp::create(in, at, index,
                                       constant(in, at, t, size - 1));
        SmallVector<Value> place;
        for (unsigned d = 0; d < from.getRank(); ++d)
          place.push_back(d == dim ? arith::IndexCastOp::create(
                                         in, at, in.getIndexType(), index)
                                         .getResult()
                                   : position(in, at, d));
        return tensor::ExtractOp::create(in, at, table, place);
      });
}

/// The table is read as it lies: a kernel computes no table.
bool usable(StructuredCall &call, Value table, Value indices, unsigned dim) {
  auto from = cast<RankedTensorType>(table.getType());
  auto index = cast<RankedTensorType>(indices.getType());
  if (!isIndexType(index.getElementType()))
    call.reason = "indices that are no i64 or i32";
  else if (!from.hasStaticShape())
    call.reason = "a table of symbolic sizes";
  else if (from.getNumElements() == 0 ||
           llvm::is_contained(index.getShape(), 0))
    call.reason = "an empty table or no index";
  else if (from.getElementType() != call.result().getElementType())
    call.reason = "a result of another element type";
  else if (index.getElementType().isInteger(32) &&
           from.getDimSize(dim) > (int64_t(1) << 30))
    call.reason = "a long dimension with 32-bit indices";
  else
    return true;
  return false;
}

} // namespace

SmallVector<Value> lowerEmbedding(StructuredCall &call) {
  Value table = call.tensor(0), indices = call.tensor(1);
  if (!table || !indices || !usable(call, table, indices, 0))
    return {};
  OpBuilder &b = call.b;
  unsigned rank = call.result().getRank();
  indices = checked(call, indices, 0,
                    cast<RankedTensorType>(table.getType()).getDimSize(0));
  SmallVector<AffineExpr> exprs;
  for (unsigned d = 0; d + 1 < rank; ++d)
    exprs.push_back(b.getAffineDimExpr(d));
  return {read(
      call, table, indices, AffineMap::get(rank, 0, exprs, b.getContext()), 0,
      false,
      [&](OpBuilder &in, Location at, unsigned) -> Value {
        return linalg::IndexOp::create(in, at, rank - 1);
      },
      call.result())};
}

SmallVector<Value> lowerIndexSelect(StructuredCall &call) {
  Value table = call.tensor(0), indices = call.tensor(2);
  unsigned rank = call.result().getRank();
  std::optional<unsigned> dim = call.dim(1, rank);
  if (!table || !indices || !dim || rank == 0 ||
      cast<RankedTensorType>(indices.getType()).getRank() != 1)
    return call.stays("a scalar");
  if (!usable(call, table, indices, *dim))
    return {};
  OpBuilder &b = call.b;
  indices = checked(call, indices, 0,
                    cast<RankedTensorType>(table.getType()).getDimSize(*dim));
  return {read(
      call, table, indices,
      AffineMap::get(rank, 0, b.getAffineDimExpr(*dim), b.getContext()), *dim,
      false,
      [&](OpBuilder &in, Location at, unsigned d) -> Value {
        return linalg::IndexOp::create(in, at, d);
      },
      call.result())};
}

SmallVector<Value> lowerGather(StructuredCall &call) {
  Value table = call.tensor(0), indices = call.tensor(2);
  unsigned rank = call.result().getRank();
  std::optional<unsigned> dim = call.dim(1, rank);
  if (!table || !indices || !dim || rank == 0 ||
      cast<RankedTensorType>(table.getType()).getRank() != int64_t(rank))
    return call.stays("a scalar");
  if (!usable(call, table, indices, *dim))
    return {};
  indices = checked(call, indices, 0,
                    cast<RankedTensorType>(table.getType()).getDimSize(*dim));
  return {read(
      call, table, indices, call.b.getMultiDimIdentityMap(rank), *dim, false,
      [&](OpBuilder &in, Location at, unsigned d) -> Value {
        return linalg::IndexOp::create(in, at, d);
      },
      call.result())};
}

/// self[:, index, :]: one tensor of indices among slices that take everything.
SmallVector<Value> lowerIndex(StructuredCall &call) {
  auto list = dyn_cast<ArrayAttr>(call.op.getArgs()[1]);
  if (!list || call.op.getInputs().size() != 2)
    return call.stays("more than one tensor of indices");
  unsigned dim = 0;
  while (dim < list.size() && !operators::isOperandPlaceholder(list[dim]))
    ++dim;
  Value table = call.op.getInputs()[0], indices = call.op.getInputs()[1];
  if (!usable(call, table, indices, dim))
    return {};
  OpBuilder &b = call.b;
  unsigned rank = call.result().getRank();
  unsigned indexRank = cast<RankedTensorType>(indices.getType()).getRank();
  int64_t size = cast<RankedTensorType>(table.getType()).getDimSize(dim);
  indices = checked(call, indices, -size, size);
  SmallVector<AffineExpr> exprs;
  for (unsigned d = 0; d < indexRank; ++d)
    exprs.push_back(b.getAffineDimExpr(dim + d));
  return {read(
      call, table, indices, AffineMap::get(rank, 0, exprs, b.getContext()), dim,
      true,
      [&](OpBuilder &in, Location at, unsigned d) -> Value {
        return linalg::IndexOp::create(in, at, d < dim ? d : d + indexRank - 1);
      },
      call.result())};
}

/// A row that stands where one index says, as a choice for each element: a
/// static cache, of which a device's launch writes one token.
SmallVector<Value> lowerIndexCopy(StructuredCall &call) {
  Value self = call.tensor(0), indices = call.tensor(2),
        source = call.tensor(3);
  unsigned rank = call.result().getRank();
  std::optional<unsigned> dim = call.dim(1, rank);
  if (!self || !indices || !source || !dim)
    return call.stays("a scalar");
  auto index = cast<RankedTensorType>(indices.getType());
  auto from = cast<RankedTensorType>(source.getType());
  if (!isIndexType(index.getElementType()) || !index.hasStaticShape() ||
      index.getNumElements() != 1 || from.getRank() != int64_t(rank))
    return call.stays("several indices");
  OpBuilder &b = call.b;
  indices = checked(call, indices, 0, call.result().getDimSize(*dim));
  SmallVector<AffineExpr> row,
      none(index.getRank(), b.getAffineConstantExpr(0));
  for (unsigned d = 0; d < rank; ++d)
    row.push_back(d == *dim ? b.getAffineConstantExpr(0)
                            : b.getAffineDimExpr(d));
  MLIRContext *context = b.getContext();
  return {makeMap(
      b, call.loc(), call.result(),
      {call.shown(self), indices, call.shown(source)},
      {b.getMultiDimIdentityMap(rank), AffineMap::get(rank, 0, none, context),
       AffineMap::get(rank, 0, row, context)},
      [&](OpBuilder &in, Location at, ValueRange elements) -> Value {
        Value here =
            arith::IndexCastOp::create(in, at, elements[1].getType(),
                                       linalg::IndexOp::create(in, at, *dim));
        Value chosen = arith::CmpIOp::create(in, at, arith::CmpIPredicate::eq,
                                             here, elements[1]);
        return arith::SelectOp::create(in, at, chosen, elements[2],
                                       elements[0]);
      })};
}

} // namespace pyjit
