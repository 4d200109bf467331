// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Every op of the dialect, through text and bytecode.
// RUN: pyjit-opt %s | pyjit-opt | FileCheck %s
// RUN: pyjit-opt %s -emit-bytecode | pyjit-opt | FileCheck %s

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!H = !refgraph.tensor<[2], [1], f32, "cpu">
!S = !refgraph.tensor<[], [], complex<f32>, "cuda:0">

// CHECK-LABEL: refgraph.trace @reads
refgraph.trace @reads {
  // CHECK: %[[E:.*]] = refgraph.external
  %e = refgraph.external
  // CHECK: refgraph.get %[[E]] arg(0, "x") type(3) {keyset = 32769 : i64, offset = 8 : i64, requires_grad = false} : !refgraph.tensor<[4], [1], f32, "cpu">
  %x = refgraph.get %e arg(0, "x") type(3) {requires_grad = false, keyset = 32769 : i64, offset = 8 : i64} : !T
  // CHECK: refgraph.get %{{.*}} kept_cast {requires_grad = true} : !refgraph.tensor<[4], [1], f32, "cpu"> -> !refgraph.tensor<[4], [1], bf16, "cpu">
  %cast = refgraph.get %x kept_cast {requires_grad = true} : !T -> !refgraph.tensor<[4], [1], bf16, "cpu">
  // CHECK: %[[C:.*]] = refgraph.get %[[E]] arg(1) type(4) : !refgraph.obj<"Config">
  %c = refgraph.get %e arg(1) type(4) : !refgraph.obj<"Config">
  // CHECK: refgraph.get %[[C]] attr("scale") equals(2.000000e+00 : f64) : !refgraph.obj<"Config"> -> !refgraph.obj<"float">
  %0 = refgraph.get %c attr("scale") equals(2.0) : !refgraph.obj<"Config"> -> !refgraph.obj<"float">
  // CHECK: %[[D:.*]] = refgraph.get %[[C]] dict : !refgraph.obj<"Config"> -> !refgraph.obj<"dict">
  %d = refgraph.get %c dict : !refgraph.obj<"Config"> -> !refgraph.obj<"dict">
  // CHECK: refgraph.get %[[D]] item("k") type(5)
  // CHECK: refgraph.get %[[D]] item(3) equals(none)
  // CHECK: refgraph.get %[[D]] item(object 7) equals(true)
  // CHECK: refgraph.get %[[D]] item(("a", 2, (), none)) equals(complex(1.000000e+00 : f64, 2.000000e+00 : f64))
  // CHECK: refgraph.get %[[D]] item(bytes("ab\00")) equals(ellipsis)
  // CHECK: refgraph.get %[[D]] item(-1) equals(1267650600228229401496703205376 : i128)
  %1 = refgraph.get %d item("k") type(5) : !refgraph.obj<"dict"> -> !refgraph.obj<"list">
  %2 = refgraph.get %d item(3) equals(none) : !refgraph.obj<"dict"> -> !refgraph.obj<"NoneType">
  %3 = refgraph.get %d item(object 7) equals(true) : !refgraph.obj<"dict"> -> !refgraph.obj<"bool">
  %4 = refgraph.get %d item(("a", 2, (), none)) equals(complex(1.0, 2.0)) : !refgraph.obj<"dict"> -> !refgraph.obj<"complex">
  %5 = refgraph.get %d item(bytes("ab\00")) equals(ellipsis) : !refgraph.obj<"dict"> -> !refgraph.obj<"ellipsis">
  %big = refgraph.get %d item(-1) equals(1267650600228229401496703205376 : i128) : !refgraph.obj<"dict"> -> !refgraph.obj<"int">
  // CHECK: refgraph.get %[[C]] type is(4)
  %6 = refgraph.get %c type is(4) : !refgraph.obj<"Config"> -> !refgraph.obj<"type">
  // CHECK: %[[T:.*]] = refgraph.object 4 "class Config" : !refgraph.obj<"type">
  %t = refgraph.object 4 "class Config" : !refgraph.obj<"type">
  // CHECK: refgraph.object 5 "constant tensor" holds [-1, 0] : !refgraph.tensor<[2], [1], i64, "cpu">
  %i = refgraph.object 5 "constant tensor" holds [-1, 0] : !refgraph.tensor<[2], [1], i64, "cpu">
  // CHECK: %[[F:.*]] = refgraph.get %[[T]] typeattr("forward") type(8) is(14)
  %f = refgraph.get %t typeattr("forward") type(8) is(14) : !refgraph.obj<"type"> -> !refgraph.obj<"function">
  // CHECK: refgraph.get %[[F]] code is(15)
  // CHECK: refgraph.get %[[F]] defaults
  // CHECK: refgraph.get %[[F]] kwdefaults
  // CHECK: refgraph.get %[[F]] globals
  // CHECK: refgraph.get %[[F]] cell(0, "n") equals(2)
  %7 = refgraph.get %f code is(15) : !refgraph.obj<"function"> -> !refgraph.obj<"code">
  %8 = refgraph.get %f defaults : !refgraph.obj<"function"> -> !refgraph.obj<"tuple">
  %9 = refgraph.get %f kwdefaults : !refgraph.obj<"function"> -> !refgraph.obj<"dict">
  %10 = refgraph.get %f globals : !refgraph.obj<"function"> -> !refgraph.obj<"dict">
  %11 = refgraph.get %f cell(0, "n") equals(2) : !refgraph.obj<"function"> -> !refgraph.obj<"int">
  // CHECK: refgraph.get %[[C]] slot("s")
  // CHECK: refgraph.get %[[C]] field("__func__")
  %12 = refgraph.get %c slot("s") : !refgraph.obj<"Config"> -> !refgraph.obj<"object">
  %13 = refgraph.get %c field("__func__") is(13) : !refgraph.obj<"Config"> -> !refgraph.obj<"function">
  // CHECK: refgraph.absent %[[C]] attr("hook") : !refgraph.obj<"Config">
  // CHECK: refgraph.absent %[[F]] cell(1, "late") : !refgraph.obj<"function">
  refgraph.absent %c attr("hook") : !refgraph.obj<"Config">
  refgraph.absent %f cell(1, "late") : !refgraph.obj<"function">
  // CHECK: refgraph.holds %[[D]] item("gelu") : !refgraph.obj<"dict">
  refgraph.holds %d item("gelu") : !refgraph.obj<"dict">
  // CHECK: refgraph.offset %{{.*}} is 8 : !refgraph.tensor<[4], [1], f32, "cpu">
  refgraph.offset %x is 8 : !T
  // CHECK: refgraph.get %{{.*}} grad equals(none) : !refgraph.tensor<[4], [1], f32, "cpu"> -> !refgraph.obj<"NoneType">
  %grad = refgraph.get %x grad equals(none) : !T -> !refgraph.obj<"NoneType">
  // CHECK: refgraph.unhooked %{{.*}} : !refgraph.tensor<[4], [1], f32, "cpu">
  refgraph.unhooked %x : !T
  // CHECK: refgraph.length %{{.*}} is 2 : !refgraph.obj<"list">
  refgraph.length %1 is 2 : !refgraph.obj<"list">
  // CHECK: refgraph.keys %[[D]] are ["a", 3, object 9] : !refgraph.obj<"dict">
  // CHECK: refgraph.keys %{{.*}} are [] : !refgraph.obj<"dict">
  refgraph.keys %d are ["a", 3, object 9] : !refgraph.obj<"dict">
  refgraph.keys %9 are [] : !refgraph.obj<"dict">
  // CHECK: refgraph.table %{{.*}} is [0, 1, 0, 0, 1, 2, 0, 0] : !refgraph.obj<"set">
  %set = refgraph.object 4 : !refgraph.obj<"set">
  refgraph.table %set is [0, 1, 0, 0, 1, 2, 0, 0] : !refgraph.obj<"set">
  // CHECK: refgraph.same %{{.*}}, %{{.*}} : !refgraph.obj<"list">, !refgraph.obj<"list">
  // CHECK: refgraph.distinct %{{.*}}, %{{.*}} : !refgraph.obj<"list">, !refgraph.obj<"dict">
  refgraph.same %1, %1 : !refgraph.obj<"list">, !refgraph.obj<"list">
  refgraph.distinct %1, %d : !refgraph.obj<"list">, !refgraph.obj<"dict">
  // CHECK: refgraph.state {default_dtype = f32, grad_mode = false}
  refgraph.state {grad_mode = false, default_dtype = f32}
  // CHECK: refgraph.state {handles_exception = false}
  refgraph.state {handles_exception = false}
  // CHECK: refgraph.state {autocast_nested = false}
  refgraph.state {autocast_nested = false}
  // CHECK: refgraph.state {saved_tensor_hooks = false}
  refgraph.state {saved_tensor_hooks = false}
  // CHECK: refgraph.state {cuda_device = 1 : i64}
  refgraph.state {cuda_device = 1}
  // CHECK: refgraph.state {default_device = "cuda:1", torch_function_mode = true}
  refgraph.state {torch_function_mode = true, default_device = "cuda:1"}
  // CHECK: refgraph.leave %{{.*}} : !refgraph.tensor<[4], [1], f32, "cpu">
  refgraph.leave %x : !T
}

