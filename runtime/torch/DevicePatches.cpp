//===- DevicePatches.cpp - Vendor calls that use what moves ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A vendor call inside a graph reads a copy of an external buffer, because
// nobody says where in its nodes it keeps an operand's address. Here that is
// found out, and then the copy is not needed, nor the one of a result that such
// a call writes where it is told: the graph is captured three times
// with the operands at other addresses and everything else in its place, and
// once more with nothing moved, which shows what differs by itself
// (pyjit-rt/cuda/Differential.h). Every other byte that differs has to be part
// of an address, and what a call does not show of its operands it goes on
// reading as a copy, with the reason.
//
// Nothing runs while a GPU's stream is captured, so the operands need addresses
// but no contents. These are as far apart as addresses can be: each bit of an
// address is another one in one of the captures, down to the alignment that a
// replay then has to keep. What the nodes do with an address that differs from
// these in any of those bits has been seen.
//
//===----------------------------------------------------------------------===//

#include "DeviceExecutor.h"

#include <algorithm>
#include <cstdio>
#include <set>
#include <stdexcept>
#include <string_view>

using namespace pyjit::rt;

namespace {

/// No library looks at more of it, and no allocator gives less.
constexpr uint32_t kOperandAlign = 256;
/// Addresses of the processor's programs, and of a GPU's that share them, have
/// as many bits.
constexpr unsigned kAddressBits = 47;

/// Addresses that are kept for as long as it lives.
struct Window {
  Window(cuda::Driver &driver, uint64_t wish, uint64_t bytes)
      : driver(driver), bytes(bytes) {
    cuda::check(driver, driver.reserve(&begin, bytes, wish),
                "addresses for an operand");
  }
  ~Window() { driver.unreserve(begin, bytes); }
  Window(const Window &) = delete;
  Window &operator=(const Window &) = delete;

  cuda::Driver &driver;
  cuda::DevicePtr begin = 0;
  uint64_t bytes;
};

/// Three places for one operand.
class Places {
public:
  /// `like`: an address of the kind that a replay will meet.
  Places(cuda::Driver &driver, uint64_t bytes, cuda::DevicePtr like,
         uint64_t align)
      : driver(driver), bytes(bytes), like(like), align(align) {
    for (unsigned k = 0; k < 3; ++k) {
      // What is wished for may be taken.
      constexpr unsigned kWishes = 64;
      unsigned number = 0;
      while (number < kWishes && !reserve(k, number))
        ++number;
      if (number == kWishes) {
        char found[80];
        std::snprintf(found, sizeof found, " (0x%llx, like 0x%llx)",
                      static_cast<unsigned long long>(address[k]),
                      static_cast<unsigned long long>(like));
        throw std::runtime_error(
            "the driver gives no addresses that are far enough apart" +
            std::string(found));
      }
    }
  }
  /// The bits that tell the places apart.
  uint64_t varied() const {
    return (address[0] ^ address[1]) | (address[0] ^ address[2]);
  }

  std::array<cuda::DevicePtr, 3> address{};

private:
  /// The address `k` differs from `like` in every third bit, and in none of the
  /// others: that is what makes each bit differ in one of the three. Further
  /// wishes exchange high bits that are the next address's turn, then leave out
  /// some that are this one's: these are not varied.
  bool reserve(unsigned k, unsigned number) {
    uint64_t flipped = 0;
    for (unsigned bit = 0; bit < kAddressBits; ++bit)
      if (bit % 3 == k)
        flipped |= uint64_t(1) << bit;
    constexpr unsigned kHigh = 36;
    for (unsigned i = 0; i < 3; ++i) {
      flipped ^= uint64_t(number >> i & 1) << (kHigh + k + 1 + 3 * i);
      flipped ^= uint64_t(number >> (3 + i) & 1) << (kHigh + k + 3 * i);
    }
    uint64_t wish = (like ^ flipped) & ~(align - 1);
    uint64_t inside = wish % cuda::kReservedAlign;
    windows[k].reset();
    windows[k] =
        std::make_unique<Window>(driver, wish - inside, inside + bytes);
    address[k] = windows[k]->begin + inside;
    return address[k] == wish;
  }

