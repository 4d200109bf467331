// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How far a program is compiled. Each depth adds one thing to the one before.
// RUN: pyjit-opt %s --pyjit-library="depth=operators cpu=x86-64-v3" --pyjit-fuse="depth=operators" | FileCheck %s --check-prefixes=CHECK,OPERATORS
// RUN: pyjit-opt %s --pyjit-library="depth=library cpu=x86-64-v3" --pyjit-fuse="depth=library" | FileCheck %s --check-prefixes=CHECK,LIBRARY
// RUN: pyjit-opt %s --pyjit-library="depth=kernels cpu=x86-64-v3" --pyjit-fuse="depth=kernels" | FileCheck %s --check-prefixes=CHECK,KERNELS
// RUN: pyjit-opt %s --pyjit-library="cpu=x86-64-v3" --pyjit-fuse | FileCheck %s --check-prefixes=CHECK,FUSION
// RUN: not pyjit-opt %s --pyjit-fuse="depth=half" 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// RUN: not pyjit-run %s --depth=half 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// RUN: pyjit-run %s --entry=g --depth=operators --print-launch | FileCheck %s --check-prefix=CALLS
// RUN: pyjit-run %s --entry=g --depth=kernels --print-launch | FileCheck %s --check-prefix=TWO
// RUN: pyjit-run %s --entry=g --print-launch | FileCheck %s --check-prefix=ONE

// UNKNOWN: operators, library, kernels or fusion, not 'half'
// CALLS-NOT: kernel kernel_
// TWO-COUNT-2: kernel kernel_
// TWO-NOT: kernel kernel_
// ONE-COUNT-1: kernel kernel_
// ONE-NOT: kernel kernel_
// CHECK-LABEL: func.func @f(
// OPERATORS: tssa.aten "aten::linear"
// OPERATORS: tssa.aten "aten::exp"
// OPERATORS: tssa.aten "aten::mul.Tensor"
// LIBRARY-NOT: aten::linear
// LIBRARY: tssa.aten "aten::exp"
// LIBRARY: tssa.aten "aten::mul.Tensor"
// KERNELS-NOT: aten::
// KERNELS: call @kernel_0
// KERNELS: call @kernel_1
// FUSION-NOT: aten::
// FUSION: call @kernel_0
// FUSION-NOT: call @kernel_1
// CHECK: return
func.func @f(%x: tensor<32x64xf32>, %w: tensor<64x64xf32> {pyjit.param}) -> tensor<32x64xf32> {
  %0 = tssa.aten "aten::linear"(%x, %w, none) : (tensor<32x64xf32>, tensor<64x64xf32>) -> tensor<32x64xf32>
  %1 = tssa.aten "aten::exp"(%0) : (tensor<32x64xf32>) -> tensor<32x64xf32>
  %2 = tssa.aten "aten::mul.Tensor"(%1, %x) : (tensor<32x64xf32>, tensor<32x64xf32>) -> tensor<32x64xf32>
  return %2 : tensor<32x64xf32>
}

// No product, which is a kernel on some CPUs only.
func.func @g(%x: tensor<32x64xf32>) -> tensor<32x64xf32> {
  %0 = tssa.aten "aten::exp"(%x) : (tensor<32x64xf32>) -> tensor<32x64xf32>
  %1 = tssa.aten "aten::mul.Tensor"(%0, %x) : (tensor<32x64xf32>, tensor<32x64xf32>) -> tensor<32x64xf32>
  return %1 : tensor<32x64xf32>
}
