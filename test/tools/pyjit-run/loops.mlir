// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-run %s --entry repeat --print-launch | FileCheck %s --check-prefix=WHILE
// RUN: pyjit-run %s --entry rows --print-launch | FileCheck %s --check-prefix=FOR
// RUN: pyjit-run %s --entry swap --print-launch | FileCheck %s --check-prefix=SWAP
// RUN: pyjit-run %s --entry choose --print-launch | FileCheck %s --check-prefix=IF
// RUN: pyjit-run %s --entry pick --print-launch | FileCheck %s --check-prefix=PICK
// RUN: pyjit-run %s --entry inside --print-launch | FileCheck %s --check-prefix=PLACE

// The condition is a value that the loop carries; the kernel leaves the flag
// where the next test reads it.
// WHILE: launch: 2 inputs
// WHILE: kernel kernel_{{.*}} ([[X:s[0-9]+]], [[S:s[0-9]+]])
// WHILE: kernel kernel_{{.*}} ({{.*}}, [[GO:s[0-9]+]])
// WHILE-NEXT: while {
// WHILE-NEXT:   test [[GO]]
// WHILE-NEXT:   kernel {{.*}} ([[S]], [[NEW:s[0-9]+]])
// WHILE-NEXT:   kernel {{.*}} ([[NEW]], {{s[0-9]+}}, [[GO]])
// WHILE-NEXT:   copy [[NEW]] to [[S]]
// WHILE-NEXT: }
// WHILE-NEXT: outputs: [[S]]
func.func @repeat(%x: tensor<4xf32>, %limit: tensor<f32>) -> tensor<4xf32> {
  %0 = tssa.aten "aten::neg"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %s = tssa.aten "aten::sum"(%0, none) : (tensor<4xf32>) -> tensor<f32>
  %c = tssa.aten "aten::lt.Tensor"(%s, %limit) : (tensor<f32>, tensor<f32>) -> tensor<i1>
  %r:2 = scf.while (%a = %0, %go = %c) : (tensor<4xf32>, tensor<i1>) -> (tensor<4xf32>, tensor<i1>) {
    %flag = tensor.extract %go[] : tensor<i1>
    scf.condition(%flag) %a, %go : tensor<4xf32>, tensor<i1>
  } do {
  ^bb0(%a: tensor<4xf32>, %go: tensor<i1>):
    %1 = tssa.aten "aten::mul.Tensor"(%a, wrapped(2.0 : f64)) : (tensor<4xf32>) -> tensor<4xf32>
    %2 = tssa.aten "aten::sum"(%1, none) : (tensor<4xf32>) -> tensor<f32>
    %3 = tssa.aten "aten::lt.Tensor"(%2, %limit) : (tensor<f32>, tensor<f32>) -> tensor<i1>
    scf.yield %1, %3 : tensor<4xf32>, tensor<i1>
  }
  return %r#0 : tensor<4xf32>
}

// Rows read and replaced in place: an input is copied once, before the loop. The
// loop's invariant stays outside.
// FOR: kernel {{.*}} (s1, [[INV:s[0-9]+]])
// FOR-NEXT: copy s0 to [[T:s[0-9]+]]
// FOR-NEXT: for [[I:s[0-9]+]] = 0 to s2 by 1 {
// FOR-NEXT:   [[ROW:s[0-9]+]] = view of [[T]] at 0 + (1 * [[I]] + 0 below 8) * 4
// FOR-NEXT:   kernel {{.*}} ([[ROW]], [[INV]], [[NEW:s[0-9]+]])
// FOR-NEXT:   release [[ROW]]
// FOR-NEXT:   [[PART:s[0-9]+]] = view of [[T]] at 0 + (1 * [[I]] + 0 below 8) * 4
// FOR-NEXT:   copy [[NEW]] to [[PART]]
// FOR: }
// FOR-NEXT: outputs: [[T]]
func.func @rows(%x: !tssa.ref<tensor<8x4xf32>>, %w: tensor<4xf32>, %n: tensor<i64>) -> tensor<8x4xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %e = tensor.extract %n[] : tensor<i64>
  %trips = arith.index_cast %e : i64 to index
  scf.for %i = %c0 to %trips step %c1 {
    %v = tssa.view %x [#tssa.view<select [0, ?]>] (%i) : !tssa.ref<tensor<8x4xf32>> -> !tssa.ref<tensor<4xf32>>
    %k = tssa.aten "aten::exp"(%w) : (tensor<4xf32>) -> tensor<4xf32>
    %0 = tssa.load %v : !tssa.ref<tensor<4xf32>>
    %1 = tssa.aten "aten::add.Tensor"(%0, %k, 1 : i64) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    tssa.store %1, %v : !tssa.ref<tensor<4xf32>>
  }
  %r = tssa.load %x : !tssa.ref<tensor<8x4xf32>>
  return %r : tensor<8x4xf32>
}

