//===- EmitReductions.cpp - Kernels that reduce ---------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rows: vectors walk the reduced elements. A group of threads shares a row, a
// block holds one or more groups; partial results meet by shuffles in a warp
// and through shared memory between warps, and every thread has the result.
//
// Columns: vectors walk parallel elements. Threads side by side hold columns,
// the members of a group walk every group-th row of them; partial results meet
// in shared memory.
//
// Both walk a row once per stage; a resident row is walked once, its values
// stay in registers. A maximum and the sum of exponentials below it take one
// walk of a row that is not resident (OnlineSum.h).
//
//===----------------------------------------------------------------------===//

#include "Emitter.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "pyjit/Codegen/OnlineSum.h"

using namespace mlir;
using namespace pyjit::codegen;

namespace pyjit::ptx {
namespace {

class ReductionEmitter : Emitter {
public:
  ReductionEmitter(KernelFrame &frame, bool columns)
      : Emitter(frame), columns(columns) {}

  void run();

private:
  void place();
  void stage(unsigned number);
  /// Stages `number` and the next one in one walk, if they are made so.
  bool stagesOnline(unsigned number);
  void collect(unsigned number);
  /// Binds the reduction dims of all vectors that start at step `base`; returns
  /// per vector whether it is inside of the row, or null if all are.
  SmallVector<Value> bindSteps(Value base, int64_t reach);
  /// How many vectors a row has, as a value.
  Value stepCount() { return number(steps); }
  /// All that the stage does at the bound vectors; one partial result per
  /// reduction.
  SmallVector<Value> point(ArrayRef<Value> inside);
  /// `combine` of all lanes of a value.
  Value acrossLanes(const Node *node, Value value);
  /// The state after one walk over the row: `step` makes it of the state before
  /// and of what is inside of the row.
  SmallVector<Value> walk(
      SmallVector<Value> state,
      llvm::function_ref<SmallVector<Value>(ValueRange, ArrayRef<Value>)> step);
  SmallVector<Value> walk();
  void finish(ArrayRef<Value> totals);
  /// Small integers meet as i32.
  Type exchangeType(const Node *node) {
    return node->type.isInteger(8) || node->type.isInteger(16) ? b.getI32Type()
                                                               : node->type;
  }
  Value toExchanged(const Node *node, Value value);
  Value fromExchanged(const Node *node, Value value);
  SmallVector<Value> reduceInWarps(SmallVector<Value> partials);
  SmallVector<Value> reduceInColumns(SmallVector<Value> partials);
  void storeRows();

  bool columns;
  /// This thread's number in its group, and where the group is in the block.
  Value member, position;
  Value rowInside;
  /// Vectors of a row, and how many of them all threads of a group take at
  /// once.
  Size steps = 0;
  int64_t chunk = 0;
  SmallVector<unsigned> reductionDims;

