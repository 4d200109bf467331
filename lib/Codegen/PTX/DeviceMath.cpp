//===- DeviceMath.cpp - Functions that kernels call -----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "DeviceMath.h"
#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/IR/Module.h"
#include "llvm/Linker/Linker.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace llvm;

namespace pyjit::ptx {

/// DeviceMath.c.
static const unsigned char bitcode[] = {
#include "lib/Codegen/PTX/DeviceMath.inc"
};

static const Function *undefinedFunction(const Module &module) {
  for (const Function &function : module)
    if (function.isDeclaration() && !function.isIntrinsic())
      return &function;
  return nullptr;
}

Error linkDeviceMath(Module &module) {
  if (!undefinedFunction(module))
    return Error::success();
  SmallPtrSet<const Function *, 16> own;
  for (const Function &function : module)
    if (!function.isDeclaration())
      own.insert(&function);
  MemoryBufferRef bytes(
      StringRef(reinterpret_cast<const char *>(bitcode), sizeof(bitcode)),
      "DeviceMath");
  auto library = getLazyBitcodeModule(bytes, module.getContext());
  if (!library)
    return library.takeError();
  (*library)->setDataLayout(module.getDataLayout());
  (*library)->setTargetTriple(module.getTargetTriple());
  if (Linker::linkModules(module, std::move(*library),
                          Linker::Flags::LinkOnlyNeeded))
    return createStringError("the GPU's mathematical functions do not link");
  for (Function &function : module) {
    if (function.isDeclaration() || own.contains(&function))
      continue;
    function.setLinkage(GlobalValue::InternalLinkage);
    // The kernels' target is theirs.
    function.removeFnAttr("target-cpu");
    function.removeFnAttr("target-features");
  }
  if (const Function *missing = undefinedFunction(module))
    return createStringError("no code for the GPU for function '" +
                             missing->getName() + "'");
  return Error::success();
}

} // namespace pyjit::ptx
