//===- Passes.td - Kernels to PTX --------------------------*- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_CODEGEN_PTX_PASSES
#define PYJIT_CODEGEN_PTX_PASSES

include "mlir/Pass/PassBase.td"

// The GPU that schedules are chosen for.
defvar machine = [
  Option<"multiprocessors", "multiprocessors", "unsigned",
         "::pyjit::ptx::Machine().multiprocessors",
         "Multiprocessors of the GPU">,
  Option<"threadsPerMultiprocessor", "threads-per-multiprocessor", "unsigned",
         "::pyjit::ptx::Machine().threadsPerMultiprocessor",
         "Threads that one of them holds at once">,
  Option<"dependentLaunch", "dependent-launch", "bool",
         "::pyjit::ptx::Machine().dependentLaunch",
         "Whether kernels can wait for those in front of them (sm_90 and later)">
];

def PtxSplitReductions : Pass<"ptx-split-reductions", "mlir::ModuleOp"> {
  let summary = "Divide large reductions to few values into two kernels";
  let description = [{
    A kernel whose rows are too few to keep a GPU busy becomes a kernel that
    reduces parts of the rows, one that reduces the parts' results, and, if
    something larger follows, a third. Calls of the kernel become calls of these;
    the parts' results are tensors like all others. The cost model says when and
    in how many parts, unless `parts` does.

    ```mlir
    %r = call @sum(%x) : (tensor<1048576xf32>) -> tensor<f32>
    // becomes
    %p = call @sum_parts(%x) : (tensor<1048576xf32>) -> tensor<256xf32>
    %r = call @sum_whole(%p) : (tensor<256xf32>) -> tensor<f32>
    ```
  }];
  let options = machine # [
    Option<"parts", "parts", "int64_t", "0",
           "At most this many parts, whatever the cost model thinks">
  ];
  let dependentDialects = ["mlir::arith::ArithDialect",
                           "mlir::func::FuncDialect",
                           "mlir::linalg::LinalgDialect",
                           "mlir::tensor::TensorDialect"];
}

def PtxEmitKernels : Pass<"ptx-emit-kernels", "mlir::ModuleOp"> {
  let summary = "Emit linalg kernels as one GPU thread's work";
  let description = [{
    Every function with the unit attribute `pyjit.kernel` gets its schedule and
    is emitted into the nested module `@kernels` with one pointer per operand,
    then one per result. The function itself stays as a declaration that says
    how to launch: `pyjit.symbol`, `pyjit.grid`, `pyjit.block`, `pyjit.shared`
    (dynamic shared memory in bytes), `pyjit.align` (bytes that each pointer has
    to be aligned to) and `pyjit.schedule`.

    A kernel may come with a `pyjit.schedule` of its own, with `pyjit.align`,
    what its pointers are known to be aligned to (16 otherwise), and with
    `pyjit.indirect`, which says per pointer whether it points to the pointer. A
    schedule that does not fit is an error.

    With `dependent-launch` a kernel begins by waiting for the end of the one in
    front (`pyjit.waits`), so that the device may start it early. Its loads are
    no invariant ones then: they could pass the wait.

    ```mlir
    func.func private @relu(%x: tensor<64xf32>) -> tensor<64xf32>
        attributes {pyjit.kernel} { ... linalg.generic ... }
    // becomes
    func.func private @relu(tensor<64xf32>) -> tensor<64xf32>
        attributes {pyjit.kernel, pyjit.symbol = "relu_maximumf",
                    pyjit.grid = array<i32: 1, 1, 1>, ...}
    module @kernels {
      func.func @relu_maximumf(%x: !llvm.ptr<1>, %r: !llvm.ptr<1>) { ... }
    }
    ```
  }];
  let options = machine # [
    Option<"printSchedules", "print-schedules", "bool", "false",
           "Report each kernel's graph and schedule as a remark">
  ];
  let dependentDialects = ["mlir::arith::ArithDialect",
                           "mlir::func::FuncDialect",
                           "mlir::LLVM::LLVMDialect", "mlir::math::MathDialect",
                           "mlir::scf::SCFDialect",
                           "mlir::vector::VectorDialect"];
}

def PtxExpandMath : Pass<"ptx-expand-math", "mlir::ModuleOp"> {
  let summary = "Expand functions with the help of a GPU's instructions";
  let description = [{
    Runs before `codegen-expand-math`: `math.exp` of f32 and below becomes nine
    instructions around the special function unit's power of two, `arith.remf` a
    call of the C library's exact remainder. With `fastmath<afn>`, which stands
    on what is rounded to half precision afterwards, `math.exp`, `math.tanh`,
    `math.erf` and `arith.divf` of f32 become what the unit approximates.

    ```mlir
    %y = math.exp %x : f32
    // becomes math.fma, arith.* and
    %p = llvm.call_intrinsic "llvm.nvvm.ex2.approx"(%r) : (f32) -> f32
    ```
  }];
  let dependentDialects = ["mlir::arith::ArithDialect",
                           "mlir::func::FuncDialect",
                           "mlir::LLVM::LLVMDialect", "mlir::math::MathDialect",
                           "mlir::vector::VectorDialect"];
}

def PtxLowerKernels : Pass<"ptx-lower-kernels", "mlir::ModuleOp"> {
  let summary = "Lower emitted GPU kernels to the LLVM dialect";
  let description = [{
    Lowers everything in modules named `@kernels` to the LLVM dialect, ready for
    translation; the rest of the module is left alone. With `simulate` the code
    is for the host: thread numbers, barriers and exchanges between threads are
    calls of functions `pyjit_sim_*`, and a function `sim_NAME(ptr)` takes the
    kernel's pointers from an array.

    ```mlir
    module @kernels { func.func @k(%x: !llvm.ptr<1>) { ... } }
    // becomes
    module @kernels { llvm.func @k(%x: !llvm.ptr<1>) { ... } }
    ```
  }];
  let options = [
    Option<"simulate", "simulate", "bool", "false",
           "Code for the host, one call per thread">
  ];
  let dependentDialects = ["mlir::LLVM::LLVMDialect"];
}

#endif
