//===- Passes.td - Kernels to x86 machine code -------------*- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_CODEGEN_X86_PASSES
#define PYJIT_CODEGEN_X86_PASSES

include "mlir/Pass/PassBase.td"

def X86EmitKernels : Pass<"x86-emit-kernels", "mlir::ModuleOp"> {
  let summary = "Emit linalg kernels as loops over vectors";
  let description = [{
    Every function with the unit attribute `pyjit.kernel` gets its schedule and
    is emitted into the nested module `@kernels` with the machine signature
    `(ptr buffers, i64 begin, i64 end)`; the function itself stays as a
    declaration that carries `pyjit.work` and `pyjit.grain`. A kernel that no
    schedule fits is an error: the fusion plan does not make such kernels.

    ```mlir
    func.func private @relu(%x: tensor<64xf32>) -> tensor<64xf32>
        attributes {pyjit.kernel} { ... linalg.generic ... }
    // becomes
    func.func private @relu(tensor<64xf32>) -> tensor<64xf32>
        attributes {pyjit.kernel, pyjit.work = 1 : i64, pyjit.grain = 820 : i64}
    module @kernels {
      func.func @relu(%buffers: !llvm.ptr, %begin: i64, %end: i64) { ... }
    }
    ```
  }];
  let options = [
    Option<"vectorBits", "vector-bits", "unsigned", "256",
           "Width of the target's vectors">,
    Option<"prefetch", "prefetch", "bool", "true",
           "Ask for memory ahead of a core's own prefetcher">,
    Option<"printSchedules", "print-schedules", "bool", "false",
           "Report each kernel's graph and schedule as a remark">
  ];
  let dependentDialects = ["mlir::arith::ArithDialect",
                           "mlir::func::FuncDialect",
                           "mlir::LLVM::LLVMDialect", "mlir::scf::SCFDialect",
                           "mlir::vector::VectorDialect"];
}

def X86ShareKernels : Pass<"x86-share-kernels", "mlir::ModuleOp"> {
  let summary = "Make one function of emitted kernels that differ in numbers";
  let description = [{
    Kernels that prepare programs alone call (functions with `pyjit.prepare`)
    run once, so that their code need not know its sizes
    and strides. Where several are the same but for i64 constants and indices of
    `llvm.getelementptr`, they become one function with the numbers that differ
    as arguments, and each kernel calls that. Divisors within a unit's loops stay
    constants, and kernels with memory on the stack are left alone.

    ```mlir
    func.func @a(%b: !llvm.ptr, %i: i64, %j: i64) { ... arith.constant 64 : i64 ... }
    func.func @b(%b: !llvm.ptr, %i: i64, %j: i64) { ... arith.constant 96 : i64 ... }
    // becomes
    func.func private @a_shared(%b: !llvm.ptr, %i: i64, %j: i64, %n: i64) { ... }
    func.func @a(%b: !llvm.ptr, %i: i64, %j: i64) {
      %n = arith.constant 64 : i64
      call @a_shared(%b, %i, %j, %n) : (!llvm.ptr, i64, i64, i64) -> ()
      return
    }
    func.func @b(...) { ... arith.constant 96 : i64 ... call @a_shared ... }
    ```
  }];
  let dependentDialects = ["mlir::arith::ArithDialect",
                           "mlir::func::FuncDialect",
                           "mlir::LLVM::LLVMDialect"];
}

def X86LowerKernels : Pass<"x86-lower-kernels", "mlir::ModuleOp"> {
  let summary = "Lower emitted kernels to the LLVM dialect";
  let description = [{
    Lowers everything in modules named `@kernels` to the LLVM dialect, ready for
    translation; the rest of the module is left alone.

    ```mlir
    module @kernels { func.func @k(%b: !llvm.ptr, %i: i64, %j: i64) { ... } }
    // becomes
    module @kernels { llvm.func @k(%b: !llvm.ptr, %i: i64, %j: i64) { ... } }
    ```
  }];
  let dependentDialects = ["mlir::LLVM::LLVMDialect"];
}

#endif
