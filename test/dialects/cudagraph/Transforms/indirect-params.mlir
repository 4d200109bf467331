// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --cudagraph-indirect-params --split-input-file -verify-diagnostics | FileCheck %s

!vec = !cudagraph.buffer<tensor<8xf32>>

func.func private @k(tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32> attributes {pyjit.kernel}
// CHECK: func.func private @k_indirect_0_2(tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32> attributes {pyjit.indirect = array<i1: true, false, true>, pyjit.kernel}
// CHECK-NOT: func.func
// CHECK-LABEL: @f
cudagraph.program @f on "cuda:0" {
  %x = cudagraph.external input 0 : !vec
  %w = cudagraph.external input 1 stable : !vec
  %y = cudagraph.external output 0 : !vec
  %z = cudagraph.external output 1 : !vec
  %t = cudagraph.buffer : !vec
  %v = cudagraph.view %x at 0 : !vec to !vec
  cudagraph.graph externals(%x, %w, %y, %z : !vec, !vec, !vec, !vec) {
    // CHECK: cudagraph.kernel @k({{.*}}) to({{.*}}) indirect @k_indirect_0_2 [0, 2]
    cudagraph.kernel @k(%x, %w) to (%y) : (!vec, !vec) -> (!vec)
    // Through a view, the same version.
    // CHECK: cudagraph.kernel @k({{.*}}) to({{.*}}) indirect @k_indirect_0_2 [0, 2]
    cudagraph.kernel @k(%v, %w) to (%z) : (!vec, !vec) -> (!vec)
    // Own memory and parameters need none.
    // CHECK: cudagraph.kernel @k({{.*}}) to({{.*}}) :
    cudagraph.kernel @k(%w, %w) to (%t) : (!vec, !vec) -> (!vec)
    cudagraph.yield
  }
  // Outside of graphs every launch states its addresses.
  // CHECK: cudagraph.kernel @k({{.*}}) to({{.*}}) :
  cudagraph.kernel @k(%x, %w) to (%t) : (!vec, !vec) -> (!vec)
  cudagraph.return %y, %z : !vec, !vec
}

// -----

// Sizes that differ between calls are found on the device, too, whether the
// buffers move or not.
!any = tensor<?xf32, #tssa.layout<[s0], [1]>>
!buf = !cudagraph.buffer<tensor<?xf32, #tssa.layout<[s0], [1]>>>
!vec = !cudagraph.buffer<tensor<8xf32>>
func.func private @k(!any) -> !any attributes {pyjit.kernel}
// CHECK-DAG: func.func private @k_indirect_0({{.*}}) -> {{.*}} attributes {pyjit.device_sizes, pyjit.indirect = array<i1: true, false>, pyjit.kernel}
// CHECK-DAG: func.func private @k_indirect({{.*}}) -> {{.*}} attributes {pyjit.device_sizes, pyjit.indirect = array<i1: false, false>, pyjit.kernel}
func.func private @fixed(tensor<8xf32>) -> tensor<8xf32> attributes {pyjit.kernel}
// CHECK-LABEL: @symbolic
cudagraph.program @symbolic on "cuda:0" attributes {pyjit.symbols = [array<i64: 0, 0>]} {
  %x = cudagraph.external input 0 : !buf
  %s = cudagraph.buffer : !buf
  %t = cudagraph.buffer : !buf
  %u = cudagraph.buffer : !vec
  %v = cudagraph.buffer : !vec
  cudagraph.graph externals(%x : !buf) {
    // CHECK: cudagraph.kernel @k({{.*}}) to({{.*}}) indirect @k_indirect_0 [0]
    cudagraph.kernel @k(%x) to (%s) : (!buf) -> (!buf)
    // CHECK: cudagraph.kernel @k({{.*}}) to({{.*}}) indirect @k_indirect []
    cudagraph.kernel @k(%s) to (%t) : (!buf) -> (!buf)
    // CHECK: cudagraph.kernel @fixed({{.*}}) to({{.*}}) :
    cudagraph.kernel @fixed(%u) to (%v) : (!vec) -> (!vec)
    cudagraph.yield
  }
  cudagraph.return
}

// -----

!vec = !cudagraph.buffer<tensor<8xf32>>
cudagraph.program @missing on "cuda:0" {
  %x = cudagraph.external output 0 : !vec
  cudagraph.graph externals(%x : !vec) {
    // expected-error @+1 {{names no kernel of the module}}
    cudagraph.kernel @nowhere() to (%x) : () -> (!vec)
    cudagraph.yield
  }
  cudagraph.return %x : !vec
}

// -----

!vec = !cudagraph.buffer<tensor<8xf32>>
func.func private @k(tensor<8xf32>) -> tensor<8xf32> attributes {pyjit.kernel}
cudagraph.program @other_count on "cuda:0" {
  %x = cudagraph.external output 0 : !vec
  cudagraph.graph externals(%x : !vec) {
    // expected-error @+1 {{has 1 buffers, its kernel 2}}
    cudagraph.kernel @k() to (%x) : () -> (!vec)
    cudagraph.yield
  }
  cudagraph.return %x : !vec
}
