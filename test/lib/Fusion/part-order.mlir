// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --fusion-outline --fusion-in-place=remarks=true --split-input-file -verify-diagnostics | FileCheck %s

#id = affine_map<(d0, d1) -> (d0, d1)>

// What reads the old value is no kernel with what reads the new one, although one could compute both: the first has to
// run before the write, which is marked, and stands in front of it.
// CHECK-LABEL: func.func @apart
// CHECK-SAME:    %[[C:.*]]: tensor<8x8xf32>, %[[K:.*]]: tensor<8xf32>
// CHECK-NEXT:    %[[A:.*]] = call @{{.*}}(%[[C]])
// CHECK-NEXT:    %[[N:.*]] = tssa.assign %[[C]], %[[K]] {{.*}} {pyjit.in_place = array<i64: 0>, pyjit.part}
// CHECK-NEXT:    %[[B:.*]] = call @{{.*}}(%[[N]], %[[A]])
// CHECK-NEXT:    return %[[N]], %[[B]]
func.func @apart(%c: tensor<8x8xf32>, %k: tensor<8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) attributes {pyjit.updates = [array<i64: 0, 0>]} {
  %0 = tssa.assign %c, %k [#tssa.view<select [0, 5]>] {pyjit.part} : tensor<8x8xf32>, tensor<8xf32>
  %e = tensor.empty() : tensor<8x8xf32>
  %1 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%c : tensor<8x8xf32>) outs(%e : tensor<8x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = arith.negf %a : f32
    linalg.yield %r : f32
  } -> tensor<8x8xf32>
  %2 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%0, %1 : tensor<8x8xf32>, tensor<8x8xf32>) outs(%e : tensor<8x8xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %r = arith.addf %a, %b : f32
    linalg.yield %r : f32
  } -> tensor<8x8xf32>
  return %0, %2 : tensor<8x8xf32>, tensor<8x8xf32>
}

// -----

#id = affine_map<(d0, d1) -> (d0, d1)>

// Where one operation reads both, the mark is void.
// CHECK-LABEL: func.func @together
// CHECK-NOT:     in_place
// expected-remark@+1 {{input 0 is copied to at the end: what it was is read later}}
func.func @together(%c: tensor<8x8xf32>, %k: tensor<8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) attributes {pyjit.updates = [array<i64: 0, 0>]} {
  %0 = tssa.assign %c, %k [#tssa.view<select [0, 5]>] {pyjit.part} : tensor<8x8xf32>, tensor<8xf32>
  %e = tensor.empty() : tensor<8x8xf32>
  %2 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%0, %c : tensor<8x8xf32>, tensor<8x8xf32>) outs(%e : tensor<8x8xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %r = arith.addf %a, %b : f32
    linalg.yield %r : f32
  } -> tensor<8x8xf32>
  return %0, %2 : tensor<8x8xf32>, tensor<8x8xf32>
}
