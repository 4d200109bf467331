// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --tssa-rewrite-mutation | FileCheck %s

// A declaration has no results to look at.
// CHECK: func.func private @declared
func.func private @declared(tensor<4xf32>) -> tensor<4xf32> attributes {pyjit.gradient_results = array<i64: 0>}
