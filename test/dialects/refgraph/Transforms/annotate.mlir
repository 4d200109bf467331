// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --refgraph-annotate | FileCheck %s

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!M = !refgraph.tensor<[2, 2], [2, 1], f32, "cpu">

// CHECK-LABEL: refgraph.graph @known
refgraph.graph @known(%x: !T) {
  // CHECK: "aten::relu"(%{{.*}}) {traits = ["as-op-node", "pure"]}
  %0 = refgraph.tensor_op "aten::relu"(%x) : (!T) -> !T
  // CHECK: "aten::view"(%{{.*}}) aliases [0] {traits = ["as-op-node", "pure", "relation"]}
  %1 = refgraph.tensor_op "aten::view"(%0, [2 : i64, 2 : i64]) aliases [0] : (!T) -> !M
  // CHECK: "aten::relu_"(%{{.*}}) mutates [0] {traits = ["as-op-node", "in-place"]}
  %2 = refgraph.tensor_op "aten::relu_"(%1) mutates [0] : (!M) -> !M
  // CHECK: "aten::bernoulli"(%{{.*}}) {traits = ["as-op-node", "random"]}
  %3 = refgraph.tensor_op "aten::bernoulli"(%2, none) : (!M) -> !M
  // CHECK: "aten::dropout"(%{{.*}}) {traits = ["as-op-node", "pure"]}
  // CHECK: "aten::dropout"(%{{.*}}) {traits = ["as-op-node", "random"]}
  // CHECK: "aten::dropout_"(%{{.*}}) mutates [0] {traits = ["as-op-node", "in-place"]}
  %4 = refgraph.tensor_op "aten::dropout"(%3, 0.5 : f64, false) : (!M) -> !M
  %5 = refgraph.tensor_op "aten::dropout"(%4, 0.5 : f64, true) : (!M) -> !M
  %6 = refgraph.tensor_op "aten::dropout_"(%5, 0.0 : f64, true) mutates [0] : (!M) -> !M
  refgraph.yield %6 : !M
}

// An operator that the table does not know has no traits, whatever it had.
// CHECK-LABEL: refgraph.graph @unknown
refgraph.graph @unknown(%x: !T) {
  // CHECK: refgraph.tensor_op "mylib::thing"(%{{.*}}) : (
  %0 = refgraph.tensor_op "mylib::thing"(%x) {traits = ["pure"]} : (!T) -> !T
  refgraph.yield %0 : !T
}

// What a call draws and throws away has been drawn: only what its kernel does
// not draw at all is switched off.
// CHECK-LABEL: refgraph.graph @probability_zero
refgraph.graph @probability_zero(%x: !T) {
  // CHECK: "aten::bernoulli.p"({{.*}}) {traits = ["as-op-node", "random"]}
  %0 = refgraph.tensor_op "aten::bernoulli.p"(%x, 0.0 : f64, none) : (!T) -> !T
  // CHECK: "aten::bernoulli_.float"({{.*}}) mutates [0] {traits = ["as-op-node", "random"]}
  %1 = refgraph.tensor_op "aten::bernoulli_.float"(%0, 0.0 : f64, none) mutates [0] : (!T) -> !T
  // CHECK: "aten::native_dropout"({{.*}}) {traits = ["as-op-node", "random"]}
  // CHECK: "aten::native_dropout"({{.*}}) {traits = ["as-op-node", "pure"]}
  %2:2 = refgraph.tensor_op "aten::native_dropout"(%1, 0.0 : f64, true) : (!T) -> (!T, !T)
  %3:2 = refgraph.tensor_op "aten::native_dropout"(%1, 0.5 : f64, false) : (!T) -> (!T, !T)
  // CHECK: "aten::scaled_dot_product_attention"({{.*}}) {traits = ["as-op-node", "pure"]}
  %4 = refgraph.tensor_op "aten::scaled_dot_product_attention"(%x, %x, %x, none, 0.0 : f64, false, none, false) : (!T, !T, !T) -> !T
  refgraph.yield %2#0 : !T
}
