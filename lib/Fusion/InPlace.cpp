//===- InPlace.cpp - Inputs that are written where they lie ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Contract: in, functions of kernel calls whose kernels have bodies; out, the
// same with the calls and part writes marked whose results are inputs' memory,
// behind everything that may fail or with what it takes to undo them. See the
// pass's description for what is proven.
//
//===----------------------------------------------------------------------===//

#include "PartWrites.h"

#include "dialects/pyjit/IR/Attributes.h"
#include "dialects/tssa/IR/TSSA.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "pyjit/Codegen/KernelModule.h"
#include "pyjit/Codegen/Overlap.h"
#include "pyjit/Fusion/Passes.h"

using namespace mlir;

namespace pyjit::fusion {
#define GEN_PASS_DEF_FUSIONINPLACE
#include "lib/Fusion/Passes.h.inc"

namespace {

/// Proofs about kernels, each of which is seen as a graph once.
class Kernels {
public:
  explicit Kernels(bool reductions) : reductions(reductions) {}

  bool mayOverlap(func::FuncOp kernel, unsigned operand, unsigned result,
                  std::string &reason) {
    codegen::KernelBody &body = bodyOf(kernel);
    if (!body.graph)
      return false;
    if (!reductions && body.graph->hasReduction()) {
      reason = "the kernel reduces";
      return false;
    }
    return codegen::mayOverlap(*body.graph, body.inputs[operand], operand,
                               result, reason);
  }

private:
  codegen::KernelBody &bodyOf(func::FuncOp kernel) {
    auto &known = bodies[kernel];
    if (!known)
      known = std::make_unique<codegen::KernelBody>(kernel);
    return *known;
  }

  bool reductions;
  DenseMap<Operation *, std::unique_ptr<codegen::KernelBody>> bodies;
};

/// What may end a launch before its end: an error of a vendor's, memory that is
/// not there, an index that is out of range, an interrupt in a loop, data that
/// the program was not made for. `branches`: a branch counts as such.
bool mayFail(Operation *op, bool branches) {
  return op
      ->walk([&](Operation *inner) {
        bool fails = isa<tssa::AtenOp, tssa::SpeculateOp, tssa::PickOp,
                         scf::ForOp, scf::WhileOp>(inner);
        fails |= branches && isa<scf::IfOp>(inner);
        if (auto access = dyn_cast<tssa::AccessOp>(inner))
          fails = !access.getIndices().empty();
        if (auto assign = dyn_cast<tssa::AssignOp>(inner))
          fails = !assign.getIndices().empty();
        return fails ? WalkResult::interrupt() : WalkResult::advance();
      })
      .wasInterrupted();
}

/// What the new contents of inputs may be, and may not.
struct Limits {
  bool branchesFirst; ///< a branch counts as what may fail
  bool parts;         ///< part writes, too
};

class Planner {
public:
  Planner(func::FuncOp function, Kernels &kernels, Limits limits)
      : function(function), block(function.front()), kernels(kernels),
        limits(limits) {}

  /// What makes an input's new contents of it: one kernel, or part writes. All
  /// of their values lie in the input's memory.
  struct Update {
    int64_t result, input;
    func::CallOp call = {};
    unsigned number = 0;
    SmallVector<PartWrite> parts = {};
    /// Something that may fail needs a part: it is written where it stands.
    bool early = false;
    std::string reason = {};

    bool isInPlace() const { return call || !parts.empty(); }
  };

  void run();
  ArrayRef<Update> getUpdates() const { return updates; }

private:
  Value newContents(const Update &update) {
    return block.getTerminator()->getOperand(update.result);
  }
  void refuse(Update &update, const Twine &why) {
    update.reason = why.str();
    update.call = {};
    update.parts.clear();
  }
  func::FuncOp kernelOf(func::CallOp call) {
    return SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(
        function, call.getCalleeAttr());
  }

  void findNeeded();
  void findWrites(Update &update);
  void findCall(Update &update);
  void findParts(Update &update);
  bool readsOnlyWhatItWrites(Update &update);
  bool isReadLater(const Update &update);
  std::optional<SmallVector<Operation *>> findOrder(ArrayRef<Update *> chosen);
  void chooseOneByOne();
  void apply(ArrayRef<Operation *> order);
  void markKernel(const Update &update);
  void markParts(const Update &update, unsigned lastFailure);

