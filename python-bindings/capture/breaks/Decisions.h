//===- Decisions.h - Branches on tensors' data ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef PYJIT_CAPTURE_BREAKS_DECISIONS_H
#define PYJIT_CAPTURE_BREAKS_DECISIONS_H

#include "CPython.h"
#include "TraceWriter.h"
#include "interpreter/Frames.h"

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace pyjit::capture {

class Recording;

/// Recording on through branches on data: a loop's heads, and the state at each
/// (Decisions.cpp).
class Decisions {
public:
  explicit Decisions(Recording &recording) : s(recording) {}

  /// Writes what the rest of the run depends on, tensors' data apart: two equal
  /// texts in front of one instruction go on alike. False: it cannot be said.
  /// `truth`: the condition is a number that the specialization computes.
  bool describeState(const FrameState &state, std::string &text,
                     std::vector<PyObject *> &found, bool truth);
  /// `outcome`: -1 leaves it to who goes on after the graph break.
  void decide(PyjitValue condition, int outcome, const std::string &site,
              const std::string &state, const std::vector<PyjitValue> &values);
  /// The iteration went on because `flag` was so.
  void speculate(PyjitValue flag, bool outcome);
  void forgetValues(int first);

  /// The heads of a loop that the recording has come by.
  struct Heads {
    int start = -1; ///< where iterations begin
    int site = -1;  ///< the branch
    int count = 0;
    bool forked = false;   ///< a recording up to the first head was kept
    bool complete = false; ///< ends at the last head
    bool spoiled = false;  ///< no more of them
    bool early = false;    ///< the loop ended before the last one
    bool ranOut = false;   ///< ... with the end of its range
    size_t plain = 0;      ///< number of that recording
    std::string state;
    std::map<PyObject *, size_t> numbers; ///< of objects known by identity
  } heads;
  /// Asked in front of a branch: whether to record on through it.
  /// The last is the proxy of a condition that is a number, or -1.
  std::function<bool(PyCodeObject *, int, PyObject *, int)> atBranch;
  /// Asked where Python wants a tensor's truth as a value (`bool(t)`, `not t`):
  /// whether to record on, with the truth that it has in this call.
  std::function<bool(PyCodeObject *, int, PyObject *)> atTruth;
  /// Asked where the size of an operator's result depends on data: whether to
  /// record on, with the size that it has in this call.
  std::function<bool()> atSize;
  /// Asked where an iteration of a loop ends: whether to end the recording.
  std::function<bool(PyCodeObject *, int)> atLoop;

  /// The instruction at `offset` branches on a number that the specialization
  /// computes.
  struct Truth {
    PyjitFrame *frame = nullptr;
    int offset = -1;
    int proxy = -1;
  } truthAhead;
  int truthLeft = -1; ///< on top of the operand stack at a graph break
  /// How often instructions gave Python a truth as a value, or a size.
  std::map<std::pair<PyCodeObject *, int>, int> truthsAt;

private:
  Recording &s;
};

} // namespace pyjit::capture

#endif // PYJIT_CAPTURE_BREAKS_DECISIONS_H
