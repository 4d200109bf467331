// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s | pyjit-opt | FileCheck %s
// RUN: pyjit-opt %s -emit-bytecode | pyjit-opt | FileCheck %s

// CHECK-LABEL: func @aten
// CHECK-SAME: tensor<4x8xf32, #tssa.strides<[1, 4]>>
func.func @aten(%x: tensor<4x8xf32, #tssa.strides<[1, 4]>>, %y: tensor<8xf32>) {
  // CHECK: tssa.aten "aten::gelu"(%{{.*}}, "tanh") : (tensor<8xf32>) -> tensor<8xf32>
  %0 = tssa.aten "aten::gelu"(%y, "tanh") : (tensor<8xf32>) -> tensor<8xf32>
  // CHECK: tssa.aten "my::all"([%{{.*}}, %{{.*}}], none, 1 : i64, 2.000000e+00 : f64, true, device("cpu"), wrapped(3 : i64), [], [1 : i64, [2 : i64]])
  tssa.aten "my::all"([%0, %y], none, 1 : i64, 2.0 : f64, true, device("cpu"), wrapped(3 : i64), [], [1 : i64, [2 : i64]])
    : (tensor<8xf32>, tensor<8xf32>) -> ()
  // CHECK: tssa.aten "my::push_"(%{{.*}}, %{{.*}}) mutates [0]
  %1:2 = tssa.aten "my::push_"(%y, %0) mutates [0]
    : (tensor<8xf32>, tensor<8xf32>) -> (tensor<i1>, tensor<8xf32>)
  return
}

// CHECK-LABEL: func @views
func.func @views(%t: tensor<4x8xf32>, %s: tensor<8xf32>, %i: index) {
  // CHECK: tssa.access %{{.*}} [#tssa.view<permute [1, 0]>, #tssa.view<select [0, ?]>](%{{.*}}) : tensor<4x8xf32> -> tensor<4xf32, #tssa.strides<[8]>>
  %0 = tssa.access %t [#tssa.view<permute [1, 0]>, #tssa.view<select [0, ?]>] (%i)
    : tensor<4x8xf32> -> tensor<4xf32, #tssa.strides<[8]>>
  // CHECK: tssa.access %{{.*}} [#tssa.view<alias>] : tensor<4x8xf32> -> tensor<4x8xf32>
  %1 = tssa.access %t [#tssa.view<alias>] : tensor<4x8xf32> -> tensor<4x8xf32>
  // CHECK: tssa.assign %{{.*}}, %{{.*}} [#tssa.view<select [0, 1]>] : tensor<4x8xf32>, tensor<8xf32>
  %2 = tssa.assign %t, %s [#tssa.view<select [0, 1]>] : tensor<4x8xf32>, tensor<8xf32>
  // CHECK: #tssa.view<view []>
  %3 = tssa.access %s [#tssa.view<slice [0, 3, 1, 1]>, #tssa.view<view []>] : tensor<8xf32> -> tensor<f32>
  return
}

// CHECK-LABEL: func @pick
func.func @pick(%a: tensor<4x8xf32>, %b: tensor<4x8xf32>, %i: index) -> tensor<4x8xf32> {
  // CHECK: tssa.pick[%{{.*}}, %{{.*}}, %{{.*}}] (%{{.*}}) : tensor<4x8xf32>
  %0 = tssa.pick [%a, %b, %a] (%i) : tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// CHECK-LABEL: func @speculate
func.func @speculate(%flag: tensor<i1>) {
  // CHECK: tssa.speculate %{{.*}} : tensor<i1>
  tssa.speculate %flag : tensor<i1>
  return
}

// CHECK-LABEL: func @refs
func.func @refs(%v: tensor<4x8xf32>, %s: tensor<8xf32>) -> tensor<4x8xf32> {
  // CHECK: tssa.ref %{{.*}} : !tssa.ref<tensor<4x8xf32>>
  %r = tssa.ref %v : !tssa.ref<tensor<4x8xf32>>
  // CHECK: tssa.view %{{.*}} [#tssa.view<select [0, 1]>] : !tssa.ref<tensor<4x8xf32>> -> !tssa.ref<tensor<8xf32>>
  %w = tssa.view %r [#tssa.view<select [0, 1]>] : !tssa.ref<tensor<4x8xf32>> -> !tssa.ref<tensor<8xf32>>
  // CHECK: tssa.store %{{.*}}, %{{.*}} : !tssa.ref<tensor<8xf32>>
  tssa.store %s, %w : !tssa.ref<tensor<8xf32>>
  // CHECK: tssa.load %{{.*}} : !tssa.ref<tensor<4x8xf32>>
  %l = tssa.load %r : !tssa.ref<tensor<4x8xf32>>
  return %l : tensor<4x8xf32>
}
