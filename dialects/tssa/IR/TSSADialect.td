// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef PYJIT_DIALECTS_TSSA_IR_TSSADIALECT_TD
#define PYJIT_DIALECTS_TSSA_IR_TSSADIALECT_TD

include "mlir/IR/DialectBase.td"

def TSSA_Dialect : Dialect {
  let name = "tssa";
  let cppNamespace = "::pyjit::tssa";
  let summary = "what the tensors did: mutation and views, then neither";
  let description = [{
    Two levels in one dialect. On the imperative level `!tssa.ref` is a handle
    of a tensor in memory, which views share and stores change: what PyTorch
    means. On the functional level only builtin `tensor` values are left, and
    `tssa.access` and `tssa.assign` say what a view of a value shows and what
    writing through it makes of the value. See README.md in this folder.
  }];
  let useDefaultAttributePrinterParser = 1;
  let useDefaultTypePrinterParser = 1;
}

#endif
