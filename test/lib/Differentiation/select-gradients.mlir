// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --pass-pipeline='builtin.module(func.func(tssa-differentiate,tssa-select-gradients))' --split-input-file --verify-diagnostics | FileCheck %s
// RUN: pyjit-opt %s --pass-pipeline='builtin.module(func.func(tssa-differentiate,tssa-select-gradients,tssa-differentiate),tssa-partition)' --split-input-file --verify-diagnostics | FileCheck %s --check-prefix=SECOND

// The sine itself is gone; its gradient depends on its input and on the gradient
// that comes in, and both are to be differentiated by.
// CHECK-LABEL: func.func @sine(
// CHECK-SAME: %[[X:.*]]: tensor<4xf32>, %[[G:.*]]: tensor<4xf32>) -> tensor<4xf32>
// CHECK-SAME: pyjit.gradient_inputs = array<i64: 0, 1>, pyjit.gradient_results = array<i64: 0>
// CHECK-NEXT: %[[COS:.*]] = tssa.aten "aten::cos"(%[[X]])
// CHECK-NEXT: %[[D:.*]] = tssa.aten "aten::mul.Tensor"(%[[G]], %[[COS]])
// CHECK-NEXT: return %[[D]]

// SECOND-LABEL: func.func @sine(
// SECOND-SAME: pyjit.saved = 1
// SECOND-LABEL: func.func @sine_backward(
// SECOND-SAME: pyjit.gradient_inputs = array<i64: 1, 0>
// SECOND-SAME: pyjit.reaches = [array<i64: 0>, array<i64: 0>], pyjit.reads = [array<i64: 0>, array<i64: 0, 1>]
// SECOND: tssa.aten "aten::sin"
func.func @sine(%x: tensor<4xf32>) -> tensor<4xf32> attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::sin"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// What was drawn is drawn again, needed or not, with the generators as they were.
// CHECK-LABEL: func.func @drawn(
// CHECK: aten::native_dropout
// CHECK: aten::rand_like
// CHECK: return
func.func @drawn(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0>} {
  %0:2 = tssa.aten "aten::native_dropout"(%x, 0.5 : f64, true) : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xi1>)
  %1 = tssa.aten "aten::rand_like"(%x, none, none, none, none, none) : (tensor<4xf32>) -> tensor<4xf32>
  return %0#0, %1 : tensor<4xf32>, tensor<4xf32>
}

// -----

// Which way a branch goes is known. What is as long as data say, and what is written into `out`, is computed again.
// CHECK-LABEL: @repeated
// CHECK-NOT: tssa.speculate
// CHECK: aten::nonzero
// CHECK: aten::add.out
// CHECK-NOT: mine::unknown
// CHECK: return
func.func @repeated(%x: tensor<4xf32>, %m: tensor<2xi1>, %b: tensor<i1>) -> tensor<1x4xf32> attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0>} {
  tssa.speculate %b : tensor<i1>
  %0 = tssa.aten "aten::nonzero"(%m) : (tensor<2xi1>) -> tensor<1x1xi64>
  %1 = tssa.aten "aten::add.out"(%0, wrapped(1 : i64), 1 : i64, %0) mutates [1] : (tensor<1x1xi64>, tensor<1x1xi64>) -> tensor<1x1xi64>
  %2 = tssa.aten "aten::sin"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %3 = tssa.aten "mine::unknown"(%2) : (tensor<4xf32>) -> tensor<4xf32>
  %4 = tssa.aten "aten::mul.Tensor"(%2, %1) : (tensor<4xf32>, tensor<1x1xi64>) -> tensor<1x4xf32>
  return %4 : tensor<1x4xf32>
}

// -----

// Of an overload that is not in the table nobody knows what it does the next time, nor how many numbers it draws.
func.func @unknown(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::sin"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  // expected-error @+1 {{cannot be differentiated twice: to compute it again might give something else}}
  %1 = tssa.aten "mine::unknown"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %2 = tssa.aten "aten::rand_like"(%x, none, none, none, none, none) : (tensor<4xf32>) -> tensor<4xf32>
  return %0, %2 : tensor<4xf32>, tensor<4xf32>
}
