//===- EmitFlat.cpp - Kernels without reductions --------------------------===//
//
// The domain is one range of vectors, cut into blocks; the vectors of one
// thread lie a block's width apart, so that neighbours always access
// neighbours. The elements after the last whole vector of a one-dimensional
// domain are taken one by one by the last block.
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
    int64_t vectors = domain.rows / lanes, rest = domain.rows % lanes;
    int64_t perBlock = int64_t(schedule.threads) * schedule.vectors;
    frame.blocks = std::max<int64_t>(1, llvm::divideCeil(vectors, perBlock));
    bool exact = vectors == frame.blocks * perBlock;
    if (vectors != 0) {
      Value first = add(mul(blockIndex(), perBlock), threadIndex());
      SmallVector<Value> guards;
      for (unsigned u = 0; u < schedule.vectors; ++u) {
        Value number = add(first, constant(int64_t(u) * schedule.threads));
        Value guard;
        if (!exact) {
          // What lies behind the end reads the last vector, and stores nothing.
          guard = less(number, vectors);
          number = arith::MinUIOp::create(b, number, constant(vectors - 1));
        }
        guards.push_back(guard);
        bind(u, number, dims);
      }
      storeAll(stores, schedule.vectors, [&](unsigned u) { return guards[u]; });
    }
    if (rest != 0)
      tail(vectors * lanes, rest);
  }

private:
  void tail(int64_t start, int64_t rest) {
    Value last = arith::CmpIOp::create(
        b, arith::CmpIPredicate::eq, blockIndex(), constant(frame.blocks - 1));
    Value mine = less(threadIndex(), rest);
    auto ifOp = scf::IfOp::create(b, both(last, mine), /*withElse=*/false);
    OpBuilder::InsertionGuard inside(b);
    b.setInsertionPointToStart(ifOp.thenBlock());
    scopes.clear();
    scopes.emplace_back();
    scopes.back().bound.resize(graph.dims.size(), true);
    lanes = 1;
    ivs[0][0] = add(threadIndex(), constant(start));
    storeAll(stores, 1, [](unsigned) { return Value(); });
  }

  SmallVector<codegen::Store *> stores;
};

} // namespace

void emitFlat(KernelFrame &frame) { FlatEmitter(frame).run(); }

} // namespace pyjit::ptx
