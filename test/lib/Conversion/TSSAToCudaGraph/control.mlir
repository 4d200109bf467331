// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --convert-tssa-to-cudagraph -split-input-file | FileCheck %s

// What the loop carries has a buffer; the kernel leaves the flag where the node
// looks for it. The new contents wait until nobody reads the old ones.
func.func private @step(tensor<4xf32>) -> tensor<4xf32> attributes {pyjit.kernel}
func.func private @test(tensor<4xf32>, tensor<f32>) -> tensor<i1> attributes {pyjit.kernel}
// CHECK-LABEL: cudagraph.program @while
// CHECK: %[[X:.*]] = cudagraph.external input 0
// CHECK: %[[L:.*]] = cudagraph.external input 1
// CHECK: cudagraph.kernel @test(%[[X]], %[[L]]) to(%[[GO:.*]]) :
// CHECK: cudagraph.copy %[[X]] to %[[A:.*]] :
// CHECK: cudagraph.while %[[GO]]
// CHECK:   cudagraph.kernel @step(%[[A]]) to(%[[NEW:.*]]) :
// CHECK:   cudagraph.kernel @test(%[[NEW]], %[[L]]) to(%[[GO]]) :
// CHECK-NEXT: cudagraph.copy %[[NEW]] to %[[A]]
// CHECK-NEXT: }
// CHECK-NEXT: %[[Y:.*]] = cudagraph.external output 0
// CHECK-NEXT: cudagraph.copy %[[A]] to %[[Y]]
// CHECK-NEXT: cudagraph.return %[[Y]]
func.func @while(%x: tensor<4xf32>, %limit: tensor<f32>) -> tensor<4xf32> attributes {pyjit.device = "cuda:0"} {
  %c = func.call @test(%x, %limit) : (tensor<4xf32>, tensor<f32>) -> tensor<i1>
  %r:2 = scf.while (%a = %x, %go = %c) : (tensor<4xf32>, tensor<i1>) -> (tensor<4xf32>, tensor<i1>) {
    %flag = tensor.extract %go[] : tensor<i1>
    scf.condition(%flag) %a, %go : tensor<4xf32>, tensor<i1>
  } do {
  ^bb0(%a: tensor<4xf32>, %go: tensor<i1>):
    %1 = func.call @step(%a) : (tensor<4xf32>) -> tensor<4xf32>
    %2 = func.call @test(%1, %limit) : (tensor<4xf32>, tensor<f32>) -> tensor<i1>
    scf.yield %1, %2 : tensor<4xf32>, tensor<i1>
  }
  return %r#0 : tensor<4xf32>
}

// -----

// The first region is launched before the loop and at each round's end, to the
// same buffers; what a library made there is copied to one.
func.func private @test(tensor<4xf32>) -> tensor<i1> attributes {pyjit.kernel}
// CHECK-LABEL: cudagraph.program @before
// CHECK: cudagraph.copy %{{.*}} to %[[A:.*]] :
// CHECK: cudagraph.kernel @test(%[[A]]) to(%[[GO:.*]]) :
// CHECK: %[[R1:.*]] = cudagraph.call "aten::flip"(%[[A]],
// CHECK: cudagraph.copy %[[R1]] to %[[F:.*]] :
// CHECK: cudagraph.while %[[GO]]
// CHECK:   cudagraph.copy %[[F]] to %[[A]]
// CHECK:   cudagraph.kernel @test(%[[A]]) to(%[[GO]]) :
// CHECK:   %[[R2:.*]] = cudagraph.call "aten::flip"(%[[A]],
// CHECK:   cudagraph.copy %[[R2]] to %[[F]]
// CHECK: }
// CHECK: cudagraph.copy %[[F]] to
func.func @before(%x: tensor<4xf32>) -> tensor<4xf32> attributes {pyjit.device = "cuda:0"} {
  %r = scf.while (%a = %x) : (tensor<4xf32>) -> tensor<4xf32> {
    %c = func.call @test(%a) : (tensor<4xf32>) -> tensor<i1>
    %f = tssa.aten "aten::flip"(%a, [0 : i64]) : (tensor<4xf32>) -> tensor<4xf32>
    %flag = tensor.extract %c[] : tensor<i1>
    scf.condition(%flag) %f : tensor<4xf32>
  } do {
  ^bb0(%b: tensor<4xf32>):
    scf.yield %b : tensor<4xf32>
  }
  return %r : tensor<4xf32>
}

