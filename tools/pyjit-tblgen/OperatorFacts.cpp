//===- OperatorFacts.cpp - writes facts and names of operators ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Of the records derived from `Fact` (lib/Operators/OperatorBase.td): lists of
// the kinds of facts, as macros, from which C and C++ make the same struct; a
// row of that struct for each operator; and a constant for each operator's
// name.
//
//===----------------------------------------------------------------------===//

#include "Generators.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/TableGen/Error.h"
#include "llvm/TableGen/Record.h"
#include <map>
#include <set>

using namespace llvm;

namespace {

/// What is known of one operator: for each kind of fact its value, as C++ has
/// it.
using Row = std::map<std::string, std::string>;

struct Facts {
  std::set<std::string> flags, texts;
  /// The values that each kind of choice may have.
  std::map<std::string, std::set<std::string>> choices;
  /// By overload, by operator ("aten::cdist"), by library ("prims").
  std::map<std::string, Row> overloads, operators, libraries;
};

StringRef overloadOf(const Record &schema) {
  return schema.getValueAsString("Text").split('(').first;
}

/// The class that says what the fact is: that between the record and
/// `Flag`, `Choice` and so on.
const Record *kindOf(const Record &fact) {
  return fact.getDirectSuperClasses().back().first;
}

/// "KeptWhole" as "keptWhole", "OneDNNActivation" as "oneDNNActivation".
std::string toMember(StringRef name) {
  return toLower(name.front()) + name.drop_front().str();
}

std::string quoted(StringRef text) { return "\"" + text.str() + "\""; }

/// Whether an overload of that name has a schema.
bool isOperator(const RecordKeeper &records, StringRef name) {
  return any_of(records.getAllDerivedDefinitions("Schema"),
                [&](const Record *schema) {
                  return overloadOf(*schema).split('.').first == name;
                });
}

/// Enters a value for what `name` stands for. True: another one is there.
bool enter(Facts &facts, StringRef name, StringRef kind, StringRef value) {
  Row *row;
  if (name.consume_back("::*"))
    row = &facts.libraries[name.str()];
  else if (name.consume_back(".*"))
    row = &facts.operators[name.str()];
  else
    row = &facts.overloads[name.str()];
  auto [entry, isNew] = row->emplace(kind.str(), value.str());
  return !isNew && entry->second != value;
}

/// The value of a record's fact, as C++ has it; its kind is noted.
std::string readValue(Facts &facts, const Record &record, StringRef kind) {
  if (record.isSubClassOf("Flag")) {
    facts.flags.insert(kind.str());
    return "true";
  }
  if (record.isSubClassOf("Choice")) {
    StringRef value = record.getValueAsString("Value");
    facts.choices[kind.str()].insert(value.str());
    return kind.str() + "::" + value.str();
  }
  if (record.isSubClassOf("Text")) {
    facts.texts.insert(kind.str());
    return quoted(record.getValueAsString("Value"));
  }
  return kind == "Overwrites" ? itostr(record.getValueAsInt("Operand")) : "";
}

/// What holds of all operators of a library holds of each, and so on.
void inherit(Row &row, const std::map<std::string, Row> &from, StringRef name) {
  if (auto found = from.find(name.str()); found != from.end())
    row.insert(found->second.begin(), found->second.end());
}

/// True: an error.
bool collect(Facts &facts, const RecordKeeper &records) {
  for (const Record *record : records.getAllDerivedDefinitions("Fact")) {
    StringRef kind = kindOf(*record)->getName();
    std::string value = readValue(facts, *record, kind);
    for (StringRef name : record->getValueAsListOfStrings("Operators")) {
      bool failed = enter(facts, name, kind, value);
      // Sizes of in-place forms follow by the same rule.
      StringRef base = name;
      if (kind == "SizeRule" && base.consume_back(".*") &&
          isOperator(records, base.str() + "_"))
        failed |= enter(facts, base.str() + "_.*", kind, value);
      if (failed || !name.contains("::")) {
        PrintError(record->getLoc(),
                   "no name, or it has another " + kind + ": " + name);
        return true;
      }
    }
  }
  for (const Record *schema : records.getAllDerivedDefinitions("Schema"))
    facts.overloads[overloadOf(*schema).str()];
  for (auto &[name, row] : facts.operators)
    inherit(row, facts.libraries, StringRef(name).split(':').first);
  for (auto &[name, row] : facts.overloads) {
    inherit(row, facts.operators, StringRef(name).split('.').first);
    inherit(row, facts.libraries, StringRef(name).split(':').first);
  }
  return false;
}

void emitRows(raw_ostream &os, const Facts &facts, StringRef variable,
              const std::map<std::string, Row> &rows) {
  os << "static constexpr FactRow " << variable << "[] = {\n";
  for (const auto &[name, row] : rows) {
    auto field = [&, &row = row](StringRef kind, StringRef otherwise) {
      auto found = row.find(kind.str());
      os << ", " << (found == row.end() ? otherwise : found->second);
    };
    os << "    {" << quoted(name) << ", {"
       << (row.count("Overwrites") ? row.at("Overwrites") : "-1");
    for (const auto &[kind, values] : facts.choices)
      field(kind, kind + "::None");
    for (const std::string &kind : facts.texts)
      field(kind, "nullptr");
    for (const std::string &kind : facts.flags)
      field(kind, "false");
    os << "}},\n";
  }
  os << "};\n";
}

/// What the page of documentation lists: kind, value, names as they were given.
void emitStatements(raw_ostream &os, const RecordKeeper &records) {
  std::map<std::pair<std::string, std::string>, std::set<std::string>> lists;
  for (const Record *record : records.getAllDerivedDefinitions("Fact")) {
    std::string value;
    if (record->isSubClassOf("Choice") || record->isSubClassOf("Text"))
      value = record->getValueAsString("Value").str();
    else if (kindOf(*record)->getName() == "Overwrites")
      value = itostr(record->getValueAsInt("Operand"));
    for (StringRef name : record->getValueAsListOfStrings("Operators"))
      lists[{kindOf(*record)->getName().str(), value}].insert(name.str());
  }
  os << "static constexpr FactStatement factStatements[] = {\n";
  for (const auto &[fact, names] : lists)
    os << "    {" << quoted(fact.first) << ", " << quoted(fact.second) << ", "
       << quoted(join(names, " ")) << "},\n";
  os << "};\n";
}

/// A macro for each name. A reader defines those macros that it wants.
void emitList(raw_ostream &os, const Twine &macro,
              const std::set<std::string> &names) {
  os << "#ifdef " << macro << "\n";
  for (const std::string &name : names)
    os << macro << "(" << name << ", " << toMember(name) << ")\n";
  os << "#undef " << macro << "\n#endif\n\n";
}

/// The values of all kinds of choices, between macros that may make a type of
/// those of one kind.
void emitValues(raw_ostream &os, const Facts &facts) {
  os << "#ifdef PYJIT_VALUE\n";
  for (const auto &[kind, values] : facts.choices) {
    os << "PYJIT_BEGIN(" << kind << ")\n";
    for (const std::string &value : values)
      os << "PYJIT_VALUE(" << kind << ", " << value << ")\n";
    os << "PYJIT_END(" << kind << ")\n";
  }
  os << "#undef PYJIT_BEGIN\n#undef PYJIT_VALUE\n#undef PYJIT_END\n#endif\n\n";
}

/// "add_.Tensor" as "add__Tensor".
std::string toIdentifier(StringRef name) {
  std::string result = name.str();
  std::replace(result.begin(), result.end(), '.', '_');
  return result;
}

} // namespace

