//===- ControlToSCF.cpp - A recording's control flow as scf ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A loop-carried tensor goes round by contents and is a handle inside the body
// and after the loop; tensors of the outside are used as the handles that they
// are. The flag of the next test is carried beside them, as a 0-dim bool tensor
// that is true where the loop goes on.
//
//===----------------------------------------------------------------------===//

#include "Converter.h"

#include "dialects/tssa/IR/Views.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "pyjit/Operators/OperatorNames.h"

using namespace mlir;
using namespace pyjit;
using namespace pyjit::conversion;

/// What Python's `bool` of a tensor with this one element says, negated where
/// `outcome` is false.
Value Converter::makeFlag(Location loc, Value contents, bool outcome) {
  auto type = cast<RankedTensorType>(contents.getType());
  if (!type.getElementType().isInteger(1)) {
    type = RankedTensorType::get(type.getShape(), builder.getI1Type());
    SmallVector<Attribute> args{operators::getOperandPlaceholder(context()),
                                builder.getI64IntegerAttr(0)};
    contents =
        tssa::AtenOp::create(builder, loc, TypeRange{type},
                             operators::aten::ne_Scalar, ValueRange{contents},
                             builder.getArrayAttr(args), DenseI64ArrayAttr())
            .getResult(0);
  }
  if (!outcome) {
    SmallVector<Attribute> args{operators::getOperandPlaceholder(context())};
    contents =
        tssa::AtenOp::create(builder, loc, TypeRange{type},
                             operators::aten::logical_not, ValueRange{contents},
                             builder.getArrayAttr(args), DenseI64ArrayAttr())
            .getResult(0);
  }
  if (type.getRank() == 0)
    return contents;
  SmallVector<Attribute> path;
  for (int64_t i = 0; i < type.getRank(); ++i)
    path.push_back(
        tssa::ViewAttr::get(context(), tssa::ViewKind::select, {0, 0}));
  auto flag = RankedTensorType::get({}, builder.getI1Type());
  return tssa::AccessOp::create(builder, loc, flag, contents,
                                builder.getArrayAttr(path), ValueRange());
}

LogicalResult Converter::convert(refgraph::WhileOp op) {
  auto next = cast<refgraph::NextOp>(op.getBody().front().getTerminator());
  Location loc = op.getLoc();
  SmallVector<Value> inits;
  for (Value init : op.getInits())
    inits.push_back(load(loc, init));
  inits.push_back(makeFlag(loc, load(loc, op.getCondition()), op.getOutcome()));
  SmallVector<Type> types(ValueRange(inits).getTypes());
  SmallVector<Location> locs(types.size(), loc);
  auto loop = scf::WhileOp::create(builder, loc, types, inits);

  Block *before = builder.createBlock(&loop.getBefore(), {}, types, locs);
  Value flag = tensor::ExtractOp::create(
      builder, loc, before->getArguments().back(), ValueRange());
  scf::ConditionOp::create(builder, loc, flag, before->getArguments());

  Block *after = builder.createBlock(&loop.getAfter(), {}, types, locs);
  for (auto [recorded, argument] :
       llvm::zip(op.getBody().getArguments(), after->getArguments()))
    define(recorded, argument);
  if (failed(convert(op.getBody().front())))
    return failure();
  SmallVector<Value> values;
  for (Value value : next.getValues())
    values.push_back(load(next.getLoc(), value));
  values.push_back(makeFlag(next.getLoc(),
                            load(next.getLoc(), next.getCondition()),
                            op.getOutcome()));
  scf::YieldOp::create(builder, next.getLoc(), values);

  builder.setInsertionPointAfter(loop);
  for (auto [recorded, result] : llvm::zip(op.getResults(), loop.getResults()))
    define(recorded, result);
  return success();
}

/// Results are handed out by contents; tensors of the outside are used, and
/// written, as the handles that they are.
LogicalResult Converter::convert(refgraph::IfOp op) {
  Location loc = op.getLoc();
  Value flag = tensor::ExtractOp::create(
      builder, loc, makeFlag(loc, load(loc, op.getCondition()), true),
      ValueRange());
  SmallVector<Type> types;
  for (Type type : op.getResultTypes())
    types.push_back(contentsOf(cast<refgraph::TensorType>(type)));
  auto branch = scf::IfOp::create(builder, loc, types, flag,
                                  /*addThenBlock=*/false,
                                  /*addElseBlock=*/false);
  for (auto [arm, target] : llvm::zip(op->getRegions(), branch->getRegions())) {
    builder.createBlock(&target);
    if (failed(convert(arm.front())))
      return failure();
    auto yield = cast<refgraph::YieldOp>(arm.front().getTerminator());
    SmallVector<Value> values;
    for (Value value : yield.getValues())
      values.push_back(load(yield.getLoc(), value));
    scf::YieldOp::create(builder, yield.getLoc(), values);
  }
  builder.setInsertionPointAfter(branch);
  for (auto [recorded, result] :
       llvm::zip(op.getResults(), branch.getResults())) {
    define(recorded, result);
    offsets[handles[recorded]] = 0;
  }
  return success();
}

LogicalResult Converter::convert(refgraph::SpeculateOp op) {
  Location loc = op.getLoc();
  Value flag = makeFlag(loc, load(loc, op.getFlag()), op.getOutcome());
  tssa::SpeculateOp::create(builder, loc, flag);
  return success();
}

LogicalResult Converter::convert(refgraph::DecideOp op) {
  auto error = op.emitError("a decision on data that is no loop");
  if (std::optional<StringRef> why = op.getUnfolded())
    error << ": " << *why;
  return error;
}
