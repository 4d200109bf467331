// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --library-pad-matmuls --cse | FileCheck %s

// The head of a language model: the weight has more rows, the result is a part of a larger one.
// CHECK-LABEL: func.func @head(
// CHECK: %[[Z:.*]] = linalg.fill ins(%{{.*}} : bf16) outs(%{{.*}} : tensor<2048x1024xbf16>)
// CHECK: %[[W:.*]] = tssa.assign %[[Z]], %arg1 [#tssa.view<slice [0, 0, 2041, 1]>]
// CHECK: %[[Y:.*]] = tssa.aten "aten::linear"(%arg0, %[[W]], none) : {{.*}} -> tensor<1024x2048xbf16>
// CHECK: %[[P:.*]] = tssa.access %[[Y]] [#tssa.view<slice [1, 0, 2041, 1]>] : tensor<1024x2048xbf16> -> tensor<1024x2041xbf16, #tssa.strides<[2048, 1]>>
// CHECK: tssa.aten "aten::to.dtype"(%[[P]]
func.func @head(%x: tensor<1024x1024xbf16>, %w: tensor<2041x1024xbf16>) -> tensor<1024x2041xf32> {
  %0 = tssa.aten "aten::linear"(%x, %w, none) : (tensor<1024x1024xbf16>, tensor<2041x1024xbf16>) -> tensor<1024x2041xbf16>
  %1 = tssa.aten "aten::to.dtype"(%0, 6 : i64, false, false, none) : (tensor<1024x2041xbf16>) -> tensor<1024x2041xf32>
  return %1 : tensor<1024x2041xf32>
}

