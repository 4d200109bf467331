//===- Recipes.cpp - Operators by the table's expressions -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Each step of a recipe (pyjit/Operators/Recipe.h) becomes one generic.
//
//===----------------------------------------------------------------------===//

#include "EmitScalar.h"
#include "Lowering.h"

#include "dialects/pyjit/IR/Attributes.h"
#include "dialects/tssa/IR/Calls.h"
#include "dialects/tssa/IR/Views.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "pyjit/Operators/Recipe.h"

using namespace mlir;
using pyjit::operators::Recipe;
using pyjit::operators::ScalarOp;
using pyjit::operators::Step;

namespace pyjit {

namespace {

Value combine(OpBuilder &b, Location loc, ScalarOp op, Value x, Value y) {
  bool isFloat = isa<FloatType>(x.getType());
  bool isBool = x.getType().isInteger(1);
  switch (op) {
  case ScalarOp::Add:
    if (isBool)
      return arith::OrIOp::create(b, loc, x, y);
    return isFloat ? Value(arith::AddFOp::create(b, loc, x, y))
                   : Value(arith::AddIOp::create(b, loc, x, y));
  case ScalarOp::Mul:
    if (isBool)
      return arith::AndIOp::create(b, loc, x, y);
    return isFloat ? Value(arith::MulFOp::create(b, loc, x, y))
                   : Value(arith::MulIOp::create(b, loc, x, y));
  case ScalarOp::Maximum:
    if (isBool)
      return arith::OrIOp::create(b, loc, x, y);
    return isFloat ? Value(arith::MaximumFOp::create(b, loc, x, y))
                   : Value(arith::MaxSIOp::create(b, loc, x, y));
  case ScalarOp::Minimum:
    if (isBool)
      return arith::AndIOp::create(b, loc, x, y);
    return isFloat ? Value(arith::MinimumFOp::create(b, loc, x, y))
                   : Value(arith::MinSIOp::create(b, loc, x, y));
  case ScalarOp::BitOr:
    return arith::OrIOp::create(b, loc, x, y);
  case ScalarOp::BitAnd:
    return arith::AndIOp::create(b, loc, x, y);
  default:
    llvm_unreachable("recipes combine by nothing else");
  }
}

/// Why a recipe has to stay a vendor call, or an empty string.
StringRef whyVendorCall(const Recipe &recipe) {
  for (const Step &step : recipe.steps) {
    // Eager rounds the quotient to half precision before it is truncated.
    if (step.getElementType().isF16() || step.getElementType().isBF16())
      for (const operators::ScalarNode &node : step.expr)
        if (node.op == ScalarOp::TruncDiv || node.op == ScalarOp::FloorDiv)
          return "a truncated quotient in half precision";
    StringRef reason = whyNotEmitted(step.expr);
    if (!reason.empty())
      return reason;
    if (!step.isReduction)
      continue;
    if (step.getElementType().isUnsignedInteger())
      return "a reduction of unsigned numbers";
    for (unsigned d : step.reducedDims)
      if (llvm::none_of(step.inputs, [&](const operators::StepInput &input) {
            return input.map.isFunctionOfDim(d);
          }))
        return "a reduction over a dimension that no operand has";
  }
  return "";
}

/// One step as a generic of type `type`.
Value lowerStep(OpBuilder &b, Location loc, const Step &step, ValueRange inputs,
                RankedTensorType type, bool onDevice) {
  SmallVector<AffineMap> maps;
  for (const operators::StepInput &input : step.inputs)
    maps.push_back(input.map);
  if (step.reducedDims.empty())
    return makeMap(b, loc, type, inputs, maps,
                   [&](OpBuilder &in, Location at, ValueRange elements) {
                     Value value =
                         emitScalar(in, at, step.expr, elements, onDevice);
                     if (!step.isReduction)
                       return value;
                     Value init = arith::ConstantOp::create(in, at, step.init);
                     return combine(in, at, step.combine, value, init);
                   });
  unsigned rank = step.shape.size();
  SmallVector<utils::IteratorType> iterators(rank,
                                             utils::IteratorType::parallel);
  for (unsigned d : step.reducedDims)
    iterators[d] = utils::IteratorType::reduction;
  SmallVector<AffineExpr> kept;
  for (unsigned d = 0; d < rank; ++d)
    if (iterators[d] == utils::IteratorType::parallel)
      kept.push_back(b.getAffineDimExpr(d));
  maps.push_back(AffineMap::get(rank, 0, kept, b.getContext()));
  Value init = arith::ConstantOp::create(b, loc, step.init);
  Value empty = tssa::makeEmpty(b, loc, type);
  Value filled = linalg::FillOp::create(b, loc, init, empty).getResult(0);
  return linalg::GenericOp::create(
             b, loc, TypeRange(type), inputs, ValueRange(filled), maps,
             iterators,
             [&](OpBuilder &in, Location at, ValueRange arguments) {
               Value value = emitScalar(in, at, step.expr,
                                        arguments.drop_back(), onDevice);
               Value sum =
                   combine(in, at, step.combine, value, arguments.back());
               linalg::YieldOp::create(in, at, sum);
             })
      .getResult(0);
}

} // namespace

/// The type of a step's result where sizes differ between calls; null where its
/// inputs, or they and the call's result `last`, have sizes that need not be
/// equal.
static RankedTensorType symbolicType(const Step &step, ValueRange inputs,
                                     RankedTensorType last) {
  SmallVector<std::optional<tssa::Size>> loops(step.shape.size());
  auto agree = [&](unsigned loop, const tssa::Size &size) {
    if (loops[loop] && *loops[loop] != size)
      return false;
    loops[loop] = size;
    return true;
  };
  for (auto [input, value] : llvm::zip(step.inputs, inputs))
    for (auto [expr, size] :
         llvm::zip(input.map.getResults(),
                   tssa::getSizes(cast<RankedTensorType>(value.getType()))))
      if (auto dim = dyn_cast<AffineDimExpr>(expr))
        if (!agree(dim.getPosition(), size))
          return {};
  SmallVector<unsigned> kept;
  for (unsigned d = 0; d < step.shape.size(); ++d)
    if (!llvm::is_contained(step.reducedDims, d))
      kept.push_back(d);
  if (last)
    for (auto [d, size] : llvm::zip_equal(kept, tssa::getSizes(last)))
      if (!agree(d, size))
        return {};
  SmallVector<tssa::Size> sizes;
  for (unsigned d : kept) {
    if (!loops[d] && ShapedType::isDynamic(step.shape[d]))
      return {};
    sizes.push_back(loops[d].value_or(step.shape[d]));
  }
  return last ? last
              : tssa::getSymbolicType(sizes, tssa::getRowMajorStrides(sizes),
                                      step.getElementType());
}

/// Where what is built at `b` is computed.
static operators::CallPlace findPlace(OpBuilder &b, ValueRange operands) {
  Operation *parent = b.getInsertionBlock()->getParentOp();
  auto function = dyn_cast<func::FuncOp>(parent);
  if (!function)
    function = parent->getParentOfType<func::FuncOp>();
  operators::CallPlace place;
  if (!function)
    return place;
  if (auto type = function->getAttrOfType<TypeAttr>(attribute::kDefaultDtype))
    place.defaultFloat = type.getValue();
  // A simulated device has the CPU's vendor library, and its roundings.
  auto device = function->getAttrOfType<StringAttr>(attribute::kDevice);
  place.onDevice = device && device.getValue() != "cpu";
  place.hostOperands.resize(operands.size());
  for (auto [i, operand] : llvm::enumerate(operands)) {
    auto arg = dyn_cast<BlockArgument>(operand);
    if (arg && arg.getOwner() == &function.front())
      place.hostOperands[i] =
          function.getArgAttr(arg.getArgNumber(), attribute::kDevice) !=
          nullptr;
    else if (Operation *op = operand.getDefiningOp())
      place.hostOperands[i] = op->hasAttr(attribute::kDevice);
  }
  return place;
}

Value lowerRecipe(OpBuilder &b, Location loc, StringRef overload,
                  ArrayAttr args, TypeRange operands, ValueRange shown,
                  RankedTensorType type, std::string &reason) {
  auto isSymbolic = [](Type t) {
    return tssa::isSymbolic(cast<RankedTensorType>(t));
  };
  bool symbolic = isSymbolic(type) || llvm::any_of(operands, isSymbolic);
  operators::CallPlace place = findPlace(b, shown);
  auto recipe = operators::resolveRecipe(overload, args, operands, type, place);
  if (failed(recipe) || recipe->steps.empty()) {
    reason = "the operator table has no recipe for it";
    return {};
  }
  reason = whyVendorCall(*recipe).str();
  if (!reason.empty())
    return {};
  SmallVector<Value> results;
  for (const Step &step : recipe->steps) {
    SmallVector<Value> inputs;
    for (const operators::StepInput &input : step.inputs)
      inputs.push_back(input.isStep ? results[input.number]
                                    : shown[input.number]);
    bool last = results.size() + 1 == recipe->steps.size();
    RankedTensorType stepType;
    if (symbolic)
      stepType = symbolicType(step, inputs, last ? type : RankedTensorType());
    else
      stepType = last ? type
                      : RankedTensorType::get(step.getResultShape(),
                                              step.getElementType());
    if (!stepType) {
      reason = "sizes that need not be equal";
      for (Value made : llvm::reverse(results))
        if (made.use_empty())
          made.getDefiningOp()->erase();
      return {};
    }
    results.push_back(
        lowerStep(b, loc, step, inputs, stepType, place.onDevice));
  }
  return results.back();
}

} // namespace pyjit
