// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --tssa-differentiate --cse --split-input-file | FileCheck %s

// Broadcast operands: summed, and converted to their types.
// CHECK-LABEL: func.func @broadcast(
// CHECK-DAG: tssa.aten "aten::sum.dim_IntList"(%{{.*}}, [0 : i64], true, none) : (tensor<4x8xf32>) -> tensor<1x8xf32>
// CHECK-DAG: tssa.aten "aten::_to_copy"(%{{.*}}, 15 : i64, none, none, none, false, none) : (tensor<8xf32>) -> tensor<8xbf16>
func.func @broadcast(%x: tensor<4x8xf32>, %y: tensor<8xbf16>) -> tensor<4x8xf32> attributes {pyjit.gradient_inputs = array<i64: 0, 1>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::mul.Tensor"(%x, %y) : (tensor<4x8xf32>, tensor<8xbf16>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// -----

// CHECK-LABEL: func.func @linear(
// CHECK: %[[X:.*]] = tssa.aten "aten::mm"(%{{.*}}, %arg1) : (tensor<6x3xf32>, tensor<3x8xf32>) -> tensor<6x8xf32>
// CHECK: tssa.access %[[X]] [#tssa.view<view [2, 3, 8]>]
// CHECK: tssa.aten "aten::mm"(%{{.*}}, %{{.*}}) : (tensor<3x6xf32, #tssa.strides<[1, 3]>>, tensor<6x8xf32>) -> tensor<3x8xf32>
// CHECK: tssa.aten "aten::sum.dim_IntList"(%{{.*}}, [0 : i64], true, none) : (tensor<6x3xf32>) -> tensor<1x3xf32>
func.func @linear(%x: tensor<2x3x8xf32>, %w: tensor<3x8xf32>, %b: tensor<3xf32>) -> tensor<2x3x3xf32> attributes {pyjit.gradient_inputs = array<i64: 0, 1, 2>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::linear"(%x, %w, %b) : (tensor<2x3x8xf32>, tensor<3x8xf32>, tensor<3xf32>) -> tensor<2x3x3xf32>
  return %0 : tensor<2x3x3xf32>
}

// -----

// Stacks of matrices that one factor shares.
// CHECK-LABEL: func.func @matmul(
// CHECK: tssa.aten "aten::bmm"(%{{.*}}, %{{.*}}) : (tensor<6x4x7xf32{{.*}}>, tensor<6x7x5xf32{{.*}}>) -> tensor<6x4x5xf32>
// CHECK: tssa.aten "aten::bmm"
// CHECK: tssa.aten "aten::sum.dim_IntList"(%{{.*}}, [0 : i64], true, none)
func.func @matmul(%a: tensor<2x3x4x5xf32>, %b: tensor<3x5x7xf32>) -> tensor<2x3x4x7xf32> attributes {pyjit.gradient_inputs = array<i64: 0, 1>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::matmul"(%a, %b) : (tensor<2x3x4x5xf32>, tensor<3x5x7xf32>) -> tensor<2x3x4x7xf32>
  return %0 : tensor<2x3x4x7xf32>
}

// -----

// CHECK-LABEL: func.func @joined(
// CHECK: tssa.access %arg2 [#tssa.view<slice [1, 0, 3, 1]>]
// CHECK: tssa.access %arg2 [#tssa.view<slice [1, 3, 5, 1]>]
func.func @joined(%a: tensor<2x3xf32>, %b: tensor<2x5xf32>) -> tensor<2x8xf32> attributes {pyjit.gradient_inputs = array<i64: 0, 1>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::cat"([%a, %b], -1 : i64) : (tensor<2x3xf32>, tensor<2x5xf32>) -> tensor<2x8xf32>
  return %0 : tensor<2x8xf32>
}

// -----

// Sizes that differ between calls.
// CHECK-LABEL: func.func @sizes(
// CHECK: tssa.access %{{.*}} [#tssa.view<expand [s0, 8]>]
func.func @sizes(%x: tensor<?x8xf32, #tssa.layout<[s0, 8], [8, 1]>>) -> tensor<f32> attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0>, pyjit.symbols = [array<i64: 0, 0>]} {
  %0 = tssa.aten "aten::sum"(%x, none) : (tensor<?x8xf32, #tssa.layout<[s0, 8], [8, 1]>>) -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

// Only a leaf that the call made, and that nobody sees, has a gradient.
// CHECK-LABEL: func.func @unseen(
// CHECK-SAME: pyjit.gradient_inputs = array<i64>
// CHECK: return %{{.*}} : tensor<4xf32>
func.func @unseen(%x: tensor<4xf32>) -> tensor<4xf32> attributes {pyjit.gradient_inputs = array<i64>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::sin"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// Groups of rows with a matrix each: the gradient of a row is a product with
// the same matrix transposed, that of a matrix one of its rows.
// CHECK-LABEL: func.func @grouped(
// CHECK-SAME: %[[G:[a-z0-9]+]]: tensor<6x8xf32> {pyjit.gradient = 0 : i64}
// CHECK-DAG: %[[YT:.*]] = tssa.access %arg1 [#tssa.view<permute [0, 2, 1]>]
// CHECK-DAG: %[[GX:.*]] = tssa.aten "aten::_grouped_mm"(%[[G]], %[[YT]], %arg2, none, none){{.*}} -> tensor<6x4xf32>
// CHECK-DAG: %[[XT:.*]] = tssa.access %arg0 [#tssa.view<permute [1, 0]>]
// CHECK-DAG: %[[GY:.*]] = tssa.aten "aten::_grouped_mm"(%[[XT]], %[[G]], %arg2, none, none){{.*}} -> tensor<3x4x8xf32>
// CHECK: return %{{.*}}, %[[GX]], %[[GY]]
func.func @grouped(%x: tensor<6x4xf32>, %y: tensor<3x4x8xf32>, %ends: tensor<3xi32>) -> tensor<6x8xf32> attributes {pyjit.gradient_inputs = array<i64: 0, 1>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::_grouped_mm"(%x, %y, %ends, none, none) : (tensor<6x4xf32>, tensor<3x4x8xf32>, tensor<3xi32>) -> tensor<6x8xf32>
  return %0 : tensor<6x8xf32>
}
