//===- Program.cpp - Loading and validating launch programs ---------------===//

#include "pyjit-rt/Program.h"

#include <cstring>

using namespace pyjit::rt;

namespace {
bool fail(std::string &error, std::string what) {
  error = "launch program: " + std::move(what);
  return false;
}
} // namespace

bool Program::load(const void *data, size_t size, std::string &error) {
  std::vector<uint64_t> words((size + 7) / 8, 0);
  std::memcpy(words.data(), data, size);
  return load(std::move(words), size, error);
}

bool Program::load(std::vector<uint64_t> words, size_t size,
                   std::string &error) {
  if (size < sizeof(Header))
    return fail(error, "shorter than its header");
  blob = std::move(words);
  const Header &h = header();
  if (h.magic != kLaunchMagic)
    return fail(error,
                "wrong magic; this is not a launch program of this byte order");
  if (h.version != kLaunchVersion)
    return fail(error, "version " + std::to_string(h.version) +
                           ", this runtime reads version " +
                           std::to_string(kLaunchVersion) +
                           "; compile it again");
  // Counts are 32 bits or bounded by the size, so the sum below cannot wrap.
  if (h.size != size || h.ints > size / 8 || h.chars > size)
    return fail(error, "truncated");
  uint64_t need = sizeof(Header) + uint64_t(h.slots) * sizeof(Slot) +
                  uint64_t(h.steps) * sizeof(Step) +
                  uint64_t(h.kernels) * sizeof(Kernel) + h.ints * 8 + h.chars;
  if (need != size)
    return fail(error, "section sizes do not add up to its size");

  const char *at = reinterpret_cast<const char *>(blob.data()) + sizeof(Header);
  slotTable = reinterpret_cast<const Slot *>(at);
  at += h.slots * sizeof(Slot);
  stepTable = reinterpret_cast<const Step *>(at);
  at += h.steps * sizeof(Step);
  kernelTable = reinterpret_cast<const Kernel *>(at);
  at += h.kernels * sizeof(Kernel);
  intPool = reinterpret_cast<const int64_t *>(at);
  at += h.ints * 8;
  charPool = at;
  return validate(error);
}

