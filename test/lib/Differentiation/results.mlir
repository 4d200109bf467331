// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --pass-pipeline='builtin.module(func.func(tssa-differentiate{mark-results=true}))' --split-input-file | FileCheck %s --check-prefix=JOINT
// RUN: pyjit-opt %s --pass-pipeline='builtin.module(func.func(tssa-differentiate{mark-results=true}),tssa-partition)' --split-input-file | FileCheck %s
// RUN: pyjit-opt %s --pass-pipeline='builtin.module(func.func(tssa-differentiate{mark-results=true}),tssa-partition,func.func(tssa-drop-gradients{results=0 stop=true}))' --split-input-file | FileCheck %s --check-prefix=STOP

// Results that were computed from other results: where the second one's gradient
// passes through the first one is marked.
// JOINT-LABEL: func.func @results(
// JOINT: aten::add.Tensor"(%arg1, %{{.*}}, 1 : i64) {pyjit.gradient_at = 0 : i64}

// CHECK-LABEL: func.func @results(
// CHECK-LABEL: func.func @results_backward(
// CHECK-SAME: pyjit.keeps = array<i64: 0, 1>, pyjit.leads = [array<i64>, array<i64: 0>]
// CHECK-SAME: pyjit.reaches = [array<i64: 0, 1>], pyjit.reaches_directly = [array<i64: 0>]

// The program that stops there gives the first one's gradient, and none of the
// input.
// STOP-LABEL: func.func @results_backward(%arg0: tensor<4xf32> {pyjit.result = 0 : i64}, %arg1: tensor<4xf32> {pyjit.gradient = 1 : i64}) -> tensor<4xf32>
// STOP-SAME: pyjit.gradient_inputs = array<i64>
// STOP-SAME: pyjit.stops = array<i64: 0>
// STOP-NEXT: %[[C:.*]] = tssa.aten "aten::cos"(%arg0)
// STOP-NEXT: %[[G:.*]] = tssa.aten "aten::mul.Tensor"(%arg1, %[[C]])
// STOP-NEXT: return %[[G]]
func.func @results(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0, 1>} {
  %0 = tssa.aten "aten::exp"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = tssa.aten "aten::sin"(%0) : (tensor<4xf32>) -> tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}

// -----

// What goes beside the first result goes on to the input.
// CHECK-LABEL: func.func @beside_backward(
// CHECK-SAME: pyjit.leads = [array<i64>, array<i64: 0>]
// CHECK-SAME: pyjit.reaches_directly = [array<i64: 0, 1>]
// STOP-LABEL: func.func @beside_backward(
// STOP-SAME: -> (tensor<4xf32>, tensor<4xf32>)
// STOP-SAME: pyjit.gradient_inputs = array<i64: 0>
// STOP-SAME: pyjit.stops = array<i64: 0>
func.func @beside(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0, 1>} {
  %0 = tssa.aten "aten::exp"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = tssa.aten "aten::mul.Tensor"(%0, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}

// -----

// Of two tensors of one value nobody knows which one the third came from.
// JOINT-LABEL: func.func @equal(
// JOINT-NOT: pyjit.gradient_at
// CHECK-LABEL: func.func @equal_backward(
// CHECK-NOT: pyjit.leads
// CHECK: return
func.func @equal(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0, 1, 2>} {
  %0 = tssa.aten "aten::exp"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = tssa.aten "aten::sin"(%0) : (tensor<4xf32>) -> tensor<4xf32>
  return %0, %0, %1 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// -----

// The second one's gradient needs nothing that is saved.
// CHECK-LABEL: func.func @apart_backward(
// CHECK-SAME: pyjit.keeps = array<i64: 0>
func.func @apart(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0, 1>} {
  %0 = tssa.aten "aten::exp"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = tssa.aten "aten::neg"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}

// -----

// A view that the mock makes of the first result, and that the second one was
// computed from, has a gradient of its own. The forward program does not give
// it: its number stands behind what is saved.
// JOINT-LABEL: func.func @view(
// JOINT-SAME: %arg2: tensor<4xf32> {pyjit.gradient = 1 : i64}, %arg3: tensor<2x2xf32> {pyjit.gradient = 2 : i64}
// JOINT: "aten::add.Tensor"({{.*}}) {pyjit.gradient_at = 2 : i64}
// JOINT: "aten::add.Tensor"({{.*}}) {pyjit.gradient_at = 0 : i64}
// CHECK-LABEL: func.func @view(
// CHECK-SAME: -> (tensor<4xf32>, tensor<4xf32>, tensor<2x2xf32>)
// CHECK-SAME: pyjit.gradient_results = array<i64: 0, 1, 3>, pyjit.saved = 1 : i64
// CHECK-LABEL: func.func @view_backward(
// CHECK-SAME: {pyjit.gradient = 3 : i64}
// CHECK-SAME: pyjit.leads = [array<i64>, array<i64: 3>, array<i64: 0>]
// STOP-LABEL: func.func @view_backward(
// STOP-SAME: pyjit.stops = array<i64: 0>
func.func @view(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<2x2xf32>) attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0, 1, 2>, pyjit.gradient_views = 1 : i64} {
  %0 = tssa.aten "aten::neg"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = tssa.access %0 [#tssa.view<view [2, 2]>] : tensor<4xf32> -> tensor<2x2xf32>
  %2 = tssa.aten "aten::tanh"(%1) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %3 = tssa.aten "aten::neg"(%2) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %4 = tssa.access %3 [#tssa.view<view [4]>] : tensor<2x2xf32> -> tensor<4xf32>
  return %0, %4, %1 : tensor<4xf32>, tensor<4xf32>, tensor<2x2xf32>
}

// -----

// Nothing was computed from this one: autograd knows how it is a part.
// CHECK-LABEL: func.func @unread(
// CHECK-SAME: -> tensor<4xf32>
// CHECK-SAME: pyjit.gradient_results = array<i64: 0>
func.func @unread(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<2x2xf32>) attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0, 1>, pyjit.gradient_views = 1 : i64} {
  %0 = tssa.aten "aten::neg"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = tssa.access %0 [#tssa.view<view [2, 2]>] : tensor<4xf32> -> tensor<2x2xf32>
  return %0, %1 : tensor<4xf32>, tensor<2x2xf32>
}
