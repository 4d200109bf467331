//===- EmitAttention.cpp - Few queries' softmax over all keys -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A cluster of blocks has the keys and values of one head of one sample. So
// many threads as a key has vectors take a key together, and its value: each
// has a vector of the queries, of the key and of the value, and the sums of a
// vector of columns. These threads share the product of query and key by
// exchanges; what the kernel adds to it (a mask, a bias) each of them computes.
// A thread walks keys at the distance of all threads of the cluster, and keeps
// for each query the greatest number so far, the sum of the exponentials below
// it, and the sums of the values weighted by these: the online normalizer
// (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018,
// section 3) as attention has it (Dao et al., "FlashAttention", 2022,
// section 3.1). Nothing meets before the end: then the threads of a warp by
// exchanges, its block's warps in shared memory, and the blocks of the cluster
// in that of the first one (PTX ISA, `mapa`, `barrier.cluster`).
//
// A key that is masked by minus infinity adds nothing, whatever comes before or
// after it; where all are, zero is divided by zero, as a softmax does it,
// unless the kernel says that such a query gets zeros.
//
//===----------------------------------------------------------------------===//

#include "Emitter.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace pyjit::codegen;

namespace pyjit::ptx {
namespace {

constexpr unsigned kWarp = 32;
/// Shared memory of any block of the cluster.
constexpr unsigned kClusterSpace = 7;

/// The values of one of the two graphs. Point `u` is query `u % queries` at the
/// `u / queries`-th key that the thread has in flight.
class Part : public Emitter {
public:
  Part(KernelFrame &frame, const Attention::Dims &dims, unsigned queries)
      : Emitter(frame), dims(dims), queries(queries) {
    start();
  }
  Part(const Part &first, const Domain &domain, const Attention::Dims &dims)
      : Emitter(first, domain), dims(dims), queries(first.queries) {
    start();
  }

  using Emitter::add;
  using Emitter::b;
  using Emitter::barrier;
  using Emitter::blockIndex;
  using Emitter::both;
  using Emitter::broadcast;
  using Emitter::clamp;
  using Emitter::combine;
  using Emitter::constant;
  using Emitter::div;
  using Emitter::emit;
  using Emitter::exchange;
  using Emitter::indexType;
  using Emitter::inInnerScope;
  using Emitter::intrinsic;
  using Emitter::less;
  using Emitter::mul;
  using Emitter::number;
  using Emitter::prefetch;
  using Emitter::rem;
  using Emitter::shared;
  using Emitter::sharedAddress;
  using Emitter::skipSpareBlocks;
  using Emitter::storeAll;
  using Emitter::threadIndex;
  using Emitter::Value;

  /// `value` as an index of this part.
  Value toIndex(Value value) {
    if (value.getType() == indexType)
      return value;
    return indexType.isInteger(64)
               ? arith::ExtUIOp::create(b, indexType, value).getResult()
               : arith::TruncIOp::create(b, indexType, value).getResult();
  }
  void bindOuter(Value number) {
    for (unsigned u = 0; u < ivs.size(); ++u)
      bind(u, number, dims.outer);
  }
  void bindQuery(unsigned u, Value number) { bind(u, number, dims.queries); }
  void bindKey(unsigned u, Value position) { ivs[u][dims.keys] = position; }
  void bindLane(unsigned u, Value position) { ivs[u][dims.lane] = position; }
  void know(const codegen::Node *node, unsigned u, Value value) {
    scopes.back().values[{node, canonical(node->dims, u)}] = value;
  }
  /// All positions but those of keys are bound, for `points` of them.
  void restart(unsigned points) {
    scopes.clear();
    scopes.emplace_back();
    scopes.back().bound.resize(graph.dims.size(), true);
    scopes.back().bound.reset(dims.keys);
    rowScope = 0;
    ivs.resize(std::max<size_t>(points, ivs.size()), ivs[0]);
  }
  llvm::SmallBitVector keyDim() const {
    llvm::SmallBitVector set(graph.dims.size());
    set.set(dims.keys);
    return set;
  }
  void setRow(unsigned scope) { rowScope = scope; }
  /// Each point is one of its own.
  void separate() { queries = ~0u; }

private:
  void start() {
    lanes = schedule.lanes;
    vectorDim = dims.lane;
    varying.set(dims.keys);
    for (unsigned d : dims.queries)
      varying.set(d);
    restart(schedule.vectors * queries);
  }
  unsigned canonical(const llvm::SmallBitVector &used,
                     unsigned u) const override {
    if (queries == ~0u)
      return Emitter::canonical(used, u);
    bool ofQuery =
        llvm::any_of(dims.queries, [&](unsigned d) { return used.test(d); });
    return (used.test(dims.keys) ? u / queries * queries : 0) +
           (ofQuery ? u % queries : 0);
  }

