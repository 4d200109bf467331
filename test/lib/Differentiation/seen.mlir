// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --pass-pipeline='builtin.module(func.func(tssa-differentiate{mark-results=true}),tssa-partition)' --split-input-file | FileCheck %s

// Eager's `linear` saves the turned weight, a view, which shows what the weight
// showed then, and matrices as they are.
// CHECK-LABEL: func.func @linear_backward(
// CHECK-SAME: %arg0: tensor<4x8xf32> {pyjit.input = 0 : i64}
// CHECK-SAME: %arg1: tensor<3x8xf32> {pyjit.seen = 1 : i64}
// CHECK-SAME: pyjit.gradient_inputs = array<i64: 0, 1>
func.func @linear(%x: tensor<4x8xf32>, %w: tensor<3x8xf32>) -> tensor<4x3xf32> attributes {pyjit.gradient_inputs = array<i64: 0, 1>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::linear"(%x, %w, none) : (tensor<4x8xf32>, tensor<3x8xf32>) -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}

// -----

// One that is read both ways is given twice.
// CHECK-LABEL: func.func @both_backward(
// CHECK-DAG: {pyjit.input = 0 : i64}
// CHECK-DAG: {pyjit.seen = 0 : i64}
// CHECK-DAG: {pyjit.input = 1 : i64}
func.func @both(%x: tensor<4x8xf32>, %y: tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<4x8xf32>) attributes {pyjit.gradient_inputs = array<i64: 0, 1>, pyjit.gradient_results = array<i64: 0, 1>} {
  %0 = tssa.access %x [#tssa.view<permute [1, 0]>] : tensor<4x8xf32> -> tensor<8x4xf32, #tssa.strides<[1, 8]>>
  %1 = tssa.aten "aten::mul.Tensor"(%0, %y) : (tensor<8x4xf32, #tssa.strides<[1, 8]>>, tensor<8x4xf32>) -> tensor<8x4xf32>
  %2 = tssa.aten "aten::sin"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %1, %2 : tensor<8x4xf32>, tensor<4x8xf32>
}

// -----

// A product with a batch folds that, and takes the matrix as it is.
// CHECK-LABEL: func.func @folded_backward(
// CHECK-DAG: {pyjit.seen = 0 : i64}
// CHECK-DAG: {pyjit.input = 1 : i64}
// CHECK-NOT: {pyjit.seen = 1 : i64}
func.func @folded(%x: tensor<2x4x8xf32>, %w: tensor<8x3xf32>) -> tensor<2x4x3xf32> attributes {pyjit.gradient_inputs = array<i64: 0, 1>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::matmul"(%x, %w) : (tensor<2x4x8xf32>, tensor<8x3xf32>) -> tensor<2x4x3xf32>
  return %0 : tensor<2x4x3xf32>
}
