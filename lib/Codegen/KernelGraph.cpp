//===- KernelGraph.cpp - What a kernel computes, element by element -------===//

#include "pyjit/Codegen/KernelGraph.h"
#include "dialects/tssa/IR/TSSA.h"
#include "dialects/tssa/IR/Views.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace pyjit::codegen {

using operators::Size;

Dim Dim::of(const Size &size, bool reduction) {
  if (size.isConstant())
    return {size.constant(), reduction, {}};
  return {ShapedType::kDynamic, reduction, size.toExpr(nullptr)};
}

bool Dim::isMultipleOf(int64_t number) const {
  return extent ? getSize().dividedBy(number).has_value() : size % number == 0;
}

bool isSupportedBodyOp(Operation *op) {
  if (isa<linalg::IndexOp, arith::ConstantOp, tensor::ExtractOp,
          UnrealizedConversionCastOp, tssa::SizeOp>(op))
    return true;
  if (op->getNumRegions() != 0 || op->getNumResults() != 1)
    return false;
  StringRef dialect = op->getName().getDialectNamespace();
  return dialect == "arith" || dialect == "math";
}

static unsigned costOf(Operation *op) {
  if (isa<math::ExpOp, math::Exp2Op, math::ExpM1Op, math::LogOp, math::Log2Op,
          math::Log10Op, math::Log1pOp, math::TanhOp, math::ErfOp, math::SinOp,
          math::CosOp, math::PowFOp>(op))
    return 16;
  if (isa<arith::ConstantOp, linalg::IndexOp, UnrealizedConversionCastOp,
          tssa::SizeOp>(op))
    return 0;
  if (op->getName().getDialectNamespace() == "math")
    return 8;
  if (isa<arith::DivFOp, arith::RemFOp, arith::DivSIOp, arith::RemSIOp,
          arith::DivUIOp, arith::RemUIOp, tensor::ExtractOp>(op))
    return 4;
  return 1;
}

/// The body operations that `value` needs, in order, and block arguments.
static void bodySlice(Value value, Block *body,
                      llvm::SetVector<Operation *> &ops,
                      llvm::SmallBitVector &arguments) {
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    if (argument.getOwner() == body)
      arguments.set(argument.getArgNumber());
    return;
  }
  Operation *op = value.getDefiningOp();
  if (op->getBlock() != body || ops.contains(op))
    return;
  for (Value operand : op->getOperands())
    bodySlice(operand, body, ops, arguments);
  ops.insert(op);
}

class GraphBuilder {
public:
  GraphBuilder(KernelGraph &graph, ArrayRef<Value> inputs, std::string &reason)
      : graph(graph), reason(reason) {
    for (auto [number, input] : llvm::enumerate(inputs))
      buffers[input] = number;
  }

  bool run(ArrayRef<Value> roots, unsigned numInputs);

private:
  using Key = std::vector<const void *>;
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

bool GraphBuilder::run(ArrayRef<Value> roots, unsigned numInputs) {
  if (roots.empty()) {
    fail("nothing is computed");
    return false;
  }
  context = roots.front().getContext();
  // The largest result spans the domain; smaller ones are rows of it.
  auto order = llvm::to_vector(llvm::seq<unsigned>(0, roots.size()));
  auto elements = [&](unsigned i) {
    int64_t count = 1;
    for (const Size &size :
         tssa::getSizes(cast<RankedTensorType>(roots[i].getType())))
      count *= size.estimate();
    return count;
  };
  for (Value root : roots)
    if (!tssa::hasKnownSizes(cast<RankedTensorType>(root.getType()))) {
      fail("a shape that is not known");
      return false;
    }
  llvm::stable_sort(
      order, [&](unsigned a, unsigned b) { return elements(a) > elements(b); });
  auto first = cast<RankedTensorType>(roots[order.front()].getType());
  SmallVector<AffineExpr> full;
  for (const Size &size : tssa::getSizes(first)) {
    full.push_back(size.is(1) ? getAffineConstantExpr(0, context)
                              : getAffineDimExpr(graph.dims.size(), context));
    if (!size.is(1))
      graph.dims.push_back(Dim::of(size, false));
  }

  graph.stores.resize(roots.size());
  for (unsigned i : order) {
    auto type = cast<RankedTensorType>(roots[i].getType());
    // A further result has the domain's shape, or that of its rows; size-1
    // dimensions do not count.
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
    if (i == order.front() || shape == all)
      chosen = allDims;
    else if (graph.hasReduction() && shape == rows)
      chosen = rowDims;
    else {
      fail("results of different shapes");
      return false;
    }
    SmallVector<AffineExpr> coordinates;
    unsigned next = 0;
    for (const Size &size : sizes)
      coordinates.push_back(size.is(1)
                                ? getAffineConstantExpr(0, context)
                                : getAffineDimExpr(chosen[next++], context));
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
      combiner->getNumOperands() != 2 || !accumulator.hasOneUse() ||
      *accumulator.user_begin() != combiner ||
      !isa<arith::AddFOp, arith::MulFOp, arith::MaximumFOp, arith::MinimumFOp,
           arith::MaxNumFOp, arith::MinNumFOp, arith::AddIOp, arith::MulIOp,
           arith::MaxSIOp, arith::MinSIOp, arith::MaxUIOp, arith::MinUIOp,
           arith::AndIOp, arith::OrIOp, arith::XOrIOp>(combiner))
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
      if (llvm::any_of(stridesOf(extract.getTensor().getType()),
                       ShapedType::isDynamic))
        return fail("an indexed read of a value with symbolic strides");
    }
  }
  return known[k] = add(std::move(node));
}

