// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --refgraph-lift-sizes -split-input-file | FileCheck %s

// How many rows are shown is a symbol that the guards compute. One that is
// asked for twice is one symbol; it is at least 2, as all are.
// CHECK-LABEL: refgraph.trace @rows
// CHECK:         %[[X:.*]] = refgraph.get %{{.*}} arg(0, "x") type(3) : !refgraph.tensor<[s0, 5], [5, 1], f32, "cpu">
// CHECK:         %[[N:.*]] = refgraph.size %[[X]][0] is(21)
// CHECK:         "aten::slice.Tensor"(%[[X]], 0 : i64, 0 : i64, none, 2 : i64) {{.*}} -> !refgraph.tensor<[s1, 5], [10, 1], f32, "cpu">
// CHECK:         "aten::slice.Tensor"(%[[X]], 0 : i64, 0 : i64, none, 2 : i64) {{.*}} -> !refgraph.tensor<[s1, 5], [10, 1], f32, "cpu">
// CHECK:         "aten::mul.Tensor"({{.*}}) {{.*}} -> !refgraph.tensor<[s1, 5], [5, 1], f32, "cpu">
// CHECK:         refgraph.symbol 0 is %[[N]]
// CHECK:         %[[M:.*]] = refgraph.arith "add"(%[[N]], %{{.*}}) is(22)
// CHECK:         %[[Q:.*]] = refgraph.arith "floordiv"(%[[M]], %{{.*}}) is(11)
// CHECK:         refgraph.compare "ge"(%[[Q]], %{{.*}}) is true
// CHECK:         refgraph.symbol 1 is %[[Q]]
!A = !refgraph.tensor<[21, 5], [5, 1], f32, "cpu">
!B = !refgraph.tensor<[11, 5], [10, 1], f32, "cpu">
!C = !refgraph.tensor<[11, 5], [5, 1], f32, "cpu">
refgraph.trace @rows {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") type(3) {lift_sizes = array<i64: 0>} : !A
  %v = refgraph.tensor_op "aten::slice.Tensor"(%x, 0 : i64, 0 : i64, none, 2 : i64) aliases [0] : (!A) -> !B
  %w = refgraph.tensor_op "aten::slice.Tensor"(%x, 0 : i64, 0 : i64, none, 2 : i64) aliases [0] : (!A) -> !B
  %r = refgraph.tensor_op "aten::mul.Tensor"(%v, %w) : (!B, !B) -> !C
  refgraph.leave %r : !C
}

// -----

// A quotient that is 1 is compared, as a quotient: any size of that one will do.
// CHECK-LABEL: refgraph.trace @one
// CHECK:         "aten::max_pool2d"({{.*}}) : {{.*}} -> !refgraph.tensor<[2, 3, 1, 4], [12, 4, 4, 1], f32, "cpu">
// CHECK:         %[[Q:.*]] = refgraph.arith "floordiv"({{.*}}) is(1)
// CHECK:         refgraph.compare "is"(%[[Q]], %{{.*}}) is true
!X = !refgraph.tensor<[2, 3, 3, 8], [72, 24, 8, 1], f32, "cpu">
!P = !refgraph.tensor<[2, 3, 1, 4], [12, 4, 4, 1], f32, "cpu">
refgraph.trace @one {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") type(3) {lift_sizes = array<i64: 2>} : !X
  %p = refgraph.tensor_op "aten::max_pool2d"(%x, [2 : i64, 2 : i64], [2 : i64, 2 : i64], [0 : i64, 0 : i64], [1 : i64, 1 : i64], false) : (!X) -> !P
  refgraph.leave %p : !P
}

// -----

// What is divided without a rest is no quotient: 4 * 2 columns, every fourth.
// CHECK-LABEL: refgraph.trace @exact
// CHECK-NOT:     floordiv
// CHECK:         "aten::slice.Tensor"({{.*}}, 4 : i64) {{.*}} -> !refgraph.tensor<[s0], [4], f32, "cpu">
// CHECK-NOT:     floordiv
// CHECK:         refgraph.leave
!E = !refgraph.tensor<[5, 4], [4, 1], f32, "cpu">
!F = !refgraph.tensor<[20], [1], f32, "cpu">
!G = !refgraph.tensor<[5], [4], f32, "cpu">
refgraph.trace @exact {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") type(3) {lift_sizes = array<i64: 0>} : !E
  %v = refgraph.tensor_op "aten::view"(%x, [-1 : i64]) aliases [0] : (!E) -> !F
  %w = refgraph.tensor_op "aten::slice.Tensor"(%v, 0 : i64, 3 : i64, none, 4 : i64) aliases [0] {offsets = array<i64: 3>} : (!F) -> !G
  refgraph.leave %w : !G
}
