//===- EmitTiles.cpp - Transposing kernels --------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Some operands are contiguous along one dim (`across`), the results along
// another (the vector dim). A block takes a square of both: it reads such
// operands along their own dim into shared memory, and then goes through the
// square along the results' dim, as a flat kernel would.
//
//===----------------------------------------------------------------------===//

#include "Emitter.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace pyjit::codegen;

namespace pyjit::ptx {

bool isReadAcross(const Node &node, int vectorDim, int across) {
  if (node.kind != Node::Kind::Load)
    return false;
  LinearForm form = linearize(node.offset);
  return !form.isNonlinearIn(across) && !form.isNonlinearIn(vectorDim) &&
         form.coefficient(across) == 1 && form.coefficient(vectorDim) > 1;
}

namespace {

class TileEmitter : Emitter {
public:
  explicit TileEmitter(KernelFrame &frame)
      : Emitter(frame), across(schedule.across), along(domain.vectorDim),
        side(32 * schedule.lanes) {}

  void run() {
    scopes.back().bound.set();
    varying.resize(graph.dims.size());
    varying.set(across);
    varying.set(along);
    lanes = schedule.lanes;
    place();
    for (auto &node : graph.nodes)
      if (isReadAcross(*node, along, across))
        read(*node);
    barrier();
    vectorDim = along;
    SmallVector<Value> inside = bindSquare(across, along);
    SmallVector<codegen::Store *> stores;
    for (codegen::Store &store : graph.stores)
      stores.push_back(&store);
    storeAll(stores, schedule.vectors, [&](unsigned u) { return inside[u]; });
    skipSpareBlocks();
  }

private:
  /// Finds this block's square, and binds the other dims.
  void place() {
    SmallVector<unsigned> others;
    Size count = 1;
    for (unsigned d = 0; d < graph.dims.size(); ++d)
      if (int(d) != across && int(d) != along) {
        others.push_back(d);
        count *= graph.dims[d].getSize();
      }
    MLIRContext *context = b.getContext();
    frame.blocks = count.toExpr(context);
    Value block = blockIndex();
    for (int dim : {along, across}) {
      AffineExpr squares =
          graph.dims[dim].getSize().toExpr(context).ceilDiv(side);
      frame.blocks = frame.blocks * squares;
      Value many = index(squares, 0);
      start[dim == along] =
          mul(b.createOrFold<arith::RemUIOp>(block, many), side);
      block = b.createOrFold<arith::DivUIOp>(block, many);
    }
    bind(0, block, others);
    for (unsigned u = 1; u < schedule.vectors; ++u)
      for (unsigned d : others)
        ivs[u][d] = ivs[0][d];
  }

  /// Warps walk `inner` by vectors, one row of `outer` each; binds both dims
  /// and returns whether each vector is inside of the domain, or null if all
  /// are.
  SmallVector<Value> bindSquare(int outer, int inner) {
    Value thread = threadIndex();
    localInner = mul(rem(thread, 32), lanes);
    localOuter.clear();
    SmallVector<Value> inside;
    int64_t rows = schedule.threads / 32;
    for (unsigned u = 0; u < schedule.vectors; ++u) {
      localOuter.push_back(add(div(thread, 32), constant(int64_t(u) * rows)));
      auto at = [&](int dim, Value local, unsigned step) {
        const codegen::Dim &whole = graph.dims[dim];
        Value position = add(start[dim == along], local);
        Value within;
        if (!whole.isMultipleOf(side)) {
          within = less(position, number(whole.getSize()));
          position = clamp(position, number(whole.getSize()), step);
        }
        ivs[u][dim] = position;
        return within;
      };
      Value one = at(inner, localInner, lanes);
      Value two = at(outer, localOuter[u], 1);
      inside.push_back(both(one, two));
    }
    return inside;
  }

  /// Shared memory's place for what is at `acrossLocal`, `alongLocal`. Rows are
  /// one element longer than the square, so that neither walk meets a bank
  /// twice.
  Value slot(Value base, Value acrossLocal, Value alongLocal, Type element) {
    return sharedAddress(base, add(mul(acrossLocal, side + 1), alongLocal),
                         element);
  }

  void read(const Node &node) {
    vectorDim = across;
    bindSquare(along, across);
    scopes.back().indices.clear();
    int64_t bytes = memoryType(node.type).getIntOrFloatBitWidth() / 8;
    Value base = shared(side * (side + 1) * bytes);
    SmallVector<Value> values;
    for (unsigned u = 0; u < schedule.vectors; ++u)
      values.push_back(toMemory(load(node.buffer, node.offset, node.type, u)));
    for (unsigned u = 0; u < schedule.vectors; ++u)
      for (unsigned lane = 0; lane < lanes; ++lane) {
        Value value =
            lanes == 1
                ? values[u]
                : vector::ExtractOp::create(b, values[u], lane).getResult();
        LLVM::StoreOp::create(b, value,
                              slot(base, add(localInner, constant(lane)),
                                   localOuter[u], node.type));
      }
    scopes.back().indices.clear();
    tiles[&node] = base;
  }

  Value readShared(const Node *node, unsigned u) override {
    auto it = tiles.find(node);
    if (it == tiles.end())
      return {};
    Type memory = memoryType(node->type);
    SmallVector<Value> elements;
    for (unsigned lane = 0; lane < lanes; ++lane)
      elements.push_back(LLVM::LoadOp::create(
          b, memory,
          slot(it->second, localOuter[u], add(localInner, constant(lane)),
               node->type)));
    Value value = elements[0];
    if (lanes > 1)
      value = vector::FromElementsOp::create(
          b, VectorType::get({int64_t(lanes)}, memory), elements);
    return fromMemory(value, node->type);
  }

  int across, along;
  int64_t side;
  /// Where the square begins: across, along.
  Value start[2];
  Value localInner;
  SmallVector<Value> localOuter;
  DenseMap<const Node *, Value> tiles;
};

} // namespace

void emitTiles(KernelFrame &frame) { TileEmitter(frame).run(); }

} // namespace pyjit::ptx