  func::FuncOp function;
  Block &block;
  Kernels &kernels;
  Limits limits;
  SmallVector<Update> updates;
  /// What may fail; and that with what it depends on.
  llvm::SmallPtrSet<Operation *, 32> failing, needed;
};

void Planner::findNeeded() {
  for (Operation &op : llvm::reverse(block.without_terminator())) {
    bool isNeeded = mayFail(&op, limits.branchesFirst);
    if (isNeeded)
      failing.insert(&op);
    for (Operation *user : op.getUsers())
      isNeeded |= needed.contains(block.findAncestorOpInBlock(*user));
    if (isNeeded)
      needed.insert(&op);
  }
}

void Planner::findWrites(Update &update) {
  if (newContents(update).getDefiningOp<func::CallOp>())
    findCall(update);
  else
    findParts(update);
  if (update.isInPlace() && isReadLater(update))
    refuse(update, "what it was is read later");
}

/// The kernel that computes an input's new contents, where it stands in the
/// function itself.
void Planner::findCall(Update &update) {
  Value contents = newContents(update);
  auto call = contents.getDefiningOp<func::CallOp>();
  if (call->getBlock() != &block || !kernelOf(call) ||
      kernelOf(call).isExternal())
    return refuse(update, "no kernel computes the new contents");
  if (contents.getType() != block.getArgument(update.input).getType())
    return refuse(update, "the new contents have another layout");
  if (needed.contains(call))
    return refuse(update, "something that may fail needs the kernel's results");
  update.call = call;
  update.number = cast<OpResult>(contents).getResultNumber();
  if (!readsOnlyWhatItWrites(update))
    return refuse(update, Twine(update.reason));
  // One result is in one place.
  for (const Update &other : ArrayRef(updates).drop_back())
    if (other.call == call && other.number == update.number)
      return refuse(update, "two inputs have the same new contents");
}

void Planner::findParts(Update &update) {
  auto writes =
      findPartWrites(newContents(update), block.getArgument(update.input));
  if (!writes)
    return refuse(update, "no kernel computes the new contents");
  if (!limits.parts)
    return refuse(update, "the launch writes parts");
  update.parts = std::move(*writes);
  update.early = llvm::any_of(update.parts, [&](const PartWrite &write) {
    return needed.contains(write.op);
  });
}

bool Planner::readsOnlyWhatItWrites(Update &update) {
  Value input = block.getArgument(update.input);
  for (auto [i, operand] : llvm::enumerate(update.call.getOperands()))
    if (operand == input && !kernels.mayOverlap(kernelOf(update.call), i,
                                                update.number, update.reason))
      return false;
  return true;
}

/// The values that a write takes the memory of, and the writes.
static SmallVector<PartWrite> writesOf(const Planner::Update &update,
                                       Block &block) {
  func::CallOp call = update.call;
  if (!call)
    return update.parts;
  return {
      {call, block.getArgument(update.input), call.getResult(update.number)}};
}

/// Whether what the input was is looked at when it is no more: by the call's
/// results, by a region that hands it on, or by a write itself under another
/// name.
bool Planner::isReadLater(const Update &update) {
  for (const PartWrite &write : writesOf(update, block)) {
    Readers readers = findReaders(write.target, write.op);
    if (readers.escapes || readers.ops.contains(block.getTerminator()) ||
        readers.ops.contains(write.op))
      return true;
  }
  return false;
}

/// Where each operation will stand, if these updates are made in place: whoever
/// looks at an older value in front of the write, and writes that nothing
/// undoes behind all that may fail.
std::optional<SmallVector<Operation *>>
Planner::findOrder(ArrayRef<Update *> chosen) {
  SmallVector<Edge> edges;
  llvm::SmallPtrSet<Operation *, 32> last;
  for (const Update *update : chosen)
    for (const PartWrite &write : writesOf(*update, block)) {
      for (Operation *reader : findReaders(write.target, write.op).ops)
        edges.emplace_back(reader, write.op);
      if (!update->early)
        last.insert(write.op);
    }
  OrderRules rules{edges};
  auto early = [&](Operation *op) { return failing.contains(op); };
  auto late = [&](Operation *op) { return last.contains(op); };
  rules.early = early;
  rules.late = late;
  return orderBlock(block, rules);
}

/// Where not all updates can be in place: those that can beside the ones before
/// them. A part that cannot wait for all that may fail is written earlier.
void Planner::chooseOneByOne() {
  SmallVector<Update *> chosen;
  for (Update &update : updates) {
    if (!update.isInPlace())
      continue;
    chosen.push_back(&update);
    bool fits = findOrder(chosen).has_value();
    if (!fits && !update.parts.empty() && !update.early) {
      update.early = true;
      fits = findOrder(chosen).has_value();
    }
    if (fits)
      continue;
    chosen.pop_back();
    refuse(update, "what it was is read later");
  }
}

void Planner::markKernel(const Update &update) {
  Builder b(function.getContext());
  func::CallOp call = update.call;
  SmallVector<int64_t> list(call.getNumResults(), -1);
  if (auto known = call->getAttrOfType<DenseI64ArrayAttr>(attribute::kInPlace))
    llvm::copy(known.asArrayRef(), list.begin());
  list[update.number] = update.input;
  call->setAttr(attribute::kInPlace, b.getDenseI64ArrayAttr(list));
  func::FuncOp kernel = kernelOf(call);
  SmallVector<Attribute> pairs;
  if (auto known = kernel->getAttrOfType<ArrayAttr>(attribute::kMayOverlap))
    llvm::append_range(pairs, known);
  for (auto [i, operand] : llvm::enumerate(call.getOperands()))
    if (operand == block.getArgument(update.input)) {
      Attribute pair =
          b.getDenseI64ArrayAttr({int64_t(update.number), int64_t(i)});
      if (!llvm::is_contained(pairs, pair))
        pairs.push_back(pair);
    }
  if (!pairs.empty())
    kernel->setAttr(attribute::kMayOverlap, b.getArrayAttr(pairs));
}

/// A vendor call may fail in the middle of what it writes.
void Planner::markParts(const Update &update, unsigned lastFailure) {
  Builder b(function.getContext());
  unsigned position = 0;
  DenseMap<Operation *, unsigned> positions;
  for (Operation &op : block)
    positions[&op] = position++;
  for (const PartWrite &write : update.parts) {
    write.op->setAttr(attribute::kInPlace,
                      b.getDenseI64ArrayAttr({update.input}));
    if (isa<tssa::AtenOp>(write.op) || positions.lookup(write.op) < lastFailure)
      write.op->setAttr(attribute::kUndo, b.getUnitAttr());
  }
}

void Planner::apply(ArrayRef<Operation *> order) {
  applyOrder(block, order);
  unsigned lastFailure = 0;
  for (auto [i, op] : llvm::enumerate(order))
    if (failing.contains(op))
      lastFailure = i;
  for (const Update &update : updates)
    if (update.call)
      markKernel(update);
    else
      markParts(update, lastFailure);
}

void Planner::run() {
  auto given = function->getAttrOfType<ArrayAttr>(attribute::kUpdates);
  findNeeded();
  for (auto pair : given.getAsRange<DenseI64ArrayAttr>())
    findWrites(updates.emplace_back(Update{pair[0], pair[1]}));
  auto chosen = [&] {
    SmallVector<Update *> all;
    for (Update &update : updates)
      if (update.isInPlace())
        all.push_back(&update);
    return all;
  };
  auto order = findOrder(chosen());
  if (!order) {
    chooseOneByOne();
    order = findOrder(chosen());
  }
  if (order)
    apply(*order);
}

struct InPlacePass : impl::FusionInPlaceBase<InPlacePass> {
  using FusionInPlaceBase::FusionInPlaceBase;

  void runOnOperation() override {
    Kernels proofs(reductions);
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      if (!function->hasAttr(attribute::kUpdates) || function.isExternal())
        continue;
      Planner planner(function, proofs, {branchesFirst, parts});
      planner.run();
      for (const auto &update : planner.getUpdates()) {
        ++(update.isInPlace() ? numInPlace : numCopied);
        if (remarks && !update.isInPlace())
          function.emitRemark("input ")
              << update.input << " is copied to at the end: " << update.reason;
      }
    }
  }
};

} // namespace
} // namespace pyjit::fusion
