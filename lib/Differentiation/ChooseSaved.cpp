//===- ChooseSaved.cpp - What a forward program saves ---------------------===//

#include "ChooseSaved.h"

#include "MinCut.h"

#include "dialects/pyjit/IR/Attributes.h"
#include "dialects/tssa/IR/Calls.h"
#include "dialects/tssa/IR/Views.h"
#include "pyjit/Operators/OperatorInfo.h"
#include "pyjit/Operators/OperatorNames.h"

#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace pyjit;
using namespace pyjit::differentiation;
using tssa::typeOf;

bool JointProgram::isBeforeGradients(Value value) const {
  if (auto argument = dyn_cast<BlockArgument>(value))
    return argument.getArgNumber() < numInputs;
  return !isBackward.contains(value.getDefiningOp());
}

void JointProgram::forEachOperand(Operation *op,
                                  function_ref<void(Value)> visit) {
  op->walk([&](Operation *inner) {
    for (Value operand : inner->getOperands())
      if (!op->isAncestor(operand.getParentBlock()->getParentOp()))
        visit(operand);
  });
}

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
// The choice
//===----------------------------------------------------------------------===//

/// Gradients by number: those that come in, then those that go out.
using Gradients = llvm::BitVector;

class Chooser {
public:
  explicit Chooser(const JointProgram &program)
      : program(program), block(program.block) {
    shown.insert_range(program.shownResults());
    findDemands();
  }

  SavedChoice run() {
    // Each round leaves fewer operations that may be repeated.
    for (unsigned round = 0;; ++round)
      if (SavedChoice choice = cut(); !keepFromRepeating(choice, round > 8))
        return choice;
  }

private:
  //===--------------------------------------------------------------------===//
  // Which gradients ask for a value
  //===--------------------------------------------------------------------===//

  void join(llvm::DenseMap<Value, Gradients> &map, Value value,
            const Gradients &more) {
    map.try_emplace(value, numGradients()).first->second |= more;
  }
  Gradients of(const llvm::DenseMap<Value, Gradients> &map,
               ValueRange values) const {
    Gradients all(numGradients());
    for (Value value : values)
      if (auto known = map.find(value); known != map.end())
        all |= known->second;
    return all;
  }
  unsigned numGradients() const {
    return unsigned(program.gradients.size() +
                    program.gradientResults().size());
  }

  /// What a derivative reads, itself or as a view, and for which gradients. Of
  /// inputs and results, these are what eager saves.
  void findDemands() {
    llvm::DenseMap<Value, Gradients> from, to;
    for (auto [i, gradient] : llvm::enumerate(program.gradients))
      join(from, gradient, single(i));
    for (Operation &op : block.without_terminator())
      if (program.isBackward.contains(&op)) {
        Gradients all(numGradients());
        program.forEachOperand(&op,
                               [&](Value value) { all |= of(from, value); });
        for (Value result : op.getResults())
          join(from, result, all);
      }
    for (auto [i, value] : llvm::enumerate(program.gradientResults()))
      join(program.isBeforeGradients(value) ? read : to, value,
           single(program.gradients.size() + i));
    for (Operation &op : llvm::reverse(block.without_terminator())) {
      Gradients all(numGradients());
      if (program.isBackward.contains(&op)) {
        Gradients out = of(to, op.getResults());
        program.forEachOperand(&op, [&](Value value) { join(to, value, out); });
        all = demands[&op] = out |= of(from, op.getResults());
      } else if (isa<tssa::AccessOp>(op) || !program.isForward.contains(&op)) {
        all = of(read, op.getResults());
      }
      if (all.any())
        program.forEachOperand(&op,
                               [&](Value value) { join(read, value, all); });
    }
  }

  Gradients single(size_t gradient) const {
    Gradients one(numGradients());
    one.set(unsigned(gradient));
    return one;
  }

  /// In memory anyway, as long as somebody keeps it.
  bool isKnown(Value value) const {
    return isa<BlockArgument>(value) || shown.contains(value);
  }

