// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --fusion-outline | FileCheck %s

#id = affine_map<(d0,d1)->(d0,d1)>
#t = affine_map<(d0,d1)->(d1,d0)>
#left = affine_map<(d0,d1,d2)->(d0,d2)>
#right = affine_map<(d0,d1,d2)->(d2,d1)>
#out = affine_map<(d0,d1,d2)->(d0,d1)>

// The sum and the exponential may not become one kernel: between them, through
// the view that both read, stands a vendor call.
// CHECK-LABEL: func.func @through_a_view
// CHECK-NEXT: %[[A:.*]] = call @[[EXP:.*]](%{{.*}}) : (tensor<8x64xf32>) -> tensor<8x64xf32>
// CHECK-NEXT: %[[P:.*]] = call @{{.*}}(%[[A]], %{{.*}})
// CHECK-NEXT: %[[M:.*]] = tssa.aten "aten::relu"(%[[P]])
// CHECK-NEXT: %[[C:.*]] = call @{{.*}}(%[[A]], %[[M]])
// CHECK-NEXT: return %[[C]]
func.func @through_a_view(%x: tensor<8x64xf32>, %w: tensor<8x8xf32>) -> tensor<64x8xf32> {
  %zero = arith.constant 0.0 : f32
  %f = tensor.empty() : tensor<8x64xf32>
  %g = tensor.empty() : tensor<64x8xf32>
  %gi = linalg.fill ins(%zero: f32) outs(%g: tensor<64x8xf32>) -> tensor<64x8xf32>
  %a = linalg.generic {indexing_maps=[#id,#id], iterator_types=["parallel","parallel"]} ins(%x: tensor<8x64xf32>) outs(%f: tensor<8x64xf32>) {
   ^bb0(%i: f32, %o: f32):
     %r = math.exp %i : f32
     linalg.yield %r : f32 } -> tensor<8x64xf32>
  %v = linalg.generic {indexing_maps=[#t,#id], iterator_types=["parallel","parallel"]} ins(%a: tensor<8x64xf32>) outs(%g: tensor<64x8xf32>) {
   ^bb0(%i: f32, %o: f32):
     linalg.yield %i : f32 } -> tensor<64x8xf32>
  %p = linalg.generic {indexing_maps=[#left,#right,#out], iterator_types=["parallel","parallel","reduction"]} ins(%v, %w: tensor<64x8xf32>, tensor<8x8xf32>) outs(%gi: tensor<64x8xf32>) {
   ^bb0(%i: f32, %j: f32, %acc: f32):
     %m = arith.mulf %i, %j : f32
     %s = arith.addf %m, %acc : f32
     linalg.yield %s : f32 } -> tensor<64x8xf32>
  %m = tssa.aten "aten::relu"(%p) : (tensor<64x8xf32>) -> tensor<64x8xf32>
  %c = linalg.generic {indexing_maps=[#id,#id,#id], iterator_types=["parallel","parallel"]} ins(%v, %m: tensor<64x8xf32>, tensor<64x8xf32>) outs(%g: tensor<64x8xf32>) {
   ^bb0(%i: f32, %j: f32, %o: f32):
     %s = arith.addf %i, %j : f32
     linalg.yield %s : f32 } -> tensor<64x8xf32>
  return %c : tensor<64x8xf32>
}

// One kernel copies the view for the caller and another reads through it: what
// the view shows is stored as well.
// CHECK-LABEL: func.func @copied_and_read_through
// CHECK: return
func.func @copied_and_read_through(%x: tensor<8x64xf32>, %w: tensor<8x8xf32>) -> (tensor<64x8xf32>, tensor<64x8xf32>) {
  %zero = arith.constant 0.0 : f32
  %f = tensor.empty() : tensor<8x64xf32>
  %g = tensor.empty() : tensor<64x8xf32>
  %gi = linalg.fill ins(%zero: f32) outs(%g: tensor<64x8xf32>) -> tensor<64x8xf32>
  %a = linalg.generic {indexing_maps=[#id,#id], iterator_types=["parallel","parallel"]} ins(%x: tensor<8x64xf32>) outs(%f: tensor<8x64xf32>) {
   ^bb0(%i: f32, %o: f32):
     %r = math.exp %i : f32
     linalg.yield %r : f32 } -> tensor<8x64xf32>
  %v = linalg.generic {indexing_maps=[#t,#id], iterator_types=["parallel","parallel"]} ins(%a: tensor<8x64xf32>) outs(%g: tensor<64x8xf32>) {
   ^bb0(%i: f32, %o: f32):
     linalg.yield %i : f32 } -> tensor<64x8xf32>
  %p = linalg.generic {indexing_maps=[#left,#right,#out], iterator_types=["parallel","parallel","reduction"]} ins(%v, %w: tensor<64x8xf32>, tensor<8x8xf32>) outs(%gi: tensor<64x8xf32>) {
   ^bb0(%i: f32, %j: f32, %acc: f32):
     %m = arith.mulf %i, %j : f32
     %s = arith.addf %m, %acc : f32
     linalg.yield %s : f32 } -> tensor<64x8xf32>
  return %v, %p : tensor<64x8xf32>, tensor<64x8xf32>
}

#twice = affine_map<(d0,d1)->(d0 mod 8,d1)>
#half = affine_map<(d0,d1,d2)->(d0,d2)>
#whole = affine_map<(d0,d1,d2)->(d0,d1,d2)>
#joined = affine_map<(d0,d1)->(d0,d1 floordiv 16,d1 mod 16)>

// One kernel computes a value and its view for the caller; the copy of a view of
// that view, for a vendor call, reads the view: looking through it would ask the
// first kernel for the value as well, in another shape.
// CHECK-LABEL: func.func @view_of_a_stored_view
// CHECK-NEXT: %[[V:.*]] = call @{{.*}}(%arg0) : (tensor<8x16xf32>) -> tensor<8x32xf32>
// CHECK-NEXT: %[[R:.*]] = call @{{.*}}(%[[V]]) : (tensor<8x32xf32>) -> tensor<16x32xf32>
// CHECK-NEXT: tssa.aten "aten::relu"(%[[R]])
func.func @view_of_a_stored_view(%x: tensor<8x16xf32>) -> (tensor<8x32xf32>, tensor<16x32xf32>) {
  %e = tensor.empty() : tensor<8x2x16xf32>
  %f = tensor.empty() : tensor<8x32xf32>
  %g = tensor.empty() : tensor<16x32xf32>
  %a = linalg.generic {indexing_maps=[#half,#whole], iterator_types=["parallel","parallel","parallel"]} ins(%x: tensor<8x16xf32>) outs(%e: tensor<8x2x16xf32>) {
   ^bb0(%i: f32, %o: f32):
     %r = arith.negf %i : f32
     linalg.yield %r : f32 } -> tensor<8x2x16xf32>
  %v = linalg.generic {indexing_maps=[#joined,#id], iterator_types=["parallel","parallel"]} ins(%a: tensor<8x2x16xf32>) outs(%f: tensor<8x32xf32>) {
   ^bb0(%i: f32, %o: f32):
     linalg.yield %i : f32 } -> tensor<8x32xf32>
  %w = linalg.generic {indexing_maps=[#twice,#id], iterator_types=["parallel","parallel"]} ins(%v: tensor<8x32xf32>) outs(%g: tensor<16x32xf32>) {
   ^bb0(%i: f32, %o: f32):
     linalg.yield %i : f32 } -> tensor<16x32xf32>
  %m = tssa.aten "aten::relu"(%w) : (tensor<16x32xf32>) -> tensor<16x32xf32>
  return %v, %m : tensor<8x32xf32>, tensor<16x32xf32>
}

// The sign, which the first call reads, may not become one kernel with what
// reads the second one's result: calls with effects keep their order.
// CHECK-LABEL: func.func @between_effects
// CHECK:      %[[S:.*]] = call @{{.*}} : (tensor<8x64xf32>) -> tensor<8x64xf32>
// CHECK:      tssa.aten "aten::add.out"(%{{.*}}, %[[S]], 1 : i64, %{{.*}})
// CHECK:      %[[Q:.*]] = tssa.aten "aten::mul.out"
// CHECK-NEXT: %[[R:.*]] = call @{{.*}}({{.*}}%[[Q]]{{.*}})
// CHECK-NEXT: return %[[R]]
func.func @between_effects(%x: tensor<8x64xf32>, %a: tensor<8x64xf32>, %b: tensor<8x64xf32>) -> tensor<8x64xf32> {
  %f = tensor.empty() : tensor<8x64xf32>
  %s = linalg.generic {indexing_maps=[#id,#id], iterator_types=["parallel","parallel"]} ins(%x: tensor<8x64xf32>) outs(%f: tensor<8x64xf32>) {
   ^bb0(%i: f32, %o: f32):
     %r = math.absf %i : f32
     linalg.yield %r : f32 } -> tensor<8x64xf32>
  %p = tssa.aten "aten::add.out"(%a, %s, 1 : i64, %a) mutates [2] : (tensor<8x64xf32>, tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
  %q = tssa.aten "aten::mul.out"(%b, wrapped(3 : i64), %b) mutates [1] : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
  %c = linalg.generic {indexing_maps=[#id,#id,#id], iterator_types=["parallel","parallel"]} ins(%s, %q: tensor<8x64xf32>, tensor<8x64xf32>) outs(%f: tensor<8x64xf32>) {
   ^bb0(%i: f32, %j: f32, %o: f32):
     %m = arith.mulf %i, %j : f32
     linalg.yield %m : f32 } -> tensor<8x64xf32>
  return %c : tensor<8x64xf32>
}

// The first kernel stores a view of a view of what it computes; the second
// reads what is stored, and not what it shows.
// CHECK-LABEL: func.func @view_of_a_view_stored_alone
// CHECK-NEXT: %[[V:.*]] = call @{{.*}}(%{{.*}}) : (tensor<8x64xf32>) -> tensor<8x64xf32>
// CHECK-NEXT: %[[W:.*]] = call @{{.*}}(%[[V]]) : (tensor<8x64xf32>) -> tensor<64x8xf32>
// CHECK-NEXT: tssa.aten "aten::relu"(%[[V]])
// CHECK-NEXT: tssa.aten "aten::relu"(%[[W]])
func.func @view_of_a_view_stored_alone(%x: tensor<8x64xf32>) -> (tensor<8x64xf32>, tensor<64x8xf32>) {
  %f = tensor.empty() : tensor<8x64xf32>
  %g = tensor.empty() : tensor<64x8xf32>
  %a = linalg.generic {indexing_maps=[#id,#id], iterator_types=["parallel","parallel"]} ins(%x: tensor<8x64xf32>) outs(%f: tensor<8x64xf32>) {
   ^bb0(%i: f32, %o: f32):
     %r = math.exp %i : f32
     linalg.yield %r : f32 } -> tensor<8x64xf32>
  %t = linalg.generic {indexing_maps=[#t,#id], iterator_types=["parallel","parallel"]} ins(%a: tensor<8x64xf32>) outs(%g: tensor<64x8xf32>) {
   ^bb0(%i: f32, %o: f32):
     linalg.yield %i : f32 } -> tensor<64x8xf32>
  %v = linalg.generic {indexing_maps=[#t,#id], iterator_types=["parallel","parallel"]} ins(%t: tensor<64x8xf32>) outs(%f: tensor<8x64xf32>) {
   ^bb0(%i: f32, %o: f32):
     linalg.yield %i : f32 } -> tensor<8x64xf32>
  %u = linalg.generic {indexing_maps=[#t,#id], iterator_types=["parallel","parallel"]} ins(%v: tensor<8x64xf32>) outs(%g: tensor<64x8xf32>) {
   ^bb0(%i: f32, %o: f32):
     linalg.yield %i : f32 } -> tensor<64x8xf32>
  %w = linalg.generic {indexing_maps=[#id,#id], iterator_types=["parallel","parallel"]} ins(%u: tensor<64x8xf32>) outs(%g: tensor<64x8xf32>) {
   ^bb0(%i: f32, %o: f32):
     linalg.yield %i : f32 } -> tensor<64x8xf32>
  %y = tssa.aten "aten::relu"(%v) : (tensor<8x64xf32>) -> tensor<8x64xf32>
  %z = tssa.aten "aten::relu"(%w) : (tensor<64x8xf32>) -> tensor<64x8xf32>
  return %y, %z : tensor<8x64xf32>, tensor<64x8xf32>
}
