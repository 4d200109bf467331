// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --x86-emit-kernels | FileCheck %s
// RUN: pyjit-opt %s --x86-emit-kernels=print-schedules -o /dev/null 2>&1 | FileCheck %s --check-prefix=SCHEDULE

// How many elements an accumulator takes in one by one, for each way in which a
// reduction can lie in memory.

#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#second = affine_map<(d0, d1) -> (d0, d1 * 2)>
#ninth = affine_map<(d0, d1) -> (d0, d1 * 9)>
#threes = affine_map<(d0, d1, d2) -> (d0, d1 * 4 + d2)>
#id3 = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#row3 = affine_map<(d0, d1, d2) -> (d0)>
#column = affine_map<(d0, d1) -> (d1)>

// Every second element: out of two vectors, the second of which ends with the
// last element. Runs of 32 times 32 elements.
// SCHEDULE: vector dim 1, 8 lanes x 4
// CHECK-LABEL: func.func @every_second
// CHECK: scf.for {{.*}} -> (vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>)
// CHECK: %[[LENGTH:.*]] = arith.constant 1024 : i64
// CHECK: arith.addi %{{.*}}, %[[LENGTH]]
// CHECK: scf.for {{.*}} -> (vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>)
// CHECK: %[[FIRST:.*]] = llvm.load {{.*}} -> vector<8xf32>
// CHECK: %[[BEHIND:.*]] = llvm.getelementptr %{{.*}}[7]
// CHECK: %[[SECOND:.*]] = llvm.load %[[BEHIND]] {{.*}} -> vector<8xf32>
// CHECK: vector.shuffle %[[FIRST]], %[[SECOND]] [0, 2, 4, 6, 9, 11, 13, 15]
func.func @every_second(%x: tensor<6x8192xf32>) -> tensor<6xf32> attributes {pyjit.kernel} {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<6xf32>
  %v = tensor.empty() : tensor<6x4096xf32>
  %s = linalg.generic {indexing_maps = [#second, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<6x8192xf32>) outs(%v : tensor<6x4096xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<6x4096xf32>
  %i = linalg.fill ins(%z : f32) outs(%e : tensor<6xf32>) -> tensor<6xf32>
  %r = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
      ins(%s : tensor<6x4096xf32>) outs(%i : tensor<6xf32>) {
  ^bb0(%a: f32, %b: f32):
    %t = arith.addf %a, %b : f32
    linalg.yield %t : f32
  } -> tensor<6xf32>
  return %r : tensor<6xf32>
}

// Too far apart for vectors: four scalars in flight. The rest is summed apart.
// SCHEDULE: vector dim 1, 1 lanes x 4
// CHECK-LABEL: func.func @every_ninth
// CHECK: scf.for {{.*}} -> (f32, f32, f32, f32)
// CHECK: scf.for {{.*}} -> (f32, f32, f32, f32)
// CHECK-COUNT-4: llvm.load {{.*}} -> f32
// CHECK: scf.for {{.*}} -> (f32) : i64
// CHECK-NOT: vector<
func.func @every_ninth(%x: tensor<6x9009xf32>) -> tensor<6xf32> attributes {pyjit.kernel} {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<6xf32>
  %v = tensor.empty() : tensor<6x1001xf32>
  %s = linalg.generic {indexing_maps = [#ninth, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<6x9009xf32>) outs(%v : tensor<6x1001xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<6x1001xf32>
  %i = linalg.fill ins(%z : f32) outs(%e : tensor<6xf32>) -> tensor<6xf32>
  %r = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
      ins(%s : tensor<6x1001xf32>) outs(%i : tensor<6xf32>) {
  ^bb0(%a: f32, %b: f32):
    %t = arith.addf %a, %b : f32
    linalg.yield %t : f32
  } -> tensor<6xf32>
  return %r : tensor<6xf32>
}

// A loop around a short one: its runs are summed up, too.
// CHECK-LABEL: func.func @threes
// CHECK: %[[LENGTH:.*]] = arith.constant 32 : i64
// CHECK: scf.for {{.*}} step %[[LENGTH]] {{.*}} -> (f32)
// CHECK: scf.for {{.*}} -> (f32)
// CHECK: scf.for {{.*}} -> (f32)
func.func @threes(%x: tensor<1x4000xf32>) -> tensor<1xf32> attributes {pyjit.kernel} {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1xf32>
  %v = tensor.empty() : tensor<1x1000x3xf32>
  %s = linalg.generic {indexing_maps = [#threes, #id3], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x : tensor<1x4000xf32>) outs(%v : tensor<1x1000x3xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<1x1000x3xf32>
  %i = linalg.fill ins(%z : f32) outs(%e : tensor<1xf32>) -> tensor<1xf32>
  %r = linalg.generic {indexing_maps = [#id3, #row3], iterator_types = ["parallel", "reduction", "reduction"]}
      ins(%s : tensor<1x1000x3xf32>) outs(%i : tensor<1xf32>) {
  ^bb0(%a: f32, %b: f32):
    %t = arith.addf %a, %b : f32
    linalg.yield %t : f32
  } -> tensor<1xf32>
  return %r : tensor<1xf32>
}

// Of a maximum nothing is rounded: no runs.
// CHECK-LABEL: func.func @columns
// CHECK: scf.for
// CHECK: scf.for
// CHECK: scf.for {{.*}} -> (vector<8xf32>, vector<8xf32>)
// CHECK-NOT: scf.for
// CHECK: return
func.func @columns(%x: tensor<4096x16xf32>) -> tensor<16xf32> attributes {pyjit.kernel} {
  %z = arith.constant 0xFF800000 : f32
  %e = tensor.empty() : tensor<16xf32>
  %i = linalg.fill ins(%z : f32) outs(%e : tensor<16xf32>) -> tensor<16xf32>
  %r = linalg.generic {indexing_maps = [#id, #column], iterator_types = ["reduction", "parallel"]}
      ins(%x : tensor<4096x16xf32>) outs(%i : tensor<16xf32>) {
  ^bb0(%a: f32, %b: f32):
    %t = arith.maximumf %a, %b : f32
    linalg.yield %t : f32
  } -> tensor<16xf32>
  return %r : tensor<16xf32>
}
