// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --tssa-partition --split-input-file --verify-diagnostics

// Refused is what has a joint program's attributes, and is none.

// expected-error @below {{has 1 results, but 0 views and 2 gradients are to be among them: tssa-differentiate comes before tssa-partition}}
func.func @undifferentiated(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> attributes {pyjit.gradient_inputs = array<i64: 0, 1>, pyjit.gradient_results = array<i64: 0>} {
  return %x : tensor<4xf32>
}

// -----

// expected-error @below {{gives a gradient of input 7 of 1}}
func.func @no_input(%x: tensor<4xf32>, %g: tensor<4xf32> {pyjit.gradient = 0 : i64}) -> (tensor<4xf32>, tensor<4xf32>) attributes {pyjit.gradient_inputs = array<i64: 7>, pyjit.gradient_results = array<i64: 0>} {
  return %x, %g : tensor<4xf32>, tensor<4xf32>
}

// -----

// expected-error @below {{takes a gradient of result 1 of 1}}
func.func @no_result(%x: tensor<4xf32>, %g: tensor<4xf32> {pyjit.gradient = 1 : i64}) -> (tensor<4xf32>, tensor<4xf32>) attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0>} {
  return %x, %g : tensor<4xf32>, tensor<4xf32>
}

// -----

// expected-error @below {{takes an input behind the gradient 0}}
func.func @order(%g: tensor<4xf32> {pyjit.gradient = 0 : i64}, %x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0>} {
  return %x, %g : tensor<4xf32>, tensor<4xf32>
}

// -----

// expected-error @below {{computes result 0 of gradients that come when it is there}}
func.func @circle(%x: tensor<4xf32>, %g: tensor<4xf32> {pyjit.gradient = 0 : i64}) -> (tensor<4xf32>, tensor<4xf32>) attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0>} {
  %0 = tssa.aten "aten::neg"(%g) : (tensor<4xf32>) -> tensor<4xf32>
  return %0, %g : tensor<4xf32>, tensor<4xf32>
}
