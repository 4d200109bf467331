//===- KernelParts.cpp - Kernels through LLVM, several threads at once ----===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "pyjit/Codegen/MachineCode.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

#include "llvm/ADT/EquivalenceClasses.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/ThreadPool.h"
#include "llvm/Support/Threading.h"
#include "llvm/Target/TargetMachine.h"

using namespace llvm;
using namespace pyjit;

namespace {

using Parts = SmallVector<mlir::OwningOpRef<mlir::ModuleOp>, 4>;

/// Functions that call each other or share data, with that data.
struct Kernel {
  SmallVector<mlir::Operation *> symbols;
  size_t size = 0; ///< operations
};

/// Divides a module of kernels into modules of about equal size.
class Divider {
public:
  explicit Divider(mlir::ModuleOp kernels) : module(kernels), symbols(module) {}

  /// At most one for each thread that pays. Empty where they belong together.
  Parts run() {
    // LLVM takes some milliseconds for so many operations.
    constexpr size_t enough = 500;
    if (!collect())
      return {};
    size_t total = 0;
    for (const Kernel &kernel : kernels)
      total += kernel.size;
    size_t count = std::min<size_t>(
        {total / enough, kernels.size(),
         size_t(hardware_concurrency().compute_thread_count())});
    return count < 2 ? Parts() : divide(count);
  }

private:
  /// What names each other is one kernel.
  bool collect() {
    EquivalenceClasses<mlir::Operation *> together;
    DenseMap<mlir::Operation *, size_t> sizes;
    for (mlir::Operation &op : *module.getBody()) {
      auto function = dyn_cast<mlir::LLVM::LLVMFuncOp>(op);
      if (function && function.isExternal()) {
        declarations.push_back(&op);
        continue;
      }
      if (!function && !isa<mlir::LLVM::GlobalOp>(op))
        return false;
      together.insert(&op);
      if (function && !collect(function, together, sizes[&op]))
        return false;
    }
    for (const auto &known : together) {
      if (!known->isLeader())
        continue;
      Kernel kernel;
      for (mlir::Operation *symbol : together.members(*known)) {
        kernel.symbols.push_back(symbol);
        kernel.size += sizes.lookup(symbol);
      }
      // Data that nobody names is nobody's.
      if (kernel.size != 0)
        kernels.push_back(std::move(kernel));
    }
    return true;
  }

  bool collect(mlir::LLVM::LLVMFuncOp function,
               EquivalenceClasses<mlir::Operation *> &together, size_t &size) {
    mlir::WalkResult result = function.walk([&](mlir::Operation *op) {
      ++size;
      mlir::Operation *named = nullptr;
      if (auto call = dyn_cast<mlir::LLVM::CallOp>(op);
          call && call.getCallee()) {
        auto callee = symbols.lookup<mlir::LLVM::LLVMFuncOp>(*call.getCallee());
        if (callee && !callee.isExternal())
          named = callee;
      }
      if (auto address = dyn_cast<mlir::LLVM::AddressOfOp>(op)) {
        named = symbols.lookup<mlir::LLVM::GlobalOp>(address.getGlobalName());
        if (!named)
          return mlir::WalkResult::interrupt();
      }
      if (named)
        together.unionSets(function, named);
      return mlir::WalkResult::advance();
    });
    return !result.wasInterrupted();
  }

  Parts divide(size_t count) {
    Parts parts;
    SmallVector<size_t> sizes(count);
    for (size_t i = 0; i < count; ++i) {
      parts.push_back(cast<mlir::ModuleOp>(module->cloneWithoutRegions()));
      mlir::Block &body = parts.back()->getRegion().emplaceBlock();
      for (mlir::Operation *declaration : declarations)
        body.push_back(declaration->clone());
    }
    // The largest first, each to the part that is smallest so far.
    llvm::stable_sort(kernels, [](const Kernel &a, const Kernel &b) {
      return a.size > b.size;
    });
    for (Kernel &kernel : kernels) {
      size_t part = llvm::min_element(sizes) - sizes.begin();
      sizes[part] += kernel.size;
      for (mlir::Operation *symbol : kernel.symbols)
        parts[part]->getBody()->push_back(symbol->clone());
    }
    return parts;
  }

  mlir::ModuleOp module;
  mlir::SymbolTable symbols;
  SmallVector<Kernel> kernels;
  SmallVector<mlir::Operation *> declarations;
};

/// One module on its way; every one has a context and a machine of its own.
struct Unit {
  std::unique_ptr<LLVMContext> context;
  std::unique_ptr<TargetMachine> machine;
  std::unique_ptr<Module> code;
  codegen::MachineFile file;
  std::string failure;
};

void compile(Unit &unit, const codegen::MachineCodeOptions &options) {
  if (Error error = options.prepare(*unit.code, *unit.machine)) {
    unit.failure = toString(std::move(error));
    return;
  }
  auto file = codegen::emitFile(*unit.code, *unit.machine, options.type,
                                options.without);
  if (file)
    unit.file = std::move(*file);
  else
    unit.failure = toString(file.takeError());
}

} // namespace

Expected<std::vector<codegen::MachineFile>>
codegen::compileInParts(mlir::ModuleOp kernels,
                        const MachineCodeOptions &options) {
  Parts parts = options.divided ? Divider(kernels).run() : Parts();
  SmallVector<mlir::ModuleOp> modules;
  for (auto &part : parts)
    modules.push_back(*part);
  if (modules.empty())
    modules.push_back(kernels);
  // MLIR's side is translated here: its context may belong to this thread.
  std::vector<Unit> units(modules.size());
  for (auto [unit, part] : llvm::zip(units, modules)) {
    auto machine = options.makeMachine();
    if (!machine)
      return machine.takeError();
    unit.machine = std::move(*machine);
    unit.context = std::make_unique<LLVMContext>();
    auto code = translateKernels(part, *unit.context, *unit.machine);
    if (!code)
      return code.takeError();
    unit.code = std::move(*code);
  }
  if (units.size() == 1) {
    compile(units[0], options);
  } else {
    DefaultThreadPool pool(hardware_concurrency(units.size()));
    for (Unit &unit : units)
      pool.async([&] { compile(unit, options); });
    pool.wait();
  }
  std::vector<MachineFile> files;
  for (Unit &unit : units) {
    if (!unit.failure.empty())
      return createStringError(unit.failure);
    files.push_back(std::move(unit.file));
  }
  return files;
}
