// RUN: pyjit-opt %s --refgraph-annotate | FileCheck %s

!T = !refgraph.tensor<[4], [1], f32, "cpu">

// An operator that the table does not know has no traits, whatever it had.
// CHECK: refgraph.tensor_op "mylib::thing"(%{{.*}}) : (
refgraph.graph @unknown(%x: !T) {
  %0 = refgraph.tensor_op "mylib::thing"(%x) {traits = ["pure"]} : (!T) -> !T
  refgraph.yield %0 : !T
}
