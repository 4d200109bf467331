// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --pyjit-fuse | pyjit-opt --pass-pipeline="builtin.module(ptx-emit-kernels)" | FileCheck %s

// A row that registers do not hold is walked once for the maximum and the sum
// of the exponentials below it, and once more to write. In half precision the
// exponentials may be approximate.
// CHECK: func.func @maximumf_subf_exp_addf_divf_kernel_0
// CHECK: scf.for {{.*}} -> (f32, f32)
// CHECK: math.exp {{.*}} fastmath<afn>
// CHECK: scf.for
// CHECK-NOT: scf.for
// CHECK: func.func
func.func @half(%a: tensor<8x65536xf16>) -> tensor<8x65536xf16> {
  %0 = tssa.aten "aten::softmax.int"(%a, 1 : i64, none) : (tensor<8x65536xf16>) -> tensor<8x65536xf16>
  return %0 : tensor<8x65536xf16>
}

// CHECK-SAME: @maximumf_subf_exp_addf_divf_kernel_1
// CHECK: scf.for {{.*}} -> (f32, f32)
// CHECK-NOT: fastmath
// CHECK: func.func
func.func @single(%a: tensor<8x65536xf32>) -> tensor<8x65536xf32> {
  %0 = tssa.aten "aten::softmax.int"(%a, 1 : i64, none) : (tensor<8x65536xf32>) -> tensor<8x65536xf32>
  return %0 : tensor<8x65536xf32>
}

// What is summed is not below the maximum that was found: two walks.
// CHECK-SAME: @{{.*}}kernel_2
// CHECK: scf.for {{.*}} -> (vector<4xf32>)
// CHECK: scf.for {{.*}} -> (vector<4xf32>)
func.func @another(%a: tensor<8x65536xf32>, %b: tensor<8x65536xf32>) -> tensor<8xf32> {
  %0 = tssa.aten "aten::amax"(%a, [1 : i64], true) : (tensor<8x65536xf32>) -> tensor<8x1xf32>
  %1 = tssa.aten "aten::sub.Tensor"(%b, %0, 1 : i64) : (tensor<8x65536xf32>, tensor<8x1xf32>) -> tensor<8x65536xf32>
  %2 = tssa.aten "aten::exp"(%1) : (tensor<8x65536xf32>) -> tensor<8x65536xf32>
  %3 = tssa.aten "aten::sum.dim_IntList"(%2, [1 : i64], false, none) : (tensor<8x65536xf32>) -> tensor<8xf32>
  return %3 : tensor<8xf32>
}