// CHECK-LABEL: refgraph.trace @writes attributes {source = "f.py"}
refgraph.trace @writes attributes {source = "f.py"} {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") : !T
  %c = refgraph.get %e arg(1, "c") : !refgraph.obj<"Config">
  %l = refgraph.get %e arg(2, "l") : !refgraph.obj<"list">
  %d = refgraph.get %e arg(3, "d") : !refgraph.obj<"dict">
  // CHECK: refgraph.tensor_op "aten::add.Tensor"(%[[X:[a-z0-9]+]], %[[X]], 1 : i64) : (
  // CHECK: %[[V:.*]] = refgraph.tensor_op "aten::slice.Tensor"(%[[X]], 0 : i64, 2 : i64, none, 1 : i64) aliases [0] {offsets = array<i64: 2>} : (
  // CHECK: refgraph.tensor_op "aten::add_.Scalar"(%[[V]], wrapped(2.000000e+00 : f64), true, "s", [%[[X]], 1 : i64], device("cpu")) mutates [0] : (
  // CHECK: refgraph.tensor_op "aten::both"(%[[X]]) aliases [0] mutates [0] {traits = ["pure"]} : (
  // CHECK: refgraph.tensor_op "aten::none"() : () -> ()
  %r = refgraph.tensor_op "aten::add.Tensor"(%x, %x, 1 : i64) : (!T, !T) -> !T
  %v = refgraph.tensor_op "aten::slice.Tensor"(%x, 0 : i64, 2 : i64, none, 1 : i64) aliases [0] {offsets = array<i64: 2>} : (!T) -> !H
  %w = refgraph.tensor_op "aten::add_.Scalar"(%v, wrapped(2.0 : f64), true, "s", [%x, 1 : i64], device("cpu")) mutates [0] : (!H, !T) -> !H
  %b:2 = refgraph.tensor_op "aten::both"(%x) mutates [0] aliases [0] {traits = ["pure"]} : (!T) -> (!T, !T)
  refgraph.tensor_op "aten::none"() : () -> ()
  // CHECK: refgraph.constant 2
  // CHECK: refgraph.constant ("a", 2.000000e+00 : f64)
  // CHECK: refgraph.constant "s"
  %two = refgraph.constant 2
  %tup = refgraph.constant ("a", 2.0 : f64)
  %str = refgraph.constant "s"
  // CHECK: refgraph.create "tuple" [%{{.*}}, %{{.*}}] : (!refgraph.tensor<[4], [1], f32, "cpu">, !refgraph.obj<"int">) -> !refgraph.obj<"tuple">
  // CHECK: refgraph.create "list" [] : () -> !refgraph.obj<"list">
  // CHECK: refgraph.create "dict" items {"a" = %{{.*}}, 3 = %{{.*}}} : (
  // CHECK: refgraph.create "instance" type(7) items {"a" = %{{.*}}} attrs {"b" = %{{.*}}} : (
  // CHECK: refgraph.create "instance" type(8) [%{{.*}}] : (
  %o = refgraph.create "tuple" [%r, %two] : (!T, !refgraph.obj<"int">) -> !refgraph.obj<"tuple">
  %o1 = refgraph.create "list" [] : () -> !refgraph.obj<"list">
  %o2 = refgraph.create "dict" items {"a" = %r, 3 = %str} : (!T, !refgraph.obj<"str">) -> !refgraph.obj<"dict">
  %o3 = refgraph.create "instance" type(7) items {"a" = %r} attrs {"b" = %two} : (!T, !refgraph.obj<"int">) -> !refgraph.obj<"Out">
  %o4 = refgraph.create "instance" type(8) [%r] : (!T) -> !refgraph.obj<"Pair">
  // CHECK: refgraph.create "cell" [%{{.*}}] : (
  %cell = refgraph.create "cell" [%r] : (!T) -> !refgraph.obj<"cell">
  // CHECK: refgraph.create "cell" [] : (
  // CHECK: refgraph.create "generator" [%{{.*}}, %{{.*}}] : (
  %empty = refgraph.create "cell" [] : () -> !refgraph.obj<"cell">
  %waiting = refgraph.create "generator" [%c, %two] : (!refgraph.obj<"Config">, !refgraph.obj<"int">) -> !refgraph.obj<"generator">
  // CHECK: refgraph.create "function" [%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}] : (
  %made = refgraph.create "function" [%c, %d, %two, %two, %two, %two] : (!refgraph.obj<"Config">, !refgraph.obj<"dict">, !refgraph.obj<"int">, !refgraph.obj<"int">, !refgraph.obj<"int">, !refgraph.obj<"int">) -> !refgraph.obj<"function">
  // CHECK: refgraph.create "token" [%{{.*}}, %{{.*}}] : (
  // CHECK: refgraph.delete %{{.*}} slot("value") : !refgraph.obj<"_contextvars.Token">
  %token = refgraph.create "token" [%c, %two] : (!refgraph.obj<"Config">, !refgraph.obj<"int">) -> !refgraph.obj<"_contextvars.Token">
  refgraph.delete %token slot("value") : !refgraph.obj<"_contextvars.Token">
  // CHECK: refgraph.create "range_iterator" [%{{.*}}, %{{.*}}, %{{.*}}] : (
  %range = refgraph.create "range_iterator" [%two, %two, %two] : (!refgraph.obj<"int">, !refgraph.obj<"int">, !refgraph.obj<"int">) -> !refgraph.obj<"range_iterator">
  // CHECK: refgraph.create "iterator" type(7) [%{{.*}}, %{{.*}}] : (
  %walk = refgraph.create "iterator" type(7) [%d, %two] : (!refgraph.obj<"dict">, !refgraph.obj<"int">) -> !refgraph.obj<"dict_keyiterator">
  // CHECK: refgraph.create "number" [%{{.*}}] : (!refgraph.tensor<[], [], f64, "cpu">) -> !refgraph.obj<"float">
  %z = refgraph.tensor_op "aten::zeros"([], 7 : i64, none, none, none) : () -> !refgraph.tensor<[], [], f64, "cpu">
  %num = refgraph.create "number" [%z] : (!refgraph.tensor<[], [], f64, "cpu">) -> !refgraph.obj<"float">
  // A number that is computed stands for one of Python's.
  // CHECK: "aten::mul.Tensor"(%{{.*}}, wrapped(%{{.*}})) : (!refgraph.tensor<[4], [1], f32, "cpu">, !refgraph.tensor<[], [], f64, "cpu">)
  %times = refgraph.tensor_op "aten::mul.Tensor"(%r, wrapped(%z)) : (!T, !refgraph.tensor<[], [], f64, "cpu">) -> !T
  // CHECK: refgraph.set %[[C:.*]] attr("last") = %{{.*}} : !refgraph.obj<"Config">, !refgraph.tensor<[4], [1], f32, "cpu">
  // CHECK: refgraph.set %{{.*}} item("k") = %{{.*}} : !refgraph.obj<"dict">, !refgraph.obj<"int">
  // CHECK: refgraph.delete %[[C]] attr("old") : !refgraph.obj<"Config">
  // CHECK: refgraph.append %[[L:.*]], %{{.*}} : !refgraph.obj<"list">, !refgraph.obj<"int">
  // CHECK: refgraph.replace %[[L]] [%{{.*}}] : !refgraph.obj<"list">, (!refgraph.obj<"int">)
  // CHECK: refgraph.replace %{{.*}} items {"a" = %{{.*}}} : !refgraph.obj<"dict">, (!refgraph.obj<"int">)
  refgraph.set %c attr("last") = %r : !refgraph.obj<"Config">, !T
  refgraph.set %d item("k") = %two : !refgraph.obj<"dict">, !refgraph.obj<"int">
  refgraph.delete %c attr("old") : !refgraph.obj<"Config">
  refgraph.append %l, %two : !refgraph.obj<"list">, !refgraph.obj<"int">
  refgraph.replace %l [%two] : !refgraph.obj<"list">, (!refgraph.obj<"int">)
  refgraph.replace %d items {"a" = %two} : !refgraph.obj<"dict">, (!refgraph.obj<"int">)
  refgraph.leave %o : !refgraph.obj<"tuple">
}