  const Attention::Dims &dims;
  unsigned queries;
};

class AttentionEmitter {
public:
  AttentionEmitter(KernelFrame &frame, const Domain &values,
                   const Attention &attention)
      : frame(frame), schedule(frame.schedule), attention(attention),
        queries(attention.queryCount),
        scores(frame, attention.ofScores, queries),
        weighted(scores, values, attention.ofValues), b(scores.b),
        perKey(threadsPerKey(schedule, attention)),
        warps(schedule.threads / kWarp),
        keysAtOnce(int64_t(schedule.group) * schedule.threads / perKey),
        pitch(attentionPitch(schedule, attention)) {}

  void run() {
    place();
    meetInBlock(walk());
    finish();
    scores.skipSpareBlocks();
  }

private:
  /// Of a query: the greatest number, the sum of the exponentials below it, and
  /// a vector of the values that these weight.
  struct Sums {
    Value most, total, values;
  };
  using State = SmallVector<Sums>;
  static SmallVector<Value> flat(ArrayRef<Sums> state) {
    SmallVector<Value> all;
    for (const Sums &sums : state)
      all.append({sums.most, sums.total, sums.values});
    return all;
  }
  static State grouped(ValueRange all) {
    State state;
    for (size_t i = 0; i < all.size(); i += 3)
      state.push_back({all[i], all[i + 1], all[i + 2]});
    return state;
  }

  void place();
  State walk();
  State pass(Value first, State state);
  void take(ArrayRef<Value> logits, State &state);
  Value product(unsigned u);
  Sums meetInWarp(Sums mine);
  void put(const Sums &sums, Value base, Value row, Value lane);
  Sums get(Value base, Value row, Value lane);
  Sums join(ArrayRef<Sums> parts);
  void meetInBlock(const State &state);
  Sums ofBlock(Value query, Value lane);
  Sums ofCluster(Value query, Value lane, Value wanted);
  Value isBlind(Value most);
  void finish();
  void clusterBarrier();

  template <typename F> auto inValues(F emit) {
    weighted.b.restoreInsertionPoint(b.saveInsertionPoint());
    auto result = emit();
    b.restoreInsertionPoint(weighted.b.saveInsertionPoint());
    return result;
  }
  Value scalar(float value) {
    return arith::ConstantOp::create(b, b.getF32FloatAttr(value));
  }
  Value minusInfinity() {
    return scalar(-std::numeric_limits<float>::infinity());
  }
  Value greatest(Value x, Value y) {
    return arith::MaximumFOp::create(b, x, y);
  }
  /// exp(x - bound), and `instead` where x is `unless`: infinities have no
  /// difference.
  Value below(Value x, Value bound, Value unless, float instead) {
    Value same = arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, x, unless);
    Value power = math::ExpOp::create(b, arith::SubFOp::create(b, x, bound));
    return arith::SelectOp::create(b, same, scalar(instead), power);
  }
  /// What the sums below `old` are multiplied by to be those below `most`.
  Value rescale(Value old, Value most) { return below(old, most, most, 1); }
  Value times(Value sums, Value factor) {
    return arith::MulFOp::create(b, sums,
                                 scores.broadcast(factor, schedule.lanes));
  }

