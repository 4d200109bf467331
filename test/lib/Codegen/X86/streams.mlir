// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s -x86-emit-kernels="vector-bits=256 print-schedules=true" -verify-diagnostics | FileCheck %s

// A product of one row and a weight that lies along its results: eight rows of the weight are read at a time, and added
// to the sums of a block's columns, which lie on the stack. The rows that come next are asked for.
// CHECK-LABEL: func.func {{.*}}@product
// CHECK: llvm.alloca
// CHECK: scf.for
// CHECK: llvm.intr.prefetch
// CHECK: arith.addf {{.*}} : vector<8xf32>
#x = affine_map<(d0, d1) -> (d1)>
#w = affine_map<(d0, d1) -> (d1, d0)>
#y = affine_map<(d0, d1) -> (d0)>
// expected-remark@+1 {{8 rows streamed, 0 unit dims, block 384, work 8}}
func.func @product(%x: tensor<768xf32>, %w: tensor<768x3072xf32>) -> tensor<3072xf32> attributes {pyjit.kernel} {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<3072xf32>
  %init = linalg.fill ins(%zero : f32) outs(%e : tensor<3072xf32>) -> tensor<3072xf32>
  %r = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "reduction"]}
      ins(%x, %w : tensor<768xf32>, tensor<768x3072xf32>) outs(%init : tensor<3072xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.mulf %a, %b : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<3072xf32>
  return %r : tensor<3072xf32>
}
