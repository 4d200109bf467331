//===- OperatorTables.cpp - the tables behind tssa as text ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What tests compare with eager PyTorch, and readers with their expectations.
//
//===----------------------------------------------------------------------===//

#include "OperatorTables.h"
#include "dialects/tssa/IR/TSSA.h"
#include "dialects/tssa/IR/Views.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Tools/mlir-translate/Translation.h"
#include "pyjit/Operators/OperatorFacts.h"
#include "pyjit/Operators/OperatorInfo.h"
#include "pyjit/Operators/Raises.h"
#include "pyjit/Operators/Recipe.h"

using namespace mlir;
using namespace pyjit;

static void registerDialects(DialectRegistry &registry) {
  registry.insert<func::FuncDialect>();
  tssa::registerTSSADialect(registry);
}

static LogicalResult printRecipes(Operation *top, raw_ostream &os) {
  unsigned number = 0;
  top->walk([&](tssa::AtenOp op) {
    os << "call " << number++ << " " << op.getOverload();
    FailureOr<operators::Recipe> recipe = failure();
    if (op.getNumResults() == 1)
      recipe = operators::resolveRecipe(
          op.getOverload(), op.getArgs(), op.getInputs().getTypes(),
          cast<RankedTensorType>(op.getResult(0).getType()));
    if (failed(recipe)) {
      os << " library\n";
      return;
    }
    os << "\n";
    operators::print(os, *recipe);
  });
  return success();
}

static LogicalResult printViews(Operation *top, raw_ostream &os) {
  unsigned number = 0;
  top->walk([&](tssa::AccessOp op) {
    auto source = cast<RankedTensorType>(op.getSource().getType());
    RankedTensorType shown = tssa::inferPathType(
        op.getPath(), source, [&] { return op.emitError(); });
    os << "path " << number++ << "\n  strides [";
    llvm::interleaveComma(tssa::getStrides(shown), os);
    os << "]\n  map " << tssa::getPathMap(op.getPath(), source) << "\n";
    os << "  injective " << tssa::isInjective(op.getPath(), source) << "\n";
    if (std::optional<tssa::AssignRule> rule =
            tssa::getAssignRule(op.getPath(), source)) {
      os << "  assign " << rule->map << "\n";
      if (rule->condition) {
        os << "  where ";
        rule->condition.print(os);
        os << "\n";
      }
    }
  });
  return success();
}

/// Facts that no schema states, and the operators that each is stated of.
static void printFacts(raw_ostream &os) {
  os << "\n## Facts\n\nWhat neither schemas nor torch's tags state. Their "
        "meanings are in lib/Operators/OperatorBase.td. `NAME.*`: all "
        "overloads of an operator; `LIBRARY::*`: all operators of a "
        "library.\n\n| fact | operators |\n| --- | --- |\n";
  for (const operators::FactStatement &fact : operators::getFactStatements()) {
    os << "| " << fact.kind;
    if (!fact.value.empty())
      os << " " << fact.value;
    os << " |";
    SmallVector<StringRef> names;
    fact.operators.split(names, ' ');
    for (StringRef name : names)
      os << " `" << name << "`";
    os << " |\n";
  }
}

static LogicalResult printCoverage(Operation *, raw_ostream &os) {
  static const char *const kinds[] = {"pure",   "view",     "mutation",
                                      "random", "metadata", "dynamic"};
  static const char *const lowerings[] = {"vendor call", "own kernel", "view",
                                          "own kernel by rule",
                                          "in-place form"};
  // Records of ours are parts of what lowers an overload.
  auto overloads = llvm::make_filter_range(
      operators::getOperators(), [](const operators::OperatorInfo &info) {
        return !StringRef(info.name).starts_with("pyjit::");
      });
  unsigned counts[5] = {};
  for (const operators::OperatorInfo &info : overloads)
    ++counts[static_cast<unsigned>(info.lowering)];
  os << "# Operators\n\n"
     << "Generated from lib/Operators/*.td by `pyjit-translate "
        "--operators-to-markdown`; a test keeps it current. How to read and "
        "extend the table: lib/Operators/README.md.\n\n"
     << std::distance(overloads.begin(), overloads.end()) << " overloads: ";
  for (unsigned i = 1; i < 5; ++i)
    os << counts[i] << " " << lowerings[i] << ", ";
  os << counts[0]
     << " vendor call. An overload that is not listed runs as a vendor call "
        "whose effects are those of its schema.\n\n"
     << "| overload | class | lowering | in-place form of, or view kind |\n"
     << "| --- | --- | --- | --- |\n";
  for (const operators::OperatorInfo &info : overloads) {
    os << "| `" << info.name << "` | "
       << kinds[static_cast<unsigned>(info.kind)] << " | "
       << lowerings[static_cast<unsigned>(info.lowering)] << " | ";
    if (info.lowering == operators::Lowering::InPlace)
      os << "`" << info.functional << "`";
    else
      os << info.rule;
    os << " |\n";
  }
  // Which calls have to run for the error that they may raise.
  auto list = [&](StringRef title, operators::Raising when) {
    os << "\n" << title << ":";
    for (const operators::OperatorInfo &info : operators::getOperators())
      if (operators::lookupRaising(info.name) == when)
        os << " `" << info.name << "`";
    os << "\n";
  };
  os << "\n## Errors\n\nThese overloads raise for some values of their "
        "operands. "
        "test/Operators/test_errors.py finds out which.\n";
  list("Always", operators::Raising::Always);
  list("Where their result is one of integers",
       operators::Raising::WithIntegers);
  printFacts(os);
  return success();
}

void pyjit::registerOperatorTableTranslations() {
  TranslateFromMLIRRegistration recipes(
      "tssa-to-recipes", "the steps that compute each tssa.aten",
      [](Operation *op, raw_ostream &os) { return printRecipes(op, os); },
      registerDialects);
  TranslateFromMLIRRegistration views(
      "tssa-to-views", "strides, index map and assign rule of each tssa.access",
      [](Operation *op, raw_ostream &os) { return printViews(op, os); },
      registerDialects);
  TranslateFromMLIRRegistration coverage(
      "operators-to-markdown", "the operator table as a page of documentation",
      [](Operation *op, raw_ostream &os) { return printCoverage(op, os); },
      registerDialects);
}
