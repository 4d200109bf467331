//===- BackwardPrograms.cpp - Gradients of a specialization ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "BackwardPrograms.h"

#include "Mock.h"
#include "Specialization.h"

#include <algorithm>

using namespace pyjit;
using namespace pyjit::python;
using rt::BackwardProgram;

std::unique_ptr<rt::TorchExecutor>
python::makeExecutor(const PyjitExecutable *exe, PyjitProgramKind kind,
                     std::string &error) {
  PyjitString blob = pyjitExecutableLaunch(exe, kind);
  rt::Program program;
  if (!program.load(blob.data, blob.size, error))
    return nullptr;
  rt::KernelFn const *functions = nullptr;
  size_t count = pyjitExecutableKernels(exe, kind, &functions);
  return rt::TorchExecutor::create(
      std::move(program),
      std::vector<rt::KernelFn>(functions, functions + count), error);
}

namespace {

/// Makes backward programs of one specialization, of all orders: `root` is its
/// executable, from which the compiler derives the others.
class Loader {
public:
  Loader(std::shared_ptr<PyjitExecutable> root, std::vector<bool> isNumber,
         std::vector<bool> isWritten)
      : root(std::move(root)), isNumber(std::move(isNumber)),
        isWritten(std::move(isWritten)) {}

  /// Of `exe`, whose results are gradients of order `order - 1`.
  std::shared_ptr<BackwardProgram> load(std::shared_ptr<PyjitExecutable> exe,
                                        const rt::TorchExecutor &main,
                                        unsigned order,
                                        std::string &error) const {
    const PyjitBackward *known = pyjitExecutableBackward(exe.get());
    if (!known)
      return nullptr;
    std::shared_ptr<BackwardProgram> made = describe(*known);
    std::vector<std::vector<bool>> varies =
        rows(known->varies, made->gradients.size(), known->numReads);
    made->program = makeExecutor(exe.get(), PyjitProgramBackward, error);
    made->code = std::move(exe);
    if (!made->program || !made->resolve(main, error))
      return nullptr;
    // What each gradient varies with, whether there is a derivative or not.
    std::vector<std::vector<uint32_t>> used(made->gradients.size());
    for (size_t i = 0; i < made->reads.size(); ++i)
      for (size_t k = 0; k < used.size(); ++k)
        if (uint32_t input = made->reads[i].index;
            varies[k][i] && contains(made->gradients, input))
          used[k].push_back(input);
    made->differentiate = [loader = *this, order, used](std::string &error) {
      return loader.differentiate(used, order + 1, error);
    };
    if (order == 1)
      made->drop = [loader = *this](const std::vector<uint32_t> &results,
                                    bool stops) {
        return loader.drop(results, stops);
      };
    return made;
  }

private:
  std::unique_ptr<BackwardProgram> drop(const std::vector<uint32_t> &results,
                                        bool stops) const {
    std::string error;
    std::shared_ptr<PyjitExecutable> exe(
        pyjitExecutableDropGradients(root.get(), results.data(), results.size(),
                                     stops, appendDiagnostic, &error),
        pyjitExecutableDestroy);
    const PyjitBackward *known =
        exe ? pyjitExecutableBackward(exe.get()) : nullptr;
    if (!known)
      return nullptr;
    std::unique_ptr<BackwardProgram> made = describe(*known);
    made->program = makeExecutor(exe.get(), PyjitProgramBackward, error);
    made->code = std::move(exe);
    bool fits = made->program &&
                made->program->numInputs() == made->arguments.size() &&
                made->program->numOutputs() ==
                    made->gradients.size() + made->stops.size();
    return fits ? std::move(made) : nullptr;
  }

  std::unique_ptr<BackwardProgram> describe(const PyjitBackward &known) const {
    auto made = std::make_unique<BackwardProgram>();
    for (size_t i = 0; i < known.numArguments; ++i)
      made->arguments.push_back(
          {sourceOf(known.arguments[i].source), known.arguments[i].index});
    made->gradients.assign(known.gradients,
                           known.gradients + known.numGradients);
    made->differentiable.assign(known.differentiable,
                                known.differentiable + known.numDifferentiable);
    for (size_t i = 0; i < known.numReads; ++i) {
      uint32_t input = known.reads[i];
      bool isOfCall = input < isNumber.size(); // not an incoming gradient
      made->reads.push_back({.index = input,
                             .written = isOfCall && isWritten[input],
                             .copied = isOfCall && isNumber[input]});
    }
    size_t gradients = known.numGradients, results = known.numDifferentiable;
    made->reaches = rows(known.reaches, gradients, results);
    made->groups.assign(known.groups, known.groups + known.numDifferentiable);
    made->uses = rows(known.uses, gradients, known.numReads);
    made->needs =
        rows(known.needs, gradients + known.numStops, known.numArguments);
    if (known.leads) {
      made->leads = rows(known.leads, results, results);
      made->reachesDirectly = rows(known.reachesDirectly, gradients, results);
    }
    if (known.keeps)
      made->keeps.assign(known.keeps, known.keeps + results);
    made->stops.assign(known.stops, known.stops + known.numStops);
    made->numResults = known.numResults;
    return made;
  }

