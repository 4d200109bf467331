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
