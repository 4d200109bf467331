//===- EmitValues.cpp - What a thread computes at its points --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Emitter.h"
#include "dialects/tssa/IR/TSSA.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "pyjit/Codegen/ElementIndex.h"
#include "llvm/ADT/SmallPtrSet.h"

using namespace mlir;
using namespace pyjit::codegen;

namespace pyjit::ptx {

//===--- Values -------------------------------------------------------------//

Value Emitter::emit(const Node *node, unsigned u) {
  if (node->kind == Node::Kind::Constant)
    return arith::ConstantOp::create(b, node->constant);
  u = canonical(node->dims, u);
  // What follows from a reduction is known in the row, even if it is the same
  // for all rows.
  unsigned k =
      node->kind == Node::Kind::Reduce ? rowScope : scopeOf(node->dims);
  if (node->stage > 0)
    k = std::max(k, rowScope);
  if (Value known = scopes[k].values.lookup({node, u}))
    return known;
  Value result = inScope(k, [&]() -> Value {
    // Without reduction dims a reduction is of one element.
    if (node->kind == Node::Kind::Reduce) {
      assert(domain.numReduction == 0 && "a reduction not yet known");
      Value x = emit(node->init, u), y = emit(node->inputs[0], u);
      unsigned width =
          isa<VectorType>(x.getType()) || isa<VectorType>(y.getType()) ? lanes
                                                                       : 1;
      return combine(node, broadcast(x, width), broadcast(y, width));
    }
    if (node->kind == Node::Kind::Load) {
      if (Value kept = readShared(node, u))
        return kept;
      return load(node->buffer, node->offset, node->type, u);
    }
    return compute(node, u);
  });
  scopes[k].values[{node, u}] = result;
  return result;
}

void Emitter::prefetch(const Node *root, unsigned u) {
  llvm::SmallPtrSet<const Node *, 16> visited;
  auto visit = [&](auto &&self, const Node *node) -> void {
    if (!visited.insert(node).second || node->kind == Node::Kind::Constant)
      return;
    unsigned k =
        node->kind == Node::Kind::Reduce ? rowScope : scopeOf(node->dims);
    if (node->stage > 0)
      k = std::max(k, rowScope);
    if (scopes[k].values.contains({node, canonical(node->dims, u)}))
      return;
    if (node->kind == Node::Kind::Load) {
      emit(node, u);
      return;
    }
    for (const Node *input : node->inputs)
      if (input)
        self(self, input);
  };
  visit(visit, root);
}

/// An index as a body sees it: i64, on lanes if it follows the vector dim.
Value Emitter::bodyIndex(AffineExpr expr, unsigned u) {
  auto at = [&](int64_t shift) -> Value {
    Value x = index(shift ? shifted(expr, shift) : expr, u);
    Type wide = b.getI64Type();
    return x.getType() == wide ? x : arith::ExtSIOp::create(b, wide, x);
  };
  if (!onLanes(expr))
    return at(0);
  return laneIndices(b, linearize(expr), vectorDim, lanes, /*first=*/0, at);
}

/// A read at a place that a value names.
Value Emitter::extract(tensor::ExtractOp op, const Node *node, unsigned u,
                       DenseMap<Value, Value> &body) {
  auto type = cast<RankedTensorType>(op.getTensor().getType());
  Type element = type.getElementType(), memory = memoryType(element);
  unsigned bytes = memory.getIntOrFloatBitWidth() / 8;
  unsigned buffer =
      llvm::find(frame.inputs, op.getTensor()) - frame.inputs.begin();
  Value base = buffers[buffer];
  ExtractIndex read =
      splitExtract(b, op, *node, body, lanes,
                   [&](AffineExpr stride) { return bodyIndex(stride, u); });
  read.affine = simplify(read.affine, graph.sizes());
  LinearForm form = linearize(read.affine);
  bool onVector = onLanes(read.affine);
  bool dynamicVector = read.dynamic && isa<VectorType>(read.dynamic.getType());
  auto scalarOffset = [&] {
    Value offset = bodyIndex(read.affine, u);
    if (isa<VectorType>(offset.getType()))
      offset = vector::ExtractOp::create(b, offset, 0);
    return read.add(b, offset, lanes);
  };
  if (!dynamicVector && !onVector)
    return fromMemory(loadMemory(memory,
                                 address(base, scalarOffset(), 0, element),
                                 bytes, buffer),
                      element);
  if (!dynamicVector && !form.isNonlinearIn(vectorDim) &&
      form.coefficient(vectorDim) == 1) {
    auto vectorType = VectorType::get({int64_t(lanes)}, memory);
    unsigned wanted = std::min(16u, bytes * lanes);
    while (wanted > bytes && read.factor * bytes % wanted != 0)
      wanted /= 2;
    unsigned aligned = alignment(buffer, read.affine, element, wanted);
    Value at = address(base, scalarOffset(), 0, element);
    return fromMemory(loadMemory(vectorType, at, aligned, buffer), element);
  }
  Value offsets =
      read.add(b, broadcast(bodyIndex(read.affine, u), lanes), lanes);
  auto load = [&](Value offset) {
    return loadMemory(memory, address(base, offset, 0, element), bytes, buffer);
  };
  return fromMemory(gatherLanes(b, offsets, load), element);
}

Value Emitter::divideByRow(Value x, Value y, const Node *divisor) {
  Type element = getElementTypeOrSelf(y.getType());
  if (domain.numReduction == 0 || !element.isF32() ||
      divisor->kind == Node::Kind::Constant ||
      divisor->dims.anyCommon(reduced) || divisor->stage == 0)
    return {};
  std::array<Value, 3> &known = scopes[rowScope].reciprocals[y];
  Value &opposite = known[0], &reciprocal = known[1], &scale = known[2];
  if (!reciprocal)
    inScope(rowScope, [&]() -> Value {
      // 1 / y of a very small y would be infinite, of a very large one lose
      // bits: such are scaled by a power of two first, and the quotient after.
      auto number = [&](float value) {
        TypedAttr attr = b.getF32FloatAttr(value);
        if (auto vector = dyn_cast<VectorType>(y.getType()))
          attr = DenseElementsAttr::get(vector, ArrayRef<Attribute>(attr));
        return arith::ConstantOp::create(b, attr).getResult();
      };
      Value size = math::AbsFOp::create(b, y);
      Value small = arith::CmpFOp::create(b, arith::CmpFPredicate::OLT, size,
                                          number(0x1p-100f));
      Value large = arith::CmpFOp::create(b, arith::CmpFPredicate::OGT, size,
                                          number(0x1p100f));
      scale = arith::SelectOp::create(b, small, number(0x1p64f), number(1.0f));
      scale = arith::SelectOp::create(b, large, number(0x1p-64f), scale);
      Value divisor = arith::MulFOp::create(b, y, scale);
      opposite = arith::NegFOp::create(b, divisor);
      reciprocal = arith::DivFOp::create(b, number(1.0f), divisor);
      return reciprocal;
    });
  unsigned width = isa<VectorType>(x.getType()) ? lanes : 1;
  auto all = [&](Value value) { return broadcast(value, width); };
  // What the product leaves of x is divided, too: the quotient is rounded once
  // (Markstein, 1990, theorem 7), so that x / x is one. Not where it is zero,
  // infinite or no number, which the product has right.
  Value product = arith::MulFOp::create(b, x, all(reciprocal));
  Value rest = math::FmaOp::create(b, all(opposite), product, x);
  Value quotient = math::FmaOp::create(b, rest, all(reciprocal), product);
  Value zero = arith::ConstantOp::create(b, b.getZeroAttr(quotient.getType()));
  Value isNumber = arith::CmpFOp::create(
      b, arith::CmpFPredicate::OGT, math::AbsFOp::create(b, quotient), zero);
  quotient = arith::SelectOp::create(b, isNumber, quotient, product);
  return arith::MulFOp::create(b, quotient, all(scale));
}

Value Emitter::compute(const Node *node, unsigned u) {
  // A division by what is one number for the row is a multiplication.
  auto instead = [&](Operation *op, ArrayRef<Value> operands,
                     unsigned width) -> Value {
    auto division = dyn_cast<arith::DivFOp>(op);
    auto argument =
        division ? dyn_cast<BlockArgument>(division.getRhs()) : BlockArgument();
    if (!argument)
      return {};
    return divideByRow(broadcast(operands[0], width), operands[1],
                       node->inputs[argument.getArgNumber()]);
  };
  BodyHooks hooks{
      [&](unsigned number) { return emit(node->inputs[number], u); },
      [&](unsigned dim) { return bodyIndex(node->loops[dim], u); },
      [&](tensor::ExtractOp op, BodyValues &known) {
        return extract(op, node, u, known);
      },
      [&](Operation *op, ArrayRef<Value> operands, unsigned width) {
        if (auto size = dyn_cast<tssa::SizeOp>(op))
          return bodyIndex(size.getMap().getResult(0), u);
        return instead(op, operands, width);
      },
      lanes};
  return emitBody(b, node->op, node->element, hooks);
}

void Emitter::storeAll(ArrayRef<codegen::Store *> stores, unsigned vectors,
                       llvm::function_ref<Value(unsigned)> guard,
                       unsigned atOnce) {
  // All loads, then all values, then all stores: nothing waits for a store.
  for (unsigned from = 0; from < vectors; from += atOnce) {
    auto each = [&](auto visit) {
      for (codegen::Store *s : stores)
        for (unsigned u = from; u < std::min(from + atOnce, vectors); ++u)
          if (u == 0 || s->dims.anyCommon(varying))
            visit(*s, u);
    };
    each([&](codegen::Store &s, unsigned u) { prefetch(s.node, u); });
    each([&](codegen::Store &s, unsigned u) {
      emit(s.node, u);
      if (!linearize(s.offset).isNonlinearIn(std::max(0, vectorDim)))
        index(s.offset, u);
    });
    each([&](codegen::Store &s, unsigned u) {
      Value value = emit(s.node, u), condition = guard(u);
      if (!condition)
        return store(value, s.buffer, s.offset, u);
      auto ifOp = scf::IfOp::create(b, condition, /*withElse=*/false);
      OpBuilder::InsertionGuard inside(b);
      b.setInsertionPointToStart(ifOp.thenBlock());
      // What is computed in here is known in here only.
      auto kept = scopes.back().indices;
      store(value, s.buffer, s.offset, u);
      scopes.back().indices = std::move(kept);
    });
  }
}

} // namespace pyjit::ptx
