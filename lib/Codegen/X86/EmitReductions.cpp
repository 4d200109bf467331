//===- EmitReductions.cpp - Stages: walks over the reduction dims ---------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
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

/// How many elements an accumulator takes in before it is added to the next
/// one: the error of a sum grows with it, and with how many levels there are.
static constexpr int64_t kRun = 32;

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
  if (keepsSums())
    return tileStages();
  unsigned outerRow = rowScope;
  rowScope = scopes.size() - 1;
  for (unsigned number = 0; number < graph.numStages; ++number)
    stage(number);
  currentStage = graph.numStages;
  storeAll(/*rows=*/true);
  rowScope = outerRow;
}

void KernelEmitter::loadOverwritten(const Store &s) {
  if (s.overlaps.empty())
    return;
  for (auto &node : graph.nodes)
    if (node->kind == Node::Kind::Load &&
        llvm::is_contained(s.overlaps, node->buffer))
      for (unsigned u = 0; u < inFlight(); ++u)
        if (copyOf(node->dims, u) == u)
          emit(node.get(), u);
}

void KernelEmitter::storeAll(bool rowsOnly) {
  auto isNow = [&](const Store &s) {
    return s.dims.anyCommon(reduced) != rowsOnly &&
           (rowsOnly || s.node->stage == currentStage);
  };
  for (Store &s : graph.stores)
    if (isNow(s))
      loadOverwritten(s);
  for (Store &s : graph.stores) {
    if (!isNow(s))
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

SmallVector<Value> KernelEmitter::combineAll(ValueRange xs, ValueRange ys) {
  unsigned vectors = xs.size() / std::max<size_t>(1, reduces.size());
  SmallVector<Value> sums;
  for (auto [i, x, y] : llvm::enumerate(xs, ys))
    sums.push_back(combine(reduces[i / vectors], x, y));
  return sums;
}

SmallVector<Value> KernelEmitter::identities(unsigned width, unsigned vectors) {
  SmallVector<Value> values;
  for (Node *node : reduces)
    values.append(vectors, identity(node, width));
  return values;
}

/// Whether a result depends on the order in which elements are joined.
static bool rounds(const Node *reduce) {
  return isa<arith::AddFOp, arith::MulFOp>(reduce->combiner);
}

SmallVector<Value> KernelEmitter::cascade(unsigned dim, Value lower,
                                          Value upper, int64_t step,
                                          unsigned width, unsigned vectors,
                                          Body body) {
  const Dim &walked = graph.dims[dim];
  // A tile's sums fill the registers: to add them up costs more.
  bool tiled = schedule.tileDim >= 0;
  int64_t run = tiled ? kTileRun : kRun;
  unsigned most = tiled ? 1 : 2;
  SmallVector<int64_t> lengths;
  if (llvm::any_of(reduces, rounds))
    for (int64_t length = step * run;
         walked.isSymbolic() ? lengths.size() < most : length * 2 < walked.size;
         length *= run)
      lengths.push_back(length);
  auto walk = [&](auto &&self, unsigned level, Value from, Value to) {
    if (level == 0)
      return dimLoop(dim, from, to, step, identities(width, vectors), body);
    int64_t length = lengths[level - 1];
    bool inMemory =
        keepsSums() && level == lengths.size() && dim == schedule.numParallel;
    if (inMemory)
      clearSums();
    Value start, end;
    return loop(
        {}, from, to, length,
        inMemory ? SmallVector<Value>() : identities(width, vectors),
        [&](Value at) {
          start = at;
          end = add(start, i64(length));
          if (!walked.isMultipleOf(length))
            end = arith::MinSIOp::create(b, end, to);
        },
        [&](ValueRange sums) {
          SmallVector<Value> parts = self(self, level - 1, start, end);
          if (!inMemory)
            return combineAll(sums, parts);
          addToSums(parts);
          return SmallVector<Value>();
        });
  };
  return walk(walk, lengths.size(), lower, upper);
}

/// Accumulators are per reduction and, if the vector dim is parallel, per
/// vector in flight.
SmallVector<Value> KernelEmitter::reductionLoops(unsigned dim) {
  if (dim + 1 == graph.dims.size())
    return innermost(dim);
  bool scalars = schedule.vectorInReduction();
  return cascade(dim, i64(0), extent(dim), 1, scalars ? 1 : lanes,
                 scalars ? 1 : inFlight(), [&](ValueRange sums) {
                   return combineAll(sums, reductionLoops(dim + 1));
                 });
}

/// The last reduction loop. What is left over by several vectors in flight,
/// and by vectors, is summed up apart.
SmallVector<Value> KernelEmitter::innermost(unsigned dim) {
  const Dim &walked = graph.dims[dim];
  Value at = i64(0), upper = extent(dim);
  if (int(dim) != schedule.vectorDim)
    return cascade(dim, at, upper, 1, lanes, inFlight(),
                   [&](ValueRange sums) { return point(sums); });

  SmallVector<Value> sums;
  auto walk = [&](Value to, unsigned width, unsigned vectors) {
    lanes = width;
    unroll = vectors;
    SmallVector<Value> parts =
        cascade(dim, at, to, int64_t(width) * vectors, width, vectors,
                [&](ValueRange accumulators) { return point(accumulators); });
    lanes = 1;
    unroll = 1;
    at = to;
    return parts;
  };
  auto join = [&](SmallVector<Value> more) {
    sums = sums.empty() ? more : combineAll(sums, more);
  };
  int64_t wide = int64_t(schedule.lanes) * schedule.unroll;
  if (walked.isSymbolic() || walked.size >= wide) {
    SmallVector<Value> parts =
        walk(walked.isMultipleOf(wide) ? upper : roundDown(at, upper, wide),
             schedule.lanes, schedule.unroll);
    SmallVector<Value> folded;
    for (auto [i, node] : llvm::enumerate(reduces)) {
      Value *part = parts.begin() + i * schedule.unroll;
      for (unsigned width = schedule.unroll; width > 1; width /= 2)
        for (unsigned j = 0; j < width / 2; ++j)
          part[j] = combine(node, part[j], part[j + width / 2]);
      folded.push_back(part[0]);
    }
    join(folded);
  }
  if (schedule.unroll > 1 &&
      (walked.isSymbolic() ? !walked.isMultipleOf(wide)
                           : walked.size % wide >= schedule.lanes))
    join(walk(walked.isMultipleOf(schedule.lanes)
                  ? upper
                  : roundDown(at, upper, schedule.lanes),
              schedule.lanes, 1));
  for (auto [node, sum] : llvm::zip(reduces, sums))
    sum = horizontal(node, sum);
  if (!walked.isMultipleOf(schedule.lanes))
    join(walk(upper, 1, 1));
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
