// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --refgraph-lift-sizes -split-input-file | FileCheck %s

// A whole recurrent layer, as it is recorded on a device. What it gives lies step
// after step, whatever its first dimension is.
// CHECK-LABEL: refgraph.trace @lstm
// CHECK: "aten::lstm.input"
// CHECK-SAME: -> (!refgraph.tensor<[s0, s1, 16], [16, s0 * 16, 1], f32, "cuda:0">, !refgraph.tensor<[2, s0, 8], [s0 * 8, 8, 1], f32, "cuda:0">, !refgraph.tensor<[2, s0, 8], [s0 * 8, 8, 1], f32, "cuda:0">)
!X = !refgraph.tensor<[3, 5, 4], [20, 4, 1], f32, "cuda:0">
!H = !refgraph.tensor<[2, 3, 8], [24, 8, 1], f32, "cuda:0">
!W = !refgraph.tensor<[32, 4], [4, 1], f32, "cuda:0">
!V = !refgraph.tensor<[32, 8], [8, 1], f32, "cuda:0">
!Y = !refgraph.tensor<[3, 5, 16], [16, 48, 1], f32, "cuda:0">
refgraph.trace @lstm {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") type(1) {lift_sizes = array<i64: 0, 1>} : !X
  %h = refgraph.get %e arg(1, "h") type(1) {lift_sizes = array<i64: 1>} : !H
  %c = refgraph.get %e arg(2, "c") type(1) {lift_sizes = array<i64: 1>} : !H
  %w = refgraph.get %e arg(3, "w") type(1) : !W
  %v = refgraph.get %e arg(4, "v") type(1) : !V
  %out, %hidden, %cell = refgraph.tensor_op "aten::lstm.input"(%x, [%h, %c], [%w, %v, %w, %v], false, 1 : i64, 0.0 : f64, false, true, true) : (!X, !H, !H, !W, !V, !W, !V) -> (!Y, !H, !H)
  %r = refgraph.create "tuple" [%out, %hidden, %cell] : (!Y, !H, !H) -> !refgraph.obj<"tuple">
  refgraph.leave %r : !refgraph.obj<"tuple">
}

// -----

// One state, a direction, steps first.
// CHECK-LABEL: refgraph.trace @gru
// CHECK: "aten::gru.input"
// CHECK-SAME: -> (!refgraph.tensor<[s0, s1, 8], [s1 * 8, 8, 1], f32, "cuda:0">, !refgraph.tensor<[1, s1, 8], [s1 * 8, 8, 1], f32, "cuda:0">)
!X = !refgraph.tensor<[5, 3, 4], [12, 4, 1], f32, "cuda:0">
!H = !refgraph.tensor<[1, 3, 8], [24, 8, 1], f32, "cuda:0">
!W = !refgraph.tensor<[24, 4], [4, 1], f32, "cuda:0">
!V = !refgraph.tensor<[24, 8], [8, 1], f32, "cuda:0">
!Y = !refgraph.tensor<[5, 3, 8], [24, 8, 1], f32, "cuda:0">
refgraph.trace @gru {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") type(1) {lift_sizes = array<i64: 0, 1>} : !X
  %h = refgraph.get %e arg(1, "h") type(1) {lift_sizes = array<i64: 1>} : !H
  %w = refgraph.get %e arg(2, "w") type(1) : !W
  %v = refgraph.get %e arg(3, "v") type(1) : !V
  %out, %state = refgraph.tensor_op "aten::gru.input"(%x, %h, [%w, %v], false, 1 : i64, 0.0 : f64, false, false, false) : (!X, !H, !W, !V) -> (!Y, !H)
  %r = refgraph.create "tuple" [%out, %state] : (!Y, !H) -> !refgraph.obj<"tuple">
  refgraph.leave %r : !refgraph.obj<"tuple">
}
