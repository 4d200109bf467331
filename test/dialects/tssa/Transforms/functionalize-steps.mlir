// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --tssa-rewrite-mutation --tssa-propagate-blocks --tssa-rename --tssa-fold-views --tssa-verify-functional | FileCheck %s

// b[i] = b[i] + 1 in a loop under a branch: argument, loop-carried value and branch
// result take part, and nothing but values is left.
// CHECK-LABEL: func @nested
// CHECK-SAME: (%[[B:[^ :]+]]: tensor<4x3xf32>, %[[C:[^ :]+]]: i1, %[[N:[^ :]+]]: index) -> tensor<4x3xf32>
func.func @nested(%b: !tssa.ref<tensor<4x3xf32>>, %c: i1, %n: index) -> tensor<4x3xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  // CHECK: %[[R:.*]] = scf.if %[[C]] -> (tensor<4x3xf32>) {
  // CHECK-NEXT: %[[L:.*]] = scf.for %[[I:.*]] = {{.*}} iter_args(%[[T:.*]] = %[[B]])
  // CHECK-NEXT: %[[V:.*]] = tssa.access %[[T]] [#tssa.view<select [0, ?]>](%[[I]])
  // CHECK-NEXT: %[[P:.*]] = tssa.aten "aten::add.Tensor"(%[[V]], wrapped(1 : i64), 1 : i64)
  // CHECK-NEXT: %[[A:.*]] = tssa.assign %[[T]], %[[P]] [#tssa.view<select [0, ?]>](%[[I]])
  // CHECK-NEXT: scf.yield %[[A]]
  // CHECK: scf.yield %[[L]]
  // CHECK: else
  // CHECK-NEXT: scf.yield %[[B]]
  // CHECK: return %[[R]]
  scf.if %c {
    scf.for %i = %c0 to %n step %c1 {
      %v = tssa.view %b [#tssa.view<select [0, ?]>] (%i) : !tssa.ref<tensor<4x3xf32>> -> !tssa.ref<tensor<3xf32>>
      %l = tssa.load %v : !tssa.ref<tensor<3xf32>>
      %p = tssa.aten "aten::add.Tensor"(%l, wrapped(1 : i64), 1 : i64) : (tensor<3xf32>) -> tensor<3xf32>
      tssa.store %p, %v : !tssa.ref<tensor<3xf32>>
    }
  }
  %r = tssa.load %b : !tssa.ref<tensor<4x3xf32>>
  return %r : tensor<4x3xf32>
}

// A fresh tensor changed through one view and seen through another.
// CHECK-LABEL: func @views
// CHECK-SAME: (%[[X:[^ :]+]]: tensor<2x3xf32>, %[[S:[^ :]+]]: tensor<3xf32>)
func.func @views(%x: tensor<2x3xf32>, %s: tensor<3xf32>) -> tensor<3x2xf32, #tssa.strides<[1, 3]>> {
  // CHECK-NEXT: %[[A:.*]] = tssa.assign %[[X]], %[[S]] [#tssa.view<select [0, 1]>]
  // CHECK-NEXT: %[[T:.*]] = tssa.access %[[A]] [#tssa.view<permute [1, 0]>]
  // CHECK-NEXT: return %[[T]]
  %r = tssa.ref %x : !tssa.ref<tensor<2x3xf32>>
  %t = tssa.view %r [#tssa.view<permute [1, 0]>] : !tssa.ref<tensor<2x3xf32>> -> !tssa.ref<tensor<3x2xf32, #tssa.strides<[1, 3]>>>
  %v = tssa.view %r [#tssa.view<select [0, 1]>] : !tssa.ref<tensor<2x3xf32>> -> !tssa.ref<tensor<3xf32>>
  tssa.store %s, %v : !tssa.ref<tensor<3xf32>>
  %l = tssa.load %t : !tssa.ref<tensor<3x2xf32, #tssa.strides<[1, 3]>>>
  return %l : tensor<3x2xf32, #tssa.strides<[1, 3]>>
}
