//===- VectorMath.cpp - The C library's math on vectors -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "pyjit/Codegen/VectorMath.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace pyjit::codegen {

static constexpr VectorFunction kFunctions[] = {
    {"acos", 1},  {"acosh", 1}, {"asin", 1},  {"asinh", 1}, {"atan", 1},
    {"atan2", 2}, {"atanh", 1}, {"cbrt", 1},  {"cos", 1},   {"cosh", 1},
    {"erf", 1},   {"erfc", 1},  {"exp", 1},   {"exp2", 1},  {"expm1", 1},
    {"log", 1},   {"log10", 1}, {"log1p", 1}, {"log2", 1},  {"pow", 2},
    {"sin", 1},   {"sinh", 1},  {"tan", 1},   {"tanh", 1}};

ArrayRef<VectorFunction> vectorFunctions() { return kFunctions; }

const VectorFunction *findVectorFunction(StringRef name) {
  const auto *found = llvm::find_if(
      kFunctions, [&](const VectorFunction &f) { return f.name == name; });
  return found == std::end(kFunctions) ? nullptr : found;
}

std::string vectorName(const VectorFunction &function, unsigned vectorBits,
                       bool isDouble) {
  char isa = vectorBits == 512 ? 'e' : vectorBits == 256 ? 'd' : 'b';
  std::string name = "_ZGV";
  name += isa;
  name += "N" + std::to_string(vectorBits / (isDouble ? 64 : 32));
  name += std::string(function.operands, 'v') + "_" + function.name.str();
  return isDouble ? name : name + "f";
}

} // namespace pyjit::codegen
