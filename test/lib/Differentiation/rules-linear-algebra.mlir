// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --tssa-differentiate --cse --split-input-file | FileCheck %s

// -inverse^T gradient inverse^T
// CHECK-LABEL: func.func @inverse(
// CHECK: %[[I:.*]] = tssa.aten "aten::linalg_inv"(
// CHECK: tssa.access %[[I]] [#tssa.view<permute [0, 2, 1]>]
// CHECK: tssa.aten "aten::matmul"(
// CHECK: tssa.aten "aten::matmul"(
// CHECK: tssa.aten "aten::neg"(
func.func @inverse(%x: tensor<3x4x4xf32>) -> tensor<3x4x4xf32> attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::linalg_inv"(%x) : (tensor<3x4x4xf32>) -> tensor<3x4x4xf32>
  return %0 : tensor<3x4x4xf32>
}

// -----

// One more system, of the transpose.
// CHECK-LABEL: func.func @solve(
// CHECK: %[[T:.*]] = tssa.access %arg0 [#tssa.view<permute [0, 2, 1]>]
// CHECK: tssa.aten "aten::linalg_solve"(%[[T]], %arg2, true)
// CHECK: tssa.aten "aten::matmul"(
func.func @solve(%x: tensor<3x4x4xf32>, %b: tensor<3x4x2xf32>) -> tensor<3x4x2xf32> attributes {pyjit.gradient_inputs = array<i64: 0, 1>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::linalg_solve"(%x, %b, true) : (tensor<3x4x4xf32>, tensor<3x4x2xf32>) -> tensor<3x4x2xf32>
  return %0 : tensor<3x4x2xf32>
}

// -----

// The gradient is triangular, too.
// CHECK-LABEL: func.func @triangular(
// CHECK: tssa.aten "aten::linalg_solve_triangular"(%{{.*}}, %arg2, false, true, false)
// CHECK: tssa.aten "aten::triu"(
func.func @triangular(%x: tensor<3x4x4xf32>, %b: tensor<3x4x2xf32>) -> tensor<3x4x2xf32> attributes {pyjit.gradient_inputs = array<i64: 0, 1>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::linalg_solve_triangular"(%x, %b, true, true, false) : (tensor<3x4x4xf32>, tensor<3x4x2xf32>) -> tensor<3x4x2xf32>
  return %0 : tensor<3x4x2xf32>
}

// -----

// Symmetric.
// CHECK-LABEL: func.func @cholesky(
// CHECK: tssa.aten "aten::tril"(
// CHECK: tssa.aten "aten::linalg_solve_triangular"(
// CHECK: tssa.aten "aten::linalg_solve_triangular"(
// CHECK: 5.000000e-01
func.func @cholesky(%x: tensor<3x4x4xf32>) -> tensor<3x4x4xf32> attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::linalg_cholesky"(%x, false) : (tensor<3x4x4xf32>) -> tensor<3x4x4xf32>
  return %0 : tensor<3x4x4xf32>
}

// -----

// Each vector is multiplied with the gradient.
// CHECK-LABEL: func.func @outer(
// CHECK-DAG: (tensor<3x4xf32>) -> tensor<3x1xf32>
// CHECK-DAG: (tensor<3x4xf32>) -> tensor<1x4xf32>
func.func @outer(%x: tensor<3x4xf32>, %a: tensor<3xf32>, %b: tensor<4xf32>) -> tensor<3x4xf32> attributes {pyjit.gradient_inputs = array<i64: 0, 1, 2>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::addr"(%x, %a, %b, 1 : i64, 2 : i64) : (tensor<3x4xf32>, tensor<3xf32>, tensor<4xf32>) -> tensor<3x4xf32>
  return %0 : tensor<3x4xf32>
}

// -----

// A sum of products spreads its gradient over the batch.
// CHECK-LABEL: func.func @batches(
// CHECK: #tssa.view<expand [2, 3, 4]>
// CHECK: tssa.aten "aten::bmm"(
// CHECK: tssa.aten "aten::bmm"(
func.func @batches(%x: tensor<3x4xf32>, %a: tensor<2x3x5xf32>, %b: tensor<2x5x4xf32>) -> tensor<3x4xf32> attributes {pyjit.gradient_inputs = array<i64: 0, 1, 2>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::addbmm"(%x, %a, %b, 1 : i64, 1 : i64) : (tensor<3x4xf32>, tensor<2x3x5xf32>, tensor<2x5x4xf32>) -> tensor<3x4xf32>
  return %0 : tensor<3x4xf32>
}

// -----

// The second operand sees the transpose.
// CHECK-LABEL: func.func @distances(
// CHECK: tssa.aten "aten::_cdist_backward"(%arg2, %arg0, %arg1
// CHECK: tssa.aten "aten::_cdist_backward"(
func.func @distances(%a: tensor<2x3x5xf32>, %b: tensor<2x4x5xf32>) -> tensor<2x3x4xf32> attributes {pyjit.gradient_inputs = array<i64: 0, 1>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::_cdist_forward"(%a, %b, 2.0 : f64, none) : (tensor<2x3x5xf32>, tensor<2x4x5xf32>) -> tensor<2x3x4xf32>
  return %0 : tensor<2x3x4xf32>
}
