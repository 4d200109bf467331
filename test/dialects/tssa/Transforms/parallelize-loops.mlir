// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --tssa-parallelize-loops | FileCheck %s

// Each iteration has its own row, of both loop-carried tensors.
// CHECK-LABEL: func @own_rows
// CHECK: } {tssa.parallel}
func.func @own_rows(%x: tensor<4x3xf32>, %y: tensor<3x4xf32>, %n: index) -> (tensor<4x3xf32>, tensor<3x4xf32>) {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %r:2 = scf.for %i = %c0 to %n step %c2 iter_args(%t = %x, %u = %y) -> (tensor<4x3xf32>, tensor<3x4xf32>) {
    %0 = tssa.access %t [#tssa.view<select [0, ?]>] (%i) : tensor<4x3xf32> -> tensor<3xf32>
    %1 = tssa.access %u [#tssa.view<select [1, ?]>] (%i) : tensor<3x4xf32> -> tensor<3xf32, #tssa.strides<[4]>>
    %2 = tssa.aten "aten::add.Tensor"(%0, %1, 1 : i64) : (tensor<3xf32>, tensor<3xf32, #tssa.strides<[4]>>) -> tensor<3xf32>
    %3 = tssa.assign %t, %2 [#tssa.view<select [0, ?]>] (%i) : tensor<4x3xf32>, tensor<3xf32>
    %4 = tssa.assign %u, %0 [#tssa.view<select [1, ?]>] (%i) : tensor<3x4xf32>, tensor<3xf32>
    scf.yield %3, %4 : tensor<4x3xf32>, tensor<3x4xf32>
  }
  return %r#0, %r#1 : tensor<4x3xf32>, tensor<3x4xf32>
}

// The row before: what the last iteration wrote.
// CHECK-LABEL: func @previous_row
// CHECK-NOT: tssa.parallel
func.func @previous_row(%x: tensor<4x3xf32>, %n: index) -> tensor<4x3xf32> {
  %c1 = arith.constant 1 : index
  %r = scf.for %i = %c1 to %n step %c1 iter_args(%t = %x) -> (tensor<4x3xf32>) {
    %j = arith.subi %i, %c1 : index
    %0 = tssa.access %t [#tssa.view<select [0, ?]>] (%j) : tensor<4x3xf32> -> tensor<3xf32>
    %1 = tssa.assign %t, %0 [#tssa.view<select [0, ?]>] (%i) : tensor<4x3xf32>, tensor<3xf32>
    scf.yield %1 : tensor<4x3xf32>
  }
  return %r : tensor<4x3xf32>
}

// A row is read, a column is written.
// CHECK-LABEL: func @other_dimension
// CHECK-NOT: tssa.parallel
func.func @other_dimension(%x: tensor<3x3xf32>, %n: index) -> tensor<3x3xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%t = %x) -> (tensor<3x3xf32>) {
    %0 = tssa.access %t [#tssa.view<select [0, ?]>] (%i) : tensor<3x3xf32> -> tensor<3xf32>
    %1 = tssa.assign %t, %0 [#tssa.view<select [1, ?]>] (%i) : tensor<3x3xf32>, tensor<3xf32>
    scf.yield %1 : tensor<3x3xf32>
  }
  return %r : tensor<3x3xf32>
}

// The whole tensor is looked at, or a sum is carried beside it.
// CHECK-LABEL: func @whole
// CHECK-NOT: tssa.parallel
func.func @whole(%x: tensor<4x3xf32>, %s: tensor<3xf32>, %n: index) -> (tensor<4x3xf32>, tensor<3xf32>, tensor<4x3xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%t = %x, %u = %s) -> (tensor<4x3xf32>, tensor<3xf32>) {
    %0 = tssa.access %t [#tssa.view<select [0, ?]>] (%i) : tensor<4x3xf32> -> tensor<3xf32>
    %1 = tssa.aten "aten::add.Tensor"(%0, %u, 1 : i64) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %2 = tssa.assign %t, %1 [#tssa.view<select [0, ?]>] (%i) : tensor<4x3xf32>, tensor<3xf32>
    scf.yield %2, %1 : tensor<4x3xf32>, tensor<3xf32>
  }
  %q = scf.for %i = %c0 to %n step %c1 iter_args(%t = %x) -> (tensor<4x3xf32>) {
    %0 = tssa.aten "aten::sum.dim_IntList"(%t, [0 : i64], false, none) : (tensor<4x3xf32>) -> tensor<3xf32>
    %1 = tssa.assign %t, %0 [#tssa.view<select [0, ?]>] (%i) : tensor<4x3xf32>, tensor<3xf32>
    scf.yield %1 : tensor<4x3xf32>
  }
  return %r#0, %r#1, %q : tensor<4x3xf32>, tensor<3xf32>, tensor<4x3xf32>
}

// Random numbers are drawn in order; a step that is not known may be 0.
// CHECK-LABEL: func @ordered
// CHECK-NOT: tssa.parallel
func.func @ordered(%x: tensor<4x3xf32>, %n: index) -> (tensor<4x3xf32>, tensor<4x3xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%t = %x) -> (tensor<4x3xf32>) {
    %0 = tssa.access %t [#tssa.view<select [0, ?]>] (%i) : tensor<4x3xf32> -> tensor<3xf32>
    %1 = tssa.aten "aten::rand_like"(%0, none, none, none, none, none) : (tensor<3xf32>) -> tensor<3xf32>
    %2 = tssa.assign %t, %1 [#tssa.view<select [0, ?]>] (%i) : tensor<4x3xf32>, tensor<3xf32>
    scf.yield %2 : tensor<4x3xf32>
  }
  %q = scf.for %i = %c0 to %n step %n iter_args(%t = %x) -> (tensor<4x3xf32>) {
    %0 = tssa.access %t [#tssa.view<select [0, ?]>] (%i) : tensor<4x3xf32> -> tensor<3xf32>
    %1 = tssa.assign %t, %0 [#tssa.view<select [0, ?]>] (%i) : tensor<4x3xf32>, tensor<3xf32>
    scf.yield %1 : tensor<4x3xf32>
  }
  return %r, %q : tensor<4x3xf32>, tensor<4x3xf32>
}
