// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --x86-emit-kernels | FileCheck %s
// RUN: pyjit-opt %s --x86-emit-kernels=print-schedules -o /dev/null 2>&1 | FileCheck %s --check-prefix=SCHEDULE
// RUN: pyjit-opt %s --pyjit-x86=vector-bits=512 | FileCheck %s --check-prefix=WIDE

// WIDE-LABEL: llvm.func @turn
// WIDE-COUNT-16: llvm.load {{.*}} vector<16xf32>
// WIDE: llvm.shufflevector {{.*}} vector<16xf32>

#t = affine_map<(d0, d1) -> (d1, d0)>
#id = affine_map<(d0, d1) -> (d0, d1)>

// Eight vectors are read, turned in three steps of eight shuffles, and stored.
// CHECK-LABEL: func.func @turn
// CHECK-COUNT-8: llvm.load {{.*}} -> vector<8xf32>
// CHECK-COUNT-24: vector.shuffle
// CHECK-COUNT-8: llvm.store {{.*}} : vector<8xf32>
// Rests are read element by element.
// CHECK: llvm.load {{.*}} -> f32
// SCHEDULE: tile dim 0, 8 rows
func.func @turn(%x: tensor<100x70xf32>) -> tensor<70x100xf32> attributes {pyjit.kernel} {
  %e = tensor.empty() : tensor<70x100xf32>
  %r = linalg.generic {indexing_maps = [#t, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<100x70xf32>) outs(%e : tensor<70x100xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<70x100xf32>
  return %r : tensor<70x100xf32>
}

// Rows of short dims that every access walks as one are long rows: a number for
// each row is no reason to turn them.
#w = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#s = affine_map<(d0, d1, d2) -> (d0)>
// CHECK-LABEL: func.func @short_rows
// CHECK-NOT: vector.shuffle
// SCHEDULE-NOT: tile dim
// SCHEDULE: vector dim 1, 8 lanes x 1,
func.func @short_rows(%w: tensor<64x9x3xf32>, %s: tensor<64xf32>) -> tensor<64x9x3xf32> attributes {pyjit.kernel} {
  %e = tensor.empty() : tensor<64x9x3xf32>
  %r = linalg.generic {indexing_maps = [#w, #s, #w], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%w, %s : tensor<64x9x3xf32>, tensor<64xf32>) outs(%e : tensor<64x9x3xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b : f32
    linalg.yield %p : f32
  } -> tensor<64x9x3xf32>
  return %r : tensor<64x9x3xf32>
}
