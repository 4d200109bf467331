//===- FormGraphs.cpp - What is captured together -------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "dialects/cudagraph/Transforms/Passes.h"

#include "Destinations.h"

#include "pyjit/GraphPlan/Capture.h"

#include "mlir/IR/Iterators.h"

#include "llvm/ADT/SetVector.h"
#include <functional>

namespace pyjit::cudagraph {
#define GEN_PASS_DEF_FORMGRAPHSPASS
#include "dialects/cudagraph/Transforms/Passes.h.inc"
} // namespace pyjit::cudagraph

using namespace mlir;
using namespace pyjit;
using namespace pyjit::cudagraph;

namespace {

bool isHost(Value value) { return cast<BufferType>(value.getType()).isHost(); }

/// Why `op` cannot be part of a graph; empty if it can.
StringRef whyOutside(Operation &op) {
  if (isa<IfOp, WhileOp>(op)) {
    if (isHost(op.getOperand(0)))
      return "the host decides it";
    for (Region &region : op.getRegions())
      for (Operation &inner : region.getOps())
        if (StringRef reason = isa<HostValueOp>(inner)
                                   ? "its body reads a number of the host"
                                   : whyOutside(inner);
            !reason.empty())
          return reason;
    return "";
  }
  if (isa<SpeculateOp>(op))
    return "the host decides by it whether to go on";
  if (isa<HostValueOp, BufferOp, ViewOp, ReleaseOp>(op))
    return "";
  if (llvm::any_of(op.getOperands(), isHost) ||
      llvm::any_of(op.getResults(), isHost))
    return "it touches host memory";
  if (isa<KernelOp, CopyOp>(op))
    return "";
  if (auto call = dyn_cast<CallOp>(op))
    return graphplan::whyNotCaptured(call.getOverload(), call.getArgs());
  return "it is no launch";
}

bool isDecision(Operation *op) { return isa<IfOp, WhileOp>(op); }

bool isLaunch(Operation *op) {
  return isa<KernelOp, CallOp>(op) || isDecision(op);
}

/// What the host has to do where there is no graph: a decision waits for the
/// device.
unsigned countLaunches(ArrayRef<Operation *> run) {
  unsigned count = 0;
  for (Operation *op : run)
    count += isDecision(op) ? 2 : isLaunch(op);
  return count;
}

struct FormGraphs : cudagraph::impl::FormGraphsPassBase<FormGraphs> {
  using FormGraphsPassBase::FormGraphsPassBase;

  int64_t nextOutput = 0;

  /// The views that lead from `buffer`'s root to it, made anew on `root`.
  Value showAgain(OpBuilder &builder, Value buffer, Value root) {
    SmallVector<ViewOp> path;
    for (Value at = buffer; auto view = at.getDefiningOp<ViewOp>();
         at = view.getSource())
      path.push_back(view);
    for (ViewOp view : llvm::reverse(path))
      root = ViewOp::create(builder, view.getLoc(), view.getType(), root,
                            view.getOffsetAttr(), view.getSymbolicAttr());
    return root;
  }

  static bool writes(Operation *op, Value external) {
    auto kernel = dyn_cast<KernelOp>(op);
    auto copy = dyn_cast<CopyOp>(op);
    return (kernel && llvm::any_of(kernel.getWrites(),
                                   [&](Value written) {
                                     return getExternal(written) == external;
                                   })) ||
           (copy && getExternal(copy.getTarget()) == external);
  }

  static bool isInput(Value external) {
    auto declared = external.getDefiningOp<ExternalOp>();
    return declared && declared.getRole() == Role::input;
  }

  /// Whether a launch of the program's writes an input.
  static bool isWritten(Value input) {
    return isInput(input) &&
           llvm::any_of(input.getUsers(),
                        [&](Operation *user) { return writes(user, input); });
  }

