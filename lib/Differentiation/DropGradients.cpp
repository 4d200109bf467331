//===- DropGradients.cpp - Backward programs for some of the results ------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "pyjit/Differentiation/Passes.h"

#include "GradientBuilder.h"

#include "dialects/pyjit/IR/Attributes.h"
#include "pyjit/Operators/OperatorNames.h"

#include "llvm/ADT/BitVector.h"

namespace pyjit::differentiation {
#define GEN_PASS_DEF_DROPGRADIENTSPASS
#include "lib/Differentiation/Passes.h.inc"
} // namespace pyjit::differentiation

using namespace mlir;
using namespace pyjit;
using namespace pyjit::differentiation;
using tssa::typeOf;

namespace {

class Dropping {
public:
  Dropping(func::FuncOp backward, ArrayRef<int64_t> results, bool stop)
      : backward(backward), block(backward.front()), builder(backward) {
    if (stop)
      stopsAt.insert_range(results);
    for (BlockArgument argument : block.getArguments()) {
      auto number = backward.getArgAttrOfType<IntegerAttr>(
          argument.getArgNumber(), attribute::kGradient);
      if (!number)
        continue;
      carries.insert(argument);
      if (llvm::is_contained(results, number.getInt()))
        dropped.insert(argument);
    }
  }

  void run() {
    for (Operation &op : llvm::make_early_inc_range(block.without_terminator()))
      if (auto at = op.getAttrOfType<IntegerAttr>(attribute::kGradientAt);
          at && stopsAt.contains(at.getInt()))
        stopAt(&op, at.getInt());
      else
        visit(&op);
    dropResults();
    tssa::eraseUnused(block);
    dropArguments();
  }

private:
  /// Whether a value is a gradient, or computed from one.
  bool isGradient(Value value) const { return carries.contains(value); }
  bool isDropped(Value value) const { return dropped.contains(value); }

  void visit(Operation *op) {
    bool some = llvm::any_of(op->getOperands(),
                             [&](Value value) { return isGradient(value); });
    if (!some)
      return;
    carries.insert(op->result_begin(), op->result_end());
    if (llvm::none_of(op->getOperands(),
                      [&](Value value) { return isDropped(value); }))
      return;
    bool all = llvm::all_of(op->getOperands(), [&](Value value) {
      return !isGradient(value) || isDropped(value);
    });
    if (all) {
      dropped.insert(op->result_begin(), op->result_end());
      return;
    }
    builder.setInsertionPoint(op);
    if (Value other = otherSummand(op))
      return op->getResult(0).replaceAllUsesWith(other);
    GradientBuilder build(builder, op->getLoc());
    for (OpOperand &operand : op->getOpOperands())
      if (isDropped(operand.get()))
        operand.set(build.zeros(typeOf(operand.get())));
  }

  /// Gives what is left of the sum, and lets nothing go on from there.
  void stopAt(Operation *op, int64_t result) {
    Value sum = op->getResult(0), whole = sum;
    Value behind = block.addArgument(sum.getType(), op->getLoc());
    whole.replaceAllUsesWith(behind);
    // Who takes the sum's place is told by a user of it.
    auto returned = cast<func::ReturnOp>(block.getTerminator());
    unsigned place = returned.getNumOperands();
    returned->insertOperands(place, sum);
    visit(op);
    if (isDropped(sum))
      returned->eraseOperand(place);
    else
      stops.push_back(result);
    carries.insert(behind);
    dropped.insert(behind);
  }

  /// What is left of a sum, as a value of the sum's type; null where `op` is
  /// none.
  Value otherSummand(Operation *op) {
    auto call = dyn_cast<tssa::AtenOp>(op);
    if (!call || call.getOverload() != operators::aten::add_Tensor ||
        call.getInputs().size() != 2 || tssa::numberArgument(call, 2) != 1.0)
      return {};
    Value other = call.getInputs()[isDropped(call.getInputs()[0])];
    RankedTensorType type = typeOf(call.getResult(0));
    GradientBuilder build(builder, op->getLoc());
    if (tssa::getSizes(typeOf(other)) != tssa::getSizes(type))
      return {};
    Value made =
        build.layOut(build.convert(other, type.getElementType()), type);
    carries.insert(made);
    return made;
  }

