//===- Guards.h - Carries out guard programs --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_PYTHON_GUARDS_H
#define PYJIT_PYTHON_GUARDS_H

#include "Constants.h"
#include "DisjointMemory.h"
#include "DistinctObjects.h"
#include "Frame.h"
#include "Snapshot.h"
#include "Watch.h"

#include "capture/objects/AccessPath.h"

#include "pyjit-c/Programs.h"

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <vector>

namespace torch::autograd {
struct AutogradMeta;
}

namespace pyjit::python {

/// One guard program over a register file that the mock program shares.
/// Checking allocates nothing and runs no Python code.
class Guards {
public:
  /// `program` must outlive this object.
  bool load(const PyjitGuardProgram &program, PyObject *objects,
            std::string &error);

  /// Whether the specialization answers a call with these arguments. Sets the
  /// frame's guard registers (borrowed references).
  bool check(Frame &frame, PyObject *const *args, Py_ssize_t nargs);

  /// The graph's input tensor `i`, after a successful check.
  PyObject *input(const Frame &frame, uint32_t i) const {
    return frame.registers[program->inputs[i]];
  }
  /// The register of input `i`; nothing where the input is no object.
  std::optional<uint32_t> inputRegister(uint32_t i) const {
    return isObjectInput(i) ? std::optional(program->inputs[i]) : std::nullopt;
  }
  /// Whether input `i` is a number; it as a tensor that the frame owns.
  bool isNumberInput(uint32_t i) const {
    return program->inputs[i] & PYJIT_INPUT_NUMBER;
  }
  uint32_t numberRegister(uint32_t i) const {
    return program->inputs[i] & ~PYJIT_INPUT_NUMBER;
  }
  /// Whether input `i` is an entry of a watched dict, which may be borrowed.
  bool isBorrowed(uint32_t i) const { return borrowed[i]; }
  /// Inputs that may be other tensors than in the last call of this epoch.
  const std::vector<uint32_t> &freeInputs() const { return unbound; }
  uint64_t currentEpoch() const { return epoch; }
  Watch &dicts() { return watch; }
  c10::TensorImpl *numberInput(Frame &frame, uint32_t i) const;
  /// After a successful check: the casts of weights that autocast keeps, made
  /// now where there are none. False, and a miss, where one is not as recorded.
  /// Once the call is answered, `frame.castBatch` has autocast keep them.
  bool takeKeptCasts(Frame &frame) const;
  bool hasKeptCasts() const { return !keptCasts.empty(); }
  /// Whether input `i` is one of these.
  bool isKeptCast(uint32_t i) const {
    return hasKeptCasts() && !isNumberInput(i) &&
           program->inputs[i] & PYJIT_INPUT_KEPT_CAST;
  }
  c10::TensorImpl *keptCast(const Frame &frame, uint32_t i) const {
    return frame.keptCasts[program->inputs[i] & ~PYJIT_INPUT_KEPT_CAST]
        .unsafeGetTensorImpl();
  }
  void makeNumbers(Frame &frame) const;

  /// Where numbers and sizes are that are not those that were recorded, in a
  /// call that no specialization answered. Looks at every check that it can
  /// reach.
  void collectChangedNumbers(Frame &frame, PyObject *const *args,
                             Py_ssize_t nargs,
                             std::vector<capture::AccessPath> &changed);

  /// For readers (GuardSteps.cpp); new references, or null with a Python error.
  /// A tuple for each instruction: name, flags, dst, a, b, imm, and what it
  /// names besides registers.
  PyObject *steps() const;
  /// The number of the first of these that fails, and the object that it looks
  /// at; None: all hold.
  PyObject *firstFailure(Frame &frame, PyObject *const *args, Py_ssize_t nargs);

