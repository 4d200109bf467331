// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sizes that a faulty pass made of themselves: an error, no endless recursion.
// RUN: not pyjit-opt %s --mlir-very-unsafe-disable-verifier-on-parsing --refgraph-generate-guards 2>&1 | FileCheck %s

// CHECK: error: 'refgraph.arith' op is computed from its own result
refgraph.trace @cycle {
  %e = refgraph.external
  %a = refgraph.get %e arg(0, "n") type(2) : !refgraph.obj<"int">
  %b = refgraph.arith "add"(%a, %c) is(3) : (!refgraph.obj<"int">, !refgraph.obj<"int">) -> !refgraph.obj<"int">
  %c = refgraph.arith "mul"(%b, %a) is(2) : (!refgraph.obj<"int">, !refgraph.obj<"int">) -> !refgraph.obj<"int">
  refgraph.leave %c : !refgraph.obj<"int">
}
