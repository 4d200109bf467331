// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --tssa-reroll-loops=min-saved=3 | FileCheck %s
// RUN: pyjit-opt %s --tssa-reroll-loops | FileCheck %s --check-prefix=FEW
// RUN: pyjit-opt %s --tssa-reroll-loops="min-saved=3 recompute" | FileCheck %s --check-prefix=AGAIN
// RUN: pyjit-opt %s --tssa-reroll-loops="min-saved=3 explain" -o /dev/null 2>&1 | FileCheck %s --check-prefix=SAY

// By default a loop has to leave out some hundred operations.
// FEW-NOT: scf.for

// The state is carried; each iteration sees its row.
// CHECK-LABEL: func @carried
// CHECK-SAME: (%[[X:.*]]: tensor<4x8xf32>, %[[H:.*]]: tensor<8xf32>)
// CHECK: %[[R:.*]] = scf.for %[[I:[^ ]*]] = %c0 to %c4 step %c1 iter_args(%[[S:.*]] = %[[H]])
// CHECK-NEXT: %[[ROW:.*]] = tssa.access %[[X]] [#tssa.view<select [0, ?]>](%[[I]])
// CHECK-NEXT: %[[N:.*]] = tssa.aten "my::cell"(%[[ROW]], %[[S]])
// CHECK-NEXT: scf.yield %[[N]]
// CHECK: return %[[R]]
func.func @carried(%x: tensor<4x8xf32>, %h: tensor<8xf32>) -> tensor<8xf32> {
  %0 = tssa.access %x [#tssa.view<select [0, 0]>] : tensor<4x8xf32> -> tensor<8xf32>
  // SAY: remark: 4 iterations of 1 operations become a loop
  %1 = tssa.aten "my::cell"(%0, %h) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %2 = tssa.access %x [#tssa.view<select [0, 1]>] : tensor<4x8xf32> -> tensor<8xf32>
  %3 = tssa.aten "my::cell"(%2, %1) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %4 = tssa.access %x [#tssa.view<select [0, 2]>] : tensor<4x8xf32> -> tensor<8xf32>
  %5 = tssa.aten "my::cell"(%4, %3) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %6 = tssa.access %x [#tssa.view<select [0, 3]>] : tensor<4x8xf32> -> tensor<8xf32>
  %7 = tssa.aten "my::cell"(%6, %5) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %7 : tensor<8xf32>
}

// Weights of layers are picked, views of them taken before the loop.
// CHECK-LABEL: func @picked
// CHECK-SAME: (%[[X:[^:]*]]: tensor<8xf32>, %[[A:[^:]*]]: tensor<8x8xf32>, %[[B:[^:]*]]: tensor<8x8xf32>, %[[C:[^:]*]]: tensor<8x8xf32>
// CHECK-DAG: %[[D:.*]] = tssa.access %{{.*}} [#tssa.view<select [0, 1]>] : tensor<2x8x8xf32>
// CHECK: scf.for %[[I:[^ ]*]] =
// CHECK-NEXT: %[[W:.*]] = tssa.pick[%[[A]], %[[B]], %[[C]], %[[D]]] (%[[I]]) : tensor<8x8xf32>
// CHECK-NEXT: tssa.aten "my::layer"(%{{.*}}, %[[W]])
func.func @picked(%x: tensor<8xf32>, %a: tensor<8x8xf32>, %b: tensor<8x8xf32>, %c: tensor<8x8xf32>, %d: tensor<2x8x8xf32>) -> tensor<8xf32> {
  // SAY: remark: 4 iterations of 1 operations become a loop
  %0 = tssa.aten "my::layer"(%x, %a) : (tensor<8xf32>, tensor<8x8xf32>) -> tensor<8xf32>
  %1 = tssa.aten "my::layer"(%0, %b) : (tensor<8xf32>, tensor<8x8xf32>) -> tensor<8xf32>
  %2 = tssa.aten "my::layer"(%1, %c) : (tensor<8xf32>, tensor<8x8xf32>) -> tensor<8xf32>
  %w = tssa.access %d [#tssa.view<select [0, 1]>] : tensor<2x8x8xf32> -> tensor<8x8xf32>
  %3 = tssa.aten "my::layer"(%2, %w) : (tensor<8xf32>, tensor<8x8xf32>) -> tensor<8xf32>
  return %3 : tensor<8xf32>
}

// The stack of all iterations' results is written row by row; what else is in it
// is put beside. A column is read with an index of every other one.
// CHECK-LABEL: func @stacked
// CHECK: %[[E:.*]] = tensor.empty() : tensor<8x5xf32>
// CHECK: %[[R:.*]]:2 = scf.for %[[I:[^ ]*]] = {{.*}} iter_args(%[[S:.*]] = %{{.*}}, %[[ALL:.*]] = %[[E]])
// CHECK-DAG: %[[TWICE:.*]] = arith.muli %[[I]], %{{.*}}
// CHECK-DAG: tssa.access %{{.*}} [#tssa.view<select [1, ?]>](%[[TWICE]])
// CHECK-DAG: %[[NEXT:.*]] = arith.addi %[[I]], %{{.*}}
// CHECK: tssa.assign %[[ALL]], %{{.*}} [#tssa.view<select [1, ?]>](%[[NEXT]])
// CHECK: %[[W:.*]] = tssa.assign %[[R]]#1, %{{.*}} [#tssa.view<select [1, ?]>](%c0
// CHECK: return %[[W]], %[[R]]#0
func.func @stacked(%x: tensor<8x8xf32>, %h: tensor<8xf32>) -> (tensor<8x5xf32>, tensor<8xf32>) {
  %0 = tssa.access %x [#tssa.view<select [1, 0]>] : tensor<8x8xf32> -> tensor<8xf32, #tssa.strides<[8]>>
  // SAY: remark: 4 iterations of 1 operations become a loop
  %1 = tssa.aten "my::cell"(%0, %h) : (tensor<8xf32, #tssa.strides<[8]>>, tensor<8xf32>) -> tensor<8xf32>
  %2 = tssa.access %x [#tssa.view<select [1, 2]>] : tensor<8x8xf32> -> tensor<8xf32, #tssa.strides<[8]>>
  %3 = tssa.aten "my::cell"(%2, %1) : (tensor<8xf32, #tssa.strides<[8]>>, tensor<8xf32>) -> tensor<8xf32>
  %4 = tssa.access %x [#tssa.view<select [1, 4]>] : tensor<8x8xf32> -> tensor<8xf32, #tssa.strides<[8]>>
  %5 = tssa.aten "my::cell"(%4, %3) : (tensor<8xf32, #tssa.strides<[8]>>, tensor<8xf32>) -> tensor<8xf32>
  %6 = tssa.access %x [#tssa.view<select [1, 6]>] : tensor<8x8xf32> -> tensor<8xf32, #tssa.strides<[8]>>
  %7 = tssa.aten "my::cell"(%6, %5) : (tensor<8xf32, #tssa.strides<[8]>>, tensor<8xf32>) -> tensor<8xf32>
  %8 = tssa.aten "aten::stack"([%h, %1, %3, %5, %7], -1 : i64) : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<8x5xf32>
  return %8, %7 : tensor<8x5xf32>, tensor<8xf32>
}

// Values that leave one by one are parts of one tensor.
// CHECK-LABEL: func @apart
// CHECK: %[[R:.*]] = scf.for
// CHECK: tssa.assign %{{.*}}, %{{.*}} [#tssa.view<select [0, ?]>]
// CHECK: %[[A:.*]] = tssa.access %[[R]] [#tssa.view<select [0, 0]>] : tensor<4x8xf32> -> tensor<8xf32>
// CHECK: %[[D:.*]] = tssa.access %[[R]] [#tssa.view<select [0, 3]>]
// CHECK: return %[[A]], %[[D]]
func.func @apart(%x: tensor<4x8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %0 = tssa.access %x [#tssa.view<select [0, 0]>] : tensor<4x8xf32> -> tensor<8xf32>
  // SAY: remark: 4 iterations of 1 operations become a loop
  %1 = tssa.aten "my::f"(%0) : (tensor<8xf32>) -> tensor<8xf32>
  %2 = tssa.access %x [#tssa.view<select [0, 1]>] : tensor<4x8xf32> -> tensor<8xf32>
  %3 = tssa.aten "my::f"(%2) : (tensor<8xf32>) -> tensor<8xf32>
  %4 = tssa.access %x [#tssa.view<select [0, 2]>] : tensor<4x8xf32> -> tensor<8xf32>
  %5 = tssa.aten "my::f"(%4) : (tensor<8xf32>) -> tensor<8xf32>
  %6 = tssa.access %x [#tssa.view<select [0, 3]>] : tensor<4x8xf32> -> tensor<8xf32>
  %7 = tssa.aten "my::f"(%6) : (tensor<8xf32>) -> tensor<8xf32>
  return %1, %7 : tensor<8xf32>, tensor<8xf32>
}

// A part of what is carried is replaced in each iteration.
// CHECK-LABEL: func @assigned
// CHECK: scf.for %[[I:[^ ]*]] = {{.*}} iter_args(%[[T:.*]] = %{{.*}})
// CHECK: %[[V:.*]] = tssa.aten "my::f"(%[[T]])
// CHECK: %[[N:.*]] = tssa.assign %[[T]], %[[V]] [#tssa.view<select [0, ?]>](%[[I]])
// CHECK: scf.yield %[[N]]
func.func @assigned(%t: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // SAY: remark: 4 iterations of 2 operations become a loop
  %0 = tssa.aten "my::f"(%t) : (tensor<4x8xf32>) -> tensor<8xf32>
  %1 = tssa.assign %t, %0 [#tssa.view<select [0, 0]>] : tensor<4x8xf32>, tensor<8xf32>
  %2 = tssa.aten "my::f"(%1) : (tensor<4x8xf32>) -> tensor<8xf32>
  %3 = tssa.assign %1, %2 [#tssa.view<select [0, 1]>] : tensor<4x8xf32>, tensor<8xf32>
  %4 = tssa.aten "my::f"(%3) : (tensor<4x8xf32>) -> tensor<8xf32>
  %5 = tssa.assign %3, %4 [#tssa.view<select [0, 2]>] : tensor<4x8xf32>, tensor<8xf32>
  %6 = tssa.aten "my::f"(%5) : (tensor<4x8xf32>) -> tensor<8xf32>
  %7 = tssa.assign %5, %6 [#tssa.view<select [0, 3]>] : tensor<4x8xf32>, tensor<8xf32>
  return %7 : tensor<4x8xf32>
}

// One kernel takes them all; a loop would need four.
// CHECK-LABEL: func @one_kernel
// CHECK-NOT: scf.for
// CHECK: return
func.func @one_kernel(%x: tensor<8xf32>) -> tensor<8xf32> {
  // SAY: remark: 4 iterations of 1 operations stay: kernels would reach from one iteration into the next
  %0 = tssa.aten "aten::sin"(%x) : (tensor<8xf32>) -> tensor<8xf32>
  %1 = tssa.aten "aten::sin"(%0) : (tensor<8xf32>) -> tensor<8xf32>
  %2 = tssa.aten "aten::sin"(%1) : (tensor<8xf32>) -> tensor<8xf32>
  %3 = tssa.aten "aten::sin"(%2) : (tensor<8xf32>) -> tensor<8xf32>
  return %3 : tensor<8xf32>
}

// Inputs are written where they lie: a loop would collect what they become in one tensor, and copy it from there.
// CHECK-LABEL: func @updates
// CHECK-NOT: scf.for
// CHECK: return
func.func @updates(%x: tensor<8xf32>, %y: tensor<8xf32>, %z: tensor<8xf32>, %w: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
    attributes {pyjit.updates = [array<i64: 0, 0>, array<i64: 1, 1>, array<i64: 2, 2>, array<i64: 3, 3>]} {
  // SAY: remark: 4 iterations of 2 operations stay: inputs are written, each in its place
  %0 = tssa.aten "my::f"(%x) : (tensor<8xf32>) -> tensor<8xf32>
  %1 = tssa.aten "my::g"(%0) : (tensor<8xf32>) -> tensor<8xf32>
  %2 = tssa.aten "my::f"(%y) : (tensor<8xf32>) -> tensor<8xf32>
  %3 = tssa.aten "my::g"(%2) : (tensor<8xf32>) -> tensor<8xf32>
  %4 = tssa.aten "my::f"(%z) : (tensor<8xf32>) -> tensor<8xf32>
  %5 = tssa.aten "my::g"(%4) : (tensor<8xf32>) -> tensor<8xf32>
  %6 = tssa.aten "my::f"(%w) : (tensor<8xf32>) -> tensor<8xf32>
  %7 = tssa.aten "my::g"(%6) : (tensor<8xf32>) -> tensor<8xf32>
  return %1, %3, %5, %7 : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}

// What an optimizer does to one list of tensors after the other: a kernel for each tensor holds all that is done to it.
// CHECK-LABEL: func @feeds_kernels
// CHECK-NOT: scf.for
// CHECK: return
func.func @feeds_kernels(%x: tensor<8xf32>, %y: tensor<8xf32>, %z: tensor<8xf32>, %w: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
    attributes {pyjit.updates = [array<i64: 0, 0>, array<i64: 1, 1>, array<i64: 2, 2>, array<i64: 3, 3>]} {
  // SAY: remark: 4 iterations of 1 operations stay: kernels would reach from iterations to what reads their results
  %0 = tssa.aten "aten::sin"(%x) : (tensor<8xf32>) -> tensor<8xf32>
  %1 = tssa.aten "aten::sin"(%y) : (tensor<8xf32>) -> tensor<8xf32>
  %2 = tssa.aten "aten::sin"(%z) : (tensor<8xf32>) -> tensor<8xf32>
  %3 = tssa.aten "aten::sin"(%w) : (tensor<8xf32>) -> tensor<8xf32>
  %4 = tssa.aten "aten::cos"(%0) : (tensor<8xf32>) -> tensor<8xf32>
  %5 = tssa.aten "aten::cos"(%1) : (tensor<8xf32>) -> tensor<8xf32>
  %6 = tssa.aten "aten::cos"(%2) : (tensor<8xf32>) -> tensor<8xf32>
  %7 = tssa.aten "aten::cos"(%3) : (tensor<8xf32>) -> tensor<8xf32>
  return %4, %5, %6, %7 : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}

// Another number in each iteration is another operation.
// CHECK-LABEL: func @counter
// CHECK-NOT: scf.for
// CHECK: return
func.func @counter(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = tssa.aten "my::f"(%x, 0 : i64) : (tensor<8xf32>) -> tensor<8xf32>
  %1 = tssa.aten "my::f"(%0, 1 : i64) : (tensor<8xf32>) -> tensor<8xf32>
  %2 = tssa.aten "my::f"(%1, 2 : i64) : (tensor<8xf32>) -> tensor<8xf32>
  %3 = tssa.aten "my::f"(%2, 3 : i64) : (tensor<8xf32>) -> tensor<8xf32>
  return %3 : tensor<8xf32>
}

// Indices that grow by no constant: the rows are picked.
// CHECK-LABEL: func @uneven
// CHECK: tssa.pick
func.func @uneven(%x: tensor<9x8xf32>, %h: tensor<8xf32>) -> tensor<8xf32> {
  %0 = tssa.access %x [#tssa.view<select [0, 0]>] : tensor<9x8xf32> -> tensor<8xf32>
  // SAY: remark: 4 iterations of 1 operations become a loop
  %1 = tssa.aten "my::cell"(%0, %h) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %2 = tssa.access %x [#tssa.view<select [0, 1]>] : tensor<9x8xf32> -> tensor<8xf32>
  %3 = tssa.aten "my::cell"(%2, %1) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %4 = tssa.access %x [#tssa.view<select [0, 4]>] : tensor<9x8xf32> -> tensor<8xf32>
  %5 = tssa.aten "my::cell"(%4, %3) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %6 = tssa.access %x [#tssa.view<select [0, 8]>] : tensor<9x8xf32> -> tensor<8xf32>
  %7 = tssa.aten "my::cell"(%6, %5) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %7 : tensor<8xf32>
}

// A value of two iterations ago, and loops inside of iterations.
// CHECK-LABEL: func @two_back
// CHECK: %[[R:.*]]:2 = scf.for {{.*}} iter_args(%[[ONE:.*]] = %[[B:.*]], %[[TWO:.*]] = %[[A:.*]])
// CHECK-NEXT: %[[N:.*]] = tssa.aten "my::g"(%[[TWO]], %[[ONE]])
// CHECK-NEXT: scf.yield %[[N]], %[[ONE]]
func.func @two_back(%a: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<8xf32> {
  // SAY: remark: 5 iterations of 1 operations become a loop
  %0 = tssa.aten "my::g"(%a, %b) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %1 = tssa.aten "my::g"(%b, %0) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %2 = tssa.aten "my::g"(%0, %1) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %3 = tssa.aten "my::g"(%1, %2) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %4 = tssa.aten "my::g"(%2, %3) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %4 : tensor<8xf32>
}

// Effects keep their order: each draws its numbers in its turn.
// CHECK-LABEL: func @random
// CHECK: scf.for
// CHECK: "aten::bernoulli_.float"
// CHECK: "my::f"
func.func @random(%x: tensor<8xf32>) -> tensor<8xf32> {
  // SAY: remark: 4 iterations of 2 operations become a loop
  %0:2 = tssa.aten "aten::bernoulli_.float"(%x, 5.0e-01 : f64, none) mutates [0] : (tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>)
  %1 = tssa.aten "my::f"(%0#1) : (tensor<8xf32>) -> tensor<8xf32>
  %2:2 = tssa.aten "aten::bernoulli_.float"(%1, 5.0e-01 : f64, none) mutates [0] : (tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>)
  %3 = tssa.aten "my::f"(%2#1) : (tensor<8xf32>) -> tensor<8xf32>
  %4:2 = tssa.aten "aten::bernoulli_.float"(%3, 5.0e-01 : f64, none) mutates [0] : (tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>)
  %5 = tssa.aten "my::f"(%4#1) : (tensor<8xf32>) -> tensor<8xf32>
  %6:2 = tssa.aten "aten::bernoulli_.float"(%5, 5.0e-01 : f64, none) mutates [0] : (tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>)
  %7 = tssa.aten "my::f"(%6#1) : (tensor<8xf32>) -> tensor<8xf32>
  return %7 : tensor<8xf32>
}

// Nobody needs what the iterations make, but each of them may raise: the loop hands nothing on.
// CHECK-LABEL: func @unread
// CHECK-SAME: (%[[X:.*]]: tensor<8x8xf32>)
// CHECK: scf.for %{{.*}} = %c0 to %c4 step %c1 {
// CHECK-NEXT: %[[S:.*]] = tssa.aten "my::solve"(%[[X]])
// CHECK-NEXT: tssa.aten "my::solve"(%[[S]]) {pyjit.must_run} : (tensor<8x8xf32>) -> tensor<8x8xf32>
// CHECK-NEXT: }
// CHECK-NEXT: return %[[X]]
func.func @unread(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  // SAY: remark: 4 iterations of 2 operations become a loop
  %0 = tssa.aten "my::solve"(%x) {pyjit.must_run} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = tssa.aten "my::solve"(%0) {pyjit.must_run} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %2 = tssa.aten "my::solve"(%x) {pyjit.must_run} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %3 = tssa.aten "my::solve"(%2) {pyjit.must_run} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %4 = tssa.aten "my::solve"(%x) {pyjit.must_run} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %5 = tssa.aten "my::solve"(%4) {pyjit.must_run} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %6 = tssa.aten "my::solve"(%x) {pyjit.must_run} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %7 = tssa.aten "my::solve"(%6) {pyjit.must_run} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %x : tensor<8x8xf32>
}

// What is prepared from parameters may be packed: it has no parts.
// CHECK-LABEL: func @prepare
// CHECK-NOT: scf.for
// CHECK: return
func.func @prepare(%a: tensor<8xf32> {pyjit.input = 0 : i64}, %b: tensor<8xf32> {pyjit.input = 1 : i64}, %c: tensor<8xf32> {pyjit.input = 2 : i64}, %d: tensor<8xf32> {pyjit.input = 3 : i64}) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) attributes {pyjit.prepare} {
  %0 = tssa.aten "my::pack"(%a) : (tensor<8xf32>) -> tensor<8xf32>
  %1 = tssa.aten "my::pack"(%b) : (tensor<8xf32>) -> tensor<8xf32>
  %2 = tssa.aten "my::pack"(%c) : (tensor<8xf32>) -> tensor<8xf32>
  %3 = tssa.aten "my::pack"(%d) : (tensor<8xf32>) -> tensor<8xf32>
  return %0, %1, %2, %3 : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}

// Each iteration's gradient is a tensor of its own, not a part of one.
// CHECK-LABEL: func @backward
// CHECK-NOT: scf.for
// CHECK: return
func.func @backward(%a: tensor<8xf32> {pyjit.input = 0 : i64}, %b: tensor<8xf32> {pyjit.input = 1 : i64}, %c: tensor<8xf32> {pyjit.input = 2 : i64}, %d: tensor<8xf32> {pyjit.gradient = 0 : i64}) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
    attributes {pyjit.gradient_inputs = array<i64: 0, 1, 2, 3>} {
  %0 = tssa.aten "my::pack"(%a) : (tensor<8xf32>) -> tensor<8xf32>
  %1 = tssa.aten "my::pack"(%b) : (tensor<8xf32>) -> tensor<8xf32>
  %2 = tssa.aten "my::pack"(%c) : (tensor<8xf32>) -> tensor<8xf32>
  %3 = tssa.aten "my::pack"(%d) : (tensor<8xf32>) -> tensor<8xf32>
  return %0, %1, %2, %3 : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}

// A backward reads what each layer's kernel computed: on a device it computes it again of the layer's matmul, and the
// layers stay apart. What vendor calls read is kept either way.
// CHECK-LABEL: func @layers
// CHECK: scf.for
// AGAIN-LABEL: func @layers
// AGAIN-NOT: scf.for
// AGAIN: return
func.func @layers(%x: tensor<512x512xf32>, %w: tensor<512x512xf32>) -> (tensor<512x512xf32>, tensor<512x512xf32>, tensor<512x512xf32>, tensor<512x512xf32>) {
  %0 = tssa.aten "aten::mm"(%x, %w) : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
  %1 = tssa.aten "aten::sin"(%0) : (tensor<512x512xf32>) -> tensor<512x512xf32>
  %2 = tssa.aten "aten::mm"(%1, %w) : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
  %3 = tssa.aten "aten::sin"(%2) : (tensor<512x512xf32>) -> tensor<512x512xf32>
  %4 = tssa.aten "aten::mm"(%3, %w) : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
  %5 = tssa.aten "aten::sin"(%4) : (tensor<512x512xf32>) -> tensor<512x512xf32>
  %6 = tssa.aten "aten::mm"(%5, %w) : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
  %7 = tssa.aten "aten::sin"(%6) : (tensor<512x512xf32>) -> tensor<512x512xf32>
  %8 = tssa.aten "aten::neg"(%1) : (tensor<512x512xf32>) -> tensor<512x512xf32>
  %9 = tssa.aten "aten::exp"(%3) : (tensor<512x512xf32>) -> tensor<512x512xf32>
  %10 = tssa.aten "aten::abs"(%5) : (tensor<512x512xf32>) -> tensor<512x512xf32>
  %11 = tssa.aten "aten::cos"(%7) : (tensor<512x512xf32>) -> tensor<512x512xf32>
  return %8, %9, %10, %11 : tensor<512x512xf32>, tensor<512x512xf32>, tensor<512x512xf32>, tensor<512x512xf32>
}
