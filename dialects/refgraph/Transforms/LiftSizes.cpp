//===- LiftSizes.cpp - sizes that differ between calls become symbols -----===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Contract: in, traces whose reads may have `lift_sizes` and whose types are
// those of the recorded run; out, the same traces, in which those sizes are
// symbols, all types follow from them, and what the types rely on is compared.
// In doubt a size keeps its value; why is said in an attribute of the module,
// for readers. SizeLifter.h says how.
//
//===----------------------------------------------------------------------===//

#include "dialects/refgraph/Transforms/Passes.h"
#include "dialects/refgraph/Transforms/SizeLifter.h"
#include "mlir/IR/BuiltinOps.h"
#include "pyjit/Operators/CallArguments.h"

#include <utility>

namespace pyjit::refgraph {
#define GEN_PASS_DEF_LIFTSIZESPASS
#include "dialects/refgraph/Transforms/Passes.h.inc"
} // namespace pyjit::refgraph

using namespace mlir;
using namespace pyjit;
using namespace pyjit::refgraph;

void SizeLifter::visit(GetOp get) {
  Value result = get.getResult();
  auto type = dyn_cast<refgraph::TensorType>(result.getType());
  if (!type)
    return;
  SymbolicShape shape = constantShape(type);
  shape.offset = get.getOffset().value_or(0);
  if (get.liftsLayout()) {
    for (int64_t dim : get.getLiftSizes().value_or(ArrayRef<int64_t>()))
      shape.sizes[dim] = getSymbol({Source::Size, result, unsigned(dim)},
                                   type.getShape()[dim]);
    if (!order(shape, type, /*dense=*/false, get) || !settle(shape, type)) {
      specialize(shape);
      shape = constantShape(type);
      shape.offset = get.getOffset().value_or(0);
    }
  }
  shapes[result] = shape;
}

bool SizeLifter::keepsValue(Value number) const {
  if (auto get = number.getDefiningOp<GetOp>())
    return get.getLift() && get.keepsValue();
  return number.getDefiningOp<ConstantOp>() || kept.contains(number);
}

void SizeLifter::visit(ArithOp arith) {
  auto value = recordedValue(arith.getResult());
  if (llvm::all_of(arith.getOperands(),
                   [&](Value operand) { return keepsValue(operand); })) {
    kept.insert(arith.getResult());
    if (value)
      numbers[arith.getResult()] = *value;
    return;
  }
  SmallVector<SizePolynomial> operands;
  for (Value operand : arith.getOperands()) {
    auto it = numbers.find(operand);
    if (it == numbers.end())
      return;
    operands.push_back(it->second);
  }
  StringRef function = arith.getFunction();
  auto set = [&](const SizePolynomial &size) {
    if (value && evaluate(size) == *value)
      numbers[arith.getResult()] = size;
  };
  if (function == "neg")
    return set(SizePolynomial(0) - operands[0]);
  if (function == "int" || function == "abs") {
    if (operands[0].getLowerBound().value_or(-1) >= 0)
      set(operands[0]);
    return;
  }
  if (operands.size() != 2)
    return;
  if (function == "add")
    return set(operands[0] + operands[1]);
  if (function == "sub")
    return set(operands[0] - operands[1]);
  if (function == "mul")
    return set(operands[0] * operands[1]);
  if (function != "floordiv" && function != "mod")
    return;
  // Without a remainder it does not matter which way it is rounded.
  auto quotient = operands[0].divide(operands[1]);
  if (quotient && operands[1].getLowerBound().value_or(0) > 0)
    return set(function == "mod" ? SizePolynomial(0) : *quotient);
  auto divisor = operands[1].getConstant();
  if (!divisor || *divisor < 1)
    return;
  if (auto rounded = solver.floorDivide(operands[0], *divisor,
                                        /*mayFix=*/false))
    set(function == "mod" ? operands[0] - *rounded * *divisor : *rounded);
}

