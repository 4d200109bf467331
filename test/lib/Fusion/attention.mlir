// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --library-plan-attention-rows --convert-tssa-to-linalg --cse --fusion-outline=attention=true | FileCheck %s
// RUN: pyjit-opt %s --library-plan-attention-rows --convert-tssa-to-linalg --cse --fusion-outline | FileCheck %s --check-prefix=APART

// Queries times keys, the softmax, and the values so weighted: no weights and no scores in memory.
// CHECK-LABEL: func.func @grouped
// CHECK: call @[[GROUPED:.*]](%arg0, %arg1, %arg2)
// CHECK-NOT: call
// CHECK: return
// APART-LABEL: func.func @grouped
// APART-COUNT-3: call
func.func @grouped(%q: tensor<1x4x1x16xf16>, %k: tensor<1x2x?x16xf16, #tssa.layout<[1, 2, s0, 16], [s0 * 32, s0 * 16, 16, 1]>>, %v: tensor<1x2x?x16xf16, #tssa.layout<[1, 2, s0, 16], [s0 * 32, s0 * 16, 16, 1]>>) -> tensor<1x4x1x16xf16> {
  %0 = tssa.aten "aten::scaled_dot_product_attention"(%q, %k, %v, none, 0.0 : f64, false, none, true) : (tensor<1x4x1x16xf16>, tensor<1x2x?x16xf16, #tssa.layout<[1, 2, s0, 16], [s0 * 32, s0 * 16, 16, 1]>>, tensor<1x2x?x16xf16, #tssa.layout<[1, 2, s0, 16], [s0 * 32, s0 * 16, 16, 1]>>) -> tensor<1x4x1x16xf16>
  return %0 : tensor<1x4x1x16xf16>
}

// A mask is added in the kernel; a query that sees no key gets zeros.
// CHECK-LABEL: func.func @masked
// CHECK: call @{{.*}}(%arg0, %arg1, %arg3, %arg2)
// CHECK-NOT: call
// CHECK: return
func.func @masked(%q: tensor<1x4x1x16xf16>, %k: tensor<1x2x?x16xf16, #tssa.layout<[1, 2, s0, 16], [s0 * 32, s0 * 16, 16, 1]>>, %v: tensor<1x2x?x16xf16, #tssa.layout<[1, 2, s0, 16], [s0 * 32, s0 * 16, 16, 1]>>, %m: tensor<1x1x1x?xi1, #tssa.layout<[1, 1, 1, s0], [s0, s0, s0, 1]>>) -> tensor<1x4x1x16xf16> {
  %0 = tssa.aten "aten::scaled_dot_product_attention"(%q, %k, %v, %m, 0.0 : f64, false, none, true) : (tensor<1x4x1x16xf16>, tensor<1x2x?x16xf16, #tssa.layout<[1, 2, s0, 16], [s0 * 32, s0 * 16, 16, 1]>>, tensor<1x2x?x16xf16, #tssa.layout<[1, 2, s0, 16], [s0 * 32, s0 * 16, 16, 1]>>, tensor<1x1x1x?xi1, #tssa.layout<[1, 1, 1, s0], [s0, s0, s0, 1]>>) -> tensor<1x4x1x16xf16>
  return %0 : tensor<1x4x1x16xf16>
}

// Sixteen queries for the same keys would not fit a thread's registers.
// CHECK-LABEL: func.func @many_queries
// CHECK-COUNT-3: call
func.func @many_queries(%q: tensor<1x8x4x16xf16>, %k: tensor<1x2x?x16xf16, #tssa.layout<[1, 2, s0, 16], [s0 * 32, s0 * 16, 16, 1]>>, %v: tensor<1x2x?x16xf16, #tssa.layout<[1, 2, s0, 16], [s0 * 32, s0 * 16, 16, 1]>>) -> tensor<1x8x4x16xf16> {
  %0 = tssa.aten "aten::scaled_dot_product_attention"(%q, %k, %v, none, 0.0 : f64, false, none, true) : (tensor<1x8x4x16xf16>, tensor<1x2x?x16xf16, #tssa.layout<[1, 2, s0, 16], [s0 * 32, s0 * 16, 16, 1]>>, tensor<1x2x?x16xf16, #tssa.layout<[1, 2, s0, 16], [s0 * 32, s0 * 16, 16, 1]>>) -> tensor<1x8x4x16xf16>
  return %0 : tensor<1x8x4x16xf16>
}

// Who else reads the weights has them stored.
// CHECK-LABEL: func.func @weights_are_read
// CHECK-COUNT-3: call
!row = tensor<2x?xf32, #tssa.layout<[2, s0], [s0, 1]>>
!keys = tensor<2x?x16xf32, #tssa.layout<[2, s0, 16], [s0 * 16, 16, 1]>>
func.func @weights_are_read(%q: tensor<2x1x16xf32>, %k: !keys, %v: !keys) -> (tensor<2x16xf32>, !row) {
  %0 = tssa.aten "aten::mul.Tensor"(%q, %k) : (tensor<2x1x16xf32>, !keys) -> !keys
  %1 = tssa.aten "aten::sum.dim_IntList"(%0, [-1], false, none) : (!keys) -> !row
  %2 = tssa.aten "aten::softmax.int"(%1, -1 : i64, none) : (!row) -> !row
  %3 = tssa.access %2 [#tssa.view<unsqueeze [2]>] : !row -> tensor<2x?x1xf32, #tssa.layout<[2, s0, 1], [s0, 1, 1]>>
  %4 = tssa.aten "aten::mul.Tensor"(%3, %v) : (tensor<2x?x1xf32, #tssa.layout<[2, s0, 1], [s0, 1, 1]>>, !keys) -> !keys
  %5 = tssa.aten "aten::sum.dim_IntList"(%4, [1], false, none) : (!keys) -> tensor<2x16xf32>
  return %5, %2 : tensor<2x16xf32>, !row
}

// CHECK: func.func private @[[GROUPED]]
// CHECK-COUNT-4: "reduction"
