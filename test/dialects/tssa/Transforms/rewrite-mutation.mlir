// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --tssa-rewrite-mutation -split-input-file -verify-diagnostics | FileCheck %s

// A store through a view is an assignment to its origin, by the whole path.
// CHECK-LABEL: func @store
// CHECK-SAME: (%[[X:[^ :]+]]: !tssa.ref<tensor<2x3x4xf32>>, %[[S:[^ :]+]]: tensor<4xf32>)
func.func @store(%x: !tssa.ref<tensor<2x3x4xf32>>, %s: tensor<4xf32>) {
  %v = tssa.view %x [#tssa.view<select [0, 1]>] : !tssa.ref<tensor<2x3x4xf32>> -> !tssa.ref<tensor<3x4xf32>>
  %w = tssa.view %v [#tssa.view<select [0, 2]>] : !tssa.ref<tensor<3x4xf32>> -> !tssa.ref<tensor<4xf32>>
  // CHECK-NEXT: %[[T:.*]] = tssa.load %[[X]]
  // CHECK-NEXT: %[[N:.*]] = tssa.assign %[[T]], %[[S]] [#tssa.view<select [0, 1]>, #tssa.view<select [0, 2]>]
  // CHECK-NEXT: tssa.store %[[N]], %[[X]]
  // CHECK-NEXT: return
  tssa.store %s, %w : !tssa.ref<tensor<4xf32>>
  return
}

// -----

// A load through a view is an access of the origin's contents then.
// CHECK-LABEL: func @load
func.func @load(%x: !tssa.ref<tensor<2x3xf32>>, %i: index) -> tensor<3xf32> {
  %v = tssa.view %x [#tssa.view<select [0, ?]>] (%i) : !tssa.ref<tensor<2x3xf32>> -> !tssa.ref<tensor<3xf32>>
  // CHECK: %[[T:.*]] = tssa.load
  // CHECK-NEXT: %[[A:.*]] = tssa.access %[[T]] [#tssa.view<select [0, ?]>](%{{.*}})
  // CHECK-NEXT: return %[[A]]
  %l = tssa.load %v : !tssa.ref<tensor<3xf32>>
  return %l : tensor<3xf32>
}

// -----

func.func @twice(%x: !tssa.ref<tensor<1x3xf32>>, %s: tensor<2x3xf32>) {
  %v = tssa.view %x [#tssa.view<expand [2, 3]>] : !tssa.ref<tensor<1x3xf32>> -> !tssa.ref<tensor<2x3xf32, #tssa.strides<[0, 1]>>>
  %s0 = tssa.access %s [] : tensor<2x3xf32> -> tensor<2x3xf32, #tssa.strides<[0, 1]>>
  // expected-error @+1 {{writes through a view that shows an element more than once}}
  tssa.store %s0, %v : !tssa.ref<tensor<2x3xf32, #tssa.strides<[0, 1]>>>
  return
}

// -----

// Where gradients flow, a view that leaves is a tensor: what reads it reads one
// value until it is written, and what reads a view of it reads it through that.
// CHECK-LABEL: func @shown
func.func @shown(%x: !tssa.ref<tensor<4xf32>>) -> (tensor<2x2xf32>, tensor<2x2xf32>, tensor<2xf32>) attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0>} {
  %v = tssa.view %x [#tssa.view<view [2, 2]>] : !tssa.ref<tensor<4xf32>> -> !tssa.ref<tensor<2x2xf32>>
  %w = tssa.view %v [#tssa.view<select [0, 1]>] : !tssa.ref<tensor<2x2xf32>> -> !tssa.ref<tensor<2xf32>>
  // CHECK: %[[V:.*]] = tssa.access %{{.*}} [#tssa.view<view [2, 2]>]
  // CHECK-NEXT: %[[R:.*]] = tssa.aten "aten::neg"(%[[V]])
  %0 = tssa.load %v : !tssa.ref<tensor<2x2xf32>>
  %1 = tssa.aten "aten::neg"(%0) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  // CHECK-NEXT: %[[W:.*]] = tssa.access %[[V]] [#tssa.view<select [0, 1]>]
  %2 = tssa.load %w : !tssa.ref<tensor<2xf32>>
  %3 = tssa.aten "aten::neg"(%2) : (tensor<2xf32>) -> tensor<2xf32>
  // CHECK: tssa.store
  tssa.store %3, %w : !tssa.ref<tensor<2xf32>>
  // CHECK: %[[N:.*]] = tssa.access %{{.*}} [#tssa.view<view [2, 2]>]
  // CHECK-NEXT: return %[[N]], %[[R]], %[[W]]
  %4 = tssa.load %v : !tssa.ref<tensor<2x2xf32>>
  return %4, %1, %2 : tensor<2x2xf32>, tensor<2x2xf32>, tensor<2xf32>
}

// -----

// Behind a write, autograd makes the views that were there once more, of the
// tensor that has the memory; one that is made then is a view of the view.
// CHECK-LABEL: func @older
func.func @older(%x: !tssa.ref<tensor<4xf32>>) -> (tensor<2x2xf32>, tensor<2xf32>, tensor<2xf32>) attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0>} {
  %v = tssa.view %x [#tssa.view<view [2, 2]>] : !tssa.ref<tensor<4xf32>> -> !tssa.ref<tensor<2x2xf32>>
  %old = tssa.view %v [#tssa.view<select [0, 1]>] : !tssa.ref<tensor<2x2xf32>> -> !tssa.ref<tensor<2xf32>>
  %0 = tssa.load %v : !tssa.ref<tensor<2x2xf32>>
  %1 = tssa.aten "aten::neg"(%0) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  // CHECK: tssa.store
  tssa.store %1, %v : !tssa.ref<tensor<2x2xf32>>
  %new = tssa.view %v [#tssa.view<select [0, 0]>] : !tssa.ref<tensor<2x2xf32>> -> !tssa.ref<tensor<2xf32>>
  // CHECK: %[[V:.*]] = tssa.access %{{.*}} [#tssa.view<view [2, 2]>]
  // CHECK: %[[O:.*]] = tssa.access %{{.*}} [#tssa.view<view [2, 2]>, #tssa.view<select [0, 1]>]
  // CHECK: %[[N:.*]] = tssa.access %[[V]] [#tssa.view<select [0, 0]>]
  // CHECK: return %[[V]], %[[O]], %[[N]]
  %2 = tssa.load %v : !tssa.ref<tensor<2x2xf32>>
  %3 = tssa.load %old : !tssa.ref<tensor<2xf32>>
  %4 = tssa.load %new : !tssa.ref<tensor<2xf32>>
  return %2, %3, %4 : tensor<2x2xf32>, tensor<2xf32>, tensor<2xf32>
}
