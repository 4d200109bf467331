// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A program that its data may end.
// RUN: %python -c "import numpy; numpy.save('%t.npy', numpy.array([1, -2, 3, 4], 'float32')); numpy.save('%t.bad.npy', numpy.array([1, 200, 3, 4], 'float32'))"
// RUN: pyjit-run %s --entry f --print-launch | FileCheck %s --check-prefix=LAUNCH
// RUN: pyjit-run %s --entry f --device-launch update --print-launch | FileCheck %s --check-prefix=DEVICE
// RUN: pyjit-run %s --entry f --arg %t.npy | FileCheck %s --check-prefix=VALUES
// RUN: pyjit-run %s --entry f --arg %t.npy --device-launch update | FileCheck %s --check-prefix=VALUES
// RUN: not pyjit-run %s --entry f --arg %t.bad.npy 2>&1 | FileCheck %s --check-prefix=ENDS
// RUN: not pyjit-run %s --entry f --arg %t.bad.npy --device-launch update 2>&1 | FileCheck %s --check-prefix=ENDS

// What the flag shares with the rest is stored by a kernel in front, and read
// by the one behind.
// LAUNCH:      kernel kernel_{{.*}} (s0, [[A:s[0-9]+]], [[LESS:s[0-9]+]])
// LAUNCH-NEXT: kernel kernel_{{.*}} ([[LESS]], [[FLAG:s[0-9]+]])
// LAUNCH-NEXT: speculate [[FLAG]]
// LAUNCH-NEXT: kernel kernel_
// LAUNCH:      outputs:
// DEVICE:      speculate
// DEVICE:      kernel kernel_
// DEVICE:      outputs:
// VALUES: [3, 5, 7, 9]
// ENDS: the program does not answer a call with such data
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = tssa.aten "aten::abs"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %s = tssa.aten "aten::lt.Scalar"(%a, 100 : i64) : (tensor<4xf32>) -> tensor<4xi1>
  %c = tssa.aten "aten::all"(%s) : (tensor<4xi1>) -> tensor<i1>
  tssa.speculate %c : tensor<i1>
  %m = tssa.aten "aten::mul.Tensor"(%a, wrapped(2 : i64)) : (tensor<4xf32>) -> tensor<4xf32>
  %r = tssa.aten "aten::add.Tensor"(%m, wrapped(1 : i64), 1 : i64) : (tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}
