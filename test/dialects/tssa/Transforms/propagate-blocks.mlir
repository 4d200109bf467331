// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --tssa-propagate-blocks | FileCheck %s

// A branch that writes an argument yields its contents; so does the other.
// CHECK-LABEL: func @branch
func.func @branch(%x: !tssa.ref<tensor<3xf32>>, %s: tensor<3xf32>, %c: i1) {
  // CHECK: %[[R:.*]] = scf.if %{{.*}} -> (tensor<3xf32>) {
  // CHECK-NEXT: tssa.store
  // CHECK-NEXT: %[[A:.*]] = tssa.load
  // CHECK-NEXT: scf.yield %[[A]]
  // CHECK-NEXT: } else {
  // CHECK-NEXT: %[[B:.*]] = tssa.load
  // CHECK-NEXT: scf.yield %[[B]]
  // CHECK: tssa.store %[[R]], %{{.*}}
  scf.if %c {
    tssa.store %s, %x : !tssa.ref<tensor<3xf32>>
  }
  return
}

// A `while` carries what either region writes through both of them.
// CHECK-LABEL: func @while
func.func @while(%x: !tssa.ref<tensor<3xf32>>, %s: tensor<3xf32>, %go: i1) {
  // CHECK: %[[I:.*]] = tssa.load
  // CHECK: %[[R:.*]]:2 = scf.while (%[[C:.*]] = %{{.*}}, %[[T:.*]] = %[[I]]) : (i1, tensor<3xf32>) -> (i1, tensor<3xf32>) {
  // CHECK-NEXT: tssa.store %[[T]]
  // CHECK: %[[B:.*]] = tssa.load
  // CHECK-NEXT: scf.condition(%[[C]]) %[[C]], %[[B]]
  // CHECK: ^bb0(%{{.*}}: i1, %[[U:.*]]: tensor<3xf32>):
  // CHECK-NEXT: tssa.store %[[U]]
  // CHECK: %[[Y:.*]] = tssa.load
  // CHECK-NEXT: scf.yield %{{.*}}, %[[Y]]
  // CHECK: tssa.store %[[R]]#1
  %r = scf.while (%c = %go) : (i1) -> i1 {
    scf.condition(%c) %c : i1
  } do {
  ^bb0(%d: i1):
    tssa.store %s, %x : !tssa.ref<tensor<3xf32>>
    scf.yield %d : i1
  }
  return
}

// A loop carries what it writes, beside what it carried already.
// CHECK-LABEL: func @loop
func.func @loop(%x: !tssa.ref<tensor<3xf32>>, %s: tensor<3xf32>, %n: index) -> tensor<3xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  // CHECK: %[[I:.*]] = tssa.load
  // CHECK: %[[R:.*]]:2 = scf.for {{.*}} iter_args(%[[K:.*]] = %{{.*}}, %[[T:.*]] = %[[I]])
  // CHECK-NEXT: tssa.store %[[T]]
  // CHECK: tssa.store
  // CHECK-NEXT: %[[Y:.*]] = tssa.load
  // CHECK-NEXT: scf.yield %{{.*}}, %[[Y]]
  // CHECK: tssa.store %[[R]]#1
  // CHECK: return %[[R]]#0
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%k = %s) -> (tensor<3xf32>) {
    %l = tssa.load %x : !tssa.ref<tensor<3xf32>>
    %m = tssa.aten "aten::add.Tensor"(%l, %k, 1 : i64) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    tssa.store %m, %x : !tssa.ref<tensor<3xf32>>
    scf.yield %m : tensor<3xf32>
  }
  return %r : tensor<3xf32>
}
