//===- RefGraphSyntax.h - directives of the ops' text format ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What `custom<...>` in RefGraphOps.td names.
//
//===----------------------------------------------------------------------===//

#ifndef PYJIT_DIALECTS_REFGRAPH_IR_REFGRAPHSYNTAX_H
#define PYJIT_DIALECTS_REFGRAPH_IR_REFGRAPHSYNTAX_H

#include "dialects/refgraph/IR/PythonValues.h"
#include "dialects/refgraph/IR/RefGraph.h"

namespace pyjit::refgraph {

using UnresolvedOperands =
    llvm::SmallVectorImpl<mlir::OpAsmParser::UnresolvedOperand>;

inline void printPyValue(mlir::OpAsmPrinter &printer, mlir::Operation *,
                         mlir::Attribute value) {
  printPyValue(printer, value);
}

/// `["a", 3]`
mlir::ParseResult parsePyValues(mlir::OpAsmParser &parser,
                                mlir::ArrayAttr &values);
void printPyValues(mlir::OpAsmPrinter &printer, mlir::Operation *op,
                   mlir::ArrayAttr values);

/// `arg(0, "x")`, `attr("n")`, `item(K)`, `code`, ...
mlir::ParseResult parseSelector(mlir::OpAsmParser &parser,
                                SelectorAttr &selector, mlir::Attribute &key,
                                mlir::StringAttr &label);
void printSelector(mlir::OpAsmPrinter &printer, mlir::Operation *op,
                   SelectorAttr selector, mlir::Attribute key,
                   mlir::StringAttr label);

/// `type(N) equals(V) is(N)`, each optional.
mlir::ParseResult parseChecks(mlir::OpAsmParser &parser,
                              mlir::IntegerAttr &exactType,
                              mlir::Attribute &equals,
                              mlir::IntegerAttr &identity);
void printChecks(mlir::OpAsmPrinter &printer, mlir::Operation *op,
                 mlir::IntegerAttr exactType, mlir::Attribute equals,
                 mlir::IntegerAttr identity);

mlir::ParseResult
parseSourceAndChecks(mlir::OpAsmParser &parser, SelectorAttr &selector,
                     mlir::Attribute &key, mlir::StringAttr &label,
                     mlir::IntegerAttr &exactType, mlir::Attribute &equals,
                     mlir::IntegerAttr &identity);
void printSourceAndChecks(mlir::OpAsmPrinter &printer, mlir::Operation *op,
                          SelectorAttr selector, mlir::Attribute key,
                          mlir::StringAttr label, mlir::IntegerAttr exactType,
                          mlir::Attribute equals, mlir::IntegerAttr identity);

/// `HOLDER -> RESULT`; only `RESULT` for arguments, whose holder has one type.
mlir::ParseResult parseGetTypes(mlir::OpAsmParser &parser,
                                SelectorAttr selector, mlir::Type &holder,
                                mlir::Type &result);
void printGetTypes(mlir::OpAsmPrinter &printer, mlir::Operation *op,
                   SelectorAttr selector, mlir::Type holder, mlir::Type result);

/// Types that follow from the op: nothing is written.
mlir::ParseResult parseIntType(mlir::OpAsmParser &parser, mlir::Type &type);
void printIntType(mlir::OpAsmPrinter &printer, mlir::Operation *op,
                  mlir::Type type);
mlir::ParseResult parseExternalType(mlir::OpAsmParser &parser,
                                    mlir::Type &type);
void printExternalType(mlir::OpAsmPrinter &printer, mlir::Operation *op,
                       mlir::Type type);
mlir::ParseResult parseConstantType(mlir::OpAsmParser &parser,
                                    mlir::Attribute value, mlir::Type &type);
void printConstantType(mlir::OpAsmPrinter &printer, mlir::Operation *op,
                       mlir::Attribute value, mlir::Type type);

/// `(args…) aliases [0] mutates [1]`
mlir::ParseResult parseTensorCall(mlir::OpAsmParser &parser,
                                  UnresolvedOperands &operands,
                                  mlir::ArrayAttr &args,
                                  mlir::DenseI64ArrayAttr &aliases,
                                  mlir::DenseI64ArrayAttr &mutates);
void printTensorCall(mlir::OpAsmPrinter &printer, mlir::Operation *op,
                     mlir::OperandRange operands, mlir::ArrayAttr args,
                     mlir::DenseI64ArrayAttr aliases,
                     mlir::DenseI64ArrayAttr mutates);

/// `true`, `false` or `open`.
mlir::ParseResult parseOutcome(mlir::OpAsmParser &parser,
                               mlir::BoolAttr &outcome);
void printOutcome(mlir::OpAsmPrinter &printer, mlir::Operation *op,
                  mlir::BoolAttr outcome);

} // namespace pyjit::refgraph

#endif // PYJIT_DIALECTS_REFGRAPH_IR_REFGRAPHSYNTAX_H
