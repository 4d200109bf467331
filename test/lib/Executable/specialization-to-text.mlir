// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --refgraph-generate-guards --refgraph-generate-mock --refgraph-extract-graph | pyjit-translate --specialization-to-text | FileCheck %s

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!H = !refgraph.tensor<[2], [1], f32, "cpu">

// CHECK-LABEL: @module
// CHECK-NEXT: guards: 9 registers
// CHECK-NEXT: watched:
// CHECK-NEXT:   r0 = OBJECT 5
// CHECK-NEXT:   r1 = DICT r0
// CHECK-NEXT:   r2 = KEY r1 "_parameters"
// CHECK-NEXT:   TYPE_IS r2 8 flags 1
// CHECK-NEXT:   r3 = KEY r2 "w"
// CHECK-NEXT:   r4 = KEY r1 "training"
// CHECK-NEXT:   IS_CONST r4 False
// CHECK-NEXT:   r5 = OBJECT 6
// CHECK-NEXT:   r6 = TYPEATTR r5 "forward"
// CHECK-NEXT:   IS r6 14
// CHECK-NEXT:   NO_KEY r1 "hook"
// CHECK-NEXT: watch: dict r1("hook", "training", "_parameters") dict r2("w") type r5
// CHECK-NEXT: always:
// CHECK-NEXT:   r7 = ARG 0
// CHECK-NEXT:   TYPE_IS r7 3
// CHECK-NEXT:   TENSOR r7 [4] strides [1] dtype 6 device 0 requires_grad 0 keyset 32769
// CHECK-NEXT:   r8 = ARG 1
// CHECK-NEXT:   TYPE_IS r8 9
// CHECK-NEXT:   LENGTH r8 2
// CHECK-NEXT:   STATE known 3 value 2 default_dtype 6
// CHECK-NEXT:   INSTANCE r0 r1 6
// CHECK-NEXT:   TYPE_IS r3 4
// CHECK-NEXT:   TENSOR r3 [4] strides [1] dtype 6 device 0 requires_grad 1
// CHECK-NEXT:   DISJOINT [r7, r3] 1
// CHECK-NEXT: inputs: r7 r3
// CHECK-NEXT: mock: 17 registers, 2 results from r9
// CHECK-NEXT:   COPY_BACK r7 r10
// CHECK-NEXT:   r11 = CONST 2
// CHECK-NEXT:   r12 = TUPLE [r9, r11]
// CHECK-NEXT:   r13 = VIEW r7 [2] strides [1] dtype 6 device 0 offset 2
// CHECK-NEXT:   r14 = DICT
// CHECK-NEXT:   SET_ITEM r14 "a" r13
// CHECK-NEXT:   SET_ITEM r14 (1, None) r7
// CHECK-NEXT:   r15 = NEW 20 []
// CHECK-NEXT:   SET_ITEM r15 "x" r9
// CHECK-NEXT:   SET_ATTR r15 "y" r12
// CHECK-NEXT:   APPEND r8 r15
// CHECK-NEXT:   r16 = OBJECT 5
// CHECK-NEXT:   SET_ATTR r16 "calls" r11
// CHECK-NEXT:   RETURN r14
refgraph.trace @module {
  %e = refgraph.external
  refgraph.state {default_dtype = f32, grad_mode = false, inference_mode = true}
  %x = refgraph.get %e arg(0, "x") type(3) {requires_grad = false, keyset = 32769 : i64} : !T
  %l = refgraph.get %e arg(1, "log") type(9) : !refgraph.obj<"list">
  refgraph.length %l is 2 : !refgraph.obj<"list">
  %m = refgraph.object 5 "model" : !refgraph.obj<"Net">
  %c = refgraph.get %m type is(6) : !refgraph.obj<"Net"> -> !refgraph.obj<"type">
  %p = refgraph.get %m attr("_parameters") type(8) : !refgraph.obj<"Net"> -> !refgraph.obj<"dict">
  %w = refgraph.get %p item("w") type(4) {requires_grad = true} : !refgraph.obj<"dict"> -> !T
  %t = refgraph.get %m attr("training") equals(false) : !refgraph.obj<"Net"> -> !refgraph.obj<"bool">
  refgraph.absent %m attr("hook") : !refgraph.obj<"Net">
  %f = refgraph.get %c typeattr("forward") is(14) : !refgraph.obj<"type"> -> !refgraph.obj<"function">
  %r = refgraph.tensor_op "aten::mul.Tensor"(%x, %w) : (!T, !T) -> !T
  %v = refgraph.tensor_op "aten::slice.Tensor"(%x, 0 : i64, 2 : i64, 4 : i64, 1 : i64) aliases [0] {offsets = array<i64: 2>} : (!T) -> !H
  %v1 = refgraph.tensor_op "aten::add_.Scalar"(%v, 1 : i64, 1 : i64) mutates [0] : (!H) -> !H
  %two = refgraph.constant 2
  %unused = refgraph.constant 3
  %o = refgraph.create "tuple" [%r, %two] : (!T, !refgraph.obj<"int">) -> !refgraph.obj<"tuple">
  %d = refgraph.create "dict" items {"a" = %v1, (1, none) = %x} : (!H, !T) -> !refgraph.obj<"dict">
  %i = refgraph.create "instance" type(20) items {"x" = %r} attrs {"y" = %o} : (!T, !refgraph.obj<"tuple">) -> !refgraph.obj<"Out">
  refgraph.append %l, %i : !refgraph.obj<"list">, !refgraph.obj<"Out">
  refgraph.set %m attr("calls") = %two : !refgraph.obj<"Net">, !refgraph.obj<"int">
  refgraph.leave %d : !refgraph.obj<"dict">
}

