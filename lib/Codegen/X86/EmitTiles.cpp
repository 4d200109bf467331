//===- EmitTiles.cpp - Tiles whose sums lie in memory ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A tile's rows are copies in registers while products are added up. With
// Schedule::sumsInMemory they are rows of a loop behind that, which reads the
// sums from the stack and computes what follows from them.
//
//===----------------------------------------------------------------------===//
#include "KernelEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;
using namespace pyjit::codegen;

namespace pyjit::x86 {

void KernelEmitter::allocateSums(int64_t count) {
  for (auto &node : graph.nodes)
    if (node->kind == Node::Kind::Reduce)
      sumNode = node.get();
  tileSums =
      LLVM::AllocaOp::create(b, LLVM::LLVMPointerType::get(b.getContext()),
                             memoryType(sumNode->type), i64(count), 64);
}

Value KernelEmitter::sumAddress(Value row, unsigned u) {
  return address(tileSums, mul(row, int64_t(unroll) * lanes),
                 int64_t(u) * lanes, sumNode->type);
}

void KernelEmitter::rowLoop(llvm::function_ref<void(Value row)> body) {
  unsigned dim = schedule.tileDim, count = rows;
  Value first = ivs[dim], row;
  // Outside, the dim stands for the tile's first row: what depends on it is
  // another value in the loop.
  SmallVector<llvm::SmallBitVector> bound;
  for (Scope &scope : scopes) {
    bound.push_back(scope.bound);
    scope.bound.reset(dim);
  }
  rows = 1;
  loop(
      dim, i64(0), i64(count), 1, {},
      [&](Value iv) {
        row = iv;
        ivs[dim] = add(first, iv);
      },
      [&](ValueRange) {
        body(row);
        return SmallVector<Value>();
      });
  rows = count;
  for (auto [scope, dims] : llvm::zip(scopes, bound))
    scope.bound = dims;
}

Value KernelEmitter::loadSum(Value row, unsigned u) {
  Type type = memoryType(sumNode->type);
  unsigned bytes = type.getIntOrFloatBitWidth() / 8;
  if (lanes > 1)
    type = VectorType::get({int64_t(lanes)}, type);
  return LLVM::LoadOp::create(b, type, sumAddress(row, u), bytes);
}

void KernelEmitter::storeSum(Value sum, Value row, unsigned u) {
  unsigned bytes = sumNode->type.getIntOrFloatBitWidth() / 8;
  LLVM::StoreOp::create(b, sum, sumAddress(row, u), bytes);
}

void KernelEmitter::clearSums() {
  rowLoop([&](Value row) {
    for (unsigned u = 0; u < unroll; ++u)
      storeSum(identity(sumNode, lanes), row, u);
  });
}

void KernelEmitter::addToSums(ValueRange parts) {
  for (auto [u, part] : llvm::enumerate(parts))
    storeSum(combine(sumNode, loadSum(i64(0), u), part), i64(0), u);
}

void KernelEmitter::finishSums(llvm::function_ref<Value(unsigned u)> load) {
  unsigned outerRow = std::exchange(rowScope, scopes.size() - 1);
  for (unsigned u = 0; u < unroll; ++u) {
    Value init = broadcast(emit(sumNode->init, u), lanes);
    scopes[rowScope].values[{sumNode, rowAndVector(u)}] =
        combine(sumNode, init, load(u));
  }
  storeAll(/*rowsOnly=*/true);
  rowScope = outerRow;
}

void KernelEmitter::tileStages() {
  currentStage = 0;
  reduces.assign(1, sumNode);
  stageSaves.clear();
  // None where they were added up in memory.
  for (auto [u, sum] : llvm::enumerate(reductionLoops(schedule.numParallel)))
    storeSum(sum, i64(0), u);

  currentStage = graph.numStages;
  rowLoop([&](Value row) {
    finishSums([&](unsigned u) { return loadSum(row, u); });
  });
}

} // namespace pyjit::x86
