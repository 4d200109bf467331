// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s | pyjit-opt | FileCheck %s
// RUN: pyjit-opt %s --emit-bytecode | pyjit-opt | FileCheck %s
// RUN: pyjit-opt %s --mlir-print-op-generic | pyjit-opt | FileCheck %s

!vec = !cudagraph.buffer<tensor<8xf32>>
!mat = !cudagraph.buffer<tensor<8x8xf32>>
!flag = !cudagraph.buffer<tensor<i1>>
!number = !cudagraph.buffer<tensor<f32>, host>

// CHECK: cudagraph.program @all on "cuda:0" arena 1024 variants ["plain", "update"] {
cudagraph.program @all on "cuda:0" arena 1024 variants ["plain", "update"] {
  // CHECK: %[[X:.*]] = cudagraph.external input 0 : !cudagraph.buffer<tensor<8xf32>>
  %x = cudagraph.external input 0 : !vec
  // CHECK: cudagraph.external input 1 stable : !cudagraph.buffer<tensor<8x8xf32>>
  %w = cudagraph.external input 1 stable : !mat
  // CHECK: cudagraph.external cached 0 stable
  %c = cudagraph.external cached 0 stable : !vec
  // CHECK: %[[S:.*]] = cudagraph.external input 2 : !cudagraph.buffer<tensor<f32>, host>
  %s = cudagraph.external input 2 : !number
  // CHECK: %[[Y:.*]] = cudagraph.external output 0
  %y = cudagraph.external output 0 : !vec
  // CHECK: %[[T:.*]] = cudagraph.buffer at 0 :
  %t = cudagraph.buffer at 0 : !vec
  %n = cudagraph.buffer at 256 : !cudagraph.buffer<tensor<f32>>
  %p = cudagraph.buffer at 512 : !flag
  %u = cudagraph.buffer at 768 : !vec
  // CHECK: %[[R:.*]] = cudagraph.graph externals(%[[X]], %{{.*}} : {{.*}}) to(!cudagraph.buffer<tensor<8xf32>>) {
  %r = cudagraph.graph externals(%x, %s, %w, %y : !vec, !number, !mat, !vec) to (!vec) {
    // CHECK: cudagraph.host_value %[[S]] to %{{.*}} : !cudagraph.buffer<tensor<f32>, host>, !cudagraph.buffer<tensor<f32>>
    cudagraph.host_value %s to %n : !number, !cudagraph.buffer<tensor<f32>>
    // CHECK: cudagraph.kernel @kernel_0(%[[X]], %{{.*}}) to(%[[T]], %{{.*}}) indirect @kernel_0_indirect [0]
    cudagraph.kernel @kernel_0(%x, %n) to (%t, %p) indirect @kernel_0_indirect [0] : (!vec, !cudagraph.buffer<tensor<f32>>) -> (!vec, !flag)
    // CHECK: cudagraph.call "aten::mv"(%{{.*}}, %[[T]]) :
    %i = cudagraph.call "aten::mv"(%w, %t) : (!mat, !vec) -> (!vec)
    // CHECK: cudagraph.call "aten::add_.Tensor"(%{{.*}}, %[[T]], 1 : i64) mutates [0]
    cudagraph.call "aten::add_.Tensor"(%i, %t, 1 : i64) mutates [0] : (!vec, !vec) -> ()
    // CHECK: cudagraph.if %{{.*}} : !cudagraph.buffer<tensor<i1>>
    cudagraph.if %p : !flag {
      cudagraph.kernel @kernel_1(%t) to (%t) : (!vec) -> (!vec)
    } else {
      cudagraph.kernel @kernel_2(%t) to (%t) : (!vec) -> (!vec)
    }
    // CHECK: cudagraph.while %{{.*}} : !cudagraph.buffer<tensor<i1>>
    cudagraph.while %p : !flag {
      cudagraph.kernel @kernel_3(%t) to (%t, %p) : (!vec) -> (!vec, !flag)
    }
    // CHECK: cudagraph.copy %[[T]] to %[[Y]] :
    cudagraph.copy %t to %y : !vec, !vec
    // CHECK: cudagraph.copy %[[X]] to %{{.*}} patchable :
    cudagraph.copy %x to %u patchable : !vec, !vec
    cudagraph.call "aten::add_.Tensor"(%i, %u, 1 : i64) mutates [0] : (!vec, !vec) -> ()
    // CHECK: cudagraph.yield %{{.*}} : !cudagraph.buffer<tensor<8xf32>>
    cudagraph.yield %i : !vec
  }
  // CHECK: cudagraph.speculate %{{.*}} : !cudagraph.buffer<tensor<i1>>
  cudagraph.speculate %p : !flag
  // CHECK: %[[V:.*]] = cudagraph.view %[[R]] at 4 : !cudagraph.buffer<tensor<8xf32>> to !cudagraph.buffer<tensor<4xf32>>
  %v = cudagraph.view %r at 4 : !vec to !cudagraph.buffer<tensor<4xf32>>
  %d = cudagraph.call "aten::exp"(%v) : (!cudagraph.buffer<tensor<4xf32>>) -> (!cudagraph.buffer<tensor<4xf32>>)
  // CHECK: cudagraph.release %[[R]]
  cudagraph.release %r : !vec
  // CHECK: cudagraph.return %[[Y]], %{{.*}} :
  cudagraph.return %y, %d : !vec, !cudagraph.buffer<tensor<4xf32>>
}

// Sizes that differ between calls.
// CHECK-LABEL: cudagraph.program @symbolic
cudagraph.program @symbolic on "cuda:0" attributes {pyjit.symbols = [array<i64: 0, 0>]} {
  // CHECK: %[[B:.*]] = cudagraph.buffer lives [3, 7] : !cudagraph.buffer<tensor<?xf32, #tssa.layout<[s0], [1]>>>
  %b = cudagraph.buffer lives [3, 7] : !cudagraph.buffer<tensor<?xf32, #tssa.layout<[s0], [1]>>>
  // CHECK: cudagraph.view %[[B]] at 0 plus #{{.*}} :
  %v = cudagraph.view %b at 0 plus affine_map<()[s0] -> (s0 - 1)> : !cudagraph.buffer<tensor<?xf32, #tssa.layout<[s0], [1]>>> to !cudagraph.buffer<tensor<f32>>
  cudagraph.return
}
