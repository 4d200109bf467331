// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --pass-pipeline='builtin.module(cudagraph.program(cudagraph-place-data))' | FileCheck %s

!vec = !cudagraph.buffer<tensor<8xf32>>
!number = !cudagraph.buffer<tensor<f32>, host>
!list = !cudagraph.buffer<tensor<3xf32>, host>

// A number becomes a launch of its own, in front, once for two readers.
// CHECK-LABEL: @number
// CHECK: %[[S:.*]] = cudagraph.external input 1 : !cudagraph.buffer<tensor<f32>, host>
// CHECK: %[[D:.*]] = cudagraph.buffer : !cudagraph.buffer<tensor<f32>>
// CHECK: cudagraph.host_value %[[S]] to %[[D]]
// CHECK-NOT: host_value
// CHECK: cudagraph.call "aten::sort"
// CHECK: cudagraph.kernel @k(%{{.*}}, %[[D]])
// CHECK: cudagraph.kernel @k(%{{.*}}, %[[D]])
cudagraph.program @number on "cuda:0" {
  %x = cudagraph.external input 0 : !vec
  %r:2 = cudagraph.call "aten::sort"(%x, -1 : i64, false) : (!vec) -> (!vec, !cudagraph.buffer<tensor<8xi64>>)
  %s = cudagraph.external input 1 : !number
  %y = cudagraph.external output 0 : !vec
  %z = cudagraph.external output 1 : !vec
  cudagraph.kernel @k(%r#0, %s) to (%y) : (!vec, !number) -> (!vec)
  cudagraph.kernel @k(%y, %s) to (%z) : (!vec, !number) -> (!vec)
  cudagraph.return %y, %z : !vec, !vec
}

// Several elements are copied; a view of host memory is host memory.
// CHECK-LABEL: @several
// CHECK: %[[V:.*]] = cudagraph.view %{{.*}} at 1
// CHECK: %[[D:.*]] = cudagraph.buffer : !cudagraph.buffer<tensor<2xf32>>
// CHECK: cudagraph.copy %[[V]] to %[[D]]
// CHECK: cudagraph.kernel @k(%[[D]])
cudagraph.program @several on "cuda:0" {
  %s = cudagraph.external input 0 : !list
  %y = cudagraph.external output 0 : !vec
  %v = cudagraph.view %s at 1 : !list to !cudagraph.buffer<tensor<2xf32>, host>
  cudagraph.kernel @k(%v) to (%y) : (!cudagraph.buffer<tensor<2xf32>, host>) -> (!vec)
  cudagraph.return %y : !vec
}

// Host work moves in front of device work, what it makes too.
// CHECK-LABEL: @hoisted
// CHECK: %[[E:.*]] = cudagraph.call "aten::exp"
// CHECK: cudagraph.host_value %[[E]]
// CHECK: cudagraph.kernel @k
// CHECK: cudagraph.kernel @k2
cudagraph.program @hoisted on "cuda:0" {
  %s = cudagraph.external input 0 : !number
  %y = cudagraph.external output 0 : !vec
  %t = cudagraph.buffer : !vec
  cudagraph.kernel @k() to (%t) : () -> (!vec)
  %e = cudagraph.call "aten::exp"(%s) : (!number) -> (!number)
  cudagraph.kernel @k2(%t, %e) to (%y) : (!vec, !number) -> (!vec)
  cudagraph.return %y : !vec
}

// A number that comes from the device is waited for where it is.
// CHECK-LABEL: @from_device
// CHECK: cudagraph.kernel @k()
// CHECK: cudagraph.call "aten::_to_copy"
// CHECK: cudagraph.host_value
// CHECK: cudagraph.kernel @k2
cudagraph.program @from_device on "cuda:0" {
  %y = cudagraph.external output 0 : !vec
  %t = cudagraph.buffer : !cudagraph.buffer<tensor<f32>>
  cudagraph.kernel @k() to (%t) : () -> (!cudagraph.buffer<tensor<f32>>)
  %h = cudagraph.call "aten::_to_copy"(%t, none, none, device("cpu"), none, false, none) : (!cudagraph.buffer<tensor<f32>>) -> (!number)
  cudagraph.kernel @k2(%h) to (%y) : (!number) -> (!vec)
  cudagraph.return %y : !vec
}
