// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What may end a program is asked first.
// RUN: pyjit-opt %s --tssa-hoist-speculations | FileCheck %s

// What the flag needs goes along, in order; the rest follows.
// CHECK-LABEL: func.func @first(
// CHECK-NEXT:    tssa.aten "aten::eq.Scalar"
// CHECK-NEXT:    %[[C:.*]] = tssa.aten "aten::any"
// CHECK-NEXT:    tssa.speculate %[[C]] : tensor<i1>
// CHECK-NEXT:    tssa.aten "aten::relu"
// CHECK-NEXT:    tssa.aten "aten::neg"
// CHECK-NEXT:    return
func.func @first(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = tssa.aten "aten::relu"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = tssa.aten "aten::eq.Scalar"(%x, 0 : i64) : (tensor<4xf32>) -> tensor<4xi1>
  %2 = tssa.aten "aten::neg"(%0) : (tensor<4xf32>) -> tensor<4xf32>
  %3 = tssa.aten "aten::any"(%1) : (tensor<4xi1>) -> tensor<i1>
  tssa.speculate %3 : tensor<i1>
  return %2 : tensor<4xf32>
}

// Two become one where nothing between them can go wrong.
// CHECK-LABEL: func.func @two(
// CHECK-NEXT:    %[[A:.*]] = tssa.aten "aten::any"
// CHECK-NEXT:    %[[B:.*]] = tssa.aten "aten::all"
// CHECK-NEXT:    %[[C:.*]] = tssa.aten "aten::logical_and"(%[[A]], %[[B]])
// CHECK-NEXT:    tssa.speculate %[[C]]
// CHECK-NEXT:    tssa.aten "aten::relu"
// CHECK-NOT:     tssa.speculate
// CHECK:         return
func.func @two(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = tssa.aten "aten::any"(%x) : (tensor<4xf32>) -> tensor<i1>
  tssa.speculate %0 : tensor<i1>
  %1 = tssa.aten "aten::relu"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %2 = tssa.aten "aten::all"(%x) : (tensor<4xf32>) -> tensor<i1>
  tssa.speculate %2 : tensor<i1>
  return %1 : tensor<4xf32>
}

// An index that the first forbids is not looked up before it has held.
// CHECK-LABEL: func.func @guarded(
// CHECK-NEXT:    tssa.speculate %{{.*}}
// CHECK-NEXT:    tssa.aten "aten::embedding"
// CHECK-NEXT:    %[[B:.*]] = tssa.aten "aten::any"
// CHECK-NEXT:    tssa.speculate %[[B]]
// CHECK-NEXT:    tssa.aten "aten::relu"
func.func @guarded(%w: tensor<8x4xf32>, %i: tensor<2xi64>, %fits: tensor<i1>) -> tensor<8x4xf32> {
  %0 = tssa.aten "aten::relu"(%w) : (tensor<8x4xf32>) -> tensor<8x4xf32>
  tssa.speculate %fits : tensor<i1>
  %1 = tssa.aten "aten::embedding"(%w, %i, -1 : i64, false, false) : (tensor<8x4xf32>, tensor<2xi64>) -> tensor<2x4xf32>
  %2 = tssa.aten "aten::any"(%1) : (tensor<2x4xf32>) -> tensor<i1>
  tssa.speculate %2 : tensor<i1>
  return %0 : tensor<8x4xf32>
}

// A number that is drawn is drawn where it was.
// CHECK-LABEL: func.func @drawn(
// CHECK-NEXT:    tssa.aten "aten::relu"
// CHECK-NEXT:    tssa.aten "aten::rand_like"
// CHECK-NEXT:    tssa.aten "aten::any"
// CHECK-NEXT:    tssa.speculate
func.func @drawn(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = tssa.aten "aten::relu"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = tssa.aten "aten::rand_like"(%x, none, none, none, none, none) : (tensor<4xf32>) -> tensor<4xf32>
  %2 = tssa.aten "aten::any"(%1) : (tensor<4xf32>) -> tensor<i1>
  tssa.speculate %2 : tensor<i1>
  return %0 : tensor<4xf32>
}
