//===- IndirectParams.cpp - Kernels that find their buffers in a table ----===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "dialects/cudagraph/Transforms/Passes.h"
#include "dialects/pyjit/IR/Attributes.h"

#include "mlir/IR/SymbolTable.h"

namespace pyjit::cudagraph {
#define GEN_PASS_DEF_INDIRECTPARAMSPASS
#include "dialects/cudagraph/Transforms/Passes.h.inc"
} // namespace pyjit::cudagraph

using namespace mlir;
using namespace pyjit;
using namespace pyjit::cudagraph;

namespace {

struct IndirectParams
    : cudagraph::impl::IndirectParamsPassBase<IndirectParams> {
  /// Whether sizes of what the kernel touches differ between calls.
  static bool hasSymbols(KernelOp op) {
    return llvm::any_of(op->getOperandTypes(), [](Type type) {
      return cast<BufferType>(type).isSymbolic();
    });
  }

  /// The kernel's version for these indirect buffers, made once.
  FlatSymbolRefAttr getVersion(func::FuncOp kernel, ArrayRef<int64_t> indirect,
                               bool deviceSizes, SymbolTable &symbols) {
    std::string name = (kernel.getName() + "_indirect").str();
    for (int64_t i : indirect)
      name += "_" + std::to_string(i);
    if (!symbols.lookup(name)) {
      auto version = cast<func::FuncOp>(kernel->clone());
      version.setName(name);
      SmallVector<bool> flags(kernel.getNumArguments() + kernel.getNumResults(),
                              false);
      for (int64_t i : indirect)
        flags[i] = true;
      version->setAttr(attribute::kIndirect,
                       DenseBoolArrayAttr::get(&getContext(), flags));
      if (deviceSizes)
        version->setAttr(attribute::kDeviceSizes, UnitAttr::get(&getContext()));
      symbols.insert(version, std::next(Block::iterator(kernel)));
    }
    return FlatSymbolRefAttr::get(&getContext(), name);
  }

  void runOnOperation() override {
    SymbolTable symbols(getOperation());
    WalkResult walked = getOperation().walk([&](KernelOp op) {
      if (!op->getParentOfType<GraphOp>() || op.getIndirectKernel())
        return WalkResult::advance();
      auto kernel = symbols.lookup<func::FuncOp>(op.getKernel());
      if (!kernel) {
        op.emitError("names no kernel of the module");
        return WalkResult::interrupt();
      }
      if (kernel.getNumArguments() + kernel.getNumResults() !=
          op.getNumBuffers()) {
        op.emitError("has ")
            << op.getNumBuffers() << " buffers, its kernel "
            << kernel.getNumArguments() + kernel.getNumResults();
        return WalkResult::interrupt();
      }
      SmallVector<int64_t> indirect;
      for (unsigned i = 0; i < op.getNumBuffers(); ++i)
        if (Value external = getExternal(op.getBuffer(i));
            external && isMoving(external))
          indirect.push_back(i);
      bool deviceSizes = hasSymbols(op);
      if ((indirect.empty() && !deviceSizes) ||
          op.getNumBuffers() > kMostIndirect)
        return WalkResult::advance();
      op.setIndirectKernelAttr(
          getVersion(kernel, indirect, deviceSizes, symbols));
      op.setIndirect(indirect);
      return WalkResult::advance();
    });
    if (walked.wasInterrupted())
      signalPassFailure();
  }
};

} // namespace
