//===- Mock.h - Carries out mock programs -----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_PYTHON_MOCK_H
#define PYJIT_PYTHON_MOCK_H

#include "Constants.h"

#include "pyjit-c/Programs.h"
#include "pyjit-rt/ScalarMath.h"

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace pyjit::python {

/// Makes a tensor's version counter stand at `version`.
void setVersion(const at::TensorBase &tensor, int64_t version);

/// One mock program: makes what the captured call left behind and returns what
/// it returned.
class Mock {
public:
  bool load(const PyjitMockProgram &program, PyObject *objects,
            std::string &error);

  /// Runs after the graph. `registers` is the shared register file, its guard
  /// part filled; `results` are the graph's results. Adds the views that have
  /// gradients of their own to `views`. Returns a new reference, or null with a
  /// Python exception set.
  PyObject *run(std::vector<PyObject *> &registers,
                const std::vector<rt::Number> &numbers,
                const std::vector<at::Tensor> &results,
                std::vector<at::Tensor> &views);

  /// Whether it gives the tensor in register `reg` other contents.
  bool writesBack(uint32_t reg) const;
  uint32_t numRegisters() const { return program->numRegisters; }
  /// Guard registers that the program uses.
  const std::vector<uint32_t> &externals() const { return guardRegisters; }

private:
  void findExternals();
  PyObject *makeTuple(const std::vector<PyObject *> &registers, uint32_t first,
                      uint32_t count) const;
  bool step(const PyjitInst &inst, std::vector<PyObject *> &registers);
  static PyObject *makeNumber(PyObject *tensor);
  PyObject *makeIterator(const PyjitInst &inst,
                         const std::vector<PyObject *> &registers) const;
  PyObject *makeInstance(const PyjitInst &inst,
                         const std::vector<PyObject *> &registers) const;

  // MockViews.cpp.
  PyObject *makeView(const PyjitInst &inst,
                     const std::vector<PyObject *> &registers) const;

  // MockWrites.cpp.
  bool write(const PyjitInst &inst, std::vector<PyObject *> &registers);
  static bool writeTensor(const PyjitInst &inst,
                          const std::vector<PyObject *> &registers);

  const PyjitMockProgram *program = nullptr;
  Constants constants;
  std::vector<uint32_t> guardRegisters;
};

} // namespace pyjit::python

#endif // PYJIT_PYTHON_MOCK_H