// A dict whose keys matter as a whole is watched as a whole; values of all kinds.
// CHECK-LABEL: @values
// CHECK:       r1 = KEY r0 (1, None, object 7)
// CHECK-NEXT:    EQ r1 b"a\000"
// CHECK-NEXT:    r2 = ITEM r0 -1
// CHECK-NEXT:    EQ r2 1267650600228229401496703205376
// CHECK-NEXT:    r3 = KEY r0 ...
// CHECK-NEXT:    EQ_FLOAT r3 0.5
// CHECK-NEXT:    r4 = KEY r0 True
// CHECK-NEXT:    EQ r4 complex(1, -2)
// CHECK-NEXT:    KEYS r0 ("a", 3)
// CHECK-NEXT:  watch: dict r0(all)
// CHECK-NEXT:  always:
// CHECK-NEXT:  inputs:
// CHECK-NEXT:  mock: 6 registers, 0 results from r5
// CHECK-NEXT:    r5 = CONST "x\n"
// CHECK-NEXT:    RETURN r5
refgraph.trace @values {
  %d = refgraph.object 3 : !refgraph.obj<"dict">
  %1 = refgraph.get %d item((1, none, object 7)) equals(bytes("a\00")) : !refgraph.obj<"dict"> -> !refgraph.obj<"bytes">
  %2 = refgraph.get %d item(-1) equals(1267650600228229401496703205376 : i128) : !refgraph.obj<"dict"> -> !refgraph.obj<"int">
  %3 = refgraph.get %d item(ellipsis) equals(0.5) : !refgraph.obj<"dict"> -> !refgraph.obj<"float">
  %4 = refgraph.get %d item(true) equals(complex(1.0, -2.0)) : !refgraph.obj<"dict"> -> !refgraph.obj<"complex">
  refgraph.keys %d are ["a", 3] : !refgraph.obj<"dict">
  %o = refgraph.constant "x\0A"
  refgraph.leave %o : !refgraph.obj<"str">
}

// A set whose table matters, and a change of it; a deque that the call makes.
// CHECK-LABEL: @sets
// CHECK:         KEYS r[[SET:[0-9]+]] ("a")
// CHECK-NEXT:    TABLE r[[SET]] (0, 1, 0, 2)
// CHECK:         r[[MADE:[0-9]+]] = DEQUE [r{{[0-9]+}}, r[[BOUND:[0-9]+]]] [[BOUND]]
// CHECK-NEXT:    APPEND r{{[0-9]+}} r{{[0-9]+}}
// CHECK-NEXT:    RETURN r[[MADE]]
refgraph.trace @sets {
  %e = refgraph.external
  %s = refgraph.get %e arg(0, "s") type(3) : !refgraph.obj<"set">
  refgraph.keys %s are ["a"] : !refgraph.obj<"set">
  refgraph.table %s is [0, 1, 0, 2] : !refgraph.obj<"set">
  %two = refgraph.constant 2
  %d = refgraph.create "deque" [%s, %two] attrs {"maxlen" = %two} : (!refgraph.obj<"set">, !refgraph.obj<"int">, !refgraph.obj<"int">) -> !refgraph.obj<"collections.deque">
  refgraph.append %s, %two : !refgraph.obj<"set">, !refgraph.obj<"int">
  refgraph.leave %d : !refgraph.obj<"collections.deque">
}

