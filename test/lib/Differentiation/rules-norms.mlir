// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --tssa-differentiate --cse --split-input-file | FileCheck %s

// Statistics are computed again.
// CHECK-LABEL: func.func @layer_norm(
// CHECK: tssa.aten "aten::rsqrt"(
// CHECK: tssa.aten "aten::sum.dim_IntList"(
func.func @layer_norm(%x: tensor<6x8xf32>, %w: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<6x8xf32> attributes {pyjit.gradient_inputs = array<i64: 0, 1, 2>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::layer_norm"(%x, [8 : i64], %w, %b, 1.0e-5 : f64, true) : (tensor<6x8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<6x8xf32>
  return %0 : tensor<6x8xf32>
}

// -----

// No mean is taken away; without an epsilon there is that of the type.
// CHECK-LABEL: func.func @rms_norm(
// CHECK-NOT: tssa.aten "aten::sub.Tensor"(%arg0
// CHECK: 1.1920928955078125E-7
// CHECK: tssa.aten "aten::rsqrt"(
func.func @rms_norm(%x: tensor<6x8xf32>, %w: tensor<8xf32>) -> tensor<6x8xf32> attributes {pyjit.gradient_inputs = array<i64: 0, 1>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::rms_norm"(%x, [8 : i64], %w, none) : (tensor<6x8xf32>, tensor<8xf32>) -> tensor<6x8xf32>
  return %0 : tensor<6x8xf32>
}

// -----

// Groups are rows; weights are of channels.
// CHECK-LABEL: func.func @group_norm(
// CHECK: tssa.access %arg0 [#tssa.view<view [2, 2, 50]>]
// CHECK: [0 : i64, 2 : i64, 3 : i64], true, none) : (tensor<2x4x5x5xf32>) -> tensor<1x4x1x1xf32>
func.func @group_norm(%x: tensor<2x4x5x5xf32>, %w: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<2x4x5x5xf32> attributes {pyjit.gradient_inputs = array<i64: 0, 1, 2>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::group_norm"(%x, 2 : i64, %w, %b, 1.0e-5 : f64, true) : (tensor<2x4x5x5xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<2x4x5x5xf32>
  return %0 : tensor<2x4x5x5xf32>
}

// -----

// Norms are a result.
// CHECK-LABEL: func.func @weight_norm(
// CHECK: %[[W:.*]]:2 = tssa.aten "aten::_weight_norm_interface"(
// CHECK: tssa.aten "aten::div.Tensor"(%{{.*}}, %[[W]]#1)
func.func @weight_norm(%v: tensor<4x3xf32>, %g: tensor<4x1xf32>) -> tensor<4x3xf32> attributes {pyjit.gradient_inputs = array<i64: 0, 1>, pyjit.gradient_results = array<i64: 0>} {
  %0:2 = tssa.aten "aten::_weight_norm_interface"(%v, %g, 0 : i64) : (tensor<4x3xf32>, tensor<4x1xf32>) -> (tensor<4x3xf32>, tensor<4x1xf32>)
  return %0#0 : tensor<4x3xf32>
}

// -----

// Without running statistics, those of the batch.
// CHECK-LABEL: func.func @batch(
// CHECK: tssa.aten "aten::mean.dim"(%arg0, [0 : i64, 2 : i64, 3 : i64]
func.func @batch(%x: tensor<2x4x5x5xf32>) -> tensor<2x4x5x5xf32> attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::batch_norm"(%x, none, none, none, none, true, 0.1 : f64, 1.0e-5 : f64, false) : (tensor<2x4x5x5xf32>) -> tensor<2x4x5x5xf32>
  return %0 : tensor<2x4x5x5xf32>
}