// CHECK-LABEL: refgraph.guards @f
refgraph.guards @f {
  // CHECK: %[[M:.*]] = refgraph.object 9 : !refgraph.obj<"Linear">
  // CHECK: %[[MD:.*]] = refgraph.get %[[M]] dict : !refgraph.obj<"Linear"> -> !refgraph.obj<"dict">
  // CHECK: %[[W:.*]] = refgraph.get %[[MD]] item("w") unchecked : !refgraph.obj<"dict"> -> !refgraph.tensor<[4], [1], f32, "cpu">
  %m = refgraph.object 9 : !refgraph.obj<"Linear">
  %md = refgraph.get %m dict : !refgraph.obj<"Linear"> -> !refgraph.obj<"dict">
  %w = refgraph.get %md item("w") unchecked : !refgraph.obj<"dict"> -> !T
  %f = refgraph.object 10 : !refgraph.obj<"function">
  %t = refgraph.object 11 : !refgraph.obj<"type">
  // CHECK: refgraph.watch dicts(%[[MD]] : !refgraph.obj<"dict">) types(%{{.*}} : !refgraph.obj<"type">) functions(%{{.*}} : !refgraph.obj<"function">)
  refgraph.watch dicts(%md : !refgraph.obj<"dict">) types(%t : !refgraph.obj<"type">) functions(%f : !refgraph.obj<"function">)
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") : !T
  // CHECK: refgraph.instance %[[M]] dict(%[[MD]]) type(4) : !refgraph.obj<"Linear">, !refgraph.obj<"dict">
  refgraph.instance %m dict(%md) type(4) : !refgraph.obj<"Linear">, !refgraph.obj<"dict">
  // CHECK: refgraph.check %[[W]] type(3) {requires_grad = false} : !refgraph.tensor<[4], [1], f32, "cpu">
  refgraph.check %w type(3) {requires_grad = false} : !T
  // CHECK: refgraph.disjoint written(%[[X:.*]] : !refgraph.tensor<[4], [1], f32, "cpu">) read(%[[W]] : !refgraph.tensor<[4], [1], f32, "cpu">)
  refgraph.disjoint written(%x : !T) read(%w : !T)
  // CHECK: refgraph.disjoint written(%[[X]], %[[W]] : {{.*}}){{$}}
  refgraph.disjoint written(%x, %w : !T, !T)
  // CHECK: refgraph.unaliased written(%[[M]], %[[T:.*]] : !refgraph.obj<"Linear">, !refgraph.obj<"type">) read(%[[MD]] : !refgraph.obj<"dict">)
  refgraph.unaliased written(%m, %t : !refgraph.obj<"Linear">, !refgraph.obj<"type">) read(%md : !refgraph.obj<"dict">)
  // CHECK: refgraph.accept(%[[X]], %[[W]] : !refgraph.tensor<[4], [1], f32, "cpu">, !refgraph.tensor<[4], [1], f32, "cpu">) keeps(%[[M]] : !refgraph.obj<"Linear">)
  refgraph.accept(%x, %w : !T, !T) keeps(%m : !refgraph.obj<"Linear">)
}

