//===- Schema.cpp - What a schema's text says -----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Schema.h"

#include "llvm/TableGen/Error.h"
#include "llvm/TableGen/Record.h"

using namespace llvm;
using namespace pyjit::tblgen;

namespace {

/// Splits at commas outside parentheses, brackets and quotes.
std::vector<StringRef> splitArguments(StringRef text) {
  std::vector<StringRef> parts;
  int depth = 0;
  char quote = 0;
  size_t begin = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (quote)
      quote = c == quote ? 0 : quote;
    else if (c == '"' || c == '\'')
      quote = c;
    else if (c == '(' || c == '[')
      ++depth;
    else if (c == ')' || c == ']')
      --depth;
    else if (c == ',' && depth == 0) {
      parts.push_back(text.slice(begin, i).trim());
      begin = i + 1;
    }
  }
  if (!text.substr(begin).trim().empty())
    parts.push_back(text.substr(begin).trim());
  return parts;
}

/// Removes `(a!)`, `(a -> *)` and the like; tells what they said.
std::string stripAlias(StringRef type, bool &aliased, bool &mutated) {
  std::string plain;
  while (!type.empty()) {
    size_t open = type.find('(');
    plain += type.substr(0, open).str();
    if (open == StringRef::npos)
      break;
    size_t close = type.find(')', open);
    if (close == StringRef::npos)
      PrintFatalError("alias mark without ')': " + type);
    StringRef mark = type.slice(open, close);
    aliased = true;
    mutated |= mark.contains('!');
    type = type.substr(close + 1);
  }
  return plain;
}

Overload parseSchema(const Record &record) {
  Overload result;
  StringRef text = record.getValueAsString("Text");
  result.text = text.str();
  auto [name, rest] = text.split('(');
  result.name = name.str();
  size_t arrow = rest.rfind(") -> ");
  if (arrow == StringRef::npos)
    PrintFatalError(record.getLoc(), "schema without '->'");
  bool resultAliased = false, resultMutated = false;
  StringRef results = rest.substr(arrow + 5);
  // A tuple of results: its own parentheses are no alias mark.
  if (results.starts_with("("))
    results = results.drop_front().drop_back();
  stripAlias(results, resultAliased, resultMutated);
  bool anyMutated = false;
  for (StringRef part : splitArguments(rest.substr(0, arrow))) {
    if (part == "*")
      continue;
    // TYPE NAME[=DEFAULT]; the type may hold spaces inside parentheses.
    size_t depth = 0, space = StringRef::npos;
    for (size_t i = 0; i < part.size(); ++i) {
      depth += part[i] == '(';
      depth -= part[i] == ')';
      if (part[i] == ' ' && depth == 0) {
        space = i;
        break;
      }
    }
    Argument argument;
    argument.type =
        stripAlias(part.substr(0, space), argument.aliased, argument.mutated);
    auto [argumentName, fallback] = part.substr(space + 1).split('=');
    argument.name = argumentName.str();
    argument.fallback = fallback.str();
    anyMutated |= argument.mutated;
    result.arguments.push_back(argument);
  }
  result.kind = record.getValueAsString("Kind").str();
  if (result.kind.empty())
    result.kind = anyMutated ? "Mutation" : resultAliased ? "View" : "Pure";
  return result;
}

} // namespace

std::map<std::string, Overload>
pyjit::tblgen::readSchemas(const RecordKeeper &records) {
  std::map<std::string, Overload> all;
  for (const Record *record : records.getAllDerivedDefinitions("Schema")) {
    Overload overload = parseSchema(*record);
    all[overload.name] = overload;
  }
  return all;
}
