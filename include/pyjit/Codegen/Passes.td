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
    of the C library's function: one per lane or, with `vector-math-bits`, those of
    glibc's libmvec on whole vectors (`pyjit/Codegen/VectorMath.h`), and
    remainders of f32 are taken in double precision.

    ```mlir
    %y = math.exp %x : vector<8xf32>
    // becomes math.fma, arith.* and arith.bitcast on vector<8xf32>
    %z = math.atan %w : f32
    // becomes func.call @atanf(%w) : (f32) -> f32
    // or, of a vector<8xf32>, func.call @_ZGVdN8v_atanf(%w)
    ```
  }];
  let options = [
    Option<"nativeBF16", "native-bf16", "bool", "false",
           "Leave conversions of bf16 to the target">,
    Option<"vectorMathBits", "vector-math-bits", "unsigned", "0",
           "Bits of the vectors that libmvec is called with (128, 256, 512); 0: "
           "it is not called">
  ];
  let dependentDialects = ["mlir::arith::ArithDialect",
                           "mlir::func::FuncDialect", "mlir::math::MathDialect",
                           "mlir::scf::SCFDialect",
                           "mlir::vector::VectorDialect"];
}

#endif