// -----

// They change places: one goes aside.
func.func private @test(tensor<4xf32>, tensor<4xf32>) -> tensor<i1> attributes {pyjit.kernel}
// CHECK-LABEL: cudagraph.program @swap
// CHECK: cudagraph.while
// CHECK-NEXT: cudagraph.copy %[[B:.*]] to %[[ASIDE:.*]] :
// CHECK-NEXT: cudagraph.copy %[[A:.*]] to %[[B]] :
// CHECK-NEXT: cudagraph.copy %[[ASIDE]] to %[[A]] :
// CHECK-NEXT: cudagraph.kernel @test(%[[A]], %[[B]])
func.func @swap(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) attributes {pyjit.device = "cuda:0"} {
  %r:2 = scf.while (%a = %x, %b = %y) : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
    %c = func.call @test(%a, %b) : (tensor<4xf32>, tensor<4xf32>) -> tensor<i1>
    %flag = tensor.extract %c[] : tensor<i1>
    scf.condition(%flag) %a, %b : tensor<4xf32>, tensor<4xf32>
  } do {
  ^bb0(%a: tensor<4xf32>, %b: tensor<4xf32>):
    scf.yield %b, %a : tensor<4xf32>, tensor<4xf32>
  }
  return %r#0, %r#1 : tensor<4xf32>, tensor<4xf32>
}

// -----

// Both sides fill one buffer: a kernel there, a copy of what was made outside.
func.func private @neg(tensor<4xf32>) -> tensor<4xf32> attributes {pyjit.kernel}
// CHECK-LABEL: cudagraph.program @if
// CHECK: cudagraph.if %{{.*}} {
// CHECK-NEXT: cudagraph.kernel @neg(%[[X:.*]]) to(%[[R:.*]]) :
// CHECK-NEXT: } else {
// CHECK-NEXT: cudagraph.copy %[[X]] to %[[R]] :
// CHECK-NEXT: }
// CHECK: cudagraph.copy %[[R]] to
func.func @if(%x: tensor<4xf32>, %c: tensor<i1>) -> tensor<4xf32> attributes {pyjit.device = "cuda:0"} {
  %flag = tensor.extract %c[] : tensor<i1>
  %r = scf.if %flag -> (tensor<4xf32>) {
    %0 = func.call @neg(%x) : (tensor<4xf32>) -> tensor<4xf32>
    scf.yield %0 : tensor<4xf32>
  } else {
    scf.yield %x : tensor<4xf32>
  }
  return %r : tensor<4xf32>
}

// -----

