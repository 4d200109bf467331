// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --pass-pipeline='builtin.module(cudagraph.program(cudagraph-plan-memory))' | FileCheck %s

!vec = !cudagraph.buffer<tensor<100xf32>>
!flag = !cudagraph.buffer<tensor<i1>>

// The third buffer takes the first one's place; an unused one goes away.
// CHECK-LABEL: @chain on "cuda:0" arena 1024 {
// CHECK: cudagraph.buffer at 0
// CHECK: cudagraph.buffer at 512
// CHECK: cudagraph.buffer at 0
// CHECK-NOT: = cudagraph.buffer
cudagraph.program @chain on "cuda:0" {
  %y = cudagraph.external output 0 : !vec
  %a = cudagraph.buffer : !vec
  %b = cudagraph.buffer : !vec
  %c = cudagraph.buffer : !vec
  %d = cudagraph.buffer : !vec
  cudagraph.kernel @k() to (%a) : () -> (!vec)
  cudagraph.kernel @k(%a) to (%b) : (!vec) -> (!vec)
  cudagraph.kernel @k(%b) to (%c) : (!vec) -> (!vec)
  cudagraph.kernel @k(%c) to (%y) : (!vec) -> (!vec)
  cudagraph.return %y : !vec
}

// What a loop reads may not be overwritten by the loop's own buffers: the next
// round reads it again.
// CHECK-LABEL: @loop on "cuda:0" arena 1280 {
// CHECK-DAG: at 0 : !cudagraph.buffer<tensor<100xf32>>
// CHECK-DAG: at 512 : !cudagraph.buffer<tensor<100xf32>>
// CHECK-DAG: at 1024 : !cudagraph.buffer<tensor<i1>>
cudagraph.program @loop on "cuda:0" {
  %a = cudagraph.buffer : !vec
  %b = cudagraph.buffer : !vec
  %p = cudagraph.buffer : !flag
  cudagraph.kernel @k() to (%a, %p) : () -> (!vec, !flag)
  cudagraph.graph {
    cudagraph.while %p : !flag {
      cudagraph.kernel @k(%a) to (%p) : (!vec) -> (!flag)
      cudagraph.kernel @k() to (%b) : () -> (!vec)
      cudagraph.kernel @k(%b) to (%p) : (!vec) -> (!flag)
    }
    cudagraph.yield
  }
  cudagraph.return
}

// Vendor results are released behind their last use, views counted; what is
// returned or yielded is not.
// CHECK-LABEL: @release
// CHECK: %[[A:.*]] = cudagraph.call "aten::exp"
// CHECK: %[[V:.*]] = cudagraph.view %[[A]]
// CHECK: %[[B:.*]] = cudagraph.call "aten::exp"(%[[V]])
// CHECK-NEXT: cudagraph.release %[[A]]
// CHECK-NEXT: cudagraph.return %[[B]]
cudagraph.program @release on "cuda:0" {
  %x = cudagraph.external input 0 : !vec
  %a = cudagraph.call "aten::exp"(%x) : (!vec) -> (!vec)
  %v = cudagraph.view %a at 0 : !vec to !vec
  %b = cudagraph.call "aten::exp"(%v) : (!vec) -> (!vec)
  cudagraph.return %b : !vec
}

// CHECK-LABEL: @nothing on "cuda:0" {
cudagraph.program @nothing on "cuda:0" {
  cudagraph.return
}

// Where one size differs between calls, nobody has a place yet.
// CHECK-LABEL: @symbolic on "cuda:0" attributes
// CHECK: cudagraph.buffer lives [8, 11] :
// CHECK: cudagraph.buffer lives [10, 13] :
!any = !cudagraph.buffer<tensor<?xf32, #tssa.layout<[s0], [1]>>>
cudagraph.program @symbolic on "cuda:0" attributes {pyjit.symbols = [array<i64: 0, 0>]} {
  %x = cudagraph.external input 0 : !any
  %y = cudagraph.external output 0 : !any
  %a = cudagraph.buffer : !any
  %b = cudagraph.buffer : !vec
  cudagraph.kernel @k(%x) to (%a) : (!any) -> (!any)
  cudagraph.kernel @k(%a) to (%b) : (!any) -> (!vec)
  cudagraph.kernel @k(%b) to (%y) : (!vec) -> (!any)
  cudagraph.return %y : !any
}

