// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --tssa-functionalize -split-input-file -verify-diagnostics

// Versions are followed through structured control flow alone.
// expected-error @+1 {{has control flow that is not structured}}
func.func @branches(%x: !tssa.ref<tensor<4xf32>>, %c: i1) {
  llvm.cond_br %c, ^then, ^end
^then:
  llvm.br ^end
^end:
  return
}

// -----

// Somebody else may write through a handle that is passed on.
func.func private @other(!tssa.ref<tensor<4xf32>>)
// expected-error @+1 {{uses a handle in a way that functionalization does not know}}
func.func @passed_on(%x: !tssa.ref<tensor<4xf32>>) {
  func.call @other(%x) : (!tssa.ref<tensor<4xf32>>) -> ()
  return
}