std::unique_ptr<KernelGraph> KernelGraph::build(ArrayRef<Value> inputs,
                                                ArrayRef<Value> roots,
                                                std::string &reason) {
  auto graph = std::make_unique<KernelGraph>();
  reason.clear();
  GraphBuilder builder(*graph, inputs, reason);
  if (!builder.run(roots, inputs.size()))
    return nullptr;
  graph->update();
  return graph;
}

SmallVector<int64_t> KernelGraph::sizes() const {
  SmallVector<int64_t> sizes;
  for (const Dim &dim : dims)
    sizes.push_back(dim.size);
  return sizes;
}

bool KernelGraph::hasReduction() const {
  return llvm::any_of(dims, [](const Dim &dim) { return dim.reduction; });
}

bool KernelGraph::usesSymbols() const {
  bool uses = llvm::any_of(dims, [](const Dim &d) { return d.isSymbolic(); });
  auto look = [&](AffineExpr expr) {
    uses |= operators::countSymbols(expr) != 0;
  };
  for (auto &node : nodes) {
    if (node->kind == Node::Kind::Load)
      look(node->offset);
    for (AffineExpr loop : node->loops)
      look(loop);
    if (node->op)
      node->op->walk([&](tssa::SizeOp) { uses = true; });
  }
  for (const Store &store : stores)
    look(store.offset);
  return uses;
}

void KernelGraph::rewriteIndices(
    llvm::function_ref<AffineExpr(AffineExpr)> rewrite) {
  SmallVector<int64_t> extents = sizes();
  for (auto &node : nodes) {
    if (node->kind == Node::Kind::Load)
      node->offset = simplify(rewrite(node->offset), extents);
    for (AffineExpr &loop : node->loops)
      loop = simplify(rewrite(loop), extents);
  }
  for (Store &store : stores)
    store.offset = simplify(rewrite(store.offset), extents);
}

/// Which loops of the node's own op its element reads through linalg.index.
static llvm::SmallBitVector indexedLoops(const Node &node) {
  llvm::SmallBitVector loops(node.loops.size());
  if (node.kind != Node::Kind::Compute)
    return loops;
  llvm::SetVector<Operation *> ops;
  llvm::SmallBitVector arguments(node.inputs.size());
  bodySlice(node.element, linalg::GenericOp(node.op).getBody(), ops, arguments);
  for (Operation *op : ops)
    if (auto index = dyn_cast<linalg::IndexOp>(op))
      loops.set(index.getDim());
  return loops;
}

void KernelGraph::forEachIndex(
    llvm::function_ref<void(AffineExpr, unsigned, bool)> visit) const {
  for (auto &node : nodes) {
    if (node->kind == Node::Kind::Load)
      visit(node->offset, node->buffer, false);
    llvm::SmallBitVector indexed = indexedLoops(*node);
    for (unsigned loop : indexed.set_bits())
      visit(node->loops[loop], ~0u, false);
  }
  for (const Store &store : stores)
    visit(store.offset, store.buffer, true);
}

