// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --convert-tssa-to-cudagraph --split-input-file -verify-diagnostics | FileCheck %s

func.func private @k(tensor<8xf32>) -> tensor<8xf32> attributes {pyjit.kernel}

// CHECK: cudagraph.program @f on "cuda:0"
// CHECK: %[[X:.*]] = cudagraph.external input 0 :
// CHECK: %[[W:.*]] = cudagraph.external input 1 stable :
// CHECK: %[[S:.*]] = cudagraph.external input 2 : !cudagraph.buffer<tensor<8xf32>, host>
// CHECK: %[[C:.*]] = cudagraph.external cached 0 stable :
// CHECK: %[[T:.*]] = cudagraph.buffer :
// CHECK: cudagraph.kernel @k(%[[X]]) to(%[[T]])
// CHECK: %[[R:.*]] = cudagraph.call "aten::mv"(%[[W]], %[[T]])
// CHECK: %[[V:.*]] = cudagraph.view %[[R]] at 2 : !cudagraph.buffer<tensor<8xf32>> to !cudagraph.buffer<tensor<3xf32, #tssa.strides<[2]>>>
// CHECK: %[[E:.*]] = cudagraph.call "aten::exp"(%[[V]])
// CHECK: cudagraph.call "aten::neg"(%[[S]]) : (!cudagraph.buffer<tensor<8xf32>, host>) -> !cudagraph.buffer<tensor<8xf32>, host>
// CHECK: %[[Y:.*]] = cudagraph.external output 0 :
// CHECK: cudagraph.kernel @k(%[[C]]) to(%[[Y]])
// A call that writes gets a copy to write.
// CHECK: %[[N:.*]] = cudagraph.call "aten::clone"(%[[R]], none)
// CHECK: cudagraph.call "mylib::push_"(%[[N]], %[[T]]) mutates [0]
// CHECK: cudagraph.return %[[E]], %[[Y]], %[[N]]
func.func @f(%x: tensor<8xf32>, %w: tensor<8x8xf32> {pyjit.param}, %s: tensor<8xf32> {pyjit.device = "cpu"}, %c: tensor<8xf32> {pyjit.cached = 0 : i64})
    -> (tensor<3xf32>, tensor<8xf32>, tensor<8xf32>) attributes {pyjit.device = "cuda:0"} {
  %t = call @k(%x) : (tensor<8xf32>) -> tensor<8xf32>
  %r = tssa.aten "aten::mv"(%w, %t) : (tensor<8x8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %v = tssa.access %r [#tssa.view<slice [0, 2, 3, 2]>] : tensor<8xf32> -> tensor<3xf32, #tssa.strides<[2]>>
  %e = tssa.aten "aten::exp"(%v) : (tensor<3xf32, #tssa.strides<[2]>>) -> tensor<3xf32>
  %h = tssa.aten "aten::neg"(%s) {pyjit.device = "cpu"} : (tensor<8xf32>) -> tensor<8xf32>
  %y = call @k(%c) : (tensor<8xf32>) -> tensor<8xf32>
  %p = tssa.aten "mylib::push_"(%r, %t) mutates [0] : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %e, %y, %p : tensor<3xf32>, tensor<8xf32>, tensor<8xf32>
}

// -----

// What is on no device stays.
// CHECK-LABEL: func.func @cpu
func.func @cpu(%x: tensor<8xf32>) -> tensor<8xf32> {
  return %x : tensor<8xf32>
}

// -----

func.func @unplanned(%x: tensor<8xf32>) -> tensor<8xf32> attributes {pyjit.device = "cuda:0"} {
  // expected-error @+1 {{is neither a kernel, a vendor call nor a view}}
  %y = arith.negf %x : tensor<8xf32>
  return %y : tensor<8xf32>
}

// -----

// Sizes that differ between calls stay in the types; the program says what they
// are.
!any = tensor<?x4xf32, #tssa.layout<[s0, 4], [4, 1]>>
func.func private @k(!any) -> !any attributes {pyjit.kernel}

// CHECK: #[[LAST:.*]] = affine_map<()[s0] -> (s0 * 4 - 4)>
// CHECK: cudagraph.program @symbolic on "cuda:0" attributes {pyjit.symbols = [array<i64: 0, 0>]}
// CHECK: %[[R:.*]] = cudagraph.call "aten::exp"
// CHECK: cudagraph.view %[[R]] at 0 plus #[[LAST]] :
func.func @symbolic(%x: !any) -> tensor<4xf32> attributes {pyjit.device = "cuda:0", pyjit.symbols = [array<i64: 0, 0>]} {
  %t = call @k(%x) : (!any) -> !any
  %r = tssa.aten "aten::exp"(%t) : (!any) -> !any
  %v = tssa.access %r [#tssa.view<select [0, s0 - 1]>] : !any -> tensor<4xf32>
  %e = tssa.aten "aten::exp"(%v) : (tensor<4xf32>) -> tensor<4xf32>
  return %e : tensor<4xf32>
}

// -----

// A kernel that is launched on views relies on what all of them begin at.
!vec = tensor<8xf32>
// CHECK: func.func private @k(tensor<6xf32>, tensor<6xf32>) -> tensor<6xf32> attributes {pyjit.align = array<i32: 4, 8, 16>, pyjit.kernel}
func.func private @k(tensor<6xf32>, tensor<6xf32>) -> tensor<6xf32> attributes {pyjit.kernel}
// CHECK: func.func private @l(tensor<4xf32>) -> tensor<4xf32> attributes {pyjit.align = array<i32: 4, 16>, pyjit.kernel}
func.func private @l(tensor<4xf32>) -> tensor<4xf32> attributes {pyjit.kernel}
// CHECK: func.func private @m(tensor<8xf32>) -> tensor<8xf32> attributes {pyjit.kernel}
func.func private @m(!vec) -> !vec attributes {pyjit.kernel}

func.func @views(%x: !vec, %y: tensor<?xf32, #tssa.layout<[s0 * 4 + 1], [1]>>) -> (tensor<6xf32>, tensor<6xf32>, tensor<4xf32>, !vec)
    attributes {pyjit.device = "cuda:0", pyjit.symbols = [array<i64: 1, 0>]} {
  %a = tssa.access %x [#tssa.view<slice [0, 1, 6, 1]>] : !vec -> tensor<6xf32>
  %b = tssa.access %x [#tssa.view<slice [0, 2, 6, 1]>] : !vec -> tensor<6xf32>
  %c = tssa.access %x [#tssa.view<slice [0, 0, 6, 1]>] : !vec -> tensor<6xf32>
  %d = tssa.access %y [#tssa.view<slice [0, s0 * 4 - 3, 4, 1]>] : tensor<?xf32, #tssa.layout<[s0 * 4 + 1], [1]>> -> tensor<4xf32>
  %0 = call @k(%a, %b) : (tensor<6xf32>, tensor<6xf32>) -> tensor<6xf32>
  %1 = call @k(%c, %c) : (tensor<6xf32>, tensor<6xf32>) -> tensor<6xf32>
  %2 = call @l(%d) : (tensor<4xf32>) -> tensor<4xf32>
  %3 = call @m(%x) : (!vec) -> !vec
  return %0, %1, %2, %3 : tensor<6xf32>, tensor<6xf32>, tensor<4xf32>, !vec
}

// -----

// A prepare program says which of the main program's inputs it takes.
// CHECK: cudagraph.program @prepare on "cuda:0" attributes {pyjit.inputs = array<i64: 2>, pyjit.prepare}
func.func @prepare(%w: tensor<8xf32> {pyjit.input = 2}) -> tensor<8xf32>
    attributes {pyjit.device = "cuda:0", pyjit.prepare} {
  %r = tssa.aten "aten::exp"(%w) : (tensor<8xf32>) -> tensor<8xf32>
  return %r : tensor<8xf32>
}

// What is prepared may come from nothing.
// CHECK: cudagraph.program @constants on "cuda:0" attributes {pyjit.inputs = array<i64>, pyjit.prepare}
func.func @constants() -> tensor<8xf32> attributes {pyjit.device = "cuda:0", pyjit.prepare} {
  %r = tssa.aten "aten::arange"(8 : i64, 6 : i64, none, "cuda:0", none) : () -> tensor<8xf32>
  return %r : tensor<8xf32>
}

// -----

// expected-error @+1 {{prepares a parameter (argument 0) without 'pyjit.input'}}
func.func @unknown(%w: tensor<8xf32>) -> tensor<8xf32> attributes {pyjit.device = "cuda:0", pyjit.prepare} {
  %r = tssa.aten "aten::exp"(%w) : (tensor<8xf32>) -> tensor<8xf32>
  return %r : tensor<8xf32>
}

// -----

// A backward program is launched as often as a main one, also where all that it
// takes is the main program's.
// CHECK: cudagraph.program @backward on "cuda:0" {
func.func @backward(%w: tensor<8xf32> {pyjit.input = 2}, %v: tensor<8xf32> {pyjit.input = 0}) -> tensor<8xf32>
    attributes {pyjit.device = "cuda:0", pyjit.gradient_inputs = array<i64: 0>} {
  %r = tssa.aten "aten::mul.Tensor"(%w, %v) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %r : tensor<8xf32>
}
