// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s -split-input-file -verify-diagnostics

func.func @count(%x: tensor<4xf32>) {
  // expected-error @+1 {{has 2 operands, but its arguments name 1}}
  "tssa.aten"(%x, %x) {overload = "my::f", args = [unit]} : (tensor<4xf32>, tensor<4xf32>) -> ()
  return
}

// -----

func.func @argument(%x: tensor<4xf32>) {
  // expected-error @+1 {{argument 1 is 1 : i32}}
  tssa.aten "my::f"(%x, 1 : i32) : (tensor<4xf32>) -> ()
  return
}

// -----

func.func @mutates_type(%x: tensor<4xf32>) {
  // expected-error @+1 {{result 0 is the new value of operand 0, but has another type}}
  %0 = tssa.aten "my::f_"(%x) mutates [0] : (tensor<4xf32>) -> tensor<5xf32>
  return
}

// -----

func.func @mutates_operand(%x: tensor<4xf32>) {
  // expected-error @+1 {{mutates operand 3 of 1}}
  %0 = tssa.aten "my::f_"(%x) mutates [3] : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @shown(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{path shows 'tensor<8xf32>', not 'tensor<4xf32>'}}
  %0 = tssa.access %x [#tssa.view<select [0, 1]>] : tensor<4x8xf32> -> tensor<4xf32>
  return
}

// -----

func.func @outside(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{view selects index 4 of 4}}
  %0 = tssa.access %x [#tssa.view<select [0, 4]>] : tensor<4x8xf32> -> tensor<8xf32>
  return
}

// -----

func.func @slice(%x: tensor<8xf32>) {
  // expected-error @+1 {{view's slice reaches outside a dimension of 8}}
  %0 = tssa.access %x [#tssa.view<slice [0, 2, 4, 2]>] : tensor<8xf32> -> tensor<4xf32>
  return
}

// -----

func.func @indices(%x: tensor<8xf32>) {
  // expected-error @+1 {{path takes 1 indices, but has 0}}
  %0 = tssa.access %x [#tssa.view<select [0, ?]>] : tensor<8xf32> -> tensor<f32>
  return
}

// -----

func.func @question(%x: tensor<8xf32>, %i: index) {
  // expected-error @+1 {{view has '?' where a number must stand}}
  %0 = tssa.access %x [#tssa.view<select [?, 0]>] (%i) : tensor<8xf32> -> tensor<f32>
  return
}

// -----

func.func @twice(%x: tensor<1x8xf32>, %y: tensor<4x8xf32>) {
  // expected-error @+1 {{assigns through a path that shows an element twice}}
  %0 = tssa.assign %x, %y [#tssa.view<expand [4, 8]>] : tensor<1x8xf32>, tensor<4x8xf32>
  return
}

// -----

func.func @strided(%x: tensor<8xf32>) {
  // expected-error @+1 {{view by strides reaches outside 8 elements}}
  %0 = tssa.access %x [#tssa.view<as_strided [1, 2, 2, 6, 1]>] : tensor<8xf32> -> tensor<2x2xf32>
  return
}

// -----

// expected-error @+1 {{has 1 strides for a tensor of rank 2}}
func.func @layout(%x: tensor<4x8xf32, #tssa.strides<[1]>>) {
  return
}

// -----

// expected-error @+1 {{unknown kind of view 'rotate'}}
func.func @kind(%x: tensor<4x8xf32>) attributes {v = #tssa.view<rotate [1]>} {
  return
}

// -----

func.func @pick_none(%i: index) -> tensor<4xf32> {
  // expected-error @+1 {{has nothing to pick from}}
  %0 = "tssa.pick"(%i) : (index) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @pick_types(%a: tensor<4xf32>, %b: tensor<5xf32>, %i: index) -> tensor<4xf32> {
  // expected-error @+1 {{picks a 'tensor<4xf32>', but choice 1 is a 'tensor<5xf32>'}}
  %0 = "tssa.pick"(%a, %b, %i) : (tensor<4xf32>, tensor<5xf32>, index) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @speculate_many(%flags: tensor<4xi1>) {
  // expected-error @+1 {{is decided by a bool tensor without dimensions, not 'tensor<4xi1>'}}
  tssa.speculate %flags : tensor<4xi1>
  return
}

// -----

func.func @speculate_inside(%flag: tensor<i1>, %c: i1) {
  scf.if %c {
    // expected-error @+1 {{ends the program, which a region inside of it cannot}}
    tssa.speculate %flag : tensor<i1>
  }
  return
}

// -----

func.func @no_tensor(%x: tensor<4xf32>) {
  // expected-error @+1 {{'tssa.aten' op has 1 : i64 as 'self', which 'aten::relu(Tensor self) -> Tensor' takes a Tensor for}}
  %0 = tssa.aten "aten::relu"(1 : i64) : () -> tensor<4xf32>
  return
}

// -----

func.func @no_list(%x: tensor<4xf32>) {
  // expected-error @+1 {{'tssa.aten' op has 0 : i64 as 'dims', which 'aten::permute(Tensor(a) self, int[] dims) -> Tensor(a)' takes a int[] for}}
  %0 = tssa.aten "aten::permute"(%x, 0 : i64) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @two_results(%x: tensor<4xf32>) {
  // expected-error @+1 {{'tssa.aten' op has 2 results, but 'aten::relu(Tensor self) -> Tensor' gives 1}}
  %0:2 = tssa.aten "aten::relu"(%x) : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  return
}

// -----

func.func @no_layout(%x: tensor<?xf32>) {
  // expected-error @+1 {{'tssa.aten' op has a 'tensor<?xf32>', whose sizes no #tssa.layout says}}
  %0 = tssa.aten "aten::relu"(%x) : (tensor<?xf32>) -> tensor<?xf32>
  return
}

// -----

func.func @no_element(%x: tensor<4xindex>) {
  // expected-error @+1 {{'tssa.aten' op has a 'tensor<4xindex>', whose elements no tensor of PyTorch's has}}
  %0 = tssa.aten "aten::relu"(%x) : (tensor<4xindex>) -> tensor<4xindex>
  return
}

// -----

// expected-error @+1 {{has the negative stride -1}}
func.func private @backwards(tensor<4xf32, #tssa.strides<[-1]>>)

// -----

func.func @huge(%x: tensor<4611686018427387904x4xf32>) {
  // expected-error @+1 {{of more elements than can be counted}}
  %0 = tssa.aten "aten::relu"(%x) : (tensor<4611686018427387904x4xf32>) -> tensor<4611686018427387904x4xf32>
  return
}

// -----

func.func @far_slice(%x: tensor<8xf32>) {
  // expected-error @+1 {{view's slice reaches further than any dimension}}
  %0 = tssa.access %x [#tssa.view<slice [0, 0, 3, 9223372036854775807]>] : tensor<8xf32> -> tensor<3xf32>
  return
}

// -----

func.func @far_strides(%x: tensor<8xf32>) {
  // expected-error @+1 {{view by strides reaches further than any tensor}}
  %0 = tssa.access %x [#tssa.view<as_strided [0, 5, 4611686018427387904]>] : tensor<8xf32> -> tensor<5xf32>
  return
}

// -----

func.func @strides(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{shows what lies as 'tensor<3x2xf32, #tssa.strides<[1, 3]>>' does, not as 'tensor<3x2xf32>'}}
  %0 = tssa.access %x [#tssa.view<permute [1, 0]>] : tensor<2x3xf32> -> tensor<3x2xf32>
  return
}
