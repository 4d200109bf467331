// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --refgraph-annotate -split-input-file -verify-diagnostics

!T = !refgraph.tensor<[4], [1], f32, "cpu">
refgraph.graph @hidden_write(%x: !T) {
  // expected-error@+1 {{mutates other operands than its schema: aten::relu_(Tensor(a!) self) -> Tensor(a!)}}
  %0 = refgraph.tensor_op "aten::relu_"(%x) : (!T) -> !T
  refgraph.yield %0 : !T
}

// -----

!T = !refgraph.tensor<[4], [1], f32, "cpu">
refgraph.graph @arguments(%x: !T) {
  // expected-error@+1 {{passes 2 arguments, the schema has 1: aten::relu(Tensor self) -> Tensor}}
  %0 = refgraph.tensor_op "aten::relu"(%x, 1 : i64) : (!T) -> !T
  refgraph.yield %0 : !T
}
