// RUN: pyjit-opt %s --pass-pipeline='builtin.module(func.func(tssa-differentiate),tssa-partition)' --split-input-file | FileCheck %s
// RUN: pyjit-opt %s --pass-pipeline='builtin.module(func.func(tssa-differentiate),tssa-partition{parameters-last=true})' --split-input-file | FileCheck %s --check-prefix=LAST

// Only what goes into the first activation is kept: the activation itself, and
// its derivative, are computed again.
// CHECK-LABEL: func.func @mlp(
// CHECK-SAME: -> (tensor<4x3xf32>, tensor<4x16xf32>)
// CHECK-SAME: pyjit.gradient_results = array<i64: 0>, pyjit.saved = 1 : i64
// CHECK-NEXT: %[[H:.*]] = tssa.aten "aten::linear"
// CHECK-NEXT: %[[A:.*]] = tssa.aten "aten::relu"(%[[H]])
// CHECK-NEXT: %[[Y:.*]] = tssa.aten "aten::linear"(%[[A]]
// CHECK-NEXT: return %[[Y]], %[[A]]
// CHECK-LABEL: func.func @mlp_backward(
// CHECK-SAME: %arg0: tensor<4x8xf32> {pyjit.input = 0 : i64}
// CHECK-SAME: %arg1: tensor<3x16xf32> {pyjit.input = 2 : i64}
// CHECK-SAME: %arg2: tensor<4x16xf32> {pyjit.result = 1 : i64}
// CHECK-SAME: %arg3: tensor<4x3xf32> {pyjit.gradient = 0 : i64}
// CHECK-SAME: pyjit.gradient_inputs = array<i64: 1, 2>
// CHECK-NOT: aten::linear
func.func @mlp(%x: tensor<4x8xf32>, %w1: tensor<16x8xf32>, %w2: tensor<3x16xf32>) -> tensor<4x3xf32> attributes {pyjit.gradient_inputs = array<i64: 1, 2>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::linear"(%x, %w1, none) : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
  %1 = tssa.aten "aten::relu"(%0) : (tensor<4x16xf32>) -> tensor<4x16xf32>
  %2 = tssa.aten "aten::linear"(%1, %w2, none) : (tensor<4x16xf32>, tensor<3x16xf32>) -> tensor<4x3xf32>
  return %2 : tensor<4x3xf32>
}

// -----

// A result that is shown is not saved a second time.
// CHECK-LABEL: func.func @shown(
// CHECK-SAME: pyjit.saved = 0 : i64
// CHECK-LABEL: func.func @shown_backward(
// CHECK-SAME: %arg0: tensor<4xf32> {pyjit.result = 0 : i64}
func.func @shown(%x: tensor<4xf32>) -> tensor<4xf32> attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::exp"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// The backward program reads sizes that differ between calls from its own
// arguments.
// CHECK-LABEL: func.func @sizes_backward(
// CHECK-SAME: pyjit.symbols = [array<i64: 0, 0>]
func.func @sizes(%x: tensor<?x8xf32, #tssa.layout<[s0, 8], [8, 1]>>) -> tensor<?x8xf32, #tssa.layout<[s0, 8], [8, 1]>> attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0>, pyjit.symbols = [array<i64: 0, 0>]} {
  %0 = tssa.aten "aten::neg"(%x) : (tensor<?x8xf32, #tssa.layout<[s0, 8], [8, 1]>>) -> tensor<?x8xf32, #tssa.layout<[s0, 8], [8, 1]>>
  return %0 : tensor<?x8xf32, #tssa.layout<[s0, 8], [8, 1]>>
}

// -----

// The sine of `w` is saved although `w` itself is: who wants the gradient of `x`
// alone may have written `w`, which eager's nodes on that path do not read.
// CHECK-LABEL: func.func @asked(
// CHECK: %[[S:.*]] = tssa.aten "aten::sin"(%arg1)
// CHECK: return %{{.*}}, %[[S]] :
// CHECK-LABEL: func.func @asked_backward(
// CHECK-SAME: %arg0: tensor<4xf32> {pyjit.input = 0 : i64}
// CHECK-SAME: %arg1: tensor<4xf32> {pyjit.input = 1 : i64}
// CHECK-SAME: %arg2: tensor<4xf32> {pyjit.result = 1 : i64}
// CHECK-NOT: aten::sin
// CHECK: aten::cos
func.func @asked(%x: tensor<4xf32>, %w: tensor<4xf32>) -> tensor<4xf32> attributes {pyjit.gradient_inputs = array<i64: 0, 1>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::sin"(%w) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = tssa.aten "aten::mul.Tensor"(%x, %0) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// -----

// A random draw cannot be repeated: its result is saved.
// CHECK-LABEL: func.func @random(
// CHECK: %[[N:.*]] = tssa.aten "aten::rand_like"
// CHECK: return %{{.*}}, %[[N]]
// CHECK-LABEL: func.func @random_backward(
// CHECK-NOT: rand_like
func.func @random(%x: tensor<4xf32>) -> tensor<4xf32> attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::rand_like"(%x, none, none, none, none, none) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = tssa.aten "aten::mul.Tensor"(%x, %0) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// -----

// A parameter that has a gradient is trained, unless it is to last.
// LAST-NOT: pyjit.trained
// LAST-LABEL: func.func @trained(
// LAST-SAME: %arg1: tensor<4xf32> {pyjit.param}, %arg2: tensor<4xf32> {pyjit.param}
// LAST-NOT: pyjit.trained
// CHECK-LABEL: func.func @trained(
// CHECK-SAME: %arg0: tensor<4xf32>, %arg1: tensor<4xf32> {pyjit.param, pyjit.trained}, %arg2: tensor<4xf32> {pyjit.param}
func.func @trained(%x: tensor<4xf32>, %w: tensor<4xf32> {pyjit.param}, %b: tensor<4xf32> {pyjit.param}) -> tensor<4xf32> attributes {pyjit.gradient_inputs = array<i64: 0, 1>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::mul.Tensor"(%x, %w) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = tssa.aten "aten::add.Tensor"(%0, %b, 1 : i64) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// -----

// The gradients of both results are added up, which reads nothing that was saved:
// in eager each has a graph of its own.
// CHECK-LABEL: func.func @apart_backward(
// CHECK-SAME: pyjit.groups = [array<i64: 0>, array<i64: 1>]
func.func @apart(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0, 1>} {
  %0 = tssa.aten "aten::exp"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = tssa.aten "aten::sin"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}

// -----

// Both go on through one exponential.
// CHECK-LABEL: func.func @together_backward(
// CHECK-NOT: pyjit.groups
// CHECK: return
func.func @together(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0, 1>} {
  %0 = tssa.aten "aten::exp"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = tssa.aten "aten::neg"(%0) : (tensor<4xf32>) -> tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}
