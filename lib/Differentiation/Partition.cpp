//===- Partition.cpp - Forward and backward of a joint program ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "pyjit/Differentiation/Passes.h"

#include "ChooseSaved.h"
#include "SeenInputs.h"

#include "dialects/pyjit/IR/Attributes.h"
#include "dialects/tssa/IR/Calls.h"
#include "dialects/tssa/IR/Views.h"

#include "pyjit/Operators/OperatorFacts.h"

#include "mlir/IR/IRMapping.h"

#include "llvm/ADT/EquivalenceClasses.h"
#include "llvm/ADT/MapVector.h"

namespace pyjit::differentiation {
#define GEN_PASS_DEF_PARTITIONPASS
#include "lib/Differentiation/Passes.h.inc"
} // namespace pyjit::differentiation

using namespace mlir;
using namespace pyjit;
using namespace pyjit::differentiation;

namespace {

//===----------------------------------------------------------------------===//
// One joint program
//===----------------------------------------------------------------------===//

class Partition : JointProgram {
public:
  Partition(func::FuncOp joint, bool parametersLast)
      : JointProgram{joint}, parametersLast(parametersLast) {
    for (unsigned i = 0; i < joint.getNumArguments(); ++i)
      if (joint.getArgAttr(i, attribute::kGradient))
        gradients.push_back(joint.getArgument(i));
    numInputs = joint.getNumArguments() - unsigned(gradients.size());
    if (auto views =
            joint->getAttrOfType<IntegerAttr>(attribute::kGradientViews))
      numViews = unsigned(views.getInt());
    numGradients =
        joint->getAttrOfType<DenseI64ArrayAttr>(attribute::kGradientInputs)
            .size();
    numResults = joint.getNumResults() - numViews - numGradients;
  }

  LogicalResult run() {
    if (failed(checkJoint()))
      return failure();
    // What no gradient came of is not to be given anything.
    tssa::eraseUnused(block);
    mergeSeenInputs(block);
    isBackward.clear(); // some are gone
    findBackward();
    findForward();
    std::tie(saved, repeated) = chooseSaved(*this);
    findOfSaved();
    numberResults();
    joint.walk([](Operation *op) { op->removeAttr(attribute::kSavedInEager); });
    func::FuncOp backward = makeBackward();
    if (!backward)
      return failure();
    describeDependences(backward);
    describeGroups(backward);
    describeLeads(backward);
    joint.walk([](Operation *op) { op->removeAttr(attribute::kGradientAt); });
    reduceToForward();
    return success();
  }

private:
  /// Whether `tssa-differentiate` can have left the program.
  LogicalResult checkJoint() {
    if (joint.getNumResults() < numViews + numGradients)
      return joint.emitError("has ")
             << joint.getNumResults() << " results, but " << numViews
             << " views and " << numGradients
             << " gradients are to be among them: tssa-differentiate comes "
                "before tssa-partition";
    for (int64_t input :
         joint->getAttrOfType<DenseI64ArrayAttr>(attribute::kGradientInputs)
             .asArrayRef())
      if (input >= int64_t(numInputs))
        return joint.emitError("gives a gradient of input ")
               << input << " of " << numInputs;
    for (BlockArgument gradient : gradients) {
      if (gradient.getArgNumber() < numInputs)
        return joint.emitError("takes an input behind the gradient ")
               << gradient.getArgNumber();
      if (resultOf(gradient) >= int64_t(numResults + numViews))
        return joint.emitError("takes a gradient of result ")
               << resultOf(gradient) << " of " << numResults + numViews;
    }
    findBackward();
    for (auto [i, result] : llvm::enumerate(shownResults()))
      if (!isBeforeGradients(result))
        return joint.emitError("computes result ")
               << i << " of gradients that come when it is there";
    return success();
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

  /// Of each gradient, the gradients and inputs that it is computed from, and
  /// the inputs that it varies with.
  void describeDependences(func::FuncOp backward) {
    Dependences dependences = findDependences(/*ifVarying=*/false);
    Dependences variations = findDependences(/*ifVarying=*/true);
    Builder builder(joint.getContext());
    SmallVector<Attribute> reaches, reads, variesWith;
    auto inputsIn = [&](const llvm::BitVector &arguments) {
      SmallVector<int64_t> inputs;
      for (unsigned i : arguments.set_bits())
        if (i < numInputs)
          inputs.push_back(i);
      return builder.getDenseI64ArrayAttr(inputs);
    };
    for (Value result : gradientResults()) {
      SmallVector<int64_t> numbers;
      for (BlockArgument gradient : gradients)
        if (dependences[result].test(gradient.getArgNumber()))
          numbers.push_back(resultOf(gradient));
      reaches.push_back(builder.getDenseI64ArrayAttr(numbers));
      reads.push_back(inputsIn(dependences[result]));
      variesWith.push_back(inputsIn(variations[result]));
    }
    backward->setAttr(attribute::kReaches, builder.getArrayAttr(reaches));
    backward->setAttr(attribute::kReads, builder.getArrayAttr(reads));
    backward->setAttr(attribute::kVariesWith, builder.getArrayAttr(variesWith));
  }

  /// Of each value, the arguments that it is computed from; `ifVarying`,
  /// without those that it reads and does not vary with.
  using Dependences = llvm::DenseMap<Value, llvm::BitVector>;
  Dependences findDependences(bool ifVarying) {
    Dependences arguments;
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
      auto call = dyn_cast<tssa::AtenOp>(op);
      if (!call || !ifVarying)
        continue;
      for (OpResult result : op.getResults()) {
        arguments[result].reset();
        for (OpOperand &operand : op.getOpOperands())
          if (!isConstantIn(call, result.getResultNumber(),
                            operand.getOperandNumber()))
            arguments[result] |= arguments[operand.get()];
      }
    }
    return arguments;
  }

