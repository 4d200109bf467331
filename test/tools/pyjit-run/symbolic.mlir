// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One compiled function, called with inputs of two sizes.
//
// REQUIRES: python
// RUN: %python -c "import numpy as np; [np.save(f'%t{n}.npy', np.arange(n*4, dtype=np.float32).reshape(n, 4)) for n in (2, 3)]; np.save('%t.b.npy', np.float32([1, 2, 3, 4]))"
// RUN: pyjit-run %s --entry f --arg %t2.npy --arg %t.b.npy | FileCheck %s --check-prefix=TWO
// RUN: pyjit-run %s --entry f --arg %t3.npy --arg %t.b.npy | FileCheck %s --check-prefix=THREE
// RUN: not pyjit-run %s --entry f --arg %t.b.npy --arg %t.b.npy 2>&1 | FileCheck %s --check-prefix=RANK

// TWO: f32[2, 4] {{\[}}[1, 3, 5, 7], [5, 7, 9, 11]]
// TWO: f32[8] [0.5, 1.5, 2.5, 3.5, 2.5, 3.5, 4.5, 5.5]
// TWO: f32[2] [16, 32]
// THREE: f32[3, 4] {{\[}}[1, 3, 5, 7], [5, 7, 9, 11], [9, 11, 13, 15]]
// THREE: f32[12] [0.5, 1.5, 2.5, 3.5, 2.5, 3.5, 4.5, 5.5, 4.5, 5.5, 6.5, 7.5]
// THREE: f32[3] [16, 32, 48]
// RANK: the function takes f32[-1, 4]
!x = tensor<?x4xf32, #tssa.layout<[s0, 4], [4, 1]>>
!flat = tensor<?xf32, #tssa.layout<[s0 * 4], [1]>>
!row = tensor<?xf32, #tssa.layout<[s0], [1]>>
func.func @f(%x: !x, %b: tensor<4xf32>) -> (!x, !flat, !row)
    attributes {pyjit.symbols = [array<i64: 0, 0>]} {
  %0 = tssa.aten "aten::add.Tensor"(%x, %b, 1 : i64) : (!x, tensor<4xf32>) -> !x
  %1 = tssa.aten "aten::mul.Tensor"(%0, wrapped(0.5 : f64)) : (!x) -> !x
  %2 = tssa.access %1 [#tssa.view<view [s0 * 4]>] : !x -> !flat
  %3 = tssa.aten "aten::sum.dim_IntList"(%0, [1 : i64], false, none) : (!x) -> !row
  return %0, %2, %3 : !x, !flat, !row
}
