//===- Select.cpp - Which ways to launch are worth measuring --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "dialects/cudagraph/Transforms/Passes.h"
#include "dialects/pyjit/IR/Attributes.h"

namespace pyjit::cudagraph {
#define GEN_PASS_DEF_SELECTPASS
#include "dialects/cudagraph/Transforms/Passes.h.inc"
} // namespace pyjit::cudagraph

using namespace mlir;
using namespace pyjit;
using namespace pyjit::cudagraph;

namespace {

struct Select : cudagraph::impl::SelectPassBase<Select> {
  using SelectPassBase::SelectPassBase;

  void runOnOperation() override {
    ProgramOp program = getOperation();
    bool graphs = false, indirect = false;
    int64_t copied = 0;
    program.walk([&](GraphOp graph) {
      graphs = true;
      for (Value buffer : graph.getExternals()) {
        auto type = cast<BufferType>(buffer.getType());
        RankedTensorType tensor = type.getTensor();
        // Of sizes that differ between calls nothing is said here.
        if (type.isHost() || !isMoving(buffer) || type.isSymbolic() ||
            !tensor.getElementType().isIntOrFloat())
          continue;
        copied += tensor.getNumElements() *
                  std::max(1u, tensor.getElementTypeBitWidth() / 8);
      }
    });
    program.walk([&](KernelOp kernel) {
      indirect |= kernel.getIndirectKernel().has_value();
    });
    SmallVector<StringRef> variants{stringifyVariant(Variant::plain)};
    // It runs when parameters change, hardly ever.
    if (program->hasAttr(attribute::kPrepare))
      graphs = indirect = false;
    if (graphs && copied <= maxCopyBytes)
      variants.push_back(stringifyVariant(Variant::copy));
    if (indirect)
      variants.push_back(stringifyVariant(Variant::table));
    if (graphs)
      variants.push_back(stringifyVariant(Variant::update));
    program.setVariantsAttr(OpBuilder(program).getStrArrayAttr(variants));
  }
};

} // namespace
