// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-run %s --entry repeat --device-launch update --print-launch | FileCheck %s --check-prefix=WHILE
// RUN: pyjit-run %s --entry choose --device-launch update --print-launch | FileCheck %s --check-prefix=IF
// RUN: pyjit-run %s --entry rows --device-launch update --print-launch | FileCheck %s --check-prefix=FOR
// RUN: not pyjit-run %s --entry repeat --device-launch quickly 2>&1 | FileCheck %s --check-prefix=WAY
// WAY: --device-launch takes plain, copy, table or update, not 'quickly'

// One graph holds the loop: the executor makes a conditional node of it.
// WHILE: s[[X:[0-9]+]] = input 0
// WHILE: s[[L:[0-9]+]] = input 1
// WHILE: graph 0 {
// WHILE:   kernel {{.*}} (s[[X]], [[S:s[0-9]+]])
// WHILE:   kernel {{.*}} ({{.*}}, s[[L]], [[GO:s[0-9]+]])
// WHILE:   copy s[[L]] to [[LIMIT:s[0-9]+]]
// WHILE:   while {
// WHILE-NEXT:   test [[GO]]
// WHILE-NEXT:   kernel {{.*}} ([[S]], [[NEW:s[0-9]+]])
// WHILE-NEXT:   kernel {{.*}} ([[NEW]], [[LIMIT]], [[GO]])
// WHILE-NEXT:   copy [[NEW]] to [[S]]
// WHILE-NEXT: }
// WHILE-NEXT: copy [[S]] to [[OUT:s[0-9]+]]
// WHILE-NEXT: }
// WHILE-NEXT: outputs: [[OUT]]
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

// IF: graph 0 {
// IF: if s{{[0-9]+}} {
// IF-NEXT:   kernel {{.*}} ([[X:s[0-9]+]], [[R:s[0-9]+]])
// IF-NEXT: } else {
// IF-NEXT:   copy [[X]] to [[R]]
// IF-NEXT: }
// IF-NEXT: copy [[R]] to [[OUT:s[0-9]+]]
// IF-NEXT: }
// IF-NEXT: outputs: [[OUT]]
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

// A counted loop is launched round by round, one kernel for all.
// FOR: kernel [[K:kernel_[0-9]+]] ({{s[0-9]+}}, [[A:s[0-9]+]])
// FOR: kernel [[K]] ([[A]], [[B:s[0-9]+]])
// FOR: kernel [[K]] ([[B]],
func.func @rows(%x: tensor<4xf32>) -> tensor<4xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %r = scf.for %i = %c0 to %c3 step %c1 iter_args(%t = %x) -> tensor<4xf32> {
    %0 = tssa.aten "aten::neg"(%t) : (tensor<4xf32>) -> tensor<4xf32>
    %1 = tssa.aten "aten::exp"(%0) : (tensor<4xf32>) -> tensor<4xf32>
    scf.yield %1 : tensor<4xf32>
  }
  return %r : tensor<4xf32>
}
