// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s -split-input-file -verify-diagnostics

// expected-error@+1 {{tensor type has 1 sizes but 2 strides}}
!T = !refgraph.tensor<[4], [1, 1], f32, "cpu">

// -----

// expected-error@+1 {{tensor type has negative stride -1}}
!T = !refgraph.tensor<[4], [-1], f32, "cpu">

// -----

// expected-error@+1 {{'index' is no tensor element type}}
!T = !refgraph.tensor<[4], [1], index, "cpu">

// -----

// expected-error@+1 {{tensor type names no device}}
!T = !refgraph.tensor<[4], [1], f32, "">

// -----

refgraph.trace @f {
  %e = refgraph.external
  // expected-error@+1 {{unknown selector 'attribute'}}
  %x = refgraph.get %e attribute("x") : !refgraph.obj<"int"> -> !refgraph.obj<"int">
  refgraph.leave %x : !refgraph.obj<"int">
}

// -----

refgraph.trace @f {
  %e = refgraph.external
  // expected-error@+1 {{selector 'attr' on the external state: only 'arg' is}}
  %x = refgraph.get %e attr("x") : !refgraph.obj<"external"> -> !refgraph.obj<"int">
  refgraph.leave %x : !refgraph.obj<"int">
}

// -----

refgraph.trace @f {
  %l = refgraph.object 3 : !refgraph.obj<"list">
  // expected-error@+1 {{selector 'code' needs a function, not '!refgraph.obj<"list">'}}
  %x = refgraph.get %l code : !refgraph.obj<"list"> -> !refgraph.obj<"code">
  refgraph.leave %x : !refgraph.obj<"code">
}

// -----

refgraph.trace @f {
  %l = refgraph.object 3 : !refgraph.obj<"Config">
  // expected-error@+1 {{selector 'attr' needs a name}}
  %x = refgraph.get %l attr(3) : !refgraph.obj<"Config"> -> !refgraph.obj<"int">
  refgraph.leave %x : !refgraph.obj<"int">
}

// -----

refgraph.trace @f {
  %l = refgraph.object 3 : !refgraph.obj<"dict">
  // expected-error@+1 {{expected a Python value, found 3 : i32}}
  %x = refgraph.get %l item(3 : i32) : !refgraph.obj<"dict"> -> !refgraph.obj<"int">
  refgraph.leave %x : !refgraph.obj<"int">
}

// -----

refgraph.trace @f {
  %l = refgraph.object 3 : !refgraph.obj<"dict">
  // expected-error@+1 {{check 'is' needs an object index, not -1}}
  %x = refgraph.get %l item(3) is(-1) : !refgraph.obj<"dict"> -> !refgraph.obj<"int">
  refgraph.leave %x : !refgraph.obj<"int">
}

// -----

refgraph.trace @f {
  %l = refgraph.object 3 : !refgraph.obj<"dict">
  // expected-error@+1 {{a tensor is not compared by value}}
  %x = refgraph.get %l item(3) equals(2) : !refgraph.obj<"dict"> -> !refgraph.tensor<[], [], f32, "cpu">
  refgraph.leave %x : !refgraph.tensor<[], [], f32, "cpu">
}

// -----

refgraph.trace @f {
  %l = refgraph.object 3 : !refgraph.obj<"dict">
  // expected-error@+1 {{tensor metadata on a value of type '!refgraph.obj<"int">'}}
  %x = refgraph.get %l item(3) {requires_grad = true} : !refgraph.obj<"dict"> -> !refgraph.obj<"int">
  refgraph.leave %x : !refgraph.obj<"int">
}

// -----

refgraph.trace @f {
  %l = refgraph.object 3 : !refgraph.obj<"dict">
  // expected-error@+1 {{is 'unchecked' outside of guards}}
  %x = refgraph.get %l item(3) unchecked : !refgraph.obj<"dict"> -> !refgraph.tensor<[], [], f32, "cpu">
  refgraph.leave %x : !refgraph.tensor<[], [], f32, "cpu">
}

// -----

refgraph.trace @f {
  %l = refgraph.object 3 : !refgraph.obj<"function">
  // expected-error@+1 {{selector 'code' always finds something}}
  refgraph.absent %l code : !refgraph.obj<"function">
  refgraph.leave %l : !refgraph.obj<"function">
}

