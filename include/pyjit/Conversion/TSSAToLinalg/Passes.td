//===- Passes.td - tssa to linalg --------------------------*- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_CONVERSION_TSSATOLINALG_PASSES
#define PYJIT_CONVERSION_TSSATOLINALG_PASSES

include "mlir/Pass/PassBase.td"

def ConvertTSSAToLinalg : Pass<"convert-tssa-to-linalg", "mlir::func::FuncOp"> {
  let summary = "Lower functional tssa to linalg on tensors";
  let description = [{
    Operators whose record in the operator table has a recipe become
    `linalg.generic` operations, one per step; accesses and assignments become
    generics with affine indexing maps. Operators without a recipe stay
    `tssa.aten`, vendor calls, and a `tssa.access` stays where a vendor call or
    the return reads it.

    ```mlir
    %v = tssa.access %x [#tssa.view<permute [1, 0]>]
        : tensor<4x8xf32> -> tensor<8x4xf32, #tssa.strides<[1, 8]>>
    // for a kernel becomes
    %v = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d1, d0)>,
                                          affine_map<(d0, d1) -> (d0, d1)>], ...}
    ```
  }];
  let options = [
    Option<"explain", "explain", "bool", "false",
           "Report why an operator stays a vendor call">
  ];
  let dependentDialects = ["mlir::arith::ArithDialect",
                           "mlir::linalg::LinalgDialect",
                           "mlir::math::MathDialect",
                           "mlir::tensor::TensorDialect"];
}

def BatchLoops : Pass<"batch-loops", "mlir::func::FuncOp"> {
  let summary = "Turn parallel loops into one more dimension";
  let description = [{
    A loop that `tssa-parallelize-loops` has marked, with constant bounds and
    nothing but linalg and views at its own index in its body, becomes its body's
    operations with the iterations as their first dimension: one kernel over all
    of them, which threads share, instead of one small kernel for each. Runs after
    `convert-tssa-to-linalg`; any other loop is left as it is.

    ```mlir
    func.func @f(%x: tensor<4x3xf32>) -> tensor<4x3xf32> {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c4 = arith.constant 4 : index
      %s = arith.constant 2.0 : f32
      %r = scf.for %i = %c0 to %c4 step %c1 iter_args(%t = %x) -> (tensor<4x3xf32>) {
        %0 = tssa.access %t [#tssa.view<select [0, ?]>] (%i) : tensor<4x3xf32> -> tensor<3xf32>
        %e = tensor.empty() : tensor<3xf32>
        %1 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>],
            iterator_types = ["parallel"]} ins(%0 : tensor<3xf32>) outs(%e : tensor<3xf32>) {
        ^bb0(%a: f32, %o: f32):
          %m = arith.mulf %a, %s : f32
          linalg.yield %m : f32
        } -> tensor<3xf32>
        %2 = tssa.assign %t, %1 [#tssa.view<select [0, ?]>] (%i) : tensor<4x3xf32>, tensor<3xf32>
        scf.yield %2 : tensor<4x3xf32>
      } {tssa.parallel}
      return %r : tensor<4x3xf32>
    }
    // gives generics over 4x3 elements and no loop
    ```
  }];
  let statistics = [
    Statistic<"numBatched", "batched-loops", "Loops that became a dimension">
  ];
  let dependentDialects = ["mlir::arith::ArithDialect",
                           "mlir::linalg::LinalgDialect",
                           "mlir::tensor::TensorDialect"];
}

def VerifyInitialized : Pass<"verify-initialized", "mlir::func::FuncOp"> {
  let summary = "Refuse programs that read memory nobody is seen to write";
  let description = [{
    Some operators allocate with `aten::empty` and fill the memory out of the
    dispatcher's sight (`max_pool1d`). Seen from outside, uninitialised memory
    is then returned or read: such a program is an error, and eager answers the
    call. Overwriting uninitialised memory, in part or whole, is fine.

    ```mlir
    %0 = tssa.aten "aten::empty.memory_format"([4 : i64], none, none, none, none, none) : () -> tensor<4xf32>
    return %0 : tensor<4xf32> // error: uninitialised memory is read
    ```
  }];
}

#endif
