// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --pyjit-cuda="gpu=h200" | FileCheck %s --check-prefix=H200
// RUN: pyjit-opt %s --pyjit-cuda="gpu=a100" | FileCheck %s --check-prefix=A100
// RUN: pyjit-opt %s --pyjit-cpu="cpu=x86-64-v4" | FileCheck %s --check-prefix=V4
// RUN: pyjit-opt %s --pyjit-cpu="cpu=x86-64-v3" | FileCheck %s --check-prefix=V3
// RUN: not pyjit-opt %s --pyjit-cuda="gpu=h20" 2>&1 | FileCheck %s --check-prefix=NO-GPU
// RUN: not pyjit-opt %s --pyjit-cpu="cpu=znver9" 2>&1 | FileCheck %s --check-prefix=NO-CPU
// RUN: not pyjit-run %s --print-launch --chip=h20 2>&1 | FileCheck %s --check-prefix=NO-GPU

// What is compiled for is stated, not asked from the machine that compiles: a
// sum of much to few values is divided into parts for as many multiprocessors as the
// GPU has, and vectors are as wide as the CPU's.
// H200: pyjit.grid = array<i32: 528, 1, 1>
// A100: pyjit.grid = array<i32: 384, 1, 1>
// V4: vector<16xf32>
// V3-NOT: vector<16xf32>
// NO-GPU: no GPU is named 'h20'; known are sm_80 to sm_121, a100
// NO-CPU: no CPU is named 'znver9'; known are host, x86-64-v2
func.func @sum(%x: tensor<4325376xf32>) -> tensor<f32> attributes {pyjit.device = "cuda:0"} {
  %0 = tssa.aten "aten::sum"(%x, none) : (tensor<4325376xf32>) -> tensor<f32>
  return %0 : tensor<f32>
}
