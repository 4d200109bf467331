// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --refgraph-lift-sizes -split-input-file | FileCheck %s
// RUN: pyjit-opt %s --refgraph-lift-sizes=specialize=true --refgraph-lift -split-input-file | FileCheck %s --check-prefix=SPECIALIZED
// RUN: pyjit-opt %s --pyjit-frontend -split-input-file | FileCheck %s --check-prefix=TSSA
// RUN: pyjit-opt %s --refgraph-lift-sizes --refgraph-lift --refgraph-generate-guards --refgraph-generate-mock --refgraph-extract-graph -split-input-file | FileCheck %s --check-prefix=SPECIALIZATION

// Two batches are one size: the sum relies on it.
// CHECK-LABEL: refgraph.trace @pointwise
// CHECK:         %[[X:.*]] = refgraph.get %{{.*}} arg(0, "x") type(3) : !refgraph.tensor<[s0, 64], [64, 1], f32, "cpu">
// CHECK:         %[[S:.*]] = refgraph.size %[[X]][0] is(5)
// CHECK:         %[[Y:.*]] = refgraph.get %{{.*}} arg(1, "y") type(3) : !refgraph.tensor<[s0, 64], [64, 1], f32, "cpu">
// CHECK:         %[[T:.*]] = refgraph.size %[[Y]][0] is(5)
// CHECK:         "aten::add.Tensor"(%[[X]], %[[Y]], 1 : i64) : {{.*}} -> !refgraph.tensor<[s0, 64], [64, 1], f32, "cpu">
// CHECK:         refgraph.compare "ge"(%[[S]], %{{.*}}) is true
// CHECK:         refgraph.symbol 0 is %[[S]]
// CHECK:         refgraph.compare "eq"(%[[T]], %[[S]]) is true
// PIN-LABEL:   refgraph.trace @pointwise
// PIN-NOT:       s0
// PIN-NOT:       refgraph.size
// SPECIALIZED:           refgraph.leave %{{.*}} : !refgraph.tensor<[5, 64], [64, 1], f32, "cpu">
// TSSA-LABEL:  func.func @pointwise(
// TSSA-SAME:     %{{.*}}: tensor<?x64xf32, #tssa.layout<[s0, 64], [64, 1]>>
// TSSA-SAME:     attributes {pyjit.symbols = [array<i64: 0, 0>]}
// SPECIALIZATION:      refgraph.guards @pointwise
// SPECIALIZATION:        refgraph.get %{{.*}} arg(0, "x") type(3) : !refgraph.tensor<[s0, 64], [64, 1], f32, "cpu">
// SPECIALIZATION:        refgraph.size
// SPECIALIZATION:        refgraph.compare "ge"
// SPECIALIZATION:      refgraph.graph @pointwise({{.*}}) attributes {symbols = [array<i64: 0, 0>]}
!T = !refgraph.tensor<[5, 64], [64, 1], f32, "cpu">
refgraph.trace @pointwise {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") type(3) {lift_sizes = array<i64: 0>} : !T
  %y = refgraph.get %e arg(1, "y") type(3) {lift_sizes = array<i64: 0>} : !T
  %s = refgraph.tensor_op "aten::add.Tensor"(%x, %y, 1 : i64) : (!T, !T) -> !T
  refgraph.leave %s : !T
}

// -----

// Strides that follow from a size are compared; a view of another size does.
// CHECK-LABEL: refgraph.trace @inner
// CHECK:         %[[X:.*]] = refgraph.get {{.*}} : !refgraph.tensor<[4, s0, 8], [s0 * 8, 8, 1], f32, "cpu">
// CHECK:         "aten::view"(%[[X]], [4 : i64, -1 : i64]) aliases [0] : {{.*}} -> !refgraph.tensor<[4, s0 * 8], [s0 * 8, 1], f32, "cpu">
// CHECK:         %[[W:.*]] = refgraph.stride %[[X]][0] is(40)
// CHECK:         refgraph.compare "eq"(%[[W]], %{{.*}}) is true
// TSSA-LABEL:  func.func @inner
// TSSA:          #tssa.view<view [4, s0 * 8]>
!A = !refgraph.tensor<[4, 5, 8], [40, 8, 1], f32, "cpu">
!B = !refgraph.tensor<[4, 40], [40, 1], f32, "cpu">
refgraph.trace @inner {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") type(3) {lift_sizes = array<i64: 1>} : !A
  %v = refgraph.tensor_op "aten::view"(%x, [4 : i64, -1 : i64]) aliases [0] : (!A) -> !B
  %r = refgraph.tensor_op "aten::neg"(%v) : (!B) -> !B
  refgraph.leave %r : !B
}

