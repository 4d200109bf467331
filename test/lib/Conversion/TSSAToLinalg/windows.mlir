// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --convert-tssa-to-linalg | FileCheck %s
// RUN: pyjit-opt %s --pass-pipeline="builtin.module(func.func(convert-tssa-to-linalg{explain=true}))" -verify-diagnostics -o /dev/null

// Each place of a window is a read along the windows' strides.
// CHECK-DAG: #[[FIRST:.*]] = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2 * 2, d3 * 2)>
// CHECK-DAG: #[[LAST:.*]] = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2 * 2 + 1, d3 * 2 + 1)>
// CHECK-DAG: #[[PADDED:.*]] = affine_map<(d0, d1, d2, d3) -> (d0, d1, (d2 - 1) mod 8, (d3 - 1) mod 8)>

// CHECK-DAG: #[[WINDOW:.*]] = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2 floordiv 2, d3 floordiv 2)>

// CHECK-LABEL: func.func @max_pool
// CHECK: linalg.generic {indexing_maps = [#[[FIRST]], {{.*}}, #[[LAST]], #{{.*}}], {{.*}} ins(%arg0, %arg0, %arg0, %arg0 :
// CHECK-COUNT-3: arith.cmpf ogt
// CHECK: arith.cmpf uno
// CHECK-NOT: aten::
func.func @max_pool(%x: tensor<2x3x8x8xf32>) -> tensor<2x3x4x4xf32> {
  %0 = tssa.aten "aten::max_pool2d"(%x, [2 : i64, 2 : i64], [], [0 : i64, 0 : i64], [1 : i64, 1 : i64], false) : (tensor<2x3x8x8xf32>) -> tensor<2x3x4x4xf32>
  return %0 : tensor<2x3x4x4xf32>
}

// The operand with a border of -inf is a value of its own.
// CHECK-LABEL: func.func @padded
// CHECK: %[[P:.*]] = linalg.generic {indexing_maps = [#[[PADDED]], {{.*}} outs(%{{.*}} : tensor<2x3x9x9xf32>)
// CHECK: arith.constant 0xFF800000 : f32
// CHECK: linalg.generic {{.*}} ins(%[[P]], %[[P]],
func.func @padded(%x: tensor<2x3x8x8xf32>) -> tensor<2x3x4x4xf32> {
  %0 = tssa.aten "aten::max_pool2d"(%x, [3 : i64, 3 : i64], [2 : i64, 2 : i64], [1 : i64, 1 : i64], [1 : i64, 1 : i64], false) : (tensor<2x3x8x8xf32>) -> tensor<2x3x4x4xf32>
  return %0 : tensor<2x3x4x4xf32>
}