// -----

refgraph.trace @f {
  %l = refgraph.object 3 : !refgraph.obj<"function">
  // expected-error@+1 {{selector 'globals' cannot be written}}
  refgraph.set %l globals = %l : !refgraph.obj<"function">, !refgraph.obj<"function">
  refgraph.leave %l : !refgraph.obj<"function">
}

// -----

refgraph.trace @f {
  %l = refgraph.object 3 : !refgraph.obj<"dict">
  // expected-error@+1 {{key "a" occurs twice}}
  refgraph.keys %l are ["a", "a"] : !refgraph.obj<"dict">
  refgraph.leave %l : !refgraph.obj<"dict">
}

// -----

refgraph.trace @f {
  %s = refgraph.object 3 : !refgraph.obj<"set">
  // expected-error@+1 {{a set's table has a power of two of places, not 3}}
  refgraph.table %s is [0, 1, 0] : !refgraph.obj<"set">
  refgraph.leave %s : !refgraph.obj<"set">
}

// -----

refgraph.trace @f {
  %l = refgraph.object 3 : !refgraph.obj<"list">
  // expected-error@+1 {{of a deque takes elements and its maxlen}}
  %d = refgraph.create "deque" [%l] : (!refgraph.obj<"list">) -> !refgraph.obj<"collections.deque">
  refgraph.leave %d : !refgraph.obj<"collections.deque">
}

// -----

refgraph.trace @f {
  %s = refgraph.object 3 : !refgraph.obj<"set">
  // expected-error@+1 {{a place is 0, 1 or 2, not 3}}
  refgraph.table %s is [0, 3] : !refgraph.obj<"set">
  refgraph.leave %s : !refgraph.obj<"set">
}

// -----

refgraph.trace @f {
  // expected-error@+1 {{state 'cuda_device' needs the index of a device}}
  refgraph.state {cuda_device = true}
  %l = refgraph.constant 2
  refgraph.leave %l : !refgraph.obj<"int">
}

// -----

refgraph.trace @f {
  // expected-error@+1 {{state 'default_device' needs a device, and torch_function_mode = true}}
  refgraph.state {default_device = "cpu", torch_function_mode = false}
  %l = refgraph.constant 2
  refgraph.leave %l : !refgraph.obj<"int">
}

// -----

refgraph.trace @f {
  // expected-error@+1 {{unknown state 'mood'}}
  refgraph.state {mood = true}
  %l = refgraph.constant 2
  refgraph.leave %l : !refgraph.obj<"int">
}

// -----

refgraph.trace @f {
  // expected-error@+1 {{state 'grad_mode' needs true or false}}
  refgraph.state {grad_mode = 3 : i64}
  %l = refgraph.constant 2
  refgraph.leave %l : !refgraph.obj<"int">
}

// -----

refgraph.trace @f {
  %l = refgraph.constant 2
  // expected-error@+1 {{of an instance needs its type}}
  %i = refgraph.create "instance" attrs {"n" = %l} : (!refgraph.obj<"int">) -> !refgraph.obj<"Config">
  refgraph.leave %i : !refgraph.obj<"Config">
}

// -----

refgraph.trace @f {
  %l = refgraph.constant 2
  // expected-error@+1 {{of an iterator needs its type and its parts}}
  %i = refgraph.create "iterator" [%l, %l] : (!refgraph.obj<"int">, !refgraph.obj<"int">) -> !refgraph.obj<"list_iterator">
  refgraph.leave %i : !refgraph.obj<"list_iterator">
}

// -----

refgraph.trace @f {
  %l = refgraph.constant 2
  // expected-error@+1 {{of kind 'slice' takes 3 elements, not 1}}
  %i = refgraph.create "slice" [%l] : (!refgraph.obj<"int">) -> !refgraph.obj<"slice">
  refgraph.leave %i : !refgraph.obj<"slice">
}

// -----

