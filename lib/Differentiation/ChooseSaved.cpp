//===- ChooseSaved.cpp - What a forward program saves ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ChooseSaved.h"

#include "MinCut.h"
#include "SeenInputs.h"

#include "dialects/pyjit/IR/Attributes.h"
#include "dialects/tssa/IR/Calls.h"
#include "dialects/tssa/IR/Views.h"
#include "pyjit/Operators/OperatorFacts.h"
#include "pyjit/Operators/OperatorInfo.h"
#include "pyjit/Operators/OperatorNames.h"

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
  // Nobody has written it: there is nothing to save.
  if (call && operators::lookupFacts(call.getOverload()).allocates)
    return 0;
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

class Chooser {
public:
  explicit Chooser(const JointProgram &program)
      : program(program), block(program.block) {
    shown.insert_range(program.shownResults());
    findRead();
  }

private:
  //===--------------------------------------------------------------------===//
  // What eager's nodes read
  //===--------------------------------------------------------------------===//

  /// What a derivative reads, itself or as a view. Of inputs and results, these
  /// are what eager saves.
  void findRead() {
    auto add = [&](Value value) { read.insert(value); };
    for (Value value : program.gradientResults())
      if (program.isBeforeGradients(value))
        add(value);
    for (Operation &op : llvm::reverse(block.without_terminator()))
      if (program.isBackward.contains(&op) ||
          ((isa<tssa::AccessOp>(op) || !program.isForward.contains(&op)) &&
           llvm::any_of(op.getResults(), [&](Value result) {
             return read.contains(result) && !getSeenInput(result);
           })))
        program.forEachOperand(&op, add);
  }

  /// In memory anyway, as long as somebody keeps it, who may write it.
  bool isKnown(Value value) const {
    return isa<BlockArgument>(value) || shown.contains(value) ||
           getSeenInput(value);
  }

  /// Whether an operation reads memory that somebody may write.
  bool readsKnown(Operation *op) const {
    bool known = false;
    program.forEachOperand(op, [&](Value value) {
      while (!isKnown(value) && value.getDefiningOp<tssa::AccessOp>())
        value = value.getDefiningOp()->getOperand(0);
      known |= isKnown(value);
    });
    return known;
  }

  bool dependsOnKnown(Operation *op) const {
    bool depends = readsKnown(op);
    program.forEachOperand(
        op, [&](Value value) { depends |= late.contains(value); });
    return depends;
  }

  /// Eager's nodes compute it of what they have saved: of what stands there by
  /// then, whoever wrote it.
  bool showsWrites(Operation *op) const {
    return dependsOnKnown(op) && !isOfItsTime(op) &&
           (isa<tssa::AccessOp>(op) || !program.isForward.contains(op));
  }

  /// Eager's nodes have what an operator of the forward program made of what
  /// stood there in its time, or a result's own memory.
  bool isOfItsTime(Operation *op) const {
    if (op->hasAttr(attribute::kSavedInEager))
      return dependsOnKnown(op);
    bool isShown = llvm::any_of(
        op->getResults(), [&](Value result) { return shown.contains(result); });
    bool readsOther = readsKnown(op);
    // A view of a copy that nobody sees (a reshape's) is its result's memory.
    bool isOwn = isa<tssa::AccessOp>(op) ? isShown && !readsOther
                                         : isShown || readsOther;
    return program.isForward.contains(op) && isOwn &&
           llvm::all_of(op->getResultTypes(), llvm::IsaPred<RankedTensorType>);
  }

  //===--------------------------------------------------------------------===//
  // The cut
  //===--------------------------------------------------------------------===//

public:
  SavedChoice run() {
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

private:
  void add(Operation *op) {
    if (op->getNumResults() == 1 && getSeenInput(op->getResult(0)))
      return add(op->getResult(0), FlowNetwork::kUnlimited);
    // What only gradients need is computed once wherever that is.
    int64_t repeat = isOfItsTime(op)                   ? FlowNetwork::kUnlimited
                     : !program.isForward.contains(op) ? 0
                                                       : costToRepeat(op);
    bool isLate = showsWrites(op);
    for (Value result : op->getResults()) {
      if (isLate)
        late.insert(result);
      add(result, repeat);
      program.forEachOperand(op, [&](Value operand) {
        network.addEdge(nodes[operand].there, nodes[result].made,
                        FlowNetwork::kUnlimited);
      });
    }
  }

  void add(Value value, int64_t repeat) {
    bool isRead = read.contains(value);
    int64_t cost = isKnown(value) && isRead ? costToSave(value) / 8
                   : isKnown(value) || late.contains(value) ? kLastResort
                                                            : costToSave(value);
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
  llvm::DenseSet<Value> read, late;
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
