//===- TensorOpArguments.h - An operator's arguments ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef PYJIT_CAPTURE_TENSOROPARGUMENTS_H
#define PYJIT_CAPTURE_TENSOROPARGUMENTS_H

#include "tensors/TensorImpl.h"

namespace pyjit::capture {

/// Collects a call's arguments (docs/TraceGrammar.md) and the
/// operands among them.
struct TensorOpArguments {
  explicit TensorOpArguments(TensorRecorder::Impl &impl)
      : impl(impl), writer(impl.recording.writer) {}

  std::vector<at::Tensor> operands; ///< undefined: a number
  std::vector<TensorInfo *> infos;  ///< of each operand; null: a number
  std::vector<PyjitValue> values;   ///< of each operand
  std::string failure;              ///< why it cannot be written, or empty
  bool onCurrentDevice = false;     ///< names CUDA, and no device of it
  at::Tensor complexResult;         ///< defined: of complex numbers

  PyjitAttribute argument(const c10::IValue &v);
  PyjitAttribute tensor(const at::Tensor &t);
  /// A lifted number.
  PyjitAttribute number(PyObject *object, PyjitNumberForm form);
  /// An int, or a list of ints, some of which are lifted.
  PyjitAttribute sizes(const c10::IValue &v,
                       const std::vector<PyObject *> &numbers);
  /// A number that the trace computes.
  PyjitAttribute computed(PyjitValue value, PyjitNumberForm form);

private:
  void add(const at::Tensor &t, TensorInfo *info, PyjitValue value);
  PyjitAttribute complexNumber(const at::Tensor &number);

  TensorRecorder::Impl &impl;
  TraceWriter &writer;
};

} // namespace pyjit::capture

#endif // PYJIT_CAPTURE_TENSOROPARGUMENTS_H
