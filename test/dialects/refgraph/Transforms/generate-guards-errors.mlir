// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --refgraph-generate-guards -split-input-file -verify-diagnostics

refgraph.trace @contradiction {
  %e = refgraph.external
  %d = refgraph.get %e arg(0, "d") type(2) : !refgraph.obj<"dict">
  // expected-note@+1 {{earlier read}}
  %a = refgraph.get %d item("a") equals(1) : !refgraph.obj<"dict"> -> !refgraph.obj<"int">
  // expected-error@+1 {{finds another value than an earlier read of the same source}}
  %b = refgraph.get %d item("a") equals(2) : !refgraph.obj<"dict"> -> !refgraph.obj<"int">
  refgraph.leave %b : !refgraph.obj<"int">
}

// -----

refgraph.trace @created {
  %d = refgraph.create "dict" [] : () -> !refgraph.obj<"dict">
  // expected-error@+1 {{reads an object that the call made}}
  %a = refgraph.get %d item("a") equals(1) : !refgraph.obj<"dict"> -> !refgraph.obj<"int">
  refgraph.leave %a : !refgraph.obj<"int">
}

// -----

refgraph.trace @created_length {
  %d = refgraph.create "dict" [] : () -> !refgraph.obj<"dict">
  // expected-error@+1 {{is about an object that the call made}}
  refgraph.length %d is 0 : !refgraph.obj<"dict">
  refgraph.leave %d : !refgraph.obj<"dict">
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!H = !refgraph.tensor<[2, 2], [2, 1], f32, "cpu">
refgraph.trace @layout {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") : !T
  // expected-error@+1 {{changes the layout of an input in place}}
  %0 = refgraph.tensor_op "aten::resize_"(%x, [2 : i64, 2 : i64], none) mutates [0] : (!T) -> !H
  refgraph.leave %0 : !H
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!L = !refgraph.tensor<[8], [1], f32, "cpu">
refgraph.trace @outside {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") : !T
  %v = refgraph.tensor_op "aten::as_strided"(%x, [8 : i64], [1 : i64], 0 : i64) aliases [0] : (!T) -> !L
  // expected-error@+1 {{writes outside of the input that it is a view of}}
  %0 = refgraph.tensor_op "aten::relu_"(%v) mutates [0] : (!L) -> !L
  refgraph.leave %0 : !L
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
refgraph.trace @several {
  %e = refgraph.external
  // expected-note@+1 {{one of them}}
  %x = refgraph.get %e arg(0, "x") : !T
  // expected-note@+1 {{one of them}}
  %y = refgraph.get %e arg(1, "y") : !T
  %v = refgraph.tensor_op "mylib::either"(%x, %y) aliases [0, 1] : (!T, !T) -> !T
  // expected-error@+1 {{involves a tensor that may share storage with several inputs}}
  refgraph.leave %v : !T
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!I = !refgraph.tensor<[1], [1], f64, "cpu">
refgraph.trace @reinterpret {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") {offset = 1 : i64} : !T
  %v = refgraph.tensor_op "aten::view.dtype"(%x, 7 : i64) aliases [0] {offsets = array<i64: 1>} : (!T) -> !I
  // expected-error@+1 {{lets a view escape whose elements do not begin with those of its base}}
  refgraph.leave %v : !I
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!S = !refgraph.tensor<[s0], [1], f32, "cpu">
// What is taken out of a tensor lies inside of it, whatever the size.
refgraph.trace @inside {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") : !T
  %n = refgraph.get %e arg(1, "n") {lift} : !refgraph.obj<"int">
  refgraph.symbol 0 is %n : !refgraph.obj<"int">
  %v = refgraph.tensor_op "aten::slice.Tensor"(%x, 0 : i64, 0 : i64, affine_map<()[s0] -> (s0)>, 1 : i64) aliases [0] : (!T) -> !S
  %w = refgraph.tensor_op "aten::relu_"(%v) mutates [0] : (!S) -> !S
  refgraph.leave %x : !T
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!S = !refgraph.tensor<[s0], [1], f32, "cpu">
refgraph.trace @anywhere {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") : !T
  %n = refgraph.get %e arg(1, "n") {lift} : !refgraph.obj<"int">
  refgraph.symbol 0 is %n : !refgraph.obj<"int">
  %v = refgraph.tensor_op "aten::as_strided"(%x, [affine_map<()[s0] -> (s0)>], [1 : i64], 0 : i64) aliases [0] : (!T) -> !S
  // expected-error@+1 {{writes a part of an input that depends on its sizes}}
  %w = refgraph.tensor_op "aten::relu_"(%v) mutates [0] : (!S) -> !S
  refgraph.leave %x : !T
}

// -----

// Sizes of what the call computes are lifted first.
!T = !refgraph.tensor<[3], [1], f32, "cpu">
refgraph.trace @computed {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") : !T
  %y = refgraph.tensor_op "aten::abs"(%x) : (!T) -> !T
  // expected-error @+1 {{'refgraph.size' op is of a tensor that the call computes, where no guard can look}}
  %n = refgraph.size %y[0] is(3) : !T
  %z = refgraph.tensor_op "aten::mul.Tensor"(%y, wrapped(%n)) : (!T, !refgraph.obj<"int">) -> !T
  refgraph.leave %z : !T
}

// -----

refgraph.trace @outside {
  %e = refgraph.external
  // expected-error @+1 {{'refgraph.leave' op gives away what the call has neither read nor made}}
  refgraph.leave %e : !refgraph.obj<"external">
}
