// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --x86-emit-kernels | FileCheck %s
// RUN: pyjit-opt %s --x86-emit-kernels=print-schedules -o /dev/null 2>&1 | FileCheck %s --check-prefix=SCHEDULE
// RUN: pyjit-opt %s --pyjit-x86=vector-bits=512 | FileCheck %s --check-prefix=WIDE

#x = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (n floordiv 16, k, n mod 16)>
#y = affine_map<(m, n, k) -> (m, n)>

// Six rows of two vectors are in flight: twelve sums, each of products that are
// added in one rounding; four rows are left for the last tile of 34.
// WIDE-LABEL: llvm.func @matmul
// WIDE: llvm.intr.fma{{.*}} vector<16xf32>

// CHECK-LABEL: func.func @matmul
// CHECK: scf.for {{.*}} -> (vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>) : i64 {
// CHECK-COUNT-12: math.fma {{.*}} : vector<8xf32>
// CHECK: scf.yield
// CHECK: scf.for {{.*}} -> (vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>) : i64 {
// SCHEDULE: vector dim 2, 8 lanes x 2, tile dim 1, 6 rows
func.func @matmul(%x: tensor<34x8xf32>, %w: tensor<2x8x16xf32>) -> tensor<34x32xf32> attributes {pyjit.kernel} {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<34x32xf32>
  %i = linalg.fill ins(%z : f32) outs(%e : tensor<34x32xf32>) -> tensor<34x32xf32>
  %r = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<34x8xf32>, tensor<2x8x16xf32>) outs(%i : tensor<34x32xf32>) {
  ^bb0(%a: f32, %b: f32, %s: f32):
    %p = arith.mulf %a, %b : f32
    %t = arith.addf %s, %p : f32
    linalg.yield %t : f32
  } -> tensor<34x32xf32>
  return %r : tensor<34x32xf32>
}

#points = affine_map<(c, p, k) -> (k, p)>
#panel = affine_map<(c, p, k) -> (k, c)>
#image = affine_map<(c, p, k) -> (c, p)>

// Each row has a number of its own, which is read once for the loops of two
// vectors, of one and of single points: the third row's in the third row of each.
// CHECK-LABEL: func.func @bias_by_row
// CHECK: %[[AT:.*]] = llvm.getelementptr %{{.*}}[%{{.*}}] : (!llvm.ptr, i64) -> !llvm.ptr, f32
// CHECK-NEXT: %[[B0:.*]] = llvm.load
// CHECK: llvm.getelementptr {{.*}}[1]
// CHECK-NEXT: %[[B1:.*]] = llvm.load
// CHECK: llvm.getelementptr {{.*}}[2]
// CHECK-NEXT: %[[B2:.*]] = llvm.load
// CHECK: llvm.getelementptr {{.*}}[3]
// CHECK-NEXT: %[[B3:.*]] = llvm.load
// CHECK-COUNT-2: vector.broadcast %[[B0]]
// CHECK-COUNT-2: vector.broadcast %[[B1]]
// CHECK-COUNT-2: vector.broadcast %[[B2]]
// CHECK-COUNT-2: vector.broadcast %[[B3]]
// CHECK: vector.broadcast %[[B0]]
// CHECK: vector.broadcast %[[B1]]
// CHECK: vector.broadcast %[[B2]]
// CHECK: vector.broadcast %[[B3]]
// CHECK: arith.addf %{{.*}}, %[[B2]] : f32
func.func @bias_by_row(%x: tensor<32x25xf32>, %w: tensor<32x8xf32>, %b: tensor<8xf32>) -> tensor<8x25xf32> attributes {pyjit.kernel} {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x25xf32>
  %i = linalg.fill ins(%z : f32) outs(%e : tensor<8x25xf32>) -> tensor<8x25xf32>
  %r = linalg.generic {indexing_maps = [#points, #panel, #image], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<32x25xf32>, tensor<32x8xf32>) outs(%i : tensor<8x25xf32>) {
  ^bb0(%in: f32, %f: f32, %s: f32):
    %p = arith.mulf %in, %f : f32
    %t = arith.addf %s, %p : f32
    linalg.yield %t : f32
  } -> tensor<8x25xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(c, p) -> (c, p)>, affine_map<(c, p) -> (c)>, affine_map<(c, p) -> (c, p)>], iterator_types = ["parallel", "parallel"]}
      ins(%r, %b : tensor<8x25xf32>, tensor<8xf32>) outs(%e : tensor<8x25xf32>) {
  ^bb0(%in: f32, %f: f32, %s: f32):
    %t = arith.addf %in, %f : f32
    linalg.yield %t : f32
  } -> tensor<8x25xf32>
  return %y : tensor<8x25xf32>
}