bool Program::validate(std::string &error) const {
  const Header &h = header();
  auto badString = [&](uint64_t index) { return index >= h.chars; };
  auto badSlot = [&](int64_t slot) {
    return slot < 0 || slot >= int64_t(h.slots);
  };
  // A count and that many words.
  auto badList = [&](uint64_t at) {
    return at >= h.ints || intPool[at] < 0 ||
           uint64_t(intPool[at]) > h.ints - at - 1;
  };
  // A slot that holds one element of this dtype (c10::ScalarType).
  auto badScalar = [&](int64_t slot, uint8_t dtype, uint64_t bytes) {
    return badSlot(slot) || slotTable[slot].dtype != dtype ||
           slotTable[slot].bytes != bytes;
  };
  auto badNumber = [&](int64_t slot) { return badScalar(slot, 4, 8); };
  auto badFlag = [&](int64_t slot) { return badScalar(slot, 11, 1); };
  if (h.chars && charPool[h.chars - 1] != '\0')
    return fail(error, "unterminated string");
  if (h.outputs > h.ints)
    return fail(error, "output list out of range");
  for (uint32_t i = 0; i < h.outputs; ++i)
    if (badSlot(intPool[i]))
      return fail(error, "output " + std::to_string(i) + " names no slot");
  for (uint32_t i = 0; i < h.slots; ++i) {
    const Slot &s = slotTable[i];
    if (s.kind > SlotKind::Words)
      return fail(error, "slot " + std::to_string(i) + ": unknown kind");
    if (s.dims + 2ull * s.rank > h.ints)
      return fail(error, "slot " + std::to_string(i) + ": sizes out of range");
    if (s.kind == SlotKind::Words &&
        (s.place > h.ints || s.bytes / 8 > h.ints - s.place))
      return fail(error, "slot " + std::to_string(i) + ": no such words");
    if (s.kind == SlotKind::Input && s.place >= h.inputs)
      return fail(error, "slot " + std::to_string(i) + ": no such input");
    // Places and sizes of a form are known when it is filled in.
    if (s.kind == SlotKind::Arena && !h.patches &&
        (s.place > h.arenaBytes || s.bytes > h.arenaBytes - s.place))
      return fail(error, "slot " + std::to_string(i) + ": outside the arena");
  }
  for (uint32_t i = 0; i < h.kernels; ++i) {
    const Kernel &k = kernelTable[i];
    if (badString(k.name) || (k.location != kNone && badString(k.location)) ||
        k.work < 0 || k.grain < 1 || (k.align != kNone && badList(k.align)))
      return fail(error, "kernel " + std::to_string(i) + " is malformed");
  }
  if ((h.symbols || h.patches) && !validateSymbols(error))
    return false;
  if (h.variants >> kNumVariants || (h.code != kNone && badString(h.code)))
    return fail(error, "unknown way to launch");
  int64_t graph = -1;
  std::vector<uint32_t> patchable;
  // Loops and branches around the step.
  struct Open {
    uint32_t step, partner;
    bool middle = false; ///< its test or else was met
  };
  std::vector<Open> open;
  // What a test inside must belong to: a While announces itself as its test.
  auto kindOf = [&](const Open &o) {
    StepKind kind = stepTable[o.step].kind;
    return kind == StepKind::While ? StepKind::WhileTest : kind;
  };
  auto differentSizes = [&](const Slot &a, const Slot &b) {
    if (a.rank != b.rank || a.dtype != b.dtype)
      return true;
    for (uint32_t d = 0; d < a.rank; ++d)
      if (intPool[a.dims + d] != intPool[b.dims + d])
        return true;
    return false;
  };
  for (uint32_t i = 0; i < h.steps; ++i) {
    const Step &s = stepTable[i];
    std::string where = "step " + std::to_string(i);
    switch (s.kind) {
    case StepKind::Kernel:
      if (s.a >= h.kernels || uint64_t(s.b) + s.c > h.ints)
        return fail(error, where + ": kernel out of range");
      for (uint32_t k = 0; k < s.c; ++k)
        if (badSlot(intPool[s.b + k]))
          return fail(error, where + ": no such slot");
      if (s.flags & kStepTwin &&
          (uint64_t(s.b) + s.c + 2 > h.ints || s.c > 63 ||
           uint64_t(intPool[s.b + s.c]) >= h.kernels ||
           uint64_t(intPool[s.b + s.c + 1]) >> s.c))
        return fail(error, where + ": no such twin");
      continue;
    case StepKind::Call:
      if (badString(s.a) || s.b >= h.ints || badList(s.c))
        return fail(error, where + ": call out of range");
      for (int64_t k = 0; k < intPool[s.c]; ++k)
        if (int64_t r = intPool[s.c + 1 + k]; r != -1 && badSlot(r))
          return fail(error, where + ": no such result slot");
      if (!validateArguments(s.b, error))
        return false;
      continue;
    case StepKind::View:
      if (badSlot(s.a) || badSlot(s.b) || s.c >= h.ints)
        return fail(error, where + ": view out of range");
      if (s.flags & kStepDynamic) {
        uint64_t first = uint64_t(s.c) + 2;
        if (first > h.ints || intPool[s.c + 1] < 0 ||
            uint64_t(intPool[s.c + 1]) > (h.ints - first) / 5)
          return fail(error, where + ": view out of range");
        for (int64_t k = 0; k < intPool[s.c + 1]; ++k)
          if (badNumber(intPool[first + 5 * k]))
            return fail(error, where + ": no such index");
      }
      continue;
    case StepKind::Release:
      if (badSlot(s.a))
        return fail(error, where + ": no such slot");
      continue;
    case StepKind::Copy:
      if (badSlot(s.a) || badSlot(s.b) ||
          (h.variants ? slotTable[s.a].bytes != slotTable[s.b].bytes
                      : differentSizes(slotTable[s.a], slotTable[s.b])))
        return fail(error, where + ": no such slots, or of different sizes");
      if (s.flags & kStepPatchable) {
        if (graph < 0 || !open.empty())
          return fail(error, where + ": a patchable copy outside of graphs");
        patchable.push_back(i);
      }
      continue;
    case StepKind::HostValue:
      if (badSlot(s.a) || badSlot(s.b) ||
          slotTable[s.a].bytes != slotTable[s.b].bytes)
        return fail(error, where + ": no such slots, or of different sizes");
      continue;
    case StepKind::While:
      open.push_back({i, s.a});
      continue;
    case StepKind::WhileTest:
      if (badFlag(s.a) || open.empty() || kindOf(open.back()) != s.kind ||
          open.back().partner != s.b)
        return fail(error, where + ": a test outside of its loop");
      open.back().middle = true;
      continue;
    case StepKind::WhileEnd:
      if (open.empty() || kindOf(open.back()) != StepKind::WhileTest ||
          open.back().partner != i || open.back().step != s.a ||
          !open.back().middle)
        return fail(error, where + ": ends a loop that did not begin");
      open.pop_back();
      continue;
    case StepKind::For:
      if (badNumber(s.a) || uint64_t(s.b) + 5 > h.ints ||
          intPool[s.b + 4] < 1 ||
          (intPool[s.b] && badNumber(intPool[s.b + 1])) ||
          (intPool[s.b + 2] && badNumber(intPool[s.b + 3])))
        return fail(error, where + ": malformed loop");
      open.push_back({i, s.c});
      continue;
    case StepKind::ForEnd:
      if (open.empty() || kindOf(open.back()) != StepKind::For ||
          open.back().partner != i || open.back().step != s.a)
        return fail(error, where + ": ends a loop that did not begin");
      open.pop_back();
      continue;
    case StepKind::If:
      if (badFlag(s.a))
        return fail(error, where + ": no such flag");
      open.push_back({i, s.b});
      continue;
    case StepKind::Else:
      if (open.empty() || kindOf(open.back()) != StepKind::If ||
          open.back().partner != i || open.back().middle)
        return fail(error, where + ": belongs to no branch");
      open.back().partner = s.a;
      open.back().middle = true;
      continue;
    case StepKind::IfEnd:
      if (open.empty() || kindOf(open.back()) != StepKind::If ||
          open.back().partner != i)
        return fail(error, where + ": ends a branch that did not begin");
      open.pop_back();
      continue;
    case StepKind::Expect:
      if (badFlag(s.a) || graph >= 0 || !open.empty())
        return fail(error, where + ": no such flag, or inside of something");
      continue;
    case StepKind::Move:
      if (badSlot(s.a) || badSlot(s.b) || slotTable[s.a].kind != SlotKind::View)
        return fail(error, where + ": no such slots");
      continue;
    case StepKind::Pick: {
      if (badSlot(s.a) || slotTable[s.a].kind != SlotKind::View ||
          uint64_t(s.b) + 4 > h.ints || badNumber(intPool[s.b]) ||
          badList(s.b + 3))
        return fail(error, where + ": no such slots");
      for (int64_t k = 0; k < intPool[s.b + 3]; ++k)
        if (badSlot(intPool[s.b + 4 + k]))
          return fail(error, where + ": no such slots");
      continue;
    }
    case StepKind::GraphBegin:
      if (graph >= 0 || !open.empty() || badList(s.b))
        return fail(error, where + ": malformed graph");
      for (int64_t k = 0; k < intPool[s.b]; ++k)
        if (badSlot(intPool[s.b + 1 + k]))
          return fail(error, where + ": no such slot");
      graph = s.a;
      continue;
    case StepKind::GraphEnd:
      if (graph != s.a || !open.empty())
        return fail(error, where + ": ends a graph that did not begin");
      graph = -1;
      continue;
    }
    return fail(error, where + ": unknown kind");
  }
  if (graph >= 0)
    return fail(error, "a graph does not end");
  if (!open.empty())
    return fail(error, "a loop or branch does not end");
  for (uint32_t i : patchable)
    if (!isPatchable(i))
      return fail(error, "step " + std::to_string(i) +
                             ": others than library calls meet the copy");
  return true;
}

