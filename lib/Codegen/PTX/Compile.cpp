//===- Compile.cpp - Kernels in the LLVM dialect to PTX -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "pyjit/Codegen/PTX/Compile.h"
#include "DeviceMath.h"
#include "dialects/pyjit/IR/Attributes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "pyjit/Codegen/MachineCode.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include <mutex>

using namespace llvm;

namespace pyjit::ptx {

/// LLVM's target registry is filled once per process.
static void initializeTarget() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
  });
}

/// The oldest PTX version that knows the chip, so that old drivers take it.
static Expected<StringRef> versionFor(StringRef chip) {
  unsigned number;
  if (!chip.starts_with("sm_") || chip.substr(3).getAsInteger(10, number) ||
      number < 80)
    return createStringError("no chip from sm_80 on: '" + chip + "'");
  if (number < 89)
    return StringRef("+ptx74");
  if (number < 100)
    return StringRef("+ptx78");
  return StringRef(number == 120  ? "+ptx87"
                   : number > 100 ? "+ptx88"
                                  : "+ptx86");
}

static Expected<std::unique_ptr<TargetMachine>>
machineFor(const Target &target) {
  initializeTarget();
  auto version = versionFor(target.chip);
  if (!version)
    return version.takeError();
  Triple triple("nvptx64-nvidia-cuda");
  std::string error;
  const llvm::Target *found = TargetRegistry::lookupTarget(triple, error);
  if (!found)
    return createStringError(error);
  TargetOptions options;
  std::unique_ptr<TargetMachine> machine(found->createTargetMachine(
      triple, target.chip, *version, options, std::nullopt, std::nullopt,
      CodeGenOptLevel::Default));
  if (!machine)
    return createStringError("LLVM has no code generator for " + target.chip);
  return std::move(machine);
}

bool hasDependentLaunch(StringRef chip) {
  unsigned number = 0;
  return !chip.drop_front(3).getAsInteger(10, number) && number >= 90;
}

static KernelCode launchOf(mlir::func::FuncOp declaration) {
  KernelCode code;
  auto three = [&](StringRef name, std::array<uint32_t, 3> &out) {
    auto attr = declaration->getAttrOfType<mlir::DenseI32ArrayAttr>(name);
    for (unsigned i = 0; i < 3; ++i)
      out[i] = attr && i < unsigned(attr.size()) ? attr[i] : 1;
  };
  code.function = declaration.getName();
  code.name = declaration->getAttrOfType<mlir::StringAttr>(attribute::kSymbol)
                  .getValue();
  three(attribute::kGrid, code.grid);
  three(attribute::kBlock, code.block);
  if (auto shared =
          declaration->getAttrOfType<mlir::IntegerAttr>(attribute::kShared))
    code.sharedBytes = shared.getInt();
  if (auto indirect = declaration->getAttrOfType<mlir::DenseBoolArrayAttr>(
          attribute::kIndirect))
    code.indirect.assign(indirect.asArrayRef().begin(),
                         indirect.asArrayRef().end());
  if (auto aligned = declaration->getAttrOfType<mlir::DenseI32ArrayAttr>(
          attribute::kAlign))
    code.alignment.assign(aligned.asArrayRef().begin(),
                          aligned.asArrayRef().end());
  return code;
}

/// |x| of 16 bits is taken in 32: ptxas holds the result of `abs.s16` for
/// non-negative, and |-32768|, which is -32768, is 32768 when it is widened.
static void widenAbsolutes(Module &module) {
  SmallVector<IntrinsicInst *> found;
  for (Function &function : module)
    for (Instruction &instruction : instructions(function))
      if (auto *call = dyn_cast<IntrinsicInst>(&instruction);
          call && call->getIntrinsicID() == Intrinsic::abs &&
          call->getType()->isIntegerTy(16))
        found.push_back(call);
  for (IntrinsicInst *call : found) {
    IRBuilder<> builder(call);
    Value *wide =
        builder.CreateSExt(call->getArgOperand(0), builder.getInt32Ty());
    wide =
        builder.CreateBinaryIntrinsic(Intrinsic::abs, wide, builder.getTrue());
    call->replaceAllUsesWith(builder.CreateTrunc(wide, call->getType()));
    call->eraseFromParent();
  }
}

/// What a declaration says of its kernel's blocks.
struct Blocks {
  /// On a multiprocessor, as the schedule wants them; 0: any.
  unsigned least = 0;
  /// Of a cluster.
  unsigned cluster = 1;
};

static Blocks blocksOf(mlir::Operation *declaration) {
  Blocks blocks;
  if (auto schedule = declaration->getAttrOfType<mlir::DictionaryAttr>(
          attribute::kSchedule))
    if (auto least = schedule.getAs<mlir::IntegerAttr>("blocks"))
      blocks.least = least.getInt();
  if (auto cluster =
          declaration->getAttrOfType<mlir::IntegerAttr>(attribute::kCluster))
    blocks.cluster = cluster.getInt();
  return blocks;
}

/// What the assembler is told of an entry.
static void markEntry(Function &function, const KernelCode &kernel,
                      const Blocks &blocks) {
  function.setCallingConv(CallingConv::PTX_Kernel);
  std::string threads;
  for (uint32_t n : kernel.block)
    threads += (threads.empty() ? "" : ",") + std::to_string(n);
  function.addFnAttr("nvvm.reqntid", threads);
  function.addFnAttr(Attribute::NoUnwind);
  if (blocks.least)
    function.addFnAttr("nvvm.minctasm", std::to_string(blocks.least));
  if (blocks.cluster > 1)
    function.addFnAttr("nvvm.cluster_dim",
                       std::to_string(blocks.cluster) + ",1,1");
}

Expected<Code> compileKernels(mlir::ModuleOp module, const Target &target) {
  Code code;
  for (auto function : module.getOps<mlir::func::FuncOp>())
    if (function->hasAttr(attribute::kSymbol)) {
      bool waits = function->hasAttr(attribute::kWaits);
      if ((waits || function->hasAttr(attribute::kCluster)) &&
          !hasDependentLaunch(target.chip))
        return createStringError(
            "kernel '" + function.getName() +
            (waits ? "' waits for the kernel in front of it, which "
                   : "' is launched in clusters of blocks, which ") +
            "takes sm_90: emit it for " + target.chip);
      code.kernels.push_back(launchOf(function));
    }
  mlir::ModuleOp kernels;
  for (auto nested : module.getOps<mlir::ModuleOp>())
    if (nested.getName() == "kernels")
      kernels = nested;
  if (!kernels)
    return code;
  SmallVector<Blocks> blocks;
  for (const KernelCode &kernel : code.kernels)
    blocks.push_back(blocksOf(module.lookupSymbol(kernel.function)));
  auto prepare = [&](Module &part, TargetMachine &machine) -> Error {
    if (Error error = linkDeviceMath(part))
      return error;
    for (const auto &[kernel, wanted] : zip(code.kernels, blocks))
      if (Function *function = part.getFunction(kernel.name))
        markEntry(*function, kernel, wanted);
    codegen::cleanUp(part, machine, /*scalarize=*/true);
    widenAbsolutes(part);
    return Error::success();
  };
  auto files = codegen::compileInParts(
      kernels, {[&] { return machineFor(target); }, prepare,
                CodeGenFileType::AssemblyFile, target.divided});
  if (!files)
    return files.takeError();
  for (const codegen::MachineFile &file : *files)
    code.modules.emplace_back(file.begin(), file.end());
  return code;
}

} // namespace pyjit::ptx
