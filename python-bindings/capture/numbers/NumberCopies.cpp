//===- NumberCopies.cpp - What copies of numbers stand for ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "numbers/NumberCopies.h"

#include "interpreter/OpcodeTable.h"

using namespace pyjit::capture;

NumberCopies::~NumberCopies() {
  for (auto [copy, original] : originals) {
    Py_DECREF(copy);
    Py_DECREF(original);
  }
  for (auto &entry : codes)
    Py_DECREF(entry.first);
}

void NumberCopies::add(PyObject *copy, PyObject *original) {
  // The original may be an earlier recording's copy.
  original = this->original(original);
  if (copy != original && originals.emplace(copy, original).second) {
    Py_INCREF(copy);
    Py_INCREF(original);
  }
}

PyObject *NumberCopies::original(PyObject *object) const {
  auto found = originals.find(object);
  return found == originals.end() ? object : found->second;
}

void NumberCopies::before(PyjitFrame *frame, PyCodeObject *code, int offset) {
  if (originals.empty())
    return;
  std::unique_ptr<CodeInfo> &info = codes[code];
  if (!info) {
    Py_INCREF(code);
    info = std::make_unique<CodeInfo>(code);
  }
  if (!info->valid)
    return;
  const Instruction &in = info->at(offset);
  if (!in.start || in.depth < 2 || infoOf(in.op).numbers != NumberUse::Identity)
    return;
  for (int i = 1; i <= 2; ++i) {
    PyObject *&slot = pyjitFrameStack(frame)[in.depth - i];
    PyObject *copy = slot;
    slot = Py_NewRef(original(copy));
    Py_DECREF(copy);
  }
}
