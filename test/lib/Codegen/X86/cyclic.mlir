// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --x86-emit-kernels | FileCheck %s

#id = affine_map<(d0) -> (d0)>
#roll = affine_map<(d0) -> ((d0 - 3) mod 100)>
#flip = affine_map<(d0) -> (99 - d0)>

// Lanes that do not go round are one vector; others are read one by one, at
// places that are told without a division.
// CHECK-LABEL: func.func @roll
// CHECK-NOT: arith.remui
// CHECK: %[[PLACE:.*]] = arith.select %{{.*}}, %{{.*}}, %{{.*}} : i64
// CHECK: %[[WITHIN:.*]] = arith.cmpi sle, %[[PLACE]], %{{.*}} : i64
// CHECK: scf.if %[[WITHIN]] -> (vector<8xf32>) {
// CHECK: llvm.load {{.*}} -> vector<8xf32>
// CHECK: } else {
// CHECK-COUNT-8: llvm.load {{.*}} -> f32
func.func @roll(%x: tensor<100xf32>) -> tensor<100xf32> attributes {pyjit.kernel} {
  %e = tensor.empty() : tensor<100xf32>
  %r = linalg.generic {indexing_maps = [#roll, #id], iterator_types = ["parallel"]}
      ins(%x : tensor<100xf32>) outs(%e : tensor<100xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<100xf32>
  return %r : tensor<100xf32>
}

// A row that is read from its end is turned in a register.
// CHECK-LABEL: func.func @flip
// CHECK: llvm.load {{.*}} -> vector<8xf32>
// CHECK-NEXT: vector.shuffle {{.*}} [7, 6, 5, 4, 3, 2, 1, 0]
func.func @flip(%x: tensor<100xf32>) -> tensor<100xf32> attributes {pyjit.kernel} {
  %e = tensor.empty() : tensor<100xf32>
  %r = linalg.generic {indexing_maps = [#flip, #id], iterator_types = ["parallel"]}
      ins(%x : tensor<100xf32>) outs(%e : tensor<100xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<100xf32>
  return %r : tensor<100xf32>
}