// Two loop-carried values change places: one goes aside meanwhile.
// SWAP: copy s0 to [[A:s[0-9]+]]
// SWAP-NEXT: copy s1 to [[B:s[0-9]+]]
// SWAP-NEXT: for {{s[0-9]+}} = 0 to s2 by 1 {
// SWAP-NEXT:   copy [[B]] to [[ASIDE:s[0-9]+]]
// SWAP-NEXT:   copy [[A]] to [[B]]
// SWAP-NEXT:   copy [[ASIDE]] to [[A]]
// SWAP-NEXT: }
func.func @swap(%x: tensor<4xf32>, %y: tensor<4xf32>, %n: tensor<i64>) -> (tensor<4xf32>, tensor<4xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %e = tensor.extract %n[] : tensor<i64>
  %trips = arith.index_cast %e : i64 to index
  %r:2 = scf.for %i = %c0 to %trips step %c1 iter_args(%a = %x, %b = %y) -> (tensor<4xf32>, tensor<4xf32>) {
    scf.yield %b, %a : tensor<4xf32>, tensor<4xf32>
  }
  return %r#0, %r#1 : tensor<4xf32>, tensor<4xf32>
}

// IF: if s1 {
// IF-NEXT:   kernel {{.*}} (s0, [[N:s[0-9]+]])
// IF-NEXT:   [[R:s[0-9]+]] = [[N]]
// IF-NEXT: } else {
// IF-NEXT:   [[R]] = s0
// IF-NEXT: }
// IF: outputs: [[R]]
func.func @choose(%x: tensor<4xf32>, %c: tensor<i1>) -> tensor<4xf32> {
  %flag = tensor.extract %c[] : tensor<i1>
  %r = scf.if %flag -> (tensor<4xf32>) {
    %0 = tssa.aten "aten::neg"(%x) : (tensor<4xf32>) -> tensor<4xf32>
    scf.yield %0 : tensor<4xf32>
  } else {
    scf.yield %x : tensor<4xf32>
  }
  return %r : tensor<4xf32>
}

// The kernel's result goes where the next iteration reads it: what it replaces
// was read before.
// PLACE: kernel {{.*}} (s0, [[C:s[0-9]+]])
// PLACE-NEXT: for
// PLACE-NEXT: call aten::flip
// PLACE-NEXT: kernel {{.*}} ({{.*}}, [[C]])
// PLACE-NOT: copy
// PLACE: outputs: [[C]]
func.func @inside(%x: tensor<4xf32>) -> tensor<4xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %n = tssa.aten "aten::neg"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %r = scf.for %i = %c0 to %c8 step %c1 iter_args(%t = %n) -> tensor<4xf32> {
    %0 = tssa.aten "aten::flip"(%t, [0 : i64]) {pyjit.vendor_call} : (tensor<4xf32>) -> tensor<4xf32>
    %1 = tssa.aten "aten::neg"(%0) : (tensor<4xf32>) -> tensor<4xf32>
    scf.yield %1 : tensor<4xf32>
  }
  return %r : tensor<4xf32>
}

// One of several values is another name for it; what is collected has a buffer
// that nothing fills before.
// PICK: for [[I:s[0-9]+]] = 0 to 3 by 1 {
// PICK-NEXT: [[W:s[0-9]+]] = 1 * [[I]] + 0 of (s0, s1, s0)
// PICK-NEXT: kernel {{.*}} ([[W]], [[NEW:s[0-9]+]])
// PICK-NEXT: release [[W]]
// PICK-NEXT: [[PART:s[0-9]+]] = view of [[OUT:s[0-9]+]] at 0 + (1 * [[I]] + 0 below 3) * 4
// PICK-NEXT: copy [[NEW]] to [[PART]]
// PICK: outputs: [[OUT]]
func.func @pick(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<3x4xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %e = tensor.empty() : tensor<3x4xf32>
  %r = scf.for %i = %c0 to %c3 step %c1 iter_args(%t = %e) -> (tensor<3x4xf32>) {
    %w = tssa.pick [%a, %b, %a] (%i) : tensor<4xf32>
    %0 = tssa.aten "aten::exp"(%w) : (tensor<4xf32>) -> tensor<4xf32>
    %1 = tssa.assign %t, %0 [#tssa.view<select [0, ?]>] (%i) : tensor<3x4xf32>, tensor<4xf32>
    scf.yield %1 : tensor<3x4xf32>
  }
  return %r : tensor<3x4xf32>
}
