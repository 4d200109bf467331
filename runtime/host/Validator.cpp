//===- Validator.cpp - Whether a launch program is well formed ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One method for each record of the program: header, slot, kernel, symbol,
// patch, and each family of steps. A compiler's mistake or a damaged file ends
// here, with a sentence, and not in an executor.
//
//===----------------------------------------------------------------------===//

#include "Validator.h"

#include <algorithm>

using namespace pyjit::rt;

namespace {

// c10::ScalarType.
constexpr uint8_t kInt64 = 4, kBool = 11;

class Validator {
public:
  Validator(const Program &program, std::string &error)
      : program(program), h(program.header()), slots(program.slots()),
        steps(program.steps()), ints(program.ints()), error(error) {}

  bool run() {
    return checkOutputs() && checkSlots() && checkKernels() && checkSymbols() &&
           checkPatches() && checkVariants() && checkWritten() &&
           checkSteps() && checkOrder();
  }

private:
  bool checkOutputs();
  bool checkWritten();
  bool checkSlots();
  bool checkKernels();
  bool checkSymbols();
  bool checkPatches();
  bool checkExpression(uint64_t at);
  bool checkCode() const;
  bool checkVariants();

  bool checkSteps();
  bool checkOrder();
  std::vector<bool> findWritten() const;
  int64_t writtenBy(const Step &s) const;
  bool isUndone(uint32_t i) const;
  bool checkStep(uint32_t i);
  bool checkKernelStep(const Step &s);
  bool checkCall(const Step &s);
  bool checkArguments(uint64_t at);
  bool checkView(const Step &s);
  bool checkCopy(uint32_t i);
  bool checkPick(const Step &s);
  bool checkLoop(uint32_t i);
  bool checkBranch(uint32_t i);
  bool checkGraph(const Step &s);

  bool fail(std::string what) {
    error = "launch program: " + std::move(what);
    return false;
  }
  /// Of the step that is being checked.
  bool failStep(const char *what) { return fail(where + ": " + what); }

  bool isString(uint64_t index) const { return index < h.chars; }
  bool isSlot(int64_t slot) const {
    return slot >= 0 && slot < int64_t(h.slots);
  }
  bool areSlots(uint64_t first, uint64_t count) const {
    for (uint64_t i = 0; i < count; ++i)
      if (!isSlot(ints[first + i]))
        return false;
    return true;
  }
  /// A count and that many words.
  bool isList(uint64_t at) const {
    return at < h.ints && ints[at] >= 0 && uint64_t(ints[at]) < h.ints - at;
  }
  bool isScalar(int64_t slot, uint8_t dtype, uint64_t bytes) const {
    return isSlot(slot) && slots[slot].dtype == dtype &&
           slots[slot].bytes == bytes;
  }
  bool isNumber(int64_t slot) const { return isScalar(slot, kInt64, 8); }
  bool isFlag(int64_t slot) const { return isScalar(slot, kBool, 1); }
  bool haveEqualSizes(const Slot &a, const Slot &b) const;

  /// A loop or branch around the step.
  struct Scope {
    uint32_t step, partner;
    bool middle = false; ///< its test or else was met
  };
  bool isInside(StepKind begin) const {
    return !scopes.empty() && steps[scopes.back().step].kind == begin;
  }

  const Program &program;
  const Header &h;
  const Slot *slots;
  const Step *steps;
  const int64_t *ints;
  std::string &error;

