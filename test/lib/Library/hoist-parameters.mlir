// RUN: pyjit-opt %s --library-hoist-parameters | FileCheck %s

// CHECK-LABEL: func.func @f(
// CHECK-SAME: %[[X:.*]]: tensor<4xf32>, %{{.*}}: tensor<4xf32> {pyjit.param}, %[[E:.*]]: tensor<4xf32> {pyjit.cached = 0 : i64})
// CHECK-NEXT: %[[R:.*]] = tssa.aten "aten::mul.Tensor"(%[[X]], %[[E]])
// CHECK-NEXT: return %[[R]]
// CHECK: func.func @f_prepare(%[[W:.*]]: tensor<4xf32> {pyjit.input = 1 : i64})
// CHECK: tssa.aten "aten::exp"(%[[W]])
func.func @f(%x: tensor<4xf32>, %w: tensor<4xf32> {pyjit.param}) -> tensor<4xf32> {
  %0 = tssa.aten "aten::exp"(%w) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = tssa.aten "aten::mul.Tensor"(%x, %0) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// Random numbers are drawn anew at each call, and a view alone stays.
// CHECK-LABEL: func.func @stays
// CHECK: aten::bernoulli
// CHECK: tssa.access
// CHECK-NOT: @stays_prepare
func.func @stays(%w: tensor<4xf32> {pyjit.param}, %v: tensor<2x4xf32> {pyjit.param}) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = tssa.aten "aten::bernoulli"(%w, none) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = tssa.access %v [#tssa.view<select [0, 1]>] : tensor<2x4xf32> -> tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}