// CHECK-LABEL: refgraph.guards @empty
refgraph.guards @empty {
  // CHECK: refgraph.watch
  refgraph.watch
  // CHECK: refgraph.accept()
  refgraph.accept()
}

// CHECK-LABEL: refgraph.mock @f inputs(%{{.*}}: !refgraph.tensor<[4], [1], f32, "cpu">, %{{.*}}: !refgraph.tensor<[4], [1], f32, "cpu">) keeps(%{{.*}}: !refgraph.obj<"Linear">) results(%{{.*}}: !refgraph.tensor<[4], [1], f32, "cpu">) {
refgraph.mock @f inputs(%x: !T, %w: !T) keeps(%m: !refgraph.obj<"Linear">) results(%r: !T) {
  // CHECK: refgraph.copy_back %{{.*}}, %{{.*}} : !refgraph.tensor<[4], [1], f32, "cpu">, !refgraph.tensor<[4], [1], f32, "cpu">
  refgraph.copy_back %x, %r : !T, !T
  // CHECK: refgraph.view %{{.*}} offset 0 plus #{{.*}} symbols(%{{.*}} : !refgraph.obj<"int">) : {{.*}} -> !refgraph.tensor<[s0, 2], [4, 1], f32, "cpu">
  %three = refgraph.constant 3
  %vs = refgraph.view %x offset 0 plus affine_map<()[s0] -> (s0 * 4)> symbols(%three : !refgraph.obj<"int">) : !T -> !refgraph.tensor<[s0, 2], [4, 1], f32, "cpu">
  // CHECK: refgraph.view %{{.*}} offset 2 : !refgraph.tensor<[4], [1], f32, "cpu"> -> !refgraph.tensor<[2], [1], f32, "cpu">
  %v = refgraph.view %x offset 2 : !T -> !H
  refgraph.leave %v : !H
}