void SizeLifter::visit(TensorOp call) {
  bool symbolic = false;
  for (Value input : call.getInputs()) {
    if (isa<refgraph::TensorType>(input.getType()))
      symbolic |=
          shapes[input].isSymbolic() || !shapes[input].offset.isConstant();
  }
  operators::walkCallArguments(
      call.getArgs(), [&](unsigned, Attribute arg, unsigned first) {
        auto look = [&](Attribute part) {
          if (operators::isSizeOperand(part))
            symbolic |= !sizeOf(call.getInputs()[first]).isConstant();
          first +=
              operators::countOperands(ArrayAttr::get(call.getContext(), part));
        };
        if (auto list = dyn_cast<ArrayAttr>(arg))
          llvm::for_each(list, look);
        else
          look(arg);
      });
  unsigned fresh = call.getNumFresh();
  SymbolicShapes results;
  bool known = false;
  if (symbolic && !solver.hasChanged()) {
    std::optional<SymbolicShapes> inferred = inferShapes(SizeCall(call, *this));
    known = inferred && inferred->size() == fresh;
    for (unsigned i = 0; known && i < fresh; ++i)
      known = settle((*inferred)[i],
                     cast<refgraph::TensorType>(call.getResult(i).getType())) &&
              evaluate((*inferred)[i].offset) == call.getOffset(i);
    for (unsigned i = 0; known && i < call.getMutates().size(); ++i)
      known = call.getVersion(i).getType() ==
              call.getInputs()[call.getMutates()[i]].getType();
    if (known) {
      results = std::move(*inferred);
    } else {
      why = (call.getOverload() + (inferred ? " gave other sizes than its rule "
                                              "says"
                                            : " has no rule for its sizes"))
                .str();
      specializeOperands(call);
    }
  }
  for (unsigned i = 0; i < fresh; ++i) {
    Value result = call.getResult(i);
    SymbolicShape shape =
        known ? results[i]
              : constantShape(cast<refgraph::TensorType>(result.getType()));
    if (!known)
      shape.offset = call.getOffset(i);
    shapes[result] = shape;
  }
  for (auto [i, operand] : llvm::enumerate(call.getMutates())) {
    Value version = call.getVersion(i);
    SymbolicShape shape = shapes[call.getInputs()[operand]];
    if (version.getType() != call.getInputs()[operand].getType())
      shape = constantShape(cast<refgraph::TensorType>(version.getType()));
    shapes[version] = shape;
  }
}

void SizeLifter::noteMemory(TensorOp call) {
  ArrayRef<int64_t> aliases = call.getAliases();
  for (unsigned i = 0; i < call.getNumFresh() && i < aliases.size(); ++i)
    if (aliases[i] >= 0)
      memory[call.getResult(i)] = memoryOf(call.getInputs()[aliases[i]]);
  for (auto [i, operand] : llvm::enumerate(call.getMutates()))
    memory[call.getVersion(i)] = memoryOf(call.getInputs()[operand]);
}

/// Whether one ends before the other begins, which it does from now on.
bool SizeLifter::areApart(const SymbolicShape &a, const SymbolicShape &b) {
  auto endsBefore = [&](const SymbolicShape &first, const SymbolicShape &next) {
    SizePolynomial gap = next.offset - first.offset - SizePolynomial(1);
    for (unsigned i = 0; i < first.rank(); ++i)
      gap = gap - (first.sizes[i] - SizePolynomial(1)) * first.strides[i];
    return requireNotNegative(gap);
  };
  return endsBefore(a, b) || endsBefore(b, a);
}

/// ATen refuses to write elements of which another operand shows some (and some
/// others): an error that no replay raises. Operands of one memory stay equal,
/// or apart, as they were recorded; else they keep their places.
void SizeLifter::keepApart(TensorOp call) {
  for (int64_t target : call.getMutates())
    for (auto [i, operand] : llvm::enumerate(call.getInputs())) {
      Value written = call.getInputs()[target];
      if (int64_t(i) == target || solver.hasChanged() ||
          !isa<refgraph::TensorType>(operand.getType()) ||
          memoryOf(operand) != memoryOf(written))
        continue;
      const SymbolicShape a = shapes[written], b = shapes[operand];
      bool same =
          a.offset == b.offset && a.sizes == b.sizes && a.strides == b.strides;
      if (same || areApart(a, b))
        continue;
      why = "parts of one tensor that overlap are written and read";
      specializeOperands(call);
    }
}