// What the outer loop carries lives through the inner one; what each round
// writes before it reads shares memory with what the next rounds write.
// CHECK-LABEL: @nested
// CHECK-SAME: arena 2048
// CHECK: %[[P:.*]] = cudagraph.buffer at [[A:[0-9]+]] : !cudagraph.buffer<tensor<i1>>
// CHECK: %[[Q:.*]] = cudagraph.buffer at [[B:[0-9]+]] : !cudagraph.buffer<tensor<i1>>
// CHECK: %[[C:.*]] = cudagraph.buffer at [[D:[0-9]+]] : !cudagraph.buffer<tensor<100xf32>>
// CHECK: %[[S:.*]] = cudagraph.buffer at [[E:[0-9]+]] : !cudagraph.buffer<tensor<100xf32>>
// CHECK: %[[T:.*]] = cudagraph.buffer at [[F:[0-9]+]] : !cudagraph.buffer<tensor<100xf32>>
// CHECK: %[[U:.*]] = cudagraph.buffer at [[E]] : !cudagraph.buffer<tensor<100xf32>>
cudagraph.program @nested on "cuda:0" {
  %p = cudagraph.buffer : !flag
  %q = cudagraph.buffer : !flag
  %c = cudagraph.buffer : !vec
  %s = cudagraph.buffer : !vec
  %t = cudagraph.buffer : !vec
  %u = cudagraph.buffer : !vec
  cudagraph.kernel @k() to (%p, %c) : () -> (!flag, !vec)
  cudagraph.while %p : !flag {
    cudagraph.kernel @k(%c) to (%s, %q) : (!vec) -> (!vec, !flag)
    cudagraph.kernel @k(%s) to (%t) : (!vec) -> (!vec)
    cudagraph.while %q : !flag {
      cudagraph.kernel @k() to (%u) : () -> (!vec)
      cudagraph.kernel @k(%u, %t) to (%q) : (!vec, !vec) -> (!flag)
    }
    cudagraph.kernel @k(%c) to (%p) : (!vec) -> (!flag)
  }
  cudagraph.return
}

// What stands in for an output lies behind all other buffers, too.
// CHECK-LABEL: @result on "cuda:0" arena 1024 {
// CHECK: %[[R:.*]] = cudagraph.buffer at 512
// CHECK: %[[T:.*]] = cudagraph.buffer at 0
// CHECK: cudagraph.copy %[[R]] to %{{.*}} patchable
cudagraph.program @result on "cuda:0" {
  %x = cudagraph.external input 0 stable : !vec
  %y = cudagraph.external output 0 : !vec
  %r = cudagraph.buffer : !vec
  %t = cudagraph.buffer : !vec
  cudagraph.graph externals(%x, %y : !vec, !vec) {
    cudagraph.kernel @k(%x) to (%t) : (!vec) -> (!vec)
    cudagraph.call "aten::exp.out"(%t, %r) mutates [1] : (!vec, !vec) -> ()
    cudagraph.copy %r to %y patchable : !vec, !vec
    cudagraph.yield
  }
  cudagraph.return %y : !vec
}

// Targets of patchable copies lie behind all other buffers, and share memory
// with one another.
// CHECK-LABEL: @staged on "cuda:0" arena 1024 {
// CHECK: %[[A:.*]] = cudagraph.buffer at 512
// CHECK: %[[B:.*]] = cudagraph.buffer at 512
// CHECK: %[[T:.*]] = cudagraph.buffer at 0
// CHECK: cudagraph.copy %{{.*}} to %[[A]] patchable
cudagraph.program @staged on "cuda:0" {
  %x = cudagraph.external input 0 : !vec
  %y = cudagraph.external output 0 : !vec
  %a = cudagraph.buffer : !vec
  %b = cudagraph.buffer : !vec
  %t = cudagraph.buffer : !vec
  cudagraph.graph externals(%x, %y : !vec, !vec) {
    cudagraph.copy %x to %a patchable : !vec, !vec
    %s = cudagraph.call "aten::exp"(%a) : (!vec) -> (!vec)
    cudagraph.kernel @k(%s) to (%t) : (!vec) -> (!vec)
    cudagraph.copy %x to %b patchable : !vec, !vec
    %u = cudagraph.call "aten::exp"(%b) : (!vec) -> (!vec)
    cudagraph.kernel @k(%t, %u) to (%y) : (!vec, !vec) -> (!vec)
    cudagraph.yield
  }
  cudagraph.return %y : !vec
}
