//===- EmitKernel.cpp - A scheduled kernel as loops and vectors -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Units of parallel work, the loops inside of one, and what they bind. See
// KernelEmitter.h for how values are placed.
//
//===----------------------------------------------------------------------===//
#include "KernelEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace pyjit::codegen;

namespace pyjit::x86 {

SmallVector<Value> KernelEmitter::loop(ArrayRef<unsigned> dims, Value lower,
                                       Value upper, int64_t step,
                                       ValueRange inits,
                                       llvm::function_ref<void(Value)> bind,
                                       Body body) {
  auto forOp = scf::ForOp::create(b, lower, upper, i64(step), inits);
  OpBuilder::InsertionGuard guard(b);
  Scope scope;
  scope.bound = scopes.back().bound;
  for (unsigned d : dims)
    scope.bound.set(d);
  scopes.back().anchor = forOp;
  scopes.push_back(std::move(scope));
  SmallVector<Value> saved(ivs);
  b.setInsertionPointToStart(forOp.getBody());
  bind(forOp.getInductionVar());
  SmallVector<Value> results = body(forOp.getRegionIterArgs());
  if (inits.empty()) {
    // The builder has put the terminator there.
  } else {
    scf::YieldOp::create(b, results);
  }
  ivs = saved;
  scopes.pop_back();
  scopes.back().anchor = nullptr;
  return SmallVector<Value>(forOp.getResults());
}

Value KernelEmitter::roundDown(Value lower, Value upper, int64_t step) {
  Value extent = b.createOrFold<arith::SubIOp>(upper, lower);
  Value trips = b.createOrFold<arith::DivUIOp>(extent, i64(step));
  return add(lower, mul(trips, step));
}

//===--- Loop structure -----------------------------------------------------//

void KernelEmitter::run() {
  Block *entry = function.addEntryBlock();
  b.setInsertionPointToStart(entry);
  func::ReturnOp::create(b);
  b.setInsertionPoint(entry->getTerminator());
  if (schedule.work == 0 && !schedule.symbolicWork)
    return;
  unsigned count = graph.dims.size();
  ivs.resize(count);
  reduced.resize(count);
  for (unsigned d = schedule.numParallel; d < count; ++d)
    reduced.set(d);
  parallel = reduced;
  parallel.flip();
  scopes.emplace_back();
  scopes.back().bound.resize(count);

  Type ptr = LLVM::LLVMPointerType::get(b.getContext());
  for (unsigned i = 0, e = inputs.size() + graph.stores.size(); i < e; ++i) {
    Value slot =
        LLVM::GEPOp::create(b, ptr, ptr, entry->getArgument(0),
                            ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(i)});
    buffers.push_back(LLVM::LoadOp::create(b, ptr, slot));
  }
  // Nothing is saved along symbolic dims.
  int64_t row = 1;
  for (unsigned d = schedule.numParallel; d < count; ++d)
    if (!graph.dims[d].isSymbolic())
      row *= graph.dims[d].size;
  for (const SavedNode &saved : schedule.saved)
    scratch.push_back(LLVM::AllocaOp::create(
        b, ptr, memoryType(saved.node->type), i64(row), 64));
  if (schedule.sumsInMemory)
    allocateSums(schedule.tileRows * schedule.unroll * schedule.lanes);
  if (schedule.streamedRows)
    allocateSums(schedule.block);
  units();
}

void KernelEmitter::units() {
  Block *entry = &function.getBody().front();
  Value begin = entry->getArgument(1), end = entry->getArgument(2);
  auto dims = llvm::to_vector(llvm::seq<unsigned>(0, schedule.unitDims));
  loop(
      dims, begin, end, 1, {},
      [&](Value unit) {
        // Innermost first: what is left of the number belongs further out.
        for (unsigned part = schedule.unitParts.size(); part-- > 0;) {
          const UnitPart &p = schedule.unitParts[part];
          Value number = unit;
          if (part != 0) {
            Value count = p.symbolic ? index(p.symbolic) : i64(p.count);
            number = b.createOrFold<arith::RemUIOp>(unit, count);
            unit = b.createOrFold<arith::DivUIOp>(unit, count);
          }
          if (p.block == 0) {
            ivs[p.dim] = number;
            continue;
          }
          Value lower = mul(number, p.block);
          Value upper = add(lower, i64(p.block));
          if (!graph.dims[p.dim].isMultipleOf(p.block))
            upper = arith::MinSIOp::create(b, upper, extent(p.dim));
          (int(p.dim) == schedule.tileDim ? tileBounds
                                          : vectorBounds) = {lower, upper};
        }
      },
      [&](ValueRange) {
        parallelLoops(schedule.unitDims);
        return SmallVector<Value>();
      });
}

