// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --convert-refgraph-to-tssa --split-input-file -verify-diagnostics | FileCheck %s

!cuda = !refgraph.tensor<[4], [1], f32, "cuda:0">
!cpu = !refgraph.tensor<[4], [1], f32, "cpu">
!number = !refgraph.tensor<[], [], f32, "cpu">

// CHECK: func.func @f(%arg0: !tssa.ref<tensor<4xf32>>, %arg1: !tssa.ref<tensor<f32>> {pyjit.device = "cpu"}, %arg2: !tssa.ref<tensor<4xf32>> {pyjit.device = "cpu"})
// CHECK-SAME: attributes {pyjit.device = "cuda:0"}
// A number of the CPU may take part anywhere.
// CHECK: tssa.aten "aten::mul.Tensor"(%{{.*}}, %{{.*}}) :
// A move between devices is a vendor call, and so is work of the CPU.
// CHECK: tssa.aten "aten::_to_copy"({{.*}}) {pyjit.vendor_call}
// CHECK: tssa.aten "aten::neg"({{.*}}) {pyjit.device = "cpu", pyjit.vendor_call}
refgraph.graph @f(%x: !cuda, %s: !number, %h: !cpu) {
  %a = refgraph.tensor_op "aten::mul.Tensor"(%x, %s) : (!cuda, !number) -> !cuda
  %b = refgraph.tensor_op "aten::_to_copy"(%h, none, none, device("cuda:0"), none, false, none) : (!cpu) -> !cuda
  %c = refgraph.tensor_op "aten::neg"(%h) : (!cpu) -> !cpu
  refgraph.yield %a, %b, %c : !cuda, !cuda, !cpu
}

// -----

!one = !refgraph.tensor<[4], [1], f32, "cuda:0">
!two = !refgraph.tensor<[4], [1], f32, "cuda:1">
// expected-error @+1 {{uses cuda:1 where the rest is on cuda:0; a program runs on one device}}
refgraph.graph @two(%x: !one, %y: !two) {
  refgraph.yield %x : !one
}

// -----

!cuda = !refgraph.tensor<[4], [1], f32, "cuda:0">
!cpu = !refgraph.tensor<[4], [1], f32, "cpu">
!half = !refgraph.tensor<[2], [1], f32, "cpu">
refgraph.graph @writes_part_on_host(%x: !cuda, %h: !cpu) {
  %v = refgraph.tensor_op "aten::slice.Tensor"(%h, 0 : i64, 0 : i64, 2 : i64, 1 : i64) aliases [0] : (!cpu) -> !half
  // expected-error @+1 {{writes a part of a tensor of the CPU inside a program of cuda:0}}
  %a = refgraph.tensor_op "aten::neg_"(%v) mutates [0] : (!half) -> !half
  refgraph.yield %x, %a : !cuda, !half
}

// -----

!cuda = !refgraph.tensor<[4], [1], f32, "cuda:0">
!cpu = !refgraph.tensor<[4], [1], f32, "cpu">
!count = !refgraph.tensor<[], [], f32, "cpu">

// A tensor of the CPU as a whole is what a vendor call gives: where only the CPU's are read, and where the device's are.
// CHECK-LABEL: func.func @writes_host
// CHECK: %[[Z:.*]] = tssa.aten "aten::zeros"({{.*}}) {pyjit.device = "cpu", pyjit.vendor_call}
// CHECK: %[[R:.*]] = tssa.ref %[[Z]]
// CHECK: %[[A:.*]] = tssa.aten "aten::add.Tensor"({{.*}}, wrapped(1 : i64), 1 : i64) {pyjit.device = "cpu", pyjit.vendor_call}
// CHECK: tssa.store %[[A]], %[[R]]
// CHECK: %[[C:.*]] = tssa.aten "aten::copy"({{.*}}) {pyjit.device = "cpu", pyjit.vendor_call}
// CHECK: tssa.store %[[C]], %arg1
refgraph.graph @writes_host(%x: !cuda, %h: !cpu) mutates [1] {
  %z = refgraph.tensor_op "aten::zeros"([], none, none, device("cpu"), none) : () -> !count
  %a = refgraph.tensor_op "aten::add_.Tensor"(%z, wrapped(1 : i64), 1 : i64) mutates [0] : (!count) -> !count
  %y = refgraph.tensor_op "aten::mul.Tensor"(%x, %a) : (!cuda, !count) -> !cuda
  %b = refgraph.tensor_op "aten::copy_"(%h, %y, false) mutates [0] : (!cpu, !cuda) -> !cpu
  refgraph.yield %y, %a, %b : !cuda, !count, !cpu
}
