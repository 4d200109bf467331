//===- TSSAToLinalg.cpp - Functional tssa to linalg on tensors ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "EmitScalar.h"
#include "Lowering.h"
#include "Structured.h"
#include "dialects/pyjit/IR/Attributes.h"
#include "dialects/tssa/IR/Calls.h"
#include "dialects/tssa/IR/Views.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "pyjit/Conversion/TSSAToLinalg/Passes.h"
#include "pyjit/Operators/CallArguments.h"
#include "pyjit/Operators/Recipe.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using pyjit::operators::Recipe;
using pyjit::operators::ScalarOp;
using pyjit::operators::Step;

namespace pyjit {
#define GEN_PASS_DEF_CONVERTTSSATOLINALG
#include "lib/Conversion/TSSAToLinalg/Passes.h.inc"

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

Value StructuredCall::tensor(unsigned argument) {
  return operators::isOperandPlaceholder(op.getArgs()[argument])
             ? op.getInputs()[firstOperand[argument]]
             : Value();
}

std::optional<int64_t> StructuredCall::integer(unsigned argument) {
  auto value = dyn_cast<IntegerAttr>(op.getArgs()[argument]);
  if (!value)
    return std::nullopt;
  return value.getInt();
}

std::optional<SmallVector<int64_t>>
StructuredCall::integers(unsigned argument) {
  auto list = dyn_cast<ArrayAttr>(op.getArgs()[argument]);
  if (!list)
    return std::nullopt;
  SmallVector<int64_t> numbers;
  for (Attribute element : list) {
    auto number = dyn_cast<IntegerAttr>(element);
    if (!number)
      return std::nullopt;
    numbers.push_back(number.getInt());
  }
  return numbers;
}

bool StructuredCall::isOnDevice() {
  auto function = op->getParentOfType<func::FuncOp>();
  return !function || function->hasAttr(attribute::kDevice);
}

std::optional<unsigned> StructuredCall::dim(unsigned argument, unsigned rank) {
  std::optional<int64_t> value = integer(argument);
  return value ? dimOf(*value, rank) : std::nullopt;
}

std::optional<unsigned> dimOf(int64_t number, unsigned rank) {
  if (number < -int64_t(rank) || number >= int64_t(rank))
    return std::nullopt;
  return number < 0 ? number + rank : number;
}

namespace {

/// How the call of an operator that is `Structured` becomes kernels.
struct StructuredRule {
  /// What a rule takes, other than calls that make a tensor of known sizes.
  enum Takes : unsigned {
    AnySizes = 1, ///< sizes that are symbols: joins, indexed reads, pools
    Writes = 2,   ///< calls that write their input: the result is its contents
  };
  StringLiteral name;
  SmallVector<Value> (*lower)(StructuredCall &);
  unsigned takes = 0;
};

template <unsigned Rank> SmallVector<Value> lowerMaxPoolOf(StructuredCall &c) {
  return lowerMaxPool(c, Rank);
}
template <unsigned Rank>
SmallVector<Value> lowerMaxPoolBackwardOf(StructuredCall &c) {
  return lowerMaxPoolBackward(c, Rank);
}
template <unsigned Rank> SmallVector<Value> lowerAvgPoolOf(StructuredCall &c) {
  return lowerAvgPool(c, Rank);
}
template <bool Largest> SmallVector<Value> lowerExtremeOf(StructuredCall &c) {
  return lowerExtreme(c, Largest);
}

constexpr StructuredRule kStructuredRules[] = {
    {"cat", lowerCat, StructuredRule::AnySizes},
    {"stack", lowerStack},
    {"repeat", lowerRepeat},
    {"pixel_shuffle", lowerPixelShuffle},
    {"pixel_unshuffle", lowerPixelUnshuffle},
    {"flip", lowerFlip},
    {"roll", lowerRoll},
    {"constant_pad_nd", lowerConstantPad},
    {"embedding", lowerEmbedding, StructuredRule::AnySizes},
    {"index_select", lowerIndexSelect, StructuredRule::AnySizes},
    {"gather", lowerGather, StructuredRule::AnySizes},
    {"index", lowerIndex, StructuredRule::AnySizes},
    {"index_copy", lowerIndexCopy, StructuredRule::Writes},
    {"max", lowerExtremeOf<true>},
    {"min", lowerExtremeOf<false>},
    {"group_norm", lowerGroupNorm},
    {"max_pool1d", lowerMaxPoolOf<1>, StructuredRule::AnySizes},
    {"max_pool2d", lowerMaxPoolOf<2>, StructuredRule::AnySizes},
    {"max_pool3d", lowerMaxPoolOf<3>, StructuredRule::AnySizes},
    {"max_pool2d_backward", lowerMaxPoolBackwardOf<2>,
     StructuredRule::AnySizes},
    {"max_pool3d_backward", lowerMaxPoolBackwardOf<3>,
     StructuredRule::AnySizes},
    {"avg_pool1d", lowerAvgPoolOf<1>, StructuredRule::AnySizes},
    {"avg_pool2d", lowerAvgPoolOf<2>, StructuredRule::AnySizes},
    {"avg_pool3d", lowerAvgPoolOf<3>, StructuredRule::AnySizes},
};

struct ConvertPass : impl::ConvertTSSAToLinalgBase<ConvertPass> {
  using ConvertTSSAToLinalgBase::ConvertTSSAToLinalgBase;

