//===- pyjit-tblgen.cpp - what the build makes of TableGen files ----------===//

#include "Generators.h"

#include "llvm/Support/CommandLine.h"
#include "llvm/TableGen/Main.h"
#include "llvm/TableGen/Record.h"

using namespace llvm;
using namespace pyjit::tblgen;

namespace {
enum class Action { OperatorTable, TraceBuilderDecls, TraceBuilderDefs };
} // namespace

int main(int argc, char **argv) {
  cl::opt<Action> action(
      cl::desc("What to write:"), cl::Required,
      cl::values(clEnumValN(Action::OperatorTable, "gen-operator-table",
                            "the operator table, as C++ data"),
                 clEnumValN(Action::TraceBuilderDecls,
                            "gen-trace-builder-decls",
                            "the typed trace builder's C API"),
                 clEnumValN(Action::TraceBuilderDefs, "gen-trace-builder-defs",
                            "its implementation")));
  cl::ParseCommandLineOptions(argc, argv);
  return TableGenMain(argv[0],
                      [&](raw_ostream &os, const RecordKeeper &records) {
                        switch (action) {
                        case Action::OperatorTable:
                          return emitOperatorTable(os, records);
                        case Action::TraceBuilderDecls:
                          return emitTraceBuilderDecls(os, records);
                        case Action::TraceBuilderDefs:
                          return emitTraceBuilderDefs(os, records);
                        }
                        return true;
                      });
}
