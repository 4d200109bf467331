// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --fusion-outline | FileCheck %s
// RUN: pyjit-opt %s --pass-pipeline="builtin.module(func.func(fusion-print-plan))" 2>&1 | FileCheck %s --check-prefix=PLAN
// RUN: pyjit-opt %s --pyjit-library | pyjit-opt --pyjit-fuse | pyjit-opt --pyjit-x86 | FileCheck %s --check-prefix=CODE

// Softmax is one kernel; its rows are a stage each for maximum, sum and quotient.
// PLAN: remark: 1 kernel
// PLAN-NEXT: kernel 0: 4 operations, 0 views, 1 inputs, 1 results, domain p8 r64

// CHECK-LABEL: func.func @softmax
// CHECK-SAME: %[[X:.*]]: tensor<8x64xf32>
// CHECK-NEXT: %[[R:.*]] = call @kernel_0(%[[X]])
// CHECK-NEXT: return %[[R]]
// CODE: llvm.func @kernel_0

#id = affine_map<(d0,d1)->(d0,d1)>
#row = affine_map<(d0,d1)->(d0)>
func.func @softmax(%x: tensor<8x64xf32>) -> tensor<8x64xf32> {
  %ninf = arith.constant 0xFF800000 : f32
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8xf32>
  %f = tensor.empty() : tensor<8x64xf32>
  %mi = linalg.fill ins(%ninf: f32) outs(%e: tensor<8xf32>) -> tensor<8xf32>
  %m = linalg.generic {indexing_maps=[#id,#row], iterator_types=["parallel","reduction"]} ins(%x: tensor<8x64xf32>) outs(%mi: tensor<8xf32>) {
   ^bb0(%a: f32, %acc: f32):
     %r = arith.maximumf %a, %acc : f32
     linalg.yield %r : f32 } -> tensor<8xf32>
  %ex = linalg.generic {indexing_maps=[#id,#row,#id], iterator_types=["parallel","parallel"]} ins(%x,%m: tensor<8x64xf32>, tensor<8xf32>) outs(%f: tensor<8x64xf32>) {
   ^bb0(%a: f32, %b: f32, %o: f32):
     %d = arith.subf %a, %b : f32
     %r = math.exp %d : f32
     linalg.yield %r : f32 } -> tensor<8x64xf32>
  %si = linalg.fill ins(%zero: f32) outs(%e: tensor<8xf32>) -> tensor<8xf32>
  %s = linalg.generic {indexing_maps=[#id,#row], iterator_types=["parallel","reduction"]} ins(%ex: tensor<8x64xf32>) outs(%si: tensor<8xf32>) {
   ^bb0(%a: f32, %acc: f32):
     %r = arith.addf %a, %acc : f32
     linalg.yield %r : f32 } -> tensor<8xf32>
  %q = linalg.generic {indexing_maps=[#id,#row,#id], iterator_types=["parallel","parallel"]} ins(%ex,%s: tensor<8x64xf32>, tensor<8xf32>) outs(%f: tensor<8x64xf32>) {
   ^bb0(%a: f32, %b: f32, %o: f32):
     %r = arith.divf %a, %b : f32
     linalg.yield %r : f32 } -> tensor<8x64xf32>
  return %q : tensor<8x64xf32>
}

// Nothing is fused across a vendor call that needs one value and makes another,
// and a view for a kernel is read through.
// CHECK-LABEL: func.func @around
// CHECK-NEXT: %[[A:.*]] = call @[[K:.*]](%{{.*}}) : (tensor<8x64xf32>) -> tensor<8x64xf32>
// CHECK-NEXT: %[[M:.*]] = tssa.aten "aten::relu"(%[[A]])
// CHECK-NEXT: %[[B:.*]] = call @[[L:.*]](%[[M]], %[[A]])
// CHECK-NEXT: return %[[B]]
#t = affine_map<(d0,d1)->(d1,d0)>
func.func @around(%x: tensor<8x64xf32>) -> tensor<64x8xf32> {
  %f = tensor.empty() : tensor<8x64xf32>
  %g = tensor.empty() : tensor<64x8xf32>
  %a = linalg.generic {indexing_maps=[#id,#id], iterator_types=["parallel","parallel"]} ins(%x: tensor<8x64xf32>) outs(%f: tensor<8x64xf32>) {
   ^bb0(%i: f32, %o: f32):
     %r = math.exp %i : f32
     linalg.yield %r : f32 } -> tensor<8x64xf32>
  %m = tssa.aten "aten::relu"(%a) : (tensor<8x64xf32>) -> tensor<8x64xf32>
  %v = linalg.generic {indexing_maps=[#t,#id], iterator_types=["parallel","parallel"]} ins(%m: tensor<8x64xf32>) outs(%g: tensor<64x8xf32>) {
   ^bb0(%i: f32, %o: f32):
     linalg.yield %i : f32 } -> tensor<64x8xf32>
  %b = linalg.generic {indexing_maps=[#t,#id,#id], iterator_types=["parallel","parallel"]} ins(%a, %v: tensor<8x64xf32>, tensor<64x8xf32>) outs(%g: tensor<64x8xf32>) {
   ^bb0(%i: f32, %j: f32, %o: f32):
     %r = arith.addf %i, %j : f32
     linalg.yield %r : f32 } -> tensor<64x8xf32>
  return %b : tensor<64x8xf32>
}

// The same computation again calls the same kernel.
// CHECK-LABEL: func.func @twice
// CHECK: call @[[S:kernel_[0-9]+]](%{{.*}})
// CHECK: tssa.aten
// CHECK: call @[[S]]
func.func @twice(%x: tensor<16xf32>) -> tensor<16xf32> {
  %e = tensor.empty() : tensor<16xf32>
  %a = linalg.generic {indexing_maps=[affine_map<(d0)->(d0)>,affine_map<(d0)->(d0)>], iterator_types=["parallel"]} ins(%x: tensor<16xf32>) outs(%e: tensor<16xf32>) {
   ^bb0(%i: f32, %o: f32):
     %r = arith.negf %i : f32
     linalg.yield %r : f32 } -> tensor<16xf32>
  %m = tssa.aten "aten::relu"(%a) : (tensor<16xf32>) -> tensor<16xf32>
  %b = linalg.generic {indexing_maps=[affine_map<(d0)->(d0)>,affine_map<(d0)->(d0)>], iterator_types=["parallel"]} ins(%m: tensor<16xf32>) outs(%e: tensor<16xf32>) {
   ^bb0(%i: f32, %o: f32):
     %r = arith.negf %i : f32
     linalg.yield %r : f32 } -> tensor<16xf32>
  return %b : tensor<16xf32>
}

// A copy that is returned, and read by another member of its group.
// CHECK-LABEL: func.func @copied
// CHECK-NEXT: %[[R:.*]]:2 = call @{{.*}}(%{{.*}}) : (tensor<16xf32>) -> (tensor<16xf32>, tensor<16xf32>)
// CHECK-NEXT: return %[[R]]#0, %[[R]]#1
func.func @copied(%x: tensor<16xf32>) -> (tensor<16xf32>, tensor<16xf32>) {
  %e = tensor.empty() : tensor<16xf32>
  %a = linalg.generic {indexing_maps=[affine_map<(d0)->(d0)>,affine_map<(d0)->(d0)>], iterator_types=["parallel"]} ins(%x: tensor<16xf32>) outs(%e: tensor<16xf32>) {
   ^bb0(%i: f32, %o: f32):
     %r = arith.negf %i : f32
     linalg.yield %r : f32 } -> tensor<16xf32>
  %c = linalg.generic {indexing_maps=[affine_map<(d0)->(d0)>,affine_map<(d0)->(d0)>], iterator_types=["parallel"]} ins(%a: tensor<16xf32>) outs(%e: tensor<16xf32>) {
   ^bb0(%i: f32, %o: f32):
     linalg.yield %i : f32 } -> tensor<16xf32>
  %b = linalg.generic {indexing_maps=[affine_map<(d0)->(d0)>,affine_map<(d0)->(d0)>], iterator_types=["parallel"]} ins(%c: tensor<16xf32>) outs(%e: tensor<16xf32>) {
   ^bb0(%i: f32, %o: f32):
     %r = math.absf %i : f32
     linalg.yield %r : f32 } -> tensor<16xf32>
  return %c, %b : tensor<16xf32>, tensor<16xf32>
}

// A buffer before its places are assigned is read by the choice between old and
// new, where nobody will miss it: zeros, no operand.
// PLAN: remark: 1 kernel
// CHECK-LABEL: func.func @assigned
// CHECK-NEXT: %[[R:.*]] = call @[[K:.*]](%arg0)
// CHECK: func.func private @[[K]]
// CODE: llvm.func @[[K:.*]](
func.func @assigned(%x: tensor<8x64xf32>) -> tensor<8x64xf32> {
  %e = tensor.empty() : tensor<8x64xf32>
  %r = linalg.generic {indexing_maps=[#id,#id,#id], iterator_types=["parallel","parallel"]} ins(%x,%e: tensor<8x64xf32>, tensor<8x64xf32>) outs(%e: tensor<8x64xf32>) {
   ^bb0(%a: f32, %b: f32, %o: f32):
     %i = linalg.index 0 : index
     %c = arith.constant 8 : index
     %in = arith.cmpi ult, %i, %c : index
     %s = arith.select %in, %a, %b : f32
     linalg.yield %s : f32 } -> tensor<8x64xf32>
  return %r : tensor<8x64xf32>
}
