// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s -split-input-file -x86-emit-kernels="print-schedules" 2>&1 | FileCheck %s
// RUN: pyjit-opt %s -split-input-file -x86-emit-kernels | FileCheck %s --check-prefix=CODE

// Rows of a known width are one dimension with the rows' number: one loop of
// whole vectors, without a remainder, up to an extent that the call gives.
// CHECK: domain p(s0 * 64)
// CHECK: vector dim 0, 8 lanes x 1
// CODE: #[[WORK:.*]] = affine_map<()[s0] -> ((s0 * 64) ceildiv 4096)>
// CODE: func.func private @merged
// CODE-SAME: pyjit.reads_symbols
// CODE-SAME: pyjit.work = #[[WORK]]
// CODE: func.func @merged(%[[BUFFERS:.*]]: !llvm.ptr
// CODE: %[[SLOT:.*]] = llvm.getelementptr %[[BUFFERS]][2]
// CODE: %[[TABLE:.*]] = llvm.load %[[SLOT]]
// CODE: %[[PLACE:.*]] = llvm.getelementptr %[[TABLE]][0]
// CODE: llvm.load %[[PLACE]] : !llvm.ptr -> i64
// CODE: vector<8xf32>
// CODE-NOT: llvm.load {{.*}} -> f32
// CODE: return
!x = tensor<?x64xf32, #tssa.layout<[s0, 64], [64, 1]>>
func.func private @merged(%x: !x) -> !x attributes {pyjit.kernel} {
  %e = tssa.empty : !x
  %0 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
      ins(%x : !x) outs(%e : !x) {
  ^bb0(%a: f32, %b: f32):
    %1 = arith.negf %a : f32
    linalg.yield %1 : f32
  } -> !x
  return %0 : !x
}

// -----

// A symbolic row: vectors and a remainder.
// CHECK: domain p(s0) r(s1)
// CODE: #[[ROWS:.*]] = affine_map<()[s0] -> (s0)>
// CODE: func.func private @rows
// CODE-SAME: pyjit.work = #[[ROWS]]
// CODE: func.func @rows
// CODE: vector<8xf32>
// CODE: llvm.load {{.*}} -> f32
!x = tensor<?x?xf32, #tssa.layout<[s0, s1], [s1, 1]>>
!y = tensor<?xf32, #tssa.layout<[s0], [1]>>
func.func private @rows(%x: !x) -> !y attributes {pyjit.kernel} {
  %zero = arith.constant 0.0 : f32
  %e = tssa.empty : !y
  %f = linalg.fill ins(%zero : f32) outs(%e : !y) -> !y
  %0 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]}
      ins(%x : !x) outs(%f : !y) {
  ^bb0(%a: f32, %b: f32):
    %1 = arith.addf %a, %b : f32
    linalg.yield %1 : f32
  } -> !y
  return %0 : !y
}

// -----

// Rows that an index picks in a table whose width is the call's: the stride is
// a factor like any other, and a row is still read by vectors.
// CODE: func.func private @picked
// CODE-SAME: pyjit.reads_symbols
// CODE: %[[WIDTH:.*]] = llvm.load {{.*}} -> i64
// CODE: %[[ROW:.*]] = llvm.load {{.*}} -> i64
// CODE: arith.muli %[[ROW]], %[[WIDTH]]
// CODE: llvm.load {{.*}} -> vector<8xf32>
!t = tensor<8x?xf32, #tssa.layout<[8, s0], [s0, 1]>>
!r = tensor<4x?xf32, #tssa.layout<[4, s0], [s0, 1]>>
func.func private @picked(%t: !t, %i: tensor<4xi64>) -> !r attributes {pyjit.kernel} {
  %e = tssa.empty : !r
  %0 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
      ins(%i : tensor<4xi64>) outs(%e : !r) {
  ^bb0(%n: i64, %o: f32):
    %row = arith.index_cast %n : i64 to index
    %column = linalg.index 1 : index
    %v = tensor.extract %t[%row, %column] : !t
    linalg.yield %v : f32
  } -> !r
  return %0 : !r
}
