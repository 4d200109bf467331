// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --tssa-differentiate --cse --split-input-file | FileCheck %s

// What is overwritten has no gradient; what is written has that of its place.
// CHECK-LABEL: func.func @scattered(
// CHECK-DAG: tssa.aten "aten::scatter.value"(%arg3, 1 : i64, %arg1, 0.000000e+00 : f64)
// CHECK-DAG: tssa.aten "aten::gather"(%arg3, 1 : i64, %arg1, false)
func.func @scattered(%x: tensor<4x5xf32>, %i: tensor<4x3xi64>, %s: tensor<4x3xf32>) -> tensor<4x5xf32> attributes {pyjit.gradient_inputs = array<i64: 0, 2>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::scatter.src"(%x, 1 : i64, %i, %s) : (tensor<4x5xf32>, tensor<4x3xi64>, tensor<4x3xf32>) -> tensor<4x5xf32>
  return %0 : tensor<4x5xf32>
}

// -----

// Of a source greater than the indices a part is read.
// CHECK-LABEL: func.func @part(
// CHECK: %[[G:.*]] = tssa.aten "aten::gather"(
// CHECK: tssa.aten "aten::constant_pad_nd"(%[[G]], [0 : i64, 1 : i64, 0 : i64, 0 : i64], 0.000000e+00 : f64)
func.func @part(%x: tensor<4x5xf32>, %i: tensor<4x3xi64>, %s: tensor<4x4xf32>) -> tensor<4x5xf32> attributes {pyjit.gradient_inputs = array<i64: 2>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::scatter_add"(%x, 1 : i64, %i, %s) : (tensor<4x5xf32>, tensor<4x3xi64>, tensor<4x4xf32>) -> tensor<4x5xf32>
  return %0 : tensor<4x5xf32>
}

// -----

// The mean divides by the counts.
// CHECK-LABEL: func.func @mean(
// CHECK: tssa.aten "aten::scatter_add"(
// CHECK: tssa.aten "aten::div.Tensor"(
func.func @mean(%x: tensor<4x5xf32>, %i: tensor<4x3xi64>, %s: tensor<4x3xf32>) -> tensor<4x5xf32> attributes {pyjit.gradient_inputs = array<i64: 0, 2>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::scatter_reduce.two"(%x, 1 : i64, %i, %s, "mean", true) : (tensor<4x5xf32>, tensor<4x3xi64>, tensor<4x3xf32>) -> tensor<4x5xf32>
  return %0 : tensor<4x5xf32>
}

// -----

// Rows that were added are read.
// CHECK-LABEL: func.func @rows(
// CHECK: tssa.aten "aten::mul.Tensor"(
// CHECK: tssa.aten "aten::index_select"(
func.func @rows(%x: tensor<4x5xf32>, %i: tensor<3xi64>, %s: tensor<3x5xf32>) -> tensor<4x5xf32> attributes {pyjit.gradient_inputs = array<i64: 0, 2>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::index_add"(%x, 0 : i64, %i, %s, 2 : i64) : (tensor<4x5xf32>, tensor<3xi64>, tensor<3x5xf32>) -> tensor<4x5xf32>
  return %0 : tensor<4x5xf32>
}

// -----

// A value has the sum of what the zeros take away.
// CHECK-LABEL: func.func @filled(
// CHECK: tssa.aten "aten::index_fill.int_Scalar"(
// CHECK: tssa.aten "aten::where.self"(
func.func @filled(%x: tensor<4x5xf32>, %i: tensor<3xi64>, %s: tensor<f32>) -> tensor<4x5xf32> attributes {pyjit.gradient_inputs = array<i64: 0, 2>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::index_fill.int_Tensor"(%x, 0 : i64, %i, %s) : (tensor<4x5xf32>, tensor<3xi64>, tensor<f32>) -> tensor<4x5xf32>
  return %0 : tensor<4x5xf32>
}

// -----

// Indices apart from each other: what is read has them in front.
// CHECK-LABEL: func.func @put(
// CHECK: tssa.aten "aten::index.Tensor"(%arg3, [%arg1, none, %arg1]) : (tensor<4x5x6xf32>, tensor<3xi64>, tensor<3xi64>) -> tensor<3x5xf32>
func.func @put(%x: tensor<4x5x6xf32>, %i: tensor<3xi64>, %s: tensor<3x5xf32>) -> tensor<4x5x6xf32> attributes {pyjit.gradient_inputs = array<i64: 2>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::index_put"(%x, [%i, none, %i], %s, false) : (tensor<4x5x6xf32>, tensor<3xi64>, tensor<3xi64>, tensor<3x5xf32>) -> tensor<4x5x6xf32>
  return %0 : tensor<4x5x6xf32>
}

// -----

// One value for all that a mask names.
// CHECK-LABEL: func.func @masked(
// CHECK-NOT: tssa.aten "aten::index.Tensor"(
// CHECK: tssa.aten "aten::where.self"(
// CHECK: tssa.aten "aten::sum.dim_IntList"(
func.func @masked(%x: tensor<4x5xf32>, %m: tensor<4x5xi1>, %s: tensor<f32>) -> tensor<4x5xf32> attributes {pyjit.gradient_inputs = array<i64: 2>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::index_put"(%x, [%m], %s, false) : (tensor<4x5xf32>, tensor<4x5xi1>, tensor<f32>) -> tensor<4x5xf32>
  return %0 : tensor<4x5xf32>
}

// -----

// The elements of a source are numbered by the mask.
// CHECK-LABEL: func.func @sequence(
// CHECK: tssa.aten "aten::cumsum"(
// CHECK: tssa.aten "aten::index_add"(
func.func @sequence(%x: tensor<4x5xf32>, %m: tensor<4x5xi1>, %s: tensor<20xf32>) -> tensor<4x5xf32> attributes {pyjit.gradient_inputs = array<i64: 0, 2>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::masked_scatter"(%x, %m, %s) : (tensor<4x5xf32>, tensor<4x5xi1>, tensor<20xf32>) -> tensor<4x5xf32>
  return %0 : tensor<4x5xf32>
}
