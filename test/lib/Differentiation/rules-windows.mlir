// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --tssa-differentiate --cse --split-input-file | FileCheck %s

// A single image is a batch of one.
// CHECK-LABEL: func.func @single(
// CHECK-DAG: tssa.access %arg0 [#tssa.view<unsqueeze [0]>]
// CHECK-DAG: tssa.access %arg2 [#tssa.view<unsqueeze [0]>]
// CHECK: tssa.aten "aten::convolution_backward"(
func.func @single(%x: tensor<3x8x8xf32>, %w: tensor<4x3x3x3xf32>) -> tensor<4x6x6xf32> attributes {pyjit.gradient_inputs = array<i64: 0, 1>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::conv2d"(%x, %w, none, [1 : i64, 1 : i64], [0 : i64, 0 : i64], [1 : i64, 1 : i64], 1 : i64) : (tensor<3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<4x6x6xf32>
  return %0 : tensor<4x6x6xf32>
}

// -----

// Whichever way a convolution goes.
// CHECK-LABEL: func.func @transposed(
// CHECK: tssa.aten "aten::convolution_backward"(%arg3, %arg0, %arg1, none, [1 : i64, 1 : i64], [0 : i64, 0 : i64], [1 : i64, 1 : i64], true, [0 : i64, 0 : i64], 1 : i64, [true, true, false])
// CHECK: tssa.aten "aten::sum.dim_IntList"(
func.func @transposed(%x: tensor<2x4x6x6xf32>, %w: tensor<4x3x3x3xf32>, %b: tensor<3xf32>) -> tensor<2x3x8x8xf32> attributes {pyjit.gradient_inputs = array<i64: 0, 1, 2>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::convolution"(%x, %w, %b, [1 : i64, 1 : i64], [0 : i64, 0 : i64], [1 : i64, 1 : i64], true, [0 : i64, 0 : i64], 1 : i64) : (tensor<2x4x6x6xf32>, tensor<4x3x3x3xf32>, tensor<3xf32>) -> tensor<2x3x8x8xf32>
  return %0 : tensor<2x3x8x8xf32>
}

// -----

// The first result alone has a gradient.
// CHECK-LABEL: func.func @indices(
// CHECK: tssa.aten "aten::max_pool2d_with_indices_backward"(%arg1, %arg0
func.func @indices(%x: tensor<2x3x8x8xf32>) -> tensor<2x3x4x4xf32> attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0>} {
  %0:2 = tssa.aten "aten::max_pool2d_with_indices"(%x, [2 : i64, 2 : i64], [2 : i64, 2 : i64], [0 : i64, 0 : i64], [1 : i64, 1 : i64], false) : (tensor<2x3x8x8xf32>) -> (tensor<2x3x4x4xf32>, tensor<2x3x4x4xi64>)
  return %0#0 : tensor<2x3x4x4xf32>
}

// -----

// The average of whole images is a mean, whose gradient reads no image.
// CHECK-LABEL: func.func @whole_images(
// CHECK-NOT: _adaptive_avg_pool2d_backward
// CHECK: tssa.aten "aten::div.Tensor"(%{{.*}}, wrapped(6.4
func.func @whole_images(%x: tensor<2x3x8x8xf32>) -> tensor<2x3x1x1xf32> attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::adaptive_avg_pool2d"(%x, [1 : i64, 1 : i64]) : (tensor<2x3x8x8xf32>) -> tensor<2x3x1x1xf32>
  return %0 : tensor<2x3x1x1xf32>
}

// -----

// CHECK-LABEL: func.func @parts_of_images(
// CHECK: tssa.aten "aten::_adaptive_avg_pool2d_backward"(%arg1, %arg0)
func.func @parts_of_images(%x: tensor<2x3x8x8xf32>) -> tensor<2x3x2x1xf32> attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::adaptive_avg_pool2d"(%x, [2 : i64, 1 : i64]) : (tensor<2x3x8x8xf32>) -> tensor<2x3x2x1xf32>
  return %0 : tensor<2x3x2x1xf32>
}

// -----

// Sizes of the operand are an argument of the backward overload.
// CHECK-LABEL: func.func @resized(
// CHECK: tssa.aten "aten::upsample_bilinear2d_backward"(%arg1, [16 : i64, 16 : i64], [2 : i64, 3 : i64, 8 : i64, 8 : i64], false, none, none)
func.func @resized(%x: tensor<2x3x8x8xf32>) -> tensor<2x3x16x16xf32> attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::upsample_bilinear2d"(%x, [16 : i64, 16 : i64], false, none, none) : (tensor<2x3x8x8xf32>) -> tensor<2x3x16x16xf32>
  return %0 : tensor<2x3x16x16xf32>
}

// -----

// Pieces add up to an image.
// CHECK-LABEL: func.func @pieces(
// CHECK: tssa.aten "aten::col2im"(%arg1, [8 : i64, 8 : i64], [2 : i64, 2 : i64]
func.func @pieces(%x: tensor<2x3x8x8xf32>) -> tensor<2x12x49xf32> attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::im2col"(%x, [2 : i64, 2 : i64], [1 : i64, 1 : i64], [0 : i64, 0 : i64], [1 : i64, 1 : i64]) : (tensor<2x3x8x8xf32>) -> tensor<2x12x49xf32>
  return %0 : tensor<2x12x49xf32>
}

// -----

// Of images, and of where they are sampled.
// CHECK-LABEL: func.func @sampled(
// CHECK: tssa.aten "aten::grid_sampler_2d_backward"(%arg2, %arg0, %arg1, 0 : i64, 0 : i64, false, [true, true])
func.func @sampled(%x: tensor<2x3x8x8xf32>, %g: tensor<2x4x4x2xf32>) -> tensor<2x3x4x4xf32> attributes {pyjit.gradient_inputs = array<i64: 0, 1>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::grid_sampler_2d"(%x, %g, 0 : i64, 0 : i64, false) : (tensor<2x3x8x8xf32>, tensor<2x4x4x2xf32>) -> tensor<2x3x4x4xf32>
  return %0 : tensor<2x3x4x4xf32>
}

// -----

// An overload of its own.
// CHECK-LABEL: func.func @padded(
// CHECK: tssa.aten "aten::reflection_pad2d_backward"(%arg1, %arg0
func.func @padded(%x: tensor<2x3x8x8xf32>) -> tensor<2x3x10x10xf32> attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::reflection_pad2d"(%x, [1 : i64, 1 : i64, 1 : i64, 1 : i64]) : (tensor<2x3x8x8xf32>) -> tensor<2x3x10x10xf32>
  return %0 : tensor<2x3x10x10xf32>
}
