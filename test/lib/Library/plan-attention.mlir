// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --library-plan-attention | FileCheck %s
// RUN: pyjit-opt %s --library-plan-attention=columns=0 | FileCheck %s --check-prefix=VENDOR

// CHECK-LABEL: func.func @attention
// CHECK: %[[T:.*]] = tssa.access %arg1 [#tssa.view<permute [0, 1, 3, 2]>]
// CHECK: %[[S:.*]] = tssa.aten "aten::matmul"(%arg0, %[[T]]) {{.*}} -> tensor<1x2x32x16xf32>
// CHECK: %[[M:.*]] = tssa.aten "aten::mul.Tensor"(%[[S]], wrapped(2.500000e-01 : f64))
// CHECK: %[[P:.*]] = tssa.aten "aten::softmax.int"(%[[M]], -1 : i64, none)
// CHECK: tssa.aten "aten::matmul"(%[[P]], %arg2)
// VENDOR-LABEL: func.func @attention
// VENDOR: aten::scaled_dot_product_attention
func.func @attention(%q: tensor<1x2x32x16xf32>, %k: tensor<1x2x16x16xf32>, %v: tensor<1x2x16x16xf32>) -> tensor<1x2x32x16xf32> {
  %0 = tssa.aten "aten::scaled_dot_product_attention"(%q, %k, %v, none, 0.000000e+00 : f64, false, none, false) : (tensor<1x2x32x16xf32>, tensor<1x2x16x16xf32>, tensor<1x2x16x16xf32>) -> tensor<1x2x32x16xf32>
  return %0 : tensor<1x2x32x16xf32>
}

// Three keys of zeros behind 37, whose scores nobody reads.
// CHECK-LABEL: func.func @odd_keys
// CHECK: %[[K:.*]] = tssa.aten "aten::constant_pad_nd"(%arg1, [0 : i64, 0 : i64, 0 : i64, 3 : i64], 0.000000e+00 : f64) {{.*}} -> tensor<1x2x40x16xf32>
// CHECK: tssa.aten "aten::matmul"({{.*}} -> tensor<1x2x37x40xf32>
// CHECK: tssa.access {{.*}} [#tssa.view<slice [3, 0, 37, 1]>]
// CHECK: tssa.aten "aten::softmax.int"({{.*}} -> tensor<1x2x37x37xf32>
func.func @odd_keys(%q: tensor<1x2x37x16xf32>, %k: tensor<1x2x37x16xf32>, %v: tensor<1x2x37x16xf32>) -> tensor<1x2x37x16xf32> {
  %0 = tssa.aten "aten::scaled_dot_product_attention"(%q, %k, %v, none, 0.000000e+00 : f64, false, 5.000000e-01 : f64, false) : (tensor<1x2x37x16xf32>, tensor<1x2x37x16xf32>, tensor<1x2x37x16xf32>) -> tensor<1x2x37x16xf32>
  return %0 : tensor<1x2x37x16xf32>
}

// Few queries, a mask of the future, dropout.
// CHECK-LABEL: func.func @stay
// CHECK-COUNT-3: aten::scaled_dot_product_attention
func.func @stay(%q: tensor<1x2x8x16xf32>, %k: tensor<1x2x32x16xf32>) -> (tensor<1x2x8x16xf32>, tensor<1x2x32x16xf32>, tensor<1x2x32x16xf32>) {
  %0 = tssa.aten "aten::scaled_dot_product_attention"(%q, %k, %k, none, 0.000000e+00 : f64, false, none, false) : (tensor<1x2x8x16xf32>, tensor<1x2x32x16xf32>, tensor<1x2x32x16xf32>) -> tensor<1x2x8x16xf32>
  %1 = tssa.aten "aten::scaled_dot_product_attention"(%k, %k, %k, none, 0.000000e+00 : f64, true, none, false) : (tensor<1x2x32x16xf32>, tensor<1x2x32x16xf32>, tensor<1x2x32x16xf32>) -> tensor<1x2x32x16xf32>
  %2 = tssa.aten "aten::scaled_dot_product_attention"(%k, %k, %k, none, 1.000000e-01 : f64, false, none, false) : (tensor<1x2x32x16xf32>, tensor<1x2x32x16xf32>, tensor<1x2x32x16xf32>) -> tensor<1x2x32x16xf32>
  return %0, %1, %2 : tensor<1x2x8x16xf32>, tensor<1x2x32x16xf32>, tensor<1x2x32x16xf32>
}

// A layer that normalizes behind, whose attention is written out in turn.
// VENDOR-LABEL: func.func @layer
// VENDOR: aten::linear
// VENDOR-COUNT-3: #tssa.view<select
// VENDOR: aten::scaled_dot_product_attention
// VENDOR: aten::linear
// VENDOR: aten::add.Tensor
// VENDOR: aten::layer_norm
// VENDOR: aten::linear
// VENDOR: aten::relu
// VENDOR: aten::linear
// VENDOR: aten::add.Tensor
// VENDOR: aten::layer_norm
// VENDOR-NOT: _transformer_encoder_layer_fwd
// CHECK-LABEL: func.func @layer
// CHECK: aten::softmax
func.func @layer(%x: tensor<2x32x16xf32>, %qkv: tensor<48x16xf32>, %qkvb: tensor<48xf32>, %p: tensor<16x16xf32>, %b: tensor<16xf32>, %f1: tensor<24x16xf32>, %fb: tensor<24xf32>, %f2: tensor<16x24xf32>) -> tensor<2x32x16xf32> {
  %0 = tssa.aten "aten::_transformer_encoder_layer_fwd"(%x, 16 : i64, 2 : i64, %qkv, %qkvb, %p, %b, false, false, 1.000000e-05 : f64, %b, %b, %b, %b, %f1, %fb, %f2, %b, none, none) : (tensor<2x32x16xf32>, tensor<48x16xf32>, tensor<48xf32>, tensor<16x16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<24x16xf32>, tensor<24xf32>, tensor<16x24xf32>, tensor<16xf32>) -> tensor<2x32x16xf32>
  return %0 : tensor<2x32x16xf32>
}
