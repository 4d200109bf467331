//===- TrainedWeights.cpp - Packed weights that require grad --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "TrainedWeights.h"

#include "BackwardPrograms.h"
#include "Specialization.h"

#include <algorithm>

namespace pyjit::python {

bool KeepingPolicy::noteVersion(uint64_t version) {
  calm = version == last ? calm + 1 : 0;
  last = version;
  return calm >= wait;
}

bool KeepingPolicy::notePacking() {
  vain = packed && uses < kWorth ? vain + 1 : 0;
  packed = true;
  uses = 0;
  return vain < kVain;
}

void KeepingPolicy::giveUp() {
  wait = std::min(2 * wait, kLongestWait);
  calm = uses = vain = 0;
  packed = false;
}

std::unique_ptr<TrainedWeights>
TrainedWeights::create(std::shared_ptr<PyjitExecutable> exe,
                       rt::TorchExecutor &main,
                       std::shared_ptr<const rt::BackwardProgram> backward) {
  if (!backward || !pyjitExecutablePacksTrained(exe.get()))
    return nullptr;
  auto weights = std::make_unique<TrainedWeights>();
  weights->exe = std::move(exe);
  weights->main = &main;
  for (size_t k = 0; k < backward->parameters.size(); ++k)
    if (backward->parameters[k]) {
      weights->last = backward->gradients[k];
      if (!weights->first)
        weights->first = weights->last;
    }
  weights->backward = std::move(backward);
  return weights;
}

/// To look at all of them would cost a cache line each.
uint64_t TrainedWeights::versionOf(const at::Tensor *inputs) const {
  auto version = [&](uint32_t input) -> uint64_t {
    const at::Tensor &tensor = inputs[input];
    return tensor.unsafeGetTensorImpl()->version_counter().enabled()
               ? tensor._version()
               : 0;
  };
  return version(first) + (version(last) << 32);
}

std::optional<Prepared::Use> TrainedWeights::begin(const at::Tensor *inputs) {
  if (state == State::Watched && policy.noteVersion(versionOf(inputs)))
    state = program ? State::Kept : State::Wanted;
  if (state != State::Kept)
    return std::nullopt;
  if (prepared->isFresh(inputs)) {
    policy.noteUse();
    return prepared->begin(inputs);
  }
  if (policy.notePacking()) {
    Prepared::Use use = prepared->begin(inputs);
    if (use.holds)
      return use;
  }
  policy.giveUp();
  prepared->forget();
  program->dropIdleMemory();
  state = State::Watched;
  return std::nullopt;
}

void TrainedWeights::compile(rt::Interruption::Ask onInterrupt) {
  state = State::Compiling;
  std::string error;
  PyThreadState *thread = PyEval_SaveThread();
  std::shared_ptr<PyjitExecutable> made(
      pyjitExecutableKeepParameters(exe.get(), appendDiagnostic, &error),
      pyjitExecutableDestroy);
  PyEval_RestoreThread(thread);
  state = State::None;
  if (!made || !pyjitExecutableLaunch(made.get(), PyjitProgramPrepare).size)
    return;
  auto launch = makeExecutor(made.get(), PyjitProgramMain, error);
  auto kept = Prepared::load(made.get(), /*hashes=*/false, error);
  if (!launch || !kept || !backward->takesFrom(*main, *launch))
    return;
  launch->onInterrupt(onInterrupt);
  program = std::move(launch);
  prepared = std::move(kept);
  second = std::move(made);
  main->dropIdleMemory();
  state = State::Kept;
}

} // namespace pyjit::python