  /// Whether vendor calls alone read `buffer`, outside of bodies.
  static bool isReadByCallsAlone(Value buffer, Operation *copy) {
    return llvm::all_of(buffer.getUses(), [&](OpOperand &use) {
      Operation *user = use.getOwner();
      if (user == copy)
        return true;
      if (isa<ViewOp>(user))
        return isReadByCallsAlone(user->getResult(0), copy);
      auto call = dyn_cast<CallOp>(user);
      return call && isa<ProgramOp>(call->getParentOp()) &&
             !llvm::is_contained(
                 call.getMutates().value_or(ArrayRef<int64_t>()),
                 int64_t(use.getOperandNumber()));
    });
  }

  /// Vendor calls, and bodies of conditional nodes, read copies of external
  /// buffers that move. Those of calls alone are patchable. A copy stands right
  /// in front of the first launch of the run that reads it, so that its memory
  /// is needed no longer than it is read; an input is written behind all calls.
  void stage(ArrayRef<Operation *> run) {
    DenseMap<Value, Value> staged;
    SmallVector<CopyOp> copies;
    auto stageOperands = [&](Operation *op, Operation *reader) {
      for (OpOperand &operand : op->getOpOperands()) {
        // From inside the graph: what the run itself makes stays where it is.
        Value external = getExternal(operand.get());
        if (!external || !isMoving(external) ||
            isInside(run, external.getDefiningOp()))
          continue;
        Value &copy = staged[external];
        OpBuilder builder(reader);
        if (!copy) {
          copy = BufferOp::create(builder, external.getLoc(),
                                  cast<BufferType>(external.getType()),
                                  IntegerAttr());
          copies.push_back(
              CopyOp::create(builder, external.getLoc(), external, copy));
        }
        builder.setInsertionPoint(op);
        operand.set(showAgain(builder, operand.get(), copy));
      }
    };
    for (Operation *op : run)
      if (isDecision(op))
        op->walk([&](Operation *inner) {
          if (!isa<ViewOp, ReleaseOp>(inner))
            stageOperands(inner, op);
        });
      else if (isa<CallOp>(op))
        stageOperands(op, op);
    for (CopyOp copy : copies)
      copy.setPatchable(!isWritten(copy.getSource()) &&
                        isReadByCallsAlone(copy.getTarget(), copy));
  }

  /// Whether `op` is one of the run's, or in a body of one.
  static bool isInside(ArrayRef<Operation *> run, Operation *op) {
    while (op && !isa<ProgramOp>(op->getParentOp()))
      op = op->getParentOp();
    return op && llvm::is_contained(run, op);
  }

  /// The last call that writes what `maker` made; null if none does.
  Operation *lastWriter(Operation *maker) {
    Operation *last = nullptr;
    SmallVector<Value> shown(maker->getResults());
    while (!shown.empty())
      for (OpOperand &use : shown.pop_back_val().getUses()) {
        Operation *user = use.getOwner();
        if (isa<ViewOp>(user))
          shown.push_back(user->getResult(0));
        auto call = dyn_cast<CallOp>(user);
        if (!call ||
            !llvm::is_contained(call.getMutates().value_or(ArrayRef<int64_t>()),
                                int64_t(use.getOperandNumber())))
          continue;
        while (!isa<ProgramOp>(user->getParentOp()))
          user = user->getParentOp();
        if (!last || last->isBeforeInBlock(user))
          last = user;
      }
    return last;
  }

  using Launches = llvm::SmallPtrSet<Operation *, 16>;

  /// Whether launches of the run, and what returns it, alone know a result.
  static bool isKnownInside(Value result, const Launches &inside) {
    return llvm::all_of(result.getUsers(), [&](Operation *user) {
      if (isa<ViewOp>(user))
        return isKnownInside(user->getResult(0), inside);
      return isa<ReturnOp>(user) || inside.contains(user);
    });
  }

