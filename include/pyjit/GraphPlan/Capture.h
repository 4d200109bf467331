//===- Capture.h - What a CUDA graph can hold -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_GRAPHPLAN_CAPTURE_H
#define PYJIT_GRAPHPLAN_CAPTURE_H

#include "mlir/IR/BuiltinAttributes.h"
#include "llvm/ADT/StringRef.h"

namespace pyjit::graphplan {

/// Why a vendor call cannot be captured into a graph, as an end of the
/// sentence "… stays outside of graphs: …"; empty if it can.
///
/// An overload that waits for the device, that allocates by what it finds
/// there, or that draws random numbers (their state advances on the host) stays
/// outside; so does one that the operator table does not know.
///
/// `args`: the call's arguments (lib/Operators/CallArguments). A call that
/// could draw random numbers does not if its probability is zero.
llvm::StringRef whyNotCaptured(llvm::StringRef overload, mlir::ArrayAttr args);

} // namespace pyjit::graphplan

#endif // PYJIT_GRAPHPLAN_CAPTURE_H
