//===- EmitFlat.cpp - Kernels without reductions --------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The domain is one range of vectors, divided into blocks; the vectors of one
// thread lie a block's width apart, so that neighbours always access
// neighbours. The elements after the last whole vector of a one-dimensional
// domain are taken one by one by the last block; where sizes differ between
// calls, by the first one.
//
//===----------------------------------------------------------------------===//

#include "Emitter.h"

using namespace mlir;

namespace pyjit::ptx {
namespace {

class FlatEmitter : Emitter {
public:
  explicit FlatEmitter(KernelFrame &frame) : Emitter(frame) {}

  void run() {
    auto dims = llvm::to_vector(llvm::seq<unsigned>(0, graph.dims.size()));
    for (codegen::Store &store : graph.stores)
      stores.push_back(&store);
    scopes.back().bound.set();
    varying.set();
    lanes = schedule.lanes;
    int64_t perBlock = int64_t(schedule.threads) * schedule.vectors;
    if (!domain.rowCount.isConstant()) {
      runSymbolic(dims, perBlock);
      skipSpareBlocks();
      return;
    }
    int64_t vectors = domain.rows / lanes, rest = domain.rows % lanes;
    int64_t blocks = std::max<int64_t>(1, llvm::divideCeil(vectors, perBlock));
    frame.setBlocks(blocks, 1);
    if (vectors != 0)
      walk(dims, perBlock,
           vectors == blocks * perBlock ? Value() : constant(vectors));
    if (rest != 0)
      tail(constant(vectors * lanes), constant(rest), blocks - 1);
  }

private:
  void runSymbolic(ArrayRef<unsigned> dims, int64_t perBlock) {
    frame.setBlocks(domain.rowCount, perBlock * lanes);
    if (auto vectors = domain.rowCount.dividedBy(lanes)) {
      walk(dims, perBlock, number(*vectors));
      return;
    }
    Value size = number(domain.rowCount);
    Value vectors = div(size, lanes);
    if (domain.rowCount.isKnownAtLeast(lanes)) {
      walk(dims, perBlock, vectors);
    } else {
      // Without a vector there is none to read in place of those behind the
      // end.
      auto any = scf::IfOp::create(b, less(constant(0), vectors),
                                   /*withElse=*/false);
      OpBuilder::InsertionGuard inside(b);
      b.setInsertionPointToStart(any.thenBlock());
      walk(dims, perBlock, vectors);
    }
    tail(mul(vectors, lanes), rem(size, lanes), 0);
  }

  /// All whole vectors; where `vectors` is null they fill all blocks.
  void walk(ArrayRef<unsigned> dims, int64_t perBlock, Value vectors) {
    Value first = add(mul(blockIndex(), perBlock), threadIndex());
    SmallVector<Value> guards;
    for (unsigned u = 0; u < schedule.vectors; ++u) {
      Value number = add(first, constant(int64_t(u) * schedule.threads));
      Value guard;
      if (vectors) {
        // What lies behind the end reads the last vector, and stores nothing.
        guard = less(number, vectors);
        number = clamp(number, vectors, 1);
      }
      guards.push_back(guard);
      bind(u, number, dims);
    }
    storeAll(stores, schedule.vectors, [&](unsigned u) { return guards[u]; });
  }

  void tail(Value start, Value rest, int64_t block) {
    Value chosen = arith::CmpIOp::create(b, arith::CmpIPredicate::eq,
                                         blockIndex(), constant(block));
    Value mine = less(threadIndex(), rest);
    auto ifOp = scf::IfOp::create(b, both(chosen, mine), /*withElse=*/false);
    OpBuilder::InsertionGuard inside(b);
    b.setInsertionPointToStart(ifOp.thenBlock());
    scopes.clear();
    scopes.emplace_back();
    scopes.back().bound.resize(graph.dims.size(), true);
    lanes = 1;
    ivs[0][0] = add(threadIndex(), start);
    storeAll(stores, 1, [](unsigned) { return Value(); });
  }

  SmallVector<codegen::Store *> stores;
};

} // namespace

void emitFlat(KernelFrame &frame) { FlatEmitter(frame).run(); }

} // namespace pyjit::ptx
