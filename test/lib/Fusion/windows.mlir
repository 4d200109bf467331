// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --convert-tssa-to-linalg --cse --fusion-outline | FileCheck %s --check-prefixes=CHECK,HOST
// RUN: pyjit-opt %s --convert-tssa-to-linalg --cse --fusion-outline=max-recompute-cost=48 | FileCheck %s --check-prefixes=CHECK,WIDE

// A padded element would be chosen at each of nine places: it is stored, except
// where computing costs little beside memory.
// CHECK-LABEL: func.func @padded
// HOST-COUNT-2: call
// WIDE-COUNT-1: call
// CHECK-NEXT: return
func.func @padded(%x: tensor<2x3x8x8xf32>) -> tensor<2x3x4x4xf32> {
  %0 = tssa.aten "aten::max_pool2d"(%x, [3 : i64, 3 : i64], [2 : i64, 2 : i64], [1 : i64, 1 : i64], [1 : i64, 1 : i64], false) : (tensor<2x3x8x8xf32>) -> tensor<2x3x4x4xf32>
  return %0 : tensor<2x3x4x4xf32>
}

// What is padded, and what follows from a pool, is in its kernels.
// CHECK-LABEL: func.func @between
// HOST-COUNT-2: call
// WIDE-COUNT-1: call
// CHECK-NEXT: return
func.func @between(%x: tensor<2x3x8x8xf32>) -> tensor<2x3x4x4xf32> {
  %0 = tssa.aten "aten::neg"(%x) : (tensor<2x3x8x8xf32>) -> tensor<2x3x8x8xf32>
  %1 = tssa.aten "aten::max_pool2d"(%0, [3 : i64, 3 : i64], [2 : i64, 2 : i64], [1 : i64, 1 : i64], [1 : i64, 1 : i64], false) : (tensor<2x3x8x8xf32>) -> tensor<2x3x4x4xf32>
  %2 = tssa.aten "aten::relu"(%1) : (tensor<2x3x4x4xf32>) -> tensor<2x3x4x4xf32>
  return %2 : tensor<2x3x4x4xf32>
}
