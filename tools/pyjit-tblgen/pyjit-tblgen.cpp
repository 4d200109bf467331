//===- pyjit-tblgen.cpp - what the build makes of TableGen files ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Generators.h"

#include "llvm/Support/CommandLine.h"
#include "llvm/TableGen/Main.h"
#include "llvm/TableGen/Record.h"

using namespace llvm;
using namespace pyjit::tblgen;

namespace {
enum class Action {
  OperatorTable,
  OperatorDerivatives,
  OperatorFactKinds,
  OperatorFacts,
  OperatorNames,
  TraceBuilderDecls,
  TraceBuilderDefs
};

bool write(Action action, raw_ostream &os, const RecordKeeper &records) {
  switch (action) {
  case Action::OperatorTable:
    return emitOperatorTable(os, records);
  case Action::OperatorDerivatives:
    return emitOperatorDerivatives(os, records);
  case Action::OperatorFactKinds:
    return emitOperatorFactKinds(os, records);
  case Action::OperatorFacts:
    return emitOperatorFacts(os, records);
  case Action::OperatorNames:
    return emitOperatorNames(os, records);
  case Action::TraceBuilderDecls:
    return emitTraceBuilderDecls(os, records);
  case Action::TraceBuilderDefs:
    return emitTraceBuilderDefs(os, records);
  }
  llvm_unreachable("unknown action");
}
} // namespace

int main(int argc, char **argv) {
  cl::opt<Action> action(
      cl::desc("What to write:"), cl::Required,
      cl::values(
          clEnumValN(Action::OperatorTable, "gen-operator-table",
                     "the operator table, as C++ data"),
          clEnumValN(Action::OperatorDerivatives, "gen-operator-derivatives",
                     "the column of derivatives, as C++ data"),
          clEnumValN(Action::OperatorFactKinds, "gen-operator-fact-kinds",
                     "the kinds of facts about operators, as macros"),
          clEnumValN(Action::OperatorFacts, "gen-operator-facts",
                     "the facts, as C++ data"),
          clEnumValN(Action::OperatorNames, "gen-operator-names",
                     "a constant for each operator's name"),
          clEnumValN(Action::TraceBuilderDecls, "gen-trace-builder-decls",
                     "the typed trace builder's C API"),
          clEnumValN(Action::TraceBuilderDefs, "gen-trace-builder-defs",
                     "its implementation")));
  cl::ParseCommandLineOptions(argc, argv);
  return TableGenMain(argv[0],
                      [&](raw_ostream &os, const RecordKeeper &records) {
                        return write(action, os, records);
                      });
}
