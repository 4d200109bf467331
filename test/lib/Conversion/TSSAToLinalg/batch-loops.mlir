// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --tssa-parallelize-loops --convert-tssa-to-linalg --batch-loops | FileCheck %s
// RUN: pyjit-run %s --entry rows --print-launch | FileCheck %s --check-prefix=LAUNCH

// Rows in place, with a row of another tensor and an invariant: one dimension
// more. The odd rows are those of a strided slice.
// CHECK-LABEL: func @rows
// CHECK-NOT: scf.for
// CHECK: linalg.generic {{.*}} outs({{.*}} : tensor<4x3xf32>)
// CHECK: math.exp
// CHECK-NOT: scf.for
// CHECK: return
// LAUNCH: launch:
// LAUNCH-NOT: for
// LAUNCH: kernel kernel_{{.*}} (s0, s1, s2, s3)
// LAUNCH-NEXT: outputs: s3
func.func @rows(%x: tensor<8x3xf32>, %y: tensor<3x8xf32>, %w: tensor<3xf32>) -> tensor<8x3xf32> {
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c8 = arith.constant 8 : index
  %r = scf.for %i = %c1 to %c8 step %c2 iter_args(%t = %x) -> (tensor<8x3xf32>) {
    %0 = tssa.access %t [#tssa.view<select [0, ?]>] (%i) : tensor<8x3xf32> -> tensor<3xf32>
    %1 = tssa.access %y [#tssa.view<select [1, ?]>] (%i) : tensor<3x8xf32> -> tensor<3xf32, #tssa.strides<[8]>>
    %2 = tssa.aten "aten::exp"(%1) : (tensor<3xf32, #tssa.strides<[8]>>) -> tensor<3xf32>
    %3 = tssa.aten "aten::mul.Tensor"(%2, %w) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %4 = tssa.aten "aten::add.Tensor"(%0, %3, 1 : i64) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %5 = tssa.assign %t, %4 [#tssa.view<select [0, ?]>] (%i) : tensor<8x3xf32>, tensor<3xf32>
    scf.yield %5 : tensor<8x3xf32>
  }
  return %r : tensor<8x3xf32>
}

// A reduction of each iteration's own.
// CHECK-LABEL: func @sums
// CHECK-NOT: scf.for
// CHECK: iterator_types = ["parallel", "reduction"]
// CHECK-NOT: scf.for
// CHECK: return
func.func @sums(%x: tensor<8x5xf32>, %o: tensor<8xf32>) -> tensor<8xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %r = scf.for %i = %c0 to %c8 step %c1 iter_args(%t = %o) -> (tensor<8xf32>) {
    %0 = tssa.access %x [#tssa.view<select [0, ?]>] (%i) : tensor<8x5xf32> -> tensor<5xf32>
    %1 = tssa.aten "aten::sum"(%0, none) : (tensor<5xf32>) -> tensor<f32>
    %2 = tssa.assign %t, %1 [#tssa.view<select [0, ?]>] (%i) : tensor<8xf32>, tensor<f32>
    scf.yield %2 : tensor<8xf32>
  }
  return %r : tensor<8xf32>
}

// A vendor call has no batched form, an index may be out of bounds, the number
// of iterations may be unknown: such loops stay.
// CHECK-LABEL: func @library
// CHECK: scf.for
func.func @library(%x: tensor<8x3xf32>) -> tensor<8x3xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %r = scf.for %i = %c0 to %c8 step %c1 iter_args(%t = %x) -> (tensor<8x3xf32>) {
    %0 = tssa.access %t [#tssa.view<select [0, ?]>] (%i) : tensor<8x3xf32> -> tensor<3xf32>
    %1 = tssa.aten "aten::flip"(%0, [0 : i64]) {pyjit.vendor_call} : (tensor<3xf32>) -> tensor<3xf32>
    %2 = tssa.assign %t, %1 [#tssa.view<select [0, ?]>] (%i) : tensor<8x3xf32>, tensor<3xf32>
    scf.yield %2 : tensor<8x3xf32>
  }
  return %r : tensor<8x3xf32>
}

// CHECK-LABEL: func @beyond
// CHECK: scf.for
func.func @beyond(%x: tensor<8x3xf32>) -> tensor<8x3xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c9 = arith.constant 9 : index
  %r = scf.for %i = %c0 to %c9 step %c1 iter_args(%t = %x) -> (tensor<8x3xf32>) {
    %0 = tssa.access %t [#tssa.view<select [0, ?]>] (%i) : tensor<8x3xf32> -> tensor<3xf32>
    %1 = tssa.aten "aten::neg"(%0) : (tensor<3xf32>) -> tensor<3xf32>
    %2 = tssa.assign %t, %1 [#tssa.view<select [0, ?]>] (%i) : tensor<8x3xf32>, tensor<3xf32>
    scf.yield %2 : tensor<8x3xf32>
  }
  return %r : tensor<8x3xf32>
}

// CHECK-LABEL: func @unknown
// CHECK: scf.for
func.func @unknown(%x: tensor<8x3xf32>, %n: tensor<i64>) -> tensor<8x3xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %e = tensor.extract %n[] : tensor<i64>
  %to = arith.index_cast %e : i64 to index
  %r = scf.for %i = %c0 to %to step %c1 iter_args(%t = %x) -> (tensor<8x3xf32>) {
    %0 = tssa.access %t [#tssa.view<select [0, ?]>] (%i) : tensor<8x3xf32> -> tensor<3xf32>
    %1 = tssa.aten "aten::neg"(%0) : (tensor<3xf32>) -> tensor<3xf32>
    %2 = tssa.assign %t, %1 [#tssa.view<select [0, ?]>] (%i) : tensor<8x3xf32>, tensor<3xf32>
    scf.yield %2 : tensor<8x3xf32>
  }
  return %r : tensor<8x3xf32>
}

// Results of iterations around a vendor call stay parts of their own, so that
// kernels of the parts are equal: no element of an affine map says which.
// CHECK-LABEL: func @parts
// CHECK: scf.for
// CHECK: %[[A:.*]] = tssa.access %{{.*}}#1 [#tssa.view<select [0, 0]>]
// CHECK: %[[B:.*]] = tssa.access %{{.*}}#1 [#tssa.view<select [0, 1]>]
// CHECK: linalg.generic {{.*}} ins(%[[A]] : tensor<8xf32>)
// CHECK: linalg.generic {{.*}} ins(%[[B]] : tensor<8xf32>)
func.func @parts(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %none = tensor.empty() : tensor<2x8xf32>
  %r:2 = scf.for %i = %c0 to %c2 step %c1 iter_args(%h = %x, %all = %none) -> (tensor<8xf32>, tensor<2x8xf32>) {
    %0 = tssa.aten "my::cell"(%h) : (tensor<8xf32>) -> tensor<8xf32>
    %1 = tssa.assign %all, %0 [#tssa.view<select [0, ?]>] (%i) : tensor<2x8xf32>, tensor<8xf32>
    scf.yield %0, %1 : tensor<8xf32>, tensor<2x8xf32>
  }
  %a = tssa.access %r#1 [#tssa.view<select [0, 0]>] : tensor<2x8xf32> -> tensor<8xf32>
  %b = tssa.access %r#1 [#tssa.view<select [0, 1]>] : tensor<2x8xf32> -> tensor<8xf32>
  %2 = tssa.aten "aten::neg"(%a) : (tensor<8xf32>) -> tensor<8xf32>
  %3 = tssa.aten "aten::neg"(%b) : (tensor<8xf32>) -> tensor<8xf32>
  return %2, %3 : tensor<8xf32>, tensor<8xf32>
}