  std::string where;
  std::vector<Scope> scopes;
  int64_t graph = -1; ///< the graph around the step, or -1
};

//===----------------------------------------------------------------------===//
// Tables
//===----------------------------------------------------------------------===//

bool Validator::checkOutputs() {
  if (h.chars && program.string(0)[h.chars - 1] != '\0')
    return fail("unterminated string");
  if (h.outputs > h.ints)
    return fail("output list out of range");
  for (uint32_t i = 0; i < h.outputs; ++i)
    if (!isSlot(ints[i] & ~kOutputInPlace))
      return fail("output " + std::to_string(i) + " names no slot");
  return true;
}

/// An output that is in place is an input that the program writes, and no other
/// input is one.
bool Validator::checkWritten() {
  std::vector<bool> written(h.slots);
  for (uint32_t i = 0; i < h.outputs; ++i)
    if (program.isInPlace(i))
      written[program.outputSlot(i)] = true;
  for (uint32_t i = 0; i < h.slots; ++i)
    if (written[i] != bool(slots[i].flags & kSlotWritten) ||
        (written[i] && slots[i].kind != SlotKind::Input))
      return fail("slot " + std::to_string(i) +
                  ": no input that the program writes");
  return true;
}

/// What shows an input that the program writes: the slot itself, or a view.
std::vector<bool> Validator::findWritten() const {
  std::vector<bool> shows(h.slots);
  for (uint32_t i = 0; i < h.slots; ++i)
    shows[i] = slots[i].flags & kSlotWritten;
  for (uint32_t i = 0; i < h.steps; ++i) {
    const Step &s = steps[i];
    if (s.kind == StepKind::View || s.kind == StepKind::Move)
      shows[s.a] = shows[s.a] || shows[s.b];
    if (s.kind == StepKind::Pick)
      for (int64_t k = 0; k < ints[s.b + 3]; ++k)
        shows[s.a] = shows[s.a] || shows[ints[s.b + 4 + k]];
  }
  return shows;
}

/// The slot that a step which may be undone writes, or -1.
int64_t Validator::writtenBy(const Step &s) const {
  if (s.kind == StepKind::Copy)
    return s.b;
  bool first = s.kind == StepKind::Call &&
               static_cast<ArgTag>(ints[s.b]) == ArgTag::Tensor;
  return first ? ints[s.b + 1] : -1;
}

/// Whether the steps in front of step `i` put back what it writes.
bool Validator::isUndone(uint32_t i) const {
  constexpr uint32_t kBefore = 2; // Undo, and the one step that puts it back
  if (i < kBefore || writtenBy(steps[i]) < 0)
    return false;
  const Step &undo = steps[i - kBefore], &back = steps[i - 1];
  return undo.kind == StepKind::Undo && undo.a == 1 && scopes.empty() &&
         back.kind == steps[i].kind && back.flags & kStepWritesInput &&
         writtenBy(back) == writtenBy(steps[i]);
}

/// From the first write to an input on that nothing undoes nothing may fail:
/// eager answers a call whose launch did.
bool Validator::checkOrder() {
  bool wrote = false;
  std::vector<bool> shows = findWritten();
  for (uint32_t i = 0; i < h.steps; ++i) {
    const Step &s = steps[i];
    where = "step " + std::to_string(i);
    if (s.kind == StepKind::Undo) {
      if (s.a != 1 || i + 2 >= h.steps || !isUndone(i + 2) ||
          !(steps[i + 2].flags & kStepUndone))
        return failStep("undoes nothing");
      ++i;
      continue;
    }
    bool cannotFail =
        s.kind == StepKind::Kernel || s.kind == StepKind::Copy ||
        s.kind == StepKind::Release || s.kind == StepKind::Move ||
        s.kind == StepKind::If || s.kind == StepKind::Else ||
        s.kind == StepKind::IfEnd || s.kind == StepKind::GraphEnd ||
        s.kind == StepKind::GraphBegin || // else its launches one by one

        (s.kind == StepKind::View && !(s.flags & kStepDynamic));
    if (wrote && !cannotFail)
      return failStep("may fail when an input has been written");
    bool writes = s.flags & kStepWritesInput;
    bool undone = s.flags & kStepUndone;
    bool mustSay = s.kind == StepKind::Copy && shows[s.b];
    if ((mustSay && !writes) || (undone && (!writes || !isUndone(i))) ||
        (writes && s.kind != StepKind::Kernel && s.kind != StepKind::Copy &&
         !undone))
      return failStep("says wrongly whether it writes an input");
    wrote |= writes && !undone;
  }
  return true;
}

bool Validator::checkSlots() {
  for (uint32_t i = 0; i < h.slots; ++i) {
    const Slot &s = slots[i];
    where = "slot " + std::to_string(i);
    if (s.kind > SlotKind::Words)
      return failStep("unknown kind");
    if (s.dims + 2ull * s.rank > h.ints)
      return failStep("sizes out of range");
    if (s.kind == SlotKind::Words &&
        (s.place > h.ints || s.bytes / 8 > h.ints - s.place))
      return failStep("no such words");
    if (s.kind == SlotKind::Input && s.place >= h.inputs)
      return failStep("no such input");
    // A form's places and sizes are known once it is specialized.
    if (s.kind == SlotKind::Arena && !h.patches &&
        (s.place > h.arenaBytes || s.bytes > h.arenaBytes - s.place))
      return failStep("outside the arena");
    if (s.flags & kSlotSaved &&
        (s.kind != SlotKind::Fresh ||
         (!h.patches &&
          (s.place > h.savedBytes || s.bytes > h.savedBytes - s.place))))
      return failStep("outside the block of saved values");
  }
  return true;
}

bool Validator::checkKernels() {
  for (uint32_t i = 0; i < h.kernels; ++i) {
    const Kernel &k = program.kernels()[i];
    if (!isString(k.name) || (k.location != kNone && !isString(k.location)) ||
        k.work < 0 || k.grain < 1 || (k.align != kNone && !isList(k.align)))
      return fail("kernel " + std::to_string(i) + " is malformed");
  }
  return true;
}

bool Validator::checkSymbols() {
  if (!h.symbols && !h.patches)
    return true;
  if (h.symbolTable > h.ints || h.symbols > (h.ints - h.symbolTable) / 2 ||
      h.patchTable > h.ints || h.patches > (h.ints - h.patchTable) / 3)
    return fail("symbols out of range");
  for (uint32_t i = 0; i < h.symbols; ++i) {
    where = "symbol " + std::to_string(i);
    auto [input, dim] = program.symbolSource(i);
    if (input < 0 || input >= int64_t(h.inputs) || dim < -1)
      return fail(where + " has no source");
    for (uint32_t k = 0; k < h.slots; ++k) {
      const Slot &slot = slots[k];
      if (slot.kind != SlotKind::Input || slot.place != uint64_t(input))
        continue;
      bool isReadableNumber = slot.rank == 0 && slot.dtype == kInt64 &&
                              (h.deviceType == 0 || slot.flags & kSlotHost);
      if (dim < 0 ? !isReadableNumber : dim >= slot.rank)
        return fail(where + " has no source");
    }
  }
  return true;
}

bool Validator::checkPatches() {
  for (uint32_t i = 0; i < h.patches; ++i) {
    const int64_t *patch = ints + h.patchTable + 3 * uint64_t(i);
    where = "patch " + std::to_string(i);
    uint64_t limit = 1;
    switch (static_cast<PatchKind>(patch[0])) {
    case PatchKind::Int:
    case PatchKind::Argument:
      limit = h.ints;
      break;
    case PatchKind::SlotBytes:
    case PatchKind::SlotPlace:
      limit = h.slots;
      break;
    case PatchKind::KernelWork:
    case PatchKind::KernelGrain:
    case PatchKind::KernelBlocks:
      limit = h.kernels;
      break;
    case PatchKind::ArenaBytes:
    case PatchKind::SavedBytes:
      break;
    default:
      return failStep("unknown kind");
    }
    if (uint64_t(patch[1]) >= limit)
      return failStep("names nothing");
    if (!checkExpression(patch[2]))
      return failStep("malformed expression");
  }
  return true;
}

bool Validator::checkExpression(uint64_t at) {
  unsigned depth = 0;
  while (at < h.ints) {
    auto op = static_cast<SizeOp>(ints[at++]);
    if (op == SizeOp::End)
      return depth == 1;
    if (op == SizeOp::Number || op == SizeOp::Symbol) {
      if (at >= h.ints || ++depth > kMaxExpressionDepth ||
          (op == SizeOp::Symbol && uint64_t(ints[at]) >= h.symbols))
        return false;
      ++at;
    } else if (op > SizeOp::Mod || op < SizeOp::End || depth-- < 2) {
      return false;
    }
  }
  return false;
}

bool Validator::checkCode() const {
  if (h.code == kNone)
    return true;
  return isList(h.code) &&
         std::all_of(ints + h.code + 1, ints + h.code + 1 + ints[h.code],
                     [&](int64_t text) { return isString(text); });
}

bool Validator::checkVariants() {
  if (h.variants >> kNumVariants || !checkCode())
    return fail("unknown way to launch");
  return true;
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

bool Validator::checkSteps() {
  for (uint32_t i = 0; i < h.steps; ++i) {
    where = "step " + std::to_string(i);
    if (!checkStep(i))
      return false;
  }
  if (graph >= 0)
    return fail("a graph does not end");
  if (!scopes.empty())
    return fail("a loop or branch does not end");
  // Whether a copy is patchable depends on the steps behind it too.
  for (uint32_t i = 0; i < h.steps; ++i)
    if (steps[i].kind == StepKind::Copy && steps[i].flags & kStepPatchable &&
        !isPatchable(program, i))
      return fail("step " + std::to_string(i) +
                  ": others than vendor calls meet the copy, or others than "
                  "its graph");
  return true;
}

bool Validator::checkStep(uint32_t i) {
  const Step &s = steps[i];
  switch (s.kind) {
  case StepKind::Kernel:
    return checkKernelStep(s);
  case StepKind::Call:
    return checkCall(s);
  case StepKind::View:
    return checkView(s);
  case StepKind::Release:
    return isSlot(s.a) || failStep("no such slot");
  case StepKind::Copy:
    return checkCopy(i);
  case StepKind::HostValue:
    return (isSlot(s.a) && isSlot(s.b) &&
            slots[s.a].bytes == slots[s.b].bytes) ||
           failStep("no such slots, or of different sizes");
  case StepKind::While:
  case StepKind::WhileTest:
  case StepKind::WhileEnd:
  case StepKind::For:
  case StepKind::ForEnd:
    return checkLoop(i);
  case StepKind::If:
  case StepKind::Else:
  case StepKind::IfEnd:
    return checkBranch(i);
  case StepKind::Speculate:
    return (isFlag(s.a) && graph < 0 && scopes.empty()) ||
           failStep("no such flag, or inside of something");
  case StepKind::Move:
    return (isSlot(s.a) && isSlot(s.b) && slots[s.a].kind == SlotKind::View) ||
           failStep("no such slots");
  case StepKind::Pick:
    return checkPick(s);
  case StepKind::Undo:
    return (s.a <= h.steps - i && h.deviceType == 0 && !h.variants) ||
           failStep("undoes nothing");
  case StepKind::GraphBegin:
  case StepKind::GraphEnd:
    return checkGraph(s);
  }
  return failStep("unknown kind");
}

bool Validator::checkKernelStep(const Step &s) {
  uint64_t end = uint64_t(s.b) + s.c;
  if (s.a >= h.kernels || end > h.ints)
    return failStep("kernel out of range");
  if (!areSlots(s.b, s.c))
    return failStep("no such slot");
  if (s.flags & kStepIndirect &&
      (end + 2 > h.ints || s.c > 63 || uint64_t(ints[end]) >= h.kernels ||
       uint64_t(ints[end + 1]) >> s.c))
    return failStep("no such indirect version of a kernel");
  return true;
}

bool Validator::checkCall(const Step &s) {
  if (!isString(s.a) || s.b >= h.ints || !isList(s.c))
    return failStep("call out of range");
  for (int64_t k = 0; k < ints[s.c]; ++k)
    if (int64_t result = ints[s.c + 1 + k]; result != -1 && !isSlot(result))
      return failStep("no such result slot");
  return checkArguments(s.b);
}

bool Validator::checkArguments(uint64_t at) {
  while (at < h.ints) {
    auto tag = static_cast<ArgTag>(ints[at++]);
    if (tag == ArgTag::End)
      return true;
    if (tag == ArgTag::None)
      continue;
    if (at >= h.ints)
      break;
    int64_t value = ints[at++];
    switch (tag) {
    case ArgTag::Tensor:
    case ArgTag::WrappedSlot:
    case ArgTag::NumberSlot:
      if (!isSlot(value))
        return fail("call argument names no slot");
      continue;
    case ArgTag::String:
    case ArgTag::Device:
      if (value < 0 || !isString(value))
        return fail("call argument names no string");
      continue;
    case ArgTag::List: // its elements follow and are checked as we go
    case ArgTag::Int:
    case ArgTag::Bool:
    case ArgTag::Double:
    case ArgTag::WrappedInt:
    case ArgTag::WrappedBool:
    case ArgTag::WrappedDouble:
      continue;
    default:
      return fail("unknown argument tag");
    }
  }
  return fail("call arguments are not closed");
}

bool Validator::checkView(const Step &s) {
  if (!isSlot(s.a) || !isSlot(s.b) || s.c >= h.ints)
    return failStep("view out of range");
  if (!(s.flags & kStepDynamic))
    return true;
  uint64_t first = uint64_t(s.c) + 2;
  if (first > h.ints || ints[s.c + 1] < 0 ||
      uint64_t(ints[s.c + 1]) > (h.ints - first) / 5)
    return failStep("view out of range");
  for (int64_t k = 0; k < ints[s.c + 1]; ++k)
    if (!isNumber(ints[first + 5 * k]))
      return failStep("no such index");
  return true;
}

bool Validator::haveEqualSizes(const Slot &a, const Slot &b) const {
  if (a.rank != b.rank || a.dtype != b.dtype)
    return false;
  for (uint32_t d = 0; d < a.rank; ++d)
    if (ints[a.dims + d] != ints[b.dims + d])
      return false;
  return true;
}

bool Validator::checkCopy(uint32_t i) {
  const Step &s = steps[i];
  // On a device bytes are copied, on the host elements.
  if (!isSlot(s.a) || !isSlot(s.b) ||
      !(h.variants ? slots[s.a].bytes == slots[s.b].bytes
                   : haveEqualSizes(slots[s.a], slots[s.b])))
    return failStep("no such slots, or of different sizes");
  if (s.flags & kStepPatchable && (graph < 0 || !scopes.empty()))
    return failStep("a patchable copy outside of graphs");
  return true;
}

bool Validator::checkPick(const Step &s) {
  if (!isSlot(s.a) || slots[s.a].kind != SlotKind::View ||
      uint64_t(s.b) + 4 > h.ints || !isNumber(ints[s.b]) || !isList(s.b + 3) ||
      !areSlots(uint64_t(s.b) + 4, ints[s.b + 3]))
    return failStep("no such slots");
  return true;
}

bool Validator::checkLoop(uint32_t i) {
  const Step &s = steps[i];
  switch (s.kind) {
  case StepKind::While:
    scopes.push_back({i, s.a});
    return true;
  case StepKind::WhileTest:
    if (!isFlag(s.a) || !isInside(StepKind::While) ||
        scopes.back().partner != s.b)
      return failStep("a test outside of its loop");
    scopes.back().middle = true;
    return true;
  case StepKind::WhileEnd:
    if (!isInside(StepKind::While) || scopes.back().partner != i ||
        scopes.back().step != s.a || !scopes.back().middle)
      return failStep("ends a loop that did not begin");
    scopes.pop_back();
    return true;
  case StepKind::For:
    if (!isNumber(s.a) || uint64_t(s.b) + 5 > h.ints || ints[s.b + 4] < 1 ||
        (ints[s.b] && !isNumber(ints[s.b + 1])) ||
        (ints[s.b + 2] && !isNumber(ints[s.b + 3])))
      return failStep("malformed loop");
    scopes.push_back({i, s.c});
    return true;
  default: // ForEnd
    if (!isInside(StepKind::For) || scopes.back().partner != i ||
        scopes.back().step != s.a)
      return failStep("ends a loop that did not begin");
    scopes.pop_back();
    return true;
  }
}

bool Validator::checkBranch(uint32_t i) {
  const Step &s = steps[i];
  switch (s.kind) {
  case StepKind::If:
    if (!isFlag(s.a))
      return failStep("no such flag");
    scopes.push_back({i, s.b});
    return true;
  case StepKind::Else:
    if (!isInside(StepKind::If) || scopes.back().partner != i ||
        scopes.back().middle)
      return failStep("belongs to no branch");
    scopes.back().partner = s.a;
    scopes.back().middle = true;
    return true;
  default: // IfEnd
    if (!isInside(StepKind::If) || scopes.back().partner != i)
      return failStep("ends a branch that did not begin");
    scopes.pop_back();
    return true;
  }
}

bool Validator::checkGraph(const Step &s) {
  if (s.kind == StepKind::GraphBegin) {
    if (graph >= 0 || !scopes.empty() || !isList(s.b))
      return failStep("malformed graph");
    if (!areSlots(uint64_t(s.b) + 1, ints[s.b]))
      return failStep("no such slot");
    graph = s.a;
    return true;
  }
  if (graph != s.a || !scopes.empty())
    return failStep("ends a graph that did not begin");
  graph = -1;
  return true;
}

} // namespace

bool pyjit::rt::validate(const Program &program, std::string &error) {
  return Validator(program, error).run();
}
