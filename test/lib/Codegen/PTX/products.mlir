// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --pyjit-ptx | FileCheck %s --check-prefix=LLVM
// RUN: pyjit-opt %s --pyjit-ptx | pyjit-translate --kernels-to-ptx --chip=sm_90 | FileCheck %s --check-prefix=PTX
// RUN: pyjit-opt %s --pyjit-ptx="gpu=sm_80" | pyjit-translate --kernels-to-ptx --chip=sm_80 | FileCheck %s --check-prefix=PTX
// RUN: pyjit-opt %s --pyjit-ptx=simulate=true | FileCheck %s --check-prefix=HOST

// Eight rows times a matrix in half precision: 32 columns for each block, since they are many, and its warps share the
// sum. The matrix is read by sixteen bytes, and each element of it once.
// LLVM-LABEL: func.func private @product
// LLVM-SAME: pyjit.block = array<i32: 256, 1, 1>
// LLVM-SAME: pyjit.grid = array<i32: 512, 1, 1>
// LLVM-SAME: pyjit.schedule = {blocks = 3 : i64, family = "product", group = 2 : i64, lanes = 8 : i64, threads = 256 : i64, vectors = 2 : i64}
// LLVM: llvm.func @mulf_addf_product
// PTX-LABEL: .entry mulf_addf_product
// PTX-COUNT-8: ld.global.{{(nc.)?}}v4.b32
// PTX: mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32
// PTX: bar{{.*}}.sync
// PTX: st.global.b16
// HOST: call @pyjit_sim_multiply
#rows = affine_map<(d0, d1, d2) -> (d0, d2)>
#columns = affine_map<(d0, d1, d2) -> (d1, d2)>
#out = affine_map<(d0, d1, d2) -> (d0, d1)>
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func @product(%x: tensor<8x2048xf16>, %w: tensor<16384x2048xf16>) -> tensor<8x16384xf16> attributes {pyjit.kernel} {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x16384xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8x16384xf32>) -> tensor<8x16384xf32>
  %sum = linalg.generic {indexing_maps = [#rows, #columns, #out], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<8x2048xf16>, tensor<16384x2048xf16>) outs(%f : tensor<8x16384xf32>) {
  ^bb0(%a: f16, %b: f16, %o: f32):
    %l = arith.extf %a : f16 to f32
    %r = arith.extf %b : f16 to f32
    %p = arith.mulf %l, %r : f32
    %s = arith.addf %o, %p : f32
    linalg.yield %s : f32
  } -> tensor<8x16384xf32>
  %h = tensor.empty() : tensor<8x16384xf16>
  %result = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%sum : tensor<8x16384xf32>) outs(%h : tensor<8x16384xf16>) {
  ^bb0(%a: f32, %o: f16):
    %t = arith.truncf %a : f32 to f16
    linalg.yield %t : f16
  } -> tensor<8x16384xf16>
  return %result : tensor<8x16384xf16>
}
