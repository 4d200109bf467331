// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --cudagraph-fuse-horizontally --split-input-file | FileCheck %s
// RUN: pyjit-opt %s --cudagraph-fuse-horizontally=most-bytes=64 --split-input-file | FileCheck %s --check-prefix=SMALL

// Two updates of one size, whatever their kernels are called, are one launch; the third has another size.
!vec = !cudagraph.buffer<tensor<8xf32>>
!row = !cudagraph.buffer<tensor<9xf32>>
#id = affine_map<(d0) -> (d0)>
// CHECK: func.func private @first_x2(%[[P0:.*]]: tensor<8xf32>, %[[G0:.*]]: tensor<8xf32>, %[[P1:.*]]: tensor<8xf32>, %[[G1:.*]]: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>)
// CHECK-SAME: pyjit.align = array<i32: 16, 4, 16, 4, 16, 16>
// CHECK-SAME: pyjit.batch = 2 : i64
// CHECK-SAME: pyjit.kernel
// CHECK-SAME: pyjit.may_overlap = [array<i64: 0, 0>, array<i64: 1, 2>]
// CHECK: %[[A:.*]] = linalg.generic {{.*}} ins(%[[P0]], %[[G0]] :
// CHECK: %[[B:.*]] = linalg.generic {{.*}} ins(%[[P1]], %[[G1]] :
// CHECK: return %[[A]], %[[B]]
// CHECK-NOT: func.func private @first(
// CHECK-NOT: func.func private @second(
func.func private @first(%p: tensor<8xf32>, %g: tensor<8xf32>) -> tensor<8xf32> attributes {pyjit.kernel, pyjit.align = array<i32: 16, 4, 16>, pyjit.may_overlap = [array<i64: 0, 0>]} {
  %e = tensor.empty() : tensor<8xf32>
  %r = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]} ins(%p, %g : tensor<8xf32>, tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %t = arith.subf %a, %b : f32
    linalg.yield %t : f32
  } -> tensor<8xf32>
  return %r : tensor<8xf32>
}
func.func private @second(%p: tensor<8xf32>, %g: tensor<8xf32>) -> tensor<8xf32> attributes {pyjit.kernel, pyjit.align = array<i32: 16, 4, 16>, pyjit.may_overlap = [array<i64: 0, 0>]} {
  %e = tensor.empty() : tensor<8xf32>
  %r = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]} ins(%p, %g : tensor<8xf32>, tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %t = arith.subf %a, %b : f32
    linalg.yield %t : f32
  } -> tensor<8xf32>
  return %r : tensor<8xf32>
}
// CHECK: func.func private @other(
func.func private @other(%p: tensor<9xf32>) -> tensor<9xf32> attributes {pyjit.kernel} {
  return %p : tensor<9xf32>
}
// CHECK-LABEL: cudagraph.program @updates
// CHECK-NOT: cudagraph.kernel @first(
// CHECK: cudagraph.kernel @other(
// CHECK-NEXT: cudagraph.kernel @first_x2(%[[X0:.*]], %[[X1:.*]], %[[X2:.*]], %[[X3:.*]]) to(%[[X0]], %[[X2]])
// SMALL-LABEL: cudagraph.program @updates
// SMALL: cudagraph.kernel @first(
// SMALL: cudagraph.kernel @second(
cudagraph.program @updates on "cuda:0" {
  %in0 = cudagraph.external input 0 : !vec
  %in1 = cudagraph.external input 1 : !vec
  %in2 = cudagraph.external input 2 : !vec
  %in3 = cudagraph.external input 3 : !vec
  %in4 = cudagraph.external input 4 : !row
  %out0 = cudagraph.external output 0 : !row
  cudagraph.graph externals(%in0, %in1, %in2, %in3, %in4, %out0 : !vec, !vec, !vec, !vec, !row, !row) {
    cudagraph.kernel @first(%in0, %in1) to (%in0) : (!vec, !vec) -> (!vec)
    cudagraph.kernel @other(%in4) to (%out0) : (!row) -> (!row)
    cudagraph.kernel @second(%in2, %in3) to (%in2) : (!vec, !vec) -> (!vec)
    cudagraph.yield
  }
  cudagraph.return %out0 : !row
}

// -----

