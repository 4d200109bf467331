//===- Guards.h - Carries out guard programs --------------------*- C++ -*-===//

#ifndef PYJIT_PYTHON_GUARDS_H
#define PYJIT_PYTHON_GUARDS_H

#include "Constants.h"
#include "Watch.h"

#include "pyjit-c/Programs.h"

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace pyjit::python {

/// One guard program over a register file that the mock program shares.
/// Checking allocates nothing and runs no Python code.
class Guards {
public:
  /// `program` must outlive this object; `registers` is the size of the shared
  /// register file.
  bool load(const PyjitGuardProgram &program, uint32_t registers,
            PyObject *objects, std::string &error);

  /// Whether the record answers a call with these arguments. Sets the guard
  /// registers (borrowed references).
  bool check(PyObject *const *args, Py_ssize_t nargs);

  /// Fills `inputs` with the graph's input tensors after a successful check.
  void collectInputs(std::vector<at::Tensor> &inputs) const;

  size_t size() const { return program->numWatched + program->numAlways; }
  std::vector<PyObject *> &registerFile() { return registers; }

private:
  bool run(const PyjitInst *insts, uint32_t count, PyObject *const *args,
           Py_ssize_t nargs);
  bool step(const PyjitInst &inst, PyObject *const *args, Py_ssize_t nargs);
  void armWatch();
  bool tensorMatches(PyObject *object, const PyjitTensorMeta &meta) const;
  /// Takes the checks of watched tensors out of the always segment.
  void splitTensors();
  bool checkTensors() const;

  const PyjitGuardProgram *program = nullptr;
  Constants constants;
  std::vector<PyObject *> registers;
  /// A tensor that the watched segment found: hundreds of parameters, whose
  /// metadata is scattered in memory. They are checked in one loop that fetches
  /// ahead, the rest of the always segment runs before.
  struct TensorCheck {
    uint32_t reg;
    PyTypeObject *type;
    const PyjitTensorMeta *meta;
  };
  std::vector<TensorCheck> tensors;
  std::vector<PyjitInst> always;
  /// Of each entry of `program->watches`.
  std::vector<Watch::Keys> watchKeys;
  Watch watch;
  bool watchable = true; ///< false: run the watched segment at each call
};

} // namespace pyjit::python

#endif // PYJIT_PYTHON_GUARDS_H
