// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s -x86-emit-kernels -verify-diagnostics

// linalg takes every ? for the next one; a kernel does not.
!x = tensor<?xf32, #tssa.layout<[s0], [1]>>
!y = tensor<?xf32, #tssa.layout<[s1], [1]>>
#id = affine_map<(d0) -> (d0)>
// expected-error @+1 {{kernel 'f' cannot be scheduled: sizes that need not be equal}}
func.func private @f(%x: !x, %y: !y) -> !x attributes {pyjit.kernel} {
  %e = tssa.empty : !x
  %0 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]}
      ins(%x, %y : !x, !y) outs(%e : !x) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %1 = arith.addf %a, %b : f32
    linalg.yield %1 : f32
  } -> !x
  return %0 : !x
}
