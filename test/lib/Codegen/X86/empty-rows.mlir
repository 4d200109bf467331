// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --x86-emit-kernels | FileCheck %s

#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>

// A row without elements: its sum is what the sum begins with. Nothing is read, and no sine computed,
// in front of the loop over the row either (the operand may have no memory at all).
// CHECK-LABEL: func.func private @no_elements
// CHECK-LABEL: module @kernels
// CHECK-NOT: math.sin
// CHECK: %[[INIT:.*]] = arith.constant 3.000000e+00 : f32
// CHECK-NOT: math.sin
// CHECK-NOT: {{load .* f32|load .* vector<.*f32>}}
// CHECK: llvm.store
// CHECK-NOT: math.sin
func.func @no_elements(%x: tensor<6x0xf32>) -> tensor<6xf32> attributes {pyjit.kernel} {
  %z = arith.constant 3.0 : f32
  %e = tensor.empty() : tensor<6xf32>
  %i = linalg.fill ins(%z : f32) outs(%e : tensor<6xf32>) -> tensor<6xf32>
  %r = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<6x0xf32>) outs(%i : tensor<6xf32>) {
  ^bb0(%a: f32, %s: f32):
    %m = math.sin %a : f32
    %t = arith.addf %m, %s : f32
    linalg.yield %t : f32
  } -> tensor<6xf32>
  return %r : tensor<6xf32>
}
