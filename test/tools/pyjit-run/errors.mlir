// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: not pyjit-run %s 2>&1 | FileCheck %s --check-prefix=COUNT
// RUN: not pyjit-run %s --arg %s 2>&1 | FileCheck %s --check-prefix=NPY
// RUN: not pyjit-run %s --entry g 2>&1 | FileCheck %s --check-prefix=ENTRY
// RUN: not pyjit-run %t.missing 2>&1 | FileCheck %s --check-prefix=FILE

// RUN: not pyjit-run %S/Inputs/declared.mlir --entry k --print-launch 2>&1 | FileCheck %s --check-prefix=DECLARED
// RUN: not pyjit-run %S/Inputs/ptx.mlir --entry f --print-launch 2>&1 | FileCheck %s --check-prefix=PTX

// COUNT: error: the function takes 1 array (f32[4]), 0 given; name a file for each with --arg
// NPY: error: {{.*}} is not a .npy file
// ENTRY: error: the module has no function @g; --entry can name @f
// DECLARED: declared.mlir:2:{{.*}}error: has no body to be launched
// PTX: ptx.mlir:2:{{.*}}error: has been through pyjit-ptx: its kernels are a GPU's, and its tensors are on the CPU
// FILE: error: {{.*}}No such file
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = tssa.aten "aten::neg"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
