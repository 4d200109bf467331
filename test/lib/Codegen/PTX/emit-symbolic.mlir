// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --ptx-emit-kernels | FileCheck %s
// RUN: pyjit-opt %s --ptx-emit-kernels | FileCheck %s --check-prefix=PICKED

#id = affine_map<(d0, d1) -> (d0, d1)>

// Sizes that differ between calls are parameters behind the pointers; the grid
// is an expression.
// CHECK: #[[BLOCKS:.*]] = affine_map<()[s0] -> ((s0 * 64) ceildiv 256)>
// CHECK-LABEL: func.func private @symbolic(
// CHECK-SAME: pyjit.blocks = #[[BLOCKS]]
// CHECK-SAME: pyjit.reads_symbols = array<i64: 0>
// CHECK-LABEL: func.func private @on_device(
// CHECK-SAME: pyjit.blocks = #[[BLOCKS]]
// CHECK-SAME: pyjit.reads_symbols = array<i64: 0>
// CHECK: func.func @absf_symbolic(%{{.*}}: !llvm.ptr<1>, %{{.*}}: !llvm.ptr<1>, %[[S:.*]]: i64)
// CHECK: arith.muli %[[S]], %{{.*}} : i64
// CHECK: arith.cmpi ult
func.func @symbolic(%x: tensor<?x64xf32, #tssa.layout<[s0, 64], [64, 1]>>) -> tensor<?x64xf32, #tssa.layout<[s0, 64], [64, 1]>> attributes {pyjit.kernel} {
  %e = tssa.empty : tensor<?x64xf32, #tssa.layout<[s0, 64], [64, 1]>>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<?x64xf32, #tssa.layout<[s0, 64], [64, 1]>>) outs(%e : tensor<?x64xf32, #tssa.layout<[s0, 64], [64, 1]>>) {
  ^bb0(%a: f32, %o: f32):
    %t = math.absf %a : f32
    linalg.yield %t : f32
  } -> tensor<?x64xf32, #tssa.layout<[s0, 64], [64, 1]>>
  return %r : tensor<?x64xf32, #tssa.layout<[s0, 64], [64, 1]>>
}

// Sizes that are read on the device: the address of each is a parameter, and
// blocks behind the last one leave.
// CHECK: func.func @absf_on_device(%{{.*}}: !llvm.ptr<1>, %{{.*}}: !llvm.ptr<1>, %[[A:.*]]: !llvm.ptr<1>)
// CHECK: llvm.load %[[A]] invariant : !llvm.ptr<1> -> i64
// CHECK: %[[INSIDE:.*]] = arith.cmpi ult
// CHECK-NEXT: scf.if %[[INSIDE]] {
// CHECK: llvm.store {{.*}}
// CHECK-NEXT: }
// CHECK-NEXT: }
// CHECK-NEXT: return
func.func @on_device(%x: tensor<?x64xf32, #tssa.layout<[s0, 64], [64, 1]>>) -> tensor<?x64xf32, #tssa.layout<[s0, 64], [64, 1]>> attributes {pyjit.kernel, pyjit.device_sizes} {
  %e = tssa.empty : tensor<?x64xf32, #tssa.layout<[s0, 64], [64, 1]>>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<?x64xf32, #tssa.layout<[s0, 64], [64, 1]>>) outs(%e : tensor<?x64xf32, #tssa.layout<[s0, 64], [64, 1]>>) {
  ^bb0(%a: f32, %o: f32):
    %t = math.absf %a : f32
    linalg.yield %t : f32
  } -> tensor<?x64xf32, #tssa.layout<[s0, 64], [64, 1]>>
  return %r : tensor<?x64xf32, #tssa.layout<[s0, 64], [64, 1]>>
}

// Rows that an index picks in a table whose width is the call's.
// PICKED-LABEL: func.func private @picked(
// PICKED-SAME: pyjit.reads_symbols
// PICKED-LABEL: func.func @copy_picked(
// PICKED: %[[ROW:.*]] = llvm.load {{.*}} -> i64
// PICKED: arith.muli %[[ROW]], %{{.*}} : i64
!table = tensor<8x?xf32, #tssa.layout<[8, s0], [s0, 1]>>
!picked = tensor<4x?xf32, #tssa.layout<[4, s0], [s0, 1]>>
func.func private @picked(%t: !table, %i: tensor<4xi64>) -> !picked attributes {pyjit.kernel} {
  %e = tssa.empty : !picked
  %0 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
      ins(%i : tensor<4xi64>) outs(%e : !picked) {
  ^bb0(%n: i64, %o: f32):
    %row = arith.index_cast %n : i64 to index
    %column = linalg.index 1 : index
    %v = tensor.extract %t[%row, %column] : !table
    linalg.yield %v : f32
  } -> !picked
  return %0 : !picked
}
