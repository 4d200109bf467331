//===- Passes.h - Kernels to x86 machine code -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_CODEGEN_X86_PASSES_H
#define PYJIT_CODEGEN_X86_PASSES_H

#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"

namespace pyjit::x86 {

#define GEN_PASS_DECL
#include "lib/Codegen/X86/Passes.h.inc"

struct X86Options {
  /// Width of vectors; `hostVectorBits()` is what the host has.
  unsigned vectorBits = 256;
  /// Whether kernels may call glibc's libmvec: whether `hostVectorMath()`
  /// (HostVectorMath.h) has any of its functions.
  bool vectorMath = false;
  /// Whether kernels ask for memory ahead of a core's own prefetcher.
  bool prefetch = true;
};

/// What the CPU that runs this supports: 512, 256 or 128.
unsigned hostVectorBits();

/// Whether asking ahead is worth it there, as measured: not on an AMD. Weights
/// of f32 that one row is multiplied with, without to with: Zen 3 1.1 to 1.35
/// times as fast, bf16 as fast; a Xeon .74 to .83, bf16 .45 to .70.
bool hostPrefetches();

/// Where our own matmuls with packed weights are faster than the vendor
/// library's.
struct MatmulLimits {
  /// How many columns a panel has: two vectors. 0: nowhere.
  unsigned columns;
  /// Up to so many rows.
  int64_t rows;
  /// From so many rows on where the weight is packed in each call.
  int64_t packRows;
  /// Of one row, a weight of at least so many bytes is read where it lies: a
  /// panel of it is no nearer, and a copy of all of it is memory.
  int64_t streamedBytes = int64_t(1) << 20;
};

/// A CPU's limits, as measured. AMD: all, for MKL takes 256-bit vectors there
/// (Zen 3, two cores: 185 against 155 GFLOP/s; Zen 5, which has 512-bit ones,
/// one core: 255 against 107). Elsewhere few rows, where the weight's way from
/// memory counts: a Xeon with 512-bit vectors took 1.0 to 0.3 of MKL's time for
/// 1 to 32 rows, 0.9 for 64, 1.2 for 256.
MatmulLimits matmulLimits(unsigned vectorBits, bool amd);
MatmulLimits hostMatmulLimits();

/// Kernels on tensors to kernels in the LLVM dialect (pipeline `pyjit-x86`).
void buildX86Pipeline(mlir::OpPassManager &pm, const X86Options &options);

#define GEN_PASS_REGISTRATION
#include "lib/Codegen/X86/Passes.h.inc"

/// Passes of lib/Codegen.
void registerCodegenPasses();

} // namespace pyjit::x86

#endif