  /// The caller gets memory of its own, not the graph's: copied as soon as it
  /// is whole, so that the graph's is free for the calls behind; or not at all,
  /// where the runtime finds out how a call writes the caller's. Returns the
  /// last op of the run, such copies included.
  Operation *copyReturned(Operation *last, ArrayRef<Operation *> run) {
    auto ret = cast<ReturnOp>(getOperation().getBlock().getTerminator());
    Launches inside(run.begin(), run.end());
    DenseMap<Value, Operation *> told; // buffers, and the calls that write them
    for (OpOperand &operand : ret->getOpOperands()) {
      Value root = getRoot(operand.get());
      Operation *maker = told.lookup(root);
      bool patchable = false;
      if (!maker) {
        maker = root.getDefiningOp();
        if (!inside.contains(maker) || !isa<CallOp>(maker))
          continue;
        CallOp call = maker->getNumResults() == 1 && isWhole(operand.get()) &&
                              !lastWriter(maker) && isKnownInside(root, inside)
                          ? giveDestination(cast<CallOp>(maker))
                          : CallOp();
        if (call) {
          last = last == maker ? call : last;
          inside.erase(maker);
          inside.insert(call);
          maker = told[getRoot(operand.get())] = call;
          patchable = true;
        }
      }
      OpBuilder builder(&getOperation().getBlock().front());
      auto output = ExternalOp::create(
          builder, maker->getLoc(), cast<BufferType>(operand.get().getType()),
          Role::output, nextOutput++, /*stable=*/false);
      // What is written behind the run is copied behind it.
      Operation *writer = lastWriter(maker);
      bool later = writer && !inside.contains(writer);
      builder.setInsertionPointAfter(writer ? writer : maker);
      // A view of it may stand behind the run.
      Value shown = showAgain(builder, operand.get(), getRoot(operand.get()));
      auto copy =
          CopyOp::create(builder, maker->getLoc(), shown, output, patchable);
      if (!later && last->isBeforeInBlock(copy))
        last = copy;
      operand.set(output);
    }
    return last;
  }

