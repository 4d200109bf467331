// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: pyjit-opt %s --convert-refgraph-to-tssa | FileCheck %s
// RUN: pyjit-opt %s --convert-refgraph-to-tssa --tssa-rewrite-mutation --tssa-propagate-blocks --tssa-rename --tssa-fold-views --tssa-verify-functional | FileCheck %s --check-prefix=FUNC

// An operator is a call on contents, its result a fresh tensor.
// CHECK-LABEL: func.func @pure(%{{.*}}: !tssa.ref<tensor<4xf32>>) -> tensor<4xf32>
// CHECK: tssa.load
// CHECK-NEXT: tssa.aten "aten::neg"
// CHECK-NEXT: tssa.ref
// FUNC-LABEL: func.func @pure(
// FUNC-SAME: %[[X:[^ :]+]]: tensor<4xf32>
// FUNC-NEXT: %[[N:.*]] = tssa.aten "aten::neg"(%[[X]])
// FUNC-NEXT: return %[[N]]
refgraph.graph @pure(%x: !refgraph.tensor<[4], [1], f32, "cpu">) {
  %y = refgraph.tensor_op "aten::neg"(%x) : (!refgraph.tensor<[4], [1], f32, "cpu">) -> !refgraph.tensor<[4], [1], f32, "cpu">
  refgraph.yield %y : !refgraph.tensor<[4], [1], f32, "cpu">
}

// An in-place operator through a view of an argument is its functional form and
// a store: the argument's new contents are a result.
// CHECK-LABEL: func.func @inplace
// CHECK: tssa.view %{{.*}} [#tssa.view<select [0, 1]>]
// CHECK: tssa.aten "aten::mul.Tensor"
// CHECK-NEXT: tssa.store
// FUNC-LABEL: func.func @inplace(
// FUNC-SAME: %[[X:[^ :]+]]: tensor<2x4xf32>
// FUNC-NEXT: %[[V:.*]] = tssa.access %[[X]] [#tssa.view<select [0, 1]>]
// FUNC-NEXT: %[[N:.*]] = tssa.aten "aten::mul.Tensor"(%[[V]], wrapped(2.000000e+00 : f64))
// FUNC-NEXT: %[[A:.*]] = tssa.assign %[[X]], %[[N]] [#tssa.view<select [0, 1]>]
// FUNC-NEXT: return %[[A]]
refgraph.graph @inplace(%x: !refgraph.tensor<[2, 4], [4, 1], f32, "cpu">) {
  %v = refgraph.tensor_op "aten::select.int"(%x, 0 : i64, 1 : i64) aliases [0] {offsets = array<i64: 4>} : (!refgraph.tensor<[2, 4], [4, 1], f32, "cpu">) -> !refgraph.tensor<[4], [1], f32, "cpu">
  %w = refgraph.tensor_op "aten::mul_.Tensor"(%v, wrapped(2.0 : f64)) mutates [0] : (!refgraph.tensor<[4], [1], f32, "cpu">) -> !refgraph.tensor<[4], [1], f32, "cpu">
  refgraph.yield %x : !refgraph.tensor<[2, 4], [4, 1], f32, "cpu">
}

// A functional form whose result has another element type (f64) does not serve: the
// call stays, on a copy.
// CHECK-LABEL: func.func @promoted
// CHECK: tssa.aten "aten::mul_.Tensor"{{.*}} mutates [0]
refgraph.graph @promoted(%x: !refgraph.tensor<[4], [1], f32, "cpu">, %y: !refgraph.tensor<[4], [1], f64, "cpu">) {
  %w = refgraph.tensor_op "aten::mul_.Tensor"(%x, %y) mutates [0] : (!refgraph.tensor<[4], [1], f32, "cpu">, !refgraph.tensor<[4], [1], f64, "cpu">) -> !refgraph.tensor<[4], [1], f32, "cpu">
  refgraph.yield %w : !refgraph.tensor<[4], [1], f32, "cpu">
}

// This one rounds its number to half precision, and its functional form does not.
// CHECK-LABEL: func.func @rounded_number
// CHECK: tssa.aten "aten::mul_.Scalar"{{.*}} mutates [0]
// CHECK: tssa.aten "aten::mul.Scalar"
// CHECK-NOT: mutates
refgraph.graph @rounded_number(%x: !refgraph.tensor<[4], [1], bf16, "cpu">, %y: !refgraph.tensor<[4], [1], f32, "cpu">) {
  %w = refgraph.tensor_op "aten::mul_.Scalar"(%x, 0.1 : f64) mutates [0] : (!refgraph.tensor<[4], [1], bf16, "cpu">) -> !refgraph.tensor<[4], [1], bf16, "cpu">
  %z = refgraph.tensor_op "aten::mul_.Scalar"(%y, 0.1 : f64) mutates [0] : (!refgraph.tensor<[4], [1], f32, "cpu">) -> !refgraph.tensor<[4], [1], f32, "cpu">
  refgraph.yield %w, %z : !refgraph.tensor<[4], [1], bf16, "cpu">, !refgraph.tensor<[4], [1], f32, "cpu">
}

// Layouts are kept as the types' encodings.
// CHECK-LABEL: func.func @layout
// CHECK-SAME: !tssa.ref<tensor<4x8xf32, #tssa.strides<[1, 4]>>>
refgraph.graph @layout(%x: !refgraph.tensor<[4, 8], [1, 4], f32, "cpu">) {
  refgraph.yield %x : !refgraph.tensor<[4, 8], [1, 4], f32, "cpu">
}

