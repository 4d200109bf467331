// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --pyjit-frontend | FileCheck %s --check-prefix=FRONT
// RUN: pyjit-opt %s --pyjit-cpu | FileCheck %s --check-prefix=CPU

// FRONT: refgraph.guards @f
// FRONT: refgraph.mock @f
// FRONT: func.func @f(%arg0: tensor<64xf32>, %arg1: tensor<64xf32>) -> tensor<64xf32>
// FRONT: tssa.aten "aten::add.Tensor"
// FRONT-NEXT: tssa.aten "aten::relu"

// CPU: func.func @f
// CPU-NEXT: call @[[K:kernel_[0-9]+]]
// CPU-NEXT: return
// CPU: llvm.func @[[K]]
refgraph.trace @f {
  %e = refgraph.external
  %a = refgraph.get %e arg(0, "a") type(0) {requires_grad = false} : !refgraph.tensor<[64], [1], f32, "cpu">
  %b = refgraph.get %e arg(1, "b") type(0) {requires_grad = false} : !refgraph.tensor<[64], [1], f32, "cpu">
  %s = refgraph.tensor_op "aten::add.Tensor"(%a, %b, 1 : i64) : (!refgraph.tensor<[64], [1], f32, "cpu">, !refgraph.tensor<[64], [1], f32, "cpu">) -> !refgraph.tensor<[64], [1], f32, "cpu">
  %r = refgraph.tensor_op "aten::relu"(%s) : (!refgraph.tensor<[64], [1], f32, "cpu">) -> !refgraph.tensor<[64], [1], f32, "cpu">
  refgraph.leave %r : !refgraph.tensor<[64], [1], f32, "cpu">
}
