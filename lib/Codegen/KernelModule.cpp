//===- KernelModule.cpp - The nested module that holds emitted code -------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "pyjit/Codegen/KernelModule.h"
#include "dialects/pyjit/IR/Attributes.h"
#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/FuncToLLVM/ConvertFuncToLLVM.h"
#include "mlir/Conversion/LLVMCommon/ConversionTarget.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVM.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "pyjit/Codegen/Overlap.h"

using namespace mlir;

namespace pyjit::codegen {

KernelBody::KernelBody(func::FuncOp kernel, unsigned batch)
    : inputs(
          kernel.getArguments().take_front(kernel.getNumArguments() / batch)),
      roots(kernel.getBody().front().getTerminator()->getOperands().take_front(
          kernel.getNumResults() / batch)) {
  std::string reason;
  graph = KernelGraph::build(inputs, roots, reason);
  std::string ignored;
  if (!graph && batch == 1)
    attention = Attention::find(inputs, roots, ignored);
  if (!isKernel()) {
    kernel.emitError("kernel '")
        << kernel.getName() << "' cannot be scheduled: " << reason;
    return;
  }
  auto overlaps = kernel->getAttrOfType<ArrayAttr>(attribute::kMayOverlap);
  if (!overlaps)
    return;
  for (auto pair : overlaps.getAsRange<DenseI64ArrayAttr>()) {
    uint64_t result = pair[0], operand = pair[1];
    if (batch > 1 && result >= roots.size())
      continue; // another part's
    if (graph && result < roots.size() && operand < inputs.size() &&
        roots[result].getType() == inputs[operand].getType() &&
        mayOverlap(*graph, inputs[operand], operand, result, reason)) {
      graph->stores[result].overlaps.push_back(operand);
      continue;
    }
    kernel.emitError("result ")
        << result << " of kernel '" << kernel.getName()
        << "' may not lie where operand " << operand << " does"
        << (reason.empty() ? "" : ": ") << reason;
    graph.reset();
    attention.reset();
    return;
  }
}

void remarkSchedule(func::FuncOp kernel, const KernelGraph &graph,
                    function_ref<void(raw_ostream &)> print) {
  std::string text;
  llvm::raw_string_ostream os(text);
  graph.print(os);
  print(os);
  kernel.emitRemark("schedule of '") << kernel.getName() << "':\n" << text;
}

LogicalResult
emitKernels(ModuleOp module,
            function_ref<LogicalResult(func::FuncOp, ModuleOp)> emit) {
  SmallVector<func::FuncOp> kernels;
  for (auto function : module.getOps<func::FuncOp>())
    if (function->hasAttr(attribute::kKernel) && !function.isExternal())
      kernels.push_back(function);
  if (kernels.empty())
    return success();
  OpBuilder b(module.getBodyRegion());
  b.setInsertionPointToEnd(module.getBody());
  auto into = ModuleOp::create(b, module.getLoc(), StringRef("kernels"));
  bool anyFailed = false;
  for (func::FuncOp kernel : kernels)
    anyFailed |= failed(emit(kernel, into));
  return failure(anyFailed);
}

LogicalResult lowerKernels(ModuleOp module,
                           function_ref<LogicalResult(ModuleOp)> lower) {
  for (auto nested : module.getOps<ModuleOp>())
    if (nested.getName() == "kernels" && failed(lower(nested)))
      return failure();
  return success();
}

LogicalResult convertToLLVM(ModuleOp kernels) {
  MLIRContext *context = kernels.getContext();
  LLVMTypeConverter types(context);
  LLVMConversionTarget target(*context);
  target.addLegalOp<ModuleOp>();
  RewritePatternSet patterns(context);
  populateSCFToControlFlowConversionPatterns(patterns);
  arith::populateCeilFloorDivExpandOpsPatterns(patterns);
  cf::populateControlFlowToLLVMConversionPatterns(types, patterns);
  arith::populateArithToLLVMConversionPatterns(types, patterns);
  populateMathToLLVMConversionPatterns(types, patterns);
  populateVectorToLLVMConversionPatterns(types, patterns);
  populateFuncToLLVMConversionPatterns(types, patterns);
  return applyFullConversion(kernels, target, std::move(patterns));
}

} // namespace pyjit::codegen
