// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --refgraph-lift -split-input-file | FileCheck %s
// RUN: pyjit-opt %s --pyjit-frontend -split-input-file | FileCheck %s --check-prefix=TSSA
// RUN: pyjit-opt %s --refgraph-lift --refgraph-generate-guards --refgraph-generate-mock --refgraph-extract-graph -split-input-file | FileCheck %s --check-prefix=SPECIALIZATION

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!I = !refgraph.obj<"int">
!F = !refgraph.obj<"float">

// A counter and a learning rate: read in each call, computed by the guards,
// given to the graph and to the mock.
// CHECK-LABEL: refgraph.trace @counter
// CHECK:         %[[N:.*]] = refgraph.get %{{.*}} attr("n") type(2) {lift}
// CHECK:         %[[L:.*]] = refgraph.get %{{.*}} arg(2, "lr") type(3) {lift}
// CHECK:         %[[N1:.*]] = refgraph.arith "add"(%[[N]], %{{.*}}) is(4)
// CHECK:         refgraph.compare "lt"(%[[N1]], %{{.*}}) is true
// CHECK:         refgraph.tensor_op "aten::mul.Tensor"(%{{.*}}, wrapped(%[[N1]]))
// CHECK:         refgraph.tensor_op "aten::add.Tensor"(%{{.*}}, %{{.*}}, number(%[[L]]))
// TSSA-LABEL:  func.func @counter(
// TSSA-SAME:     tensor<4xf32>, %[[L:.*]]: tensor<f64>, %[[N:.*]]: tensor<i64>
// TSSA:          tssa.aten "aten::mul.Tensor"(%{{.*}}, wrapped(%[[N]])) : (tensor<4xf32>, tensor<i64>) -> tensor<4xf32>
// TSSA:          tssa.aten "aten::add.Tensor"(%{{.*}}, %{{.*}}, number(%[[L]])) : (tensor<4xf32>, tensor<4xf32>, tensor<f64>) -> tensor<4xf32>
// RECORD-LABEL: refgraph.guards @counter
// RECORD-NOT:    watch
// SPECIALIZATION:        %[[N:.*]] = refgraph.get %{{.*}} attr("n") type(2) :
// SPECIALIZATION:        %[[N1:.*]] = refgraph.arith "add"(%[[N]], %{{.*}}) is(4)
// SPECIALIZATION:        refgraph.compare "lt"(%[[N1]], %{{.*}}) is true
// SPECIALIZATION:        refgraph.accept(%{{.*}}, %[[L:.*]], %[[N1]] : !refgraph.tensor<[4], [1], f32, "cpu">, !refgraph.obj<"float">, !refgraph.obj<"int">) keeps(
// SPECIALIZATION:      refgraph.mock @counter inputs(%{{.*}}, %{{.*}}, %[[N1:.*]]: !refgraph.obj<"int">)
// SPECIALIZATION:        refgraph.set %{{.*}} attr("n") = %[[N1]]
refgraph.trace @counter {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") type(4) : !T
  %c = refgraph.get %e arg(1, "c") type(5) : !refgraph.obj<"Config">
  %n = refgraph.get %c attr("n") type(2) equals(3) {lift} : !refgraph.obj<"Config"> -> !I
  %l = refgraph.get %e arg(2, "lr") type(3) equals(0.5) {lift} : !F
  %one = refgraph.constant 1
  %ten = refgraph.constant 10
  %n1 = refgraph.arith "add"(%n, %one) is(4) : (!I, !I) -> !I
  refgraph.compare "lt"(%n1, %ten) is true : !I, !I
  %0 = refgraph.tensor_op "aten::mul.Tensor"(%x, wrapped(%n1)) : (!T, !I) -> !T
  %1 = refgraph.tensor_op "aten::add.Tensor"(%0, %x, number(%l)) : (!T, !T, !F) -> !T
  refgraph.set %c attr("n") = %n1 : !refgraph.obj<"Config">, !I
  refgraph.leave %1 : !T
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!I = !refgraph.obj<"int">

// Used in a way that nobody recorded (here: a size): it keeps its value, and so
// does everything that follows from it, in calls too.
// CHECK-LABEL: refgraph.trace @specialized
// CHECK:         refgraph.get %{{.*}} arg(1, "n") type(2) equals(2) :
// CHECK-NOT:     refgraph.compare
// CHECK-NOT:     refgraph.arith
// CHECK:         refgraph.tensor_op "aten::mul.Tensor"(%{{.*}}, wrapped(2 : i64))
// CHECK:         refgraph.tensor_op "aten::add_.Tensor"(%{{.*}}, %{{.*}}, 4 : i64) mutates [0]
refgraph.trace @specialized {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") type(4) : !T
  %n = refgraph.get %e arg(1, "n") type(2) equals(2) {lift} : !I
  %two = refgraph.constant 2
  refgraph.compare "is"(%n, %two) is true : !I, !I
  %m = refgraph.arith "mul"(%n, %two) is(4) : (!I, !I) -> !I
  refgraph.compare "ge"(%m, %two) is true : !I, !I
  %0 = refgraph.tensor_op "aten::mul.Tensor"(%x, wrapped(%n)) : (!T, !I) -> !T
  %1 = refgraph.tensor_op "aten::add_.Tensor"(%0, %x, number(%m)) mutates [0] : (!T, !T, !I) -> !T
  refgraph.leave %1 : !T
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!I = !refgraph.obj<"int">

// A computed number that is specialized is a guard of the computation.
// CHECK-LABEL: refgraph.trace @computed
// CHECK:         %[[N:.*]] = refgraph.get %{{.*}} arg(1, "n") type(2) {lift}
// CHECK:         %[[M:.*]] = refgraph.arith "mod"(%[[N]]
// CHECK:         refgraph.compare "is"(%[[M]], %{{.*}}) is true
// RECORD-LABEL: refgraph.guards @computed
// SPECIALIZATION:         refgraph.compare "is"
refgraph.trace @computed {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") type(4) : !T
  %n = refgraph.get %e arg(1, "n") type(2) equals(5) {lift} : !I
  %two = refgraph.constant 2
  %m = refgraph.arith "mod"(%n, %two) is(1) : (!I, !I) -> !I
  %one = refgraph.constant 1
  refgraph.compare "is"(%m, %one) is true : !I, !I
  %0 = refgraph.tensor_op "aten::relu"(%x) : (!T) -> !T
  refgraph.leave %0 : !T
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
!F = !refgraph.obj<"float">

// Nothing uses either result: a call in which the quotient would raise fails
// the guards, and a sum does not raise.
// RECORD-LABEL: refgraph.guards @raises
// SPECIALIZATION:         %[[S:.*]] = refgraph.get %{{.*}} arg(1, "s") type(3) :
// RECORD-NOT:     "add"
// SPECIALIZATION:         refgraph.arith "truediv"(%{{.*}}, %[[S]])
// SPECIALIZATION:         refgraph.accept(%{{.*}} : !refgraph.tensor<[4], [1], f32, "cpu">)
refgraph.trace @raises {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") type(4) : !T
  %s = refgraph.get %e arg(1, "s") type(3) equals(2.0) {lift} : !F
  %one = refgraph.constant 1.0
  %0 = refgraph.arith "add"(%s, %one) is(3.0) : (!F, !F) -> !F
  %1 = refgraph.arith "truediv"(%one, %s) is(0.5) : (!F, !F) -> !F
  %y = refgraph.tensor_op "aten::neg"(%x) : (!T) -> !T
  refgraph.leave %y : !T
}