// -----

// A size that is written as a number keeps its value: 5 rows, whatever comes.
// CHECK-LABEL: refgraph.trace @literal
// CHECK-NOT:     s0
// CHECK:         refgraph.leave
!A = !refgraph.tensor<[5, 8], [8, 1], f32, "cpu">
!B = !refgraph.tensor<[5, 2, 4], [8, 4, 1], f32, "cpu">
refgraph.trace @literal {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") type(3) {lift_sizes = array<i64: 0>} : !A
  %v = refgraph.tensor_op "aten::view"(%x, [5 : i64, 2 : i64, 4 : i64]) aliases [0] : (!A) -> !B
  refgraph.leave %v : !B
}

// -----

// So does what is made of an operator without a rule, and a number that Python
// used in a way that nobody recorded.
// CHECK-LABEL: refgraph.trace @unknown
// CHECK-NOT:     s0
// CHECK:         refgraph.leave
!A = !refgraph.tensor<[5, 8], [8, 1], f32, "cpu">
refgraph.trace @unknown {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") type(3) {lift_sizes = array<i64: 0>} : !A
  %v = refgraph.tensor_op "mylib::odd"(%x) : (!A) -> !A
  refgraph.leave %v : !A
}

// -----

// CHECK-LABEL: refgraph.trace @specialized
// CHECK-NOT:     s0
// CHECK:         refgraph.leave
!A = !refgraph.tensor<[5, 8], [8, 1], f32, "cpu">
refgraph.trace @specialized {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") type(3) {lift_sizes = array<i64: 0>} : !A
  %n = refgraph.size %x[0] is(5) : !A
  %five = refgraph.constant 5
  refgraph.compare "is"(%n, %five) is true : !refgraph.obj<"int">, !refgraph.obj<"int">
  %v = refgraph.tensor_op "aten::neg"(%x) : (!A) -> !A
  refgraph.leave %v : !A
}

// -----

// Counted from the end, a position is an expression; an index has to be there.
// CHECK-LABEL: refgraph.trace @last
// CHECK:         "aten::select.int"(%{{.*}}, 1 : i64, #{{.*}}) aliases [0] {offsets = array<i64: 32>, symbolic_offsets = [#{{.*}}]} : {{.*}} -> !refgraph.tensor<[4, 8], [s0 * 8, 1], f32, "cpu">
// TSSA-LABEL:  func.func @last
// TSSA:          #tssa.view<select [1, s0 - 1]>
!A = !refgraph.tensor<[4, 5, 8], [40, 8, 1], f32, "cpu">
!B = !refgraph.tensor<[4, 8], [40, 1], f32, "cpu">
!C = !refgraph.tensor<[4, 8], [8, 1], f32, "cpu">
refgraph.trace @last {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") type(3) {lift_sizes = array<i64: 1>} : !A
  %v = refgraph.tensor_op "aten::select.int"(%x, 1 : i64, -1 : i64) aliases [0] {offsets = array<i64: 32>} : (!A) -> !B
  %r = refgraph.tensor_op "aten::neg"(%v) : (!B) -> !C
  refgraph.leave %r : !C
}

// -----

// A reshape that copies is a view of the copy.
// CHECK-LABEL: refgraph.trace @reshape
// CHECK:         %[[C:.*]] = refgraph.tensor_op "aten::clone"(%{{.*}}, 0 : i64) : {{.*}} -> !refgraph.tensor<[s0, 8, 4], [32, 4, 1], f32, "cpu">
// CHECK:         "aten::_unsafe_view"(%[[C]], [#{{.*}}, 32 : i64]) : {{.*}} -> !refgraph.tensor<[s0, 32], [32, 1], f32, "cpu">
!A = !refgraph.tensor<[5, 8, 4], [32, 1, 8], f32, "cpu">
!B = !refgraph.tensor<[5, 32], [32, 1], f32, "cpu">
refgraph.trace @reshape {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") type(3) {lift_sizes = array<i64: 0>} : !A
  %v = refgraph.tensor_op "aten::flatten.using_ints"(%x, 1 : i64, -1 : i64) : (!A) -> !B
  refgraph.leave %v : !B
}

// -----

