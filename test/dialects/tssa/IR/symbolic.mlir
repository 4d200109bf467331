// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s | pyjit-opt | FileCheck %s
// RUN: pyjit-opt %s -emit-bytecode | pyjit-opt | FileCheck %s
// RUN: pyjit-opt %s -pass-pipeline='builtin.module(func.func(tssa-fold-views))' | FileCheck %s --check-prefix=FOLD

// CHECK-DAG: #[[FOUR:.*]] = affine_map<()[s0] -> (s0 * 4)>
// CHECK-DAG: #[[ONE:.*]] = affine_map<()[s0] -> (s0)>

// Expressions are read in any order and printed in their normal form.
// CHECK-LABEL: @normal_form
// CHECK-SAME: tensor<4x?x8xf32, #tssa.layout<[4, s0 + s1, 8], [s0 * 8 + s1 * 8, 8, 1]>>
func.func @normal_form(%x: tensor<4x?x8xf32, #tssa.layout<[4, s1 + s0, 8], [(s1 + s0) * 8, 8, 1]>>)
    attributes {pyjit.symbols = [array<i64: 0, 1>, array<i64: 0, 1>]} {
  return
}

// CHECK-LABEL: @size
// CHECK: tssa.size #[[FOUR]]
// CHECK: tssa.empty : tensor<?xf32, #tssa.layout<[s0], [1]>>
func.func @size() -> (index, tensor<?xf32, #tssa.layout<[s0], [1]>>) {
  %n = tssa.size affine_map<()[s0] -> (s0 * 4)>
  %e = tssa.empty : tensor<?xf32, #tssa.layout<[s0], [1]>>
  return %n, %e : index, tensor<?xf32, #tssa.layout<[s0], [1]>>
}

!x = tensor<?x4x16xf32, #tssa.layout<[s0, 4, 16], [64, 16, 1]>>

// CHECK-LABEL: @views
func.func @views(%x: !x) {
  // CHECK: #tssa.view<view [s0 * 4, 16]>
  %0 = tssa.access %x [#tssa.view<view [s0 * 4, 16]>] : !x -> tensor<?x16xf32, #tssa.layout<[s0 * 4, 16], [16, 1]>>
  // CHECK: #tssa.view<view [s0, 64]>
  %1 = tssa.access %0 [#tssa.view<view [s0, 64]>] : tensor<?x16xf32, #tssa.layout<[s0 * 4, 16], [16, 1]>> -> tensor<?x64xf32, #tssa.layout<[s0, 64], [64, 1]>>
  // CHECK: #tssa.view<permute [1, 0, 2]>
  %2 = tssa.access %x [#tssa.view<permute [1, 0, 2]>] : !x -> tensor<4x?x16xf32, #tssa.layout<[4, s0, 16], [16, 64, 1]>>
  // CHECK: #tssa.view<slice [0, 1, s0 - 1, 1]>
  %3 = tssa.access %x [#tssa.view<slice [0, 1, s0 - 1, 1]>] : !x -> tensor<?x4x16xf32, #tssa.layout<[s0 - 1, 4, 16], [64, 16, 1]>>
  // CHECK: #tssa.view<select [0, s0 - 1]>
  %4 = tssa.access %x [#tssa.view<select [0, s0 - 1]>] : !x -> tensor<4x16xf32>
  // CHECK: #tssa.view<expand [s1, s0, 4, 16]>
  %5 = tssa.access %x [#tssa.view<expand [s1, s0, 4, 16]>] : !x -> tensor<?x?x4x16xf32, #tssa.layout<[s1, s0, 4, 16], [0, 64, 16, 1]>>
  // CHECK: #tssa.view<unsqueeze [0]>
  %6 = tssa.access %x [#tssa.view<unsqueeze [0]>] : !x -> tensor<1x?x4x16xf32, #tssa.layout<[1, s0, 4, 16], [s0 * 64, 64, 16, 1]>>
  // CHECK: #tssa.view<squeeze [0]>
  %7 = tssa.access %6 [#tssa.view<squeeze [0]>] : tensor<1x?x4x16xf32, #tssa.layout<[1, s0, 4, 16], [s0 * 64, 64, 16, 1]>> -> !x
  return
}

// A size in a call's arguments.
// CHECK-LABEL: @call
// CHECK: tssa.aten "aten::zeros"([#[[ONE]], 4 : i64], none, none, none, none)
func.func @call() -> tensor<?x4xf32, #tssa.layout<[s0, 4], [4, 1]>> {
  %0 = tssa.aten "aten::zeros"([affine_map<()[s0] -> (s0)>, 4 : i64], none, none, none, none) : () -> tensor<?x4xf32, #tssa.layout<[s0, 4], [4, 1]>>
  return %0 : tensor<?x4xf32, #tssa.layout<[s0, 4], [4, 1]>>
}

// A view and its inverse cancel for every value of s0.
// FOLD-LABEL: @fold
// FOLD-NEXT: return %arg0
func.func @fold(%x: !x) -> !x {
  %0 = tssa.access %x [#tssa.view<permute [1, 0, 2]>] : !x -> tensor<4x?x16xf32, #tssa.layout<[4, s0, 16], [16, 64, 1]>>
  %1 = tssa.access %0 [#tssa.view<permute [1, 0, 2]>] : tensor<4x?x16xf32, #tssa.layout<[4, s0, 16], [16, 64, 1]>> -> !x
  return %1 : !x
}
