// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
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
// The second layer's gradient is there first, as in eager.
// CHECK-SAME: pyjit.gradient_inputs = array<i64: 2, 1>
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

// The sine of `w` is saved although `w` itself is: somebody may write `w` before
// the backward comes, and eager's nodes have the sine of what was there before.
// The cosine is of what is there then.
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

// Where nothing that the gradients need has the size, the input that has it is
// an argument, of which no element is read.
// CHECK-LABEL: func.func @size_alone_backward(
// CHECK-SAME: %arg0: tensor<f32> {pyjit.gradient = 0 : i64}, %arg1: tensor<?xf32, #tssa.layout<[s0], [1]>> {pyjit.input = 0 : i64})
// CHECK-SAME: pyjit.symbols = [array<i64: 1, 0>]
// CHECK-NOT: %arg1
// CHECK: return
func.func @size_alone(%x: tensor<?xf32, #tssa.layout<[s0], [1]>>) -> tensor<f32> attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0>, pyjit.symbols = [array<i64: 0, 0>]} {
  %0 = tssa.aten "aten::sum"(%x, none) : (tensor<?xf32, #tssa.layout<[s0], [1]>>) -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

// So it is where autograd does not see the write, for which nobody raises.
// What is computed of the sine in turn is computed again.
// CHECK-LABEL: func.func @chain(
// CHECK: %[[S:.*]] = tssa.aten "aten::sin"(%arg0)
// CHECK: return %{{.*}}, %[[S]] :
// CHECK-LABEL: func.func @chain_backward(
// CHECK-SAME: %arg0: tensor<4xf32> {pyjit.input = 0 : i64}
// CHECK-SAME: %arg1: tensor<4xf32> {pyjit.result = 1 : i64}
// CHECK-NOT: aten::sin"(%arg0)
// CHECK: %[[C:.*]] = tssa.aten "aten::cos"(%arg1)
// CHECK: aten::cos"(%[[C]])
// CHECK: aten::cos"(%arg0)
func.func @chain(%x: tensor<4xf32>) -> tensor<4xf32> attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::sin"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = tssa.aten "aten::cos"(%0) : (tensor<4xf32>) -> tensor<4xf32>
  %2 = tssa.aten "aten::sin"(%1) : (tensor<4xf32>) -> tensor<4xf32>
  return %2 : tensor<4xf32>
}

// -----

// Nor is a result that a derivative reads computed again of something else: its
// memory is what eager's node has saved.
// CHECK-LABEL: func.func @result(
// CHECK-LABEL: func.func @result_backward(
// CHECK-SAME: {pyjit.result = 0 : i64}
// CHECK-NOT: aten::tanh
// CHECK: return
func.func @result(%x: tensor<3x4xf64>) -> tensor<3x4xf64> attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::softmax.int"(%x, 1 : i64, none) : (tensor<3x4xf64>) -> tensor<3x4xf64>
  %1 = tssa.aten "aten::tanh"(%0) : (tensor<3x4xf64>) -> tensor<3x4xf64>
  return %1 : tensor<3x4xf64>
}

// -----

// So it is where the result is a view of a copy that nobody sees, as a reshape
// makes it, and read through another view.
// CHECK-LABEL: func.func @reshaped(
// CHECK-LABEL: func.func @reshaped_backward(
// CHECK-SAME: %[[H:[a-z0-9]+]]: tensor<12xf32> {pyjit.result = 0 : i64}
// CHECK-NOT: aten::clone
// CHECK: %[[V:.*]] = tssa.access %[[H]] [#tssa.view<view [2, 6]>]
// CHECK: "aten::cos"(%[[V]])
func.func @reshaped(%x: tensor<3x4xf32>) -> (tensor<12xf32>, tensor<2x6xf32>)
    attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0, 1>} {
  %e = tssa.aten "aten::exp"(%x) : (tensor<3x4xf32>) -> tensor<3x4xf32>
  %0 = tssa.access %e [#tssa.view<permute [1, 0]>] : tensor<3x4xf32> -> tensor<4x3xf32, #tssa.strides<[1, 4]>>
  %1 = tssa.aten "aten::clone"(%0, 0 : i64) : (tensor<4x3xf32, #tssa.strides<[1, 4]>>) -> tensor<4x3xf32>
  %2 = tssa.access %1 [#tssa.view<view [12]>] : tensor<4x3xf32> -> tensor<12xf32>
  %3 = tssa.access %2 [#tssa.view<view [2, 6]>] : tensor<12xf32> -> tensor<2x6xf32>
  %4 = tssa.aten "aten::sin"(%3) : (tensor<2x6xf32>) -> tensor<2x6xf32>
  return %2, %4 : tensor<12xf32>, tensor<2x6xf32>
}

// -----

// Statistics that eager's forward operator saves are those of before a write,
// what is normalised is what is there behind it. Of something that nobody else
// sees they are computed again.
// CHECK-LABEL: func.func @statistics(
// CHECK: %[[MEAN:.*]] = tssa.aten "aten::add.Tensor"
// CHECK: %[[ROOT:.*]] = tssa.aten "aten::rsqrt"
// CHECK: return %{{.*}}, %[[MEAN]], %[[ROOT]] :
// CHECK-LABEL: func.func @statistics_backward(
// CHECK-NOT: aten::rsqrt
// CHECK: return
// CHECK-LABEL: func.func @own_statistics(
// CHECK-NOT: aten::rsqrt
// CHECK-LABEL: func.func @own_statistics_backward(
// CHECK: aten::rsqrt
func.func @statistics(%x: tensor<4x8xf32>) -> tensor<4x8xf32> attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::layer_norm"(%x, [8 : i64], none, none, 1.0e-05 : f64, true) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
func.func @own_statistics(%x: tensor<4x8xf32>) -> tensor<4x8xf32> attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::add.Tensor"(%x, wrapped(1 : i64), 1 : i64) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = tssa.aten "aten::layer_norm"(%0, [8 : i64], none, none, 1.0e-05 : f64, true) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
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

// -----

// Memory that nobody has written is not saved: the backward program has its own.
// CHECK-LABEL: func.func @allocated(
// CHECK: return %{{.*}}, %{{.*}} : tensor<4xf32>, tensor<4xf32>
// CHECK-LABEL: func.func @allocated_backward(
// CHECK-SAME: %arg0: tensor<4xf32> {pyjit.result = 1 : i64}, %arg1
// CHECK: tssa.aten "aten::empty.memory_format"(
func.func @allocated(%x: tensor<4xf32>) -> tensor<4xf32> attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::empty.memory_format"([4 : i64], 6 : i64, none, none, none, none) : () -> tensor<4xf32>
  %1 = tssa.aten "aten::fill.Scalar"(%0, 2.0 : f64) : (tensor<4xf32>) -> tensor<4xf32>
  %2 = tssa.aten "aten::exp"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %3 = tssa.aten "aten::mul.Tensor"(%2, %1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %3 : tensor<4xf32>
}
