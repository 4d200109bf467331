// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Inputs that the program writes: by kernels, and by copies behind everything that may fail.
// RUN: %python -c "import numpy; numpy.save('%t.x.npy', numpy.array([1, 2, 3, 4], 'float32')); numpy.save('%t.y.npy', numpy.array([5, 6, 7, 8], 'float32'))"
// RUN: pyjit-run %s --entry add --print-launch | FileCheck %s --check-prefix=ADD
// RUN: pyjit-run %s --entry add --arg %t.x.npy --arg %t.y.npy | FileCheck %s --check-prefix=SUM
// RUN: pyjit-run %s --entry swap --print-launch | FileCheck %s --check-prefix=SWAP
// RUN: pyjit-run %s --entry swap --arg %t.x.npy --arg %t.y.npy | FileCheck %s --check-prefix=SWAPPED
// RUN: pyjit-run %s --entry old --print-launch | FileCheck %s --check-prefix=OLD
// RUN: pyjit-run %s --entry old --arg %t.x.npy --arg %t.y.npy | FileCheck %s --check-prefix=BOTH

// ADD:      s0 = input 0: dtype 6 [4] strides [1] written
// ADD:      kernel kernel_0 (s0, s1, s0)
// ADD:      outputs: s0 in place
// SUM: [6, 8, 10, 12]
func.func @add(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> attributes {pyjit.updates = [array<i64: 0, 0>]} {
  %r = tssa.aten "aten::add.Tensor"(%x, %y, 1 : i64) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// Neither is overwritten before the other one has been read.
// SWAP:      copy s1 to s[[A:[0-9]+]]
// SWAP-NEXT: copy s0 to s[[B:[0-9]+]]
// SWAP-NEXT: copy s[[A]] to s0
// SWAP-NEXT: copy s[[B]] to s1
// SWAP:      outputs: s0 in place s1 in place
// SWAPPED: [5, 6, 7, 8]
// SWAPPED: [1, 2, 3, 4]
func.func @swap(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
    attributes {pyjit.updates = [array<i64: 0, 0>, array<i64: 1, 1>]} {
  return %y, %x : tensor<4xf32>, tensor<4xf32>
}

// What the input was is handed out in memory of its own, and that is there before anything is written.
// OLD:      s[[R:[0-9]+]] = fresh
// OLD:      copy s0 to s[[R]]
// OLD-NEXT: copy s{{[0-9]+}} to s0
// OLD:      outputs: s[[R]] s0 in place
// BOTH: [1, 2, 3, 4]
// BOTH: [6, 8, 10, 12]
func.func @old(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
    attributes {pyjit.updates = [array<i64: 1, 0>]} {
  %r = tssa.aten "aten::add.Tensor"(%x, %y, 1 : i64) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %x, %r : tensor<4xf32>, tensor<4xf32>
}
