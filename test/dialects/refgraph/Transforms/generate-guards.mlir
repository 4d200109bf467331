// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --refgraph-generate-guards -split-input-file | FileCheck %s

!T = !refgraph.tensor<[4], [1], f32, "cpu">

// Equal reads become one, whatever path led to the holder; what keys imply goes.
// CHECK-LABEL: refgraph.guards @dedupe
// CHECK:         %[[D:.*]] = refgraph.get %{{.*}} arg(0, "d") type(2)
// CHECK-NEXT:    refgraph.get %[[D]] item("a") equals(1)
// CHECK-NEXT:    refgraph.absent %[[D]] item(3)
// CHECK-NEXT:    refgraph.keys %[[D]] are ["a"]
// CHECK-NEXT:    refgraph.accept()
refgraph.trace @dedupe {
  %e = refgraph.external
  %d = refgraph.get %e arg(0, "d") type(2) : !refgraph.obj<"dict">
  refgraph.absent %d item("b") : !refgraph.obj<"dict">
  // Not implied: 3 is not compared with "a" by this pass.
  refgraph.absent %d item(3) : !refgraph.obj<"dict">
  refgraph.length %d is 1 : !refgraph.obj<"dict">
  refgraph.holds %d item("a") : !refgraph.obj<"dict">
  %a = refgraph.get %d item("a") : !refgraph.obj<"dict"> -> !refgraph.obj<"int">
  %a1 = refgraph.get %d item("a") equals(1) : !refgraph.obj<"dict"> -> !refgraph.obj<"int">
  refgraph.keys %d are ["a"] : !refgraph.obj<"dict">
  refgraph.keys %d are ["a"] : !refgraph.obj<"dict">
  %o = refgraph.constant 2
  refgraph.leave %o : !refgraph.obj<"int">
}

// -----

// Equal tables become one, and are looked at in each call.
// CHECK-LABEL: refgraph.guards @table
// CHECK:         refgraph.keys %[[S:.*]] are ["a"]
// CHECK-NEXT:    refgraph.table %[[S]] is [0, 1]
// CHECK-NEXT:    refgraph.accept()
refgraph.trace @table {
  %e = refgraph.external
  %s = refgraph.get %e arg(0, "s") type(2) : !refgraph.obj<"set">
  refgraph.keys %s are ["a"] : !refgraph.obj<"set">
  refgraph.table %s is [0, 1] : !refgraph.obj<"set">
  refgraph.table %s is [0, 1] : !refgraph.obj<"set">
  %o = refgraph.constant 2
  refgraph.leave %o : !refgraph.obj<"int">
}

// -----

