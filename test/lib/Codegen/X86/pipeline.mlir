// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --x86-emit-kernels | pyjit-opt --pass-pipeline='builtin.module(builtin.module(codegen-expand-math),x86-lower-kernels)' | FileCheck %s
// RUN: pyjit-opt %s --pyjit-x86=vector-bits=256 | FileCheck %s

// CHECK-LABEL: module @kernels
// CHECK: llvm.func @exp(%{{.*}}: !llvm.ptr, %{{.*}}: i64, %{{.*}}: i64)
// CHECK-NOT: math.exp
// CHECK: llvm.intr.fma({{.*}}) : (vector<8xf32>, vector<8xf32>, vector<8xf32>)
#id = affine_map<(d0) -> (d0)>
func.func @exp(%x: tensor<64xf32>) -> tensor<64xf32> attributes {pyjit.kernel} {
  %e = tensor.empty() : tensor<64xf32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%x : tensor<64xf32>) outs(%e : tensor<64xf32>) {
  ^bb0(%a: f32, %o: f32):
    %y = math.exp %a : f32
    linalg.yield %y : f32
  } -> tensor<64xf32>
  return %r : tensor<64xf32>
}
