//===- LaunchControl.cpp - Loops and branches of a launch program ---------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a loop carries has a buffer for as long as the loop runs: filled before
// it, and again at the end of each iteration, unless the value was left there.
// What a branch returns is another name for what the branch taken made.
//
//===----------------------------------------------------------------------===//

#include "LaunchEncoder.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace pyjit;
using namespace pyjit::executable;

//===----------------------------------------------------------------------===//
// Numbers that the host reads
//===----------------------------------------------------------------------===//

/// Numbers have no step of their own: who needs one reads it from its slot.
LogicalResult LaunchEncoder::encodeNumber(Operation *op) {
  auto made = dyn_cast<tensor::FromElementsOp>(op);
  if (!made) {
    for (Type type : op->getResultTypes())
      if (isa<ShapedType>(type))
        return op->emitError("is neither a kernel, a vendor call nor a view; "
                             "fusion-outline should have put it into a kernel");
    return success();
  }
  if (made.getType().getRank() != 0 ||
      !made.getType().getElementType().isSignlessInteger(64))
    return op->emitError("a launch program makes tensors of single int64 "
                         "numbers only");
  auto number = numberOf(op, made.getElements().front());
  if (failed(number))
    return failure();
  if (!number->slot || number->multiply != 1 || number->add != 0)
    return op->emitError("a launch program does no arithmetic on numbers that "
                         "become tensors");
  bind(made.getResult(), *number->slot);
  return success();
}

FailureOr<LaunchEncoder::HostNumber> LaunchEncoder::numberOf(Operation *user,
                                                             Value value) {
  IntegerAttr constant;
  if (matchPattern(value, m_Constant(&constant)))
    return HostNumber{std::nullopt, 1, constant.getInt()};
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    auto loop = dyn_cast<scf::ForOp>(argument.getOwner()->getParentOp());
    if (loop && argument == loop.getInductionVar())
      return HostNumber{slotOf.lookup(argument)};
  }
  Operation *op = value.getDefiningOp();
  if (auto read = dyn_cast_or_null<tensor::ExtractOp>(op))
    if (read.getIndices().empty() && read.getType().isSignlessInteger(64))
      return HostNumber{slotOf.lookup(read.getTensor())};
  if (auto cast = dyn_cast_or_null<arith::IndexCastOp>(op))
    return numberOf(user, cast.getIn());
  if (op && isa<arith::AddIOp, arith::SubIOp, arith::MulIOp>(op)) {
    auto lhs = numberOf(user, op->getOperand(0));
    auto rhs = numberOf(user, op->getOperand(1));
    if (failed(lhs) || failed(rhs))
      return failure();
    bool product = isa<arith::MulIOp>(op);
    if (!lhs->slot && rhs->slot && !isa<arith::SubIOp>(op))
      std::swap(*lhs, *rhs);
    if (!rhs->slot) {
      int64_t by = isa<arith::SubIOp>(op) ? -rhs->add : rhs->add;
      if (product)
        return HostNumber{lhs->slot, lhs->multiply * by, lhs->add * by};
      return HostNumber{lhs->slot, lhs->multiply, lhs->add + by};
    }
  }
  return user->emitError("needs a number that is neither a loop's index, nor "
                         "read from an int64 tensor without dimensions, nor "
                         "made of one by adding and multiplying constants");
}

FailureOr<uint32_t> LaunchEncoder::flagOf(Operation *user, Value value) {
  auto read = value.getDefiningOp<tensor::ExtractOp>();
  if (!read || !read.getIndices().empty())
    return user->emitError("decides on a flag that is not read from a bool "
                           "tensor without dimensions");
  return slotOf.lookup(read.getTensor());
}

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

