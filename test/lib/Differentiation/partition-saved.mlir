// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --tssa-differentiate --tssa-partition | FileCheck %s

// What is computed again of what was saved is looked at once, however many ways
// there are to it: a square of squares has 2^40 of them here.
// CHECK-LABEL: func.func @squares_backward
func.func @squares(%x: tensor<4xf32>) -> tensor<4xf32> attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::mul.Tensor"(%x, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = tssa.aten "aten::mul.Tensor"(%0, %0) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %2 = tssa.aten "aten::mul.Tensor"(%1, %1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %3 = tssa.aten "aten::mul.Tensor"(%2, %2) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %4 = tssa.aten "aten::mul.Tensor"(%3, %3) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %5 = tssa.aten "aten::mul.Tensor"(%4, %4) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %6 = tssa.aten "aten::mul.Tensor"(%5, %5) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %7 = tssa.aten "aten::mul.Tensor"(%6, %6) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %8 = tssa.aten "aten::mul.Tensor"(%7, %7) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %9 = tssa.aten "aten::mul.Tensor"(%8, %8) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %10 = tssa.aten "aten::mul.Tensor"(%9, %9) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %11 = tssa.aten "aten::mul.Tensor"(%10, %10) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %12 = tssa.aten "aten::mul.Tensor"(%11, %11) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %13 = tssa.aten "aten::mul.Tensor"(%12, %12) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %14 = tssa.aten "aten::mul.Tensor"(%13, %13) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %15 = tssa.aten "aten::mul.Tensor"(%14, %14) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %16 = tssa.aten "aten::mul.Tensor"(%15, %15) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %17 = tssa.aten "aten::mul.Tensor"(%16, %16) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %18 = tssa.aten "aten::mul.Tensor"(%17, %17) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %19 = tssa.aten "aten::mul.Tensor"(%18, %18) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %20 = tssa.aten "aten::mul.Tensor"(%19, %19) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %21 = tssa.aten "aten::mul.Tensor"(%20, %20) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %22 = tssa.aten "aten::mul.Tensor"(%21, %21) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %23 = tssa.aten "aten::mul.Tensor"(%22, %22) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %24 = tssa.aten "aten::mul.Tensor"(%23, %23) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %25 = tssa.aten "aten::mul.Tensor"(%24, %24) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %26 = tssa.aten "aten::mul.Tensor"(%25, %25) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %27 = tssa.aten "aten::mul.Tensor"(%26, %26) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %28 = tssa.aten "aten::mul.Tensor"(%27, %27) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %29 = tssa.aten "aten::mul.Tensor"(%28, %28) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %30 = tssa.aten "aten::mul.Tensor"(%29, %29) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %31 = tssa.aten "aten::mul.Tensor"(%30, %30) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %32 = tssa.aten "aten::mul.Tensor"(%31, %31) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %33 = tssa.aten "aten::mul.Tensor"(%32, %32) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %34 = tssa.aten "aten::mul.Tensor"(%33, %33) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %35 = tssa.aten "aten::mul.Tensor"(%34, %34) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %36 = tssa.aten "aten::mul.Tensor"(%35, %35) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %37 = tssa.aten "aten::mul.Tensor"(%36, %36) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %38 = tssa.aten "aten::mul.Tensor"(%37, %37) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %39 = tssa.aten "aten::mul.Tensor"(%38, %38) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %39 : tensor<4xf32>
}
