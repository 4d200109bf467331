//===- Tensors.h - Tensors and the dispatcher's operators -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// No Torch header: files that include this one compile fast.
//
//===----------------------------------------------------------------------===//
#ifndef PYJIT_CAPTURE_TENSORS_H
#define PYJIT_CAPTURE_TENSORS_H

#include <Python.h>

#include "Recorder.h"
#include "TraceWriter.h"
#include "pyjit-rt/ScalarMath.h"

#include <memory>
#include <string>
#include <vector>

namespace pyjit::capture {

class HostScalars;
class Recording;
struct EngineCall;
struct Node;

class TensorRecorder {
public:
  explicit TensorRecorder(Recording &recording);
  ~TensorRecorder();
  TensorRecorder(const TensorRecorder &) = delete;

  static bool isTensor(PyObject *object);
  /// Watches the dispatcher on this thread from now on.
  void start();
  /// No recorder watches this thread any more, those that have stopped before
  /// included. The engine runs nodes under a copy of the thread's state: who
  /// stops there watches again when the engine puts the state back.
  static void stop();

  /// Fills in the type of a tensor, and what a guard compares. Ends the capture
  /// if the tensor is of a kind that is not modelled.
  bool describe(PyObject *tensor, PyjitGetOp &get);
  PyjitType irType(PyObject *tensor);
  /// Current SSA value of the tensor; -1 if it has none.
  int valueOf(PyObject *tensor);
  void bindExternal(PyObject *tensor, int value);
  /// Makes `tensor`, built from Python data without operators, a constant.
  void bindConstant(PyObject *tensor);
  /// `tensor` is what `.data` of another one handed out, unseen by the
  /// dispatcher: the same memory, without a gradient.
  void bindData(PyObject *tensor, PyObject *of);
  /// `tensor` is what `torch.tensor(number)` has made, of a tracked number.
  void bindNumber(PyObject *tensor, PyObject *number);
  /// Whether `tensor` is a view of such a tensor, or its `detach()`: nobody
  /// could make it behind the call, with that one's version counter.
  bool showsData(PyObject *tensor);
  /// Records what Python saw of a tensor's storage offset.
  void readOffset(PyObject *tensor);
  /// No specialization looks at one that has none: a nested or a sparse tensor.
  static bool hasStrides(PyObject *tensor);
  bool requiresGrad(PyObject *tensor);
  /// Whether gradients flow through an operator of the recording.
  bool gradientFlows() const;
  /// Numbers in tensors that the host keeps.
  HostScalars &host();
  /// Autograd's engine is about to run within the call, or has run.
  void beginBackward(const EngineCall &call);
  void endBackward(PyObject *result);
  /// At the end of a trace, when all that leaves is known.
  void writeCounters();
  /// A tensor leaves the segment of the call. False: it is of inference mode
  /// and another was not, or the other way round.
  bool leaves(PyObject *tensor);
  /// From now on a function runs that the backward pass calls again.
  void setCheckpointed(bool on);
  DispatchState dispatchState() const;
  static bool gradMode();
  /// Whether it shows the memory of a weight's cast that autocast keeps.
  bool isKeptCast(PyObject *tensor);
  /// Whether autocast may have casts of weights from before the call.
  bool castsOutlast() const;
  /// Computed from constants only: its data may flow into Python.
  bool isConstant(PyObject *tensor);
  /// Whether its memory came from an `empty` that no operator has filled: what
  /// filled it, if anything, went past the dispatcher.
  bool isUninitialized(PyObject *tensor);
  /// All that Python can tell of a tensor but its data, as text. False if that
  /// cannot be said.
  bool stateOf(PyObject *tensor, std::string &text, bool &external);
  /// `bool` of a tensor with one element; -1 for any other.
  static int truthOf(PyObject *tensor);

  /// Operators are not recorded while a tensor is built from Python data.
  void suspend(bool on);
  bool suspended() const;

  /// Whether the dispatcher has an overload of this name ("aten::add").
  static bool isOperator(const std::string &name);

  /// What refgraph.state says of the state at the start.
  PyjitAttribute stateAtStart();
  /// What of that state differs now; empty if nothing.
  /// `gradMode`: where to put the grad mode if it may differ, or null.
  std::string stateChange(int *gradMode = nullptr);
  /// The call reads or sets which kernels of attention are allowed
  /// (`torch.nn.attention.sdpa_kernel`): each call begins with the same, and
  /// `stateChange` sees to it that they are left so.
  void guardAttentionKernels();
  /// Conflicts that show only at the end (overlapping memory).
  std::string finalConflict();
  /// Why calls cannot be recorded at all in the present state, or empty.
  static std::string unsupportedState();

  struct Impl;
  std::unique_ptr<Impl> impl;
};

/// Whether a transform of torch.func has wrapped the tensor.
bool isTransformed(PyObject *tensor);
/// Guards that neither hooks on saved tensors are active nor forbidden. False:
/// one or the other was so when the recording began.
bool guardHooks(Recording &recording);
/// Whether forward-mode differentiation might be used when it began.
bool mightGoForward(const Recording &recording);
/// Whether hooks on saved tensors are active.
bool savesThroughHooks();

/// Whether `requires_grad_()` makes a leaf of a tensor of the call's own, or
/// changes nothing.
bool mayBecomeLeaf(Recording &recording, PyObject *tensor);
/// Whether autograd's engine has run within the recording.
bool ranBackward(const Recording &recording);
/// Where gradients end: what the program itself made, or made no_grad.
bool isLeaf(PyObject *tensor);
/// A leaf's `.grad`, or None; held by the recording.
PyObject *gradOf(Recording &recording, PyObject *tensor);
/// Why `.grad = gradient` would raise, or is not modelled, or null.
const char *whyNotGradientOf(Recording &recording, PyObject *tensor,
                             PyObject *gradient);

} // namespace pyjit::capture

#endif // PYJIT_CAPTURE_TENSORS_H
