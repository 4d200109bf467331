//===- OperatorTable.cpp - writes the operator table as C++ ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Joins the records of lib/Operators/*.td: a Schema per overload and, where
// there is one, its lowering. Argument effects and in-place forms come from the
// schemas themselves.
//
//===----------------------------------------------------------------------===//

#include "Generators.h"
#include "Schema.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/TableGen/Error.h"
#include "llvm/TableGen/Record.h"
#include <map>

using namespace llvm;
using namespace pyjit::tblgen;

namespace {

/// Flattens one expression into table nodes.
class Flattener {
public:
  Flattener(const Overload &overload, raw_ostream &os)
      : overload(overload), os(os) {}

  unsigned count = 0;

  void emit(const Init *init, StringRef leafName) {
    if (isa<UnsetInit>(init)) {
      auto local = locals.find(leafName);
      if (local != locals.end())
        return node("Local", local->second);
      return node("Argument", argument(leafName));
    }
    if (auto *number = dyn_cast<IntInit>(init))
      return node("Number", 0, "None", std::to_string(number->getValue()));
    if (auto *number = dyn_cast<StringInit>(init))
      return node("Number", 0, "None", number->getValue().str());
    auto *dag = dyn_cast<DagInit>(init);
    if (!dag)
      fail("unexpected leaf " + init->getAsString());
    const Record *op = cast<DefInit>(dag->getOperator())->getDef();
    StringRef name = op->getName();
    if (op->isSubClassOf("ScalarNode")) {
      ++count;
      os << "    {TableOp::Scalar, ScalarOp::" << name
         << ", 0, TableDims::None, 0, nullptr},\n";
      return children(dag, 0);
    }
    if (name == "Raw" || name == "Channel" || name == "Negated" ||
        name == "Exact" || name == "Inverse")
      return node(name, argument(dag->getArgNameStr(0)));
    if (name == "IterIndex")
      return node(name, cast<IntInit>(dag->getArg(0))->getValue());
    if (name == "IfNone" || name == "IfTrue" || name == "IfDivisor" ||
        name == "IfConstant" || name == "IfNumberOnDevice" ||
        name == "IfLastOnCPU") {
      node(name, argument(dag->getArgNameStr(0)));
      return children(dag, 1);
    }
    if (name == "IfString") {
      node(name, argument(dag->getArgNameStr(0)), "None", "0",
           "\"" + cast<StringInit>(dag->getArg(1))->getValue().str() + "\"");
      return children(dag, 2);
    }
    if (name == "IfNumber") {
      const Init *number = dag->getArg(1);
      node(name, argument(dag->getArgNameStr(0)), "None",
           isa<StringInit>(number) ? cast<StringInit>(number)->getValue().str()
                                   : number->getAsString());
      return children(dag, 2);
    }
    if (name == "Let") {
      unsigned index = nextLocal++;
      node(name, index);
      emit(dag->getArg(1), dag->getArgNameStr(1));
      StringRef local = dag->getArgNameStr(0);
      auto outer = locals.find(local);
      std::optional<unsigned> hidden;
      if (outer != locals.end())
        hidden = outer->second;
      locals[local] = index;
      emit(dag->getArg(2), dag->getArgNameStr(2));
      locals.erase(local);
      if (hidden)
        locals[local] = *hidden;
      return;
    }
    if (name.starts_with("Reduce") || name == "Count") {
      emitReduction(name, dag);
      return;
    }
    node(name, 0);
    children(dag, 0);
  }

private:
  const Overload &overload;
  raw_ostream &os;
  StringMap<unsigned> locals;
  unsigned nextLocal = 0;

  [[noreturn]] void fail(const Twine &message) {
    PrintFatalError(overload.lowering->getLoc(),
                    overload.name + ": " + message);
  }

  unsigned argument(StringRef name) {
    int index = overload.find(name);
    if (index < 0)
      fail("'" + name + "' is no argument of " + overload.text);
    return index;
  }

  void node(StringRef op, unsigned index, StringRef dims = "None",
            StringRef number = "0", StringRef text = "nullptr") {
    ++count;
    os << "    {TableOp::" << op << ", ScalarOp::Const, " << index
       << ", TableDims::" << dims << ", " << number << ", " << text << "},\n";
  }

  void children(const DagInit *dag, unsigned first) {
    for (unsigned i = first; i < dag->getNumArgs(); ++i)
      emit(dag->getArg(i), dag->getArgNameStr(i));
  }

