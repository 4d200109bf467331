// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --x86-emit-kernels | FileCheck %s

#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>

// A dense chain is one loop over vectors, in blocks; nothing is left for a tail.
// CHECK-LABEL: func.func private @pointwise
// CHECK-SAME: pyjit.work = 1
func.func @pointwise(%x: tensor<4x64xf32>) -> tensor<4x64xf32> attributes {pyjit.kernel} {
  %e = tensor.empty() : tensor<4x64xf32>
  %c = arith.constant 0.0 : f32
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<4x64xf32>) outs(%e : tensor<4x64xf32>) {
  ^bb0(%a: f32, %o: f32):
    %m = arith.maximumf %a, %c : f32
    linalg.yield %m : f32
  } -> tensor<4x64xf32>
  return %r : tensor<4x64xf32>
}

// One unit per row; four accumulators; the scalar tail takes the rest.
// CHECK-LABEL: func.func private @row_sum
// CHECK-SAME: pyjit.work = 6
func.func @row_sum(%x: tensor<6x67xf32>) -> tensor<6xf32> attributes {pyjit.kernel} {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<6xf32>
  %i = linalg.fill ins(%z : f32) outs(%e : tensor<6xf32>) -> tensor<6xf32>
  %r = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<6x67xf32>) outs(%i : tensor<6xf32>) {
  ^bb0(%a: f32, %s: f32):
    %t = arith.addf %a, %s : f32
    linalg.yield %t : f32
  } -> tensor<6xf32>
  return %r : tensor<6xf32>
}

// What depends on the outer of two reduction dims alone is kept once per index of it: the second walk
// reads it before its inner loop begins.
// CHECK-LABEL: func.func private @repeated
#both = affine_map<(d0, d1) -> (d0, d1)>
#outer = affine_map<(d0, d1) -> (d0)>
#none = affine_map<(d0, d1) -> ()>
func.func @repeated(%x: tensor<4xf32>) -> tensor<4x2xf32> attributes {pyjit.kernel} {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x2xf32>
  %s = tensor.empty() : tensor<f32>
  %exp = linalg.generic {indexing_maps = [#outer, #both], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<4xf32>) outs(%e : tensor<4x2xf32>) {
  ^bb0(%a: f32, %o: f32):
    %v = math.exp %a : f32
    linalg.yield %v : f32
  } -> tensor<4x2xf32>
  %i = linalg.fill ins(%z : f32) outs(%s : tensor<f32>) -> tensor<f32>
  %sum = linalg.generic {indexing_maps = [#both, #none], iterator_types = ["reduction", "reduction"]}
      ins(%exp : tensor<4x2xf32>) outs(%i : tensor<f32>) {
  ^bb0(%a: f32, %o: f32):
    %t = arith.addf %a, %o : f32
    linalg.yield %t : f32
  } -> tensor<f32>
  %r = linalg.generic {indexing_maps = [#both, #none, #both], iterator_types = ["parallel", "parallel"]}
      ins(%exp, %sum : tensor<4x2xf32>, tensor<f32>) outs(%e : tensor<4x2xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %q = arith.divf %a, %b : f32
    linalg.yield %q : f32
  } -> tensor<4x2xf32>
  return %r : tensor<4x2xf32>
}

// CHECK-LABEL: module @kernels
// CHECK: func.func @pointwise(%{{.*}}: !llvm.ptr, %[[BEGIN:.*]]: i64, %[[END:.*]]: i64)
// CHECK: scf.for %{{.*}} = %[[BEGIN]] to %[[END]]
// CHECK: scf.for
// CHECK: llvm.load %{{.*}} : !llvm.ptr -> vector<8xf32>
// CHECK: arith.maximumf %{{.*}} : vector<8xf32>
// CHECK: llvm.store %{{.*}} : vector<8xf32>, !llvm.ptr
// CHECK: func.func @row_sum
// CHECK: scf.for {{.*}} -> (vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>)
// CHECK: vector.shuffle
// CHECK: scf.for {{.*}} -> (f32)
// CHECK: func.func @repeated
// CHECK: %[[KEPT:.*]] = llvm.alloca
// CHECK: math.exp
// CHECK: llvm.getelementptr %[[KEPT]][%[[OUTER:.*]]]
// CHECK: scf.for %[[SECOND:.*]] = {{.*}} {
// CHECK: %[[AT:.*]] = llvm.getelementptr %[[KEPT]][%[[SECOND]]]
// CHECK: llvm.load %[[AT]]
// CHECK: scf.for
