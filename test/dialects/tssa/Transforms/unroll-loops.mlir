// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
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

// What iterations collected is read where they computed it, through another
// view, too; the collection is never made.
// CHECK-LABEL: func @collected
// CHECK-NOT: tssa.assign
// CHECK: %[[A:.*]] = tssa.aten "my::cell"(%{{.*}})
// CHECK: %[[B:.*]] = tssa.aten "my::cell"(%[[A]])
// CHECK: %[[COLUMN:.*]] = tssa.access %[[A]] [#tssa.view<select [1, 3]>]
// CHECK-NOT: tensor.empty
// CHECK: return %[[B]], %[[COLUMN]]
func.func @collected(%x: tensor<2x8xf32>) -> (tensor<2x8xf32>, tensor<2xf32, #tssa.strides<[8]>>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %none = tensor.empty() : tensor<2x2x8xf32>
  %r:2 = scf.for %i = %c0 to %c2 step %c1 iter_args(%h = %x, %all = %none) -> (tensor<2x8xf32>, tensor<2x2x8xf32>) {
    %0 = tssa.aten "my::cell"(%h) : (tensor<2x8xf32>) -> tensor<2x8xf32>
    %1 = tssa.assign %all, %0 [#tssa.view<select [0, ?]>] (%i) : tensor<2x2x8xf32>, tensor<2x8xf32>
    scf.yield %0, %1 : tensor<2x8xf32>, tensor<2x2x8xf32>
  }
  %last = tssa.access %r#1 [#tssa.view<select [0, 1]>] : tensor<2x2x8xf32> -> tensor<2x8xf32>
  %column = tssa.access %r#1 [#tssa.view<select [0, 0]>, #tssa.view<select [1, 3]>] : tensor<2x2x8xf32> -> tensor<2xf32, #tssa.strides<[8]>>
  return %last, %column : tensor<2x8xf32>, tensor<2xf32, #tssa.strides<[8]>>
}

// It is made where it is read as a whole, where a part overlaps what was
// assigned, and where eager's strides of a part are not those of the value.
// CHECK-LABEL: func @whole
// CHECK-COUNT-2: tssa.assign {{.*}}#tssa.view<slice [0, ?, 2, 1]>
// CHECK-DAG: %[[PART:.*]] = tssa.access %{{.*}} [#tssa.view<slice [0, 1, 2, 1]>]
// CHECK-DAG: %[[OTHER:.*]] = tssa.access %{{.*}} [#tssa.view<select [1, 1]>]
// CHECK: return %[[PART]], %[[OTHER]]
func.func @whole(%x: tensor<2x8xf32>) -> (tensor<2x8xf32>, tensor<2xf32, #tssa.strides<[2]>>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %none = tensor.empty() : tensor<4x8xf32>
  %columns = tensor.empty() : tensor<2x2xf32>
  %r:3 = scf.for %i = %c0 to %c2 step %c1 iter_args(%h = %x, %all = %none, %c = %columns) -> (tensor<2x8xf32>, tensor<4x8xf32>, tensor<2x2xf32>) {
    %0 = tssa.aten "my::cell"(%h) : (tensor<2x8xf32>) -> tensor<2x8xf32>
    %at = arith.muli %i, %c2 : index
    %1 = tssa.assign %all, %0 [#tssa.view<slice [0, ?, 2, 1]>] (%at) : tensor<4x8xf32>, tensor<2x8xf32>
    %2 = tssa.aten "my::column"(%0) : (tensor<2x8xf32>) -> tensor<2xf32>
    %3 = tssa.assign %c, %2 [#tssa.view<select [1, ?]>] (%i) : tensor<2x2xf32>, tensor<2xf32>
    scf.yield %0, %1, %3 : tensor<2x8xf32>, tensor<4x8xf32>, tensor<2x2xf32>
  }
  %part = tssa.access %r#1 [#tssa.view<slice [0, 1, 2, 1]>] : tensor<4x8xf32> -> tensor<2x8xf32>
  %other = tssa.access %r#2 [#tssa.view<select [1, 1]>] : tensor<2x2xf32> -> tensor<2xf32, #tssa.strides<[2]>>
  return %part, %other : tensor<2x8xf32>, tensor<2xf32, #tssa.strides<[2]>>
}

// Too many iterations to be written out.
// CHECK-LABEL: func.func @endless
// CHECK: scf.for
func.func @endless(%x: tensor<8xf32>) -> tensor<8xf32> {
  %c0 = arith.constant -9223372036854775808 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %r = scf.for %i = %c0 to %c2 step %c1 iter_args(%h = %x) -> (tensor<8xf32>) {
    %0 = tssa.aten "my::f"(%h) : (tensor<8xf32>) -> tensor<8xf32>
    scf.yield %0 : tensor<8xf32>
  }
  return %r : tensor<8xf32>
}

// One that counts unsigned numbers, and one of two loops whose iterations
// multiply to too many: the inner one is written out.
// CHECK-LABEL: func.func @unsigned
// CHECK: scf.for unsigned
func.func @unsigned(%x: tensor<8xf32>) -> tensor<8xf32> {
  %c0 = arith.constant 0 : i8
  %c50 = arith.constant 50 : i8
  %c200 = arith.constant -56 : i8
  %r = scf.for unsigned %i = %c0 to %c200 step %c50 iter_args(%h = %x) -> (tensor<8xf32>) : i8 {
    %0 = tssa.aten "my::f"(%h) : (tensor<8xf32>) -> tensor<8xf32>
    scf.yield %0 : tensor<8xf32>
  }
  return %r : tensor<8xf32>
}

// CHECK-LABEL: func.func @many_nested
// CHECK-COUNT-1: scf.for
// CHECK-NOT: scf.for
// CHECK: return
func.func @many_nested(%x: tensor<8xf32>) -> tensor<8xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %many = arith.constant 2048 : index
  %r = scf.for %i = %c0 to %many step %c1 iter_args(%h = %x) -> (tensor<8xf32>) {
    %0 = scf.for %j = %c0 to %many step %c1 iter_args(%g = %h) -> (tensor<8xf32>) {
      %1 = tssa.aten "my::f"(%g) : (tensor<8xf32>) -> tensor<8xf32>
      scf.yield %1 : tensor<8xf32>
    }
    scf.yield %0 : tensor<8xf32>
  }
  return %r : tensor<8xf32>
}

// A counter that would pass the last number.
// CHECK-LABEL: func.func @last
// CHECK-COUNT-1: my::f
// CHECK-NOT: my::f
// CHECK: return
func.func @last(%x: tensor<8xf32>) -> tensor<8xf32> {
  %from = arith.constant 9223372036854775806 : index
  %to = arith.constant 9223372036854775807 : index
  %c5 = arith.constant 5 : index
  %r = scf.for %i = %from to %to step %c5 iter_args(%h = %x) -> (tensor<8xf32>) {
    %0 = tssa.aten "my::f"(%h) : (tensor<8xf32>) -> tensor<8xf32>
    scf.yield %0 : tensor<8xf32>
  }
  return %r : tensor<8xf32>
}
