// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --convert-tssa-to-cudagraph --split-input-file | FileCheck %s
// RUN: pyjit-opt %s --convert-tssa-to-cudagraph --pyjit-cudagraph --split-input-file | FileCheck %s --check-prefix=GRAPH

func.func private @sum(tensor<4x8xf32>) -> tensor<1x8xf32> attributes {pyjit.kernel}
func.func private @k(tensor<4x8xf32>) -> tensor<4x8xf32> attributes {pyjit.kernel}

// A view of all that a kernel writes: the kernel writes the output, of the kernel's type. A graph knows the memory; the
// view is of this call's.
// CHECK-LABEL: cudagraph.program @whole
// CHECK: %[[S:.*]] = cudagraph.external output 0 : !cudagraph.buffer<tensor<1x8xf32>>
// CHECK-NEXT: cudagraph.kernel @sum(%{{.*}}) to(%[[S]])
// CHECK-NEXT: %[[V:.*]] = cudagraph.view %[[S]] at 0
// CHECK: %[[T:.*]] = cudagraph.external output 1 : !cudagraph.buffer<tensor<4x8xf32>>
// CHECK-NEXT: cudagraph.kernel @k(%{{.*}}) to(%[[T]])
// CHECK-NEXT: %[[P:.*]] = cudagraph.view %[[T]] at 0 : !cudagraph.buffer<tensor<4x8xf32>> to !cudagraph.buffer<tensor<8x4xf32, #tssa.strides<[1, 8]>>>
// CHECK-NEXT: %[[F:.*]] = cudagraph.view %[[P]] at 0
// CHECK-NOT: cudagraph.copy
// CHECK: cudagraph.return %[[V]], %[[F]]
// GRAPH-LABEL: cudagraph.program @whole
// GRAPH-DAG: %[[S:.*]] = cudagraph.external output 0
// GRAPH-DAG: %[[T:.*]] = cudagraph.external output 1
// GRAPH: cudagraph.graph externals(
// GRAPH: cudagraph.yield
// GRAPH: }
// GRAPH-DAG: cudagraph.view %[[S]] at 0
// GRAPH-DAG: cudagraph.view %[[T]] at 0
// GRAPH: cudagraph.return
func.func @whole(%x: tensor<4x8xf32>) -> (tensor<8xf32>, tensor<1x8x4xf32, #tssa.strides<[32, 1, 8]>>) attributes {pyjit.device = "cuda:0"} {
  %0 = call @sum(%x) : (tensor<4x8xf32>) -> tensor<1x8xf32>
  %1 = tssa.access %0 [#tssa.view<view [8]>] : tensor<1x8xf32> -> tensor<8xf32>
  %2 = call @k(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %3 = tssa.access %2 [#tssa.view<permute [1, 0]>] : tensor<4x8xf32> -> tensor<8x4xf32, #tssa.strides<[1, 8]>>
  %4 = tssa.access %3 [#tssa.view<unsqueeze [0]>] : tensor<8x4xf32, #tssa.strides<[1, 8]>> -> tensor<1x8x4xf32, #tssa.strides<[32, 1, 8]>>
  return %1, %4 : tensor<8xf32>, tensor<1x8x4xf32, #tssa.strides<[32, 1, 8]>>
}

// -----

func.func private @k(tensor<4x8xf32>) -> tensor<4x8xf32> attributes {pyjit.kernel}

// A part that begins later, ends earlier, or both, keeps no memory alive that it does not show.
// CHECK-LABEL: cudagraph.program @parts
// CHECK: %[[A:.*]] = cudagraph.buffer : !cudagraph.buffer<tensor<4x8xf32>>
// CHECK-NEXT: cudagraph.kernel @k(%{{.*}}) to(%[[A]])
// CHECK-NOT: cudagraph.external output
// CHECK: cudagraph.return
func.func @parts(%x: tensor<4x8xf32>) -> (tensor<3x8xf32>, tensor<3x8xf32>, tensor<8xf32>) attributes {pyjit.device = "cuda:0"} {
  %0 = call @k(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = tssa.access %0 [#tssa.view<slice [0, 1, 3, 1]>] : tensor<4x8xf32> -> tensor<3x8xf32>
  %2 = tssa.access %0 [#tssa.view<slice [0, 0, 3, 1]>] : tensor<4x8xf32> -> tensor<3x8xf32>
  %3 = tssa.access %0 [#tssa.view<select [0, 1]>] : tensor<4x8xf32> -> tensor<8xf32>
  return %1, %2, %3 : tensor<3x8xf32>, tensor<3x8xf32>, tensor<8xf32>
}

// -----

func.func private @k(tensor<4x8xf32>) -> tensor<4x8xf32> attributes {pyjit.kernel}

// Inputs and parameters are nobody's output, nor is what an input becomes, by way of a view or not.
// CHECK-LABEL: cudagraph.program @inputs
// CHECK-DAG: %[[X:.*]] = cudagraph.external input 0
// CHECK-DAG: %[[Z:.*]] = cudagraph.external input 1
// CHECK-DAG: %[[W:.*]] = cudagraph.external input 2 stable
// CHECK-NOT: cudagraph.external output
// CHECK: cudagraph.kernel @k(%[[X]]) to(%[[N:[0-9]+]])
// CHECK: cudagraph.kernel @k(%[[N]]) to(%[[M:[0-9]+]])
// CHECK: %[[F:.*]] = cudagraph.view %[[M]] at 0
// CHECK: %[[V:.*]] = cudagraph.view %[[W]] at 0
// CHECK: cudagraph.copy %[[N]] to %[[X]]
// CHECK: cudagraph.copy %[[F]] to %[[Z]]
// CHECK: cudagraph.return %[[X]], %[[Z]], %[[V]]
func.func @inputs(%x: tensor<4x8xf32>, %z: tensor<32xf32>, %w: tensor<4x8xf32> {pyjit.param}) -> (tensor<4x8xf32>, tensor<32xf32>, tensor<32xf32>)
    attributes {pyjit.device = "cuda:0", pyjit.updates = [array<i64: 0, 0>, array<i64: 1, 1>]} {
  %0 = call @k(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = call @k(%0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = tssa.access %1 [#tssa.view<view [32]>] : tensor<4x8xf32> -> tensor<32xf32>
  %3 = tssa.access %w [#tssa.view<view [32]>] : tensor<4x8xf32> -> tensor<32xf32>
  return %0, %2, %3 : tensor<4x8xf32>, tensor<32xf32>, tensor<32xf32>
}

// -----

!rows = tensor<?x4xf32, #tssa.layout<[s0, 4], [4, 1]>>
!flat = tensor<?xf32, #tssa.layout<[s0 * 4], [1]>>
!most = tensor<?x4xf32, #tssa.layout<[s0 - 1, 4], [4, 1]>>
func.func private @k(!rows) -> !rows attributes {pyjit.kernel}

// For all sizes, as far as their expressions tell.
// CHECK-LABEL: cudagraph.program @sizes
// CHECK: %[[Y:.*]] = cudagraph.external output 0
// CHECK: cudagraph.kernel @k(%{{.*}}) to(%[[Y]])
// CHECK: %[[V:.*]] = cudagraph.view %[[Y]] at 0
// CHECK: %[[T:.*]] = cudagraph.buffer
// CHECK: cudagraph.kernel @k(%{{.*}}) to(%[[T]])
// CHECK: %[[W:.*]] = cudagraph.view %[[T]] at 0
// CHECK: cudagraph.return %[[V]], %[[W]]
func.func @sizes(%x: !rows) -> (!flat, !most) attributes {pyjit.device = "cuda:0", pyjit.symbols = [array<i64: 0, 0>]} {
  %0 = call @k(%x) : (!rows) -> !rows
  %1 = tssa.access %0 [#tssa.view<view [s0 * 4]>] : !rows -> !flat
  %2 = call @k(%0) : (!rows) -> !rows
  %3 = tssa.access %2 [#tssa.view<slice [0, 0, s0 - 1, 1]>] : !rows -> !most
  return %1, %3 : !flat, !most
}

// -----

func.func private @k(tensor<4x8xf32>) -> tensor<4x8xf32> attributes {pyjit.kernel}

// What a branch leaves in a buffer of the program's is copied to one of its type, and shown there.
// CHECK-LABEL: cudagraph.program @branch
// CHECK: cudagraph.if
// CHECK: %[[Y:.*]] = cudagraph.external output 0 : !cudagraph.buffer<tensor<4x8xf32>>
// CHECK-NEXT: cudagraph.copy %[[OWN:.*]] to %[[Y]]
// CHECK-NEXT: %[[V:.*]] = cudagraph.view %[[Y]] at 0
// CHECK-NEXT: cudagraph.return %[[V]]
func.func @branch(%x: tensor<4x8xf32>, %c: tensor<i1>) -> tensor<32xf32> attributes {pyjit.device = "cuda:0"} {
  %flag = tensor.extract %c[] : tensor<i1>
  %r = scf.if %flag -> tensor<4x8xf32> {
    %0 = func.call @k(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    scf.yield %0 : tensor<4x8xf32>
  } else {
    scf.yield %x : tensor<4x8xf32>
  }
  %v = tssa.access %r [#tssa.view<view [32]>] : tensor<4x8xf32> -> tensor<32xf32>
  return %v : tensor<32xf32>
}

// -----

// Linear layers of matrices that the call returns are products with the weight the other way round, which can write
// where they are told; others stay.
// CHECK-LABEL: cudagraph.program @linear
// CHECK: %[[X:.*]] = cudagraph.external input 0
// CHECK: %[[W:.*]] = cudagraph.external input 1
// CHECK: %[[B:.*]] = cudagraph.external input 2
// CHECK: %[[V:.*]] = cudagraph.view %[[W]] at 0 : {{.*}} to !cudagraph.buffer<tensor<4x8xf32, #tssa.strides<[1, 4]>>>
// CHECK: %[[M:.*]] = cudagraph.call "aten::mm"(%[[X]], %[[V]])
// CHECK: %[[U:.*]] = cudagraph.view %[[W]] at 0
// CHECK: %[[N:.*]] = cudagraph.call "aten::addmm"(%[[B]], %[[X]], %[[U]], 1 : i64, 1 : i64)
// CHECK: cudagraph.call "aten::linear"
// GRAPH-LABEL: cudagraph.program @linear
// GRAPH: cudagraph.call "aten::mm.out"(%{{.*}}, %{{.*}}, %[[A:.*]]) mutates [2]
// GRAPH: cudagraph.copy %[[A]] to %{{.*}} patchable
// GRAPH: cudagraph.call "aten::addmm.out"(%{{.*}}, %[[C:.*]]) mutates [3]
// GRAPH: cudagraph.copy %[[C]] to %{{.*}} patchable
func.func @linear(%x: tensor<2x4xf32>, %w: tensor<8x4xf32>, %b: tensor<8xf32>) -> (tensor<2x8xf32>, tensor<2x8xf32>, tensor<2x8xf32>) attributes {pyjit.device = "cuda:0"} {
  %0 = tssa.aten "aten::linear"(%x, %w, none) : (tensor<2x4xf32>, tensor<8x4xf32>) -> tensor<2x8xf32>
  %1 = tssa.aten "aten::linear"(%x, %w, %b) : (tensor<2x4xf32>, tensor<8x4xf32>, tensor<8xf32>) -> tensor<2x8xf32>
  %2 = tssa.aten "aten::linear"(%0, %0, none) : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x2xf32>
  %3 = tssa.aten "aten::mm"(%2, %1) : (tensor<2x2xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  return %0, %1, %3 : tensor<2x8xf32>, tensor<2x8xf32>, tensor<2x8xf32>
}
