//===- TestKernels.cpp - GPU kernels from text, for tests -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A shared library with a C interface: pytest compiles kernels given as linalg
// text, or as a function on tssa that is fused first, through the PTX pipeline,
// reads the PTX, and runs the same schedules on its own arrays with a GPU's
// threads simulated.
//
//===----------------------------------------------------------------------===//

#include "Simulator.h"
#include "dialects/tssa/IR/TSSA.h"
#include "dialects/tssa/IR/Views.h"
#include "mlir/AsmParser/AsmParser.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "pyjit/Codegen/PTX/Compile.h"
#include "pyjit/Codegen/PTX/Passes.h"
#include "pyjit/Codegen/RowsProduct.h"
#include "pyjit/Codegen/X86/JIT.h"
#include "pyjit/Fusion/Passes.h"
#include "pyjit/Library/Passes.h"
#include <string>

using namespace mlir;

namespace {
struct Library {
  pyjit::ptx::Code code;
  std::string description;
  std::unique_ptr<pyjit::x86::JitLibrary> host;
  std::string error;
};
} // namespace

#define PYJIT_EXPORT extern "C" __attribute__((visibility("default")))

/// One line per kernel, per value and call of `@main`, and its result.
static std::string describe(ModuleOp module, const pyjit::ptx::Code &code) {
  std::string text;
  llvm::raw_string_ostream os(text);
  for (const pyjit::ptx::KernelCode &kernel : code.kernels) {
    std::string aligned, indirect;
    for (unsigned bytes : kernel.alignment)
      aligned += (aligned.empty() ? "" : ",") + std::to_string(bytes);
    for (bool pointer : kernel.indirect)
      indirect += pointer ? '1' : '0';
    Operation *function = module.lookupSymbol(kernel.function);
    auto symbols =
        function->getAttrOfType<DenseI64ArrayAttr>("pyjit.reads_symbols");
    os << "kernel\t" << kernel.function << '\t' << kernel.name << '\t';
    if (auto blocks = function->getAttrOfType<AffineMapAttr>("pyjit.blocks"))
      os << blocks.getValue().getResult(0);
    else
      os << kernel.grid[0];
    os << '\t' << kernel.block[0] << '\t' << kernel.sharedBytes << '\t'
       << aligned << '\t' << indirect << '\t'
       << function->getAttr("pyjit.schedule") << '\t';
    if (symbols)
      llvm::interleave(symbols.asArrayRef(), os, ",");
    auto cluster = function->getAttrOfType<IntegerAttr>("pyjit.cluster");
    os << '\t' << (cluster ? cluster.getInt() : 1) << '\n';
  }
  auto main = module.lookupSymbol<func::FuncOp>("main");
  if (!main || main.isExternal())
    return text;
  DenseMap<Value, unsigned> numbers;
  auto define = [&](StringRef kind, Value value) {
    unsigned number = numbers.size();
    numbers[value] = number;
    os << kind << '\t' << number << '\t' << value.getType() << '\n';
  };
  auto list = [&](ValueRange values) {
    llvm::interleave(
        values, os, [&](Value v) { os << numbers.lookup(v); }, ",");
  };
  for (Value argument : main.getArguments())
    define("input", argument);
  for (Operation &op : main.getBody().front()) {
    if (auto call = dyn_cast<func::CallOp>(op)) {
      for (Value result : call.getResults())
        define("value", result);
      os << "call\t" << call.getCallee() << '\t';
      list(call.getOperands());
      os << '\t';
      list(call.getResults());
      os << '\n';
    } else if (auto view = dyn_cast<pyjit::tssa::AccessOp>(op)) {
      auto source = cast<RankedTensorType>(view.getSource().getType());
      auto offset = pyjit::tssa::getFirstOffset(
          pyjit::tssa::getPathMap(view.getPath(), source), source);
      define("value", view.getResult());
      os << "view\t" << numbers.lookup(view.getResult()) << '\t'
         << numbers.lookup(view.getSource()) << '\t'
         << (succeeded(offset) ? offset->toExpr(op.getContext()) : AffineExpr())
         << '\n';
    } else if (isa<func::ReturnOp>(op)) {
      os << "return\t";
      list(op.getOperands());
      os << '\n';
    } else if (!op.use_empty()) {
      os << "other\t" << op.getName() << '\n';
    }
  }
  return text;
}

