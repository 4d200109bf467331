// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --x86-emit-kernels | FileCheck %s
// RUN: pyjit-opt %s --x86-emit-kernels=prefetch=false | FileCheck %s --check-prefix=OWN

// Where a core's own prefetcher does better, it is left to it.
// OWN-NOT: llvm.intr.prefetch

#x = affine_map<(n, k) -> (k)>
#rows = affine_map<(n, k) -> (n, k)>
#columns = affine_map<(n, k) -> (k, n)>
#y = affine_map<(n, k) -> (n)>

// A weight that comes from memory is asked for 4 KiB ahead, its lines once: two vectors of 32 bytes are a line. Its
// row, which stays near, is not.
// CHECK-LABEL: func.func @rows
// CHECK: scf.for
// CHECK: llvm.getelementptr %{{.*}}[1024]
// CHECK-NEXT: "llvm.intr.prefetch"
// CHECK: llvm.getelementptr %{{.*}}[1040]
// CHECK-NEXT: "llvm.intr.prefetch"
// CHECK-NOT: llvm.intr.prefetch
func.func @rows(%x: tensor<512xf32>, %w: tensor<512x512xf32>) -> tensor<512xf32> attributes {pyjit.kernel} {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<512xf32>
  %i = linalg.fill ins(%z : f32) outs(%e : tensor<512xf32>) -> tensor<512xf32>
  %r = linalg.generic {indexing_maps = [#x, #rows, #y], iterator_types = ["parallel", "reduction"]}
      ins(%x, %w : tensor<512xf32>, tensor<512x512xf32>) outs(%i : tensor<512xf32>) {
  ^bb0(%a: f32, %b: f32, %s: f32):
    %p = arith.mulf %a, %b : f32
    %t = arith.addf %s, %p : f32
    linalg.yield %t : f32
  } -> tensor<512xf32>
  return %r : tensor<512xf32>
}

// Along columns it is rows further down: 32 of 128 bytes (four vectors), 256 elements apart.
// CHECK-LABEL: func.func @narrow
// CHECK: llvm.getelementptr %{{.*}}[8192]
// CHECK-NEXT: "llvm.intr.prefetch"
// CHECK: llvm.getelementptr %{{.*}}[8208]
// CHECK-NEXT: "llvm.intr.prefetch"
// CHECK-NOT: llvm.intr.prefetch
func.func @narrow(%x: tensor<2048xf32>, %w: tensor<2048x256xf32>) -> tensor<256xf32> attributes {pyjit.kernel} {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<256xf32>
  %i = linalg.fill ins(%z : f32) outs(%e : tensor<256xf32>) -> tensor<256xf32>
  %r = linalg.generic {indexing_maps = [#x, #columns, #y], iterator_types = ["parallel", "reduction"]}
      ins(%x, %w : tensor<2048xf32>, tensor<2048x256xf32>) outs(%i : tensor<256xf32>) {
  ^bb0(%a: f32, %b: f32, %s: f32):
    %p = arith.mulf %a, %b : f32
    %t = arith.addf %s, %p : f32
    linalg.yield %t : f32
  } -> tensor<256xf32>
  return %r : tensor<256xf32>
}

// Where rows are streamed, it is the same line of the eight rows that come next.
// CHECK-LABEL: func.func @columns
// CHECK: llvm.getelementptr %{{.*}}[4096]
// CHECK-NEXT: "llvm.intr.prefetch"
// CHECK-NOT: llvm.intr.prefetch
func.func @columns(%x: tensor<512xf32>, %w: tensor<512x512xf32>) -> tensor<512xf32> attributes {pyjit.kernel} {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<512xf32>
  %i = linalg.fill ins(%z : f32) outs(%e : tensor<512xf32>) -> tensor<512xf32>
  %r = linalg.generic {indexing_maps = [#x, #columns, #y], iterator_types = ["parallel", "reduction"]}
      ins(%x, %w : tensor<512xf32>, tensor<512x512xf32>) outs(%i : tensor<512xf32>) {
  ^bb0(%a: f32, %b: f32, %s: f32):
    %p = arith.mulf %a, %b : f32
    %t = arith.addf %s, %p : f32
    linalg.yield %t : f32
  } -> tensor<512xf32>
  return %r : tensor<512xf32>
}

// What caches hold is near.
// CHECK-LABEL: func.func @small
// CHECK-NOT: llvm.intr.prefetch
func.func @small(%x: tensor<64xf32>, %w: tensor<64x64xf32>) -> tensor<64xf32> attributes {pyjit.kernel} {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<64xf32>
  %i = linalg.fill ins(%z : f32) outs(%e : tensor<64xf32>) -> tensor<64xf32>
  %r = linalg.generic {indexing_maps = [#x, #rows, #y], iterator_types = ["parallel", "reduction"]}
      ins(%x, %w : tensor<64xf32>, tensor<64x64xf32>) outs(%i : tensor<64xf32>) {
  ^bb0(%a: f32, %b: f32, %s: f32):
    %p = arith.mulf %a, %b : f32
    %t = arith.addf %s, %p : f32
    linalg.yield %t : f32
  } -> tensor<64xf32>
  return %r : tensor<64xf32>
}
