//===- ControlToLaunches.cpp - Loops and branches of a launch program -----===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a loop carries has a buffer of its own, filled before it and at the end
// of each iteration. The first region of a `scf.while` is launched before the
// loop and again at the end of each iteration, into the same buffers: a
// conditional node looks at its flag before each iteration. What a branch
// returns has a buffer that both sides fill.
//
//===----------------------------------------------------------------------===//

#include "Converter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"
#include "pyjit/Operators/CallArguments.h"
#include "pyjit/Operators/OperatorNames.h"

using namespace mlir;
using namespace pyjit;
using namespace pyjit::cudagraph;
using pyjit::conversion::LaunchConverter;

Value LaunchConverter::sharedBuffer(Location loc, Type type) {
  // In front of everything: any launch may be made to write it.
  OpBuilder front(function.getContext());
  front.setInsertionPointToStart(&program.getBlock());
  return BufferOp::create(
      front, loc, BufferType::get(cast<RankedTensorType>(type)), IntegerAttr());
}

LogicalResult LaunchConverter::copy(Location loc, Value source, Value target) {
  if (source == target)
    return success();
  auto from = cast<BufferType>(source.getType());
  auto to = cast<BufferType>(target.getType());
  if (from.isHost())
    return emitError(loc) << "a loop or branch on a device hands on a tensor "
                             "of the CPU";
  if (from != to)
    return emitError(loc) << "a loop or branch hands on " << from.getTensor()
                          << " as " << to.getTensor();
  CopyOp::create(builder, loc, source, target);
  return success();
}

LogicalResult LaunchConverter::copyTogether(Location loc,
                                            ArrayRef<Value> sources,
                                            ArrayRef<Value> targets) {
  SmallVector<std::pair<Value, Value>> pending;
  for (auto [source, target] : llvm::zip(sources, targets))
    if (source != target)
      pending.emplace_back(source, target);
  while (!pending.empty()) {
    // One whose target nobody else still reads.
    auto *next = llvm::find_if(pending, [&](const auto &copy) {
      return llvm::none_of(pending, [&](const auto &other) {
        return &other != &copy && getRoot(other.first) == copy.second;
      });
    });
    if (next != pending.end()) {
      auto [source, target] = *next;
      // A part of what is replaced as a whole goes aside, too.
      if (getRoot(source) != target) {
        if (failed(copy(loc, source, target)))
          return failure();
        pending.erase(next);
        continue;
      }
    } else {
      next = pending.begin(); // they wait for one another
    }
    auto type = cast<BufferType>(next->first.getType());
    Value aside = sharedBuffer(loc, type.getTensor());
    if (failed(copy(loc, next->first, aside)))
      return failure();
    next->first = aside;
  }
  return success();
}

FailureOr<Value> LaunchConverter::flagOf(Operation *user, Value flag) {
  auto read = flag.getDefiningOp<tensor::ExtractOp>();
  if (!read || !read.getIndices().empty())
    return user->emitError("decides on a flag that is not read from a bool "
                           "tensor without dimensions");
  return read.getTensor();
}

LogicalResult LaunchConverter::convert(scf::WhileOp op) {
  Location loc = op.getLoc();
  Block &before = op.getBefore().front(), &after = op.getAfter().front();
  SmallVector<Value> carried, inits;
  for (auto [init, argument] :
       llvm::zip(op.getInits(), before.getArguments())) {
    inits.push_back(buffers.lookup(init));
    carried.push_back(sharedBuffer(loc, argument.getType()));
    buffers.map(argument, carried.back());
    if (failed(copy(loc, inits.back(), carried.back())))
      return failure();
  }

  // What the first region makes and others need.
  scf::ConditionOp condition = op.getConditionOp();
  auto flag = flagOf(condition, condition.getCondition());
  if (failed(flag))
    return failure();
  SmallVector<Value> handedOn(condition.getArgs());
  handedOn.push_back(*flag);
  llvm::MapVector<Value, Value> made;
  for (Value value : handedOn)
    if (value.getParentBlock() == &before && value.getDefiningOp() &&
        !made.contains(value)) {
      made[value] = sharedBuffer(loc, value.getType());
      if (value.getDefiningOp<func::CallOp>())
        fixed[value] = made[value];
    }
  auto decide = [&]() -> LogicalResult {
    if (failed(convert(before)))
      return failure();
    SmallVector<Value> sources, targets;
    for (auto [value, shared] : made) {
      sources.push_back(buffers.lookup(value));
      targets.push_back(shared);
    }
    return copyTogether(loc, sources, targets);
  };
  auto placeOf = [&](Value value) {
    auto found = made.find(value);
    return found == made.end() ? buffers.lookup(value) : found->second;
  };
  if (failed(decide()))
    return failure();
  SmallVector<Value> forwarded;
  for (Value value : condition.getArgs())
    forwarded.push_back(placeOf(value));

  auto loop = WhileOp::create(builder, loc, placeOf(*flag));
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(&loop.getBody().emplaceBlock());
    for (auto [argument, place] : llvm::zip(after.getArguments(), forwarded))
      buffers.map(argument, place);
    if (failed(convert(after)))
      return failure();
    SmallVector<Value> next;
    for (Value value : op.getYieldOp().getOperands())
      next.push_back(buffers.lookup(value));
    if (failed(copyTogether(loc, next, carried)) || failed(decide()))
      return failure();
  }
  for (auto [result, place] : llvm::zip(op.getResults(), forwarded))
    buffers.map(result, place);
  return success();
}

