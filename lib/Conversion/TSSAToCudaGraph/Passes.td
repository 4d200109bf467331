//===- Passes.td - From planned functions to launch programs -*- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_CONVERSION_TSSATOCUDAGRAPH_PASSES_TD
#define PYJIT_CONVERSION_TSSATOCUDAGRAPH_PASSES_TD

include "mlir/Pass/PassBase.td"

def ConvertTSSAToCudaGraphPass
    : Pass<"convert-tssa-to-cudagraph", "::mlir::ModuleOp"> {
  let summary = "Turn functions of kernel calls into launch programs";
  let description = [{
    A function with the attribute `pyjit.device` whose body is calls of kernels,
    `tssa.aten` vendor calls and `tssa.access` views (docs/StageContracts.md, contract
    4) becomes a `cudagraph.program`: each value gets a buffer, each op a launch.
    Kernel results that are returned, or of which a view is that shows all of them,
    are written straight into outputs. A value lives on the host if
    `pyjit.device = "cpu"` stands on the argument or on the call that makes it.
    Functions without `pyjit.device` stay.

    ```mlir
    func.func private @k(tensor<8xf32>) -> tensor<8xf32> attributes {pyjit.kernel}
    func.func @f(%x: tensor<8xf32>) -> tensor<8xf32> attributes {pyjit.device = "cuda:0"} {
      %0 = call @k(%x) : (tensor<8xf32>) -> tensor<8xf32>
      return %0 : tensor<8xf32>
    }
    ```
    gives
    ```mlir
    cudagraph.program @f on "cuda:0" {
      %x = cudagraph.external input 0 : !cudagraph.buffer<tensor<8xf32>>
      %y = cudagraph.external output 0 : !cudagraph.buffer<tensor<8xf32>>
      cudagraph.kernel @k(%x) to (%y) : (!cudagraph.buffer<tensor<8xf32>>) -> (!cudagraph.buffer<tensor<8xf32>>)
      cudagraph.return %y : !cudagraph.buffer<tensor<8xf32>>
    }
    ```
  }];
  let dependentDialects = ["::pyjit::cudagraph::CudaGraphDialect"];
}

#endif