/// Whether library calls alone meet the target of a Copy, and no copy in the
/// rest of its graph writes its source.
bool Program::isPatchable(uint32_t index) const {
  const Header &h = header();
  const Step &copy = stepTable[index];
  SlotKind kind = slotTable[copy.a].kind;
  bool external = kind == SlotKind::Input || kind == SlotKind::Cached ||
                  kind == SlotKind::Fresh || kind == SlotKind::Result;
  if (!external || slotTable[copy.a].flags & kSlotHost ||
      slotTable[copy.b].kind != SlotKind::Arena)
    return false;
  std::vector<bool> shows(h.slots); // the target
  shows[copy.b] = true;
  bool inside = false; // behind the copy, in its graph
  for (uint32_t i = 0; i < h.steps; ++i) {
    const Step &s = stepTable[i];
    inside = i == index || (inside && s.kind != StepKind::GraphEnd);
    if (i == index)
      continue;
    bool meets = false;
    switch (s.kind) {
    case StepKind::Kernel:
      for (uint32_t k = 0; k < s.c; ++k)
        meets |= shows[intPool[s.b + k]];
      break;
    case StepKind::View:
      meets = shows[s.b] && !inside;
      if (shows[s.b])
        shows[s.a] = true;
      break;
    case StepKind::Copy:
    case StepKind::HostValue:
    case StepKind::Move:
      meets = shows[s.a] || shows[s.b] || (inside && s.b == copy.a);
      break;
    case StepKind::If:
    case StepKind::WhileTest:
    case StepKind::For:
    case StepKind::Release:
      meets = shows[s.a];
      break;
    default:
      break;
    }
    if (meets)
      return false;
  }
  for (uint32_t i = 0; i < h.outputs; ++i)
    if (shows[intPool[i]])
      return false;
  return true;
}

bool Program::validateArguments(uint64_t at, std::string &error) const {
  const Header &h = header();
  while (at < h.ints) {
    auto tag = static_cast<ArgTag>(intPool[at++]);
    if (tag == ArgTag::End)
      return true;
    if (tag == ArgTag::None)
      continue;
    if (at >= h.ints)
      break;
    int64_t value = intPool[at++];
    switch (tag) {
    case ArgTag::Tensor:
    case ArgTag::WrappedSlot:
    case ArgTag::NumberSlot:
      if (value < 0 || value >= int64_t(h.slots))
        return fail(error, "call argument names no slot");
      continue;
    case ArgTag::String:
    case ArgTag::Device:
      if (value < 0 || uint64_t(value) >= h.chars)
        return fail(error, "call argument names no string");
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
      return fail(error, "unknown argument tag");
    }
  }
  return fail(error, "call arguments are not closed");
}
