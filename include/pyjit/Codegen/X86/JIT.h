//===- JIT.h - Kernels in the LLVM dialect to machine code ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_CODEGEN_X86_JIT_H
#define PYJIT_CODEGEN_X86_JIT_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/MemoryBuffer.h"
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace llvm::orc {
class LLJIT;
}

namespace pyjit::x86 {

/// Runs units [begin, end) of a kernel.
using KernelFunction = void (*)(void *const *buffers, int64_t begin,
                                int64_t end);

struct JitOptions {
  /// 0 to 3, as in -O; what the emitter leaves to LLVM needs little.
  unsigned optimizationLevel = 2;
  /// What kernels may call besides the C library's math.
  std::vector<std::pair<std::string, void *>> symbols;
};

/// Machine code of one module of kernels; kernels live as long as it does.
class JitLibrary {
public:
  explicit JitLibrary(std::unique_ptr<llvm::orc::LLJIT> jit);
  ~JitLibrary();
  llvm::Expected<KernelFunction> lookup(llvm::StringRef name) const;
  /// All of them, in order.
  llvm::Expected<std::vector<KernelFunction>>
  lookupAll(llvm::ArrayRef<std::string> names) const;

private:
  std::unique_ptr<llvm::orc::LLJIT> jit;
};

/// Compiles the nested module `@kernels` of `module` for the host; the rest of
/// `module` may be anything. Without such a module the library is empty. Many
/// kernels are compiled by several threads. Safe to call from several threads,
/// each with its own MLIR context.
llvm::Expected<std::unique_ptr<JitLibrary>>
compileKernels(mlir::ModuleOp module, const JitOptions &options = {});

} // namespace pyjit::x86

#endif