  SmallVector<Value> residentInside;
  bool met = false;
  SmallVector<Node *> reduces;
  SmallVector<codegen::Store *> stageStores;
};

/// Finds this thread's row, and binds the parallel dims.
void ReductionEmitter::place() {
  SmallVector<unsigned> dims =
      llvm::to_vector(llvm::seq<unsigned>(0, domain.numParallel));
  Size units = columns ? *domain.rowCount.dividedBy(lanes) : domain.rowCount;
  int64_t groups = schedule.threads / schedule.group;
  frame.setBlocks(units, groups);
  Value thread = threadIndex();
  if (columns) {
    position = rem(thread, groups);
    member = div(thread, groups);
  } else {
    member = rem(thread, schedule.group);
    position = div(thread, schedule.group);
  }
  Value unit = add(mul(blockIndex(), groups), position);
  if (!units.dividedBy(groups)) {
    rowInside = less(unit, number(units));
    unit = clamp(unit, number(units), 1);
  }
  if (!dims.empty())
    bind(0, unit, dims);
  for (unsigned u = 1; u < schedule.vectors; ++u)
    for (unsigned d : dims)
      ivs[u][d] = ivs[0][d];
}

void ReductionEmitter::run() {
  lanes = schedule.lanes;
  reductionDims = llvm::to_vector(llvm::seq<unsigned>(
      domain.numParallel, domain.numParallel + domain.numReduction));
  varying = reduced;
  scopes.back().bound = parallel;
  if (schedule.resident)
    scopes.back().bound.set();
  steps = columns ? domain.rowSize : *domain.rowSize.dividedBy(lanes);
  chunk = int64_t(schedule.group) * schedule.vectors;
  place();
  for (unsigned number = 0; number < graph.numStages; ++number)
    if (stagesOnline(number))
      ++number;
    else
      stage(number);
  storeRows();
  skipSpareBlocks();
}

SmallVector<Value> ReductionEmitter::bindSteps(Value base, int64_t reach) {
  SmallVector<Value> inside;
  for (unsigned u = 0; u < schedule.vectors; ++u) {
    Value step = add(member, constant(int64_t(u) * schedule.group));
    if (base)
      step = add(base, step);
    Value guard;
    if (int64_t(u + 1) * schedule.group > reach) {
      // What lies behind the end reads the last vector, and counts for nothing.
      guard = less(step, stepCount());
      step = clamp(step, stepCount(), 1);
    }
    inside.push_back(guard);
    bind(u, step, reductionDims);
  }
  return inside;
}

SmallVector<Value> ReductionEmitter::point(ArrayRef<Value> inside) {
  unsigned vectors = schedule.vectors;
  for (Node *node : reduces)
    for (unsigned u = 0; u < vectors; ++u)
      prefetch(node->inputs[0], u);
  SmallVector<Value> partials;
  for (Node *node : reduces) {
    SmallVector<Value> parts;
    for (unsigned u = 0; u < vectors; ++u) {
      Value value = broadcast(emit(node->inputs[0], u), lanes);
      if (inside[u])
        value =
            arith::SelectOp::create(b, inside[u], value, identity(node, lanes));
      parts.push_back(value);
    }
    while (parts.size() > 1) {
      SmallVector<Value> half;
      for (unsigned i = 0; i + 1 < parts.size(); i += 2)
        half.push_back(combine(node, parts[i], parts[i + 1]));
      if (parts.size() % 2)
        half.push_back(parts.back());
      parts = half;
    }
    partials.push_back(parts[0]);
  }
  // A row in registers leaves few of them for what its elements meet.
  storeAll(
      stageStores, vectors,
      [&](unsigned u) { return both(rowInside, inside[u]); },
      !schedule.resident      ? vectors
      : vectors * lanes >= 24 ? 1
                              : 2);
  return partials;
}

SmallVector<Value> ReductionEmitter::walk(
    SmallVector<Value> state,
    llvm::function_ref<SmallVector<Value>(ValueRange, ArrayRef<Value>)> step) {
  // What lies behind the last whole chunk; nobody knows how much of it there
  // is where sizes differ between calls.
  bool exact = steps.dividedBy(chunk).has_value();
  bool fixed = steps.isConstant();
  int64_t rest = fixed ? steps.constant() % chunk : 0;
  // One pass over a chunk that starts at `base`; what it needs of the row alone
  // is computed before `outside`.
  auto pass = [&](Operation *outside, Value base, int64_t reach,
                  ValueRange before) {
    return inInnerScope(outside, reduced, [&] {
      SmallVector<Value> inside = bindSteps(base, reach);
      return step(before, inside);
    });
  };
  Value whole = fixed   ? constant(steps.constant() - rest)
                : exact ? stepCount()
                        : mul(div(stepCount(), chunk), chunk);
  if (!fixed || steps.constant() != rest) {
    auto forOp =
        scf::ForOp::create(b, constant(0), whole, constant(chunk), state);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(forOp.getBody());
    SmallVector<Value> results =
        pass(forOp, forOp.getInductionVar(), chunk, forOp.getRegionIterArgs());
    if (!state.empty())
      scf::YieldOp::create(b, results);
    state.assign(forOp.getResults().begin(), forOp.getResults().end());
  }
  if (!exact) {
    // An operation of its own, which outer values may dominate.
    Operation *here = constant(0).getDefiningOp();
    state = pass(here, whole, rest, state);
  }
  return state;
}

/// The partial results of one walk over the row.
SmallVector<Value> ReductionEmitter::walk() {
  SmallVector<Value> identities;
  for (Node *node : reduces)
    identities.push_back(identity(node, lanes));
  if (steps.is(0))
    return identities;
  if (schedule.resident) {
    // Bound once, for all stages.
    if (residentInside.empty())
      residentInside = bindSteps({}, steps.constant());
    return point(residentInside);
  }
  return walk(
      std::move(identities), [&](ValueRange before, ArrayRef<Value> inside) {
        SmallVector<Value> after;
        for (auto [node, x, y] : llvm::zip(reduces, before, point(inside)))
          after.push_back(combine(node, x, y));
        return after;
      });
}

/// Online normalizer (Milakov and Gimelshein, "Online normalizer calculation
/// for softmax", 2018, section 3): beside the largest value so far stands the
/// sum of the exponentials below it, which is scaled when a larger one comes.
///
/// An infinite value stands for no bound at all: until the end such a sum is
/// kept below zero. So minus infinity adds nothing, whatever comes before or
/// after, and what an infinite maximum means is left to the last step, which
/// computes what the kernel says.
bool ReductionEmitter::stagesOnline(unsigned number) {
  if (columns || schedule.resident || steps.is(0) ||
      number + 1 >= graph.numStages)
    return false;
  std::optional<OnlineSum> found = findOnlineSum(graph, number, reduced);
  if (!found)
    return false;
  Node *greatest = found->maximum, *sum = found->sum;
  Type f32 = b.getF32Type();
  auto scalar = [&](float value) -> Value {
    return arith::ConstantOp::create(b, b.getF32FloatAttr(value));
  };
  constexpr float infinity = std::numeric_limits<float>::infinity();
  Value zero = scalar(0), infinite = scalar(infinity);
  auto bounded = [&](Value x, Value instead) -> Value {
    Value size = math::AbsFOp::create(b, x);
    Value none =
        arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, size, infinite);
    return arith::SelectOp::create(b, none, instead, x);
  };
  auto exponential = [&](Value x, Value y) -> Value {
    return math::ExpOp::create(b, arith::SubFOp::create(b, x, y));
  };
  SmallVector<Value> state = walk(
      {scalar(-infinity), zero},
      [&](ValueRange before, ArrayRef<Value> inside) -> SmallVector<Value> {
        for (unsigned u = 0; u < schedule.vectors; ++u)
          prefetch(greatest->inputs[0], u);
        SmallVector<Value> values;
        Value most;
        for (unsigned u = 0; u < schedule.vectors; ++u) {
          Value value = broadcast(emit(greatest->inputs[0], u), lanes);
          if (inside[u])
            value = arith::SelectOp::create(b, inside[u], value,
                                            identity(greatest, lanes));
          values.push_back(value);
          most = most ? combine(greatest, most, value) : value;
        }
        most = combine(greatest, before[0], acrossLanes(greatest, most));
        Value below = bounded(most, zero);
        Value all = broadcast(below, lanes), total;
        for (Value value : values) {
          Value part = exponential(value, all);
          total = total ? arith::AddFOp::create(b, total, part) : part;
        }
        Value scale = exponential(bounded(before[0], below), below);
        Value kept = arith::MulFOp::create(b, before[1], scale);
        return {most, arith::AddFOp::create(b, kept, acrossLanes(sum, total))};
      });
  reduces.assign({greatest});
  finish(reduceInWarps({state[0]}));
  Value whole = scopes[rowScope].values.lookup({greatest, 0});
  if (auto type = dyn_cast<VectorType>(whole.getType()))
    whole = vector::ExtractOp::create(b, whole, 0);
  // The kernel's own exponent at what this thread's sum is kept below.
  Node bound = *found->exponential;
  bound.element = found->bound;
  bound.type = f32;
  bound.dims = greatest->dims;
  Value subtracted = compute(&bound, 0);
  if (isa<VectorType>(subtracted.getType()))
    subtracted = vector::ExtractOp::create(b, subtracted, 0);
  Value mine = exponential(bounded(state[0], whole), subtracted);
  reduces.assign({sum});
  finish(reduceInWarps({arith::MulFOp::create(b, state[1], mine)}));
  return true;
}

Value ReductionEmitter::toExchanged(const Node *node, Value value) {
  Type type = exchangeType(node);
  if (type == value.getType())
    return value;
  if (isa<arith::MaxUIOp, arith::MinUIOp>(node->combiner))
    return arith::ExtUIOp::create(b, type, value);
  return arith::ExtSIOp::create(b, type, value);
}

Value ReductionEmitter::fromExchanged(const Node *node, Value value) {
  if (value.getType() == node->type)
    return value;
  return arith::TruncIOp::create(b, node->type, value);
}

Value ReductionEmitter::acrossLanes(const Node *node, Value value) {
  auto type = dyn_cast<VectorType>(value.getType());
  if (!type)
    return value;
  SmallVector<Value> parts;
  for (int64_t i = 0; i < type.getNumElements(); ++i)
    parts.push_back(vector::ExtractOp::create(b, value, i));
  for (unsigned width = parts.size(); width > 1; width /= 2)
    for (unsigned i = 0; i < width / 2; ++i)
      parts[i] = combine(node, parts[i], parts[i + width / 2]);
  return parts[0];
}

SmallVector<Value>
ReductionEmitter::reduceInWarps(SmallVector<Value> partials) {
  for (auto [node, value] : llvm::zip(reduces, partials)) {
    value = toExchanged(node, acrossLanes(node, value));
  }
  auto meet = [&](unsigned width) {
    for (unsigned distance = width / 2; distance != 0; distance /= 2)
      for (auto [node, value] : llvm::zip(reduces, partials))
        value = combine(node, value, exchange(value, distance));
  };
  auto met = [&] {
    for (auto [node, value] : llvm::zip(reduces, partials))
      value = fromExchanged(node, value);
    return partials;
  };
  meet(std::min(schedule.group, 32u));
  if (schedule.group <= 32)
    return met();
  // Each warp's result to all of the group's.
  unsigned warps = schedule.group / 32, all = schedule.threads / 32;
  Value thread = threadIndex();
  Value warp = div(thread, 32), lane = rem(thread, 32);
  SmallVector<Value> places;
  for (Node *node : reduces)
    places.push_back(
        shared(int64_t(all) *
               memoryType(exchangeType(node)).getIntOrFloatBitWidth() / 8));
  Value leads =
      arith::CmpIOp::create(b, arith::CmpIPredicate::eq, lane, constant(0));
  auto ifOp = scf::IfOp::create(b, leads, /*withElse=*/false);
  {
    OpBuilder::InsertionGuard inside(b);
    b.setInsertionPointToStart(ifOp.thenBlock());
    for (auto [node, value, base] : llvm::zip(reduces, partials, places))
      LLVM::StoreOp::create(b, toMemory(value),
                            sharedAddress(base, warp, exchangeType(node)));
  }
  barrier();
  Value from = add(mul(position, warps), rem(lane, warps));
  for (auto [node, value, base] : llvm::zip(reduces, partials, places))
    value = fromMemory(
        LLVM::LoadOp::create(b, memoryType(exchangeType(node)),
                             sharedAddress(base, from, exchangeType(node))),
        exchangeType(node));
  meet(warps);
  return met();
}

SmallVector<Value>
ReductionEmitter::reduceInColumns(SmallVector<Value> partials) {
  if (schedule.group == 1)
    return partials;
  int64_t groups = schedule.threads / schedule.group;
  SmallVector<Value> places;
  // All stages use the same memory: nobody may still read what the last one
  // left.
  if (met)
    barrier();
  met = true;
  sharedCursor = 0;
  // Element by element, so that neighbouring threads use neighbouring words.
  for (Node *node : reduces) {
    unsigned bytes = memoryType(exchangeType(node)).getIntOrFloatBitWidth() / 8;
    places.push_back(shared(int64_t(schedule.threads) * lanes * bytes));
  }
  auto lane = [&](Value value, unsigned i) -> Value {
    return isa<VectorType>(value.getType())
               ? vector::ExtractOp::create(b, value, i).getResult()
               : value;
  };
  Value thread = threadIndex();
  for (auto [node, value, base] : llvm::zip(reduces, partials, places))
    for (unsigned i = 0; i < lanes; ++i)
      LLVM::StoreOp::create(
          b, toMemory(toExchanged(node, lane(value, i))),
          sharedAddress(base,
                        add(thread, constant(int64_t(i) * schedule.threads)),
                        exchangeType(node)));
  barrier();
  for (auto [node, value, base] : llvm::zip(reduces, partials, places)) {
    SmallVector<Value> elements;
    for (unsigned i = 0; i < lanes; ++i) {
      // Eight at a time: registers are scarce here.
      Value total;
      for (unsigned m = 0; m < schedule.group;) {
        SmallVector<Value> parts;
        for (unsigned end = std::min(m + 8, schedule.group); m < end; ++m) {
          Value at = add(position, constant(int64_t(i) * schedule.threads +
                                            int64_t(m) * groups));
          parts.push_back(fromMemory(
              LLVM::LoadOp::create(b, memoryType(exchangeType(node)),
                                   sharedAddress(base, at, exchangeType(node))),
              exchangeType(node)));
        }
        for (unsigned width = parts.size(); width > 1; width /= 2)
          for (unsigned j = 0; j < width / 2; ++j)
            parts[j] = combine(node, parts[j], parts[j + width / 2]);
        total = total ? combine(node, total, parts[0]) : parts[0];
      }
      elements.push_back(fromExchanged(node, total));
    }
    value = lanes == 1 ? elements[0]
                       : vector::FromElementsOp::create(
                             b, VectorType::get({int64_t(lanes)}, node->type),
                             elements)
                             .getResult();
  }
  return partials;
}

/// What stage `number` reduces and stores.
void ReductionEmitter::collect(unsigned number) {
  reduces.clear();
  stageStores.clear();
  for (auto &node : graph.nodes)
    if (node->kind == Node::Kind::Reduce && node->inputs[0]->stage == number)
      reduces.push_back(node.get());
  for (codegen::Store &s : graph.stores)
    if (s.dims.anyCommon(reduced) && s.node->stage == number)
      stageStores.push_back(&s);
}

void ReductionEmitter::stage(unsigned number) {
  collect(number);
  if (reduces.empty() && stageStores.empty())
    return;
  SmallVector<Value> totals = walk();
  if (!reduces.empty())
    finish(columns ? reduceInColumns(totals) : reduceInWarps(totals));
}

/// The reductions' values, known in the row from here on.
void ReductionEmitter::finish(ArrayRef<Value> totals) {
  for (auto [node, total] : llvm::zip(reduces, totals)) {
    Value init = emit(node->init, 0), value = total;
    if (value.getType() != init.getType()) {
      value = broadcast(value, lanes);
      init = broadcast(init, lanes);
    }
    scopes[rowScope].values[{node, 0}] = combine(node, init, value);
  }
}

/// What is one value per row, one thread stores.
void ReductionEmitter::storeRows() {
  SmallVector<codegen::Store *> rows;
  for (codegen::Store &s : graph.stores)
    if (!s.dims.anyCommon(reduced))
      rows.push_back(&s);
  if (rows.empty())
    return;
  Value first;
  if (schedule.group > 1)
    first =
        arith::CmpIOp::create(b, arith::CmpIPredicate::eq, member, constant(0));
  storeAll(rows, 1, [&](unsigned) { return both(rowInside, first); });
}

} // namespace

void emitRows(KernelFrame &frame) { ReductionEmitter(frame, false).run(); }
void emitColumns(KernelFrame &frame) { ReductionEmitter(frame, true).run(); }

} // namespace pyjit::ptx