// Its gradients: what is padded once is summed over by the one matmul, and transposed for the other.
// CHECK-LABEL: func.func @gradients(
// CHECK: %[[G:.*]] = tssa.assign %{{.*}}, %arg0 [#tssa.view<slice [1, 0, 2041, 1]>]
// CHECK: %[[W:.*]] = tssa.assign %{{.*}}, %arg1 [#tssa.view<slice [0, 0, 2041, 1]>]
// CHECK: tssa.aten "aten::mm"(%[[G]], %[[W]]) : {{.*}} -> tensor<1024x1024xbf16>
// CHECK: %[[T:.*]] = tssa.access %[[G]] [#tssa.view<permute [1, 0]>]
// CHECK: %[[D:.*]] = tssa.aten "aten::mm"(%[[T]], %arg2) : {{.*}} -> tensor<2048x1024xbf16>
// CHECK: tssa.access %[[D]] [#tssa.view<slice [0, 0, 2041, 1]>] : tensor<2048x1024xbf16> -> tensor<2041x1024xbf16>
func.func @gradients(%g: tensor<1024x2041xbf16>, %w: tensor<2041x1024xbf16>, %x: tensor<1024x1024xbf16>) -> (tensor<1024x1024xf32>, tensor<2041x1024xf32>) {
  %0 = tssa.aten "aten::mm"(%g, %w) : (tensor<1024x2041xbf16>, tensor<2041x1024xbf16>) -> tensor<1024x1024xbf16>
  %1 = tssa.access %g [#tssa.view<permute [1, 0]>] : tensor<1024x2041xbf16> -> tensor<2041x1024xbf16, #tssa.strides<[1, 2041]>>
  %2 = tssa.aten "aten::mm"(%1, %x) : (tensor<2041x1024xbf16, #tssa.strides<[1, 2041]>>, tensor<1024x1024xbf16>) -> tensor<2041x1024xbf16>
  %3 = tssa.aten "aten::to.dtype"(%0, 6 : i64, false, false, none) : (tensor<1024x1024xbf16>) -> tensor<1024x1024xf32>
  %4 = tssa.aten "aten::to.dtype"(%2, 6 : i64, false, false, none) : (tensor<2041x1024xbf16>) -> tensor<2041x1024xf32>
  return %3, %4 : tensor<1024x1024xf32>, tensor<2041x1024xf32>
}

// A bias's gradient beside them reads the padded value: nobody keeps the other one.
// CHECK-LABEL: func.func @read_besides(
// CHECK: %[[V:.*]] = tssa.aten "aten::relu"(%arg0)
// CHECK: %[[G:.*]] = tssa.assign %{{.*}}, %[[V]] [#tssa.view<slice [1, 0, 2041, 1]>]
// CHECK: %[[P:.*]] = tssa.access %[[G]] [#tssa.view<slice [1, 0, 2041, 1]>] : {{.*}} -> tensor<1024x2041xbf16, #tssa.strides<[2048, 1]>>
// CHECK-DAG: tssa.aten "aten::sum.dim_IntList"(%[[P]],
// CHECK-DAG: tssa.aten "aten::mm"(%[[G]],
// CHECK: return
func.func @read_besides(%g: tensor<1024x2041xbf16>, %w: tensor<2041x1024xbf16>) -> (tensor<1024x1024xf32>, tensor<2041xbf16>) {
  %v = tssa.aten "aten::relu"(%g) : (tensor<1024x2041xbf16>) -> tensor<1024x2041xbf16>
  %s = tssa.aten "aten::sum.dim_IntList"(%v, [0 : i64], false, none) : (tensor<1024x2041xbf16>) -> tensor<2041xbf16>
  %0 = tssa.aten "aten::mm"(%v, %w) : (tensor<1024x2041xbf16>, tensor<2041x1024xbf16>) -> tensor<1024x1024xbf16>
  %1 = tssa.aten "aten::to.dtype"(%0, 6 : i64, false, false, none) : (tensor<1024x1024xbf16>) -> tensor<1024x1024xf32>
  return %1, %s : tensor<1024x1024xf32>, tensor<2041xbf16>
}

// Aligned already, small, of few rows, single precision, a parameter that lasts.
// CHECK-LABEL: func.func @kept(
// CHECK-NOT: tssa.assign
// CHECK: return
func.func @kept(%x: tensor<1024x1024xbf16>, %w: tensor<2048x1024xbf16>, %v: tensor<201x1024xbf16>, %few: tensor<8x1024xbf16>, %u: tensor<2041x1024xbf16>, %s: tensor<1024x1024xf32>, %t: tensor<2041x1024xf32>, %p: tensor<2041x1024xbf16> {pyjit.param}) -> (tensor<1024x2048xbf16>, tensor<1024x201xbf16>, tensor<8x2041xbf16>, tensor<1024x2041xf32>, tensor<1024x2041xbf16>) {
  %0 = tssa.aten "aten::linear"(%x, %w, none) : (tensor<1024x1024xbf16>, tensor<2048x1024xbf16>) -> tensor<1024x2048xbf16>
  %1 = tssa.aten "aten::linear"(%x, %v, none) : (tensor<1024x1024xbf16>, tensor<201x1024xbf16>) -> tensor<1024x201xbf16>
  %2 = tssa.aten "aten::linear"(%few, %u, none) : (tensor<8x1024xbf16>, tensor<2041x1024xbf16>) -> tensor<8x2041xbf16>
  %3 = tssa.aten "aten::linear"(%s, %t, none) : (tensor<1024x1024xf32>, tensor<2041x1024xf32>) -> tensor<1024x2041xf32>
  %4 = tssa.aten "aten::linear"(%x, %p, none) : (tensor<1024x1024xbf16>, tensor<2041x1024xbf16>) -> tensor<1024x2041xbf16>
  return %0, %1, %2, %3, %4 : tensor<1024x2048xbf16>, tensor<1024x201xbf16>, tensor<8x2041xbf16>, tensor<1024x2041xf32>, tensor<1024x2041xbf16>
}

// Who returns it has to return it as it is.
// CHECK-LABEL: func.func @returned(
// CHECK-NOT: tssa.assign
// CHECK: return
func.func @returned(%x: tensor<1024x1024xbf16>, %w: tensor<2041x1024xbf16>) -> tensor<1024x2041xbf16> {
  %0 = tssa.aten "aten::linear"(%x, %w, none) : (tensor<1024x1024xbf16>, tensor<2041x1024xbf16>) -> tensor<1024x2041xbf16>
  return %0 : tensor<1024x2041xbf16>
}
