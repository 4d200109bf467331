//===- Calls.h - Building and matching vendor calls -------------*- C++ -*-===//

#ifndef PYJIT_LIB_LIBRARY_CALLS_H
#define PYJIT_LIB_LIBRARY_CALLS_H

#include "dialects/tssa/IR/Calls.h"

namespace pyjit::library {

using tssa::Argument;
using tssa::CallBuilder;
using tssa::constantArgument;
using tssa::functionalName;
using tssa::matchCall;
using tssa::numberArgument;
using tssa::onlyUser;
using tssa::tensorArgument;
using tssa::typeOf;
using tssa::wrappedArgument;

/// Whether the value is a parameter or computed from parameters alone.
bool isFromParameters(mlir::Value value);

} // namespace pyjit::library

#endif // PYJIT_LIB_LIBRARY_CALLS_H
