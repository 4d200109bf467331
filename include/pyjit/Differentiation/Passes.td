//===- Passes.td - Gradients of tensor programs -----------*- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_DIFFERENTIATION_PASSES_TD
#define PYJIT_DIFFERENTIATION_PASSES_TD

include "mlir/Pass/PassBase.td"

def DifferentiatePass : Pass<"tssa-differentiate", "::mlir::func::FuncOp"> {
  let summary = "Append the gradients of inputs to a functional program";
  let description = [{
    Reverse mode (Griewank and Walther, "Evaluating Derivatives", chapter 3) over
    values: nothing aliases and nothing is overwritten, so that what the reverse
    sweep needs of the forward one is simply there. The function gets an argument
    for the gradient of each result that `pyjit.gradient_results` names
    (`pyjit.gradient`), and, behind its results, one for the gradient of each
    input that `pyjit.gradient_inputs` names: the *joint* program, which
    `tssa-partition` divides. An input that no result depends on goes from the
    list. A function without these attributes stays as it is.

    Operators have their derivatives in the operator table
    (lib/Operators/Derivatives.td): expressions of operators, which have
    derivatives themselves, or rules (Rules*.cpp). The gradient of `tssa.access`
    is the view's inverse, a sum where the view repeats elements, or an assign
    into zeros; of `tssa.assign`, the part that was assigned, and the rest. A
    view of kind `detach` lets nothing pass.

    An operation on the way of a gradient that has no derivative is an error.

    With `mark-results=true`, the sum of the gradients that come to a result from
    others that were computed from it, and its own, is marked
    (`pyjit.gradient_at`): whoever looks at that result's gradient looks there.

    ```mlir
    func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0>} {
      %0 = tssa.aten "aten::exp"(%x) : (tensor<4xf32>) -> tensor<4xf32>
      return %0 : tensor<4xf32>
    }
    ```
    gives
    ```mlir
    func.func @f(%x: tensor<4xf32>, %g: tensor<4xf32> {pyjit.gradient = 0 : i64}) -> (tensor<4xf32>, tensor<4xf32>) attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0>} {
      %0 = tssa.aten "aten::exp"(%x) : (tensor<4xf32>) -> tensor<4xf32>
      %1 = tssa.aten "aten::mul.Tensor"(%g, %0) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      return %0, %1 : tensor<4xf32>, tensor<4xf32>
    }
    ```
  }];
  let options = [Option<"markResults", "mark-results", "bool", "false",
                        "Mark where gradients pass through results">];
  let dependentDialects = ["::pyjit::tssa::TSSADialect"];
}

def ExpandBackwardPass : Pass<"tssa-expand-backward", "::mlir::func::FuncOp"> {
  let summary = "Put the gradients in the place of a call of backward()";
  let description = [{
    A program that runs its own backward, as a whole training step does, has a
    call of `pyjit::backward`: of the tensors that gradients start from, their
    gradients, and the values whose gradients are its results. Reverse mode, as in
    `tssa-differentiate`, through what stands in front of it in the block. Behind
    the pass all is one program: what the gradients need of the forward part is
    there as a value, and an optimizer's update fuses with them.

    ```mlir
    func.func @f(%x: tensor<4xf32>, %g: tensor<4xf32>) -> tensor<4xf32> {
      %0 = tssa.aten "aten::exp"(%x) : (tensor<4xf32>) -> tensor<4xf32>
      %1 = tssa.aten "pyjit::backward"([%0], [%g], [%x]) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      return %1 : tensor<4xf32>
    }
    ```
    gives
    ```mlir
    func.func @f(%x: tensor<4xf32>, %g: tensor<4xf32>) -> tensor<4xf32> {
      %0 = tssa.aten "aten::exp"(%x) : (tensor<4xf32>) -> tensor<4xf32>
      %1 = tssa.aten "aten::mul.Tensor"(%g, %0) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      return %1 : tensor<4xf32>
    }
    ```
  }];
  let dependentDialects = ["::pyjit::tssa::TSSADialect"];
}

