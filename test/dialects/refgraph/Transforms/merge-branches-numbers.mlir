// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Numbers and sizes that differ between calls, in the segments of one call.
// RUN: pyjit-opt %s --refgraph-annotate --refgraph-merge-branches -split-input-file | FileCheck %s
// RUN: pyjit-opt %s --refgraph-annotate --refgraph-merge-branches --refgraph-lift-sizes --refgraph-lift -split-input-file | FileCheck %s --check-prefix=LIFT

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!B = !refgraph.tensor<[], [], i1, "cpu">
!I = !refgraph.obj<"int">
!F = !refgraph.obj<"float">
!O = !refgraph.obj<"tuple">

// The side was recorded in a call with another number: what it computed is
// computed anew. The comparison comes out as it did.
// CHECK-LABEL: refgraph.trace @another_call {
// CHECK:         %[[N:.*]] = refgraph.get %{{.*}} arg(1, "n") type(2) equals(3) {lift}
// CHECK:         refgraph.speculate %{{.*}} is true
// CHECK:         %[[M:.*]] = refgraph.arith "add"(%[[N]], %{{.*}}) is(4)
// CHECK:         refgraph.compare "lt"(%[[M]], %{{.*}}) is true
// CHECK:         refgraph.tensor_op "aten::mul.Tensor"(%{{.*}}, wrapped(%[[M]]))
// LIFT-LABEL:  refgraph.trace @another_call {
// LIFT:          arg(1, "n") type(2) {lift}
// LIFT:          refgraph.compare "lt"
refgraph.trace @another_call attributes {refgraph.segment = "prefix", refgraph.condition = 0 : i64} {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") type(1) : !T
  %n = refgraph.get %e arg(1, "n") type(2) equals(3) {lift} : !I
  %c = refgraph.tensor_op "aten::any"(%x) : (!T) -> !B
  %inner = refgraph.create "tuple" [%c, %x, %n] : (!B, !T, !I) -> !O
  %t = refgraph.create "tuple" [%inner] : (!O) -> !O
  refgraph.leave %t : !O
}
refgraph.trace @another_call_1 attributes {refgraph.segment = "true", refgraph.takes = array<i64: 1, 2>} {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") type(1) : !T
  %n = refgraph.get %e arg(1, "n") type(2) equals(7) {lift} : !I
  %one = refgraph.constant 1
  %ten = refgraph.constant 10
  %m = refgraph.arith "add"(%n, %one) is(8) : (!I, !I) -> !I
  refgraph.compare "lt"(%m, %ten) is true : !I, !I
  %r = refgraph.tensor_op "aten::mul.Tensor"(%x, wrapped(%m)) : (!T, !I) -> !T
  refgraph.leave %r : !T
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!B = !refgraph.tensor<[], [], i1, "cpu">
!I = !refgraph.obj<"int">
!F = !refgraph.obj<"float">
!O = !refgraph.obj<"tuple">

// A side that did not follow the number has it keep its value.
// CHECK-LABEL: refgraph.trace @kept {
// CHECK:         %[[M:.*]] = refgraph.arith "add"
// CHECK:         refgraph.compare "is"(%[[M]], %{{.*}}) is true
// LIFT-LABEL:  refgraph.trace @kept {
// LIFT:          refgraph.compare "is"
refgraph.trace @kept attributes {refgraph.segment = "prefix", refgraph.condition = 0 : i64} {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") type(1) : !T
  %n = refgraph.get %e arg(1, "n") type(2) equals(3) {lift} : !I
  %one = refgraph.constant 1
  %m = refgraph.arith "add"(%n, %one) is(4) : (!I, !I) -> !I
  %c = refgraph.tensor_op "aten::any"(%x) : (!T) -> !B
  %inner = refgraph.create "tuple" [%c, %x, %m] : (!B, !T, !I) -> !O
  %t = refgraph.create "tuple" [%inner] : (!O) -> !O
  refgraph.leave %t : !O
}
refgraph.trace @kept_1 attributes {refgraph.segment = "true", refgraph.takes = array<i64: 1, 2>} {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") type(1) : !T
  %m = refgraph.get %e arg(1, "m") equals(4) : !I
  %r = refgraph.tensor_op "aten::mul.Tensor"(%x, wrapped(4 : i64)) : (!T) -> !T
  refgraph.leave %r : !T
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!B = !refgraph.tensor<[], [], i1, "cpu">
!I = !refgraph.obj<"int">
!F = !refgraph.obj<"float">
!O = !refgraph.obj<"tuple">

// Numbers of both sides stand in front of the arms, and are one where they are
// computed alike.
// CHECK-LABEL: refgraph.trace @arms {
// CHECK:         %[[N:.*]] = refgraph.get %{{.*}} arg(1, "n") type(2) equals(3) {lift}
// CHECK:         %[[M:.*]] = refgraph.arith "mul"(%[[N]], %[[N]]) is(9)
// CHECK-NOT:     refgraph.arith
// CHECK:         %[[R:.*]] = refgraph.if
// CHECK-NEXT:      refgraph.tensor_op "aten::mul.Tensor"(%{{.*}}, wrapped(%[[N]]))
// CHECK:         } else {
// CHECK-NEXT:      refgraph.tensor_op "aten::abs"
// CHECK-NEXT:      refgraph.yield
// CHECK-NEXT:    }
// CHECK-NEXT:    %[[S:.*]] = refgraph.tensor_op "aten::add.Tensor"(%[[R]], wrapped(%[[M]]), 1 : i64)
// CHECK:         refgraph.create "tuple" [%[[S]], %[[M]]]
refgraph.trace @arms attributes {refgraph.segment = "prefix", refgraph.condition = 0 : i64} {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") type(1) : !T
  %n = refgraph.get %e arg(1, "n") type(2) equals(3) {lift} : !I
  %c = refgraph.tensor_op "aten::any"(%x) : (!T) -> !B
  %inner = refgraph.create "tuple" [%c, %x, %n] : (!B, !T, !I) -> !O
  %t = refgraph.create "tuple" [%inner] : (!O) -> !O
  refgraph.leave %t : !O
}
refgraph.trace @arms_1 attributes {refgraph.segment = "true", refgraph.takes = array<i64: 1, 2>} {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") type(1) : !T
  %n = refgraph.get %e arg(1, "n") type(2) equals(5) {lift} : !I
  %a = refgraph.tensor_op "aten::mul.Tensor"(%x, wrapped(%n)) : (!T, !I) -> !T
  %m = refgraph.arith "mul"(%n, %n) is(25) : (!I, !I) -> !I
  %s = refgraph.tensor_op "aten::add.Tensor"(%a, wrapped(%m), 1 : i64) : (!T, !I) -> !T
  %r = refgraph.create "tuple" [%s, %m] : (!T, !I) -> !O
  refgraph.leave %r : !O
}
refgraph.trace @arms_2 attributes {refgraph.segment = "false", refgraph.takes = array<i64: 1, 2>} {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") type(1) : !T
  %n = refgraph.get %e arg(1, "n") type(2) equals(6) {lift} : !I
  %a = refgraph.tensor_op "aten::abs"(%x) : (!T) -> !T
  %m = refgraph.arith "mul"(%n, %n) is(36) : (!I, !I) -> !I
  %s = refgraph.tensor_op "aten::add.Tensor"(%a, wrapped(%m), 1 : i64) : (!T, !I) -> !T
  %r = refgraph.create "tuple" [%s, %m] : (!T, !I) -> !O
  refgraph.leave %r : !O
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!B = !refgraph.tensor<[], [], i1, "cpu">
!I = !refgraph.obj<"int">
!F = !refgraph.obj<"float">
!O = !refgraph.obj<"tuple">

// What the prefix stores is what the side finds there.
// CHECK-LABEL: refgraph.trace @stored {
// CHECK:         %[[N:.*]] = refgraph.get %{{.*}} attr("n") type(2) equals(3) {lift}
// CHECK:         %[[M:.*]] = refgraph.arith "add"(%[[N]],
// CHECK:         refgraph.set %{{.*}} attr("n") = %[[M]]
// CHECK:         refgraph.speculate
// CHECK-NOT:     attr("n") type
// CHECK:         wrapped(%[[M]])
refgraph.trace @stored attributes {refgraph.segment = "prefix", refgraph.condition = 0 : i64} {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") type(1) : !T
  %s = refgraph.object 5 : !refgraph.obj<"S">
  %n = refgraph.get %s attr("n") type(2) equals(3) {lift} : !refgraph.obj<"S"> -> !I
  %one = refgraph.constant 1
  %m = refgraph.arith "add"(%n, %one) is(4) : (!I, !I) -> !I
  refgraph.set %s attr("n") = %m : !refgraph.obj<"S">, !I
  %c = refgraph.tensor_op "aten::any"(%x) : (!T) -> !B
  %inner = refgraph.create "tuple" [%c, %x, %s] : (!B, !T, !refgraph.obj<"S">) -> !O
  %t = refgraph.create "tuple" [%inner] : (!O) -> !O
  refgraph.leave %t : !O
}
refgraph.trace @stored_1 attributes {refgraph.segment = "true", refgraph.takes = array<i64: 1, 2>} {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") type(1) : !T
  %s = refgraph.object 5 : !refgraph.obj<"S">
  %k = refgraph.get %s type is(6) : !refgraph.obj<"S"> -> !refgraph.obj<"type">
  %n = refgraph.get %s attr("n") type(2) equals(8) {lift} : !refgraph.obj<"S"> -> !I
  %r = refgraph.tensor_op "aten::mul.Tensor"(%x, wrapped(%n)) : (!T, !I) -> !T
  refgraph.leave %r : !T
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!B = !refgraph.tensor<[], [], i1, "cpu">
!I = !refgraph.obj<"int">
!F = !refgraph.obj<"float">
!O = !refgraph.obj<"tuple">

// A size of the tensor that the prefix made: what it is follows from the input.
// CHECK-LABEL: refgraph.trace @sizes attributes {refgraph.follows_sizes} {
// CHECK:         arg(0, "x") type(1) {lift_sizes = array<i64: 0>
// CHECK:         refgraph.size
// CHECK-NOT:     lift_sizes
// LIFT-LABEL:  refgraph.trace @sizes attributes
// LIFT:          refgraph.tensor_op "aten::neg"(%{{.*}}) {{.*}} -> !refgraph.tensor<[s0], [1], f32, "cpu">
refgraph.trace @sizes attributes {refgraph.segment = "prefix", refgraph.condition = 0 : i64, refgraph.follows_sizes} {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") type(1) {lift_sizes = array<i64: 0>} : !T
  %c = refgraph.tensor_op "aten::any"(%x) : (!T) -> !B
  %inner = refgraph.create "tuple" [%c, %x] : (!B, !T) -> !O
  %t = refgraph.create "tuple" [%inner] : (!O) -> !O
  refgraph.leave %t : !O
}
refgraph.trace @sizes_1 attributes {refgraph.segment = "true", refgraph.takes = array<i64: 1>, refgraph.follows_sizes} {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") type(1) {lift_sizes = array<i64: 0>} : !T
  %s = refgraph.size %x[0] is(4) : !T
  %r = refgraph.tensor_op "aten::neg"(%x) : (!T) -> !T
  %u = refgraph.tensor_op "aten::mul.Tensor"(%r, wrapped(%s)) : (!T, !I) -> !T
  refgraph.leave %u : !T
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!B = !refgraph.tensor<[], [], i1, "cpu">
!I = !refgraph.obj<"int">
!F = !refgraph.obj<"float">
!O = !refgraph.obj<"tuple">

// A side whose recording wrote down no sizes takes the tensor as it was.
// CHECK-LABEL: refgraph.trace @kept_sizes attributes {refgraph.follows_sizes} {
// CHECK:         refgraph.speculate
// CHECK:         refgraph.layout %{{.*}} "a segment of the call that takes its sizes as they are"
// LIFT-LABEL:  refgraph.trace @kept_sizes attributes
// LIFT-NOT:      s0
// LIFT:          aten::neg
refgraph.trace @kept_sizes attributes {refgraph.segment = "prefix", refgraph.condition = 0 : i64, refgraph.follows_sizes} {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") type(1) {lift_sizes = array<i64: 0>} : !T
  %c = refgraph.tensor_op "aten::any"(%x) : (!T) -> !B
  %inner = refgraph.create "tuple" [%c, %x] : (!B, !T) -> !O
  %t = refgraph.create "tuple" [%inner] : (!O) -> !O
  refgraph.leave %t : !O
}
refgraph.trace @kept_sizes_1 attributes {refgraph.segment = "true", refgraph.takes = array<i64: 1>} {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") type(1) : !T
  %r = refgraph.tensor_op "aten::neg"(%x) : (!T) -> !T
  refgraph.leave %r : !T
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!B = !refgraph.tensor<[], [], i1, "cpu">
!I = !refgraph.obj<"int">
!F = !refgraph.obj<"float">
!O = !refgraph.obj<"tuple">

// A dict that the prefix made has no other keys.
// CHECK-LABEL: refgraph.trace @no_key {
// CHECK-NOT:     refgraph.absent
// CHECK:         refgraph.speculate
// CHECK-NOT:     refgraph.absent
// CHECK:         refgraph.leave
refgraph.trace @no_key attributes {refgraph.segment = "prefix", refgraph.condition = 0 : i64} {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") type(1) : !T
  %c = refgraph.tensor_op "aten::any"(%x) : (!T) -> !B
  %d = refgraph.create "dict" items {"a" = %x} : (!T) -> !refgraph.obj<"dict">
  %inner = refgraph.create "tuple" [%c, %x, %d] : (!B, !T, !refgraph.obj<"dict">) -> !O
  %t = refgraph.create "tuple" [%inner] : (!O) -> !O
  refgraph.leave %t : !O
}
refgraph.trace @no_key_1 attributes {refgraph.segment = "true", refgraph.takes = array<i64: 1, 2>} {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") type(1) : !T
  %d = refgraph.get %e arg(1, "d") : !refgraph.obj<"dict">
  refgraph.absent %d item("b") : !refgraph.obj<"dict">
  refgraph.leave %x : !T
}
