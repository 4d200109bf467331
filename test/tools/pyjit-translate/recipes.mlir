// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-translate --tssa-to-recipes %s | FileCheck %s
// RUN: pyjit-translate --tssa-to-views %s | FileCheck %s --check-prefix=VIEW
// RUN: pyjit-translate --operators-to-markdown %s | FileCheck %s --check-prefix=PAGE

// PAGE: `aten::relu_` | mutation | in-place form | `aten::relu`

func.func @f(%x: tensor<2x3xf32>, %h: tensor<3xbf16>, %b: tensor<2x3xi1>) {
  // CHECK-LABEL: call 0 aten::add.Tensor
  // CHECK-NEXT: step 0 [2, 3]: Fma:f32(Cast:f32(Input0:bf16), Const:f32(2.000000e+00), Input1:f32)
  // CHECK-NEXT: 0 = operand 1 (d0, d1) -> (d1)
  // CHECK-NEXT: 1 = operand 0 (d0, d1) -> (d0, d1)
  %0 = tssa.aten "aten::add.Tensor"(%x, %h, 2 : i64) : (tensor<2x3xf32>, tensor<3xbf16>) -> tensor<2x3xf32>
  // CHECK-LABEL: call 1 aten::amax
  // CHECK-NEXT: step 0 [2, 3] Maximum over [1] from 0xFF800000 : f32: Input0:f32
  %1 = tssa.aten "aten::amax"(%x, [-1 : i64], false) : (tensor<2x3xf32>) -> tensor<2xf32>
  // A difference of bools raises in eager.
  // CHECK-LABEL: call 2 aten::sub.Tensor library
  %2 = tssa.aten "aten::sub.Tensor"(%b, %b, 1 : i64) : (tensor<2x3xi1>, tensor<2x3xi1>) -> tensor<2x3xi1>
  // The recorded type is not what promotion gives.
  // CHECK-LABEL: call 3 aten::add.Tensor library
  %3 = tssa.aten "aten::add.Tensor"(%x, %h, 1 : i64) : (tensor<2x3xf32>, tensor<3xbf16>) -> tensor<2x3xbf16>
  // VIEW: strides [1, 3]
  // VIEW-NEXT: map (d0, d1) -> (d1, d0)
  // VIEW-NEXT: injective 1
  // VIEW-NEXT: assign (d0, d1) -> (d1, d0)
  %4 = tssa.access %x [#tssa.view<permute [1, 0]>] : tensor<2x3xf32> -> tensor<3x2xf32, #tssa.strides<[1, 3]>>
  return
}