/// The parallel dims inside of a unit.
void KernelEmitter::parallelLoops(unsigned dim) {
  if (dim == schedule.numParallel) {
    unroll = schedule.vectorInReduction() ? 1 : unroll;
    return stages();
  }
  Value lower = i64(0), upper = extent(dim);
  // The last dim may be walked in blocks without being the vector dim.
  bool last = dim + 1 == schedule.numParallel;
  auto &bounds = int(dim) == schedule.tileDim ? tileBounds : vectorBounds;
  if ((last || int(dim) == schedule.tileDim) && bounds.first)
    std::tie(lower, upper) = bounds;
  if (int(dim) == schedule.tileDim)
    return tileLoop(lower, upper);
  if (int(dim) == schedule.vectorDim && schedule.streamedRows)
    return streamRows(lower, upper);
  if (int(dim) == schedule.vectorDim)
    return vectorLoop(lower, upper);
  dimLoop(dim, lower, upper, 1, {}, [&](ValueRange) {
    parallelLoops(dim + 1);
    return SmallVector<Value>();
  });
}

void KernelEmitter::tileLoop(Value lower, Value upper) {
  unsigned dim = schedule.tileDim;
  const Dim &walked = graph.dims[dim];
  int64_t size = walked.size, tile = schedule.tileRows;
  auto run = [&](Value from, Value to, unsigned count) {
    rows = count;
    dimLoop(dim, from, to, count, {}, [&](ValueRange) {
      parallelLoops(dim + 1);
      return SmallVector<Value>();
    });
    rows = 1;
  };
  if (walked.isSymbolic()) {
    if (walked.isMultipleOf(tile))
      return run(lower, upper, tile);
    // Each tile reads all columns: few tiles of half the rows are left over
    // rather than many rows.
    for (int64_t count = tile; count > 1;
         count = llvm::PowerOf2Ceil(count) / 2) {
      Value to = roundDown(lower, upper, count);
      run(lower, to, count);
      lower = to;
    }
    return run(lower, upper, 1);
  }
  // Blocks are whole tiles: only the last one has the rest, and all of it.
  Value whole = size % tile == 0 ? upper : roundDown(lower, upper, tile);
  if (size >= tile)
    run(lower, whole, tile);
  if (size % tile != 0)
    run(whole, upper, size % tile);
}

void KernelEmitter::vectorLoop(Value lower, Value upper) {
  unsigned dim = schedule.vectorDim;
  const Dim &walked = graph.dims[dim];
  auto run = [&](Value from, Value to, unsigned width, unsigned vectors) {
    lanes = width;
    unroll = vectors;
    dimLoop(dim, from, to, int64_t(width) * vectors, {}, [&](ValueRange) {
      parallelLoops(dim + 1);
      return SmallVector<Value>();
    });
    lanes = 1;
    unroll = 1;
  };
  // Of a symbolic extent only that is known which holds in every call.
  int64_t wide = int64_t(schedule.lanes) * schedule.unroll;
  Value at = lower;
  if (walked.isSymbolic() || walked.size >= wide) {
    Value to =
        walked.isMultipleOf(wide) ? upper : roundDown(lower, upper, wide);
    run(at, to, schedule.lanes, schedule.unroll);
    at = to;
  }
  if (schedule.unroll > 1 &&
      (walked.isSymbolic() ? !walked.isMultipleOf(wide)
                           : walked.size % wide >= schedule.lanes)) {
    Value to = roundDown(lower, upper, schedule.lanes);
    run(at, to, schedule.lanes, 1);
    at = to;
  }
  if (schedule.restOverlaps)
    run(i64(walked.size - int64_t(schedule.lanes)), upper, schedule.lanes, 1);
  else if (!walked.isMultipleOf(schedule.lanes))
    run(at, upper, 1, 1);
}

bool emitKernel(func::FuncOp function, KernelGraph &graph,
                const Schedule &schedule, ArrayRef<Value> inputs) {
  KernelEmitter emitter(function, graph, schedule, inputs);
  emitter.run();
  return emitter.readsSymbols();
}

} // namespace pyjit::x86
