// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --refgraph-form-loops -split-input-file | FileCheck %s

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!B = !refgraph.tensor<[], [], i1, "cpu">

// What an iteration takes from the one before is carried; an input is the same
// tensor in each. What follows takes what the last head handed over.
// CHECK-LABEL: refgraph.graph @carried
// CHECK-SAME:    (%[[X:.*]]: !refgraph.tensor<[4], [1], f32, "cpu">, %[[W:.*]]: !refgraph
// CHECK:         %[[A1:.*]] = refgraph.tensor_op "aten::mul.Tensor"(%[[X]], %[[W]])
// CHECK:         %[[C1:.*]] = refgraph.tensor_op "aten::any"(%[[A1]])
// CHECK-NEXT:    %[[R:.*]]:2 = refgraph.while %[[C1]] is true carries(%[[A1]], %[[C1]])
// CHECK-NEXT:    ^bb0(%[[A:.*]]: !refgraph{{.*}}, %{{.*}}: !refgraph
// CHECK-NEXT:      %[[N:.*]] = refgraph.tensor_op "aten::mul.Tensor"(%[[A]], %[[W]])
// CHECK-NEXT:      %[[D:.*]] = refgraph.tensor_op "aten::any"(%[[N]])
// CHECK-NEXT:      refgraph.next %[[D]] carries(%[[N]], %[[D]])
// CHECK:         %[[O:.*]] = refgraph.tensor_op "aten::neg"(%[[R]]#0)
// CHECK-NEXT:    refgraph.yield %[[O]], %[[R]]#1
// CHECK-NOT:     refgraph.decide
refgraph.graph @carried(%x: !T, %w: !T) {
  %a1 = refgraph.tensor_op "aten::mul.Tensor"(%x, %w) {traits = ["as-op-node", "pure"]} : (!T, !T) -> !T
  %c1 = refgraph.tensor_op "aten::any"(%a1) {traits = ["as-op-node", "pure"]} : (!T) -> !B
  refgraph.decide %c1 is true at "f.py:3" state "s" [%a1, %w, %c1] : (!B, !T, !T, !B) -> ()
  %a2 = refgraph.tensor_op "aten::mul.Tensor"(%a1, %w) {traits = ["as-op-node", "pure"]} : (!T, !T) -> !T
  %c2 = refgraph.tensor_op "aten::any"(%a2) {traits = ["as-op-node", "pure"]} : (!T) -> !B
  refgraph.decide %c2 is true at "f.py:3" state "s" [%a2, %w, %c2] : (!B, !T, !T, !B) -> ()
  %a3 = refgraph.tensor_op "aten::mul.Tensor"(%a2, %w) {traits = ["as-op-node", "pure"]} : (!T, !T) -> !T
  %c3 = refgraph.tensor_op "aten::any"(%a3) {traits = ["as-op-node", "pure"]} : (!T) -> !B
  refgraph.decide %c3 is open at "f.py:3" state "s" [%a3, %w, %c3] : (!B, !T, !T, !B) -> ()
  %o = refgraph.tensor_op "aten::neg"(%a3) {traits = ["as-op-node", "pure"]} : (!T) -> !T
  refgraph.yield %o, %c3 : !T, !B
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!B = !refgraph.tensor<[], [], i1, "cpu">

// Written in place, a tensor of the outside stays a reference: nothing of it is
// carried, and the new contents are those of the input.
// CHECK-LABEL: refgraph.graph @in_place
// CHECK-SAME:    (%[[X:.*]]: !refgraph
// CHECK:         refgraph.while %{{.*}} is false carries(%{{.*}}) :
// CHECK-NEXT:    ^bb0
// CHECK-NEXT:      refgraph.tensor_op "aten::mul_.Tensor"(%[[X]], %[[X]]) mutates [0]
// CHECK:         refgraph.yield %{{.*}}, %[[X]]
refgraph.graph @in_place(%x: !T) mutates [0] {
  %c1 = refgraph.tensor_op "aten::any"(%x) {traits = ["as-op-node", "pure"]} : (!T) -> !B
  refgraph.decide %c1 is false at "f.py:3" state "s" [%x, %c1] : (!B, !T, !B) -> ()
  %x2 = refgraph.tensor_op "aten::mul_.Tensor"(%x, %x) mutates [0] {traits = ["as-op-node", "in-place"]} : (!T, !T) -> !T
  %c2 = refgraph.tensor_op "aten::any"(%x2) {traits = ["as-op-node", "pure"]} : (!T) -> !B
  refgraph.decide %c2 is false at "f.py:3" state "s" [%x2, %c2] : (!B, !T, !B) -> ()
  %x3 = refgraph.tensor_op "aten::mul_.Tensor"(%x2, %x2) mutates [0] {traits = ["as-op-node", "in-place"]} : (!T, !T) -> !T
  %c3 = refgraph.tensor_op "aten::any"(%x3) {traits = ["as-op-node", "pure"]} : (!T) -> !B
  refgraph.decide %c3 is open at "f.py:3" state "s" [%x3, %c3] : (!B, !T, !B) -> ()
  refgraph.yield %c3, %x3 : !B, !T
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!B = !refgraph.tensor<[], [], i1, "cpu">

// Two loop-carried tensors that change places.
// CHECK-LABEL: refgraph.graph @swap
// CHECK:         %[[R:.*]]:3 = refgraph.while
// CHECK-NEXT:    ^bb0(%[[A:.*]]: !refgraph{{.*}}, %[[B:.*]]: !refgraph{{.*}}, %[[C:.*]]: !refgraph
// CHECK-NEXT:      %[[N:.*]] = refgraph.tensor_op "aten::add.Tensor"(%[[A]], %[[B]], 1 : i64)
// CHECK-NEXT:      %[[D:.*]] = refgraph.tensor_op "aten::any"(%[[N]])
// CHECK-NEXT:      refgraph.next %[[D]] carries(%[[B]], %[[N]], %[[D]])
refgraph.graph @swap(%x: !T) {
  %a0 = refgraph.tensor_op "aten::neg"(%x) {traits = ["as-op-node", "pure"]} : (!T) -> !T
  %a1 = refgraph.tensor_op "aten::abs"(%x) {traits = ["as-op-node", "pure"]} : (!T) -> !T
  %c1 = refgraph.tensor_op "aten::any"(%a1) {traits = ["as-op-node", "pure"]} : (!T) -> !B
  refgraph.decide %c1 is true at "f.py:3" state "s" [%a0, %a1, %c1] : (!B, !T, !T, !B) -> ()
  %a2 = refgraph.tensor_op "aten::add.Tensor"(%a0, %a1, 1 : i64) {traits = ["as-op-node", "pure"]} : (!T, !T) -> !T
  %c2 = refgraph.tensor_op "aten::any"(%a2) {traits = ["as-op-node", "pure"]} : (!T) -> !B
  refgraph.decide %c2 is true at "f.py:3" state "s" [%a1, %a2, %c2] : (!B, !T, !T, !B) -> ()
  %a3 = refgraph.tensor_op "aten::add.Tensor"(%a1, %a2, 1 : i64) {traits = ["as-op-node", "pure"]} : (!T, !T) -> !T
  %c3 = refgraph.tensor_op "aten::any"(%a3) {traits = ["as-op-node", "pure"]} : (!T) -> !B
  refgraph.decide %c3 is open at "f.py:3" state "s" [%a2, %a3, %c3] : (!B, !T, !T, !B) -> ()
  refgraph.yield %a2, %a3, %c3 : !T, !T, !B
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!B = !refgraph.tensor<[], [], i1, "cpu">

// A loop-carried tensor of its own may be written in place.
// CHECK-LABEL: refgraph.graph @carried_and_written
// CHECK:         refgraph.while
// CHECK-NEXT:    ^bb0(%[[A:.*]]: !refgraph{{.*}}, %{{.*}}: !refgraph
// CHECK-NEXT:      %[[V:.*]] = refgraph.tensor_op "aten::relu_"(%[[A]]) mutates [0]
// CHECK-NEXT:      refgraph.tensor_op "aten::neg"(%[[V]])
refgraph.graph @carried_and_written(%x: !T) {
  %a1 = refgraph.tensor_op "aten::neg"(%x) {traits = ["as-op-node", "pure"]} : (!T) -> !T
  %c1 = refgraph.tensor_op "aten::any"(%a1) {traits = ["as-op-node", "pure"]} : (!T) -> !B
  refgraph.decide %c1 is true at "f.py:3" state "s" [%a1, %c1] : (!B, !T, !B) -> ()
  %v1 = refgraph.tensor_op "aten::relu_"(%a1) mutates [0] {traits = ["as-op-node", "in-place"]} : (!T) -> !T
  %a2 = refgraph.tensor_op "aten::neg"(%v1) {traits = ["as-op-node", "pure"]} : (!T) -> !T
  %c2 = refgraph.tensor_op "aten::any"(%a2) {traits = ["as-op-node", "pure"]} : (!T) -> !B
  refgraph.decide %c2 is true at "f.py:3" state "s" [%a2, %c2] : (!B, !T, !B) -> ()
  %v2 = refgraph.tensor_op "aten::relu_"(%a2) mutates [0] {traits = ["as-op-node", "in-place"]} : (!T) -> !T
  %a3 = refgraph.tensor_op "aten::neg"(%v2) {traits = ["as-op-node", "pure"]} : (!T) -> !T
  %c3 = refgraph.tensor_op "aten::any"(%a3) {traits = ["as-op-node", "pure"]} : (!T) -> !B
  refgraph.decide %c3 is open at "f.py:3" state "s" [%a3, %c3] : (!B, !T, !B) -> ()
  refgraph.yield %a3, %c3 : !T, !B
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!B = !refgraph.tensor<[], [], i1, "cpu">
!N = !refgraph.tensor<[], [], i64, "cpu">

// A counter: what the next iteration expects of it is computed ahead, and the
// loop ends in front of an iteration that it does not hold for.
// CHECK-LABEL: refgraph.graph @counted
// CHECK-NEXT:    %[[N0:.*]] = refgraph.tensor_op "aten::full"([], number(%arg1)
// CHECK:         %[[C1:.*]] = refgraph.tensor_op "aten::any"
// CHECK-NEXT:    %[[N1:.*]] = refgraph.tensor_op "aten::add.Tensor"(%[[N0]], wrapped(1 : i64), 1 : i64)
// CHECK-NEXT:    %[[E1:.*]] = refgraph.tensor_op "aten::lt.Scalar"(%[[N1]], 100 : i64)
// CHECK-NEXT:    %[[G1:.*]] = refgraph.tensor_op "aten::logical_and"(%[[C1]], %[[E1]])
// CHECK-NEXT:    refgraph.while %[[G1]] is true carries(%{{.*}}, %[[N0]], %[[C1]])
// CHECK-NEXT:    ^bb0(%[[A:.*]]: !refgraph{{.*}}, %[[N:.*]]: !refgraph{{.*}}, %{{.*}}: !refgraph
// CHECK-NEXT:      refgraph.tensor_op "aten::neg"(%[[A]])
// CHECK-NEXT:      %[[M:.*]] = refgraph.tensor_op "aten::add.Tensor"(%[[N]], wrapped(1 : i64), 1 : i64)
// CHECK-NEXT:      refgraph.tensor_op "aten::lt.Scalar"(%[[M]], 100 : i64)
// CHECK-NEXT:      %[[C:.*]] = refgraph.tensor_op "aten::any"
// CHECK-NEXT:      %[[M2:.*]] = refgraph.tensor_op "aten::add.Tensor"(%[[M]], wrapped(1 : i64), 1 : i64)
// CHECK-NEXT:      %[[E:.*]] = refgraph.tensor_op "aten::lt.Scalar"(%[[M2]], 100 : i64)
// CHECK-NEXT:      %[[G:.*]] = refgraph.tensor_op "aten::logical_and"(%[[C]], %[[E]])
// CHECK-NEXT:      refgraph.next %[[G]] carries(%{{.*}}, %[[M]], %[[C]])
// CHECK-NOT:     refgraph.speculate
refgraph.graph @counted(%x: !T, %n: !refgraph.obj<"int">) {
  %n1 = refgraph.tensor_op "aten::full"([], number(%n), 4 : i64, none, device("cpu"), none) {traits = ["as-op-node", "pure"]} : (!refgraph.obj<"int">) -> !N
  %a1 = refgraph.tensor_op "aten::neg"(%x) {traits = ["as-op-node", "pure"]} : (!T) -> !T
  %c1 = refgraph.tensor_op "aten::any"(%a1) {traits = ["as-op-node", "pure"]} : (!T) -> !B
  refgraph.decide %c1 is true at "f.py:3" state "s" [%a1, %n1, %c1] : (!B, !T, !N, !B) -> ()
  %a2 = refgraph.tensor_op "aten::neg"(%a1) {traits = ["as-op-node", "pure"]} : (!T) -> !T
  %n2 = refgraph.tensor_op "aten::add.Tensor"(%n1, wrapped(1 : i64), 1 : i64) {traits = ["as-op-node", "pure"]} : (!N) -> !N
  %e2 = refgraph.tensor_op "aten::lt.Scalar"(%n2, 100 : i64) {traits = ["as-op-node", "pure"]} : (!N) -> !B
  refgraph.speculate %e2 is true : !B
  %c2 = refgraph.tensor_op "aten::any"(%a2) {traits = ["as-op-node", "pure"]} : (!T) -> !B
  refgraph.decide %c2 is true at "f.py:3" state "s" [%a2, %n2, %c2] : (!B, !T, !N, !B) -> ()
  %a3 = refgraph.tensor_op "aten::neg"(%a2) {traits = ["as-op-node", "pure"]} : (!T) -> !T
  %n3 = refgraph.tensor_op "aten::add.Tensor"(%n2, wrapped(1 : i64), 1 : i64) {traits = ["as-op-node", "pure"]} : (!N) -> !N
  %e3 = refgraph.tensor_op "aten::lt.Scalar"(%n3, 100 : i64) {traits = ["as-op-node", "pure"]} : (!N) -> !B
  refgraph.speculate %e3 is true : !B
  %c3 = refgraph.tensor_op "aten::any"(%a3) {traits = ["as-op-node", "pure"]} : (!T) -> !B
  refgraph.decide %c3 is open at "f.py:3" state "s" [%a3, %n3, %c3] : (!B, !T, !N, !B) -> ()
  refgraph.yield %a3, %n3, %c3 : !T, !N, !B
}
