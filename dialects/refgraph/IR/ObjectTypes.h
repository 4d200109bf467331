//===- ObjectTypes.h - Python's types by their names ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_DIALECTS_REFGRAPH_IR_OBJECTTYPES_H
#define PYJIT_DIALECTS_REFGRAPH_IR_OBJECTTYPES_H

#include "dialects/refgraph/IR/RefGraph.h"

namespace pyjit::refgraph {

/// Whether values of `type` are objects of Python's type `name`.
inline bool isObject(mlir::Type type, llvm::StringRef name) {
  auto object = llvm::dyn_cast<ObjType>(type);
  return object && object.getName() == name;
}

inline bool isNumberType(mlir::Type type) {
  return isObject(type, "int") || isObject(type, "float");
}

} // namespace pyjit::refgraph

#endif // PYJIT_DIALECTS_REFGRAPH_IR_OBJECTTYPES_H
