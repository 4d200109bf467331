// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --library-hoist-parameters | FileCheck %s

// CHECK-LABEL: func.func @f(
// CHECK-SAME: %[[X:.*]]: tensor<4xf32>, %{{.*}}: tensor<4xf32> {pyjit.param}, %[[E:.*]]: tensor<4xf32> {pyjit.cached = 0 : i64})
// CHECK-NEXT: %[[R:.*]] = tssa.aten "aten::mul.Tensor"(%[[X]], %[[E]])
// CHECK-NEXT: return %[[R]]
// CHECK: func.func @f_prepare(%[[W:.*]]: tensor<4xf32> {pyjit.input = 1 : i64})
// CHECK: tssa.aten "aten::exp"(%[[W]])
func.func @f(%x: tensor<4xf32>, %w: tensor<4xf32> {pyjit.param}) -> tensor<4xf32> {
  %0 = tssa.aten "aten::exp"(%w) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = tssa.aten "aten::mul.Tensor"(%x, %0) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// What training writes in each step is computed in each call.
// CHECK-LABEL: func.func @trained(
// CHECK: aten::exp
// CHECK-NOT: @trained_prepare
func.func @trained(%x: tensor<4xf32>, %w: tensor<4xf32> {pyjit.param, pyjit.trained}) -> tensor<4xf32> {
  %0 = tssa.aten "aten::exp"(%w) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = tssa.aten "aten::mul.Tensor"(%x, %0) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// So is what the program itself writes.
// CHECK-LABEL: func.func @updated(
// CHECK: aten::exp
// CHECK-NOT: @updated_prepare
func.func @updated(%x: tensor<4xf32>, %w: tensor<4xf32> {pyjit.param}) -> tensor<4xf32> attributes {pyjit.updates = [array<i64: 0, 1>]} {
  %0 = tssa.aten "aten::exp"(%w) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = tssa.aten "aten::mul.Tensor"(%x, %0) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// Random numbers are drawn anew at each call, and a view alone stays.
// CHECK-LABEL: func.func @stays
// CHECK: aten::bernoulli
// CHECK: tssa.access
// CHECK-NOT: @stays_prepare
func.func @stays(%w: tensor<4xf32> {pyjit.param}, %v: tensor<2x4xf32> {pyjit.param}) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = tssa.aten "aten::bernoulli"(%w, none) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = tssa.access %v [#tssa.view<select [0, 1]>] : tensor<2x4xf32> -> tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}

// A constant's move to a device is done once, and its elements stay known.
// CHECK-LABEL: func.func @constant(
// CHECK-SAME: {pyjit.cached = 0 : i64, pyjit.elements = array<i64: -1, 0>}
// CHECK: func.func @constant_prepare(%{{.*}}: tensor<2xi64> {pyjit.device = "cpu", pyjit.input = 1 : i64})
// CHECK-SAME: attributes {pyjit.device = "cuda:0"}
// CHECK: aten::clone
// CHECK: aten::_to_copy
func.func @constant(%x: tensor<4x8xf32>, %c: tensor<2xi64> {pyjit.device = "cpu", pyjit.elements = array<i64: -1, 0>, pyjit.param}) -> tensor<4x2xf32> attributes {pyjit.device = "cuda:0"} {
  %0 = tssa.aten "aten::clone"(%c, none) {pyjit.device = "cpu"} : (tensor<2xi64>) -> tensor<2xi64>
  %1 = tssa.aten "aten::_to_copy"(%0, none, none, "cuda:0", none, false, none) : (tensor<2xi64>) -> tensor<2xi64>
  %2 = tssa.aten "aten::index.Tensor"(%x, [none, %1]) : (tensor<4x8xf32>, tensor<2xi64>) -> tensor<4x2xf32>
  return %2 : tensor<4x2xf32>
}

// A number of the host is cheap and stays there: nobody keeps it.
// CHECK-LABEL: func.func @number(
// CHECK: %[[N:.*]] = tssa.aten "aten::clone"
// CHECK: tssa.aten "aten::mul.Tensor"(%{{.*}}, %[[N]])
// CHECK-NOT: @number_prepare
func.func @number(%x: tensor<4xf32>, %c: tensor<f32> {pyjit.device = "cpu", pyjit.param}) -> tensor<4xf32> attributes {pyjit.device = "cuda:0"} {
  %0 = tssa.aten "aten::clone"(%c, none) {pyjit.device = "cpu"} : (tensor<f32>) -> tensor<f32>
  %1 = tssa.aten "aten::mul.Tensor"(%x, %0) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