// Rows replaced one after the other, in place; a column by the library, since
// what lies between its elements must stay.
func.func private @zeros() -> tensor<4x3xf32> attributes {pyjit.kernel}
// CHECK-LABEL: cudagraph.program @assign
// CHECK: cudagraph.kernel @zeros() to(%[[Y:.*]]) :
// CHECK-NEXT: %[[ROW:.*]] = cudagraph.view %[[Y]] at 6
// CHECK-NEXT: cudagraph.copy %{{.*}} to %[[ROW]]
// CHECK-NEXT: %[[COLUMN:.*]] = cudagraph.view %[[Y]] at 1
// CHECK-NEXT: cudagraph.call "aten::copy_"(%[[COLUMN]], %{{.*}}, false) mutates [0] : ({{.*}}) -> ()
// CHECK: cudagraph.copy %[[Y]] to %[[OUT:.*]] :
// CHECK-NEXT: cudagraph.return %[[OUT]]
func.func @assign(%row: tensor<3xf32>, %column: tensor<4xf32>) -> tensor<4x3xf32> attributes {pyjit.device = "cuda:0"} {
  %c2 = arith.constant 2 : index
  %0 = func.call @zeros() : () -> tensor<4x3xf32>
  %1 = tssa.assign %0, %row [#tssa.view<select [0, ?]>] (%c2) : tensor<4x3xf32>, tensor<3xf32>
  %2 = tssa.assign %1, %column [#tssa.view<select [1, 1]>] : tensor<4x3xf32>, tensor<4xf32>
  return %2 : tensor<4x3xf32>
}

// -----

// A kernel writes its result into the part of a larger buffer that is a copy of
// it, also where something behind the copy reads the result: in the second
// iteration, in front of which the whole buffer is copied, in the first one that
// lies between. Where a part that meets it is written while somebody still reads
// the result, it stays a copy.
func.func private @k(tensor<3xf32>) -> tensor<3xf32> attributes {pyjit.kernel}
// CHECK-LABEL: cudagraph.program @parts
// CHECK: cudagraph.kernel @k({{.*}}) to(%[[FIRST:[0-9]+]])
// CHECK-NEXT: cudagraph.copy %{{.*}} to %[[B:[0-9]+]] : !cudagraph.buffer<tensor<4x3xf32>>
// CHECK: cudagraph.copy %[[FIRST]] to
// CHECK: cudagraph.call "aten::exp"
// CHECK: cudagraph.call "aten::exp"
// CHECK-NEXT: %[[P:.*]] = cudagraph.view %[[B]] at 3
// CHECK-NEXT: cudagraph.kernel @k(%{{.*}}) to(%[[P]])
// CHECK-NEXT: %[[Q:.*]] = cudagraph.view %[[B]] at 6
// CHECK-NEXT: cudagraph.kernel @k(%[[P]]) to(%[[Q]])
// CHECK-NEXT: %{{.*}} = cudagraph.call "aten::exp"(%[[P]])
// CHECK-NEXT: cudagraph.kernel @k(%{{.*}}) to(%[[M:[0-9]+]])
// CHECK-NEXT: %{{.*}} = cudagraph.view %[[B]] at 9
// CHECK-NEXT: cudagraph.copy %[[M]] to
// CHECK: cudagraph.copy %{{.*}} to
// CHECK-NEXT: %{{.*}} = cudagraph.call "aten::exp"(%[[M]])
func.func @parts(%x: tensor<3xf32>, %e: tensor<4x3xf32>, %y: tensor<3xf32>) -> (tensor<4x3xf32>, tensor<3xf32>, tensor<3xf32>)
    attributes {pyjit.device = "cuda:0"} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %r:3 = scf.for %i = %c0 to %c2 step %c1 iter_args(%a = %e, %s = %x, %t = %x) -> (tensor<4x3xf32>, tensor<3xf32>, tensor<3xf32>) {
    %k = func.call @k(%s) : (tensor<3xf32>) -> tensor<3xf32>
    %1 = tssa.assign %a, %k [#tssa.view<select [0, 1]>] : tensor<4x3xf32>, tensor<3xf32>
    %l = func.call @k(%k) : (tensor<3xf32>) -> tensor<3xf32>
    %2 = tssa.assign %1, %l [#tssa.view<select [0, 2]>] : tensor<4x3xf32>, tensor<3xf32>
    %u = tssa.aten "aten::exp"(%k) : (tensor<3xf32>) -> tensor<3xf32>
    %m = func.call @k(%u) : (tensor<3xf32>) -> tensor<3xf32>
    %3 = tssa.assign %2, %m [#tssa.view<select [0, 3]>] : tensor<4x3xf32>, tensor<3xf32>
    %4 = tssa.assign %3, %y [#tssa.view<select [0, 3]>] : tensor<4x3xf32>, tensor<3xf32>
    %v = tssa.aten "aten::exp"(%m) : (tensor<3xf32>) -> tensor<3xf32>
    scf.yield %4, %u, %v : tensor<4x3xf32>, tensor<3xf32>, tensor<3xf32>
  }
  return %r#0, %r#1, %r#2 : tensor<4x3xf32>, tensor<3xf32>, tensor<3xf32>
}
