//===- PythonValues.h - immutable Python values as attributes ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Keys, constants and guarded values, in builtin attributes only:
//
//   3                 IntegerAttr of i64 (wider types: big ints)
//   2.0 : f64         FloatAttr of f64
//   true              BoolAttr
//   "s"               StringAttr
//   none              TypeAttr of NoneType
//   ("a", 3)          ArrayAttr: a tuple
//   ellipsis          {ellipsis}
//   bytes("…")        {bytes = "…"}
//   complex(a, b)     {complex = [a, b]}
//   object 7          {object = 7 : i64}: entry 7 of the object table
//
//===----------------------------------------------------------------------===//

#ifndef PYJIT_DIALECTS_REFGRAPH_IR_PYTHONVALUES_H
#define PYJIT_DIALECTS_REFGRAPH_IR_PYTHONVALUES_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/OpImplementation.h"

namespace pyjit::refgraph {

mlir::Attribute getPyNone(mlir::MLIRContext *context);
mlir::Attribute makePyEllipsis(mlir::MLIRContext *context);
mlir::Attribute makePyBytes(mlir::MLIRContext *context, llvm::StringRef bytes);
mlir::Attribute makePyComplex(mlir::MLIRContext *context, double real,
                              double imaginary);
mlir::Attribute makePyObject(mlir::MLIRContext *context, int64_t index);
bool isPyNone(mlir::Attribute value);
bool isPyEllipsis(mlir::Attribute value);
/// The payload of `bytes`, `complex` and `object`, or null.
mlir::StringAttr getPyBytes(mlir::Attribute value);
mlir::ArrayAttr getPyComplex(mlir::Attribute value);
mlir::IntegerAttr getPyObject(mlir::Attribute value);

/// Whether `value` is one of the forms above, in depth.
bool isPyValue(mlir::Attribute value);
/// The Python type's name: "int", "float", "NoneType", ... ("object" for
/// an entry of the object table).
llvm::StringRef getPyTypeName(mlir::Attribute value);

mlir::ParseResult parsePyValue(mlir::OpAsmParser &parser,
                               mlir::Attribute &value);
void printPyValue(mlir::OpAsmPrinter &printer, mlir::Attribute value);

} // namespace pyjit::refgraph

#endif // PYJIT_DIALECTS_REFGRAPH_IR_PYTHONVALUES_H
