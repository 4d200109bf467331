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

#endif
