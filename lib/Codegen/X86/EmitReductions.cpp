//===- EmitReductions.cpp - Stages: walks over the reduction dims ---------===//
#include "KernelEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/BuiltinOps.h"

using namespace mlir;
using namespace pyjit::codegen;

namespace pyjit::x86 {

Value KernelEmitter::accumulate(const Node *reduce, Value accumulator,
                                unsigned u) {
  Node *element = reduce->inputs[0];
  if (std::optional<Contraction> contraction = asContraction(reduce))
    return math::FmaOp::create(b, broadcast(emit(contraction->left, u), lanes),
                               broadcast(emit(contraction->right, u), lanes),
                               accumulator);
  return combine(reduce, accumulator, broadcast(emit(element, u), lanes));
}

Value KernelEmitter::identity(const Node *reduce, unsigned width) {
  TypedAttr value = codegen::identityOf(reduce, /*negativeZero=*/false);
  return broadcast(arith::ConstantOp::create(b, value), width);
}

Value KernelEmitter::horizontal(const Node *reduce, Value vector) {
  auto type = dyn_cast<VectorType>(vector.getType());
  if (!type)
    return vector;
  for (int64_t width = type.getNumElements(); width > 1; width /= 2) {
    SmallVector<int64_t> low, high;
    for (int64_t i = 0; i < width / 2; ++i) {
      low.push_back(i);
      high.push_back(i + width / 2);
    }
    Value x = vector::ShuffleOp::create(b, vector, vector, low);
    Value y = vector::ShuffleOp::create(b, vector, vector, high);
    vector = combine(reduce, x, y);
  }
  return vector::ExtractOp::create(b, vector, 0);
}

void KernelEmitter::stages() {
  unsigned outerRow = rowScope;
  rowScope = scopes.size() - 1;
  for (unsigned number = 0; number < graph.numStages; ++number)
    stage(number);
  currentStage = graph.numStages;
  storeAll(/*rows=*/true);
  rowScope = outerRow;
}

void KernelEmitter::storeAll(bool rowsOnly) {
  for (Store &s : graph.stores) {
    if (s.dims.anyCommon(reduced) == rowsOnly)
      continue;
    if (!rowsOnly && s.node->stage != currentStage)
      continue;
    // Copies that are the same element are stored once.
    for (unsigned u = 0; u < inFlight(); ++u)
      if (copyOf(s.dims, u) == u)
        store(emit(s.node, u), buffers[s.buffer], s.offset, u);
  }
}

/// One walk over the reduction dims.
void KernelEmitter::stage(unsigned number) {
  currentStage = number;
  reduces.clear();
  stageSaves.clear();
  for (auto &node : graph.nodes)
    if (node->kind == Node::Kind::Reduce && node->inputs[0]->stage == number)
      reduces.push_back(node.get());
  for (auto [i, saved] : llvm::enumerate(schedule.saved))
    if (saved.stage == number)
      stageSaves.push_back(i);
  bool stores = llvm::any_of(graph.stores, [&](Store &s) {
    return s.dims.anyCommon(reduced) && s.node->stage == number;
  });
  if (reduces.empty() && !stores && stageSaves.empty())
    return;
  SmallVector<Value> totals;
  if (schedule.numReduction != 0) {
    totals = reductionLoops(schedule.numParallel);
  } else {
    // Every reduced dim has one element: the value is its own sum.
    for (Node *node : reduces)
      for (unsigned u = 0; u < inFlight(); ++u)
        totals.push_back(emit(node->inputs[0], u));
  }
  unsigned next = 0;
  for (Node *node : reduces) {
    unsigned copies = schedule.vectorInReduction() ? 1 : inFlight();
    for (unsigned u = 0; u < copies; ++u) {
      Value total = totals[next++];
      Value init = emit(node->init, u);
      if (total.getType() != init.getType()) {
        total = broadcast(total, lanes);
        init = broadcast(init, lanes);
      }
      scopes[rowScope].values[{node, rowAndVector(u)}] =
          combine(node, init, total);
    }
  }
}

/// Accumulators are per reduction and, if the vector dim is parallel, per
/// vector in flight.
SmallVector<Value> KernelEmitter::reductionLoops(unsigned dim) {
  const Dim &walked = graph.dims[dim];
  int64_t size = walked.size;
  bool last = dim + 1 == graph.dims.size();
  auto combineAll = [&](ValueRange xs, ValueRange ys) {
    unsigned vectors = xs.size() / std::max<size_t>(1, reduces.size());
    SmallVector<Value> sums;
    for (auto [i, x, y] : llvm::enumerate(xs, ys))
      sums.push_back(combine(reduces[i / vectors], x, y));
    return sums;
  };
  auto identities = [&] {
    SmallVector<Value> values;
    bool scalars = schedule.vectorInReduction();
    for (Node *node : reduces)
      for (unsigned u = 0; u < (scalars ? 1 : inFlight()); ++u)
        values.push_back(identity(node, scalars ? 1 : lanes));
    return values;
  };
  if (!last)
    return dimLoop(dim, i64(0), extent(dim), 1, identities(),
                   [&](ValueRange sums) {
                     return combineAll(sums, reductionLoops(dim + 1));
                   });
  // Long sums are taken by blocks: the error grows with their number, not with
  // the number of elements.
  int64_t blockSize = int(dim) == schedule.vectorDim ? 8192
                      : schedule.tileDim >= 0        ? 256
                                                     : 512;
  if (reduces.empty() || (!walked.isSymbolic() && size <= 2 * blockSize))
    return innermost(dim, i64(0), extent(dim), walked);
  Value lower, upper;
  return loop(
      {}, i64(0), extent(dim), blockSize, identities(),
      [&](Value start) {
        lower = start;
        upper = add(start, i64(blockSize));
        if (!walked.isMultipleOf(blockSize))
          upper = arith::MinSIOp::create(b, upper, extent(dim));
      },
      [&](ValueRange sums) {
        return combineAll(sums, innermost(dim, lower, upper, walked));
      });
}

/// The last reduction loop; the size of `walked` is congruent to upper - lower
/// modulo the vectors in flight, or larger than them.
SmallVector<Value> KernelEmitter::innermost(unsigned dim, Value lower,
                                            Value upper,
                                            const codegen::Dim &walked) {
  int64_t extent = walked.size;
  auto start = [&](unsigned width, unsigned vectors) {
    SmallVector<Value> values;
    for (Node *node : reduces)
      for (unsigned u = 0; u < vectors; ++u)
        values.push_back(identity(node, width));
    return values;
  };
  if (int(dim) != schedule.vectorDim)
    return dimLoop(dim, lower, upper, 1, start(lanes, inFlight()),
                   [&](ValueRange sums) { return point(sums); });

  SmallVector<Value> sums;
  int64_t wide = int64_t(schedule.lanes) * schedule.unroll;
  Value at = lower;
  auto walk = [&](Value to, unsigned width, unsigned vectors,
                  SmallVector<Value> inits) {
    lanes = width;
    unroll = vectors;
    sums =
        dimLoop(dim, at, to, int64_t(width) * vectors, inits,
                [&](ValueRange accumulators) { return point(accumulators); });
    lanes = 1;
    unroll = 1;
    at = to;
  };
  if (walked.isSymbolic() || extent >= wide) {
    walk(walked.isMultipleOf(wide) ? upper : roundDown(lower, upper, wide),
         schedule.lanes, schedule.unroll,
         start(schedule.lanes, schedule.unroll));
    SmallVector<Value> folded;
    for (auto [i, node] : llvm::enumerate(reduces)) {
      SmallVector<Value> parts(sums.begin() + i * schedule.unroll,
                               sums.begin() + (i + 1) * schedule.unroll);
      for (unsigned width = parts.size(); width > 1; width /= 2)
        for (unsigned j = 0; j < width / 2; ++j)
          parts[j] = combine(node, parts[j], parts[j + width / 2]);
      folded.push_back(parts[0]);
    }
    sums = folded;
  } else {
    sums = start(schedule.lanes, 1);
  }
  if (schedule.unroll > 1 &&
      (walked.isSymbolic() ? !walked.isMultipleOf(wide)
                           : extent % wide >= schedule.lanes))
    walk(roundDown(lower, upper, schedule.lanes), schedule.lanes, 1, sums);
  for (auto [node, sum] : llvm::zip(reduces, sums))
    sum = horizontal(node, sum);
  if (!walked.isMultipleOf(schedule.lanes))
    walk(upper, 1, 1, sums);
  return sums;
}

/// Everything that the current stage does at one point of the domain.
SmallVector<Value> KernelEmitter::point(ValueRange accumulators) {
  SmallVector<Value> results;
  for (auto [i, node] : llvm::enumerate(reduces))
    for (unsigned u = 0; u < inFlight(); ++u)
      results.push_back(accumulate(node, accumulators[i * inFlight() + u], u));
  for (unsigned number : stageSaves) {
    const Node *node = schedule.saved[number].node;
    for (unsigned u = 0; u < unroll; ++u)
      if (copyOf(node->dims, u) == u)
        store(emit(node, u), scratch[number], scratchOffset(node), u);
  }
  storeAll(/*rows=*/false);
  return results;
}

} // namespace pyjit::x86
