//===- KernelGraphBuilder.cpp - linalg operations as a kernel graph -------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Walks from the results to the inputs. Each value is asked for at a point of
// the domain, and each operand of a generic is then a value at the point that
// its indexing map gives. The first reduction says which dims are reduced; the
// others have to agree. What cannot be seen this way is refused with a reason.
//
//===----------------------------------------------------------------------===//

#include "dialects/tssa/IR/TSSA.h"
#include "dialects/tssa/IR/Views.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "pyjit/Codegen/GenericBody.h"
#include "pyjit/Codegen/KernelGraph.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace pyjit::codegen {

using analysis::Size;

bool isSupportedBodyOp(Operation *op) {
  if (isa<linalg::IndexOp, arith::ConstantOp, tensor::ExtractOp,
          UnrealizedConversionCastOp, tssa::SizeOp>(op))
    return true;
  if (op->getNumRegions() != 0 || op->getNumResults() != 1)
    return false;
  StringRef dialect = op->getName().getDialectNamespace();
  return dialect == "arith" || dialect == "math";
}

static bool isCombiner(Operation *op) {
  return isa<arith::AddFOp, arith::MulFOp, arith::MaximumFOp, arith::MinimumFOp,
             arith::MaxNumFOp, arith::MinNumFOp, arith::AddIOp, arith::MulIOp,
             arith::MaxSIOp, arith::MinSIOp, arith::MaxUIOp, arith::MinUIOp,
             arith::AndIOp, arith::OrIOp, arith::XOrIOp>(op);
}

namespace {

class GraphBuilder {
public:
  GraphBuilder(KernelGraph &graph, ArrayRef<Value> inputs, std::string &reason)
      : graph(graph), reason(reason) {
    for (auto [number, input] : llvm::enumerate(inputs))
      buffers[input] = number;
  }

  bool run(ArrayRef<Value> roots, unsigned numInputs);

private:
  bool placeResult(RankedTensorType type, bool largest,
                   SmallVectorImpl<AffineExpr> &coordinates);
  using Key = std::vector<const void *>;
  /// `v` at one point.
  Node *value(Value v, ArrayRef<AffineExpr> coordinates);
  Node *generic(linalg::GenericOp op, unsigned result,
                ArrayRef<AffineExpr> coordinates);
  Node *compute(linalg::GenericOp op, Value element,
                ArrayRef<AffineExpr> loops);
  bool bindReduction(linalg::GenericOp op, SmallVectorImpl<AffineExpr> &loops);
  bool loopSizes(linalg::GenericOp op, SmallVectorImpl<Size> &sizes);
  Node *constant(TypedAttr attribute);
  Node *find(const Key &key) {
    auto it = known.find(key);
    return it == known.end() ? nullptr : it->second;
  }
  Node *fail(const Twine &why) {
    if (reason.empty())
      reason = why.str();
    return nullptr;
  }
  Node *add(Node node) {
    graph.nodes.push_back(std::make_unique<Node>(std::move(node)));
    return graph.nodes.back().get();
  }
  AffineExpr simplified(AffineExpr expr) {
    return simplify(expr, graph.sizes());
  }

  static Key key(const void *a, const void *b, ArrayRef<AffineExpr> exprs) {
    Key key{a, b};
    for (AffineExpr expr : exprs)
      key.push_back(expr.getAsOpaquePointer());
    return key;
  }

  KernelGraph &graph;
  std::string &reason;
  MLIRContext *context = nullptr;
  DenseMap<Value, unsigned> buffers;
  std::map<Key, Node *> known;
  /// Set by the first reduction: the coordinates of its rows, and the domain
  /// dims that it reduces, in order.
  bool reductionBound = false;
  SmallVector<unsigned> reductionDims;
};

} // namespace

bool GraphBuilder::run(ArrayRef<Value> roots, unsigned numInputs) {
  if (roots.empty()) {
    fail("nothing is computed");
    return false;
  }
  context = roots.front().getContext();
  for (Value root : roots)
    if (!tssa::hasKnownSizes(cast<RankedTensorType>(root.getType()))) {
      fail("a shape that is not known");
      return false;
    }
  auto elements = [&](unsigned i) {
    int64_t count = 1;
    for (const Size &size :
         tssa::getSizes(cast<RankedTensorType>(roots[i].getType())))
      count *= size.estimate();
    return count;
  };
  auto order = llvm::to_vector(llvm::seq<unsigned>(0, roots.size()));
  llvm::stable_sort(
      order, [&](unsigned a, unsigned b) { return elements(a) > elements(b); });

  // The largest result spans the domain; smaller ones are rows of it.
  auto largest = cast<RankedTensorType>(roots[order.front()].getType());
  for (const Size &size : tssa::getSizes(largest))
    if (!size.is(1))
      graph.dims.push_back(Dim::of(size, false));
  graph.stores.resize(roots.size());
  for (unsigned i : order) {
    auto type = cast<RankedTensorType>(roots[i].getType());
    SmallVector<AffineExpr> coordinates;
    if (!placeResult(type, i == order.front(), coordinates))
      return false;
    Node *node = value(roots[i], coordinates);
    if (!node)
      return false;
    graph.stores[i] = {node,
                       static_cast<unsigned>(numInputs + i),
                       simplified(offsetOf(type, coordinates)),
                       {}};
  }
  return true;
}

