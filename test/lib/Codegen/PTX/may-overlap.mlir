// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --pyjit-ptx="gpu=a100" | pyjit-translate --kernels-to-ptx | FileCheck %s

#id = affine_map<(d0) -> (d0)>

// What may be overwritten is not loaded by the way of what is only read, and before anything is stored: also where
// each thread has several vectors.
// CHECK-LABEL: .visible .entry addf_add(
// CHECK-DAG:     ld.param.b64 [[PX:%rd[0-9]+]], [addf_add_param_0];
// CHECK-DAG:     ld.param.b64 [[PY:%rd[0-9]+]], [addf_add_param_1];
// CHECK-NOT:     st.global
// CHECK-DAG:     ld.global.{{(v[24]\.)?}}b32
// CHECK-DAG:     ld.global.nc.{{(v[24]\.)?}}b32
// CHECK:         st.global.{{(v[24]\.)?}}b32
// CHECK-NOT:     ld.global
// CHECK:         ret;
func.func @add(%x: tensor<65536xf32>, %y: tensor<65536xf32>) -> tensor<65536xf32>
    attributes {pyjit.kernel, pyjit.may_overlap = [array<i64: 0, 0>]} {
  %e = tensor.empty() : tensor<65536xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]} ins(%x, %y : tensor<65536xf32>, tensor<65536xf32>) outs(%e : tensor<65536xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %r = arith.addf %a, %b : f32
    linalg.yield %r : f32
  } -> tensor<65536xf32>
  return %0 : tensor<65536xf32>
}

// The second result reads %x, too, and is stored last.
// CHECK-LABEL: .visible .entry negf_absf_both(
// CHECK:         ld.global.{{(v[24]\.)?}}b32
// CHECK-NOT:     ld.global.nc
// CHECK:         st.global.{{(v[24]\.)?}}b32
// CHECK-NOT:     ld.global
// CHECK:         st.global.{{(v[24]\.)?}}b32
// CHECK-NOT:     ld.global
// CHECK:         ret;
func.func @both(%x: tensor<65536xf32>) -> (tensor<65536xf32>, tensor<65536xf32>)
    attributes {pyjit.kernel, pyjit.may_overlap = [array<i64: 0, 0>]} {
  %e = tensor.empty() : tensor<65536xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<65536xf32>) outs(%e : tensor<65536xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = arith.negf %a : f32
    linalg.yield %r : f32
  } -> tensor<65536xf32>
  %1 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<65536xf32>) outs(%e : tensor<65536xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = math.absf %a : f32
    linalg.yield %r : f32
  } -> tensor<65536xf32>
  return %0, %1 : tensor<65536xf32>, tensor<65536xf32>
}
