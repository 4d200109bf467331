//===- Passes.td - Operations to kernels -------------------*- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

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

def FusionSplitReductions
    : Pass<"fusion-split-reductions", "mlir::func::FuncOp"> {
  let summary = "Reduce much to few values in parts, which threads share";
  let description = [{
    A reduction of at least 65536 elements for each of fewer than eight units of
    work (results, or blocks of 32 columns) becomes one of `parts` equal parts
    (fewer where no dimension divides) and one of the parts' results. So does one
    over an operand of 1 MiB and more whose rows have 512 columns or more, such as
    a weight that one row is multiplied with: threads then read whole rows, one
    after the other, where they would read some columns of each. Reductions that ask for the index in the only dimension that
    divides stay, and so do those that start from a value which joining would
    count twice.

    ```mlir
    %s = linalg.generic ... ins(%x : tensor<1048576xf32>) outs(%zero : tensor<f32>) // sum
    // becomes
    %v = linalg.generic ... ins(%x) outs(... : tensor<16x65536xf32>) // the same elements
    %p = linalg.generic ... ins(%v) outs(... : tensor<16xf32>) // sums of parts
    %s = linalg.generic ... ins(%p) outs(%zero : tensor<f32>)
    ```
  }];
  let options = [
    Option<"parts", "parts", "int64_t", "16", "Parts to make; less than 2: none">
  ];
  let statistics = [Statistic<"numSplit", "split", "Reductions split">];
  let dependentDialects = ["mlir::arith::ArithDialect",
                           "mlir::linalg::LinalgDialect",
                           "mlir::tensor::TensorDialect"];
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

    With `attention` the kernels of few queries times keys, of the softmax over
    these and of the values so weighted are one, where nobody else reads what is
    in between (pyjit/Codegen/Attention.h).
  }];
  let options = [
    Option<"maxGroupSize", "max-group-size", "unsigned", "48",
           "Operations in a kernel; 1: each operation is one">,
    Option<"maxRecomputeCost", "max-recompute-cost", "unsigned", "12",
           "What several kernels compute again instead of reading it may cost, "
           "in additions for an element">,
    Option<"updatesApart", "updates-apart", "bool", "false",
           "No kernel that reduces stores an input's new contents">,
    Option<"attention", "attention", "bool", "false",
           "Few queries' softmax between two sums of products is one kernel">
  ];
  let statistics = [
    Statistic<"numKernels", "kernels", "Kernels made">,
    Statistic<"numShared", "shared", "Calls of a kernel that existed already">
  ];
  let dependentDialects = ["mlir::func::FuncDialect",
                           "mlir::linalg::LinalgDialect",
                           "mlir::tensor::TensorDialect"];
}

def FusionKeepParts : Pass<"fusion-keep-parts", "mlir::func::FuncOp"> {
  let summary = "Mark writes to parts of inputs that no kernel should compute whole";
  let description = [{
    Where the new contents of an input (`pyjit.updates`) are made by writes to
    parts alone (`tssa.assign`, vendor calls such as `index_copy_`), of at most
    half of its elements, and whoever looks at an older value can do so before
    the next write, these are marked with `pyjit.part`. A marked assignment stays
    what it is, where `convert-tssa-to-linalg` makes a kernel over all elements
    of others. Fusion and the order of launches keep readers of the older values
    in front (nothing of that is relied on: `fusion-in-place` proves it).

    ```mlir
    %0 = tssa.assign %cache, %k [#tssa.view<select [1, s0]>] {pyjit.part} : tensor<4x64x8xf32>, tensor<4x8xf32>
    ```
  }];
  let statistics = [
    Statistic<"numKept", "kept", "Inputs of which only parts are written">
  ];
}

def FusionInPlace : Pass<"fusion-in-place", "mlir::ModuleOp"> {
  let summary = "Let kernels write the new contents of inputs where they belong";
  let description = [{
    Decides for each of a function's `pyjit.updates` whether the kernel that
    computes the new contents may leave them in the input's memory. What is left
    out is copied there at the launch's end. The kernel may, where

    - the result has the input's type,
    - nothing behind the kernel reads what the input was,
    - the kernel itself reads of the input the element that it writes, at most,
      and before it writes it (`pyjit.may_overlap` on the kernel),
    - nothing that may fail, be interrupted or leave the call to others comes
      behind it: from the first write on, a launch runs to its end.

    For the last one, kernels that write inputs are moved to the function's end,
    with what reads their results.

    Where the new contents are made by part writes alone (`tssa.assign`, vendor
    calls that the operator table has as `PartWrite`), each of them writes the
    part of the input itself, if nothing behind it reads what the input was. They
    go to the end, too, where nothing that may fail needs them. One that has
    something behind it that may fail, or is a vendor call, which may fail
    itself, has the attribute `pyjit.undo`: the launch saves the part before, and
    puts it back where it fails.

    ```mlir
    func.func @f(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32>
        attributes {pyjit.updates = [array<i64: 0, 0>]} {
      %0 = call @kernel_0(%x, %y) {pyjit.in_place = array<i64: 0>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      return %0 : tensor<4xf32>
    }
    func.func private @kernel_0(...) -> tensor<4xf32> attributes {pyjit.kernel, pyjit.may_overlap = [array<i64: 0, 0>]} ...
    ```
  }];
  let options = [
    Option<"reductions", "reductions", "bool", "true",
           "Also kernels that reduce">,
    Option<"branchesFirst", "branches-first", "bool", "false",
           "Nothing is written in front of a branch: a conditional node reads "
           "copies of inputs that are made in front of everything">,
    Option<"parts", "parts", "bool", "true",
           "Also parts of inputs, by the launch itself">,
    Option<"remarks", "remarks", "bool", "false",
           "Say what is copied at the end, and why">
  ];
  let statistics = [
    Statistic<"numInPlace", "in-place", "Inputs that are written in place">,
    Statistic<"numCopied", "copied", "Inputs that are copied to at the end">
  ];
}

#endif