  /// Whether a result does not vary with an operand.
  static bool isConstantIn(tssa::AtenOp call, unsigned result,
                           unsigned operand) {
    const operators::OperatorFacts &facts =
        operators::lookupFacts(call.getOverload());
    return (facts.makesTensor && operand == 0) ||
           (facts.drawsMask && operand == 0 && result == 1) ||
           (facts.linearGradients && operand == result + 1);
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
          readsSaved |= isOfSaved(operand);
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

  /// What the backward program is given, and what it computes of such.
  void findOfSaved() {
    ofSaved.insert_range(saved);
    for (Operation &op : block.without_terminator()) {
      if (!repeated.contains(&op))
        continue;
      bool found = false;
      forEachOperand(
          &op, [&](Value operand) { found |= ofSaved.contains(operand); });
      if (found)
        ofSaved.insert_range(op.getResults());
    }
  }
  bool isOfSaved(Value value) const { return ofSaved.contains(value); }

  /// Results that were computed from others. In eager, a backward from one goes
  /// by way of these, where somebody may look at the gradient, or be the only
  /// one who wants it.
  void describeLeads(func::FuncOp backward) {
    unsigned count = gradients.size();
    llvm::SmallDenseMap<int64_t, unsigned> places;
    llvm::DenseMap<Value, llvm::BitVector> from;
    for (auto [i, gradient] : llvm::enumerate(gradients)) {
      places[resultOf(gradient)] = i;
      from[gradient].resize(count);
      from[gradient].set(i);
    }
    SmallVector<llvm::BitVector> leads(count, llvm::BitVector(count));
    llvm::BitVector keeps(count);
    for (Operation &op : block.without_terminator()) {
      if (!isBackward.contains(&op))
        continue;
      llvm::BitVector all(count);
      bool readsSaved = false;
      forEachOperand(&op, [&](Value operand) {
        readsSaved |= isBeforeGradients(operand) && isOfSaved(operand);
        all |= from[operand];
      });
      if (readsSaved)
        keeps |= all;
      if (auto at = op.getAttrOfType<IntegerAttr>(attribute::kGradientAt)) {
        unsigned own = places[at.getInt()];
        for (unsigned i : all.set_bits())
          if (i != own)
            leads[i].set(own);
        all.reset();
        all.set(own);
      }
      for (Value result : op.getResults())
        from[result] = all;
    }
    if (count < 2)
      return;
    Builder builder(joint.getContext());
    auto numbers = [&](const llvm::BitVector &some) {
      SmallVector<int64_t> list;
      for (unsigned i : some.set_bits())
        list.push_back(resultOf(gradients[i]));
      return builder.getDenseI64ArrayAttr(list);
    };
    backward->setAttr(attribute::kKeeps, numbers(keeps));
    if (llvm::none_of(leads, [](auto &list) { return list.any(); }))
      return;
    SmallVector<Attribute> lists, direct;
    for (const llvm::BitVector &list : leads)
      lists.push_back(numbers(list));
    for (Value result : gradientResults())
      direct.push_back(numbers(from.try_emplace(result, count).first->second));
    backward->setAttr(attribute::kLeads, builder.getArrayAttr(lists));
    backward->setAttr(attribute::kReachesDirectly,
                      builder.getArrayAttr(direct));
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

  /// The device of what an operator computes elsewhere than where the program
  /// runs; null: there, or it is an argument.
  static Attribute deviceOf(Value value) {
    while (auto view = value.getDefiningOp<tssa::AccessOp>())
      value = view.getSource();
    Operation *op = value.getDefiningOp();
    return op ? op->getAttr(attribute::kDevice) : Attribute();
  }

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
    SmallVector<Attribute> devices; // of saved results: null, the program's own
    auto take = [&](Value value, StringRef source, int64_t number) {
      mapping.map(value, body->addArgument(value.getType(), value.getLoc()));
      sources.emplace_back(source, number);
      devices.push_back(deviceOf(value));
    };
    for (Value value : saved)
      if (auto argument = dyn_cast<BlockArgument>(value))
        take(value, attribute::kInput, argument.getArgNumber());
      else if (BlockArgument input = getSeenInput(value))
        take(value, attribute::kSeen, input.getArgNumber());
      else
        take(value, attribute::kResult, numberOfSaved(value));
    for (BlockArgument gradient : gradients)
      take(gradient, attribute::kGradient, resultOf(gradient));
    for (Operation &op : block.without_terminator())
      if (isBackward.contains(&op) || repeated.contains(&op))
        builder.clone(op, mapping);
    SmallVector<Value> results;
    for (Value result : gradientResults())
      results.push_back(mapping.lookup(result));
    func::ReturnOp::create(builder, joint.getLoc(), results);
    function.setFunctionType(builder.getFunctionType(
        body->getArgumentTypes(), ValueRange(results).getTypes()));
    for (auto [i, source] : llvm::enumerate(sources)) {
      function.setArgAttr(i, source.first,
                          builder.getI64IntegerAttr(source.second));
      if (source.first == attribute::kInput || source.first == attribute::kSeen)
        for (StringRef name : {attribute::kDevice, attribute::kElements})
          if (Attribute known = joint.getArgAttr(source.second, name))
            function.setArgAttr(i, name, known);
      if (devices[i])
        function.setArgAttr(i, attribute::kDevice, devices[i]);
    }
    return succeeded(nameSymbols(function)) ? function : func::FuncOp();
  }

  /// The forward program's results are those that the call shows, and then
  /// saved values that are none of these. Views, which it does not give, have
  /// the numbers behind.
  void numberResults() {
    for (Value value : saved)
      if (!isa<BlockArgument>(value) && !getSeenInput(value) &&
          !llvm::is_contained(shownResults(), value))
        added.push_back(value);
    Builder builder(joint.getContext());
    auto renumber = [&](int64_t number) {
      return number < int64_t(numResults) ? number
                                          : number + int64_t(added.size());
    };
    for (BlockArgument gradient : gradients)
      joint.setArgAttr(gradient.getArgNumber(), attribute::kGradient,
                       builder.getI64IntegerAttr(renumber(resultOf(gradient))));
    joint.walk([&](Operation *op) {
      if (auto at = op->getAttrOfType<IntegerAttr>(attribute::kGradientAt))
        op->setAttr(attribute::kGradientAt,
                    builder.getI64IntegerAttr(renumber(at.getInt())));
    });
    auto results =
        joint->getAttrOfType<DenseI64ArrayAttr>(attribute::kGradientResults);
    joint->setAttr(attribute::kGradientResults,
                   builder.getDenseI64ArrayAttr(
                       llvm::map_to_vector(results.asArrayRef(), renumber)));
  }

  /// Which result of the forward program a saved value is.
  int64_t numberOfSaved(Value value) const {
    ValueRange shown = shownResults();
    if (auto own = llvm::find(shown, value); own != shown.end())
      return own - shown.begin();
    return numResults + (llvm::find(added, value) - added.begin());
  }

  /// Where the backward program reads the sizes that differ between calls: of
  /// an argument that has one as a dimension.
  LogicalResult nameSymbols(func::FuncOp function) {
    auto symbols = joint->getAttrOfType<ArrayAttr>(attribute::kSymbols);
    if (!symbols)
      return success();
    SmallVector<Attribute> places;
    for (auto [symbol, own] :
         llvm::enumerate(symbols.getAsRange<DenseI64ArrayAttr>())) {
      Attribute place = findSymbol(function, symbol);
      if (!place)
        place = takeForSize(function, own[0], own[1]);
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

  /// Gives the backward program an input of which it reads a size alone.
  Attribute takeForSize(func::FuncOp function, int64_t input, int64_t dim) {
    BlockArgument argument = joint.getArgument(unsigned(input));
    if (!isa<RankedTensorType>(argument.getType()))
      return {};
    Builder builder(joint.getContext());
    SmallVector<NamedAttribute> attributes{builder.getNamedAttr(
        attribute::kInput, builder.getI64IntegerAttr(input))};
    for (StringRef name : {attribute::kDevice, attribute::kElements})
      if (Attribute known = joint.getArgAttr(unsigned(input), name))
        attributes.push_back(builder.getNamedAttr(name, known));
    unsigned place = function.getNumArguments();
    if (failed(function.insertArgument(place, argument.getType(),
                                       builder.getDictionaryAttr(attributes),
                                       argument.getLoc())))
      return {};
    return builder.getDenseI64ArrayAttr({int64_t(place), dim});
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
    joint->removeAttr(attribute::kGradientViews);
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

  bool parametersLast;
  unsigned numGradients = 0; ///< of inputs, the last results
  llvm::SetVector<Value> saved;
  llvm::SmallPtrSet<Operation *, 32> repeated;
  llvm::DenseSet<Value> ofSaved;
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
          !function.isExternal() && function.getBody().hasOneBlock() &&
          failed(Partition(function, parametersLast).run()))
        return signalPassFailure();
  }
};

} // namespace
