//===- OperatorNames.h - a constant for each operator's name ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `operators::aten::add__Tensor` is "aten::add_.Tensor": the dot becomes an
// underscore. One for each overload that lib/Operators/*.td names, so that a
// misspelt name does not compile.
//
//===----------------------------------------------------------------------===//

#ifndef PYJIT_OPERATORS_OPERATORNAMES_H
#define PYJIT_OPERATORS_OPERATORNAMES_H

namespace pyjit::operators {
#include "pyjit-c/OperatorNames.h.inc"
} // namespace pyjit::operators

#endif // PYJIT_OPERATORS_OPERATORNAMES_H
