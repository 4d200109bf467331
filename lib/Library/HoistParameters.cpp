//===- HoistParameters.cpp - What depends on parameters alone -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "dialects/pyjit/IR/Attributes.h"
#include "pyjit/Library/Passes.h"

#include "Calls.h"
#include "ValueDigests.h"

#include "dialects/tssa/IR/KnownElements.h"
#include "pyjit/Operators/CallArguments.h"

#include "mlir/IR/IRMapping.h"

#include "llvm/ADT/SetVector.h"

namespace pyjit::library {
#define GEN_PASS_DEF_HOISTPARAMETERSPASS
#include "lib/Library/Passes.h.inc"
} // namespace pyjit::library

using namespace mlir;
using namespace pyjit;
using namespace pyjit::library;

namespace {

/// A view costs nothing at run time; what it shows needs no keeping.
bool isView(Operation *op) { return isa<tssa::AccessOp>(op); }

/// What lives on the host though the program runs on a device.
bool isOnHost(func::FuncOp function, Value value) {
  if (auto arg = dyn_cast<BlockArgument>(value))
    return function.getArgAttr(arg.getArgNumber(), attribute::kDevice) !=
           nullptr;
  Operation *op = value.getDefiningOp();
  return isView(op) ? isOnHost(function, op->getOperand(0))
                    : op->hasAttr(attribute::kDevice);
}

/// What is computed once per parameter may not follow the sizes of a call.
bool dependsOnSymbols(Operation *op) {
  if (isa<tssa::SizeOp>(op))
    return true;
  auto isSymbolic = [](Type type) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    return tensor && isa_and_nonnull<tssa::LayoutAttr>(tensor.getEncoding());
  };
  if (llvm::any_of(op->getResultTypes(), isSymbolic) ||
      llvm::any_of(op->getOperandTypes(), isSymbolic))
    return true;
  if (auto call = dyn_cast<tssa::AtenOp>(op))
    return operators::hasSizeArgument(call.getArgs());
  ArrayAttr path;
  if (auto access = dyn_cast<tssa::AccessOp>(op))
    path = access.getPath();
  if (auto assign = dyn_cast<tssa::AssignOp>(op))
    path = assign.getPath();
  return path && llvm::any_of(path.getAsRange<tssa::ViewAttr>(),
                              [](tssa::ViewAttr v) { return v.isSymbolic(); });
}

