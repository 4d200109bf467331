// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --refgraph-generate-mock -split-input-file | FileCheck %s

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!H = !refgraph.tensor<[2], [1], f32, "cpu">
!M = !refgraph.tensor<[2, 2], [2, 1], f32, "cpu">

// An output that is a view of an input stays one; the input itself is itself.
// CHECK-LABEL: refgraph.mock @view_of_input
// CHECK-SAME:    keeps(%[[X:.*]]: !refgraph.tensor<[4], [1], f32, "cpu">) {
// CHECK-NEXT:    %[[V:.*]] = refgraph.view %[[X]] offset 2 :
// CHECK-NEXT:    refgraph.create "tuple" [%[[X]], %[[V]]]
// CHECK-NEXT:    refgraph.leave
refgraph.trace @view_of_input {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") {offset = 8 : i64} : !T
  %v = refgraph.tensor_op "aten::slice.Tensor"(%x, 0 : i64, 2 : i64, 4 : i64, 1 : i64) aliases [0] {offsets = array<i64: 10>, traits = ["pure"]} : (!T) -> !H
  %o = refgraph.create "tuple" [%x, %v] : (!T, !H) -> !refgraph.obj<"tuple">
  refgraph.leave %o : !refgraph.obj<"tuple">
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!M = !refgraph.tensor<[2, 2], [2, 1], f32, "cpu">
!N = !refgraph.tensor<[2, 2], [1, 2], f32, "cpu">

// Two views of one fresh tensor share storage: the graph returns their base.
// CHECK-LABEL: refgraph.mock @two_views
// CHECK-SAME:    inputs(%{{.*}}) results(%[[R:.*]]: !refgraph.tensor<[4], [1], f32, "cpu">) {
// CHECK-NEXT:    %[[A:.*]] = refgraph.view %[[R]] offset 0 : {{.*}} -> !refgraph.tensor<[2, 2], [2, 1], f32, "cpu">
// CHECK-NEXT:    %[[B:.*]] = refgraph.view %[[R]] offset 0 : {{.*}} -> !refgraph.tensor<[2, 2], [1, 2], f32, "cpu">
// CHECK-NEXT:    refgraph.create "list" [%[[A]], %[[B]], %[[A]]]
refgraph.trace @two_views {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") : !T
  %r = refgraph.tensor_op "aten::neg"(%x) : (!T) -> !T
  %a = refgraph.tensor_op "aten::view"(%r, [2 : i64, 2 : i64]) aliases [0] : (!T) -> !M
  %b = refgraph.tensor_op "aten::t"(%a) aliases [0] : (!M) -> !N
  %o = refgraph.create "list" [%a, %b, %a] : (!M, !N, !M) -> !refgraph.obj<"list">
  refgraph.leave %o : !refgraph.obj<"list">
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!M = !refgraph.tensor<[2, 2], [2, 1], f32, "cpu">

// One view escapes alone: the graph returns it as it is.
// CHECK-LABEL: refgraph.mock @one_view
// CHECK-SAME:    results(%[[R:.*]]: !refgraph.tensor<[2, 2], [2, 1], f32, "cpu">) {
// CHECK-NEXT:    refgraph.leave %[[R]]
refgraph.trace @one_view {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") : !T
  %r = refgraph.tensor_op "aten::neg"(%x) : (!T) -> !T
  %a = refgraph.tensor_op "aten::view"(%r, [2 : i64, 2 : i64]) aliases [0] : (!T) -> !M
  refgraph.leave %a : !M
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">

// A written input gets its contents back, and is the object that returns.
// CHECK-LABEL: refgraph.mock @mutation
// CHECK-SAME:    inputs(%[[X:.*]]: {{.*}}) results(%[[R:.*]]: {{.*}}) {
// CHECK-NEXT:    refgraph.copy_back %[[X]], %[[R]]
// CHECK-NEXT:    refgraph.leave %[[X]]
refgraph.trace @mutation {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") : !T
  %r = refgraph.tensor_op "aten::relu_"(%x) mutates [0] : (!T) -> !T
  refgraph.leave %r : !T
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">

// Writes in order; a pinned holder is named by its index; what nothing refers to
// is not made; a list may hold itself.
// CHECK-LABEL: refgraph.mock @writes
// CHECK-SAME:    keeps(%[[L:.*]]: !refgraph.obj<"list">) {
// CHECK-NEXT:    %[[TWO:.*]] = refgraph.constant 2
// CHECK-NEXT:    %[[G:.*]] = refgraph.object 3 : !refgraph.obj<"dict">
// CHECK-NEXT:    refgraph.set %[[G]] item("n") = %[[TWO]]
// CHECK-NEXT:    refgraph.delete %[[G]] item("old")
// CHECK-NEXT:    %[[O:.*]] = refgraph.create "list" []
// CHECK-NEXT:    refgraph.append %[[O]], %[[O]]
// CHECK-NEXT:    refgraph.replace %[[L]] [%[[O]]]
// CHECK-NEXT:    refgraph.leave %[[TWO]]
refgraph.trace @writes {
  %e = refgraph.external
  %g = refgraph.object 3 : !refgraph.obj<"dict">
  %l = refgraph.get %e arg(0, "l") type(4) : !refgraph.obj<"list">
  %two = refgraph.constant 2
  %three = refgraph.constant 3
  %unused = refgraph.create "list" [%three] : (!refgraph.obj<"int">) -> !refgraph.obj<"list">
  refgraph.append %unused, %three : !refgraph.obj<"list">, !refgraph.obj<"int">
  refgraph.set %g item("n") = %two : !refgraph.obj<"dict">, !refgraph.obj<"int">
  refgraph.delete %g item("old") : !refgraph.obj<"dict">
  %o = refgraph.create "list" [] : () -> !refgraph.obj<"list">
  refgraph.append %o, %o : !refgraph.obj<"list">, !refgraph.obj<"list">
  refgraph.replace %l [%o] : !refgraph.obj<"list">, (!refgraph.obj<"list">)
  refgraph.leave %two : !refgraph.obj<"int">
}

// -----

!T = !refgraph.tensor<[8], [1], f32, "cpu">
!C = !refgraph.tensor<[2], [1], complex<f32>, "cpu">

// The offset of a view with another element type counts the view's elements.
// CHECK-LABEL: refgraph.mock @retyped_view
// CHECK: refgraph.view %{{.*}} offset 2 : {{.*}} -> !refgraph.tensor<[2], [1], complex<f32>, "cpu">
refgraph.trace @retyped_view {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") {offset = 4 : i64} : !T
  %v = refgraph.tensor_op "aten::view_as_complex"(%x) aliases [0] {offsets = array<i64: 4>, traits = ["pure"]} : (!T) -> !C
  refgraph.leave %v : !C
}

// -----

!S = !refgraph.tensor<[s0, 8], [8, 1], f32, "cpu">
!R = !refgraph.tensor<[8], [1], f32, "cpu">

// A view whose place follows from sizes is given their numbers.
// CHECK-LABEL: refgraph.mock @symbolic_view
// CHECK-SAME:    inputs(%[[N:.*]]: !refgraph.obj<"int">) keeps(%[[X:.*]]: !refgraph.tensor<[s0, 8], [8, 1], f32, "cpu">) {
// CHECK-NEXT:    %[[V:.*]] = refgraph.view %[[X]] offset 0 plus #{{.*}} symbols(%[[N]] : !refgraph.obj<"int">) :
// CHECK-NEXT:    refgraph.leave %[[V]]
refgraph.trace @symbolic_view {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") : !S
  %n = refgraph.size %x[0] is(5) : !S
  refgraph.symbol 0 is %n : !refgraph.obj<"int">
  %v = refgraph.tensor_op "aten::select.int"(%x, 0 : i64, affine_map<()[s0] -> (s0 - 1)>) aliases [0] {offsets = array<i64: 32>, symbolic_offsets = [affine_map<()[s0] -> (s0 * 8 - 8)>], traits = ["pure"]} : (!S) -> !R
  refgraph.leave %v : !R
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!H = !refgraph.tensor<[2], [1], f32, "cpu">
!Z = !refgraph.tensor<[0], [1], f32, "cpu">

// Copying back is one of three writes; an empty tensor is written, and nothing
// is copied; what is written through a view counts for the tensor that is left.
// CHECK-LABEL: refgraph.mock @counters
// CHECK-SAME:    inputs(%[[X:.*]]: !refgraph.tensor<[4], [1], f32, "cpu">) keeps(%[[Z:.*]]: {{.*}}) results(%[[R:.*]]: {{.*}}, %[[L:.*]]: {{.*}}, %[[NEW:.*]]: {{.*}}) {
// CHECK-NEXT:    refgraph.copy_back %[[X]], %[[NEW]]
// CHECK-DAG:     refgraph.advance %[[X]] by 2 :
// CHECK-DAG:     refgraph.advance %[[Z]] by 1 :
// CHECK-DAG:     refgraph.advance %[[R]] by 4 :
// CHECK:         refgraph.create "tuple" [%[[R]], %[[L]]]
// CHECK:         refgraph.require_grad %[[L]] :
// CHECK-NEXT:    refgraph.leave
refgraph.trace @counters {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") : !T
  %z = refgraph.get %e arg(1, "z") : !Z
  %x1 = refgraph.tensor_op "aten::neg_"(%x) mutates [0] {traits = ["in-place"]} : (!T) -> !T
  %z1 = refgraph.tensor_op "aten::neg_"(%z) mutates [0] {traits = ["in-place"]} : (!Z) -> !Z
  %r = refgraph.tensor_op "aten::neg"(%x1) {traits = ["pure"]} : (!T) -> !T
  %v = refgraph.tensor_op "aten::slice.Tensor"(%r, 0 : i64, 2 : i64, 4 : i64, 1 : i64) aliases [0] {offsets = array<i64: 2>, traits = ["pure"]} : (!T) -> !H
  %v1 = refgraph.tensor_op "aten::neg_"(%v) mutates [0] {traits = ["in-place"]} : (!H) -> !H
  %l = refgraph.tensor_op "aten::abs"(%x1) {traits = ["pure"]} : (!T) -> !T
  // A part of the call wrote what it handed to the next, which nobody sees now.
  %p = refgraph.tensor_op "aten::exp"(%x1) {traits = ["pure"]} : (!T) -> !T
  refgraph.advance %p by 7 : !T
  refgraph.advance %x1 by 3 : !T
  refgraph.advance %z1 by 1 : !Z
  refgraph.advance %v1 by 4 : !H
  refgraph.require_grad %l : !T
  %o = refgraph.create "tuple" [%r, %l] : (!T, !T) -> !refgraph.obj<"tuple">
  refgraph.leave %o : !refgraph.obj<"tuple">
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">

// A `.data` has a version counter of its own, which no write through another
// tensor of its memory advances.
// CHECK-LABEL: refgraph.mock @data
// CHECK-SAME:    results(%[[R:[^:]*]]: {{.*}}) {
// CHECK:         refgraph.advance %[[R]] by 3 :
// CHECK:         %[[D:.*]] = refgraph.view %[[R]] offset 0 shown "data"
// CHECK:         refgraph.advance %[[D]] by 1 :
refgraph.trace @data {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") : !T
  %r = refgraph.tensor_op "aten::neg"(%x) {traits = ["pure"]} : (!T) -> !T
  %d = refgraph.tensor_op "aten::detach"(%r) aliases [0] {traits = ["pure"]} : (!T) -> !T
  %d1 = refgraph.tensor_op "aten::neg_"(%d) mutates [0] {traits = ["in-place"]} : (!T) -> !T
  refgraph.shown %d1 "data" : !T
  refgraph.advance %r by 3 : !T
  refgraph.advance %d1 by 1 : !T
  %o = refgraph.create "tuple" [%r, %d] : (!T, !T) -> !refgraph.obj<"tuple">
  refgraph.leave %o : !refgraph.obj<"tuple">
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!I = !refgraph.tensor<[2, 4], [4, 1], f32, "cpu">

// Eager does not count writes of running statistics: what copying back counts is
// taken back.
// CHECK-LABEL: refgraph.mock @statistics
// CHECK:         refgraph.copy_back %[[M:.*]], %{{.*}} :
// CHECK:         refgraph.copy_back %[[V:.*]], %{{.*}} :
// CHECK-DAG:     refgraph.advance %[[M]] by -1
// CHECK-DAG:     refgraph.advance %[[V]] by -1
refgraph.trace @statistics {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") : !I
  %m = refgraph.get %e arg(1, "m") : !T
  %v = refgraph.get %e arg(2, "v") : !T
  %r:5 = refgraph.tensor_op "aten::_native_batch_norm_legit"(%x, none, none, %m, %v, true, 1.0e-01 : f64, 1.0e-05 : f64) mutates [1, 2] : (!I, !T, !T) -> (!I, !T, !T, !T, !T)
  refgraph.advance %m by 0 : !T
  refgraph.advance %v by 0 : !T
  refgraph.leave %r#0 : !I
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!M = !refgraph.tensor<[2, 2], [2, 1], f32, "cpu">

// Where gradients flow, a view that alone leaves of its memory stays a view: a
// node may have saved that memory. That it has a gradient of its own is said
// when versions are what they are in the end.
// CHECK-LABEL: refgraph.mock @lone_view
// CHECK-SAME:    results(%[[R:[^:]*]]: !refgraph.tensor<[4]{{.*}}, %[[Y:[^:]*]]: {{.*}}) {
// CHECK:         refgraph.advance %[[R]] by 1
// CHECK:         %[[V:.*]] = refgraph.view %[[R]] offset 0 shown "one of several"
// CHECK:         refgraph.differentiable %[[V]]
refgraph.trace @lone_view {
  %e = refgraph.external
  refgraph.state {grad_mode = true}
  %x = refgraph.get %e arg(0, "x") {requires_grad = true} : !T
  %r = refgraph.tensor_op "aten::exp"(%x) {traits = ["pure"]} : (!T) -> !T
  %r1 = refgraph.tensor_op "aten::neg_"(%r) mutates [0] {traits = ["in-place"]} : (!T) -> !T
  %v = refgraph.tensor_op "aten::view"(%r1, [2 : i64, 2 : i64]) aliases [0] {traits = ["pure", "relation"]} : (!T) -> !M
  %y = refgraph.tensor_op "aten::sin"(%v) {traits = ["pure"]} : (!M) -> !M
  refgraph.shown %v "one of several" : !M
  refgraph.differentiable %v : !M
  refgraph.differentiable %y : !M
  refgraph.advance %v by 1 : !M
  %t = refgraph.create "tuple" [%v, %y] : (!M, !M) -> !refgraph.obj<"tuple">
  refgraph.leave %t : !refgraph.obj<"tuple">
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">

// So does what `detach()` gives of something that gradients flow through.
// CHECK-LABEL: refgraph.mock @lone_detached
// CHECK:         refgraph.view %{{.*}} offset 0 shown "detached"
refgraph.trace @lone_detached {
  %e = refgraph.external
  refgraph.state {grad_mode = true}
  %x = refgraph.get %e arg(0, "x") {requires_grad = true} : !T
  %r = refgraph.tensor_op "aten::exp"(%x) {traits = ["pure"]} : (!T) -> !T
  %d = refgraph.tensor_op "aten::detach"(%r) aliases [0] {no_grad, traits = ["pure", "relation"]} : (!T) -> !T
  %y = refgraph.tensor_op "aten::sin"(%r) {traits = ["pure"]} : (!T) -> !T
  refgraph.shown %d "detached" : !T
  refgraph.differentiable %y : !T
  %t = refgraph.create "tuple" [%d, %y] : (!T, !T) -> !refgraph.obj<"tuple">
  refgraph.leave %t : !refgraph.obj<"tuple">
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!M = !refgraph.tensor<[2, 2], [2, 1], f32, "cpu">
!R = !refgraph.tensor<[2], [1], f32, "cpu">

// What `_unsafe_view` gives is no view to autograd: it is a result, of which
// others are views.
// CHECK-LABEL: refgraph.mock @untold
// CHECK-SAME:    results(%[[M:[^:]*]]: !refgraph.tensor<[2, 2]{{.*}}, %{{.*}}) {
// CHECK-NEXT:    %[[V:.*]] = refgraph.view %[[M]] offset 2
// CHECK-NEXT:    refgraph.create "tuple" [%[[M]], %[[V]],
refgraph.trace @untold {
  %e = refgraph.external
  refgraph.state {grad_mode = true}
  %x = refgraph.get %e arg(0, "x") {requires_grad = true} : !T
  %c = refgraph.tensor_op "aten::clone"(%x, none) {traits = ["pure"]} : (!T) -> !T
  %m = refgraph.tensor_op "aten::_unsafe_view"(%c, [2 : i64, 2 : i64]) aliases [0] {traits = ["pure", "relation"]} : (!T) -> !M
  %v = refgraph.tensor_op "aten::select.int"(%m, 0 : i64, 1 : i64) aliases [0] {offsets = array<i64: 2>, traits = ["pure", "relation"]} : (!M) -> !R
  %y = refgraph.tensor_op "aten::sin"(%m) {traits = ["pure"]} : (!M) -> !M
  refgraph.differentiable %m : !M
  refgraph.differentiable %v : !R
  refgraph.differentiable %y : !M
  %t = refgraph.create "tuple" [%m, %v, %y] : (!M, !R, !M) -> !refgraph.obj<"tuple">
  refgraph.leave %t : !refgraph.obj<"tuple">
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!H = !refgraph.tensor<[2], [1], f32, "cpu">

// What leaves behind it is a view of what the input showed before: it is made
// in front.
// CHECK-LABEL: refgraph.mock @storage
// CHECK-SAME:    inputs(%[[X:.*]]: !refgraph.tensor<[4], [1], f32, "cpu">) results(%[[R:.*]]: !refgraph.tensor<[4], [1], f32, "cpu">) {
// CHECK-NEXT:    %[[V:.*]] = refgraph.view %[[X]] offset 0
// CHECK-NEXT:    refgraph.set %[[X]] storage = %[[R]]
// CHECK-NEXT:    refgraph.leave %[[V]]
refgraph.trace @storage {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") : !T
  %r = refgraph.tensor_op "aten::neg"(%x) : (!T) -> !T
  %v = refgraph.tensor_op "aten::slice.Tensor"(%x, 0 : i64, 0 : i64, 2 : i64, 1 : i64) aliases [0] {traits = ["pure"]} : (!T) -> !H
  refgraph.set %x storage = %r : !T, !T
  refgraph.leave %v : !H
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">

// A result that eager knows as a view of what nobody sees leaves as a view of
// what the graph returns.
// CHECK-LABEL: refgraph.mock @view_of_itself
// CHECK-SAME:    results(%[[R:[^:]*]]: {{.*}}) {
// CHECK-NEXT:    %[[V:.*]] = refgraph.view %[[R]] offset 0 :
// CHECK-NEXT:    refgraph.advance %[[V]] by 1
// CHECK-NEXT:    refgraph.leave %[[V]]
refgraph.trace @view_of_itself {
  %e = refgraph.external
  refgraph.state {grad_mode = true}
  %x = refgraph.get %e arg(0, "x") {requires_grad = true} : !T
  %r = refgraph.tensor_op "aten::exp"(%x) {traits = ["pure"]} : (!T) -> !T
  refgraph.shown %r "view of itself" : !T
  refgraph.differentiable %r : !T
  refgraph.advance %r by 1 : !T
  refgraph.leave %r : !T
}

// One whose shape was changed in place, after its memory was saved, is made of
// what the graph returns, and is no view of it.
// CHECK-LABEL: refgraph.mock @reshaped
// CHECK-SAME:    results(%[[R:[^:]*]]: {{.*}}) {
// CHECK-NEXT:    %[[V:.*]] = refgraph.view %[[R]] offset 0 shown "reshaped" :
// CHECK-NEXT:    refgraph.differentiable %[[V]]
// CHECK-NEXT:    refgraph.leave %[[V]]
refgraph.trace @reshaped {
  %e = refgraph.external
  refgraph.state {grad_mode = true}
  %x = refgraph.get %e arg(0, "x") {requires_grad = true} : !refgraph.tensor<[2, 3], [3, 1], f32, "cpu">
  %r = refgraph.tensor_op "aten::exp"(%x) {traits = ["pure"]} : (!refgraph.tensor<[2, 3], [3, 1], f32, "cpu">) -> !refgraph.tensor<[2, 3], [3, 1], f32, "cpu">
  %t = refgraph.tensor_op "aten::transpose.int"(%r, 0 : i64, 1 : i64) aliases [0] : (!refgraph.tensor<[2, 3], [3, 1], f32, "cpu">) -> !refgraph.tensor<[3, 2], [1, 3], f32, "cpu">
  refgraph.shown %t "reshaped" : !refgraph.tensor<[3, 2], [1, 3], f32, "cpu">
  refgraph.differentiable %t : !refgraph.tensor<[3, 2], [1, 3], f32, "cpu">
  refgraph.leave %t : !refgraph.tensor<[3, 2], [1, 3], f32, "cpu">
}
