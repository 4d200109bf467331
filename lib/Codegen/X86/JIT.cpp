//===- JIT.cpp - Kernels in the LLVM dialect to machine code --------------===//

#include "pyjit/Codegen/X86/JIT.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "pyjit/Codegen/MachineCode.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/SmallVectorMemoryBuffer.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/ThreadPool.h"
#include "llvm/Support/Threading.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Host.h"
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
  for (auto &[name, address] : more)
    symbols[(*jit)->mangleAndIntern(name)] = {
        orc::ExecutorAddr::fromPtr(address),
        JITSymbolFlags::Exported | JITSymbolFlags::Callable};
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

using Parts = SmallVector<mlir::OwningOpRef<mlir::ModuleOp>, 4>;

/// The kernels in modules of about equal size, at most one for each thread that
/// pays. Empty where they belong together: one calls another, or shares data.
static Parts splitKernels(mlir::ModuleOp kernels) {
  // LLVM takes some milliseconds for so many operations.
  constexpr size_t enough = 500;
  SmallVector<std::pair<size_t, mlir::LLVM::LLVMFuncOp>> functions;
  SmallVector<mlir::Operation *> declarations;
  size_t total = 0;
  for (mlir::Operation &op : *kernels.getBody()) {
    auto function = dyn_cast<mlir::LLVM::LLVMFuncOp>(op);
    if (!function)
      return {};
    if (function.isExternal()) {
      declarations.push_back(&op);
      continue;
    }
    size_t size = 0;
    mlir::WalkResult alone = function.walk([&](mlir::Operation *inner) {
      ++size;
      auto call = dyn_cast<mlir::LLVM::CallOp>(inner);
      auto callee =
          call && call.getCallee()
              ? kernels.lookupSymbol<mlir::LLVM::LLVMFuncOp>(*call.getCallee())
              : mlir::LLVM::LLVMFuncOp();
      return callee && !callee.isExternal() ? mlir::WalkResult::interrupt()
                                            : mlir::WalkResult::advance();
    });
    if (alone.wasInterrupted())
      return {};
    functions.push_back({size, function});
    total += size;
  }
  size_t count =
      std::min<size_t>({total / enough, functions.size(),
                        size_t(hardware_concurrency().compute_thread_count())});
  if (count < 2)
    return {};
  Parts parts;
  SmallVector<size_t> sizes(count);
  for (size_t i = 0; i < count; ++i) {
    parts.push_back(cast<mlir::ModuleOp>(kernels->cloneWithoutRegions()));
    mlir::Block &body = parts.back()->getRegion().emplaceBlock();
    for (mlir::Operation *declaration : declarations)
      body.push_back(declaration->clone());
  }
  // The largest first, each to the part that is smallest so far.
  llvm::stable_sort(functions,
                    [](auto &a, auto &b) { return a.first > b.first; });
  for (auto &[size, function] : functions) {
    size_t part = llvm::min_element(sizes) - sizes.begin();
    sizes[part] += size;
    parts[part]->getBody()->push_back(function->clone());
  }
  return parts;
}

/// One module on its way; every one has a context and a machine of its own.
struct Unit {
  std::unique_ptr<LLVMContext> context;
  std::unique_ptr<TargetMachine> machine;
  std::unique_ptr<Module> code;
  SmallVector<char, 0> object;
  std::string failure;
};

static void compile(Unit &unit, unsigned optimizationLevel) {
  for (Function &function : *unit.code) {
    if (function.isDeclaration())
      continue;
    function.addFnAttr(Attribute::NoUnwind);
    function.addFnAttr("prefer-vector-width", "512");
    function.addFnAttr("min-legal-vector-width", "512");
  }
  if (optimizationLevel > 0)
    codegen::cleanUp(*unit.code, *unit.machine, /*scalarize=*/false);
  auto object =
      codegen::emitFile(*unit.code, *unit.machine, CodeGenFileType::ObjectFile);
  if (object)
    unit.object = std::move(*object);
  else
    unit.failure = toString(object.takeError());
}

Expected<std::unique_ptr<JitLibrary>>
compileKernels(mlir::ModuleOp module, const JitOptions &options) {
  mlir::ModuleOp kernels = findKernels(module);
  if (!kernels)
    return link({}, options.symbols);
  Parts parts = splitKernels(kernels);
  SmallVector<mlir::ModuleOp> modules{kernels};
  if (!parts.empty()) {
    modules.clear();
    for (auto &part : parts)
      modules.push_back(*part);
  }
  // MLIR's side is translated here: its context may belong to this thread.
  std::vector<Unit> units(modules.size());
  for (auto [unit, part] : llvm::zip(units, modules)) {
    auto machine = hostTargetMachine(options.optimizationLevel);
    if (!machine)
      return machine.takeError();
    unit.machine = std::move(*machine);
    unit.context = std::make_unique<LLVMContext>();
    auto code = codegen::translateKernels(part, *unit.context, *unit.machine);
    if (!code)
      return code.takeError();
    unit.code = std::move(*code);
  }
  if (units.size() == 1) {
    compile(units[0], options.optimizationLevel);
  } else {
    DefaultThreadPool pool(hardware_concurrency(units.size()));
    for (Unit &unit : units)
      pool.async([&] { compile(unit, options.optimizationLevel); });
    pool.wait();
  }
  std::vector<std::unique_ptr<MemoryBuffer>> objects;
  for (Unit &unit : units) {
    if (!unit.failure.empty())
      return createStringError(unit.failure);
    objects.push_back(std::make_unique<SmallVectorMemoryBuffer>(
        std::move(unit.object), "kernels"));
  }
  return link(std::move(objects), options.symbols);
}

} // namespace pyjit::x86