  /// Gradients that nothing is left of; what is known of each goes with it.
  void dropResults() {
    auto returned = cast<func::ReturnOp>(block.getTerminator());
    auto inputs =
        backward->getAttrOfType<DenseI64ArrayAttr>(attribute::kGradientInputs);
    SmallVector<Value> results;
    ValueRange behind = returned.getOperands().drop_front(inputs.size());
    SmallVector<int64_t> left;
    SmallVector<bool> isLeft;
    for (auto [value, input] :
         llvm::zip(returned.getOperands(), inputs.asArrayRef())) {
      isLeft.push_back(!isDropped(value));
      if (!isLeft.back())
        continue;
      results.push_back(value);
      left.push_back(input);
    }
    llvm::append_range(results, behind);
    returned.getOperandsMutable().assign(results);
    if (!stops.empty())
      backward->setAttr(attribute::kStops, builder.getDenseI64ArrayAttr(stops));
    backward->setAttr(attribute::kGradientInputs,
                      builder.getDenseI64ArrayAttr(left));
    for (StringRef name : {attribute::kGroups, attribute::kLeads,
                           attribute::kReachesDirectly, attribute::kKeeps})
      backward->removeAttr(name);
    for (StringRef name :
         {attribute::kReaches, attribute::kReads, attribute::kVariesWith}) {
      SmallVector<Attribute> lists;
      for (auto [list, stays] : llvm::zip(
               backward->getAttrOfType<ArrayAttr>(name).getValue(), isLeft))
        if (stays)
          lists.push_back(list);
      backward->setAttr(name, builder.getArrayAttr(lists));
    }
  }

  /// Those that nothing reads, not even a size.
  void dropArguments() {
    auto symbols = backward->getAttrOfType<ArrayAttr>(attribute::kSymbols);
    llvm::BitVector gone(block.getNumArguments());
    for (BlockArgument argument : block.getArguments())
      if (argument.use_empty())
        gone.set(argument.getArgNumber());
    SmallVector<SmallVector<int64_t>> places;
    if (symbols)
      for (auto place : symbols.getAsRange<DenseI64ArrayAttr>()) {
        places.emplace_back(place.asArrayRef());
        gone.reset(unsigned(place[0]));
      }
    SmallVector<Attribute> moved;
    for (auto &place : places) {
      for (int64_t before = place[0]; before-- > 0;)
        place[0] -= gone.test(unsigned(before));
      moved.push_back(builder.getDenseI64ArrayAttr(place));
    }
    if (symbols)
      backward->setAttr(attribute::kSymbols, builder.getArrayAttr(moved));
    (void)backward.eraseArguments(gone);
    backward.setFunctionType(builder.getFunctionType(
        block.getArgumentTypes(),
        ValueRange(block.getTerminator()->getOperands()).getTypes()));
  }

  func::FuncOp backward;
  Block &block;
  OpBuilder builder;
  llvm::SmallDenseSet<int64_t> stopsAt; ///< gradients of these go no further
  SmallVector<int64_t> stops;           ///< and some come there
  llvm::DenseSet<Value> carries, dropped;
};

struct DropGradients
    : pyjit::differentiation::impl::DropGradientsPassBase<DropGradients> {
  using DropGradientsPassBase::DropGradientsPassBase;

  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (!function->hasAttr(attribute::kReaches) || dropped.empty() ||
        !function.getBody().hasOneBlock())
      return;
    if (failed(checkDescription(function)))
      return signalPassFailure();
    Dropping(function, dropped, stop).run();
  }

  /// Whether `tssa-partition` can have left the program.
  static LogicalResult checkDescription(func::FuncOp function) {
    auto inputs =
        function->getAttrOfType<DenseI64ArrayAttr>(attribute::kGradientInputs);
    if (!inputs || inputs.size() > function.getNumResults())
      return function.emitError("has '")
             << attribute::kReaches << "', and no '"
             << attribute::kGradientInputs << "' that number its results";
    for (StringRef name :
         {attribute::kReaches, attribute::kReads, attribute::kVariesWith}) {
      auto lists = function->getAttrOfType<ArrayAttr>(name);
      if (!lists || lists.size() != size_t(inputs.size()))
        return function.emitError("'")
               << name << "' has a list for each of " << int64_t(inputs.size())
               << " gradients";
    }
    return success();
  }
};

} // namespace
