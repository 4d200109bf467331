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

// -----

// Windows that overlap: how many there are is a quotient.
// CHECK-LABEL: refgraph.trace @windows
// CHECK:         "aten::unfold"({{.*}}) {{.*}} -> !refgraph.tensor<[s1, 4], [2, 1], f32, "cpu">
// CHECK:         %[[Q:.*]] = refgraph.arith "floordiv"(%{{.*}}, %{{.*}}) is(5)
// CHECK:         %[[N:.*]] = refgraph.arith "add"(%[[Q]], %{{.*}}) is(4)
// CHECK:         refgraph.symbol 1 is %[[N]]
!S = !refgraph.tensor<[10], [1], f32, "cpu">
!W = !refgraph.tensor<[4, 4], [2, 1], f32, "cpu">
!M = !refgraph.tensor<[4, 4], [4, 1], f32, "cpu">
refgraph.trace @windows {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") type(3) {lift_sizes = array<i64: 0>} : !S
  %w = refgraph.tensor_op "aten::unfold"(%x, 0 : i64, 4 : i64, 2 : i64) aliases [0] : (!S) -> !W
  %r = refgraph.tensor_op "aten::mul.Tensor"(%w, %w) : (!W, !W) -> !M
  refgraph.leave %r : !M
}

// -----

// Of real numbers half of the coefficients, and one.
// CHECK-LABEL: refgraph.trace @coefficients
// CHECK:         "aten::_fft_r2c"({{.*}}) : {{.*}} -> !refgraph.tensor<[s1 + 1], [1], complex<f32>, "cpu">
// CHECK:         refgraph.arith "floordiv"({{.*}}) is(5)
!S = !refgraph.tensor<[10], [1], f32, "cpu">
!C = !refgraph.tensor<[6], [1], complex<f32>, "cpu">
refgraph.trace @coefficients {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") type(3) {lift_sizes = array<i64: 0>} : !S
  %c = refgraph.tensor_op "aten::_fft_r2c"(%x, [0 : i64], 0 : i64, true) : (!S) -> !C
  refgraph.leave %c : !C
}

// -----

// A square's factorization, and numbers for each of its rows. That the matrices
// are squares is a guard.
// CHECK-LABEL: refgraph.trace @square
// CHECK:         "aten::_linalg_slogdet"({{.*}}) : {{.*}} -> (!refgraph.tensor<[], [], f32, "cpu">, !refgraph.tensor<[], [], f32, "cpu">, !refgraph.tensor<[s0, s0], [1, s0], f32, "cpu">, !refgraph.tensor<[s0], [1], i32, "cpu">)
// CHECK:         refgraph.compare "eq"
!A = !refgraph.tensor<[5, 5], [5, 1], f32, "cpu">
!L = !refgraph.tensor<[5, 5], [1, 5], f32, "cpu">
!N = !refgraph.tensor<[], [], f32, "cpu">
!P = !refgraph.tensor<[5], [1], i32, "cpu">
refgraph.trace @square {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") type(3) {lift_sizes = array<i64: 0, 1>} : !A
  %s, %d, %l, %p = refgraph.tensor_op "aten::_linalg_slogdet"(%x) : (!A) -> (!N, !N, !L, !P)
  refgraph.leave %d : !N
}