  KernelFrame &frame;
  const Schedule &schedule;
  const Attention &attention;
  unsigned queries;
  Part scores, weighted;
  ImplicitLocOpBuilder &b;
  /// Threads that share a key; warps of a block; keys that a cluster takes at
  /// once; elements between two queries' sums in shared memory.
  unsigned perKey, warps;
  int64_t keysAtOnce, pitch;
  /// This block in its cluster, this thread among those that share a key, and
  /// these among the cluster's.
  Value rank, inKey, worker;
  /// Whether this thread has features at all, and columns; null: each has.
  Value hasFeatures;
  Value sharedSums, sharedCluster;
};

void AttentionEmitter::place() {
  frame.cluster = schedule.group;
  frame.blocks =
      attention.outerCount().toExpr(b.getContext()) * int64_t(schedule.group);
  Value thread = scores.threadIndex(), block = scores.blockIndex();
  Value outer = scores.div(block, schedule.group);
  rank = scores.rem(block, schedule.group);
  inKey = scores.rem(thread, perKey);
  int64_t inBlock = schedule.threads / perKey;
  worker = scores.add(scores.mul(rank, inBlock), scores.div(thread, perKey));
  scores.bindOuter(outer);
  unsigned points = schedule.vectors * queries;
  for (unsigned u = 0; u < points; ++u)
    scores.bindQuery(u, scores.constant(u % queries));
  auto position = [&](Part &part, int64_t elements, Value &inside) {
    int64_t vectors = elements / schedule.lanes;
    Value lane = part.toIndex(inKey);
    if (vectors < perKey) {
      inside = part.less(lane, part.constant(vectors));
      lane = part.clamp(lane, part.constant(vectors), 1);
    }
    return part.mul(lane, schedule.lanes);
  };
  Value feature = position(scores, attention.features(), hasFeatures);
  for (unsigned u = 0; u < points; ++u)
    scores.bindLane(u, feature);
  inValues([&] {
    weighted.bindOuter(weighted.toIndex(outer));
    Value ignored;
    Value column = position(weighted, attention.columns(), ignored);
    for (unsigned u = 0; u < points; ++u) {
      weighted.bindQuery(u, weighted.constant(u % queries));
      weighted.bindLane(u, column);
    }
    return true;
  });
}

/// The sum over all features at point `u`.
Value AttentionEmitter::product(unsigned u) {
  Node *score = attention.score;
  Value element =
      scores.broadcast(scores.emit(score->inputs[0], u), schedule.lanes);
  if (hasFeatures) {
    Value none = arith::ConstantOp::create(b, b.getZeroAttr(element.getType()));
    element = arith::SelectOp::create(b, hasFeatures, element, none);
  }
  SmallVector<Value> parts;
  for (unsigned i = 0; i < schedule.lanes; ++i)
    parts.push_back(vector::ExtractOp::create(b, element, i));
  for (; parts.size() > 1; parts.resize(parts.size() / 2))
    for (size_t i = 0, half = parts.size() / 2; i < half; ++i)
      parts[i] = scores.combine(score, parts[i], parts[i + half]);
  Value sum = parts[0];
  for (unsigned distance = 1; distance < perKey; distance *= 2)
    sum = scores.combine(score, sum, scores.exchange(sum, distance));
  return scores.combine(score, scores.emit(score->init, u), sum);
}

/// Adds the keys in flight, at which `logits` are the queries' numbers.
void AttentionEmitter::take(ArrayRef<Value> logits, State &state) {
  for (unsigned q = 0; q < queries; ++q) {
    Sums &sums = state[q];
    Value most = sums.most;
    for (unsigned v = 0; v < schedule.vectors; ++v)
      most = greatest(most, logits[v * queries + q]);
    Value factor = rescale(sums.most, most);
    sums = {most, arith::MulFOp::create(b, sums.total, factor),
            times(sums.values, factor)};
  }
  Value infinite = minusInfinity();
  for (unsigned u = 0; u < logits.size(); ++u) {
    Sums &sums = state[u % queries];
    Value weight = below(logits[u], sums.most, infinite, 0);
    sums.total = arith::AddFOp::create(b, sums.total, weight);
    Type type = attention.weight->type;
    if (!type.isF32())
      weight = arith::TruncFOp::create(b, type, weight);
    Value element = inValues([&] {
      weighted.know(attention.weight, u, weight);
      return weighted.emit(attention.sum->inputs[0], u);
    });
    sums.values = scores.combine(attention.sum, sums.values,
                                 scores.broadcast(element, schedule.lanes));
  }
}

/// The state after the keys from `first` on that all threads have in flight.
AttentionEmitter::State AttentionEmitter::pass(Value first, State state) {
  Value count = scores.number(attention.keyCount());
  SmallVector<Value> inside;
  for (unsigned v = 0; v < schedule.vectors; ++v) {
    Value key =
        scores.add(scores.add(first, worker), scores.constant(v * keysAtOnce));
    inside.push_back(scores.less(key, count));
    // Behind the last one it is read again, and counts for nothing.
    key = scores.clamp(key, count, 1);
    for (unsigned q = 0; q < queries; ++q)
      scores.bindKey(v * queries + q, key);
    inValues([&] {
      Value same = weighted.toIndex(key);
      for (unsigned q = 0; q < queries; ++q)
        weighted.bindKey(v * queries + q, same);
      return true;
    });
  }
  unsigned points = schedule.vectors * queries;
  // All loads, then all that is computed.
  for (unsigned u = 0; u < points; ++u)
    scores.prefetch(attention.logit, u);
  for (unsigned u = 0; u < points; u += queries)
    inValues([&] {
      Value value = weighted.emit(attention.value, u);
      Value none = arith::ConstantOp::create(b, b.getZeroAttr(value.getType()));
      weighted.know(attention.value, u,
                    arith::SelectOp::create(weighted.b, inside[u / queries],
                                            value, none));
      return true;
    });
  SmallVector<Value> logits;
  Value infinite = minusInfinity();
  for (unsigned u = 0; u < points; ++u)
    scores.know(attention.score, u, product(u));
  for (unsigned u = 0; u < points; ++u) {
    Value logit = scores.emit(attention.logit, u);
    if (!logit.getType().isF32())
      logit = arith::ExtFOp::create(b, b.getF32Type(), logit);
    logits.push_back(
        arith::SelectOp::create(b, inside[u / queries], logit, infinite));
  }
  take(logits, state);
  return state;
}

/// What this thread has of all its keys.
AttentionEmitter::State AttentionEmitter::walk() {
  Value none = scalar(0);
  State state(queries,
              {minusInfinity(), none, scores.broadcast(none, schedule.lanes)});
  auto loop = scf::ForOp::create(
      b, scores.constant(0), scores.number(attention.keyCount()),
      scores.constant(schedule.vectors * keysAtOnce), flat(state));
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    scores.setRow(1);
    weighted.setRow(1);
    State after = scores.inInnerScope(loop, scores.keyDim(), [&] {
      return weighted.inInnerScope(loop, weighted.keyDim(), [&] {
        return pass(loop.getInductionVar(), grouped(loop.getRegionIterArgs()));
      });
    });
    scf::YieldOp::create(b, flat(after));
  }
  return grouped(loop.getResults());
}

