// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --library-plan-images | FileCheck %s

!x = tensor<1x8x6x6xf16>

// Batch norm folded in float32, relu in the call; the second convolution reads
// the first one's layout, adds the input's copy, and the caller gets rows.
// CHECK-LABEL: func.func @block(
// CHECK: %[[X:.*]] = tssa.aten "aten::clone"(%arg0, 2 : i64) : (tensor<1x8x6x6xf16>) -> tensor<1x8x6x6xf16, #tssa.strides<[288, 1, 48, 8]>>
// CHECK: tssa.aten "aten::to.dtype"(%arg1, 6 : i64, false, false, none)
// CHECK: tssa.aten "aten::rsqrt"(%{{.*}}) : (tensor<8xf32>) -> tensor<8xf32>
// CHECK: %[[W:.*]] = tssa.aten "aten::clone"(%{{.*}}, 2 : i64) : (tensor<8x8x3x3xf16>) -> tensor<8x8x3x3xf16, #tssa.strides<[72, 1, 24, 8]>>
// CHECK: %[[A:.*]] = tssa.aten "aten::cudnn_convolution_relu"(%[[X]], %[[W]], %{{.*}}, [1 : i64, 1 : i64], [1 : i64, 1 : i64], [1 : i64, 1 : i64], 1 : i64)
// CHECK: %[[V:.*]] = tssa.aten "aten::clone"(%arg6, 2 : i64)
// CHECK: %[[B:.*]] = tssa.aten "aten::cudnn_convolution_add_relu"(%[[A]], %[[V]], %[[X]], 1.000000e+00 : f64, none,
// CHECK: %[[R:.*]] = tssa.aten "aten::clone"(%[[B]], 0 : i64)
// CHECK: return %[[R]] : tensor<1x8x6x6xf16>
func.func @block(%x: !x, %w: tensor<8x8x3x3xf16> {pyjit.param}, %g: tensor<8xf16> {pyjit.param}, %b: tensor<8xf16> {pyjit.param}, %m: tensor<8xf16> {pyjit.param},
                 %s: tensor<8xf16> {pyjit.param}, %v: tensor<8x8x3x3xf16> {pyjit.param}) -> !x {
  %0 = tssa.aten "aten::conv2d"(%x, %w, none, [1 : i64, 1 : i64], [1 : i64, 1 : i64], [1 : i64, 1 : i64], 1 : i64) : (!x, tensor<8x8x3x3xf16>) -> !x
  %1 = tssa.aten "aten::batch_norm"(%0, %g, %b, %m, %s, false, 0.1 : f64, 1.0e-05 : f64, true) : (!x, tensor<8xf16>, tensor<8xf16>, tensor<8xf16>, tensor<8xf16>) -> !x
  %2 = tssa.aten "aten::relu_"(%1) mutates [0] : (!x) -> !x
  %3 = tssa.aten "aten::conv2d"(%2, %v, none, [1 : i64, 1 : i64], [1 : i64, 1 : i64], [1 : i64, 1 : i64], 1 : i64) : (!x, tensor<8x8x3x3xf16>) -> !x
  %4 = tssa.aten "aten::add_.Tensor"(%3, %x, 1 : i64) mutates [0] : (!x, !x) -> !x
  %5 = tssa.aten "aten::relu_"(%4) mutates [0] : (!x) -> !x
  return %5 : !x
}

