//===- Partition.cpp - Forward and backward of a joint program ------------===//

#include "pyjit/Differentiation/Passes.h"

#include "MinCut.h"

#include "dialects/pyjit/IR/Attributes.h"
#include "dialects/tssa/IR/Calls.h"
#include "dialects/tssa/IR/Views.h"
#include "pyjit/Operators/CallArguments.h"
#include "pyjit/Operators/OperatorFacts.h"
#include "pyjit/Operators/OperatorInfo.h"
#include "pyjit/Operators/OperatorNames.h"

#include "mlir/IR/IRMapping.h"

#include "llvm/ADT/EquivalenceClasses.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

namespace pyjit::differentiation {
#define GEN_PASS_DEF_PARTITIONPASS
#include "lib/Differentiation/Passes.h.inc"
} // namespace pyjit::differentiation

using namespace mlir;
using namespace pyjit;
using namespace pyjit::differentiation;
using tssa::typeOf;

namespace {

//===----------------------------------------------------------------------===//
// Costs
//===----------------------------------------------------------------------===//

int64_t elementsOf(RankedTensorType type) {
  int64_t count = 1;
  for (const tssa::Size &size : tssa::getSizes(type))
    count *= size.estimate();
  return count;
}

int64_t bytesOf(RankedTensorType type) {
  Type element = type.getElementType();
  unsigned bits = element.isIntOrFloat() ? element.getIntOrFloatBitWidth() : 64;
  return elementsOf(type) * std::max(1u, bits / 8);
}

/// Written by the forward program and read by the backward one. Indices and
/// flags cannot be: they are computed again.
int64_t costToSave(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type ? 2 * bytesOf(type) : FlowNetwork::kUnlimited;
}

/// More than any program moves, and less than what cannot be.
constexpr int64_t kLastResort = int64_t(1) << 50;

/// Nodes that take a dozen times the work of an addition.
bool isTranscendental(operators::ScalarOp op) {
  return op >= operators::ScalarOp::Exp && op <= operators::ScalarOp::Sigmoid;
}

/// What it takes to have the operation's results once more, in bytes moved:
/// next to nothing where it becomes a part of the kernel that reads them.
int64_t costToRepeat(Operation *op) {
  bool isTensor =
      llvm::all_of(op->getResultTypes(), llvm::IsaPred<RankedTensorType>);
  if (isa<tssa::AccessOp>(op) || !isTensor)
    return 0;
  if (isa<tssa::AssignOp>(op))
    return bytesOf(typeOf(op->getResult(0)));
  auto call = dyn_cast<tssa::AtenOp>(op);
  if (!call || call->getNumResults() != 1 || !isMemoryEffectFree(op) ||
      call->hasAttr(attribute::kVendorCall))
    return FlowNetwork::kUnlimited;
  const operators::OperatorInfo *info =
      operators::lookupOperator(call.getOverload());
  if (!info || info->lowering != operators::Lowering::Recipe)
    return FlowNetwork::kUnlimited;
  int64_t work = 1;
  for (const operators::TableNode &node : info->expression) {
    if (node.op >= operators::TableOp::ReduceSum &&
        node.op <= operators::TableOp::ReduceAll)
      return FlowNetwork::kUnlimited;
    if (node.op == operators::TableOp::Scalar)
      work += isTranscendental(node.scalar) ? 16 : 1;
  }
  // A kernel computes some eight operations in the time of a byte.
  return elementsOf(typeOf(call.getResult(0))) * work / 8;
}

//===----------------------------------------------------------------------===//
// One joint program
//===----------------------------------------------------------------------===//

class Partition {
public:
  Partition(func::FuncOp joint, bool parametersLast)
      : joint(joint), block(joint.front()), parametersLast(parametersLast) {
    for (unsigned i = 0; i < joint.getNumArguments(); ++i)
      if (joint.getArgAttr(i, attribute::kGradient))
        gradients.push_back(joint.getArgument(i));
    numInputs = joint.getNumArguments() - unsigned(gradients.size());
    numResults =
        joint.getNumResults() -
        unsigned(
            joint->getAttrOfType<DenseI64ArrayAttr>(attribute::kGradientInputs)
                .size());
  }