// Joined sizes, products, reductions.
// CHECK-LABEL: refgraph.trace @layers
// CHECK:         "aten::linear"{{.*}} -> !refgraph.tensor<[s0, 16], [16, 1], f32, "cpu">
// CHECK:         "aten::cat"{{.*}} -> !refgraph.tensor<[s0 * 2, 16], [16, 1], f32, "cpu">
// CHECK:         "aten::sum.dim_IntList"{{.*}} -> !refgraph.tensor<[s0 * 2], [1], f32, "cpu">
!A = !refgraph.tensor<[5, 8], [8, 1], f32, "cpu">
!W = !refgraph.tensor<[16, 8], [8, 1], f32, "cpu">
!B = !refgraph.tensor<[5, 16], [16, 1], f32, "cpu">
!C = !refgraph.tensor<[10, 16], [16, 1], f32, "cpu">
!D = !refgraph.tensor<[10], [1], f32, "cpu">
refgraph.trace @layers {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") type(3) {lift_sizes = array<i64: 0>} : !A
  %w = refgraph.get %e arg(1, "w") type(3) : !W
  %l = refgraph.tensor_op "aten::linear"(%x, %w, none) : (!A, !W) -> !B
  %c = refgraph.tensor_op "aten::cat"([%l, %l], 0 : i64) : (!B, !B) -> !C
  %d = refgraph.tensor_op "aten::sum.dim_IntList"(%c, [1 : i64], false, none) : (!C) -> !D
  refgraph.leave %d : !D
}

// -----

// Whether a tensor is contiguous is the same for all sizes, or it keeps them.
// CHECK-LABEL: refgraph.trace @contiguous
// CHECK-NOT:     refgraph.layout
// CHECK:         refgraph.leave %{{.*}} : !refgraph.tensor<[s0, 8], [8, 1], f32, "cpu">
// CHECK-LABEL: refgraph.trace @strides
// CHECK-NOT:     s0
// CHECK:         refgraph.leave
!A = !refgraph.tensor<[5, 8], [8, 1], f32, "cpu">
refgraph.trace @contiguous {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") type(3) {lift_sizes = array<i64: 0>} : !A
  refgraph.layout %x "contiguous" : !A
  %v = refgraph.tensor_op "aten::neg"(%x) : (!A) -> !A
  refgraph.leave %v : !A
}
refgraph.trace @strides {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") type(3) {lift_sizes = array<i64: 0>} : !A
  refgraph.layout %x "all" : !A
  %v = refgraph.tensor_op "aten::neg"(%x) : (!A) -> !A
  refgraph.leave %v : !A
}

// -----

// Two products of as many sizes are equal if their factors are.
// CHECK-LABEL: refgraph.trace @factors
// CHECK:         refgraph.tensor_op "aten::add.Tensor"(%{{.*}}, %{{.*}}, 1 : i64) : {{.*}} -> !refgraph.tensor<[s0 * s1], [1], f32, "cpu">
// CHECK:         refgraph.compare "eq"
// CHECK:         refgraph.compare "eq"
!F = !refgraph.tensor<[3, 8], [8, 1], f32, "cpu">
!V = !refgraph.tensor<[24], [1], f32, "cpu">
refgraph.trace @factors {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") type(3) {lift_sizes = array<i64: 0, 1>} : !F
  %y = refgraph.get %e arg(1, "y") type(3) {lift_sizes = array<i64: 0, 1>} : !F
  %a = refgraph.tensor_op "aten::view"(%x, [-1 : i64]) aliases [0] : (!F) -> !V
  %b = refgraph.tensor_op "aten::view"(%y, [-1 : i64]) aliases [0] : (!F) -> !V
  %s = refgraph.tensor_op "aten::add.Tensor"(%a, %b, 1 : i64) : (!V, !V) -> !V
  refgraph.leave %s : !V
}

// -----

// Letters say the sizes of a product; how many windows there are is a quotient.
// CHECK-LABEL: refgraph.trace @letters
// CHECK:         "aten::einsum"({{.*}}) : {{.*}} -> !refgraph.tensor<[s0, 2, s1, s1], [(s1 * s1) * 2, s1 * s1, s1, 1], f32, "cpu">
// CHECK:         "aten::max_pool2d"({{.*}}) : {{.*}} -> !refgraph.tensor<[s2, 4, s4, 2], [s4 * 8, s4 * 2, 2, 1], f32, "cpu">
!Q = !refgraph.tensor<[3, 8, 2, 4], [64, 8, 4, 1], f32, "cpu">
!S = !refgraph.tensor<[3, 2, 8, 8], [128, 64, 8, 1], f32, "cpu">
!I = !refgraph.tensor<[3, 4, 8, 4], [128, 32, 4, 1], f32, "cpu">
!P = !refgraph.tensor<[3, 4, 4, 2], [32, 8, 2, 1], f32, "cpu">
refgraph.trace @letters {
  %e = refgraph.external
  %q = refgraph.get %e arg(0, "q") type(3) {lift_sizes = array<i64: 0, 1>} : !Q
  %i = refgraph.get %e arg(1, "i") type(3) {lift_sizes = array<i64: 0, 2>} : !I
  %s = refgraph.tensor_op "aten::einsum"("bqhd,bkhd->bhqk", [%q, %q], none) : (!Q, !Q) -> !S
  %p = refgraph.tensor_op "aten::max_pool2d"(%i, [2 : i64, 2 : i64], [2 : i64, 2 : i64], [0 : i64, 0 : i64], [1 : i64, 1 : i64], false) : (!I) -> !P
  %sum = refgraph.tensor_op "aten::sum"(%s, none) : (!S) -> !refgraph.tensor<[], [], f32, "cpu">
  %r = refgraph.create "tuple" [%sum, %p] : (!refgraph.tensor<[], [], f32, "cpu">, !P) -> !refgraph.obj<"tuple">
  refgraph.leave %r : !refgraph.obj<"tuple">
}

