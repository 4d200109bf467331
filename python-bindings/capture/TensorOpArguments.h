//===- TensorOpArguments.h - The text of an operator's arguments *- C++ -*-===//
#ifndef PYJIT_CAPTURE_TENSOROPARGUMENTS_H
#define PYJIT_CAPTURE_TENSOROPARGUMENTS_H

#include "TensorImpl.h"

namespace pyjit::capture {

/// Collects the text of a call's arguments (docs/Walls.md, wall 1) and the
/// operands among them.
struct TensorOpArguments {
  explicit TensorOpArguments(TensorRecorder::Impl &impl) : impl(impl) {}

  std::vector<at::Tensor> operands; ///< undefined: a number
  std::vector<TensorInfo *> infos;  ///< of each operand; null: a number
  std::string types;                ///< of the operands
  std::string failure;              ///< why it cannot be written, or empty

  std::string text(const c10::IValue &v);
  std::string tensor(const at::Tensor &t);
  /// A lifted number: `form` is "wrapped", "number" or "size".
  std::string number(PyObject *object, const char *form);
  /// An int, or a list of ints, some of which are lifted.
  std::string sizes(const c10::IValue &v,
                    const std::vector<PyObject *> &numbers);
  /// A number that the trace computes: `form` is "number" or "size".
  std::string computed(int value, const char *form);

private:
  std::string add(const at::Tensor &t, TensorInfo *info, int value,
                  const std::string &type);

  TensorRecorder::Impl &impl;
};

} // namespace pyjit::capture

#endif // PYJIT_CAPTURE_TENSOROPARGUMENTS_H
