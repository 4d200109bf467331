// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --refgraph-lift-sizes -split-input-file | FileCheck %s

// A batch norm in training: statistics have one element for each channel, and
// those that it writes keep their sizes.
// CHECK-LABEL: refgraph.trace @batch_norm
// CHECK: "aten::_native_batch_norm_legit"
// CHECK-SAME: -> (!refgraph.tensor<[s0, 4, s1], [s1 * 4, s1, 1], f32, "cpu">, !refgraph.tensor<[4], [1], f32, "cpu">, !refgraph.tensor<[4], [1], f32, "cpu">, !refgraph.tensor<[4], [1], f32, "cpu">, !refgraph.tensor<[4], [1], f32, "cpu">)
!X = !refgraph.tensor<[3, 4, 5], [20, 5, 1], f32, "cpu">
!C = !refgraph.tensor<[4], [1], f32, "cpu">
refgraph.trace @batch_norm {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") type(1) {lift_sizes = array<i64: 0, 2>} : !X
  %m = refgraph.get %e arg(1, "m") type(1) : !C
  %v = refgraph.get %e arg(2, "v") type(1) : !C
  %r:5 = refgraph.tensor_op "aten::_native_batch_norm_legit"(%x, none, none, %m, %v, true, 1.0e-01 : f64, 1.0e-05 : f64) mutates [1, 2] : (!X, !C, !C) -> (!X, !C, !C, !C, !C)
  refgraph.leave %r#0 : !X
}

// -----

// What a recurrent layer keeps for its backward is as large as it is: nobody
// else looks into it.
// CHECK-LABEL: refgraph.trace @layer
// CHECK: "aten::mkldnn_rnn_layer"
// CHECK-SAME: -> (!refgraph.tensor<[s0, s1, 8], [s1 * 8, 8, 1], f32, "cpu">, !refgraph.tensor<[s1, 8], [8, 1], f32, "cpu">, !refgraph.tensor<[s1, 8], [8, 1], f32, "cpu">, !refgraph.tensor<[4096], [1], ui8, "cpu">)
!X = !refgraph.tensor<[5, 3, 4], [12, 4, 1], f32, "cpu">
!H = !refgraph.tensor<[3, 8], [8, 1], f32, "cpu">
!W = !refgraph.tensor<[32, 4], [4, 1], f32, "cpu">
!V = !refgraph.tensor<[32, 8], [8, 1], f32, "cpu">
!B = !refgraph.tensor<[32], [1], f32, "cpu">
!Y = !refgraph.tensor<[5, 3, 8], [24, 8, 1], f32, "cpu">
!S = !refgraph.tensor<[4096], [1], ui8, "cpu">
refgraph.trace @layer {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") type(1) {lift_sizes = array<i64: 0, 1>} : !X
  %h = refgraph.get %e arg(1, "h") type(1) {lift_sizes = array<i64: 0>} : !H
  %c = refgraph.get %e arg(2, "c") type(1) {lift_sizes = array<i64: 0>} : !H
  %w = refgraph.get %e arg(3, "w") type(1) : !W
  %v = refgraph.get %e arg(4, "v") type(1) : !V
  %b = refgraph.get %e arg(5, "b") type(1) : !B
  %y, %hy, %cy, %space = refgraph.tensor_op "aten::mkldnn_rnn_layer"(%x, %w, %v, %b, %b, %h, %c, false, [], 2 : i64, 8 : i64, 1 : i64, true, false, false, true) : (!X, !W, !V, !B, !B, !H, !H) -> (!Y, !H, !H, !S)
  refgraph.leave %y : !Y
}

// -----

// There is an index for each row that is added.
// CHECK-LABEL: refgraph.trace @rows
// CHECK: "aten::index_add"
// CHECK-SAME: -> !refgraph.tensor<[10, 4], [4, 1], f32, "cpu">
// CHECK: refgraph.compare "eq"
!T = !refgraph.tensor<[10, 4], [4, 1], f32, "cpu">
!X = !refgraph.tensor<[3, 4], [4, 1], f32, "cpu">
!I = !refgraph.tensor<[3], [1], i64, "cpu">
refgraph.trace @rows {
  %e = refgraph.external
  %t = refgraph.get %e arg(0, "t") type(1) : !T
  %i = refgraph.get %e arg(1, "i") type(1) {lift_sizes = array<i64: 0>} : !I
  %x = refgraph.get %e arg(2, "x") type(1) {lift_sizes = array<i64: 0>} : !X
  %r = refgraph.tensor_op "aten::index_add"(%t, 0 : i64, %i, %x, 1 : i64) : (!T, !I, !X) -> !T
  refgraph.leave %r : !T
}

// -----

