// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --convert-tssa-to-linalg | FileCheck %s
// RUN: pyjit-opt %s --pass-pipeline="builtin.module(func.func(convert-tssa-to-linalg{explain=true}))" -verify-diagnostics -o /dev/null

// Each element is a part's; on a host, whose library would copy them one by one, runs may be as short.
// CHECK-LABEL: func.func @stack
// CHECK: linalg.index 1
// CHECK: arith.select
func.func @stack(%a: tensor<64xf32>, %b: tensor<64xf32>) -> tensor<64x2xf32> {
  %0 = tssa.aten "aten::stack"([%a, %b], -1 : i64) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64x2xf32>
  return %0 : tensor<64x2xf32>
}

// The joined dimension is walked in blocks of the greatest common divisor.
// CHECK-LABEL: func.func @cat
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<5x16x4xf32>)
// CHECK: linalg.index 0
// CHECK: arith.cmpi slt
// CHECK: arith.select
func.func @cat(%a: tensor<32x4xf32>, %b: tensor<48x4xf32>) -> tensor<80x4xf32> {
  %0 = tssa.aten "aten::cat"([%a, %b], 0 : i64) : (tensor<32x4xf32>, tensor<48x4xf32>) -> tensor<80x4xf32>
  return %0 : tensor<80x4xf32>
}

// CHECK-LABEL: func.func @short_parts
// CHECK: aten::cat
func.func @short_parts(%a: tensor<32x3xf32>, %b: tensor<32x2xf32>) -> tensor<32x5xf32> attributes {pyjit.device = "cuda:0"} {
  // expected-remark @+1 {{'aten::cat' stays a vendor call: parts that are shorter than a vector}}
  %0 = tssa.aten "aten::cat"([%a, %b], 1 : i64) : (tensor<32x3xf32>, tensor<32x2xf32>) -> tensor<32x5xf32>
  return %0 : tensor<32x5xf32>
}

