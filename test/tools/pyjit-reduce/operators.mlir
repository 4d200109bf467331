// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-reduce %s --test=%S/Inputs/has-erf.sh | FileCheck %s
// RUN: not pyjit-reduce %s --test=%S/Inputs/never.sh 2>&1 | FileCheck %s --check-prefix=NEVER
// RUN: not pyjit-reduce %s --test=%S/Inputs/absent.sh 2>&1 | FileCheck %s --check-prefix=ABSENT
// RUN: not pyjit-reduce %s --test=%S/Inputs/broken.sh 2>&1 | FileCheck %s --check-prefix=BROKEN

// What does not matter is gone: operators give way to operands and arguments of their types, functions to nothing.
// CHECK: module {
// CHECK-NEXT: func.func @f(%[[X:.*]]: tensor<4xf32>, %{{.*}}: tensor<4xf32>) -> tensor<4xf32> {
// CHECK-NEXT: %[[Y:.*]] = tssa.aten "aten::erf"(%[[X]])
// CHECK-NEXT: return %[[Y]]
// CHECK-NEXT: }
// CHECK-NEXT: }
// NEVER: pyjit-reduce: error: the script does not find the fault in
// ABSENT: pyjit-reduce: error: {{.*}}absent.sh
// BROKEN: broken.sh: exit status 7; 1 says that the fault is there, 0 that it is not
func.func @f(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %0 = tssa.aten "aten::exp"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = tssa.aten "aten::erf"(%0) : (tensor<4xf32>) -> tensor<4xf32>
  %2 = tssa.aten "aten::mul.Tensor"(%1, %y) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %3 = tssa.aten "aten::exp"(%2) : (tensor<4xf32>) -> tensor<4xf32>
  return %3 : tensor<4xf32>
}
func.func @g(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = tssa.aten "aten::exp"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