/// Gives each loop-carried value its buffer, with the value that it starts
/// with.
LogicalResult LaunchEncoder::enterLoop(Operation *op, ValueRange inits,
                                       ValueRange arguments) {
  int64_t begin = lifetimes.begin(op), end = lifetimes.end(op);
  Slots &own = carried[op];
  for (auto [init, argument] : llvm::zip(inits, arguments)) {
    if (isEmpty(init)) { // nothing to copy, whoever else begins with it
      auto buffer = newBuffer(op->getLoc(), argument.getType(), begin, end);
      if (failed(buffer))
        return failure();
      own.push_back(*buffer);
      bind(argument, *buffer);
      continue;
    }
    uint32_t from = slotOf.lookup(init);
    // A buffer that nobody else needs is taken over as it is.
    bool takeOver = buffers.contains(from) && !counters.contains(from) &&
                    !llvm::is_contained(own, from) &&
                    llvm::count(inits, init) == 1 &&
                    init.getType() == argument.getType() &&
                    isFree(from, op, /*before=*/false);
    for (Value other : inits)
      takeOver &=
          other == init || isEmpty(other) ||
          (slotOf.lookup(other) != from &&
           !llvm::is_contained(rootsOf.lookup(slotOf.lookup(other)), from));
    uint32_t slot = from;
    if (!takeOver) {
      auto buffer = newBuffer(op->getLoc(), argument.getType(), begin, end);
      if (failed(buffer))
        return failure();
      slot = *buffer;
      step(rt::StepKind::Copy, from, slot);
    }
    buffers[slot].last = std::max(buffers[slot].last, end);
    own.push_back(slot);
    bind(argument, slot);
  }
  return success();
}

/// Moves what an iteration yields to the loop-carried buffers: all at once, as
/// far as anyone can see.
LogicalResult LaunchEncoder::nextIteration(Operation *yield) {
  struct Pending {
    uint32_t from, to;
    Type type;
  };
  SmallVector<Pending> pending;
  for (auto [value, to] :
       llvm::zip(yield->getOperands(), carried[yield->getParentOp()]))
    if (uint32_t from = slotOf.lookup(value); from != to)
      pending.push_back({from, to, value.getType()});
  auto reads = [&](const Pending &copy, uint32_t slot) {
    return copy.from == slot ||
           llvm::is_contained(rootsOf.lookup(copy.from), slot);
  };
  int64_t now = lifetimes.begin(yield);
  while (!pending.empty()) {
    // One whose target nobody else still reads.
    auto *next = llvm::find_if(pending, [&](const Pending &copy) {
      return llvm::none_of(
          pending, [&](const Pending &other) { return reads(other, copy.to); });
    });
    if (next != pending.end()) {
      step(rt::StepKind::Copy, next->from, next->to);
      pending.erase(next);
      continue;
    }
    // They wait for one another: one of those that read what another one
    // replaces goes aside.
    Pending &reader = *llvm::find_if(pending, [&](const Pending &copy) {
      return llvm::any_of(
          pending, [&](const Pending &other) { return reads(copy, other.to); });
    });
    auto aside = newBuffer(yield->getLoc(), reader.type, now, now);
    if (failed(aside))
      return failure();
    step(rt::StepKind::Copy, reader.from, *aside);
    reader.from = *aside;
  }
  releaseAt(now);
  return success();
}

std::optional<uint32_t> LaunchEncoder::carriedBuffer(OpResult result) {
  Operation *op = result.getOwner();
  Operation *loop = op->getParentOp();
  bool last = isa<scf::ForOp>(loop);
  if (auto repeat = dyn_cast<scf::WhileOp>(loop))
    last = op->getParentRegion() == &repeat.getAfter();
  if (!last)
    return std::nullopt;
  Operation *yield = op->getBlock()->getTerminator();
  for (auto [value, slot] : llvm::zip(yield->getOperands(), carried[loop]))
    if (value == result && isFree(slot, op, /*before=*/true))
      return slot;
  return std::nullopt;
}

