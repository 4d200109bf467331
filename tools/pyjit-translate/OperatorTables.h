//===- OperatorTables.h - the tables behind tssa as text --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_TOOLS_PYJIT_TRANSLATE_OPERATORTABLES_H
#define PYJIT_TOOLS_PYJIT_TRANSLATE_OPERATORTABLES_H

namespace pyjit {

/// `tssa-to-recipes`: how each tssa.aten computes. `tssa-to-views`: what each
/// path of a tssa.access means. `operators-to-markdown`: the coverage page.
void registerOperatorTableTranslations();

} // namespace pyjit

#endif // PYJIT_TOOLS_PYJIT_TRANSLATE_OPERATORTABLES_H
