//===- Objects.h - What the C API's handles stand for -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_LIB_CAPI_OBJECTS_H
#define PYJIT_LIB_CAPI_OBJECTS_H

#include "pyjit-c/Trace.h"

#include "pyjit/Compiler/Trace.h"

#include "mlir/IR/Builders.h"

#include <functional>

struct PyjitContext {
  std::shared_ptr<pyjit::compiler::Context> context;
};

struct PyjitText {
  std::string text;
};

/// A trace, and while it is built the values that it has so far.
struct PyjitTrace {
  pyjit::compiler::Trace trace;
  std::vector<mlir::Value> values;
  /// An operation was given a value that was never made.
  bool spoiled = false;
};

namespace pyjit {

inline llvm::StringRef toStringRef(PyjitString text) {
  return {text.data, text.size};
}
inline PyjitString toC(llvm::StringRef text) {
  return {text.data(), text.size()};
}

inline std::function<void(llvm::StringRef)> toFunction(PyjitDiagnosticFn tell,
                                                       void *user) {
  return [tell, user](llvm::StringRef text) {
    if (tell)
      tell(toC(text), user);
  };
}

} // namespace pyjit

#endif // PYJIT_LIB_CAPI_OBJECTS_H
