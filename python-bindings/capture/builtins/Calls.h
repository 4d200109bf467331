//===- Calls.h - What calling an object means -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef PYJIT_CAPTURE_BUILTINS_CALLS_H
#define PYJIT_CAPTURE_BUILTINS_CALLS_H

#include "interpreter/Frames.h"

#include <set>
#include <string>
#include <unordered_map>
#include <vector>

namespace pyjit::capture {

class Recording;

/// Arguments of a call.
struct Call {
  PyObject *callable = nullptr;
  std::vector<PyObject *> args; ///< positional, then keyword values
  PyObject *kwnames = nullptr;  ///< tuple of keyword names or null
  size_t positional() const {
    return args.size() - (kwnames ? PyTuple_GET_SIZE(kwnames) : 0);
  }
  PyObject *arg(size_t i) const { return i < args.size() ? args[i] : nullptr; }
  PyObject *keyword(const char *name) const;
};

/// Calls by the type of what is called, down to native functions (Natives.h),
/// and the Python functions that C code calls.
class Calls {
public:
  explicit Calls(Recording &recording) : s(recording) {}

  ResultKind call(const Call &call, int depth = 0);
  ResultKind callType(PyTypeObject *type, const Call &call);
  ResultKind callTypeDirectly(PyTypeObject *type, const Call &call);
  /// Whether Python code alone sees what a call of the type is given.
  bool handsOnArguments(PyTypeObject *type);
  ResultKind callWrapper(const char *name, PyObject *wrapper, const Call &call);
  ResultKind unknownNative(const Call &call);
  /// A TorchScript function has returned.
  void finishScript(PyObject *result);
  ResultKind torchCall(const Call &call);
  void tensorArgument(PyObject *object, int depth = 0);

  /// What C does with a Python function's results, or hands it.
  enum Callback : unsigned {
    Truth = 1,    ///< asks for the truth of the results
    Compared = 2, ///< compares them
    Tuples = 4,   ///< arguments are tuples that it has just made
  };
  void callsBack(PyObject *function, unsigned uses);
  unsigned callbackOf(PyjitFrame *frame);
  /// A frame is about to return.
  void returns(PyObject *result);

  /// What the running CALL calls.
  PyObject *called = nullptr;
  /// Likewise, or the running CALL_FUNCTION_EX.
  PyObject *direct = nullptr;
  /// This frame's instruction calls a TorchScript function whose own
  /// instructions make tensors of Python data alone, unseen by the dispatcher.
  PyjitFrame *scripting = nullptr;
  /// ... and such a tensor was met.
  bool scriptConstants = false;
  /// ... not in the CPU's memory.
  bool scriptOnDevice = false;
  /// torch._C._InferenceMode objects that the call has entered and not left.
  std::vector<PyObject *> inferenceModes;
  PyObject *firstInferenceMode = nullptr;
  /// Modules of the call that Dynamo has noted: they may not leave it.
  std::set<PyObject *> markedModules;

private:
  Recording &s;
  std::unordered_map<PyObject *, unsigned> callbacks;
};

} // namespace pyjit::capture

#endif // PYJIT_CAPTURE_BUILTINS_CALLS_H
