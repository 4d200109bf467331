//===- MachineCode.h - what both targets do with LLVM IR --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels in the LLVM dialect, through LLVM's own back ends.
//
//===----------------------------------------------------------------------===//

#ifndef PYJIT_CODEGEN_MACHINECODE_H
#define PYJIT_CODEGEN_MACHINECODE_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/CodeGen.h"
#include "llvm/Support/Error.h"
#include <functional>
#include <memory>
#include <vector>

namespace llvm {
class LLVMContext;
class Module;
class TargetMachine;
} // namespace llvm

namespace pyjit::codegen {

/// A module of kernels in the LLVM dialect as LLVM IR for `machine`. An error
/// where it does not translate; MLIR's diagnostics say why.
llvm::Expected<std::unique_ptr<llvm::Module>>
translateKernels(mlir::ModuleOp kernels, llvm::LLVMContext &context,
                 llvm::TargetMachine &machine);

/// The emitters hoist, vectorise and unroll themselves: what is left is to
/// clean up addresses and constants. With `scalarize`, vectors stay only where
/// they are memory accesses (a GPU's registers hold no others).
void cleanUp(llvm::Module &module, llvm::TargetMachine &machine,
             bool scalarize);

/// An object file, or assembly text.
using MachineFile = llvm::SmallVector<char, 0>;

/// Passes of a target's back end, as `llvm::Pass::getPassID` names them.
using BackEndPasses = llvm::SmallPtrSet<const void *, 4>;

/// The module's object file or assembly text, by the target's back end without
/// the passes `without`.
llvm::Expected<MachineFile> emitFile(llvm::Module &module,
                                     llvm::TargetMachine &machine,
                                     llvm::CodeGenFileType type,
                                     const BackEndPasses &without = {});

/// What `compileInParts` asks of a target. `prepare` runs in several threads.
struct MachineCodeOptions {
  std::function<llvm::Expected<std::unique_ptr<llvm::TargetMachine>>()>
      makeMachine;
  /// Marks the functions of a part and cleans them up.
  std::function<llvm::Error(llvm::Module &, llvm::TargetMachine &)> prepare;
  llvm::CodeGenFileType type;
  /// Else all kernels are one module.
  bool divided = true;
  /// What the back end does without.
  BackEndPasses without = {};
};

/// Kernels in the LLVM dialect through LLVM: in modules of about equal size, in
/// threads of their own, where there are several kernels, large enough to pay
/// for it; those that call each other or share data stay together.
llvm::Expected<std::vector<MachineFile>>
compileInParts(mlir::ModuleOp kernels, const MachineCodeOptions &options);

} // namespace pyjit::codegen

#endif // PYJIT_CODEGEN_MACHINECODE_H
