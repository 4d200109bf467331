// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --library-plan-linear | FileCheck %s

// CHECK-LABEL: func.func @packed
// CHECK: %[[P:.*]] = tssa.aten "mkl::_mkl_reorder_linear_weight"(%arg1, 32 : i64)
// CHECK: tssa.aten "mkl::_mkl_linear"(%arg0, %[[P]], %arg1, %arg2, 32 : i64)
func.func @packed(%x: tensor<32x8xf32>, %w: tensor<4x8xf32> {pyjit.param}, %b: tensor<4xf32> {pyjit.param}) -> tensor<32x4xf32> {
  %0 = tssa.aten "aten::linear"(%x, %w, %b) : (tensor<32x8xf32>, tensor<4x8xf32>, tensor<4xf32>) -> tensor<32x4xf32>
  return %0 : tensor<32x4xf32>
}

// A few rows gain nothing from a packed weight.
// CHECK-LABEL: func.func @few_rows
// CHECK: aten::linear
func.func @few_rows(%x: tensor<2x8xf32>, %w: tensor<4x8xf32> {pyjit.param}) -> tensor<2x4xf32> {
  %0 = tssa.aten "aten::linear"(%x, %w, none) : (tensor<2x8xf32>, tensor<4x8xf32>) -> tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}

// GPT-2 keeps its weights transposed.
// CHECK-LABEL: func.func @addmm
// CHECK: tssa.access %arg2 [#tssa.view<permute [1, 0]>]
// CHECK: "mkl::_mkl_linear"
func.func @addmm(%b: tensor<4xf32> {pyjit.param}, %x: tensor<32x8xf32>, %w: tensor<8x4xf32> {pyjit.param}) -> tensor<32x4xf32> {
  %0 = tssa.aten "aten::addmm"(%b, %x, %w, 1 : i64, 1 : i64) : (tensor<4xf32>, tensor<32x8xf32>, tensor<8x4xf32>) -> tensor<32x4xf32>
  return %0 : tensor<32x4xf32>
}