// -----

// The sizes of what a branch returns are fixed.
// CHECK-LABEL: refgraph.trace @behind_a_branch
// CHECK:         %[[N:.*]] = refgraph.constant 3
// CHECK:         "aten::mul.Tensor"(%{{.*}}, wrapped(%[[N]]))
!M = !refgraph.tensor<[3, 4], [4, 1], f32, "cpu">
!C = !refgraph.tensor<[], [], i1, "cpu">
refgraph.trace @behind_a_branch {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") : !M
  %c = refgraph.tensor_op "aten::any"(%x) : (!M) -> !C
  %r = refgraph.if %c : (!C) -> !M {
    %a = refgraph.tensor_op "aten::abs"(%x) : (!M) -> !M
    refgraph.yield %a : !M
  } else {
    refgraph.yield %x : !M
  }
  %n = refgraph.size %r[0] is(3) : !M
  %y = refgraph.tensor_op "aten::mul.Tensor"(%r, wrapped(%n)) : (!M, !refgraph.obj<"int">) -> !M
  refgraph.leave %y : !M
}

// -----

// Rows that lie further apart than they are long: no size says how far, so the
// stride is a symbol, and stays larger than a row. The lesser size is the one
// that is a symbol: it is at least 2, and its elements follow one another.
// CHECK-LABEL: refgraph.trace @between
// CHECK:         %[[X:.*]] = refgraph.get {{.*}} : !refgraph.tensor<[4, s0 + 1], [s1, 1], f32, "cpu">
// CHECK:         %[[W:.*]] = refgraph.stride %[[X]][0] is(6)
// CHECK:         %[[N:.*]] = refgraph.size %[[X]][1] is(5)
// CHECK:         "aten::slice.Tensor"({{.*}} -> !refgraph.tensor<[4, s0], [s1, 1], f32, "cpu">
// CHECK:         "aten::clone"
// CHECK:         "aten::_unsafe_view"({{.*}} -> !refgraph.tensor<[s0 * 4], [1], f32, "cpu">
// CHECK:         %[[THREE:.*]] = refgraph.constant 3
// CHECK:         refgraph.compare "ge"(%[[N]], %[[THREE]]) is true
// CHECK:         %[[LESS:.*]] = refgraph.arith "add"(%[[N]], %{{.*}}) is(4)
// CHECK:         refgraph.symbol 0 is %[[LESS]]
// CHECK:         refgraph.symbol 1 is %[[W]]
// CHECK-NOT:     refgraph.compare "eq"
// SPECIALIZED:           refgraph.leave %{{.*}} : !refgraph.tensor<[16], [1], f32, "cpu">
// TSSA-LABEL:  func.func @between(
// TSSA-SAME:     tensor<4x?xf32, #tssa.layout<[4, s0 + 1], [s1, 1]>>
// TSSA-SAME:     attributes {pyjit.symbols = [array<i64: 2, -1>, array<i64: 1, -1>]}
!Z = !refgraph.tensor<[4, 5], [6, 1], f32, "cpu">
!C = !refgraph.tensor<[4, 4], [6, 1], f32, "cpu">
!R = !refgraph.tensor<[16], [1], f32, "cpu">
refgraph.trace @between {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") type(3) {lift_sizes = array<i64: 1>, lift_strides = array<i64: 0>} : !Z
  %c = refgraph.tensor_op "aten::slice.Tensor"(%x, 1 : i64, 0 : i64, -1 : i64, 1 : i64) aliases [0] : (!Z) -> !C
  %r = refgraph.tensor_op "aten::reshape"(%c, [-1 : i64]) : (!C) -> !R
  refgraph.leave %r : !R
}