// A set that lies as the one that the run made.
// CHECK-LABEL: @made_set
// CHECK:         r[[TABLE:[0-9]+]] = CONST b"\000\001\001\002"
// CHECK-NEXT:    r[[MADE:[0-9]+]] = SET_OF_TABLE [r{{[0-9]+}}, r{{[0-9]+}}] [[TABLE]]
// CHECK-NEXT:    RETURN r[[MADE]]
refgraph.trace @made_set {
  %one = refgraph.constant 1
  %two = refgraph.constant 2
  %table = refgraph.constant bytes("\00\01\01\02")
  %s = refgraph.create "set" [%one, %two] attrs {"table" = %table} : (!refgraph.obj<"int">, !refgraph.obj<"int">, !refgraph.obj<"bytes">) -> !refgraph.obj<"set">
  refgraph.leave %s : !refgraph.obj<"set">
}

// A context variable that stays set, one that is reset, and a function that the call made.
// CHECK-LABEL: @tokens
// CHECK:       r[[NEW:[0-9]+]] = TOKEN [r[[VAR:[0-9]+]], r{{[0-9]+}}]
// CHECK:       FUNCTION [r[[VAR]], {{r.*}}]
// CHECK:       DEL_SLOT r[[OLD:[0-9]+]] "value"
refgraph.trace @tokens {
  %e = refgraph.external
  %t = refgraph.get %e arg(0, "token") type(3) : !refgraph.obj<"_contextvars.Token">
  %o = refgraph.object 4 "_contextvars.ContextVar" : !refgraph.obj<"_contextvars.ContextVar">
  %v = refgraph.get %t field("var") is(4) : !refgraph.obj<"_contextvars.Token"> -> !refgraph.obj<"_contextvars.ContextVar">
  %two = refgraph.constant 2
  %n = refgraph.create "token" [%o, %two] : (!refgraph.obj<"_contextvars.ContextVar">, !refgraph.obj<"int">) -> !refgraph.obj<"_contextvars.Token">
  %f = refgraph.create "function" [%o, %two, %two, %two, %two, %two] : (!refgraph.obj<"_contextvars.ContextVar">, !refgraph.obj<"int">, !refgraph.obj<"int">, !refgraph.obj<"int">, !refgraph.obj<"int">, !refgraph.obj<"int">) -> !refgraph.obj<"function">
  %both = refgraph.create "tuple" [%n, %f] : (!refgraph.obj<"_contextvars.Token">, !refgraph.obj<"function">) -> !refgraph.obj<"tuple">
  refgraph.delete %t slot("value") : !refgraph.obj<"_contextvars.Token">
  refgraph.leave %both : !refgraph.obj<"tuple">
}

// An iterator of a range is checked for what it stands at, and made anew.
// CHECK-LABEL: @range
// CHECK:         FIELD r{{[0-9]+}} "alone"
// CHECK:         FIELD r{{[0-9]+}} "next"
// CHECK:         FIELD r{{[0-9]+}} "left"
// CHECK:         r[[MADE:[0-9]+]] = RANGE_ITERATOR [r{{[0-9]+}}, r[[STEP:[0-9]+]], r{{[0-9]+}}]
// CHECK-NEXT:    RETURN r[[MADE]]
refgraph.trace @range {
  %e = refgraph.external
  %i = refgraph.get %e arg(0, "") type(1) : !refgraph.obj<"range_iterator">
  %alone = refgraph.get %i field("alone") equals(true) : !refgraph.obj<"range_iterator"> -> !refgraph.obj<"bool">
  %next = refgraph.get %i field("next") type(2) equals(3) : !refgraph.obj<"range_iterator"> -> !refgraph.obj<"int">
  %left = refgraph.get %i field("left") type(2) equals(4) : !refgraph.obj<"range_iterator"> -> !refgraph.obj<"int">
  %step = refgraph.constant 2
  %made = refgraph.create "range_iterator" [%next, %step, %left] : (!refgraph.obj<"int">, !refgraph.obj<"int">, !refgraph.obj<"int">) -> !refgraph.obj<"range_iterator">
  refgraph.leave %made : !refgraph.obj<"range_iterator">
}

