// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --library-plan-matvecs="parameters-only=true min-bytes=1024 explain=true" -verify-diagnostics | FileCheck %s

// As on a CPU: what is left to `library-plan-matmuls` stays a call.

// CHECK-LABEL: func.func @parameter
// CHECK-NOT: aten::linear
// CHECK: linalg.generic
func.func @parameter(%x: tensor<1x16xf32>, %w: tensor<16x16xf32> {pyjit.param}) -> tensor<1x16xf32> {
  %0 = tssa.aten "aten::linear"(%x, %w, none) : (tensor<1x16xf32>, tensor<16x16xf32>) -> tensor<1x16xf32>
  return %0 : tensor<1x16xf32>
}

// CHECK-LABEL: func.func @small
func.func @small(%x: tensor<1x8xf32>, %w: tensor<16x8xf32> {pyjit.param}) -> tensor<1x16xf32> {
  // expected-remark @below {{stays a vendor call: its weight is small}}
  %0 = tssa.aten "aten::linear"(%x, %w, none) : (tensor<1x8xf32>, tensor<16x8xf32>) -> tensor<1x16xf32>
  return %0 : tensor<1x16xf32>
}

// Nobody packs weights of 16 bits.
// CHECK-LABEL: func.func @small_halves
// CHECK: linalg.generic
func.func @small_halves(%x: tensor<1x8xbf16>, %w: tensor<16x8xbf16> {pyjit.param}) -> tensor<1x16xbf16> {
  %0 = tssa.aten "aten::linear"(%x, %w, none) : (tensor<1x8xbf16>, tensor<16x8xbf16>) -> tensor<1x16xbf16>
  return %0 : tensor<1x16xbf16>
}

// CHECK-LABEL: func.func @activations
func.func @activations(%x: tensor<1x16xf32>, %w: tensor<16x16xf32>) -> tensor<1x16xf32> {
  // expected-remark @below {{stays a vendor call: its weight is no parameter}}
  %0 = tssa.aten "aten::mm"(%x, %w) : (tensor<1x16xf32>, tensor<16x16xf32>) -> tensor<1x16xf32>
  return %0 : tensor<1x16xf32>
}
