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

// Autocast's logarithms: f32 of what is half precision.
// CHECK-LABEL: func.func @autocast(
// CHECK: %[[W:.*]] = tssa.aten "aten::{{.*}}"(%arg0{{.*}} -> tensor<6x9xf32>
// CHECK: tssa.aten "aten::amax"(%[[W]],
// CHECK: tssa.aten "aten::gather"(%arg0,
// CHECK-NOT: log_softmax
// CHECK: return
func.func @autocast(%x: tensor<6x9xbf16>, %t: tensor<6xi64>) -> tensor<f32> {
  %0 = tssa.aten "aten::log_softmax.int"(%x, 1 : i64, 6 : i64) : (tensor<6x9xbf16>) -> tensor<6x9xf32>
  %1:2 = tssa.aten "aten::nll_loss_forward"(%0, %t, none, 1 : i64, -100 : i64) : (tensor<6x9xf32>, tensor<6xi64>) -> (tensor<f32>, tensor<f32>)
  return %1#0 : tensor<f32>
}

// In training: the logarithms of a gradient follow from the row's numbers, too; the gradient is a number at the class
// of each row, and its sum is that number.
// CHECK-LABEL: func.func @training(
// CHECK: %[[R:.*]] = tssa.aten "aten::sub.Tensor"(%arg0,
// CHECK: %[[N:.*]] = tssa.aten "aten::log"
// CHECK: %[[L:.*]] = tssa.aten "aten::sub.Tensor"(%[[R]], %[[N]], 1 : i64)
// CHECK: linalg.index 0
// CHECK: %[[C:.*]] = tssa.aten "aten::eq.Tensor"
// CHECK: tssa.aten "aten::where.ScalarOther"(%[[C]], %{{.*}}, 0.000000e+00 : f64)
// CHECK: tssa.aten "aten::exp"(%[[L]])
// CHECK-NOT: nll_loss
// CHECK-NOT: aten::log_softmax
// CHECK: return
func.func @training(%x: tensor<6x9xf32>, %t: tensor<6xi64>, %g: tensor<f32>) -> (tensor<f32>, tensor<6x9xf32>) {
  %1 = tssa.aten "aten::log_softmax.int"(%x, 1 : i64, none) : (tensor<6x9xf32>) -> tensor<6x9xf32>
  %2:2 = tssa.aten "aten::nll_loss_forward"(%1, %t, none, 1 : i64, -100 : i64) : (tensor<6x9xf32>, tensor<6xi64>) -> (tensor<f32>, tensor<f32>)
  %3 = tssa.aten "aten::nll_loss_backward"(%g, %1, %t, none, 1 : i64, -100 : i64, %2#1) : (tensor<f32>, tensor<6x9xf32>, tensor<6xi64>, tensor<f32>) -> tensor<6x9xf32>
  %4 = tssa.aten "aten::exp"(%1) : (tensor<6x9xf32>) -> tensor<6x9xf32>
  %5 = tssa.aten "aten::sum.dim_IntList"(%3, [1 : i64], true, none) : (tensor<6x9xf32>) -> tensor<6x1xf32>
  %6 = tssa.aten "aten::mul.Tensor"(%4, %5) : (tensor<6x9xf32>, tensor<6x1xf32>) -> tensor<6x9xf32>
  %7 = tssa.aten "aten::sub.Tensor"(%3, %6, 1 : i64) : (tensor<6x9xf32>, tensor<6x9xf32>) -> tensor<6x9xf32>
  return %2#0, %7 : tensor<f32>, tensor<6x9xf32>
}

// Weights of classes; what is no softmax; the sum of weights that no reduction needs.
// CHECK-LABEL: func.func @kept(
// CHECK-COUNT-3: aten::nll_loss_forward
// CHECK: aten::nll_loss_backward
// CHECK: return
func.func @kept(%x: tensor<6x9xf32>, %t: tensor<6xi64>, %w: tensor<9xf32>, %g: tensor<f32>) -> (tensor<f32>, tensor<f32>, tensor<6xf32>, tensor<f32>, tensor<6x9xf32>) {
  %1 = tssa.aten "aten::log_softmax.int"(%x, 1 : i64, none) : (tensor<6x9xf32>) -> tensor<6x9xf32>
  %2:2 = tssa.aten "aten::nll_loss_forward"(%1, %t, %w, 1 : i64, -100 : i64) : (tensor<6x9xf32>, tensor<6xi64>, tensor<9xf32>) -> (tensor<f32>, tensor<f32>)
  %3:2 = tssa.aten "aten::nll_loss_forward"(%x, %t, none, 1 : i64, -100 : i64) : (tensor<6x9xf32>, tensor<6xi64>) -> (tensor<f32>, tensor<f32>)
  %4:2 = tssa.aten "aten::nll_loss_forward"(%1, %t, none, 0 : i64, -100 : i64) : (tensor<6x9xf32>, tensor<6xi64>) -> (tensor<6xf32>, tensor<f32>)
  %5 = tssa.aten "aten::nll_loss_backward"(%g, %1, %t, %w, 1 : i64, -100 : i64, %2#1) : (tensor<f32>, tensor<6x9xf32>, tensor<6xi64>, tensor<9xf32>, tensor<f32>) -> tensor<6x9xf32>
  return %2#0, %3#0, %4#0, %4#1, %5 : tensor<f32>, tensor<f32>, tensor<6xf32>, tensor<f32>, tensor<6x9xf32>
}

// Which class is ignored differs between calls.
// CHECK-LABEL: func.func @ignored_size(
// CHECK: aten::nll_loss_forward"(%{{.*}}, %{{.*}}, none, 1 : i64, #{{.*}})
// CHECK: return
func.func @ignored_size(%x: tensor<6x9xf32>, %t: tensor<6xi64>, %n: tensor<i64>) -> tensor<f32>
    attributes {pyjit.symbols = [array<i64: 2, -1>]} {
  %0 = tssa.aten "aten::log_softmax.int"(%x, 1 : i64, none) : (tensor<6x9xf32>) -> tensor<6x9xf32>
  %1:2 = tssa.aten "aten::nll_loss_forward"(%0, %t, none, 1 : i64, affine_map<()[s0] -> (s0)>) : (tensor<6x9xf32>, tensor<6xi64>) -> (tensor<f32>, tensor<f32>)
  return %1#0 : tensor<f32>
}
