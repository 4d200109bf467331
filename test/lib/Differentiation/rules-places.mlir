// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --tssa-differentiate --cse --split-input-file | FileCheck %s

// Back by as much.
// CHECK-LABEL: func.func @rolled(
// CHECK: tssa.aten "aten::roll"(%arg1, [-1 : i64, 2 : i64], [0 : i64, 1 : i64])
func.func @rolled(%x: tensor<4x5xf32>) -> tensor<4x5xf32> attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::roll"(%x, [1 : i64, -2 : i64], [0 : i64, 1 : i64]) : (tensor<4x5xf32>) -> tensor<4x5xf32>
  return %0 : tensor<4x5xf32>
}

// -----

// Back by as many quarters.
// CHECK-LABEL: func.func @turned(
// CHECK: tssa.aten "aten::rot90"(%arg1, -1 : i64, [0 : i64, 1 : i64])
func.func @turned(%x: tensor<4x5xf32>) -> tensor<5x4xf32> attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::rot90"(%x, 1 : i64, [0 : i64, 1 : i64]) : (tensor<4x5xf32>) -> tensor<5x4xf32>
  return %0 : tensor<5x4xf32>
}

// -----

// By the other factor.
// CHECK-LABEL: func.func @shuffled(
// CHECK: tssa.aten "aten::channel_shuffle"(%arg1, 3 : i64)
func.func @shuffled(%x: tensor<2x6x3x3xf32>) -> tensor<2x6x3x3xf32> attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::channel_shuffle"(%x, 2 : i64) : (tensor<2x6x3x3xf32>) -> tensor<2x6x3x3xf32>
  return %0 : tensor<2x6x3x3xf32>
}

// -----

// Zeros with the gradient on the diagonal.
// CHECK-LABEL: func.func @trace(
// CHECK: tssa.assign %{{.*}}, %{{.*}} [#tssa.view<diagonal [0, 0, 1]>]
func.func @trace(%x: tensor<4x5xf32>) -> tensor<f32> attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::trace"(%x) : (tensor<4x5xf32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

// A diagonal is read.
// CHECK-LABEL: func.func @embedded(
// CHECK: tssa.access %arg1 [#tssa.view<diagonal [0, 1, 2]>]
func.func @embedded(%x: tensor<4x5xf32>) -> tensor<4x5x5xf32> attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::diag_embed"(%x, 0 : i64, -2 : i64, -1 : i64) : (tensor<4x5xf32>) -> tensor<4x5x5xf32>
  return %0 : tensor<4x5x5xf32>
}

// -----

// Two halves.
// CHECK-LABEL: func.func @gated(
// CHECK: tssa.aten "aten::sigmoid"(
// CHECK: tssa.aten "aten::cat"([%{{.*}}, %{{.*}}], 1 : i64)
func.func @gated(%x: tensor<4x6xf32>) -> tensor<4x3xf32> attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::glu"(%x, -1 : i64) : (tensor<4x6xf32>) -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}

// -----

// What was put where is told by the other results.
// CHECK-LABEL: func.func @bags(
// CHECK: %[[B:.*]]:4 = tssa.aten "aten::_embedding_bag"(
// CHECK: tssa.aten "aten::_embedding_bag_backward"(%arg3, %arg1, %arg2, %[[B]]#1, %[[B]]#2, %[[B]]#3, 9 : i64, false, 0 : i64, false, none, -1 : i64)
func.func @bags(%w: tensor<9x4xf32>, %i: tensor<6xi64>, %o: tensor<2xi64>) -> tensor<2x4xf32> attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0>} {
  %0:4 = tssa.aten "aten::_embedding_bag"(%w, %i, %o, false, 0 : i64, false, none, false, -1 : i64) : (tensor<9x4xf32>, tensor<6xi64>, tensor<2xi64>) -> (tensor<2x4xf32>, tensor<6xi64>, tensor<2xi64>, tensor<2xi64>)
  return %0#0 : tensor<2x4xf32>
}