void SizeLifter::visit(Operation &op) {
  at = &op;
  why.clear();
  if (auto get = dyn_cast<GetOp>(op))
    return visit(get);
  if (auto call = dyn_cast<TensorOp>(op)) {
    keepApart(call);
    visit(call);
    return noteMemory(call);
  }
  if (auto arith = dyn_cast<ArithOp>(op))
    return visit(arith);
  if (auto layout = dyn_cast<LayoutOp>(op))
    return visitLayout(layout);
  if (auto object = dyn_cast<ObjectOp>(op)) {
    if (auto type =
            dyn_cast<refgraph::TensorType>(object.getResult().getType()))
      shapes[object.getResult()] = constantShape(type);
  } else if (op.getNumRegions() != 0) {
    // A branch or a loop: its sizes are fixed.
    for (Value result : op.getResults())
      if (auto type = dyn_cast<refgraph::TensorType>(result.getType()))
        shapes[result] = constantShape(type);
  } else if (auto constant = dyn_cast<ConstantOp>(op)) {
    if (auto value = recordedValue(constant.getResult()))
      numbers[constant.getResult()] = *value;
  } else if (auto size = dyn_cast<SizeOp>(op)) {
    numbers[size.getResult()] = shapes[size.getTensor()].sizes[size.getDim()];
  } else if (auto stride = dyn_cast<StrideOp>(op)) {
    numbers[stride.getResult()] =
        shapes[stride.getTensor()].strides[stride.getDim()];
  } else if (auto offset = dyn_cast<OffsetOp>(op)) {
    why = "Python asked for its storage offset";
    solver.fix(SizePolynomial(shapes[offset.getTensor()].offset));
  } else if (auto same = dyn_cast<SameOp>(op)) {
    if (!isa<refgraph::TensorType>(same.getLhs().getType()) ||
        !isa<refgraph::TensorType>(same.getRhs().getType()))
      return;
    SymbolicShape lhs = shapes[same.getLhs()], rhs = shapes[same.getRhs()];
    if (lhs.rank() != rhs.rank())
      return;
    for (unsigned i = 0; i < lhs.rank(); ++i)
      if (!requireEqual(lhs.sizes[i], rhs.sizes[i]) ||
          !requireEqual(lhs.strides[i], rhs.strides[i])) {
        specialize(lhs);
        specialize(rhs);
      }
  } else if (auto compare = dyn_cast<CompareOp>(op)) {
    // Used in a way that was not recorded.
    if (compare.getFunction() != "is" || !compare.getOutcome())
      return;
    auto lhs = numbers.find(compare.getLhs()),
         rhs = numbers.find(compare.getRhs());
    if (lhs == numbers.end() || rhs == numbers.end() ||
        lhs->second.isConstant() == rhs->second.isConstant())
      return;
    StringAttr said = compare.getWhyAttr();
    why = said ? said.str() : "it was used in a way that is not followed";
    solver.fix(lhs->second - rhs->second);
  }
}

/// Makes both read what either lifts; whether that changed one of them.
static bool joinLifted(GetOp a, GetOp b) {
  if (a.getLiftSizesAttr() == b.getLiftSizesAttr() &&
      a.getLiftStridesAttr() == b.getLiftStridesAttr())
    return false;
  a.liftLayoutOf(b);
  b.liftLayoutOf(a);
  return true;
}

/// Reads that have found one tensor lift the same of its layout: a size that
/// one of them keeps would fix the other's.
void SizeLifter::joinReads() {
  for (bool changed = true; std::exchange(changed, false);)
    for (auto same : trace.getBody().getOps<SameOp>()) {
      GetOp reads[] = {same.getLhs().getDefiningOp<GetOp>(),
                       same.getRhs().getDefiningOp<GetOp>()};
      if (reads[0] && reads[1] &&
          reads[0].getResult().getType() == reads[1].getResult().getType())
        changed |= joinLifted(reads[0], reads[1]);
    }
}

void SizeLifter::run() {
  // Types have symbols already.
  if (!trace.getBody().getOps<SymbolOp>().empty())
    return;
  joinReads();
  bool any = false;
  trace.walk([&](Operation *op) {
    auto get = dyn_cast<GetOp>(op);
    auto call = dyn_cast<TensorOp>(op);
    any |= (get && get.liftsLayout()) || isa<SizeOp, StrideOp, LayoutOp>(op) ||
           (call && (isWholeView(call) ||
                     llvm::any_of(call.getInputs(), [](Value input) {
                       return !isa<refgraph::TensorType>(input.getType());
                     })));
  });
  if (!any)
    return;
  // What a loop on data carries keeps its sizes.
  if (specializeEverything)
    solver.fixAll("");
  else if (!trace.getBody().getOps<IfOp>().empty())
    solver.fixAll("the specialization has a branch on data");
  else if (!trace.getBody().getOps<DecideOp>().empty())
    solver.fixAll("the specialization has a loop that data end");
  do {
    solver.restart();
    shapes.clear();
    numbers.clear();
    memory.clear();
    for (Operation &op : trace.getBody().front()) {
      visit(op);
      if (solver.hasChanged())
        break;
    }
  } while (solver.hasChanged());
  write();
}

namespace {
struct LiftSizesPass
    : public pyjit::refgraph::impl::LiftSizesPassBase<LiftSizesPass> {
  using LiftSizesPassBase::LiftSizesPassBase;

  void runOnOperation() override {
    SmallVector<std::string> specialized;
    for (TraceOp trace : getOperation().getOps<TraceOp>()) {
      SizeLifter lifter(trace, specialize);
      lifter.run();
      numSymbols += lifter.numLifted;
      numKept += lifter.numKept;
      specialized.append(lifter.explainSpecialized());
    }
    if (specialized.empty())
      return;
    auto lines = llvm::map_to_vector(
        specialized, [](const std::string &line) { return StringRef(line); });
    getOperation()->setAttr(kSpecializedSizes,
                            Builder(&getContext()).getStrArrayAttr(lines));
  }
};

} // namespace