struct HoistParameters
    : pyjit::library::impl::HoistParametersPassBase<HoistParameters> {

  using HoistParametersPassBase::HoistParametersPassBase;

  /// Says of each result what it is computed by and from, so that values of
  /// several programs can be taken for one another.
  void describeResults(func::FuncOp prepare, ArrayRef<Value> results) {
    Builder builder(prepare.getContext());
    Attribute dtype = prepare->getAttr(attribute::kDefaultDtype);
    ValueDigests digests(
        builder.getArrayAttr({builder.getI64IntegerAttr(variant),
                              dtype ? dtype : builder.getUnitAttr()}));
    SmallVector<Attribute> names, sources;
    for (Value value : results) {
      const ValueDigests::Digest &digest = digests.of(value);
      names.push_back(builder.getStringAttr(printDigest(digest)));
      sources.push_back(builder.getDenseI64ArrayAttr(
          SmallVector<int64_t>(digest.sources.begin(), digest.sources.end())));
    }
    prepare->setAttr(attribute::kDigests, builder.getArrayAttr(names));
    prepare->setAttr(attribute::kSources, builder.getArrayAttr(sources));
  }

  void hoist(func::FuncOp function) {
    // In order, so that a member's operands are members or parameters.
    llvm::SetVector<Operation *> members;
    for (Operation &op : function.front().without_terminator()) {
      // What is already linalg is part of a matmul with the call's inputs.
      bool pure = isa<tssa::TSSADialect>(op.getDialect()) &&
                  tssa::mayMove(&op) && op.getNumRegions() == 0 &&
                  !op.hasAttr(attribute::kReadThrough) &&
                  !dependsOnSymbols(&op);
      if (pure && llvm::all_of(op.getOperands(), [&](Value operand) {
            if (auto arg = dyn_cast<BlockArgument>(operand))
              return isLastingParameter(arg);
            return members.contains(operand.getDefiningOp());
          }))
        members.insert(&op);
    }
    // Kept are values that the rest uses; of a view, what it is a view of, and
    // the view stays where it was too. So does what lives on the host: numbers.
    llvm::SetVector<Value> kept;
    llvm::SmallPtrSet<Operation *, 8> staying;
    for (Operation *op : llvm::reverse(members)) {
      bool isLiveOut = llvm::any_of(op->getUsers(), [&](Operation *user) {
        return !members.contains(user) || staying.contains(user);
      });
      bool cheap = isView(op) || llvm::any_of(op->getResults(), [&](Value r) {
                     return isOnHost(function, r);
                   });
      if (isLiveOut && cheap)
        staying.insert(op);
      else if (isLiveOut)
        kept.insert_range(op->getResults());
    }
    kept.remove_if([](Value value) { return value.use_empty(); });
    if (kept.empty())
      return;

    OpBuilder builder(function);
    builder.setInsertionPointAfter(function);
    auto prepare = func::FuncOp::create(builder, function.getLoc(),
                                        (function.getName() + "_prepare").str(),
                                        builder.getFunctionType({}, {}));
    prepare->setAttr(attribute::kPrepare, builder.getUnitAttr());
    for (StringRef name : {attribute::kDevice, attribute::kDefaultDtype})
      if (Attribute attribute = function->getAttr(name))
        prepare->setAttr(name, attribute);
    Block *body = prepare.addEntryBlock();
    builder.setInsertionPointToEnd(body);
    IRMapping mapping;
    SmallVector<int64_t> inputs;
    for (Operation *op : members) {
      for (Value operand : op->getOperands()) {
        if (mapping.contains(operand))
          continue;
        auto arg = cast<BlockArgument>(operand);
        mapping.map(operand, body->addArgument(arg.getType(), arg.getLoc()));
        inputs.push_back(arg.getArgNumber());
      }
      builder.clone(*op, mapping);
    }
    SmallVector<Value> results;
    for (Value value : kept)
      results.push_back(mapping.lookup(value));
    func::ReturnOp::create(builder, function.getLoc(), results);
    prepare.setFunctionType(builder.getFunctionType(
        body->getArgumentTypes(), ValueRange(results).getTypes()));
    // What is on a device stays where its captured graphs find it.
    if (!function->hasAttr(attribute::kDevice))
      describeResults(prepare, results);
    for (auto [i, input] : llvm::enumerate(inputs)) {
      prepare.setArgAttr(i, attribute::kInput,
                         builder.getI64IntegerAttr(input));
      if (Attribute device = function.getArgAttr(input, attribute::kDevice))
        prepare.setArgAttr(i, attribute::kDevice, device);
    }

    for (auto [i, value] : llvm::enumerate(kept)) {
      unsigned number = function.getNumArguments();
      SmallVector<NamedAttribute> attributes{builder.getNamedAttr(
          attribute::kCached, builder.getI64IntegerAttr(i))};
      if (Attribute known = tssa::getKnownElements(value))
        attributes.push_back(builder.getNamedAttr(attribute::kElements, known));
      (void)function.insertArgument(number, value.getType(),
                                    builder.getDictionaryAttr(attributes),
                                    value.getLoc());
      Value(value).replaceAllUsesWith(function.getArgument(number));
    }
    for (Operation *op : llvm::reverse(members))
      if (op->use_empty())
        op->erase();
  }

  void runOnOperation() override {
    for (auto function :
         llvm::make_early_inc_range(getOperation().getOps<func::FuncOp>()))
      // A backward program has no parameters; what is left of it is constants.
      if (!function.isExternal() && function.getBody().hasOneBlock() &&
          !function->hasAttr(attribute::kKernel) &&
          !function->hasAttr(attribute::kGradientInputs))
        hoist(function);
  }
};

} // namespace
