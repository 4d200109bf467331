//===- ArrayRun.cpp - The Torch executor behind the runtime's C ABI -------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "pyjit-rt/Array.h"
#include "pyjit-rt/TorchExecutor.h"

#include <ATen/ops/from_blob.h>
#include <c10/core/InferenceMode.h>
#include <c10/util/Exception.h>

#include <cstdlib>
#include <cstring>

using namespace pyjit::rt;

static at::Tensor tensorOf(const PyjitArray &array) {
  return at::from_blob(array.data, {array.sizes, size_t(array.rank)},
                       {array.strides, size_t(array.rank)},
                       at::TensorOptions().dtype(c10::ScalarType(array.dtype)));
}

static std::unique_ptr<TorchExecutor> load(const PyjitProgramImage &image,
                                           std::string &error) {
  Program program;
  if (!program.load(image.blob, image.size, error))
    return nullptr;
  return TorchExecutor::create(
      std::move(program),
      std::vector<KernelFn>(image.kernels, image.kernels + image.numKernels),
      error);
}

extern "C" __attribute__((visibility("default"))) char *
pyjitRtTorchRun(uint32_t abiVersion, const PyjitProgramImage *main,
                const PyjitProgramImage *prepare, const PyjitArray *inputs,
                size_t numInputs, PyjitArray *outputs, size_t numOutputs) {
  if (abiVersion != PYJIT_RT_ABI_VERSION)
    return strdup("libpyjit-rt-torch: other ABI version; rebuild it");
  std::string error;
  auto executor = load(*main, error);
  std::unique_ptr<TorchExecutor> prepareExecutor;
  if (executor && prepare)
    prepareExecutor = load(*prepare, error);
  if (!executor || (prepare && !prepareExecutor))
    return strdup(error.c_str());
  if (executor->numInputs() != numInputs ||
      executor->numOutputs() != numOutputs)
    return strdup("wrong number of inputs or outputs");
  try {
    c10::InferenceMode inference;
    std::vector<at::Tensor> arguments, sources, cached, results(numOutputs);
    for (size_t i = 0; i < numInputs; ++i)
      arguments.push_back(tensorOf(inputs[i]));
    if (prepare) {
      for (size_t i = 0; i < prepare->numInputs; ++i)
        sources.push_back(arguments.at(prepare->inputs[i]));
      cached.resize(prepareExecutor->numOutputs());
      prepareExecutor->run(sources.data(), nullptr, cached.data());
    }
    // On a device the first call sets libraries up, the second one makes
    // graphs, later ones replay them.
    int calls = executor->report().empty() ? 1 : 4;
    std::vector<at::Tensor> written(arguments);
    for (int i = 0; i < calls; ++i) {
      for (size_t k = 0; k < numOutputs; ++k)
        if (auto input = executor->updatedInput(k))
          written[*input] = arguments[*input].clone();
      if (!executor->run(written.data(), cached.data(), results.data()))
        return strdup(kUnanswered);
    }
    for (size_t i = 0; i < numOutputs; ++i) {
      auto input = executor->updatedInput(i);
      tensorOf(outputs[i]).copy_(input ? written[*input] : results[i]);
    }
  } catch (const c10::Error &error) {
    return strdup(error.what_without_backtrace());
  } catch (const std::exception &exception) {
    return strdup(exception.what());
  }
  return nullptr;
}