// Rows whose number differs between calls: tiles of six, then of four, two and
// one, for each of them reads all columns; a unit is a block of 256 rows.
// CHECK-LABEL: func.func @some_rows
// CHECK-COUNT-12: math.fma {{.*}} : vector<8xf32>
// CHECK: scf.yield
// CHECK-COUNT-8: math.fma {{.*}} : vector<8xf32>
// CHECK: scf.yield
// CHECK-COUNT-4: math.fma {{.*}} : vector<8xf32>
// CHECK: scf.yield
// CHECK-COUNT-2: math.fma {{.*}} : vector<8xf32>
// CHECK-NOT: math.fma
// CHECK: return
// SCHEDULE: vector dim 2, 8 lanes x 2, tile dim 1, 6 rows
!rows = tensor<?x8xf32, #tssa.layout<[s0, 8], [8, 1]>>
!sums = tensor<?x32xf32, #tssa.layout<[s0, 32], [32, 1]>>
func.func @some_rows(%x: !rows, %w: tensor<2x8x16xf32>) -> !sums attributes {pyjit.kernel} {
  %z = arith.constant 0.0 : f32
  %e = tssa.empty : !sums
  %i = linalg.fill ins(%z : f32) outs(%e : !sums) -> !sums
  %r = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : !rows, tensor<2x8x16xf32>) outs(%i : !sums) {
  ^bb0(%a: f32, %b: f32, %s: f32):
    %p = arith.mulf %a, %b : f32
    %t = arith.addf %s, %p : f32
    linalg.yield %t : f32
  } -> !sums
  return %r : !sums
}