/// All threads of a warp that have the same columns get the warp's sums.
AttentionEmitter::Sums AttentionEmitter::meetInWarp(Sums mine) {
  Sums all = mine;
  auto each = [&](auto meet) {
    for (unsigned distance = perKey; distance < kWarp; distance *= 2)
      meet(distance);
  };
  each([&](unsigned distance) {
    all.most = greatest(all.most, scores.exchange(all.most, distance));
  });
  Value factor = rescale(mine.most, all.most);
  all.total = arith::MulFOp::create(b, all.total, factor);
  Type type = all.values.getType();
  all.values = times(all.values, factor);
  each([&](unsigned distance) {
    auto sum = [&](Value x) {
      return scores.combine(attention.sum, x, scores.exchange(x, distance));
    };
    all.total = sum(all.total);
    SmallVector<Value> elements;
    for (unsigned i = 0; i < schedule.lanes; ++i)
      elements.push_back(sum(vector::ExtractOp::create(b, all.values, i)));
    all.values = vector::FromElementsOp::create(b, type, elements);
  });
  return all;
}

/// Sums of a query lie side by side, its two numbers behind them.
void AttentionEmitter::put(const Sums &sums, Value base, Value row,
                           Value lane) {
  Type f32 = b.getF32Type();
  auto at = [&](Value place) { return scores.sharedAddress(base, place, f32); };
  LLVM::StoreOp::create(b, sums.values,
                        at(scores.add(row, scores.mul(lane, schedule.lanes))),
                        std::min(4 * schedule.lanes, 16u));
  // All of the query's threads have the same numbers.
  Value behind = scores.add(row, scores.constant(pitch - 4));
  LLVM::StoreOp::create(b, sums.most, at(behind), 4);
  LLVM::StoreOp::create(b, sums.total,
                        at(scores.add(behind, scores.constant(1))), 4);
}

