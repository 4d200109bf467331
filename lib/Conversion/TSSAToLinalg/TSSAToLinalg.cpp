//===- TSSAToLinalg.cpp - Functional tssa to linalg on tensors ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

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
#include "pyjit/Operators/OperatorInfo.h"

using namespace mlir;

namespace pyjit {
#define GEN_PASS_DEF_CONVERTTSSATOLINALG
#include "lib/Conversion/TSSAToLinalg/Passes.h.inc"

namespace {

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
    const StructuredRule *known = lookupStructuredRule(rule);
    if (!known || (op.getMutates() && !(known->takes & StructuredRule::Writes)))
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

  /// Whether a launch can show what a path shows, without a kernel.
  static bool canBeShown(ArrayAttr path, RankedTensorType source) {
    if (!tssa::hasKnownSizes(source))
      return false;
    AffineMap map = tssa::getPathMap(path, source);
    return map && succeeded(tssa::getFirstOffset(map, source));
  }
  static bool canBeShown(tssa::AccessOp access) {
    return access.getIndices().empty() &&
           canBeShown(access.getPath(),
                      cast<RankedTensorType>(access.getSource().getType()));
  }

  /// Whether the launcher copies the part: at a place known at run time only,
  /// or of complex numbers, which kernels do not have.
  static bool isLaunched(tssa::AssignOp assign) {
    auto type = cast<RankedTensorType>(assign.getType());
    return !assign.getIndices().empty() ||
           (isa<ComplexType>(type.getElementType()) &&
            canBeShown(assign.getPath(), type));
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
      if (isLaunched(assign))
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
