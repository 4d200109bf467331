//===- LongLoops.cpp - Loops of many operators ----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A loop is recorded unrolled. Where one goes through layers, that is what
// makes a graph of a model. Where it does the same again (a token, a step of a
// sampler, an epoch), and that is a model's work, a graph of all iterations
// takes minutes to compile, and another number of iterations is another graph.
// From the next recording on such a loop has a graph break where its iterations
// end: one graph answers all of them.
//
//===----------------------------------------------------------------------===//

#include "breaks/Run.h"
#include "tensors/Tensors.h"

using namespace pyjit::capture;

/// Smaller iterations are not worth a launch of their own.
static constexpr RecordedAmount kLargeIteration{64, 4000};
/// So much of one loop is recorded: a second or two, with the compilation.
static constexpr RecordedAmount kMost{2000, 300'000};
/// How many times as much where gradients flow from one iteration to the next,
/// which a graph break makes a node of autograd's for each, and where
/// iterations are small.
static constexpr size_t kTimesWithGradients = 5, kTimesOfSmall = 10;

static bool reaches(const RecordedAmount &amount, const RecordedAmount &limit,
                    size_t times = 1) {
  return amount.operators >= limit.operators * times ||
         amount.instructions >= limit.instructions * times;
}

static bool isMuch(const RecordedAmount &all, size_t rounds,
                   bool gradientFlows) {
  bool isSmall = !reaches(all, kLargeIteration, rounds);
  return reaches(all, kMost,
                 isSmall         ? kTimesOfSmall
                 : gradientFlows ? kTimesWithGradients
                                 : 1);
}

/// At the jump that ends an iteration: whether the loop has become too long a
/// part of the recording. Iterations that meet weights for the first time are
/// layers, and do not count.
bool Run::isTooLong(PyCodeObject *code, int offset) {
  Recording &s = *recording;
  if (s.decisions.heads.count > 0 || s.checkpoint.repeats() ||
      s.transforms.isActive())
    return false;
  std::map<int, LoopRounds> &loops = s.tracker.frames.back().loops;
  // Inner loops begin anew.
  int start = jumpTarget(s.tracker.info(code).at(offset));
  loops.erase(loops.lower_bound(start), loops.lower_bound(offset));
  LoopRounds &loop = loops[offset];
  if (!loop.begun || s.writer.amount.weights != loop.before.weights) {
    loop = {.begun = true, .before = s.writer.amount};
    return false;
  }
  ++loop.rounds;
  RecordedAmount all{s.writer.amount.operators - loop.before.operators,
                     s.writer.amount.instructions - loop.before.instructions};
  if (loop.rounds < 3 || !isMuch(all, loop.rounds, s.tensors->gradientFlows()))
    return false;
  if (canBreakBefore(s))
    return true;
  loop.begun = false;
  return false;
}

/// Whether a graph break in front of the present instruction would be there,
/// and not around a call that it is in.
bool Run::canBreakBefore(Recording &recording) {
  recording.breaks.endedBefore = true;
  std::vector<FrameState> states = framesAtGraphBreak(recording);
  recording.breaks.endedBefore = false;
  return !handlesException() && !states.empty() &&
         states.back().frame == recording.tracker.frames.size() - 1;
}
