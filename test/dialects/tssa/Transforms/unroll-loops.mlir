// RUN: pyjit-opt %s --tssa-unroll-loops | FileCheck %s

// Picks and indices become constants.
// CHECK-LABEL: func @picked
// CHECK-SAME: (%[[X:[^:]*]]: tensor<8xf32>, %[[A:[^:]*]]: tensor<8xf32>, %[[B:[^:]*]]: tensor<8xf32>
// CHECK-NOT: scf.for
// CHECK: %[[H:.*]] = tssa.aten "my::cell"(%[[X]], %[[A]])
// CHECK: %[[C4:.*]] = arith.constant 4 : index
// CHECK: tssa.access %{{.*}} [#tssa.view<select [0, ?]>](%[[C4]])
// CHECK: %[[R:.*]] = tssa.aten "my::cell"(%[[H]], %[[B]])
// CHECK: return %[[R]]
func.func @picked(%x: tensor<8xf32>, %a: tensor<8xf32>, %b: tensor<8xf32>, %t: tensor<9x8xf32>) -> tensor<8xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c4 = arith.constant 4 : index
  %r = scf.for %i = %c0 to %c2 step %c1 iter_args(%h = %x) -> (tensor<8xf32>) {
    %w = tssa.pick [%a, %b] (%i) : tensor<8xf32>
    %j = arith.muli %i, %c4 : index
    %v = tssa.access %t [#tssa.view<select [0, ?]>] (%j) : tensor<9x8xf32> -> tensor<8xf32>
    tssa.aten "my::see"(%v) : (tensor<8xf32>) -> ()
    %0 = tssa.aten "my::cell"(%h, %w) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    scf.yield %0 : tensor<8xf32>
  }
  return %r : tensor<8xf32>
}

// Loops inside of loops.
// CHECK-LABEL: func @nested
// CHECK-NOT: scf.for
// CHECK-COUNT-6: tssa.aten "my::f"
// CHECK-NOT: tssa.aten
func.func @nested(%x: tensor<8xf32>) -> tensor<8xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %r = scf.for %i = %c0 to %c2 step %c1 iter_args(%h = %x) -> (tensor<8xf32>) {
    %s = scf.for %j = %c0 to %c3 step %c1 iter_args(%k = %h) -> (tensor<8xf32>) {
      %0 = tssa.aten "my::f"(%k) : (tensor<8xf32>) -> tensor<8xf32>
      scf.yield %0 : tensor<8xf32>
    }
    scf.yield %s : tensor<8xf32>
  }
  return %r : tensor<8xf32>
}

// How often is known at run time only.
// CHECK-LABEL: func @open
// CHECK: scf.for
func.func @open(%x: tensor<8xf32>, %n: index) -> tensor<8xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%h = %x) -> (tensor<8xf32>) {
    %0 = tssa.aten "my::f"(%h) : (tensor<8xf32>) -> tensor<8xf32>
    scf.yield %0 : tensor<8xf32>
  }
  return %r : tensor<8xf32>
}
