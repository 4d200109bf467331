//===- ProgramTest.cpp - Loading launch programs --------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A loader checks once what execution then relies on: anything may be in the
// blob, and what is not a program is refused with a reason.
//
//===----------------------------------------------------------------------===//

#include "Parts.h"
#include "pyjit-rt/DataFlow.h"
#include "gtest/gtest.h"

#include <random>

using namespace pyjit::rt;

namespace {

/// One float input of eight elements, one fresh output, one kernel between
/// them.
Parts simple() {
  Parts parts;
  parts.header.inputs = 1;
  parts.header.outputs = 1;
  parts.ints = {1, /*dims*/ 8, 1, /*operands*/ 0, 1};
  parts.slots = {{SlotKind::Input, 6, 1, 0, 1, 0, 32},
                 {SlotKind::Fresh, 6, 1, 0, 1, 0, 32}};
  parts.steps = {{StepKind::Kernel, 0, 0, 3, 2}};
  parts.header.code = kNone;
  parts.kernels = {{0, kNone, 8, 1, {1, 1, 1}, {1, 1, 1}, 0, kNone}};
  parts.chars = std::string("kernel_0\0", 9);
  return parts;
}

std::string failure(const std::vector<char> &blob) {
  Program program;
  std::string error;
  return program.load(blob.data(), blob.size(), error) ? "" : error;
}

TEST(Program, LoadsWhatItIsMeantTo) {
  Program program;
  std::string error;
  std::vector<char> blob = simple().blob();
  ASSERT_TRUE(program.load(blob.data(), blob.size(), error)) << error;
  EXPECT_EQ(program.numSlots(), 2u);
  EXPECT_EQ(program.numSteps(), 1u);
  EXPECT_EQ(program.numKernels(), 1u);
  EXPECT_EQ(program.outputSlot(0), 1u);
  EXPECT_STREQ(program.string(program.kernels()[0].name), "kernel_0");
}

TEST(Program, OwnsItsBytes) {
  Program program;
  std::string error;
  std::vector<char> blob = simple().blob();
  ASSERT_TRUE(program.load(blob.data(), blob.size(), error)) << error;
  std::fill(blob.begin(), blob.end(), 0x7f);
  EXPECT_EQ(program.slots()[1].bytes, 32u);
}

/// The input is written by the kernel, and is the output.
Parts inPlace() {
  Parts parts = simple();
  parts.ints = {0 | kOutputInPlace, /*dims*/ 8, 1, /*operands*/ 0, 0};
  parts.slots[0].flags = kSlotWritten;
  parts.steps[0].flags = kStepWritesInput;
  return parts;
}

TEST(Program, KnowsInputsThatItWrites) {
  Program program;
  std::string error;
  std::vector<char> blob = inPlace().blob();
  ASSERT_TRUE(program.load(blob.data(), blob.size(), error)) << error;
  EXPECT_TRUE(program.isInPlace(0));
  EXPECT_EQ(program.outputSlot(0), 0u);
}

TEST(DataFlow, GoesThroughViews) {
  Parts parts = simple();
  parts.ints = {3,
                /*dims*/ 8,
                1,
                /*operands*/ 0,
                1,
                /*offset*/ 0,
                /*operands*/ 2,
                3};
  parts.slots = {{SlotKind::Input, 6, 1, 0, 1, 0, 32},
                 {SlotKind::Arena, 6, 1, 0, 1, 0, 32},
                 {SlotKind::View, 6, 1, 0, 1, 0, 32},
                 {SlotKind::Fresh, 6, 1, 0, 1, 0, 32}};
  parts.header.arenaBytes = 32;
  parts.steps = {{StepKind::Kernel, 0, 0, 3, 2},
                 {StepKind::View, 0, 2, 1, 5},
                 {StepKind::Kernel, 0, 0, 6, 2}};
  Program program;
  std::string error;
  std::vector<char> blob = parts.blob();
  ASSERT_TRUE(program.load(blob.data(), blob.size(), error)) << error;
  DataFlow flow(program);
  ASSERT_EQ(flow.nodes.size(), 2u);
  EXPECT_TRUE(flow.nodes[0].readsInputs);
  EXPECT_TRUE(flow.nodes[0].reads.empty());
  EXPECT_FALSE(flow.nodes[1].readsInputs);
  EXPECT_EQ(flow.nodes[1].reads, std::vector<uint32_t>{0});
  EXPECT_EQ(flow.nodes[1].name, "kernel_0");
  EXPECT_EQ(flow.results, std::vector<uint32_t>{1});
}

TEST(DataFlow, OfAnInputThatIsWritten) {
  Program program;
  std::string error;
  std::vector<char> blob = inPlace().blob();
  ASSERT_TRUE(program.load(blob.data(), blob.size(), error)) << error;
  DataFlow flow(program);
  ASSERT_EQ(flow.nodes.size(), 1u);
  EXPECT_TRUE(flow.nodes[0].readsInputs);
  EXPECT_EQ(flow.results, std::vector<uint32_t>{0});
}

TEST(Program, RefusesOutputsInPlaceThatAreNoWrittenInputs) {
  Parts parts = inPlace();
  parts.slots[0].flags = 0;
  EXPECT_NE(failure(parts.blob()).find("no input that the program writes"),
            std::string::npos);
  parts = inPlace();
  parts.ints[0] = 1 | kOutputInPlace;
  EXPECT_NE(failure(parts.blob()).find("no input that the program writes"),
            std::string::npos);
}

TEST(Program, RefusesWhatMayFailBehindAWrite) {
  Parts parts = inPlace();
  parts.slots.push_back({SlotKind::Arena, 11, 0, 0, 1, 0, 1});
  parts.header.arenaBytes = 1;
  parts.steps.push_back({StepKind::Speculate, 0, 2, 0, 0});
  EXPECT_NE(
      failure(parts.blob()).find("may fail when an input has been written"),
      std::string::npos)
      << failure(parts.blob());
  std::swap(parts.steps[0], parts.steps[1]);
  EXPECT_EQ(failure(parts.blob()), "");
}

TEST(Program, RefusesCopiesToInputsThatDoNotSaySo) {
  Parts parts = inPlace();
  parts.steps = {{StepKind::Copy, 0, 1, 0, 0}};
  EXPECT_NE(failure(parts.blob()).find("says wrongly whether it writes"),
            std::string::npos);
  parts.steps[0].flags = kStepWritesInput;
  EXPECT_EQ(failure(parts.blob()), "");
}

/// An element of the input is saved and written, with something behind it that
/// may fail.
Parts undone() {
  Parts parts = simple();
  parts.header.arenaBytes = 8;
  parts.ints = {0 | kOutputInPlace, /*dims*/ 8, 1, /*offset*/ 3, /*dims*/ 1, 1};
  parts.slots = {{SlotKind::Input, 6, 1, kSlotWritten, 1, 0, 32},
                 {SlotKind::View, 6, 1, 0, 4, 0, 4},
                 {SlotKind::Arena, 6, 1, 0, 4, 0, 4},
                 {SlotKind::Arena, 11, 0, 0, 4, 4, 1}};
  parts.steps = {{StepKind::View, 0, 1, 0, 3},
                 {StepKind::Copy, 0, 1, 2, 0},
                 {StepKind::Undo, 0, 1, 0, 0},
                 {StepKind::Copy, kStepWritesInput, 2, 1, 0},
                 {StepKind::Copy, kStepWritesInput | kStepUndone, 2, 1, 0},
                 {StepKind::Speculate, 0, 3, 0, 0}};
  return parts;
}

TEST(Program, LoadsWritesThatAreUndone) {
  EXPECT_EQ(failure(undone().blob()), "");
}

TEST(Program, RefusesWritesThatNothingUndoes) {
  struct {
    const char *what, *error;
    void (*change)(Parts &);
  } changes[] = {
      {"not said", "may fail when an input has been written",
       [](Parts &p) {
         p.steps.erase(p.steps.begin() + 2, p.steps.begin() + 4);
         p.steps[2].flags = kStepWritesInput;
       }},
      {"no undo in front", "says wrongly whether it writes",
       [](Parts &p) {
         p.steps.erase(p.steps.begin() + 2, p.steps.begin() + 4);
       }},
      {"a view of the input", "says wrongly whether it writes",
       [](Parts &p) {
         p.steps.erase(p.steps.begin() + 2, p.steps.begin() + 4);
         p.steps[2].flags = 0;
       }},
      {"something else is put back", "undoes nothing",
       [](Parts &p) {
         p.steps[3].a = 1;
         p.steps[3].b = 2;
       }},
      {"nothing is written behind it", "undoes nothing",
       [](Parts &p) { p.steps[4].flags = kStepWritesInput; }},
      {"more than there is", "undoes nothing",
       [](Parts &p) { p.steps[2].a = 9; }},
      {"of a device", "undoes nothing",
       [](Parts &p) { p.header.variants = 1; }},
  };
  for (auto &change : changes) {
    Parts parts = undone();
    change.change(parts);
    EXPECT_NE(failure(parts.blob()).find(change.error), std::string::npos)
        << change.what << ": " << failure(parts.blob());
  }
}

TEST(Program, RefusesEveryTruncation) {
  std::vector<char> whole = simple().blob();
  for (size_t size = 0; size < whole.size(); ++size) {
    std::vector<char> part(whole.begin(), whole.begin() + size);
    EXPECT_NE(failure(part), "") << size << " bytes";
  }
}

TEST(Program, RefusesOtherMagicAndVersion) {
  std::vector<char> blob = simple().blob();
  blob[0] ^= 1;
  EXPECT_NE(failure(blob), "");
  blob[0] ^= 1;
  blob[offsetof(Header, version)] += 1;
  EXPECT_NE(failure(blob), "");
}

TEST(Program, RefusesIndicesThatPointNowhere) {
  struct {
    const char *what;
    void (*change)(Parts &);
  } changes[] = {
      {"output slot", [](Parts &p) { p.ints[0] = 2; }},
      {"negative output slot", [](Parts &p) { p.ints[0] = -1; }},
      {"kernel number", [](Parts &p) { p.steps[0].a = 1; }},
      {"operand list", [](Parts &p) { p.steps[0].b = 4; }},
      {"operand count", [](Parts &p) { p.steps[0].c = 1u << 30; }},
      {"operand slot", [](Parts &p) { p.ints[3] = 7; }},
      {"dimensions", [](Parts &p) { p.slots[0].dims = 100; }},
      {"rank", [](Parts &p) { p.slots[0].rank = 250; }},
      {"input number", [](Parts &p) { p.slots[0].place = 5; }},
      {"kernel name", [](Parts &p) { p.kernels[0].name = 1000; }},
      {"unterminated name", [](Parts &p) { p.chars.back() = 'x'; }},
      {"slot kind", [](Parts &p) { p.slots[0].kind = SlotKind(99); }},
      {"copy between sizes",
       [](Parts &p) {
         p.slots[0].bytes = 16;
         p.slots[0].dims = p.ints.size();
         p.ints.insert(p.ints.end(), {4, 1});
         p.steps[0] = {StepKind::Copy, 0, 0, 1, 0};
       }},
      {"speculation of something that is no flag",
       [](Parts &p) { p.steps.push_back({StepKind::Speculate, 0, 0, 0, 0}); }},
      {"graph without an end",
       [](Parts &p) { p.steps.push_back({StepKind::GraphBegin, 0, 0, 1, 0}); }},
      {"end without a graph",
       [](Parts &p) { p.steps.push_back({StepKind::GraphEnd, 0, 0, 0, 0}); }},
      {"indirect version of a kernel",
       [](Parts &p) {
         p.steps[0].flags = kStepIndirect;
         p.ints.insert(p.ints.end(), {9, 1});
       }},
      {"way to launch", [](Parts &p) { p.header.variants = 1u << 9; }},
      {"step kind", [](Parts &p) { p.steps[0].kind = StepKind(99); }},
  };
  for (auto &change : changes) {
    Parts parts = simple();
    change.change(parts);
    EXPECT_NE(failure(parts.blob()), "") << change.what;
  }
}

/// A graph of a device whose one copy stands in for its source.
Parts staged() {
  Parts parts = simple();
  parts.header.variants = 1;
  parts.header.arenaBytes = 32;
  parts.slots.push_back({SlotKind::Arena, 6, 1, 0, 1, 0, 32});
  parts.slots.push_back({SlotKind::View, 6, 1, 0, 1, 0, 32});
  uint32_t none = parts.ints.size();
  parts.ints.push_back(0);
  parts.steps = {{StepKind::GraphBegin, 0, 0, none, 0},
                 {StepKind::Copy, kStepPatchable, 0, 2, 0},
                 {StepKind::View, 0, 3, 2, none},
                 {StepKind::Kernel, 0, 0, 3, 2},
                 {StepKind::GraphEnd, 0, 0, 0, 0}};
  return parts;
}

TEST(Program, RefusesPatchableCopiesThatOthersMeet) {
  EXPECT_EQ(failure(staged().blob()), "");
  struct {
    const char *what;
    void (*change)(Parts &);
  } changes[] = {
      {"a kernel reads it", [](Parts &p) { p.ints[3] = 2; }},
      {"a kernel reads a view of it", [](Parts &p) { p.ints[4] = 3; }},
      {"the caller gets it", [](Parts &p) { p.ints[0] = 2; }},
      {"no graph",
       [](Parts &p) {
         p.steps[0] = p.steps[4] = {StepKind::Kernel, 0, 0, 3, 0};
       }},
      {"a source of the program's own",
       [](Parts &p) { p.slots[0].kind = SlotKind::Arena; }},
      {"a source of the host", [](Parts &p) { p.slots[0].flags = kSlotHost; }},
      {"a target of the caller's",
       [](Parts &p) { p.slots[2].kind = SlotKind::Fresh; }},
      {"the source is written",
       [](Parts &p) { p.steps[3] = {StepKind::Copy, 0, 1, 0, 0}; }},
      {"the target is copied on",
       [](Parts &p) { p.steps[3] = {StepKind::Copy, 0, 2, 1, 0}; }},
      {"a view behind the graph",
       [](Parts &p) { std::swap(p.steps[2], p.steps[4]); }},
  };
  for (auto &change : changes) {
    Parts parts = staged();
    change.change(parts);
    EXPECT_NE(failure(parts.blob()), "") << change.what;
  }
}

/// A graph whose one copy hands out what stands in for an output.
Parts stagedResult() {
  Parts parts = simple();
  parts.header.variants = 1;
  parts.header.arenaBytes = 32;
  parts.slots.push_back({SlotKind::Arena, 6, 1, 0, 1, 0, 32});
  parts.slots.push_back({SlotKind::View, 6, 1, 0, 1, 0, 32});
  uint32_t zero = parts.ints.size();
  parts.ints.push_back(0);
  uint32_t operands = parts.ints.size();
  parts.ints.insert(parts.ints.end(), {0, 2});
  parts.steps = {{StepKind::GraphBegin, 0, 0, zero, 0},
                 {StepKind::Kernel, 0, 0, operands, 2},
                 {StepKind::View, 0, 3, 2, zero},
                 {StepKind::Copy, kStepPatchable, 3, 1, 0},
                 {StepKind::GraphEnd, 0, 0, 0, 0}};
  return parts;
}

TEST(Program, RefusesPatchableResultsThatOthersMeet) {
  EXPECT_EQ(failure(stagedResult().blob()), "");
  struct {
    const char *what;
    void (*change)(Parts &);
  } changes[] = {
      {"the caller gets it", [](Parts &p) { p.ints[0] = 2; }},
      {"no graph", [](Parts &p) { p.steps[0] = p.steps[4] = p.steps[1]; }},
      {"a part of it", [](Parts &p) { p.ints[p.steps[2].c] = 1; }},
      {"of another size", [](Parts &p) { p.slots[2].bytes = 64; }},
      {"written behind the graph",
       [](Parts &p) { std::swap(p.steps[1], p.steps[4]); }},
      {"the target is written, too",
       [](Parts &p) { p.ints[p.steps[1].b] = 1; }},
      {"an input's", [](Parts &p) { p.slots[2].kind = SlotKind::Input; }},
  };
  for (auto &change : changes) {
    Parts parts = stagedResult();
    change.change(parts);
    EXPECT_NE(failure(parts.blob()), "") << change.what;
  }
}

/// `staged`, with an input that the kernel writes, beside the copy's source or
/// as it.
Parts stagedWithUpdate(bool ofSource) {
  Parts parts = staged();
  uint32_t updated = ofSource ? 0 : parts.slots.size();
  if (!ofSource) {
    parts.header.inputs = 2;
    parts.slots.push_back({SlotKind::Input, 6, 1, 0, 1, 1, 32});
  }
  parts.slots[updated].flags = kSlotWritten;
  parts.ints[0] = updated | kOutputInPlace;
  uint32_t operands = parts.ints.size();
  parts.ints.insert(parts.ints.end(), {0, updated});
  parts.steps[3] = {StepKind::Kernel, kStepWritesInput, 0, operands, 2};
  return parts;
}

TEST(Program, PatchableCopiesAreOfWhatStays) {
  // The kernel reads what is copied, and writes another input.
  EXPECT_EQ(failure(stagedWithUpdate(/*ofSource=*/false).blob()), "");
  EXPECT_NE(failure(stagedWithUpdate(/*ofSource=*/true).blob())
                .find("others than vendor calls meet the copy"),
            std::string::npos);
}

TEST(Program, RefusesCountsBeyondTheBlob) {
  for (size_t at : {offsetof(Header, slots), offsetof(Header, steps),
                    offsetof(Header, kernels), offsetof(Header, outputs)}) {
    std::vector<char> blob = simple().blob();
    uint32_t huge = 0xffffffff;
    std::memcpy(blob.data() + at, &huge, sizeof(huge));
    EXPECT_NE(failure(blob), "") << "header byte " << at;
  }
  for (size_t at : {offsetof(Header, ints), offsetof(Header, chars)}) {
    std::vector<char> blob = simple().blob();
    uint64_t huge = uint64_t(1) << 61; // times eight wraps around to zero
    std::memcpy(blob.data() + at, &huge, sizeof(huge));
    EXPECT_NE(failure(blob), "") << "header byte " << at;
  }
}

TEST(Program, SurvivesRandomDamage) {
  std::mt19937 random(1);
  std::vector<char> whole = simple().blob();
  for (int round = 0; round < 50000; ++round) {
    std::vector<char> blob = whole;
    for (int change = random() % 4; change >= 0; --change)
      blob[random() % blob.size()] = static_cast<char>(random());
    // Whether it is refused depends on the damage; it may only not crash, and
    // what is accepted must stay within its tables.
    Program program;
    std::string error;
    if (!program.load(blob.data(), blob.size(), error)) {
      EXPECT_NE(error, "");
      continue;
    }
    for (uint32_t i = 0; i < program.numOutputs(); ++i)
      ASSERT_LT(program.outputSlot(i), program.numSlots());
  }
}

} // namespace