// A sum over such rows (the gradient of a weight): runs of 256 products, whose
// sums are added up in memory; how many runs there are is the call's.
#turned = affine_map<(m, n, k) -> (k, m)>
// CHECK-LABEL: func.func @some_products
// CHECK: %[[SUMS:.*]] = llvm.alloca
// CHECK: arith.minsi
// CHECK: scf.for
// CHECK-COUNT-12: math.fma {{.*}} : vector<8xf32>
// CHECK: scf.yield
// CHECK-COUNT-12: arith.addf {{.*}} : vector<8xf32>
// CHECK: return
// SCHEDULE: vector dim 1, 8 lanes x 2, tile dim 0, 6 rows, sums in memory
!panels = tensor<1x?x16xf32, #tssa.layout<[1, s0, 16], [s0 * 16, 16, 1]>>
!products = tensor<?x6xf32, #tssa.layout<[s0, 6], [6, 1]>>
func.func @some_products(%x: !products, %w: !panels) -> tensor<6x16xf32> attributes {pyjit.kernel} {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<6x16xf32>
  %i = linalg.fill ins(%z : f32) outs(%e : tensor<6x16xf32>) -> tensor<6x16xf32>
  %r = linalg.generic {indexing_maps = [#turned, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : !products, !panels) outs(%i : tensor<6x16xf32>) {
  ^bb0(%a: f32, %b: f32, %s: f32):
    %p = arith.mulf %a, %b : f32
    %t = arith.addf %s, %p : f32
    linalg.yield %t : f32
  } -> tensor<6x16xf32>
  return %r : tensor<6x16xf32>
}

// More than a few operations follow from the sums: these go to the stack, and a
// loop over the rows of a tile does the rest, once for tiles of six rows and
// once for the last four. The bias does not depend on the row.
// CHECK-LABEL: func.func @epilogue
// CHECK: %[[SUMS:.*]] = llvm.alloca {{.*}} x f32
// CHECK-COUNT-12: math.fma
// CHECK: scf.yield
// CHECK-COUNT-12: llvm.store {{.*}} : vector<8xf32>
// CHECK: %[[BIAS:.*]] = llvm.load {{.*}} -> vector<8xf32>
// CHECK: scf.for
// CHECK: llvm.getelementptr %[[SUMS]]
// CHECK: arith.addf {{.*}}, %[[BIAS]]
// CHECK-COUNT-2: math.exp
// CHECK-NOT: math.exp
// CHECK-COUNT-8: math.fma
// CHECK-COUNT-2: math.exp
// CHECK-NOT: math.exp
// CHECK: return
// SCHEDULE: tile dim 1, 6 rows, sums in memory
func.func @epilogue(%x: tensor<34x8xf32>, %w: tensor<2x8x16xf32>, %b: tensor<32xf32>) -> tensor<34x32xf32> attributes {pyjit.kernel} {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<34x32xf32>
  %i = linalg.fill ins(%z : f32) outs(%e : tensor<34x32xf32>) -> tensor<34x32xf32>
  %r = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<34x8xf32>, tensor<2x8x16xf32>) outs(%i : tensor<34x32xf32>) {
  ^bb0(%a: f32, %f: f32, %s: f32):
    %p = arith.mulf %a, %f : f32
    %t = arith.addf %s, %p : f32
    linalg.yield %t : f32
  } -> tensor<34x32xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(m, n) -> (m, n)>, affine_map<(m, n) -> (n)>, affine_map<(m, n) -> (m, n)>], iterator_types = ["parallel", "parallel"]}
      ins(%r, %b : tensor<34x32xf32>, tensor<32xf32>) outs(%e : tensor<34x32xf32>) {
  ^bb0(%in: f32, %f: f32, %s: f32):
    %t = arith.addf %in, %f : f32
    %u = math.exp %t : f32
    linalg.yield %u : f32
  } -> tensor<34x32xf32>
  return %y : tensor<34x32xf32>
}

// A sum of many products is taken in runs, whose sums are added up there.
// CHECK-LABEL: func.func @long_sum
// CHECK: %[[SUMS:.*]] = llvm.alloca
// CHECK: scf.for
// CHECK-COUNT-2: llvm.store %{{.*}} : vector<8xf32>
// CHECK: scf.for %{{.*}} = %{{.*}} to %{{.*}} step %{{.*}}  : i64 {
// CHECK-COUNT-12: math.fma
// CHECK: scf.yield
// CHECK-COUNT-12: arith.addf {{.*}} : vector<8xf32>
// CHECK: scf.for
// CHECK-COUNT-2: llvm.store
// CHECK-NOT: llvm.store
// CHECK: return
// SCHEDULE: tile dim 0, 6 rows, sums in memory
func.func @long_sum(%x: tensor<6x600xf32>, %w: tensor<1x600x16xf32>) -> tensor<6x16xf32> attributes {pyjit.kernel} {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<6x16xf32>
  %i = linalg.fill ins(%z : f32) outs(%e : tensor<6x16xf32>) -> tensor<6x16xf32>
  %r = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<6x600xf32>, tensor<1x600x16xf32>) outs(%i : tensor<6x16xf32>) {
  ^bb0(%a: f32, %f: f32, %s: f32):
    %p = arith.mulf %a, %f : f32
    %t = arith.addf %s, %p : f32
    linalg.yield %t : f32
  } -> tensor<6x16xf32>
  return %r : tensor<6x16xf32>
}
