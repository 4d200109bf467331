// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --refgraph-extract-graph -split-input-file | FileCheck %s

!T = !refgraph.tensor<[4], [1], f32, "cpu">

// Dead pure operators go, with their inputs; random ones and unknown ones stay,
// in order.
// CHECK-LABEL: refgraph.graph @dead(%{{[a-z0-9]+}}: !refgraph.tensor<[4], [1], f32, "cpu">) {
// CHECK-NOT:     aten::neg
// CHECK:         aten::rand
// CHECK-NEXT:    mylib::thing
// CHECK-NEXT:    %[[R:.*]] = refgraph.tensor_op "aten::relu"
// CHECK-NEXT:    refgraph.yield %[[R]]
// CHECK-NOT:   refgraph.trace
refgraph.trace @dead {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") : !T
  %y = refgraph.get %e arg(1, "y") : !T
  %d = refgraph.tensor_op "aten::neg"(%y) {traits = ["as-op-node", "pure"]} : (!T) -> !T
  %n = refgraph.tensor_op "aten::rand"([4 : i64], none, none, none, none) {traits = ["as-op-node", "random"]} : () -> !T
  %u = refgraph.tensor_op "mylib::thing"(%x) : (!T) -> !T
  %r = refgraph.tensor_op "aten::relu"(%x) {traits = ["as-op-node", "pure"]} : (!T) -> !T
  refgraph.leave %r : !T
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!I = !refgraph.tensor<[4], [1], i64, "cpu">

// What may raise runs, with what it reads, be its result used (a later pass may
// find that it is not needed) or not; what is made of an unused result does not.
// CHECK-LABEL: refgraph.graph @raises(
// CHECK-NEXT:    %[[N:.*]] = refgraph.tensor_op "aten::neg"
// CHECK-NEXT:    refgraph.tensor_op "aten::gather"(%[[N]], {{.*}} {pyjit.must_run, traits = ["pure"]}
// CHECK-NEXT:    %[[G:.*]] = refgraph.tensor_op "aten::gather"({{.*}} {pyjit.must_run, traits = ["pure"]}
// CHECK-NEXT:    refgraph.yield %[[G]]
refgraph.trace @raises {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") : !T
  %i = refgraph.get %e arg(1, "i") : !I
  %n = refgraph.tensor_op "aten::neg"(%x) {traits = ["pure"]} : (!T) -> !T
  %d = refgraph.tensor_op "aten::gather"(%n, 0 : i64, %i, false) {traits = ["pure"]} : (!T, !I) -> !T
  %u = refgraph.tensor_op "aten::relu"(%d) {traits = ["pure"]} : (!T) -> !T
  %g = refgraph.tensor_op "aten::gather"(%x, 0 : i64, %i, false) {traits = ["pure"]} : (!T, !I) -> !T
  refgraph.leave %g : !T
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!H = !refgraph.tensor<[2], [1], f32, "cpu">

// A write through a view reaches the base that is returned; a write to what
// nobody sees goes.
// CHECK-LABEL: refgraph.graph @through_view(
// CHECK-NEXT:    %[[R:.*]] = refgraph.tensor_op "aten::neg"
// CHECK-NEXT:    %[[V:.*]] = refgraph.tensor_op "aten::slice.Tensor"(%[[R]],
// CHECK-NEXT:    refgraph.tensor_op "aten::relu_"(%[[V]]) mutates [0]
// CHECK-NEXT:    refgraph.yield %[[R]]
refgraph.trace @through_view {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") : !T
  %r = refgraph.tensor_op "aten::neg"(%x) {traits = ["pure"]} : (!T) -> !T
  %v = refgraph.tensor_op "aten::slice.Tensor"(%r, 0 : i64, 2 : i64, 4 : i64, 1 : i64) aliases [0] {offsets = array<i64: 2>, traits = ["pure", "relation"]} : (!T) -> !H
  %v1 = refgraph.tensor_op "aten::relu_"(%v) mutates [0] {traits = ["in-place"]} : (!H) -> !H
  %u = refgraph.tensor_op "aten::neg"(%x) {traits = ["pure"]} : (!T) -> !T
  %u1 = refgraph.tensor_op "aten::relu_"(%u) mutates [0] {traits = ["in-place"]} : (!T) -> !T
  refgraph.leave %r : !T
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">

// New contents of inputs are the last results, in the order of the inputs;
// parameters that are written are parameters still.
// CHECK-LABEL: refgraph.graph @updates(
// CHECK-SAME:    %[[X:.*]]: !refgraph.tensor<[4], [1], f32, "cpu">, %[[Y:.*]]: !refgraph.tensor<[4], [1], f32, "cpu">, %[[P:[a-z0-9]+]]: {{.*}}) mutates [0, 1] attributes {params = array<i64: 0, 2>} {
// CHECK:         %[[Y1:.*]] = refgraph.tensor_op "aten::add_.Tensor"(%[[Y]], %[[P]]
// CHECK:         %[[X1:.*]] = refgraph.tensor_op "aten::add_.Tensor"(%[[X]], %[[Y1]]
// CHECK:         %[[R:.*]] = refgraph.tensor_op "aten::neg"(%[[X1]])
// CHECK-NEXT:    refgraph.yield %[[R]], %[[X1]], %[[Y1]]
refgraph.trace @updates {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") {param} : !T
  %y = refgraph.get %e arg(1, "y") : !T
  %p = refgraph.get %e arg(2, "p") {param} : !T
  %y1 = refgraph.tensor_op "aten::add_.Tensor"(%y, %p, 1 : i64) mutates [0] {traits = ["in-place"]} : (!T, !T) -> !T
  %x1 = refgraph.tensor_op "aten::add_.Tensor"(%x, %y1, 1 : i64) mutates [0] {traits = ["in-place"]} : (!T, !T) -> !T
  %r = refgraph.tensor_op "aten::neg"(%x1) {traits = ["pure"]} : (!T) -> !T
  refgraph.leave %r : !T
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!B = !refgraph.tensor<[], [], i1, "cpu">

// A decision keeps what it hands on; an input that no operator reads is left
// out of it.
// CHECK-LABEL: refgraph.graph @decision
// CHECK-SAME:    (%[[X:[a-z0-9]+]]: {{[^,]*, [^,]*, [^,]*, [^,]*}}) {
// CHECK:         %[[N:.*]] = refgraph.tensor_op "aten::neg"
// CHECK:         %[[C:.*]] = refgraph.tensor_op "aten::any"
// CHECK-NEXT:    refgraph.decide %[[C]] is true at "f.py:3" state "s" [%[[N]], %[[C]]] :
refgraph.trace @decision {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") : !T
  %y = refgraph.get %e arg(1, "y") : !T
  %n = refgraph.tensor_op "aten::neg"(%x) {traits = ["pure"]} : (!T) -> !T
  %c = refgraph.tensor_op "aten::any"(%x) {traits = ["pure"]} : (!T) -> !B
  refgraph.decide %c is true at "f.py:3" state "s" [%y, %n, %c] : (!B, !T, !T, !B) -> ()
  refgraph.leave %x : !T
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!B = !refgraph.tensor<[], [], i1, "cpu">

// Of an arm stays what its results need, and what it writes of memory that is
// needed. A branch that nothing needs goes.
// CHECK-LABEL: refgraph.graph @arms(
// CHECK:         %[[Y:.*]] = refgraph.tensor_op "aten::neg"
// CHECK-NOT:     refgraph.if
// CHECK:         %[[R:.*]] = refgraph.if
// CHECK-NEXT:      refgraph.tensor_op "aten::relu_"(%[[Y]]) mutates [0]
// CHECK-NEXT:      %[[A:.*]] = refgraph.tensor_op "aten::abs"
// CHECK-NEXT:      refgraph.yield %[[A]]
// CHECK-NEXT:    } else {
// CHECK-NEXT:      refgraph.yield
// CHECK-NEXT:    }
// CHECK-NEXT:    refgraph.yield %[[Y]], %[[R]]
refgraph.trace @arms {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") : !T
  %c = refgraph.tensor_op "aten::any"(%x) {traits = ["as-op-node", "pure"]} : (!T) -> !B
  %y = refgraph.tensor_op "aten::neg"(%x) {traits = ["as-op-node", "pure"]} : (!T) -> !T
  %z = refgraph.tensor_op "aten::exp"(%x) {traits = ["as-op-node", "pure"]} : (!T) -> !T
  %dead = refgraph.if %c : (!B) -> !T {
    refgraph.yield %y : !T
  } else {
    refgraph.yield %z : !T
  }
  %r = refgraph.if %c : (!B) -> !T {
    %d = refgraph.tensor_op "aten::neg"(%x) {traits = ["as-op-node", "pure"]} : (!T) -> !T
    %y1 = refgraph.tensor_op "aten::relu_"(%y) mutates [0] {traits = ["as-op-node", "in-place"]} : (!T) -> !T
    %a = refgraph.tensor_op "aten::abs"(%x) {traits = ["as-op-node", "pure"]} : (!T) -> !T
    refgraph.yield %a : !T
  } else {
    refgraph.yield %z : !T
  }
  %t = refgraph.create "tuple" [%y, %r] : (!T, !T) -> !refgraph.obj<"tuple">
  refgraph.leave %t : !refgraph.obj<"tuple">
}

// -----

!I = !refgraph.tensor<[2], [1], i64, "cpu">

// Constants of the specialization are as good as parameters, and their elements known.
// CHECK-LABEL: refgraph.graph @constant(
// CHECK-SAME:    attributes {holds = [array<i64: 0, -1, 0>], params = array<i64: 0>}
refgraph.trace @constant {
  %c = refgraph.object 3 "constant tensor" holds [-1, 0] : !I
  %r = refgraph.tensor_op "aten::clone"(%c, none) {traits = ["pure"]} : (!I) -> !I
  refgraph.leave %r : !I
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!I = !refgraph.tensor<[4], [1], i64, "cpu">

// What requires grad is said by numbers, of inputs and of results; operators
// at which gradients end stay marked.
// CHECK-LABEL: refgraph.graph @gradients(
// CHECK-SAME:    %[[X:.*]]: {{.*}}, %[[W:.*]]: {{.*}}, %[[B:[a-z0-9]+]]: {{.*}}) attributes {gradient_inputs = array<i64: 0, 2>, gradient_results = array<i64: 1>} {
// CHECK-NEXT:    %[[D:.*]] = refgraph.tensor_op "aten::neg"(%[[X]]) {no_grad, traits = ["pure"]}
// CHECK-NEXT:    %[[M:.*]] = refgraph.tensor_op "aten::mul.Tensor"(%[[D]], %[[W]])
// CHECK-NEXT:    %[[R:.*]] = refgraph.tensor_op "aten::mul.Tensor"(%[[M]], %[[B]])
// CHECK-NEXT:    refgraph.yield %[[M]], %[[R]]
refgraph.trace @gradients {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") {requires_grad = true} : !T
  %w = refgraph.get %e arg(1, "w") {requires_grad = false} : !T
  %b = refgraph.get %e arg(2, "b") {requires_grad = true} : !T
  %d = refgraph.tensor_op "aten::neg"(%x) {no_grad, traits = ["pure"]} : (!T) -> !T
  %m = refgraph.tensor_op "aten::mul.Tensor"(%d, %w) {traits = ["pure"]} : (!T, !T) -> !T
  %r = refgraph.tensor_op "aten::mul.Tensor"(%m, %b) {traits = ["pure"]} : (!T, !T) -> !T
  refgraph.differentiable %r : !T
  %t = refgraph.create "tuple" [%m, %r] : (!T, !T) -> !refgraph.obj<"tuple">
  refgraph.leave %t : !refgraph.obj<"tuple">
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!H = !refgraph.tensor<[2], [1], f32, "cpu">

// The history of what leaves ends at a leaf that the call has made: no gradient
// comes to the input.
// CHECK-LABEL: refgraph.graph @own_leaf(
// CHECK-SAME:    gradient_inputs = array<i64>, gradient_results = array<i64: 0>
refgraph.trace @own_leaf {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") {requires_grad = true} : !T
  %w = refgraph.tensor_op "aten::clone"(%x, none) {no_grad, traits = ["pure"]} : (!T) -> !T
  %r = refgraph.tensor_op "aten::exp"(%w) {traits = ["pure"]} : (!T) -> !T
  refgraph.differentiable %r {own_leaves} : !T
  refgraph.leave %r : !T
}

// Of another result one does.
// CHECK-LABEL: refgraph.graph @own_leaf_and_input(
// CHECK-SAME:    gradient_inputs = array<i64: 0>, gradient_results = array<i64: 0, 1>
refgraph.trace @own_leaf_and_input {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") {requires_grad = true} : !T
  %w = refgraph.tensor_op "aten::clone"(%x, none) {no_grad, traits = ["pure"]} : (!T) -> !T
  %r = refgraph.tensor_op "aten::exp"(%w) {traits = ["pure"]} : (!T) -> !T
  %s = refgraph.tensor_op "aten::exp"(%x) {traits = ["pure"]} : (!T) -> !T
  refgraph.differentiable %r {own_leaves} : !T
  refgraph.differentiable %s : !T
  %t = refgraph.create "tuple" [%r, %s] : (!T, !T) -> !refgraph.obj<"tuple">
  refgraph.leave %t : !refgraph.obj<"tuple">
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!H = !refgraph.tensor<[2], [1], f32, "cpu">

// What leaves are two views of a tensor: it is the result, and they are
// differentiated through it.
// CHECK-LABEL: refgraph.graph @views(
// CHECK-SAME:    gradient_inputs = array<i64: 0>, gradient_results = array<i64: 0>
// CHECK:         %[[R:.*]] = refgraph.tensor_op "aten::exp"
// CHECK-NEXT:    refgraph.yield %[[R]] :
refgraph.trace @views {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") {requires_grad = true} : !T
  %r = refgraph.tensor_op "aten::exp"(%x) {traits = ["pure"]} : (!T) -> !T
  %a = refgraph.tensor_op "aten::slice.Tensor"(%r, 0 : i64, 0 : i64, 2 : i64, 1 : i64) aliases [0] {traits = ["pure", "relation"]} : (!T) -> !H
  %b = refgraph.tensor_op "aten::slice.Tensor"(%r, 0 : i64, 2 : i64, 4 : i64, 1 : i64) aliases [0] {offsets = array<i64: 2>, traits = ["pure", "relation"]} : (!T) -> !H
  refgraph.differentiable %a : !H
  refgraph.differentiable %b : !H
  %t = refgraph.create "tuple" [%a, %b] : (!H, !H) -> !refgraph.obj<"tuple">
  refgraph.leave %t : !refgraph.obj<"tuple">
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!H = !refgraph.tensor<[2], [1], f32, "cpu">

// A segment left %r, and the next one a view of it, of which it says nothing: the view requires grad as %r does, which
// it stays a view of, and what was made without gradients does not.
// CHECK-LABEL: refgraph.graph @view_of_an_earlier_segment(
// CHECK-SAME:    gradient_inputs = array<i64: 0>, gradient_results = array<i64: 0>
// CHECK:         %[[R:.*]] = refgraph.tensor_op "aten::exp"
// CHECK:         %[[N:.*]] = refgraph.tensor_op "aten::neg"
// CHECK:         refgraph.yield %[[R]], %[[N]] :
refgraph.trace @view_of_an_earlier_segment {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") {requires_grad = true} : !T
  %r = refgraph.tensor_op "aten::exp"(%x) {traits = ["pure"]} : (!T) -> !T
  %f = refgraph.tensor_op "aten::gt.Scalar"(%r, 0 : i64) {no_grad, traits = ["pure"]} : (!T) -> !refgraph.tensor<[4], [1], i1, "cpu">
  refgraph.differentiable %r : !T
  %a = refgraph.tensor_op "aten::slice.Tensor"(%r, 0 : i64, 0 : i64, 2 : i64, 1 : i64) aliases [0] {traits = ["pure", "relation"]} : (!T) -> !H
  %d = refgraph.tensor_op "aten::detach"(%r) aliases [0] {no_grad, traits = ["pure", "relation"]} : (!T) -> !T
  %n = refgraph.tensor_op "aten::neg"(%d) {traits = ["pure"]} : (!T) -> !T
  %t = refgraph.create "tuple" [%a, %n] : (!H, !T) -> !refgraph.obj<"tuple">
  refgraph.leave %t : !refgraph.obj<"tuple">
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">

// Where nothing that leaves requires grad, the graph says nothing of gradients.
// CHECK-LABEL: refgraph.graph @inference(
// CHECK-NOT:     gradient
// CHECK-NOT:     no_grad
// CHECK:         refgraph.yield
refgraph.trace @inference {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") {requires_grad = true} : !T
  %m = refgraph.tensor_op "aten::exp"(%x) {traits = ["pure"]} : (!T) -> !T
  %d = refgraph.tensor_op "aten::neg"(%m) {no_grad, traits = ["pure"]} : (!T) -> !T
  refgraph.leave %d : !T
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!M = !refgraph.tensor<[2, 2], [2, 1], f32, "cpu">

// A view that something else was computed from is yielded for its gradient; one
// that nobody reads is not.
// CHECK-LABEL: refgraph.graph @read_view(
// CHECK-SAME:    gradient_results = array<i64: 0, 1, 2>, gradient_views = 1 : i64
// CHECK:         %[[V:.*]] = refgraph.tensor_op "aten::view"
// CHECK:         refgraph.yield %{{.*}}, %{{.*}}, %[[V]] :
refgraph.trace @read_view {
  %e = refgraph.external
  refgraph.state {grad_mode = true}
  %x = refgraph.get %e arg(0, "x") {requires_grad = true} : !T
  %r = refgraph.tensor_op "aten::exp"(%x) {traits = ["pure"]} : (!T) -> !T
  %v = refgraph.tensor_op "aten::view"(%r, [2 : i64, 2 : i64]) aliases [0] {traits = ["pure", "relation"]} : (!T) -> !M
  %y = refgraph.tensor_op "aten::sin"(%v) {traits = ["pure"]} : (!M) -> !M
  refgraph.differentiable %r : !T
  refgraph.differentiable %v : !M
  refgraph.differentiable %y : !M
  %t = refgraph.create "tuple" [%r, %v, %y] : (!T, !M, !M) -> !refgraph.obj<"tuple">
  refgraph.leave %t : !refgraph.obj<"tuple">
}
