//===- JIT.cpp - Kernels in the LLVM dialect to machine code --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "pyjit/Codegen/X86/JIT.h"
#include "pyjit/Codegen/MachineCode.h"
#include "pyjit/Codegen/X86/HostVectorMath.h"
#include "llvm/CodeGen/Passes.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Pass.h"
#include "llvm/Support/SmallVectorMemoryBuffer.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/Transforms/Scalar.h"
#include <cmath>
#include <cstring>
#include <mutex>

using namespace llvm;

namespace pyjit::x86 {

JitLibrary::JitLibrary(std::unique_ptr<orc::LLJIT> jit) : jit(std::move(jit)) {}

JitLibrary::~JitLibrary() = default;

Expected<KernelFunction> JitLibrary::lookup(StringRef name) const {
  Expected<orc::ExecutorAddr> address = jit->lookup(name);
  if (!address)
    return address.takeError();
  return address->toPtr<KernelFunction>();
}

Expected<std::vector<KernelFunction>>
JitLibrary::lookupAll(ArrayRef<std::string> names) const {
  std::vector<KernelFunction> kernels;
  for (const std::string &name : names) {
    Expected<KernelFunction> kernel = lookup(name);
    if (!kernel)
      return kernel.takeError();
    kernels.push_back(*kernel);
  }
  return kernels;
}

/// LLVM's target registry is filled once per process.
static void initializeTarget() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
  });
}

static Expected<std::unique_ptr<TargetMachine>>
hostTargetMachine(unsigned level) {
  initializeTarget();
  auto builder = orc::JITTargetMachineBuilder::detectHost();
  if (!builder)
    return builder.takeError();
  builder->setCodeGenOptLevel(level >= 2   ? CodeGenOptLevel::Default
                              : level == 1 ? CodeGenOptLevel::Less
                                           : CodeGenOptLevel::None);
  builder->setRelocationModel(Reloc::PIC_);
  builder->setCodeModel(CodeModel::Small);
  return builder->createTargetMachine();
}

namespace {
struct Symbol {
  const char *name;
  void *address;
};
} // namespace