/// The point of a result for each point of the domain. A further result has the
/// domain's shape, or that of its rows; size-1 dimensions do not count.
bool GraphBuilder::placeResult(RankedTensorType type, bool largest,
                               SmallVectorImpl<AffineExpr> &coordinates) {
  SmallVector<Size> sizes = tssa::getSizes(type), shape, rows, all;
  for (const Size &size : sizes)
    if (!size.is(1))
      shape.push_back(size);
  SmallVector<unsigned> rowDims, allDims;
  for (auto [d, dim] : llvm::enumerate(graph.dims)) {
    all.push_back(dim.getSize());
    allDims.push_back(d);
    if (!dim.reduction) {
      rows.push_back(dim.getSize());
      rowDims.push_back(d);
    }
  }
  ArrayRef<unsigned> chosen;
  if (largest || shape == all)
    chosen = allDims;
  else if (graph.hasReduction() && shape == rows)
    chosen = rowDims;
  else {
    fail("results of different shapes");
    return false;
  }
  unsigned next = 0;
  for (const Size &size : sizes)
    coordinates.push_back(size.is(1)
                              ? getAffineConstantExpr(0, context)
                              : getAffineDimExpr(chosen[next++], context));
  return true;
}

Node *GraphBuilder::constant(TypedAttr attribute) {
  Key k = key(attribute.getAsOpaquePointer(), nullptr, {});
  if (Node *node = find(k))
    return node;
  Node node{};
  node.kind = Node::Kind::Constant;
  node.type = attribute.getType();
  node.constant = attribute;
  return known[k] = add(std::move(node));
}

Node *GraphBuilder::value(Value v, ArrayRef<AffineExpr> coordinates) {
  auto type = cast<RankedTensorType>(v.getType());
  if (!tssa::hasKnownSizes(type))
    return fail("a shape that is not known");
  if (auto it = buffers.find(v); it != buffers.end()) {
    AffineExpr offset = simplified(offsetOf(type, coordinates));
    Key k = key(v.getAsOpaquePointer(), nullptr, {offset});
    if (Node *node = find(k))
      return node;
    Node node{};
    node.kind = Node::Kind::Load;
    node.type = type.getElementType();
    node.buffer = it->second;
    node.offset = offset;
    return known[k] = add(std::move(node));
  }
  Operation *op = v.getDefiningOp();
  if (!op)
    return fail("a value from outside of the kernel");
  if (auto fill = dyn_cast<linalg::FillOp>(op)) {
    auto scalar = fill.getInputs()[0].getDefiningOp<arith::ConstantOp>();
    if (!scalar)
      return fail("a fill with a value that is not constant");
    return constant(cast<TypedAttr>(scalar.getValue()));
  }
  if (auto literal = dyn_cast<arith::ConstantOp>(op)) {
    auto splat = dyn_cast<SplatElementsAttr>(literal.getValue());
    if (!splat)
      return fail("a constant tensor with different elements");
    return constant(cast<TypedAttr>(splat.getSplatValue<Attribute>()));
  }
  // Nobody wrote it and, as verify-initialized has seen, nobody relies on it: a
  // buffer before a loop assigns each of its places. Any number will do.
  if (isa<tensor::EmptyOp, tssa::EmptyOp>(op))
    if (TypedAttr zero = Builder(op).getZeroAttr(type.getElementType()))
      return constant(zero);
  if (auto generic = dyn_cast<linalg::GenericOp>(op))
    return this->generic(generic, cast<OpResult>(v).getResultNumber(),
                         coordinates);
  return fail("operation '" + op->getName().getStringRef().str() + "'");
}

