// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --tssa-differentiate --cse --split-input-file | FileCheck %s

// Between two lines; the mean divides.
// CHECK-LABEL: func.func @smooth(
// CHECK-DAG: tssa.aten "aten::le.Tensor"(
// CHECK-DAG: tssa.aten "aten::ge.Tensor"(
// CHECK-DAG: tssa.aten "aten::div.Tensor"(
// CHECK: tssa.aten "aten::neg"(%{{.*}}) : (tensor<4x3xf32>)
func.func @smooth(%x: tensor<4x3xf32>, %y: tensor<4x3xf32>) -> tensor<f32> attributes {pyjit.gradient_inputs = array<i64: 0, 1>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::smooth_l1_loss"(%x, %y, 1 : i64, 0.5 : f64) : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

// The same with another slope.
// CHECK-LABEL: func.func @huber(
// CHECK: tssa.aten "aten::ge.Tensor"(
// CHECK: tssa.aten "aten::where.self"(
// CHECK: return %{{.*}}, %{{.*}} : tensor<4x3xf32>, tensor<4x3xf32>
func.func @huber(%x: tensor<4x3xf32>, %y: tensor<4x3xf32>) -> tensor<4x3xf32> attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::huber_loss"(%x, %y, 0 : i64, 2.0 : f64) : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}

// -----

// exp(-y x) / (1 + exp(-y x))
// CHECK-LABEL: func.func @soft_margin(
// CHECK: tssa.aten "aten::exp"(
// CHECK: tssa.aten "aten::div.Tensor"(
func.func @soft_margin(%x: tensor<4x3xf32>, %y: tensor<4x3xf32>) -> tensor<f32> attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::soft_margin_loss"(%x, %y, 2 : i64) : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

// Both operands; eager bounds the divisor.
// CHECK-LABEL: func.func @entropy(
// CHECK-DAG: tssa.aten "aten::clamp_min"(
// CHECK-DAG: tssa.aten "aten::log"(
func.func @entropy(%x: tensor<4x3xf32>, %y: tensor<4x3xf32>) -> tensor<f32> attributes {pyjit.gradient_inputs = array<i64: 0, 1>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::binary_cross_entropy"(%x, %y, none, 1 : i64) : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

// With weights of positive examples.
// CHECK-LABEL: func.func @logits(
// CHECK: tssa.aten "aten::sigmoid"(
// CHECK: tssa.aten "aten::mul.Tensor"(
func.func @logits(%x: tensor<4x3xf32>, %y: tensor<4x3xf32>, %p: tensor<3xf32>) -> tensor<f32> attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::binary_cross_entropy_with_logits"(%x, %y, none, %p, 1 : i64) : (tensor<4x3xf32>, tensor<4x3xf32>, tensor<3xf32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

// The second result, the sum of the weights, goes to the backward overload.
// CHECK-LABEL: func.func @classes(
// CHECK: %[[L:.*]]:2 = tssa.aten "aten::nll_loss_forward"(
// CHECK: tssa.aten "aten::nll_loss_backward"(%arg2, %arg0, %arg1, none, 1 : i64, -100 : i64, %[[L]]#1)
func.func @classes(%x: tensor<4x3xf32>, %t: tensor<4xi64>) -> tensor<f32> attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0>} {
  %0:2 = tssa.aten "aten::nll_loss_forward"(%x, %t, none, 1 : i64, -100 : i64) : (tensor<4x3xf32>, tensor<4xi64>) -> (tensor<f32>, tensor<f32>)
  return %0#0 : tensor<f32>
}
