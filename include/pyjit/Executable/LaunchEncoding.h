// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===- LaunchEncoding.h - From a planned function to launch bytes -*- C++
//-*-===//

#ifndef PYJIT_EXECUTABLE_LAUNCHENCODING_H
#define PYJIT_EXECUTABLE_LAUNCHENCODING_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace pyjit::executable {

/// What the launch needs to know of a kernel.
struct KernelInfo {
  int64_t work = 1;  ///< size of the parallel range
  int64_t grain = 1; ///< smallest part worth a thread
  /// Where these differ between calls.
  mlir::AffineExpr symbolicWork, symbolicGrain;
  /// Whether a pointer to the values of the symbols follows the buffers.
  bool readsSymbols = false;
  /// On a device: which symbols' values follow instead, each as a parameter;
  /// and the number of blocks where that differs between calls.
  std::vector<int64_t> symbolParameters;
  /// It takes addresses of these, and may be launched with more blocks than
  /// sizes ask for (`pyjit.device_sizes`).
  bool deviceSizes = false;
  mlir::AffineExpr symbolicBlocks;
  std::string symbol;   ///< in the code, where it is not the function's name
  std::string location; ///< the user's source line, or empty
  /// On a device.
  std::array<uint32_t, 3> grid = {1, 1, 1}, block = {1, 1, 1};
  uint32_t sharedBytes = 0;
  bool waits = false; ///< `pyjit.waits`
  /// Per buffer, the alignment in bytes that the code relies on; empty: none.
  std::vector<uint32_t> align;
};

/// What `module` says of its kernel `name`: work, grain, symbols and, for a
/// GPU, the shape of a launch, from the attributes that code generation has
/// left on the declaration, and the user's source line.
KernelInfo describeKernel(mlir::Operation *module, llvm::StringRef name);

/// A launch program and the kernels that it names, in its order.
struct LaunchProgram {
  std::string blob;
  std::vector<std::string> kernels;
};

/// Of results: none is saved.
inline constexpr unsigned kNoneSaved = ~0u;

/// Encodes a function whose body is calls of kernels, `tssa.aten` vendor calls
/// and `tssa.access` strided views (docs/StageContracts.md, contract 4) as a
/// launch program (runtime/include/pyjit-rt/Launch.h). Arguments with the
/// attribute `pyjit.cached` are outputs of the prepare program, all others
/// inputs, in order. Intermediates that kernels write share one arena: two
/// values overlap only where their lifetimes do not (greedy best fit by size,
/// as in Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net
/// Inference", 2020, section 4.3).
///
/// `lookup` says what is known of a kernel. Results from `firstSaved` on are
/// for a backward program alone: what kernels write of them lies in one block.
/// Emits a located error and fails on any other op.
llvm::FailureOr<LaunchProgram>
encodeLaunch(mlir::func::FuncOp function,
             llvm::function_ref<KernelInfo(llvm::StringRef)> lookup,
             unsigned firstSaved = kNoneSaved);

/// Encodes a `cudagraph.program` whose memory is planned. `code` is the
/// kernels' PTX, any number of modules, or empty where they are functions of
/// the host (a simulated driver).
llvm::FailureOr<LaunchProgram>
encodeProgram(mlir::Operation *program, llvm::ArrayRef<std::string> code,
              llvm::function_ref<KernelInfo(llvm::StringRef)> lookup,
              unsigned firstSaved = kNoneSaved);

/// Encodes either of them; `code` is a program's.
llvm::FailureOr<LaunchProgram>
encodeEntry(mlir::Operation *entry, llvm::ArrayRef<std::string> code,
            llvm::function_ref<KernelInfo(llvm::StringRef)> lookup,
            unsigned firstSaved = kNoneSaved);

} // namespace pyjit::executable

#endif // PYJIT_EXECUTABLE_LAUNCHENCODING_H
