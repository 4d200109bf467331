// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --tssa-differentiate -split-input-file | FileCheck %s

// In training mode, gradients flow through the normalised images alone; what is
// saved of the batch is read by the library's backward.
// CHECK-LABEL: func.func @training(
// CHECK-SAME:    %[[X:[^:]*]]: tensor<6x4xf32>, %[[W:[^:]*]]: tensor<4xf32>, %{{[^:]*}}: tensor<4xf32>, %{{[^:]*}}: tensor<4xf32>, %[[G:[^:]*]]: tensor<6x4xf32>
// CHECK:         %[[R:.*]]:5 = tssa.aten "aten::_native_batch_norm_legit_functional"
// CHECK:         %[[B:.*]]:3 = tssa.aten "aten::native_batch_norm_backward"(%[[G]], %[[X]], %[[W]], none, none, %[[R]]#1, %[[R]]#2, true, 1.000000e-05 : f64, [true, true, false])
// CHECK:         return %[[R]]#0, %[[R]]#3, %[[R]]#4, %[[B]]#0, %[[B]]#1
func.func @training(%x: tensor<6x4xf32>, %w: tensor<4xf32>, %m: tensor<4xf32>, %v: tensor<4xf32>) -> (tensor<6x4xf32>, tensor<4xf32>, tensor<4xf32>)
    attributes {pyjit.gradient_inputs = array<i64: 0, 1>, pyjit.gradient_results = array<i64: 0>} {
  %r:5 = tssa.aten "aten::_native_batch_norm_legit_functional"(%x, %w, none, %m, %v, true, 1.0e-01 : f64, 1.0e-05 : f64) : (tensor<6x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<6x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
  return %r#0, %r#3, %r#4 : tensor<6x4xf32>, tensor<4xf32>, tensor<4xf32>
}
