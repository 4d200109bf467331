// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --library-plan-matvecs="max-rows=16 explain=true" -verify-diagnostics | FileCheck %s

// A weight that lies turned is as good: what counts is that the sum lies along memory.
// CHECK-LABEL: func.func @turned
// CHECK: linalg.generic
// CHECK-NOT: aten::mm
#turned = #tssa.strides<[1, 64]>
func.func @turned(%x: tensor<16x64xbf16>, %w: tensor<64x48xbf16, #turned>) -> tensor<16x48xbf16> {
  %0 = tssa.aten "aten::mm"(%x, %w) : (tensor<16x64xbf16>, tensor<64x48xbf16, #turned>) -> tensor<16x48xbf16>
  return %0 : tensor<16x48xbf16>
}

// CHECK-LABEL: func.func @stay
// CHECK-COUNT-7: tssa.aten
func.func @stay(%x: tensor<8x64xf16>, %conv1d: tensor<64x48xf16>, %many: tensor<17x64xf16>, %w: tensor<48x64xf16>, %f: tensor<8x64xf32>, %g: tensor<48x64xf32>,
    %odd: tensor<8x40xf16>, %v: tensor<48x40xf16>, %b: tensor<4x8x64xf16>, %c: tensor<4x64x48xf16>, %long: tensor<8x8192xf16>, %few: tensor<64x8192xf16>, %none: tensor<0x64xf16>)
    -> (tensor<8x48xf16>, tensor<17x48xf16>, tensor<8x48xf32>, tensor<8x48xf16>, tensor<4x8x48xf16>, tensor<8x64xf16>, tensor<0x48xf16>) {
  // expected-remark @below {{'aten::mm' stays a vendor call: several rows that do not lie along the sum}}
  %0 = tssa.aten "aten::mm"(%x, %conv1d) : (tensor<8x64xf16>, tensor<64x48xf16>) -> tensor<8x48xf16>
  // expected-remark @below {{'aten::linear' stays a vendor call: several rows}}
  %1 = tssa.aten "aten::linear"(%many, %w, none) : (tensor<17x64xf16>, tensor<48x64xf16>) -> tensor<17x48xf16>
  // expected-remark @below {{'aten::linear' stays a vendor call: several rows in float32}}
  %2 = tssa.aten "aten::linear"(%f, %g, none) : (tensor<8x64xf32>, tensor<48x64xf32>) -> tensor<8x48xf32>
  // expected-remark @below {{'aten::linear' stays a vendor call: several rows of a length that is no multiple of 32}}
  %3 = tssa.aten "aten::linear"(%odd, %v, none) : (tensor<8x40xf16>, tensor<48x40xf16>) -> tensor<8x48xf16>
  // expected-remark @below {{'aten::bmm' stays a vendor call: several rows of several weights}}
  %4 = tssa.aten "aten::bmm"(%b, %c) : (tensor<4x8x64xf16>, tensor<4x64x48xf16>) -> tensor<4x8x48xf16>
  // expected-remark @below {{'aten::linear' stays a vendor call: several rows of long sums for few columns}}
  %5 = tssa.aten "aten::linear"(%long, %few, none) : (tensor<8x8192xf16>, tensor<64x8192xf16>) -> tensor<8x64xf16>
  // expected-remark @below {{'aten::linear' stays a vendor call: several rows}}
  %6 = tssa.aten "aten::linear"(%none, %w, none) : (tensor<0x64xf16>, tensor<48x64xf16>) -> tensor<0x48xf16>
  return %0, %1, %2, %3, %4, %5, %6 : tensor<8x48xf16>, tensor<17x48xf16>, tensor<8x48xf32>, tensor<8x48xf16>, tensor<4x8x48xf16>, tensor<8x64xf16>, tensor<0x48xf16>
}
