//===- Assembler.h - PTX to machine code ------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_RUNTIME_CUDA_ASSEMBLER_H
#define PYJIT_RUNTIME_CUDA_ASSEMBLER_H

#include <optional>
#include <vector>

namespace pyjit::rt::cuda {

/// The CUDA toolkit's assembler as a library (nvJitLink), which PyTorch's own
/// libraries have loaded. The driver has one too, which assembles one module at
/// a time in a process.
class Assembler {
public:
  /// Null where the process has no such library.
  static const Assembler *get();

  /// The machine code (a cubin) for compute capability `capability` (90 for
  /// 9.0) of each module of PTX, made side by side. Nothing where one is
  /// refused: the driver says why.
  std::optional<std::vector<std::vector<char>>>
  assemble(const std::vector<const char *> &modules, int capability) const;

private:
  bool load(void *library);
  std::vector<char> assemble(const char *ptx, int capability) const;

  using Handle = void *;
  int (*create)(Handle *, unsigned, const char **) = nullptr;
  int (*destroy)(Handle *) = nullptr;
  int (*addData)(Handle, int, const void *, size_t, const char *) = nullptr;
  int (*complete)(Handle) = nullptr;
  int (*getSize)(Handle, size_t *) = nullptr;
  int (*getCode)(Handle, void *) = nullptr;
};

} // namespace pyjit::rt::cuda

#endif // PYJIT_RUNTIME_CUDA_ASSEMBLER_H