// CHECK-LABEL: refgraph.graph @f(%{{.*}}: !refgraph.tensor<[4], [1], f32, "cpu">, %{{.*}}: !refgraph.tensor<[], [], complex<f32>, "cuda:0">) mutates [0] {
refgraph.graph @f(%x: !T, %s: !S) mutates [0] {
  %0 = refgraph.tensor_op "aten::relu_"(%x) mutates [0] : (!T) -> !T
  // CHECK: refgraph.yield %{{.*}}, %{{.*}} : !refgraph.tensor<[], [], complex<f32>, "cuda:0">, !refgraph.tensor<[4], [1], f32, "cpu">
  refgraph.yield %s, %0 : !S, !T
}

// CHECK-LABEL: refgraph.trace @gradients
refgraph.trace @gradients {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") {requires_grad = true} : !T
  // CHECK: refgraph.tensor_op "aten::detach"(%{{.*}}) aliases [0] {no_grad} : (
  %d = refgraph.tensor_op "aten::detach"(%x) aliases [0] {no_grad} : (!T) -> !T
  %r = refgraph.tensor_op "aten::mul.Tensor"(%x, %d) : (!T, !T) -> !T
  // CHECK: refgraph.differentiable %{{.*}} : !refgraph.tensor<[4], [1], f32, "cpu">
  refgraph.differentiable %r : !T
  // CHECK: refgraph.tensor_op "aten::scaled_dot_product_attention"({{.*}}) {kernel = "flash_cpu"} : (
  %a = refgraph.tensor_op "aten::scaled_dot_product_attention"(%r, %r, %r, none, 0.0 : f64, false, none, false) {kernel = "flash_cpu"} : (!T, !T, !T) -> !T
  refgraph.leave %r : !T
}

