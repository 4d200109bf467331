//===- LocalKinds.h - Kinds of a code object's locals -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef PYJIT_CAPTURE_LOCALKINDS_H
#define PYJIT_CAPTURE_LOCALKINDS_H

#include <Python.h>

namespace pyjit::capture {

/// Whether nested functions share the local at `slot` of `localsplus`: it lies
/// in a cell once the frame has made that.
inline bool isCellLocal(PyCodeObject *code, int slot) {
  // CO_FAST_CELL of CPython's internal headers.
  constexpr int kCell = 0x40;
  return PyBytes_AS_STRING(code->co_localspluskinds)[slot] & kCell;
}

} // namespace pyjit::capture

#endif // PYJIT_CAPTURE_LOCALKINDS_H
