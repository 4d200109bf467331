// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --library-plan-losses | FileCheck %s

// The chosen value is read from what was converted, not from the conversion.
// CHECK-LABEL: func.func @cross_entropy(
// CHECK: %[[M:.*]] = tssa.aten "aten::amax"
// CHECK: %[[L:.*]] = tssa.aten "aten::log"
// CHECK: %[[U:.*]] = tssa.aten "aten::eq.Scalar"(%arg1, -100 : i64)
// CHECK: %[[I:.*]] = tssa.aten "aten::masked_fill.Scalar"(%arg1, %[[U]], 0 : i64)
// CHECK: tssa.aten "aten::gather"(%arg0, 1 : i64, %{{.*}}, false) : (tensor<6x9xf16>, tensor<6x1xi64>) -> tensor<6x1xf16>
// CHECK: tssa.aten "aten::div.Tensor"
// CHECK-NOT: nll_loss
// CHECK: return
func.func @cross_entropy(%x: tensor<6x9xf16>, %t: tensor<6xi64>) -> tensor<f32> {
  %0 = tssa.aten "aten::_to_copy"(%x, 6 : i64, none, none, none, false, none) : (tensor<6x9xf16>) -> tensor<6x9xf32>
  %1 = tssa.aten "aten::log_softmax.int"(%0, 1 : i64, 6 : i64) : (tensor<6x9xf32>) -> tensor<6x9xf32>
  %2:2 = tssa.aten "aten::nll_loss_forward"(%1, %t, none, 1 : i64, -100 : i64) : (tensor<6x9xf32>, tensor<6xi64>) -> (tensor<f32>, tensor<f32>)
  return %2#0 : tensor<f32>
}

// The softmax is used elsewhere; the sum of the weights is.
// CHECK-LABEL: func.func @kept(
// CHECK-COUNT-2: aten::nll_loss_forward
// CHECK: return
func.func @kept(%x: tensor<6x9xf32>, %t: tensor<6xi64>) -> (tensor<6x9xf32>, tensor<f32>, tensor<f32>) {
  %1 = tssa.aten "aten::log_softmax.int"(%x, 1 : i64, none) : (tensor<6x9xf32>) -> tensor<6x9xf32>
  %2:2 = tssa.aten "aten::nll_loss_forward"(%1, %t, none, 1 : i64, -100 : i64) : (tensor<6x9xf32>, tensor<6xi64>) -> (tensor<f32>, tensor<f32>)
  %3 = tssa.aten "aten::log_softmax.int"(%x, 1 : i64, none) : (tensor<6x9xf32>) -> tensor<6x9xf32>
  %4:2 = tssa.aten "aten::nll_loss_forward"(%3, %t, none, 2 : i64, -100 : i64) : (tensor<6x9xf32>, tensor<6xi64>) -> (tensor<f32>, tensor<f32>)
  return %1, %2#0, %4#1 : tensor<6x9xf32>, tensor<f32>, tensor<f32>
}
