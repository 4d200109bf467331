// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --fusion-split-reductions | FileCheck %s
// RUN: pyjit-opt %s --fusion-split-reductions --fusion-outline --pyjit-x86 | FileCheck %s --check-prefix=KERNELS

// Each part of a split sum is a unit of a kernel's work, and another kernel adds the parts.
// KERNELS-DAG: func.func private @kernel_0(tensor<1048576xf32>) -> tensor<16xf32> attributes {{.*}}pyjit.work = 16
// KERNELS-DAG: func.func private @kernel_1(tensor<16xf32>) -> tensor<f32> attributes {{.*}}pyjit.work = 1
// KERNELS-DAG: llvm.func @kernel_0(
// KERNELS-DAG: llvm.func @kernel_1(

#id1 = affine_map<(d0) -> (d0)>
#none1 = affine_map<(d0) -> ()>
#id2 = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>

// CHECK: #[[PART:.*]] = affine_map<(d0, d1) -> (d0 * 65536 + d1)>

// CHECK-LABEL: func.func @sum
// CHECK: %[[V:.*]] = linalg.generic {indexing_maps = [#[[PART]], {{.*}} outs(%{{.*}} : tensor<16x65536xf32>)
// CHECK: %[[P:.*]] = linalg.generic {{.*}} iterator_types = ["reduction", "parallel"]} ins(%[[V]] : {{.*}}) outs(%{{.*}} : tensor<16xf32>)
// CHECK: linalg.generic {{.*}} iterator_types = ["reduction"]} ins(%[[P]]
func.func @sum(%x: tensor<1048576xf32>) -> tensor<f32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<f32>
  %i = linalg.fill ins(%z : f32) outs(%e : tensor<f32>) -> tensor<f32>
  %r = linalg.generic {indexing_maps = [#id1, #none1], iterator_types = ["reduction"]}
      ins(%x : tensor<1048576xf32>) outs(%i : tensor<f32>) {
  ^bb0(%a: f32, %s: f32):
    %t = arith.addf %a, %s : f32
    linalg.yield %t : f32
  } -> tensor<f32>
  return %r : tensor<f32>
}

// Two results of much, joined by an operation that does not mind five twice.
// CHECK-LABEL: func.func @rows
// CHECK: outs(%{{.*}} : tensor<2x16x5000xi64>)
// CHECK: outs(%{{.*}} : tensor<16x2xi64>)
func.func @rows(%x: tensor<2x80000xi64>) -> tensor<2xi64> {
  %z = arith.constant 5 : i64
  %e = tensor.empty() : tensor<2xi64>
  %i = linalg.fill ins(%z : i64) outs(%e : tensor<2xi64>) -> tensor<2xi64>
  %r = linalg.generic {indexing_maps = [#id2, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<2x80000xi64>) outs(%i : tensor<2xi64>) {
  ^bb0(%a: i64, %s: i64):
    %t = arith.maxsi %a, %s : i64
    linalg.yield %t : i64
  } -> tensor<2xi64>
  return %r : tensor<2xi64>
}

// Five would be counted once for each part; few elements are no work; a prime
// number has no parts.
// CHECK-LABEL: func.func @stays
// CHECK-COUNT-3: linalg.generic
// CHECK-NOT: linalg.generic
func.func @stays(%x: tensor<1048576xi64>, %y: tensor<1024xi64>, %p: tensor<65537xi64>) -> (tensor<i64>, tensor<i64>, tensor<i64>) {
  %c = arith.constant 5 : i64
  %z = arith.constant 0 : i64
  %e = tensor.empty() : tensor<i64>
  %i = linalg.fill ins(%c : i64) outs(%e : tensor<i64>) -> tensor<i64>
  %j = linalg.fill ins(%z : i64) outs(%e : tensor<i64>) -> tensor<i64>
  %0 = linalg.generic {indexing_maps = [#id1, #none1], iterator_types = ["reduction"]}
      ins(%x : tensor<1048576xi64>) outs(%i : tensor<i64>) {
  ^bb0(%a: i64, %s: i64):
    %t = arith.addi %a, %s : i64
    linalg.yield %t : i64
  } -> tensor<i64>
  %1 = linalg.generic {indexing_maps = [#id1, #none1], iterator_types = ["reduction"]}
      ins(%y : tensor<1024xi64>) outs(%j : tensor<i64>) {
  ^bb0(%a: i64, %s: i64):
    %t = arith.addi %a, %s : i64
    linalg.yield %t : i64
  } -> tensor<i64>
  %2 = linalg.generic {indexing_maps = [#id1, #none1], iterator_types = ["reduction"]}
      ins(%p : tensor<65537xi64>) outs(%j : tensor<i64>) {
  ^bb0(%a: i64, %s: i64):
    %t = arith.addi %a, %s : i64
    linalg.yield %t : i64
  } -> tensor<i64>
  return %0, %1, %2 : tensor<i64>, tensor<i64>, tensor<i64>
}

#column = affine_map<(d0, d1) -> (d1)>

// Sixty-four columns are two units of work: their rows are divided. Two hundred
// and fifty-six are eight.
// CHECK-LABEL: func.func @columns
// CHECK: outs(%{{.*}} : tensor<16x64xf32>)
// CHECK: outs(%{{.*}} : tensor<64xf32>)
// CHECK-NOT: tensor<16x256xf32>
// CHECK: return
func.func @columns(%x: tensor<16384x64xf32>, %y: tensor<16384x256xf32>) -> (tensor<64xf32>, tensor<256xf32>) {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<64xf32>
  %i = linalg.fill ins(%z : f32) outs(%e : tensor<64xf32>) -> tensor<64xf32>
  %r = linalg.generic {indexing_maps = [#id2, #column], iterator_types = ["reduction", "parallel"]}
      ins(%x : tensor<16384x64xf32>) outs(%i : tensor<64xf32>) {
  ^bb0(%a: f32, %s: f32):
    %t = arith.addf %a, %s : f32
    linalg.yield %t : f32
  } -> tensor<64xf32>
  %f = tensor.empty() : tensor<256xf32>
  %j = linalg.fill ins(%z : f32) outs(%f : tensor<256xf32>) -> tensor<256xf32>
  %q = linalg.generic {indexing_maps = [#id2, #column], iterator_types = ["reduction", "parallel"]}
      ins(%y : tensor<16384x256xf32>) outs(%j : tensor<256xf32>) {
  ^bb0(%a: f32, %s: f32):
    %t = arith.addf %a, %s : f32
    linalg.yield %t : f32
  } -> tensor<256xf32>
  return %r, %q : tensor<64xf32>, tensor<256xf32>
}

// One row times a weight in x out: a part has 96 of the weight's rows. A weight of 512 KiB lies in a cache, and where
// rows are short, each thread reads its columns of them as fast.
// CHECK-LABEL: func.func @product
// CHECK: outs(%{{.*}} : tensor<8x96x2048xf32>)
// CHECK: outs(%{{.*}} : tensor<8x2048xf32>)
// CHECK: return
// CHECK-LABEL: func.func @near
// CHECK-COUNT-1: linalg.generic
// CHECK-NOT: linalg.generic
// CHECK-LABEL: func.func @narrow
// CHECK-COUNT-1: linalg.generic
// CHECK-NOT: linalg.generic
#weight = affine_map<(n, k) -> (k, n)>
#factor = affine_map<(n, k) -> (k)>
#product = affine_map<(n, k) -> (n)>
func.func @product(%x: tensor<768xf32>, %w: tensor<768x2048xf32>) -> tensor<2048xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2048xf32>
  %i = linalg.fill ins(%z : f32) outs(%e : tensor<2048xf32>) -> tensor<2048xf32>
  %r = linalg.generic {indexing_maps = [#factor, #weight, #product], iterator_types = ["parallel", "reduction"]}
      ins(%x, %w : tensor<768xf32>, tensor<768x2048xf32>) outs(%i : tensor<2048xf32>) {
  ^bb0(%a: f32, %b: f32, %s: f32):
    %p = arith.mulf %a, %b : f32
    %t = arith.addf %s, %p : f32
    linalg.yield %t : f32
  } -> tensor<2048xf32>
  return %r : tensor<2048xf32>
}
func.func @near(%x: tensor<256xf32>, %w: tensor<256x512xf32>) -> tensor<512xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<512xf32>
  %i = linalg.fill ins(%z : f32) outs(%e : tensor<512xf32>) -> tensor<512xf32>
  %r = linalg.generic {indexing_maps = [#factor, #weight, #product], iterator_types = ["parallel", "reduction"]}
      ins(%x, %w : tensor<256xf32>, tensor<256x512xf32>) outs(%i : tensor<512xf32>) {
  ^bb0(%a: f32, %b: f32, %s: f32):
    %p = arith.mulf %a, %b : f32
    %t = arith.addf %s, %p : f32
    linalg.yield %t : f32
  } -> tensor<512xf32>
  return %r : tensor<512xf32>
}
func.func @narrow(%x: tensor<4096xf32>, %w: tensor<4096x256xf32>) -> tensor<256xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<256xf32>
  %i = linalg.fill ins(%z : f32) outs(%e : tensor<256xf32>) -> tensor<256xf32>
  %r = linalg.generic {indexing_maps = [#factor, #weight, #product], iterator_types = ["parallel", "reduction"]}
      ins(%x, %w : tensor<4096xf32>, tensor<4096x256xf32>) outs(%i : tensor<256xf32>) {
  ^bb0(%a: f32, %b: f32, %s: f32):
    %p = arith.mulf %a, %b : f32
    %t = arith.addf %s, %p : f32
    linalg.yield %t : f32
  } -> tensor<256xf32>
  return %r : tensor<256xf32>
}
