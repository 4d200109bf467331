// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --ptx-emit-kernels --split-input-file --verify-diagnostics

#id = affine_map<(d0) -> (d0)>

// expected-error @+1 {{the schedule of 'k': a family is flat, row, column, tile, product or attention}}
func.func @k(%x: tensor<64xf32>) -> tensor<64xf32> attributes {pyjit.kernel, pyjit.schedule = {family = "spiral"}} {
  %e = tensor.empty() : tensor<64xf32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%x : tensor<64xf32>) outs(%e : tensor<64xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<64xf32>
  return %r : tensor<64xf32>
}

// -----

#id = affine_map<(d0) -> (d0)>

// expected-error @+1 {{the schedule of 'k' does not fit: nothing is reduced}}
func.func @k(%x: tensor<64xf32>) -> tensor<64xf32> attributes {pyjit.kernel, pyjit.schedule = {family = "row"}} {
  %e = tensor.empty() : tensor<64xf32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%x : tensor<64xf32>) outs(%e : tensor<64xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<64xf32>
  return %r : tensor<64xf32>
}

// -----

#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>

// expected-error @+1 {{the schedule of 'k' does not fit: a row of 1024 elements does not fit the threads that share it}}
func.func @k(%x: tensor<4x1024xf32>) -> tensor<4xf32> attributes {pyjit.kernel,
    pyjit.schedule = {family = "row", lanes = 4, vectors = 1, threads = 128, group = 128, resident = true}} {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4xf32>
  %i = linalg.fill ins(%z : f32) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  %s = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<4x1024xf32>) outs(%i : tensor<4xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %t = arith.addf %a, %acc : f32
    linalg.yield %t : f32
  } -> tensor<4xf32>
  return %s : tensor<4xf32>
}

// -----

#id = affine_map<(d0) -> (d0)>

// expected-error @+1 {{'pyjit.indirect' and 'pyjit.align' of 'k' say something of 2 pointers}}
func.func @k(%x: tensor<64xf32>) -> tensor<64xf32> attributes {pyjit.kernel, pyjit.indirect = array<i1: true>} {
  %e = tensor.empty() : tensor<64xf32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%x : tensor<64xf32>) outs(%e : tensor<64xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<64xf32>
  return %r : tensor<64xf32>
}

// -----

#id = affine_map<(d0) -> (d0)>

// expected-error @+1 {{the operands and results of 'k' are not those of 2 equal parts (pyjit.batch)}}
func.func @k(%x: tensor<64xf32>) -> tensor<64xf32> attributes {pyjit.kernel, pyjit.batch = 2 : i64} {
  %e = tensor.empty() : tensor<64xf32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%x : tensor<64xf32>) outs(%e : tensor<64xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<64xf32>
  return %r : tensor<64xf32>
}
