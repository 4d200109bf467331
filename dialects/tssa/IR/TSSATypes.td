// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef PYJIT_DIALECTS_TSSA_IR_TSSATYPES_TD
#define PYJIT_DIALECTS_TSSA_IR_TSSATYPES_TD

include "dialects/tssa/IR/TSSADialect.td"
include "mlir/IR/AttrTypeBase.td"

def TSSA_RefType : TypeDef<TSSA_Dialect, "Ref"> {
  let mnemonic = "ref";
  let summary = "handle of a tensor in memory";
  let description = [{
    What a PyTorch tensor object is: a place whose contents change, possibly
    seen through several views. Exists on the imperative level only.

    ```mlir
    !tssa.ref<tensor<4x8xf32>>
    ```
  }];
  let parameters = (ins "::mlir::RankedTensorType":$tensor);
  let assemblyFormat = "`<` $tensor `>`";
}

#endif