// What reads a part's result, writes its operand, or waits for the host parts them; reductions are left alone.
!vec = !cudagraph.buffer<tensor<8xf32>>
!one = !cudagraph.buffer<tensor<f32>>
!flag = !cudagraph.buffer<tensor<i1>>
#id = affine_map<(d0) -> (d0)>
#none = affine_map<(d0) -> ()>
func.func private @k(%x: tensor<8xf32>) -> tensor<8xf32> attributes {pyjit.kernel} {
  return %x : tensor<8xf32>
}
func.func private @other(tensor<8xf32>) -> tensor<8xf32> attributes {pyjit.kernel}
func.func private @sum(%x: tensor<8xf32>, %i: tensor<f32>) -> tensor<f32> attributes {pyjit.kernel} {
  %r = linalg.generic {indexing_maps = [#id, #none], iterator_types = ["reduction"]} ins(%x : tensor<8xf32>) outs(%i : tensor<f32>) {
  ^bb0(%a: f32, %o: f32):
    %t = arith.addf %a, %o : f32
    linalg.yield %t : f32
  } -> tensor<f32>
  return %r : tensor<f32>
}
// CHECK-LABEL: cudagraph.program @dependent
// CHECK-COUNT-2: cudagraph.kernel @k(
// CHECK-NOT: @k_x2
cudagraph.program @dependent on "cuda:0" {
  %x = cudagraph.external input 0 : !vec
  %y = cudagraph.external output 0 : !vec
  %t = cudagraph.buffer : !vec
  cudagraph.kernel @k(%x) to (%t) : (!vec) -> (!vec)
  cudagraph.kernel @k(%t) to (%y) : (!vec) -> (!vec)
  cudagraph.return %y : !vec
}
// CHECK-LABEL: cudagraph.program @overwritten
// CHECK: cudagraph.kernel @k(%[[X:.*]]) to
// CHECK: cudagraph.copy %[[Z:.*]] to %[[X]]
// CHECK: cudagraph.kernel @k(%[[X]]) to
cudagraph.program @overwritten on "cuda:0" {
  %x = cudagraph.external input 0 : !vec
  %z = cudagraph.external input 1 : !vec
  %y = cudagraph.external output 0 : !vec
  %w = cudagraph.external output 1 : !vec
  cudagraph.kernel @k(%x) to (%y) : (!vec) -> (!vec)
  cudagraph.copy %z to %x : !vec, !vec
  cudagraph.kernel @k(%x) to (%w) : (!vec) -> (!vec)
  cudagraph.return %y, %w : !vec, !vec
}
// CHECK-LABEL: cudagraph.program @through_views
// CHECK: cudagraph.kernel @k(
// CHECK: cudagraph.call "aten::neg"
// CHECK: cudagraph.kernel @k(
cudagraph.program @through_views on "cuda:0" {
  %x = cudagraph.external input 0 : !vec
  %y = cudagraph.external output 0 : !vec
  %t = cudagraph.buffer : !vec
  cudagraph.kernel @k(%x) to (%t) : (!vec) -> (!vec)
  %v = cudagraph.view %t at 0 : !vec to !cudagraph.buffer<tensor<4xf32>>
  %n = cudagraph.call "aten::neg"(%v) : (!cudagraph.buffer<tensor<4xf32>>) -> !cudagraph.buffer<tensor<4xf32>>
  cudagraph.kernel @k(%x) to (%t) : (!vec) -> (!vec)
  cudagraph.kernel @other(%t) to (%y) : (!vec) -> (!vec)
  cudagraph.return %y, %n : !vec, !cudagraph.buffer<tensor<4xf32>>
}
// CHECK-LABEL: cudagraph.program @decided
// CHECK: cudagraph.kernel @k(
// CHECK: cudagraph.speculate
// CHECK: cudagraph.kernel @k(
cudagraph.program @decided on "cuda:0" {
  %x = cudagraph.external input 0 : !vec
  %p = cudagraph.external input 1 : !flag
  %y = cudagraph.external output 0 : !vec
  %w = cudagraph.external output 1 : !vec
  cudagraph.kernel @k(%x) to (%y) : (!vec) -> (!vec)
  cudagraph.speculate %p : !flag
  cudagraph.kernel @k(%x) to (%w) : (!vec) -> (!vec)
  cudagraph.return %y, %w : !vec, !vec
}
// CHECK-LABEL: cudagraph.program @reductions
// CHECK-COUNT-2: cudagraph.kernel @sum(
cudagraph.program @reductions on "cuda:0" {
  %x = cudagraph.external input 0 : !vec
  %i = cudagraph.external input 1 : !one
  %y = cudagraph.external output 0 : !one
  %w = cudagraph.external output 1 : !one
  cudagraph.kernel @sum(%x, %i) to (%y) : (!vec, !one) -> (!one)
  cudagraph.kernel @sum(%x, %i) to (%w) : (!vec, !one) -> (!one)
  cudagraph.return %y, %w : !one, !one
}

// -----

// Copies of few bytes are launches like others, whatever they copy; a single one stays what it is, and so do those that
// may be left out.
!vec = !cudagraph.buffer<tensor<8xf32>>
!mat = !cudagraph.buffer<tensor<4x2xi32>>
!odd = !cudagraph.buffer<tensor<3xi1>>
// CHECK-LABEL: cudagraph.program @copies
// CHECK: cudagraph.copy %[[ODD:.*]] to %{{.*}}tensor<3xi1>
// CHECK: cudagraph.kernel @copy_8x4_x2(%[[X:.*]], %[[Y:.*]]) to(%{{.*}}, %{{.*}}) : (!cudagraph.buffer<tensor<8xf32>>, !cudagraph.buffer<tensor<4x2xi32>>)
// CHECK: func.func private @copy_8x4_x2(%{{.*}}: tensor<8xi32>, %{{.*}}: tensor<8xi32>) -> (tensor<8xi32>, tensor<8xi32>)
// CHECK-SAME: pyjit.align = array<i32: 4, 4, 4, 4>, pyjit.batch = 2 : i64, pyjit.kernel
// CHECK-NOT: @copy_8x4(
cudagraph.program @copies on "cuda:0" {
  %in0 = cudagraph.external input 0 : !vec
  %in1 = cudagraph.external input 1 : !mat
  %in2 = cudagraph.external input 2 : !odd
  %out0 = cudagraph.external output 0 : !vec
  %out1 = cudagraph.external output 1 : !mat
  %out2 = cudagraph.external output 2 : !odd
  cudagraph.copy %in0 to %out0 : !vec, !vec
  cudagraph.copy %in2 to %out2 : !odd, !odd
  cudagraph.copy %in1 to %out1 : !mat, !mat
  cudagraph.return %out0, %out1, %out2 : !vec, !mat, !odd
}

// -----

// Each conversion is read at once: they meet where the first one was, but for one whose operand is written in between.
!vec = !cudagraph.buffer<tensor<8xf32>>
!half = !cudagraph.buffer<tensor<8xf16>>
#id = affine_map<(d0) -> (d0)>
func.func private @narrow(%x: tensor<8xf32>) -> tensor<8xf16> attributes {pyjit.kernel} {
  %e = tensor.empty() : tensor<8xf16>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<8xf32>) outs(%e : tensor<8xf16>) {
  ^bb0(%a: f32, %o: f16):
    %t = arith.truncf %a : f32 to f16
    linalg.yield %t : f16
  } -> tensor<8xf16>
  return %r : tensor<8xf16>
}
// CHECK-LABEL: cudagraph.program @conversions
// CHECK: cudagraph.kernel @narrow_x2(%[[X:[^,]*]], %[[Y:[^)]*]]) to(%[[T:[^,]*]], %[[U:[^)]*]])
// CHECK: cudagraph.call "aten::neg"(%[[T]])
// CHECK: cudagraph.copy %[[X]] to %[[Z:.*]] :
// CHECK-NOT: cudagraph.kernel
// CHECK: cudagraph.call "aten::neg"(%[[U]])
// CHECK: cudagraph.kernel @narrow(%[[Z]]) to
cudagraph.program @conversions on "cuda:0" {
  %x = cudagraph.external input 0 : !vec
  %y = cudagraph.external input 1 : !vec
  %z = cudagraph.external input 2 : !vec
  %t = cudagraph.buffer : !half
  cudagraph.kernel @narrow(%x) to (%t) : (!vec) -> (!half)
  %0 = cudagraph.call "aten::neg"(%t) : (!half) -> !half
  cudagraph.copy %x to %z : !vec, !vec
  %u = cudagraph.buffer : !half
  cudagraph.kernel @narrow(%y) to (%u) : (!vec) -> (!half)
  %1 = cudagraph.call "aten::neg"(%u) : (!half) -> !half
  %v = cudagraph.buffer : !half
  cudagraph.kernel @narrow(%z) to (%v) : (!vec) -> (!half)
  %2 = cudagraph.call "aten::neg"(%v) : (!half) -> !half
  cudagraph.return %0, %1, %2 : !half, !half, !half
}

