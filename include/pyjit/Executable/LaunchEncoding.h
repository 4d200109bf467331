//===- LaunchEncoding.h - From a planned function to launch bytes -*- C++
//-*-===//

#ifndef PYJIT_EXECUTABLE_LAUNCHENCODING_H
#define PYJIT_EXECUTABLE_LAUNCHENCODING_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <string>
#include <vector>

namespace pyjit::executable {

/// What the launch needs to know of a kernel.
struct KernelInfo {
  int64_t work = 1;  ///< size of the parallel range
  int64_t grain = 1; ///< smallest part worth a thread
};

/// A launch program and the kernels that it names, in its order.
struct LaunchProgram {
  std::string blob;
  std::vector<std::string> kernels;
};

/// Encodes a function whose body is calls of kernels, `tssa.aten` library calls
/// and `tssa.access` strided views (docs/Architecture.md, wall 4) as a launch
/// program (runtime/include/pyjit-rt/Launch.h). Arguments with the attribute
/// `pyjit.cached` are outputs of the prepare program, all others inputs, in
/// order. Intermediates that kernels write share one arena: two values overlap
/// only where their lifetimes do not (greedy best fit by size, as in Pisarchyk
/// and Lee, "Efficient Memory Management for Deep Neural Net Inference", 2020,
/// section 4.3).
///
/// `lookup` says what is known of a kernel. Emits a located error and fails on
/// any other op.
llvm::FailureOr<LaunchProgram>
encodeLaunch(mlir::func::FuncOp function,
             llvm::function_ref<KernelInfo(llvm::StringRef)> lookup);

} // namespace pyjit::executable

#endif // PYJIT_EXECUTABLE_LAUNCHENCODING_H
