// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --library-plan-convolutions | FileCheck %s
// RUN: pyjit-opt %s --library-plan-convolutions=columns=16 | FileCheck %s --check-prefix=OWN

// An activation becomes the call's epilogue; the recorded layout is restored for
// who was recorded with it.
// CHECK-LABEL: func.func @conv_relu
// CHECK: %[[W:.*]] = tssa.aten "mkldnn::_reorder_convolution_weight"(%arg1
// CHECK: %[[C:.*]] = tssa.aten "mkldnn::_convolution_pointwise"(%arg0, %[[W]], none, {{.*}}, "relu", [], "") : {{.*}} -> tensor<1x4x6x6xf32, #tssa.strides<[144, 1, 24, 4]>>
// CHECK: %[[R:.*]] = tssa.aten "aten::clone"(%[[C]], 0 : i64)
// CHECK: return %[[R]]
func.func @conv_relu(%x: tensor<1x3x8x8xf32>, %w: tensor<4x3x3x3xf32> {pyjit.param}) -> tensor<1x4x6x6xf32> {
  %0 = tssa.aten "aten::conv2d"(%x, %w, none, [1 : i64, 1 : i64], [0 : i64, 0 : i64], [1 : i64, 1 : i64], 1 : i64) : (tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x6x6xf32>
  %1 = tssa.aten "aten::relu"(%0) : (tensor<1x4x6x6xf32>) -> tensor<1x4x6x6xf32>
  return %1 : tensor<1x4x6x6xf32>
}

// A batch norm in inference mode is folded: no call of it is left.
// CHECK-LABEL: func.func @conv_bn
// CHECK: tssa.aten "aten::rsqrt"
// CHECK-NOT: aten::batch_norm
// CHECK: "mkldnn::_convolution_pointwise"({{.*}}, "none", [], "")
func.func @conv_bn(%x: tensor<1x3x8x8xf32>, %w: tensor<4x3x1x1xf32> {pyjit.param},
                   %m: tensor<4xf32> {pyjit.param}, %v: tensor<4xf32> {pyjit.param}) -> tensor<1x4x8x8xf32> {
  %0 = tssa.aten "aten::conv2d"(%x, %w, none, [1 : i64, 1 : i64], [0 : i64, 0 : i64], [1 : i64, 1 : i64], 1 : i64) : (tensor<1x3x8x8xf32>, tensor<4x3x1x1xf32>) -> tensor<1x4x8x8xf32>
  %1 = tssa.aten "aten::batch_norm"(%0, none, none, %m, %v, false, 0.1 : f64, 1.0e-05 : f64, true) : (tensor<1x4x8x8xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<1x4x8x8xf32>
  return %1 : tensor<1x4x8x8xf32>
}

// In training mode it is not.
// CHECK-LABEL: func.func @conv_bn_training
// CHECK: aten::batch_norm
func.func @conv_bn_training(%x: tensor<1x3x8x8xf32>, %w: tensor<4x3x1x1xf32> {pyjit.param},
                            %m: tensor<4xf32> {pyjit.param}, %v: tensor<4xf32> {pyjit.param}) -> tensor<1x4x8x8xf32> {
  %0 = tssa.aten "aten::conv2d"(%x, %w, none, [1 : i64, 1 : i64], [0 : i64, 0 : i64], [1 : i64, 1 : i64], 1 : i64) : (tensor<1x3x8x8xf32>, tensor<4x3x1x1xf32>) -> tensor<1x4x8x8xf32>
  %1 = tssa.aten "aten::batch_norm"(%0, none, none, %m, %v, true, 0.1 : f64, 1.0e-05 : f64, true) : (tensor<1x4x8x8xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<1x4x8x8xf32>
  return %1 : tensor<1x4x8x8xf32>
}

// A weight that is not a parameter would be packed at each call.
// CHECK-LABEL: func.func @no_parameter
// CHECK: aten::conv2d
func.func @no_parameter(%x: tensor<1x3x8x8xf32>, %w: tensor<4x3x1x1xf32>) -> tensor<1x4x8x8xf32> {
  %0 = tssa.aten "aten::conv2d"(%x, %w, none, [1 : i64, 1 : i64], [0 : i64, 0 : i64], [1 : i64, 1 : i64], 1 : i64) : (tensor<1x3x8x8xf32>, tensor<4x3x1x1xf32>) -> tensor<1x4x8x8xf32>
  return %0 : tensor<1x4x8x8xf32>
}

// An addition of another tensor, then relu.
// CHECK-LABEL: func.func @residual
// CHECK: "mkldnn::_convolution_pointwise.binary"(%arg0, %arg2, {{.*}}, "add", none, "relu", [], none)
func.func @residual(%x: tensor<1x3x8x8xf32>, %w: tensor<4x3x1x1xf32> {pyjit.param}, %y: tensor<1x4x8x8xf32>) -> tensor<1x4x8x8xf32> {
  %0 = tssa.aten "aten::conv2d"(%x, %w, none, [1 : i64, 1 : i64], [0 : i64, 0 : i64], [1 : i64, 1 : i64], 1 : i64) : (tensor<1x3x8x8xf32>, tensor<4x3x1x1xf32>) -> tensor<1x4x8x8xf32>
  %1 = tssa.aten "aten::add.Tensor"(%0, %y, 1 : i64) : (tensor<1x4x8x8xf32>, tensor<1x4x8x8xf32>) -> tensor<1x4x8x8xf32>
  %2 = tssa.aten "aten::relu"(%1) : (tensor<1x4x8x8xf32>) -> tensor<1x4x8x8xf32>
  return %2 : tensor<1x4x8x8xf32>
}

// oneDNN refuses the operand of an addition of one channel, or of single points.
// CHECK-LABEL: func.func @residual_of_one
// CHECK: "mkldnn::_convolution_pointwise"
// CHECK: "aten::add.Tensor"
// CHECK: "mkldnn::_convolution_pointwise"
// CHECK: "aten::add.Tensor"
func.func @residual_of_one(%x: tensor<1x3x8x8xf32>, %w: tensor<1x3x1x1xf32> {pyjit.param}, %y: tensor<1x1x8x8xf32>,
                           %p: tensor<1x3x1x1xf32>, %v: tensor<4x3x1x1xf32> {pyjit.param}, %q: tensor<1x4x1x1xf32>)
    -> (tensor<1x1x8x8xf32>, tensor<1x4x1x1xf32>) {
  %0 = tssa.aten "aten::conv2d"(%x, %w, none, [1 : i64, 1 : i64], [0 : i64, 0 : i64], [1 : i64, 1 : i64], 1 : i64) : (tensor<1x3x8x8xf32>, tensor<1x3x1x1xf32>) -> tensor<1x1x8x8xf32>
  %1 = tssa.aten "aten::add.Tensor"(%0, %y, 1 : i64) : (tensor<1x1x8x8xf32>, tensor<1x1x8x8xf32>) -> tensor<1x1x8x8xf32>
  %2 = tssa.aten "aten::conv2d"(%p, %v, none, [1 : i64, 1 : i64], [0 : i64, 0 : i64], [1 : i64, 1 : i64], 1 : i64) : (tensor<1x3x1x1xf32>, tensor<4x3x1x1xf32>) -> tensor<1x4x1x1xf32>
  %3 = tssa.aten "aten::add.Tensor"(%2, %q, 1 : i64) : (tensor<1x4x1x1xf32>, tensor<1x4x1x1xf32>) -> tensor<1x4x1x1xf32>
  return %1, %3 : tensor<1x1x8x8xf32>, tensor<1x4x1x1xf32>
}

// With panels, single points are a matmul of our own, read channels-last; what
// follows is left to fusion. Too few points, columns that are no vectors, strides
// stay with the library.
// OWN-LABEL: func.func @points
// OWN: %[[P:.*]] = tssa.aten "aten::clone"({{.*}}, 0 : i64) {{.*}} -> tensor<1x8x16xf32>
// OWN: %[[X:.*]] = tssa.aten "aten::clone"(%arg0, 2 : i64) {{.*}} -> tensor<1x8x4x4xf32, #tssa.strides<[128, 1, 32, 8]>>
// OWN: %[[R:.*]] = linalg.generic {{.*}} ins(%[[X]], %[[P]]
// OWN: %[[B:.*]] = tssa.aten "aten::add.Tensor"(%[[R]]
// OWN: tssa.aten "aten::relu"(%[[B]]) : {{.*}} -> tensor<1x16x4x4xf32, #tssa.strides<[256, 1, 64, 16]>>
func.func @points(%x: tensor<1x8x4x4xf32>, %w: tensor<16x8x1x1xf32> {pyjit.param}, %b: tensor<16xf32> {pyjit.param}) -> tensor<1x16x4x4xf32> {
  %0 = tssa.aten "aten::conv2d"(%x, %w, %b, [1 : i64, 1 : i64], [0 : i64, 0 : i64], [1 : i64, 1 : i64], 1 : i64) : (tensor<1x8x4x4xf32>, tensor<16x8x1x1xf32>, tensor<16xf32>) -> tensor<1x16x4x4xf32>
  %1 = tssa.aten "aten::relu"(%0) : (tensor<1x16x4x4xf32>) -> tensor<1x16x4x4xf32>
  return %1 : tensor<1x16x4x4xf32>
}

// OWN-LABEL: func.func @no_points
// OWN-COUNT-3: "mkldnn::_convolution_pointwise"
func.func @no_points(%x: tensor<1x8x4x4xf32>, %y: tensor<1x8x2x2xf32>, %w: tensor<16x8x1x1xf32> {pyjit.param}, %v: tensor<12x8x1x1xf32> {pyjit.param}) -> (tensor<1x16x2x2xf32>, tensor<1x16x2x2xf32>, tensor<1x12x4x4xf32>) {
  %0 = tssa.aten "aten::conv2d"(%x, %w, none, [2 : i64, 2 : i64], [0 : i64, 0 : i64], [1 : i64, 1 : i64], 1 : i64) : (tensor<1x8x4x4xf32>, tensor<16x8x1x1xf32>) -> tensor<1x16x2x2xf32>
  %1 = tssa.aten "aten::conv2d"(%y, %w, none, [1 : i64, 1 : i64], [0 : i64, 0 : i64], [1 : i64, 1 : i64], 1 : i64) : (tensor<1x8x2x2xf32>, tensor<16x8x1x1xf32>) -> tensor<1x16x2x2xf32>
  %2 = tssa.aten "aten::conv2d"(%x, %v, none, [1 : i64, 1 : i64], [0 : i64, 0 : i64], [1 : i64, 1 : i64], 1 : i64) : (tensor<1x8x4x4xf32>, tensor<12x8x1x1xf32>) -> tensor<1x12x4x4xf32>
  return %0, %1, %2 : tensor<1x16x2x2xf32>, tensor<1x16x2x2xf32>, tensor<1x12x4x4xf32>
}

// A kernel's own operations stay as they are.
// OWN-LABEL: func.func @kernel
// OWN-NOT: aten::clone
// OWN: return
#id = affine_map<(a, b, c, d) -> (a, b, c, d)>
func.func @kernel(%x: tensor<1x8x4x4xf32>, %e: tensor<1x8x4x4xf32>) -> tensor<1x8x4x4xf32> {
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%x : tensor<1x8x4x4xf32>) outs(%e : tensor<1x8x4x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %1 = math.exp %in : f32
    linalg.yield %1 : f32
  } -> tensor<1x8x4x4xf32>
  return %0 : tensor<1x8x4x4xf32>
}
