// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --pyjit-library="cpu=x86-64-v3" | FileCheck %s --check-prefix=LIBRARY
// RUN: pyjit-opt %s --pyjit-library="cpu=x86-64-v3 eager-rounding" | FileCheck %s --check-prefix=ROUNDING
// RUN: sed 's/{pyjit.param}) -> tensor<32x64xf32>/{pyjit.param}) -> tensor<32x64xf32> attributes {pyjit.device = "cuda:0"}/' %s > %t.cuda.mlir

// What one stage leaves the next one takes, up to the program that all of them
// together make; on a device likewise.
// RUN: pyjit-opt %s --pyjit-frontend | pyjit-opt --pyjit-library | pyjit-opt --pyjit-fuse | pyjit-opt --pyjit-x86 > %t.chained
// RUN: pyjit-opt %s --pyjit-cpu > %t.whole
// RUN: diff %t.chained %t.whole
// RUN: pyjit-run %t.chained --print-launch | FileCheck %s --check-prefix=PRINTED
// RUN: pyjit-opt %s --pyjit-frontend --pyjit-library | pyjit-run --print-launch | FileCheck %s --check-prefix=PRINTED
// RUN: pyjit-opt %s --pyjit-frontend --pyjit-library --pyjit-fuse | pyjit-run --print-launch | FileCheck %s --check-prefix=PRINTED
// RUN: pyjit-opt %t.cuda.mlir --pyjit-frontend | pyjit-opt --pyjit-library | pyjit-opt --pyjit-fuse | pyjit-opt --pyjit-cudagraph | pyjit-opt --pyjit-ptx > %t.chained
// RUN: pyjit-opt %t.cuda.mlir --pyjit-cuda > %t.whole
// RUN: diff %t.chained %t.whole
// RUN: FileCheck %s --check-prefix=LAUNCH < %t.chained

// A stage refuses what has been through it, what has no program yet, and a
// mark that it does not know.
// RUN: pyjit-opt %s --pyjit-library | not pyjit-opt --pyjit-library 2>&1 | FileCheck %s --check-prefix=TWICE
// RUN: not pyjit-opt %S/pipelines.mlir --pyjit-fuse 2>&1 | FileCheck %s --check-prefix=TRACE
// RUN: not pyjit-opt %S/Inputs/unknown-stage.mlir --pyjit-fuse 2>&1 | FileCheck %s --check-prefix=UNKNOWN

// A linear layer's weight is packed once for the CPU, unless eager's roundings
// are to be kept, and a GPU has it called as it is.
// LIBRARY: module attributes {pyjit.stage = "library"}
// LIBRARY-LABEL: func.func @linear(
// LIBRARY: pyjit.cached = 0
// LIBRARY-LABEL: func.func @linear_prepare(
// ROUNDING-NOT: @linear_prepare
// ROUNDING: tssa.aten "aten::linear"
// LAUNCH: module attributes {pyjit.stage = "ptx"}
// LAUNCH: cudagraph.program @linear
// PRINTED: prepare:
// TWICE: has been through pyjit-library: pyjit-library does not come behind that
// TRACE: pyjit-frontend comes before pyjit-fuse
// UNKNOWN: 'pyjit.stage' names no stage: "fused"
func.func @linear(%x: tensor<32x64xf32>, %w: tensor<64x64xf32> {pyjit.param}) -> tensor<32x64xf32> {
  %0 = tssa.aten "aten::linear"(%x, %w, none) : (tensor<32x64xf32>, tensor<64x64xf32>) -> tensor<32x64xf32>
  %1 = tssa.aten "aten::relu"(%0) : (tensor<32x64xf32>) -> tensor<32x64xf32>
  return %1 : tensor<32x64xf32>
}
