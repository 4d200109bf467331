// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Numbers and sizes of one segment that are not those of the next.
// RUN: pyjit-opt %s --refgraph-annotate --refgraph-merge-branches -split-input-file -verify-diagnostics

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!B = !refgraph.tensor<[], [], i1, "cpu">
!I = !refgraph.obj<"int">
!F = !refgraph.obj<"float">
!O = !refgraph.obj<"tuple">

// With the number of the prefix the comparison comes out in another way.
refgraph.trace @f attributes {refgraph.segment = "prefix", refgraph.condition = 0 : i64} {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") type(1) : !T
  %n = refgraph.get %e arg(1, "n") type(2) equals(30) {lift} : !I
  %c = refgraph.tensor_op "aten::any"(%x) : (!T) -> !B
  %inner = refgraph.create "tuple" [%c, %x, %n] : (!B, !T, !I) -> !O
  %t = refgraph.create "tuple" [%inner] : (!O) -> !O
  refgraph.leave %t : !O
}
refgraph.trace @f_1 attributes {refgraph.segment = "true", refgraph.takes = array<i64: 1, 2>} {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") type(1) : !T
  %n = refgraph.get %e arg(1, "n") type(2) equals(7) {lift} : !I
  %ten = refgraph.constant 10
  // expected-error @+1 {{comes out in another way with the numbers of the segment before}}
  refgraph.compare "lt"(%n, %ten) is true : !I, !I
  %r = refgraph.tensor_op "aten::neg"(%x) : (!T) -> !T
  refgraph.leave %r : !T
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!B = !refgraph.tensor<[], [], i1, "cpu">
!I = !refgraph.obj<"int">
!F = !refgraph.obj<"float">
!O = !refgraph.obj<"tuple">

// The side relies on another value than the prefix came to.
refgraph.trace @f attributes {refgraph.segment = "prefix", refgraph.condition = 0 : i64} {
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
refgraph.trace @f_1 attributes {refgraph.segment = "true", refgraph.takes = array<i64: 1, 2>} {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") type(1) : !T
  // expected-error @+1 {{was recorded with another value than the segment before leaves}}
  %m = refgraph.get %e arg(1, "m") equals(5) : !I
  %r = refgraph.tensor_op "aten::neg"(%x) : (!T) -> !T
  refgraph.leave %r : !T
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!B = !refgraph.tensor<[], [], i1, "cpu">
!I = !refgraph.obj<"int">
!F = !refgraph.obj<"float">
!O = !refgraph.obj<"tuple">

// A number of another kind.
refgraph.trace @f attributes {refgraph.segment = "prefix", refgraph.condition = 0 : i64} {
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
refgraph.trace @f_1 attributes {refgraph.segment = "true", refgraph.takes = array<i64: 1, 2>} {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") type(1) : !T
  // expected-error @+1 {{was recorded with another value than the segment before leaves}}
  %m = refgraph.get %e arg(1, "m") type(3) equals(4.0 : f64) {lift} : !F
  %r = refgraph.tensor_op "aten::mul.Tensor"(%x, wrapped(%m)) : (!T, !F) -> !T
  refgraph.leave %r : !T
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!B = !refgraph.tensor<[], [], i1, "cpu">
!I = !refgraph.obj<"int">
!F = !refgraph.obj<"float">
!O = !refgraph.obj<"tuple">

// Beyond what the guards compute with.
refgraph.trace @f attributes {refgraph.segment = "prefix", refgraph.condition = 0 : i64} {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") type(1) : !T
  %n = refgraph.get %e arg(1, "n") type(2) equals(9223372036854775807) {lift} : !I
  %c = refgraph.tensor_op "aten::any"(%x) : (!T) -> !B
  %inner = refgraph.create "tuple" [%c, %x, %n] : (!B, !T, !I) -> !O
  %t = refgraph.create "tuple" [%inner] : (!O) -> !O
  refgraph.leave %t : !O
}
refgraph.trace @f_1 attributes {refgraph.segment = "true", refgraph.takes = array<i64: 1, 2>} {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") type(1) : !T
  %n = refgraph.get %e arg(1, "n") type(2) equals(7) {lift} : !I
  %one = refgraph.constant 1
  // expected-error @+1 {{comes to another kind of number with those of the segment before}}
  %m = refgraph.arith "add"(%n, %one) is(8) : (!I, !I) -> !I
  %r = refgraph.tensor_op "aten::mul.Tensor"(%x, wrapped(%m)) : (!T, !I) -> !T
  refgraph.leave %r : !T
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!B = !refgraph.tensor<[], [], i1, "cpu">
!I = !refgraph.obj<"int">
!F = !refgraph.obj<"float">
!O = !refgraph.obj<"tuple">

// A number that the prefix did not follow has one value in all of its calls.
refgraph.trace @f attributes {refgraph.segment = "prefix", refgraph.condition = 0 : i64} {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") type(1) : !T
  %n = refgraph.get %e arg(1, "n") type(2) equals(3) : !I
  %c = refgraph.tensor_op "aten::any"(%x) : (!T) -> !B
  %inner = refgraph.create "tuple" [%c, %x, %n] : (!B, !T, !I) -> !O
  %t = refgraph.create "tuple" [%inner] : (!O) -> !O
  refgraph.leave %t : !O
}
refgraph.trace @f_1 attributes {refgraph.segment = "true", refgraph.takes = array<i64: 1, 2>} {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") type(1) : !T
  // expected-error @+1 {{a number that differs between calls, and did not when an earlier segment was recorded}}
  %n = refgraph.get %e arg(1, "n") type(2) equals(3) {lift} : !I
  %r = refgraph.tensor_op "aten::mul.Tensor"(%x, wrapped(%n)) : (!T, !I) -> !T
  refgraph.leave %r : !T
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!B = !refgraph.tensor<[], [], i1, "cpu">
!I = !refgraph.obj<"int">
!F = !refgraph.obj<"float">
!O = !refgraph.obj<"tuple">

// A size that the types were recorded with.
refgraph.trace @f attributes {refgraph.segment = "prefix", refgraph.condition = 0 : i64} {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") type(1) : !T
  %n = refgraph.get %e arg(1, "n") type(2) equals(2) {lift} : !I
  %c = refgraph.tensor_op "aten::any"(%x) : (!T) -> !B
  %inner = refgraph.create "tuple" [%c, %x, %n] : (!B, !T, !I) -> !O
  %t = refgraph.create "tuple" [%inner] : (!O) -> !O
  refgraph.leave %t : !O
}
refgraph.trace @f_1 attributes {refgraph.segment = "true", refgraph.takes = array<i64: 1, 2>} {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") type(1) : !T
  %n = refgraph.get %e arg(1, "n") type(2) equals(4) {lift} : !I
  // expected-error @+1 {{was recorded with another size than the segment before leaves}}
  %r = refgraph.tensor_op "aten::view"(%x, [size(%n)]) aliases [0] : (!T, !I) -> !T
  refgraph.leave %r : !T
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!B = !refgraph.tensor<[], [], i1, "cpu">
!I = !refgraph.obj<"int">
!F = !refgraph.obj<"float">
!O = !refgraph.obj<"tuple">

// An arm's size that is a number of the call.
refgraph.trace @f attributes {refgraph.segment = "prefix", refgraph.condition = 0 : i64} {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") type(1) : !T
  %n = refgraph.get %e arg(1, "n") type(2) equals(4) {lift} : !I
  %c = refgraph.tensor_op "aten::any"(%x) : (!T) -> !B
  %inner = refgraph.create "tuple" [%c, %x, %n] : (!B, !T, !I) -> !O
  %t = refgraph.create "tuple" [%inner] : (!O) -> !O
  refgraph.leave %t : !O
}
refgraph.trace @f_1 attributes {refgraph.segment = "true", refgraph.takes = array<i64: 1, 2>} {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") type(1) : !T
  %n = refgraph.get %e arg(1, "n") type(2) equals(4) {lift} : !I
  // expected-error @+1 {{a size that differs between calls, in one arm}}
  %r = refgraph.tensor_op "aten::view"(%x, [size(%n)]) aliases [0] : (!T, !I) -> !T
  refgraph.leave %r : !T
}
refgraph.trace @f_2 attributes {refgraph.segment = "false", refgraph.takes = array<i64: 1, 2>} {
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

// A number that is not the same on both sides.
refgraph.trace @f attributes {refgraph.segment = "prefix", refgraph.condition = 0 : i64} {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") type(1) : !T
  %n = refgraph.get %e arg(1, "n") type(2) equals(4) {lift} : !I
  %m = refgraph.get %e arg(2, "n") type(2) equals(5) {lift} : !I
  %c = refgraph.tensor_op "aten::any"(%x) : (!T) -> !B
  %inner = refgraph.create "tuple" [%c, %x, %n, %m] : (!B, !T, !I, !I) -> !O
  %t = refgraph.create "tuple" [%inner] : (!O) -> !O
  // expected-error @+1 {{stays a graph break: the arms leave different objects}}
  refgraph.leave %t : !O
}
refgraph.trace @f_1 attributes {refgraph.segment = "true", refgraph.takes = array<i64: 1, 2>} {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") type(1) : !T
  %n = refgraph.get %e arg(1, "n") type(2) equals(4) {lift} : !I
  %r = refgraph.create "tuple" [%n] : (!I) -> !O
  refgraph.leave %r : !O
}
refgraph.trace @f_2 attributes {refgraph.segment = "false", refgraph.takes = array<i64: 1, 3>} {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") type(1) : !T
  %n = refgraph.get %e arg(1, "n") type(2) equals(4) {lift} : !I
  %r = refgraph.create "tuple" [%n] : (!I) -> !O
  refgraph.leave %r : !O
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!B = !refgraph.tensor<[], [], i1, "cpu">
!I = !refgraph.obj<"int">
!F = !refgraph.obj<"float">
!O = !refgraph.obj<"tuple">

// A use that nobody followed, in a call with another number.
refgraph.trace @f attributes {refgraph.segment = "prefix", refgraph.condition = 0 : i64} {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") type(1) : !T
  %n = refgraph.get %e arg(1, "n") type(2) equals(3) {lift} : !I
  %c = refgraph.tensor_op "aten::any"(%x) : (!T) -> !B
  %inner = refgraph.create "tuple" [%c, %x, %n] : (!B, !T, !I) -> !O
  %t = refgraph.create "tuple" [%inner] : (!O) -> !O
  refgraph.leave %t : !O
}
refgraph.trace @f_1 attributes {refgraph.segment = "true", refgraph.takes = array<i64: 1, 2>} {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") type(1) : !T
  %n = refgraph.get %e arg(1, "n") type(2) equals(7) {lift} : !I
  %seven = refgraph.constant 7
  // expected-error @+1 {{a number that differs between calls keeps its value: it was printed}}
  refgraph.compare "is"(%n, %seven) is true {why = "it was printed"} : !I, !I
  refgraph.leave %x : !T
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!B = !refgraph.tensor<[], [], i1, "cpu">
!I = !refgraph.obj<"int">
!F = !refgraph.obj<"float">
!O = !refgraph.obj<"tuple">

// A key that may be equal to one of the dict's without looking like it.
refgraph.trace @f attributes {refgraph.segment = "prefix", refgraph.condition = 0 : i64} {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") type(1) : !T
  %c = refgraph.tensor_op "aten::any"(%x) : (!T) -> !B
  %d = refgraph.create "dict" items {1 = %x} : (!T) -> !refgraph.obj<"dict">
  %inner = refgraph.create "tuple" [%c, %x, %d] : (!B, !T, !refgraph.obj<"dict">) -> !O
  %t = refgraph.create "tuple" [%inner] : (!O) -> !O
  refgraph.leave %t : !O
}
refgraph.trace @f_1 attributes {refgraph.segment = "true", refgraph.takes = array<i64: 1, 2>} {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") type(1) : !T
  %d = refgraph.get %e arg(1, "d") : !refgraph.obj<"dict">
  // expected-error @+1 {{asks of an object that the segment before made}}
  refgraph.absent %d item(true) : !refgraph.obj<"dict">
  refgraph.leave %x : !T
}