// Single points: a matmul of rows of channels. A bias without activation is a
// kernel's work, and other activations read what it gives.
// CHECK-LABEL: func.func @points(
// CHECK: %[[X:.*]] = tssa.aten "aten::clone"(%arg0, 2 : i64)
// CHECK: tssa.access %[[X]] [#tssa.view<permute [0, 2, 3, 1]>] : {{.*}} -> tensor<1x6x6x8xf16>
// CHECK: tssa.aten "aten::_addmm_activation"(%arg2, %{{.*}}, %{{.*}}, 1 : i64, 1 : i64, false) : (tensor<4xf16>, tensor<36x8xf16>, tensor<8x4xf16, #tssa.strides<[1, 8]>>) -> tensor<36x4xf16>
// CHECK: tssa.access %{{.*}} [#tssa.view<permute [0, 3, 1, 2]>] : tensor<1x6x6x4xf16> -> tensor<1x4x6x6xf16, #tssa.strides<[144, 1, 24, 4]>>
// CHECK: tssa.aten "aten::conv2d"(%{{.*}}, %{{.*}}, none, [2 : i64, 2 : i64]
// CHECK: tssa.aten "aten::add.Tensor"
// CHECK: tssa.aten "aten::silu"(%{{.*}}) : (tensor<1x4x2x2xf16, #tssa.strides<[16, 1, 8, 4]>>) -> tensor<1x4x2x2xf16, #tssa.strides<[16, 1, 8, 4]>>
func.func @points(%x: !x, %w: tensor<4x8x1x1xf16> {pyjit.param}, %b: tensor<4xf16> {pyjit.param}, %v: tensor<4x4x3x3xf16> {pyjit.param}) -> tensor<1x4x2x2xf16> {
  %0 = tssa.aten "aten::conv2d"(%x, %w, %b, [1 : i64, 1 : i64], [0 : i64, 0 : i64], [1 : i64, 1 : i64], 1 : i64) : (!x, tensor<4x8x1x1xf16>, tensor<4xf16>) -> tensor<1x4x6x6xf16>
  %1 = tssa.aten "aten::relu"(%0) : (tensor<1x4x6x6xf16>) -> tensor<1x4x6x6xf16>
  %2 = tssa.aten "aten::conv2d"(%1, %v, %b, [2 : i64, 2 : i64], [0 : i64, 0 : i64], [1 : i64, 1 : i64], 1 : i64) : (tensor<1x4x6x6xf16>, tensor<4x4x3x3xf16>, tensor<4xf16>) -> tensor<1x4x2x2xf16>
  %3 = tssa.aten "aten::silu"(%2) : (tensor<1x4x2x2xf16>) -> tensor<1x4x2x2xf16>
  return %3 : tensor<1x4x2x2xf16>
}

// float32, a weight that is no parameter, and functions with groups stay.
// CHECK-LABEL: func.func @kept(
// CHECK-NOT: aten::clone
// CHECK: return
func.func @kept(%x: tensor<1x8x6x6xf32>, %w: tensor<4x8x1x1xf32> {pyjit.param}, %y: !x, %v: tensor<4x8x1x1xf16>) -> (tensor<1x4x6x6xf32>, tensor<1x4x6x6xf16>) {
  %0 = tssa.aten "aten::conv2d"(%x, %w, none, [1 : i64, 1 : i64], [0 : i64, 0 : i64], [1 : i64, 1 : i64], 1 : i64) : (tensor<1x8x6x6xf32>, tensor<4x8x1x1xf32>) -> tensor<1x4x6x6xf32>
  %1 = tssa.aten "aten::conv2d"(%y, %v, none, [1 : i64, 1 : i64], [0 : i64, 0 : i64], [1 : i64, 1 : i64], 1 : i64) : (!x, tensor<4x8x1x1xf16>) -> tensor<1x4x6x6xf16>
  return %0, %1 : tensor<1x4x6x6xf32>, tensor<1x4x6x6xf16>
}
// CHECK-LABEL: func.func @groups(
// CHECK-NOT: aten::clone
// CHECK: return
func.func @groups(%x: !x, %w: tensor<8x1x1x1xf16> {pyjit.param}) -> !x {
  %0 = tssa.aten "aten::conv2d"(%x, %w, none, [1 : i64, 1 : i64], [0 : i64, 0 : i64], [1 : i64, 1 : i64], 8 : i64) : (!x, tensor<8x1x1x1xf16>) -> !x
  return %0 : !x
}
