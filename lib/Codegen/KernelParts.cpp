//===- KernelParts.cpp - Kernels through LLVM, several threads at once ----===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "pyjit/Codegen/MachineCode.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

#include "llvm/IR/Module.h"
#include "llvm/Support/ThreadPool.h"
#include "llvm/Support/Threading.h"
#include "llvm/Target/TargetMachine.h"

using namespace llvm;
using namespace pyjit;

namespace {

using Parts = SmallVector<mlir::OwningOpRef<mlir::ModuleOp>, 4>;

/// A kernel, with the data that it alone names.
struct Kernel {
  mlir::LLVM::LLVMFuncOp function;
  size_t size = 0; ///< operations
  SmallVector<mlir::LLVM::GlobalOp> data;
};

/// Divides a module of kernels into modules of about equal size.
class Divider {
public:
  explicit Divider(mlir::ModuleOp kernels) : module(kernels), symbols(module) {}

  /// At most one for each thread that pays. Empty where they belong together:
  /// one calls another, or shares data.
  Parts run() {
    // LLVM takes some milliseconds for so many operations.
    constexpr size_t enough = 500;
    if (!collect())
      return {};
    size_t total = 0;
    for (Kernel &kernel : kernels)
      total += kernel.size;
    size_t count = std::min<size_t>(
        {total / enough, kernels.size(),
         size_t(hardware_concurrency().compute_thread_count())});
    return count < 2 ? Parts() : divide(count);
  }

private:
  bool collect() {
    for (mlir::Operation &op : *module.getBody()) {
      auto function = dyn_cast<mlir::LLVM::LLVMFuncOp>(op);
      if (function && function.isExternal())
        declarations.push_back(&op);
      else if (function ? !collect(function) : !isa<mlir::LLVM::GlobalOp>(op))
        return false;
    }
    return true;
  }

  bool collect(mlir::LLVM::LLVMFuncOp function) {
    Kernel &kernel = kernels.emplace_back(Kernel{function});
    mlir::WalkResult alone = function.walk([&](mlir::Operation *op) {
      ++kernel.size;
      if (auto call = dyn_cast<mlir::LLVM::CallOp>(op);
          call && call.getCallee())
        if (auto callee =
                symbols.lookup<mlir::LLVM::LLVMFuncOp>(*call.getCallee());
            callee && !callee.isExternal())
          return mlir::WalkResult::interrupt();
      if (auto address = dyn_cast<mlir::LLVM::AddressOfOp>(op)) {
        auto data =
            symbols.lookup<mlir::LLVM::GlobalOp>(address.getGlobalName());
        if (!data)
          return mlir::WalkResult::interrupt();
        auto [owner, isNew] = owners.try_emplace(data, function);
        if (isNew)
          kernel.data.push_back(data);
        else if (owner->second != function)
          return mlir::WalkResult::interrupt();
      }
      return mlir::WalkResult::advance();
    });
    return !alone.wasInterrupted();
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
      for (mlir::LLVM::GlobalOp data : kernel.data)
        parts[part]->getBody()->push_back(data->clone());
      parts[part]->getBody()->push_back(kernel.function->clone());
    }
    return parts;
  }

  mlir::ModuleOp module;
  mlir::SymbolTable symbols;
  SmallVector<Kernel> kernels;
  SmallVector<mlir::Operation *> declarations;
  DenseMap<mlir::Operation *, mlir::Operation *> owners;
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
  auto file = codegen::emitFile(*unit.code, *unit.machine, options.type);
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
