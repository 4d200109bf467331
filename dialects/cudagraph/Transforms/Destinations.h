//===- Destinations.h - Calls that write where they are told ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_DIALECTS_CUDAGRAPH_TRANSFORMS_DESTINATIONS_H
#define PYJIT_DIALECTS_CUDAGRAPH_TRANSFORMS_DESTINATIONS_H

#include "dialects/cudagraph/IR/CudaGraph.h"

namespace pyjit::cudagraph {

/// Lets a call with one result write a new buffer of the program's instead, if
/// its operator has a form that computes the same there (`DestinationForm` in
/// the operator table). Returns the call that replaces it, whose last operand
/// is that buffer; null where there is none.
CallOp giveDestination(CallOp call);

} // namespace pyjit::cudagraph

#endif // PYJIT_DIALECTS_CUDAGRAPH_TRANSFORMS_DESTINATIONS_H
