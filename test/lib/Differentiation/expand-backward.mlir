// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --tssa-expand-backward --split-input-file --verify-diagnostics | FileCheck %s

// The gradients stand where the call was, and are what the update reads.
// CHECK-LABEL: func.func @step(
// CHECK-SAME:    %[[W:.*]]: tensor<4xf32>, %[[X:.*]]: tensor<4xf32>
func.func @step(%w: tensor<4xf32>, %x: tensor<4xf32>) -> (tensor<f32>, tensor<4xf32>) {
  // CHECK:       %[[Y:.*]] = tssa.aten "aten::mul.Tensor"(%[[W]], %[[X]])
  // CHECK-NEXT:  %[[LOSS:.*]] = tssa.aten "aten::sum"(%[[Y]], none)
  // CHECK-NEXT:  %[[ONE:.*]] = tssa.aten "aten::ones_like"
  // CHECK-NOT:   pyjit::backward
  // CHECK:       %[[G:.*]] = tssa.access %[[ONE]]
  // CHECK:       %[[DW:.*]] = tssa.aten "aten::mul.Tensor"({{.*}}, %[[X]])
  // CHECK-NOT:   aten::mul.Tensor
  // CHECK:       %[[NEW:.*]] = tssa.aten "aten::sub.Tensor"(%[[W]], %[[DW]]
  // CHECK-NEXT:  return %[[LOSS]], %[[NEW]]
  %y = tssa.aten "aten::mul.Tensor"(%w, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %loss = tssa.aten "aten::sum"(%y, none) : (tensor<4xf32>) -> tensor<f32>
  %one = tssa.aten "aten::ones_like"(%loss, none, none, none, false, none) : (tensor<f32>) -> tensor<f32>
  %g = tssa.aten "pyjit::backward"([%loss], [%one], [%w]) : (tensor<f32>, tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
  %new = tssa.aten "aten::sub.Tensor"(%w, %g, 0.5 : f64) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %loss, %new : tensor<f32>, tensor<4xf32>
}

// -----

// A gradient of a gradient: the second call goes through what the first became.
// CHECK-LABEL: func.func @twice(
// CHECK-SAME:    %[[X:.*]]: tensor<4xf32>, %[[S:.*]]: tensor<4xf32>
func.func @twice(%x: tensor<4xf32>, %seed: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK:       %[[E:.*]] = tssa.aten "aten::exp"(%[[X]])
  // CHECK-NEXT:  %[[G:.*]] = tssa.aten "aten::mul.Tensor"(%[[S]], %[[E]])
  // CHECK-NEXT:  %[[T:.*]] = tssa.aten "aten::mul.Tensor"(%[[S]], %[[S]])
  // CHECK-NEXT:  %[[H:.*]] = tssa.aten "aten::mul.Tensor"(%[[T]], %[[E]])
  // CHECK-NEXT:  return %[[H]]
  %e = tssa.aten "aten::exp"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %g = tssa.aten "pyjit::backward"([%e], [%seed], [%x]) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %h = tssa.aten "pyjit::backward"([%g], [%seed], [%x]) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %h : tensor<4xf32>
}

// -----

// The call writes a leaf between two uses (an update in the middle of a step): its gradient comes from
// what it was, directly, and from what it is, past the write.
// CHECK-LABEL: func.func @written(
// CHECK-SAME:    %[[W:.*]]: tensor<4xf32>, %[[X:.*]]: tensor<4xf32>, %[[S:.*]]: tensor<4xf32>
func.func @written(%w: tensor<4xf32>, %x: tensor<4xf32>, %seed: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  // CHECK:       %[[SIN:.*]] = tssa.aten "aten::sin"(%[[W]])
  // CHECK:       %[[NEW:.*]] = tssa.aten "aten::mul.Tensor"(%[[W]], %[[X]])
  // CHECK:       %[[NOW:.*]] = tssa.aten "pyjit::written"(%{{.*}}, %{{.*}})
  // CHECK:       tssa.aten "aten::mul.Tensor"(%[[SIN]], %[[NOW]])
  // CHECK-DAG:   %[[OFNOW:.*]] = tssa.aten "aten::mul.Tensor"(%[[S]], %[[SIN]])
  // CHECK-DAG:   %[[OFSIN:.*]] = tssa.aten "aten::mul.Tensor"(%[[S]], %[[NOW]])
  // CHECK:       %[[COS:.*]] = tssa.aten "aten::cos"(%[[W]])
  // CHECK:       %[[OFW:.*]] = tssa.aten "aten::mul.Tensor"(%[[OFSIN]], %[[COS]])
  // CHECK:       %[[G:.*]] = tssa.aten "aten::add.Tensor"(%[[OFNOW]], %[[OFW]]
  // CHECK-NEXT:  return %[[NEW]], %[[G]]
  %sin = tssa.aten "aten::sin"(%w) : (tensor<4xf32>) -> tensor<4xf32>
  %leaf = tssa.aten "pyjit::unwritten"(%w) : (tensor<4xf32>) -> tensor<4xf32>
  %new = tssa.aten "aten::mul.Tensor"(%w, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %contents = tssa.access %new [#tssa.view<detach []>] : tensor<4xf32> -> tensor<4xf32>
  %now = tssa.aten "pyjit::written"(%contents, %leaf) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %y = tssa.aten "aten::mul.Tensor"(%sin, %now) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %g = tssa.aten "pyjit::backward"([%y], [%seed], [%leaf]) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %new, %g : tensor<4xf32>, tensor<4xf32>
}

// -----

// Only the mask depends on %b: eager says zeros, not none.
// CHECK-LABEL: func.func @mask(
// CHECK:         %[[ZERO:.*]] = tssa.aten "aten::zeros"
// CHECK-NOT:     pyjit::backward
// CHECK:         return %[[ZERO]]
func.func @mask(%b: tensor<4xf32>, %x: tensor<4xf32>, %seed: tensor<4xf32>) -> tensor<4xf32> {
  %m = tssa.aten "aten::gt.Tensor"(%b, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
  %y = tssa.aten "aten::where.self"(%m, %x, %seed) : (tensor<4xi1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %g = tssa.aten "pyjit::backward"([%y], [%seed], [%b]) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %g : tensor<4xf32>
}

// -----

// No gradient flows back through what an operator without a history has made.
func.func @ended(%x: tensor<4xf32>, %seed: tensor<4xf32>) -> tensor<4xf32> {
  %e = tssa.aten "aten::exp"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %d = tssa.access %e [#tssa.view<detach []>] : tensor<4xf32> -> tensor<4xf32>
  // expected-error@+1 {{no gradient comes to an input that eager has one of}}
  %g = tssa.aten "pyjit::backward"([%d], [%seed], [%x]) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %g : tensor<4xf32>
}

// -----

func.func @unreached(%x: tensor<4xf32>, %w: tensor<4xf32>, %seed: tensor<4xf32>) -> tensor<4xf32> {
  %e = tssa.aten "aten::exp"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  // expected-error@+1 {{no gradient comes to an input that eager has one of}}
  %g = tssa.aten "pyjit::backward"([%e], [%seed], [%w]) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %g : tensor<4xf32>
}

// -----

func.func @uneven(%x: tensor<4xf32>, %seed: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{needs a gradient for each root, and has one for each input}}
  %g = tssa.aten "pyjit::backward"([%x], [], [%x]) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %g : tensor<4xf32>
}
