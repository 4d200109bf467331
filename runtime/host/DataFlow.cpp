//===- DataFlow.cpp - What a launch program computes from what ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "pyjit-rt/DataFlow.h"

#include <set>

using namespace pyjit::rt;

namespace {

/// Follows the steps of a program.
class Walk {
public:
  Walk(const Program &program, DataFlow &flow)
      : program(program), flow(flow), writers(program.numSlots()) {
    for (uint32_t i = 0; i < program.numSlots(); ++i) {
      known.push_back(isExternal(program.slots()[i]));
      sources.push_back(i);
    }
  }

  void run() {
    for (uint32_t i = 0; i < program.numSteps(); ++i)
      visit(program.steps()[i]);
    std::set<uint32_t> results;
    for (uint32_t i = 0; i < program.numOutputs(); ++i) {
      const auto &from = writers[program.outputSlot(i)];
      results.insert(from.begin(), from.end());
    }
    flow.results.assign(results.begin(), results.end());
  }

private:
  static bool isExternal(const Slot &slot) {
    return slot.kind == SlotKind::Input || slot.kind == SlotKind::Cached ||
           slot.kind == SlotKind::Words;
  }

  void visit(const Step &step) {
    const int64_t *ints = program.ints();
    switch (step.kind) {
    case StepKind::Kernel: {
      const Kernel &kernel = program.kernels()[step.a];
      begin(DataFlow::Kind::Kernel, program.string(kernel.name));
      if (kernel.location != kNone)
        flow.nodes.back().location = program.string(kernel.location);
      // Operands come first, and are known; then what it writes.
      for (uint32_t k = 0; k < step.c; ++k)
        access(uint32_t(ints[step.b + k]));
      return end();
    }
    case StepKind::Call:
      begin(DataFlow::Kind::Call, program.string(step.a));
      readArguments(step.b);
      for (int64_t k = 0; k < ints[step.c]; ++k)
        if (int64_t slot = ints[step.c + 1 + k]; slot >= 0)
          written.push_back(uint32_t(slot));
      return end();
    case StepKind::Copy:
      begin(DataFlow::Kind::Copy, "copy");
      read(step.a);
      written.push_back(step.b);
      return end();
    case StepKind::View:
    case StepKind::Move:
      return alias(step.a, step.b);
    case StepKind::Pick:
      for (int64_t k = 0; k < ints[step.b + 3]; ++k)
        alias(step.a, uint32_t(ints[step.b + 4 + k]));
      return;
    default:
      return;
    }
  }

  void begin(DataFlow::Kind kind, const char *name) {
    flow.nodes.push_back({kind, name, "", {}});
    from.clear();
    written.clear();
  }

  void end() {
    DataFlow::Node &node = flow.nodes.back();
    node.reads.assign(from.begin(), from.end());
    for (uint32_t slot : written) {
      known[slot] = true;
      writers[slot] = {uint32_t(flow.nodes.size() - 1)};
    }
  }

  void readArguments(uint64_t at) {
    const int64_t *ints = program.ints();
    for (;; ++at) {
      auto tag = static_cast<ArgTag>(ints[at]);
      if (tag == ArgTag::End)
        return;
      if (tag == ArgTag::None)
        continue;
      ++at;
      if (tag != ArgTag::Tensor && tag != ArgTag::WrappedSlot &&
          tag != ArgTag::NumberSlot)
        continue;
      if (uint32_t slot = ints[at]; known[slot])
        read(slot);
      else // a call that writes where it is told
        written.push_back(slot);
    }
  }

  void access(uint32_t slot) {
    if (!known[slot] || (program.slots()[slot].flags & kSlotWritten))
      written.push_back(slot);
    if (known[slot])
      read(slot);
  }

  void read(uint32_t slot) {
    from.insert(writers[slot].begin(), writers[slot].end());
    const Slot &shown = program.slots()[sources[slot]];
    if (shown.kind == SlotKind::Cached || (shown.flags & kSlotStable))
      ++flow.nodes.back().weights;
    else if (shown.kind == SlotKind::Input)
      flow.nodes.back().readsInputs = true;
  }

  void alias(uint32_t name, uint32_t of) {
    known[name] = true;
    writers[name].insert(writers[of].begin(), writers[of].end());
    sources[name] = sources[of];
  }

  const Program &program;
  DataFlow &flow;
  std::vector<std::set<uint32_t>> writers; ///< by slot
  std::vector<bool> known;                 ///< by slot: somebody has filled it
  std::vector<uint32_t> sources;           ///< by slot: what a view shows
  std::set<uint32_t> from;                 ///< of the node at hand
  std::vector<uint32_t> written;
};

} // namespace

DataFlow::DataFlow(const Program &program) { Walk(program, *this).run(); }
