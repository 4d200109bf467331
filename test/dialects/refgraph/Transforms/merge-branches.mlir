// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The segments of a call with a graph break at a branch become one trace.
// RUN: pyjit-opt %s --refgraph-annotate --refgraph-merge-branches -split-input-file | FileCheck %s
// RUN: pyjit-opt %s --refgraph-annotate --refgraph-merge-branches --refgraph-generate-guards --refgraph-generate-mock --refgraph-extract-graph -split-input-file | FileCheck %s --check-prefix=PARTS

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!B = !refgraph.tensor<[], [], i1, "cpu">

// The branch is in a called function: the arms return to its caller, which goes
// on with what they left. Reads of both arms are the trace's, a list of the
// prefix is looked into at once, object numbers are the prefix'.
// CHECK-LABEL: refgraph.trace @called {
// CHECK:         %[[G:.*]] = refgraph.object 0 "globals"
// CHECK:         refgraph.get %[[G]] item("a") is(7)
// CHECK:         refgraph.state {handles_exception = false}
// CHECK:         refgraph.get %[[G]] item("b") is(8)
// CHECK:         %[[Y:.*]] = refgraph.if %{{.*}} : ({{.*}}) -> !refgraph.tensor<[4]
// CHECK-NEXT:      %[[N:.*]] = refgraph.tensor_op "aten::neg"
// CHECK-NEXT:      refgraph.yield %[[N]]
// CHECK-NEXT:    } else {
// CHECK-NEXT:      %[[A:.*]] = refgraph.tensor_op "aten::abs"
// CHECK-NEXT:      refgraph.yield %[[A]]
// CHECK-NEXT:    }
// CHECK-NEXT:    %[[R:.*]] = refgraph.tensor_op "aten::relu"(%[[Y]])
// CHECK-NEXT:    %[[S:.*]] = refgraph.tensor_op "aten::add.Tensor"(%[[R]], %{{.*}}, 1 : i64)
// CHECK-NEXT:    refgraph.leave %[[S]]
// CHECK-NOT:   refgraph.trace
// PARTS-LABEL: refgraph.guards @called
// PARTS:         item("a") is(7)
// PARTS:         item("b") is(8)
// PARTS-LABEL: refgraph.graph @called(
// PARTS:         refgraph.if
// PARTS:         refgraph.yield %{{.*}} : !refgraph.tensor<[4]
refgraph.trace @called attributes {refgraph.segment = "prefix", refgraph.condition = 0 : i64, refgraph.tensor_class = 3 : i64} {
  %e = refgraph.external
  refgraph.state {grad_mode = false}
  %g = refgraph.object 0 "globals" : !refgraph.obj<"dict">
  %x = refgraph.get %e arg(0, "x") type(3) {requires_grad = false} : !T
  %y = refgraph.tensor_op "aten::neg"(%x) : (!T) -> !T
  %c = refgraph.tensor_op "aten::any"(%x) : (!T) -> !B
  %l = refgraph.create "list" [%x, %y] : (!T, !T) -> !refgraph.obj<"list">
  %outer = refgraph.create "tuple" [%x] : (!T) -> !refgraph.obj<"tuple">
  %inner = refgraph.create "tuple" [%c, %l] : (!B, !refgraph.obj<"list">) -> !refgraph.obj<"tuple">
  %t = refgraph.create "tuple" [%outer, %inner] : (!refgraph.obj<"tuple">, !refgraph.obj<"tuple">) -> !refgraph.obj<"tuple">
  refgraph.leave %t : !refgraph.obj<"tuple">
}
refgraph.trace @called_1 attributes {refgraph.segment = "true", refgraph.takes = array<i64: 1>, refgraph.objects = array<i64: 3, 0, 7>} {
  %e = refgraph.external
  refgraph.state {grad_mode = false}
  %g = refgraph.object 1 "globals" : !refgraph.obj<"dict">
  %f = refgraph.get %g item("a") is(2) : !refgraph.obj<"dict"> -> !refgraph.obj<"function">
  refgraph.state {handles_exception = false}
  %l = refgraph.get %e arg(0, "l") : !refgraph.obj<"list">
  refgraph.length %l is 2 : !refgraph.obj<"list">
  %y = refgraph.get %l item(1) type(0) {requires_grad = false} : !refgraph.obj<"list"> -> !T
  %a = refgraph.tensor_op "aten::neg"(%y) : (!T) -> !T
  %r = refgraph.tensor_op "aten::relu"(%a) : (!T) -> !T
  refgraph.leave %r : !T
}
refgraph.trace @called_2 attributes {refgraph.segment = "false", refgraph.takes = array<i64: 1>, refgraph.objects = array<i64: 0, 3, 8>} {
  %e = refgraph.external
  refgraph.state {grad_mode = false}
  %g = refgraph.object 0 "globals" : !refgraph.obj<"dict">
  %f = refgraph.get %g item("b") is(2) : !refgraph.obj<"dict"> -> !refgraph.obj<"function">
  %l = refgraph.get %e arg(0, "l") : !refgraph.obj<"list">
  %x = refgraph.get %l item(0) type(1) {requires_grad = false} : !refgraph.obj<"list"> -> !T
  %a = refgraph.tensor_op "aten::abs"(%x) : (!T) -> !T
  %r = refgraph.tensor_op "aten::relu"(%a) : (!T) -> !T
  refgraph.leave %r : !T
}
refgraph.trace @called_3 attributes {refgraph.segment = "rest", refgraph.takes = array<i64: -1, 0>} {
  %e = refgraph.external
  refgraph.state {grad_mode = false}
  %r = refgraph.get %e arg(0, "") : !T
  %x = refgraph.get %e arg(1, "x") type(3) {requires_grad = false} : !T
  %s = refgraph.tensor_op "aten::add.Tensor"(%r, %x, 1 : i64) : (!T, !T) -> !T
  refgraph.leave %s : !T
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!H = !refgraph.tensor<[2], [1], f32, "cpu">
!B = !refgraph.tensor<[], [], i1, "cpu">

// An input is written in one arm, a tensor of the call in the other: both are
// the references that they are, and no results. The arms end with the next graph break.
// CHECK-LABEL: refgraph.trace @writes {
// CHECK:         %[[X:.*]] = refgraph.get %{{.*}} arg(0, "x")
// CHECK:         %[[Y:.*]] = refgraph.tensor_op "aten::neg"(%[[X]])
// CHECK:         refgraph.if %{{.*}} : (!refgraph.tensor<[], [], i1, "cpu">) -> () {
// CHECK-NEXT:      refgraph.tensor_op "aten::relu_"(%[[X]]) mutates [0]
// CHECK-NEXT:      refgraph.yield
// CHECK-NEXT:    } else {
// CHECK-NEXT:      %[[V:.*]] = refgraph.tensor_op "aten::slice.Tensor"(%[[Y]]
// CHECK-NEXT:      refgraph.tensor_op "aten::zero_"(%[[V]]) mutates [0]
// CHECK-NEXT:      refgraph.yield
// CHECK-NEXT:    }
// CHECK-NEXT:    %[[C:.*]] = refgraph.tensor_op "aten::any"(%[[X]])
// CHECK-NEXT:    %[[F:.*]] = refgraph.create "tuple" [%[[C]], %[[Y]]]
// CHECK-NEXT:    %[[T:.*]] = refgraph.create "tuple" [%[[F]]]
// CHECK-NEXT:    refgraph.leave %[[T]]
// The graph hands back the input's new contents.
// PARTS-LABEL: refgraph.mock @writes
// PARTS:         refgraph.copy_back
// PARTS-LABEL: refgraph.graph @writes({{.*}}) mutates [0] {
// PARTS:         refgraph.if
// PARTS:         aten::relu_
// PARTS:         aten::zero_
refgraph.trace @writes attributes {refgraph.segment = "prefix", refgraph.condition = 0 : i64} {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") : !T
  %y = refgraph.tensor_op "aten::neg"(%x) : (!T) -> !T
  %c = refgraph.tensor_op "aten::any"(%x) : (!T) -> !B
  %inner = refgraph.create "tuple" [%c, %x, %y] : (!B, !T, !T) -> !refgraph.obj<"tuple">
  %t = refgraph.create "tuple" [%inner] : (!refgraph.obj<"tuple">) -> !refgraph.obj<"tuple">
  refgraph.leave %t : !refgraph.obj<"tuple">
}
refgraph.trace @writes_1 attributes {refgraph.segment = "true", refgraph.graph_break, refgraph.takes = array<i64: 1, 2>} {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") : !T
  %y = refgraph.get %e arg(1, "y") : !T
  %x1 = refgraph.tensor_op "aten::relu_"(%x) mutates [0] : (!T) -> !T
  %c = refgraph.tensor_op "aten::any"(%x1) : (!T) -> !B
  %f = refgraph.create "tuple" [%c, %y] : (!B, !T) -> !refgraph.obj<"tuple">
  %t = refgraph.create "tuple" [%f] : (!refgraph.obj<"tuple">) -> !refgraph.obj<"tuple">
  refgraph.leave %t : !refgraph.obj<"tuple">
}
refgraph.trace @writes_2 attributes {refgraph.segment = "false", refgraph.graph_break, refgraph.takes = array<i64: 1, 2>} {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") : !T
  %y = refgraph.get %e arg(1, "y") : !T
  %v = refgraph.tensor_op "aten::slice.Tensor"(%y, 0 : i64, 0 : i64, 2 : i64, 1 : i64) aliases [0] : (!T) -> !H
  %v1 = refgraph.tensor_op "aten::zero_"(%v) mutates [0] : (!H) -> !H
  %c = refgraph.tensor_op "aten::any"(%x) : (!T) -> !B
  %f = refgraph.create "tuple" [%c, %y] : (!B, !T) -> !refgraph.obj<"tuple">
  %t = refgraph.create "tuple" [%f] : (!refgraph.obj<"tuple">) -> !refgraph.obj<"tuple">
  refgraph.leave %t : !refgraph.obj<"tuple">
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!B = !refgraph.tensor<[], [], i1, "cpu">

// Nothing in one arm: a tensor of the prefix that nobody else sees is handed
// out. Objects and writes that the arms agree in stand behind them.
// CHECK-LABEL: refgraph.trace @objects {
// CHECK:         %[[M:.*]] = refgraph.get %{{.*}} arg(1, "m") type(5)
// CHECK:         %[[Y:.*]] = refgraph.tensor_op "aten::neg"
// CHECK:         %[[R:.*]] = refgraph.if
// CHECK-NEXT:      %[[A:.*]] = refgraph.tensor_op "aten::abs"(%[[Y]])
// CHECK-NEXT:      refgraph.yield %[[A]]
// CHECK-NEXT:    } else {
// CHECK-NEXT:      refgraph.yield %[[Y]]
// CHECK-NEXT:    }
// CHECK-NEXT:    refgraph.set %[[M]] attr("last") = %[[R]]
// CHECK-NEXT:    %[[K:.*]] = refgraph.constant "k"
// CHECK-NEXT:    %[[D:.*]] = refgraph.create "dict" items {"y" = %[[R]], "k" = %[[K]]}
// CHECK-NEXT:    refgraph.leave %[[D]]
refgraph.trace @objects attributes {refgraph.segment = "prefix", refgraph.condition = 0 : i64} {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") : !T
  %m = refgraph.get %e arg(1, "m") : !refgraph.obj<"Config">
  %y = refgraph.tensor_op "aten::neg"(%x) : (!T) -> !T
  %c = refgraph.tensor_op "aten::any"(%x) : (!T) -> !B
  %inner = refgraph.create "tuple" [%c, %y, %m] : (!B, !T, !refgraph.obj<"Config">) -> !refgraph.obj<"tuple">
  %t = refgraph.create "tuple" [%inner] : (!refgraph.obj<"tuple">) -> !refgraph.obj<"tuple">
  refgraph.leave %t : !refgraph.obj<"tuple">
}
refgraph.trace @objects_1 attributes {refgraph.segment = "true", refgraph.takes = array<i64: 1, 2>} {
  %e = refgraph.external
  %y = refgraph.get %e arg(0, "y") : !T
  %m = refgraph.get %e arg(1, "m") type(5) : !refgraph.obj<"Config">
  %a = refgraph.tensor_op "aten::abs"(%y) : (!T) -> !T
  refgraph.set %m attr("last") = %a : !refgraph.obj<"Config">, !T
  %k = refgraph.constant "k"
  %d = refgraph.create "dict" items {"y" = %a, "k" = %k} : (!T, !refgraph.obj<"str">) -> !refgraph.obj<"dict">
  refgraph.leave %d : !refgraph.obj<"dict">
}
refgraph.trace @objects_2 attributes {refgraph.segment = "false", refgraph.takes = array<i64: 1, 2>} {
  %e = refgraph.external
  %y = refgraph.get %e arg(0, "y") : !T
  %m = refgraph.get %e arg(1, "m") type(5) : !refgraph.obj<"Config">
  refgraph.set %m attr("last") = %y : !refgraph.obj<"Config">, !T
  %k = refgraph.constant "k"
  %d = refgraph.create "dict" items {"y" = %y, "k" = %k} : (!T, !refgraph.obj<"str">) -> !refgraph.obj<"dict">
  refgraph.leave %d : !refgraph.obj<"dict">
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!B = !refgraph.tensor<[], [], i1, "cpu">

// Calls have taken one side: the trace goes on with it, and says what that
// relies on. A side that ends at a branch itself is no different.
// CHECK-LABEL: refgraph.trace @one_way {
// CHECK:         %[[C:.*]] = refgraph.tensor_op "aten::any"
// CHECK-NEXT:    refgraph.speculate %[[C]] is false
// CHECK-NEXT:    %[[Y:.*]] = refgraph.tensor_op "aten::neg"
// CHECK-NEXT:    %[[D:.*]] = refgraph.tensor_op "aten::all"(%[[Y]])
// CHECK-NEXT:    refgraph.speculate %[[D]] is true
// CHECK-NEXT:    refgraph.leave %[[Y]]
// CHECK-NOT:   refgraph.trace
// PARTS-LABEL: refgraph.graph @one_way(
// PARTS:         refgraph.speculate %{{.*}} is false
// PARTS:         refgraph.speculate %{{.*}} is true
refgraph.trace @one_way attributes {refgraph.segment = "prefix", refgraph.condition = 0 : i64} {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") : !T
  %c = refgraph.tensor_op "aten::any"(%x) : (!T) -> !B
  %inner = refgraph.create "tuple" [%c, %x] : (!B, !T) -> !refgraph.obj<"tuple">
  %t = refgraph.create "tuple" [%inner] : (!refgraph.obj<"tuple">) -> !refgraph.obj<"tuple">
  refgraph.leave %t : !refgraph.obj<"tuple">
}
refgraph.trace @one_way_1 attributes {refgraph.segment = "false", refgraph.takes = array<i64: 1>} {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") : !T
  %y = refgraph.tensor_op "aten::neg"(%x) : (!T) -> !T
  %d = refgraph.tensor_op "aten::all"(%y) : (!T) -> !B
  refgraph.speculate %d is true : !B
  refgraph.leave %y : !T
}

// -----

!T = !refgraph.tensor<[], [], f32, "cpu">
!B = !refgraph.tensor<[], [], i1, "cpu">

// Random numbers in front of it: the executor puts the generator back where the
// call turns out to go the other way.
// CHECK-LABEL: refgraph.trace @draws {
// CHECK:         %[[R:.*]] = refgraph.tensor_op "aten::rand_like"
// CHECK:         refgraph.speculate %{{.*}} is true
refgraph.trace @draws attributes {refgraph.segment = "prefix", refgraph.condition = 0 : i64} {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") : !T
  %r = refgraph.tensor_op "aten::rand_like"(%x, none, none, none, none, none) : (!T) -> !T
  %c = refgraph.tensor_op "aten::lt.Tensor"(%r, %x) : (!T, !T) -> !B
  %inner = refgraph.create "tuple" [%c, %x] : (!B, !T) -> !refgraph.obj<"tuple">
  %t = refgraph.create "tuple" [%inner] : (!refgraph.obj<"tuple">) -> !refgraph.obj<"tuple">
  refgraph.leave %t : !refgraph.obj<"tuple">
}
refgraph.trace @draws_1 attributes {refgraph.segment = "true", refgraph.takes = array<i64: 1>} {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") : !T
  %y = refgraph.tensor_op "aten::neg"(%x) : (!T) -> !T
  refgraph.leave %y : !T
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!B = !refgraph.tensor<[], [], i1, "cpu">

// Writes in front of the branch and in it add up; the arms write equally often.
// CHECK-LABEL: refgraph.trace @counters {
// CHECK:         %[[X:.*]] = refgraph.get {{.*}} arg(0, "x")
// CHECK:         refgraph.advance %{{.*}} by 1 :
// CHECK:         refgraph.if
// CHECK-NOT:     refgraph.advance
// CHECK:         refgraph.advance %[[X]] by 3 :
// CHECK:         refgraph.leave
refgraph.trace @counters attributes {refgraph.segment = "prefix", refgraph.condition = 0 : i64} {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") : !T
  %x1 = refgraph.tensor_op "aten::neg_"(%x) mutates [0] {traits = ["as-op-node", "in-place"]} : (!T) -> !T
  %c = refgraph.tensor_op "aten::any"(%x1) {traits = ["as-op-node", "pure"]} : (!T) -> !B
  %inner = refgraph.create "tuple" [%c, %x1] : (!B, !T) -> !refgraph.obj<"tuple">
  %t = refgraph.create "tuple" [%inner] : (!refgraph.obj<"tuple">) -> !refgraph.obj<"tuple">
  refgraph.advance %x1 by 1 : !T
  refgraph.leave %t : !refgraph.obj<"tuple">
}
refgraph.trace @counters_1 attributes {refgraph.segment = "true", refgraph.takes = array<i64: 1>} {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") : !T
  %y = refgraph.tensor_op "aten::abs_"(%x) mutates [0] {traits = ["as-op-node", "in-place"]} : (!T) -> !T
  refgraph.advance %y by 3 : !T
  refgraph.leave %y : !T
}
refgraph.trace @counters_2 attributes {refgraph.segment = "false", refgraph.takes = array<i64: 1>} {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") : !T
  %y = refgraph.tensor_op "aten::exp_"(%x) mutates [0] {traits = ["as-op-node", "in-place"]} : (!T) -> !T
  refgraph.advance %y by 3 : !T
  refgraph.leave %y : !T
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!B = !refgraph.tensor<[], [], i1, "cpu">

// Gradients flow from one segment to the next where the branch goes one way.
// CHECK-LABEL: refgraph.trace @gradients {
// CHECK:         %[[H:.*]] = refgraph.tensor_op "aten::exp"
// CHECK:         refgraph.differentiable %[[H]]
// CHECK-NEXT:    refgraph.speculate
// CHECK-NEXT:    %[[Y:.*]] = refgraph.tensor_op "aten::neg"(%[[H]])
// CHECK-NEXT:    refgraph.differentiable %[[Y]]
// PARTS-LABEL: refgraph.graph @gradients(
// PARTS:         refgraph.yield
refgraph.trace @gradients attributes {refgraph.segment = "prefix", refgraph.condition = 0 : i64} {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") {requires_grad = true} : !T
  %h = refgraph.tensor_op "aten::exp"(%x) {traits = ["as-op-node", "pure"]} : (!T) -> !T
  %c = refgraph.tensor_op "aten::any"(%h) {no_grad, traits = ["as-op-node", "pure"]} : (!T) -> !B
  refgraph.differentiable %h : !T
  %inner = refgraph.create "tuple" [%c, %h] : (!B, !T) -> !refgraph.obj<"tuple">
  %t = refgraph.create "tuple" [%inner] : (!refgraph.obj<"tuple">) -> !refgraph.obj<"tuple">
  refgraph.leave %t : !refgraph.obj<"tuple">
}
refgraph.trace @gradients_1 attributes {refgraph.segment = "false", refgraph.takes = array<i64: 1>} {
  %e = refgraph.external
  %h = refgraph.get %e arg(0, "h") {requires_grad = true} : !T
  %y = refgraph.tensor_op "aten::neg"(%h) {traits = ["as-op-node", "pure"]} : (!T) -> !T
  refgraph.differentiable %y : !T
  refgraph.leave %y : !T
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!B = !refgraph.tensor<[], [], i1, "cpu">

// An instance of a class made of dict, that the prefix made, is asked for its
// keys, its length and what it does not hold.
// CHECK-LABEL: refgraph.trace @instances {
// CHECK:         refgraph.speculate
// CHECK-NOT:     refgraph.keys
// CHECK-NOT:     refgraph.length
// CHECK-NOT:     refgraph.absent
// CHECK:         %[[Y:.*]] = refgraph.tensor_op "aten::neg"
// CHECK-NOT:     refgraph.get
// CHECK:         refgraph.leave %[[Y]]
// PARTS-LABEL: refgraph.graph @instances(
refgraph.trace @instances attributes {refgraph.segment = "prefix", refgraph.condition = 0 : i64} {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") {requires_grad = false} : !T
  %c = refgraph.tensor_op "aten::any"(%x) {traits = ["as-op-node", "pure"]} : (!T) -> !B
  %o = refgraph.create "instance" type(0) items {"state" = %x, "cache" = %x} : (!T, !T) -> !refgraph.obj<"Output">
  %p = refgraph.create "instance" type(0) [%x, %x] : (!T, !T) -> !refgraph.obj<"Pair">
  %inner = refgraph.create "tuple" [%c, %o, %p] : (!B, !refgraph.obj<"Output">, !refgraph.obj<"Pair">) -> !refgraph.obj<"tuple">
  %t = refgraph.create "tuple" [%inner] : (!refgraph.obj<"tuple">) -> !refgraph.obj<"tuple">
  refgraph.leave %t : !refgraph.obj<"tuple">
}
refgraph.trace @instances_1 attributes {refgraph.segment = "false", refgraph.takes = array<i64: 1, 2>, refgraph.objects = array<i64: 0>} {
  %e = refgraph.external
  %o = refgraph.get %e arg(0, "o") type(0) : !refgraph.obj<"Output">
  refgraph.keys %o are ["state", "cache"] : !refgraph.obj<"Output">
  refgraph.length %o is 2 : !refgraph.obj<"Output">
  refgraph.absent %o item("loss") : !refgraph.obj<"Output">
  %p = refgraph.get %e arg(1, "p") type(0) : !refgraph.obj<"Pair">
  refgraph.length %p is 2 : !refgraph.obj<"Pair">
  %x = refgraph.get %o item("state") {requires_grad = false} : !refgraph.obj<"Output"> -> !T
  %y = refgraph.tensor_op "aten::neg"(%x) {traits = ["as-op-node", "pure"]} : (!T) -> !T
  refgraph.leave %y : !T
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!B = !refgraph.tensor<[], [], i1, "cpu">

// A context variable that the prefix sets stays set, although nobody gets its
// token.
// CHECK-LABEL: refgraph.trace @stays_set {
// CHECK:         refgraph.create "token"
// CHECK:         refgraph.leave
// PARTS-LABEL: refgraph.mock @stays_set
// PARTS:         refgraph.create "token"
refgraph.trace @stays_set attributes {refgraph.segment = "prefix", refgraph.condition = 0 : i64} {
  %e = refgraph.external
  %v = refgraph.object 5 "SCALE" : !refgraph.obj<"_contextvars.ContextVar">
  %x = refgraph.get %e arg(0, "x") : !T
  %c = refgraph.tensor_op "aten::any"(%x) : (!T) -> !B
  %k = refgraph.constant 2
  %s = refgraph.create "token" [%v, %k] : (!refgraph.obj<"_contextvars.ContextVar">, !refgraph.obj<"int">) -> !refgraph.obj<"_contextvars.Token">
  %inner = refgraph.create "tuple" [%c, %x, %s] : (!B, !T, !refgraph.obj<"_contextvars.Token">) -> !refgraph.obj<"tuple">
  %t = refgraph.create "tuple" [%inner] : (!refgraph.obj<"tuple">) -> !refgraph.obj<"tuple">
  refgraph.leave %t : !refgraph.obj<"tuple">
}
refgraph.trace @stays_set_1 attributes {refgraph.segment = "false", refgraph.takes = array<i64: 1>} {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") : !T
  %y = refgraph.tensor_op "aten::neg"(%x) : (!T) -> !T
  refgraph.leave %y : !T
}
