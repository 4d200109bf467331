// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --ptx-emit-kernels | FileCheck %s
// RUN: pyjit-opt %s --ptx-emit-kernels | pyjit-opt --ptx-lower-kernels | FileCheck %s --check-prefix=LOWER
// RUN: pyjit-opt %s --ptx-emit-kernels=print-schedules=true 2>&1 >/dev/null | FileCheck %s --check-prefix=SCHEDULE

#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#column = affine_map<(d0, d1) -> (d1)>

// SCHEDULE: schedule of 'softmax_like'
// SCHEDULE: domain p64 r1024, 2 stages
// SCHEDULE: row, 4 lanes x 2, 128 threads, 128 share a row, in registers

// A row in registers is loaded once, for the sum and for what follows from it.
// CHECK-LABEL: module @kernels
// CHECK: llvm.mlir.global internal @addf_divf_softmax_like_shared() {addr_space = 3 : i32, alignment = 16 : i64} : !llvm.array<16 x i8>
// CHECK: func.func @addf_divf_softmax_like
// CHECK-COUNT-2: llvm.load %{{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
// CHECK-NOT: llvm.load %{{.*}} : !llvm.ptr<1>
// CHECK: llvm.call_intrinsic "llvm.nvvm.shfl.sync.bfly.i32"
// CHECK: llvm.call_intrinsic "llvm.nvvm.barrier.cta.sync.aligned.all"
// CHECK-NOT: llvm.load %{{.*}} : !llvm.ptr<1>
// CHECK-COUNT-2: llvm.store %{{.*}} {alignment = 16 : i64} : vector<4xf32>, !llvm.ptr<1>
// LOWER: llvm.func @addf_divf_softmax_like
func.func @softmax_like(%x: tensor<64x1024xf32>) -> tensor<64x1024xf32> attributes {pyjit.kernel,
    pyjit.schedule = {family = "row", lanes = 4, vectors = 2, threads = 128, group = 128, resident = true}} {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<64xf32>
  %f = tensor.empty() : tensor<64x1024xf32>
  %i = linalg.fill ins(%z : f32) outs(%e : tensor<64xf32>) -> tensor<64xf32>
  %s = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<64x1024xf32>) outs(%i : tensor<64xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %t = arith.addf %a, %acc : f32
    linalg.yield %t : f32
  } -> tensor<64xf32>
  %r = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x, %s : tensor<64x1024xf32>, tensor<64xf32>) outs(%f : tensor<64x1024xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %t = arith.divf %a, %b : f32
    linalg.yield %t : f32
  } -> tensor<64x1024xf32>
  return %r : tensor<64x1024xf32>
}

// Columns: four rows in flight, and what is left of 999.
// CHECK: func.func @addf_column_sum
// CHECK: scf.for
// CHECK-COUNT-4: llvm.load %{{.*}} {alignment = 8 : i64} : !llvm.ptr<1> -> vector<2xf32>
// CHECK-NOT: scf.for
// CHECK: arith.select
// CHECK: llvm.store %{{.*}} : f32, !llvm.ptr<3>
// CHECK: scf.if
// CHECK: llvm.store %{{.*}} {alignment = 8 : i64} : vector<2xf32>, !llvm.ptr<1>
func.func @column_sum(%x: tensor<999x256xf32>) -> tensor<256xf32> attributes {pyjit.kernel,
    pyjit.schedule = {family = "column", lanes = 2, vectors = 4, threads = 256, group = 8}} {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<256xf32>
  %i = linalg.fill ins(%z : f32) outs(%e : tensor<256xf32>) -> tensor<256xf32>
  %s = linalg.generic {indexing_maps = [#id, #column], iterator_types = ["reduction", "parallel"]}
      ins(%x : tensor<999x256xf32>) outs(%i : tensor<256xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %t = arith.addf %a, %acc : f32
    linalg.yield %t : f32
  } -> tensor<256xf32>
  return %s : tensor<256xf32>
}

// Lanes that lie further apart than a constant displacement reaches.
// CHECK: func.func @addi_far
// CHECK: %[[ONE:.*]] = llvm.mlir.constant(1073741824 : i64) : i64
// CHECK: llvm.getelementptr %{{.*}}[%[[ONE]]]
// CHECK: %[[TWO:.*]] = llvm.mlir.constant(2147483648 : i64) : i64
// CHECK: llvm.getelementptr %{{.*}}[%[[TWO]]]
func.func @far(%x: tensor<4x16xi8, #tssa.strides<[1, 1073741824]>>) -> tensor<4x16xi8> attributes {pyjit.kernel, pyjit.schedule = {family = "flat", lanes = 4, vectors = 1, threads = 32}} {
  %e = tensor.empty() : tensor<4x16xi8>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<4x16xi8, #tssa.strides<[1, 1073741824]>>) outs(%e : tensor<4x16xi8>) {
  ^bb0(%a: i8, %o: i8):
    %t = arith.addi %a, %a : i8
    linalg.yield %t : i8
  } -> tensor<4x16xi8>
  return %r : tensor<4x16xi8>
}

// In half precision, the quotient of a sigmoid may be approximated, as the exponential below it is; that of two numbers
// may be rounded down, and is exact where it can be.
// CHECK-LABEL: func.func @{{.*}}sigmoid(
// CHECK: math.exp {{.*}} fastmath<afn>
// CHECK: arith.divf {{.*}} fastmath<afn>
// CHECK-LABEL: func.func @{{.*}}quotient(
// CHECK: arith.divf %{{[a-z0-9_]+}}, %{{[a-z0-9_]+}} : f32
func.func @sigmoid(%x: tensor<32xf16>) -> tensor<32xf16> attributes {pyjit.kernel} {
  %e = tensor.empty() : tensor<32xf16>
  %r = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%x : tensor<32xf16>) outs(%e : tensor<32xf16>) {
  ^bb0(%a: f16, %o: f16):
    %one = arith.constant 1.0 : f32
    %w = arith.extf %a : f16 to f32
    %p = math.exp %w : f32
    %s = arith.addf %p, %one : f32
    %q = arith.divf %one, %s : f32
    %t = arith.truncf %q : f32 to f16
    linalg.yield %t : f16
  } -> tensor<32xf16>
  return %r : tensor<32xf16>
}
func.func @quotient(%x: tensor<32xf16>, %y: tensor<32xf16>) -> tensor<32xf16> attributes {pyjit.kernel} {
  %e = tensor.empty() : tensor<32xf16>
  %r = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%x, %y : tensor<32xf16>, tensor<32xf16>) outs(%e : tensor<32xf16>) {
  ^bb0(%a: f16, %c: f16, %o: f16):
    %w = arith.extf %a : f16 to f32
    %v = arith.extf %c : f16 to f32
    %q = arith.divf %w, %v : f32
    %t = arith.truncf %q : f32 to f16
    linalg.yield %t : f16
  } -> tensor<32xf16>
  return %r : tensor<32xf16>
}
