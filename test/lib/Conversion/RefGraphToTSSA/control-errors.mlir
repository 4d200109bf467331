// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --convert-refgraph-to-tssa -split-input-file -verify-diagnostics

!B = !refgraph.tensor<[], [], i1, "cpu">

refgraph.graph @decision(%c: !B) {
  // expected-error @+1 {{a decision on data that is no loop: decisions of several places}}
  refgraph.decide %c is true at "f.py:3" state "" [] unfolded "decisions of several places" : (!B) -> ()
  refgraph.yield
}