  uint32_t numInputs() const { return program->numInputs; }
  uint32_t numRegisters() const { return program->numRegisters; }
  size_t size() const { return program->numWatched + program->numAlways; }

private:
  struct Settled;
  /// A tensor that the watched part found, a parameter say.
  struct TensorCheck {
    PyObject *object; ///< of `epoch`
    PyTypeObject *type;
    const PyjitTensorMeta *meta;
    uint32_t reg;
  };
  /// An object that the watched part found, with the dict that it found
  /// there: a module, say.
  struct InstanceCheck {
    PyObject *object; ///< of `epoch`, as `place` and `dict`
    PyObject **place; ///< where the object keeps its dict
    PyObject *dict;
    PyTypeObject *type;
    uint32_t reg, dictReg;
  };

  bool run(const PyjitInst *insts, uint32_t count, Frame &frame,
           PyObject *const *args, Py_ssize_t nargs);
  bool step(const PyjitInst &inst, Frame &frame, PyObject *const *args,
            Py_ssize_t nargs);
  bool stepNumber(const PyjitInst &inst, Frame &frame);
  PyObject *operandOf(const PyjitInst &inst) const;
  const PyjitInst *readOf(uint32_t reg) const;
  capture::AccessPath pathOf(uint32_t reg) const;
  void adoptRegisters(Frame &frame) const;
  bool checkWatched(Frame &frame, PyObject *const *args, Py_ssize_t nargs);
  void armWatch(Frame &frame);
  bool implMatches(const c10::TensorImpl &impl, const PyjitTensorMeta &meta,
                   const torch::autograd::AutogradMeta *autograd,
                   bool layout = true) const;
  /// `layout`: sizes and strides too.
  bool tensorMatches(PyObject *object, const PyjitTensorMeta &meta,
                     bool layout = true) const;
  void collectChangedSizes(PyObject *object, const PyjitTensorMeta &meta,
                           const capture::AccessPath &path,
                           std::vector<capture::AccessPath> &changed) const;
  /// Whether a register holds input `i`.
  bool isObjectInput(uint32_t i) const {
    return !isNumberInput(i) && !isKeptCast(i);
  }
  /// Takes the checks of watched tensors and instances, and reads of casts, out
  /// of the always segment.
  void splitAlways();
  bool checkTensor(const TensorCheck &check) const;
  bool checkInstances() const;
  bool checkAll(Frame &frame, PyObject *const *args, Py_ssize_t nargs);
  void findBorrowed();
  /// After a check that has passed.
  void takeSnapshot(Frame &frame);
  bool snapshotInstruction(const PyjitInst &inst, uint32_t owner,
                           const std::vector<PyObject *> &registers,
                           Settled &settled);

  const PyjitGuardProgram *program = nullptr;
  Constants constants;
  DisjointMemory disjoint;
  DistinctObjects distinct;
  /// What the watched part found when it last ran, and how often it ran.
  std::vector<PyObject *> watchedRegisters;
  uint64_t epoch = 0;
  std::vector<TensorCheck> tensors;
  std::vector<InstanceCheck> instances;
  std::vector<bool> isWatched; ///< by register: the watched part sets it
  std::vector<bool> borrowed;  ///< by input
  std::vector<PyjitInst> always, keptCasts;
  /// Stands for `always`, `tensors` and `instances` while the watch is clean,
  /// apart from what is left in `rest` and `restTensors`.
  Snapshot snapshot;
  std::vector<PyjitInst> rest;
  std::vector<uint32_t> restTensors; ///< indices
  /// What has changed under a snapshot, by owner: indices of `always`, then of
  /// `tensors`, then of `instances`. It is checked by itself from then on.
  std::vector<bool> changing;
  std::vector<uint32_t> unbound; ///< inputs whose tensor is not `epoch`'s
  /// Of each entry of `program->watches`.
  std::vector<Watch::Keys> watchKeys;
  Watch watch;
  bool watchable = true; ///< false: run the watched part at each call
};

} // namespace pyjit::python

#endif // PYJIT_PYTHON_GUARDS_H
