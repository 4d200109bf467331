// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --library-hoist-parameters > %t
// RUN: pyjit-opt %s --library-hoist-parameters=variant=3 >> %t
// RUN: FileCheck %s < %t

// Programs that are compiled in another way compute values of their own.
// CHECK: pyjit.digests = ["[[DIGEST:[0-9a-f]+]]"]
// CHECK-NOT: [[DIGEST]]
func.func @f(%x: tensor<4xf32>, %w: tensor<4xf32> {pyjit.param}) -> tensor<4xf32> {
  %0 = tssa.aten "aten::exp"(%w) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = tssa.aten "aten::mul.Tensor"(%x, %0) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
