// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --library-merge-linears --library-hoist-parameters | FileCheck %s
// RUN: pyjit-opt %s --library-merge-linears="max-rows=2 reads-through=false" | FileCheck %s --check-prefix=FEW
// RUN: pyjit-opt %s --library-merge-linears="max-bytes=200 reads-through=false" | FileCheck %s --check-prefix=SMALL

// CHECK-LABEL: func.func @qkv(
// CHECK: %[[L:.*]] = tssa.aten "aten::linear"(%arg0, %{{.*}}, %{{.*}}) : (tensor<6x8xf16>, tensor<24x8xf16>, tensor<24xf16>) -> tensor<6x24xf16>
// CHECK-DAG: tssa.access %[[L]] [#tssa.view<slice [1, 0, 8, 1]>] : tensor<6x24xf16> -> tensor<6x8xf16, #tssa.strides<[24, 1]>>
// CHECK-DAG: tssa.access %[[L]] [#tssa.view<slice [1, 8, 8, 1]>]
// CHECK-DAG: tssa.access %[[L]] [#tssa.view<slice [1, 16, 8, 1]>]
// A view of a slice lies as the slice does.
// CHECK: tssa.access %{{.*}} [#tssa.view<view [6, 2, 4]>] : tensor<6x8xf16, #tssa.strides<[24, 1]>> -> tensor<6x2x4xf16, #tssa.strides<[24, 4, 1]>>
// CHECK: func.func @qkv_prepare
// CHECK: tssa.aten "aten::cat"
// CHECK: tssa.aten "aten::cat"
// FEW-LABEL: func.func @qkv(
// FEW-NOT: aten::cat
func.func @qkv(%x: tensor<6x8xf16>, %q: tensor<8x8xf16> {pyjit.param}, %k: tensor<8x8xf16> {pyjit.param}, %v: tensor<8x8xf16> {pyjit.param},
               %a: tensor<8xf16> {pyjit.param}, %b: tensor<8xf16> {pyjit.param}, %c: tensor<8xf16> {pyjit.param}) -> (tensor<6x2x4xf16>, tensor<6x8xf16>) {
  %0 = tssa.aten "aten::linear"(%x, %q, %a) : (tensor<6x8xf16>, tensor<8x8xf16>, tensor<8xf16>) -> tensor<6x8xf16>
  %1 = tssa.aten "aten::linear"(%x, %k, %b) : (tensor<6x8xf16>, tensor<8x8xf16>, tensor<8xf16>) -> tensor<6x8xf16>
  %2 = tssa.aten "aten::linear"(%x, %v, %c) : (tensor<6x8xf16>, tensor<8x8xf16>, tensor<8xf16>) -> tensor<6x8xf16>
  %3 = tssa.access %0 [#tssa.view<view [6, 2, 4]>] : tensor<6x8xf16> -> tensor<6x2x4xf16>
  %4 = tssa.aten "aten::exp"(%3) : (tensor<6x2x4xf16>) -> tensor<6x2x4xf16>
  %5 = tssa.aten "aten::add.Tensor"(%1, %2, 1 : i64) : (tensor<6x8xf16>, tensor<6x8xf16>) -> tensor<6x8xf16>
  return %4, %5 : tensor<6x2x4xf16>, tensor<6x8xf16>
}

// A part of a parameter is computed where the joined matmul needs it, though
// the recorded program asked for it later.
// CHECK-LABEL: func.func @late(
// CHECK: tssa.aten "aten::linear"(%arg0, %{{.*}}, none) : (tensor<6x8xf16>, tensor<16x8xf16>) -> tensor<6x16xf16>
// CHECK: func.func @late_prepare
// CHECK: tssa.access %{{.*}} [#tssa.view<slice [0, 8, 16, 1]>]
// CHECK: tssa.access %{{.*}} [#tssa.view<slice [0, 0, 8, 1]>]
// CHECK: tssa.aten "aten::cat"
func.func @late(%x: tensor<6x8xf16>, %q: tensor<8x8xf16> {pyjit.param}, %kv: tensor<24x8xf16> {pyjit.param}) -> tensor<6x8xf16> {
  %0 = tssa.aten "aten::linear"(%x, %q, none) : (tensor<6x8xf16>, tensor<8x8xf16>) -> tensor<6x8xf16>
  %1 = tssa.aten "aten::exp"(%0) : (tensor<6x8xf16>) -> tensor<6x8xf16>
  %2 = tssa.access %kv [#tssa.view<slice [0, 8, 16, 1]>] : tensor<24x8xf16> -> tensor<16x8xf16>
  %3 = tssa.access %2 [#tssa.view<slice [0, 0, 8, 1]>] : tensor<16x8xf16> -> tensor<8x8xf16>
  %4 = tssa.aten "aten::linear"(%x, %3, none) : (tensor<6x8xf16>, tensor<8x8xf16>) -> tensor<6x8xf16>
  %5 = tssa.aten "aten::add.Tensor"(%1, %4, 1 : i64) : (tensor<6x8xf16>, tensor<6x8xf16>) -> tensor<6x8xf16>
  return %5 : tensor<6x8xf16>
}

// A caller sees the layout; a view across rows cannot show a slice; other
// weights than parameters change at each call.
// CHECK-LABEL: func.func @kept(
// CHECK-NOT: aten::cat
func.func @kept(%x: tensor<6x8xf16>, %y: tensor<6x8xf16>, %q: tensor<8x8xf16> {pyjit.param}, %k: tensor<8x8xf16> {pyjit.param}, %w: tensor<8x8xf16>)
    -> (tensor<6x8xf16>, tensor<48xf16>, tensor<6x8xf16>, tensor<6x8xf16>) {
  %0 = tssa.aten "aten::linear"(%x, %q, none) : (tensor<6x8xf16>, tensor<8x8xf16>) -> tensor<6x8xf16>
  %1 = tssa.aten "aten::linear"(%x, %k, none) : (tensor<6x8xf16>, tensor<8x8xf16>) -> tensor<6x8xf16>
  %2 = tssa.aten "aten::exp"(%1) : (tensor<6x8xf16>) -> tensor<6x8xf16>
  %3 = tssa.aten "aten::linear"(%y, %q, none) : (tensor<6x8xf16>, tensor<8x8xf16>) -> tensor<6x8xf16>
  %4 = tssa.access %3 [#tssa.view<view [48]>] : tensor<6x8xf16> -> tensor<48xf16>
  %5 = tssa.aten "aten::exp"(%4) : (tensor<48xf16>) -> tensor<48xf16>
  %6 = tssa.aten "aten::linear"(%y, %w, none) : (tensor<6x8xf16>, tensor<8x8xf16>) -> tensor<6x8xf16>
  %7 = tssa.aten "aten::linear"(%y, %k, none) : (tensor<6x8xf16>, tensor<8x8xf16>) -> tensor<6x8xf16>
  return %0, %5, %6, %2 : tensor<6x8xf16>, tensor<48xf16>, tensor<6x8xf16>, tensor<6x8xf16>
}

// One row: one kernel reads both, and nothing is copied.
// CHECK-LABEL: func.func @one_row
// CHECK: tssa.aten "aten::cat"([%arg1, %arg2], 0 : i64) {pyjit.read_through}
// CHECK: aten::linear
// CHECK-NOT: aten::linear
func.func @one_row(%x: tensor<1x1024xf32>, %v: tensor<1024x1024xf32> {pyjit.param}, %w: tensor<1280x1024xf32> {pyjit.param}) -> (tensor<1x1024xf32>, tensor<1x1280xf32>) {
  %0 = tssa.aten "aten::linear"(%x, %v, none) : (tensor<1x1024xf32>, tensor<1024x1024xf32>) -> tensor<1x1024xf32>
  %1 = tssa.aten "aten::linear"(%x, %w, none) : (tensor<1x1024xf32>, tensor<1280x1024xf32>) -> tensor<1x1280xf32>
  %2 = tssa.aten "aten::exp"(%0) : (tensor<1x1024xf32>) -> tensor<1x1024xf32>
  %3 = tssa.aten "aten::exp"(%1) : (tensor<1x1280xf32>) -> tensor<1x1280xf32>
  return %2, %3 : tensor<1x1024xf32>, tensor<1x1280xf32>
}

// Gate and up meet: they are one kernel as they are.
// CHECK-LABEL: func.func @gated
// CHECK-NOT: aten::cat
// CHECK-COUNT-2: aten::linear
func.func @gated(%x: tensor<1x1024xf32>, %v: tensor<1280x1024xf32> {pyjit.param}, %w: tensor<1280x1024xf32> {pyjit.param}) -> tensor<1x1280xf32> {
  %0 = tssa.aten "aten::linear"(%x, %v, none) : (tensor<1x1024xf32>, tensor<1280x1024xf32>) -> tensor<1x1280xf32>
  %1 = tssa.aten "aten::linear"(%x, %w, none) : (tensor<1x1024xf32>, tensor<1280x1024xf32>) -> tensor<1x1280xf32>
  %2 = tssa.aten "aten::exp"(%0) : (tensor<1x1280xf32>) -> tensor<1x1280xf32>
  %3 = tssa.aten "aten::mul.Tensor"(%2, %1) : (tensor<1x1280xf32>, tensor<1x1280xf32>) -> tensor<1x1280xf32>
  return %3 : tensor<1x1280xf32>
}

// A copy of 9 MB beside the originals would cost more than the launch that it saves.
// CHECK-LABEL: func.func @large
// CHECK-NOT: aten::cat
// CHECK-COUNT-2: aten::linear
func.func @large(%x: tensor<4x1024xf32>, %v: tensor<1024x1024xf32> {pyjit.param}, %w: tensor<1280x1024xf32> {pyjit.param}) -> (tensor<4x1024xf32>, tensor<4x1280xf32>) {
  %0 = tssa.aten "aten::linear"(%x, %v, none) : (tensor<4x1024xf32>, tensor<1024x1024xf32>) -> tensor<4x1024xf32>
  %1 = tssa.aten "aten::linear"(%x, %w, none) : (tensor<4x1024xf32>, tensor<1280x1024xf32>) -> tensor<4x1280xf32>
  %2 = tssa.aten "aten::exp"(%0) : (tensor<4x1024xf32>) -> tensor<4x1024xf32>
  %3 = tssa.aten "aten::exp"(%1) : (tensor<4x1280xf32>) -> tensor<4x1280xf32>
  return %2, %3 : tensor<4x1024xf32>, tensor<4x1280xf32>
}

// Together they are too large: the smallest are joined.
// SMALL-LABEL: func.func @grouped(
// SMALL: tssa.aten "aten::linear"(%arg0, %arg1, none)
// SMALL: %[[W:.*]] = tssa.aten "aten::cat"([%arg2, %arg3], 0 : i64)
// SMALL: tssa.aten "aten::linear"(%arg0, %[[W]], none) : (tensor<6x8xf16>, tensor<8x8xf16>) -> tensor<6x8xf16>
// SMALL-NOT: aten::linear
// SMALL: return
func.func @grouped(%x: tensor<6x8xf16>, %q: tensor<24x8xf16> {pyjit.param}, %k: tensor<4x8xf16> {pyjit.param}, %v: tensor<4x8xf16> {pyjit.param}) -> (tensor<6x24xf16>, tensor<6x4xf16>) {
  %0 = tssa.aten "aten::linear"(%x, %q, none) : (tensor<6x8xf16>, tensor<24x8xf16>) -> tensor<6x24xf16>
  %1 = tssa.aten "aten::linear"(%x, %k, none) : (tensor<6x8xf16>, tensor<4x8xf16>) -> tensor<6x4xf16>
  %2 = tssa.aten "aten::linear"(%x, %v, none) : (tensor<6x8xf16>, tensor<4x8xf16>) -> tensor<6x4xf16>
  %3 = tssa.aten "aten::exp"(%0) : (tensor<6x24xf16>) -> tensor<6x24xf16>
  %4 = tssa.aten "aten::add.Tensor"(%1, %2, 1 : i64) : (tensor<6x4xf16>, tensor<6x4xf16>) -> tensor<6x4xf16>
  return %3, %4 : tensor<6x24xf16>, tensor<6x4xf16>
}
