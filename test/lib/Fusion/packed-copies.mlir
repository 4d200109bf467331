// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --fusion-outline | FileCheck %s

// A copy that is marked `pyjit.packed` is a kernel of its own, which may compute
// what it stores; who reads it does not look through it.
#id = affine_map<(d0, d1) -> (d0, d1)>
#turn = affine_map<(d0, d1) -> (d1, d0)>

// CHECK-LABEL: func.func @packed
// CHECK: %[[P:.*]] = call @kernel_0(%arg0)
// CHECK: call @kernel_1(%[[P]])
func.func @packed(%x: tensor<8x16xf32>) -> tensor<16x8xf32> {
  %e0 = tensor.empty() : tensor<8x16xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<8x16xf32>) outs(%e0 : tensor<8x16xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = math.exp %in : f32
    linalg.yield %r : f32
  } -> tensor<8x16xf32>
  %e1 = tensor.empty() : tensor<16x8xf32>
  %1 = linalg.generic {indexing_maps = [#turn, #id], iterator_types = ["parallel", "parallel"]} ins(%0 : tensor<8x16xf32>) outs(%e1 : tensor<16x8xf32>) attrs = {pyjit.packed} {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<16x8xf32>
  %2 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%1 : tensor<16x8xf32>) outs(%e1 : tensor<16x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = arith.addf %in, %in : f32
    linalg.yield %r : f32
  } -> tensor<16x8xf32>
  return %2 : tensor<16x8xf32>
}

// Without the mark it is a view, and one kernel reads through it.
// CHECK-LABEL: func.func @view
// CHECK: call @kernel_
// CHECK-NOT: call
// CHECK: return
func.func @view(%x: tensor<8x16xf32>) -> tensor<16x8xf32> {
  %e1 = tensor.empty() : tensor<16x8xf32>
  %1 = linalg.generic {indexing_maps = [#turn, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<8x16xf32>) outs(%e1 : tensor<16x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<16x8xf32>
  %2 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%1 : tensor<16x8xf32>) outs(%e1 : tensor<16x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = arith.addf %in, %in : f32
    linalg.yield %r : f32
  } -> tensor<16x8xf32>
  return %2 : tensor<16x8xf32>
}

// CHECK: func.func private @kernel_0
// CHECK: math.exp
// CHECK: pyjit.packed
// CHECK: func.func private @kernel_1
