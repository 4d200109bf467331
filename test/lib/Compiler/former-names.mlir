// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Passes and pipelines answer to their former names for one release.
// RUN: pyjit-opt %s --pyjit-launch | FileCheck %s
// RUN: pyjit-opt %s --refgraph-reroll-loops --tssa-hoist-expectations --library-plan-products=columns=0 | FileCheck %s

// CHECK-LABEL: func @same
func.func @same(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
