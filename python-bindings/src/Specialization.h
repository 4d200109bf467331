//===- Specialization.h - One compiled recording ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_PYTHON_SPECIALIZATION_H
#define PYJIT_PYTHON_SPECIALIZATION_H

#include "Frame.h"
#include "Guards.h"
#include "Mock.h"
#include "Prepared.h"
#include "TorchState.h"
#include "TrainedWeights.h"

#include "pyjit-c/Compiler.h"
#include "pyjit-rt/BackwardProgram.h"
#include "pyjit-rt/TorchExecutor.h"

#include <Python.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace pyjit::python {

/// A compiler's `diagnostic`: `user` is a std::string that gets a line more.
void appendDiagnostic(PyjitString message, void *user);

/// A captured and compiled call: guards, mock, launch programs and kernels,
/// plus the object table that they refer to.
class Specialization {
public:
  enum class Outcome {
    Hit,   ///< `result` is a new reference
    Miss,  ///< a guard failed, or the program did not answer; nothing happened
    Error, ///< the compiled program could not run (a vendor call threw, say):
           ///< nothing observable happened, eager may answer
    Eager, ///< the call is the specialization's, but eager is to answer it
    Raise, ///< a Python exception is set
  };

  /// Compiles `trace` against `objects` (a list; borrowed), for the CUDA device
  /// that its tensors are on, if they are on one. On failure returns null and
  /// leaves the compiler's diagnostics in `error`. `nargs`, `kwnames`: number
  /// of call arguments, and tuple of keyword names or null.
  static std::unique_ptr<Specialization>
  build(const PyjitTrace *trace, PyObject *objects, Py_ssize_t nargs,
        PyObject *kwnames, PyjitCompileOptions options, std::string &error);
  ~Specialization();
  Specialization(const Specialization &) = delete;
  Specialization &operator=(const Specialization &) = delete;

  /// Answers the call if every guard passes. `nargs` counts positionals and
  /// keyword values.
  Outcome call(PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames,
               PyObject **result);

  /// Whether the guards accept the call; nothing else happens.
  bool accepts(PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);

  /// From now on eager answers the calls that the guards accept: those whose
  /// arguments have this signature (`signatureOf`, by octaves), or all.
  void leaveToEager(std::optional<uint64_t> signature) {
    eager = true;
    eagerFor = signature;
  }
  void answerAgain() { eager = false; }
  bool isLeftToEager() const { return eager; }
  /// Notes that the launch raised where eager did not. True: that was so too
  /// often for the specialization to be tried again.
  bool noteMistake();

  /// Waits until the device has done what it was told; false: it cannot be
  /// waited for now (the user captures a graph).
  bool settle();
  bool onDevice() const { return launch->onDevice(); }

  /// Where numbers and sizes are that keep the specialization from answering
  /// these arguments.
  void collectChangedNumbers(PyObject *const *args, Py_ssize_t nargs,
                             PyObject *kwnames,
                             std::vector<capture::AccessPath> &changed);
  /// The guards for readers; the first that these arguments fail: its number
  /// (-1: how many arguments there are, and their names; -2: Torch's dispatch
  /// state) and the object that it looks at. None: all hold.
  PyObject *guardSteps() const { return guards->steps(); }
  PyObject *failedGuard(PyObject *const *args, Py_ssize_t nargs,
                        PyObject *kwnames);
  /// The tensors that the graph would take for these arguments, in order, as a
  /// tuple; None where the guards do not accept them.
  PyObject *inputsOf(PyObject *const *args, Py_ssize_t nargs,
                     PyObject *kwnames);
  /// Of each of them, the guard program's register that it is in (-1: a cast
  /// that autocast keeps), and whether that is a number's.
  PyObject *inputRegisters() const;

