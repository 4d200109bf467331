// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --pass-pipeline="builtin.module(func.func(convert-tssa-to-linalg),cse)" | FileCheck %s

// CHECK-LABEL: func.func @pointwise
// CHECK: linalg.generic
// CHECK: arith.addf
// CHECK: linalg.generic
// CHECK: arith.cmpf olt
// CHECK: arith.select
// CHECK-NOT: tssa.aten
func.func @pointwise(%a: tensor<4x8xf32>, %b: tensor<8xf32>) -> tensor<4x8xf32> {
  %0 = tssa.aten "aten::add.Tensor"(%a, %b, 1 : i64) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %1 = tssa.aten "aten::relu"(%0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}

// CHECK-LABEL: func.func @softmax
// CHECK: iterator_types = ["parallel", "reduction"]
// CHECK: math.exp
// CHECK: iterator_types = ["parallel", "reduction"]
// CHECK: arith.divf
func.func @softmax(%a: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = tssa.aten "aten::softmax.int"(%a, 1 : i64, none) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// A vendor call reads the access itself, a kernel reads through it.
// CHECK-LABEL: func.func @views
// CHECK: %[[V:.*]] = tssa.access
// CHECK: tssa.aten "aten::matmul"(%{{.*}}, %[[V]])
// CHECK: linalg.generic
func.func @views(%a: tensor<4x8xf32>) -> (tensor<4x4xf32>, tensor<8x4xf32>) {
  %t = tssa.access %a [#tssa.view<permute [1, 0]>] : tensor<4x8xf32> -> tensor<8x4xf32, #tssa.strides<[1, 8]>>
  %0 = tssa.aten "aten::matmul"(%a, %t) : (tensor<4x8xf32>, tensor<8x4xf32, #tssa.strides<[1, 8]>>) -> tensor<4x4xf32>
  %1 = tssa.aten "aten::exp"(%t) : (tensor<8x4xf32, #tssa.strides<[1, 8]>>) -> tensor<8x4xf32>
  return %0, %1 : tensor<4x4xf32>, tensor<8x4xf32>
}

// CHECK-LABEL: func.func @assigned
// CHECK-NOT: tssa.assign
// CHECK: arith.select
func.func @assigned(%a: tensor<4x8xf32>, %s: tensor<8xf32>) -> tensor<4x8xf32> {
  %0 = tssa.assign %a, %s [#tssa.view<select [0, 1]>] : tensor<4x8xf32>, tensor<8xf32>
  return %0 : tensor<4x8xf32>
}

// At a place that differs between calls, the condition asks for the number.
// CHECK-LABEL: func.func @assigned_at_size
// CHECK-NOT: tssa.assign
// CHECK: linalg.index 0
// CHECK: tssa.size
// CHECK: arith.cmpi eq
// CHECK: arith.select
func.func @assigned_at_size(%a: tensor<4x8xf32>, %s: tensor<8xf32>, %n: tensor<i64>) -> tensor<4x8xf32> attributes {pyjit.symbols = [array<i64: 2, -1>]} {
  %0 = tssa.assign %a, %s [#tssa.view<select [0, s0]>] : tensor<4x8xf32>, tensor<8xf32>
  return %0 : tensor<4x8xf32>
}

// A part that begins there is read by the body, within its bounds.
// CHECK-LABEL: func.func @assigned_behind_size
// CHECK-NOT: tssa.assign
// CHECK: arith.maxsi
// CHECK: arith.minsi
// CHECK: tensor.extract
// CHECK: arith.select
func.func @assigned_behind_size(%a: tensor<9x8xf32>, %s: tensor<2x8xf32>) -> tensor<9x8xf32> {
  %0 = tssa.assign %a, %s [#tssa.view<slice [0, s0, 2, 1]>] : tensor<9x8xf32>, tensor<2x8xf32>
  return %0 : tensor<9x8xf32>
}

// Of nothing, nothing is read.
// CHECK-LABEL: func.func @assigned_nothing(
// CHECK-SAME: %[[A:.*]]: tensor<9x8xf32>,
// CHECK-NEXT: return %[[A]]
func.func @assigned_nothing(%a: tensor<9x8xf32>, %s: tensor<0x8xf32>) -> tensor<9x8xf32> {
  %0 = tssa.assign %a, %s [#tssa.view<slice [0, s0, 0, 1]>] : tensor<9x8xf32>, tensor<0x8xf32>
  return %0 : tensor<9x8xf32>
}

// An operator that wrote a column in place: the assignment reads a dense value,
// and no call is left.
// CHECK-LABEL: func.func @column
// CHECK-NOT: tssa.
// CHECK: math.exp
// CHECK: arith.select
// CHECK: return
func.func @column(%a: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %c = tssa.access %a [#tssa.view<select [1, 2]>] : tensor<4x8xf32> -> tensor<4xf32, #tssa.strides<[8]>>
  %e = tssa.aten "aten::exp"(%c) : (tensor<4xf32, #tssa.strides<[8]>>) -> tensor<4xf32, #tssa.strides<[8]>>
  %0 = tssa.assign %a, %e [#tssa.view<select [1, 2]>] : tensor<4x8xf32>, tensor<4xf32, #tssa.strides<[8]>>
  return %0 : tensor<4x8xf32>
}

// Who sees strides gets the call's own result.
// CHECK-LABEL: func.func @columnSeen
// CHECK: %[[E:.*]] = tssa.aten "aten::exp"
// CHECK: tssa.aten "aten::linalg_norm"(%[[E]]
func.func @columnSeen(%a: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<f32>) {
  %c = tssa.access %a [#tssa.view<select [1, 2]>] : tensor<4x8xf32> -> tensor<4xf32, #tssa.strides<[8]>>
  %e = tssa.aten "aten::exp"(%c) : (tensor<4xf32, #tssa.strides<[8]>>) -> tensor<4xf32, #tssa.strides<[8]>>
  %0 = tssa.assign %a, %e [#tssa.view<select [1, 2]>] : tensor<4x8xf32>, tensor<4xf32, #tssa.strides<[8]>>
  %1 = tssa.aten "aten::linalg_norm"(%e, none, none, false, none) : (tensor<4xf32, #tssa.strides<[8]>>) -> tensor<f32>
  return %0, %1 : tensor<4x8xf32>, tensor<f32>
}

// A part with no element may begin at the end of what it is a part of.
// CHECK-LABEL: func.func @nothing
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<4x0xf32>)
func.func @nothing(%a: tensor<4x1xf32>) -> tensor<4x0xf32> {
  %0 = tssa.access %a [#tssa.view<slice [1, 1, 0, 1]>] : tensor<4x1xf32> -> tensor<4x0xf32, #tssa.strides<[1, 1]>>
  %1 = tssa.aten "aten::exp"(%0) : (tensor<4x0xf32, #tssa.strides<[1, 1]>>) -> tensor<4x0xf32>
  return %1 : tensor<4x0xf32>
}

// Nothing is assigned: the target, laid out as the result says.
// CHECK-LABEL: func.func @assigns_nothing
// CHECK: %[[A:.*]] = linalg.generic {{.*}} outs({{.*}} : tensor<1x4xf32>)
// CHECK: %[[R:.*]] = linalg.generic {{.*}} ins(%[[A]] : tensor<1x4xf32>) outs({{.*}} : tensor<1x4xf32, #tssa.strides<[8, 2]>>)
// CHECK: return %[[R]]
func.func @assigns_nothing(%x: tensor<1x4xf32, #tssa.strides<[8, 2]>>, %p: tensor<0x4xf32>) -> tensor<1x4xf32, #tssa.strides<[8, 2]>> {
  %0 = tssa.aten "aten::add.Tensor"(%x, wrapped(3 : i64), 1 : i64) : (tensor<1x4xf32, #tssa.strides<[8, 2]>>) -> tensor<1x4xf32, #tssa.strides<[8, 2]>>
  %1 = tssa.assign %0, %p [#tssa.view<slice [0, 1, 0, 1]>] : tensor<1x4xf32, #tssa.strides<[8, 2]>>, tensor<0x4xf32>
  return %1 : tensor<1x4xf32, #tssa.strides<[8, 2]>>
}
