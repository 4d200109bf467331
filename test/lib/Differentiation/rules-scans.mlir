// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --tssa-differentiate --cse --split-input-file | FileCheck %s

// Without zeros result / self; else the products of all others.
// CHECK-LABEL: func.func @product(
// CHECK: tssa.aten "aten::cumprod"(
// CHECK: tssa.aten "aten::div.Tensor"(
// CHECK: tssa.aten "aten::where.self"(
func.func @product(%x: tensor<4x5xf32>) -> tensor<4xf32> attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::prod.dim_int"(%x, 1 : i64, false, none) : (tensor<4x5xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// Zeros are found by counting them.
// CHECK-LABEL: func.func @products(
// CHECK: tssa.aten "aten::cumsum"(
// CHECK: tssa.aten "aten::flip"(
func.func @products(%x: tensor<4x5xf32>) -> tensor<4x5xf32> attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::cumprod"(%x, 1 : i64, none) : (tensor<4x5xf32>) -> tensor<4x5xf32>
  return %0 : tensor<4x5xf32>
}

// -----

// Positive and negative gradients apart.
// CHECK-LABEL: func.func @logarithms(
// CHECK-DAG: tssa.aten "aten::gt.Tensor"(
// CHECK-DAG: tssa.aten "aten::lt.Tensor"(
// CHECK: tssa.aten "aten::logcumsumexp"(
func.func @logarithms(%x: tensor<4x5xf32>) -> tensor<4x5xf32> attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::logcumsumexp"(%x, 1 : i64) : (tensor<4x5xf32>) -> tensor<4x5xf32>
  return %0 : tensor<4x5xf32>
}

// -----

// Elements that were shown several times sum up.
// CHECK-LABEL: func.func @greatest(
// CHECK: %[[M:.*]]:2 = tssa.aten "aten::cummax"(
// CHECK: tssa.aten "aten::scatter_add"(%{{.*}}, 1 : i64, %[[M]]#1, %arg1)
func.func @greatest(%x: tensor<4x5xf32>) -> tensor<4x5xf32> attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0>} {
  %0:2 = tssa.aten "aten::cummax"(%x, 1 : i64) : (tensor<4x5xf32>) -> (tensor<4x5xf32>, tensor<4x5xi64>)
  return %0#0 : tensor<4x5xf32>
}

// -----

// Elements go back to their indices.
// CHECK-LABEL: func.func @sorted(
// CHECK: %[[S:.*]]:2 = tssa.aten "aten::sort"(
// CHECK: tssa.aten "aten::scatter.src"(%{{.*}}, 1 : i64, %[[S]]#1, %arg1)
func.func @sorted(%x: tensor<4x5xf32>) -> tensor<4x5xf32> attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0>} {
  %0:2 = tssa.aten "aten::sort"(%x, -1 : i64, false) : (tensor<4x5xf32>) -> (tensor<4x5xf32>, tensor<4x5xi64>)
  return %0#0 : tensor<4x5xf32>
}

// -----

// As many as are the one that was chosen share the gradient.
// CHECK-LABEL: func.func @median(
// CHECK: tssa.aten "aten::isnan"(
// CHECK: tssa.aten "aten::logical_or"(
// CHECK: tssa.aten "aten::where.self"(
func.func @median(%x: tensor<4x5xf32>) -> tensor<f32> attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::median"(%x) : (tensor<4x5xf32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

// Two results, one gradient.
// CHECK-LABEL: func.func @moments(
// CHECK: 5.000000e-01
// CHECK: tssa.aten "aten::add.Tensor"(
func.func @moments(%x: tensor<4x5xf32>) -> (tensor<4xf32>, tensor<4xf32>) attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0, 1>} {
  %0:2 = tssa.aten "aten::var_mean.correction"(%x, [1 : i64], 1 : i64, false) : (tensor<4x5xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  return %0#0, %0#1 : tensor<4xf32>, tensor<4xf32>
}

// -----

// Zero where the length is.
// CHECK-LABEL: func.func @length(
// CHECK: tssa.aten "aten::pow.Tensor_Scalar"(
// CHECK: tssa.aten "aten::eq.Tensor"(
// CHECK: tssa.aten "aten::where.self"(
func.func @length(%x: tensor<4x5xf32>) -> tensor<4xf32> attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::norm.ScalarOpt_dim"(%x, 3.0 : f64, [1 : i64], false) : (tensor<4x5xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
