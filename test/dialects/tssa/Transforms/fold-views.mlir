// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --tssa-fold-views | FileCheck %s

// CHECK-LABEL: func @compose
func.func @compose(%x: tensor<2x3x4xf32>) -> tensor<4xf32> {
  // CHECK-NEXT: %[[R:.*]] = tssa.access %{{.*}} [#tssa.view<select [0, 1]>, #tssa.view<select [0, 2]>] : tensor<2x3x4xf32> -> tensor<4xf32>
  // CHECK-NEXT: return %[[R]]
  %0 = tssa.access %x [#tssa.view<select [0, 1]>] : tensor<2x3x4xf32> -> tensor<3x4xf32>
  %1 = tssa.access %0 [#tssa.view<select [0, 2]>] : tensor<3x4xf32> -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// CHECK-LABEL: func @access_of_assign
// CHECK-SAME: %[[S:[^ :]+]]: tensor<3xf32>
// CHECK-NEXT: return %[[S]]
func.func @access_of_assign(%x: tensor<4x3xf32>, %s: tensor<3xf32>) -> tensor<3xf32> {
  %0 = tssa.assign %x, %s [#tssa.view<select [0, 1]>] : tensor<4x3xf32>, tensor<3xf32>
  %1 = tssa.access %0 [#tssa.view<select [0, 1]>] : tensor<4x3xf32> -> tensor<3xf32>
  return %1 : tensor<3xf32>
}

// CHECK-LABEL: func @assign_of_access
// CHECK-SAME: %[[X:[^ :]+]]: tensor<4x3xf32>
// CHECK-NEXT: return %[[X]]
func.func @assign_of_access(%x: tensor<4x3xf32>) -> tensor<4x3xf32> {
  %0 = tssa.access %x [#tssa.view<select [0, 1]>] : tensor<4x3xf32> -> tensor<3xf32>
  %1 = tssa.assign %x, %0 [#tssa.view<select [0, 1]>] : tensor<4x3xf32>, tensor<3xf32>
  return %1 : tensor<4x3xf32>
}

// Two transpositions, and an alias.
// CHECK-LABEL: func @identity
// CHECK-SAME: %[[X:[^ :]+]]: tensor<4x3xf32>
// CHECK-NEXT: return %[[X]]
func.func @identity(%x: tensor<4x3xf32>) -> tensor<4x3xf32> {
  %0 = tssa.access %x [#tssa.view<permute [1, 0]>, #tssa.view<alias>, #tssa.view<permute [1, 0]>] : tensor<4x3xf32> -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}

// Another element than the one assigned: not the assigned value.
// CHECK-LABEL: func @other
// CHECK: tssa.assign
// CHECK: tssa.access
func.func @other(%x: tensor<4x3xf32>, %s: tensor<3xf32>) -> tensor<3xf32> {
  %0 = tssa.assign %x, %s [#tssa.view<select [0, 1]>] : tensor<4x3xf32>, tensor<3xf32>
  %1 = tssa.access %0 [#tssa.view<select [0, 2]>] : tensor<4x3xf32> -> tensor<3xf32>
  return %1 : tensor<3xf32>
}

// Of two assignments to one part the second one counts, where nobody asks for the first.
// CHECK-LABEL: func @twice(
// CHECK-SAME:    %[[X:[^ :]+]]: tensor<4x3xf32>, %[[S:[^ :]+]]: tensor<3xf32>
// CHECK-NEXT:    %[[N:.*]] = tssa.aten "aten::neg"(%[[S]])
// CHECK-NEXT:    %[[R:.*]] = tssa.assign %[[X]], %[[N]]
// CHECK-NEXT:    return %[[R]]
func.func @twice(%x: tensor<4x3xf32>, %s: tensor<3xf32>) -> tensor<4x3xf32> {
  %0 = tssa.assign %x, %s [#tssa.view<select [0, 1]>] : tensor<4x3xf32>, tensor<3xf32>
  %1 = tssa.access %0 [#tssa.view<select [0, 1]>] : tensor<4x3xf32> -> tensor<3xf32>
  %2 = tssa.aten "aten::neg"(%1) : (tensor<3xf32>) -> tensor<3xf32>
  %3 = tssa.assign %0, %2 [#tssa.view<select [0, 1]>] : tensor<4x3xf32>, tensor<3xf32>
  return %3 : tensor<4x3xf32>
}

// Here somebody does: each keeps its target, so that they may share its memory.
// CHECK-LABEL: func @twice_asked(
// CHECK:         %[[A:.*]] = tssa.assign
// CHECK:         tssa.assign %[[A]]
func.func @twice_asked(%x: tensor<4x3xf32>, %s: tensor<3xf32>, %u: tensor<3xf32>) -> (tensor<4x3xf32>, tensor<4x3xf32>) {
  %0 = tssa.assign %x, %s [#tssa.view<select [0, 1]>] : tensor<4x3xf32>, tensor<3xf32>
  %1 = tssa.aten "aten::neg"(%0) : (tensor<4x3xf32>) -> tensor<4x3xf32>
  %2 = tssa.assign %0, %u [#tssa.view<select [0, 1]>] : tensor<4x3xf32>, tensor<3xf32>
  return %1, %2 : tensor<4x3xf32>, tensor<4x3xf32>
}

// Behind differentiation, how gradients go past a write is of no interest any more.
// CHECK-LABEL: func.func @written(
// CHECK-SAME:    %[[W:.*]]: tensor<4xf32>, %[[V:.*]]: tensor<4xf32>
// CHECK-NEXT:    %[[R:.*]] = tssa.aten "aten::mul.Tensor"(%[[V]], %[[W]])
// CHECK-NEXT:    return %[[R]]
func.func @written(%w: tensor<4xf32>, %v: tensor<4xf32>) -> tensor<4xf32> {
  %leaf = tssa.aten "pyjit::unwritten"(%w) : (tensor<4xf32>) -> tensor<4xf32>
  %contents = tssa.access %v [#tssa.view<detach []>] : tensor<4xf32> -> tensor<4xf32>
  %now = tssa.aten "pyjit::written"(%contents, %leaf) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %r = tssa.aten "aten::mul.Tensor"(%now, %leaf) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// The element type is converted in front of a reshape, where a kernel has computed what a matmul reads.
// CHECK-LABEL: func.func @convert(
// CHECK: %[[R:.*]] = tssa.aten "aten::relu"(%arg0)
// CHECK: %[[C:.*]] = tssa.aten "aten::_to_copy"(%[[R]], {{.*}}) : (tensor<4x6x8xf32>) -> tensor<4x6x8xbf16>
// CHECK: %[[V:.*]] = tssa.access %[[C]] [#tssa.view<view [24, 8]>] : tensor<4x6x8xbf16> -> tensor<24x8xbf16>
// CHECK: tssa.aten "aten::mm"(%[[V]], %arg1)
// CHECK: %[[L:.*]] = tssa.access %[[R]]
// CHECK: tssa.aten "aten::_to_copy"(%[[L]],
func.func @convert(%x: tensor<4x6x8xf32>, %w: tensor<8x8xbf16>) -> (tensor<24x8xbf16>, tensor<24x8xf16>) {
  %r = tssa.aten "aten::relu"(%x) : (tensor<4x6x8xf32>) -> tensor<4x6x8xf32>
  %0 = tssa.access %r [#tssa.view<view [24, 8]>] : tensor<4x6x8xf32> -> tensor<24x8xf32>
  %1 = tssa.aten "aten::_to_copy"(%0, 15 : i64, none, none, none, false, none) : (tensor<24x8xf32>) -> tensor<24x8xbf16>
  %2 = tssa.aten "aten::mm"(%1, %w) : (tensor<24x8xbf16>, tensor<8x8xbf16>) -> tensor<24x8xbf16>
  %3 = tssa.access %r [#tssa.view<view [24, 8]>] : tensor<4x6x8xf32> -> tensor<24x8xf32>
  %4 = tssa.aten "aten::_to_copy"(%3, 5 : i64, none, none, none, false, none) : (tensor<24x8xf32>) -> tensor<24x8xf16>
  return %2, %4 : tensor<24x8xbf16>, tensor<24x8xf16>
}
