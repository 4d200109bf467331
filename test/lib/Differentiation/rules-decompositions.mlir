// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --tssa-differentiate --cse --split-input-file | FileCheck %s

// Eager factors the transpose of a matrix that lies row by row, and takes a step
// where the matrix is singular.
// CHECK-LABEL: func.func @determinant(
// CHECK: %[[D:.*]]:3 = tssa.aten "aten::_linalg_det"(
// CHECK: tssa.aten "aten::mul.Tensor"(%arg1, %[[D]]#0)
// CHECK: tssa.access %[[D]]#1 [#tssa.view<diagonal [0, 0, 1]>]
// CHECK: tssa.aten "aten::linalg_lu_solve"(%{{.*}}, %[[D]]#2, %{{.*}}, true, false)
func.func @determinant(%x: tensor<4x4xf32>) -> tensor<f32> attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0>} {
  %0:3 = tssa.aten "aten::_linalg_det"(%x) : (tensor<4x4xf32>) -> (tensor<f32>, tensor<4x4xf32, #tssa.strides<[1, 4]>>, tensor<4xi32>)
  return %0#0 : tensor<f32>
}

// -----

// CHECK-LABEL: func.func @transposed(
// CHECK: tssa.aten "aten::linalg_lu_solve"({{.*}}, true, true)
func.func @transposed(%x: tensor<4x4xf32, #tssa.strides<[1, 4]>>) -> tensor<f32> attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0>} {
  %0:4 = tssa.aten "aten::_linalg_slogdet"(%x) : (tensor<4x4xf32, #tssa.strides<[1, 4]>>) -> (tensor<f32>, tensor<f32>, tensor<4x4xf32, #tssa.strides<[1, 4]>>, tensor<4xi32>)
  return %0#1 : tensor<f32>
}

// -----

// Eigenvalues alone need no differences.
// CHECK-LABEL: func.func @eigenvalues(
// CHECK: %[[E:.*]]:2 = tssa.aten "aten::_linalg_eigh"(
// CHECK-NOT: aten::div
// CHECK: tssa.aten "aten::matmul"(
func.func @eigenvalues(%x: tensor<4x4xf32>) -> tensor<4xf32> attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0>} {
  %0:2 = tssa.aten "aten::_linalg_eigh"(%x, "L", true) : (tensor<4x4xf32>) -> (tensor<4xf32>, tensor<4x4xf32>)
  return %0#0 : tensor<4xf32>
}

// -----

// What is cut off has zeros.
// CHECK-LABEL: func.func @cut(
// CHECK: tssa.access %arg1 [#tssa.view<slice [1, 0, 4, 1]>]
// CHECK: tssa.aten "aten::constant_pad_nd"(%{{.*}}, [1 : i64, 0 : i64]
func.func @cut(%x: tensor<3x5xf32>) -> tensor<3x6xf32> attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::constant_pad_nd"(%x, [-1, 2], 0.0 : f64) : (tensor<3x5xf32>) -> tensor<3x6xf32>
  return %0 : tensor<3x6xf32>
}

// -----

// The gradient of what was there passes a write that autograd does not see.
// CHECK-LABEL: func.func @written(
// CHECK: %[[S:.*]] = tssa.aten "aten::sin"(%arg0)
// CHECK: %[[W:.*]] = tssa.aten "pyjit::written"(%{{.*}}, %[[S]])
// CHECK: %[[C:.*]] = tssa.aten "aten::cos"(%arg0)
// CHECK: tssa.aten "aten::mul.Tensor"(%arg1, %[[C]])
func.func @written(%x: tensor<4xf32>) -> tensor<4xf32> attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::sin"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = tssa.access %0 [#tssa.view<detach []>] : tensor<4xf32> -> tensor<4xf32>
  %2 = tssa.aten "aten::relu"(%1) : (tensor<4xf32>) -> tensor<4xf32>
  %3 = tssa.aten "pyjit::written"(%2, %0) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %3 : tensor<4xf32>
}
