//===- Passes.td - Operations to kernels -------------------*- tablegen -*-===//

#ifndef PYJIT_FUSION_PASSES
#define PYJIT_FUSION_PASSES

include "mlir/Pass/PassBase.td"

def FusionPrintPlan : Pass<"fusion-print-plan", "mlir::func::FuncOp"> {
  let summary = "Report the fusion plan of a function as a remark";
  let description = [{
    Makes and verifies the plan, changes nothing.

    ```
    remark: 1 kernel
      kernel 0: linalg.generic, linalg.generic; 2 inputs, 1 result
    ```
  }];
}

def FusionOutline : Pass<"fusion-outline", "mlir::ModuleOp"> {
  let summary = "Put the groups of the fusion plan into kernels";
  let description = [{
    Each group becomes a call of a private function with the attribute
    `pyjit.kernel`; groups that compute the same thing call the same kernel.
    Afterwards no linalg operation is left outside of kernels, and operations
    with side effects have kept their order.

    ```mlir
    %0 = linalg.generic ... // exp
    %1 = linalg.generic ... // of %0: add
    // becomes
    %1 = call @kernel_0(%x, %y) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    ```
  }];
  let statistics = [
    Statistic<"numKernels", "kernels", "Kernels made">,
    Statistic<"numShared", "shared", "Calls of a kernel that existed already">
  ];
  let dependentDialects = ["mlir::func::FuncDialect",
                           "mlir::linalg::LinalgDialect",
                           "mlir::tensor::TensorDialect"];
}

def FusionPlanLibrary : Pass<"fusion-plan-library", "mlir::func::FuncOp"> {
  let summary = "Use packed weights and fused epilogues of library calls";
  let description = [{
    Where weights are parameters (arguments with `pyjit.param`): a convolution
    with an inference batch norm, a sum and an activation behind it becomes one
    oneDNN call with folded, packed weights; a linear layer becomes MKL's packed
    product. Folding and packing are operations on parameters only, which
    `fusion-hoist-parameters` moves out. A packed value is marked
    `pyjit.opaque`: its layout is the library's own.

    ```mlir
    %1 = tssa.aten "aten::linear"(%x, %w, %b) : ...
    // becomes
    %p = tssa.aten "mkl::_mkl_reorder_linear_weight"(%w, 256 : i64) {pyjit.opaque} : ...
    %1 = tssa.aten "mkl::_mkl_linear"(%x, %p, %w, %b, 256 : i64) : ...
    ```
  }];
  let dependentDialects = ["pyjit::tssa::TSSADialect"];
}

def FusionHoistParameters : Pass<"fusion-hoist-parameters", "mlir::ModuleOp"> {
  let summary = "Compute what parameters alone decide in a function of its own";
  let description = [{
    Operations whose operands all come from arguments with `pyjit.param` move
    into `@<f>_prepare`. Its arguments name the inputs of `@f` they stand for,
    `@f` takes its results as further arguments; the runtime calls it again when
    a parameter's version or address changes.

    ```mlir
    func.func @f(%x: ..., %w: ... {pyjit.param}) { %p = pack(%w) ; use(%x, %p) }
    // becomes
    func.func @f_prepare(%w: ... {pyjit.input = 1 : i64}) { %p = pack(%w) ; return %p }
    func.func @f(%x: ..., %w: ... {pyjit.param}, %p: ... {pyjit.cached = 0 : i64})
    ```
  }];
  let statistics = [Statistic<"numHoisted", "hoisted", "Values computed once">];
  let dependentDialects = ["mlir::func::FuncDialect"];
}

#endif
