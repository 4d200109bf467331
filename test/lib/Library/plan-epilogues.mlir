// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --library-plan-epilogues | FileCheck %s

// CHECK-LABEL: func.func @relu(
// CHECK: %[[W:.*]] = tssa.access %arg1 [#tssa.view<permute [1, 0]>] : tensor<6x8xf16> -> tensor<8x6xf16, #tssa.strides<[1, 8]>>
// CHECK-NEXT: %[[R:.*]] = tssa.aten "aten::_addmm_activation"(%arg2, %arg0, %[[W]], 1 : i64, 1 : i64, false)
// CHECK-NEXT: return %[[R]]
func.func @relu(%x: tensor<4x8xf16>, %w: tensor<6x8xf16>, %b: tensor<6xf16>) -> tensor<4x6xf16> {
  %0 = tssa.aten "aten::linear"(%x, %w, %b) : (tensor<4x8xf16>, tensor<6x8xf16>, tensor<6xf16>) -> tensor<4x6xf16>
  %1 = tssa.aten "aten::relu"(%0) : (tensor<4x6xf16>) -> tensor<4x6xf16>
  return %1 : tensor<4x6xf16>
}

// GPT-2's own words for GELU, on a view of the matmul.
// CHECK-LABEL: func.func @written_out(
// CHECK: %[[A:.*]] = tssa.aten "aten::_addmm_activation"(%arg2, %arg0, %arg1, 1 : i64, 1 : i64, true) : (tensor<6xf16>, tensor<4x8xf16>, tensor<8x6xf16>) -> tensor<4x6xf16>
// CHECK-NEXT: %[[V:.*]] = tssa.access %[[A]] [#tssa.view<view [1, 4, 6]>]
// CHECK: return %[[V]]
func.func @written_out(%x: tensor<4x8xf16>, %w: tensor<8x6xf16>, %b: tensor<6xf16>) -> tensor<1x4x6xf16> {
  %0 = tssa.aten "aten::addmm"(%b, %x, %w, 1 : i64, 1 : i64) : (tensor<6xf16>, tensor<4x8xf16>, tensor<8x6xf16>) -> tensor<4x6xf16>
  %1 = tssa.access %0 [#tssa.view<view [1, 4, 6]>] : tensor<4x6xf16> -> tensor<1x4x6xf16>
  %2 = tssa.aten "aten::mul.Tensor"(%1, wrapped(0.5 : f64)) : (tensor<1x4x6xf16>) -> tensor<1x4x6xf16>
  %3 = tssa.aten "aten::pow.Tensor_Scalar"(%1, 3.0 : f64) : (tensor<1x4x6xf16>) -> tensor<1x4x6xf16>
  %4 = tssa.aten "aten::mul.Tensor"(%3, wrapped(0.044715 : f64)) : (tensor<1x4x6xf16>) -> tensor<1x4x6xf16>
  %5 = tssa.aten "aten::add.Tensor"(%1, %4, 1 : i64) : (tensor<1x4x6xf16>, tensor<1x4x6xf16>) -> tensor<1x4x6xf16>
  %6 = tssa.aten "aten::mul.Tensor"(%5, wrapped(0.79788456080286541 : f64)) : (tensor<1x4x6xf16>) -> tensor<1x4x6xf16>
  %7 = tssa.aten "aten::tanh"(%6) : (tensor<1x4x6xf16>) -> tensor<1x4x6xf16>
  %8 = tssa.aten "aten::add.Tensor"(%7, wrapped(1.0 : f64), 1 : i64) : (tensor<1x4x6xf16>) -> tensor<1x4x6xf16>
  %9 = tssa.aten "aten::mul.Tensor"(%2, %8) : (tensor<1x4x6xf16>, tensor<1x4x6xf16>) -> tensor<1x4x6xf16>
  return %9 : tensor<1x4x6xf16>
}

// The exact GELU has no epilogue; a matmul that is used elsewhere stays; so
// does one without a bias, and float32.
// CHECK-LABEL: func.func @kept(
// CHECK-NOT: _addmm_activation
// CHECK: return
func.func @kept(%x: tensor<4x8xf16>, %w: tensor<6x8xf16>, %b: tensor<6xf16>, %y: tensor<4x8xf32>, %v: tensor<6x8xf32>, %c: tensor<6xf32>)
    -> (tensor<4x6xf16>, tensor<4x6xf16>, tensor<4x6xf16>, tensor<4x6xf16>, tensor<4x6xf32>) {
  %0 = tssa.aten "aten::linear"(%x, %w, %b) : (tensor<4x8xf16>, tensor<6x8xf16>, tensor<6xf16>) -> tensor<4x6xf16>
  %1 = tssa.aten "aten::gelu"(%0, "none") : (tensor<4x6xf16>) -> tensor<4x6xf16>
  %2 = tssa.aten "aten::linear"(%1, %w, %b) {pyjit.vendor_call} : (tensor<4x6xf16>, tensor<6x8xf16>, tensor<6xf16>) -> tensor<4x6xf16>
  %3 = tssa.aten "aten::relu"(%2) : (tensor<4x6xf16>) -> tensor<4x6xf16>
  %4 = tssa.aten "aten::linear"(%x, %w, none) : (tensor<4x8xf16>, tensor<6x8xf16>) -> tensor<4x6xf16>
  %5 = tssa.aten "aten::relu"(%4) : (tensor<4x6xf16>) -> tensor<4x6xf16>
  %6 = tssa.aten "aten::linear"(%y, %v, %c) : (tensor<4x8xf32>, tensor<6x8xf32>, tensor<6xf32>) -> tensor<4x6xf32>
  %7 = tssa.aten "aten::relu"(%6) : (tensor<4x6xf32>) -> tensor<4x6xf32>
  return %0, %1, %3, %5, %7 : tensor<4x6xf16>, tensor<4x6xf16>, tensor<4x6xf16>, tensor<4x6xf16>, tensor<4x6xf32>
}

// A layer of no inputs has no rows to count.
// CHECK-LABEL: func.func @nothing(
// CHECK: "aten::linear"
func.func @nothing(%x: tensor<2x3x0xf16>, %w: tensor<6x0xf16>, %b: tensor<6xf16>) -> tensor<2x3x6xf16> {
  %0 = tssa.aten "aten::linear"(%x, %w, %b) : (tensor<2x3x0xf16>, tensor<6x0xf16>, tensor<6xf16>) -> tensor<2x3x6xf16>
  %1 = tssa.aten "aten::relu"(%0) : (tensor<2x3x6xf16>) -> tensor<2x3x6xf16>
  return %1 : tensor<2x3x6xf16>
}