// Lists, cells and slots are not watched, wherever they hang; what hangs below
// them is looked at in each call too, until an object is known by identity.
// CHECK-LABEL: refgraph.guards @unwatched
// CHECK:         %[[L:.*]] = refgraph.get %{{.*}} item("layers") type(3)
// CHECK:         %[[M:.*]] = refgraph.object 7 : !refgraph.obj<"Net">
// CHECK-NEXT:    %[[MD:.*]] = refgraph.get %[[M]] dict
// CHECK-NEXT:    refgraph.get %[[MD]] item("n") equals(1)
// CHECK-NEXT:    refgraph.watch dicts(
// CHECK-NOT:     functions
// CHECK-NEXT:    %[[F:.*]] = refgraph.object 1
// CHECK-NEXT:    refgraph.get %[[F]] cell(0, "n") equals(2)
// CHECK-NEXT:    refgraph.get %[[L]] item(0) is(7)
// CHECK-NEXT:    %[[O:.*]] = refgraph.get %[[L]] item(1) type(4)
// CHECK-NEXT:    refgraph.get %[[O]] attr("n") equals(3)
// CHECK-NEXT:    refgraph.length %[[L]] is 2
// CHECK-NEXT:    refgraph.instance %[[M]] dict(%[[MD]]) :
refgraph.trace @unwatched {
  %g = refgraph.object 0 : !refgraph.obj<"dict">
  %f = refgraph.object 1 : !refgraph.obj<"function">
  %c = refgraph.get %f cell(0, "n") equals(2) : !refgraph.obj<"function"> -> !refgraph.obj<"int">
  %l = refgraph.get %g item("layers") type(3) : !refgraph.obj<"dict"> -> !refgraph.obj<"list">
  refgraph.length %l is 2 : !refgraph.obj<"list">
  %0 = refgraph.get %l item(0) is(7) : !refgraph.obj<"list"> -> !refgraph.obj<"Net">
  %n = refgraph.get %0 attr("n") equals(1) : !refgraph.obj<"Net"> -> !refgraph.obj<"int">
  %1 = refgraph.get %l item(1) type(4) : !refgraph.obj<"list"> -> !refgraph.obj<"Config">
  %m = refgraph.get %1 attr("n") equals(3) : !refgraph.obj<"Config"> -> !refgraph.obj<"int">
  refgraph.leave %n : !refgraph.obj<"int">
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">

// A written input must not overlap the others; nothing is asked of inputs that
// are only read.
// CHECK-LABEL: refgraph.guards @alias
// CHECK:         %[[X:.*]] = refgraph.get %{{.*}} arg(0, "x")
// CHECK-NEXT:    %[[Y:.*]] = refgraph.get %{{.*}} arg(1, "y")
// CHECK-NEXT:    %[[Z:.*]] = refgraph.get %{{.*}} arg(2, "z")
// CHECK-NEXT:    refgraph.disjoint written(%[[Y]] : {{.*}}) read(%[[X]], %[[Z]] : {{.*}})
// CHECK-NEXT:    refgraph.accept(%[[X]], %[[Y]] : {{.*}}) keeps(%[[Z]] :
refgraph.trace @alias {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") : !T
  %y = refgraph.get %e arg(1, "y") : !T
  %z = refgraph.get %e arg(2, "z") : !T
  %0 = refgraph.tensor_op "aten::add_.Tensor"(%y, %x, 1 : i64) mutates [0] : (!T, !T) -> !T
  refgraph.leave %z : !T
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">

// Written inputs are one group; an input that is alone overlaps nothing.
// CHECK-LABEL: refgraph.guards @group
// CHECK:         %[[X:.*]] = refgraph.get %{{.*}} arg(0, "x")
// CHECK-NEXT:    %[[Y:.*]] = refgraph.get %{{.*}} arg(1, "y")
// CHECK-NEXT:    refgraph.disjoint written(%[[X]], %[[Y]] : {{[^()]*}})
// CHECK-NEXT:    refgraph.accept
refgraph.trace @group {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") : !T
  %y = refgraph.get %e arg(1, "y") : !T
  %0 = refgraph.tensor_op "aten::zero_"(%x) mutates [0] : (!T) -> !T
  %1 = refgraph.tensor_op "aten::zero_"(%y) mutates [0] : (!T) -> !T
  refgraph.leave %0 : !T
}

// CHECK-LABEL: refgraph.guards @alone
// CHECK-NOT:     refgraph.disjoint
// CHECK:         refgraph.accept
refgraph.trace @alone {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") : !T
  %0 = refgraph.tensor_op "aten::zero_"(%x) mutates [0] : (!T) -> !T
  refgraph.leave %0 : !T
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!H = !refgraph.tensor<[4], [1], bf16, "cpu">

// To read a cast that autocast keeps may make it: that comes last. What is
// written must not overlap the weight, which is no input.
// CHECK-LABEL: refgraph.guards @casts
// CHECK:         %[[W:.*]] = refgraph.get %{{.*}} arg(0, "w")
// CHECK-NEXT:    %[[X:.*]] = refgraph.get %{{.*}} arg(1, "x")
// CHECK-NEXT:    refgraph.state {autocast_nested = true}
// CHECK-NEXT:    refgraph.disjoint written(%[[X]] : {{.*}}) read(%[[W]] : {{.*}})
// CHECK-NEXT:    %[[C:.*]] = refgraph.get %[[W]] kept_cast {requires_grad = true}
// CHECK-NEXT:    refgraph.accept(%[[X]], %[[C]] :
refgraph.trace @casts {
  %e = refgraph.external
  %w = refgraph.get %e arg(0, "w") {requires_grad = true} : !T
  %x = refgraph.get %e arg(1, "x") : !T
  refgraph.state {autocast_nested = true}
  %c = refgraph.get %w kept_cast {requires_grad = true} : !T -> !H
  %0 = refgraph.tensor_op "aten::add_.Tensor"(%x, %c, 1 : i64) mutates [0] : (!T, !H) -> !T
  refgraph.leave %0 : !T
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">

// Two paths to one tensor: one input, and a guard that they meet.
// CHECK-LABEL: refgraph.guards @same
// CHECK:         %[[X:.*]] = refgraph.get %{{.*}} arg(0, "x")
// CHECK-NEXT:    %[[Y:.*]] = refgraph.get %{{.*}} arg(1, "y")
// CHECK-NEXT:    refgraph.same %[[Y]], %[[X]]
// CHECK-NEXT:    refgraph.accept(%[[X]] :
refgraph.trace @same {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") : !T
  %y = refgraph.get %e arg(1, "y") : !T
  refgraph.same %y, %x : !T, !T
  %0 = refgraph.tensor_op "aten::add_.Tensor"(%x, %y, 1 : i64) mutates [0] : (!T, !T) -> !T
  refgraph.leave %0 : !T
}

// -----

// A written container must be another object than those that were read.
// CHECK-LABEL: refgraph.guards @containers
// CHECK:         %[[A:.*]] = refgraph.get %{{.*}} arg(0, "a")
// CHECK-NEXT:    %[[B:.*]] = refgraph.get %{{.*}} arg(1, "b")
// CHECK-NEXT:    %[[C:.*]] = refgraph.get %{{.*}} arg(2, "c")
// CHECK:         refgraph.length %[[B]] is 2
// CHECK-NEXT:    refgraph.length %[[C]] is 2
// CHECK-NEXT:    refgraph.unaliased written(%[[A]] : {{[^()]*}}) read(%[[B]] : {{[^()]*}})
// CHECK-NEXT:    refgraph.accept() keeps(%[[A]] :
refgraph.trace @containers {
  %e = refgraph.external
  %a = refgraph.get %e arg(0, "a") type(2) : !refgraph.obj<"list">
  %b = refgraph.get %e arg(1, "b") type(2) : !refgraph.obj<"list">
  %c = refgraph.get %e arg(2, "c") type(3) : !refgraph.obj<"dict">
  refgraph.length %b is 2 : !refgraph.obj<"list">
  refgraph.length %c is 2 : !refgraph.obj<"dict">
  %two = refgraph.constant 2
  refgraph.append %a, %two : !refgraph.obj<"list">, !refgraph.obj<"int">
  refgraph.leave %two : !refgraph.obj<"int">
}

// -----

// One check for all of them; two paths that are known to find one object are
// one of its members.
// CHECK-LABEL: refgraph.guards @several
// CHECK:         %[[A:.*]] = refgraph.get %{{.*}} arg(0, "a")
// CHECK-NEXT:    %[[B:.*]] = refgraph.get %{{.*}} arg(1, "b")
// CHECK-NEXT:    %[[C:.*]] = refgraph.get %{{.*}} arg(2, "c")
// CHECK-NEXT:    %[[D:.*]] = refgraph.get %{{.*}} arg(3, "d")
// CHECK-NEXT:    refgraph.same %[[D]], %[[A]]
// CHECK-NEXT:    refgraph.length %[[C]] is 2
// CHECK-NEXT:    refgraph.length %[[D]] is 2
// CHECK-NEXT:    refgraph.unaliased written(%[[A]], %[[B]] : {{[^()]*}}) read(%[[C]] : {{[^()]*}})
// CHECK-NEXT:    refgraph.accept() keeps(
refgraph.trace @several {
  %e = refgraph.external
  %a = refgraph.get %e arg(0, "a") type(2) : !refgraph.obj<"list">
  %b = refgraph.get %e arg(1, "b") type(2) : !refgraph.obj<"list">
  %c = refgraph.get %e arg(2, "c") type(2) : !refgraph.obj<"list">
  %d = refgraph.get %e arg(3, "d") type(2) : !refgraph.obj<"list">
  refgraph.same %d, %a : !refgraph.obj<"list">, !refgraph.obj<"list">
  refgraph.length %c is 2 : !refgraph.obj<"list">
  refgraph.length %d is 2 : !refgraph.obj<"list">
  %two = refgraph.constant 2
  refgraph.append %a, %two : !refgraph.obj<"list">, !refgraph.obj<"int">
  refgraph.append %b, %two : !refgraph.obj<"list">, !refgraph.obj<"int">
  refgraph.leave %two : !refgraph.obj<"int">
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">

// Storage offsets matter to as_strided, and where Python saw one.
// CHECK-LABEL: refgraph.guards @offsets
// CHECK:         arg(0, "x") {offset = 8 : i64, requires_grad = false}
// CHECK-NEXT:    arg(1, "y") {requires_grad = false}
// CHECK-NEXT:    arg(2, "z") {offset = 0 : i64}
refgraph.trace @offsets {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") {offset = 8 : i64, requires_grad = false} : !T
  %y = refgraph.get %e arg(1, "y") {offset = 8 : i64, requires_grad = false} : !T
  %z = refgraph.get %e arg(2, "z") : !T
  %v = refgraph.tensor_op "aten::view"(%z, [4 : i64]) aliases [0] : (!T) -> !T
  refgraph.offset %v is 0 : !T
  %0 = refgraph.tensor_op "aten::as_strided"(%x, [4 : i64], [1 : i64], 0 : i64) aliases [0] : (!T) -> !T
  %1 = refgraph.tensor_op "aten::add.Tensor"(%0, %y, 1 : i64) : (!T, !T) -> !T
  refgraph.leave %1 : !T
}
