//===- Generators.h - What random numbers come next -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_RT_GENERATORS_H
#define PYJIT_RT_GENERATORS_H

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <utility>
#include <vector>

namespace pyjit::rt {

/// PyTorch's default generators of the processor and of one more device, in the
/// states that they were in when this was made.
class Generators {
public:
  explicit Generators(at::Device device);
  void restore() const;

private:
  void keep(at::Device device);
  std::vector<std::pair<at::Generator, at::Tensor>> kept;
};

} // namespace pyjit::rt

#endif // PYJIT_RT_GENERATORS_H
