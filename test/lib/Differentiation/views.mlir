// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --tssa-differentiate --split-input-file | FileCheck %s

// A part's gradient is assigned into zeros; parts of one tensor add up.
// CHECK-LABEL: func.func @parts(
// CHECK-SAME: %[[G:[a-z0-9]+]]: tensor<8xf32> {pyjit.gradient = 0 : i64}
// CHECK: %[[Z1:.*]] = tssa.aten "aten::zeros"([4 : i64, 8 : i64]
// CHECK: %[[P1:.*]] = tssa.assign %[[Z1]], %{{.*}} [#tssa.view<select [0, 2]>]
// CHECK: %[[Z0:.*]] = tssa.aten "aten::zeros"([4 : i64, 8 : i64]
// CHECK: %[[P0:.*]] = tssa.assign %[[Z0]], %{{.*}} [#tssa.view<select [0, 1]>]
// CHECK: %[[SUM:.*]] = tssa.aten "aten::add.Tensor"(%[[P1]], %[[P0]], 1 : i64)
// CHECK: return %{{.*}}, %[[SUM]]
func.func @parts(%x: tensor<4x8xf32>) -> tensor<8xf32> attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.access %x [#tssa.view<select [0, 1]>] : tensor<4x8xf32> -> tensor<8xf32>
  %1 = tssa.access %x [#tssa.view<select [0, 2]>] : tensor<4x8xf32> -> tensor<8xf32>
  %2 = tssa.aten "aten::mul.Tensor"(%0, %1) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %2 : tensor<8xf32>
}

// -----

// What a view repeats is summed, what it permutes is permuted back.
// CHECK-LABEL: func.func @repeated(
// CHECK: %[[S:.*]] = tssa.aten "aten::sum.dim_IntList"(%{{.*}}, [0 : i64], true, none) : (tensor<5x4xf32{{.*}}>) -> tensor<1x4xf32>
// CHECK: %[[V:.*]] = tssa.access %[[S]] [#tssa.view<squeeze [0]>]
// CHECK: return %{{.*}}, %[[V]]
func.func @repeated(%x: tensor<4xf32>) -> tensor<4x5xf32> attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.access %x [#tssa.view<expand [5, 4]>, #tssa.view<permute [1, 0]>] : tensor<4xf32> -> tensor<4x5xf32, #tssa.strides<[1, 0]>>
  %1 = tssa.aten "aten::exp"(%0) : (tensor<4x5xf32, #tssa.strides<[1, 0]>>) -> tensor<4x5xf32>
  return %1 : tensor<4x5xf32>
}

// -----

// What was assigned has the gradient of its part, what it replaced has none
// there.
// CHECK-LABEL: func.func @assigned(
// CHECK-SAME: %[[G:[a-z0-9]+]]: tensor<4x8xf32> {pyjit.gradient = 0 : i64}
// CHECK: %[[S:.*]] = tssa.access %[[G]] [#tssa.view<select [0, 1]>]
// CHECK: %[[Z:.*]] = tssa.aten "aten::zeros"([8 : i64]
// CHECK: %[[T:.*]] = tssa.assign %[[G]], %[[Z]] [#tssa.view<select [0, 1]>]
// CHECK: return %{{.*}}, %[[T]], %[[S]]
func.func @assigned(%t: tensor<4x8xf32>, %s: tensor<8xf32>) -> tensor<4x8xf32> attributes {pyjit.gradient_inputs = array<i64: 0, 1>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.assign %t, %s [#tssa.view<select [0, 1]>] : tensor<4x8xf32>, tensor<8xf32>
  return %0 : tensor<4x8xf32>
}

// -----

// Nothing passes a detached view: the product is linear in one factor.
// CHECK-LABEL: func.func @detached(
// CHECK: %[[D:.*]] = tssa.access %arg0 [#tssa.view<detach []>]
// CHECK: %[[GX:.*]] = tssa.aten "aten::mul.Tensor"(%arg1, %[[D]])
// CHECK-NEXT: return %{{.*}}, %[[GX]]
func.func @detached(%x: tensor<4xf32>) -> tensor<4xf32> attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.access %x [#tssa.view<detach []>] : tensor<4xf32> -> tensor<4xf32>
  %1 = tssa.aten "aten::mul.Tensor"(%x, %0) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// -----

// An input that no result depends on goes from the list.
// CHECK-LABEL: func.func @unused(
// CHECK-SAME: pyjit.gradient_inputs = array<i64: 1>
func.func @unused(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> attributes {pyjit.gradient_inputs = array<i64: 0, 1>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::neg"(%y) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// A function that says nothing of gradients stays as it is.
// CHECK-LABEL: func.func @plain(%arg0: tensor<4xf32>) -> tensor<4xf32> {
func.func @plain(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = tssa.aten "aten::neg"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// Elements that windows show twice get the sum of both, where they stand in
// memory.
// CHECK-LABEL: func.func @windows(
// CHECK-SAME: %[[G:[a-z0-9]+]]: tensor<3x4xf32> {pyjit.gradient = 0 : i64}
// CHECK-DAG: %[[N:.*]] = tssa.aten "aten::neg"(%[[G]])
// CHECK-DAG: %[[FLAT:.*]] = tssa.access %[[N]] [#tssa.view<view [12]>]
// CHECK-DAG: %[[Z:.*]] = tssa.aten "aten::zeros"([8 : i64]
// CHECK-DAG: tssa.aten "aten::arange"(3 : i64
// CHECK-DAG: "aten::mul.Tensor"(%{{.*}}, wrapped(2 : i64))
// CHECK-DAG: tssa.aten "aten::arange"(4 : i64
// CHECK: %[[S:.*]] = tssa.aten "aten::index_add"(%[[Z]], 0 : i64, %{{.*}}, %[[FLAT]], 1 : i64)
// CHECK: %[[X:.*]] = tssa.access %[[S]] [#tssa.view<as_strided [0, 8, 1]>]
// CHECK: return %{{.*}}, %[[X]]
func.func @windows(%x: tensor<8xf32>) -> tensor<3x4xf32> attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.access %x [#tssa.view<unfold [0, 4, 2]>] : tensor<8xf32> -> tensor<3x4xf32, #tssa.strides<[2, 1]>>
  %1 = tssa.aten "aten::neg"(%0) : (tensor<3x4xf32, #tssa.strides<[2, 1]>>) -> tensor<3x4xf32>
  return %1 : tensor<3x4xf32>
}
