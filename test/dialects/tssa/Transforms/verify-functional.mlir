// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --tssa-verify-functional -split-input-file -verify-diagnostics

func.func @good(%x: tensor<3xf32>) -> tensor<3xf32> {
  return %x : tensor<3xf32>
}

// -----

// expected-error @+2 {{still takes a handle}}
// expected-note @+1 {{tssa-rename should have made it a tensor}}
func.func @argument(%x: !tssa.ref<tensor<3xf32>>) {
  return
}

// -----

func.func @handle(%x: tensor<3xf32>) {
  // expected-error @+2 {{is left after functionalization}}
  // expected-note @+1 {{tssa-rename should have removed it}}
  %0 = tssa.ref %x : !tssa.ref<tensor<3xf32>>
  return
}
