//===- pyjit-reduce.cpp - smaller IR of which a script says the same ------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//   pyjit-reduce FILE.mlir --test SCRIPT [-o REDUCED.mlir]
//
// SCRIPT is given a file and exits with 1 where what is looked for is still in
// it, and with 0 where it is not, as for MLIR's reducer. That one erases ranges
// of operations whose results are still used; here an operation goes when
// nobody uses it, and before that an operand or an argument of the same type
// takes its place, so that every attempt is IR that verifies.
//
//===----------------------------------------------------------------------===//

#include "tools/LibraryOptions.h"

#include "pyjit/Compiler/Pipelines.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Support/FileUtilities.h"

#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/ToolOutputFile.h"

using namespace llvm;
using namespace mlir;

static cl::OptionCategory reduceOptions("Options of pyjit-reduce");
static cl::opt<std::string> inputFile(cl::Positional, cl::desc("FILE.mlir"),
                                      cl::init("-"), cl::cat(reduceOptions));
static cl::opt<std::string> outputFile("o", cl::desc("Where the result goes"),
                                       cl::init("-"), cl::cat(reduceOptions));
static cl::opt<std::string>
    script("test",
           cl::desc("Script that is given a file: exits with 1 where the fault "
                    "is still in it, with 0 where it is not"),
           cl::Required, cl::cat(reduceOptions));

namespace {

class Reducer {
public:
  explicit Reducer(ModuleOp module) : module(module) {}

  /// Whether the script says that the fault is there; an error where it cannot
  /// be asked.
  Expected<bool> isFaulty(ModuleOp candidate);
  /// Makes the module smaller until no attempt is left that keeps the fault.
  Error run();
  ModuleOp get() { return module.get(); }

private:
  /// Changes the operation of this number, in an order that stays the same for
  /// a copy; false where there is nothing to change.
  using Change = llvm::function_ref<bool(Operation *)>;
  Expected<bool> attempt(unsigned number, Change change);
  /// Tries a change on each operation, the last one first.
  Error sweep(Change change, bool &changed);

  OwningOpRef<ModuleOp> module;
};

SmallVector<Operation *> operationsOf(ModuleOp module) {
  SmallVector<Operation *> found;
  module.walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (op != module && !op->hasTrait<OpTrait::IsTerminator>())
      found.push_back(op);
  });
  return found;
}

Expected<bool> Reducer::isFaulty(ModuleOp candidate) {
  SmallString<128> path;
  int descriptor;
  if (std::error_code code = sys::fs::createTemporaryFile(
          "pyjit-reduce", "mlir", descriptor, path))
    return createStringError(code, "no temporary file: " + code.message());
  ToolOutputFile file(path, descriptor); // goes with its scope
  candidate.print(file.os(), OpPrintingFlags().enableDebugInfo());
  file.os().flush();
  std::string error;
  int status = sys::ExecuteAndWait(script, {StringRef(script), StringRef(path)},
                                   std::nullopt, {}, 0, 0, &error);
  if (status < 0)
    return createStringError(script + ": " + error);
  if (status > 1)
    return createStringError(script + ": exit status " + Twine(status) +
                             "; 1 says that the fault is there, 0 that it is "
                             "not");
  return status == 1;
}

Expected<bool> Reducer::attempt(unsigned number, Change change) {
  OwningOpRef<ModuleOp> copy(module->clone());
  if (!change(operationsOf(*copy)[number]))
    return false;
  ScopedDiagnosticHandler quiet(copy->getContext(),
                                [](Diagnostic &) { return success(); });
  if (failed(verify(*copy)))
    return false;
  Expected<bool> faulty = isFaulty(*copy);
  if (faulty && *faulty)
    module = std::move(copy);
  return faulty;
}

Error Reducer::sweep(Change change, bool &changed) {
  for (unsigned number = operationsOf(*module).size(); number-- > 0;) {
    if (number >= operationsOf(*module).size())
      continue;
    Expected<bool> done = attempt(number, change);
    if (!done)
      return done.takeError();
    changed |= *done;
  }
  return Error::success();
}

/// A symbol whose users are still there makes a module that does not verify.
bool eraseUnused(Operation *op) {
  if (!op->use_empty())
    return false;
  op->erase();
  return true;
}

/// Values of the results' types that are there before the operation: its
/// operands, or the function's arguments.
bool replaceBy(Operation *op, ValueRange candidates) {
  if (!op->getNumResults() || op->use_empty())
    return false;
  for (Value result : op->getResults()) {
    auto same = llvm::find_if(candidates, [&](Value value) {
      return value.getType() == result.getType();
    });
    if (same == candidates.end())
      return false;
    result.replaceAllUsesWith(*same);
  }
  op->erase();
  return true;
}

bool replaceByOperand(Operation *op) {
  return replaceBy(op, op->getOperands());
}

bool replaceByArgument(Operation *op) {
  auto function = op->getParentOfType<FunctionOpInterface>();
  return function && replaceBy(op, function.getArguments());
}

Error Reducer::run() {
  for (bool changed = true; changed;) {
    changed = false;
    for (bool (*change)(Operation *) :
         {eraseUnused, replaceByOperand, replaceByArgument})
      if (Error error = sweep(change, changed))
        return error;
  }
  return Error::success();
}

int fail(const Twine &what) {
  errs() << "pyjit-reduce: error: " << what << "\n";
  return 1;
}

} // namespace

int main(int argc, char **argv) {
  InitLLVM init(argc, argv);
  pyjit::tools::hideLibraryOptions(&reduceOptions);
  cl::ParseCommandLineOptions(argc, argv, "makes IR with a fault smaller\n");
  DialectRegistry registry;
  pyjit::compiler::registerDialects(registry);
  MLIRContext context(registry);
  OwningOpRef<ModuleOp> module =
      parseSourceFile<ModuleOp>(inputFile.getValue(), &context);
  if (!module)
    return 1;
  std::string message;
  auto output = openOutputFile(outputFile, &message);
  if (!output)
    return fail(message);
  Reducer reducer(module.release());
  Expected<bool> faulty = reducer.isFaulty(reducer.get());
  if (!faulty)
    return fail(toString(faulty.takeError()));
  if (!*faulty)
    return fail("the script does not find the fault in " + inputFile);
  if (Error error = reducer.run())
    return fail(toString(std::move(error)));
  reducer.get().print(output->os());
  output->keep();
  return 0;
}
