// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --tssa-differentiate --cse --split-input-file | FileCheck %s

// Each head of a key is that of two queries; gradients are summed over them.
// CHECK-LABEL: func.func @grouped(
// CHECK: #tssa.view<expand [2, 2, 2, 6, 8]>
// CHECK: tssa.aten "aten::bmm"(
// CHECK: tssa.aten "aten::sum.dim_IntList"(%{{.*}}, [2 : i64], true, none) : (tensor<2x2x2x6x8xf32>)
func.func @grouped(%q: tensor<2x4x5x8xf32>, %k: tensor<2x2x6x8xf32>, %v: tensor<2x2x6x8xf32>) -> tensor<2x4x5x8xf32> attributes {pyjit.gradient_inputs = array<i64: 0, 1, 2>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::scaled_dot_product_attention"(%q, %k, %v, none, 0.0 : f64, false, none, true) : (tensor<2x4x5x8xf32>, tensor<2x2x6x8xf32>, tensor<2x2x6x8xf32>) -> tensor<2x4x5x8xf32>
  return %0 : tensor<2x4x5x8xf32>
}

// -----

// A mask that requires grad is summed to its shape.
// CHECK-LABEL: func.func @mask(
// CHECK: -> tensor<1x1x5x6xf32>
func.func @mask(%q: tensor<2x4x5x8xf32>, %k: tensor<2x4x6x8xf32>, %v: tensor<2x4x6x8xf32>, %m: tensor<5x6xf32>) -> tensor<2x4x5x8xf32> attributes {pyjit.gradient_inputs = array<i64: 3>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::scaled_dot_product_attention"(%q, %k, %v, %m, 0.0 : f64, false, none, false) : (tensor<2x4x5x8xf32>, tensor<2x4x6x8xf32>, tensor<2x4x6x8xf32>, tensor<5x6xf32>) -> tensor<2x4x5x8xf32>
  return %0 : tensor<2x4x5x8xf32>
}

// -----

// What is drawn in evaluation is not scaled.
// CHECK-LABEL: func.func @kept(
// CHECK: 1.000000e+00
func.func @kept(%x: tensor<4xf32>) -> tensor<4xf32> attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0>} {
  %0:2 = tssa.aten "aten::native_dropout"(%x, 0.5 : f64, false) : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xi1>)
  return %0#0 : tensor<4xf32>
}

// -----

// By the kernel that eager takes: it leaves what its gradients need, a boolean
// mask becomes one to add.
// CHECK-LABEL: func.func @flash(
// CHECK-NOT: scaled_dot_product_attention"
// CHECK: %[[MASK:.*]] = tssa.aten "aten::where.self"
// CHECK: %[[OUT:.*]]:2 = tssa.aten "aten::_scaled_dot_product_flash_attention_for_cpu"(%[[Q:.*]], %[[K:.*]], %[[V:.*]], 0.000000e+00 : f64, false, %[[MASK]], none) : (
// CHECK-SAME: -> (tensor<2x4x5x8xf32>, tensor<2x4x5xf32, #tssa.strides<[20, 1, 4]>>)
// CHECK: tssa.aten "aten::_scaled_dot_product_flash_attention_for_cpu_backward"(%{{.*}}, %[[Q]], %[[K]], %[[V]], %[[OUT]]#0, %[[OUT]]#1, 0.000000e+00 : f64, false, %[[MASK]], none)
func.func @flash(%q: tensor<2x4x5x8xf32>, %k: tensor<2x4x5x8xf32>, %v: tensor<2x4x5x8xf32>, %m: tensor<5x5xi1>) -> tensor<2x4x5x8xf32> attributes {pyjit.gradient_inputs = array<i64: 0, 1, 2>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::scaled_dot_product_attention"(%q, %k, %v, %m, 0.0 : f64, false, none, false) {pyjit.takes_kernel = "flash_cpu"} : (tensor<2x4x5x8xf32>, tensor<2x4x5x8xf32>, tensor<2x4x5x8xf32>, tensor<5x5xi1>) -> tensor<2x4x5x8xf32>
  return %0 : tensor<2x4x5x8xf32>
}

// -----

