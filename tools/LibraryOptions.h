//===- LibraryOptions.h - Options that libraries bring along ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_TOOLS_LIBRARYOPTIONS_H
#define PYJIT_TOOLS_LIBRARYOPTIONS_H

#include "llvm/Support/CommandLine.h"

namespace pyjit::tools {

/// LLVM's libraries register hundreds of options when they are loaded. From now
/// on `--help` leaves out whatever is registered and not in the category `own`;
/// `--help-hidden` shows it.
inline void hideLibraryOptions(const llvm::cl::OptionCategory *own = nullptr) {
  for (auto &entry : llvm::cl::getRegisteredOptions()) {
    llvm::cl::Option &option = *entry.second;
    bool kept = llvm::any_of(
        option.Categories, [&](const llvm::cl::OptionCategory *category) {
          return category == own || category->getName() == "Generic Options";
        });
    if (!kept && option.getOptionHiddenFlag() == llvm::cl::NotHidden)
      option.setHiddenFlag(llvm::cl::Hidden);
  }
}

} // namespace pyjit::tools

#endif // PYJIT_TOOLS_LIBRARYOPTIONS_H