  cuda::Driver &driver;
  uint64_t bytes;
  cuda::DevicePtr like;
  uint64_t align;
  std::array<std::unique_ptr<Window>, 3> windows;
};

} // namespace

/// Of some copies of one graph.
struct DeviceExecutor::Proof {
  std::vector<uint32_t> copies; ///< steps
  std::vector<cuda::PatchedOperand> patched;
  std::vector<cuda::OperandWord> words;
  std::string reason; ///< why not, or why not all
  /// Those that the reason is about: of calls of which a node cannot be
  /// explained, and those that a call does not show.
  std::set<uint32_t> dropped;
};

/// What a graph uses instead of the copy's stand-in of the program's own: a
/// copy of the external memory that this variant has, or addresses to be
/// patched. Undefined: nothing.
at::Tensor DeviceExecutor::placeInGraph(const Captured &captured, uint32_t copy,
                                        Variant variant) const {
  auto [external, own, isResult] = patchable(copy);
  auto show = [&, own = own](void *data) {
    return makeTensorAt(program.slots()[own], data, device->device());
  };
  if (variant == Variant::Copy) {
    for (auto &[slot, tensor] : captured.copies)
      if (slot == external)
        return show(const_cast<void *>(tensor.const_data_ptr()));
    return {};
  }
  for (const StandIn &standIn : captured.standIns)
    if (standIn.copy == copy)
      return show(reinterpret_cast<void *>(standIn.address));
  return {};
}

/// A graph that uses a copy's external memory itself, in some variants: there
/// is nothing to copy. False: the copy is made.
bool DeviceExecutor::usesInPlace(Captured &captured, uint32_t index,
                                 Variant variant, Instance &instance) {
  auto [external, own, isResult] = patchable(index);
  at::Tensor placed = placeInGraph(captured, index, variant);
  if (!isResult)
    instance.values[own] = placed.defined() ? placed : instance.slots[own];
  return placed.defined();
}

/// Where the graph's calls write what a copy hands out behind them.
void DeviceExecutor::placeResults(const Captured &captured,
                                  const GraphInfo &info, Variant variant,
                                  Instance &instance) const {
  for (uint32_t index : info.patchable) {
    auto [external, own, isResult] = patchable(index);
    if (!isResult)
      continue;
    at::Tensor placed = placeInGraph(captured, index, variant);
    instance.values[own] = placed.defined() ? placed : instance.slots[own];
    instance.buffers[own] =
        const_cast<void *>(instance.values[own].const_data_ptr());
  }
}

/// Launches one by one write outputs where they are.
void DeviceExecutor::showResults(const GraphInfo &info,
                                 Instance &instance) const {
  for (uint32_t index : info.patchable) {
    auto [external, own, isResult] = patchable(index);
    if (!isResult)
      continue;
    instance.buffers[own] = instance.buffers[external];
    instance.values[own] = makeTensorAt(
        program.slots()[own], instance.buffers[own], device->device());
  }
}

/// Memory for the patchable copies that this graph makes all the same: for each
/// its own, or for all of them as they were planned, whichever is less.
void DeviceExecutor::stageCopies(const Captured &captured,
                                 const GraphInfo &info, Instance &instance) {
  auto isUsedInPlace = [&](uint32_t index) {
    uint32_t external = patchable(index).external;
    auto copied = [&](auto &copy) { return copy.first == external; };
    auto standsIn = [&](auto &standIn) { return standIn.copy == index; };
    return std::any_of(captured.copies.begin(), captured.copies.end(),
                       copied) ||
           std::any_of(captured.standIns.begin(), captured.standIns.end(),
                       standsIn);
  };
  std::vector<uint32_t> needed, all;
  uint64_t bytes = 0, planned = program.header().arenaBytes - stagingBegin;
  for (uint32_t index : info.patchable) {
    uint32_t own = patchable(index).own;
    if (instance.slots[own].defined())
      continue;
    all.push_back(own);
    if (isUsedInPlace(index))
      continue;
    needed.push_back(own);
    bytes += program.slots()[own].bytes;
  }
  if (needed.empty())
    return;
  auto allocate = [&](uint64_t size) {
    int64_t count = std::max<int64_t>(size, 1), one = 1;
    instance.staging.push_back(device->empty(count, one, at::kByte));
    return static_cast<char *>(instance.staging.back().mutable_data_ptr());
  };
  bool asPlanned = bytes >= planned;
  char *block = asPlanned ? allocate(planned) : nullptr;
  for (uint32_t target : asPlanned ? all : needed) {
    const Slot &slot = program.slots()[target];
    char *data =
        block ? block + (slot.place - stagingBegin) : allocate(slot.bytes);
    instance.buffers[target] = data;
    instance.slots[target] = makeTensorAt(slot, data, device->device());
  }
}

