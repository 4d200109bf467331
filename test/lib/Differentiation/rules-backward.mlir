// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --tssa-differentiate --cse --split-input-file | FileCheck %s

// Overloads that the engine calls, where the caller differentiates what they give.

// Zeros by what decides.
// CHECK-LABEL: func.func @threshold(
// CHECK: tssa.aten "aten::le.Tensor"(
// CHECK: tssa.aten "aten::where.self"(
// CHECK: tssa.aten "aten::zeros_like"(
// CHECK: return %{{.*}}, %{{.*}}, %{{.*}} : tensor<4x3xf32>, tensor<4x3xf32>, tensor<4x3xf32>
func.func @threshold(%g: tensor<4x3xf32>, %x: tensor<4x3xf32>) -> tensor<4x3xf32> attributes {pyjit.gradient_inputs = array<i64: 0, 1>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::threshold_backward"(%g, %x, 0 : i64) : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}

// -----

// Outside of both bounds.
// CHECK-LABEL: func.func @hardtanh(
// CHECK: tssa.aten "aten::ge.Tensor"(
// CHECK: tssa.aten "aten::where.self"(
// CHECK: return %{{.*}}, %{{.*}}, %{{.*}} :
func.func @hardtanh(%g: tensor<4x3xf32>, %x: tensor<4x3xf32>) -> tensor<4x3xf32> attributes {pyjit.gradient_inputs = array<i64: 0, 1>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::hardtanh_backward"(%g, %x, -1.0 : f64, 1.0 : f64) : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}

// -----

// The slope on the left.
// CHECK-LABEL: func.func @leaky(
// CHECK: tssa.aten "aten::gt.Tensor"(
// CHECK: tssa.aten "aten::mul.Tensor"(
// CHECK: tssa.aten "aten::where.self"(
func.func @leaky(%g: tensor<4x3xf32>, %x: tensor<4x3xf32>) -> tensor<4x3xf32> attributes {pyjit.gradient_inputs = array<i64: 0, 1>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::leaky_relu_backward"(%g, %x, 0.1 : f64, false) : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}

// -----

// Near zero.
// CHECK-LABEL: func.func @softshrink(
// CHECK: tssa.aten "aten::abs"(
// CHECK: tssa.aten "aten::where.self"(
func.func @softshrink(%g: tensor<4x3xf32>, %x: tensor<4x3xf32>) -> tensor<4x3xf32> attributes {pyjit.gradient_inputs = array<i64: 0, 1>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::softshrink_backward"(%g, %x, 0.5 : f64) : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}

// -----

// Likewise.
// CHECK-LABEL: func.func @hardshrink(
// CHECK: tssa.aten "aten::abs"(
// CHECK: tssa.aten "aten::where.self"(
func.func @hardshrink(%g: tensor<4x3xf32>, %x: tensor<4x3xf32>) -> tensor<4x3xf32> attributes {pyjit.gradient_inputs = array<i64: 0, 1>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::hardshrink_backward"(%g, %x, 0.5 : f64) : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}

// -----

// (1 - s) s, whose derivative is 1 - 2 s.
// CHECK-LABEL: func.func @sigmoid(
// CHECK: tssa.aten "aten::mul.Tensor"(
// CHECK: tssa.aten "aten::sub.Tensor"(
func.func @sigmoid(%g: tensor<4x3xf32>, %x: tensor<4x3xf32>) -> tensor<4x3xf32> attributes {pyjit.gradient_inputs = array<i64: 0, 1>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::sigmoid_backward"(%g, %x) : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}

// -----

// 1 - t^2, whose derivative is -2 t.
// CHECK-LABEL: func.func @tanh(
// CHECK-DAG: tssa.aten "aten::sub.Tensor"(
// CHECK-DAG: tssa.aten "aten::mul.Tensor"(
func.func @tanh(%g: tensor<4x3xf32>, %x: tensor<4x3xf32>) -> tensor<4x3xf32> attributes {pyjit.gradient_inputs = array<i64: 0, 1>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::tanh_backward"(%g, %x) : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}

// -----

// Between -3 and 3 the slope grows.
// CHECK-LABEL: func.func @hardswish(
// CHECK-DAG: tssa.aten "aten::logical_and"(
// CHECK-DAG: tssa.aten "aten::le.Tensor"(
func.func @hardswish(%g: tensor<4x3xf32>, %x: tensor<4x3xf32>) -> tensor<4x3xf32> attributes {pyjit.gradient_inputs = array<i64: 0, 1>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::hardswish_backward"(%g, %x) : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}

// -----

// A sigmoid, which is finite everywhere.
// CHECK-LABEL: func.func @softplus(
// CHECK: tssa.aten "aten::sigmoid"(
// CHECK-NOT: "aten::exp"
// CHECK: return
func.func @softplus(%g: tensor<4x3xf32>, %x: tensor<4x3xf32>) -> tensor<4x3xf32> attributes {pyjit.gradient_inputs = array<i64: 0, 1>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::softplus_backward"(%g, %x, 1 : i64, 20 : i64) : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}

// -----

// Of the negative part alone: an exponential of anything else need not be finite.
// CHECK-LABEL: func.func @elu(
// CHECK: %[[NEGATIVE:.*]] = tssa.aten "aten::where.self"(
// CHECK: tssa.aten "aten::mul.Tensor"(%[[NEGATIVE]],
// CHECK: tssa.aten "aten::exp"(
// CHECK: tssa.aten "aten::where.self"(
func.func @elu(%g: tensor<4x3xf32>, %x: tensor<4x3xf32>) -> tensor<4x3xf32> attributes {pyjit.gradient_inputs = array<i64: 0, 1>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::elu_backward"(%g, 1.0 : f64, 1 : i64, 1 : i64, false, %x) : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}

// -----

// The exponential is there.
// CHECK-LABEL: func.func @elu_of_result(
// CHECK-NOT: "aten::exp"
// CHECK: return
func.func @elu_of_result(%g: tensor<4x3xf32>, %x: tensor<4x3xf32>) -> tensor<4x3xf32> attributes {pyjit.gradient_inputs = array<i64: 0, 1>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::elu_backward"(%g, 1.0 : f64, 1 : i64, 1 : i64, true, %x) : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}

// -----

// The density times 2 - x^2.
// CHECK-LABEL: func.func @gelu(
// CHECK-DAG: tssa.aten "aten::erf"(
// CHECK-DAG: tssa.aten "aten::exp"(
// CHECK-DAG: tssa.aten "aten::sub.Tensor"(
func.func @gelu(%g: tensor<4x3xf32>, %x: tensor<4x3xf32>) -> tensor<4x3xf32> attributes {pyjit.gradient_inputs = array<i64: 0, 1>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::gelu_backward"(%g, %x, "none") : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}

// -----

// Three terms.
// CHECK-LABEL: func.func @gelu_of_tanh(
// CHECK: tssa.aten "aten::tanh"(
// CHECK: tssa.aten "aten::mul.Tensor"(
func.func @gelu_of_tanh(%g: tensor<4x3xf32>, %x: tensor<4x3xf32>) -> tensor<4x3xf32> attributes {pyjit.gradient_inputs = array<i64: 0, 1>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::gelu_backward"(%g, %x, "tanh") : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}

// -----

// Sums of both products.
// CHECK-LABEL: func.func @softmax(
// CHECK: tssa.aten "aten::sum.dim_IntList"(
// CHECK: tssa.aten "aten::sum.dim_IntList"(
func.func @softmax(%g: tensor<4x3xf32>, %x: tensor<4x3xf32>) -> tensor<4x3xf32> attributes {pyjit.gradient_inputs = array<i64: 0, 1>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::_softmax_backward_data"(%g, %x, 1 : i64, 6 : i64) : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}

// -----

// By the probabilities, and by the sum of what came in.
// CHECK-LABEL: func.func @log_softmax(
// CHECK-DAG: tssa.aten "aten::exp"(
// CHECK-DAG: tssa.aten "aten::sum.dim_IntList"(
// CHECK-DAG: tssa.aten "aten::neg"(
func.func @log_softmax(%g: tensor<4x3xf32>, %x: tensor<4x3xf32>) -> tensor<4x3xf32> attributes {pyjit.gradient_inputs = array<i64: 0, 1>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::_log_softmax_backward_data"(%g, %x, 1 : i64, 6 : i64) : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}

// -----

// The buffer is a function of the second operand.
// CHECK-LABEL: func.func @log_sigmoid(
// CHECK: tssa.aten "aten::sigmoid"(
func.func @log_sigmoid(%g: tensor<4x3xf32>, %x: tensor<4x3xf32>, %b: tensor<4x3xf32>) -> tensor<4x3xf32> attributes {pyjit.gradient_inputs = array<i64: 0, 1>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::log_sigmoid_backward"(%g, %x, %b) : (tensor<4x3xf32>, tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}

// -----

// The mask is a constant.
// CHECK-LABEL: func.func @dropout(
// CHECK: tssa.aten "aten::mul.Tensor"(
func.func @dropout(%g: tensor<4x3xf32>, %m: tensor<4x3xi1>) -> tensor<4x3xf32> attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::native_dropout_backward"(%g, %m, 2.0 : f64) : (tensor<4x3xf32>, tensor<4x3xi1>) -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}

// -----

// What was put there is read.
// CHECK-LABEL: func.func @slice(
// CHECK: tssa.aten "aten::slice_copy.Tensor"(
func.func @slice(%g: tensor<2x3xf32>) -> tensor<4x3xf32> attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::slice_backward"(%g, [4 : i64, 3 : i64], 0 : i64, 1 : i64, 3 : i64, 1 : i64) : (tensor<2x3xf32>) -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}

// -----

// What was put there is read.
// CHECK-LABEL: func.func @select(
// CHECK: tssa.aten "aten::select_copy.int"(
func.func @select(%g: tensor<3xf32>) -> tensor<4x3xf32> attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::select_backward"(%g, [4 : i64, 3 : i64], 0 : i64, 1 : i64) : (tensor<3xf32>) -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}

// -----

// What was put there is read.
// CHECK-LABEL: func.func @diagonal(
// CHECK: tssa.aten "aten::diagonal_copy"(
func.func @diagonal(%g: tensor<3xf32>) -> tensor<4x3xf32> attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::diagonal_backward"(%g, [4 : i64, 3 : i64], 0 : i64, 0 : i64, 1 : i64) : (tensor<3xf32>) -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}

// -----

// What was put there is read.
// CHECK-LABEL: func.func @unfold(
// CHECK: tssa.aten "aten::unfold_copy"(
func.func @unfold(%g: tensor<3x2xf32>) -> tensor<6xf32> attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::unfold_backward"(%g, [6 : i64], 0 : i64, 2 : i64, 2 : i64) : (tensor<3x2xf32>) -> tensor<6xf32>
  return %0 : tensor<6xf32>
}

// -----

// Where the mask is.
// CHECK-LABEL: func.func @masked(
// CHECK: tssa.aten "aten::zeros"(
// CHECK: tssa.aten "aten::masked_scatter"(
func.func @masked(%g: tensor<4x3xf32>, %m: tensor<4x3xi1>) -> tensor<4x3xf32> attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::masked_scatter_backward"(%g, %m, [4 : i64, 3 : i64]) : (tensor<4x3xf32>, tensor<4x3xi1>) -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}

// -----

// The mean divides; targets have the opposite gradient.
// CHECK-LABEL: func.func @square(
// CHECK: tssa.aten "aten::sub.Tensor"(
// CHECK: tssa.aten "aten::div.Tensor"(
// CHECK: tssa.aten "aten::sum.dim_IntList"(
// CHECK: tssa.aten "aten::neg"(
// CHECK: return %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} : tensor<4x3xf32>, tensor<f32>, tensor<4x3xf32>, tensor<4x3xf32>
func.func @square(%g: tensor<f32>, %x: tensor<4x3xf32>, %y: tensor<4x3xf32>) -> tensor<4x3xf32> attributes {pyjit.gradient_inputs = array<i64: 0, 1, 2>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::mse_loss_backward"(%g, %x, %y, 1 : i64) : (tensor<f32>, tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}

// -----

// Bent between the lines alone.
// CHECK-LABEL: func.func @smooth(
// CHECK: tssa.aten "aten::lt.Tensor"(
// CHECK: tssa.aten "aten::div.Tensor"(
// CHECK: tssa.aten "aten::where.self"(
func.func @smooth(%g: tensor<f32>, %x: tensor<4x3xf32>, %y: tensor<4x3xf32>) -> tensor<4x3xf32> attributes {pyjit.gradient_inputs = array<i64: 0, 1, 2>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::smooth_l1_loss_backward"(%g, %x, %y, 2 : i64, 0.5 : f64) : (tensor<f32>, tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}

// -----

// Likewise.
// CHECK-LABEL: func.func @huber(
// CHECK: tssa.aten "aten::lt.Tensor"(
// CHECK: tssa.aten "aten::where.self"(
func.func @huber(%g: tensor<f32>, %x: tensor<4x3xf32>, %y: tensor<4x3xf32>) -> tensor<4x3xf32> attributes {pyjit.gradient_inputs = array<i64: 0, 1, 2>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::huber_loss_backward"(%g, %x, %y, 2 : i64, 0.5 : f64) : (tensor<f32>, tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}

// -----

// y^2 z / (1 + z)^2
// CHECK-LABEL: func.func @margin(
// CHECK: tssa.aten "aten::exp"(
// CHECK: tssa.aten "aten::div.Tensor"(
// CHECK: tssa.aten "aten::div.Tensor"(
// CHECK: tssa.aten "aten::div.Tensor"(
func.func @margin(%g: tensor<f32>, %x: tensor<4x3xf32>, %y: tensor<4x3xf32>) -> tensor<4x3xf32> attributes {pyjit.gradient_inputs = array<i64: 0, 1>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::soft_margin_loss_backward"(%g, %x, %y, 1 : i64) : (tensor<f32>, tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}

// -----

// All three; eager bounds the divisor.
// CHECK-LABEL: func.func @entropy(
// CHECK: tssa.aten "aten::clamp_min"(
// CHECK: tssa.aten "aten::div.Tensor"(
// CHECK: tssa.aten "aten::neg"(
func.func @entropy(%g: tensor<f32>, %x: tensor<4x3xf32>, %y: tensor<4x3xf32>) -> tensor<4x3xf32> attributes {pyjit.gradient_inputs = array<i64: 0, 1, 2>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::binary_cross_entropy_backward"(%g, %x, %y, none, 1 : i64) : (tensor<f32>, tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}

// -----

// Halves of what came in, and both of them again.
// CHECK-LABEL: func.func @gated(
// CHECK: tssa.aten "aten::sigmoid"(
// CHECK: tssa.aten "aten::cat"(
// CHECK: return %{{.*}}, %{{.*}}, %{{.*}} : tensor<4x6xf32>, tensor<4x3xf32>, tensor<4x6xf32>
func.func @gated(%g: tensor<4x3xf32>, %x: tensor<4x6xf32>) -> tensor<4x6xf32> attributes {pyjit.gradient_inputs = array<i64: 0, 1>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::glu_backward"(%g, %x, 1 : i64) : (tensor<4x3xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}

// -----

// At zero eager takes the right side.
// CHECK-LABEL: func.func @parametric(
// CHECK: tssa.aten "aten::ge.Tensor"(
// CHECK-COUNT-3: tssa.aten "aten::where.self"(
func.func @parametric(%g: tensor<4x3xf32>, %x: tensor<4x3xf32>, %w: tensor<4x3xf32>) -> (tensor<4x3xf32>, tensor<4x3xf32>) attributes {pyjit.gradient_inputs = array<i64: 0, 1, 2>, pyjit.gradient_results = array<i64: 0, 1>} {
  %0:2 = tssa.aten "aten::_prelu_kernel_backward"(%g, %x, %w) : (tensor<4x3xf32>, tensor<4x3xf32>, tensor<4x3xf32>) -> (tensor<4x3xf32>, tensor<4x3xf32>)
  return %0#0, %0#1 : tensor<4x3xf32>, tensor<4x3xf32>
}

// -----

// One result alone: by the weight there are zeros.
// CHECK-LABEL: func.func @parametric_weight(
// CHECK-COUNT-2: tssa.aten "aten::where.self"(
// CHECK-NOT: tssa.aten "aten::where.self"(
func.func @parametric_weight(%g: tensor<4x3xf32>, %x: tensor<4x3xf32>, %w: tensor<4x3xf32>) -> tensor<4x3xf32> attributes {pyjit.gradient_inputs = array<i64: 0, 1, 2>, pyjit.gradient_results = array<i64: 0>} {
  %0:2 = tssa.aten "aten::_prelu_kernel_backward"(%g, %x, %w) : (tensor<4x3xf32>, tensor<4x3xf32>, tensor<4x3xf32>) -> (tensor<4x3xf32>, tensor<4x3xf32>)
  return %0#1 : tensor<4x3xf32>
}

// -----

// Through the statistics, by what eager has saved of them.
// CHECK-LABEL: func.func @layer_norm(
// CHECK: tssa.aten "aten::mean.dim"(
// CHECK: return %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} : tensor<4x3xf32>, tensor<4x3xf32>, tensor<4x3xf32>, tensor<3xf32>
func.func @layer_norm(%g: tensor<4x3xf32>, %x: tensor<4x3xf32>, %m: tensor<4x1xf32>, %r: tensor<4x1xf32>, %w: tensor<3xf32>) -> tensor<4x3xf32> attributes {pyjit.gradient_inputs = array<i64: 0, 1, 4>, pyjit.gradient_results = array<i64: 0>} {
  %0:3 = tssa.aten "aten::native_layer_norm_backward"(%g, %x, [3 : i64], %m, %r, %w, none, [true, true, false]) : (tensor<4x3xf32>, tensor<4x3xf32>, tensor<4x1xf32>, tensor<4x1xf32>, tensor<3xf32>) -> (tensor<4x3xf32>, tensor<3xf32>, tensor<0xf32>)
  return %0#0 : tensor<4x3xf32>
}

// -----

// A result that the mask leaves out has its place: this is the weight's gradient.
// CHECK-LABEL: func.func @layer_norm_weight(
// CHECK-NOT: tssa.aten "aten::mean.dim"(
// CHECK: return
func.func @layer_norm_weight(%g: tensor<4x3xf32>, %x: tensor<4x3xf32>, %m: tensor<4x1xf32>, %r: tensor<4x1xf32>, %w: tensor<3xf32>) -> tensor<3xf32> attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0>} {
  %0:3 = tssa.aten "aten::native_layer_norm_backward"(%g, %x, [3 : i64], %m, %r, %w, none, [false, true, false]) : (tensor<4x3xf32>, tensor<4x3xf32>, tensor<4x1xf32>, tensor<4x1xf32>, tensor<3xf32>) -> (tensor<0xf32>, tensor<3xf32>, tensor<0xf32>)
  return %0#1 : tensor<3xf32>
}

// -----

// What the gradient of a maximum is read at.
// CHECK-LABEL: func.func @fractional(
// CHECK: tssa.aten "aten::gather"(
func.func @fractional(%g: tensor<1x2x2x2xf32>, %x: tensor<1x2x4x4xf32>, %i: tensor<1x2x2x2xi64>) -> tensor<1x2x4x4xf32> attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::fractional_max_pool2d_backward"(%g, %x, [2 : i64, 2 : i64], [2 : i64, 2 : i64], %i) : (tensor<1x2x2x2xf32>, tensor<1x2x4x4xf32>, tensor<1x2x2x2xi64>) -> tensor<1x2x4x4xf32>
  return %0 : tensor<1x2x4x4xf32>
}

// -----

// In evaluation; the statistics are constants.
// CHECK-LABEL: func.func @native_batch_norm(
// CHECK: tssa.aten "aten::rsqrt"(
// CHECK: return
func.func @native_batch_norm(%x: tensor<4x3xf32>, %w: tensor<3xf32>, %m: tensor<3xf32>, %v: tensor<3xf32>) -> tensor<4x3xf32> attributes {pyjit.gradient_inputs = array<i64: 0, 1>, pyjit.gradient_results = array<i64: 0>} {
  %0:3 = tssa.aten "aten::native_batch_norm"(%x, %w, none, %m, %v, false, 0.1 : f64, 1.0e-05 : f64) : (tensor<4x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<4x3xf32>, tensor<0xf32>, tensor<0xf32>)
  return %0#0 : tensor<4x3xf32>
}

// -----

// The bias' gradient is a sum for each channel.
// CHECK-LABEL: func.func @bias(
// CHECK: tssa.access %{{.*}} [#tssa.view<expand [1, 2, 3, 3]>] : tensor<2x1x1xf32>
func.func @bias(%g: tensor<1x2x3x3xf32>, %x: tensor<1x1x4x4xf32>, %w: tensor<2x1x2x2xf32>) -> tensor<2xf32> attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0>} {
  %0:3 = tssa.aten "aten::convolution_backward"(%g, %x, %w, [2 : i64], [1 : i64, 1 : i64], [0 : i64, 0 : i64], [1 : i64, 1 : i64], false, [0 : i64, 0 : i64], 1 : i64, [false, false, true]) : (tensor<1x2x3x3xf32>, tensor<1x1x4x4xf32>, tensor<2x1x2x2xf32>) -> (tensor<0xf32>, tensor<0xf32>, tensor<2xf32>)
  return %0#2 : tensor<2xf32>
}

// -----

// Eager's own second derivatives go through the statistics.
// CHECK-LABEL: func.func @statistics(
// CHECK: tssa.aten "aten::rsqrt"(
// CHECK: tssa.aten "aten::neg"(
// CHECK: tssa.aten "aten::div.Tensor"(
func.func @statistics(%x: tensor<1x4x3xf32>) -> tensor<1x2xf32> attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0>} {
  %0:3 = tssa.aten "aten::native_group_norm"(%x, none, none, 1 : i64, 4 : i64, 3 : i64, 2 : i64, 1.0e-05 : f64) : (tensor<1x4x3xf32>) -> (tensor<1x4x3xf32>, tensor<1x2xf32>, tensor<1x2xf32>)
  return %0#2 : tensor<1x2xf32>
}