// CHECK-LABEL: refgraph.graph @gradients(
// CHECK-SAME: attributes {gradient_inputs = array<i64: 0>, gradient_results = array<i64: 1>} {
refgraph.graph @gradients(%x: !T, %y: !T) attributes {gradient_inputs = array<i64: 0>, gradient_results = array<i64: 1>} {
  %r = refgraph.tensor_op "aten::mul.Tensor"(%x, %y) : (!T, !T) -> !T
  refgraph.yield %y, %r : !T, !T
}

// CHECK-LABEL: refgraph.graph @nothing()
refgraph.graph @nothing() {
  refgraph.yield
}

// CHECK-LABEL: refgraph.trace @numbers
refgraph.trace @numbers {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") type(3) : !T
  // CHECK: %[[N:.*]] = refgraph.get %{{.*}} arg(1, "n") type(2) equals(3) {lift} : !refgraph.obj<"int">
  %n = refgraph.get %e arg(1, "n") type(2) equals(3) {lift} : !refgraph.obj<"int">
  %two = refgraph.constant 2
  // CHECK: %[[M:.*]] = refgraph.arith "truediv"(%[[N]], %{{.*}}) is(1.500000e+00 : f64) : (!refgraph.obj<"int">, !refgraph.obj<"int">) -> !refgraph.obj<"float">
  %m = refgraph.arith "truediv"(%n, %two) is(1.5) : (!refgraph.obj<"int">, !refgraph.obj<"int">) -> !refgraph.obj<"float">
  // CHECK: refgraph.arith "neg"(%[[M]]) is(-1.500000e+00 : f64) : (!refgraph.obj<"float">) -> !refgraph.obj<"float">
  %k = refgraph.arith "neg"(%m) is(-1.5) : (!refgraph.obj<"float">) -> !refgraph.obj<"float">
  // CHECK: refgraph.compare "lt"(%[[N]], %[[M]]) is false : !refgraph.obj<"int">, !refgraph.obj<"float">
  refgraph.compare "lt"(%n, %m) is false : !refgraph.obj<"int">, !refgraph.obj<"float">
  // CHECK: refgraph.tensor_op "aten::add.Tensor"(%{{.*}}, wrapped(%[[N]]), number(%{{.*}})) : (!refgraph.tensor<[4], [1], f32, "cpu">, !refgraph.obj<"int">, !refgraph.obj<"float">)
  %0 = refgraph.tensor_op "aten::add.Tensor"(%x, wrapped(%n), number(%k)) : (!T, !refgraph.obj<"int">, !refgraph.obj<"float">) -> !T
  refgraph.leave %0 : !T
}

