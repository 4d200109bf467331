//===- InPlace.cpp - Kernels that write inputs where they lie -------------===//
//
// Contract: in, functions of kernel calls whose kernels have bodies; out, the
// same with the calls marked whose results are inputs' memory, those behind
// everything that may fail. See the pass's description for what is proven.
//
//===----------------------------------------------------------------------===//

#include "dialects/pyjit/IR/Attributes.h"
#include "dialects/tssa/IR/TSSA.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "pyjit/Codegen/KernelModule.h"
#include "pyjit/Codegen/Overlap.h"
#include "pyjit/Fusion/Passes.h"
#include <map>

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

class Planner {
public:
  Planner(func::FuncOp function, Kernels &kernels, bool branchesFirst)
      : function(function), block(function.front()), kernels(kernels),
        branchesFirst(branchesFirst) {}

  struct Update {
    int64_t result, input;
    func::CallOp call; ///< null: copied at the end
    unsigned number = 0;
    std::string reason = {};
  };

  void run();
  ArrayRef<Update> getUpdates() const { return updates; }

private:
  Value newContents(const Update &update) {
    return block.getTerminator()->getOperand(update.result);
  }
  void refuse(Update &update, const Twine &why) {
    update.call = {};
    update.reason = why.str();
  }
  func::FuncOp kernelOf(func::CallOp call) {
    return SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(
        function, call.getCalleeAttr());
  }

  void findNeeded();
  void findCall(Update &update);
  bool readsOnlyWhatItWrites(Update &update);
  DenseMap<Operation *, unsigned> findOrder();
  bool isReadBehind(const Update &update,
                    const DenseMap<Operation *, unsigned> &order);
  void apply(const DenseMap<Operation *, unsigned> &order);

  func::FuncOp function;
  Block &block;
  Kernels &kernels;
  bool branchesFirst;
  SmallVector<Update> updates;
  /// What may fail, and what that depends on.
  llvm::SmallPtrSet<Operation *, 32> needed;
};

void Planner::findNeeded() {
  for (Operation &op : llvm::reverse(block.without_terminator())) {
    bool isNeeded = mayFail(&op, branchesFirst);
    for (Operation *user : op.getUsers())
      isNeeded |= needed.contains(block.findAncestorOpInBlock(*user));
    if (isNeeded)
      needed.insert(&op);
  }
}

/// The kernel that computes an input's new contents, where it stands in the
/// function itself.
void Planner::findCall(Update &update) {
  Value contents = newContents(update);
  auto call = contents.getDefiningOp<func::CallOp>();
  if (!call || call->getBlock() != &block || !kernelOf(call) ||
      kernelOf(call).isExternal())
    return refuse(update, "no kernel computes the new contents");
  if (contents.getType() != block.getArgument(update.input).getType())
    return refuse(update, "the new contents have another layout");
  if (needed.contains(call))
    return refuse(update, "something that may fail needs the kernel's results");
  update.call = call;
  update.number = cast<OpResult>(contents).getResultNumber();
}

bool Planner::readsOnlyWhatItWrites(Update &update) {
  Value input = block.getArgument(update.input);
  for (auto [i, operand] : llvm::enumerate(update.call.getOperands()))
    if (operand == input && !kernels.mayOverlap(kernelOf(update.call), i,
                                                update.number, update.reason))
      return false;
  return true;
}

/// Where each operation will stand: kernels that write inputs, and what depends
/// on them, come behind all others.
DenseMap<Operation *, unsigned> Planner::findOrder() {
  llvm::SmallPtrSet<Operation *, 32> last;
  for (const Update &update : updates)
    if (update.call)
      last.insert(update.call);
  SmallVector<Operation *> first, behind;
  for (Operation &op : block.without_terminator()) {
    bool depends = last.contains(&op);
    op.walk([&](Operation *inner) {
      for (Value operand : inner->getOperands())
        if (Operation *producer = operand.getDefiningOp())
          depends |= last.contains(producer);
    });
    if (depends)
      last.insert(&op);
    (depends ? behind : first).push_back(&op);
  }
  first.append(behind);
  DenseMap<Operation *, unsigned> order;
  for (auto [i, op] : llvm::enumerate(first))
    order[op] = i;
  order[block.getTerminator()] = first.size();
  return order;
}

/// Whether what the input was is looked at behind the call, or by the call
/// itself through a view. What hands a value on is another name for it.
bool Planner::isReadBehind(const Update &update,
                           const DenseMap<Operation *, unsigned> &order) {
  unsigned here = order.lookup(update.call);
  SmallVector<Value> names{block.getArgument(update.input)};
  llvm::SmallDenseSet<Value> seen(names.begin(), names.end());
  while (!names.empty()) {
    Value name = names.pop_back_val();
    for (OpOperand &use : name.getUses()) {
      Operation *user = use.getOwner();
      Operation *top = block.findAncestorOpInBlock(*user);
      bool isItself =
          user == update.call && name == block.getArgument(update.input);
      if (!isItself && order.lookup(top) >= here)
        return true;
      if (user != top && user->hasTrait<OpTrait::IsTerminator>())
        return true;
      if (isa<func::CallOp, tssa::AtenOp>(user))
        continue;
      // An assignment's result is memory of its own, as is what a loop carries,
      // but to say so of every operation is not needed.
      for (Value result : user->getResults())
        if (seen.insert(result).second)
          names.push_back(result);
    }
  }
  return false;
}

void Planner::apply(const DenseMap<Operation *, unsigned> &order) {
  SmallVector<Operation *> ops;
  for (Operation &op : block.without_terminator())
    ops.push_back(&op);
  llvm::sort(ops, [&](Operation *a, Operation *b) {
    return order.lookup(a) < order.lookup(b);
  });
  for (Operation *op : ops)
    op->moveBefore(block.getTerminator());

  Builder b(function.getContext());
  std::map<Operation *, SmallVector<int64_t>> places;
  for (const Update &update : updates) {
    func::CallOp call = update.call;
    if (!call)
      continue;
    auto &list = places[call];
    list.resize(call.getNumResults(), -1);
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
}

void Planner::run() {
  auto given = function->getAttrOfType<ArrayAttr>(attribute::kUpdates);
  findNeeded();
  for (auto pair : given.getAsRange<DenseI64ArrayAttr>()) {
    Update &update = updates.emplace_back(Update{pair[0], pair[1], {}});
    findCall(update);
    if (update.call && !readsOnlyWhatItWrites(update))
      refuse(update, update.reason);
    // One result is in one place.
    for (const Update &other : ArrayRef(updates).drop_back())
      if (update.call && other.call == update.call &&
          other.number == update.number)
        refuse(update, "two inputs have the same new contents");
  }
  DenseMap<Operation *, unsigned> order;
  for (bool changed = true; changed;) {
    changed = false;
    order = findOrder();
    for (Update &update : updates)
      if (update.call && isReadBehind(update, order)) {
        refuse(update, "what it was is read later");
        changed = true;
      }
  }
  apply(order);
}

struct InPlacePass : impl::FusionInPlaceBase<InPlacePass> {
  using FusionInPlaceBase::FusionInPlaceBase;

  void runOnOperation() override {
    Kernels proofs(reductions);
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      if (!function->hasAttr(attribute::kUpdates) || function.isExternal())
        continue;
      Planner planner(function, proofs, branchesFirst);
      planner.run();
      for (const auto &update : planner.getUpdates()) {
        ++(update.call ? numInPlace : numCopied);
        if (remarks && !update.call)
          function.emitRemark("input ")
              << update.input << " is copied to at the end: " << update.reason;
      }
    }
  }
};

} // namespace
} // namespace pyjit::fusion