def PartitionPass : Pass<"tssa-partition", "::mlir::ModuleOp"> {
  let summary = "Divide a joint program into forward and backward";
  let description = [{
    What the gradients need of the forward program is either saved, as a further
    result of `@f` (`pyjit.saved` says how many there are), or computed again by
    `@f_backward`. A minimum cut decides: to save a value costs its bytes twice,
    once written and once read (almost nothing for inputs and results, which are
    there anyway), to compute it again the work of its operator, which is without
    limit for matmuls, reductions, random numbers and whatever only a vendor
    library computes. A result that a derivative reads is not computed again, for
    its memory is what eager has saved, and somebody may write it; nor is one that
    is a view of a copy which nobody else sees (a reshape's). (The formulation of PyTorch's
    `min_cut_rematerialization_partition`, torch/_functorch/partitioners.py, with
    the costs of computing again as edges of their own.)

    An argument of `@f_backward` is an input of `@f` (`pyjit.input`), a result of
    it, shown or saved (`pyjit.result`), or the gradient of one
    (`pyjit.gradient`). Its results are the gradients of the inputs that its
    `pyjit.gradient_inputs` lists; `pyjit.reaches` says of each of them which
    results' gradients it depends on, `pyjit.reads` which inputs of `@f`, and
    `pyjit.varies_with` which of these it varies with, in eager's eyes. Results
    whose gradients never meet where something saved is read are in different
    `pyjit.groups`: eager goes backward from each of them by itself. Where
    results were computed from others (`pyjit.gradient_at`), `pyjit.leads` says
    from which ones, `pyjit.reaches_directly` which gradients of inputs they
    have beside these, and `pyjit.keeps` whether something is saved on the way.

    ```mlir
    func.func @f(%x: tensor<4xf32>, %g: tensor<4xf32> {pyjit.gradient = 0 : i64}) -> (tensor<4xf32>, tensor<4xf32>) attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0>} {
      %0 = tssa.aten "aten::exp"(%x) : (tensor<4xf32>) -> tensor<4xf32>
      %1 = tssa.aten "aten::mul.Tensor"(%g, %0) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      return %0, %1 : tensor<4xf32>, tensor<4xf32>
    }
    ```
    gives
    ```mlir
    func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> attributes {pyjit.gradient_results = array<i64: 0>, pyjit.saved = 0 : i64} {
      %0 = tssa.aten "aten::exp"(%x) : (tensor<4xf32>) -> tensor<4xf32>
      return %0 : tensor<4xf32>
    }
    func.func @f_backward(%y: tensor<4xf32> {pyjit.result = 0 : i64}, %g: tensor<4xf32> {pyjit.gradient = 0 : i64}) -> tensor<4xf32> attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.reaches = [array<i64: 0>], pyjit.reads = [array<i64: 0>], pyjit.varies_with = [array<i64: 0>]} {
      %0 = tssa.aten "aten::mul.Tensor"(%g, %y) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      return %0 : tensor<4xf32>
    }
    ```

    A parameter that has a gradient is marked `pyjit.trained`: a training loop
    writes it with each step, so that nothing computed from it is kept from call
    to call. `parameters-last=true` is for calls that find it as the one before
    did, and leaves the mark out.
  }];
  let options = [Option<"parametersLast", "parameters-last", "bool", "false",
                        "Parameters with gradients stay what they are for "
                        "several calls">];
  let dependentDialects = ["::pyjit::tssa::TSSADialect"];
}

