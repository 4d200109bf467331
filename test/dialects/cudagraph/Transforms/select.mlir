// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --pass-pipeline='builtin.module(cudagraph.program(cudagraph-select))' | FileCheck %s
// RUN: pyjit-opt %s --pass-pipeline='builtin.module(cudagraph.program(cudagraph-select{max-copy-bytes=16}))' | FileCheck %s --check-prefix=FEW

!vec = !cudagraph.buffer<tensor<8xf32>>

// CHECK: @plain on "cuda:0" variants ["plain"]
cudagraph.program @plain on "cuda:0" {
  %y = cudagraph.external output 0 : !vec
  cudagraph.kernel @k() to (%y) : () -> (!vec)
  cudagraph.return %y : !vec
}

// CHECK: @graphs on "cuda:0" variants ["plain", "copy", "update"]
// FEW: @graphs on "cuda:0" variants ["plain", "update"]
cudagraph.program @graphs on "cuda:0" {
  %y = cudagraph.external output 0 : !vec
  cudagraph.graph externals(%y : !vec) {
    cudagraph.kernel @k() to (%y) : () -> (!vec)
    cudagraph.yield
  }
  cudagraph.return %y : !vec
}

// A prepare program hardly ever runs.
// CHECK: @prepare on "cuda:0" variants ["plain"]
cudagraph.program @prepare on "cuda:0" attributes {pyjit.inputs = array<i64>, pyjit.prepare} {
  %y = cudagraph.external output 0 : !vec
  cudagraph.graph externals(%y : !vec) {
    cudagraph.kernel @k() to (%y) : () -> (!vec)
    cudagraph.yield
  }
  cudagraph.return %y : !vec
}

// CHECK: @indirect on "cuda:0" variants ["plain", "copy", "table", "update"]
cudagraph.program @indirect on "cuda:0" {
  %y = cudagraph.external output 0 : !vec
  cudagraph.graph externals(%y : !vec) {
    cudagraph.kernel @k() to (%y) indirect @k2 [0] : () -> (!vec)
    cudagraph.yield
  }
  cudagraph.return %y : !vec
}