AttentionEmitter::Sums AttentionEmitter::get(Value base, Value row,
                                             Value lane) {
  Type f32 = b.getF32Type();
  auto load = [&](Type type, Value place, unsigned aligned) -> Value {
    return LLVM::LoadOp::create(b, type, scores.sharedAddress(base, place, f32),
                                aligned);
  };
  Value behind = scores.add(row, scores.constant(pitch - 4));
  return {load(f32, behind, 4),
          load(f32, scores.add(behind, scores.constant(1)), 4),
          load(VectorType::get({int64_t(schedule.lanes)}, f32),
               scores.add(row, scores.mul(lane, schedule.lanes)),
               std::min(4 * schedule.lanes, 16u))};
}

AttentionEmitter::Sums AttentionEmitter::join(ArrayRef<Sums> parts) {
  Value most = parts[0].most;
  for (const Sums &part : parts.drop_front())
    most = greatest(most, part.most);
  Sums all{most, {}, {}};
  for (const Sums &part : parts) {
    Value factor = rescale(part.most, most);
    Value total = arith::MulFOp::create(b, part.total, factor);
    Value values = times(part.values, factor);
    all.total = all.total ? arith::AddFOp::create(b, all.total, total) : total;
    all.values =
        all.values ? scores.combine(attention.sum, all.values, values) : values;
  }
  return all;
}

/// The sums of each warp, in shared memory.
void AttentionEmitter::meetInBlock(const State &state) {
  sharedSums = scores.shared(warps * queries * pitch * sizeof(float));
  Value lane = scores.rem(scores.threadIndex(), kWarp),
        warp = scores.div(scores.threadIndex(), kWarp);
  State all;
  for (const Sums &mine : state)
    all.push_back(meetInWarp(mine));
  // One of the threads that have the same leaves it there.
  Value first = scores.less(lane, scores.constant(perKey));
  auto ifFirst = scf::IfOp::create(b, first, /*withElse=*/false);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(ifFirst.thenBlock());
    Value row = scores.mul(warp, queries * pitch);
    for (auto [q, sums] : llvm::enumerate(all))
      put(sums, sharedSums, scores.add(row, scores.constant(q * pitch)), inKey);
  }
  scores.barrier();
}

/// Of all warps.
AttentionEmitter::Sums AttentionEmitter::ofBlock(Value query, Value lane) {
  State parts;
  for (unsigned w = 0; w < warps; ++w)
    parts.push_back(get(sharedSums,
                        scores.add(scores.mul(query, pitch),
                                   scores.constant(w * queries * pitch)),
                        lane));
  return join(parts);
}