// Bytes seen as numbers of another type are a copy.
// CHECK-LABEL: func.func @retyped
// CHECK: tssa.aten "aten::view_as_complex_copy"(%{{.*}}) : (tensor<4x2xf32>) -> tensor<4xcomplex<f32>>
// FUNC-LABEL: func.func @retyped
refgraph.graph @retyped(%x: !refgraph.tensor<[4, 2], [2, 1], f32, "cpu">) {
  %y = refgraph.tensor_op "aten::view_as_complex"(%x) aliases [0] : (!refgraph.tensor<[4, 2], [2, 1], f32, "cpu">) -> !refgraph.tensor<[4], [1], complex<f32>, "cpu">
  %z = refgraph.tensor_op "aten::mul.Tensor"(%y, %y) : (!refgraph.tensor<[4], [1], complex<f32>, "cpu">, !refgraph.tensor<[4], [1], complex<f32>, "cpu">) -> !refgraph.tensor<[4], [1], complex<f32>, "cpu">
  refgraph.yield %z : !refgraph.tensor<[4], [1], complex<f32>, "cpu">
}

// CHECK-LABEL: func.func @constant
// CHECK-SAME: {pyjit.elements = array<i64: -1, 0>, pyjit.param}
refgraph.graph @constant(%c: !refgraph.tensor<[2], [1], i64, "cpu">) attributes {holds = [array<i64: 0, -1, 0>], params = array<i64: 0>} {
  %r = refgraph.tensor_op "aten::neg"(%c) : (!refgraph.tensor<[2], [1], i64, "cpu">) -> !refgraph.tensor<[2], [1], i64, "cpu">
  refgraph.yield %r : !refgraph.tensor<[2], [1], i64, "cpu">
}

// Where a program is to be differentiated, gradients end at what operators
// marked `no_grad` return, show and write.
// CHECK-LABEL: func.func @gradients
// CHECK-SAME: attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0>}
// CHECK: %[[N:.*]] = tssa.aten "aten::neg"
// CHECK-NEXT: %[[D:.*]] = tssa.access %[[N]] [#tssa.view<detach{{[^>]*}}>]
// CHECK-NEXT: %[[R:.*]] = tssa.ref %[[D]]
// CHECK: tssa.view %[[R]] [#tssa.view<select [0, 1]>, #tssa.view<detach{{[^>]*}}>]
// CHECK: tssa.view %[[R]] [#tssa.view<alias>, #tssa.view<detach{{[^>]*}}>]
// CHECK: %[[Z:.*]] = tssa.aten "aten::zero"
// CHECK-NEXT: %[[E:.*]] = tssa.access %[[Z]] [#tssa.view<detach{{[^>]*}}>]
// CHECK-NEXT: tssa.store %[[E]]
// CHECK: %[[P:.*]] = tssa.aten "aten::mul.Tensor"
// CHECK-NEXT: tssa.ref %[[P]]
refgraph.graph @gradients(%x: !refgraph.tensor<[2, 4], [4, 1], f32, "cpu">) attributes {gradient_inputs = array<i64: 0>, gradient_results = array<i64: 0>} {
  %n = refgraph.tensor_op "aten::neg"(%x) {no_grad} : (!refgraph.tensor<[2, 4], [4, 1], f32, "cpu">) -> !refgraph.tensor<[2, 4], [4, 1], f32, "cpu">
  %v = refgraph.tensor_op "aten::select.int"(%n, 0 : i64, 1 : i64) aliases [0] {no_grad, offsets = array<i64: 4>} : (!refgraph.tensor<[2, 4], [4, 1], f32, "cpu">) -> !refgraph.tensor<[4], [1], f32, "cpu">
  %d = refgraph.tensor_op "aten::detach"(%n) aliases [0] {no_grad} : (!refgraph.tensor<[2, 4], [4, 1], f32, "cpu">) -> !refgraph.tensor<[2, 4], [4, 1], f32, "cpu">
  %w = refgraph.tensor_op "aten::zero_"(%v) mutates [0] {no_grad} : (!refgraph.tensor<[4], [1], f32, "cpu">) -> !refgraph.tensor<[4], [1], f32, "cpu">
  %r = refgraph.tensor_op "aten::mul.Tensor"(%x, %d) : (!refgraph.tensor<[2, 4], [4, 1], f32, "cpu">, !refgraph.tensor<[2, 4], [4, 1], f32, "cpu">) -> !refgraph.tensor<[2, 4], [4, 1], f32, "cpu">
  refgraph.yield %r : !refgraph.tensor<[2, 4], [4, 1], f32, "cpu">
}

// A program that runs its own backward says so, too.
// CHECK-LABEL: func.func @step
// CHECK: %[[N:.*]] = tssa.aten "aten::neg"
// CHECK-NEXT: tssa.access %[[N]] [#tssa.view<detach{{[^>]*}}>]
// CHECK: tssa.aten "pyjit::backward"([%{{.*}}], [%{{.*}}], [%{{.*}}])
refgraph.graph @step(%x: !refgraph.tensor<[4], [1], f32, "cpu">) {
  %n = refgraph.tensor_op "aten::neg"(%x) {no_grad} : (!refgraph.tensor<[4], [1], f32, "cpu">) -> !refgraph.tensor<[4], [1], f32, "cpu">
  %y = refgraph.tensor_op "aten::mul.Tensor"(%x, %n) : (!refgraph.tensor<[4], [1], f32, "cpu">, !refgraph.tensor<[4], [1], f32, "cpu">) -> !refgraph.tensor<[4], [1], f32, "cpu">
  %g = refgraph.tensor_op "pyjit::backward"([%y], [%n], [%x]) : (!refgraph.tensor<[4], [1], f32, "cpu">, !refgraph.tensor<[4], [1], f32, "cpu">, !refgraph.tensor<[4], [1], f32, "cpu">) -> !refgraph.tensor<[4], [1], f32, "cpu">
  refgraph.yield %g : !refgraph.tensor<[4], [1], f32, "cpu">
}
