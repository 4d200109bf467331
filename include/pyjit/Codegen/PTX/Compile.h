//===- Compile.h - Kernels in the LLVM dialect to PTX -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_CODEGEN_PTX_COMPILE_H
#define PYJIT_CODEGEN_PTX_COMPILE_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"
#include <array>
#include <string>
#include <vector>

namespace pyjit::ptx {

/// Whether code for the chip ("sm_90") can wait for the kernel in front of it
/// (PTX ISA, `griddepcontrol`; CUDA programming guide, "Programmatic dependent
/// launch").
bool hasDependentLaunch(llvm::StringRef chip);

struct Target {
  /// sm_80 to sm_121.
  std::string chip = "sm_90";
  /// Many kernels become several modules, which are written and assembled side
  /// by side.
  bool divided = false;
};

/// How one kernel is launched. Its parameters are 8-byte pointers, operands
/// first and then results.
struct KernelCode {
  /// The function in the module, and in the PTX.
  std::string function, name;
  /// grid[0] == 0: there is nothing to do, and nothing to launch.
  std::array<uint32_t, 3> grid, block;
  /// Dynamic shared memory. Above 48 KiB the driver has to be told.
  uint32_t sharedBytes = 0;
  /// Per parameter: it points to the pointer.
  std::vector<bool> indirect;
  /// Per parameter: what the code relies on its address to be a multiple of. A
  /// kernel must not be launched on pointers that are less aligned.
  std::vector<unsigned> alignment;
};

struct Code {
  /// PTX; each kernel is in one of them.
  std::vector<std::string> modules;
  std::vector<KernelCode> kernels;
};

/// Compiles the nested module `@kernels` of `module`, after `pyjit-ptx`; the
/// declarations of its kernels are in `module`. In process, with nothing but
/// LLVM. Safe to call from several threads, each with its own MLIR context.
llvm::Expected<Code> compileKernels(mlir::ModuleOp module,
                                    const Target &target);

} // namespace pyjit::ptx

#endif