// CHECK-LABEL: refgraph.trace @decisions
refgraph.trace @decisions {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") : !T
  %c = refgraph.tensor_op "aten::any"(%x) : (!T) -> !refgraph.tensor<[], [], i1, "cpu">
  // CHECK: refgraph.decide %[[C:.*]] is true at "f.py:3" state "x=#0" [%{{.*}}, %[[C]]] : (
  // CHECK: refgraph.speculate %[[C]] is true : !refgraph.tensor<[], [], i1, "cpu">
  // CHECK: refgraph.decide %[[C]] is false at "f.py:3" state "" [] unfolded "why" : (
  // CHECK: refgraph.decide %[[C]] is open at "f.py:3" state "" [] : (
  refgraph.decide %c is true at "f.py:3" state "x=#0" [%x, %c] : (!refgraph.tensor<[], [], i1, "cpu">, !T, !refgraph.tensor<[], [], i1, "cpu">) -> ()
  refgraph.speculate %c is true : !refgraph.tensor<[], [], i1, "cpu">
  refgraph.decide %c is false at "f.py:3" state "" [] unfolded "why" : (!refgraph.tensor<[], [], i1, "cpu">) -> ()
  refgraph.decide %c is open at "f.py:3" state "" [] : (!refgraph.tensor<[], [], i1, "cpu">) -> ()
  refgraph.leave %x : !T
}

// CHECK-LABEL: refgraph.graph @loops
refgraph.graph @loops(%x: !T) {
  %c = refgraph.tensor_op "aten::any"(%x) : (!T) -> !refgraph.tensor<[], [], i1, "cpu">
  // CHECK: %[[R:.*]] = refgraph.while %{{.*}} is false carries(%{{.*}}) : (
  %r = refgraph.while %c is false carries(%x) : (!refgraph.tensor<[], [], i1, "cpu">, !T) -> !T {
  ^bb0(%a: !T):
    // CHECK: refgraph.while %{{.*}} is true : (
    // CHECK: refgraph.next %{{.*}} : (
    refgraph.while %c is true : (!refgraph.tensor<[], [], i1, "cpu">) -> () {
      refgraph.next %c : (!refgraph.tensor<[], [], i1, "cpu">) -> ()
    }
    // CHECK: refgraph.next %{{.*}} carries(%{{.*}}) : (
    refgraph.next %c carries(%a) : (!refgraph.tensor<[], [], i1, "cpu">, !T) -> ()
  }
  refgraph.yield %r : !T
}

