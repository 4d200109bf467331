// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --library-plan-matmuls | FileCheck %s
// RUN: pyjit-opt %s --library-plan-matmuls=columns=0 | FileCheck %s --check-prefix=NONE
// RUN: pyjit-opt %s --library-plan-matmuls=pack-rows=32 | FileCheck %s --check-prefix=PACK
// RUN: pyjit-opt %s --library-plan-matmuls="pack-rows=32 max-rows=64" | FileCheck %s --check-prefix=FEW
// RUN: pyjit-opt %s --library-plan-matmuls="explain min-rows=4 pack-rows=4" -verify-diagnostics -o /dev/null

// NONE-NOT: linalg.generic

// PACK: #[[PANELS:.*]] = affine_map<(d0, d1, d2) -> (d1, d0 * 16 + d2)>
// CHECK: #[[X:.*]] = affine_map<(d0, d1, d2) -> (d0, d2)>
// CHECK: #[[W:.*]] = affine_map<(d0, d1, d2) -> (d1 floordiv 16, d2, d1 mod 16)>

// The bias is an addition of its own, for fusion to take.
// CHECK-LABEL: func.func @linear
// CHECK: %[[V:.*]] = tssa.access %arg1 [#tssa.view<view [2, 16, 8]>]
// CHECK: %[[T:.*]] = tssa.access %[[V]] [#tssa.view<permute [0, 2, 1]>] {{.*}} -> tensor<2x8x16xf32, #tssa.strides<[128, 1, 8]>>
// CHECK: %[[P:.*]] = tssa.aten "aten::clone"(%[[T]], 0 : i64) {{.*}} -> tensor<2x8x16xf32>
// CHECK: %[[R:.*]] = linalg.generic {indexing_maps = [#[[X]], #[[W]], {{.*}}], iterator_types = ["parallel", "parallel", "reduction"]} ins(%arg0, %[[P]]
// CHECK: tssa.aten "aten::add.Tensor"(%[[R]], %arg2, 1 : i64)
func.func @linear(%x: tensor<32x8xf32>, %w: tensor<32x8xf32> {pyjit.param}, %b: tensor<32xf32> {pyjit.param}) -> tensor<32x32xf32> {
  %0 = tssa.aten "aten::linear"(%x, %w, %b) : (tensor<32x8xf32>, tensor<32x8xf32>, tensor<32xf32>) -> tensor<32x32xf32>
  return %0 : tensor<32x32xf32>
}

// A weight that training writes in each step is packed in each call, where it is
// used often enough, or by enough rows.
// CHECK-LABEL: func.func @trained
// CHECK: aten::linear
// CHECK: aten::clone
// CHECK-SAME: pyjit.packed
// CHECK-COUNT-4: iterator_types = ["parallel", "parallel", "reduction"]
// CHECK: return
// PACK-LABEL: func.func @trained
// PACK-NOT: aten::linear
// PACK: return
func.func @trained(%x: tensor<32x8xf32>, %w: tensor<32x8xf32> {pyjit.param, pyjit.trained}, %v: tensor<8x8xf32> {pyjit.param, pyjit.trained}) -> (tensor<32x32xf32>, tensor<32x8xf32>) {
  %0 = tssa.aten "aten::linear"(%x, %w, none) : (tensor<32x8xf32>, tensor<32x8xf32>) -> tensor<32x32xf32>
  %1 = tssa.aten "aten::linear"(%x, %v, none) : (tensor<32x8xf32>, tensor<8x8xf32>) -> tensor<32x8xf32>
  %2 = tssa.aten "aten::linear"(%1, %v, none) : (tensor<32x8xf32>, tensor<8x8xf32>) -> tensor<32x8xf32>
  %3 = tssa.aten "aten::linear"(%2, %v, none) : (tensor<32x8xf32>, tensor<8x8xf32>) -> tensor<32x8xf32>
  %4 = tssa.aten "aten::linear"(%3, %v, none) : (tensor<32x8xf32>, tensor<8x8xf32>) -> tensor<32x8xf32>
  return %0, %4 : tensor<32x32xf32>, tensor<32x8xf32>
}

// A weight that is in x out, and half a panel where a whole one does not divide.
// CHECK-LABEL: func.func @addmm
// CHECK: tssa.access %arg2 [#tssa.view<view [8, 3, 8]>]
// CHECK: [#tssa.view<permute [1, 0, 2]>] {{.*}} -> tensor<3x8x8xf32, #tssa.strides<[8, 24, 1]>>
// CHECK: linalg.generic
func.func @addmm(%b: tensor<24xf32> {pyjit.param}, %x: tensor<32x8xf32>, %w: tensor<8x24xf32> {pyjit.param}) -> tensor<32x24xf32> {
  %0 = tssa.aten "aten::addmm"(%b, %x, %w, 1 : i64, 1 : i64) : (tensor<24xf32>, tensor<32x8xf32>, tensor<8x24xf32>) -> tensor<32x24xf32>
  return %0 : tensor<32x24xf32>
}