/// The extents of a generic's loops. Where sizes differ between calls, linalg
/// does not check that its operands agree on them.
bool GraphBuilder::loopSizes(linalg::GenericOp op,
                             SmallVectorImpl<Size> &sizes) {
  bool symbolic = llvm::any_of(op->getOperandTypes(), [](Type type) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    return tensor && tssa::isSymbolic(tensor);
  });
  if (!symbolic) {
    llvm::append_range(sizes, op.getStaticLoopRanges());
    return true;
  }
  sizes.assign(op.getNumLoops(), Size(-1));
  for (OpOperand &operand : op->getOpOperands()) {
    auto type = dyn_cast<RankedTensorType>(operand.get().getType());
    if (!type)
      continue;
    if (!tssa::hasKnownSizes(type)) {
      fail("a shape that is not known");
      return false;
    }
    AffineMap map = op.getMatchingIndexingMap(&operand);
    for (auto [expr, size] : llvm::zip(map.getResults(), tssa::getSizes(type)))
      if (auto dim = dyn_cast<AffineDimExpr>(expr)) {
        Size &known = sizes[dim.getPosition()];
        if (!known.is(-1) && known != size) {
          fail("sizes that need not be equal");
          return false;
        }
        known = size;
      }
  }
  return true;
}

bool GraphBuilder::bindReduction(linalg::GenericOp op,
                                 SmallVectorImpl<AffineExpr> &loops) {
  SmallVector<unsigned> iterators;
  SmallVector<Size> extents;
  if (!loopSizes(op, extents))
    return false;
  for (auto [i, kind] : llvm::enumerate(op.getIteratorTypesArray()))
    if (kind == utils::IteratorType::reduction) {
      if (extents[i].is(1))
        loops[i] = getAffineConstantExpr(0, context);
      else
        iterators.push_back(i);
    }
  llvm::SmallBitVector rowDims(graph.dims.size() + iterators.size());
  for (AffineExpr loop : loops) {
    if (!loop || isa<AffineConstantExpr>(loop))
      continue;
    auto dim = dyn_cast<AffineDimExpr>(loop);
    if (!dim || rowDims.test(dim.getPosition())) {
      fail("a reduction whose rows are rearranged by its user");
      return false;
    }
    rowDims.set(dim.getPosition());
  }
  if (!reductionBound) {
    // What the result does not say about rows is what is reduced.
    SmallVector<unsigned> rest;
    for (unsigned d = 0, e = graph.dims.size(); d < e; ++d)
      if (!rowDims.test(d))
        rest.push_back(d);
    if (rest.empty()) {
      for (unsigned i : iterators) {
        rest.push_back(graph.dims.size());
        graph.dims.push_back(Dim::of(extents[i], true));
      }
    }
    reductionDims = rest;
    for (unsigned d : rest)
      graph.dims[d].reduction = true;
    reductionBound = true;
  }
  for (auto [d, dim] : llvm::enumerate(graph.dims))
    if (dim.reduction == rowDims.test(d)) {
      fail("reductions over different rows");
      return false;
    }
  if (iterators.size() != reductionDims.size()) {
    fail("a reduction of other dimensions than its kernel's");
    return false;
  }
  for (auto [i, d] : llvm::zip(iterators, reductionDims)) {
    if (extents[i] != graph.dims[d].getSize()) {
      fail("reductions of different extents");
      return false;
    }
    loops[i] = getAffineDimExpr(d, context);
  }
  return true;
}

Node *GraphBuilder::generic(linalg::GenericOp op, unsigned result,
                            ArrayRef<AffineExpr> coordinates) {
  AffineMap map = op.getMatchingIndexingMap(op.getDpsInitOperand(result));
  SmallVector<AffineExpr> loops(op.getNumLoops());
  for (auto [expr, coordinate] : llvm::zip(map.getResults(), coordinates)) {
    auto dim = dyn_cast<AffineDimExpr>(expr);
    if (!dim || loops[dim.getPosition()])
      return fail("a result that is not a permutation of its loops");
    loops[dim.getPosition()] = coordinate;
  }
  SmallVector<Size> agreed;
  if (!loopSizes(op, agreed))
    return nullptr;
  Value element = op.getBody()->getTerminator()->getOperand(result);
  if (op.getNumReductionLoops() == 0) {
    if (llvm::is_contained(loops, AffineExpr()))
      return fail("a parallel loop that no result shows");
    return compute(op, element, loops);
  }

  if (!bindReduction(op, loops))
    return nullptr;
  Key k = key(op.getOperation(),
              reinterpret_cast<const void *>(uintptr_t(result) + 1), loops);
  if (Node *node = find(k))
    return node;
  BlockArgument accumulator =
      op.getMatchingBlockArgument(op.getDpsInitOperand(result));
  Operation *combiner = element.getDefiningOp();
  if (!combiner || combiner->getBlock() != op.getBody() ||
      !isCombiner(combiner) || !accumulator.hasOneUse() ||
      *accumulator.user_begin() != combiner)
    return fail("a reduction by more than one operation");
  Value mapped = combiner->getOperand(combiner->getOperand(0) == accumulator);
  Node node{};
  node.kind = Node::Kind::Reduce;
  node.type = element.getType();
  node.op = op;
  node.combiner = combiner;
  node.loops.assign(loops.begin(), loops.end());
  Node *input = compute(op, mapped, loops);
  if (!input)
    return nullptr;
  node.inputs.push_back(input);
  SmallVector<AffineExpr> initAt(coordinates);
  node.init = value(op.getDpsInitOperand(result)->get(), initAt);
  if (!node.init)
    return nullptr;
  // The same reduction of the same values, with its rows' dims kept or not.
  for (auto &other : graph.nodes)
    if (other->kind == Node::Kind::Reduce &&
        other->combiner->getName() == combiner->getName() &&
        other->inputs[0] == input && other->init == node.init)
      return known[k] = other.get();
  return known[k] = add(std::move(node));
}

