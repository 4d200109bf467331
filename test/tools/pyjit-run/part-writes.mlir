// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Parts of inputs that the launch writes where they are, and what it puts back where it does not end.
// RUN: %python -c "import numpy; numpy.save('%t.c.npy', numpy.zeros((4, 2), 'float32')); numpy.save('%t.k.npy', numpy.array([1, 2], 'float32')); numpy.save('%t.n.npy', numpy.array(2, 'int64'))"
// RUN: pyjit-run %s --entry row --print-launch | FileCheck %s --check-prefix=ROW
// RUN: pyjit-run %s --entry row --arg %t.c.npy --arg %t.k.npy --arg %t.n.npy | FileCheck %s --check-prefix=NEW
// RUN: pyjit-run %s --entry itself --print-launch | FileCheck %s --check-prefix=ITSELF
// RUN: pyjit-run %s --entry undone --print-launch | FileCheck %s --check-prefix=UNDONE
// RUN: pyjit-run %s --entry call --print-launch | FileCheck %s --check-prefix=CALL

// Two elements are copied, at a place that the third input says.
// ROW:      s0 = input 0: dtype 6 [4, 2] strides [2, 1] written
// ROW:      s[[V:[0-9]+]] = view of s0 at
// ROW-NEXT: copy s1 to s[[V]]
// ROW-NOT:  copy
// ROW:      outputs: s0 in place
// NEW: [0, 0]
// NEW-SAME: [1, 2]
func.func @row(%c: tensor<4x2xf32>, %k: tensor<2xf32>, %n: tensor<i64>) -> tensor<4x2xf32>
    attributes {pyjit.symbols = [array<i64: 2, -1>], pyjit.updates = [array<i64: 0, 0>]} {
  %0 = tssa.assign %c, %k [#tssa.view<select [0, s0]>] : tensor<4x2xf32>, tensor<2xf32>
  return %0 : tensor<4x2xf32>
}

// The row that is assigned is the input's own: it is taken out first.
// ITSELF:      s[[F:[0-9]+]] = view of s0 at 2
// ITSELF-NEXT: copy s[[F]] to s[[B:[0-9]+]]
// ITSELF-NEXT: s[[T:[0-9]+]] = view of s0 at 4
// ITSELF-NEXT: copy s[[B]] to s[[T]]
func.func @itself(%c: tensor<4x2xf32>) -> tensor<4x2xf32> attributes {pyjit.updates = [array<i64: 0, 0>]} {
  %v = tssa.access %c [#tssa.view<select [0, 1]>] : tensor<4x2xf32> -> tensor<2xf32>
  %0 = tssa.assign %c, %v [#tssa.view<select [0, 2]>] : tensor<4x2xf32>, tensor<2xf32>
  return %0 : tensor<4x2xf32>
}

// A call that may fail comes behind.
// UNDONE:      s[[V:[0-9]+]] = view of s0 at 2
// UNDONE-NEXT: copy s[[V]] to s[[OLD:[0-9]+]]
// UNDONE-NEXT: undo by the next 1
// UNDONE-NEXT: copy s[[OLD]] to s[[V]]
// UNDONE-NEXT: copy s1 to s[[V]]
// UNDONE-NEXT: call aten::mm
func.func @undone(%c: tensor<2x2xf32>, %k: tensor<2xf32>) -> (tensor<2x2xf32>, tensor<2x2xf32>) attributes {pyjit.updates = [array<i64: 0, 0>]} {
  %0 = tssa.assign %c, %k [#tssa.view<select [0, 1]>] : tensor<2x2xf32>, tensor<2xf32>
  %1 = tssa.aten "aten::mm"(%0, %0) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  return %0, %1 : tensor<2x2xf32>, tensor<2x2xf32>
}

// CALL:      call aten::index_select -> (s[[OLD:[0-9]+]])
// CALL-NEXT: undo by the next 1
// CALL-NEXT: call aten::index_copy_ -> ()
// CALL-NEXT: call aten::index_add_ -> ()
// CALL-NOT:  copy
// CALL:      outputs: s0 in place
func.func @call(%c: tensor<4x2xf32>, %i: tensor<1xi64>, %k: tensor<1x2xf32>) -> tensor<4x2xf32> attributes {pyjit.updates = [array<i64: 0, 0>]} {
  %0 = tssa.aten "aten::index_add_"(%c, 0 : i64, %i, %k, 1 : i64) mutates [0] : (tensor<4x2xf32>, tensor<1xi64>, tensor<1x2xf32>) -> tensor<4x2xf32>
  return %0 : tensor<4x2xf32>
}