def SelectGradientsPass
    : Pass<"tssa-select-gradients", "::mlir::func::FuncOp"> {
  let summary = "Make a program of the gradients alone of a joint one";
  let description = [{
    The results that `tssa-differentiate` found are dropped, the gradients stay,
    and are to be differentiated themselves: by what they were gradients of, and
    by the gradients that they were computed from. `tssa-differentiate` and
    `tssa-partition` behind it make the program for gradients of gradients
    (`create_graph=True`).

    Random numbers are drawn once more, those that no gradient needs, too: the
    program runs with the generators as they were. Which way a branch on data
    goes (`tssa.speculate`) is known by then. Of operators that may do anything
    nobody knows what they do the next time, and they are refused where a
    gradient needs them, or later random numbers do.

    ```mlir
    func.func @f(%x: tensor<4xf32>, %g: tensor<4xf32> {pyjit.gradient = 0 : i64}) -> (tensor<4xf32>, tensor<4xf32>) attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.gradient_results = array<i64: 0>} {
      %0 = tssa.aten "aten::exp"(%x) : (tensor<4xf32>) -> tensor<4xf32>
      %1 = tssa.aten "aten::mul.Tensor"(%g, %0) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      return %0, %1 : tensor<4xf32>, tensor<4xf32>
    }
    ```
    gives
    ```mlir
    func.func @f(%x: tensor<4xf32>, %g: tensor<4xf32>) -> tensor<4xf32> attributes {pyjit.gradient_inputs = array<i64: 0, 1>, pyjit.gradient_results = array<i64: 0>} {
      %0 = tssa.aten "aten::exp"(%x) : (tensor<4xf32>) -> tensor<4xf32>
      %1 = tssa.aten "aten::mul.Tensor"(%g, %0) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      return %1 : tensor<4xf32>
    }
    ```
  }];
  let dependentDialects = ["::pyjit::tssa::TSSADialect"];
}

def DropGradientsPass : Pass<"tssa-drop-gradients", "::mlir::func::FuncOp"> {
  let summary = "Make a backward program for calls of which not all results count";
  let description = [{
    Where nothing that counts depends on some results of `@f`, the engine has no
    gradients of these. They are not zeros: a saved infinity times zero is nan,
    and a saved tensor that only they need may have been written since. Gradients
    are linear in those that come in, so that what is computed from a dropped one
    alone is dropped, and of a sum its other part is left. Arguments that nothing
    reads any more go, and so do results without anything that they depend on.

    With `stop=true`, gradients that come to another result of `@f` go no further
    (`pyjit.gradient_at`): they are results of the program, behind the gradients
    of inputs (`pyjit.stops`). Somebody looks at them there.

    With `results=1`:
    ```mlir
    func.func @f_backward(%y: tensor<4xf32> {pyjit.result = 0 : i64}, %g: tensor<4xf32> {pyjit.gradient = 0 : i64}, %h: tensor<4xf32> {pyjit.gradient = 1 : i64}) -> tensor<4xf32> attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.reaches = [array<i64: 0, 1>], pyjit.reads = [array<i64: 0>], pyjit.varies_with = [array<i64: 0>]} {
      %0 = tssa.aten "aten::mul.Tensor"(%h, %y) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      %1 = tssa.aten "aten::add.Tensor"(%g, %0, 1 : i64) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      return %1 : tensor<4xf32>
    }
    ```
    gives
    ```mlir
    func.func @f_backward(%g: tensor<4xf32> {pyjit.gradient = 0 : i64}) -> tensor<4xf32> attributes {pyjit.gradient_inputs = array<i64: 0>, pyjit.reaches = [array<i64: 0, 1>], pyjit.reads = [array<i64: 0>], pyjit.varies_with = [array<i64: 0>]} {
      return %g : tensor<4xf32>
    }
    ```
  }];
  let options = [ListOption<"dropped", "results", "int64_t",
                            "Results of the forward program without gradients">,
                 Option<"stop", "stop", "bool", "false",
                        "Give gradients of results that others come to">];
  let dependentDialects = ["::pyjit::tssa::TSSADialect"];
}

#endif // PYJIT_DIFFERENTIATION_PASSES_TD