void KernelGraph::update() {
  unsigned count = dims.size();
  llvm::SmallBitVector reduced(count);
  for (auto [d, dim] : llvm::enumerate(dims))
    if (dim.reduction)
      reduced.set(d);
  auto addDims = [&](llvm::SmallBitVector &set, AffineExpr expr) {
    for (unsigned d = 0; d < count; ++d)
      if (expr.isFunctionOfDim(d))
        set.set(d);
  };
  numStages = 1;
  for (auto &node : nodes) {
    node->dims.clear();
    node->dims.resize(count);
    node->stage = 0;
    node->cost = node->kind == Node::Kind::Load ? 1 : 0;
    if (node->kind == Node::Kind::Load)
      addDims(node->dims, node->offset);
    llvm::SmallBitVector indexed = indexedLoops(*node);
    for (unsigned loop : indexed.set_bits())
      addDims(node->dims, node->loops[loop]);
    for (Node *input : node->inputs) {
      if (!input)
        continue;
      node->dims |= input->dims;
      node->stage = std::max(node->stage, input->stage);
      node->cost += input->cost;
    }
    if (node->kind == Node::Kind::Compute) {
      llvm::SetVector<Operation *> ops;
      llvm::SmallBitVector arguments(node->inputs.size());
      bodySlice(node->element, node->op.getBody(), ops, arguments);
      for (Operation *op : ops)
        node->cost += costOf(op);
    } else if (node->kind == Node::Kind::Reduce) {
      // Known once per row, wherever in the row's loops it is asked for.
      node->dims = reduced;
      node->dims.flip();
      node->stage = std::max(node->stage, node->init->stage) + 1;
      node->cost = 0;
    }
    numStages = std::max(numStages, node->stage + 1);
  }
  for (Store &store : stores) {
    store.dims = store.node->dims;
    addDims(store.dims, store.offset);
  }
}

std::optional<Product> asProduct(const Node *reduce) {
  if (reduce->kind != Node::Kind::Reduce ||
      !isa<arith::AddFOp>(reduce->combiner))
    return std::nullopt;
  const Node *element = reduce->inputs[0];
  if (element->kind != Node::Kind::Compute)
    return std::nullopt;
  auto product = element->element.getDefiningOp<arith::MulFOp>();
  if (!product)
    return std::nullopt;
  auto factor = [&](Value value) -> Node * {
    auto argument = dyn_cast<BlockArgument>(value);
    if (!argument ||
        argument.getOwner() != linalg::GenericOp(element->op).getBody())
      return nullptr;
    Node *node = element->inputs[argument.getArgNumber()];
    return node && node->kind == Node::Kind::Load ? node : nullptr;
  };
  Product found{factor(product.getLhs()), factor(product.getRhs())};
  if (!found.left || !found.right)
    return std::nullopt;
  auto lacks = [&](const Node *a, const Node *b) {
    return (b->dims & reduce->dims).test(a->dims);
  };
  if (!lacks(found.left, found.right) || !lacks(found.right, found.left))
    return std::nullopt;
  return found;
}

void Dim::print(raw_ostream &os) const {
  os << (reduction ? "r" : "p");
  if (extent)
    os << '(' << extent << ')';
  else
    os << size;
}

void KernelGraph::print(raw_ostream &os) const {
  os << "domain";
  for (const Dim &dim : dims)
    dim.print(os << ' ');
  os << ", " << numStages << " stage" << (numStages == 1 ? "" : "s") << '\n';
  DenseMap<const Node *, unsigned> number;
  for (auto &node : nodes) {
    unsigned id = number.size();
    number[node.get()] = id;
    os << "  n" << id << " = ";
    switch (node->kind) {
    case Node::Kind::Load:
      os << "load b" << node->buffer << "[" << node->offset << "]";
      break;
    case Node::Kind::Constant:
      os << "constant " << node->constant;
      break;
    case Node::Kind::Compute:
      os << "compute";
      break;
    case Node::Kind::Reduce:
      os << "reduce " << node->combiner->getName();
      break;
    }
    for (Node *input : node->inputs)
      if (input)
        os << " n" << number[input];
    os << " : " << node->type << " stage " << node->stage << '\n';
  }
  for (const Store &store : stores)
    os << "  store n" << number[store.node] << " b" << store.buffer << "["
       << store.offset << "]\n";
}

TypedAttr identityOf(const Node *reduce, bool negativeZero) {
  Type type = reduce->type;
  Operation *op = reduce->combiner;
  if (auto floatType = dyn_cast<FloatType>(type)) {
    const auto &semantics = floatType.getFloatSemantics();
    APFloat value = APFloat::getZero(semantics, negativeZero);
    if (isa<arith::MulFOp>(op))
      value = APFloat::getOne(semantics);
    else if (isa<arith::MaximumFOp, arith::MaxNumFOp>(op))
      value = APFloat::getInf(semantics, /*Negative=*/true);
    else if (isa<arith::MinimumFOp, arith::MinNumFOp>(op))
      value = APFloat::getInf(semantics);
    return FloatAttr::get(type, value);
  }
  unsigned bits = type.getIntOrFloatBitWidth();
  APInt value(bits, 0);
  if (isa<arith::MulIOp>(op))
    value = APInt(bits, 1);
  else if (isa<arith::MaxSIOp>(op))
    value = APInt::getSignedMinValue(bits);
  else if (isa<arith::MinSIOp>(op))
    value = APInt::getSignedMaxValue(bits);
  else if (isa<arith::MinUIOp, arith::AndIOp>(op))
    value = APInt::getAllOnes(bits);
  return IntegerAttr::get(type, value);
}

} // namespace pyjit::codegen
