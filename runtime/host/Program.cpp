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
  if (size < sizeof(Header))
    return fail(error, "shorter than its header");
  blob.assign((size + 7) / 8, 0);
  std::memcpy(blob.data(), data, size);

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
  if (h.chars && charPool[h.chars - 1] != '\0')
    return fail(error, "unterminated string");
  if (h.outputs > h.ints)
    return fail(error, "output list out of range");
  for (uint32_t i = 0; i < h.outputs; ++i)
    if (badSlot(intPool[i]))
      return fail(error, "output " + std::to_string(i) + " names no slot");
  for (uint32_t i = 0; i < h.slots; ++i) {
    const Slot &s = slotTable[i];
    if (s.kind > SlotKind::Cached)
      return fail(error, "slot " + std::to_string(i) + ": unknown kind");
    if (s.dims + 2ull * s.rank > h.ints)
      return fail(error, "slot " + std::to_string(i) + ": sizes out of range");
    if (s.kind == SlotKind::Input && s.place >= h.inputs)
      return fail(error, "slot " + std::to_string(i) + ": no such input");
    if (s.kind == SlotKind::Arena &&
        (s.place > h.arenaBytes || s.bytes > h.arenaBytes - s.place))
      return fail(error, "slot " + std::to_string(i) + ": outside the arena");
  }
  for (uint32_t i = 0; i < h.kernels; ++i) {
    const Kernel &k = kernelTable[i];
    if (badString(k.name) || (k.location != kNone && badString(k.location)) ||
        k.work < 0 || k.grain < 1 || (k.align != kNone && badList(k.align)))
      return fail(error, "kernel " + std::to_string(i) + " is malformed");
  }
  if (h.variants >> kNumVariants || (h.code != kNone && badString(h.code)))
    return fail(error, "unknown way to launch");
  int64_t graph = -1;
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
      continue;
    case StepKind::Release:
      if (badSlot(s.a))
        return fail(error, where + ": no such slot");
      continue;
    case StepKind::Copy:
    case StepKind::HostValue:
      if (badSlot(s.a) || badSlot(s.b) ||
          slotTable[s.a].bytes != slotTable[s.b].bytes)
        return fail(error, where + ": no such slots, or of different sizes");
      continue;
    case StepKind::GraphBegin:
      if (graph >= 0 || badList(s.b))
        return fail(error, where + ": malformed graph");
      for (int64_t k = 0; k < intPool[s.b]; ++k)
        if (badSlot(intPool[s.b + 1 + k]))
          return fail(error, where + ": no such slot");
      graph = s.a;
      continue;
    case StepKind::GraphEnd:
      if (graph != s.a)
        return fail(error, where + ": ends a graph that did not begin");
      graph = -1;
      continue;
    }
    return fail(error, where + ": unknown kind");
  }
  if (graph >= 0)
    return fail(error, "a graph does not end");
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
