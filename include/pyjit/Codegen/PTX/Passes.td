//===- Passes.td - Kernels to PTX --------------------------*- tablegen -*-===//

#ifndef PYJIT_CODEGEN_PTX_PASSES
#define PYJIT_CODEGEN_PTX_PASSES

include "mlir/Pass/PassBase.td"

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
  let options = [
    Option<"printSchedules", "print-schedules", "bool", "false",
           "Report each kernel's graph and schedule as a remark">
  ];
  let dependentDialects = ["mlir::arith::ArithDialect",
                           "mlir::func::FuncDialect",
                           "mlir::LLVM::LLVMDialect", "mlir::scf::SCFDialect",
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
