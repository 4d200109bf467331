//===- Passes.td - Passes shared by the code generators ----*- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_CODEGEN_PASSES
#define PYJIT_CODEGEN_PASSES

include "mlir/Pass/PassBase.td"

def CodegenExpandMath : Pass<"codegen-expand-math", "mlir::ModuleOp"> {
  let summary = "Expand transcendental functions into arithmetic";
  let description = [{
    Replaces `math` operations on f32 scalars and vectors by branch-free
    polynomials whose error bounds stand in `lib/Codegen/README.md`; f16 and
    bf16 are computed in f32. What has no expansion, f64 included, becomes calls
    of the C library's function, one per lane.

    ```mlir
    %y = math.exp %x : vector<8xf32>
    // becomes math.fma, arith.* and arith.bitcast on vector<8xf32>
    %z = math.atan %w : f32
    // becomes func.call @atanf(%w) : (f32) -> f32
    ```
  }];
  let options = [
    Option<"nativeBF16", "native-bf16", "bool", "false",
           "Leave conversions of bf16 to the target">
  ];
  let dependentDialects = ["mlir::arith::ArithDialect",
                           "mlir::func::FuncDialect", "mlir::math::MathDialect",
                           "mlir::scf::SCFDialect",
                           "mlir::vector::VectorDialect"];
}

#endif