/// Of all blocks of the cluster, where `wanted`.
AttentionEmitter::Sums AttentionEmitter::ofCluster(Value query, Value lane,
                                                   Value wanted) {
  Type remote = LLVM::LLVMPointerType::get(b.getContext(), kClusterSpace);
  Type f32 = b.getF32Type();
  SmallVector<Type> types{f32, f32,
                          VectorType::get({int64_t(schedule.lanes)}, f32)};
  Value row = scores.mul(query, pitch);
  auto read = scf::IfOp::create(b, types, wanted, /*withElse=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(read.thenBlock());
  State parts;
  for (unsigned r = 0; r < schedule.group; ++r) {
    Value number = arith::ConstantOp::create(b, b.getI32IntegerAttr(r));
    parts.push_back(get(scores.intrinsic("llvm.nvvm.mapa.shared.cluster",
                                         {sharedCluster, number}, remote),
                        row, lane));
  }
  scf::YieldOp::create(b, flat(join(parts)));
  b.setInsertionPointToStart(read.elseBlock());
  Value none = scalar(0);
  scf::YieldOp::create(
      b, ValueRange{none, none, scores.broadcast(none, schedule.lanes)});
  return grouped(read.getResults()).front();
}

void AttentionEmitter::clusterBarrier() {
  for (StringRef half : {"arrive", "wait"})
    LLVM::CallIntrinsicOp::create(
        b, b.getStringAttr("llvm.nvvm.barrier.cluster." + half + ".aligned"),
        ValueRange());
}

/// Whether a query that has seen `most` as the greatest number gets zeros:
/// there are no keys, or none that it sees where these count for nothing.
Value AttentionEmitter::isBlind(Value most) {
  if (!attention.safe)
    return arith::CmpIOp::create(b, arith::CmpIPredicate::eq,
                                 scores.number(attention.keyCount()),
                                 scores.constant(0));
  return arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, most,
                               minusInfinity());
}

/// A thread has a vector of columns of a query, or a few of these; where there
/// are several blocks, these take turns.
void AttentionEmitter::finish() {
  int64_t items = int64_t(queries) * perKey,
          vectors = attention.columns() / schedule.lanes;
  unsigned points = llvm::divideCeil(items, int64_t(schedule.threads));
  bool clusters = schedule.group > 1;
  SmallVector<Value> query(points), lane(points), wanted(points);
  State state;
  for (unsigned u = 0; u < points; ++u) {
    Value item = scores.add(scores.threadIndex(),
                            scores.constant(int64_t(u) * schedule.threads));
    if (int64_t(u + 1) * schedule.threads > items) {
      wanted[u] = scores.less(item, scores.constant(items));
      item = scores.clamp(item, scores.constant(items), 1);
    }
    query[u] = scores.div(item, perKey);
    lane[u] = scores.rem(item, perKey);
    if (vectors < perKey)
      wanted[u] = scores.both(wanted[u],
                              scores.less(lane[u], scores.constant(vectors)));
    state.push_back(ofBlock(query[u], lane[u]));
    if (clusters)
      wanted[u] = scores.both(
          wanted[u],
          arith::CmpIOp::create(b, arith::CmpIPredicate::eq,
                                scores.rem(item, schedule.group), rank));
  }
  if (clusters) {
    sharedCluster = scores.shared(queries * pitch * sizeof(float));
    for (unsigned u = 0; u < points; ++u)
      put(state[u], sharedCluster, scores.mul(query[u], pitch), lane[u]);
    clusterBarrier();
    for (unsigned u = 0; u < points; ++u)
      state[u] = ofCluster(query[u], lane[u], wanted[u]);
  }
  inValues([&] {
    weighted.restart(points);
    weighted.separate();
    for (unsigned u = 0; u < points; ++u) {
      weighted.bindQuery(u, weighted.toIndex(query[u]));
      Value last = weighted.clamp(weighted.toIndex(lane[u]),
                                  weighted.constant(vectors), 1);
      weighted.bindLane(u, weighted.mul(last, schedule.lanes));
    }
    return true;
  });
  for (unsigned u = 0; u < points; ++u) {
    Value total = arith::SelectOp::create(b, isBlind(state[u].most), scalar(1),
                                          state[u].total);
    Value values = arith::DivFOp::create(
        b, state[u].values, scores.broadcast(total, schedule.lanes));
    inValues([&] {
      Value init = weighted.emit(attention.sum->init, u);
      weighted.know(attention.sum, u,
                    weighted.combine(attention.sum,
                                     weighted.broadcast(init, schedule.lanes),
                                     values));
      return true;
    });
  }
  inValues([&] {
    codegen::Store *result = &attention.values->stores.front();
    weighted.storeAll(result, points, [&](unsigned u) { return wanted[u]; });
    return true;
  });
  if (clusters)
    clusterBarrier(); // nobody leaves whose shared memory is still read
}

} // namespace

void emitAttention(KernelFrame &frame, const Domain &values,
                   const Attention &attention) {
  AttentionEmitter(frame, values, attention).run();
}

} // namespace pyjit::ptx
