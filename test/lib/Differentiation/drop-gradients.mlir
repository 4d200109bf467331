// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --pass-pipeline='builtin.module(func.func(tssa-differentiate),tssa-partition,func.func(tssa-drop-gradients{results=0}))' | FileCheck %s

// Of the logarithm nobody asks for a gradient: a zero over a zero would be nan.
// CHECK-LABEL: func.func @logarithm_and_sine_backward(
// CHECK-SAME: %[[X:.*]]: tensor<4xf32> {pyjit.input = 0 : i64}, %[[G:.*]]: tensor<4xf32> {pyjit.gradient = 1 : i64}) -> tensor<4xf32>
// CHECK-NOT: aten::div
// CHECK: %[[COS:.*]] = tssa.aten "aten::cos"(%[[X]])
// CHECK: %[[D:.*]] = tssa.aten "aten::mul.Tensor"(%[[G]], %[[COS]])
// CHECK: return %[[D]]
func.func @logarithm_and_sine(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0, 1>} {
  %0 = tssa.aten "aten::log"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = tssa.aten "aten::sin"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}

// Of what only the dropped result depends on there is no gradient, and sizes
// are read of what is left.
// CHECK-LABEL: func.func @apart_backward(
// CHECK-SAME: %{{.*}}: tensor<?xf32, #tssa.layout<[s0], [1]>> {pyjit.gradient = 1 : i64}) -> tensor<?xf32, #tssa.layout<[s0], [1]>>
// CHECK-SAME: pyjit.gradient_inputs = array<i64: 1>, pyjit.reaches = {{\[}}array<i64: 1>]
// CHECK-SAME: pyjit.symbols = {{\[}}array<i64: 0, 0>]
func.func @apart(%x: tensor<?xf32, #tssa.layout<[s0], [1]>>, %y: tensor<?xf32, #tssa.layout<[s0], [1]>>) -> (tensor<?xf32, #tssa.layout<[s0], [1]>>, tensor<?xf32, #tssa.layout<[s0], [1]>>) attributes {pyjit.gradient_inputs = array<i64: 0, 1>, pyjit.gradient_results = array<i64: 0, 1>, pyjit.symbols = [array<i64: 0, 0>]} {
  %0 = tssa.aten "aten::neg"(%x) : (tensor<?xf32, #tssa.layout<[s0], [1]>>) -> tensor<?xf32, #tssa.layout<[s0], [1]>>
  %1 = tssa.aten "aten::neg"(%y) : (tensor<?xf32, #tssa.layout<[s0], [1]>>) -> tensor<?xf32, #tssa.layout<[s0], [1]>>
  return %0, %1 : tensor<?xf32, #tssa.layout<[s0], [1]>>, tensor<?xf32, #tssa.layout<[s0], [1]>>
}