// What an input becomes is written behind the call, which may fail: it does not meet the other one in front of it.
// CHECK-LABEL: cudagraph.program @update
// CHECK: cudagraph.kernel @widen(
// CHECK: cudagraph.call "aten::neg"
// CHECK: cudagraph.kernel @widen(
func.func private @widen(%x: tensor<8xf16>) -> tensor<8xf32> attributes {pyjit.kernel} {
  %e = tensor.empty() : tensor<8xf32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<8xf16>) outs(%e : tensor<8xf32>) {
  ^bb0(%a: f16, %o: f32):
    %t = arith.extf %a : f16 to f32
    linalg.yield %t : f32
  } -> tensor<8xf32>
  return %r : tensor<8xf32>
}
cudagraph.program @update on "cuda:0" {
  %x = cudagraph.external input 0 : !half
  %y = cudagraph.external input 1 : !half
  %z = cudagraph.external input 2 : !vec
  %t = cudagraph.buffer : !vec
  cudagraph.kernel @widen(%x) to (%t) : (!half) -> (!vec)
  %0 = cudagraph.call "aten::neg"(%t) : (!vec) -> !vec
  cudagraph.kernel @widen(%y) to (%z) : (!half) -> (!vec)
  cudagraph.return %0, %z : !vec, !vec
}
