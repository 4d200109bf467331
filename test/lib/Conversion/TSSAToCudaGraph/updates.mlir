// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --convert-tssa-to-cudagraph --split-input-file | FileCheck %s
// RUN: pyjit-opt %s --convert-tssa-to-cudagraph --pyjit-cudagraph --split-input-file | FileCheck %s --check-prefix=GRAPH

func.func private @k(tensor<8xf32>) -> tensor<8xf32> attributes {pyjit.kernel, pyjit.may_overlap = [array<i64: 0, 0>]}

// A kernel that may writes the input's buffer. A vendor call in front of it reads a copy, which is not to be left out.
// CHECK: cudagraph.program @direct
// CHECK-SAME: pyjit.updates = [array<i64: 0, 0>]
// CHECK: %[[X:.*]] = cudagraph.external input 0
// CHECK: cudagraph.call "aten::exp"(%[[X]])
// CHECK: cudagraph.kernel @k(%[[X]]) to(%[[X]])
// CHECK: cudagraph.return %[[X]],
// GRAPH: cudagraph.program @direct
// GRAPH: cudagraph.graph
// GRAPH-NEXT: cudagraph.copy %{{.*}} to %[[OWN:[0-9]+]] :
// GRAPH-NEXT: cudagraph.call "aten::exp"(%[[OWN]])
// GRAPH: cudagraph.kernel @k(%[[X:.*]]) to(%[[X]]) indirect @k_indirect_0_1 [0, 1]
func.func @direct(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) attributes {pyjit.device = "cuda:0", pyjit.updates = [array<i64: 0, 0>]} {
  %1 = tssa.aten "aten::exp"(%x) : (tensor<8xf32>) -> tensor<8xf32>
  %0 = call @k(%x) {pyjit.in_place = array<i64: 0>} : (tensor<8xf32>) -> tensor<8xf32>
  return %0, %1 : tensor<8xf32>, tensor<8xf32>
}

// -----

func.func private @k(tensor<8xf32>) -> tensor<8xf32> attributes {pyjit.kernel}

// What a vendor call needs is in a buffer of the program's first; the input is written behind the call.
// CHECK: cudagraph.program @needed
// CHECK-DAG: %[[X:.*]] = cudagraph.external input 0
// CHECK-DAG: %[[T:.*]] = cudagraph.buffer
// CHECK: cudagraph.kernel @k(%[[X]]) to(%[[T]])
// CHECK: %[[R:.*]] = cudagraph.call "aten::exp"(%[[T]])
// CHECK: cudagraph.copy %[[T]] to %[[X]]
// CHECK: cudagraph.return %[[X]], %[[R]]
func.func @needed(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) attributes {pyjit.device = "cuda:0", pyjit.updates = [array<i64: 0, 0>]} {
  %0 = call @k(%x) : (tensor<8xf32>) -> tensor<8xf32>
  %1 = tssa.aten "aten::exp"(%0) : (tensor<8xf32>) -> tensor<8xf32>
  return %0, %1 : tensor<8xf32>, tensor<8xf32>
}

// -----

// Both are read before either is written, and what is returned besides is there before, too.
// CHECK: cudagraph.program @swap
// CHECK-DAG: %[[X:.*]] = cudagraph.external input 0
// CHECK-DAG: %[[Y:.*]] = cudagraph.external input 1
// CHECK-DAG: %[[O:.*]] = cudagraph.external output 0
// CHECK: cudagraph.copy %[[X]] to %[[O]]
// CHECK: cudagraph.copy %[[Y]] to %[[A:.*]] :
// CHECK: cudagraph.copy %[[X]] to %[[B:.*]] :
// CHECK: cudagraph.copy %[[A]] to %[[X]]
// CHECK: cudagraph.copy %[[B]] to %[[Y]]
// CHECK: cudagraph.return %[[O]], %[[X]], %[[Y]]
func.func @swap(%x: tensor<8xf32>, %y: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) attributes {pyjit.device = "cuda:0", pyjit.updates = [array<i64: 1, 0>, array<i64: 2, 1>]} {
  return %x, %y, %x : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}

// -----

// Bytes are copied: gaps would be, too. The mock copies elements.
// CHECK: cudagraph.program @gaps
// CHECK-NOT: pyjit.updates
// CHECK: cudagraph.return
func.func @gaps(%x: tensor<8xf32, #tssa.strides<[2]>>) -> tensor<8xf32, #tssa.strides<[2]>> attributes {pyjit.device = "cuda:0", pyjit.updates = [array<i64: 0, 0>]} {
  %0 = tssa.aten "aten::exp"(%x) : (tensor<8xf32, #tssa.strides<[2]>>) -> tensor<8xf32, #tssa.strides<[2]>>
  return %0 : tensor<8xf32, #tssa.strides<[2]>>
}