/// Of each vendor call, the first and the last of its nodes, by number; the
/// last is in front of the first where it has none. None: they cannot be told.
std::vector<DeviceExecutor::NodeRange>
DeviceExecutor::nodesOfCalls(const Captured &captured) {
  std::vector<cuda::GraphNode> nodes;
  cuda::check(device->driver(),
              device->driver().getNodes(captured.graph.handle(), &nodes),
              "nodes of a graph");
  auto indexOf = [&](cuda::GraphNode node) {
    return std::find(nodes.begin(), nodes.end(), node) - nodes.begin();
  };
  std::vector<NodeRange> found;
  int64_t end = 0; // of the call before
  for (const CallNodes &call : captured.callNodes) {
    int64_t first = call.before ? indexOf(call.before) + 1 : end,
            last = call.last ? indexOf(call.last) : -1;
    end = std::max(end, last + 1);
    // Null: nothing yet, or several nodes side by side.
    found.push_back(call.last ? NodeRange(std::pair(first, last))
                              : std::nullopt);
  }
  return found;
}

/// The patchable copies whose stand-ins a vendor call reads, or writes.
std::set<uint32_t> DeviceExecutor::copiesUsedBy(uint32_t step) const {
  std::set<uint32_t> read;
  for (const TensorArgument &argument : calls[callOfStep[step]].tensors)
    for (int64_t slot : argument.slots)
      if (slot >= 0 && standsFor[slot] >= 0)
        read.insert(uint32_t(standsFor[slot]));
  return read;
}

/// Whether each vendor call shows each operand in a node of its own. One that
/// it does not read (the seeds of attention without dropout), or hides behind a
/// pointer in memory, shows nowhere: it stays a copy, whose address does not
/// change; with all others of the call, where the call copies memory itself,
/// maybe its operands' addresses. A node may show more than its call's
/// operands: what an earlier call left on the stack. That is renewed with the
/// rest.
bool DeviceExecutor::everyCallShows(Proof &proof, const Captured &captured) {
  std::vector<bool> known(proof.words.size());
  auto ranges = nodesOfCalls(captured);
  for (size_t number = 0; number < ranges.size(); ++number) {
    uint32_t step = captured.callNodes[number].step;
    std::set<uint32_t> used = copiesUsedBy(step);
    auto [first, last] = ranges[number].value_or(std::pair(0, -1));
    std::set<uint32_t> shown; // operands
    for (size_t i = 0; i < proof.words.size(); ++i)
      if (int64_t node = proof.words[i].node; node >= first && node <= last) {
        known[i] = true;
        shown.insert(proof.words[i].operand);
      }
    std::vector<uint32_t> hidden; // copies
    for (uint32_t i = 0; i < proof.copies.size(); ++i)
      // A call without nodes reads nothing.
      if (used.count(proof.copies[i]) && !shown.count(i) &&
          (last >= first || !ranges[number]))
        hidden.push_back(proof.copies[i]);
    if (hidden.empty())
      continue;
    proof.reason =
        std::string(program.string(program.steps()[step].a)) +
        (ranges[number] ? " shows an operand's address in none of its nodes"
                        : " has nodes that cannot be told from others");
    if (!ranges[number] || copiesMemory(captured, first, last))
      proof.dropped.merge(used);
    proof.dropped.insert(hidden.begin(), hidden.end());
  }
  if (!proof.dropped.empty())
    return false;
  if (std::find(known.begin(), known.end(), false) != known.end()) {
    proof.reason = "a node of no vendor call shows an operand's address";
    return false;
  }
  return true;
}