  /// Values as kernels see them: accesses, and results that are not dense.
  /// Vendor calls and the function's results keep the original.
  DenseMap<Value, Value> shown;

  CheckedIndices checked;

  /// What may have two forms now, in the order of the function.
  SmallVector<Operation *> doubled;

  /// Takes away the forms that nothing reads, the users' first.
  void dropUnread() {
    for (Operation *op : llvm::reverse(doubled)) {
      Value view = shown.lookup(op->getResult(0));
      if (view && view.use_empty())
        view.getDefiningOp()->erase();
      if (op->use_empty())
        op->erase();
    }
  }

  Value operand(Value value) {
    auto it = shown.find(value);
    return it == shown.end() ? value : it->second;
  }

  void stays(tssa::AtenOp op, const Twine &reason) {
    if (explain)
      op.emitRemark("'") << op.getOverload()
                         << "' stays a vendor call: " << reason;
  }

  void lowerOperator(tssa::AtenOp op) {
    if (op.getNumResults() != 1 || op.getMutates())
      return stays(op, "several results");
    auto type = cast<RankedTensorType>(op.getResult(0).getType());
    for (Type operandType : op.getInputs().getTypes())
      if (!tssa::hasKnownSizes(cast<RankedTensorType>(operandType)))
        return stays(op, "a shape that is not known");
    if (!tssa::hasKnownSizes(type))
      return stays(op, "a shape that is not known");
    // What writes a view in place has the view's gaps. Kernels and assignments
    // read a dense value instead; the call stays for those that see strides.
    bool dense = tssa::isDense(type);
    if (!dense)
      type = tssa::getRowMajorType(type);
    OpBuilder b(op);
    std::string reason;
    SmallVector<Value> inputs;
    for (Value value : op.getInputs())
      inputs.push_back(operand(value));
    Value result = lowerRecipe(b, op.getLoc(), op.getOverload(), op.getArgs(),
                               op.getInputs().getTypes(), inputs, type, reason);
    if (!result)
      return stays(op, reason);
    if (op->hasAttr(attribute::kPacked))
      result.getDefiningOp()->setAttr(attribute::kPacked, b.getUnitAttr());
    if (!dense) {
      shown[op.getResult(0)] = result;
      doubled.push_back(op);
      return;
    }
    op.getResult(0).replaceAllUsesWith(result);
    op.erase();
  }

  void lowerStructured(tssa::AtenOp op, StringRef rule) {
    const auto *known =
        llvm::find_if(kStructuredRules, [&](const StructuredRule &candidate) {
          return candidate.name == rule;
        });
    if (known == std::end(kStructuredRules) ||
        (op.getMutates() && !(known->takes & StructuredRule::Writes)))
      return stays(op, "its rule is unknown");
    if (op->hasAttr(attribute::kPart))
      return stays(op, "the launch writes the part");
    bool anySizes = known->takes & StructuredRule::AnySizes;
    auto isCovered = [&](RankedTensorType type) {
      return type.hasStaticShape() || (anySizes && tssa::isSymbolic(type));
    };
    for (Type type : op->getOperandTypes())
      if (!isCovered(cast<RankedTensorType>(type)) ||
          isa<ComplexType>(cast<RankedTensorType>(type).getElementType()))
        return stays(op, "a shape that is not static, or complex numbers");
    for (Type type : op->getResultTypes()) {
      auto tensor = cast<RankedTensorType>(type);
      if (!isCovered(tensor) || !tssa::isDense(tensor) ||
          llvm::is_contained(tensor.getShape(), 0))
        return stays(op, "a result that is empty or not dense");
    }
    OpBuilder b(op);
    auto show = [&](Value value) { return operand(value); };
    StructuredCall call{b, op, checked, show, {}, {}};
    operators::walkCallArguments(op.getArgs(),
                                 [&](unsigned, Attribute, unsigned first) {
                                   call.firstOperand.push_back(first);
                                 });
    SmallVector<Value> results = known->lower(call);
    if (results.empty())
      return stays(op, call.reason);
    op->replaceAllUsesWith(results);
    op.erase();
  }

