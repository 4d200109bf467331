// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --convert-tssa-to-cudagraph -split-input-file --verify-diagnostics

func.func @counted(%x: tensor<4xf32>, %n: tensor<i64>) -> tensor<4xf32> attributes {pyjit.device = "cuda:0"} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %e = tensor.extract %n[] : tensor<i64>
  %trips = arith.index_cast %e : i64 to index
  // expected-error @+1 {{a loop whose number of iterations is not known when it is compiled}}
  %r = scf.for %i = %c0 to %trips step %c1 iter_args(%t = %x) -> tensor<4xf32> {
    scf.yield %t : tensor<4xf32>
  }
  return %r : tensor<4xf32>
}

// -----

func.func @cpu(%x: tensor<i1> {pyjit.device = "cpu"}) -> tensor<i1> attributes {pyjit.device = "cuda:0"} {
  // expected-error @+1 {{a loop or branch on a device hands on a tensor of the CPU}}
  %r = scf.while (%a = %x) : (tensor<i1>) -> tensor<i1> {
    %flag = tensor.extract %a[] : tensor<i1>
    scf.condition(%flag) %a : tensor<i1>
  } do {
  ^bb0(%a: tensor<i1>):
    scf.yield %a : tensor<i1>
  }
  return %r : tensor<i1>
}

// -----

func.func @outside(%x: tensor<4x3xf32>) -> tensor<3xf32> attributes {pyjit.device = "cuda:0"} {
  %c4 = arith.constant 4 : index
  // expected-error @+1 {{index out of range}}
  %r = tssa.access %x [#tssa.view<select [0, ?]>] (%c4) : tensor<4x3xf32> -> tensor<3xf32>
  return %r : tensor<3xf32>
}

// -----

func.func @unsigned(%x: tensor<4xf32>) -> tensor<4xf32> attributes {pyjit.device = "cuda:0"} {
  %c0 = arith.constant 0 : i8
  %c50 = arith.constant 50 : i8
  %c200 = arith.constant -56 : i8
  // expected-error @+1 {{a loop that counts unsigned numbers cannot be launched}}
  %r = scf.for unsigned %i = %c0 to %c200 step %c50 iter_args(%t = %x) -> tensor<4xf32> : i8 {
    scf.yield %t : tensor<4xf32>
  }
  return %r : tensor<4xf32>
}
