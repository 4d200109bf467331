//===- EmitStreams.cpp - Reductions that walk rows one after the other ----===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// With Schedule::streamedRows the sums of a block's columns lie on the stack. A
// few rows at a time are read from the first of these columns to the last,
// which memory gives faster than a line of each row, and their sums added to
// those. What follows from the sums is computed behind that.
//
//===----------------------------------------------------------------------===//
#include "KernelEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;
using namespace pyjit::codegen;

namespace pyjit::x86 {

void KernelEmitter::streamRows(Value lower, Value upper) {
  unsigned columns = schedule.vectorDim, dim = schedule.numParallel;
  auto columnLoop = [&](llvm::function_ref<void(Value column)> body) {
    auto run = [&](Value from, Value to, unsigned vectors) {
      lanes = schedule.lanes;
      unroll = vectors;
      dimLoop(columns, from, to, int64_t(lanes) * vectors, {}, [&](ValueRange) {
        body(arith::SubIOp::create(b, ivs[columns], lower));
        return SmallVector<Value>();
      });
      lanes = unroll = 1;
    };
    int64_t wide = int64_t(schedule.lanes) * schedule.unroll;
    bool isMultiple = graph.dims[columns].isMultipleOf(wide);
    Value whole = isMultiple ? upper : roundDown(lower, upper, wide);
    run(lower, whole, schedule.unroll);
    if (!isMultiple)
      run(whole, upper, 1);
  };
  Type type = memoryType(sumNode->type);
  unsigned bytes = type.getIntOrFloatBitWidth() / 8;
  auto at = [&](Value column, unsigned u) {
    return address(tileSums, column, int64_t(u) * lanes, sumNode->type);
  };
  auto load = [&](Value column, unsigned u) -> Value {
    return LLVM::LoadOp::create(b, VectorType::get({int64_t(lanes)}, type),
                                at(column, u), bytes);
  };
  auto store = [&](Value sum, Value column, unsigned u) {
    LLVM::StoreOp::create(b, sum, at(column, u), bytes);
  };

  currentStage = 0;
  reduces.assign(1, sumNode);
  stageSaves.clear();
  columnLoop([&](Value column) {
    for (unsigned u = 0; u < unroll; ++u)
      store(identity(sumNode, lanes), column, u);
  });
  auto takeIn = [&](Value from, int64_t rows) {
    columnLoop([&](Value column) {
      SmallVector<Value> parts =
          dimLoop(dim, from, add(from, i64(rows)), 1, identities(lanes, unroll),
                  [&](ValueRange sums) { return point(sums); });
      for (auto [u, part] : llvm::enumerate(parts))
        store(combine(sumNode, load(column, u), part), column, u);
    });
  };
  int64_t size = graph.dims[dim].size, step = schedule.streamedRows;
  int64_t whole = size / step * step;
  Value first;
  loop(
      {}, i64(0), i64(whole), step, {}, [&](Value row) { first = row; },
      [&](ValueRange) {
        takeIn(first, step);
        return SmallVector<Value>();
      });
  if (whole < size)
    takeIn(i64(whole), size - whole);

  currentStage = graph.numStages;
  columnLoop([&](Value column) {
    finishSums([&](unsigned u) { return load(column, u); });
  });
}

} // namespace pyjit::x86
