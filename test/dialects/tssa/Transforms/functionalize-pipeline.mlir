// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --tssa-functionalize | FileCheck %s

// A branch that writes a row of an argument: both ways meet in a value.
// CHECK-LABEL: func.func @branch
// CHECK-SAME: (%[[X:.*]]: tensor<2x3xf32>, %[[S:.*]]: tensor<3xf32>, %[[C:.*]]: i1)
// CHECK: %[[R:.*]] = scf.if %[[C]] -> (tensor<2x3xf32>)
// CHECK: %[[A:.*]] = tssa.assign %[[X]], %[[S]]
// CHECK: scf.yield %[[A]]
// CHECK: scf.yield %[[X]]
// CHECK: return %[[R]]
func.func @branch(%x: !tssa.ref<tensor<2x3xf32>>, %s: tensor<3xf32>, %c: i1) -> tensor<2x3xf32> {
  scf.if %c {
    %v = tssa.view %x [#tssa.view<select [0, 1]>] : !tssa.ref<tensor<2x3xf32>> -> !tssa.ref<tensor<3xf32>>
    tssa.store %s, %v : !tssa.ref<tensor<3xf32>>
  }
  %0 = tssa.load %x : !tssa.ref<tensor<2x3xf32>>
  return %0 : tensor<2x3xf32>
}