/// Whether one of these nodes, by number, copies memory.
bool DeviceExecutor::copiesMemory(const Captured &captured, int64_t first,
                                  int64_t last) {
  cuda::Driver &driver = device->driver();
  std::vector<cuda::GraphNode> nodes;
  cuda::check(driver, driver.getNodes(captured.graph.handle(), &nodes),
              "nodes of a graph");
  return std::any_of(nodes.begin() + first, nodes.begin() + last + 1,
                     [&](cuda::GraphNode node) {
                       cuda::NodeType type = cuda::NodeType::Other;
                       return driver.getType(node, &type) ||
                              type == cuda::NodeType::Memcpy;
                     });
}

/// Makes the copies that the reason is about. False: there is no further one,
/// or no other one.
bool DeviceExecutor::leaveOut(Proof &proof, Instance &instance) {
  instance.needed.merge(proof.dropped);
  auto left = std::remove_if(
      proof.copies.begin(), proof.copies.end(),
      [&](uint32_t copy) { return instance.needed.count(copy) != 0; });
  bool fewer = left != proof.copies.end();
  proof.copies.erase(left, proof.copies.end());
  return fewer && !proof.copies.empty();
}

/// Takes the copies out that cost less than what would replace them.
void DeviceExecutor::keepDearCopies(Proof &proof) {
  // Measured on an H200 (DESIGN, section 6).
  constexpr double kUpdate = 0.35e-6, kCopy = 1.5e-6, kBytesPerSecond = 2.1e12;
  std::vector<uint32_t> kept;
  for (uint32_t i = 0; i < proof.copies.size(); ++i) {
    std::set<uint32_t> nodes;
    for (const cuda::OperandWord &word : proof.words)
      if (word.operand == i)
        nodes.insert(word.node);
    uint64_t bytes = program.slots()[patchable(proof.copies[i]).external].bytes;
    if (kUpdate * nodes.size() <= kCopy + bytes / kBytesPerSecond)
      kept.push_back(proof.copies[i]);
    else
      proof.reason = "one costs less than new addresses in " +
                     std::to_string(nodes.size()) + " nodes";
  }
  proof.copies = std::move(kept);
}

