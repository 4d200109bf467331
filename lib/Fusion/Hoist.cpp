//===- Hoist.cpp - What parameters alone decide is computed once ----------===//

#include "Aten.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "pyjit/Fusion/Passes.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace pyjit::fusion {
#define GEN_PASS_DEF_FUSIONHOISTPARAMETERS
#include "lib/Fusion/Passes.h.inc"

bool ParameterValues::contains(Value value) {
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    auto function = dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp());
    return function &&
           function.getArgAttr(argument.getArgNumber(), "pyjit.param");
  }
  Operation *op = value.getDefiningOp();
  auto it = known.find(op);
  if (it != known.end())
    return it->second;
  // Something that reads nothing is cheap to make again; what has effects or
  // draws random numbers is made at each call.
  bool all = isa<tssa::AtenOp, tssa::AccessOp, tssa::AssignOp>(op) &&
             op->getNumOperands() != 0 &&
             // Packing is not in the operator table, but ours.
             (isMemoryEffectFree(op) || op->hasAttr("pyjit.opaque")) &&
             llvm::all_of(op->getOperands(),
                          [&](Value operand) { return contains(operand); });
  return known[op] = all;
}

namespace {

struct HoistPass : impl::FusionHoistParametersBase<HoistPass> {
  void hoist(func::FuncOp function) {
    ParameterValues parameters;
    Block &body = function.getBody().front();
    // What is computed anyway; a view alone costs nothing and stays.
    llvm::SetVector<Operation *> computed;
    for (Operation &op : body.without_terminator())
      if (op.getNumResults() != 0 && parameters.contains(op.getResult(0)))
        computed.insert(&op);
    llvm::SetVector<Value> results;
    for (Operation *op : computed) {
      if (isa<tssa::AccessOp>(op))
        continue;
      for (Value result : op->getResults())
        for (Operation *user : result.getUsers()) {
          bool inside = computed.contains(user) && !isa<tssa::AccessOp>(user);
          // A view of a hoisted value stays behind, unless only hoisted
          // operations read it.
          if (auto access = dyn_cast<tssa::AccessOp>(user))
            inside = computed.contains(user) &&
                     llvm::all_of(user->getUsers(), [&](Operation *reader) {
                       return computed.contains(reader) &&
                              !isa<tssa::AccessOp>(reader);
                     });
          if (!inside)
            results.insert(result);
        }
    }
    if (results.empty())
      return;
    // Everything that the results need, in order.
    llvm::SetVector<Operation *> needed;
    auto need = [&](auto &&self, Operation *op) -> void {
      if (needed.contains(op))
        return;
      for (Value operand : op->getOperands())
        if (Operation *producer = operand.getDefiningOp())
          self(self, producer);
      needed.insert(op);
    };
    for (Value result : results)
      need(need, result.getDefiningOp());
    llvm::SetVector<Value> inputs;
    for (Operation *op : needed)
      for (Value operand : op->getOperands())
        if (isa<BlockArgument>(operand))
          inputs.insert(operand);

    OpBuilder b(function);
    SmallVector<Type> inputTypes, resultTypes;
    for (Value input : inputs)
      inputTypes.push_back(input.getType());
    for (Value result : results)
      resultTypes.push_back(result.getType());
    auto prepare = func::FuncOp::create(
        b, function.getLoc(), (function.getName() + "_prepare").str(),
        b.getFunctionType(inputTypes, resultTypes));
    Block *entry = prepare.addEntryBlock();
    IRMapping mapping;
    for (auto [i, input] : llvm::enumerate(inputs)) {
      mapping.map(input, entry->getArgument(i));
      prepare.setArgAttr(
          i, "pyjit.input",
          b.getI64IntegerAttr(cast<BlockArgument>(input).getArgNumber()));
    }
    b.setInsertionPointToStart(entry);
    for (Operation *op : needed)
      b.clone(*op, mapping);
    SmallVector<Value> returned;
    for (Value result : results)
      returned.push_back(mapping.lookup(result));
    func::ReturnOp::create(b, function.getLoc(), returned);

    for (unsigned i = 0; i < results.size(); ++i) {
      Value result = results[i];
      unsigned number = function.getNumArguments();
      DictionaryAttr attributes = b.getDictionaryAttr(
          b.getNamedAttr("pyjit.cached", b.getI64IntegerAttr(i)));
      (void)function.insertArgument(number, result.getType(), attributes,
                                    result.getLoc());
      result.replaceAllUsesWith(function.getArgument(number));
    }
    for (Operation *op : llvm::reverse(computed.getArrayRef()))
      if (op->use_empty())
        op->erase();
    numHoisted += results.size();
  }

  void runOnOperation() override {
    SmallVector<func::FuncOp> functions;
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (!function.isExternal() && !function->hasAttr("pyjit.kernel") &&
          function.getBody().hasOneBlock())
        functions.push_back(function);
    for (func::FuncOp function : functions)
      hoist(function);
  }
};

} // namespace
} // namespace pyjit::fusion