/// `schedule`, if it is not empty, is laid upon every kernel; `deviceSizes`:
/// all read their sizes on the device.
static bool lower(MLIRContext &context, const char *text, const char *schedule,
                  bool deviceSizes, bool simulate,
                  OwningOpRef<ModuleOp> &module) {
  module = parseSourceString<ModuleOp>(text, &context);
  if (!module)
    return false;
  PassManager pm(&context);
  if (llvm::none_of(module->getOps<func::FuncOp>(), [](func::FuncOp function) {
        return function->hasAttr("pyjit.kernel");
      })) {
    pm.addNestedPass<func::FuncOp>(
        pyjit::library::createPlanAttentionRowsPass());
    pyjit::library::PlanMatvecsPassOptions matvecs;
    matvecs.maxRows = pyjit::codegen::RowsProduct::kMostRows;
    pm.addNestedPass<func::FuncOp>(
        pyjit::library::createPlanMatvecsPass(matvecs));
    pyjit::fusion::FusionOptions fuse;
    fuse.attention = true;
    pyjit::fusion::buildFusionPipeline(pm, fuse);
  }
  if (failed(pm.run(*module)))
    return false;
  pm.clear();
  if (*schedule) {
    Attribute attr = parseAttribute(schedule, &context);
    if (!attr)
      return false;
    for (auto function : module->getOps<func::FuncOp>())
      if (function->hasAttr("pyjit.kernel"))
        function->setAttr("pyjit.schedule", attr);
  }
  if (deviceSizes)
    for (auto function : module->getOps<func::FuncOp>())
      if (function->hasAttr("pyjit.kernel"))
        function->setAttr("pyjit.device_sizes", UnitAttr::get(&context));
  pyjit::ptx::PtxOptions options;
  options.simulate = simulate;
  pyjit::ptx::buildPtxPipeline(pm, options);
  return succeeded(pm.run(*module));
}

/// Compiles for `chip`, and if `simulate` is set for the host too.
PYJIT_EXPORT void *pyjit_ptx_compile(const char *text, const char *chip,
                                     const char *schedule, int deviceSizes,
                                     int simulate) {
  auto library = std::make_unique<Library>();
  MLIRContext context(MLIRContext::Threading::DISABLED);
  DialectRegistry registry;
  pyjit::tssa::registerTSSADialect(registry);
  context.appendDialectRegistry(registry);
  context.loadDialect<arith::ArithDialect, func::FuncDialect,
                      linalg::LinalgDialect, math::MathDialect,
                      tensor::TensorDialect>();
  context.loadAllAvailableDialects();
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    library->error += diagnostic.str() + "\n";
    return success();
  });
  OwningOpRef<ModuleOp> module;
  if (!lower(context, text, schedule, deviceSizes, /*simulate=*/false, module))
    return library.release();
  auto code = pyjit::ptx::compileKernels(*module, {chip});
  if (!code) {
    library->error += llvm::toString(code.takeError());
    return library.release();
  }
  library->code = std::move(*code);
  library->description = describe(*module, library->code);
  if (!simulate ||
      !lower(context, text, schedule, deviceSizes, /*simulate=*/true, module))
    return library.release();
  pyjit::x86::JitOptions options;
  for (auto [name, address] : pyjit::simulator::symbols())
    options.symbols.push_back({name, address});
  auto host = pyjit::x86::compileKernels(*module, options);
  if (!host)
    library->error += llvm::toString(host.takeError());
  else
    library->host = std::move(*host);
  return library.release();
}

PYJIT_EXPORT const char *pyjit_ptx_error(void *handle) {
  return static_cast<Library *>(handle)->error.c_str();
}

PYJIT_EXPORT const char *pyjit_ptx_text(void *handle) {
  // One module: they were not divided.
  auto &modules = static_cast<Library *>(handle)->code.modules;
  return modules.empty() ? "" : modules.front().c_str();
}

PYJIT_EXPORT const char *pyjit_ptx_kernels(void *handle) {
  return static_cast<Library *>(handle)->description.c_str();
}

/// Runs a kernel's threads on the host; returns what went wrong.
PYJIT_EXPORT const char *pyjit_ptx_simulate(void *handle, const char *name,
                                            void *const *buffers,
                                            unsigned blocks, unsigned cluster,
                                            unsigned threads) {
  auto *library = static_cast<Library *>(handle);
  auto function = library->host->lookup(("sim_" + llvm::Twine(name)).str());
  if (!function) {
    library->error = llvm::toString(function.takeError());
    return library->error.c_str();
  }
  library->error =
      pyjit::simulator::run(reinterpret_cast<void (*)(void *const *)>(
                                reinterpret_cast<void *>(*function)),
                            buffers, {blocks, cluster, threads});
  return library->error.c_str();
}

PYJIT_EXPORT void pyjit_ptx_free(void *handle) {
  delete static_cast<Library *>(handle);
}
