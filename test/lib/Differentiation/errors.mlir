// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --tssa-differentiate --split-input-file --verify-diagnostics

func.func @unknown(%x: tensor<4xf32>) -> tensor<4xf32> attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0>} {
  // expected-error @+1 {{cannot be differentiated: no derivative is known}}
  %0 = tssa.aten "mylib::cell"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @operand(%x: tensor<4x3xf32>, %y: tensor<4xi64>, %w: tensor<3xf32>) -> tensor<f32> attributes {pyjit.gradient_inputs = array<i64: 2>, pyjit.gradient_results = array<i64: 0>} {
  // expected-error @+1 {{cannot be differentiated: no derivative by argument 4 is known}}
  %0 = tssa.aten "aten::multi_margin_loss"(%x, %y, 1 : i64, 1.0 : f64, %w, 1 : i64) : (tensor<4x3xf32>, tensor<4xi64>, tensor<3xf32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

// expected-error @+1 {{cannot be differentiated: none of its results depends on an input that requires grad}}
func.func @constant(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> attributes {pyjit.gradient_inputs = array<i64: 1>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::neg"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// expected-error @+1 {{have to name arguments and results}}
func.func @numbers(%x: tensor<4xf32>) -> tensor<4xf32> attributes {pyjit.gradient_inputs = array<i64: 3>, pyjit.gradient_results = array<i64: 0>} {
  return %x : tensor<4xf32>
}

// -----

// That eager's call requires the two sizes to be equal is not known here: the
// sizes are specialized then.
func.func @sizes(%x: tensor<?xf32, #tssa.layout<[s0], [1]>>, %i: tensor<?xi64, #tssa.layout<[s1], [1]>>) -> tensor<?xf32, #tssa.layout<[s0], [1]>> attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0>, pyjit.symbols = [array<i64: 0, 0>, array<i64: 1, 0>]} {
  // expected-error @+1 {{cannot be differentiated: sizes of its gradient may differ from its operand's}}
  %0 = tssa.aten "aten::index_add"(%x, 0 : i64, %i, %x, 1 : i64) : (tensor<?xf32, #tssa.layout<[s0], [1]>>, tensor<?xi64, #tssa.layout<[s1], [1]>>, tensor<?xf32, #tssa.layout<[s0], [1]>>) -> tensor<?xf32, #tssa.layout<[s0], [1]>>
  return %0 : tensor<?xf32, #tssa.layout<[s0], [1]>>
}

// -----

// Where elements that windows show twice stand is told in numbers: the sizes
// are specialized, too.
func.func @windows(%x: tensor<?x8xf32, #tssa.layout<[s0, 8], [8, 1]>>) -> tensor<?x3x4xf32, #tssa.layout<[s0, 3, 4], [12, 4, 1]>> attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0>, pyjit.symbols = [array<i64: 0, 0>]} {
  // expected-error @+1 {{cannot be differentiated: sizes of a view that may show elements twice differ between calls}}
  %0 = tssa.access %x [#tssa.view<unfold [1, 4, 2]>] : tensor<?x8xf32, #tssa.layout<[s0, 8], [8, 1]>> -> tensor<?x3x4xf32, #tssa.layout<[s0, 3, 4], [8, 2, 1]>>
  %1 = tssa.aten "aten::neg"(%0) : (tensor<?x3x4xf32, #tssa.layout<[s0, 3, 4], [8, 2, 1]>>) -> tensor<?x3x4xf32, #tssa.layout<[s0, 3, 4], [12, 4, 1]>>
  return %1 : tensor<?x3x4xf32, #tssa.layout<[s0, 3, 4], [12, 4, 1]>>
}

// -----

// Eager has no derivative of the bias' gradient, where there is no weight.
func.func @bias(%g: tensor<4x3xf32>, %x: tensor<4x3xf32>, %m: tensor<4x1xf32>, %r: tensor<4x1xf32>) -> tensor<3xf32> attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0>} {
  // expected-error @+1 {{cannot be differentiated: a gradient of the bias' gradient, without a weight: eager has none}}
  %0:3 = tssa.aten "aten::native_layer_norm_backward"(%g, %x, [3 : i64], %m, %r, none, none, [false, false, true]) : (tensor<4x3xf32>, tensor<4x3xf32>, tensor<4x1xf32>, tensor<4x1xf32>) -> (tensor<0xf32>, tensor<0xf32>, tensor<3xf32>)
  return %0#2 : tensor<3xf32>
}

// -----

// expected-error @+1 {{has gradients already: tssa-partition or tssa-select-gradients comes before tssa-differentiate comes again}}
func.func @again(%x: tensor<4xf32>, %g: tensor<4xf32> {pyjit.gradient = 0 : i64}) -> (tensor<4xf32>, tensor<4xf32>) attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0>} {
  return %x, %g : tensor<4xf32>, tensor<4xf32>
}

// -----

// A declaration has nothing to be differentiated.
func.func private @declared(tensor<4xf32>) -> tensor<4xf32> attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0>}

// -----

func.func @dimension(%x: tensor<7x5xf32>) -> tensor<5xf32> attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0>} {
  // expected-error @+1 {{cannot be differentiated: it names a dimension that its operand has not}}
  %0 = tssa.aten "aten::prod.dim_int"(%x, 9 : i64, false, none) : (tensor<7x5xf32>) -> tensor<5xf32>
  return %0 : tensor<5xf32>
}

// -----

// expected-error @+1 {{have to name arguments and results that are ranked tensors}}
func.func @number(%x: i32) -> i32 attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0>} {
  return %x : i32
}
