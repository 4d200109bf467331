// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --verify-initialized --verify-diagnostics

func.func @overwritten(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = tssa.aten "aten::empty.memory_format"([4 : i64], none, none, none, none, none) : () -> tensor<4xf32>
  %1 = tssa.aten "aten::fill.Scalar"(%0, 2.0 : f64) : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

func.func @computed_into(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = tssa.aten "aten::empty.memory_format"([4 : i64], none, none, none, none, none) : () -> tensor<4xf32>
  %1 = tssa.aten "aten::add.out"(%x, %x, 1 : i64, %0) mutates [2] : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

func.func @read_by_one_that_computes_into(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{uninitialised memory is read}}
  %0 = tssa.aten "aten::empty.memory_format"([4 : i64], none, none, none, none, none) : () -> tensor<4xf32>
  // expected-note @below {{read here}}
  %1 = tssa.aten "aten::add.out"(%0, %x, 1 : i64, %x) mutates [2] : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

func.func @returned() -> tensor<4xf32> {
  // expected-error @below {{uninitialised memory is read}}
  %0 = tssa.aten "aten::empty.memory_format"([4 : i64], none, none, none, none, none) : () -> tensor<4xf32>
  // expected-note @below {{read here}}
  return %0 : tensor<4xf32>
}

// Rows filled one after the other, as in Python's loops.
func.func @filled_by_a_loop(%x: tensor<4xf32>) -> tensor<3x4xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %0 = tssa.aten "aten::empty.memory_format"([3 : i64, 4 : i64], none, none, none, none, none) : () -> tensor<3x4xf32>
  %1 = scf.for %i = %c0 to %c3 step %c1 iter_args(%t = %0) -> tensor<3x4xf32> {
    %2 = tssa.assign %t, %x [#tssa.view<select [0, ?]>] (%i) : tensor<3x4xf32>, tensor<4xf32>
    scf.yield %2 : tensor<3x4xf32>
  }
  return %1 : tensor<3x4xf32>
}

func.func @read_in_a_loop(%n: index) -> tensor<4xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  // expected-error @below {{uninitialised memory is read}}
  %0 = tssa.aten "aten::empty.memory_format"([4 : i64], none, none, none, none, none) : () -> tensor<4xf32>
  %1 = scf.for %i = %c0 to %n step %c1 iter_args(%t = %0) -> tensor<4xf32> {
    // expected-note @below {{read here}}
    %2 = tssa.aten "aten::neg"(%t) : (tensor<4xf32>) -> tensor<4xf32>
    scf.yield %2 : tensor<4xf32>
  }
  return %1 : tensor<4xf32>
}
