// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --ptx-emit-kernels | FileCheck %s

#id = affine_map<(d0, d1) -> (d0, d1)>

// The same but for the symbol: one entry, which each launch gives its own.
// CHECK-LABEL: func.func private @symbolic(
// CHECK-SAME: pyjit.reads_symbols = array<i64: 0>
// CHECK-SAME: pyjit.symbol = "absf_symbolic"
// CHECK-LABEL: func.func private @other(
// CHECK-SAME: pyjit.reads_symbols = array<i64: 3>
// CHECK-SAME: pyjit.symbol = "absf_symbolic"
// CHECK: func.func @absf_symbolic(%{{.*}}: !llvm.ptr<1>, %{{.*}}: !llvm.ptr<1>, %{{.*}}: i64)
// CHECK-NOT: func.func @absf_other
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

func.func @other(%x: tensor<?x64xf32, #tssa.layout<[s3, 64], [64, 1]>>) -> tensor<?x64xf32, #tssa.layout<[s3, 64], [64, 1]>> attributes {pyjit.kernel} {
  %e = tssa.empty : tensor<?x64xf32, #tssa.layout<[s3, 64], [64, 1]>>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<?x64xf32, #tssa.layout<[s3, 64], [64, 1]>>) outs(%e : tensor<?x64xf32, #tssa.layout<[s3, 64], [64, 1]>>) {
  ^bb0(%a: f32, %o: f32):
    %t = math.absf %a : f32
    linalg.yield %t : f32
  } -> tensor<?x64xf32, #tssa.layout<[s3, 64], [64, 1]>>
  return %r : tensor<?x64xf32, #tssa.layout<[s3, 64], [64, 1]>>
}