  static BackwardProgram::Source sourceOf(PyjitBackwardSource source) {
    using Source = BackwardProgram::Source;
    return source == PyjitBackwardInput    ? Source::Input
           : source == PyjitBackwardSeen   ? Source::Seen
           : source == PyjitBackwardResult ? Source::Result
                                           : Source::Gradient;
  }

  static std::vector<std::vector<bool>> rows(const uint8_t *entries,
                                             size_t count, size_t columns) {
    std::vector<std::vector<bool>> made;
    for (size_t i = 0; i < count; ++i)
      made.emplace_back(entries + i * columns, entries + (i + 1) * columns);
    return made;
  }

  /// `used`: of each result, what has to have a gradient, of zeros if need be.
  std::unique_ptr<rt::DifferentiableBackward>
  differentiate(const std::vector<std::vector<uint32_t>> &used, unsigned order,
                std::string &error) const {
    std::shared_ptr<PyjitExecutable> exe(
        pyjitExecutableDifferentiate(root.get(), order, appendDiagnostic,
                                     &error),
        pyjitExecutableDestroy);
    if (!exe)
      return nullptr;
    auto made = std::make_unique<rt::DifferentiableBackward>();
    made->program = makeExecutor(exe.get(), PyjitProgramMain, error);
    if (pyjitExecutableLaunch(exe.get(), PyjitProgramPrepare).size)
      error = "it takes what a program that nobody runs prepares";
    if (!made->program || !error.empty())
      return nullptr;
    auto backward = load(exe, *made->program, order, error);
    made->code = std::move(exe);
    if (!backward)
      return nullptr;
    for (const std::vector<uint32_t> &inputs : used)
      for (uint32_t input : inputs)
        if (!contains(backward->gradients, input) &&
            !contains(backward->zeros, input))
          backward->zeros.push_back(input);
    backward->vanishes = findVanishing(*backward, used);
    made->backward = std::move(backward);
    return made;
  }

  static std::vector<std::vector<bool>>
  findVanishing(const BackwardProgram &backward,
                const std::vector<std::vector<uint32_t>> &used) {
    std::vector<std::vector<bool>> found;
    for (size_t k = 0; k < backward.gradients.size(); ++k) {
      std::vector<bool> &own =
          found.emplace_back(backward.differentiable.size());
      for (size_t i = 0; i < own.size(); ++i)
        own[i] =
            !backward.reaches[k][i] &&
            contains(used[backward.differentiable[i]], backward.gradients[k]);
    }
    return found;
  }

  static bool contains(const std::vector<uint32_t> &list, uint32_t number) {
    return std::find(list.begin(), list.end(), number) != list.end();
  }

  std::shared_ptr<PyjitExecutable> root;
  std::vector<bool> isNumber, isWritten;
};

} // namespace

std::shared_ptr<const BackwardProgram>
python::loadBackward(std::shared_ptr<PyjitExecutable> exe,
                     const rt::TorchExecutor &main, const Guards &guards,
                     const Mock &mock, std::string &error) {
  // Numbers are given in tensors that the next call overwrites.
  std::vector<bool> isNumber, isWritten;
  for (uint32_t i = 0; i < guards.numInputs(); ++i) {
    isNumber.push_back(guards.isNumberInput(i));
    std::optional<uint32_t> own = guards.inputRegister(i);
    isWritten.push_back(own && mock.writesBack(*own));
  }
  Loader loader(exe, std::move(isNumber), std::move(isWritten));
  auto made = loader.load(std::move(exe), main, 1, error);
  if (made)
    for (uint32_t input : made->gradients)
      made->parameters.push_back(guards.isBorrowed(input));
  return made;
}
