//===- ArrayRun.cpp - The Torch executor behind the runtime's C ABI -------===//

#include "pyjit-rt/Array.h"
#include "pyjit-rt/TorchExecutor.h"

#include <ATen/ops/from_blob.h>
#include <c10/core/InferenceMode.h>

#include <cstdlib>
#include <cstring>

using namespace pyjit::rt;

static at::Tensor tensorOf(const PyjitArray &array) {
  return at::from_blob(array.data, {array.sizes, size_t(array.rank)},
                       {array.strides, size_t(array.rank)},
                       at::TensorOptions().dtype(c10::ScalarType(array.dtype)));
}

extern "C" __attribute__((visibility("default"))) char *
pyjitRtTorchRun(uint32_t abiVersion, const void *blob, size_t size,
                const PyjitKernel *kernels, size_t numKernels,
                const PyjitArray *inputs, size_t numInputs, PyjitArray *outputs,
                size_t numOutputs) {
  std::string error;
  if (abiVersion != PYJIT_RT_ABI_VERSION)
    return strdup("libpyjit-rt-torch: other ABI version; rebuild it");
  Program program;
  if (!program.load(blob, size, error))
    return strdup(error.c_str());
  if (program.numInputs() != numInputs || program.numOutputs() != numOutputs)
    return strdup("wrong number of inputs or outputs");
  auto executor = TorchExecutor::create(
      std::move(program), std::vector<KernelFn>(kernels, kernels + numKernels), error);
  if (!executor)
    return strdup(error.c_str());
  try {
    c10::InferenceMode inference;
    std::vector<at::Tensor> arguments, results(numOutputs);
    for (size_t i = 0; i < numInputs; ++i)
      arguments.push_back(tensorOf(inputs[i]));
    executor->run(arguments.data(), nullptr, results.data());
    for (size_t i = 0; i < numOutputs; ++i)
      tensorOf(outputs[i]).copy_(results[i]);
  } catch (const std::exception &exception) {
    return strdup(exception.what());
  }
  return nullptr;
}
