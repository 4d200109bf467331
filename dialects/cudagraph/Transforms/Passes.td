//===- Passes.td - Passes of the cudagraph dialect ---------*- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_CUDAGRAPH_PASSES_TD
#define PYJIT_CUDAGRAPH_PASSES_TD

include "mlir/Pass/PassBase.td"

def PlaceDataPass : Pass<"cudagraph-place-data", "::pyjit::cudagraph::ProgramOp"> {
  let summary = "Give kernels device copies of the host data that they read";
  let description = [{
    A number on the host reaches a kernel by `cudagraph.host_value`, which later
    becomes a parameter of a node: the value that the call finds is the value
    that the kernel sees, and no graph has to be left for it. A host tensor of
    several elements is copied. Both, and calls that touch host memory alone,
    move to the front of the program, so that they do not part graphs (PyGraph,
    section 4.1, which does this for the user's own copies).

    ```mlir
    cudagraph.program @f on "cuda:0" {
      %s = cudagraph.external input 0 : !cudagraph.buffer<tensor<f32>, host>
      %y = cudagraph.external output 0 : !cudagraph.buffer<tensor<8xf32>>
      cudagraph.kernel @k(%s) to (%y) : (!cudagraph.buffer<tensor<f32>, host>) -> (!cudagraph.buffer<tensor<8xf32>>)
      cudagraph.return %y : !cudagraph.buffer<tensor<8xf32>>
    }
    ```
    gives
    ```mlir
    cudagraph.program @f on "cuda:0" {
      %s = cudagraph.external input 0 : !cudagraph.buffer<tensor<f32>, host>
      %0 = cudagraph.buffer : !cudagraph.buffer<tensor<f32>>
      cudagraph.host_value %s to %0 : !cudagraph.buffer<tensor<f32>, host>, !cudagraph.buffer<tensor<f32>>
      %y = cudagraph.external output 0 : !cudagraph.buffer<tensor<8xf32>>
      cudagraph.kernel @k(%0) to (%y) : (!cudagraph.buffer<tensor<f32>>) -> (!cudagraph.buffer<tensor<8xf32>>)
      cudagraph.return %y : !cudagraph.buffer<tensor<8xf32>>
    }
    ```
  }];
}

def FormGraphsPass : Pass<"cudagraph-form-graphs", "::pyjit::cudagraph::ProgramOp"> {
  let summary = "Put what can be captured into graphs";
  let description = [{
    Partitions the program around what cannot be captured (a call that draws
    random numbers, waits for the device or touches host memory) instead of
    giving up: each longest run of other launches becomes a `cudagraph.graph`,
    if it has at least `min-launches`. A vendor call inside reads a copy of an
    external buffer that is not stable, because its node would hold the address;
    what a vendor call inside allocates and the caller gets is copied to an
    output of its own, so that no replay overwrites what a caller holds. Both
    copies stand where memory is needed for the shortest time: in front of the
    first reader, and behind what made the result. Where the operator has a form
    that writes where it is told (`DestinationForm` in the operator table), the
    call becomes that, and the copy is patchable. A loop
    or branch whose body can be captured becomes a conditional node; its body
    reads copies of what moves, too, since no replay renews its nodes. Otherwise
    the host decides it.

    ```mlir
    cudagraph.program @f on "cuda:0" {
      %x = cudagraph.external input 0 : !cudagraph.buffer<tensor<8xf32>>
      %y = cudagraph.external output 0 : !cudagraph.buffer<tensor<8xf32>>
      %t = cudagraph.buffer : !cudagraph.buffer<tensor<8xf32>>
      cudagraph.kernel @a(%x) to (%t) : (!cudagraph.buffer<tensor<8xf32>>) -> (!cudagraph.buffer<tensor<8xf32>>)
      cudagraph.kernel @b(%t) to (%y) : (!cudagraph.buffer<tensor<8xf32>>) -> (!cudagraph.buffer<tensor<8xf32>>)
      cudagraph.return %y : !cudagraph.buffer<tensor<8xf32>>
    }
    ```
    puts both kernels into `cudagraph.graph externals(%x, %y)`.
  }];
  let options = [
    Option<"minLaunches", "min-launches", "unsigned", "2",
           "Fewest kernels and calls that make a graph">,
    Option<"explain", "explain", "bool", "false",
           "Remark on what stays outside and why">
  ];
}

def FuseHorizontallyPass : Pass<"cudagraph-fuse-horizontally", "::mlir::ModuleOp"> {
  let summary = "Make one launch of equal kernels that do not depend on each other";
  let description = [{
    Updates of parameters and of running statistics are many launches of little
    work. Launches in one block whose kernels are equal but for their names, and
    element by element, become one launch in the place of the last of them, if
    nothing between it and the others reads what these write or writes what they
    touch; or else in the place of the first one, likewise (conversions of
    weights, each of which is read at once). Its kernel has the parts' operands one behind the other, then the
    parts' results, and the attribute `pyjit.batch`, by which a GPU's code
    generator makes one part's code and lets each block choose its part's
    buffers (horizontal fusion: Li et al., 2020; `multi_tensor_apply` of
    PyTorch's foreach functions). Launches that move more than `most-bytes` go
    past none but others that are fused, since their operands would have to live
    for longer. Copies of few bytes are such launches, too.

    ```mlir
    func.func private @a(%x: tensor<8xf32>) -> tensor<8xf32> attributes {pyjit.kernel} {
      return %x : tensor<8xf32>
    }
    func.func private @b(%x: tensor<8xf32>) -> tensor<8xf32> attributes {pyjit.kernel} {
      return %x : tensor<8xf32>
    }
    cudagraph.program @f on "cuda:0" {
      %x = cudagraph.external input 0 : !cudagraph.buffer<tensor<8xf32>>
      %y = cudagraph.external output 0 : !cudagraph.buffer<tensor<8xf32>>
      %z = cudagraph.external output 1 : !cudagraph.buffer<tensor<8xf32>>
      cudagraph.kernel @a(%x) to (%y) : (!cudagraph.buffer<tensor<8xf32>>) -> (!cudagraph.buffer<tensor<8xf32>>)
      cudagraph.kernel @b(%x) to (%z) : (!cudagraph.buffer<tensor<8xf32>>) -> (!cudagraph.buffer<tensor<8xf32>>)
      cudagraph.return %y, %z : !cudagraph.buffer<tensor<8xf32>>, !cudagraph.buffer<tensor<8xf32>>
    }
    ```
    gives `cudagraph.kernel @a_x2(%x, %x) to (%y, %z)`.
  }];
  let options = [
    Option<"mostBytes", "most-bytes", "int64_t", "1048576",
           "Most bytes that a launch reads and writes to be moved past others">
  ];
  let dependentDialects = ["::mlir::func::FuncDialect",
                           "::mlir::linalg::LinalgDialect",
                           "::mlir::tensor::TensorDialect"];
}

def PlanMemoryPass : Pass<"cudagraph-plan-memory", "::pyjit::cudagraph::ProgramOp"> {
  let summary = "Place buffers in one arena and release vendor results";
  let description = [{
    Gives each `cudagraph.buffer` an offset in one arena, such that two buffers
    overlap only where their lifetimes do not (greedy best fit by size, as in
    Pisarchyk and Lee, 2020, section 4.3), and inserts `cudagraph.release` after
    the last use of what a vendor call allocated. What one iteration of a loop may
    leave for the next lives as long as the loop. What stands in for external buffers (patchable copies) lies
    behind all other buffers, and overlaps among itself alone: a replay that uses
    the external buffers needs no memory for it.

    ```mlir
    cudagraph.program @f on "cuda:0" {
      %y = cudagraph.external output 0 : !cudagraph.buffer<tensor<8xf32>>
      %t = cudagraph.buffer : !cudagraph.buffer<tensor<8xf32>>
      cudagraph.kernel @a() to (%t) : () -> (!cudagraph.buffer<tensor<8xf32>>)
      cudagraph.kernel @b(%t) to (%y) : (!cudagraph.buffer<tensor<8xf32>>) -> (!cudagraph.buffer<tensor<8xf32>>)
      cudagraph.return %y : !cudagraph.buffer<tensor<8xf32>>
    }
    ```
    gives `%t = cudagraph.buffer at 0` and a program with `arena 256`.
  }];
}

def IndirectParamsPass : Pass<"cudagraph-indirect-params", "::mlir::ModuleOp"> {
  let summary = "Make versions of kernels that find external buffers in a table";
  let description = [{
    A kernel inside a graph that touches external buffers that are not stable
    gets a second version, with the attribute `pyjit.indirect`, whose parameters
    for these buffers are addresses of words that hold the buffers' addresses
    (PyGraph, section 4.2). A replay then renews the words and no node. Which of the two is
    launched is measured (`cudagraph-select`). Runs before kernels become code.

    So does a kernel whose sizes differ between calls. Its version has the
    attribute `pyjit.device_sizes`: symbols stand in words, too, and blocks
    behind those that the sizes ask for leave at once, so that one grid serves
    all sizes up to some.

    ```mlir
    func.func private @k(tensor<8xf32>) -> tensor<8xf32> attributes {pyjit.kernel}
    cudagraph.program @f on "cuda:0" {
      %x = cudagraph.external input 0 : !cudagraph.buffer<tensor<8xf32>>
      %y = cudagraph.external output 0 : !cudagraph.buffer<tensor<8xf32>>
      cudagraph.graph externals(%x, %y : !cudagraph.buffer<tensor<8xf32>>, !cudagraph.buffer<tensor<8xf32>>) {
        cudagraph.kernel @k(%x) to (%y) : (!cudagraph.buffer<tensor<8xf32>>) -> (!cudagraph.buffer<tensor<8xf32>>)
        cudagraph.yield
      }
      cudagraph.return %y : !cudagraph.buffer<tensor<8xf32>>
    }
    ```
    gives `cudagraph.kernel @k(%x) to (%y) indirect @k_indirect_0_1 [0, 1]`.
  }];
  let dependentDialects = ["::mlir::func::FuncDialect"];
}

def SelectPass : Pass<"cudagraph-select", "::pyjit::cudagraph::ProgramOp"> {
  let summary = "State which ways to launch a program are worth measuring";
  let description = [{
    `plain`: every launch by itself; `copy`: graphs that own copies of every
    external buffer; `table`: graphs whose kernels find external buffers in a
    table; `update`: graphs whose nodes that touch external buffers get new
    parameters. The runtime measures what is listed, on the first calls' real
    inputs, whole calls interleaved and repeated, and keeps the fastest. A program
    without graphs has only `plain`; `copy` is left out where the copies alone
    would move more than `max-copy-bytes`.

    ```mlir
    cudagraph.program @f on "cuda:0" {
      cudagraph.return
    }
    ```
    gives `cudagraph.program @f on "cuda:0" variants ["plain"]`.
  }];
  let options = [
    Option<"maxCopyBytes", "max-copy-bytes", "int64_t", "33554432",
           "Most bytes of external buffers that a copying graph may have">
  ];
}

#endif // PYJIT_CUDAGRAPH_PASSES_TD
