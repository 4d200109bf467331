// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --convert-refgraph-to-tssa -split-input-file | FileCheck %s

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!B = !refgraph.tensor<[], [], i1, "cpu">

// A loop-carried tensor is a handle of its own inside and after the loop; one of the
// outside is the handle that it is.
// CHECK-LABEL: func.func @while
// CHECK-SAME:    (%[[X:.*]]: !tssa.ref<tensor<4xf32>>, %[[Y:.*]]: !tssa.ref<tensor<4xf32>>)
// CHECK:         tssa.aten "aten::any"
// CHECK:         %[[I:.*]] = tssa.load %[[X]]
// CHECK-NEXT:    %[[F:.*]] = tssa.load
// CHECK-NEXT:    %[[R:.*]]:2 = scf.while (%[[BA:.*]] = %[[I]], %[[BF:.*]] = %[[F]]) : (tensor<4xf32>, tensor<i1>) -> (tensor<4xf32>, tensor<i1>) {
// CHECK-NEXT:      %[[G:.*]] = tensor.extract %[[BF]][] : tensor<i1>
// CHECK-NEXT:      scf.condition(%[[G]]) %[[BA]], %[[BF]]
// CHECK-NEXT:    } do {
// CHECK-NEXT:    ^bb0(%[[A:.*]]: tensor<4xf32>, %{{.*}}: tensor<i1>):
// CHECK-NEXT:      tssa.ref %[[A]]
// CHECK:           tssa.store %{{.*}}, %[[Y]]
// CHECK:           scf.yield
// CHECK:         tssa.ref %[[R]]#0
refgraph.graph @while(%x: !T, %y: !T) mutates [1] {
  %c = refgraph.tensor_op "aten::any"(%x) : (!T) -> !B
  %r = refgraph.while %c is true carries(%x) : (!B, !T) -> !T {
  ^bb0(%a: !T):
    %w = refgraph.tensor_op "aten::add_.Tensor"(%y, %a, 1 : i64) mutates [0] : (!T, !T) -> !T
    %n = refgraph.tensor_op "aten::neg"(%w) : (!T) -> !T
    %d = refgraph.tensor_op "aten::any"(%n) : (!T) -> !B
    refgraph.next %d carries(%n) : (!B, !T) -> ()
  }
  refgraph.yield %r, %y : !T, !T
}

// -----

!F = !refgraph.tensor<[1, 1], [1, 1], f32, "cpu">

// `while not x`, of a float in a matrix.
// CHECK-LABEL: func.func @flag
// CHECK:         %[[N:.*]] = tssa.aten "aten::ne.Scalar"(%{{.*}}, 0 : i64) : (tensor<1x1xf32>) -> tensor<1x1xi1>
// CHECK-NEXT:    %[[L:.*]] = tssa.aten "aten::logical_not"(%[[N]]) : (tensor<1x1xi1>) -> tensor<1x1xi1>
// CHECK-NEXT:    %[[S:.*]] = tssa.access %[[L]] [#tssa.view<select [0, 0]>, #tssa.view<select [0, 0]>] : tensor<1x1xi1> -> tensor<i1>
// CHECK:         scf.while (%{{.*}} = %[[S]])
refgraph.graph @flag(%x: !F) {
  refgraph.while %x is false : (!F) -> () {
    refgraph.next %x : (!F) -> ()
  }
  refgraph.yield
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!F = !refgraph.tensor<[1], [1], f32, "cpu">

// Arms write what lives outside, and hand out contents.
// CHECK-LABEL: func.func @branch(
// CHECK-SAME:    %[[X:[a-z0-9]+]]: !tssa.ref<tensor<4xf32>>
// CHECK:         tssa.aten "aten::ne.Scalar"
// CHECK:         %[[FLAG:.*]] = tensor.extract
// CHECK:         %[[R:.*]] = scf.if %[[FLAG]] -> (tensor<4xf32>) {
// CHECK:           tssa.store %{{.*}}, %[[X]]
// CHECK:           %[[L:.*]] = tssa.load %[[X]]
// CHECK:           %[[N:.*]] = tssa.aten "aten::neg"(%[[L]])
// CHECK:           scf.yield %{{.*}} : tensor<4xf32>
// CHECK:         } else {
// CHECK:           %[[Y:.*]] = tssa.load %[[X]]
// CHECK:           scf.yield %[[Y]]
// CHECK:         }
// CHECK:         tssa.ref %[[R]]
refgraph.graph @branch(%x: !T, %f: !F) mutates [0] {
  %r = refgraph.if %f : (!F) -> !T {
    %x1 = refgraph.tensor_op "aten::relu_"(%x) mutates [0] : (!T) -> !T
    %n = refgraph.tensor_op "aten::neg"(%x1) : (!T) -> !T
    refgraph.yield %n : !T
  } else {
    refgraph.yield %x : !T
  }
  %s = refgraph.tensor_op "aten::add_.Tensor"(%r, %r, 1 : i64) mutates [0] : (!T, !T) -> !T
  refgraph.yield %s, %x : !T, !T
}

// -----

!B = !refgraph.tensor<[], [], i1, "cpu">

// The program goes on where a flag is true.
// CHECK-LABEL: func.func @speculate(
// CHECK:         %[[N:.*]] = tssa.aten "aten::logical_not"
// CHECK-NEXT:    tssa.speculate %[[N]] : tensor<i1>
refgraph.graph @speculate(%c: !B) {
  refgraph.speculate %c is false : !B
  refgraph.yield
}