  LogicalResult run() {
    // What no gradient came of is not to be given anything.
    tssa::eraseUnused(block);
    findBackward();
    findForward();
    chooseSaved();
    func::FuncOp backward = makeBackward();
    if (!backward)
      return failure();
    describeDependences(backward);
    describeGroups(backward);
    reduceToForward();
    return success();
  }

private:
  func::ReturnOp returned() {
    return cast<func::ReturnOp>(block.getTerminator());
  }
  ValueRange shownResults() {
    return returned().getOperands().take_front(numResults);
  }

  /// What cannot be computed before the gradients are there.
  void findBackward() {
    llvm::DenseSet<Value> after(gradients.begin(), gradients.end());
    for (Operation &op : block.without_terminator()) {
      bool depends = false;
      op.walk([&](Operation *inner) {
        for (Value operand : inner->getOperands())
          depends |= after.contains(operand);
      });
      if (!depends)
        continue;
      isBackward.insert(&op);
      after.insert(op.result_begin(), op.result_end());
    }
  }

  /// What the results that are shown depend on, and what has to run.
  void findForward() {
    llvm::DenseSet<Value> needed;
    needed.insert_range(shownResults());
    SmallVector<Operation *> ops;
    for (Operation &op : block.without_terminator())
      ops.push_back(&op);
    for (Operation *op : llvm::reverse(ops)) {
      bool isNeeded = llvm::any_of(op->getResults(), [&](Value result) {
        return needed.contains(result);
      });
      if (isBackward.contains(op) || (!isNeeded && isMemoryEffectFree(op)))
        continue;
      isForward.insert(op);
      forEachOperand(op, [&](Value operand) { needed.insert(operand); });
    }
  }

  /// Values from outside that an operation and its regions read.
  static void forEachOperand(Operation *op, function_ref<void(Value)> visit) {
    op->walk([&](Operation *inner) {
      for (Value operand : inner->getOperands())
        if (!op->isAncestor(operand.getParentBlock()->getParentOp()))
          visit(operand);
    });
  }

  bool isBeforeGradients(Value value) {
    if (auto argument = dyn_cast<BlockArgument>(value))
      return argument.getArgNumber() < numInputs;
    return !isBackward.contains(value.getDefiningOp());
  }

  /// Each value has a node where it comes to be in the backward program (by
  /// having been saved, or by being computed again), and one where it is there.
  struct Nodes {
    unsigned made, there;
  };

  /// What a derivative reads, itself or as a view. Of inputs and results, these
  /// are what eager saves. Others somebody may write before the backward comes,
  /// which is no error there.
  llvm::DenseSet<Value> findRead() {
    llvm::DenseSet<Value> read;
    for (Operation &op : llvm::reverse(block.without_terminator())) {
      bool passesOn = isa<tssa::AccessOp>(op) && read.contains(op.getResult(0));
      if (passesOn || !isForward.contains(&op))
        forEachOperand(&op, [&](Value operand) { read.insert(operand); });
    }
    return read;
  }