  /// What profilers call its launches.
  std::string name;
  uint64_t hits = 0;
  /// Calls until the engine is told (0: never); counted down by whoever calls.
  uint32_t untilLook = 0;
  uint64_t unanswered = 0; ///< calls whose data the program was not made for
  uint64_t failures = 0;   ///< calls with Outcome::Error
  std::string lastError;   ///< of the last of them
  /// Where the specialization ends if not with its function: a `Resumption`, or
  /// null.
  PyObject *resumption = nullptr;
  int gradMode = -1; ///< grad mode to leave behind; -1: as it was
  /// The dispatcher's state that the specialization belongs to, and the
  /// inference mode that it runs in; -1: the caller's.
  void setDispatchState(DispatchState state, int mode) {
    dispatch = state;
    inference = mode;
  }
  const PyjitExecutable *executable() const { return exe.get(); }
  /// How the launch was chosen, for readers.
  std::string launchReport() const {
    return launch->report() + (backward ? backward->report() : "");
  }
  /// Sizes that may differ from call to call.
  size_t numSymbols() const { return pyjitExecutableSymbols(exe.get()); }
  size_t numInputs() const { return guards->numInputs(); }
  size_t numGuards() const { return guards->size(); }
  size_t numKernels() const { return kernelCount; }
  size_t numVendorCalls() const { return callCount; }
  /// What a call launches, and its backward; no backward where no output
  /// requires grad.
  std::pair<const rt::TorchExecutor *, const rt::BackwardProgram *>
  programs() const {
    return {launch.get(), backward.get()};
  }
  /// Parameters that prepared values come from, and those among them that each
  /// call hashes.
  size_t numPrepared() const {
    return std::max(prepared ? prepared->numSources() : 0,
                    trained ? trained->numPrepared() : 0);
  }
  /// What packed and folded values take: an address and bytes each, so that
  /// those that several specializations keep can be told.
  std::unordered_map<const void *, size_t> packedMemory() const;
  /// Bytes of those that another specialization had computed.
  size_t sharedWeightBytes() const;
  size_t numHashed() const { return prepared ? prepared->numHashed() : 0; }

  /// While on, each hit notes what it took beside the launch.
  static void measureHost(bool on) { measuring = on; }
  /// The median of the latest such notes in microseconds, or -1.
  double hostMicroseconds() const;
  void preferLaunch(rt::Variant variant) {
    launch->prefer(variant);
    if (backward)
      backward->prefer(variant);
  }

private:
  Specialization() = default;
  bool matchesSignature(Py_ssize_t nargs, PyObject *kwnames) const;
  bool isEagers(PyObject *const *args, Py_ssize_t nargs) const;
  std::unique_ptr<Frame> takeFrame();
  void giveFrame(std::unique_ptr<Frame> frame);
  Outcome answer(Frame &frame, PyObject **result);
  /// What one call runs.
  struct Launch {
    rt::TorchExecutor *program;
    Prepared *prepared; ///< null when nothing is cached
    Prepared::Use use;
  };
  Launch chooseLaunch(const at::Tensor *inputs) const;
  Outcome launchGraph(Frame &frame);
  static bool saveOutputs(Frame &frame);
  void noteHostTime(std::chrono::nanoseconds time);

  static bool measuring;

  bool eager = false;
  std::optional<uint64_t> eagerFor;
  unsigned mistakes = 0;
  uint64_t hitsAtMistake = 0;

  /// Autograd's nodes may run its machine code when the specialization is gone.
  std::shared_ptr<PyjitExecutable> exe;
  std::unique_ptr<Guards> guards;
  std::unique_ptr<Mock> mock;
  std::unique_ptr<rt::TorchExecutor> launch;
  /// Null where no output requires grad.
  std::shared_ptr<const rt::BackwardProgram> backward;
  std::unique_ptr<Prepared> prepared;      ///< null when nothing is cached
  std::unique_ptr<TrainedWeights> trained; ///< null where nothing is packed
  Py_ssize_t numArguments = 0;
  PyObject *keywordNames = nullptr; ///< tuple of interned names, or null
  DispatchState dispatch;
  int inference = -1;
  size_t kernelCount = 0, callCount = 0;
  std::vector<std::unique_ptr<Frame>> frames; ///< not in use
  std::vector<uint32_t> hostSamples;          ///< a ring; nanoseconds
  size_t nextSample = 0;
};

} // namespace pyjit::python

#endif // PYJIT_PYTHON_SPECIALIZATION_H
