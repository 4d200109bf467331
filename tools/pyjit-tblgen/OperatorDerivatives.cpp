//===- OperatorDerivatives.cpp - writes the column of derivatives ---------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Flattens the expressions of lib/Operators/Derivatives.td into nodes
// (include/pyjit/Operators/Derivatives.h), in prefix order, with the defaults
// that a call leaves out.
//
//===----------------------------------------------------------------------===//

#include "Generators.h"
#include "Schema.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/TableGen/Error.h"
#include "llvm/TableGen/Record.h"

using namespace llvm;
using namespace pyjit::tblgen;

namespace {

class Flattener {
public:
  Flattener(const Record &record, const std::map<std::string, Overload> &all,
            const StringMap<std::string> &called, raw_ostream &os)
      : record(record), all(all), called(called),
        overload(find(record.getValueAsString("Name"))), os(os) {}

  unsigned count = 0;

  unsigned operand() { return argument(record.getValueAsString("Operand")); }
  void run() { emit(record.getValueAsDag("Expression"), ""); }

private:
  [[noreturn]] void fail(const Twine &message) {
    PrintFatalError(record.getLoc(),
                    "derivative of " + record.getValueAsString("Name") +
                        " by " + record.getValueAsString("Operand") + ": " +
                        message);
  }

  const Overload &find(StringRef name) {
    auto found = all.find(name.str());
    if (found == all.end())
      fail("no schema of " + name);
    return found->second;
  }

  unsigned argument(StringRef name) {
    int index = overload.find(name);
    if (index < 0)
      fail("'" + name + "' is no argument of " + overload.text);
    return index;
  }

  void node(StringRef op, unsigned index = 0, StringRef number = "0",
            StringRef text = "") {
    ++count;
    os << "    {DerivativeOp::" << op << ", " << index << ", " << number
       << ", \"" << text << "\"},\n";
  }

  void leaf(StringRef name) {
    if (auto local = locals.find(name); local != locals.end())
      return node("Local", local->second);
    if (name == "grad")
      return node("Gradient");
    if (unsigned number = 0;
        name == "result" || (name.starts_with("result") &&
                             !name.substr(6).getAsInteger(10, number)))
      return node("Result", number);
    node("Argument", argument(name));
  }

  /// What a schema has for an argument that is left out.
  void fallback(const Argument &argument) {
    StringRef text = argument.fallback;
    int64_t integer;
    double real;
    if (text == "None")
      return node("None");
    if (text == "True" || text == "False")
      return node("Flag", text == "True");
    if (!text.getAsInteger(10, integer))
      return node("Integer", 0, text);
    if (!text.getAsDouble(real))
      return node("Real", 0, text);
    fail("a call gives no '" + argument.name + "', whose default is '" + text +
         "'");
  }

  void call(StringRef op, StringRef name, const DagInit *dag) {
    const Overload &callee = find(name);
    if (dag->getNumArgs() > callee.arguments.size())
      fail(Twine("too many arguments for ") + callee.text);
    node(op, callee.arguments.size(), "0", name);
    for (unsigned i = 0; i < callee.arguments.size(); ++i)
      if (i < dag->getNumArgs())
        emit(dag->getArg(i), dag->getArgNameStr(i));
      else
        fallback(callee.arguments[i]);
  }

  void let(const DagInit *dag) {
    unsigned index = nextLocal++;
    node("Let", index);
    emit(dag->getArg(1), dag->getArgNameStr(1));
    StringRef name = dag->getArgNameStr(0);
    if (!locals.try_emplace(name, index).second)
      fail("'" + name + "' is given a value twice");
    emit(dag->getArg(2), dag->getArgNameStr(2));
    locals.erase(name);
  }

  void choice(StringRef name, const DagInit *dag) {
    unsigned index = argument(dag->getArgNameStr(0)), first = 1;
    if (name == "IfNumber" || name == "IfString") {
      std::string value = dag->getArg(first++)->getAsUnquotedString();
      bool isText = name == "IfString";
      node(name, index, isText ? "0" : value, isText ? value : "");
    } else {
      node(name, index);
    }
    for (unsigned i = first; i < dag->getNumArgs(); ++i)
      emit(dag->getArg(i), dag->getArgNameStr(i));
  }

  void emit(const Init *init, StringRef leafName) {
    if (isa<UnsetInit>(init))
      return leaf(leafName);
    if (auto *number = dyn_cast<IntInit>(init))
      return node("Integer", 0, std::to_string(number->getValue()));
    if (auto *number = dyn_cast<StringInit>(init))
      return node("Real", 0,
                  StringSwitch<StringRef>(number->getValue())
                      .Case("nan", "NAN")
                      .Case("inf", "INFINITY")
                      .Case("-inf", "-INFINITY")
                      .Default(number->getValue()));
    auto *dag = dyn_cast<DagInit>(init);
    if (!dag)
      fail("unexpected leaf " + init->getAsString());
    const Record *op = cast<DefInit>(dag->getOperator())->getDef();
    StringRef name = op->getName();
    if (op->isSubClassOf("Call"))
      return call(op->isSubClassOf("Backward") ? "Backward" : "Call",
                  op->getValueAsString("Overload"), dag);
    if (auto found = called.find(name); found != called.end())
      return call("Call", found->second, dag);
    if (op->isSubClassOf("Word"))
      return node("Text", 0, "0", op->getValueAsString("Text"));
    if (name == "Sizes" || name == "LastSizes")
      return node("Sizes", argument(dag->getArgNameStr(0)),
                  name == "Sizes" ? "0" : dag->getArg(1)->getAsString());
    if (name == "Value")
      return emit(dag->getArg(0), dag->getArgNameStr(0));
    if (name == "Let")
      return let(dag);
    if (name == "IfNone" || name == "IfTrue" || name == "IfNumber" ||
        name == "IfString" || name == "IfComplex")
      return choice(name, dag);
    fail("no call stands for the node " + name);
  }

  const Record &record;
  const std::map<std::string, Overload> &all;
  const StringMap<std::string> &called;
  const Overload &overload;
  raw_ostream &os;
  StringMap<unsigned> locals;
  unsigned nextLocal = 0;
};

} // namespace

bool pyjit::tblgen::emitOperatorDerivatives(raw_ostream &os,
                                            const RecordKeeper &records) {
  std::map<std::string, Overload> all = readSchemas(records);
  StringMap<std::string> called;
  for (const Record *record : records.getAllDerivedDefinitions("Called"))
    called[record->getValueAsDef("Of")->getName()] =
        record->getValueAsString("Overload").str();

  os << "// Written by pyjit-tblgen from lib/Operators/Derivatives.td.\n";
  std::map<std::pair<std::string, unsigned>, std::string> rows;
  unsigned number = 0;
  for (const Record *record : records.getAllDerivedDefinitions("Derivative")) {
    std::string name = record->getValueAsString("Name").str();
    os << "static const DerivativeNode derivative" << number << "[] = {\n";
    Flattener flattener(*record, all, called, os);
    flattener.run();
    os << "};\n";
    std::string row;
    raw_string_ostream(row)
        << "    {\"" << name << "\", " << flattener.operand() << ", {derivative"
        << number << ", " << flattener.count << "}},\n";
    if (!rows.emplace(std::pair(name, flattener.operand()), row).second) {
      PrintError(record->getLoc(), "a second derivative of " + name);
      return true;
    }
    ++number;
  }
  os << "static const Derivative derivatives[] = {\n";
  for (const auto &[key, row] : rows)
    os << row;
  os << "};\n";
  return false;
}
