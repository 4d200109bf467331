//===- Bases.h - Which classes a class inherits from ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef PYJIT_CAPTURE_BASES_H
#define PYJIT_CAPTURE_BASES_H

#include "Recording.h"

namespace pyjit::capture {

/// Records which classes a type inherits from, in order: what `super` and
/// `isinstance` go by, and no class's own attributes say.
void readBases(Recording &recording, PyTypeObject *type);

} // namespace pyjit::capture

#endif // PYJIT_CAPTURE_BASES_H
