//===- Guards.h - Carries out guard programs --------------------*- C++ -*-===//

#ifndef PYJIT_PYTHON_GUARDS_H
#define PYJIT_PYTHON_GUARDS_H

#include "Constants.h"
#include "Frame.h"
#include "Watch.h"

#include "pyjit-c/Programs.h"

#include <ATen/core/Tensor.h>

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

  /// Whether the record answers a call with these arguments. Sets the frame's
  /// guard registers (borrowed references).
  bool check(Frame &frame, PyObject *const *args, Py_ssize_t nargs);

  /// The graph's input tensor `i`, after a successful check.
  PyObject *input(const Frame &frame, uint32_t i) const {
    return frame.registers[program->inputs[i]];
  }
  /// Whether input `i` is a number; it as a tensor that the frame owns.
  bool isNumberInput(uint32_t i) const {
    return program->inputs[i] & PYJIT_INPUT_NUMBER;
  }
  /// Whether input `i` is an entry of a watched dict, which may be borrowed.
  bool lends(uint32_t i) const { return lent[i]; }
  Watch &dicts() { return watch; }
  c10::TensorImpl *numberInput(Frame &frame, uint32_t i) const;
  void makeNumbers(Frame &frame) const;

  /// Places (see placeOf) whose number is not the one that was recorded, or
  /// (the tensor's, then `$` and the dimension) whose size, in a call that no
  /// record answered. Looks at every check that it can reach.
  void collectChangedNumbers(Frame &frame, PyObject *const *args,
                             Py_ssize_t nargs,
                             std::vector<std::string> &places);

  uint32_t numInputs() const { return program->numInputs; }
  uint32_t numRegisters() const { return program->numRegisters; }
  size_t size() const { return program->numWatched + program->numAlways; }

private:
  bool run(const PyjitInst *insts, uint32_t count, Frame &frame,
           PyObject *const *args, Py_ssize_t nargs);
  bool step(const PyjitInst &inst, Frame &frame, PyObject *const *args,
            Py_ssize_t nargs);
  bool stepNumber(const PyjitInst &inst, Frame &frame);
  std::string placeOf(uint32_t reg) const;
  bool checkWatched(Frame &frame, PyObject *const *args, Py_ssize_t nargs);
  void armWatch(Frame &frame);
  bool implMatches(const c10::TensorImpl &impl, const PyjitTensorMeta &meta,
                   const torch::autograd::AutogradMeta *autograd,
                   bool layout = true) const;
  /// `layout`: sizes and strides too.
  bool tensorMatches(PyObject *object, const PyjitTensorMeta &meta,
                     bool layout = true) const;
  void collectChangedSizes(PyObject *object, const PyjitTensorMeta &meta,
                           const std::string &place,
                           std::vector<std::string> &places) const;
  /// Takes the checks of watched tensors and instances out of the always
  /// segment.
  void splitAlways();
  bool checkTensors() const;
  bool checkInstances() const;
  void findLent();
  /// Where the checks of each call will look, as far as the watched segment
  /// tells.
  void findTouched(const Frame &frame);

  const PyjitGuardProgram *program = nullptr;
  Constants constants;
  /// What the watched segment found when it last ran, and how often it ran.
  std::vector<PyObject *> watchedRegisters;
  uint64_t epoch = 0;
  /// A tensor that the watched segment found, a parameter say.
  struct TensorCheck {
    PyObject *object; ///< of `epoch`
    PyTypeObject *type;
    const PyjitTensorMeta *meta;
    uint32_t reg;
  };
  std::vector<TensorCheck> tensors;
  /// An object that the watched segment found, with the dict that it found
  /// there: a module, say.
  struct InstanceCheck {
    PyObject *object; ///< of `epoch`, as `place` and `dict`
    PyObject **place; ///< where the object keeps its dict
    PyObject *dict;
    PyTypeObject *type;
    uint32_t reg, dictReg;
  };
  std::vector<InstanceCheck> instances;
  std::vector<bool> isWatched; ///< by register: the watched segment sets it
  std::vector<bool> lent;      ///< by input
  /// The work of a call sweeps the caches; hundreds of modules, tensors and
  /// cells, looked at one after the other, would be as many waits for memory.
  /// One per cache line, of `epoch`.
  std::vector<const void *> touched;
  std::vector<PyjitInst> always;
  /// Of each entry of `program->watches`.
  std::vector<Watch::Keys> watchKeys;
  Watch watch;
  bool watchable = true; ///< false: run the watched segment at each call
};

} // namespace pyjit::python

#endif // PYJIT_PYTHON_GUARDS_H
