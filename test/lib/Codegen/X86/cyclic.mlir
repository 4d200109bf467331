// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --x86-emit-kernels | FileCheck %s
// RUN: pyjit-opt %s --x86-emit-kernels=print-schedules -o /dev/null 2>&1 | FileCheck %s --check-prefix=SCHEDULE

#id = affine_map<(d0) -> (d0)>
#roll = affine_map<(d0) -> ((d0 - 3) mod 100)>
#flip = affine_map<(d0) -> (99 - d0)>

// Lanes that do not go round are one vector; else those in front of the end are
// one, and those behind it another. Places are told without a division.
// CHECK-LABEL: func.func @roll
// CHECK-NOT: arith.remui
// CHECK: %[[PLACE:.*]] = arith.select %{{.*}}, %{{.*}}, %{{.*}} : i64
// CHECK: %[[WITHIN:.*]] = arith.cmpi sle, %[[PLACE]], %{{.*}} : i64
// CHECK: scf.if %[[WITHIN]] -> (vector<8xf32>) {
// CHECK: llvm.load {{.*}} -> vector<8xf32>
// CHECK: } else {
// CHECK-COUNT-2: llvm.intr.masked.load {{.*}} -> vector<8xf32>
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

// The last 4 of a row of 28 are the end of a vector that begins at 20.
// CHECK-LABEL: func.func @rest
// SCHEDULE: vector dim 1, 8 lanes x 1, rest overlaps
// CHECK: %[[REST:.*]] = arith.constant 20 : i64
// CHECK: scf.for %{{.*}} = %[[REST]] to
// CHECK: llvm.load {{.*}} -> vector<8xf32>
#rows = affine_map<(d0, d1) -> (d0, d1)>
#part = affine_map<(d0, d1) -> (d0, d1 + 2)>
func.func @rest(%x: tensor<50x30xf32>) -> tensor<50x28xf32> attributes {pyjit.kernel} {
  %e = tensor.empty() : tensor<50x28xf32>
  %r = linalg.generic {indexing_maps = [#part, #rows], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<50x30xf32>) outs(%e : tensor<50x28xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<50x28xf32>
  return %r : tensor<50x28xf32>
}

// What may be written where it is read is computed once.
// CHECK-LABEL: func.func @in_place
// CHECK: llvm.load {{.*}} -> vector<8xf32>
// CHECK: llvm.load {{.*}} -> f32
// SCHEDULE: vector dim 0, 8 lanes x 1, 0 unit dims
func.func @in_place(%x: tensor<28xf32>) -> tensor<28xf32> attributes {pyjit.kernel, pyjit.may_overlap = [array<i64: 0, 0>]} {
  %e = tensor.empty() : tensor<28xf32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%x : tensor<28xf32>) outs(%e : tensor<28xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.addf %a, %a : f32
    linalg.yield %s : f32
  } -> tensor<28xf32>
  return %r : tensor<28xf32>
}
