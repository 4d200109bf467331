//===- Outline.cpp - Groups of the fusion plan become kernels -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Order.h"
#include "PartWrites.h"

#include "dialects/pyjit/IR/Attributes.h"
#include "dialects/tssa/IR/TSSA.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "pyjit/Fusion/Passes.h"
#include "pyjit/Fusion/Plan.h"

using namespace mlir;

namespace pyjit::fusion {
#define GEN_PASS_DEF_FUSIONPRINTPLAN
#define GEN_PASS_DEF_FUSIONOUTLINE
#include "lib/Fusion/Passes.h.inc"

namespace {

/// Lets each block read through views of its own: a kernel belongs to one
/// block, and what a region reads through a view outside would have to be
/// copied there.
void sinkViews(func::FuncOp function) {
  SmallVector<Block *> blocks;
  function.walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (!isa<linalg::LinalgDialect>(op->getDialect()))
      for (Region &region : op->getRegions())
        for (Block &block : region)
          blocks.push_back(&block);
  });
  for (Block *block : blocks) {
    DenseMap<Value, Value> own;
    OpBuilder builder(block, block->begin());
    // The view that `value` is in this block, made with those that it reads
    // through.
    auto sink = [&](auto &&self, Value value) -> Value {
      Operation *view = value.getDefiningOp();
      if (!view || !isView(view) || view->getBlock() == block)
        return value;
      if (Value mine = own.lookup(value))
        return mine;
      IRMapping mapping;
      mapping.map(view->getOperand(0), self(self, view->getOperand(0)));
      return own[value] = builder.clone(*view, mapping)->getResult(0);
    };
    for (Operation &op : *block)
      if (isa<linalg::GenericOp>(op))
        for (OpOperand &use : op.getOpOperands())
          use.set(sink(sink, use.get()));
  }
  // Nobody may be left who reads through those outside.
  for (Block *block : llvm::reverse(blocks))
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(*block)))
      if (isView(&op) && op.use_empty())
        op.erase();
}

/// Blocks that hold linalg operations directly.
SmallVector<Block *> blocksToPlan(func::FuncOp function) {
  llvm::SetVector<Block *> blocks;
  function.walk([&](linalg::GenericOp op) { blocks.insert(op->getBlock()); });
  return blocks.takeVector();
}

struct PrintPlanPass : impl::FusionPrintPlanBase<PrintPlanPass> {
  void runOnOperation() override {
    if (getOperation()->hasAttr(attribute::kKernel))
      return;
    sinkViews(getOperation());
    for (Block *block : blocksToPlan(getOperation())) {
      Plan plan = makePlan(*block);
      if (failed(verify(plan)))
        return signalPassFailure();
      std::string text;
      llvm::raw_string_ostream os(text);
      plan.print(os);
      getOperation().emitRemark(text);
    }
  }
};

/// Orders a block by its operands again; what reads a value whose memory a part
/// write takes stays in front of that where it can.
LogicalResult restoreOrder(Block &block) {
  SmallVector<Edge> edges = findReadsBefore(block);
  auto order = orderBlock(block, {edges});
  if (!order && !edges.empty())
    order = orderBlock(block);
  if (!order)
    return block.getParentOp()->emitError(
        "fusion: kernels that wait for one another");
  applyOrder(block, *order);
  return success();
}

struct OutlinePass : impl::FusionOutlineBase<OutlinePass> {
  using FusionOutlineBase::FusionOutlineBase;

  DenseMap<StringAttr, func::FuncOp> known;
  unsigned next = 0;

