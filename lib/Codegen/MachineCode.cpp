//===- MachineCode.cpp - what both targets do with LLVM IR ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "pyjit/Codegen/MachineCode.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "mlir/Target/LLVMIR/LLVMTranslationInterface.h"
#include "llvm/Analysis/CGSCCPassManager.h"
#include "llvm/Analysis/LoopAnalysisManager.h"
#include "llvm/IR/InstrTypes.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Transforms/InstCombine/InstCombine.h"
#include "llvm/Transforms/Scalar/EarlyCSE.h"
#include "llvm/Transforms/Scalar/LICM.h"
#include "llvm/Transforms/Scalar/LoopPassManager.h"
#include "llvm/Transforms/Scalar/Scalarizer.h"
#include "llvm/Transforms/Scalar/SimplifyCFG.h"

using namespace llvm;

namespace pyjit {

/// The C library's functions are called as they stand: LLVM would turn
/// pow(2^n, x) into exp2(n * x), whose product is rounded.
static void keepCalls(Module &module) {
  for (Function &function : module)
    if (function.isDeclaration() && !function.isIntrinsic())
      for (User *user : function.users())
        if (auto *call = dyn_cast<CallBase>(user))
          call->addFnAttr(Attribute::NoBuiltin);
}

/// Where nobody has done it: a context that several threads use must not
/// change.
static void registerTranslations(mlir::MLIRContext &context) {
  mlir::Dialect *llvm = context.getLoadedDialect("llvm");
  if (llvm &&
      llvm->getRegisteredInterface<mlir::LLVMTranslationDialectInterface>())
    return;
  mlir::registerBuiltinDialectTranslation(context);
  mlir::registerLLVMDialectTranslation(context);
}

Expected<std::unique_ptr<Module>>
codegen::translateKernels(mlir::ModuleOp kernels, LLVMContext &context,
                          TargetMachine &machine) {
  registerTranslations(*kernels.getContext());
  std::unique_ptr<Module> module =
      mlir::translateModuleToLLVMIR(kernels, context, "kernels");
  if (!module)
    return createStringError("kernels do not translate to LLVM IR");
  module->setDataLayout(machine.createDataLayout());
  module->setTargetTriple(machine.getTargetTriple());
  keepCalls(*module);
  return std::move(module);
}

void codegen::cleanUp(Module &module, TargetMachine &machine, bool scalarize) {
  LoopAnalysisManager loops;
  FunctionAnalysisManager functions;
  CGSCCAnalysisManager components;
  ModuleAnalysisManager modules;
  PassBuilder builder(&machine);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);
  FunctionPassManager pipeline;
  pipeline.addPass(SimplifyCFGPass());
  pipeline.addPass(EarlyCSEPass());
  if (scalarize) {
    ScalarizerPassOptions options;
    options.ScalarizeLoadStore = false;
    pipeline.addPass(ScalarizerPass(options));
  }
  pipeline.addPass(InstCombinePass());
  pipeline.addPass(createFunctionToLoopPassAdaptor(LICMPass(LICMOptions()),
                                                   /*UseMemorySSA=*/true));
  pipeline.addPass(EarlyCSEPass());
  for (Function &function : module)
    if (!function.isDeclaration())
      pipeline.run(function, functions);
}

namespace {
/// Lists passes but those that are left out.
class ChosenPasses : public legacy::PassManagerBase {
public:
  explicit ChosenPasses(const codegen::BackEndPasses &without)
      : without(without) {}

  void add(Pass *pass) override {
    if (without.contains(pass->getPassID()))
      delete pass;
    else
      passes.add(pass);
  }
  void run(Module &module) { passes.run(module); }

private:
  const codegen::BackEndPasses &without;
  legacy::PassManager passes;
};
} // namespace

Expected<codegen::MachineFile> codegen::emitFile(Module &module,
                                                 TargetMachine &machine,
                                                 CodeGenFileType type,
                                                 const BackEndPasses &without) {
  SmallVector<char, 0> bytes;
  raw_svector_ostream stream(bytes);
  ChosenPasses passes(without);
  if (machine.addPassesToEmitFile(passes, stream, nullptr, type))
    return createStringError("the target " + machine.getTargetTriple().str() +
                             " emits no such file");
  passes.run(module);
  return std::move(bytes);
}

} // namespace pyjit