// CHECK-LABEL: func.func @matmul
// CHECK: linalg.generic {{.*}} iterator_types = ["parallel", "parallel", "parallel", "reduction"]
func.func @matmul(%x: tensor<2x16x8xf32>, %w: tensor<8x16xf32> {pyjit.param}) -> tensor<2x16x16xf32> {
  %0 = tssa.aten "aten::matmul"(%x, %w) : (tensor<2x16x8xf32>, tensor<8x16xf32>) -> tensor<2x16x16xf32>
  return %0 : tensor<2x16x16xf32>
}

// One row is a matmul like any other, unless `min-rows` says else.
// CHECK-LABEL: func.func @few_rows
// CHECK: linalg.generic
func.func @few_rows(%x: tensor<2x8xf32>, %w: tensor<16x8xf32> {pyjit.param}) -> tensor<2x16xf32> {
  // expected-remark @+1 {{'aten::linear' stays a vendor call: the weight is read for few rows only}}
  %0 = tssa.aten "aten::linear"(%x, %w, none) : (tensor<2x8xf32>, tensor<16x8xf32>) -> tensor<2x16xf32>
  return %0 : tensor<2x16xf32>
}

// CHECK-LABEL: func.func @odd_columns
// CHECK: aten::linear
func.func @odd_columns(%x: tensor<32x8xf32>, %w: tensor<10x8xf32> {pyjit.param}) -> tensor<32x10xf32> {
  // expected-remark @+1 {{its columns do not divide into vectors}}
  %0 = tssa.aten "aten::linear"(%x, %w, none) : (tensor<32x8xf32>, tensor<10x8xf32>) -> tensor<32x10xf32>
  return %0 : tensor<32x10xf32>
}

// A weight that is no parameter is packed at each call; beta and alpha are not
// dropped.
// CHECK-LABEL: func.func @stays
// CHECK: aten::mm
// CHECK: aten::addmm
// PACK-LABEL: func.func @stays
// PACK-NOT: aten::mm
// PACK: aten::addmm
func.func @stays(%b: tensor<16xf32>, %x: tensor<32x8xf32>, %w: tensor<8x16xf32>, %p: tensor<8x16xf32> {pyjit.param}) -> (tensor<32x16xf32>, tensor<32x16xf32>) {
  %0 = tssa.aten "aten::mm"(%x, %w) : (tensor<32x8xf32>, tensor<8x16xf32>) -> tensor<32x16xf32>
  %1 = tssa.aten "aten::addmm"(%b, %x, %p, 1 : i64, 2 : i64) : (tensor<16xf32>, tensor<32x8xf32>, tensor<8x16xf32>) -> tensor<32x16xf32>
  return %0, %1 : tensor<32x16xf32>, tensor<32x16xf32>
}

