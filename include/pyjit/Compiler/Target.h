//===- Target.h - What is compiled for --------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The facts about machines that decide how code is generated. A pass takes them
// as options; nothing below this library asks the host.
//
//===----------------------------------------------------------------------===//

#ifndef PYJIT_COMPILER_TARGET_H
#define PYJIT_COMPILER_TARGET_H

#include "pyjit/Codegen/PTX/Schedule.h"
#include "pyjit/Codegen/X86/Passes.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <optional>
#include <string>

namespace pyjit::compiler {

/// A CPU: kernels on the host, and what the host does for a GPU.
struct CpuTarget {
  /// 128, 256 or 512.
  unsigned vectorBits = 256;
  /// Where matmuls with packed weights are kernels of ours.
  x86::MatmulLimits matmul = {0, 0, INT64_MAX};
  /// Whether kernels may call glibc's vector math.
  bool vectorMath = false;
  /// Whether kernels ask for memory ahead of a core's own prefetcher.
  bool prefetch = true;

  static CpuTarget host();
  /// By the levels of the x86-64 psABI: "x86-64-v2" (128 bits), "x86-64-v3"
  /// (256), "x86-64-v4" (512); or "host".
  static llvm::Expected<CpuTarget> named(llvm::StringRef name);
};

/// An NVIDIA GPU.
struct GpuTarget {
  std::string chip = "sm_90"; ///< as ptxas names it
  ptx::Machine machine;

  /// By the name of a chip ("sm_90": its largest part) or of a part ("a100",
  /// "h200", "l40s", "b200", "rtx5090").
  static llvm::Expected<GpuTarget> named(llvm::StringRef name);
  /// What a driver says of a device: compute capability 9.0 is 90. Facts that
  /// are 0 are those of the chip's largest part.
  static GpuTarget ofDevice(unsigned capability, unsigned multiprocessors = 0,
                            unsigned threadsPerMultiprocessor = 0);
};

struct Target {
  CpuTarget cpu = CpuTarget::host();
  /// None: tensors on a GPU do not compile.
  std::optional<GpuTarget> gpu;
  /// A device ("cpu") whose tensors are launched on as on a GPU, by a simulated
  /// driver; empty for none. Kernels are the CPU's, and need of their
  /// pointers what a GPU's would.
  std::string simulatedDevice;
};

} // namespace pyjit::compiler

#endif // PYJIT_COMPILER_TARGET_H