  void chooseSaved() {
    FlowNetwork network;
    llvm::MapVector<Value, Nodes> nodes;
    llvm::SmallPtrSet<Value, 8> shown;
    for (Value result : shownResults())
      shown.insert(result);
    llvm::DenseSet<Value> read = findRead();
    auto add = [&](Value value, int64_t repeat) {
      // Inputs and results are in memory anyway, as long as somebody keeps
      // them.
      bool known = isa<BlockArgument>(value) || shown.contains(value);
      int64_t cost = !known                 ? costToSave(value)
                     : read.contains(value) ? costToSave(value) / 8
                                            : kLastResort;
      Nodes own{network.addNode(), network.addNode()};
      network.addEdge(FlowNetwork::kSource, own.made, repeat);
      network.addEdge(own.made, own.there, 1 + cost);
      nodes[value] = own;
    };
    for (Value input : joint.getArguments().take_front(numInputs))
      add(input, FlowNetwork::kUnlimited);
    for (Operation &op : block.without_terminator()) {
      if (isBackward.contains(&op)) {
        forEachOperand(&op,
                       [&](Value operand) { need(network, nodes, operand); });
        continue;
      }
      // What only gradients need is computed once wherever that is.
      int64_t repeat = isForward.contains(&op) ? costToRepeat(&op) : 0;
      for (Value result : op.getResults()) {
        add(result, repeat);
        forEachOperand(&op, [&](Value operand) {
          network.addEdge(nodes[operand].there, nodes[result].made,
                          FlowNetwork::kUnlimited);
        });
      }
    }
    for (Value result : returned().getOperands().drop_front(numResults))
      need(network, nodes, result);

    std::vector<bool> onSourceSide = network.cut();
    for (auto &[value, own] : nodes) {
      if (onSourceSide[own.there])
        continue; // the backward program has no use for it
      if (onSourceSide[own.made])
        saved.insert(value);
      else
        repeated.insert(value.getDefiningOp());
    }
  }

  void need(FlowNetwork &network, llvm::MapVector<Value, Nodes> &nodes,
            Value value) {
    if (isBeforeGradients(value))
      network.addEdge(nodes[value].there, FlowNetwork::kSink,
                      FlowNetwork::kUnlimited);
  }

  /// Of each gradient, the gradients and inputs that it is computed from.
  void describeDependences(func::FuncOp backward) {
    llvm::DenseMap<Value, llvm::BitVector> arguments;
    for (BlockArgument argument : joint.getArguments()) {
      llvm::BitVector own(joint.getNumArguments());
      own.set(argument.getArgNumber());
      arguments[argument] = own;
    }
    for (Operation &op : block.without_terminator()) {
      llvm::BitVector all(joint.getNumArguments());
      forEachOperand(&op, [&](Value operand) { all |= arguments[operand]; });
      for (Value result : op.getResults())
        arguments[result] = all;
    }
    Builder builder(joint.getContext());
    SmallVector<Attribute> reaches, reads;
    for (Value result : returned().getOperands().drop_front(numResults)) {
      const llvm::BitVector &own = arguments[result];
      SmallVector<int64_t> numbers, inputs;
      for (BlockArgument gradient : gradients)
        if (own.test(gradient.getArgNumber()))
          numbers.push_back(resultOf(gradient));
      for (unsigned i : own.set_bits())
        if (i < numInputs)
          inputs.push_back(i);
      reaches.push_back(builder.getDenseI64ArrayAttr(numbers));
      reads.push_back(builder.getDenseI64ArrayAttr(inputs));
    }
    backward->setAttr(attribute::kReaches, builder.getArrayAttr(reaches));
    backward->setAttr(attribute::kReads, builder.getArrayAttr(reads));
  }

  /// Gradients that meet at what was saved come through the same nodes of
  /// eager's, which one backward frees.
  void describeGroups(func::FuncOp backward) {
    llvm::EquivalenceClasses<unsigned> classes;
    llvm::DenseMap<Value, llvm::BitVector> from;
    for (auto [i, gradient] : llvm::enumerate(gradients)) {
      classes.insert(i);
      from[gradient].resize(gradients.size());
      from[gradient].set(i);
    }
    for (Operation &op : block.without_terminator()) {
      if (!isBackward.contains(&op))
        continue;
      llvm::BitVector all(gradients.size());
      bool readsSaved = false;
      forEachOperand(&op, [&](Value operand) {
        if (isBeforeGradients(operand))
          readsSaved = true;
        else
          all |= from[operand];
      });
      for (unsigned i : all.set_bits())
        if (readsSaved)
          classes.unionSets(all.find_first(), i);
      for (Value result : op.getResults())
        from[result] = all;
    }
    Builder builder(joint.getContext());
    llvm::MapVector<unsigned, SmallVector<int64_t>> groups;
    for (auto [i, gradient] : llvm::enumerate(gradients))
      groups[classes.getLeaderValue(i)].push_back(resultOf(gradient));
    SmallVector<Attribute> lists;
    for (auto &[leader, results] : groups)
      lists.push_back(builder.getDenseI64ArrayAttr(results));
    if (lists.size() > 1)
      backward->setAttr(attribute::kGroups, builder.getArrayAttr(lists));
  }

