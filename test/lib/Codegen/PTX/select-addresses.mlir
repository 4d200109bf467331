// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --ptx-emit-kernels | FileCheck %s

#id = affine_map<(d0, d1) -> (d0, d1)>
#last = affine_map<(d0, d1) -> (d1)>
#first = affine_map<(d0, d1) -> (d0)>

// Rows of one of two buffers, the same one for all lanes: its address is chosen,
// and read once.
// CHECK-LABEL: func.func @cmpi_select_rows(
// CHECK: %[[FIRST:.*]] = arith.cmpi slt
// CHECK: %[[AT:.*]] = llvm.select %[[FIRST]], %{{.*}}, %{{.*}} : i1, !llvm.ptr<1>
// CHECK-NEXT: llvm.load %[[AT]] invariant {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
// CHECK-NOT: llvm.load
// CHECK: return
func.func private @rows(%x: tensor<1024xf32>, %y: tensor<1024xf32>) -> tensor<2x1024xf32> attributes {pyjit.kernel,
    pyjit.schedule = {family = "flat", lanes = 4, vectors = 1, threads = 128}} {
  %e = tensor.empty() : tensor<2x1024xf32>
  %r = linalg.generic {indexing_maps = [#last, #last, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x, %y : tensor<1024xf32>, tensor<1024xf32>) outs(%e : tensor<2x1024xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %i = linalg.index 0 : index
    %c = arith.constant 1 : index
    %l = arith.cmpi slt, %i, %c : index
    %s = arith.select %l, %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<2x1024xf32>
  return %r : tensor<2x1024xf32>
}

// A choice for each lane needs both, and so does a value that somebody else reads.
// CHECK-LABEL: func.func @cmpf_select_lanes(
// CHECK-COUNT-2: llvm.load
// CHECK-NOT: llvm.select
// CHECK: return
func.func private @lanes(%x: tensor<2x1024xf32>, %y: tensor<2x1024xf32>) -> tensor<2x1024xf32> attributes {pyjit.kernel,
    pyjit.schedule = {family = "flat", lanes = 4, vectors = 1, threads = 128}} {
  %e = tensor.empty() : tensor<2x1024xf32>
  %r = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x, %y : tensor<2x1024xf32>, tensor<2x1024xf32>) outs(%e : tensor<2x1024xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %l = arith.cmpf olt, %a, %b : f32
    %s = arith.select %l, %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<2x1024xf32>
  return %r : tensor<2x1024xf32>
}
