//===- HostVectorMath.cpp - libmvec as this process finds it --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "pyjit/Codegen/X86/HostVectorMath.h"

#include "pyjit/Codegen/VectorMath.h"

#include <dlfcn.h>
#include <vector>

namespace pyjit::x86 {

using Symbols = std::vector<std::pair<std::string, void *>>;

static Symbols findSymbols() {
  void *library = dlopen("libmvec.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return {};
  Symbols symbols;
  for (const codegen::VectorFunction &function : codegen::vectorFunctions())
    for (unsigned bits : {128, 256, 512})
      for (bool isDouble : {false, true}) {
        std::string name = codegen::vectorName(function, bits, isDouble);
        void *address = dlsym(library, name.c_str());
        if (!address)
          return {};
        symbols.emplace_back(std::move(name), address);
      }
  return symbols;
}

llvm::ArrayRef<std::pair<std::string, void *>> hostVectorMath() {
  static const auto *symbols = new Symbols(findSymbols());
  return *symbols;
}

} // namespace pyjit::x86