// A part of a symbolic size is read at a place that is forced into its bounds, one of a single place there.
// CHECK-LABEL: func.func @cache
// CHECK: linalg.generic {{.*}} ins(%arg1 : tensor<4x1x8xf32>)
// CHECK: arith.minsi
// CHECK: tensor.extract %arg0
// CHECK: arith.select
// CHECK-NOT: aten::cat
func.func @cache(%a: tensor<4x?x8xf32, #tssa.layout<[4, s0, 8], [s0 * 8, 8, 1]>>, %b: tensor<4x1x8xf32>) -> tensor<4x?x8xf32, #tssa.layout<[4, s0 + 1, 8], [s0 * 8 + 8, 8, 1]>> attributes {pyjit.device = "cuda:0"} {
  %0 = tssa.aten "aten::cat"([%a, %b], 1 : i64) : (tensor<4x?x8xf32, #tssa.layout<[4, s0, 8], [s0 * 8, 8, 1]>>, tensor<4x1x8xf32>) -> tensor<4x?x8xf32, #tssa.layout<[4, s0 + 1, 8], [s0 * 8 + 8, 8, 1]>>
  return %0 : tensor<4x?x8xf32, #tssa.layout<[4, s0 + 1, 8], [s0 * 8 + 8, 8, 1]>>
}

// CHECK-LABEL: func.func @cache_of_the_host
// CHECK: aten::cat
func.func @cache_of_the_host(%a: tensor<4x?x8xf32, #tssa.layout<[4, s0, 8], [s0 * 8, 8, 1]>>, %b: tensor<4x1x8xf32>) -> tensor<4x?x8xf32, #tssa.layout<[4, s0 + 1, 8], [s0 * 8 + 8, 8, 1]>> {
  // expected-remark @+1 {{'aten::cat' stays a vendor call: parts of symbolic sizes}}
  %0 = tssa.aten "aten::cat"([%a, %b], 1 : i64) : (tensor<4x?x8xf32, #tssa.layout<[4, s0, 8], [s0 * 8, 8, 1]>>, tensor<4x1x8xf32>) -> tensor<4x?x8xf32, #tssa.layout<[4, s0 + 1, 8], [s0 * 8 + 8, 8, 1]>>
  return %0 : tensor<4x?x8xf32, #tssa.layout<[4, s0 + 1, 8], [s0 * 8 + 8, 8, 1]>>
}

// Known indices are checked here; one out of range fails at run time, as ever.
// CHECK-LABEL: func.func @known_indices
// CHECK-NOT: aten::_assert_async
// CHECK: return
func.func @known_indices(%x: tensor<4x8xf32>, %i: tensor<2x2xi64> {pyjit.elements = array<i64: -8, 7, 0, 1>}) -> tensor<4x2xf32> {
  %c = tssa.access %i [#tssa.view<select [0, 1]>] : tensor<2x2xi64> -> tensor<2xi64>
  %0 = tssa.aten "aten::index.Tensor"(%x, [none, %c]) : (tensor<4x8xf32>, tensor<2xi64>) -> tensor<4x2xf32>
  return %0 : tensor<4x2xf32>
}
// CHECK-LABEL: func.func @known_out_of_range
// CHECK: aten::_assert_async
func.func @known_out_of_range(%x: tensor<4x8xf32>, %i: tensor<2xi64> {pyjit.elements = array<i64: -8, 8>}) -> tensor<4x2xf32> {
  %0 = tssa.aten "aten::index.Tensor"(%x, [none, %i]) : (tensor<4x8xf32>, tensor<2xi64>) -> tensor<4x2xf32>
  return %0 : tensor<4x2xf32>
}
// What is computed from known indices is not known.
// CHECK-LABEL: func.func @computed_indices
// CHECK: aten::_assert_async
func.func @computed_indices(%x: tensor<4x8xf32>, %i: tensor<2xi64> {pyjit.elements = array<i64: 0, 1>}) -> tensor<4x2xf32> {
  %c = tssa.aten "aten::neg"(%i) : (tensor<2xi64>) -> tensor<2xi64>
  %0 = tssa.aten "aten::index.Tensor"(%x, [none, %c]) : (tensor<4x8xf32>, tensor<2xi64>) -> tensor<4x2xf32>
  return %0 : tensor<4x2xf32>
}

// An index is forced into range, and a check fails where that changed one.
// CHECK-LABEL: func.func @embedding
// CHECK: %[[OK:.*]] = linalg.generic {{.*}} iterator_types = ["reduction"]
// CHECK: tssa.aten "aten::_assert_async.msg"(%[[OK]],
// CHECK: linalg.generic
// CHECK: arith.maxsi
// CHECK: arith.minsi
// CHECK: tensor.extract %arg0
func.func @embedding(%t: tensor<10x16xf32>, %i: tensor<4xi64>) -> tensor<4x16xf32> {
  %0 = tssa.aten "aten::embedding"(%t, %i, -1 : i64, false, false) : (tensor<10x16xf32>, tensor<4xi64>) -> tensor<4x16xf32>
  return %0 : tensor<4x16xf32>
}

// CHECK-LABEL: func.func @two_indices
// CHECK: aten::index.Tensor
func.func @two_indices(%t: tensor<10x16xf32>, %i: tensor<4xi64>) -> tensor<4xf32> {
  // expected-remark @+1 {{more than one tensor of indices}}
  %0 = tssa.aten "aten::index.Tensor"(%t, [%i, %i]) : (tensor<10x16xf32>, tensor<4xi64>, tensor<4xi64>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// One row that is written is a choice for each element, also in place; several
// are a vendor call's, as is what the launch writes.
// CHECK-LABEL: func.func @index_copy
// CHECK: aten::_assert_async.msg
// CHECK: linalg.generic {{.*}} ins(%arg0, %arg1, %arg2 : tensor<4x16x8xf32>, tensor<1xi64>, tensor<4x1x8xf32>)
// CHECK: linalg.index 1
// CHECK: arith.cmpi eq
// CHECK: arith.select
// CHECK-NOT: aten::index_copy
func.func @index_copy(%c: tensor<4x16x8xf32>, %i: tensor<1xi64>, %k: tensor<4x1x8xf32>) -> tensor<4x16x8xf32> {
  %0 = tssa.aten "aten::index_copy_"(%c, 1 : i64, %i, %k) mutates [0] : (tensor<4x16x8xf32>, tensor<1xi64>, tensor<4x1x8xf32>) -> tensor<4x16x8xf32>
  return %0 : tensor<4x16x8xf32>
}

// Caches of one length are written at one place: one check is enough.
// CHECK-LABEL: func.func @checked_once
// CHECK-COUNT-1: aten::_assert_async.msg
// CHECK-NOT: aten::_assert_async.msg
// CHECK: return
func.func @checked_once(%c: tensor<16x8xf32>, %d: tensor<16x4xf32>, %i: tensor<1xi64>, %k: tensor<1x8xf32>, %l: tensor<1x4xf32>) -> (tensor<16x8xf32>, tensor<16x4xf32>) {
  %0 = tssa.aten "aten::index_copy"(%c, 0 : i64, %i, %k) : (tensor<16x8xf32>, tensor<1xi64>, tensor<1x8xf32>) -> tensor<16x8xf32>
  %1 = tssa.aten "aten::index_copy"(%d, 0 : i64, %i, %l) : (tensor<16x4xf32>, tensor<1xi64>, tensor<1x4xf32>) -> tensor<16x4xf32>
  return %0, %1 : tensor<16x8xf32>, tensor<16x4xf32>
}

// Of another length it is another check.
// CHECK-LABEL: func.func @checked_twice
// CHECK-COUNT-2: aten::_assert_async.msg
// CHECK: return
func.func @checked_twice(%c: tensor<16x8xf32>, %d: tensor<9x4xf32>, %i: tensor<3xi64>) -> (tensor<3x8xf32>, tensor<3x4xf32>) {
  %0 = tssa.aten "aten::index_select"(%c, 0 : i64, %i) : (tensor<16x8xf32>, tensor<3xi64>) -> tensor<3x8xf32>
  %1 = tssa.aten "aten::index_select"(%d, 0 : i64, %i) : (tensor<9x4xf32>, tensor<3xi64>) -> tensor<3x4xf32>
  return %0, %1 : tensor<3x8xf32>, tensor<3x4xf32>
}

// CHECK-LABEL: func.func @several_rows
// CHECK: aten::index_copy
func.func @several_rows(%c: tensor<16x8xf32>, %i: tensor<2xi64>, %k: tensor<2x8xf32>) -> tensor<16x8xf32> {
  // expected-remark @+1 {{several indices}}
  %0 = tssa.aten "aten::index_copy"(%c, 0 : i64, %i, %k) : (tensor<16x8xf32>, tensor<2xi64>, tensor<2x8xf32>) -> tensor<16x8xf32>
  return %0 : tensor<16x8xf32>
}

// CHECK-LABEL: func.func @part
// CHECK: aten::index_copy_
func.func @part(%c: tensor<16x8xf32>, %i: tensor<1xi64>, %k: tensor<1x8xf32>) -> tensor<16x8xf32> {
  // expected-remark @+1 {{the launch writes the part}}
  %0 = tssa.aten "aten::index_copy_"(%c, 0 : i64, %i, %k) mutates [0] {pyjit.part} : (tensor<16x8xf32>, tensor<1xi64>, tensor<1x8xf32>) -> tensor<16x8xf32>
  return %0 : tensor<16x8xf32>
}

// The least index whose element is the extreme.
// CHECK-LABEL: func.func @max_dim
// CHECK: arith.maximumf
// CHECK: arith.minsi {{.*}} : i32
// CHECK-NOT: tssa.aten
func.func @max_dim(%x: tensor<4x16xf32>) -> (tensor<4xf32>, tensor<4xi64>) {
  %0, %1 = tssa.aten "aten::max.dim"(%x, 1 : i64, false) : (tensor<4x16xf32>) -> (tensor<4xf32>, tensor<4xi64>)
  return %0, %1 : tensor<4xf32>, tensor<4xi64>
}

// What meets tensors of several devices, or of the CPU alone, is no kernel's.
// CHECK-LABEL: func.func @on_the_host
// CHECK: aten::repeat
func.func @on_the_host(%a: tensor<4x2xf32> {pyjit.device = "cpu"}) -> tensor<36x2xf32> attributes {pyjit.device = "cuda:0"} {
  // expected-remark @+1 {{'aten::repeat' stays a vendor call: it meets tensors of several devices}}
  %0 = tssa.aten "aten::repeat"(%a, [9 : i64, 1 : i64]) {pyjit.device = "cpu", pyjit.vendor_call} : (tensor<4x2xf32>) -> tensor<36x2xf32>
  return %0 : tensor<36x2xf32>
}

// Less than nothing behind: the end is left out.
// CHECK-LABEL: func.func @cropped
// CHECK: linalg.generic {{.*}} ins(%arg0 : tensor<64x1xf32>) outs(%{{.*}} : tensor<63x3xf32>)
// CHECK-NOT: aten::constant_pad_nd
func.func @cropped(%x: tensor<64x1xf32>) -> tensor<63x3xf32> {
  %0 = tssa.aten "aten::constant_pad_nd"(%x, [0 : i64, 2 : i64, 0 : i64, -1 : i64], 0.0 : f64) : (tensor<64x1xf32>) -> tensor<63x3xf32>
  return %0 : tensor<63x3xf32>
}
