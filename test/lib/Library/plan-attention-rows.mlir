// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --library-plan-attention-rows | FileCheck %s

// Two heads of queries share one of keys, which no call repeats. Sums are of f32.
// CHECK-LABEL: func.func @grouped
// CHECK: tssa.access %arg0 [#tssa.view<view [2, 2, 2, 1, 1, 8]>]
// CHECK: tssa.access %arg1 [#tssa.view<unsqueeze [2]>]
// CHECK: "aten::mul.Tensor"{{.*}} -> tensor<2x2x2x1x?x8xf32
// CHECK: "aten::sum.dim_IntList"{{.*}} -> tensor<2x2x2x1x?xf32
// CHECK: "aten::mul.Tensor"{{.*}} wrapped(5.000000e-01 : f64)
// CHECK: "aten::softmax.int"
// CHECK: "aten::mul.Tensor"{{.*}} -> tensor<2x2x2x1x?x8xf32
// CHECK: "aten::sum.dim_IntList"{{.*}} -> tensor<2x2x2x1x8xf32>
// CHECK: "aten::to.dtype"{{.*}} -> tensor<2x2x2x1x8xf16, #tssa.strides<[32, 16, 8, 32, 1]>>
// CHECK-NOT: scaled_dot_product_attention
func.func @grouped(%q: tensor<2x4x1x8xf16, #tssa.strides<[32, 8, 32, 1]>>, %k: tensor<2x2x?x8xf16, #tssa.layout<[2, 2, s0, 8], [s0 * 16, s0 * 8, 8, 1]>>) -> tensor<2x4x1x8xf16, #tssa.strides<[32, 8, 32, 1]>> {
  %0 = tssa.aten "aten::scaled_dot_product_attention"(%q, %k, %k, none, 0.000000e+00 : f64, false, 5.000000e-01 : f64, true) : (tensor<2x4x1x8xf16, #tssa.strides<[32, 8, 32, 1]>>, tensor<2x2x?x8xf16, #tssa.layout<[2, 2, s0, 8], [s0 * 16, s0 * 8, 8, 1]>>, tensor<2x2x?x8xf16, #tssa.layout<[2, 2, s0, 8], [s0 * 16, s0 * 8, 8, 1]>>) -> tensor<2x4x1x8xf16, #tssa.strides<[32, 8, 32, 1]>>
  return %0 : tensor<2x4x1x8xf16, #tssa.strides<[32, 8, 32, 1]>>
}

// A query that sees no key gets zeros.
// CHECK-LABEL: func.func @masked
// CHECK: "aten::logical_not"
// CHECK: "aten::masked_fill.Scalar"{{.*}}0xFFF0000000000000
// CHECK: "aten::amax"
// CHECK: "aten::eq.Scalar"
// CHECK: "aten::softmax.int"
// CHECK: "aten::masked_fill.Scalar"{{.*}}0.000000e+00
func.func @masked(%q: tensor<2x4x1x8xf16, #tssa.strides<[32, 8, 32, 1]>>, %k: tensor<2x2x?x8xf16, #tssa.layout<[2, 2, s0, 8], [s0 * 16, s0 * 8, 8, 1]>>, %m: tensor<2x1x1x?xi1, #tssa.layout<[2, 1, 1, s0], [s0, s0, s0, 1]>>) -> tensor<2x4x1x8xf16, #tssa.strides<[32, 8, 32, 1]>> {
  %0 = tssa.aten "aten::scaled_dot_product_attention"(%q, %k, %k, %m, 0.000000e+00 : f64, false, none, true) : (tensor<2x4x1x8xf16, #tssa.strides<[32, 8, 32, 1]>>, tensor<2x2x?x8xf16, #tssa.layout<[2, 2, s0, 8], [s0 * 16, s0 * 8, 8, 1]>>, tensor<2x2x?x8xf16, #tssa.layout<[2, 2, s0, 8], [s0 * 16, s0 * 8, 8, 1]>>, tensor<2x1x1x?xi1, #tssa.layout<[2, 1, 1, s0], [s0, s0, s0, 1]>>) -> tensor<2x4x1x8xf16, #tssa.strides<[32, 8, 32, 1]>>
  return %0 : tensor<2x4x1x8xf16, #tssa.strides<[32, 8, 32, 1]>>
}

// Another mask for each head, of keys of its own: a bias for each distance.
// CHECK-LABEL: func.func @biases
// CHECK: %[[M:.*]] = tssa.access %arg2 [#tssa.view<unsqueeze [2]>]
// CHECK: "aten::add.Tensor"(%{{.*}}, %[[M]], 1 : i64) {{.*}} -> tensor<2x4x1x1x?xf32
// CHECK-NOT: scaled_dot_product_attention
// CHECK: return
func.func @biases(%q: tensor<2x4x1x8xf32>, %k: tensor<2x4x?x8xf32, #tssa.layout<[2, 4, s0, 8], [s0 * 32, s0 * 8, 8, 1]>>, %m: tensor<2x4x1x?xf32, #tssa.layout<[2, 4, 1, s0], [4, 1, s0 * 4, 4]>>) -> tensor<2x4x1x8xf32> {
  %0 = tssa.aten "aten::scaled_dot_product_attention"(%q, %k, %k, %m, 0.000000e+00 : f64, false, none, false) : (tensor<2x4x1x8xf32>, tensor<2x4x?x8xf32, #tssa.layout<[2, 4, s0, 8], [s0 * 32, s0 * 8, 8, 1]>>, tensor<2x4x?x8xf32, #tssa.layout<[2, 4, s0, 8], [s0 * 32, s0 * 8, 8, 1]>>, tensor<2x4x1x?xf32, #tssa.layout<[2, 4, 1, s0], [4, 1, s0 * 4, 4]>>) -> tensor<2x4x1x8xf32>
  return %0 : tensor<2x4x1x8xf32>
}

// Another mask for each of the heads that share keys, a mask of the future; a number of keys that is the same in all
// calls; many queries.
// CHECK-LABEL: func.func @stay
// CHECK-COUNT-2: aten::scaled_dot_product_attention
// CHECK-LABEL: func.func @known_keys
// CHECK: aten::scaled_dot_product_attention
// CHECK-LABEL: func.func @many_queries
// CHECK: aten::scaled_dot_product_attention
func.func @stay(%q: tensor<2x4x1x8xf32>, %k: tensor<2x4x?x8xf32, #tssa.layout<[2, 4, s0, 8], [s0 * 32, s0 * 8, 8, 1]>>, %g: tensor<2x2x?x8xf32, #tssa.layout<[2, 2, s0, 8], [s0 * 16, s0 * 8, 8, 1]>>, %m: tensor<2x4x1x?xf32, #tssa.layout<[2, 4, 1, s0], [4, 1, s0 * 4, 4]>>) -> (tensor<2x4x1x8xf32>, tensor<2x4x1x8xf32>) {
  %0 = tssa.aten "aten::scaled_dot_product_attention"(%q, %g, %g, %m, 0.000000e+00 : f64, false, none, true) : (tensor<2x4x1x8xf32>, tensor<2x2x?x8xf32, #tssa.layout<[2, 2, s0, 8], [s0 * 16, s0 * 8, 8, 1]>>, tensor<2x2x?x8xf32, #tssa.layout<[2, 2, s0, 8], [s0 * 16, s0 * 8, 8, 1]>>, tensor<2x4x1x?xf32, #tssa.layout<[2, 4, 1, s0], [4, 1, s0 * 4, 4]>>) -> tensor<2x4x1x8xf32>
  %1 = tssa.aten "aten::scaled_dot_product_attention"(%q, %k, %k, none, 0.000000e+00 : f64, true, none, false) : (tensor<2x4x1x8xf32>, tensor<2x4x?x8xf32, #tssa.layout<[2, 4, s0, 8], [s0 * 32, s0 * 8, 8, 1]>>, tensor<2x4x?x8xf32, #tssa.layout<[2, 4, s0, 8], [s0 * 32, s0 * 8, 8, 1]>>) -> tensor<2x4x1x8xf32>
  return %0, %1 : tensor<2x4x1x8xf32>, tensor<2x4x1x8xf32>
}
func.func @known_keys(%q: tensor<2x4x1x8xf32>, %k: tensor<2x4x9x8xf32>) -> tensor<2x4x1x8xf32> {
  %0 = tssa.aten "aten::scaled_dot_product_attention"(%q, %k, %k, none, 0.000000e+00 : f64, false, none, false) : (tensor<2x4x1x8xf32>, tensor<2x4x9x8xf32>, tensor<2x4x9x8xf32>) -> tensor<2x4x1x8xf32>
  return %0 : tensor<2x4x1x8xf32>
}
func.func @many_queries(%q: tensor<2x4x5x8xf32>, %k: tensor<2x4x?x8xf32, #tssa.layout<[2, 4, s0, 8], [s0 * 32, s0 * 8, 8, 1]>>) -> tensor<2x4x5x8xf32> {
  %0 = tssa.aten "aten::scaled_dot_product_attention"(%q, %k, %k, none, 0.000000e+00 : f64, false, none, false) : (tensor<2x4x5x8xf32>, tensor<2x4x?x8xf32, #tssa.layout<[2, 4, s0, 8], [s0 * 32, s0 * 8, 8, 1]>>, tensor<2x4x?x8xf32, #tssa.layout<[2, 4, s0, 8], [s0 * 32, s0 * 8, 8, 1]>>) -> tensor<2x4x5x8xf32>
  return %0 : tensor<2x4x5x8xf32>
}
