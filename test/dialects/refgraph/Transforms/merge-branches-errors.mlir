// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Parts that are no one program: the graph break goes on answering.
// RUN: pyjit-opt %s --refgraph-annotate --refgraph-merge-branches -split-input-file -verify-diagnostics

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!H = !refgraph.tensor<[2], [1], f32, "cpu">
!B = !refgraph.tensor<[], [], i1, "cpu">

// Who calls could tell the input from a new tensor.
refgraph.trace @f attributes {refgraph.segment = "prefix", refgraph.condition = 0 : i64} {
  %e = refgraph.external
  refgraph.state {grad_mode = false}
  %x = refgraph.get %e arg(0, "x") {requires_grad = false} : !T
  %y = refgraph.tensor_op "aten::neg"(%x) : (!T) -> !T
  %c = refgraph.tensor_op "aten::any"(%x) : (!T) -> !B
  %inner = refgraph.create "tuple" [%c, %x, %y] : (!B, !T, !T) -> !refgraph.obj<"tuple">
  %t = refgraph.create "tuple" [%inner] : (!refgraph.obj<"tuple">) -> !refgraph.obj<"tuple">
  // expected-error @+1 {{stays a graph break: an arm leaves a tensor that lives outside of the call, or a view of one, and the other does not}}
  refgraph.leave %t : !refgraph.obj<"tuple">
}
refgraph.trace @f_1 attributes {refgraph.segment = "true", refgraph.takes = array<i64: 1, 2>} {
  %e = refgraph.external
  refgraph.state {grad_mode = false}
  %x = refgraph.get %e arg(0, "x") {requires_grad = false} : !T
  %a = refgraph.tensor_op "aten::abs"(%x) : (!T) -> !T
  refgraph.leave %a : !T
}
refgraph.trace @f_2 attributes {refgraph.segment = "false", refgraph.takes = array<i64: 1, 2>} {
  %e = refgraph.external
  refgraph.state {grad_mode = false}
  %x = refgraph.get %e arg(0, "x") {requires_grad = false} : !T
  refgraph.leave %x : !T
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!H = !refgraph.tensor<[2], [1], f32, "cpu">
!B = !refgraph.tensor<[], [], i1, "cpu">

// As well by its memory.
refgraph.trace @f attributes {refgraph.segment = "prefix", refgraph.condition = 0 : i64} {
  %e = refgraph.external
  refgraph.state {grad_mode = false}
  %x = refgraph.get %e arg(0, "x") {requires_grad = false} : !T
  %y = refgraph.tensor_op "aten::neg"(%x) : (!T) -> !T
  %c = refgraph.tensor_op "aten::any"(%x) : (!T) -> !B
  %inner = refgraph.create "tuple" [%c, %x, %y] : (!B, !T, !T) -> !refgraph.obj<"tuple">
  %t = refgraph.create "tuple" [%inner] : (!refgraph.obj<"tuple">) -> !refgraph.obj<"tuple">
  // expected-error @+1 {{stays a graph break: an arm leaves a tensor that lives outside of the call, or a view of one, and the other does not}}
  refgraph.leave %t : !refgraph.obj<"tuple">
}
refgraph.trace @f_1 attributes {refgraph.segment = "true", refgraph.takes = array<i64: 1, 2>} {
  %e = refgraph.external
  refgraph.state {grad_mode = false}
  %x = refgraph.get %e arg(0, "x") {requires_grad = false} : !T
  %v = refgraph.tensor_op "aten::slice.Tensor"(%x, 0 : i64, 0 : i64, 2 : i64, 1 : i64) aliases [0] : (!T) -> !H
  refgraph.leave %v : !H
}
refgraph.trace @f_2 attributes {refgraph.segment = "false", refgraph.takes = array<i64: 1, 2>} {
  %e = refgraph.external
  refgraph.state {grad_mode = false}
  %x = refgraph.get %e arg(0, "x") {requires_grad = false} : !T
  %a = refgraph.tensor_op "aten::abs"(%x) : (!T) -> !T
  %v = refgraph.tensor_op "aten::slice.Tensor"(%a, 0 : i64, 0 : i64, 2 : i64, 1 : i64) aliases [0] : (!T) -> !H
  %w = refgraph.tensor_op "aten::neg"(%v) : (!H) -> !H
  refgraph.leave %w : !H
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!H = !refgraph.tensor<[2], [1], f32, "cpu">
!B = !refgraph.tensor<[], [], i1, "cpu">

// One tensor under two names, or two tensors.
refgraph.trace @f attributes {refgraph.segment = "prefix", refgraph.condition = 0 : i64} {
  %e = refgraph.external
  refgraph.state {grad_mode = false}
  %x = refgraph.get %e arg(0, "x") {requires_grad = false} : !T
  %y = refgraph.tensor_op "aten::neg"(%x) : (!T) -> !T
  %c = refgraph.tensor_op "aten::any"(%x) : (!T) -> !B
  %inner = refgraph.create "tuple" [%c, %x, %y] : (!B, !T, !T) -> !refgraph.obj<"tuple">
  %t = refgraph.create "tuple" [%inner] : (!refgraph.obj<"tuple">) -> !refgraph.obj<"tuple">
  // expected-error @+1 {{stays a graph break: a tensor is one in one arm and two in the other}}
  refgraph.leave %t : !refgraph.obj<"tuple">
}
refgraph.trace @f_1 attributes {refgraph.segment = "true", refgraph.takes = array<i64: 1, 2>} {
  %e = refgraph.external
  refgraph.state {grad_mode = false}
  %x = refgraph.get %e arg(0, "x") {requires_grad = false} : !T
  %y = refgraph.get %e arg(1, "y") : !T
  %t = refgraph.create "tuple" [%y, %y] : (!T, !T) -> !refgraph.obj<"tuple">
  refgraph.leave %t : !refgraph.obj<"tuple">
}
refgraph.trace @f_2 attributes {refgraph.segment = "false", refgraph.takes = array<i64: 1, 2>} {
  %e = refgraph.external
  refgraph.state {grad_mode = false}
  %x = refgraph.get %e arg(0, "x") {requires_grad = false} : !T
  %y = refgraph.get %e arg(1, "y") : !T
  %a = refgraph.tensor_op "aten::abs"(%y) : (!T) -> !T
  %t = refgraph.create "tuple" [%y, %a] : (!T, !T) -> !refgraph.obj<"tuple">
  refgraph.leave %t : !refgraph.obj<"tuple">
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!H = !refgraph.tensor<[2], [1], f32, "cpu">
!B = !refgraph.tensor<[], [], i1, "cpu">

// A view of what is also left, or a tensor of its own.
refgraph.trace @f attributes {refgraph.segment = "prefix", refgraph.condition = 0 : i64} {
  %e = refgraph.external
  refgraph.state {grad_mode = false}
  %x = refgraph.get %e arg(0, "x") {requires_grad = false} : !T
  %y = refgraph.tensor_op "aten::neg"(%x) : (!T) -> !T
  %c = refgraph.tensor_op "aten::any"(%x) : (!T) -> !B
  %inner = refgraph.create "tuple" [%c, %x, %y] : (!B, !T, !T) -> !refgraph.obj<"tuple">
  %t = refgraph.create "tuple" [%inner] : (!refgraph.obj<"tuple">) -> !refgraph.obj<"tuple">
  // expected-error @+1 {{stays a graph break: an arm leaves a tensor whose memory can be seen by another way}}
  refgraph.leave %t : !refgraph.obj<"tuple">
}
refgraph.trace @f_1 attributes {refgraph.segment = "true", refgraph.takes = array<i64: 1, 2>} {
  %e = refgraph.external
  refgraph.state {grad_mode = false}
  %x = refgraph.get %e arg(0, "x") {requires_grad = false} : !T
  %y = refgraph.get %e arg(1, "y") : !T
  %v = refgraph.tensor_op "aten::view"(%y, [4 : i64]) aliases [0] : (!T) -> !T
  %t = refgraph.create "tuple" [%y, %v] : (!T, !T) -> !refgraph.obj<"tuple">
  refgraph.leave %t : !refgraph.obj<"tuple">
}
refgraph.trace @f_2 attributes {refgraph.segment = "false", refgraph.takes = array<i64: 1, 2>} {
  %e = refgraph.external
  refgraph.state {grad_mode = false}
  %x = refgraph.get %e arg(0, "x") {requires_grad = false} : !T
  %y = refgraph.get %e arg(1, "y") : !T
  %a = refgraph.tensor_op "aten::abs"(%y) : (!T) -> !T
  %t = refgraph.create "tuple" [%y, %a] : (!T, !T) -> !refgraph.obj<"tuple">
  refgraph.leave %t : !refgraph.obj<"tuple">
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!H = !refgraph.tensor<[2], [1], f32, "cpu">
!B = !refgraph.tensor<[], [], i1, "cpu">

// Other shapes.
refgraph.trace @f attributes {refgraph.segment = "prefix", refgraph.condition = 0 : i64} {
  %e = refgraph.external
  refgraph.state {grad_mode = false}
  %x = refgraph.get %e arg(0, "x") {requires_grad = false} : !T
  %y = refgraph.tensor_op "aten::neg"(%x) : (!T) -> !T
  %c = refgraph.tensor_op "aten::any"(%x) : (!T) -> !B
  %inner = refgraph.create "tuple" [%c, %x, %y] : (!B, !T, !T) -> !refgraph.obj<"tuple">
  %t = refgraph.create "tuple" [%inner] : (!refgraph.obj<"tuple">) -> !refgraph.obj<"tuple">
  // expected-error @+1 {{stays a graph break: the arms leave !refgraph.tensor<[2], [1], f32, "cpu"> and}}
  refgraph.leave %t : !refgraph.obj<"tuple">
}
refgraph.trace @f_1 attributes {refgraph.segment = "true", refgraph.takes = array<i64: 1, 2>} {
  %e = refgraph.external
  refgraph.state {grad_mode = false}
  %x = refgraph.get %e arg(0, "x") {requires_grad = false} : !T
  %a = refgraph.tensor_op "aten::abs"(%x) : (!T) -> !T
  %v = refgraph.tensor_op "aten::slice.Tensor"(%a, 0 : i64, 0 : i64, 2 : i64, 1 : i64) aliases [0] : (!T) -> !H
  refgraph.leave %v : !H
}
refgraph.trace @f_2 attributes {refgraph.segment = "false", refgraph.takes = array<i64: 1, 2>} {
  %e = refgraph.external
  refgraph.state {grad_mode = false}
  %x = refgraph.get %e arg(0, "x") {requires_grad = false} : !T
  %a = refgraph.tensor_op "aten::abs"(%x) : (!T) -> !T
  refgraph.leave %a : !T
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!H = !refgraph.tensor<[2], [1], f32, "cpu">
!B = !refgraph.tensor<[], [], i1, "cpu">

// Other objects.
refgraph.trace @f attributes {refgraph.segment = "prefix", refgraph.condition = 0 : i64} {
  %e = refgraph.external
  refgraph.state {grad_mode = false}
  %x = refgraph.get %e arg(0, "x") {requires_grad = false} : !T
  %y = refgraph.tensor_op "aten::neg"(%x) : (!T) -> !T
  %c = refgraph.tensor_op "aten::any"(%x) : (!T) -> !B
  %inner = refgraph.create "tuple" [%c, %x, %y] : (!B, !T, !T) -> !refgraph.obj<"tuple">
  %t = refgraph.create "tuple" [%inner] : (!refgraph.obj<"tuple">) -> !refgraph.obj<"tuple">
  // expected-error @+1 {{stays a graph break: the arms leave different objects}}
  refgraph.leave %t : !refgraph.obj<"tuple">
}
refgraph.trace @f_1 attributes {refgraph.segment = "true", refgraph.takes = array<i64: 1, 2>} {
  %e = refgraph.external
  refgraph.state {grad_mode = false}
  %x = refgraph.get %e arg(0, "x") {requires_grad = false} : !T
  %n = refgraph.constant 1
  refgraph.leave %n : !refgraph.obj<"int">
}
refgraph.trace @f_2 attributes {refgraph.segment = "false", refgraph.takes = array<i64: 1, 2>} {
  %e = refgraph.external
  refgraph.state {grad_mode = false}
  %x = refgraph.get %e arg(0, "x") {requires_grad = false} : !T
  %n = refgraph.constant 2
  refgraph.leave %n : !refgraph.obj<"int">
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!H = !refgraph.tensor<[2], [1], f32, "cpu">
!B = !refgraph.tensor<[], [], i1, "cpu">

// Random numbers.
refgraph.trace @f attributes {refgraph.segment = "prefix", refgraph.condition = 0 : i64} {
  %e = refgraph.external
  refgraph.state {grad_mode = false}
  %x = refgraph.get %e arg(0, "x") {requires_grad = false} : !T
  %y = refgraph.tensor_op "aten::neg"(%x) : (!T) -> !T
  %c = refgraph.tensor_op "aten::any"(%x) : (!T) -> !B
  %inner = refgraph.create "tuple" [%c, %x, %y] : (!B, !T, !T) -> !refgraph.obj<"tuple">
  %t = refgraph.create "tuple" [%inner] : (!refgraph.obj<"tuple">) -> !refgraph.obj<"tuple">
  // expected-error @+1 {{stays a graph break: 'aten::rand' of one arm has effects beyond its results}}
  refgraph.leave %t : !refgraph.obj<"tuple">
}
refgraph.trace @f_1 attributes {refgraph.segment = "true", refgraph.takes = array<i64: 1, 2>} {
  %e = refgraph.external
  refgraph.state {grad_mode = false}
  %x = refgraph.get %e arg(0, "x") {requires_grad = false} : !T
  %n = refgraph.tensor_op "aten::rand"([4 : i64], none, none, none, none) : () -> !T
  refgraph.leave %n : !T
}
refgraph.trace @f_2 attributes {refgraph.segment = "false", refgraph.takes = array<i64: 1, 2>} {
  %e = refgraph.external
  refgraph.state {grad_mode = false}
  %x = refgraph.get %e arg(0, "x") {requires_grad = false} : !T
  %a = refgraph.tensor_op "aten::abs"(%x) : (!T) -> !T
  refgraph.leave %a : !T
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!H = !refgraph.tensor<[2], [1], f32, "cpu">
!B = !refgraph.tensor<[], [], i1, "cpu">

// An operator that nobody knows.
refgraph.trace @f attributes {refgraph.segment = "prefix", refgraph.condition = 0 : i64} {
  %e = refgraph.external
  refgraph.state {grad_mode = false}
  %x = refgraph.get %e arg(0, "x") {requires_grad = false} : !T
  %y = refgraph.tensor_op "aten::neg"(%x) : (!T) -> !T
  %c = refgraph.tensor_op "aten::any"(%x) : (!T) -> !B
  %inner = refgraph.create "tuple" [%c, %x, %y] : (!B, !T, !T) -> !refgraph.obj<"tuple">
  %t = refgraph.create "tuple" [%inner] : (!refgraph.obj<"tuple">) -> !refgraph.obj<"tuple">
  // expected-error @+1 {{stays a graph break: 'mylib::thing' of one arm has effects beyond its results}}
  refgraph.leave %t : !refgraph.obj<"tuple">
}
refgraph.trace @f_1 attributes {refgraph.segment = "true", refgraph.takes = array<i64: 1, 2>} {
  %e = refgraph.external
  refgraph.state {grad_mode = false}
  %x = refgraph.get %e arg(0, "x") {requires_grad = false} : !T
  %n = refgraph.tensor_op "mylib::thing"(%x) : (!T) -> !T
  refgraph.leave %n : !T
}
refgraph.trace @f_2 attributes {refgraph.segment = "false", refgraph.takes = array<i64: 1, 2>} {
  %e = refgraph.external
  refgraph.state {grad_mode = false}
  %x = refgraph.get %e arg(0, "x") {requires_grad = false} : !T
  %a = refgraph.tensor_op "aten::abs"(%x) : (!T) -> !T
  refgraph.leave %a : !T
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!H = !refgraph.tensor<[2], [1], f32, "cpu">
!B = !refgraph.tensor<[], [], i1, "cpu">

// A write on one side.
refgraph.trace @f attributes {refgraph.segment = "prefix", refgraph.condition = 0 : i64} {
  %e = refgraph.external
  refgraph.state {grad_mode = false}
  %x = refgraph.get %e arg(0, "x") {requires_grad = false} : !T
  %y = refgraph.tensor_op "aten::neg"(%x) : (!T) -> !T
  %c = refgraph.tensor_op "aten::any"(%x) : (!T) -> !B
  %inner = refgraph.create "tuple" [%c, %x, %y] : (!B, !T, !T) -> !refgraph.obj<"tuple">
  %t = refgraph.create "tuple" [%inner] : (!refgraph.obj<"tuple">) -> !refgraph.obj<"tuple">
  // expected-error @+1 {{stays a graph break: the arms write to objects in different ways}}
  refgraph.leave %t : !refgraph.obj<"tuple">
}
refgraph.trace @f_1 attributes {refgraph.segment = "true", refgraph.takes = array<i64: 1, 2>} {
  %e = refgraph.external
  refgraph.state {grad_mode = false}
  %x = refgraph.get %e arg(0, "x") {requires_grad = false} : !T
  %g = refgraph.object 0 : !refgraph.obj<"dict">
  refgraph.set %g item("n") = %x : !refgraph.obj<"dict">, !T
  %a = refgraph.tensor_op "aten::abs"(%x) : (!T) -> !T
  refgraph.leave %a : !T
}
refgraph.trace @f_2 attributes {refgraph.segment = "false", refgraph.takes = array<i64: 1, 2>} {
  %e = refgraph.external
  refgraph.state {grad_mode = false}
  %x = refgraph.get %e arg(0, "x") {requires_grad = false} : !T
  %a = refgraph.tensor_op "aten::abs"(%x) : (!T) -> !T
  refgraph.leave %a : !T
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!H = !refgraph.tensor<[2], [1], f32, "cpu">
!B = !refgraph.tensor<[], [], i1, "cpu">

// A grad mode that one side leaves.
refgraph.trace @f attributes {refgraph.segment = "prefix", refgraph.condition = 0 : i64} {
  %e = refgraph.external
  refgraph.state {grad_mode = false}
  %x = refgraph.get %e arg(0, "x") {requires_grad = false} : !T
  %y = refgraph.tensor_op "aten::neg"(%x) : (!T) -> !T
  %c = refgraph.tensor_op "aten::any"(%x) : (!T) -> !B
  %inner = refgraph.create "tuple" [%c, %x, %y] : (!B, !T, !T) -> !refgraph.obj<"tuple">
  %t = refgraph.create "tuple" [%inner] : (!refgraph.obj<"tuple">) -> !refgraph.obj<"tuple">
  // expected-error @+1 {{stays a graph break: the arms leave different states of the thread}}
  refgraph.leave %t : !refgraph.obj<"tuple">
}
refgraph.trace @f_1 attributes {refgraph.segment = "true", refgraph.leaves_grad_mode = true, refgraph.takes = array<i64: 1, 2>} {
  %e = refgraph.external
  refgraph.state {grad_mode = false}
  %x = refgraph.get %e arg(0, "x") {requires_grad = false} : !T
  %a = refgraph.tensor_op "aten::abs"(%x) : (!T) -> !T
  refgraph.leave %a : !T
}
refgraph.trace @f_2 attributes {refgraph.segment = "false", refgraph.takes = array<i64: 1, 2>} {
  %e = refgraph.external
  refgraph.state {grad_mode = false}
  %x = refgraph.get %e arg(0, "x") {requires_grad = false} : !T
  %a = refgraph.tensor_op "aten::abs"(%x) : (!T) -> !T
  refgraph.leave %a : !T
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!H = !refgraph.tensor<[2], [1], f32, "cpu">
!B = !refgraph.tensor<[], [], i1, "cpu">

// An arm that was recorded with another tensor.
refgraph.trace @f attributes {refgraph.segment = "prefix", refgraph.condition = 0 : i64} {
  %e = refgraph.external
  refgraph.state {grad_mode = false}
  %x = refgraph.get %e arg(0, "x") {requires_grad = false} : !T
  %y = refgraph.tensor_op "aten::neg"(%x) : (!T) -> !T
  %c = refgraph.tensor_op "aten::any"(%x) : (!T) -> !B
  %inner = refgraph.create "tuple" [%c, %x, %y] : (!B, !T, !T) -> !refgraph.obj<"tuple">
  %t = refgraph.create "tuple" [%inner] : (!refgraph.obj<"tuple">) -> !refgraph.obj<"tuple">
  refgraph.leave %t : !refgraph.obj<"tuple">
}
refgraph.trace @f_1 attributes {refgraph.segment = "true", refgraph.takes = array<i64: 1, 2>} {
  %e = refgraph.external
  refgraph.state {grad_mode = false}
  %x = refgraph.get %e arg(0, "x") {requires_grad = false} : !T
  // expected-error @+1 {{was recorded with another value than the segment before leaves}}
  %v = refgraph.get %e arg(1, "y") : !H
  %a = refgraph.tensor_op "aten::abs"(%x) : (!T) -> !T
  refgraph.leave %a : !T
}
refgraph.trace @f_2 attributes {refgraph.segment = "false", refgraph.takes = array<i64: 1, 2>} {
  %e = refgraph.external
  refgraph.state {grad_mode = false}
  %x = refgraph.get %e arg(0, "x") {requires_grad = false} : !T
  %a = refgraph.tensor_op "aten::abs"(%x) : (!T) -> !T
  refgraph.leave %a : !T
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!H = !refgraph.tensor<[2], [1], f32, "cpu">
!B = !refgraph.tensor<[], [], i1, "cpu">

// Or with a parameter, which this is not.
refgraph.trace @f attributes {refgraph.segment = "prefix", refgraph.condition = 0 : i64} {
  %e = refgraph.external
  refgraph.state {grad_mode = false}
  %x = refgraph.get %e arg(0, "x") {requires_grad = false} : !T
  %y = refgraph.tensor_op "aten::neg"(%x) : (!T) -> !T
  %c = refgraph.tensor_op "aten::any"(%x) : (!T) -> !B
  %inner = refgraph.create "tuple" [%c, %x, %y] : (!B, !T, !T) -> !refgraph.obj<"tuple">
  %t = refgraph.create "tuple" [%inner] : (!refgraph.obj<"tuple">) -> !refgraph.obj<"tuple">
  refgraph.leave %t : !refgraph.obj<"tuple">
}
refgraph.trace @f_1 attributes {refgraph.segment = "true", refgraph.takes = array<i64: 1, 2>} {
  %e = refgraph.external
  refgraph.state {grad_mode = false}
  %x = refgraph.get %e arg(0, "x") {requires_grad = false} : !T
  // expected-error @+1 {{was recorded with another value than the segment before leaves}}
  %v = refgraph.get %e arg(1, "y") type(4) {requires_grad = false, param} : !T
  %a = refgraph.tensor_op "aten::abs"(%x) : (!T) -> !T
  refgraph.leave %a : !T
}
refgraph.trace @f_2 attributes {refgraph.segment = "false", refgraph.takes = array<i64: 1, 2>} {
  %e = refgraph.external
  refgraph.state {grad_mode = false}
  %x = refgraph.get %e arg(0, "x") {requires_grad = false} : !T
  %a = refgraph.tensor_op "aten::abs"(%x) : (!T) -> !T
  refgraph.leave %a : !T
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!H = !refgraph.tensor<[2], [1], f32, "cpu">
!B = !refgraph.tensor<[], [], i1, "cpu">

// Arms that were recorded in different worlds.
refgraph.trace @f attributes {refgraph.segment = "prefix", refgraph.condition = 0 : i64} {
  %e = refgraph.external
  refgraph.state {grad_mode = false}
  %x = refgraph.get %e arg(0, "x") {requires_grad = false} : !T
  %y = refgraph.tensor_op "aten::neg"(%x) : (!T) -> !T
  %c = refgraph.tensor_op "aten::any"(%x) : (!T) -> !B
  %inner = refgraph.create "tuple" [%c, %x, %y] : (!B, !T, !T) -> !refgraph.obj<"tuple">
  %t = refgraph.create "tuple" [%inner] : (!refgraph.obj<"tuple">) -> !refgraph.obj<"tuple">
  refgraph.leave %t : !refgraph.obj<"tuple">
}
refgraph.trace @f_1 attributes {refgraph.segment = "true", refgraph.takes = array<i64: 1, 2>} {
  %e = refgraph.external
  refgraph.state {grad_mode = false}
  %x = refgraph.get %e arg(0, "x") {requires_grad = false} : !T
  %g = refgraph.object 0 : !refgraph.obj<"dict">
  // expected-note @+1 {{read here}}
  %n = refgraph.get %g item("n") equals(1) : !refgraph.obj<"dict"> -> !refgraph.obj<"int">
  %a = refgraph.tensor_op "aten::abs"(%x) : (!T) -> !T
  refgraph.leave %a : !T
}
refgraph.trace @f_2 attributes {refgraph.segment = "false", refgraph.takes = array<i64: 1, 2>} {
  %e = refgraph.external
  refgraph.state {grad_mode = false}
  %x = refgraph.get %e arg(0, "x") {requires_grad = false} : !T
  %g = refgraph.object 0 : !refgraph.obj<"dict">
  // expected-error @+1 {{demands another equals than an earlier segment}}
  %n = refgraph.get %g item("n") equals(2) : !refgraph.obj<"dict"> -> !refgraph.obj<"int">
  %a = refgraph.tensor_op "aten::abs"(%x) : (!T) -> !T
  refgraph.leave %a : !T
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!H = !refgraph.tensor<[2], [1], f32, "cpu">
!B = !refgraph.tensor<[], [], i1, "cpu">

// What the prefix takes away is not there before the call.
refgraph.trace @f attributes {refgraph.segment = "prefix", refgraph.condition = 0 : i64} {
  %e = refgraph.external
  refgraph.state {grad_mode = false}
  %x = refgraph.get %e arg(0, "x") {requires_grad = false} : !T
  %y = refgraph.tensor_op "aten::neg"(%x) : (!T) -> !T
  %c = refgraph.tensor_op "aten::any"(%x) : (!T) -> !B
  %g = refgraph.object 0 : !refgraph.obj<"dict">
  refgraph.delete %g item("n") : !refgraph.obj<"dict">
  %inner = refgraph.create "tuple" [%c, %x, %y] : (!B, !T, !T) -> !refgraph.obj<"tuple">
  %t = refgraph.create "tuple" [%inner] : (!refgraph.obj<"tuple">) -> !refgraph.obj<"tuple">
  refgraph.leave %t : !refgraph.obj<"tuple">
}
refgraph.trace @f_1 attributes {refgraph.segment = "true", refgraph.takes = array<i64: 1, 2>} {
  %e = refgraph.external
  refgraph.state {grad_mode = false}
  %x = refgraph.get %e arg(0, "x") {requires_grad = false} : !T
  %g = refgraph.object 0 : !refgraph.obj<"dict">
  // expected-error @+1 {{reads an object that an earlier segment writes to}}
  %n = refgraph.get %g item("n") equals(1) : !refgraph.obj<"dict"> -> !refgraph.obj<"int">
  %a = refgraph.tensor_op "aten::abs"(%x) : (!T) -> !T
  refgraph.leave %a : !T
}
refgraph.trace @f_2 attributes {refgraph.segment = "false", refgraph.takes = array<i64: 1, 2>} {
  %e = refgraph.external
  refgraph.state {grad_mode = false}
  %x = refgraph.get %e arg(0, "x") {requires_grad = false} : !T
  %a = refgraph.tensor_op "aten::abs"(%x) : (!T) -> !T
  refgraph.leave %a : !T
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!H = !refgraph.tensor<[2], [1], f32, "cpu">
!B = !refgraph.tensor<[], [], i1, "cpu">

// Grad mode was on.
refgraph.trace @f attributes {refgraph.segment = "prefix", refgraph.condition = 0 : i64} {
  %e = refgraph.external
  refgraph.state {grad_mode = false}
  %x = refgraph.get %e arg(0, "x") {requires_grad = false} : !T
  %y = refgraph.tensor_op "aten::neg"(%x) : (!T) -> !T
  %c = refgraph.tensor_op "aten::any"(%x) : (!T) -> !B
  %inner = refgraph.create "tuple" [%c, %x, %y] : (!B, !T, !T) -> !refgraph.obj<"tuple">
  %t = refgraph.create "tuple" [%inner] : (!refgraph.obj<"tuple">) -> !refgraph.obj<"tuple">
  refgraph.leave %t : !refgraph.obj<"tuple">
}
refgraph.trace @f_1 attributes {refgraph.segment = "true", refgraph.takes = array<i64: 1, 2>} {
  %e = refgraph.external
  // expected-error @+1 {{begins with another state of the thread}}
  refgraph.state {grad_mode = true}
  %x = refgraph.get %e arg(0, "x") {requires_grad = false} : !T
  %a = refgraph.tensor_op "aten::abs"(%x) : (!T) -> !T
  refgraph.leave %a : !T
}
refgraph.trace @f_2 attributes {refgraph.segment = "false", refgraph.takes = array<i64: 1, 2>} {
  %e = refgraph.external
  refgraph.state {grad_mode = false}
  %x = refgraph.get %e arg(0, "x") {requires_grad = false} : !T
  %a = refgraph.tensor_op "aten::abs"(%x) : (!T) -> !T
  refgraph.leave %a : !T
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!H = !refgraph.tensor<[2], [1], f32, "cpu">
!B = !refgraph.tensor<[], [], i1, "cpu">

// A list of the prefix is shorter.
refgraph.trace @f attributes {refgraph.segment = "prefix", refgraph.condition = 0 : i64} {
  %e = refgraph.external
  refgraph.state {grad_mode = false}
  %x = refgraph.get %e arg(0, "x") {requires_grad = false} : !T
  %y = refgraph.tensor_op "aten::neg"(%x) : (!T) -> !T
  %c = refgraph.tensor_op "aten::any"(%x) : (!T) -> !B
  %l = refgraph.create "list" [%y] : (!T) -> !refgraph.obj<"list">
  %inner = refgraph.create "tuple" [%c, %x, %l] : (!B, !T, !refgraph.obj<"list">) -> !refgraph.obj<"tuple">
  %t = refgraph.create "tuple" [%inner] : (!refgraph.obj<"tuple">) -> !refgraph.obj<"tuple">
  refgraph.leave %t : !refgraph.obj<"tuple">
}
refgraph.trace @f_1 attributes {refgraph.segment = "true", refgraph.takes = array<i64: 1, 2>} {
  %e = refgraph.external
  refgraph.state {grad_mode = false}
  %x = refgraph.get %e arg(0, "x") {requires_grad = false} : !T
  %l = refgraph.get %e arg(1, "l") : !refgraph.obj<"list">
  // expected-error @+1 {{asks of an object that the segment before made}}
  refgraph.length %l is 2 : !refgraph.obj<"list">
  %a = refgraph.tensor_op "aten::abs"(%x) : (!T) -> !T
  refgraph.leave %a : !T
}
refgraph.trace @f_2 attributes {refgraph.segment = "false", refgraph.takes = array<i64: 1, 2>} {
  %e = refgraph.external
  refgraph.state {grad_mode = false}
  %x = refgraph.get %e arg(0, "x") {requires_grad = false} : !T
  %a = refgraph.tensor_op "aten::abs"(%x) : (!T) -> !T
  refgraph.leave %a : !T
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!H = !refgraph.tensor<[2], [1], f32, "cpu">
!B = !refgraph.tensor<[], [], i1, "cpu">

// Two arguments that were one tensor.
refgraph.trace @f attributes {refgraph.segment = "prefix", refgraph.condition = 0 : i64} {
  %e = refgraph.external
  refgraph.state {grad_mode = false}
  %x = refgraph.get %e arg(0, "x") {requires_grad = false} : !T
  %y = refgraph.tensor_op "aten::neg"(%x) : (!T) -> !T
  %c = refgraph.tensor_op "aten::any"(%x) : (!T) -> !B
  %inner = refgraph.create "tuple" [%c, %x, %y] : (!B, !T, !T) -> !refgraph.obj<"tuple">
  %t = refgraph.create "tuple" [%inner] : (!refgraph.obj<"tuple">) -> !refgraph.obj<"tuple">
  refgraph.leave %t : !refgraph.obj<"tuple">
}
refgraph.trace @f_1 attributes {refgraph.segment = "true", refgraph.takes = array<i64: 1, 2>} {
  %e = refgraph.external
  refgraph.state {grad_mode = false}
  %x = refgraph.get %e arg(0, "x") {requires_grad = false} : !T
  %y = refgraph.get %e arg(1, "y") : !T
  // expected-error @+1 {{does not hold of what the segment before leaves}}
  refgraph.same %x, %y : !T, !T
  %a = refgraph.tensor_op "aten::abs"(%x) : (!T) -> !T
  refgraph.leave %a : !T
}
refgraph.trace @f_2 attributes {refgraph.segment = "false", refgraph.takes = array<i64: 1, 2>} {
  %e = refgraph.external
  refgraph.state {grad_mode = false}
  %x = refgraph.get %e arg(0, "x") {requires_grad = false} : !T
  %a = refgraph.tensor_op "aten::abs"(%x) : (!T) -> !T
  refgraph.leave %a : !T
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!H = !refgraph.tensor<[2], [1], f32, "cpu">
!B = !refgraph.tensor<[], [], i1, "cpu">

// A size that may differ between calls: what has both sides has it fixed.
refgraph.trace @f attributes {refgraph.segment = "prefix", refgraph.condition = 0 : i64} {
  %e = refgraph.external
  refgraph.state {grad_mode = false}
  %x = refgraph.get %e arg(0, "x") {requires_grad = false} : !T
  %y = refgraph.tensor_op "aten::neg"(%x) : (!T) -> !T
  %c = refgraph.tensor_op "aten::any"(%x) : (!T) -> !B
  %inner = refgraph.create "tuple" [%c, %x, %y] : (!B, !T, !T) -> !refgraph.obj<"tuple">
  %t = refgraph.create "tuple" [%inner] : (!refgraph.obj<"tuple">) -> !refgraph.obj<"tuple">
  refgraph.leave %t : !refgraph.obj<"tuple">
}
refgraph.trace @f_1 attributes {refgraph.segment = "true", refgraph.takes = array<i64: 1, 2>} {
  %e = refgraph.external
  refgraph.state {grad_mode = false}
  %x = refgraph.get %e arg(0, "x") {requires_grad = false} : !T
  %g = refgraph.object 0 : !refgraph.obj<"dict">
  // expected-error @+1 {{stays a graph break: sizes that differ between calls}}
  %n = refgraph.get %g item("n") type(2) {lift_sizes = array<i64: 0>} : !refgraph.obj<"dict"> -> !T
  %a = refgraph.tensor_op "aten::abs"(%x) : (!T) -> !T
  refgraph.leave %a : !T
}
refgraph.trace @f_2 attributes {refgraph.segment = "false", refgraph.takes = array<i64: 1, 2>} {
  %e = refgraph.external
  refgraph.state {grad_mode = false}
  %x = refgraph.get %e arg(0, "x") {requires_grad = false} : !T
  %a = refgraph.tensor_op "aten::abs"(%x) : (!T) -> !T
  refgraph.leave %a : !T
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!H = !refgraph.tensor<[2], [1], f32, "cpu">
!B = !refgraph.tensor<[], [], i1, "cpu">

// Frames that nothing goes on with.
// expected-error @+1 {{leaves frames that nothing goes on with}}
refgraph.trace @f attributes {refgraph.segment = "prefix", refgraph.condition = 0 : i64} {
  %e = refgraph.external
  refgraph.state {grad_mode = false}
  %x = refgraph.get %e arg(0, "x") {requires_grad = false} : !T
  %y = refgraph.tensor_op "aten::neg"(%x) : (!T) -> !T
  %c = refgraph.tensor_op "aten::any"(%x) : (!T) -> !B
  %inner = refgraph.create "tuple" [%c, %x, %y] : (!B, !T, !T) -> !refgraph.obj<"tuple">
  %t = refgraph.create "tuple" [%inner, %inner] : (!refgraph.obj<"tuple">, !refgraph.obj<"tuple">) -> !refgraph.obj<"tuple">
  refgraph.leave %t : !refgraph.obj<"tuple">
}
refgraph.trace @f_1 attributes {refgraph.segment = "true", refgraph.takes = array<i64: 1, 2>} {
  %e = refgraph.external
  refgraph.state {grad_mode = false}
  %x = refgraph.get %e arg(0, "x") {requires_grad = false} : !T
  %a = refgraph.tensor_op "aten::abs"(%x) : (!T) -> !T
  refgraph.leave %a : !T
}
refgraph.trace @f_2 attributes {refgraph.segment = "false", refgraph.takes = array<i64: 1, 2>} {
  %e = refgraph.external
  refgraph.state {grad_mode = false}
  %x = refgraph.get %e arg(0, "x") {requires_grad = false} : !T
  %a = refgraph.tensor_op "aten::abs"(%x) : (!T) -> !T
  refgraph.leave %a : !T
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!H = !refgraph.tensor<[2], [1], f32, "cpu">
!B = !refgraph.tensor<[], [], i1, "cpu">

// Four elements have no truth.
// expected-error @+1 {{which is no tensor of one element}}
refgraph.trace @f attributes {refgraph.segment = "prefix", refgraph.condition = 1 : i64} {
  %e = refgraph.external
  refgraph.state {grad_mode = false}
  %x = refgraph.get %e arg(0, "x") {requires_grad = false} : !T
  %y = refgraph.tensor_op "aten::neg"(%x) : (!T) -> !T
  %c = refgraph.tensor_op "aten::any"(%x) : (!T) -> !B
  %inner = refgraph.create "tuple" [%c, %x, %y] : (!B, !T, !T) -> !refgraph.obj<"tuple">
  %t = refgraph.create "tuple" [%inner] : (!refgraph.obj<"tuple">) -> !refgraph.obj<"tuple">
  refgraph.leave %t : !refgraph.obj<"tuple">
}
refgraph.trace @f_1 attributes {refgraph.segment = "true", refgraph.takes = array<i64: 1, 2>} {
  %e = refgraph.external
  refgraph.state {grad_mode = false}
  %x = refgraph.get %e arg(0, "x") {requires_grad = false} : !T
  %a = refgraph.tensor_op "aten::abs"(%x) : (!T) -> !T
  refgraph.leave %a : !T
}
refgraph.trace @f_2 attributes {refgraph.segment = "false", refgraph.takes = array<i64: 1, 2>} {
  %e = refgraph.external
  refgraph.state {grad_mode = false}
  %x = refgraph.get %e arg(0, "x") {requires_grad = false} : !T
  %a = refgraph.tensor_op "aten::abs"(%x) : (!T) -> !T
  refgraph.leave %a : !T
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!H = !refgraph.tensor<[2], [1], f32, "cpu">
!B = !refgraph.tensor<[], [], i1, "cpu">

// No side.
// expected-error @+1 {{has no side of a branch}}
refgraph.trace @f attributes {refgraph.segment = "prefix", refgraph.condition = 0 : i64} {
  %e = refgraph.external
  refgraph.state {grad_mode = false}
  %x = refgraph.get %e arg(0, "x") {requires_grad = false} : !T
  %y = refgraph.tensor_op "aten::neg"(%x) : (!T) -> !T
  %c = refgraph.tensor_op "aten::any"(%x) : (!T) -> !B
  %inner = refgraph.create "tuple" [%c, %x, %y] : (!B, !T, !T) -> !refgraph.obj<"tuple">
  %t = refgraph.create "tuple" [%inner] : (!refgraph.obj<"tuple">) -> !refgraph.obj<"tuple">
  refgraph.leave %t : !refgraph.obj<"tuple">
}
refgraph.trace @f_1 attributes {refgraph.segment = "rest", refgraph.takes = array<i64: 1, 2>} {
  %e = refgraph.external
  refgraph.state {grad_mode = false}
  %x = refgraph.get %e arg(0, "x") {requires_grad = false} : !T
  %a = refgraph.tensor_op "aten::abs"(%x) : (!T) -> !T
  refgraph.leave %a : !T
}
refgraph.trace @f_2 attributes {refgraph.segment = "rest", refgraph.takes = array<i64: 1, 2>} {
  %e = refgraph.external
  refgraph.state {grad_mode = false}
  %x = refgraph.get %e arg(0, "x") {requires_grad = false} : !T
  %a = refgraph.tensor_op "aten::abs"(%x) : (!T) -> !T
  refgraph.leave %a : !T
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!B = !refgraph.tensor<[], [], i1, "cpu">

// Where the one way is not taken, another specialization does it again.
refgraph.trace @f attributes {refgraph.segment = "prefix", refgraph.condition = 0 : i64} {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") : !T
  // expected-error @+1 {{stays a graph break: 'mylib::thing' before the branch has effects beyond its results}}
  %y = refgraph.tensor_op "mylib::thing"(%x) : (!T) -> !T
  %c = refgraph.tensor_op "aten::any"(%y) : (!T) -> !B
  %inner = refgraph.create "tuple" [%c, %y] : (!B, !T) -> !refgraph.obj<"tuple">
  %t = refgraph.create "tuple" [%inner] : (!refgraph.obj<"tuple">) -> !refgraph.obj<"tuple">
  refgraph.leave %t : !refgraph.obj<"tuple">
}
refgraph.trace @f_1 attributes {refgraph.segment = "true", refgraph.takes = array<i64: 1>} {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") : !T
  refgraph.leave %x : !T
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!B = !refgraph.tensor<[], [], i1, "cpu">

// An arm cannot end the specialization.
refgraph.trace @f attributes {refgraph.segment = "prefix", refgraph.condition = 0 : i64} {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") : !T
  %c = refgraph.tensor_op "aten::any"(%x) : (!T) -> !B
  %inner = refgraph.create "tuple" [%c, %x] : (!B, !T) -> !refgraph.obj<"tuple">
  %t = refgraph.create "tuple" [%inner] : (!refgraph.obj<"tuple">) -> !refgraph.obj<"tuple">
  refgraph.leave %t : !refgraph.obj<"tuple">
}
refgraph.trace @f_1 attributes {refgraph.segment = "true", refgraph.takes = array<i64: 1>} {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") : !T
  %d = refgraph.tensor_op "aten::all"(%x) : (!T) -> !B
  // expected-error @+1 {{ends the specialization in one arm alone}}
  refgraph.speculate %d is true : !B
  %y = refgraph.tensor_op "aten::neg"(%x) : (!T) -> !T
  refgraph.leave %y : !T
}
refgraph.trace @f_2 attributes {refgraph.segment = "false", refgraph.takes = array<i64: 1>} {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") : !T
  %y = refgraph.tensor_op "aten::abs"(%x) : (!T) -> !T
  refgraph.leave %y : !T
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!B = !refgraph.tensor<[], [], i1, "cpu">

// An input is written by one arm alone: its version counter would show which.
refgraph.trace @f attributes {refgraph.segment = "prefix", refgraph.condition = 0 : i64} {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") : !T
  %c = refgraph.tensor_op "aten::any"(%x) {traits = ["as-op-node", "pure"]} : (!T) -> !B
  %inner = refgraph.create "tuple" [%c, %x] : (!B, !T) -> !refgraph.obj<"tuple">
  %t = refgraph.create "tuple" [%inner] : (!refgraph.obj<"tuple">) -> !refgraph.obj<"tuple">
  // expected-error @+1 {{stays a graph break: the arms of a branch write a tensor 1 and 0 times, which its version counter would show}}
  refgraph.leave %t : !refgraph.obj<"tuple">
}
refgraph.trace @f_1 attributes {refgraph.segment = "true", refgraph.takes = array<i64: 1>} {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") : !T
  %y = refgraph.tensor_op "aten::neg_"(%x) mutates [0] {traits = ["as-op-node", "in-place"]} : (!T) -> !T
  refgraph.advance %y by 1 : !T
  refgraph.leave %y : !T
}
refgraph.trace @f_2 attributes {refgraph.segment = "false", refgraph.takes = array<i64: 1>} {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") : !T
  refgraph.leave %x : !T
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!B = !refgraph.tensor<[], [], i1, "cpu">

// Gradients do not flow through arms.
refgraph.trace @f attributes {refgraph.segment = "prefix", refgraph.condition = 0 : i64} {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") {requires_grad = true} : !T
  %c = refgraph.tensor_op "aten::any"(%x) {no_grad, traits = ["as-op-node", "pure"]} : (!T) -> !B
  %inner = refgraph.create "tuple" [%c, %x] : (!B, !T) -> !refgraph.obj<"tuple">
  %t = refgraph.create "tuple" [%inner] : (!refgraph.obj<"tuple">) -> !refgraph.obj<"tuple">
  refgraph.leave %t : !refgraph.obj<"tuple">
}
refgraph.trace @f_1 attributes {refgraph.segment = "true", refgraph.takes = array<i64: 1>} {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") {requires_grad = true} : !T
  %y = refgraph.tensor_op "aten::neg"(%x) {traits = ["as-op-node", "pure"]} : (!T) -> !T
  // expected-error @+1 {{stays a graph break: a segment leaves a tensor that requires grad}}
  refgraph.differentiable %y : !T
  refgraph.leave %y : !T
}
refgraph.trace @f_2 attributes {refgraph.segment = "false", refgraph.takes = array<i64: 1>} {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") {requires_grad = true} : !T
  refgraph.leave %x : !T
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!B = !refgraph.tensor<[], [], i1, "cpu">

// What was saved for the backward is written behind the branch: eager's backward
// would say so.
// expected-error @+1 {{stays a graph break: a segment leaves a tensor that requires grad, and one writes memory that it has not made}}
refgraph.trace @g attributes {refgraph.segment = "prefix", refgraph.condition = 0 : i64} {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") {requires_grad = true} : !T
  %h = refgraph.tensor_op "aten::exp"(%x) {traits = ["as-op-node", "pure"]} : (!T) -> !T
  %c = refgraph.tensor_op "aten::any"(%h) {no_grad, traits = ["as-op-node", "pure"]} : (!T) -> !B
  refgraph.differentiable %h : !T
  %inner = refgraph.create "tuple" [%c, %h] : (!B, !T) -> !refgraph.obj<"tuple">
  %t = refgraph.create "tuple" [%inner] : (!refgraph.obj<"tuple">) -> !refgraph.obj<"tuple">
  refgraph.leave %t : !refgraph.obj<"tuple">
}
refgraph.trace @g_1 attributes {refgraph.segment = "false", refgraph.takes = array<i64: 1>} {
  %e = refgraph.external
  %h = refgraph.get %e arg(0, "h") {requires_grad = true} : !T
  %w = refgraph.tensor_op "aten::neg_"(%h) mutates [0] {no_grad, traits = ["as-op-node"]} : (!T) -> !T
  refgraph.leave %w : !T
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!B = !refgraph.tensor<[], [], i1, "cpu">

// The side was recorded of a call in which the tensor required no grad.
refgraph.trace @h attributes {refgraph.segment = "prefix", refgraph.condition = 0 : i64} {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") {requires_grad = true} : !T
  %h = refgraph.tensor_op "aten::exp"(%x) {traits = ["as-op-node", "pure"]} : (!T) -> !T
  %c = refgraph.tensor_op "aten::any"(%h) {no_grad, traits = ["as-op-node", "pure"]} : (!T) -> !B
  refgraph.differentiable %h : !T
  %inner = refgraph.create "tuple" [%c, %h] : (!B, !T) -> !refgraph.obj<"tuple">
  %t = refgraph.create "tuple" [%inner] : (!refgraph.obj<"tuple">) -> !refgraph.obj<"tuple">
  refgraph.leave %t : !refgraph.obj<"tuple">
}
refgraph.trace @h_1 attributes {refgraph.segment = "false", refgraph.takes = array<i64: 1>} {
  %e = refgraph.external
  // expected-error @+1 {{was recorded with another value than the segment before leaves}}
  %h = refgraph.get %e arg(0, "h") {requires_grad = false} : !T
  refgraph.leave %h : !T
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!H = !refgraph.tensor<[4], [1], bf16, "cpu">
!B = !refgraph.tensor<[], [], i1, "cpu">

// The other arm may write the weight: what eager casts behind that is no cast of
// what it was in front of the branch.
refgraph.trace @f attributes {refgraph.segment = "prefix", refgraph.condition = 0 : i64} {
  %e = refgraph.external
  refgraph.state {grad_mode = false}
  %w = refgraph.get %e arg(0, "w") {requires_grad = true} : !T
  %c = refgraph.tensor_op "aten::any"(%w) : (!T) -> !B
  %inner = refgraph.create "tuple" [%c, %w] : (!B, !T) -> !refgraph.obj<"tuple">
  %t = refgraph.create "tuple" [%inner] : (!refgraph.obj<"tuple">) -> !refgraph.obj<"tuple">
  refgraph.leave %t : !refgraph.obj<"tuple">
}
refgraph.trace @f_1 attributes {refgraph.segment = "true", refgraph.takes = array<i64: 1>} {
  %e = refgraph.external
  refgraph.state {grad_mode = false}
  %w = refgraph.get %e arg(0, "w") {requires_grad = true} : !T
  // expected-error @+1 {{reads a weight's cast, which autocast keeps only from here on}}
  %c = refgraph.get %w kept_cast {requires_grad = true} : !T -> !H
  %a = refgraph.tensor_op "aten::abs"(%c) : (!H) -> !H
  refgraph.leave %a : !H
}
refgraph.trace @f_2 attributes {refgraph.segment = "false", refgraph.takes = array<i64: 1>} {
  %e = refgraph.external
  refgraph.state {grad_mode = false}
  %w = refgraph.get %e arg(0, "w") {requires_grad = true} : !T
  %a = refgraph.tensor_op "aten::neg"(%w) : (!T) -> !T
  refgraph.leave %a : !T
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!B = !refgraph.tensor<[], [], i1, "cpu">

// The keys stand in another order.
refgraph.trace @f attributes {refgraph.segment = "prefix", refgraph.condition = 0 : i64} {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") {requires_grad = false} : !T
  %c = refgraph.tensor_op "aten::any"(%x) : (!T) -> !B
  %o = refgraph.create "instance" type(0) items {"a" = %x, "b" = %x} : (!T, !T) -> !refgraph.obj<"Output">
  %inner = refgraph.create "tuple" [%c, %o] : (!B, !refgraph.obj<"Output">) -> !refgraph.obj<"tuple">
  %t = refgraph.create "tuple" [%inner] : (!refgraph.obj<"tuple">) -> !refgraph.obj<"tuple">
  refgraph.leave %t : !refgraph.obj<"tuple">
}
refgraph.trace @f_1 attributes {refgraph.segment = "true", refgraph.takes = array<i64: 1>, refgraph.objects = array<i64: 0>} {
  %e = refgraph.external
  %o = refgraph.get %e arg(0, "o") type(0) : !refgraph.obj<"Output">
  // expected-error @+1 {{asks of an object that the segment before made}}
  refgraph.keys %o are ["b", "a"] : !refgraph.obj<"Output">
  %x = refgraph.get %o item("a") {requires_grad = false} : !refgraph.obj<"Output"> -> !T
  refgraph.leave %x : !T
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!B = !refgraph.tensor<[], [], i1, "cpu">

// An instance that holds nothing may be of any class.
refgraph.trace @f attributes {refgraph.segment = "prefix", refgraph.condition = 0 : i64} {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") {requires_grad = false} : !T
  %c = refgraph.tensor_op "aten::any"(%x) : (!T) -> !B
  %o = refgraph.create "instance" type(0) attrs {"a" = %x} : (!T) -> !refgraph.obj<"Output">
  %inner = refgraph.create "tuple" [%c, %o] : (!B, !refgraph.obj<"Output">) -> !refgraph.obj<"tuple">
  %t = refgraph.create "tuple" [%inner] : (!refgraph.obj<"tuple">) -> !refgraph.obj<"tuple">
  refgraph.leave %t : !refgraph.obj<"tuple">
}
refgraph.trace @f_1 attributes {refgraph.segment = "true", refgraph.takes = array<i64: 1>, refgraph.objects = array<i64: 0>} {
  %e = refgraph.external
  %o = refgraph.get %e arg(0, "o") type(0) : !refgraph.obj<"Output">
  // expected-error @+1 {{asks of an object that the segment before made}}
  refgraph.length %o is 0 : !refgraph.obj<"Output">
  %x = refgraph.get %o attr("a") {requires_grad = false} : !refgraph.obj<"Output"> -> !T
  refgraph.leave %x : !T
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!B = !refgraph.tensor<[], [], i1, "cpu">
!V = !refgraph.obj<"_contextvars.ContextVar">
!S = !refgraph.obj<"_contextvars.Token">

// A token that is not the last one of its variable: what it takes back is not
// what stood before the call.
refgraph.trace @f attributes {refgraph.segment = "prefix", refgraph.condition = 0 : i64} {
  %e = refgraph.external
  %v = refgraph.object 5 "SCALE" : !V
  %x = refgraph.get %e arg(0, "x") : !T
  %c = refgraph.tensor_op "aten::any"(%x) : (!T) -> !B
  %k = refgraph.constant 2
  %s = refgraph.create "token" [%v, %k] : (!V, !refgraph.obj<"int">) -> !S
  %r = refgraph.create "token" [%v, %k] : (!V, !refgraph.obj<"int">) -> !S
  %inner = refgraph.create "tuple" [%c, %x, %s] : (!B, !T, !S) -> !refgraph.obj<"tuple">
  %t = refgraph.create "tuple" [%inner] : (!refgraph.obj<"tuple">) -> !refgraph.obj<"tuple">
  refgraph.leave %t : !refgraph.obj<"tuple">
}
refgraph.trace @f_1 attributes {refgraph.segment = "true", refgraph.takes = array<i64: 1, 2>} {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") : !T
  %s = refgraph.get %e arg(1, "s") : !S
  // expected-error @+1 {{reads of an object that the segment before made}}
  %v = refgraph.get %s field("resets") is(5) : !S -> !V
  refgraph.delete %s slot("value") : !S
  refgraph.leave %x : !T
}