// The gradient of a weight: rows are the columns of what they are read from.
// PACK-LABEL: func.func @gradient
// PACK: %[[G:.*]] = tssa.access %arg0
// PACK: %[[P:.*]] = linalg.generic {indexing_maps = [#[[PANELS]], {{.*}}], iterator_types = ["parallel", "parallel", "parallel"]} ins(%arg1 : {{.*}} attrs = {pyjit.packed}
// PACK: linalg.generic {{.*}} ins(%[[G]], %[[P]]
// CHECK-LABEL: func.func @gradient
// CHECK: aten::mm
func.func @gradient(%g: tensor<64x48xf32>, %x: tensor<64x32xf32>) -> tensor<48x32xf32> {
  %0 = tssa.access %g [#tssa.view<permute [1, 0]>] : tensor<64x48xf32> -> tensor<48x64xf32, #tssa.strides<[1, 48]>>
  %1 = tssa.aten "aten::mm"(%0, %x) : (tensor<48x64xf32, #tssa.strides<[1, 48]>>, tensor<64x32xf32>) -> tensor<48x32xf32>
  return %1 : tensor<48x32xf32>
}

// A batch; the transpose of a row-major weight is read as that weight.
// PACK-LABEL: func.func @batch
// PACK: linalg.generic {{.*}} ins(%arg1 : {{.*}} attrs = {pyjit.packed}
// PACK: linalg.generic {{.*}} iterator_types = ["parallel", "parallel", "parallel", "reduction"]
// PACK-NOT: aten::bmm
// PACK: return
func.func @batch(%q: tensor<4x32x8xf32>, %k: tensor<4x8x16xf32>) -> tensor<4x32x16xf32> {
  %0 = tssa.aten "aten::bmm"(%q, %k) : (tensor<4x32x8xf32>, tensor<4x8x16xf32>) -> tensor<4x32x16xf32>
  return %0 : tensor<4x32x16xf32>
}

// PACK-LABEL: func.func @heads
// PACK: linalg.generic {{.*}} iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]
// PACK: return
func.func @heads(%q: tensor<2x4x32x8xf32>, %k: tensor<2x4x8x16xf32>) -> tensor<2x4x32x16xf32> {
  %0 = tssa.aten "aten::matmul"(%q, %k) : (tensor<2x4x32x8xf32>, tensor<2x4x8x16xf32>) -> tensor<2x4x32x16xf32>
  return %0 : tensor<2x4x32x16xf32>
}

// Where the columns do not divide, the rows may: they are packed instead.
// PACK-LABEL: func.func @odd_vocabulary
// PACK: %[[X:.*]] = tssa.access %arg0 [#tssa.view<view [32, 64]>]
// PACK: %[[P:.*]] = linalg.generic {{.*}} ins(%[[X]] : {{.*}} attrs = {pyjit.packed}
// PACK: %[[W:.*]] = tssa.access %arg1 [#tssa.view<permute [1, 0]>]
// PACK: %[[R:.*]] = linalg.generic {{.*}} iterator_types = ["parallel", "parallel", "reduction"]} ins(%[[W]], %[[P]]
// PACK: tssa.access %[[R]] [#tssa.view<view [2, 16, 33]>]
func.func @odd_vocabulary(%x: tensor<2x16x64xf32>, %w: tensor<33x64xf32> {pyjit.param}) -> tensor<2x16x33xf32> {
  %0 = tssa.aten "aten::linear"(%x, %w, none) : (tensor<2x16x64xf32>, tensor<33x64xf32>) -> tensor<2x16x33xf32>
  return %0 : tensor<2x16x33xf32>
}

// Rows whose number differs between calls: by an estimate of 32 there are
// enough for a weight that each call packs.
!some = tensor<?x8xf32, #tssa.layout<[s0, 8], [8, 1]>>
!sums = tensor<?x16xf32, #tssa.layout<[s0, 16], [16, 1]>>
// PACK-LABEL: func.func @some_rows
// PACK: aten::clone
// PACK: linalg.generic {{.*}} iterator_types = ["parallel", "parallel", "reduction"]} ins(%arg0,
// PACK: linalg.generic {{.*}} ins(%arg2 : {{.*}} attrs = {pyjit.packed}
// PACK: linalg.generic {{.*}} iterator_types = ["parallel", "parallel", "reduction"]} ins(%arg0,
// PACK: return
// CHECK-LABEL: func.func @some_rows
// CHECK: linalg.generic
// CHECK: aten::mm
// FEW-LABEL: func.func @some_rows
// FEW-NOT: linalg.generic
// FEW: return
func.func @some_rows(%x: !some, %w: tensor<16x8xf32> {pyjit.param}, %v: tensor<8x16xf32>) -> (!sums, !sums) {
  %0 = tssa.aten "aten::linear"(%x, %w, none) : (!some, tensor<16x8xf32>) -> !sums
  %1 = tssa.aten "aten::mm"(%x, %v) : (!some, tensor<8x16xf32>) -> !sums
  return %0, %1 : !sums, !sums
}

// The gradient of a weight by such rows: the sum is what differs.
!given = tensor<?x48xf32, #tssa.layout<[s0, 48], [48, 1]>>
!turned = tensor<48x?xf32, #tssa.layout<[48, s0], [1, 48]>>
// PACK-LABEL: func.func @gradient_by_some_rows
// PACK: %[[G:.*]] = tssa.access %arg0
// PACK: %[[E:.*]] = tssa.empty : tensor<1x?x16xf32, #tssa.layout<[1, s0, 16], [s0 * 16, 16, 1]>>
// PACK: %[[P:.*]] = linalg.generic {{.*}} ins(%arg1 : {{.*}} outs(%[[E]] : {{.*}} attrs = {pyjit.packed}
// PACK: linalg.generic {{.*}} ins(%[[G]], %[[P]]
// PACK: return
func.func @gradient_by_some_rows(%g: !given, %x: !sums) -> tensor<48x16xf32> {
  %0 = tssa.access %g [#tssa.view<permute [1, 0]>] : !given -> !turned
  %1 = tssa.aten "aten::mm"(%0, %x) : (!turned, !sums) -> tensor<48x16xf32>
  return %1 : tensor<48x16xf32>
}

// A batch whose size differs; columns that differ do not divide into vectors.
!rows = tensor<?x32x16xf32, #tssa.layout<[s0, 32, 16], [512, 16, 1]>>
!columns = tensor<?x16x32xf32, #tssa.layout<[s0, 16, 32], [512, 32, 1]>>
!square = tensor<?x32x32xf32, #tssa.layout<[s0, 32, 32], [1024, 32, 1]>>
!flat = tensor<32x?xf32, #tssa.layout<[32, s0], [s0, 1]>>
// PACK-LABEL: func.func @some_batch
// PACK: linalg.generic {{.*}} attrs = {pyjit.packed}
// PACK: linalg.generic {{.*}} iterator_types = ["parallel", "parallel", "parallel", "reduction"]
// PACK: aten::mm
func.func @some_batch(%q: !rows, %k: !columns, %w: tensor<32x32xf32>, %c: !flat) -> (!square, !flat) {
  %0 = tssa.aten "aten::bmm"(%q, %k) : (!rows, !columns) -> !square
  %1 = tssa.aten "aten::mm"(%w, %c) : (tensor<32x32xf32>, !flat) -> !flat
  return %0, %1 : !square, !flat
}
