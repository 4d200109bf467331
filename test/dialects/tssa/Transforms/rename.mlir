// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --tssa-rename | FileCheck %s

// CHECK-LABEL: func @straight
// CHECK-SAME: (%[[X:[^ :]+]]: tensor<3xf32>, %[[S:[^ :]+]]: tensor<3xf32>)
// CHECK-NEXT: return %[[X]], %[[S]]
func.func @straight(%x: !tssa.ref<tensor<3xf32>>, %s: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
  %0 = tssa.load %x : !tssa.ref<tensor<3xf32>>
  tssa.store %s, %x : !tssa.ref<tensor<3xf32>>
  %1 = tssa.load %x : !tssa.ref<tensor<3xf32>>
  return %0, %1 : tensor<3xf32>, tensor<3xf32>
}

// What a region stores ends with the region.
// CHECK-LABEL: func @scope
// CHECK-SAME: (%[[X:[^ :]+]]: tensor<3xf32>, %[[S:[^ :]+]]: tensor<3xf32>
func.func @scope(%x: !tssa.ref<tensor<3xf32>>, %s: tensor<3xf32>, %c: i1) -> tensor<3xf32> {
  // CHECK: %[[R:.*]] = scf.if
  // CHECK-NEXT: scf.yield %[[S]]
  // CHECK-NEXT: } else {
  // CHECK-NEXT: scf.yield %[[X]]
  // CHECK: return %[[R]]
  %r = scf.if %c -> (tensor<3xf32>) {
    tssa.store %s, %x : !tssa.ref<tensor<3xf32>>
    %l = tssa.load %x : !tssa.ref<tensor<3xf32>>
    scf.yield %l : tensor<3xf32>
  } else {
    %l = tssa.load %x : !tssa.ref<tensor<3xf32>>
    scf.yield %l : tensor<3xf32>
  }
  tssa.store %r, %x : !tssa.ref<tensor<3xf32>>
  %l = tssa.load %x : !tssa.ref<tensor<3xf32>>
  return %l : tensor<3xf32>
}