// An iterator over a list, in an enumerate: likewise, with what they walk over.
// CHECK-LABEL: @enumerate
// CHECK:         r[[INNER:[0-9]+]] = FIELD r{{[0-9]+}} "inner0"
// CHECK:         r[[LIST:[0-9]+]] = FIELD r[[INNER]] "container"
// CHECK:         r[[WALK:[0-9]+]] = ITERATOR 3 [r[[LIST]], r[[TWO:[0-9]+]]]
// CHECK-NEXT:    r[[MADE:[0-9]+]] = ITERATOR 1 [r[[WALK]], r[[TWO]]]
// CHECK-NEXT:    RETURN r[[MADE]]
refgraph.trace @enumerate {
  %e = refgraph.external
  %i = refgraph.get %e arg(0, "") type(1) : !refgraph.obj<"enumerate">
  %at = refgraph.get %i field("position") equals(1) : !refgraph.obj<"enumerate"> -> !refgraph.obj<"int">
  %w = refgraph.get %i field("inner0") type(3) : !refgraph.obj<"enumerate"> -> !refgraph.obj<"list_iterator">
  %l = refgraph.get %w field("container") type(2) : !refgraph.obj<"list_iterator"> -> !refgraph.obj<"list">
  %two = refgraph.constant 2
  %walk = refgraph.create "iterator" type(3) [%l, %two] : (!refgraph.obj<"list">, !refgraph.obj<"int">) -> !refgraph.obj<"list_iterator">
  %made = refgraph.create "iterator" type(1) [%walk, %two] : (!refgraph.obj<"list_iterator">, !refgraph.obj<"int">) -> !refgraph.obj<"enumerate">
  refgraph.leave %made : !refgraph.obj<"enumerate">
}

// A number that the graph computes is made an object behind it.
// CHECK-LABEL: @item
// CHECK:         r2 = ITEM [r1]
// CHECK-NEXT:    RETURN r2
refgraph.trace @item {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") type(1) {requires_grad = false} : !refgraph.tensor<[], [], f64, "cpu">
  %y = refgraph.tensor_op "aten::neg"(%x) : (!refgraph.tensor<[], [], f64, "cpu">) -> !refgraph.tensor<[], [], f64, "cpu">
  %n = refgraph.create "number" [%y] : (!refgraph.tensor<[], [], f64, "cpu">) -> !refgraph.obj<"float">
  refgraph.leave %n : !refgraph.obj<"float">
}

// CHECK-LABEL: @symbolic_view
// CHECK:         TENSOR r0 [?, 8] strides [8, 1]
// CHECK-NEXT:    n0 = SIZE r0 0
// CHECK:         r1 = BOX n0
// CHECK-NEXT:    r2 = VIEW r0 [8] strides [1] dtype 6 device 0 offset 0 symbols [r1] sums [8 * s0 + -8]
!S = !refgraph.tensor<[s0, 8], [8, 1], f32, "cpu">
!R = !refgraph.tensor<[8], [1], f32, "cpu">
refgraph.trace @symbolic_view {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") : !S
  %n = refgraph.size %x[0] is(5) : !S
  refgraph.symbol 0 is %n : !refgraph.obj<"int">
  %v = refgraph.tensor_op "aten::select.int"(%x, 0 : i64, affine_map<()[s0] -> (s0 - 1)>) aliases [0] {offsets = array<i64: 32>, symbolic_offsets = [affine_map<()[s0] -> (s0 * 8 - 8)>], traits = ["pure"]} : (!S) -> !R
  refgraph.leave %v : !R
}

!W = !refgraph.tensor<[4], [1], bf16, "cpu">

// A cast that autocast keeps is read last, into a register of its own.
// CHECK-LABEL: @cast
// CHECK:      always:
// CHECK-NEXT:   r0 = ARG 0
// CHECK-NEXT:   TENSOR r0 [4] strides [1] dtype 6 device 0 requires_grad 1
// CHECK-NEXT:   STATE known 4096 value 4096
// CHECK-NEXT:   STATE known 0 value 0 default_dtype -1 cuda_device 1
// CHECK-NEXT:   STATE known 512 value 512 default_dtype -1 default_device 1:2
// CHECK-NEXT:   STATE known 512 value 512 default_dtype -1 default_device 0
// CHECK-NEXT:   k0 = KEPT_CAST r0 [4] strides [1] dtype 15 device 0 requires_grad 1
// CHECK-NEXT: inputs: k0
refgraph.trace @cast {
  %e = refgraph.external
  %w = refgraph.get %e arg(0, "w") {requires_grad = true} : !T
  refgraph.state {autocast_nested = true}
  refgraph.state {cuda_device = 1}
  refgraph.state {default_device = "cuda:2", torch_function_mode = true}
  refgraph.state {default_device = "cpu", torch_function_mode = true}
  %c = refgraph.get %w kept_cast {requires_grad = true} : !T -> !W
  %0 = refgraph.tensor_op "aten::relu"(%c) : (!W) -> !W
  refgraph.leave %0 : !W
}
