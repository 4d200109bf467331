// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --library-batch-linears | FileCheck %s
// RUN: pyjit-opt %s --library-batch-linears=max-rows=1 | FileCheck %s --check-prefix=FEW

// Uses of the first result are put behind the joined matmul.
// CHECK-LABEL: func.func @steps(
// CHECK: %[[E:.*]] = tssa.aten "aten::exp"(%arg1)
// CHECK: %[[C:.*]] = tssa.aten "aten::cat"([%arg0, %[[E]]], 0 : i64) : (tensor<1x8xf32>, tensor<2x8xf32>) -> tensor<3x8xf32>
// CHECK: %[[L:.*]] = tssa.aten "aten::linear"(%[[C]], %arg2, %arg3) : (tensor<3x8xf32>, tensor<4x8xf32>, tensor<4xf32>) -> tensor<3x4xf32>
// CHECK-DAG: %[[A:.*]] = tssa.access %[[L]] [#tssa.view<slice [0, 0, 1, 1]>] : tensor<3x4xf32> -> tensor<1x4xf32>
// CHECK-DAG: %[[B:.*]] = tssa.access %[[L]] [#tssa.view<slice [0, 1, 2, 1]>] : tensor<3x4xf32> -> tensor<2x4xf32>
// CHECK: %[[R:.*]] = tssa.aten "aten::relu"(%[[A]])
// CHECK: return %[[R]], %[[B]]
// FEW-LABEL: func.func @steps(
// FEW-NOT: aten::cat
// FEW: return
func.func @steps(%x: tensor<1x8xf32>, %y: tensor<2x8xf32>, %w: tensor<4x8xf32> {pyjit.param}, %b: tensor<4xf32> {pyjit.param}) -> (tensor<1x4xf32>, tensor<2x4xf32>) {
  %0 = tssa.aten "aten::linear"(%x, %w, %b) : (tensor<1x8xf32>, tensor<4x8xf32>, tensor<4xf32>) -> tensor<1x4xf32>
  %1 = tssa.aten "aten::relu"(%0) : (tensor<1x4xf32>) -> tensor<1x4xf32>
  %2 = tssa.aten "aten::exp"(%y) : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %3 = tssa.aten "aten::linear"(%2, %w, %b) : (tensor<2x8xf32>, tensor<4x8xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  return %1, %3 : tensor<1x4xf32>, tensor<2x4xf32>
}

// The second input needs the first result; the third needs neither, and joins
// the second.
// CHECK-LABEL: func.func @recurrent(
// CHECK: tssa.aten "aten::linear"(%arg0, %arg2, none) : (tensor<1x8xf32>
// CHECK: %[[C:.*]] = tssa.aten "aten::cat"
// CHECK: tssa.aten "aten::linear"(%[[C]], %arg2, none) : (tensor<2x8xf32>
func.func @recurrent(%x: tensor<1x8xf32>, %y: tensor<1x8xf32>, %w: tensor<8x8xf32> {pyjit.param}) -> (tensor<1x8xf32>, tensor<1x8xf32>) {
  %0 = tssa.aten "aten::linear"(%x, %w, none) : (tensor<1x8xf32>, tensor<8x8xf32>) -> tensor<1x8xf32>
  %1 = tssa.aten "aten::tanh"(%0) : (tensor<1x8xf32>) -> tensor<1x8xf32>
  %2 = tssa.aten "aten::linear"(%1, %w, none) : (tensor<1x8xf32>, tensor<8x8xf32>) -> tensor<1x8xf32>
  %3 = tssa.aten "aten::linear"(%y, %w, none) : (tensor<1x8xf32>, tensor<8x8xf32>) -> tensor<1x8xf32>
  return %2, %3 : tensor<1x8xf32>, tensor<1x8xf32>
}

// Other weights, weights that are no parameters, random numbers in between.
// CHECK-LABEL: func.func @kept(
// CHECK-NOT: aten::cat
// CHECK: return
func.func @kept(%x: tensor<1x8xf32>, %y: tensor<1x8xf32>, %w: tensor<4x8xf32>, %v: tensor<4x8xf32> {pyjit.param}) -> (tensor<1x4xf32>, tensor<1x4xf32>, tensor<1x4xf32>) {
  %0 = tssa.aten "aten::linear"(%x, %w, none) : (tensor<1x8xf32>, tensor<4x8xf32>) -> tensor<1x4xf32>
  %1 = tssa.aten "aten::linear"(%y, %w, none) : (tensor<1x8xf32>, tensor<4x8xf32>) -> tensor<1x4xf32>
  %2 = tssa.aten "aten::linear"(%y, %v, none) : (tensor<1x8xf32>, tensor<4x8xf32>) -> tensor<1x4xf32>
  return %0, %1, %2 : tensor<1x4xf32>, tensor<1x4xf32>, tensor<1x4xf32>
}
// CHECK-LABEL: func.func @random(
// CHECK-NOT: aten::cat
// CHECK: return
func.func @random(%x: tensor<1x8xf32>, %v: tensor<4x8xf32> {pyjit.param}) -> (tensor<1x4xf32>, tensor<1x4xf32>) {
  %y = tssa.aten "aten::rand_like"(%x, none, none, none, none, none) : (tensor<1x8xf32>) -> tensor<1x8xf32>
  %0 = tssa.aten "aten::linear"(%x, %v, none) : (tensor<1x8xf32>, tensor<4x8xf32>) -> tensor<1x4xf32>
  %1 = tssa.aten "aten::linear"(%y, %v, none) : (tensor<1x8xf32>, tensor<4x8xf32>) -> tensor<1x4xf32>
  return %0, %1 : tensor<1x4xf32>, tensor<1x4xf32>
}
