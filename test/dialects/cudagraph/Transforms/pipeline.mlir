// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --pyjit-cudagraph | FileCheck %s

!vec = !cudagraph.buffer<tensor<8xf32>>
!number = !cudagraph.buffer<tensor<f32>, host>

func.func private @k(tensor<8xf32>, tensor<f32>) -> tensor<8xf32> attributes {pyjit.kernel}

// CHECK: cudagraph.program @f on "cuda:0" arena 512 variants ["plain", "copy", "table", "update"]
// CHECK: cudagraph.graph
// CHECK: cudagraph.host_value
// CHECK: cudagraph.kernel @k({{.*}}) to({{.*}}) indirect @k_indirect_0 [0]
// CHECK: cudagraph.kernel @k({{.*}}) to({{.*}}) indirect @k_indirect_2 [2]
cudagraph.program @f on "cuda:0" {
  %x = cudagraph.external input 0 : !vec
  %s = cudagraph.external input 1 : !number
  %y = cudagraph.external output 0 : !vec
  %t = cudagraph.buffer : !vec
  cudagraph.kernel @k(%x, %s) to (%t) : (!vec, !number) -> (!vec)
  cudagraph.kernel @k(%t, %s) to (%y) : (!vec, !number) -> (!vec)
  cudagraph.return %y : !vec
}