  void form(SmallVector<Operation *> run) {
    // Views at the end of a run belong to what comes next.
    while (!run.empty() && !isLaunch(run.back()) && !isa<CopyOp>(run.back()))
      run.pop_back();
    if (countLaunches(run) < minLaunches)
      return;
    Operation *last = run.back();
    Operation *before = run.front()->getPrevNode();
    Block &block = getOperation().getBlock();
    stage(run);
    last = copyReturned(last, run);

    // Everything from the run's first op to its last, copies included.
    Operation *first = before ? before->getNextNode() : &block.front();
    while (isa<ExternalOp>(first))
      first = first->getNextNode();
    Operation *end = last->getNextNode();
    SmallVector<Operation *> body;
    for (Operation *op = first; op != end; op = op->getNextNode())
      body.push_back(op);
    llvm::SmallPtrSet<Operation *, 32> inside(body.begin(), body.end());
    for (Operation *op : body)
      if (isDecision(op))
        op->walk([&](Operation *inner) { inside.insert(inner); });

    llvm::SetVector<Value> externals, yielded;
    for (Operation *op : body) {
      op->walk([&](Operation *inner) {
        for (Value operand : inner->getOperands())
          if (Value external = getExternal(operand);
              external && !inside.contains(external.getDefiningOp()))
            externals.insert(external);
      });
      // Buffers and views are addresses; who makes them does not matter.
      for (Value result : op->getResults())
        for (Operation *user : result.getUsers())
          if (!inside.contains(user) && isa<CallOp>(op))
            yielded.insert(result);
    }
    OpBuilder builder(end);
    SmallVector<Location> locations;
    for (Operation *op : body)
      if (isLaunch(op))
        locations.push_back(op->getLoc());
    auto graph = GraphOp::create(builder, locations.front(),
                                 ValueRange(yielded.getArrayRef()).getTypes(),
                                 externals.getArrayRef());
    Block *inner = &graph.getBody().emplaceBlock();
    // By way of its views, too: they go where it goes.
    std::function<bool(Operation *)> isUsedBehind = [&](Operation *op) {
      return llvm::any_of(op->getUsers(), [&](Operation *user) {
        return !inside.contains(user) ||
               (isa<ViewOp>(op) && isa<ViewOp>(user) && isUsedBehind(user));
      });
    };
    for (Operation *op : body) {
      bool isLiveOut = isUsedBehind(op);
      // A buffer is planned by the program; a view that the rest uses too is
      // shown outside as well.
      if (isa<BufferOp, ExternalOp>(op)) {
        op->moveBefore(graph);
      } else if (isa<ViewOp>(op) && isLiveOut &&
                 !yielded.contains(getRoot(op->getResult(0)))) {
        if (!inside.contains(getRoot(op->getResult(0)).getDefiningOp()) ||
            isa<BufferOp>(getRoot(op->getResult(0)).getDefiningOp()))
          op->moveBefore(graph);
        else
          op->moveBefore(inner, inner->end());
      } else {
        op->moveBefore(inner, inner->end());
      }
    }
    // Views of yielded results that are used behind the graph.
    builder.setInsertionPointAfter(graph);
    for (Operation *op : body)
      if (isa<ViewOp>(op) && op->getBlock() == inner) {
        auto outside = [&](OpOperand &use) {
          return !graph->isProperAncestor(use.getOwner());
        };
        if (llvm::any_of(op->getUses(), outside)) {
          // What it is a view of may be a view that stays inside.
          Value root = getRoot(op->getResult(0));
          Value again = showAgain(builder, op->getResult(0), root);
          op->getResult(0).replaceUsesWithIf(again, outside);
          if (inside.contains(root.getDefiningOp()) &&
              isa<CallOp>(root.getDefiningOp()))
            yielded.insert(root);
        }
      }
    finish(graph, yielded);
  }

  /// Rebuilds the graph with the results that turned out to be needed.
  void finish(GraphOp graph, llvm::SetVector<Value> &yielded) {
    OpBuilder builder(graph);
    auto whole = GraphOp::create(builder, graph.getLoc(),
                                 ValueRange(yielded.getArrayRef()).getTypes(),
                                 graph.getExternals());
    whole.getBody().takeBody(graph.getBody());
    graph.erase();
    builder.setInsertionPointToEnd(&whole.getBlock());
    YieldOp::create(builder, whole.getLoc(), yielded.getArrayRef());
    for (auto [value, result] : llvm::zip(yielded, whole.getResults()))
      Value(value).replaceUsesWithIf(result, [&](OpOperand &use) {
        return !whole->isProperAncestor(use.getOwner());
      });
  }

  void runOnOperation() override {
    ProgramOp program = getOperation();
    nextOutput = 0;
    for (auto external : program.getBody().getOps<ExternalOp>())
      if (external.getRole() == Role::output)
        nextOutput = std::max<int64_t>(nextOutput, external.getNumber() + 1);
    SmallVector<SmallVector<Operation *>> runs(1);
    for (Operation &op : program.getBlock().without_terminator()) {
      if (isa<ExternalOp>(op))
        continue;
      StringRef reason = whyOutside(op);
      if (reason.empty()) {
        // Addresses alone begin no run.
        if (!runs.back().empty() || !isa<BufferOp, ViewOp>(op))
          runs.back().push_back(&op);
        continue;
      }
      if (explain)
        op.emitRemark("stays outside of graphs: ") << reason;
      runs.emplace_back();
    }
    for (SmallVector<Operation *> &run : runs)
      form(run);
    // Of what was returned and has an output of its own now.
    program.walk<WalkOrder::PostOrder, mlir::ReverseIterator>([](ViewOp view) {
      if (view->use_empty())
        view.erase();
    });
  }
};

} // namespace
