// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What Python did in `def swish(x, beta): return x * torch.sigmoid(x * beta)`,
// called with eight numbers and beta = 2.
!T = !refgraph.tensor<[8], [1], f32, "cpu">
refgraph.trace @swish {
  %e = refgraph.external
  %x = refgraph.get %e arg(0, "x") type(0) : !T
  %b = refgraph.get %e arg(1, "beta") type(1) equals(2.0) : !refgraph.obj<"float">
  %0 = refgraph.tensor_op "aten::mul.Tensor"(%x, wrapped(2.0 : f64)) : (!T) -> !T
  %1 = refgraph.tensor_op "aten::sigmoid"(%0) : (!T) -> !T
  %2 = refgraph.tensor_op "aten::mul.Tensor"(%x, %1) : (!T, !T) -> !T
  refgraph.leave %2 : !T
}
