// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --pyjit-cuda | FileCheck %s

!v = !refgraph.tensor<[64], [1], f32, "cuda:0">
!n = !refgraph.tensor<[], [], f32, "cpu">

// CHECK: cudagraph.program @f on "cuda:0"
// CHECK: %[[A:.*]] = cudagraph.external input 0
// CHECK: %[[S:.*]] = cudagraph.external input 1 : !cudagraph.buffer<tensor<f32>, host>
// CHECK: cudagraph.host_value %[[S]]
// CHECK: cudagraph.kernel @[[K:kernel_[0-9]+]]
// CHECK: func.func private @[[K]]{{.*}}pyjit.block
// CHECK: llvm.func
refgraph.trace @f {
  %e = refgraph.external
  %a = refgraph.get %e arg(0, "a") type(0) {requires_grad = false} : !v
  %s = refgraph.get %e arg(1, "s") type(0) {requires_grad = false} : !n
  %m = refgraph.tensor_op "aten::mul.Tensor"(%a, %s) : (!v, !n) -> !v
  %r = refgraph.tensor_op "aten::relu"(%m) : (!v) -> !v
  refgraph.leave %r : !v
}
