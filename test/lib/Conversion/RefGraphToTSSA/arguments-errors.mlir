// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --convert-refgraph-to-tssa -split-input-file -verify-diagnostics

!T = !refgraph.tensor<[4], [1], f32, "cpu">

refgraph.graph @count(%x: !T) {
  // expected-error @+1 {{has 2 arguments, but 'aten::relu(Tensor self) -> Tensor' has 1}}
  %y = refgraph.tensor_op "aten::relu"(%x, 0 : i64) : (!T) -> !T
  refgraph.yield %y : !T
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">

refgraph.graph @kind(%x: !T) {
  // expected-error @+1 {{has "no" as 'dim0', which 'aten::transpose.int(Tensor(a) self, int dim0, int dim1) -> Tensor(a)' takes a int for}}
  %y = refgraph.tensor_op "aten::transpose.int"(%x, "no", 0 : i64) aliases [0] : (!T) -> !T
  refgraph.yield %y : !T
}
