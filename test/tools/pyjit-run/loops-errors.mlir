// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: not pyjit-run %s --entry flag --print-launch 2>&1 | FileCheck %s --check-prefix=FLAG
// RUN: not pyjit-run %s --entry number --print-launch 2>&1 | FileCheck %s --check-prefix=NUMBER
// RUN: not pyjit-run %s --entry down --print-launch 2>&1 | FileCheck %s --check-prefix=DOWN
// RUN: not pyjit-run %s --entry far --print-launch 2>&1 | FileCheck %s --check-prefix=FAR
// RUN: not pyjit-run %s --entry pick --print-launch 2>&1 | FileCheck %s --check-prefix=FAR

// FLAG: error: decides on a flag that is not read from a bool tensor
// NUMBER: error: needs a number that is neither a loop's index
// DOWN: error: a loop whose step is not a positive constant
// FAR: error: {{.*}}index out of range
func.func @flag(%x: tensor<4xf32>, %n: tensor<i64>) -> tensor<4xf32> {
  %c1 = arith.constant 1 : i64
  %e = tensor.extract %n[] : tensor<i64>
  %f = arith.cmpi slt, %e, %c1 : i64
  %r = scf.if %f -> (tensor<4xf32>) {
    %0 = tssa.aten "aten::neg"(%x) : (tensor<4xf32>) -> tensor<4xf32>
    scf.yield %0 : tensor<4xf32>
  } else {
    scf.yield %x : tensor<4xf32>
  }
  return %r : tensor<4xf32>
}

func.func @number(%x: tensor<4x4xf32>, %n: tensor<i64>, %m: tensor<i64>) -> tensor<4xf32> {
  %e = tensor.extract %n[] : tensor<i64>
  %f = tensor.extract %m[] : tensor<i64>
  %s = arith.addi %e, %f : i64
  %i = arith.index_cast %s : i64 to index
  %0 = tssa.access %x [#tssa.view<select [0, ?]>] (%i) : tensor<4x4xf32> -> tensor<4xf32>
  %1 = tssa.aten "aten::neg"(%0) : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

func.func @down(%x: tensor<4xf32>, %n: tensor<i64>) -> tensor<4xf32> {
  %c0 = arith.constant 0 : index
  %c8 = arith.constant 8 : index
  %e = tensor.extract %n[] : tensor<i64>
  %by = arith.index_cast %e : i64 to index
  %r = scf.for %i = %c0 to %c8 step %by iter_args(%t = %x) -> tensor<4xf32> {
    %0 = tssa.aten "aten::neg"(%t) : (tensor<4xf32>) -> tensor<4xf32>
    scf.yield %0 : tensor<4xf32>
  }
  return %r : tensor<4xf32>
}

func.func @far(%x: tensor<4x4xf32>) -> tensor<4xf32> {
  %c4 = arith.constant 4 : index
  %0 = tssa.access %x [#tssa.view<select [0, ?]>] (%c4) : tensor<4x4xf32> -> tensor<4xf32>
  %1 = tssa.aten "aten::neg"(%0) : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

func.func @pick(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %c2 = arith.constant 2 : index
  %0 = tssa.pick [%x, %y] (%c2) : tensor<4xf32>
  %1 = tssa.aten "aten::neg"(%0) : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
