// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What is no loop keeps its decisions, and they say why.
// RUN: pyjit-opt %s --refgraph-form-loops -split-input-file | FileCheck %s

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!B = !refgraph.tensor<[], [], i1, "cpu">

// One iteration is compared with nothing.
// CHECK-LABEL: refgraph.graph @one
// CHECK-NOT:     refgraph.while
// CHECK:         unfolded "fewer than two iterations to compare"
refgraph.graph @one(%x: !T) {
  %a1 = refgraph.tensor_op "aten::neg"(%x) {traits = ["as-op-node", "pure"]} : (!T) -> !T
  %c1 = refgraph.tensor_op "aten::any"(%a1) {traits = ["as-op-node", "pure"]} : (!T) -> !B
  refgraph.decide %c1 is true at "f.py:3" state "s" [%a1, %c1] : (!B, !T, !B) -> ()
  %a2 = refgraph.tensor_op "aten::neg"(%a1) {traits = ["as-op-node", "pure"]} : (!T) -> !T
  %c2 = refgraph.tensor_op "aten::any"(%a2) {traits = ["as-op-node", "pure"]} : (!T) -> !B
  refgraph.decide %c2 is open at "f.py:3" state "s" [%a2, %c2] : (!B, !T, !B) -> ()
  refgraph.yield %a2, %c2 : !T, !B
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!B = !refgraph.tensor<[], [], i1, "cpu">

// Another operator in one of them.
// CHECK-LABEL: refgraph.graph @operator
// CHECK-NOT:     refgraph.while
// CHECK:         unfolded "iterations 1 and 2 differ at 'aten::neg'"
refgraph.graph @operator(%x: !T) {
  %a1 = refgraph.tensor_op "aten::neg"(%x) {traits = ["as-op-node", "pure"]} : (!T) -> !T
  %c1 = refgraph.tensor_op "aten::any"(%a1) {traits = ["as-op-node", "pure"]} : (!T) -> !B
  refgraph.decide %c1 is true at "f.py:3" state "s" [%a1, %c1] : (!B, !T, !B) -> ()
  %a2 = refgraph.tensor_op "aten::neg"(%a1) {traits = ["as-op-node", "pure"]} : (!T) -> !T
  %c2 = refgraph.tensor_op "aten::any"(%a2) {traits = ["as-op-node", "pure"]} : (!T) -> !B
  refgraph.decide %c2 is true at "f.py:3" state "s" [%a2, %c2] : (!B, !T, !B) -> ()
  %a3 = refgraph.tensor_op "aten::abs"(%a2) {traits = ["as-op-node", "pure"]} : (!T) -> !T
  %c3 = refgraph.tensor_op "aten::any"(%a3) {traits = ["as-op-node", "pure"]} : (!T) -> !B
  refgraph.decide %c3 is open at "f.py:3" state "s" [%a3, %c3] : (!B, !T, !B) -> ()
  refgraph.yield %a3, %c3 : !T, !B
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!B = !refgraph.tensor<[], [], i1, "cpu">

// A constant that is not the same.
// CHECK-LABEL: refgraph.graph @constant
// CHECK-NOT:     refgraph.while
// CHECK:         unfolded "iterations 1 and 2 differ at 'aten::mul.Scalar'"
refgraph.graph @constant(%x: !T) {
  %a1 = refgraph.tensor_op "aten::mul.Scalar"(%x, 1 : i64) {traits = ["as-op-node", "pure"]} : (!T) -> !T
  %c1 = refgraph.tensor_op "aten::any"(%a1) {traits = ["as-op-node", "pure"]} : (!T) -> !B
  refgraph.decide %c1 is true at "f.py:3" state "s" [%a1, %c1] : (!B, !T, !B) -> ()
  %a2 = refgraph.tensor_op "aten::mul.Scalar"(%a1, 2 : i64) {traits = ["as-op-node", "pure"]} : (!T) -> !T
  %c2 = refgraph.tensor_op "aten::any"(%a2) {traits = ["as-op-node", "pure"]} : (!T) -> !B
  refgraph.decide %c2 is true at "f.py:3" state "s" [%a2, %c2] : (!B, !T, !B) -> ()
  %a3 = refgraph.tensor_op "aten::mul.Scalar"(%a2, 3 : i64) {traits = ["as-op-node", "pure"]} : (!T) -> !T
  %c3 = refgraph.tensor_op "aten::any"(%a3) {traits = ["as-op-node", "pure"]} : (!T) -> !B
  refgraph.decide %c3 is open at "f.py:3" state "s" [%a3, %c3] : (!B, !T, !B) -> ()
  refgraph.yield %a3, %c3 : !T, !B
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!B = !refgraph.tensor<[], [], i1, "cpu">

// Python is in another state: a counter, a longer list.
// CHECK-LABEL: refgraph.graph @state
// CHECK-NOT:     refgraph.while
// CHECK:         unfolded "iteration 2 begins in another state than the first"
refgraph.graph @state(%x: !T) {
  %a1 = refgraph.tensor_op "aten::neg"(%x) {traits = ["as-op-node", "pure"]} : (!T) -> !T
  %c1 = refgraph.tensor_op "aten::any"(%a1) {traits = ["as-op-node", "pure"]} : (!T) -> !B
  refgraph.decide %c1 is true at "f.py:3" state "n=1" [%a1, %c1] : (!B, !T, !B) -> ()
  %a2 = refgraph.tensor_op "aten::neg"(%a1) {traits = ["as-op-node", "pure"]} : (!T) -> !T
  %c2 = refgraph.tensor_op "aten::any"(%a2) {traits = ["as-op-node", "pure"]} : (!T) -> !B
  refgraph.decide %c2 is true at "f.py:3" state "n=2" [%a2, %c2] : (!B, !T, !B) -> ()
  %a3 = refgraph.tensor_op "aten::neg"(%a2) {traits = ["as-op-node", "pure"]} : (!T) -> !T
  %c3 = refgraph.tensor_op "aten::any"(%a3) {traits = ["as-op-node", "pure"]} : (!T) -> !B
  refgraph.decide %c3 is open at "f.py:3" state "n=3" [%a3, %c3] : (!B, !T, !B) -> ()
  refgraph.yield %a3, %c3 : !T, !B
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!B = !refgraph.tensor<[], [], i1, "cpu">

// Two places that decide.
// CHECK-LABEL: refgraph.graph @sites
// CHECK-NOT:     refgraph.while
// CHECK:         unfolded "decisions of several places"
refgraph.graph @sites(%x: !T) {
  %a1 = refgraph.tensor_op "aten::neg"(%x) {traits = ["as-op-node", "pure"]} : (!T) -> !T
  %c1 = refgraph.tensor_op "aten::any"(%a1) {traits = ["as-op-node", "pure"]} : (!T) -> !B
  refgraph.decide %c1 is true at "f.py:3" state "s" [%a1, %c1] : (!B, !T, !B) -> ()
  %a2 = refgraph.tensor_op "aten::neg"(%a1) {traits = ["as-op-node", "pure"]} : (!T) -> !T
  %c2 = refgraph.tensor_op "aten::any"(%a2) {traits = ["as-op-node", "pure"]} : (!T) -> !B
  refgraph.decide %c2 is true at "f.py:4" state "s" [%a2, %c2] : (!B, !T, !B) -> ()
  %a3 = refgraph.tensor_op "aten::neg"(%a2) {traits = ["as-op-node", "pure"]} : (!T) -> !T
  %c3 = refgraph.tensor_op "aten::any"(%a3) {traits = ["as-op-node", "pure"]} : (!T) -> !B
  refgraph.decide %c3 is open at "f.py:3" state "s" [%a3, %c3] : (!B, !T, !B) -> ()
  refgraph.yield %a3, %c3 : !T, !B
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!B = !refgraph.tensor<[], [], i1, "cpu">

// The run did not leave it open who decides last.
// CHECK-LABEL: refgraph.graph @closed
// CHECK-NOT:     refgraph.while
// CHECK:         unfolded "decisions of other outcomes"
refgraph.graph @closed(%x: !T) {
  %a1 = refgraph.tensor_op "aten::neg"(%x) {traits = ["as-op-node", "pure"]} : (!T) -> !T
  %c1 = refgraph.tensor_op "aten::any"(%a1) {traits = ["as-op-node", "pure"]} : (!T) -> !B
  refgraph.decide %c1 is true at "f.py:3" state "s" [%a1, %c1] : (!B, !T, !B) -> ()
  %a2 = refgraph.tensor_op "aten::neg"(%a1) {traits = ["as-op-node", "pure"]} : (!T) -> !T
  %c2 = refgraph.tensor_op "aten::any"(%a2) {traits = ["as-op-node", "pure"]} : (!T) -> !B
  refgraph.decide %c2 is true at "f.py:3" state "s" [%a2, %c2] : (!B, !T, !B) -> ()
  %a3 = refgraph.tensor_op "aten::neg"(%a2) {traits = ["as-op-node", "pure"]} : (!T) -> !T
  %c3 = refgraph.tensor_op "aten::any"(%a3) {traits = ["as-op-node", "pure"]} : (!T) -> !B
  refgraph.decide %c3 is false at "f.py:3" state "s" [%a3, %c3] : (!B, !T, !B) -> ()
  refgraph.yield %a3, %c3 : !T, !B
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!B = !refgraph.tensor<[], [], i1, "cpu">

// Random numbers.
// CHECK-LABEL: refgraph.graph @random
// CHECK-NOT:     refgraph.while
// CHECK:         unfolded "'aten::bernoulli.p' has effects beyond its results"
refgraph.graph @random(%x: !T) {
  %a1 = refgraph.tensor_op "aten::bernoulli.p"(%x, 5.0e-01 : f64, none) {traits = ["as-op-node", "random"]} : (!T) -> !T
  %c1 = refgraph.tensor_op "aten::any"(%a1) {traits = ["as-op-node", "pure"]} : (!T) -> !B
  refgraph.decide %c1 is true at "f.py:3" state "s" [%a1, %c1] : (!B, !T, !B) -> ()
  %a2 = refgraph.tensor_op "aten::bernoulli.p"(%a1, 5.0e-01 : f64, none) {traits = ["as-op-node", "random"]} : (!T) -> !T
  %c2 = refgraph.tensor_op "aten::any"(%a2) {traits = ["as-op-node", "pure"]} : (!T) -> !B
  refgraph.decide %c2 is true at "f.py:3" state "s" [%a2, %c2] : (!B, !T, !B) -> ()
  %a3 = refgraph.tensor_op "aten::bernoulli.p"(%a2, 5.0e-01 : f64, none) {traits = ["as-op-node", "random"]} : (!T) -> !T
  %c3 = refgraph.tensor_op "aten::any"(%a3) {traits = ["as-op-node", "pure"]} : (!T) -> !B
  refgraph.decide %c3 is open at "f.py:3" state "s" [%a3, %c3] : (!B, !T, !B) -> ()
  refgraph.yield %a3, %c3 : !T, !B
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!B = !refgraph.tensor<[], [], i1, "cpu">

// An operator that nobody knows.
// CHECK-LABEL: refgraph.graph @unknown
// CHECK-NOT:     refgraph.while
// CHECK:         unfolded "'mylib::thing' has effects beyond its results"
refgraph.graph @unknown(%x: !T) {
  %a1 = refgraph.tensor_op "mylib::thing"(%x) : (!T) -> !T
  %c1 = refgraph.tensor_op "aten::any"(%a1) {traits = ["as-op-node", "pure"]} : (!T) -> !B
  refgraph.decide %c1 is true at "f.py:3" state "s" [%a1, %c1] : (!B, !T, !B) -> ()
  %a2 = refgraph.tensor_op "mylib::thing"(%a1) : (!T) -> !T
  %c2 = refgraph.tensor_op "aten::any"(%a2) {traits = ["as-op-node", "pure"]} : (!T) -> !B
  refgraph.decide %c2 is true at "f.py:3" state "s" [%a2, %c2] : (!B, !T, !B) -> ()
  %a3 = refgraph.tensor_op "mylib::thing"(%a2) : (!T) -> !T
  %c3 = refgraph.tensor_op "aten::any"(%a3) {traits = ["as-op-node", "pure"]} : (!T) -> !B
  refgraph.decide %c3 is open at "f.py:3" state "s" [%a3, %c3] : (!B, !T, !B) -> ()
  refgraph.yield %a3, %c3 : !T, !B
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!B = !refgraph.tensor<[], [], i1, "cpu">

// The iteration before the last shows after the loop: a list that the loop
// fills.
// CHECK-LABEL: refgraph.graph @escapes
// CHECK-NOT:     refgraph.while
// CHECK:         unfolded "a value of an iteration is used after the loop"
refgraph.graph @escapes(%x: !T) {
  %a1 = refgraph.tensor_op "aten::neg"(%x) {traits = ["as-op-node", "pure"]} : (!T) -> !T
  %c1 = refgraph.tensor_op "aten::any"(%a1) {traits = ["as-op-node", "pure"]} : (!T) -> !B
  refgraph.decide %c1 is true at "f.py:3" state "s" [%a1, %c1] : (!B, !T, !B) -> ()
  %a2 = refgraph.tensor_op "aten::neg"(%a1) {traits = ["as-op-node", "pure"]} : (!T) -> !T
  %c2 = refgraph.tensor_op "aten::any"(%a2) {traits = ["as-op-node", "pure"]} : (!T) -> !B
  refgraph.decide %c2 is true at "f.py:3" state "s" [%a2, %c2] : (!B, !T, !B) -> ()
  %a3 = refgraph.tensor_op "aten::neg"(%a2) {traits = ["as-op-node", "pure"]} : (!T) -> !T
  %c3 = refgraph.tensor_op "aten::any"(%a3) {traits = ["as-op-node", "pure"]} : (!T) -> !B
  refgraph.decide %c3 is open at "f.py:3" state "s" [%a3, %c3] : (!B, !T, !B) -> ()
  refgraph.yield %a2, %a3, %c3 : !T, !T, !B
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!B = !refgraph.tensor<[], [], i1, "cpu">

// An iteration uses what is two iterations old, and no state hands it on.
// CHECK-LABEL: refgraph.graph @older
// CHECK-NOT:     refgraph.while
// CHECK:         unfolded "iterations 1 and 2 differ at 'aten::add.Tensor'"
refgraph.graph @older(%x: !T) {
  %b = refgraph.tensor_op "aten::neg"(%x) {traits = ["as-op-node", "pure"]} : (!T) -> !T
  %a1 = refgraph.tensor_op "aten::add.Tensor"(%b, %b, 1 : i64) {traits = ["as-op-node", "pure"]} : (!T, !T) -> !T
  %c1 = refgraph.tensor_op "aten::any"(%a1) {traits = ["as-op-node", "pure"]} : (!T) -> !B
  refgraph.decide %c1 is true at "f.py:3" state "s" [%a1, %c1] : (!B, !T, !B) -> ()
  %a2 = refgraph.tensor_op "aten::add.Tensor"(%x, %a1, 1 : i64) {traits = ["as-op-node", "pure"]} : (!T, !T) -> !T
  %c2 = refgraph.tensor_op "aten::any"(%a2) {traits = ["as-op-node", "pure"]} : (!T) -> !B
  refgraph.decide %c2 is true at "f.py:3" state "s" [%a2, %c2] : (!B, !T, !B) -> ()
  %a3 = refgraph.tensor_op "aten::add.Tensor"(%a1, %a2, 1 : i64) {traits = ["as-op-node", "pure"]} : (!T, !T) -> !T
  %c3 = refgraph.tensor_op "aten::any"(%a3) {traits = ["as-op-node", "pure"]} : (!T) -> !B
  refgraph.decide %c3 is open at "f.py:3" state "s" [%a3, %c3] : (!B, !T, !B) -> ()
  refgraph.yield %a3, %c3 : !T, !B
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!B = !refgraph.tensor<[], [], i1, "cpu">

// A loop-carried tensor is written while a view of it is carried beside it.
// CHECK-LABEL: refgraph.graph @shared
// CHECK-NOT:     refgraph.while
// CHECK:         unfolded "a loop-carried tensor is written, and its memory can be seen by another way"
refgraph.graph @shared(%x: !T) {
  %a1 = refgraph.tensor_op "aten::neg"(%x) {traits = ["as-op-node", "pure"]} : (!T) -> !T
  %v1 = refgraph.tensor_op "aten::alias"(%a1) aliases [0] {traits = ["as-op-node", "relation"]} : (!T) -> !T
  %w1 = refgraph.tensor_op "aten::relu_"(%v1) mutates [0] {traits = ["as-op-node", "in-place"]} : (!T) -> !T
  %c1 = refgraph.tensor_op "aten::any"(%a1) {traits = ["as-op-node", "pure"]} : (!T) -> !B
  refgraph.decide %c1 is true at "f.py:3" state "s" [%a1, %v1, %c1] : (!B, !T, !T, !B) -> ()
  %a2 = refgraph.tensor_op "aten::neg"(%a1) {traits = ["as-op-node", "pure"]} : (!T) -> !T
  %v2 = refgraph.tensor_op "aten::alias"(%a2) aliases [0] {traits = ["as-op-node", "relation"]} : (!T) -> !T
  %w2 = refgraph.tensor_op "aten::relu_"(%v2) mutates [0] {traits = ["as-op-node", "in-place"]} : (!T) -> !T
  %u2 = refgraph.tensor_op "aten::relu_"(%v1) mutates [0] {traits = ["as-op-node", "in-place"]} : (!T) -> !T
  %c2 = refgraph.tensor_op "aten::any"(%a2) {traits = ["as-op-node", "pure"]} : (!T) -> !B
  refgraph.decide %c2 is true at "f.py:3" state "s" [%a2, %v2, %c2] : (!B, !T, !T, !B) -> ()
  %a3 = refgraph.tensor_op "aten::neg"(%a2) {traits = ["as-op-node", "pure"]} : (!T) -> !T
  %v3 = refgraph.tensor_op "aten::alias"(%a3) aliases [0] {traits = ["as-op-node", "relation"]} : (!T) -> !T
  %w3 = refgraph.tensor_op "aten::relu_"(%v3) mutates [0] {traits = ["as-op-node", "in-place"]} : (!T) -> !T
  %u3 = refgraph.tensor_op "aten::relu_"(%v2) mutates [0] {traits = ["as-op-node", "in-place"]} : (!T) -> !T
  %c3 = refgraph.tensor_op "aten::any"(%a3) {traits = ["as-op-node", "pure"]} : (!T) -> !B
  refgraph.decide %c3 is open at "f.py:3" state "s" [%a3, %v3, %c3] : (!B, !T, !T, !B) -> ()
  refgraph.yield %a3, %v3, %c3 : !T, !T, !B
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!B = !refgraph.tensor<[], [], i1, "cpu">

// The first iteration begins with a view of an input, the others do not.
// CHECK-LABEL: refgraph.graph @input_view
// CHECK-NOT:     refgraph.while
// CHECK:         unfolded "a tensor that shares an input's memory at some iterations only"
refgraph.graph @input_view(%x: !T) {
  %a1 = refgraph.tensor_op "aten::alias"(%x) aliases [0] {traits = ["as-op-node", "relation"]} : (!T) -> !T
  %c1 = refgraph.tensor_op "aten::any"(%a1) {traits = ["as-op-node", "pure"]} : (!T) -> !B
  refgraph.decide %c1 is true at "f.py:3" state "s" [%a1, %c1] : (!B, !T, !B) -> ()
  %a2 = refgraph.tensor_op "aten::neg"(%a1) {traits = ["as-op-node", "pure"]} : (!T) -> !T
  %c2 = refgraph.tensor_op "aten::any"(%a2) {traits = ["as-op-node", "pure"]} : (!T) -> !B
  refgraph.decide %c2 is true at "f.py:3" state "s" [%a2, %c2] : (!B, !T, !B) -> ()
  %a3 = refgraph.tensor_op "aten::neg"(%a2) {traits = ["as-op-node", "pure"]} : (!T) -> !T
  %c3 = refgraph.tensor_op "aten::any"(%a3) {traits = ["as-op-node", "pure"]} : (!T) -> !B
  refgraph.decide %c3 is open at "f.py:3" state "s" [%a3, %c3] : (!B, !T, !B) -> ()
  refgraph.yield %a3, %c3 : !T, !B
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!B = !refgraph.tensor<[], [], i1, "cpu">

// Two tensors share memory at the first head only.
// CHECK-LABEL: refgraph.graph @sharing
// CHECK-NOT:     refgraph.while
// CHECK:         unfolded "tensors that share memory at some iterations only"
refgraph.graph @sharing(%x: !T) {
  %a1 = refgraph.tensor_op "aten::neg"(%x) {traits = ["as-op-node", "pure"]} : (!T) -> !T
  %b1 = refgraph.tensor_op "aten::alias"(%a1) aliases [0] {traits = ["as-op-node", "relation"]} : (!T) -> !T
  %c1 = refgraph.tensor_op "aten::any"(%a1) {traits = ["as-op-node", "pure"]} : (!T) -> !B
  refgraph.decide %c1 is true at "f.py:3" state "s" [%a1, %b1, %c1] : (!B, !T, !T, !B) -> ()
  %a2 = refgraph.tensor_op "aten::neg"(%a1) {traits = ["as-op-node", "pure"]} : (!T) -> !T
  %b2 = refgraph.tensor_op "aten::neg"(%b1) {traits = ["as-op-node", "pure"]} : (!T) -> !T
  %c2 = refgraph.tensor_op "aten::any"(%a2) {traits = ["as-op-node", "pure"]} : (!T) -> !B
  refgraph.decide %c2 is true at "f.py:3" state "s" [%a2, %b2, %c2] : (!B, !T, !T, !B) -> ()
  %a3 = refgraph.tensor_op "aten::neg"(%a2) {traits = ["as-op-node", "pure"]} : (!T) -> !T
  %b3 = refgraph.tensor_op "aten::neg"(%b2) {traits = ["as-op-node", "pure"]} : (!T) -> !T
  %c3 = refgraph.tensor_op "aten::any"(%a3) {traits = ["as-op-node", "pure"]} : (!T) -> !B
  refgraph.decide %c3 is open at "f.py:3" state "s" [%a3, %b3, %c3] : (!B, !T, !T, !B) -> ()
  refgraph.yield %a3, %b3, %c3 : !T, !T, !B
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!B = !refgraph.tensor<[], [], i1, "cpu">

// A second test of what the iteration itself wrote in place.
// CHECK-LABEL: refgraph.graph @second_test
// CHECK-NOT:     refgraph.while
// CHECK:         unfolded "a number that an iteration relies on is written in place"
refgraph.graph @second_test(%x: !T) {
  %a1 = refgraph.tensor_op "aten::neg"(%x) {traits = ["as-op-node", "pure"]} : (!T) -> !T
  %c1 = refgraph.tensor_op "aten::any"(%a1) {traits = ["as-op-node", "pure"]} : (!T) -> !B
  refgraph.decide %c1 is true at "f.py:3" state "s" [%a1, %c1] : (!B, !T, !B) -> ()
  %b1 = refgraph.tensor_op "aten::neg_"(%a1) mutates [0] {traits = ["as-op-node", "in-place"]} : (!T) -> !T
  %e1 = refgraph.tensor_op "aten::all"(%b1) {traits = ["as-op-node", "pure"]} : (!T) -> !B
  refgraph.speculate %e1 is true : !B
  %a2 = refgraph.tensor_op "aten::neg"(%b1) {traits = ["as-op-node", "pure"]} : (!T) -> !T
  %c2 = refgraph.tensor_op "aten::any"(%a2) {traits = ["as-op-node", "pure"]} : (!T) -> !B
  refgraph.decide %c2 is true at "f.py:3" state "s" [%a2, %c2] : (!B, !T, !B) -> ()
  %b2 = refgraph.tensor_op "aten::neg_"(%a2) mutates [0] {traits = ["as-op-node", "in-place"]} : (!T) -> !T
  %e2 = refgraph.tensor_op "aten::all"(%b2) {traits = ["as-op-node", "pure"]} : (!T) -> !B
  refgraph.speculate %e2 is true : !B
  %a3 = refgraph.tensor_op "aten::neg"(%b2) {traits = ["as-op-node", "pure"]} : (!T) -> !T
  %c3 = refgraph.tensor_op "aten::any"(%a3) {traits = ["as-op-node", "pure"]} : (!T) -> !B
  refgraph.decide %c3 is open at "f.py:3" state "s" [%a3, %c3] : (!B, !T, !B) -> ()
  refgraph.yield %a3, %c3 : !T, !B
}
