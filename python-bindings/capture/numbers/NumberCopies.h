//===- NumberCopies.h - What copies of numbers stand for --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A recording gives Python numbers and strings as objects of their own, to tell
// them apart (Scalars.h, ObjectTable::passUnseen). They outlive it in the
// frames: a graph break at `a is b`, and what runs behind it, would find two
// objects where eager has one.
//
//===----------------------------------------------------------------------===//
#ifndef PYJIT_CAPTURE_NUMBERCOPIES_H
#define PYJIT_CAPTURE_NUMBERCOPIES_H

#include "CPython.h"
#include "interpreter/Code.h"

#include <memory>
#include <unordered_map>

namespace pyjit::capture {

/// Of one run: all the copies that its recordings have made.
class NumberCopies {
public:
  NumberCopies() = default;
  NumberCopies(const NumberCopies &) = delete;
  ~NumberCopies();

  bool empty() const { return originals.empty(); }
  void add(PyObject *copy, PyObject *original);
  /// What `object` stands for, or itself.
  PyObject *original(PyObject *object) const;
  /// In front of the instruction at `offset`: one that compares identities is
  /// given the objects that eager would give it.
  void before(PyjitFrame *frame, PyCodeObject *code, int offset);

private:
  std::unordered_map<PyObject *, PyObject *> originals; ///< holds both
  std::unordered_map<PyCodeObject *, std::unique_ptr<CodeInfo>> codes;
};

} // namespace pyjit::capture

#endif // PYJIT_CAPTURE_NUMBERCOPIES_H
