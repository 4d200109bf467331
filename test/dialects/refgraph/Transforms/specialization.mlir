// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A whole specialization: relu(a + b) * 2, and a module with parameters.
// RUN: pyjit-opt %s --refgraph-generate-guards --refgraph-generate-mock --refgraph-extract-graph | FileCheck %s

!T = !refgraph.tensor<[64], [1], f32, "cpu">

// CHECK-LABEL: refgraph.guards @f {
// CHECK-NEXT:    %[[G:.*]] = refgraph.object 12 "module globals" : !refgraph.obj<"dict">
// CHECK-NEXT:    refgraph.get %[[G]] item("scale") equals(2) : !refgraph.obj<"dict"> -> !refgraph.obj<"int">
// CHECK-NEXT:    refgraph.get %[[G]] item("relu") is(13) : !refgraph.obj<"dict"> -> !refgraph.obj<"function">
// CHECK-NEXT:    %[[F:.*]] = refgraph.object 13 : !refgraph.obj<"function">
// CHECK-NEXT:    refgraph.get %[[F]] code is(15)
// CHECK-NEXT:    refgraph.watch dicts(%[[G]] : !refgraph.obj<"dict">) functions(%[[F]] : !refgraph.obj<"function">)
// CHECK-NEXT:    %[[E:.*]] = refgraph.external
// CHECK-NEXT:    %[[A:.*]] = refgraph.get %[[E]] arg(0, "a") type(3) {keyset = 32769 : i64, requires_grad = false}
// CHECK-NEXT:    %[[B:.*]] = refgraph.get %[[E]] arg(1, "b") type(3)
// CHECK-NEXT:    refgraph.state {default_dtype = f32, grad_mode = false}
// CHECK-NEXT:    refgraph.accept(%[[A]], %[[B]] :
// CHECK-LABEL: refgraph.mock @f inputs(
// CHECK-SAME:      results(%[[R:.*]]: !refgraph.tensor<[64], [1], f32, "cpu">) {
// CHECK-NEXT:    refgraph.leave %[[R]]
// CHECK-LABEL: refgraph.graph @f(%{{.*}}: !refgraph.tensor<[64], [1], f32, "cpu">, %{{.*}}: !refgraph.tensor<[64], [1], f32, "cpu">) {
// CHECK-NEXT:    aten::add.Tensor
// CHECK-NEXT:    aten::relu
// CHECK-NEXT:    %[[M:.*]] = refgraph.tensor_op "aten::mul.Tensor"
// CHECK-NEXT:    refgraph.yield %[[M]]
refgraph.trace @f {
  %e = refgraph.external
  refgraph.state {default_dtype = f32, grad_mode = false}
  %g = refgraph.object 12 "module globals" : !refgraph.obj<"dict">
  %s = refgraph.get %g item("scale") equals(2) : !refgraph.obj<"dict"> -> !refgraph.obj<"int">
  %fn = refgraph.get %g item("relu") is(13) : !refgraph.obj<"dict"> -> !refgraph.obj<"function">
  %fn1 = refgraph.get %g item("relu") is(13) : !refgraph.obj<"dict"> -> !refgraph.obj<"function">
  %k = refgraph.get %fn1 code is(15) : !refgraph.obj<"function"> -> !refgraph.obj<"code">
  %a = refgraph.get %e arg(0, "a") type(3) {keyset = 32769 : i64, requires_grad = false} : !T
  %b = refgraph.get %e arg(1, "b") type(3) {keyset = 32769 : i64, requires_grad = false} : !T
  %0 = refgraph.tensor_op "aten::add.Tensor"(%a, %b, 1 : i64) {traits = ["pure"]} : (!T, !T) -> !T
  %d = refgraph.tensor_op "aten::neg"(%0) {traits = ["pure"]} : (!T) -> !T
  %1 = refgraph.tensor_op "aten::relu"(%0) {traits = ["pure"]} : (!T) -> !T
  %2 = refgraph.tensor_op "aten::mul.Tensor"(%1, wrapped(2 : i64)) {traits = ["pure"]} : (!T) -> !T
  refgraph.leave %2 : !T
}

!W = !refgraph.tensor<[64, 64], [64, 1], f32, "cpu">

// The module is pinned: everything but the parameters' metadata is watched.
// CHECK-LABEL: refgraph.guards @module {
// CHECK-NEXT:    %[[M:.*]] = refgraph.object 5 "model" : !refgraph.obj<"Net">
// CHECK-NEXT:    %[[MD:.*]] = refgraph.get %[[M]] dict
// CHECK-NEXT:    %[[P:.*]] = refgraph.get %[[MD]] item("_parameters") type(8)
// CHECK-NEXT:    %[[W:.*]] = refgraph.get %[[P]] item("w") unchecked
// CHECK-NEXT:    %[[N:.*]] = refgraph.get %[[MD]] item("act") : !refgraph.obj<"dict"> -> !refgraph.obj<"Act">
// CHECK-NEXT:    refgraph.get %[[MD]] item("training") equals(false)
// CHECK-NEXT:    %[[C:.*]] = refgraph.object 6
// CHECK-NEXT:    refgraph.get %[[C]] typeattr("forward") is(14)
// CHECK-NEXT:    refgraph.absent %[[MD]] item("hook") : !refgraph.obj<"dict">
// CHECK-NEXT:    refgraph.watch dicts(%[[MD]], %[[P]] : !refgraph.obj<"dict">, !refgraph.obj<"dict">) types(%[[C]] : !refgraph.obj<"type">)
// CHECK:         %[[X:.*]] = refgraph.get %{{.*}} arg(0, "x") type(3)
// CHECK-NEXT:    refgraph.instance %[[M]] dict(%[[MD]]) type(6)
// CHECK-NEXT:    refgraph.check %[[W]] type(4) {requires_grad = true}
// CHECK-NEXT:    refgraph.check %[[N]] type(7)
// CHECK-NEXT:    refgraph.accept(%[[X]], %[[W]] :
// CHECK-LABEL: refgraph.graph @module(
// CHECK-SAME:      attributes {params = array<i64: 1>}
refgraph.trace @module {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") type(3) {requires_grad = false} : !W
  %m = refgraph.object 5 "model" : !refgraph.obj<"Net">
  %c = refgraph.get %m type is(6) : !refgraph.obj<"Net"> -> !refgraph.obj<"type">
  %d = refgraph.get %m dict : !refgraph.obj<"Net"> -> !refgraph.obj<"dict">
  %p = refgraph.get %d item("_parameters") type(8) : !refgraph.obj<"dict"> -> !refgraph.obj<"dict">
  %w = refgraph.get %p item("w") type(4) {requires_grad = true, param} : !refgraph.obj<"dict"> -> !W
  %n = refgraph.get %m attr("act") type(7) : !refgraph.obj<"Net"> -> !refgraph.obj<"Act">
  %t = refgraph.get %m attr("training") equals(false) : !refgraph.obj<"Net"> -> !refgraph.obj<"bool">
  refgraph.absent %m attr("hook") : !refgraph.obj<"Net">
  %f = refgraph.get %c typeattr("forward") is(14) : !refgraph.obj<"type"> -> !refgraph.obj<"function">
  %0 = refgraph.tensor_op "aten::matmul"(%x, %w) : (!W, !W) -> !W
  refgraph.leave %0 : !W
}