  /// Whether an operation computes its result of something known that no
  /// derivative reads for some of these gradients.
  bool asksForMore(Operation *op, const Gradients &gradients) const {
    bool more = false;
    program.forEachOperand(op, [&](Value value) {
      while (!isKnown(value) && value.getDefiningOp<tssa::AccessOp>())
        value = value.getDefiningOp()->getOperand(0);
      Gradients missing = gradients;
      more |= isKnown(value) && missing.reset(of(read, value)).any();
    });
    return more;
  }

  /// Where the choice would have gradients fail because of a write that they
  /// do not mind in eager, an operation is not to be repeated. Returns whether
  /// there was one. `all`: none is that reads what is known.
  bool keepFromRepeating(const SavedChoice &choice, bool all) {
    size_t before = kept.size();
    llvm::DenseMap<Value, Gradients> asked;
    for (Operation &op : llvm::reverse(block.without_terminator())) {
      bool isRepeated = choice.second.contains(&op);
      if (!isRepeated && !program.isBackward.contains(&op))
        continue;
      Gradients gradients =
          isRepeated ? of(asked, op.getResults()) : demands.lookup(&op);
      program.forEachOperand(
          &op, [&](Value value) { join(asked, value, gradients); });
      bool canBeSaved =
          llvm::all_of(op.getResultTypes(), llvm::IsaPred<RankedTensorType>);
      if (isRepeated && canBeSaved && !isa<tssa::AccessOp>(op) &&
          program.isForward.contains(&op) &&
          asksForMore(&op, all ? Gradients(numGradients(), true) : gradients))
        kept.insert(&op);
    }
    return kept.size() != before;
  }

  //===--------------------------------------------------------------------===//
  // The cut
  //===--------------------------------------------------------------------===//

  SavedChoice cut() {
    network = {};
    nodes.clear();
    for (Value input : block.getArguments().take_front(program.numInputs))
      add(input, FlowNetwork::kUnlimited);
    for (Operation &op : block.without_terminator())
      if (program.isBackward.contains(&op))
        program.forEachOperand(&op, [&](Value operand) { need(operand); });
      else
        add(&op);
    for (Value result : program.gradientResults())
      need(result);

    SavedChoice choice;
    std::vector<bool> onSourceSide = network.cut();
    for (auto &[value, own] : nodes) {
      if (onSourceSide[own.there])
        continue; // the backward program has no use for it
      if (onSourceSide[own.made])
        choice.first.insert(value);
      else
        choice.second.insert(value.getDefiningOp());
    }
    return choice;
  }

  void add(Operation *op) {
    // What only gradients need is computed once wherever that is.
    int64_t repeat = !program.isForward.contains(op) ? 0
                     : kept.contains(op)             ? FlowNetwork::kUnlimited
                                                     : costToRepeat(op);
    for (Value result : op->getResults()) {
      add(result, repeat);
      program.forEachOperand(op, [&](Value operand) {
        network.addEdge(nodes[operand].there, nodes[result].made,
                        FlowNetwork::kUnlimited);
      });
    }
  }

  void add(Value value, int64_t repeat) {
    int64_t cost = !isKnown(value)        ? costToSave(value)
                   : read.contains(value) ? costToSave(value) / 8
                                          : kLastResort;
    Nodes own{network.addNode(), network.addNode()};
    network.addEdge(FlowNetwork::kSource, own.made, repeat);
    network.addEdge(own.made, own.there, 1 + cost);
    nodes[value] = own;
  }

  void need(Value value) {
    if (program.isBeforeGradients(value))
      network.addEdge(nodes[value].there, FlowNetwork::kSink,
                      FlowNetwork::kUnlimited);
  }

  const JointProgram &program;
  Block &block;
  llvm::SmallPtrSet<Value, 8> shown;
  llvm::DenseMap<Value, Gradients> read;
  llvm::DenseMap<Operation *, Gradients> demands; ///< of backward operations
  llvm::SmallPtrSet<Operation *, 8> kept; ///< operations that are not repeated
  FlowNetwork network;
  /// Each value has a node where it comes to be in the backward program (by
  /// having been saved, or by being computed again), and one where it is there.
  struct Nodes {
    unsigned made, there;
  };
  llvm::MapVector<Value, Nodes> nodes;
};

} // namespace

SavedChoice differentiation::chooseSaved(const JointProgram &program) {
  return Chooser(program).run();
}
