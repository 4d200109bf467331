//===- EmitProducts.cpp - Matmuls of few rows on tensor cores -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A block has `group` times sixteen columns of the result, its warps share the
// sum: warp `w` of `n` takes every n-th run of 32 elements of it, so that the
// block reads whole lines of the matrix, each element once. The matrix is the
// larger operand of `mma.m16n8k16` (sixteen of its lines by eight rows), since
// that is how its operands are worth their registers at so few rows. Each warp
// leaves its sums in shared memory; a thread adds up those of one element, or a
// few, and computes what follows.
//
// The instruction wants pairs of elements that lie apart (PTX ISA, "Matrix
// fragments for mma.m16n8k16"). The order within a sum is free as long as both
// operands have it: a thread loads eight elements in a row from either, and
// hands them over two by two.
//
//===----------------------------------------------------------------------===//

#include "Emitter.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "pyjit/Codegen/RowsProduct.h"

using namespace mlir;
using namespace pyjit::codegen;

namespace pyjit::ptx {
namespace {

constexpr int64_t kColumns = ProductTile::columns, kRows = ProductTile::rows,
                  kRun = ProductTile::run, kLoad = ProductTile::load;
static_assert(RowsProduct::kSumMultiple == kRun, "no step has a rest");
static_assert(RowsProduct::kMostRows <= kColumns,
              "rows are read by columns' points");
/// The registers of one thread that an instruction adds to.
constexpr unsigned kSums = 4;

class ProductEmitter : Emitter {
public:
  ProductEmitter(KernelFrame &frame, RowsProduct product)
      : Emitter(frame), product(std::move(product)),
        tiles(llvm::divideCeil(this->product.rowCount, kRows)),
        lines(2 * schedule.group), warps(schedule.threads / 32),
        columns(kColumns * schedule.group), pitch(productPitch(schedule)),
        steps(domain.rowElements / kRun) {
    lanes = kLoad;
    points = llvm::divideCeil(this->product.rowCount * columns,
                              int64_t(schedule.threads));
    // A point for each line of a thread, and a row of each tile, at each step.
    ivs.resize(std::max(lines * schedule.vectors, points), ivs[0]);
    varying.set();
    scopes.back().bound = parallel;
  }

  void run() {
    place();
    meet(walk());
    storePoints();
    skipSpareBlocks();
  }

private:
  void place();
  SmallVector<Value> walk();
  SmallVector<Value> pass(Value first, bool whole, ValueRange before);
  SmallVector<Value> loadWords(const Node *load, unsigned u, Value inside);
  void multiply(ArrayRef<Value> matrix, ArrayRef<Value> rows,
                MutableArrayRef<Value> sums);
  void meet(ArrayRef<Value> sums);
  Value total(Value row, Value column);
  void storePoints();
  /// The block's column `local`, or the last one of all.
  Value columnAt(Value local, Value &inside);

