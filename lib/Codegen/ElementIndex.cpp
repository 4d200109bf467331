//===- ElementIndex.cpp - Indices as values, on lanes or not --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "pyjit/Codegen/ElementIndex.h"

#include "dialects/tssa/IR/Views.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include <numeric>

using namespace mlir;

namespace pyjit::codegen {

Value laneIndices(ImplicitLocOpBuilder &b, const LinearForm &form,
                  unsigned vectorDim, unsigned lanes, int64_t first,
                  llvm::function_ref<Value(int64_t)> at) {
  auto type = VectorType::get({int64_t(lanes)}, b.getI64Type());
  if (form.isNonlinearIn(vectorDim)) {
    SmallVector<Value> elements;
    for (unsigned lane = 0; lane < lanes; ++lane)
      elements.push_back(at(first + lane));
    return vector::FromElementsOp::create(b, type, elements);
  }
  int64_t stride = form.coefficient(vectorDim);
  SmallVector<int64_t> steps;
  for (unsigned lane = 0; lane < lanes; ++lane)
    steps.push_back((first + lane) * stride);
  Value iota = arith::ConstantOp::create(
      b, DenseIntElementsAttr::get(type, ArrayRef<int64_t>(steps)));
  return arith::AddIOp::create(b, broadcast(b, b.getLoc(), at(0), lanes), iota);
}

Value ExtractIndex::add(ImplicitLocOpBuilder &b, Value offset,
                        unsigned lanes) const {
  if (!dynamic)
    return offset;
  bool onLanes =
      isa<VectorType>(offset.getType()) || isa<VectorType>(dynamic.getType());
  unsigned width = onLanes ? lanes : 1;
  return b.createOrFold<arith::AddIOp>(
      broadcast(b, b.getLoc(), offset, width),
      broadcast(b, b.getLoc(), dynamic, width));
}

ExtractIndex splitExtract(ImplicitLocOpBuilder &b, tensor::ExtractOp op,
                          const Node &node, const BodyValues &known,
                          unsigned lanes,
                          llvm::function_ref<Value(AffineExpr)> valueOf) {
  auto type = cast<RankedTensorType>(op.getTensor().getType());
  ExtractIndex index;
  AffineExpr zero = getAffineConstantExpr(0, b.getContext());
  SmallVector<AffineExpr> positions(type.getRank(), zero);
  SmallVector<analysis::Size> strides = tssa::getSymbolicStrides(type);
  for (auto [d, operand] : llvm::enumerate(op.getIndices())) {
    if (auto position = operand.getDefiningOp<linalg::IndexOp>()) {
      positions[d] = node.loops[position.getDim()];
      continue;
    }
    const analysis::Size &stride = strides[d];
    Value part = known.lookup(operand);
    unsigned width = isa<VectorType>(part.getType()) ? lanes : 1;
    Value factor = stride.isConstant()
                       ? arith::ConstantOp::create(
                             b, b.getI64IntegerAttr(stride.constant()))
                       : valueOf(stride.toExpr(b.getContext()));
    part = b.createOrFold<arith::MulIOp>(
        part, broadcast(b, b.getLoc(), factor, width));
    index.dynamic = index.add(b, part, lanes);
    index.factor =
        std::gcd(index.factor, stride.isConstant() ? stride.constant() : 1);
  }
  index.affine = offsetOf(type, positions);
  return index;
}

Value gatherLanes(ImplicitLocOpBuilder &b, Value offsets,
                  llvm::function_ref<Value(Value)> load) {
  int64_t lanes = cast<VectorType>(offsets.getType()).getNumElements();
  SmallVector<Value> elements;
  for (int64_t lane = 0; lane < lanes; ++lane)
    elements.push_back(load(vector::ExtractOp::create(b, offsets, lane)));
  auto type = VectorType::get({lanes}, elements.front().getType());
  return vector::FromElementsOp::create(b, type, elements);
}

} // namespace pyjit::codegen
