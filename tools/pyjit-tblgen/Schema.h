//===- Schema.h - What a schema's text says ---------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_TBLGEN_SCHEMA_H
#define PYJIT_TBLGEN_SCHEMA_H

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"
#include <map>
#include <string>
#include <vector>

namespace llvm {
class Record;
class RecordKeeper;
} // namespace llvm

namespace pyjit::tblgen {

struct Argument {
  std::string name, type;
  std::string fallback; ///< its default, as the schema prints it; or empty
  bool mutated = false, aliased = false;
  bool isTensor() const { return type == "Tensor"; }
};

struct Overload {
  std::string name, text, kind;
  std::vector<Argument> arguments;
  const llvm::Record *lowering = nullptr;

  int find(llvm::StringRef argument) const {
    for (auto [i, arg] : llvm::enumerate(arguments))
      if (arg.name == argument)
        return i;
    return -1;
  }
};

/// Each overload that has a record of class Schema, without lowerings.
std::map<std::string, Overload> readSchemas(const llvm::RecordKeeper &records);

} // namespace pyjit::tblgen

#endif // PYJIT_TBLGEN_SCHEMA_H