  void emitReduction(StringRef name, const DagInit *dag) {
    const Init *dims = dag->getArg(1);
    if (isa<UnsetInit>(dims)) {
      node(name, argument(dag->getArgNameStr(1)), "Argument");
    } else {
      auto *over = cast<DagInit>(dims);
      StringRef which = cast<DefInit>(over->getOperator())->getDef()->getName();
      if (which == "Last")
        node(name, argument(over->getArgNameStr(0)), "Last");
      else
        node(name, 0, "Every");
    }
    emit(dag->getArg(0), dag->getArgNameStr(0));
  }
};

/// Arguments that take part in type promotion.
unsigned promotedMask(const Overload &overload) {
  static const StringSet<> scalars = {"self", "other", "exponent", "min",
                                      "max"};
  static const StringSet<> never = {"condition", "mask"};
  unsigned mask = 0;
  for (auto [i, arg] : enumerate(overload.arguments)) {
    StringRef type = StringRef(arg.type);
    type.consume_back("?");
    if ((type == "Tensor" && !never.contains(arg.name)) ||
        (type == "Scalar" && scalars.contains(arg.name)))
      mask |= 1u << i;
  }
  return mask;
}

/// Whether a pure overload takes what an in-place one takes.
bool takesTheSame(const Overload &form, const Overload &overload) {
  return form.kind == "Pure" &&
         form.arguments.size() == overload.arguments.size() &&
         llvm::all_of(zip(form.arguments, overload.arguments), [](auto pair) {
           auto &[a, b] = pair;
           return a.type == b.type && a.name == b.name;
         });
}

/// The functional overload that an in-place one stands for: same argument
/// types, base name without the closing underscore, and the same overload name,
/// or else (`pow_.Scalar`, `pow.Tensor_Scalar`) another one.
std::string findFunctionalForm(const Overload &overload,
                               const std::map<std::string, Overload> &all) {
  if (overload.arguments.empty() || !overload.arguments[0].mutated ||
      llvm::count_if(overload.arguments, [](auto &a) { return a.mutated; }) !=
          1)
    return "";
  auto [base, suffix] = StringRef(overload.name).split('.');
  if (!base.consume_back("_") || base.ends_with("_"))
    return "";
  std::string name = base.str() + (suffix.empty() ? "" : "." + suffix.str());
  if (auto form = all.find(name);
      form != all.end() && takesTheSame(form->second, overload))
    return name;
  for (auto form = all.lower_bound(base.str() + ".");
       form != all.end() &&
       StringRef(form->first).starts_with(base.str() + ".");
       ++form)
    if (takesTheSame(form->second, overload))
      return form->first;
  return "";
}

/// Gives each overload the record that lowers it. False after an error.
bool attachLowerings(const RecordKeeper &records,
                     std::map<std::string, Overload> &all) {
  for (const Record *record : records.getAllDerivedDefinitions("Lowering")) {
    auto found = all.find(record->getValueAsString("Name").str());
    if (found == all.end()) {
      PrintError(record->getLoc(),
                 "no schema of " + record->getValueAsString("Name"));
      return false;
    }
    if (found->second.lowering) {
      PrintError(record->getLoc(), "a second lowering of " + found->first);
      return false;
    }
    found->second.lowering = record;
  }
  return !ErrorsPrinted;
}

/// Writes the arrays that an overload's row points to into `os`, the row into
/// `table`.
void emitOverload(raw_ostream &os, raw_ostream &table, unsigned number,
                  const std::string &name, const Overload &overload,
                  const std::map<std::string, Overload> &all) {
  os << "static const ArgumentInfo arguments" << number << "[] = {\n";
  for (const Argument &arg : overload.arguments)
    os << "    {\"" << arg.name << "\", \"" << arg.type << "\", " << arg.mutated
       << ", " << arg.aliased << "},\n";
  // An array may not be empty.
  if (overload.arguments.empty())
    os << "    {\"\", \"\", false, false},\n";
  os << "};\n";
  std::string lowering = "Library", compute = "Result", result = "Stated";
  std::string numbers = "Wide";
  std::string rule, functional = findFunctionalForm(overload, all);
  unsigned nodes = 0;
  if (const Record *record = overload.lowering) {
    if (record->isSubClassOf("View") || record->isSubClassOf("Structured")) {
      lowering = record->isSubClassOf("View") ? "View" : "Structured";
      rule = record->getValueAsString("Rule").str();
    } else if (record->isSubClassOf("Op")) {
      lowering = "Recipe";
      compute = record->getValueAsString("Compute").str();
      result = record->getValueAsString("Result").str();
      numbers = record->getValueAsString("Numbers").str();
      os << "static const TableNode nodes" << number << "[] = {\n";
      Flattener flattener(overload, os);
      flattener.emit(record->getValueAsDag("Expression"), "");
      nodes = flattener.count;
      os << "};\n";
    }
  } else if (!functional.empty()) {
    lowering = "InPlace";
  }
  table << "    {\"" << name << "\", R\"_(" << overload.text
        << ")_\", OperatorClass::" << overload.kind << ", {arguments" << number
        << ", " << overload.arguments.size() << "}, Lowering::" << lowering
        << ", ComputeRule::" << compute << ", ResultRule::" << result << ", "
        << promotedMask(overload) << "u, ";
  if (nodes)
    table << "{nodes" << number << ", " << nodes << "}";
  else
    table << "{}";
  table << ", \"" << rule << "\", \"" << functional
        << "\", NumberRule::" << numbers << "},\n";
}

/// Which overloads raise, and whether only with integers. False after an error.
bool emitRaising(raw_ostream &os, const RecordKeeper &records,
                 const std::map<std::string, Overload> &all) {
  std::map<std::string, bool> raising;
  for (const Record *record : records.getAllDerivedDefinitions("Raises")) {
    std::string name = record->getValueAsString("Name").str();
    bool integers = record->getValueAsBit("Integers");
    if (!all.count(name) || !raising.emplace(name, integers).second) {
      PrintError(record->getLoc(), "no schema of, or a second time, " + name);
      return false;
    }
  }
  os << "static const std::pair<llvm::StringRef, Raising> raising[] = {\n";
  for (const auto &[name, integers] : raising)
    os << "    {\"" << name
       << "\", Raising::" << (integers ? "WithIntegers" : "Always") << "},\n";
  os << "};\n";
  return true;
}

} // namespace

bool pyjit::tblgen::emitOperatorTable(raw_ostream &os,
                                      const RecordKeeper &records) {
  std::map<std::string, Overload> all = readSchemas(records);
  if (!attachLowerings(records, all))
    return true;
  os << "// Written by pyjit-tblgen from lib/Operators/Operators.td.\n";
  std::string rows;
  raw_string_ostream table(rows);
  unsigned number = 0;
  for (auto &[name, overload] : all)
    emitOverload(os, table, number++, name, overload, all);
  os << "static const OperatorInfo operators[] = {\n" << rows << "};\n";
  return !emitRaising(os, records, all);
}
