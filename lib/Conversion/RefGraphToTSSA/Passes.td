//===- Passes.td - From recordings to tensors --------------*- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_CONVERSION_REFGRAPHTOTSSA_PASSES_TD
#define PYJIT_CONVERSION_REFGRAPHTOTSSA_PASSES_TD

include "mlir/Pass/PassBase.td"

def ConvertRefGraphToTSSAPass
    : Pass<"convert-refgraph-to-tssa", "::mlir::ModuleOp"> {
  let summary = "Turn a recorded graph into a function on tensor handles";
  let description = [{
    Each `refgraph.graph` becomes a `func.func` of the same name. A tensor of the
    recording is a handle (`!tssa.ref`): all versions of one node are the same
    handle, views are `tssa.view`s of it, an operator that writes becomes its
    functional counterpart and a `tssa.store`. `params` of the graph become `pyjit.param`
    argument attributes, and `holds` the `pyjit.elements` of an argument.

    Where tensors are on a device that is not the CPU (with `accelerator`: on the
    device of that name, be it the CPU), the function gets `pyjit.device`, and so
    do arguments and calls that are on the CPU all the same. A call gets
    `pyjit.vendor_call` if it meets tensors of both, other than numbers.

    What is to be differentiated becomes `pyjit.gradient_inputs` and
    `pyjit.gradient_results` of the function; the path of a view that is `no_grad`
    then ends with `#tssa.view<detach>`, and so does what other `no_grad` operators
    return or write.

    `refgraph.if` becomes `scf.if`, whose results are contents. `refgraph.while`
    becomes `scf.while`: loop-carried tensors go round by contents, with a 0-dim bool tensor that says whether the loop goes on.

    Fails on a decision that no pass folded and, naming the operator, on a view that no rule describes, on a second
    device, and where a program of a device writes a part of a tensor of the CPU. (The whole of one is the result of the
    operator's functional form, as a vendor call.)

    ```mlir
    refgraph.graph @f(%x: !refgraph.tensor<[4], [1], f32, "cpu">) {
      %y = refgraph.tensor_op "aten::neg"(%x) : (!refgraph.tensor<[4], [1], f32, "cpu">) -> !refgraph.tensor<[4], [1], f32, "cpu">
      refgraph.yield %y : !refgraph.tensor<[4], [1], f32, "cpu">
    }
    ```
    gives
    ```mlir
    func.func @f(%x: !tssa.ref<tensor<4xf32>>) -> tensor<4xf32> {
      %v = tssa.load %x : !tssa.ref<tensor<4xf32>>
      %n = tssa.aten "aten::neg"(%v) : (tensor<4xf32>) -> tensor<4xf32>
      %y = tssa.ref %n : !tssa.ref<tensor<4xf32>>
      %r = tssa.load %y : !tssa.ref<tensor<4xf32>>
      return %r : tensor<4xf32>
    }
    ```
  }];
  let dependentDialects = ["::mlir::func::FuncDialect",
                           "::mlir::scf::SCFDialect",
                           "::mlir::tensor::TensorDialect",
                           "::pyjit::tssa::TSSADialect"];
  let options = [
    Option<"accelerator", "accelerator", "std::string", "",
           "Treat this device as a GPU (\"cpu\": a simulated device, for tests); empty: every device but the CPU">
  ];
}

#endif // PYJIT_CONVERSION_REFGRAPHTOTSSA_PASSES_TD