  RowsProduct product;
  /// Tiles of eight rows; columns that a thread reads, which are lines of the
  /// matrix; elements of the result that it stores.
  unsigned tiles, lines, warps, points = 0;
  /// Columns of a block, and the distance of two rows in shared memory.
  int64_t columns, pitch;
  int64_t steps;
  /// The number of this warp, and of the thread in it: in its group of four,
  /// and the group's.
  Value warp, inGroup, group;
  Value sharedSums;
};

Value ProductEmitter::columnAt(Value local, Value &inside) {
  const codegen::Dim &all = graph.dims[product.columnDim];
  Value column = add(mul(blockIndex(), columns), local);
  if (all.isMultipleOf(columns))
    return column;
  inside = less(column, number(all.getSize()));
  return clamp(column, number(all.getSize()), 1);
}

/// Binds columns and rows of this thread's points. Where there are fewer, the
/// last one is read again and its sums are not stored.
void ProductEmitter::place() {
  frame.setBlocks(graph.dims[product.columnDim].getSize(), columns);
  Value lane = rem(threadIndex(), 32);
  warp = div(threadIndex(), 32);
  inGroup = rem(lane, 4);
  group = div(lane, 4);
  for (unsigned line = 0; line < lines; ++line) {
    Value ignored, row = group;
    Value column = columnAt(add(group, constant(line * kRows)), ignored);
    if (line < tiles) {
      row = add(group, constant(line * kRows));
      if (product.rowCount < (line + 1) * kRows)
        row = clamp(row, constant(product.rowCount), 1);
    }
    for (unsigned s = 0; s < schedule.vectors; ++s) {
      ivs[s * lines + line][product.columnDim] = column;
      bind(s * lines + line, row, product.rowDims);
    }
  }
}

/// Four words of two elements each: what `load` is at point `u`, and zeros
/// where that is behind the end of the sum.
SmallVector<Value> ProductEmitter::loadWords(const Node *load, unsigned u,
                                             Value inside) {
  Type words = VectorType::get({kLoad / 2}, b.getI32Type());
  Value value = vector::BitCastOp::create(b, words, emit(load, u));
  if (inside) {
    Value zero = arith::ConstantOp::create(b, b.getZeroAttr(words));
    value = arith::SelectOp::create(b, inside, value, zero);
  }
  SmallVector<Value> result;
  for (int64_t i = 0; i < kLoad / 2; ++i)
    result.push_back(vector::ExtractOp::create(b, value, i));
  return result;
}

/// sums[column, row] += matrix[column, k] * rows[row, k]: m16n8k16, sums in
/// f32.
void ProductEmitter::multiply(ArrayRef<Value> matrix, ArrayRef<Value> rows,
                              MutableArrayRef<Value> sums) {
  bool bf16 = product.rows->type.isBF16();
  SmallVector<Value> operands;
  for (Value word : llvm::concat<const Value>(matrix, rows))
    operands.push_back(bf16 ? word
                            : LLVM::BitcastOp::create(
                                  b, VectorType::get({2}, b.getF16Type()), word)
                                  .getResult());
  operands.append(sums.begin(), sums.end());
  Type f32 = b.getF32Type();
  auto type = LLVM::LLVMStructType::getLiteral(b.getContext(),
                                               SmallVector<Type>(kSums, f32));
  Value all = intrinsic(bf16 ? "llvm.nvvm.mma.m16n8k16.row.col.bf16"
                             : "llvm.nvvm.mma.m16n8k16.row.col.f32.f32",
                        operands, type);
  for (auto [i, sum] : llvm::enumerate(sums))
    sum = LLVM::ExtractValueOp::create(b, all, i);
}

/// The sums after the steps of a chunk that starts at step `first`, of which
/// some may lie behind the last one where it is not `whole`.
SmallVector<Value> ProductEmitter::pass(Value first, bool whole,
                                        ValueRange before) {
  SmallVector<SmallVector<Value>> matrix, rows;
  SmallVector<Value> inside;
  for (unsigned s = 0; s < schedule.vectors; ++s) {
    Value step = add(first, add(warp, constant(int64_t(s) * warps)));
    inside.push_back(whole ? Value() : less(step, constant(steps)));
    if (!whole)
      step = clamp(step, constant(steps), 1);
    Value position = mul(add(mul(step, kRun / kLoad), inGroup), kLoad);
    for (unsigned line = 0; line < lines; ++line)
      ivs[s * lines + line][product.sumDim] = position;
  }
  // All loads, then all that is multiplied.
  for (unsigned s = 0; s < schedule.vectors; ++s)
    for (unsigned line = 0; line < lines; ++line)
      matrix.push_back(loadWords(product.columns, s * lines + line, inside[s]));
  for (unsigned s = 0; s < schedule.vectors; ++s)
    for (unsigned tile = 0; tile < tiles; ++tile)
      rows.push_back(loadWords(product.rows, s * lines + tile, inside[s]));
  SmallVector<Value> sums(before);
  for (unsigned s = 0; s < schedule.vectors; ++s)
    for (unsigned word = 0; word < kLoad / 2; word += 2)
      for (unsigned line = 0; line < lines; line += 2)
        for (unsigned tile = 0; tile < tiles; ++tile) {
          ArrayRef<Value> upper = matrix[s * lines + line],
                          lower = matrix[s * lines + line + 1],
                          right = rows[s * tiles + tile];
          multiply({upper[word], lower[word], upper[word + 1], lower[word + 1]},
                   right.slice(word, 2),
                   MutableArrayRef(sums).slice(
                       (line / 2 * tiles + tile) * kSums, kSums));
        }
  return sums;
}

/// This warp's part of the sums.
SmallVector<Value> ProductEmitter::walk() {
  int64_t chunk = int64_t(schedule.vectors) * warps;
  int64_t rest = steps % chunk;
  Value zero = arith::ConstantOp::create(b, b.getF32FloatAttr(0));
  SmallVector<Value> sums(tiles * schedule.group * kSums, zero);
  auto inWalk = [&](Operation *outside, Value first, bool whole) {
    sums = inInnerScope(outside, reduced,
                        [&] { return pass(first, whole, sums); });
  };
  if (steps != rest) {
    auto loop = scf::ForOp::create(b, constant(0), constant(steps - rest),
                                   constant(chunk), sums);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    sums.assign(loop.getRegionIterArgs().begin(),
                loop.getRegionIterArgs().end());
    inWalk(loop, loop.getInductionVar(), /*whole=*/true);
    scf::YieldOp::create(b, sums);
    sums.assign(loop.getResults().begin(), loop.getResults().end());
  }
  if (rest != 0) {
    Value first = constant(steps - rest);
    inWalk(first.getDefiningOp(), first, /*whole=*/false);
  }
  return sums;
}

/// Stores what this warp has: of each tile of rows and sixteen columns its
/// thread holds two neighbouring rows of two columns.
void ProductEmitter::meet(ArrayRef<Value> sums) {
  Type f32 = b.getF32Type();
  int64_t perWarp = tiles * kRows * pitch;
  sharedSums = shared(productBytes(schedule, product.rowCount));
  Value base = add(mul(warp, perWarp), add(mul(inGroup, 2 * pitch), group));
  for (auto [i, sum] : llvm::enumerate(sums)) {
    int64_t tile = i / kSums % tiles, line = i / kSums / tiles * 2;
    line += i % kSums / 2;
    Value at = add(
        base, constant((tile * kRows + int64_t(i % 2)) * pitch + line * kRows));
    LLVM::StoreOp::create(b, sum, sharedAddress(sharedSums, at, f32));
  }
  barrier();
}

/// The sum of all warps at one element, two by two.
Value ProductEmitter::total(Value row, Value column) {
  Value base = add(mul(row, pitch), column);
  SmallVector<Value> parts;
  for (unsigned w = 0; w < warps; ++w) {
    Value at = add(base, constant(w * tiles * kRows * pitch));
    parts.push_back(LLVM::LoadOp::create(
        b, b.getF32Type(), sharedAddress(sharedSums, at, b.getF32Type())));
  }
  for (; parts.size() > 1; parts.resize(llvm::divideCeil(parts.size(), 2)))
    for (size_t i = 0, half = llvm::divideCeil(parts.size(), 2);
         i + half < parts.size(); ++i)
      parts[i] = combine(product.sum, parts[i], parts[i + half]);
  return parts[0];
}

/// Threads walk the elements of the block's columns, row by row.
void ProductEmitter::storePoints() {
  // Where rows and columns are bound to others, nothing of before is known.
  scopes.clear();
  scopes.emplace_back();
  scopes.back().bound = parallel;
  lanes = 1;
  SmallVector<Value> inside(points);
  for (unsigned u = 0; u < points; ++u) {
    Value point = add(threadIndex(), constant(int64_t(u) * schedule.threads));
    Value column = rem(point, columns), row = div(point, columns);
    ivs[u][product.columnDim] = columnAt(column, inside[u]);
    if (int64_t(u + 1) * schedule.threads > product.rowCount * columns) {
      inside[u] = both(inside[u], less(row, constant(product.rowCount)));
      row = clamp(row, constant(product.rowCount), 1);
    }
    bind(u, row, product.rowDims);
    Value init = emit(product.sum->init, u);
    scopes.back().values[{product.sum, u}] =
        combine(product.sum, init, total(row, column));
  }
  SmallVector<codegen::Store *> stores;
  for (codegen::Store &store : graph.stores)
    stores.push_back(&store);
  storeAll(stores, points, [&](unsigned u) { return inside[u]; });
}

} // namespace

void emitProducts(KernelFrame &frame) {
  ProductEmitter(frame, *RowsProduct::find(*frame.domain.graph)).run();
}

} // namespace pyjit::ptx