  /// Whether this is one iteration's part of what a loop around vendor calls
  /// gives. Kernels take such a part by itself: those of all parts are one
  /// kernel then, and where the loop is written out again, its iteration's
  /// value is the part.
  static bool isResultOfIteration(tssa::AccessOp access) {
    auto loop = access.getSource().getDefiningOp<scf::ForOp>();
    if (!loop || access.getPath().size() != 1 || !access.getIndices().empty())
      return false;
    auto view = cast<tssa::ViewAttr>(access.getPath()[0]);
    bool isPart = view.getKind() == tssa::ViewKind::select ||
                  view.getKind() == tssa::ViewKind::slice;
    return isPart && view.getParams()[0] == 0 &&
           !loop.getBody()->getOps<tssa::AtenOp>().empty();
  }

  /// Whether a launch can show what the access does without a kernel.
  static bool canBeShown(tssa::AccessOp access) {
    auto source = cast<RankedTensorType>(access.getSource().getType());
    if (!access.getIndices().empty() || !tssa::hasKnownSizes(source))
      return false;
    AffineMap map = tssa::getPathMap(access.getPath(), source);
    return map && succeeded(tssa::getFirstOffset(map, source));
  }

  LogicalResult lowerOne(Operation *op) {
    OpBuilder b(op);
    if (auto aten = dyn_cast<tssa::AtenOp>(op)) {
      if (op->hasAttr(attribute::kVendorCall)) {
        stays(aten, "it meets tensors of several devices");
        return success();
      }
      auto *info = operators::lookupOperator(aten.getOverload());
      if (info && aten.getMutates() && !info->functional.empty())
        info = operators::lookupOperator(info->functional);
      if (info && info->lowering == operators::Lowering::Structured)
        lowerStructured(aten, info->rule);
      else
        lowerOperator(aten);
    } else if (auto access = dyn_cast<tssa::AccessOp>(op)) {
      if (isResultOfIteration(access))
        return success();
      if (Value view = lowerAccess(b, access, operand(access.getSource())))
        shown[access.getResult()] = view;
    } else if (auto assign = dyn_cast<tssa::AssignOp>(op)) {
      // The launch writes the part: of a dense value, where that is computed.
      if (op->hasAttr(attribute::kPart)) {
        auto access = assign.getSource().getDefiningOp<tssa::AccessOp>();
        if (!access || !canBeShown(access))
          assign.getSourceMutable().assign(operand(assign.getSource()));
        return success();
      }
      // At a place known at run time only: the launcher copies the part.
      if (!assign.getIndices().empty())
        return success();
      Value value = lowerAssign(b, assign, operand(assign.getTarget()),
                                operand(assign.getSource()));
      if (!value)
        return op->emitError("no lowering for an assignment through this view");
      assign.getResult().replaceAllUsesWith(value);
      assign.erase();
    } else if (auto generic = dyn_cast<linalg::GenericOp>(op)) {
      // What an earlier pass has lowered reads accesses as kernels see them.
      for (OpOperand &use : generic->getOpOperands())
        use.set(operand(use.get()));
    }
    return success();
  }

  void runOnOperation() override {
    if (getOperation()->hasAttr(attribute::kKernel))
      return;
    shown.clear();
    checked.clear();
    doubled.clear();
    SmallVector<Operation *> ops;
    getOperation().walk<WalkOrder::PreOrder>([&](Operation *op) {
      if (isa<tssa::AtenOp, tssa::AccessOp, tssa::AssignOp, linalg::GenericOp>(
              op))
        ops.push_back(op);
    });
    for (Operation *op : ops) {
      if (isa<tssa::AccessOp>(op))
        doubled.push_back(op);
      if (failed(lowerOne(op)))
        return signalPassFailure();
    }
    dropUnread();
  }
};

} // namespace
} // namespace pyjit