  /// The kernel of a group: a new one, or one that computes the same.
  func::FuncOp kernel(const Group &group) {
    ModuleOp module = getOperation();
    OpBuilder b(module.getBodyRegion());
    SmallVector<Type> inputs, results;
    for (Value input : group.inputs)
      inputs.push_back(input.getType());
    for (Value result : group.results)
      results.push_back(result.getType());
    SmallVector<Location> locations;
    for (Operation *op : group.ops)
      if (!isView(op))
        locations.push_back(op->getLoc());
    auto function =
        func::FuncOp::create(FusedLoc::get(b.getContext(), locations), "kernel",
                             b.getFunctionType(inputs, results));
    function.setPrivate();
    function->setAttr(attribute::kKernel, b.getUnitAttr());
    Block *entry = function.addEntryBlock();
    b.setInsertionPointToStart(entry);
    IRMapping mapping;
    mapping.map(group.inputs, entry->getArguments());
    auto cloneFree = [&](auto &&self, Value value) -> void {
      Operation *producer = value.getDefiningOp();
      if (!producer || !isFree(producer) || mapping.contains(value))
        return;
      for (Value operand : producer->getOperands())
        self(self, operand);
      b.clone(*producer, mapping);
    };
    for (Operation *op : group.ops) {
      op->walk([&](Operation *inner) {
        for (Value operand : inner->getOperands())
          cloneFree(cloneFree, operand);
      });
      b.clone(*op, mapping);
    }
    // A body that computes with a constant has it inside, where code generation
    // gives indices their type.
    for (auto constant :
         llvm::make_early_inc_range(entry->getOps<arith::ConstantOp>())) {
      for (OpOperand &use : llvm::make_early_inc_range(constant->getUses())) {
        Operation *user = use.getOwner();
        if (user->getBlock() == entry)
          continue;
        OpBuilder inside(user->getBlock(), user->getBlock()->begin());
        use.set(inside.clone(*constant)->getResult(0));
      }
      if (constant->use_empty())
        constant.erase();
    }
    SmallVector<Value> returned;
    for (Value result : group.results)
      returned.push_back(mapping.lookup(result));
    func::ReturnOp::create(b, function.getLoc(), returned);

    // The text without locations and names is what the kernel computes.
    std::string text;
    llvm::raw_string_ostream os(text);
    function.print(os, OpPrintingFlags().useLocalScope());
    auto key = StringAttr::get(&getContext(), text);
    auto [it, isNew] = known.try_emplace(key, function);
    if (!isNew) {
      function.erase();
      ++numShared;
      return it->second;
    }
    ++numKernels;
    SymbolTable symbols(module);
    std::string name;
    do
      name = ("kernel_" + Twine(next++)).str();
    while (symbols.lookup(name));
    function.setName(name);
    module.push_back(function);
    return function;
  }

  LogicalResult outline(Block &block) {
    PlanOptions options;
    options.maxGroupSize = maxGroupSize;
    options.maxRecomputeCost = maxRecomputeCost;
    options.updatesApart = updatesApart;
    options.attention = attention;
    Plan plan = makePlan(block, options);
    if (failed(verify(plan)))
      return failure();
    for (const Group &group : plan.groups) {
      func::FuncOp callee = kernel(group);
      Operation *last = group.ops.back();
      OpBuilder b(last->getBlock(), std::next(last->getIterator()));
      SmallVector<Location> locations;
      for (Operation *op : group.ops)
        locations.push_back(op->getLoc());
      auto call = func::CallOp::create(
          b, FusedLoc::get(b.getContext(), locations), callee, group.inputs);
      for (auto [value, result] : llvm::zip(group.results, call.getResults()))
        replacement.push_back({value, result});
    }
    // Calls still name the values that other groups computed.
    for (auto &[value, result] : replacement)
      value.replaceAllUsesWith(result);
    replacement.clear();
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
      if ((isa<linalg::GenericOp>(op) || isFree(&op)) && op.use_empty())
        op.erase();
    return restoreOrder(block);
  }

  void runOnOperation() override {
    SmallVector<func::FuncOp> functions;
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (!function->hasAttr(attribute::kKernel))
        functions.push_back(function);
    for (func::FuncOp function : functions) {
      sinkViews(function);
      for (Block *block : blocksToPlan(function))
        if (failed(outline(*block)))
          return signalPassFailure();
      // Constants of kernels in other blocks.
      SmallVector<Operation *> unused;
      function.walk([&](Operation *op) {
        if (isFree(op) && !isa<linalg::LinalgOp>(op->getParentOp()))
          unused.push_back(op);
      });
      for (Operation *op : llvm::reverse(unused))
        if (op->use_empty())
          op->erase();
    }
  }

  SmallVector<std::pair<Value, Value>> replacement;
};

} // namespace
} // namespace pyjit::fusion