std::optional<int64_t> LaunchConverter::numberOf(Value value) {
  IntegerAttr constant;
  if (matchPattern(value, m_Constant(&constant)))
    return constant.getInt();
  if (auto counter = counters.find(value); counter != counters.end())
    return counter->second;
  Operation *op = value.getDefiningOp();
  if (auto cast = dyn_cast_or_null<arith::IndexCastOp>(op))
    return numberOf(cast.getIn());
  if (!op || !isa<arith::AddIOp, arith::SubIOp, arith::MulIOp>(op))
    return std::nullopt;
  auto lhs = numberOf(op->getOperand(0)), rhs = numberOf(op->getOperand(1));
  int64_t result;
  bool overflow =
      !lhs || !rhs ||
      (isa<arith::AddIOp>(op)   ? llvm::AddOverflow(*lhs, *rhs, result)
       : isa<arith::SubIOp>(op) ? llvm::SubOverflow(*lhs, *rhs, result)
                                : llvm::MulOverflow(*lhs, *rhs, result));
  return overflow ? std::nullopt : std::optional(result);
}

/// Launched once for each iteration: values go on without copies.
LogicalResult LaunchConverter::convert(scf::ForOp op) {
  auto from = numberOf(op.getLowerBound()), to = numberOf(op.getUpperBound()),
       by = numberOf(op.getStep());
  if (op.getUnsignedCmp())
    return op.emitError("a loop that counts unsigned numbers cannot be "
                        "launched on a device");
  if (!from || !to || !by || *by < 1)
    return op.emitError("a loop whose number of iterations is not known when "
                        "it is compiled cannot be launched on a device");
  constexpr int64_t kMost = 65536; // launches
  int64_t size = 0;
  op.getBody()->walk([&](Operation *) { ++size; });
  int64_t trips = 0;
  bool isLong = *from < *to && llvm::SubOverflow(*to, *from, trips);
  trips = *from < *to ? llvm::divideCeil(uint64_t(trips), *by) : 0;
  if (isLong || trips > kMost / size)
    return op.emitError("a loop of more than ")
           << kMost << " launches cannot be launched on a device";
  SmallVector<Value> carried;
  for (Value init : op.getInitArgs())
    carried.push_back(buffers.lookup(init));
  for (int64_t trip = 0; trip < trips; ++trip) {
    counters[op.getInductionVar()] = *from + trip * *by;
    for (auto [argument, value] : llvm::zip(op.getRegionIterArgs(), carried))
      buffers.map(argument, value);
    if (failed(convert(*op.getBody())))
      return failure();
    for (auto [value, yielded] :
         llvm::zip(carried, op.getBody()->getTerminator()->getOperands()))
      value = buffers.lookup(yielded);
  }
  for (auto [result, value] : llvm::zip(op.getResults(), carried))
    buffers.map(result, value);
  return success();
}

/// A number as a tensor: one that a tensor holds already, or a constant.
LogicalResult LaunchConverter::convert(tensor::FromElementsOp op) {
  if (op.getType().getRank() != 0 ||
      !op.getType().getElementType().isSignlessInteger(64))
    return op.emitError("a launch program makes tensors of single int64 "
                        "numbers only");
  Value element = op.getElements().front();
  auto read = element.getDefiningOp<tensor::ExtractOp>();
  if (read && read.getIndices().empty()) {
    buffers.map(op.getResult(), buffers.lookup(read.getTensor()));
    return success();
  }
  std::optional<int64_t> number = numberOf(element);
  if (!number)
    return op.emitError("a launch program does no arithmetic on numbers that "
                        "become tensors");
  Attribute none = operators::getNoneArgument(op.getContext());
  auto device = builder.getStringAttr(program.getDevice());
  constexpr int64_t kLong = 4; // c10::ScalarType
  auto args = builder.getArrayAttr(
      {builder.getArrayAttr({}), builder.getI64IntegerAttr(*number),
       builder.getI64IntegerAttr(kLong), none,
       operators::makeDeviceArgument(device), none});
  auto call = CallOp::create(
      builder, op.getLoc(), TypeRange{typeOf(op.getResult())},
      operators::aten::full, ValueRange(), args, DenseI64ArrayAttr());
  buffers.map(op.getResult(), call.getOutputs().front());
  return success();
}

LogicalResult LaunchConverter::convert(scf::IfOp op) {
  auto flag = flagOf(op, op.getCondition());
  if (failed(flag))
    return failure();
  SmallVector<Value> results;
  for (Value result : op.getResults()) {
    results.push_back(sharedBuffer(op.getLoc(), result.getType()));
    buffers.map(result, results.back());
  }
  auto branch = IfOp::create(builder, op.getLoc(), buffers.lookup(*flag));
  auto side = [&](Region &from, Region &to) -> LogicalResult {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(&to.emplaceBlock());
    if (failed(convert(from.front())))
      return failure();
    SmallVector<Value> yielded;
    for (Value value : from.front().getTerminator()->getOperands())
      yielded.push_back(buffers.lookup(value));
    return copyTogether(op.getLoc(), yielded, results);
  };
  if (failed(side(op.getThenRegion(), branch.getThen())))
    return failure();
  return op.getElseRegion().empty()
             ? success()
             : side(op.getElseRegion(), branch.getOtherwise());
}
