// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --fusion-in-place=remarks=true --split-input-file -verify-diagnostics | FileCheck %s

// Nothing that may fail needs the part: it is written last, and nothing has to be undone.
// CHECK-LABEL: func.func @last
// CHECK-NEXT:    tssa.aten "aten::mm"
// CHECK-NEXT:    tssa.assign {{.*}} {pyjit.in_place = array<i64: 0>}
// CHECK-NEXT:    return
func.func @last(%c: tensor<8x8xf32>, %k: tensor<8xf32>, %m: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) attributes {pyjit.updates = [array<i64: 0, 0>]} {
  %0 = tssa.assign %c, %k [#tssa.view<select [0, 5]>] : tensor<8x8xf32>, tensor<8xf32>
  %1 = tssa.aten "aten::mm"(%m, %m) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %0, %1 : tensor<8x8xf32>, tensor<8x8xf32>
}

// -----

// A vendor call reads the new contents, and may fail: the part is saved.
// CHECK-LABEL: func.func @needed
// CHECK-NEXT:    %[[C:.*]] = tssa.assign {{.*}} {pyjit.in_place = array<i64: 0>, pyjit.undo}
// CHECK-NEXT:    tssa.aten "aten::mm"(%[[C]], %[[C]])
func.func @needed(%c: tensor<8x8xf32>, %k: tensor<8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) attributes {pyjit.updates = [array<i64: 0, 0>]} {
  %0 = tssa.assign %c, %k [#tssa.view<select [0, 5]>] : tensor<8x8xf32>, tensor<8xf32>
  %1 = tssa.aten "aten::mm"(%0, %0) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %0, %1 : tensor<8x8xf32>, tensor<8x8xf32>
}

// -----

// So it is in front of a speculation on what it is now.
// CHECK-LABEL: func.func @speculate
// CHECK:         tssa.assign {{.*}} {pyjit.in_place = array<i64: 0>, pyjit.undo}
// CHECK:         tssa.speculate
func.func private @any(tensor<8x8xf32>) -> tensor<i1> attributes {pyjit.kernel}
func.func @speculate(%c: tensor<8x8xf32>, %k: tensor<8xf32>) -> tensor<8x8xf32> attributes {pyjit.updates = [array<i64: 0, 0>]} {
  %0 = tssa.assign %c, %k [#tssa.view<select [0, 5]>] : tensor<8x8xf32>, tensor<8xf32>
  %1 = call @any(%0) : (tensor<8x8xf32>) -> tensor<i1>
  tssa.speculate %1 : tensor<i1>
  return %0 : tensor<8x8xf32>
}

// -----

// A vendor call that writes a part may fail half-way.
// CHECK-LABEL: func.func @call
// CHECK:         tssa.aten "aten::index_copy_"{{.*}} {pyjit.in_place = array<i64: 0>, pyjit.undo}
func.func @call(%c: tensor<8x8xf32>, %i: tensor<2xi64>, %k: tensor<2x8xf32>) -> tensor<8x8xf32> attributes {pyjit.updates = [array<i64: 0, 0>]} {
  %0 = tssa.aten "aten::index_copy_"(%c, 0 : i64, %i, %k) mutates [0] : (tensor<8x8xf32>, tensor<2xi64>, tensor<2x8xf32>) -> tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}

// -----

// A reader of what it was goes in front, through a view, too.
// CHECK-LABEL: func.func @reader
// CHECK-NEXT:    %[[V:.*]] = tssa.access
// CHECK-NEXT:    tssa.aten "aten::relu"(%[[V]])
// CHECK-NEXT:    tssa.assign {{.*}} {pyjit.in_place = array<i64: 0>, pyjit.undo}
// CHECK-NEXT:    tssa.aten "aten::mm"
func.func @reader(%c: tensor<8x8xf32>, %k: tensor<8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8xf32>) attributes {pyjit.updates = [array<i64: 0, 0>]} {
  %v = tssa.access %c [#tssa.view<select [0, 1]>] : tensor<8x8xf32> -> tensor<8xf32>
  %0 = tssa.assign %c, %k [#tssa.view<select [0, 5]>] : tensor<8x8xf32>, tensor<8xf32>
  %1 = tssa.aten "aten::mm"(%0, %0) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %2 = tssa.aten "aten::relu"(%v) : (tensor<8xf32>) -> tensor<8xf32>
  return %0, %1, %2 : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8xf32>
}

// -----

// A row of the input itself is what is assigned: read first.
// CHECK-LABEL: func.func @itself
// CHECK:         tssa.assign {{.*}} {pyjit.in_place = array<i64: 0>}
func.func @itself(%c: tensor<8x8xf32>) -> tensor<8x8xf32> attributes {pyjit.updates = [array<i64: 0, 0>]} {
  %v = tssa.access %c [#tssa.view<select [0, 1]>] : tensor<8x8xf32> -> tensor<8xf32>
  %0 = tssa.assign %c, %v [#tssa.view<select [0, 5]>] : tensor<8x8xf32>, tensor<8xf32>
  return %0 : tensor<8x8xf32>
}

// -----

// Of several writes each takes the memory of the one before.
// CHECK-LABEL: func.func @several
// CHECK-NEXT:    %[[A:.*]] = tssa.assign {{.*}} {pyjit.in_place = array<i64: 0>, pyjit.undo}
// CHECK-NEXT:    tssa.aten "aten::mm"(%[[A]], %[[A]])
// CHECK-NEXT:    tssa.assign %[[A]], {{.*}} {pyjit.in_place = array<i64: 0>}
func.func @several(%c: tensor<8x8xf32>, %k: tensor<8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) attributes {pyjit.updates = [array<i64: 0, 0>]} {
  %0 = tssa.assign %c, %k [#tssa.view<select [0, 5]>] : tensor<8x8xf32>, tensor<8xf32>
  %1 = tssa.assign %0, %k [#tssa.view<select [0, 6]>] : tensor<8x8xf32>, tensor<8xf32>
  %2 = tssa.aten "aten::mm"(%0, %0) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %1, %2 : tensor<8x8xf32>, tensor<8x8xf32>
}

// -----

// What it was is returned.
// CHECK-LABEL: func.func @old
// CHECK-NOT:     in_place
// expected-remark@+1 {{input 0 is copied to at the end: what it was is read later}}
func.func @old(%c: tensor<8x8xf32>, %k: tensor<8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) attributes {pyjit.updates = [array<i64: 0, 0>]} {
  %0 = tssa.assign %c, %k [#tssa.view<select [0, 5]>] : tensor<8x8xf32>, tensor<8xf32>
  return %0, %c : tensor<8x8xf32>, tensor<8x8xf32>
}

// -----

// So is what it was between two writes, through a view.
// CHECK-LABEL: func.func @between
// CHECK-NOT:     in_place
// expected-remark@+1 {{input 0 is copied to at the end: what it was is read later}}
func.func @between(%c: tensor<8x8xf32>, %k: tensor<8xf32>) -> (tensor<8x8xf32>, tensor<8xf32>) attributes {pyjit.updates = [array<i64: 0, 0>]} {
  %0 = tssa.assign %c, %k [#tssa.view<select [0, 5]>] : tensor<8x8xf32>, tensor<8xf32>
  %v = tssa.access %0 [#tssa.view<select [0, 1]>] : tensor<8x8xf32> -> tensor<8xf32>
  %1 = tssa.assign %0, %k [#tssa.view<select [0, 6]>] : tensor<8x8xf32>, tensor<8xf32>
  return %1, %v : tensor<8x8xf32>, tensor<8xf32>
}

// -----

// A call reads what it was and what it is.
// CHECK-LABEL: func.func @both
// CHECK-NOT:     in_place
// expected-remark@+1 {{input 0 is copied to at the end: what it was is read later}}
func.func @both(%c: tensor<8x8xf32>, %k: tensor<8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) attributes {pyjit.updates = [array<i64: 0, 0>]} {
  %0 = tssa.assign %c, %k [#tssa.view<select [0, 5]>] : tensor<8x8xf32>, tensor<8xf32>
  %1 = tssa.aten "aten::mm"(%0, %c) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %0, %1 : tensor<8x8xf32>, tensor<8x8xf32>
}

// -----

// A vendor call reads, through a view, what it writes.
// CHECK-LABEL: func.func @reads_itself
// CHECK-NOT:     in_place
// expected-remark@+1 {{input 0 is copied to at the end: what it was is read later}}
func.func @reads_itself(%c: tensor<8x8xf32>, %i: tensor<2xi64>) -> tensor<8x8xf32> attributes {pyjit.updates = [array<i64: 0, 0>]} {
  %v = tssa.access %c [#tssa.view<slice [0, 2, 2, 1]>] : tensor<8x8xf32> -> tensor<2x8xf32>
  %0 = tssa.aten "aten::index_copy_"(%c, 0 : i64, %i, %v) mutates [0] : (tensor<8x8xf32>, tensor<2xi64>, tensor<2x8xf32>) -> tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}

// -----

// A branch may hand on what it was.
// CHECK-LABEL: func.func @branch
// CHECK-NOT:     in_place
// expected-remark@+1 {{input 0 is copied to at the end: what it was is read later}}
func.func @branch(%c: tensor<8x8xf32>, %k: tensor<8xf32>, %d: tensor<8x8xf32>, %f: tensor<i1>) -> (tensor<8x8xf32>, tensor<8x8xf32>) attributes {pyjit.updates = [array<i64: 0, 0>]} {
  %flag = tensor.extract %f[] : tensor<i1>
  %1 = scf.if %flag -> tensor<8x8xf32> {
    scf.yield %c : tensor<8x8xf32>
  } else {
    scf.yield %d : tensor<8x8xf32>
  }
  %0 = tssa.assign %c, %k [#tssa.view<select [0, 5]>] : tensor<8x8xf32>, tensor<8xf32>
  return %0, %1 : tensor<8x8xf32>, tensor<8x8xf32>
}

// -----

// Two inputs of which each one's old value is needed beside the other's new one: one gives way.
// CHECK-LABEL: func.func @crossed
// CHECK:         pyjit.in_place = array<i64: 0>
// CHECK-NOT:     pyjit.in_place
// CHECK:         return
// expected-remark@+1 {{input 1 is copied to at the end: what it was is read later}}
func.func @crossed(%c: tensor<8x8xf32>, %d: tensor<8x8xf32>, %k: tensor<8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>)
    attributes {pyjit.updates = [array<i64: 0, 0>, array<i64: 1, 1>]} {
  %0 = tssa.assign %c, %k [#tssa.view<select [0, 5]>] : tensor<8x8xf32>, tensor<8xf32>
  %1 = tssa.assign %d, %k [#tssa.view<select [0, 5]>] : tensor<8x8xf32>, tensor<8xf32>
  %2 = tssa.aten "aten::mm"(%0, %d) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %3 = tssa.aten "aten::mm"(%1, %c) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %0, %1, %2, %3 : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
}
