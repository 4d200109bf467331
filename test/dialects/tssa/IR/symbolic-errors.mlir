// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s -split-input-file -verify-diagnostics

// expected-error @+1 {{a size is a sum of products of symbols}}
func.func private @f(tensor<?xf32, #tssa.layout<[s0 floordiv 2], [1]>>)

// -----

// expected-error @+1 {{says other sizes than the type's dimensions}}
func.func private @f(tensor<?xf32, #tssa.layout<[4], [1]>>)

// -----

// expected-error @+1 {{has numbers only: #tssa.strides says that}}
func.func private @f(tensor<4xf32, #tssa.layout<[4], [1]>>)

// -----

// expected-error @+1 {{has 2 sizes and 1 strides for a tensor of rank 1}}
func.func private @f(tensor<?xf32, #tssa.layout<[s0, s0], [1]>>)

// -----

func.func @f(%x: tensor<?xf32, #tssa.layout<[s0], [1]>>) {
  // expected-error @+1 {{view of s0 elements has s1}}
  %0 = tssa.access %x [#tssa.view<view [s1]>] : tensor<?xf32, #tssa.layout<[s0], [1]>> -> tensor<?xf32, #tssa.layout<[s1], [1]>>
  return
}

// -----

// The last of two elements exists; that of index 2 does in some calls, which the
// guards see to. None is behind the last one.
func.func @f(%x: tensor<?xf32, #tssa.layout<[s0], [1]>>) {
  %0 = tssa.access %x [#tssa.view<select [0, 1]>] : tensor<?xf32, #tssa.layout<[s0], [1]>> -> tensor<f32>
  %1 = tssa.access %x [#tssa.view<select [0, 2]>] : tensor<?xf32, #tssa.layout<[s0], [1]>> -> tensor<f32>
  // expected-error @+1 {{view selects index s0 of s0}}
  %2 = tssa.access %x [#tssa.view<select [0, s0]>] : tensor<?xf32, #tssa.layout<[s0], [1]>> -> tensor<f32>
  return
}

// -----

func.func @f(%x: tensor<?xf32, #tssa.layout<[s0], [1]>>) {
  // expected-error @+1 {{view's slice reaches outside a dimension of s0}}
  %0 = tssa.access %x [#tssa.view<slice [0, 1, s0, 1]>] : tensor<?xf32, #tssa.layout<[s0], [1]>> -> tensor<?xf32, #tssa.layout<[s0], [1]>>
  return
}

// -----

// Whether eager copies here depends on s0 being 4 or not.
func.func @f(%x: tensor<4x?xf32, #tssa.layout<[4, s0], [4, 1]>>) {
  // expected-error @+1 {{view depends on whether 4 is s0}}
  %0 = tssa.access %x [#tssa.view<view [s0 * 4]>] : tensor<4x?xf32, #tssa.layout<[4, s0], [4, 1]>> -> tensor<?xf32, #tssa.layout<[s0 * 4], [1]>>
  return
}

// -----

func.func @f(%x: tensor<?xf32, #tssa.layout<[s0], [1]>>, %i: index) {
  // expected-error @+1 {{view at an index known only at run time of a tensor of symbolic sizes}}
  %0 = tssa.access %x [#tssa.view<select [0, ?]>] (%i) : tensor<?xf32, #tssa.layout<[s0], [1]>> -> tensor<f32>
  return
}

// -----

func.func @f(%x: tensor<?xf32>) {
  // expected-error @+1 {{view of a tensor whose sizes no #tssa.layout says}}
  %0 = tssa.access %x [#tssa.view<select [0, 0]>] : tensor<?xf32> -> tensor<f32>
  return
}

// -----

func.func @f() {
  // expected-error @+1 {{takes one polynomial over symbols, not}}
  %0 = tssa.size affine_map<(d0) -> (d0)>
  return
}

// -----

func.func @f() {
  // expected-error @+1 {{is of a type without symbolic sizes: tensor.empty is the op for that}}
  %0 = tssa.empty : tensor<4xf32>
  return
}
