// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --refgraph-lift-sizes | FileCheck %s
// RUN: pyjit-opt %s --refgraph-lift-sizes --refgraph-lift --refgraph-generate-guards --refgraph-generate-mock --refgraph-extract-graph | FileCheck %s --check-prefix=SPECIALIZATION

// CHECK: #[[START:.*]] = affine_map<()[s0] -> (-s0 + 20)>

// Python's arithmetic and its branches; a quotient of a size
// is a symbol of its own, given to the graph as a number.
// CHECK-LABEL: refgraph.trace @arithmetic
// CHECK:         %[[N:.*]] = refgraph.size %{{.*}}[0] is(5)
// CHECK:         refgraph.compare "gt"(%{{.*}}, %{{.*}}) is true
// CHECK:         "aten::slice.Tensor"(%{{.*}}, 0 : i64, 0 : i64, #{{.*}}, 1 : i64) aliases [0] : {{.*}} -> !refgraph.tensor<[s1, 8], [8, 1], f32, "cpu">
// CHECK:         %[[H:.*]] = refgraph.arith "floordiv"(%[[N]], %{{.*}}) is(2)
// CHECK:         refgraph.compare "ge"(%[[H]], %{{.*}}) is true
// CHECK:         refgraph.symbol 1 is %[[H]]
// SPECIALIZATION:      refgraph.graph @arithmetic({{.*}}) attributes {symbols = [array<i64: 0, 0>, array<i64: 1, -1>]}
!A = !refgraph.tensor<[5, 8], [8, 1], f32, "cpu">
!B = !refgraph.tensor<[2, 8], [8, 1], f32, "cpu">
!I = !refgraph.obj<"int">
refgraph.trace @arithmetic {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") type(3) {lift_sizes = array<i64: 0>} : !A
  %n = refgraph.size %x[0] is(5) : !A
  %four = refgraph.constant 4
  refgraph.compare "gt"(%n, %four) is true : !I, !I
  %two = refgraph.constant 2
  %h = refgraph.arith "floordiv"(%n, %two) is(2) : (!I, !I) -> !I
  %v = refgraph.tensor_op "aten::slice.Tensor"(%x, 0 : i64, 0 : i64, size(%h), 1 : i64) aliases [0] : (!A, !I) -> !B
  %r = refgraph.tensor_op "aten::neg"(%v) : (!B) -> !B
  refgraph.leave %r : !B
}

// A number that the run looked at is a constant, and so is what Python made of
// it: no symbol stands for either.
// CHECK-LABEL: refgraph.trace @looked_at
// CHECK:         "aten::slice.Tensor"(%{{.*}}, 0 : i64, 0 : i64, 3 : i64, 1 : i64)
// CHECK-NOT:     refgraph.symbol
!C = !refgraph.tensor<[3, 8], [8, 1], f32, "cpu">
refgraph.trace @looked_at {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") type(3) : !A
  %n = refgraph.get %e arg(1, "n") type(4) equals(7) {lift} : !I
  %four = refgraph.constant 4
  %m = refgraph.arith "mod"(%n, %four) is(3) : (!I, !I) -> !I
  %v = refgraph.tensor_op "aten::slice.Tensor"(%x, 0 : i64, 0 : i64, size(%m), 1 : i64) aliases [0] : (!A, !I) -> !C
  %seven = refgraph.constant 7
  refgraph.compare "is"(%n, %seven) is true {why = "printed"} : !I, !I
  refgraph.leave %v : !C
}

// The end of a part is computed from its beginning: no symbol of its own, so that a part of one row has one row for all
// beginnings.
// CHECK-LABEL: refgraph.trace @one_row
// CHECK:         "aten::slice.Tensor"(%{{.*}}, 0 : i64, #{{.*}}, #{{.*}}, 1 : i64) aliases [0] {{.*}} -> !refgraph.tensor<[1, 8], [8, 1], f32, "cpu">
// CHECK:         refgraph.symbol 0 is
// CHECK-NOT:     refgraph.symbol 1
// CHECK:         refgraph.leave
!L = !refgraph.tensor<[20, 8], [8, 1], f32, "cpu">
!R = !refgraph.tensor<[1, 8], [8, 1], f32, "cpu">
refgraph.trace @one_row {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") type(3) : !L
  %n = refgraph.get %e arg(1, "n") type(4) equals(7) {lift} : !I
  %one = refgraph.constant 1
  %m = refgraph.arith "add"(%n, %one) is(8) : (!I, !I) -> !I
  %v = refgraph.tensor_op "aten::slice.Tensor"(%x, 0 : i64, size(%n), size(%m), 1 : i64) aliases [0] {offsets = array<i64: 56>} : (!L, !I, !I) -> !R
  %r = refgraph.tensor_op "aten::neg"(%v) : (!R) -> !R
  refgraph.leave %r : !R
}

// `x[-n:]`: a beginning that counts from the end is written from the front, of
// a fixed dimension, too.
// CHECK-LABEL: refgraph.trace @from_the_end
// CHECK:         "aten::slice.Tensor"(%{{.*}}, 0 : i64, #[[START]], 9223372036854775807 : i64, 1 : i64) aliases [0] {{.*}} -> !refgraph.tensor<[s0, 8], [8, 1], f32, "cpu">
!Z = !refgraph.tensor<[3, 8], [8, 1], f32, "cpu">
refgraph.trace @from_the_end {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") type(3) : !L
  %n = refgraph.get %e arg(1, "n") type(4) equals(3) {lift} : !I
  %m = refgraph.arith "neg"(%n) is(-3) : (!I) -> !I
  %v = refgraph.tensor_op "aten::slice.Tensor"(%x, 0 : i64, size(%m), 9223372036854775807 : i64, 1 : i64) aliases [0] {offsets = array<i64: 136>} : (!L, !I) -> !Z
  %r = refgraph.tensor_op "aten::neg"(%v) : (!Z) -> !Z
  refgraph.leave %r : !Z
}
