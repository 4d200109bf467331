// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --pyjit-library | pyjit-opt --pyjit-fuse | FileCheck %s

// What only a reduction reads is computed in its kernel, from the value that is stored anyway: no kernel stores the
// squares.
// CHECK-LABEL: func.func @squares
// CHECK-NEXT: %[[Y:.*]] = call @kernel_0(%arg0) : (tensor<64x32xf32>) -> tensor<64x32xf32>
// CHECK-NEXT: %[[S:.*]] = call @kernel_1(%[[Y]]) : (tensor<64x32xf32>) -> tensor<64xf32>
// CHECK-NEXT: return %[[S]], %[[Y]]
func.func @squares(%x: tensor<64x32xf32>) -> (tensor<64xf32>, tensor<64x32xf32>) {
  %0 = tssa.aten "aten::exp"(%x) : (tensor<64x32xf32>) -> tensor<64x32xf32>
  %1 = tssa.aten "aten::mul.Tensor"(%0, %0) : (tensor<64x32xf32>, tensor<64x32xf32>) -> tensor<64x32xf32>
  %2 = tssa.aten "aten::sum.dim_IntList"(%1, [1 : i64], false, none) : (tensor<64x32xf32>) -> tensor<64xf32>
  return %2, %0 : tensor<64xf32>, tensor<64x32xf32>
}

// Through conversions, and with what else is multiplied.
// CHECK-LABEL: func.func @converted
// CHECK-NEXT: %[[Y:.*]] = call @kernel_2(%arg0) : (tensor<64x32xf16>) -> tensor<64x32xf16>
// CHECK-NEXT: %[[S:.*]] = call @kernel_3(%arg1, %[[Y]]) : (tensor<64x32xf16>, tensor<64x32xf16>) -> tensor<64xf32>
// CHECK-NEXT: return %[[S]], %[[Y]]
func.func @converted(%x: tensor<64x32xf16>, %w: tensor<64x32xf16>) -> (tensor<64xf32>, tensor<64x32xf16>) {
  %0 = tssa.aten "aten::exp"(%x) : (tensor<64x32xf16>) -> tensor<64x32xf16>
  %1 = tssa.aten "aten::to.dtype"(%w, 6 : i64, false, false, none) : (tensor<64x32xf16>) -> tensor<64x32xf32>
  %2 = tssa.aten "aten::to.dtype"(%0, 6 : i64, false, false, none) : (tensor<64x32xf16>) -> tensor<64x32xf32>
  %3 = tssa.aten "aten::mul.Tensor"(%1, %2) : (tensor<64x32xf32>, tensor<64x32xf32>) -> tensor<64x32xf32>
  %4 = tssa.aten "aten::sum.dim_IntList"(%3, [1 : i64], false, none) : (tensor<64x32xf32>) -> tensor<64xf32>
  return %4, %0 : tensor<64xf32>, tensor<64x32xf16>
}
