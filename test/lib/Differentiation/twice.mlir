// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --pass-pipeline='builtin.module(func.func(tssa-differentiate,tssa-select-gradients,tssa-differentiate),tssa-partition)' --split-input-file | FileCheck %s
// RUN: pyjit-opt %s --pass-pipeline='builtin.module(func.func(tssa-differentiate),tssa-partition)' --split-input-file | FileCheck %s --check-prefix=FIRST

// Gradients of gradients: overloads that rules call have derivatives themselves.

// Convolutions of what came in, and their gradients.
// CHECK-LABEL: func.func @convolution_backward(
// CHECK: tssa.aten "aten::convolution"(
// CHECK: tssa.aten "aten::convolution"(
// CHECK: tssa.aten "aten::convolution_backward"(
// FIRST-LABEL: func.func @convolution_backward(
// FIRST-SAME: pyjit.reads = [array<i64: 0, 1>, array<i64: 0, 1>], pyjit.varies_with = [array<i64: 1>, array<i64: 0>]
func.func @convolution(%x: tensor<2x3x8x8xf32>, %w: tensor<4x3x3x3xf32>) -> tensor<2x4x6x6xf32> attributes {pyjit.gradient_inputs = array<i64: 0, 1>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::conv2d"(%x, %w, none, [1 : i64, 1 : i64], [0 : i64, 0 : i64], [1 : i64, 1 : i64], 1 : i64) : (tensor<2x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<2x4x6x6xf32>
  return %0 : tensor<2x4x6x6xf32>
}

// -----

// What the gradient of a maximum is read at.
// CHECK-LABEL: func.func @pool_backward(
// CHECK: tssa.aten "aten::gather"(
func.func @pool(%x: tensor<2x3x8x8xf32>) -> tensor<2x3x4x4xf32> attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::max_pool2d"(%x, [2 : i64, 2 : i64], [2 : i64, 2 : i64], [0 : i64, 0 : i64], [1 : i64, 1 : i64], false) : (tensor<2x3x8x8xf32>) -> tensor<2x3x4x4xf32>
  return %0 : tensor<2x3x4x4xf32>
}

// -----

// Linear: the operator itself.
// CHECK-LABEL: func.func @average_backward(
// CHECK: tssa.aten "aten::avg_pool2d"(
func.func @average(%x: tensor<2x3x8x8xf32>) -> tensor<2x3x4x4xf32> attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::avg_pool2d"(%x, [2 : i64, 2 : i64], [2 : i64, 2 : i64], [0 : i64, 0 : i64], false, true, none) : (tensor<2x3x8x8xf32>) -> tensor<2x3x4x4xf32>
  return %0 : tensor<2x3x4x4xf32>
}

// -----

// The loss of the gradient.
// CHECK-LABEL: func.func @classes_backward(
// CHECK: tssa.aten "aten::nll_loss_forward"(
func.func @classes(%x: tensor<4x3xf32>, %t: tensor<4xi64>) -> tensor<f32> attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0>} {
  %0:2 = tssa.aten "aten::nll_loss_forward"(%x, %t, none, 1 : i64, -100 : i64) : (tensor<4x3xf32>, tensor<4xi64>) -> (tensor<f32>, tensor<f32>)
  return %0#0 : tensor<f32>
}

// -----

// The rows that were read, without padding.
// CHECK-LABEL: func.func @rows_backward(
// CHECK: tssa.aten "aten::embedding"(
// CHECK: tssa.aten "aten::where.self"(
func.func @rows(%w: tensor<9x4xf32>, %i: tensor<6xi64>) -> tensor<6x4xf32> attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::embedding"(%w, %i, 2 : i64, false, false) : (tensor<9x4xf32>, tensor<6xi64>) -> tensor<6x4xf32>
  return %0 : tensor<6x4xf32>
}

// -----

// What was scattered is gathered.
// CHECK-LABEL: func.func @gathered_backward(
// CHECK: tssa.aten "aten::gather"(
func.func @gathered(%x: tensor<4x5xf32>, %i: tensor<4x3xi64>) -> tensor<4x3xf32> attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::gather"(%x, 1 : i64, %i, false) : (tensor<4x5xf32>, tensor<4x3xi64>) -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}

// -----

// What was added is selected.
// CHECK-LABEL: func.func @selected_backward(
// CHECK: tssa.aten "aten::index_select"(
func.func @selected(%x: tensor<4x5xf32>, %i: tensor<3xi64>) -> tensor<3x5xf32> attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::index_select"(%x, 0 : i64, %i) : (tensor<4x5xf32>, tensor<3xi64>) -> tensor<3x5xf32>
  return %0 : tensor<3x5xf32>
}

// -----

// What was put is read.
// CHECK-LABEL: func.func @indexed_backward(
// CHECK: tssa.aten "aten::index.Tensor"(
func.func @indexed(%x: tensor<4x5xf32>, %i: tensor<3xi64>) -> tensor<3x5xf32> attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::index.Tensor"(%x, [%i]) : (tensor<4x5xf32>, tensor<3xi64>) -> tensor<3x5xf32>
  return %0 : tensor<3x5xf32>
}

// -----

// A batch norm, by its formula.
// CHECK-LABEL: func.func @statistics_backward(
// CHECK-NOT: tssa.aten "aten::native_batch_norm_backward"(%arg0
// CHECK: tssa.aten "aten::mean.dim"(
func.func @statistics(%x: tensor<2x4x5x5xf32>, %w: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<2x4x5x5xf32> attributes {pyjit.gradient_inputs = array<i64: 0, 1, 2>, pyjit.gradient_results = array<i64: 0>} {
  %0:3 = tssa.aten "aten::_native_batch_norm_legit.no_stats"(%x, %w, %b, true, 0.1 : f64, 1.0e-5 : f64) : (tensor<2x4x5x5xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<2x4x5x5xf32>, tensor<4xf32>, tensor<4xf32>)
  return %0#0 : tensor<2x4x5x5xf32>
}