// No more than there are are drawn of each row.
// CHECK-LABEL: refgraph.trace @drawn
// CHECK: "aten::multinomial"
// CHECK-SAME: -> !refgraph.tensor<[s0, 3], [3, 1], i64, "cpu">
// CHECK: refgraph.compare "ge"
!P = !refgraph.tensor<[4, 6], [6, 1], f32, "cpu">
!D = !refgraph.tensor<[4, 3], [3, 1], i64, "cpu">
refgraph.trace @drawn {
  %e = refgraph.external
  %p = refgraph.get %e arg(0, "p") type(1) {lift_sizes = array<i64: 0, 1>} : !P
  %r = refgraph.tensor_op "aten::multinomial"(%p, 3 : i64, false, none) : (!P) -> !D
  refgraph.leave %r : !D
}

// -----

// A number is widened with strides of zero.
// CHECK-LABEL: refgraph.trace @widened
// CHECK: "aten::expand"
// CHECK-SAME: -> !refgraph.tensor<[s0, 1], [0, 0], f32, "cpu">
!N = !refgraph.tensor<[], [], f32, "cpu">
!X = !refgraph.tensor<[3], [1], f32, "cpu">
!E = !refgraph.tensor<[3, 1], [0, 0], f32, "cpu">
refgraph.trace @widened {
  %e = refgraph.external
  %n = refgraph.get %e arg(0, "n") type(1) : !N
  %x = refgraph.get %e arg(1, "x") type(1) {lift_sizes = array<i64: 0>} : !X
  %s = refgraph.size %x[0] is(3) : !X
  %r = refgraph.tensor_op "aten::expand"(%n, [size(%s), 1 : i64], false) aliases [0] : (!N, !refgraph.obj<"int">) -> !E
  refgraph.leave %r : !E
}

// -----

// The batch differs; what windows and diagonals go over keeps its size.
// CHECK-LABEL: refgraph.trace @windows
// CHECK: "aten::unfold"
// CHECK-SAME: -> !refgraph.tensor<[s0, 3, 3], [9, 3, 1], f32, "cpu">
// CHECK: "aten::diagonal"
// CHECK-SAME: -> !refgraph.tensor<[s0, 2], [9, 4], f32, "cpu">
!X = !refgraph.tensor<[5, 9], [9, 1], f32, "cpu">
!W = !refgraph.tensor<[5, 3, 3], [9, 3, 1], f32, "cpu">
!D = !refgraph.tensor<[5, 2], [9, 4], f32, "cpu">
!Y = !refgraph.tensor<[5, 2], [2, 1], f32, "cpu">
refgraph.trace @windows {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") type(1) {lift_sizes = array<i64: 0>} : !X
  %w = refgraph.tensor_op "aten::unfold"(%x, 1 : i64, 3 : i64, 3 : i64) aliases [0] : (!X) -> !W
  %d = refgraph.tensor_op "aten::diagonal"(%w, -1 : i64, 1 : i64, 2 : i64) aliases [0] {offsets = array<i64: 3>} : (!W) -> !D
  %r = refgraph.tensor_op "aten::neg"(%d) : (!D) -> !Y
  refgraph.leave %r : !Y
}

// -----

// Pixels are as many rows and columns for each; the other way there are as many
// as a multiple of them, which is compared.
// CHECK-LABEL: refgraph.trace @pixels
// CHECK: "aten::pixel_shuffle"
// CHECK-SAME: -> !refgraph.tensor<[2, s0 * 2, s1 * 2], [(s0 * s1) * 4, s1 * 2, 1], f32, "cpu">
// CHECK: "aten::pixel_unshuffle"
// CHECK-SAME: -> !refgraph.tensor<[8, s0, s1], [s0 * s1, s1, 1], f32, "cpu">
!X = !refgraph.tensor<[8, 3, 5], [15, 5, 1], f32, "cpu">
!P = !refgraph.tensor<[2, 6, 10], [60, 10, 1], f32, "cpu">
refgraph.trace @pixels {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") type(1) {lift_sizes = array<i64: 1, 2>} : !X
  %p = refgraph.tensor_op "aten::pixel_shuffle"(%x, 2 : i64) : (!X) -> !P
  %q = refgraph.tensor_op "aten::pixel_unshuffle"(%p, 2 : i64) : (!P) -> !X
  refgraph.leave %q : !X
}

// -----

// The class that a loss ignores is a size: its argument varies with it.
// CHECK: #[[CLASS:.*]] = affine_map<()[s0] -> (s0)>
// CHECK-LABEL: refgraph.trace @ignored
// CHECK: "aten::nll_loss_forward"(%{{.*}}, %{{.*}}, none, 1 : i64, #[[CLASS]])
!X = !refgraph.tensor<[5, 8], [8, 1], f32, "cpu">
!T = !refgraph.tensor<[5], [1], i64, "cpu">
!S = !refgraph.tensor<[], [], f32, "cpu">
!I = !refgraph.obj<"int">
refgraph.trace @ignored {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") type(1) {lift_sizes = array<i64: 1>} : !X
  %t = refgraph.get %e arg(1, "t") type(1) : !T
  %n = refgraph.size %x[1] is(8) : !X
  %l:2 = refgraph.tensor_op "aten::nll_loss_forward"(%x, %t, none, 1 : i64, size(%n)) : (!X, !T, !I) -> (!S, !S)
  refgraph.leave %l#0 : !S
}
