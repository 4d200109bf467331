// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --library-sum-matmuls --cse | FileCheck %s
// RUN: pyjit-opt %s --library-sum-matmuls=max-bytes=64 | FileCheck %s --check-prefix=NONE

// The gradients of a weight and a bias that two steps used: transposes are
// joined as they lie, the third term stays a term.
// CHECK-LABEL: func.func @steps(
// CHECK: %[[G:.*]] = tssa.aten "aten::cat"([%arg0, %arg1], 0 : i64) : (tensor<2x8xf32>, tensor<3x8xf32>) -> tensor<5x8xf32>
// CHECK: %[[T:.*]] = tssa.access %[[G]] [#tssa.view<permute [1, 0]>] : tensor<5x8xf32> -> tensor<8x5xf32, #tssa.strides<[1, 8]>>
// CHECK: %[[X:.*]] = tssa.aten "aten::cat"([%arg2, %arg3], 0 : i64) : (tensor<2x4xf32>, tensor<3x4xf32>) -> tensor<5x4xf32>
// CHECK: %[[P:.*]] = tssa.aten "aten::mm"(%[[T]], %[[X]])
// CHECK: %[[W:.*]] = tssa.aten "aten::add.Tensor"(%[[P]], %arg4, 1 : i64)
// CHECK-NOT: aten::cat
// CHECK: %[[B:.*]] = tssa.aten "aten::sum.dim_IntList"(%[[G]], [0 : i64], false, none) : (tensor<5x8xf32>) -> tensor<8xf32>
// CHECK-NOT: aten::add
// CHECK: return %[[W]], %[[B]]
// NONE-LABEL: func.func @steps(
// NONE-NOT: aten::cat
// NONE: return
func.func @steps(%g: tensor<2x8xf32>, %h: tensor<3x8xf32>, %x: tensor<2x4xf32>, %y: tensor<3x4xf32>, %old: tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<8xf32>) {
  %gt = tssa.access %g [#tssa.view<permute [1, 0]>] : tensor<2x8xf32> -> tensor<8x2xf32, #tssa.strides<[1, 8]>>
  %0 = tssa.aten "aten::mm"(%gt, %x) : (tensor<8x2xf32, #tssa.strides<[1, 8]>>, tensor<2x4xf32>) -> tensor<8x4xf32>
  %1 = tssa.aten "aten::sum.dim_IntList"(%g, [0 : i64], true, none) : (tensor<2x8xf32>) -> tensor<1x8xf32>
  %2 = tssa.access %1 [#tssa.view<squeeze [0]>] : tensor<1x8xf32> -> tensor<8xf32>
  %3 = tssa.aten "aten::add.Tensor"(%old, %0, 1 : i64) : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  %ht = tssa.access %h [#tssa.view<permute [1, 0]>] : tensor<3x8xf32> -> tensor<8x3xf32, #tssa.strides<[1, 8]>>
  %4 = tssa.aten "aten::mm"(%ht, %y) : (tensor<8x3xf32, #tssa.strides<[1, 8]>>, tensor<3x4xf32>) -> tensor<8x4xf32>
  %5 = tssa.aten "aten::sum.dim_IntList"(%h, [0 : i64], true, none) : (tensor<3x8xf32>) -> tensor<1x8xf32>
  %6 = tssa.access %5 [#tssa.view<squeeze [0]>] : tensor<1x8xf32> -> tensor<8xf32>
  %7 = tssa.aten "aten::add.Tensor"(%3, %4, 1 : i64) : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  %8 = tssa.aten "aten::add.Tensor"(%2, %6, 1 : i64) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %7, %8 : tensor<8x4xf32>, tensor<8xf32>
}

// A right factor that is a transpose, too.
// CHECK-LABEL: func.func @transposed(
// CHECK: tssa.aten "aten::cat"([%arg0, %arg2], 1 : i64) : (tensor<8x2xf16>, tensor<8x2xf16>) -> tensor<8x4xf16>
// CHECK: %[[R:.*]] = tssa.aten "aten::cat"([%arg1, %arg3], 1 : i64) : (tensor<4x2xf16>, tensor<4x2xf16>) -> tensor<4x4xf16>
// CHECK: tssa.access %[[R]] [#tssa.view<permute [1, 0]>]
// CHECK: return
func.func @transposed(%a: tensor<8x2xf16>, %b: tensor<4x2xf16>, %c: tensor<8x2xf16>, %d: tensor<4x2xf16>) -> tensor<8x4xf16> {
  %bt = tssa.access %b [#tssa.view<permute [1, 0]>] : tensor<4x2xf16> -> tensor<2x4xf16, #tssa.strides<[1, 2]>>
  %dt = tssa.access %d [#tssa.view<permute [1, 0]>] : tensor<4x2xf16> -> tensor<2x4xf16, #tssa.strides<[1, 2]>>
  %0 = tssa.aten "aten::mm"(%a, %bt) : (tensor<8x2xf16>, tensor<2x4xf16, #tssa.strides<[1, 2]>>) -> tensor<8x4xf16>
  %1 = tssa.aten "aten::mm"(%c, %dt) : (tensor<8x2xf16>, tensor<2x4xf16, #tssa.strides<[1, 2]>>) -> tensor<8x4xf16>
  %2 = tssa.aten "aten::add.Tensor"(%0, %1, 1 : i64) : (tensor<8x4xf16>, tensor<8x4xf16>) -> tensor<8x4xf16>
  return %2 : tensor<8x4xf16>
}

// A matmul that somebody else reads, one that is subtracted, and a sum over
// rows that no matmul joins.
// CHECK-LABEL: func.func @kept(
// CHECK-NOT: aten::cat
// CHECK: return
func.func @kept(%a: tensor<8x2xf32>, %b: tensor<2x8xf32>, %c: tensor<8x2xf32>, %d: tensor<2x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8xf32>) {
  %0 = tssa.aten "aten::mm"(%a, %b) : (tensor<8x2xf32>, tensor<2x8xf32>) -> tensor<8x8xf32>
  %1 = tssa.aten "aten::mm"(%c, %d) : (tensor<8x2xf32>, tensor<2x8xf32>) -> tensor<8x8xf32>
  %2 = tssa.aten "aten::mm"(%c, %b) : (tensor<8x2xf32>, tensor<2x8xf32>) -> tensor<8x8xf32>
  %3 = tssa.aten "aten::add.Tensor"(%0, %1, 1 : i64) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %4 = tssa.aten "aten::add.Tensor"(%3, %2, -1 : i64) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %5 = tssa.aten "aten::sum.dim_IntList"(%b, [0 : i64], true, none) : (tensor<2x8xf32>) -> tensor<1x8xf32>
  %6 = tssa.access %5 [#tssa.view<squeeze [0]>] : tensor<1x8xf32> -> tensor<8xf32>
  %7 = tssa.aten "aten::sum.dim_IntList"(%d, [0 : i64], true, none) : (tensor<2x8xf32>) -> tensor<1x8xf32>
  %8 = tssa.access %7 [#tssa.view<squeeze [0]>] : tensor<1x8xf32> -> tensor<8xf32>
  %9 = tssa.aten "aten::add.Tensor"(%6, %8, 1 : i64) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %4, %1, %9 : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8xf32>
}