  /// Which result an argument is the gradient of.
  int64_t resultOf(BlockArgument gradient) {
    return joint
        .getArgAttrOfType<IntegerAttr>(gradient.getArgNumber(),
                                       attribute::kGradient)
        .getInt();
  }

  //===--------------------------------------------------------------------===//
  // The two programs
  //===--------------------------------------------------------------------===//

  func::FuncOp makeBackward() {
    OpBuilder builder(joint);
    builder.setInsertionPointAfter(joint);
    auto function = func::FuncOp::create(builder, joint.getLoc(),
                                         (joint.getName() + "_backward").str(),
                                         builder.getFunctionType({}, {}));
    for (StringRef name : {attribute::kDevice, attribute::kDefaultDtype,
                           attribute::kGradientInputs})
      if (Attribute attribute = joint->getAttr(name))
        function->setAttr(name, attribute);
    Block *body = function.addEntryBlock();
    builder.setInsertionPointToEnd(body);
    IRMapping mapping;
    SmallVector<std::pair<StringRef, int64_t>> sources;
    auto take = [&](Value value, StringRef source, int64_t number) {
      mapping.map(value, body->addArgument(value.getType(), value.getLoc()));
      sources.emplace_back(source, number);
    };
    for (Value value : saved)
      if (auto argument = dyn_cast<BlockArgument>(value))
        take(value, attribute::kInput, argument.getArgNumber());
      else
        take(value, attribute::kResult, numberOfSaved(value));
    for (BlockArgument gradient : gradients)
      take(gradient, attribute::kGradient, resultOf(gradient));
    for (Operation &op : block.without_terminator())
      if (isBackward.contains(&op) || repeated.contains(&op))
        builder.clone(op, mapping);
    SmallVector<Value> results;
    for (Value result : returned().getOperands().drop_front(numResults))
      results.push_back(mapping.lookup(result));
    func::ReturnOp::create(builder, joint.getLoc(), results);
    function.setFunctionType(builder.getFunctionType(
        body->getArgumentTypes(), ValueRange(results).getTypes()));
    for (auto [i, source] : llvm::enumerate(sources)) {
      function.setArgAttr(i, source.first,
                          builder.getI64IntegerAttr(source.second));
      if (source.first == attribute::kInput)
        for (StringRef name : {attribute::kDevice, attribute::kElements})
          if (Attribute known = joint.getArgAttr(source.second, name))
            function.setArgAttr(i, name, known);
    }
    return succeeded(nameSymbols(function)) ? function : func::FuncOp();
  }

  /// Which result of the forward program a saved value is; a new one where it
  /// is none yet.
  int64_t numberOfSaved(Value value) {
    for (auto [i, result] : llvm::enumerate(shownResults()))
      if (result == value)
        return int64_t(i);
    added.push_back(value);
    return int64_t(numResults + added.size()) - 1;
  }

  /// Where the backward program reads the sizes that differ between calls: of
  /// an argument that has one as a dimension.
  LogicalResult nameSymbols(func::FuncOp function) {
    auto symbols = joint->getAttrOfType<ArrayAttr>(attribute::kSymbols);
    if (!symbols)
      return success();
    SmallVector<Attribute> places;
    for (unsigned symbol = 0; symbol < symbols.size(); ++symbol) {
      Attribute place = findSymbol(function, symbol);
      if (!place)
        return joint.emitError("cannot be differentiated: no tensor that its "
                               "gradients need has the size s")
               << symbol << ", which differs between calls";
      places.push_back(place);
    }
    function->setAttr(attribute::kSymbols,
                      ArrayAttr::get(joint.getContext(), places));
    return success();
  }