/// The last of the captures, with the words that follow its stand-ins; null,
/// with the reason, where that cannot be proved.
std::unique_ptr<DeviceExecutor::Captured>
DeviceExecutor::prove(Proof &proof, Captured &plain, const GraphInfo &info,
                      Variant variant, Instance &instance) {
  cuda::Driver &driver = device->driver();
  uint64_t align = driver.isSimulated() ? cuda::kVendorAlign : kOperandAlign;
  std::vector<std::unique_ptr<Places>> places;
  std::vector<cuda::MovedOperand> operands;
  for (uint32_t copy : proof.copies) {
    uint32_t slot = patchable(copy).external;
    uint64_t bytes = program.slots()[slot].bytes;
    // Operands are neighbours as a rule, or one tensor. Their places are not.
    constexpr unsigned kApart = 33;
    cuda::DevicePtr like = cuda::asAddress(instance.buffers[slot]) ^
                           (uint64_t(places.size()) << kApart);
    places.push_back(std::make_unique<Places>(driver, bytes, like, align));
    operands.push_back({places.back()->address, bytes});
  }

  auto record = [&](unsigned place, CapturePool *sharing) {
    auto one = std::make_unique<Captured>(device->sharedDriver());
    one->table = plain.table;
    one->entries = plain.entries;
    one->memory = plain.memory;
    plain.memory->next = 0;
    for (size_t i = 0; i < proof.copies.size(); ++i)
      one->standIns.push_back(
          {proof.copies[i], operands[i].address[place], operands[i].bytes});
    // What the capture before made goes back to the pool.
    for (uint32_t i = info.begin; i < info.end; ++i) {
      const Step &step = program.steps()[i];
      if (step.kind == StepKind::View)
        instance.values[step.a].reset();
      if (step.kind != StepKind::Call)
        continue;
      const CallPlan &plan = calls[callOfStep[i]];
      for (int64_t k = 0; k < plan.numResults; ++k)
        if (plan.results[k] >= 0)
          instance.values[plan.results[k]].reset();
    }
    capture(*one, info, variant, instance, sharing);
    return one;
  };
  // Results and workspaces have to be in one place three times: a first capture
  // makes the pool grow, and from then on equal requests get equal answers.
  std::unique_ptr<Captured> first = record(0, nullptr);
  CapturePool *pool = first->pools.back().get();
  std::unique_ptr<Captured> control = record(0, pool);
  std::array<std::unique_ptr<Captured>, 3> captured;
  std::array<cuda::Graph, 3> graphs;
  for (unsigned k = 0; k < 3; ++k) {
    captured[k] = record(k, pool);
    graphs[k] = captured[k]->graph.handle();
  }
  cuda::Unexplained why;
  proof.dropped.clear();
  if (!cuda::findOperandWords(driver, graphs, control->graph.handle(), operands,
                              proof.words, why)) {
    proof.reason = why.reason;
    auto ranges = nodesOfCalls(*captured[2]);
    for (size_t i = 0; i < ranges.size(); ++i)
      if (ranges[i] &&
          std::any_of(why.nodes.begin(), why.nodes.end(), [&](uint32_t node) {
            return node >= ranges[i]->first && node <= ranges[i]->second;
          }))
        proof.dropped.merge(copiesUsedBy(captured[2]->callNodes[i].step));
    return nullptr;
  }
  // Launches of our own are renewed by what they were given.
  captured[2]->graph.dropRenewed(proof.words);
  if (!everyCallShows(proof, *captured[2]))
    return nullptr;
  proof.patched.clear();
  for (size_t i = 0; i < proof.copies.size(); ++i)
    proof.patched.push_back({patchable(proof.copies[i]).external,
                             places[i]->address[2], places[i]->varied(),
                             uint32_t(align)});
  return std::move(captured[2]);
}

/// A graph whose vendor calls read external buffers where they are; null, with
/// the reason in `plain`, where copies stay.
std::unique_ptr<DeviceExecutor::Captured>
DeviceExecutor::makePatched(Captured &plain, uint32_t number, Variant variant,
                            Instance &instance) {
  const GraphInfo &info = graphInfos[number];
  if (variant != Variant::Table && variant != Variant::Update)
    return nullptr;
  Proof proof;
  for (uint32_t copy : info.patchable)
    if (uint32_t slot = patchable(copy).external; program.slots()[slot].bytes &&
                                                  isMoving(slot) &&
                                                  !instance.needed.count(copy))
      proof.copies.push_back(copy);
  auto refused = instance.refused.find(number);
  if (refused != instance.refused.end()) {
    plain.keptCopies = refused->second;
    return nullptr;
  }
  while (!proof.copies.empty()) {
    std::unique_ptr<Captured> captured;
    size_t asked = proof.copies.size();
    try {
      captured = prove(proof, plain, info, variant, instance);
      if (captured)
        keepDearCopies(proof);
      if (captured ? proof.copies.size() < asked : leaveOut(proof, instance))
        continue;
      if (captured &&
          captured->graph.patch(proof.words, proof.patched,
                                instance.buffers.data(), proof.reason)) {
        captured->graph.finish();
        captured->standIns.clear();
        captured->callNodes.clear();
        captured->keptCopies = proof.reason;
        for (const cuda::PatchedOperand &operand : proof.patched)
          inputAlign[operand.slot] =
              std::max(inputAlign[operand.slot], operand.align);
        return captured;
      }
    } catch (const std::exception &error) {
      proof.reason = error.what();
    }
    break;
  }
  if (!proof.reason.empty())
    instance.refused[number] = proof.reason;
  plain.keptCopies = proof.reason;
  plain.memory->next = 0;
  return nullptr;
}
