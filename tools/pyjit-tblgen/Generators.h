//===- Generators.h - What pyjit-tblgen writes ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_TBLGEN_GENERATORS_H
#define PYJIT_TBLGEN_GENERATORS_H

namespace llvm {
class raw_ostream;
class RecordKeeper;
} // namespace llvm

namespace pyjit::tblgen {

/// The operator table (lib/Operators/*.td) as C++ data. True: an error.
bool emitOperatorTable(llvm::raw_ostream &os,
                       const llvm::RecordKeeper &records);

/// The column of derivatives (lib/Operators/Derivatives.td) as C++ data. True:
/// an error.
bool emitOperatorDerivatives(llvm::raw_ostream &os,
                             const llvm::RecordKeeper &records);

/// Facts about operators (lib/Operators/Facts.td): the lists of their kinds, as
/// macros for C and C++; the facts, as C++ data; a constant for each operator's
/// name. True: an error.
bool emitOperatorFactKinds(llvm::raw_ostream &os,
                           const llvm::RecordKeeper &records);
bool emitOperatorFacts(llvm::raw_ostream &os,
                       const llvm::RecordKeeper &records);
bool emitOperatorNames(llvm::raw_ostream &os,
                       const llvm::RecordKeeper &records);

/// Of each operation that may stand in a trace, as the trace builder's C API
/// shows it: a struct of its operands, attributes and result types, and a
/// function that appends one. True: an error.
bool emitTraceBuilderDecls(llvm::raw_ostream &os,
                           const llvm::RecordKeeper &records);
/// ... and those functions' definitions, for lib/CAPI.
bool emitTraceBuilderDefs(llvm::raw_ostream &os,
                          const llvm::RecordKeeper &records);

} // namespace pyjit::tblgen

#endif // PYJIT_TBLGEN_GENERATORS_H