  static Attribute findSymbol(func::FuncOp function, unsigned symbol) {
    AffineExpr wanted = getAffineSymbolExpr(symbol, function.getContext());
    for (auto [i, type] : llvm::enumerate(function.getArgumentTypes()))
      for (auto [d, size] :
           llvm::enumerate(tssa::getSizes(cast<RankedTensorType>(type))))
        if (!size.isConstant() && size.toExpr(wanted.getContext()) == wanted)
          return DenseI64ArrayAttr::get(function.getContext(),
                                        {int64_t(i), int64_t(d)});
    return {};
  }

  void reduceToForward() {
    OpBuilder builder(joint);
    SmallVector<Value> results(shownResults());
    llvm::append_range(results, added);
    returned().getOperandsMutable().assign(results);
    SmallVector<Operation *> ops;
    for (Operation &op : block.without_terminator())
      ops.push_back(&op);
    for (Operation *op : llvm::reverse(ops))
      if (isBackward.contains(op) ||
          (op->use_empty() && isMemoryEffectFree(op)))
        op->erase();
    llvm::BitVector gone(joint.getNumArguments());
    gone.set(numInputs, joint.getNumArguments());
    (void)joint.eraseArguments(gone);
    joint.setFunctionType(builder.getFunctionType(
        block.getArgumentTypes(), ValueRange(results).getTypes()));
    keepSavedApart(builder);
    if (!parametersLast)
      markTrained(builder);
    joint->removeAttr(attribute::kGradientInputs);
    joint->setAttr(attribute::kSaved,
                   builder.getI64IntegerAttr(int64_t(added.size())));
  }

  /// Parameters that each step of a training loop changes.
  void markTrained(OpBuilder &builder) {
    auto trained =
        joint->getAttrOfType<DenseI64ArrayAttr>(attribute::kGradientInputs);
    for (int64_t input : trained.asArrayRef())
      if (joint.getArgAttr(input, attribute::kParam))
        joint.setArgAttr(input, attribute::kTrained, builder.getUnitAttr());
  }

  /// What is saved for the backward program is a tensor of its own, though it
  /// be an input's new contents: the next call may write the input again.
  void keepSavedApart(OpBuilder &builder) {
    auto updates = joint->getAttrOfType<ArrayAttr>(attribute::kUpdates);
    if (!updates)
      return;
    SmallVector<Attribute> left;
    for (auto update : updates.getAsRange<DenseI64ArrayAttr>())
      if (!saved.contains(returned().getOperand(update[0])))
        left.push_back(update);
    if (left.empty())
      joint->removeAttr(attribute::kUpdates);
    else
      joint->setAttr(attribute::kUpdates, builder.getArrayAttr(left));
  }

  func::FuncOp joint;
  Block &block;
  bool parametersLast;
  SmallVector<BlockArgument> gradients;
  unsigned numInputs, numResults;
  llvm::SmallPtrSet<Operation *, 32> isBackward, isForward, repeated;
  llvm::SetVector<Value> saved;
  SmallVector<Value> added; ///< saved, and no result before
};

struct PartitionPrograms
    : pyjit::differentiation::impl::PartitionPassBase<PartitionPrograms> {
  using PartitionPassBase::PartitionPassBase;

  void runOnOperation() override {
    for (auto function :
         llvm::make_early_inc_range(getOperation().getOps<func::FuncOp>()))
      if (function->hasAttr(attribute::kGradientResults) &&
          function->hasAttr(attribute::kGradientInputs) &&
          failed(Partition(function, parametersLast).run()))
        return signalPassFailure();
  }
};

} // namespace