Node *GraphBuilder::compute(linalg::GenericOp op, Value element,
                            ArrayRef<AffineExpr> loops) {
  Block *body = op.getBody();
  auto operandAt = [&](unsigned number) -> Node * {
    OpOperand &operand = op->getOpOperand(number);
    SmallVector<AffineExpr> coordinates;
    for (AffineExpr expr : op.getMatchingIndexingMap(&operand).getResults())
      coordinates.push_back(simplified(expr.replaceDims(loops)));
    if (!isa<RankedTensorType>(operand.get().getType())) {
      auto scalar = operand.get().getDefiningOp<arith::ConstantOp>();
      if (!scalar)
        return fail("a scalar operand that is not constant");
      return constant(cast<TypedAttr>(scalar.getValue()));
    }
    return value(operand.get(), coordinates);
  };
  if (auto argument = dyn_cast<BlockArgument>(element);
      argument && argument.getOwner() == body)
    return operandAt(argument.getArgNumber());
  if (auto literal = element.getDefiningOp<arith::ConstantOp>())
    return constant(cast<TypedAttr>(literal.getValue()));

  SmallVector<AffineExpr> at;
  for (AffineExpr loop : loops)
    at.push_back(simplified(loop));
  Key k = key(op.getOperation(), element.getAsOpaquePointer(), at);
  if (Node *node = find(k))
    return node;
  llvm::SetVector<Operation *> ops;
  llvm::SmallBitVector arguments(body->getNumArguments());
  bodySlice(element, body, ops, arguments);
  Node node{};
  node.kind = Node::Kind::Compute;
  node.type = element.getType();
  node.op = op;
  node.element = element;
  node.loops.assign(at.begin(), at.end());
  node.inputs.resize(body->getNumArguments());
  for (unsigned number : arguments.set_bits()) {
    if (number >= op.getNumDpsInputs())
      return fail("a body that reads its own accumulator");
    node.inputs[number] = operandAt(number);
    if (!node.inputs[number])
      return nullptr;
  }
  for (Operation *bodyOp : ops) {
    if (!isSupportedBodyOp(bodyOp))
      return fail("operation '" + bodyOp->getName().getStringRef().str() +
                  "' in a body");
    if (auto extract = dyn_cast<tensor::ExtractOp>(bodyOp)) {
      if (!buffers.contains(extract.getTensor()))
        return fail("an indexed read of a value computed in the kernel");
    }
  }
  return known[k] = add(std::move(node));
}

/// Whether the points of the domain can be counted, in bytes of what they
/// compute: everything behind calculates with such numbers.
static bool isCountable(ArrayRef<Dim> dims) {
  int64_t bytes = 16;
  for (const Dim &dim : dims)
    if (!dim.isSymbolic() && llvm::MulOverflow(bytes, dim.size, bytes))
      return false;
  return true;
}

std::unique_ptr<KernelGraph> KernelGraph::build(ArrayRef<Value> inputs,
                                                ArrayRef<Value> roots,
                                                std::string &reason) {
  auto graph = std::make_unique<KernelGraph>();
  reason.clear();
  GraphBuilder builder(*graph, inputs, reason);
  if (!builder.run(roots, inputs.size()))
    return nullptr;
  if (!isCountable(graph->dims)) {
    reason = "more elements than can be counted";
    return nullptr;
  }
  graph->update();
  graph->dropEmptyRows();
  return graph;
}

} // namespace pyjit::codegen
