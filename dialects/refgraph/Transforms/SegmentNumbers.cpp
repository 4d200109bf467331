//===- SegmentNumbers.cpp - numbers and sizes across segments -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A segment follows the numbers that differ between calls from its own
// arguments on. What it is given is what the segment before computed them to
// be: the two recordings may be of different calls, so what the recording says
// that Python's arithmetic came to is computed anew with the numbers of the
// trace, and comparisons have to come out as they did. What one of the two did
// not follow keeps its value (`compare "is"`, `layout "all"`).
//
//===----------------------------------------------------------------------===//

#include "dialects/refgraph/Transforms/SegmentComposer.h"
#include "pyjit-rt/ScalarMath.h"
#include "pyjit/Operators/CallArguments.h"

using namespace mlir;
namespace ops = pyjit::operators;

namespace pyjit::refgraph {

//===----------------------------------------------------------------------===//
// What numbers were
//===----------------------------------------------------------------------===//

static Attribute getRecorded(Value number) {
  Operation *op = number.getDefiningOp();
  if (auto get = dyn_cast<GetOp>(op))
    return get.getEqualsAttr();
  if (auto constant = dyn_cast<ConstantOp>(op))
    return constant.getValue();
  if (auto arith = dyn_cast<ArithOp>(op))
    return arith.getValue();
  Builder builder(op->getContext());
  if (auto size = dyn_cast<SizeOp>(op))
    return builder.getI64IntegerAttr(size.getValue());
  if (auto stride = dyn_cast<StrideOp>(op))
    return builder.getI64IntegerAttr(stride.getValue());
  return {};
}

static std::optional<rt::Number> toNumber(Attribute value) {
  if (auto real = dyn_cast_or_null<FloatAttr>(value))
    return rt::Number::of(real.getValueAsDouble());
  auto integer = dyn_cast_or_null<IntegerAttr>(value);
  if (!integer || integer.getType().isInteger(1) ||
      !integer.getValue().isSignedIntN(64))
    return std::nullopt;
  return rt::Number::of(integer.getInt());
}

static Attribute toAttribute(const rt::Number &number, Builder &builder) {
  return number.isFloat ? Attribute(builder.getF64FloatAttr(number.real))
                        : builder.getI64IntegerAttr(number.integer);
}

static bool areSame(const rt::Number &a, const rt::Number &b) {
  return a.isFloat == b.isFloat && a.bits() == b.bits();
}

bool SegmentComposer::isNumber(Value value) {
  Operation *op = value.getDefiningOp();
  if (auto get = dyn_cast<GetOp>(op))
    return get.getLift();
  return isa<ArithOp, SizeOp, StrideOp>(op);
}

//===----------------------------------------------------------------------===//
// What stands in front of both arms
//===----------------------------------------------------------------------===//

/// Guards compute numbers, so they stand where reads do.
Value SegmentComposer::getConstant(Attribute value, Type type, Location loc) {
  Value &known = constants[{value, type}];
  if (!known)
    known = ConstantOp::create(*reads, loc, type, value).getResult();
  return known;
}

Value SegmentComposer::getOperand(Value value) {
  Value mapped = mapping.lookup(value);
  auto constant = mapped.getDefiningOp<ConstantOp>();
  if (!constant || constant->getBlock() == reads->getBlock())
    return mapped;
  return getConstant(constant.getValue(), mapped.getType(), constant.getLoc());
}

void SegmentComposer::keepValue(Value number, Location loc) {
  CompareOp::create(*reads, loc, "is", number,
                    getConstant(getRecorded(number), number.getType(), loc),
                    true);
}

//===----------------------------------------------------------------------===//
// What a segment is given
//===----------------------------------------------------------------------===//

/// The read `get` of a segment finds the number `value` of the trace.
LogicalResult SegmentComposer::bindNumber(GetOp get, Value value) {
  auto differs = [&] {
    return get.emitError("was recorded with another value than the segment "
                         "before leaves");
  };
  if (get.getIdentityAttr() || get.getResult().getType() != value.getType())
    return differs();
  std::optional<rt::Number> here = toNumber(getRecorded(value));
  if (!here)
    return differs();
  if (!get.getLift() && get.getEqualsAttr()) {
    std::optional<rt::Number> there = toNumber(get.getEqualsAttr());
    if (!there || !areSame(*here, *there))
      return differs();
    keepValue(value, get.getLoc());
  }
  mapping.map(get.getResult(), value);
  return success();
}

/// A segment follows the number that an earlier segment only read, or the other
/// way around: `into` is what the trace goes on with.
LogicalResult SegmentComposer::mergeLift(GetOp get, GetOp into) {
  if (!get.getLift() && !into.getLift())
    return success();
  std::optional<rt::Number> there = toNumber(get.getEqualsAttr()),
                            here = toNumber(into.getEqualsAttr());
  if (into.getLift()) {
    // Not looked at: only passed on.
    if (!get.getEqualsAttr())
      return success();
    if (!here || !there || here->isFloat != there->isFloat)
      return get.emitError("finds a number of another kind than an earlier "
                           "segment");
    if (!get.getLift()) {
      if (!areSame(*here, *there))
        return get.emitError("finds another number than an earlier segment");
      keepValue(into.getResult(), get.getLoc());
    }
    // What it was in another call says nothing.
    get.removeEqualsAttr();
    return success();
  }
  if (into.getEqualsAttr())
    // It has the same value in all calls of the earlier segment.
    return get.emitError(
        "a number that differs between calls, and did not when an earlier "
        "segment was recorded");
  into.setLift(true);
  return success();
}

/// Sizes that may differ between calls, of a tensor that is read here and
/// there.
void SegmentComposer::mergeSizes(GetOp get, GetOp into) {
  into.liftLayoutOf(get);
}

/// A segment whose recording did not write down what Python saw of sizes takes
/// tensors as they were.
void SegmentComposer::keepSizes(Value tensor, Location loc) {
  if (keepsSizes && isa<TensorType>(tensor.getType()))
    LayoutOp::create(*reads, loc, tensor,
                     "a segment of the call that takes its sizes as they are");
}

void SegmentComposer::beginSizes(TraceOp segment) {
  bool follows = segment->hasAttr(segment::kFollowsSizes);
  keepsSizes = false;
  if (follows && !followsSizes) {
    keepsSizes = true;
    for (auto get : trace.getBody().getOps<GetOp>())
      keepSizes(get.getResult(), get.getLoc());
    followsSizes = true;
    trace->setAttr(segment::kFollowsSizes, UnitAttr::get(trace.getContext()));
  }
  keepsSizes = followsSizes && !follows;
}

//===----------------------------------------------------------------------===//
// What a segment does with numbers
//===----------------------------------------------------------------------===//

LogicalResult SegmentComposer::appendArith(ArithOp arith) {
  SmallVector<Value> operands;
  rt::Number numbers[2], result;
  for (auto [i, operand] : llvm::enumerate(arith.getOperands())) {
    operands.push_back(getOperand(operand));
    std::optional<rt::Number> number = toNumber(getRecorded(operands.back()));
    if (!number || i > 1)
      return arith.emitError("computes with what is no number of the segment "
                             "before");
    numbers[i] = *number;
  }
  int function =
      rt::findName(rt::kArithNames, arith.getFunction().str().c_str());
  std::optional<rt::Number> before = toNumber(arith.getValue());
  if (function < 0 || !before ||
      !rt::compute(rt::Arith(function), numbers[0], numbers[1], result) ||
      result.isFloat != before->isFloat)
    return arith.emitError("comes to another kind of number with those of the "
                           "segment before");
  for (ArithOp known : computed)
    if (known.getFunction() == arith.getFunction() &&
        known.getOperands() == ValueRange(operands) &&
        known.getResult().getType() == arith.getResult().getType()) {
      mapping.map(arith.getResult(), known.getResult());
      return success();
    }
  Builder builder(arith.getContext());
  auto copy = ArithOp::create(*reads, arith.getLoc(),
                              arith.getResult().getType(), arith.getFunction(),
                              operands, toAttribute(result, builder));
  computed.push_back(copy);
  mapping.map(arith.getResult(), copy.getResult());
  return success();
}

LogicalResult SegmentComposer::appendCompare(CompareOp compare) {
  Value lhs = getOperand(compare.getLhs()), rhs = getOperand(compare.getRhs());
  std::optional<rt::Number> a = toNumber(getRecorded(lhs)),
                            b = toNumber(getRecorded(rhs));
  int function =
      rt::findName(rt::kCompareNames, compare.getFunction().str().c_str());
  bool outcome = false;
  StringAttr why = compare.getWhyAttr();
  if (compare.getFunction() == "is" && a && b && !areSame(*a, *b))
    return compare.emitError("a number that differs between calls keeps its "
                             "value")
           << (why ? ": " + why.getValue() : Twine());
  if (!a || !b || function < 0 ||
      !rt::compare(rt::Compare(function), *a, *b, outcome) ||
      outcome != compare.getOutcome())
    return compare.emitError("comes out in another way with the numbers of the "
                             "segment before");
  auto copy = CompareOp::create(*reads, compare.getLoc(), compare.getFunction(),
                                lhs, rhs, compare.getOutcome());
  copy.setWhyAttr(compare.getWhyAttr());
  return success();
}

/// `%n = size %x[0]`, `layout %x`. In an arm, where no size differs between
/// calls, they are constants.
void SegmentComposer::appendSize(Operation *op, OpBuilder &body) {
  bool inArm = body.getBlock() != reads->getBlock();
  if (!inArm) {
    body.clone(*op, mapping);
  } else if (!isa<LayoutOp>(op)) {
    Value number = op->getResult(0);
    mapping.map(number, getConstant(getRecorded(number), number.getType(),
                                    op->getLoc()));
  }
}

/// The numbers among a call's operands. Sizes are what the types were recorded
/// with.
LogicalResult SegmentComposer::checkNumbers(TensorOp call, bool inArm) {
  LogicalResult found = success();
  auto look = [&](Attribute arg, unsigned first) {
    if (!ops::isNumberOperand(arg))
      return;
    Value number = call.getInputs()[first];
    if (isa<TensorType>(number.getType()))
      return;
    Value mapped = mapping.lookup(number);
    if (!isNumber(mapped) && !mapped.getDefiningOp<ConstantOp>()) {
      found = call.emitError("takes what is no number of the segment before");
    } else if (ops::isSizeOperand(arg)) {
      std::optional<rt::Number> there = toNumber(getRecorded(number)),
                                here = toNumber(getRecorded(mapped));
      if (inArm && !mapped.getDefiningOp<ConstantOp>())
        found = call.emitError("a size that differs between calls, in one arm");
      else if (!there || !here || !areSame(*there, *here))
        found =
            call.emitError("was recorded with another size than the segment "
                           "before leaves");
    }
  };
  ops::walkCallArguments(call.getArgs(), [&](unsigned, Attribute arg,
                                             unsigned first) {
    auto list = dyn_cast<ArrayAttr>(arg);
    for (Attribute segment : list ? list.getValue() : ArrayRef(arg)) {
      look(segment, first);
      first += ops::countOperands(ArrayAttr::get(call.getContext(), segment));
    }
  });
  return found;
}

/// `size(%n)` of a constant, which refgraph-lift-sizes does not look for in
/// arms.
void SegmentComposer::foldSizes(TensorOp call) {
  SmallVector<Value> kept;
  unsigned next = 0;
  auto fold = [&](Attribute arg) -> Attribute {
    if (!ops::isOperandPlaceholder(arg) && !ops::isNumberOperand(arg))
      return arg;
    Value operand = call.getInputs()[next++];
    if (ops::isSizeOperand(arg))
      return getRecorded(operand);
    kept.push_back(operand);
    return arg;
  };
  SmallVector<Attribute> args;
  bool any = false;
  for (Attribute arg : call.getArgs()) {
    auto list = dyn_cast<ArrayAttr>(arg);
    if (!list) {
      any |= ops::isSizeOperand(arg);
      args.push_back(fold(arg));
      continue;
    }
    SmallVector<Attribute> elements;
    for (Attribute element : list) {
      any |= ops::isSizeOperand(element);
      elements.push_back(fold(element));
    }
    args.push_back(ArrayAttr::get(call.getContext(), elements));
  }
  if (!any)
    return;
  call.replaceArguments(ArrayAttr::get(call.getContext(), args), kept);
}

} // namespace pyjit::refgraph
