// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --fusion-keep-parts --split-input-file | FileCheck %s
// RUN: pyjit-opt %s --pass-pipeline="builtin.module(func.func(fusion-keep-parts,convert-tssa-to-linalg))" --split-input-file | FileCheck %s --check-prefix=LINALG

// One of 64 rows: the launch writes it, and no kernel computes the others. What `copy_` makes of the part is the source.
// CHECK-LABEL: func.func @row
// CHECK-SAME:    %[[C:.*]]: tensor<64x8xf32>, %[[K:.*]]: tensor<8xf32>
// CHECK:         tssa.assign %[[C]], %[[K]] [#tssa.view<select [0, 5]>] {pyjit.part}
// LINALG-LABEL: func.func @row
// LINALG:         tssa.assign %{{.*}}, %{{.*}} [#tssa.view<select [0, 5]>] {pyjit.part}
// LINALG-NOT:     linalg.generic
// LINALG:         return
func.func @row(%c: tensor<64x8xf32>, %k: tensor<8xf32>) -> tensor<64x8xf32> attributes {pyjit.updates = [array<i64: 0, 0>]} {
  %old = tssa.access %c [#tssa.view<select [0, 5]>] : tensor<64x8xf32> -> tensor<8xf32>
  %new = tssa.aten "aten::copy"(%old, %k, false) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %0 = tssa.assign %c, %new [#tssa.view<select [0, 5]>] : tensor<64x8xf32>, tensor<8xf32>
  return %0 : tensor<64x8xf32>
}

// -----

// A conversion is no copy: a kernel computes the part, and that alone.
// CHECK-LABEL: func.func @converted
// CHECK:         %[[NEW:.*]] = tssa.aten "aten::copy"
// CHECK:         tssa.assign %{{.*}}, %[[NEW]] [#tssa.view<select [0, 5]>] {pyjit.part}
// LINALG-LABEL: func.func @converted
// LINALG:         %[[NEW:.*]] = linalg.generic
// LINALG-SAME:      tensor<8xf64>
// LINALG:         tssa.assign %{{.*}}, %[[NEW]]
func.func @converted(%c: tensor<64x8xf32>, %k: tensor<8xf64>) -> tensor<64x8xf32> attributes {pyjit.updates = [array<i64: 0, 0>]} {
  %old = tssa.access %c [#tssa.view<select [0, 5]>] : tensor<64x8xf32> -> tensor<8xf32>
  %new = tssa.aten "aten::copy"(%old, %k, false) : (tensor<8xf32>, tensor<8xf64>) -> tensor<8xf32>
  %0 = tssa.assign %c, %new [#tssa.view<select [0, 5]>] : tensor<64x8xf32>, tensor<8xf32>
  return %0 : tensor<64x8xf32>
}

// -----

// A number that differs between calls says where; a size how much.
// CHECK-LABEL: func.func @symbolic
// CHECK:         tssa.assign {{.*}} [#tssa.view<select [1, s0]>] {pyjit.part}
// CHECK:         tssa.assign {{.*}} [#tssa.view<slice [1, 0, s0, 1]>] {pyjit.part}
func.func @symbolic(%c: tensor<4x64x8xf32>, %d: tensor<4x64x8xf32>, %k: tensor<4x8xf32>,
                    %z: tensor<4x?x8xf32, #tssa.layout<[4, s0, 8], [s0 * 8, 8, 1]>>, %n: tensor<i64>) -> (tensor<4x64x8xf32>, tensor<4x64x8xf32>)
    attributes {pyjit.symbols = [array<i64: 4, -1>], pyjit.updates = [array<i64: 0, 0>, array<i64: 1, 1>]} {
  %0 = tssa.assign %c, %k [#tssa.view<select [1, s0]>] : tensor<4x64x8xf32>, tensor<4x8xf32>
  %1 = tssa.assign %d, %z [#tssa.view<slice [1, 0, s0, 1]>] : tensor<4x64x8xf32>, tensor<4x?x8xf32, #tssa.layout<[4, s0, 8], [s0 * 8, 8, 1]>>
  return %0, %1 : tensor<4x64x8xf32>, tensor<4x64x8xf32>
}

// -----

// Vendor calls that write a part, one behind the other. Who looks at an older value goes in front of the next write.
// CHECK-LABEL: func.func @calls
// CHECK:         %[[A:.*]] = tssa.aten "aten::index_copy_"(%[[C:[^,]*]],{{.*}} pyjit.part
// CHECK-NEXT:    tssa.aten "aten::relu"(%[[A]])
// CHECK-NEXT:    tssa.aten "aten::scatter_.src"(%[[A]],{{.*}} pyjit.part
func.func @calls(%c: tensor<64x8xf32>, %i: tensor<2xi64>, %k: tensor<2x8xf32>, %j: tensor<1x8xi64>) -> (tensor<64x8xf32>, tensor<64x8xf32>)
    attributes {pyjit.updates = [array<i64: 0, 0>]} {
  %0 = tssa.aten "aten::index_copy_"(%c, 0 : i64, %i, %k) mutates [0] {pyjit.must_run} : (tensor<64x8xf32>, tensor<2xi64>, tensor<2x8xf32>) -> tensor<64x8xf32>
  %1 = tssa.aten "aten::scatter_.src"(%0, 0 : i64, %j, %k) mutates [0] {pyjit.must_run} : (tensor<64x8xf32>, tensor<1x8xi64>, tensor<2x8xf32>) -> tensor<64x8xf32>
  %2 = tssa.aten "aten::relu"(%0) : (tensor<64x8xf32>) -> tensor<64x8xf32>
  return %1, %2 : tensor<64x8xf32>, tensor<64x8xf32>
}

// -----

// Most of it: a kernel over all elements, in place, touches each once.
// CHECK-LABEL: func.func @most
// CHECK-NOT:     pyjit.part
func.func @most(%c: tensor<64x8xf32>, %k: tensor<63x8xf32>) -> tensor<64x8xf32> attributes {pyjit.updates = [array<i64: 0, 0>]} {
  %0 = tssa.assign %c, %k [#tssa.view<slice [0, 1, 63, 1]>] : tensor<64x8xf32>, tensor<63x8xf32>
  return %0 : tensor<64x8xf32>
}

// -----

// What it was is returned, too.
// CHECK-LABEL: func.func @old
// CHECK-NOT:     pyjit.part
func.func @old(%c: tensor<64x8xf32>, %k: tensor<8xf32>) -> (tensor<64x8xf32>, tensor<64x8xf32>) attributes {pyjit.updates = [array<i64: 0, 0>]} {
  %0 = tssa.assign %c, %k [#tssa.view<select [0, 5]>] : tensor<64x8xf32>, tensor<8xf32>
  return %0, %c : tensor<64x8xf32>, tensor<64x8xf32>
}

// -----

// One operation needs both what it was and what it is.
// CHECK-LABEL: func.func @both
// CHECK-NOT:     pyjit.part
func.func @both(%c: tensor<64x8xf32>, %k: tensor<8xf32>) -> (tensor<64x8xf32>, tensor<64x8xf32>) attributes {pyjit.updates = [array<i64: 0, 0>]} {
  %0 = tssa.assign %c, %k [#tssa.view<select [0, 5]>] : tensor<64x8xf32>, tensor<8xf32>
  %1 = tssa.aten "aten::sub.Tensor"(%0, %c, 1 : i64) : (tensor<64x8xf32>, tensor<64x8xf32>) -> tensor<64x8xf32>
  return %0, %1 : tensor<64x8xf32>, tensor<64x8xf32>
}

// -----

// An operator over all elements is a kernel's, and the part with it.
// CHECK-LABEL: func.func @mixed
// CHECK-NOT:     pyjit.part
func.func @mixed(%c: tensor<64x8xf32>, %k: tensor<8xf32>) -> tensor<64x8xf32> attributes {pyjit.updates = [array<i64: 0, 0>]} {
  %0 = tssa.aten "aten::neg"(%c) : (tensor<64x8xf32>) -> tensor<64x8xf32>
  %1 = tssa.assign %0, %k [#tssa.view<select [0, 5]>] : tensor<64x8xf32>, tensor<8xf32>
  return %1 : tensor<64x8xf32>
}

// -----

// Indices of a type that cannot be put back.
// CHECK-LABEL: func.func @int32
// CHECK-NOT:     pyjit.part
func.func @int32(%c: tensor<64x8xf32>, %i: tensor<2xi32>, %k: tensor<2x8xf32>) -> tensor<64x8xf32> attributes {pyjit.updates = [array<i64: 0, 0>]} {
  %0 = tssa.aten "aten::index_add_"(%c, 0 : i64, %i, %k, 1 : i64) mutates [0] {pyjit.must_run} : (tensor<64x8xf32>, tensor<2xi32>, tensor<2x8xf32>) -> tensor<64x8xf32>
  return %0 : tensor<64x8xf32>
}

// -----

// Two inputs that take each other's rows: only one can wait for the other.
// CHECK-LABEL: func.func @crossed
// CHECK:         pyjit.part
// CHECK-NOT:     pyjit.part
// CHECK:         return
func.func @crossed(%c: tensor<64x8xf32>, %d: tensor<64x8xf32>, %k: tensor<8xf32>) -> (tensor<64x8xf32>, tensor<64x8xf32>, tensor<64x8xf32>, tensor<64x8xf32>)
    attributes {pyjit.updates = [array<i64: 0, 0>, array<i64: 1, 1>]} {
  %0 = tssa.assign %c, %k [#tssa.view<select [0, 5]>] : tensor<64x8xf32>, tensor<8xf32>
  %1 = tssa.assign %d, %k [#tssa.view<select [0, 5]>] : tensor<64x8xf32>, tensor<8xf32>
  %2 = tssa.aten "aten::mul.Tensor"(%0, %d) : (tensor<64x8xf32>, tensor<64x8xf32>) -> tensor<64x8xf32>
  %3 = tssa.aten "aten::mul.Tensor"(%1, %c) : (tensor<64x8xf32>, tensor<64x8xf32>) -> tensor<64x8xf32>
  return %0, %1, %2, %3 : tensor<64x8xf32>, tensor<64x8xf32>, tensor<64x8xf32>, tensor<64x8xf32>
}
