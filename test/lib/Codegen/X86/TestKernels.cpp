//===- TestKernels.cpp - Kernels from text, for tests ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A shared library with a C interface: pytest compiles kernels given as linalg
// text through the x86 pipeline and runs them on its own arrays.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "pyjit/Codegen/X86/HostVectorMath.h"
#include "pyjit/Codegen/X86/JIT.h"
#include "pyjit/Codegen/X86/Passes.h"
#include "llvm/ADT/StringMap.h"
#include <string>

using namespace mlir;

namespace {
struct Library {
  std::unique_ptr<pyjit::x86::JitLibrary> code;
  llvm::StringMap<int64_t> work;
  std::string error;
};
} // namespace

#define PYJIT_EXPORT extern "C" __attribute__((visibility("default")))

PYJIT_EXPORT void *pyjit_test_compile(const char *text, unsigned vectorBits) {
  auto library = std::make_unique<Library>();
  MLIRContext context(MLIRContext::Threading::DISABLED);
  context.loadDialect<arith::ArithDialect, func::FuncDialect,
                      linalg::LinalgDialect, math::MathDialect,
                      tensor::TensorDialect>();
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    library->error += diagnostic.str() + "\n";
    return success();
  });
  auto module = parseSourceString<ModuleOp>(text, &context);
  if (!module)
    return library.release();
  PassManager pm(&context);
  pyjit::x86::X86Options options;
  options.vectorBits = vectorBits ? vectorBits : pyjit::x86::hostVectorBits();
  options.vectorMath = !pyjit::x86::hostVectorMath().empty();
  options.prefetch = pyjit::x86::hostPrefetches();
  pyjit::x86::buildX86Pipeline(pm, options);
  if (failed(pm.run(*module)))
    return library.release();
  for (auto function : module->getOps<func::FuncOp>())
    if (auto work = function->getAttrOfType<IntegerAttr>("pyjit.work"))
      library->work[function.getName()] = work.getInt();
  auto code = pyjit::x86::compileKernels(*module);
  if (!code)
    library->error += llvm::toString(code.takeError());
  else
    library->code = std::move(*code);
  return library.release();
}

PYJIT_EXPORT const char *pyjit_test_error(void *handle) {
  auto *library = static_cast<Library *>(handle);
  return library->code ? nullptr : library->error.c_str();
}

/// Runs a kernel in one call, or unit by unit; returns its number of units.
PYJIT_EXPORT int64_t pyjit_test_run(void *handle, const char *name,
                                    void *const *buffers, int unitwise) {
  auto *library = static_cast<Library *>(handle);
  auto function = library->code->lookup(name);
  if (!function) {
    llvm::consumeError(function.takeError());
    return -1;
  }
  int64_t work = library->work.lookup(name);
  if (!unitwise) {
    (*function)(buffers, 0, work);
    return work;
  }
  for (int64_t unit = work; unit-- > 0;)
    (*function)(buffers, unit, unit + 1);
  return work;
}

PYJIT_EXPORT void pyjit_test_free(void *handle) {
  delete static_cast<Library *>(handle);
}
