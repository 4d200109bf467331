//===- Passes.td - tssa to linalg --------------------------*- tablegen -*-===//

#ifndef PYJIT_CONVERSION_TSSATOLINALG_PASSES
#define PYJIT_CONVERSION_TSSATOLINALG_PASSES

include "mlir/Pass/PassBase.td"

def ConvertTSSAToLinalg : Pass<"convert-tssa-to-linalg", "mlir::func::FuncOp"> {
  let summary = "Lower functional tssa to linalg on tensors";
  let description = [{
    Operators whose record in the operator table has a recipe become
    `linalg.generic` operations, one per step; accesses and assignments become
    generics with affine indexing maps. Operators without a recipe stay
    `tssa.aten`, library calls, and a `tssa.access` stays where a library call or
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
           "Report why an operator stays a library call">
  ];
  let dependentDialects = ["mlir::arith::ArithDialect",
                           "mlir::linalg::LinalgDialect",
                           "mlir::math::MathDialect",
                           "mlir::tensor::TensorDialect"];
}

#endif