// Its rows come in parts of 32. Only what is asked for is computed.
// CHECK-LABEL: func.func @efficient(
// CHECK: tssa.aten "aten::_scaled_dot_product_efficient_attention"({{.*}} -> (tensor<2x4x5x8xf32>, tensor<2x4x32xf32>)
// CHECK: tssa.aten "aten::_scaled_dot_product_efficient_attention_backward"({{.*}} [false, true, false, false], true, 5.000000e-01 : f64)
func.func @efficient(%q: tensor<2x4x5x8xf32>, %k: tensor<2x4x5x8xf32>, %v: tensor<2x4x5x8xf32>) -> tensor<2x4x5x8xf32> attributes {pyjit.gradient_inputs = array<i64: 1>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::scaled_dot_product_attention"(%q, %k, %v, none, 0.0 : f64, true, 0.5 : f64, false) {pyjit.takes_kernel = "efficient"} : (tensor<2x4x5x8xf32>, tensor<2x4x5x8xf32>, tensor<2x4x5x8xf32>) -> tensor<2x4x5x8xf32>
  return %0 : tensor<2x4x5x8xf32>
}

// -----

// CHECK-LABEL: func.func @cudnn(
// CHECK: %[[OUT:.*]]:6 = tssa.aten "aten::_scaled_dot_product_cudnn_attention"(
// CHECK: tssa.aten "aten::_scaled_dot_product_cudnn_attention_backward"({{.*}}, %[[OUT]]#0, %[[OUT]]#1, %[[OUT]]#4, %[[OUT]]#5, none, none, none, 5 : i64, 5 : i64, 0.000000e+00 : f64, false, none)
func.func @cudnn(%q: tensor<2x4x5x8xbf16>, %k: tensor<2x4x5x8xbf16>, %v: tensor<2x4x5x8xbf16>) -> tensor<2x4x5x8xbf16> attributes {pyjit.gradient_inputs = array<i64: 0, 1, 2>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::scaled_dot_product_attention"(%q, %k, %v, none, 0.0 : f64, false, none, false) {pyjit.takes_kernel = "cudnn"} : (tensor<2x4x5x8xbf16>, tensor<2x4x5x8xbf16>, tensor<2x4x5x8xbf16>) -> tensor<2x4x5x8xbf16>
  return %0 : tensor<2x4x5x8xbf16>
}

// -----

// A mask of the efficient kernel's is written out.
// CHECK-LABEL: func.func @written_out(
// CHECK-NOT: _efficient
// CHECK: tssa.aten "aten::bmm"(
func.func @written_out(%q: tensor<2x4x5x8xf32>, %k: tensor<2x4x5x8xf32>, %v: tensor<2x4x5x8xf32>, %m: tensor<5x5xf32>) -> tensor<2x4x5x8xf32> attributes {pyjit.gradient_inputs = array<i64: 0, 1, 2>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::scaled_dot_product_attention"(%q, %k, %v, %m, 0.0 : f64, false, none, false) {pyjit.takes_kernel = "efficient"} : (tensor<2x4x5x8xf32>, tensor<2x4x5x8xf32>, tensor<2x4x5x8xf32>, tensor<5x5xf32>) -> tensor<2x4x5x8xf32>
  return %0 : tensor<2x4x5x8xf32>
}

// -----

// With dropout the call draws once, here and not in the call that is replaced,
// and its seed and offset go to the backward, whatever the length.
// CHECK-LABEL: func.func @drawing(
// CHECK: %[[OUT:.*]]:3 = tssa.aten "pyjit::efficient_attention"(%[[Q:.*]], %[[K:.*]], %[[V:.*]], %[[M:.*]], 1.000000e-01 : f64, false, none)
// CHECK-NOT: scaled_dot_product_attention
// CHECK: tssa.aten "pyjit::efficient_attention_backward"({{.*}}, %[[Q]], %[[K]], %[[V]], %[[M]], %[[OUT]]#0, %[[OUT]]#1, %[[OUT]]#2, 1.000000e-01 : f64, false, none)
func.func @drawing(%q: tensor<2x4x5x8xf32>, %k: tensor<2x4x5x8xf32>, %v: tensor<2x4x5x8xf32>, %m: tensor<5x5xf32>) -> tensor<2x4x5x8xf32> attributes {pyjit.gradient_inputs = array<i64: 0, 1, 2>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::scaled_dot_product_attention"(%q, %k, %v, %m, 0.1 : f64, false, none, false) {pyjit.takes_kernel = "efficient"} : (tensor<2x4x5x8xf32>, tensor<2x4x5x8xf32>, tensor<2x4x5x8xf32>, tensor<5x5xf32>) -> tensor<2x4x5x8xf32>
  return %0 : tensor<2x4x5x8xf32>
}
