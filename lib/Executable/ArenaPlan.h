//===- ArenaPlan.h - Offsets of intermediates in one arena ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_LIB_EXECUTABLE_ARENAPLAN_H
#define PYJIT_LIB_EXECUTABLE_ARENAPLAN_H

#include "pyjit/Analysis/SizeExpr.h"
#include "llvm/ADT/ArrayRef.h"
#include <cstdint>
#include <vector>

namespace pyjit::executable {

/// A buffer that lives from the step that writes it first to its last use, both
/// included.
struct Lifetime {
  int64_t first, last;
  int64_t bytes;
  int64_t offset = -1; ///< assigned by `planArena`
};

/// Assigns offsets (64-byte aligned, for vector accesses and whole cache lines)
/// such that buffers alive at one step do not overlap. Returns the arena's
/// size.
int64_t planArena(std::vector<Lifetime> &buffers);

/// The same where sizes differ between calls: a place is taken again by buffers
/// of the same size only. Gives each buffer's offset, and the arena's size.
struct SymbolicArena {
  std::vector<mlir::AffineExpr> offsets;
  mlir::AffineExpr bytes;
};
SymbolicArena planArena(const std::vector<Lifetime> &buffers,
                        llvm::ArrayRef<analysis::Size> bytes,
                        mlir::MLIRContext *context, int64_t alignment = 64);

} // namespace pyjit::executable

#endif // PYJIT_LIB_EXECUTABLE_ARENAPLAN_H
