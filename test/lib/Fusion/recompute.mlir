// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --convert-tssa-to-linalg --cse --fusion-outline | FileCheck %s

// Both sums go over one operand in one walk, and convert it themselves.
// CHECK-LABEL: func.func @siblings
// CHECK-NEXT: %[[S:.*]]:2 = call @{{.*}}(%arg0, %arg1) : (tensor<512x64xbf16>, tensor<512x64xf32>) -> (tensor<64xf32>, tensor<64xf32>)
// CHECK-NEXT: return %[[S]]#0, %[[S]]#1
func.func @siblings(%x: tensor<512x64xbf16>, %y: tensor<512x64xf32>) -> (tensor<64xf32>, tensor<64xf32>) {
  %0 = tssa.aten "aten::to.dtype"(%x, 6 : i64, false, false, none) : (tensor<512x64xbf16>) -> tensor<512x64xf32>
  %1 = tssa.aten "aten::sum.dim_IntList"(%0, [0 : i64], false, none) : (tensor<512x64xf32>) -> tensor<64xf32>
  %2 = tssa.aten "aten::mul.Tensor"(%0, %y) : (tensor<512x64xf32>, tensor<512x64xf32>) -> tensor<512x64xf32>
  %3 = tssa.aten "aten::sum.dim_IntList"(%2, [0 : i64], false, none) : (tensor<512x64xf32>) -> tensor<64xf32>
  return %1, %3 : tensor<64xf32>, tensor<64xf32>
}

// Sums of columns and of rows are two walks, which convert the operand both.
// CHECK-LABEL: func.func @again
// CHECK-NEXT: call @{{.*}}(%arg0) : (tensor<512x64xbf16>) -> tensor<64xf32>
// CHECK-NEXT: call @{{.*}}(%arg0) : (tensor<512x64xbf16>) -> tensor<512xf32>
// CHECK-NEXT: return
func.func @again(%x: tensor<512x64xbf16>) -> (tensor<64xf32>, tensor<512xf32>) {
  %0 = tssa.aten "aten::to.dtype"(%x, 6 : i64, false, false, none) : (tensor<512x64xbf16>) -> tensor<512x64xf32>
  %1 = tssa.aten "aten::sum.dim_IntList"(%0, [0 : i64], false, none) : (tensor<512x64xf32>) -> tensor<64xf32>
  %2 = tssa.aten "aten::sum.dim_IntList"(%0, [1 : i64], false, none) : (tensor<512x64xf32>) -> tensor<512xf32>
  return %1, %2 : tensor<64xf32>, tensor<512xf32>
}

// What is expensive is stored, in the half precision that it has on the way.
// CHECK-LABEL: func.func @narrow
// CHECK-NEXT: %[[Y:.*]] = call @{{.*}}(%arg0) : (tensor<512x64xbf16>) -> tensor<512x64xbf16>
// CHECK-NEXT: call @{{.*}}(%[[Y]]) : (tensor<512x64xbf16>) -> tensor<64xf32>
// CHECK-NEXT: call @{{.*}}(%[[Y]]) : (tensor<512x64xbf16>) -> tensor<512xf32>
// CHECK-NEXT: return
func.func @narrow(%x: tensor<512x64xbf16>) -> (tensor<64xf32>, tensor<512xf32>) {
  %e = tssa.aten "aten::exp"(%x) : (tensor<512x64xbf16>) -> tensor<512x64xbf16>
  %0 = tssa.aten "aten::to.dtype"(%e, 6 : i64, false, false, none) : (tensor<512x64xbf16>) -> tensor<512x64xf32>
  %1 = tssa.aten "aten::sum.dim_IntList"(%0, [0 : i64], false, none) : (tensor<512x64xf32>) -> tensor<64xf32>
  %2 = tssa.aten "aten::sum.dim_IntList"(%0, [1 : i64], false, none) : (tensor<512x64xf32>) -> tensor<512xf32>
  return %1, %2 : tensor<64xf32>, tensor<512xf32>
}

// Many operands would be read again: the sum of four is stored.
// CHECK-LABEL: func.func @stored
// CHECK-NEXT: %[[Y:.*]] = call @{{.*}}(%arg0, %arg1, %arg2, %arg3)
// CHECK-NEXT: call @{{.*}}(%[[Y]])
// CHECK-NEXT: call @{{.*}}(%[[Y]])
// CHECK-NEXT: return
func.func @stored(%a: tensor<512x64xf32>, %b: tensor<512x64xf32>, %c: tensor<512x64xf32>, %d: tensor<512x64xf32>) -> (tensor<64xf32>, tensor<512xf32>) {
  %0 = tssa.aten "aten::add.Tensor"(%a, %b, 1 : i64) : (tensor<512x64xf32>, tensor<512x64xf32>) -> tensor<512x64xf32>
  %1 = tssa.aten "aten::add.Tensor"(%c, %d, 1 : i64) : (tensor<512x64xf32>, tensor<512x64xf32>) -> tensor<512x64xf32>
  %2 = tssa.aten "aten::add.Tensor"(%0, %1, 1 : i64) : (tensor<512x64xf32>, tensor<512x64xf32>) -> tensor<512x64xf32>
  %3 = tssa.aten "aten::sum.dim_IntList"(%2, [0 : i64], false, none) : (tensor<512x64xf32>) -> tensor<64xf32>
  %4 = tssa.aten "aten::sum.dim_IntList"(%2, [1 : i64], false, none) : (tensor<512x64xf32>) -> tensor<512xf32>
  return %3, %4 : tensor<64xf32>, tensor<512xf32>
}