// CHECK-LABEL: refgraph.graph @branches
refgraph.graph @branches(%x: !T) {
  %c = refgraph.tensor_op "aten::any"(%x) : (!T) -> !refgraph.tensor<[], [], i1, "cpu">
  // CHECK: %[[R:.*]] = refgraph.if %{{.*}} : (!refgraph.tensor<[], [], i1, "cpu">) -> !refgraph.tensor<[4], [1], f32, "cpu"> {
  %r = refgraph.if %c : (!refgraph.tensor<[], [], i1, "cpu">) -> !T {
    %n = refgraph.tensor_op "aten::neg"(%x) : (!T) -> !T
    // CHECK: refgraph.yield %{{.*}} : !refgraph.tensor<[4]
    refgraph.yield %n : !T
  // CHECK: } else {
  } else {
    // CHECK: refgraph.if %{{.*}} : (!refgraph.tensor<[], [], i1, "cpu">) -> () {
    refgraph.if %c : (!refgraph.tensor<[], [], i1, "cpu">) -> () {
      // CHECK-NEXT: refgraph.yield
      refgraph.yield
    } else {
      refgraph.yield
    }
    refgraph.yield %x : !T
  }
  // CHECK: refgraph.yield %[[R]]
  refgraph.yield %r : !T
}

// CHECK-LABEL: refgraph.trace @sizes
refgraph.trace @sizes {
  %e = refgraph.external
  // CHECK: %[[X:.*]] = refgraph.get %{{.*}} arg(0, "x") type(3) {lift_sizes = array<i64: 1>} : !refgraph.tensor<[s0, 4, s0 * s1 + 1], [(s0 * s1) * 4 + 4, s0 * s1 + 1, 1], f32, "cpu">
  %x = refgraph.get %e arg(0, "x") type(3) {lift_sizes = array<i64: 1>} : !refgraph.tensor<[s0, 4, s1 * s0 + 1], [s1 * s0 * 4 + 4, s0 * s1 + 1, 1], f32, "cpu">
  // CHECK: %[[N:.*]] = refgraph.size %[[X]][0] is(5) : !refgraph.tensor<[s0
  %n = refgraph.size %x[0] is(5) : !refgraph.tensor<[s0, 4, s1 * s0 + 1], [s1 * s0 * 4 + 4, s0 * s1 + 1, 1], f32, "cpu">
  // CHECK: refgraph.stride %[[X]][0] is(44)
  %m = refgraph.stride %x[0] is(44) : !refgraph.tensor<[s0, 4, s1 * s0 + 1], [s1 * s0 * 4 + 4, s0 * s1 + 1, 1], f32, "cpu">
  // CHECK: refgraph.layout %[[X]] "contiguous"
  refgraph.layout %x "contiguous" : !refgraph.tensor<[s0, 4, s1 * s0 + 1], [s1 * s0 * 4 + 4, s0 * s1 + 1, 1], f32, "cpu">
  // CHECK: refgraph.symbol 0 is %[[N]] : !refgraph.obj<"int">
  refgraph.symbol 0 is %n : !refgraph.obj<"int">
  // CHECK: refgraph.tensor_op "aten::zeros"([size(%[[N]]), #{{.*}}]) : (!refgraph.obj<"int">)
  %z = refgraph.tensor_op "aten::zeros"([size(%n), affine_map<()[s0] -> (s0)>]) : (!refgraph.obj<"int">) -> !refgraph.tensor<[s0, s0], [s0, 1], f32, "cpu">
  refgraph.leave %z : !refgraph.tensor<[s0, s0], [s0, 1], f32, "cpu">
}
