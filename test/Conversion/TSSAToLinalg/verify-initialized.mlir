// RUN: pyjit-opt %s --verify-initialized --verify-diagnostics

func.func @overwritten(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = tssa.aten "aten::empty.memory_format"([4 : i64], none, none, none, none, none) : () -> tensor<4xf32>
  %1 = tssa.aten "aten::fill.Scalar"(%0, 2.0 : f64) : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

func.func @returned() -> tensor<4xf32> {
  // expected-error @below {{uninitialised memory is read}}
  %0 = tssa.aten "aten::empty.memory_format"([4 : i64], none, none, none, none, none) : () -> tensor<4xf32>
  // expected-note @below {{read here}}
  return %0 : tensor<4xf32>
}