// Images of any number.
// CHECK-LABEL: func.func @batch
// CHECK: linalg.generic
// CHECK: arith.divf
// CHECK-NOT: aten::
func.func @batch(%x: tensor<?x3x8x8xf32, #tssa.layout<[s0, 3, 8, 8], [192, 64, 8, 1]>>) -> tensor<?x3x4x4xf32, #tssa.layout<[s0, 3, 4, 4], [48, 16, 4, 1]>> {
  %0 = tssa.aten "aten::avg_pool2d"(%x, [2 : i64, 2 : i64], [], [0 : i64, 0 : i64], false, true, none) : (tensor<?x3x8x8xf32, #tssa.layout<[s0, 3, 8, 8], [192, 64, 8, 1]>>) -> tensor<?x3x4x4xf32, #tssa.layout<[s0, 3, 4, 4], [48, 16, 4, 1]>>
  return %0 : tensor<?x3x4x4xf32, #tssa.layout<[s0, 3, 4, 4], [48, 16, 4, 1]>>
}

// CHECK-LABEL: func.func @empty_window
// CHECK: aten::max_pool2d
func.func @empty_window(%x: tensor<2x3x8x8xf32>) -> tensor<2x3x4x4xf32> {
  // expected-remark @+1 {{'aten::max_pool2d' stays a vendor call: windows that ATen refuses}}
  %0 = tssa.aten "aten::max_pool2d"(%x, [0 : i64, 2 : i64], [2 : i64, 2 : i64], [0 : i64, 0 : i64], [1 : i64, 1 : i64], false) : (tensor<2x3x8x8xf32>) -> tensor<2x3x4x4xf32>
  return %0 : tensor<2x3x4x4xf32>
}

// CHECK-LABEL: func.func @refused
// CHECK-COUNT-3: aten::
func.func @refused(%x: tensor<2x3x8x8xf32>, %v: tensor<1x2x8x8x8xf32>) -> (tensor<2x3x4x4xf32>, tensor<2x3x1x1xf32>, tensor<1x2x4x4x4xf32>, tensor<1x2x4x4x4xi64>) {
  // expected-remark @+1 {{'aten::avg_pool2d' stays a vendor call: windows that are divided by different numbers}}
  %0 = tssa.aten "aten::avg_pool2d"(%x, [3 : i64, 3 : i64], [2 : i64, 2 : i64], [1 : i64, 1 : i64], false, false, none) : (tensor<2x3x8x8xf32>) -> tensor<2x3x4x4xf32>
  // expected-remark @+1 {{'aten::max_pool2d' stays a vendor call: a large window}}
  %1 = tssa.aten "aten::max_pool2d"(%x, [8 : i64, 8 : i64], [], [0 : i64, 0 : i64], [1 : i64, 1 : i64], false) : (tensor<2x3x8x8xf32>) -> tensor<2x3x1x1xf32>
  // expected-remark @+1 {{'aten::max_pool3d_with_indices' stays a vendor call: places of padded and dilated windows, or far ones}}
  %2:2 = tssa.aten "aten::max_pool3d_with_indices"(%v, [2 : i64, 2 : i64, 2 : i64], [], [1 : i64, 1 : i64, 1 : i64], [2 : i64, 2 : i64, 2 : i64], false) : (tensor<1x2x8x8x8xf32>) -> (tensor<1x2x4x4x4xf32>, tensor<1x2x4x4x4xi64>)
  return %0, %1, %2#0, %2#1 : tensor<2x3x4x4xf32>, tensor<2x3x1x1xf32>, tensor<1x2x4x4x4xf32>, tensor<1x2x4x4x4xi64>
}

// Windows that lie side by side: an element's gradient is its window's, where it was the largest.
// CHECK-LABEL: func.func @gradient
// CHECK: linalg.generic {indexing_maps = [#[[WINDOW]], #[[WINDOW]], #{{.*}}], {{.*}} ins(%arg0, %arg2 :
// CHECK: arith.cmpi eq
// CHECK: arith.select
// CHECK-NOT: aten::
func.func @gradient(%g: tensor<2x3x4x4xf32>, %x: tensor<2x3x8x8xf32>, %i: tensor<2x3x4x4xi64>) -> tensor<2x3x8x8xf32> {
  %0 = tssa.aten "aten::max_pool2d_with_indices_backward"(%g, %x, [2 : i64, 2 : i64], [], [0 : i64, 0 : i64], [1 : i64, 1 : i64], false, %i) : (tensor<2x3x4x4xf32>, tensor<2x3x8x8xf32>, tensor<2x3x4x4xi64>) -> tensor<2x3x8x8xf32>
  return %0 : tensor<2x3x8x8xf32>
}

// CHECK-LABEL: func.func @gradient_of_windows_that_meet
// CHECK: aten::max_pool2d_with_indices_backward
func.func @gradient_of_windows_that_meet(%g: tensor<2x3x7x7xf32>, %x: tensor<2x3x8x8xf32>, %i: tensor<2x3x7x7xi64>) -> tensor<2x3x8x8xf32> {
  // expected-remark @+1 {{'aten::max_pool2d_with_indices_backward' stays a vendor call: a device, or windows that meet or leave something out}}
  %0 = tssa.aten "aten::max_pool2d_with_indices_backward"(%g, %x, [2 : i64, 2 : i64], [1 : i64, 1 : i64], [0 : i64, 0 : i64], [1 : i64, 1 : i64], false, %i) : (tensor<2x3x7x7xf32>, tensor<2x3x8x8xf32>, tensor<2x3x7x7xi64>) -> tensor<2x3x8x8xf32>
  return %0 : tensor<2x3x8x8xf32>
}

// Likewise of a mean; half precision is divided in float32.
// CHECK-LABEL: func.func @gradient_of_mean
// CHECK: linalg.generic {indexing_maps = [#[[WINDOW]], #{{.*}}], {{.*}} ins(%arg0 :
// CHECK: arith.extf
// CHECK: arith.divf %{{.*}}, %cst
// CHECK: arith.truncf
// CHECK-NOT: aten::
func.func @gradient_of_mean(%g: tensor<2x3x4x4xbf16>, %x: tensor<2x3x8x8xbf16>) -> tensor<2x3x8x8xbf16> {
  %0 = tssa.aten "aten::avg_pool2d_backward"(%g, %x, [2 : i64, 2 : i64], [], [0 : i64, 0 : i64], false, true, none) : (tensor<2x3x4x4xbf16>, tensor<2x3x8x8xbf16>) -> tensor<2x3x8x8xbf16>
  return %0 : tensor<2x3x8x8xbf16>
}

// CHECK-LABEL: func.func @gradient_of_padded_mean
// CHECK: aten::avg_pool2d_backward
func.func @gradient_of_padded_mean(%g: tensor<2x3x8x8xf32>, %x: tensor<2x3x8x8xf32>) -> tensor<2x3x8x8xf32> {
  // expected-remark @+1 {{'aten::avg_pool2d_backward' stays a vendor call: a device, or windows that meet or leave something out}}
  %0 = tssa.aten "aten::avg_pool2d_backward"(%g, %x, [3 : i64, 3 : i64], [1 : i64, 1 : i64], [1 : i64, 1 : i64], false, true, none) : (tensor<2x3x8x8xf32>, tensor<2x3x8x8xf32>) -> tensor<2x3x8x8xf32>
  return %0 : tensor<2x3x8x8xf32>
}

// A device's library has not been measured beside such kernels.
// CHECK-LABEL: func.func @device
// CHECK: aten::avg_pool2d
// CHECK: aten::roll
func.func @device(%x: tensor<2x3x8x8xf32>) -> (tensor<2x3x4x4xf32>, tensor<2x3x8x8xf32>) attributes {pyjit.device = "cuda:0"} {
  // expected-remark @+1 {{'aten::avg_pool2d' stays a vendor call: a device}}
  %0 = tssa.aten "aten::avg_pool2d"(%x, [2 : i64, 2 : i64], [], [0 : i64, 0 : i64], false, true, none) : (tensor<2x3x8x8xf32>) -> tensor<2x3x4x4xf32>
  // expected-remark @+1 {{'aten::roll' stays a vendor call: a device}}
  %1 = tssa.aten "aten::roll"(%x, [3 : i64], [3 : i64]) : (tensor<2x3x8x8xf32>) -> tensor<2x3x8x8xf32>
  return %0, %1 : tensor<2x3x4x4xf32>, tensor<2x3x8x8xf32>
}

// What only moves elements is one read.
// CHECK-LABEL: func.func @rearranged
// CHECK-COUNT-4: linalg.generic
// CHECK-NOT: aten::
func.func @rearranged(%x: tensor<2x4x8x8xf32>) -> tensor<2x1x18x16xf32> {
  %0 = tssa.aten "aten::roll"(%x, [-3 : i64], [3 : i64]) : (tensor<2x4x8x8xf32>) -> tensor<2x4x8x8xf32>
  %1 = tssa.aten "aten::flip"(%0, [2 : i64]) : (tensor<2x4x8x8xf32>) -> tensor<2x4x8x8xf32>
  %2 = tssa.aten "aten::pixel_shuffle"(%1, 2 : i64) : (tensor<2x4x8x8xf32>) -> tensor<2x1x16x16xf32>
  %3 = tssa.aten "aten::constant_pad_nd"(%2, [0 : i64, 0 : i64, 1 : i64, 1 : i64], 0.000000e+00 : f64) : (tensor<2x1x16x16xf32>) -> tensor<2x1x18x16xf32>
  return %3 : tensor<2x1x18x16xf32>
}

// A filler that integers do not have raises, as it does in eager.
// CHECK-LABEL: func.func @raises
// CHECK: aten::constant_pad_nd
func.func @raises(%x: tensor<8xi32>) -> tensor<10xi32> {
  // expected-remark @+1 {{'aten::constant_pad_nd' stays a vendor call: a filler that is no constant of the elements' type}}
  %0 = tssa.aten "aten::constant_pad_nd"(%x, [1 : i64, 1 : i64], 0.500000e+00 : f64) : (tensor<8xi32>) -> tensor<10xi32>
  return %0 : tensor<10xi32>
}