LogicalResult LaunchEncoder::encodeWhile(scf::WhileOp op) {
  if (failed(enterLoop(op, op.getInits(), op.getBeforeArguments())))
    return failure();
  uint32_t begin = step(rt::StepKind::While);
  if (failed(encode(op.getBefore().front())))
    return failure();
  scf::ConditionOp condition = op.getConditionOp();
  auto flag = flagOf(condition, condition.getCondition());
  if (failed(flag))
    return failure();
  uint32_t test = step(rt::StepKind::WhileTest, *flag);
  releaseAt(lifetimes.begin(condition));
  for (auto [forwarded, argument] :
       llvm::zip(condition.getArgs(), op.getAfterArguments()))
    bind(argument, slotOf.lookup(forwarded));
  if (failed(encode(op.getAfter().front())) ||
      failed(nextIteration(op.getYieldOp())))
    return failure();
  uint32_t end = step(rt::StepKind::WhileEnd, begin);
  blob.steps[begin].a = end;
  blob.steps[test].b = end;
  for (auto [forwarded, result] :
       llvm::zip(condition.getArgs(), op.getResults()))
    bind(result, slotOf.lookup(forwarded));
  return success();
}

LogicalResult LaunchEncoder::encodeFor(scf::ForOp op) {
  if (op.getUnsignedCmp())
    return op.emitError("a launch program's loops count signed numbers");
  auto by = numberOf(op, op.getStep());
  auto from = numberOf(op, op.getLowerBound());
  auto to = numberOf(op, op.getUpperBound());
  if (failed(by) || failed(from) || failed(to))
    return failure();
  if (by->slot || by->add < 1)
    return op.emitError("a loop whose step is not a positive constant");
  SmallVector<int64_t> words;
  for (const HostNumber &bound : {*from, *to}) {
    if (bound.slot && (bound.multiply != 1 || bound.add != 0))
      return op.emitError("a loop whose bound is computed on the host");
    words.push_back(bound.slot.has_value());
    words.push_back(bound.slot ? int64_t(*bound.slot) : bound.add);
  }
  words.push_back(by->add);

  Builder builder(op.getContext());
  auto counter =
      newBuffer(op.getLoc(), RankedTensorType::get({}, builder.getI64Type()),
                lifetimes.begin(op), lifetimes.end(op));
  if (failed(counter))
    return failure();
  counters.insert(*counter);
  slotOf[op.getInductionVar()] = *counter;
  if (failed(enterLoop(op, op.getInitArgs(), op.getRegionIterArgs())))
    return failure();
  uint32_t begin = step(rt::StepKind::For, *counter, blob.words(words));
  Block &body = *op.getBody();
  if (failed(encode(body)) || failed(nextIteration(body.getTerminator())))
    return failure();
  blob.steps[begin].c = step(rt::StepKind::ForEnd, begin);
  for (auto [slot, result] : llvm::zip(carried[op], op.getResults()))
    bind(result, slot);
  return success();
}

//===----------------------------------------------------------------------===//
// Branches
//===----------------------------------------------------------------------===//

LogicalResult LaunchEncoder::encodeIf(scf::IfOp op) {
  auto flag = flagOf(op, op.getCondition());
  if (failed(flag))
    return failure();
  for (Value result : op.getResults())
    if (failed(addSlot(result, rt::SlotKind::View)))
      return failure();
  auto side = [&](Region &region) -> LogicalResult {
    if (region.empty())
      return success();
    if (failed(encode(region.front())))
      return failure();
    Operation *yield = region.front().getTerminator();
    for (auto [value, result] :
         llvm::zip(yield->getOperands(), op.getResults())) {
      uint32_t from = slotOf.lookup(value), to = slotOf.lookup(result);
      step(rt::StepKind::Move, to, from);
      auto roots = rootsOf.lookup(from);
      if (roots.empty())
        roots.push_back(from);
      for (uint32_t root : roots) // branches behind each other share them
        if (!llvm::is_contained(rootsOf[to], root))
          rootsOf[to].push_back(root);
    }
    releaseAt(lifetimes.begin(yield));
    return success();
  };
  uint32_t begin = step(rt::StepKind::If, *flag), last = begin;
  if (failed(side(op.getThenRegion())))
    return failure();
  if (!op.getElseRegion().empty()) {
    last = step(rt::StepKind::Else);
    blob.steps[begin].b = last;
    if (failed(side(op.getElseRegion())))
      return failure();
  }
  uint32_t end = step(rt::StepKind::IfEnd);
  (last == begin ? blob.steps[begin].b : blob.steps[last].a) = end;
  return success();
}