bool pyjit::tblgen::emitOperatorFactKinds(raw_ostream &os,
                                          const RecordKeeper &records) {
  Facts facts;
  if (collect(facts, records))
    return true;
  os << "/* Written by pyjit-tblgen from lib/Operators/Facts.td: the kinds of "
        "facts, NAME and name. */\n\n";
  std::set<std::string> kinds;
  for (const auto &[kind, values] : facts.choices)
    kinds.insert(kind);
  emitList(os, "PYJIT_CHOICE", kinds);
  emitList(os, "PYJIT_TEXT", facts.texts);
  emitList(os, "PYJIT_FLAG", facts.flags);
  emitValues(os, facts);
  for (const auto &[kind, values] : facts.choices)
    emitList(os,
             "PYJIT_" + StringRef(convertToSnakeFromCamelCase(kind)).upper(),
             values);
  return false;
}

bool pyjit::tblgen::emitOperatorFacts(raw_ostream &os,
                                      const RecordKeeper &records) {
  Facts facts;
  if (collect(facts, records))
    return true;
  os << "// Written by pyjit-tblgen from lib/Operators/Facts.td.\n";
  emitRows(os, facts, "factsOfOverloads", facts.overloads);
  emitRows(os, facts, "factsOfOperators", facts.operators);
  emitRows(os, facts, "factsOfLibraries", facts.libraries);
  emitStatements(os, records);
  return false;
}

bool pyjit::tblgen::emitOperatorNames(raw_ostream &os,
                                      const RecordKeeper &records) {
  Facts facts;
  if (collect(facts, records))
    return true;
  // The overloads that texts name, too.
  for (const Record *record : records.getAllDerivedDefinitions("Text"))
    if (record->getValueAsString("Value").contains("::"))
      facts.overloads[record->getValueAsString("Value").str()];
  std::map<std::string, std::map<std::string, std::string>> libraries;
  for (const auto &[name, row] : facts.overloads) {
    auto [library, overload] = StringRef(name).split("::");
    auto [entry, isNew] =
        libraries[library.str()].emplace(toIdentifier(overload), name);
    if (!isNew) {
      PrintError("two operators for one constant: " + name + ", " +
                 entry->second);
      return true;
    }
  }
  os << "/* Written by pyjit-tblgen from lib/Operators/{Schemas,Facts}.td. "
        "*/\n";
  os << "#ifndef PYJIT_OPERATOR_NAMES\n#define PYJIT_OPERATOR_NAMES\n";
  for (const auto &[library, names] : libraries) {
    os << "\nnamespace " << library << " {\n";
    for (const auto &[identifier, name] : names)
      os << "inline constexpr char " << identifier << "[] = " << quoted(name)
         << ";\n";
    os << "} // namespace " << library << "\n";
  }
  os << "\n#endif\n";
  return false;
}