!N = !refgraph.tensor<[4], [1], f64, "cpu">
refgraph.trace @f {
  %e = refgraph.external
  %t = refgraph.get %e arg(0, "") : !N
  // expected-error@+1 {{of kind 'number' is made of a 0-dim tensor of f64, i64 or i1, not of '!refgraph.tensor<[4], [1], f64, "cpu">'}}
  %i = refgraph.create "number" [%t] : (!N) -> !refgraph.obj<"float">
  refgraph.leave %i : !refgraph.obj<"float">
}

// -----

!N = !refgraph.tensor<[], [], i64, "cpu">
refgraph.trace @f {
  %e = refgraph.external
  %t = refgraph.get %e arg(0, "") : !N
  // expected-error@+1 {{makes a number of type 'int', not '!refgraph.obj<"float">'}}
  %i = refgraph.create "number" [%t] : (!N) -> !refgraph.obj<"float">
  refgraph.leave %i : !refgraph.obj<"float">
}

// -----

!N = !refgraph.tensor<[4], [1], i1, "cpu">
refgraph.trace @f {
  %e = refgraph.external
  %t = refgraph.get %e arg(0, "") : !N
  // expected-error@+1 {{decides on 4 elements of}}
  refgraph.speculate %t is true : !N
  refgraph.leave %t : !N
}

// -----

