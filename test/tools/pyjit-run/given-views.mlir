// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Results that are views: the caller gets the memory of what they show all of.
// RUN: %python -c "import numpy; numpy.save('%t.x.npy', numpy.array([[1, 2], [3, 4], [5, 6]], 'float32'))"
// RUN: pyjit-run %s --entry bias --print-launch | FileCheck %s --check-prefix=BIAS
// RUN: pyjit-run %s --entry bias --arg %t.x.npy | FileCheck %s --check-prefix=SUMS
// RUN: pyjit-run %s --entry turned --print-launch | FileCheck %s --check-prefix=TURNED
// RUN: pyjit-run %s --entry part --print-launch | FileCheck %s --check-prefix=PART
// RUN: pyjit-run %s --entry part --arg %t.x.npy | FileCheck %s --check-prefix=ROW
// RUN: pyjit-run %s --entry input --print-launch | FileCheck %s --check-prefix=INPUT
// RUN: pyjit-run %s --entry behind --print-launch | FileCheck %s --check-prefix=BEHIND
// RUN: pyjit-run %s --entry both --print-launch | FileCheck %s --check-prefix=BOTH
// RUN: pyjit-run %s --entry both --arg %t.x.npy | FileCheck %s --check-prefix=TWICE

// BIAS: s[[SUM:[0-9]+]] = fresh: dtype 6 [1, 2] strides [2, 1]
// BIAS: s[[V:[0-9]+]] = view: dtype 6 [2] strides [1]
// BIAS: outputs: s[[V]]
// SUMS: [9, 12]
func.func @bias(%x: tensor<3x2xf32>) -> tensor<2xf32> {
  %0 = tssa.aten "aten::sum.dim_IntList"(%x, [0 : i64], true, none) : (tensor<3x2xf32>) -> tensor<1x2xf32>
  %1 = tssa.access %0 [#tssa.view<view [2]>] : tensor<1x2xf32> -> tensor<2xf32>
  return %1 : tensor<2xf32>
}

// By way of two views, and also what a kernel reads besides.
// TURNED-DAG: s[[E:[0-9]+]] = fresh: dtype 6 [3, 2]
// TURNED-DAG: s[[V:[0-9]+]] = view: dtype 6 [1, 2, 3] strides [6, 1, 2]
// TURNED: outputs: s[[V]] s
func.func @turned(%x: tensor<3x2xf32>) -> (tensor<1x2x3xf32, #tssa.strides<[6, 1, 2]>>, tensor<2xf32>) {
  %0 = tssa.aten "aten::exp"(%x) : (tensor<3x2xf32>) -> tensor<3x2xf32>
  %1 = tssa.access %0 [#tssa.view<permute [1, 0]>] : tensor<3x2xf32> -> tensor<2x3xf32, #tssa.strides<[1, 2]>>
  %2 = tssa.access %1 [#tssa.view<unsqueeze [0]>] : tensor<2x3xf32, #tssa.strides<[1, 2]>> -> tensor<1x2x3xf32, #tssa.strides<[6, 1, 2]>>
  %3 = tssa.aten "aten::sum.dim_IntList"(%0, [0 : i64], false, none) : (tensor<3x2xf32>) -> tensor<2xf32>
  return %2, %3 : tensor<1x2x3xf32, #tssa.strides<[6, 1, 2]>>, tensor<2xf32>
}

// The whole would live as long as its part.
// PART: s[[E:[0-9]+]] = arena 0: dtype 6 [3, 2]
// PART: s[[V:[0-9]+]] = view: dtype 6 [2] strides [1]
// PART: outputs: s[[V]]
// ROW: [-3, -4]
func.func @part(%x: tensor<3x2xf32>) -> tensor<2xf32> {
  %0 = tssa.aten "aten::neg"(%x) : (tensor<3x2xf32>) -> tensor<3x2xf32>
  %1 = tssa.access %0 [#tssa.view<select [0, 1]>] : tensor<3x2xf32> -> tensor<2xf32>
  return %1 : tensor<2xf32>
}

// INPUT-NOT: fresh
func.func @input(%x: tensor<3x2xf32>) -> tensor<6xf32> {
  %0 = tssa.access %x [#tssa.view<view [6]>] : tensor<3x2xf32> -> tensor<6xf32>
  return %0 : tensor<6xf32>
}

// Nothing is allocated behind the write of the input, nor copied in front of it.
// BEHIND: s[[SUM:[0-9]+]] = fresh: dtype 6 [1, 2]
// BEHIND-NOT: copy
// BEHIND: outputs: s{{[0-9]+}} s0 in place
func.func @behind(%x: tensor<3x2xf32>) -> (tensor<2xf32>, tensor<3x2xf32>)
    attributes {pyjit.updates = [array<i64: 1, 0>]} {
  %0 = tssa.aten "aten::sum.dim_IntList"(%x, [0 : i64], true, none) : (tensor<3x2xf32>) -> tensor<1x2xf32>
  %1 = tssa.access %0 [#tssa.view<view [2]>] : tensor<1x2xf32> -> tensor<2xf32>
  %2 = tssa.aten "aten::neg"(%x) : (tensor<3x2xf32>) -> tensor<3x2xf32>
  return %1, %2 : tensor<2xf32>, tensor<3x2xf32>
}

// Results are no views of one another: of two that show one buffer, one is a copy, made in front of the write.
// BOTH: s[[SUM:[0-9]+]] = fresh: dtype 6 [1, 2]
// BOTH: s[[OWN:[0-9]+]] = fresh: dtype 6 [1, 2]
// BOTH: copy s[[SUM]] to s[[OWN]]
// BOTH: outputs: s{{[0-9]+}} s[[OWN]] s0 in place
// TWICE: [9, 12]
// TWICE: {{\[}}[9, 12]]
func.func @both(%x: tensor<3x2xf32>) -> (tensor<2xf32>, tensor<1x2xf32>, tensor<3x2xf32>)
    attributes {pyjit.updates = [array<i64: 2, 0>]} {
  %0 = tssa.aten "aten::sum.dim_IntList"(%x, [0 : i64], true, none) : (tensor<3x2xf32>) -> tensor<1x2xf32>
  %1 = tssa.access %0 [#tssa.view<view [2]>] : tensor<1x2xf32> -> tensor<2xf32>
  %2 = tssa.aten "aten::neg"(%x) : (tensor<3x2xf32>) -> tensor<3x2xf32>
  return %1, %0, %2 : tensor<2xf32>, tensor<1x2xf32>, tensor<3x2xf32>
}