/// What kernels may call: the C library's math, by address, so that a process
/// without exported symbols resolves them too.
static ArrayRef<Symbol> librarySymbols() {
#define PYJIT_MATH1(F)                                                         \
  {#F "f", reinterpret_cast<void *>(static_cast<float (*)(float)>(::F##f))},   \
      {#F, reinterpret_cast<void *>(static_cast<double (*)(double)>(::F))}
#define PYJIT_MATH2(F)                                                         \
  {#F "f",                                                                     \
   reinterpret_cast<void *>(static_cast<float (*)(float, float)>(::F##f))},    \
  {                                                                            \
    #F, reinterpret_cast<void *>(static_cast<double (*)(double, double)>(::F)) \
  }
  static const Symbol symbols[] = {
      PYJIT_MATH1(exp),
      PYJIT_MATH1(exp2),
      PYJIT_MATH1(expm1),
      PYJIT_MATH1(log),
      PYJIT_MATH1(log2),
      PYJIT_MATH1(log10),
      PYJIT_MATH1(log1p),
      PYJIT_MATH1(sin),
      PYJIT_MATH1(cos),
      PYJIT_MATH1(tan),
      PYJIT_MATH1(asin),
      PYJIT_MATH1(acos),
      PYJIT_MATH1(atan),
      PYJIT_MATH1(sinh),
      PYJIT_MATH1(cosh),
      PYJIT_MATH1(tanh),
      PYJIT_MATH1(asinh),
      PYJIT_MATH1(acosh),
      PYJIT_MATH1(atanh),
      PYJIT_MATH1(erf),
      PYJIT_MATH1(erfc),
      PYJIT_MATH1(cbrt),
      PYJIT_MATH1(round),
      PYJIT_MATH1(rint),
      PYJIT_MATH1(floor),
      PYJIT_MATH1(ceil),
      PYJIT_MATH1(trunc),
      PYJIT_MATH1(roundeven),
      PYJIT_MATH1(nearbyint),
      PYJIT_MATH1(sqrt),
      PYJIT_MATH2(pow),
      PYJIT_MATH2(atan2),
      PYJIT_MATH2(fmod),
      PYJIT_MATH2(fmin),
      PYJIT_MATH2(fmax),
      {"fmaf", reinterpret_cast<void *>(
                   static_cast<float (*)(float, float, float)>(::fmaf))},
      {"fma", reinterpret_cast<void *>(
                  static_cast<double (*)(double, double, double)>(::fma))},
      {"memcpy", reinterpret_cast<void *>(::memcpy)},
      {"memset", reinterpret_cast<void *>(::memset)},
      {"memmove", reinterpret_cast<void *>(::memmove)},
  };
#undef PYJIT_MATH1
#undef PYJIT_MATH2
  return symbols;
}

static Expected<std::unique_ptr<JitLibrary>>
link(std::vector<std::unique_ptr<MemoryBuffer>> objects,
     const std::vector<std::pair<std::string, void *>> &more) {
  initializeTarget(); // a program of vendor calls alone has no kernel
  auto jit = orc::LLJITBuilder().setNumCompileThreads(0).create();
  if (!jit)
    return jit.takeError();
  orc::SymbolMap symbols;
  for (const Symbol &symbol : librarySymbols())
    symbols[(*jit)->mangleAndIntern(symbol.name)] = {
        orc::ExecutorAddr::fromPtr(symbol.address),
        JITSymbolFlags::Exported | JITSymbolFlags::Callable};
  auto define = [&](const std::string &name, void *address) {
    symbols[(*jit)->mangleAndIntern(name)] = {
        orc::ExecutorAddr::fromPtr(address),
        JITSymbolFlags::Exported | JITSymbolFlags::Callable};
  };
  for (auto &[name, address] : hostVectorMath())
    define(name, address);
  for (auto &[name, address] : more)
    define(name, address);
  if (Error error = (*jit)->getMainJITDylib().define(
          orc::absoluteSymbols(std::move(symbols))))
    return std::move(error);
  for (std::unique_ptr<MemoryBuffer> &object : objects)
    if (Error error = (*jit)->addObjectFile(std::move(object)))
      return std::move(error);
  return std::make_unique<JitLibrary>(std::move(*jit));
}

static mlir::ModuleOp findKernels(mlir::ModuleOp module) {
  for (auto nested : module.getOps<mlir::ModuleOp>())
    if (nested.getName() == "kernels")
      return nested;
  return {};
}

/// Whole vectors in each function.
static void markFunctions(Module &module) {
  for (Function &function : module) {
    if (function.isDeclaration())
      continue;
    function.addFnAttr(Attribute::NoUnwind);
    function.addFnAttr("prefer-vector-width", "512");
    function.addFnAttr("min-legal-vector-width", "512");
  }
}

/// Passes that take a third of the back end's time. Emitted loops hoist what
/// they can, and x86 adds up an address within the access, so loop strength
/// reduction finds nothing; a processor that reorders instructions needs no
/// order chosen behind register allocation.
static codegen::BackEndPasses needlessPasses() {
  codegen::BackEndPasses passes;
  // LLVM exports no name for it.
  std::unique_ptr<Pass> strength(createLoopStrengthReducePass());
  passes.insert(strength->getPassID());
  passes.insert(&PostRASchedulerID);
  return passes;
}

Expected<std::unique_ptr<JitLibrary>>
compileKernels(mlir::ModuleOp module, const JitOptions &options) {
  mlir::ModuleOp kernels = findKernels(module);
  if (!kernels)
    return link({}, options.symbols);
  auto prepare = [&](Module &part, TargetMachine &machine) {
    markFunctions(part);
    if (options.optimizationLevel > 0)
      codegen::cleanUp(part, machine, /*scalarize=*/false);
    return Error::success();
  };
  codegen::MachineCodeOptions parts{
      [&] { return hostTargetMachine(options.optimizationLevel); }, prepare,
      CodeGenFileType::ObjectFile};
  parts.without = needlessPasses();
  auto files = codegen::compileInParts(kernels, parts);
  if (!files)
    return files.takeError();
  std::vector<std::unique_ptr<MemoryBuffer>> objects;
  for (codegen::MachineFile &file : *files)
    objects.push_back(
        std::make_unique<SmallVectorMemoryBuffer>(std::move(file), "kernels"));
  return link(std::move(objects), options.symbols);
}

} // namespace pyjit::x86