refgraph.trace @f {
  // expected-error@+1 {{unknown kind 'bag'}}
  %i = refgraph.create "bag" [] : () -> !refgraph.obj<"bag">
  refgraph.leave %i : !refgraph.obj<"bag">
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
refgraph.graph @f(%x: !T) {
  // expected-error@+1 {{'mutates' names operand 1 of 1}}
  %0 = refgraph.tensor_op "aten::relu_"(%x) mutates [1] : (!T) -> !T
  refgraph.yield %0 : !T
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
refgraph.graph @f(%x: !T) {
  // expected-error@+1 {{has 0 results, fewer than the 1 operands that it mutates}}
  refgraph.tensor_op "aten::relu_"(%x) mutates [0] : (!T) -> ()
  refgraph.yield %x : !T
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
refgraph.graph @f(%x: !T) {
  // expected-error@+1 {{'aliases' without a result that could share storage}}
  %0 = refgraph.tensor_op "aten::relu_"(%x) aliases [0] mutates [0] : (!T) -> !T
  refgraph.yield %0 : !T
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
refgraph.graph @f(%x: !T) {
  // expected-error@+1 {{has 2 offsets for 1 fresh results}}
  %0 = refgraph.tensor_op "aten::view"(%x, [4 : i64]) aliases [0] {offsets = array<i64: 0, 1>} : (!T) -> !T
  refgraph.yield %0 : !T
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
refgraph.graph @f(%x: !T) {
  // expected-error@+1 {{number of operands and types do not match: got 1 operands and 2 types}}
  %0 = refgraph.tensor_op "aten::relu"(%x) : (!T, !T) -> !T
  refgraph.yield %0 : !T
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!D = !refgraph.tensor<[4], [1], f64, "cpu">
refgraph.graph @f(%x: !T) {
  // expected-error@+1 {{new version of operand 0 has type '!refgraph.tensor<[4], [1], f64, "cpu">', not}}
  %0 = refgraph.tensor_op "aten::relu_"(%x) mutates [0] : (!T) -> !D
  refgraph.yield %0 : !D
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!H = !refgraph.tensor<[2], [1], f32, "cpu">
// expected-error@+1 {{new contents of input 0 have type}}
refgraph.graph @f(%x: !T, %h: !H) mutates [0] {
  refgraph.yield %h : !H
}

// -----

refgraph.trace @f {
  // expected-error@+1 {{block with no terminator}}
  %e = refgraph.external
}

// -----

refgraph.guards @f {
  // expected-error@+1 {{'refgraph.create' op does not belong in 'refgraph.guards'}}
  %e = refgraph.create "tuple" [] : () -> !refgraph.obj<"tuple">
  refgraph.accept()
}

// -----

refgraph.guards @f {
  refgraph.watch
  // expected-error@+1 {{is the second one: a watched part ends once}}
  refgraph.watch
  refgraph.accept()
}

// -----

refgraph.guards @f {
  %d = refgraph.object 3 : !refgraph.obj<"dict">
  // expected-error@+1 {{is 'unchecked' and nothing checks its result}}
  %x = refgraph.get %d item("w") unchecked : !refgraph.obj<"dict"> -> !refgraph.tensor<[4], [1], f32, "cpu">
  refgraph.accept()
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!G = !refgraph.tensor<[4], [1], f32, "cuda:0">
refgraph.mock @f inputs(%x: !T) {
  // expected-error@+1 {{to another device}}
  %v = refgraph.view %x offset 0 : !T -> !G
  refgraph.leave %v : !G
}

// -----

// expected-error@+1 {{graph result of type '!refgraph.obj<"int">'}}
refgraph.mock @f results(%x: !refgraph.obj<"int">) {
  refgraph.leave %x : !refgraph.obj<"int">
}

// -----

refgraph.trace @f {
  %e = refgraph.external
  // expected-error @+1 {{'refgraph.get' op lifts '!refgraph.obj<"str">', which is no int or float}}
  %n = refgraph.get %e arg(0) {lift} : !refgraph.obj<"str">
  refgraph.leave %e : !refgraph.obj<"external">
}

// -----

refgraph.trace @f {
  %e = refgraph.external
  %n = refgraph.constant 1
  // expected-error @+1 {{'refgraph.arith' op unknown function 'xor'}}
  %m = refgraph.arith "xor"(%n, %n) is(1) : (!refgraph.obj<"int">, !refgraph.obj<"int">) -> !refgraph.obj<"int">
  refgraph.leave %e : !refgraph.obj<"external">
}

// -----

refgraph.trace @f {
  %e = refgraph.external
  %n = refgraph.constant 1
  // expected-error @+1 {{'refgraph.arith' op 'neg' takes 1 operands, not 2}}
  %m = refgraph.arith "neg"(%n, %n) is(1) : (!refgraph.obj<"int">, !refgraph.obj<"int">) -> !refgraph.obj<"int">
  refgraph.leave %e : !refgraph.obj<"external">
}

// -----

refgraph.trace @f {
  %e = refgraph.external
  %n = refgraph.constant 1
  // expected-error @+1 {{is no number of type}}
  %m = refgraph.arith "neg"(%n) is(1.5) : (!refgraph.obj<"int">) -> !refgraph.obj<"int">
  refgraph.leave %e : !refgraph.obj<"external">
}

// -----

refgraph.trace @f {
  %e = refgraph.external
  %n = refgraph.constant "a"
  // expected-error @+1 {{'refgraph.compare' op takes ints and floats}}
  refgraph.compare "lt"(%n, %n) is true : !refgraph.obj<"str">, !refgraph.obj<"str">
  refgraph.leave %e : !refgraph.obj<"external">
}

// -----

refgraph.trace @f {
  %e = refgraph.external
  %n = refgraph.constant 1
  // expected-error @+1 {{stands in place of a tensor}}
  %m = refgraph.tensor_op "aten::relu"(%n) : (!refgraph.obj<"int">) -> !refgraph.tensor<[4], [1], f32, "cpu">
  refgraph.leave %e : !refgraph.obj<"external">
}

// -----

refgraph.graph @f(%x: !refgraph.tensor<[4], [1], f32, "cpu">) {
  // expected-error @+1 {{'refgraph.decide' op decides on 4 elements}}
  refgraph.decide %x is true at "" state "" [] : (!refgraph.tensor<[4], [1], f32, "cpu">) -> ()
  refgraph.yield
}

// -----

refgraph.graph @f(%x: !refgraph.tensor<[], [], f32, "cpu">) {
  // expected-error @+1 {{expected 'true', 'false' or 'open'}}
  refgraph.decide %x is maybe at "" state "" [] : (!refgraph.tensor<[], [], f32, "cpu">) -> ()
  refgraph.yield
}

// -----

refgraph.graph @f(%x: !refgraph.tensor<[], [], f32, "cpu">) {
  // expected-error @+1 {{'refgraph.while' op carries tensors of other types than its next values}}
  %r = refgraph.while %x is true carries(%x) : (!refgraph.tensor<[], [], f32, "cpu">, !refgraph.tensor<[], [], f32, "cpu">) -> !refgraph.tensor<[], [], f32, "cpu"> {
  ^bb0(%a: !refgraph.tensor<[], [], f32, "cpu">):
    refgraph.next %x : (!refgraph.tensor<[], [], f32, "cpu">) -> ()
  }
  refgraph.yield
}

// -----

refgraph.graph @f(%x: !refgraph.tensor<[], [], f32, "cpu">) {
  // expected-error @+1 {{'refgraph.while' op carries tensors of other types than its block arguments}}
  %r = refgraph.while %x is true carries(%x) : (!refgraph.tensor<[], [], f32, "cpu">, !refgraph.tensor<[], [], f32, "cpu">) -> !refgraph.tensor<[], [], f32, "cpu"> {
    refgraph.next %x carries(%x) : (!refgraph.tensor<[], [], f32, "cpu">, !refgraph.tensor<[], [], f32, "cpu">) -> ()
  }
  refgraph.yield
}

// -----

refgraph.graph @f(%x: !refgraph.tensor<[], [], f32, "cpu">, %y: !refgraph.tensor<[1], [1], f32, "cpu">) {
  refgraph.while %x is true : (!refgraph.tensor<[], [], f32, "cpu">) -> () {
    // expected-error @+1 {{has a condition of type}}
    refgraph.next %y : (!refgraph.tensor<[1], [1], f32, "cpu">) -> ()
  }
  refgraph.yield
}

// -----

refgraph.graph @f(%x: !refgraph.tensor<[], [], f32, "cpu">) {
  refgraph.while %x is true : (!refgraph.tensor<[], [], f32, "cpu">) -> () {
    // expected-error @+1 {{does not belong in 'refgraph.while'}}
    %c = refgraph.constant 1
    refgraph.next %x : (!refgraph.tensor<[], [], f32, "cpu">) -> ()
  }
  refgraph.yield
}

// -----

refgraph.graph @f(%x: !refgraph.tensor<[], [], f32, "cpu">) {
  refgraph.while %x is true : (!refgraph.tensor<[], [], f32, "cpu">) -> () {
    // expected-error @+1 {{block with no terminator}}
    %c = refgraph.tensor_op "aten::neg"(%x) : (!refgraph.tensor<[], [], f32, "cpu">) -> !refgraph.tensor<[], [], f32, "cpu">
  }
  refgraph.yield
}

// -----

refgraph.trace @f {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") type(3) : !refgraph.tensor<[4], [1], f32, "cpu">
  // expected-error @+1 {{asks for size 1 of}}
  %n = refgraph.size %x[1] is(4) : !refgraph.tensor<[4], [1], f32, "cpu">
  refgraph.leave %e : !refgraph.obj<"external">
}

// -----

refgraph.trace @f {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") type(3) : !refgraph.tensor<[4], [1], f32, "cpu">
  // expected-error @+1 {{is 5, but size 0 of}}
  %n = refgraph.size %x[0] is(5) : !refgraph.tensor<[4], [1], f32, "cpu">
  refgraph.leave %e : !refgraph.obj<"external">
}

// -----

refgraph.trace @f {
  %e = refgraph.external
  // expected-error @+1 {{lifts size 1 of}}
  %x = refgraph.get %e arg(0, "x") type(3) {lift_sizes = array<i64: 1>} : !refgraph.tensor<[4], [1], f32, "cpu">
  refgraph.leave %e : !refgraph.obj<"external">
}

// -----

refgraph.trace @f {
  %e = refgraph.external
  // expected-error @+1 {{lifts stride 1 of}}
  %x = refgraph.get %e arg(0, "x") type(3) {lift_strides = array<i64: 1>} : !refgraph.tensor<[4], [1], f32, "cpu">
  refgraph.leave %e : !refgraph.obj<"external">
}

// -----

// expected-error @+1 {{expected sums and products of symbols and constants}}
refgraph.graph @f(%x: !refgraph.tensor<[s0 floordiv 2], [1], f32, "cpu">) {
  refgraph.yield
}

// -----

// expected-error @+1 {{names no size}}
refgraph.graph @f(%x: !refgraph.tensor<[s0], [1], f32, "cpu">) attributes {symbols = [array<i64: 0, 1>]} {
  refgraph.yield
}

// -----

refgraph.trace @f {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") type(3) : !refgraph.tensor<[4], [1], f32, "cpu">
  %n = refgraph.constant 1.5 : f64
  // expected-error @+1 {{stands in place of an int}}
  %m = refgraph.tensor_op "aten::view"(%x, [size(%n)]) aliases [0] : (!refgraph.tensor<[4], [1], f32, "cpu">, !refgraph.obj<"float">) -> !refgraph.tensor<[4], [1], f32, "cpu">
  refgraph.leave %e : !refgraph.obj<"external">
}

// -----

refgraph.graph @f(%x: !refgraph.tensor<[4], [1], f32, "cpu">) {
  // expected-error @+1 {{decides on 4 elements}}
  refgraph.if %x : (!refgraph.tensor<[4], [1], f32, "cpu">) -> () {
    refgraph.yield
  } else {
    refgraph.yield
  }
  refgraph.yield
}

// -----

refgraph.graph @f(%x: !refgraph.tensor<[], [], f32, "cpu">) {
  %r = refgraph.if %x : (!refgraph.tensor<[], [], f32, "cpu">) -> !refgraph.tensor<[], [], f32, "cpu"> {
    refgraph.yield %x : !refgraph.tensor<[], [], f32, "cpu">
  } else {
    // expected-error @+1 {{hands out tensors of other types than the results of 'refgraph.if'}}
    refgraph.yield
  }
  refgraph.yield
}

// -----

refgraph.graph @f(%x: !refgraph.tensor<[], [], f32, "cpu">) {
  refgraph.if %x : (!refgraph.tensor<[], [], f32, "cpu">) -> () {
    // expected-error @+1 {{does not belong in 'refgraph.if'}}
    %n = refgraph.constant 1
    refgraph.yield
  } else {
    refgraph.yield
  }
  refgraph.yield
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">

// expected-error@+1 {{elements array<i64: 1, 3> name no input}}
refgraph.graph @f(%x: !T) attributes {holds = [array<i64: 1, 3>]} {
  refgraph.yield %x : !T
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">

refgraph.mock @f inputs(%x: !T) {
  // expected-error@+1 {{has symbols without a number}}
  %v = refgraph.view %x offset 0 : !T -> !refgraph.tensor<[s0], [1], f32, "cpu">
  refgraph.leave %v : !refgraph.tensor<[s0], [1], f32, "cpu">
}

// -----

refgraph.trace @f {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") : !refgraph.tensor<[4], [1], f32, "cpu">
  // expected-error @+1 {{in an unknown way: 'upside down'}}
  refgraph.shown %x "upside down" : !refgraph.tensor<[4], [1], f32, "cpu">
  refgraph.leave %x : !refgraph.tensor<[4], [1], f32, "cpu">
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">

refgraph.trace @f {
  // expected-error@+1 {{'no_grad' without an operand that could require grad}}
  %r = refgraph.tensor_op "aten::zeros"([4 : i64], none, none, none, none) {no_grad} : () -> !T
  refgraph.leave %r : !T
}

// -----

!I = !refgraph.tensor<[4], [1], i64, "cpu">

refgraph.trace @f {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") : !I
  // expected-error@+1 {{on elements that have no gradient}}
  refgraph.differentiable %x : !I
  refgraph.leave %x : !I
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">

// expected-error@+1 {{has one of 'gradient_inputs' and 'gradient_results'}}
refgraph.graph @f(%x: !T) attributes {gradient_results = array<i64: 0>} {
  refgraph.yield %x : !T
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">

// expected-error@+1 {{'gradient_inputs' must list numbers below 2 in order}}
refgraph.graph @f(%x: !T, %y: !T) attributes {gradient_inputs = array<i64: 1, 0>, gradient_results = array<i64: 0>} {
  refgraph.yield %x : !T
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">

// expected-error@+1 {{'gradient_views' is 2, but it yields 1 values}}
refgraph.graph @f(%x: !T) attributes {gradient_views = 2 : i64} {
  refgraph.yield %x : !T
}

// -----

!I = !refgraph.tensor<[4], [1], i64, "cpu">

// expected-error@+1 {{'gradient_results' names '!refgraph.tensor<[4], [1], i64, "cpu">', which has no gradient}}
refgraph.graph @f(%x: !I) attributes {gradient_inputs = array<i64>, gradient_results = array<i64: 0>} {
  refgraph.yield %x : !I
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
refgraph.guards @f {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") : !T
  // expected-error@+1 {{needs a written tensor and another one}}
  refgraph.disjoint written(%x : !T)
  refgraph.accept(%x : !T)
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
refgraph.guards @f {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") : !T
  // expected-error@+1 {{lists a tensor twice, which overlaps itself}}
  refgraph.disjoint written(%x : !T) read(%x : !T)
  refgraph.accept(%x : !T)
}

// -----

refgraph.guards @f {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") : !refgraph.obj<"list">
  // expected-error@+1 {{needs a written object and another one}}
  refgraph.unaliased written(%x : !refgraph.obj<"list">)
  refgraph.accept()
}

// -----

refgraph.guards @f {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") : !refgraph.obj<"list">
  // expected-error@+1 {{lists an object twice, which is no other one than itself}}
  refgraph.unaliased written(%x, %x : !refgraph.obj<"list">, !refgraph.obj<"list">)
  refgraph.accept()
}

// -----

refgraph.trace @f {
  %o = refgraph.object 3 "weights" : !refgraph.obj<"list">
  // expected-error@+1 {{selector 'kept_cast' needs a tensor, not '!refgraph.obj<"list">'}}
  %c = refgraph.get %o kept_cast : !refgraph.obj<"list"> -> !refgraph.tensor<[4], [1], bf16, "cpu">
  refgraph.leave %o : !refgraph.obj<"list">
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
refgraph.trace @f {
  %e = refgraph.external
  %w = refgraph.get %e arg(0, "w") : !T
  // expected-error@+1 {{selector 'kept_cast' finds a tensor, of which only metadata is checked}}
  %c = refgraph.get %w kept_cast is(3) : !T -> !refgraph.tensor<[4], [1], bf16, "cpu">
  refgraph.leave %w : !T
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
refgraph.trace @f {
  %e = refgraph.external
  %w = refgraph.get %e arg(0, "w") : !T
  // expected-error@+1 {{selector 'storage' is written, and never read}}
  %s = refgraph.get %w storage : !T -> !T
  refgraph.leave %w : !T
}

// -----

refgraph.trace @f {
  %l = refgraph.object 3 : !refgraph.obj<"dict">
  // expected-error @+1 {{check 'is' needs an object index, not 9223372036854775807}}
  %x = refgraph.get %l item(3) is(9223372036854775807) : !refgraph.obj<"dict"> -> !refgraph.obj<"int">
  refgraph.leave %x : !refgraph.obj<"int">
}

// -----

refgraph.trace @f {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") : !refgraph.tensor<[s0], [1], f32, "cpu">
  %n = refgraph.size %x[0] is(5) : !refgraph.tensor<[s0], [1], f32, "cpu">
  // expected-error @+1 {{'refgraph.symbol' op is number 1 of 1}}
  refgraph.symbol 1 is %n : !refgraph.obj<"int">
  refgraph.leave %x : !refgraph.tensor<[s0], [1], f32, "cpu">
}

// -----

refgraph.trace @f {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") : !refgraph.tensor<[s0], [1], f32, "cpu">
  %n = refgraph.size %x[0] is(5) : !refgraph.tensor<[s0], [1], f32, "cpu">
  refgraph.symbol 0 is %n : !refgraph.obj<"int">
  // expected-error @+1 {{'refgraph.symbol' op is the second one of number 0}}
  refgraph.symbol 0 is %n : !refgraph.obj<"int">
  refgraph.leave %x : !refgraph.tensor<[s0], [1], f32, "cpu">
}

// -----

refgraph.trace @f {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") : !refgraph.tensor<[4], [1], f32, "cpu">
  // expected-error @+1 {{'aliases' names operand 0, on whose device is no result}}
  %y = refgraph.tensor_op "aten::alias"(%x) aliases [0] : (!refgraph.tensor<[4], [1], f32, "cpu">) -> !refgraph.tensor<[4], [1], f32, "cuda:0">
  refgraph.leave %y : !refgraph.tensor<[4], [1], f32, "cuda:0">
}
