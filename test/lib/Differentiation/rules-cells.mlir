// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --tssa-differentiate --cse --split-input-file | FileCheck %s

// A cell is written out: nothing is left of the fused call.
// CHECK-LABEL: func.func @lstm_cell(
// CHECK-NOT: _thnn_fused
// CHECK: tssa.aten "aten::sigmoid"
// CHECK: tssa.aten "aten::tanh"
// CHECK: tssa.aten "aten::cat"
func.func @lstm_cell(%i: tensor<2x12xf32>, %h: tensor<2x12xf32>, %c: tensor<2x3xf32>, %b: tensor<12xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>) attributes {pyjit.gradient_inputs = array<i64: 0, 2, 3>, pyjit.gradient_results = array<i64: 0, 1>} {
  %0:3 = tssa.aten "aten::_thnn_fused_lstm_cell"(%i, %h, %c, %b, %b) : (tensor<2x12xf32>, tensor<2x12xf32>, tensor<2x3xf32>, tensor<12xf32>, tensor<12xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x12xf32>)
  return %0#0, %0#1 : tensor<2x3xf32>, tensor<2x3xf32>
}

// -----

// CHECK-LABEL: func.func @gru_cell(
// CHECK-NOT: _thnn_fused
// CHECK: tssa.aten "aten::tanh"
// CHECK: tssa.aten "aten::cat"
func.func @gru_cell(%i: tensor<2x9xf32>, %h: tensor<2x9xf32>, %s: tensor<2x3xf32>) -> tensor<2x3xf32> attributes {pyjit.gradient_inputs = array<i64: 0, 1, 2>, pyjit.gradient_results = array<i64: 0>} {
  %0:2 = tssa.aten "aten::_thnn_fused_gru_cell"(%i, %h, %s, none, none) : (tensor<2x9xf32>, tensor<2x9xf32>, tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x15xf32>)
  return %0#0 : tensor<2x3xf32>
}

// -----

// A whole layer on a device: one call for all gradients, of zeros where none
// come in.
// CHECK-LABEL: func.func @layer(
// CHECK: tssa.aten "aten::gru.input"(
// CHECK: %[[ZEROS:.*]] = tssa.aten "aten::zeros"
// CHECK: tssa.aten "pyjit::recurrence_backward"([%{{.*}}, %[[ZEROS]]], %{{.*}}, [%{{.*}}], [%{{.*}}, %{{.*}}], 3 : i64, false, 1 : i64, false, true)
func.func @layer(%x: tensor<2x5x4xf32>, %s: tensor<1x2x3xf32>, %w: tensor<9x4xf32>, %u: tensor<9x3xf32>) -> tensor<2x5x3xf32> attributes {pyjit.device = "cuda:0", pyjit.gradient_inputs = array<i64: 0, 2>, pyjit.gradient_results = array<i64: 0>} {
  %0:2 = tssa.aten "aten::gru.input"(%x, %s, [%w, %u], false, 1 : i64, 0.0 : f64, true, false, true) : (tensor<2x5x4xf32>, tensor<1x2x3xf32>, tensor<9x4xf32>, tensor<9x3xf32>) -> (tensor<2x5x3xf32>, tensor<1x2x3xf32>)
  return %0#0 : tensor<2x5x3xf32>
}

// -----

// On the CPU another call takes its place, which keeps five numbers for each
// element of a state at each step.
// CHECK-LABEL: func.func @host_layer(
// CHECK-NOT: aten::gru
// CHECK: %[[LAYER:.*]]:3 = tssa.aten "pyjit::host_recurrence"(%{{.*}}, %{{.*}}, [%{{.*}}, %{{.*}}], 3 : i64, false, 1 : i64, false, true)
// CHECK-SAME: -> (tensor<2x5x3xf32>, tensor<1x2x3xf32>, tensor<1x5x2x15xf32>)
// CHECK: %[[ZEROS:.*]] = tssa.aten "aten::zeros"
// CHECK: tssa.aten "pyjit::host_recurrence_backward"([%{{.*}}, %[[ZEROS]]], %{{.*}}, %{{.*}}, [%{{.*}}, %{{.*}}], %[[LAYER]]#2, 3 : i64, false, 1 : i64, false, true)
func.func @host_layer(%x: tensor<2x5x4xf32>, %s: tensor<1x2x3xf32>, %w: tensor<9x4xf32>, %u: tensor<9x3xf32>) -> tensor<2x5x3xf32> attributes {pyjit.gradient_inputs = array<i64: 0, 2>, pyjit.gradient_results = array<i64: 0>} {
  %0:2 = tssa.aten "aten::gru.input"(%x, %s, [%w, %u], false, 1 : i64, 0.0 : f64, true, false, true) : (tensor<2x5x4xf32>, tensor<1x2x3xf32>, tensor<9x4xf32>, tensor<9x3xf32>) -> (tensor<2x5x3xf32>, tensor<1x2x3xf32>)
  return %0#0 : tensor<2x5x3xf32>
}
