//===- MachineCode.h - what both targets do with LLVM IR --------*- C++ -*-===//
//
// Kernels in the LLVM dialect, through LLVM's own back ends.
//
//===----------------------------------------------------------------------===//

#ifndef PYJIT_CODEGEN_MACHINECODE_H
#define PYJIT_CODEGEN_MACHINECODE_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/CodeGen.h"
#include "llvm/Support/Error.h"
#include <memory>

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

/// The module's object file or assembly text.
llvm::Expected<llvm::SmallVector<char, 0>>
emitFile(llvm::Module &module, llvm::TargetMachine &machine,
         llvm::CodeGenFileType type);

} // namespace pyjit::codegen

#endif // PYJIT_CODEGEN_MACHINECODE_H
