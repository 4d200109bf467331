//===- json.hpp - What Torch's headers include and lack ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// ATen/functorch/Interpreter.h includes this library's header, which Torch's
// package does not hold. Only inline functions that nobody here calls need what
// is declared here; nothing defines it.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <string>

namespace nlohmann {

struct json {
  json();
  template <typename T> explicit json(const T &object);
  std::string dump() const;
  static json parse(const std::string &text);
  template <typename T> T get() const;
};

} // namespace nlohmann
