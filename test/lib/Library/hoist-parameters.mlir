// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --library-hoist-parameters | FileCheck %s

// CHECK-LABEL: func.func @f(
// CHECK-SAME: %[[X:.*]]: tensor<4xf32>, %{{.*}}: tensor<4xf32> {pyjit.param}, %[[E:.*]]: tensor<4xf32> {pyjit.cached = 0 : i64})
// CHECK-NEXT: %[[R:.*]] = tssa.aten "aten::mul.Tensor"(%[[X]], %[[E]])
// CHECK-NEXT: return %[[R]]
// CHECK: func.func @f_prepare(%[[W:.*]]: tensor<4xf32> {pyjit.input = 1 : i64})
// CHECK-SAME: pyjit.prepare
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
// CHECK-SAME: attributes {pyjit.device = "cuda:0", pyjit.prepare}
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

// The same operations have the same digest, whatever their arguments are called
// and wherever they stand; on a device nothing is said.
// CHECK-LABEL: func.func @first_prepare(
// CHECK-SAME: pyjit.digests = ["[[SUM:[0-9a-f]+]]", "[[EXP:[0-9a-f]+]]"], pyjit.prepare, pyjit.sources = [array<i64: 1, 0>, array<i64: 0>]
func.func @first(%x: tensor<4xf32>, %v: tensor<4xf32> {pyjit.param}, %w: tensor<4xf32> {pyjit.param}) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = tssa.aten "aten::exp"(%w) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = tssa.aten "aten::sub.Tensor"(%v, %0, 1 : i64) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %2 = tssa.aten "aten::mul.Tensor"(%x, %0) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %3 = tssa.aten "aten::mul.Tensor"(%x, %1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %2, %3 : tensor<4xf32>, tensor<4xf32>
}

// CHECK-LABEL: func.func @second_prepare(
// CHECK-SAME: pyjit.digests = ["[[SUM]]", "[[EXP]]", "{{[0-9a-f]+}}"], pyjit.prepare, pyjit.sources = [array<i64: 2, 1>, array<i64: 1>, array<i64: 0>]
func.func @second(%w: tensor<4xf32> {pyjit.param}, %v: tensor<4xf32> {pyjit.param}, %u: tensor<7x4xf32> {pyjit.param}, %y: tensor<7x4xf32>) -> (tensor<7x4xf32>, tensor<7x4xf32>) {
  %s = tssa.aten "aten::sin"(%u) : (tensor<7x4xf32>) -> tensor<7x4xf32>
  %x = tssa.aten "aten::mul.Tensor"(%y, %s) : (tensor<7x4xf32>, tensor<7x4xf32>) -> tensor<7x4xf32>
  %0 = tssa.aten "aten::exp"(%w) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = tssa.aten "aten::sub.Tensor"(%v, %0, 1 : i64) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %2 = tssa.aten "aten::mul.Tensor"(%x, %0) : (tensor<7x4xf32>, tensor<4xf32>) -> tensor<7x4xf32>
  %3 = tssa.aten "aten::mul.Tensor"(%x, %1) : (tensor<7x4xf32>, tensor<4xf32>) -> tensor<7x4xf32>
  return %2, %3 : tensor<7x4xf32>, tensor<7x4xf32>
}

// Operands the other way round, one source twice, another constant, another
// operator and another type are other computations.
// CHECK-NOT: [[SUM]]
// CHECK-NOT: [[EXP]]
// CHECK-LABEL: func.func @device(
func.func @others(%x: tensor<4xf32>, %v: tensor<4xf32> {pyjit.param}, %w: tensor<4xf32> {pyjit.param}, %d: tensor<4xf64> {pyjit.param}) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf64>) {
  %e = tssa.aten "aten::exp2"(%w) : (tensor<4xf32>) -> tensor<4xf32>
  %0 = tssa.aten "aten::sub.Tensor"(%e, %v, 1 : i64) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = tssa.aten "aten::sub.Tensor"(%w, %e, 1 : i64) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %2 = tssa.aten "aten::sub.Tensor"(%v, %e, 2 : i64) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %3 = tssa.aten "aten::exp"(%d) : (tensor<4xf64>) -> tensor<4xf64>
  %4 = tssa.aten "aten::mul.Tensor"(%x, %0) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %5 = tssa.aten "aten::mul.Tensor"(%x, %1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %6 = tssa.aten "aten::mul.Tensor"(%x, %2) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %7 = tssa.aten "aten::mul.Tensor"(%x, %e) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %8 = tssa.aten "aten::mul.Tensor"(%x, %3) : (tensor<4xf32>, tensor<4xf64>) -> tensor<4xf64>
  return %4, %5, %6, %7, %8 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf64>
}

// CHECK: func.func @device_prepare(
// CHECK-NOT: pyjit.digests
func.func @device(%x: tensor<4xf32>, %w: tensor<4xf32> {pyjit.param}) -> tensor<4xf32> attributes {pyjit.device = "cuda:0"} {
  %0 = tssa.aten "aten::exp"(%w) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = tssa.aten "aten::mul.Tensor"(%x, %0) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// A copy of a number has no operand whose elements could be known.
// CHECK-LABEL: func.func @number_copied(
// CHECK: aten::_to_copy
func.func @number_copied(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = tssa.aten "aten::_to_copy"(wrapped(2 : i64), 6 : i64, none, none, none, false, none) : () -> tensor<f32>
  %1 = tssa.aten "aten::mul.Tensor"(%x, %0) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
