//===- Pyjit.td - What stages tell each other --------------*- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_DIALECTS_PYJIT_IR_PYJIT_TD
#define PYJIT_DIALECTS_PYJIT_IR_PYJIT_TD

include "mlir/IR/DialectBase.td"

def Pyjit_Dialect : Dialect {
  let name = "pyjit";
  let cppNamespace = "::pyjit";
  let summary = "attributes by which one stage tells a later one what it knows";
  let description = [{
    No operations and no types: attributes of other dialects' functions, of
    their arguments, and of calls. Attributes.h in this folder lists them with
    where each stands and what it says; any other name with this prefix, or one
    in another place or of another kind, is an error.

    ```mlir
    func.func private @relu(%x: tensor<64xf32> {pyjit.param}) -> tensor<64xf32>
        attributes {pyjit.kernel, pyjit.grid = array<i32: 1, 1, 1>}
    ```
  }];
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
}

#endif
