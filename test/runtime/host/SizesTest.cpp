//===- SizesTest.cpp - Programs whose sizes differ between calls ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Parts.h"
#include "pyjit-rt/SizeDependence.h"
#include "gtest/gtest.h"

using namespace pyjit::rt;

namespace {

enum Symbolic : uint32_t { kInput, kFirst, kSecond, kView, kFixed, kOutput };

/// Of an input of s0 floats, two buffers of as many, one behind the other in
/// the arena, a view of the second one's last float, and a buffer of one float.
Parts symbolic() {
  Parts parts;
  parts.header.inputs = parts.header.outputs = 1;
  parts.header.symbols = 1;
  parts.header.variants = 9; // plain, update
  parts.header.code = kNone;
  auto word = [&](int64_t value) {
    parts.ints.push_back(value);
    return uint32_t(parts.ints.size() - 1);
  };
  struct Patch {
    PatchKind kind;
    int64_t what, expression;
  };
  std::vector<Patch> patches;
  auto symbolTimes = [&](int64_t factor, int64_t more = 0) {
    int64_t at = parts.ints.size();
    for (SizeOp op :
         {SizeOp::Symbol, SizeOp(0), SizeOp::Number, SizeOp(factor),
          SizeOp::Mul, SizeOp::Number, SizeOp(more), SizeOp::Add, SizeOp::End})
      word(int64_t(op));
    return at;
  };
  word(kOutput);
  auto slot = [&](SlotKind kind, bool varies) {
    uint32_t dims = word(1), number = parts.slots.size();
    word(1);
    parts.slots.push_back({kind, 6, 1, 0, dims, 0, 4});
    if (!varies)
      return;
    patches.push_back({PatchKind::Int, dims, symbolTimes(1)});
    patches.push_back({PatchKind::SlotBytes, number, symbolTimes(4)});
  };
  slot(SlotKind::Input, true);
  slot(SlotKind::Arena, true);
  slot(SlotKind::Arena, true);
  slot(SlotKind::View, false);
  slot(SlotKind::Arena, false);
  slot(SlotKind::Fresh, true);
  patches.push_back({PatchKind::SlotPlace, kSecond, symbolTimes(256)});
  patches.push_back({PatchKind::SlotPlace, kFixed, symbolTimes(512)});
  patches.push_back({PatchKind::ArenaBytes, 0, symbolTimes(512, 256)});
  patches.push_back({PatchKind::KernelBlocks, 0, symbolTimes(1)});
  uint32_t externals = word(2);
  word(kInput);
  word(kOutput);
  uint32_t place = word(0);
  patches.push_back({PatchKind::Int, place, symbolTimes(1, -1)});
  uint32_t operands = word(kInput);
  for (uint32_t number : {kFirst, kSecond, kView, kFixed, kOutput})
    word(number);
  parts.kernels = {{0, kNone, 8, 1, {1, 1, 1}, {1, 1, 1}, 0, kNone}};
  parts.chars = std::string("kernel_0\0aten::relu\0", 20);
  parts.steps = {{StepKind::GraphBegin, 0, 0, externals, 0},
                 {StepKind::View, 0, kView, kSecond, place},
                 {StepKind::Kernel, 0, 0, operands, 6},
                 {StepKind::GraphEnd, 0, 0, 0, 0}};
  parts.header.symbolTable = word(kInput);
  word(0);
  parts.header.patches = patches.size();
  parts.header.patchTable = parts.ints.size();
  for (const Patch &patch : patches)
    for (int64_t value : {int64_t(patch.kind), patch.what, patch.expression})
      word(value);
  return parts;
}

/// The call `aten::relu` of a slot, in the graph.
void addCall(Parts &parts, uint32_t operand, uint32_t result) {
  uint32_t at = parts.ints.size();
  for (int64_t value : {int64_t(ArgTag::Tensor), int64_t(operand),
                        int64_t(ArgTag::End), int64_t(1), int64_t(result)})
    parts.ints.push_back(value);
  parts.steps.insert(parts.steps.begin() + 2,
                     {StepKind::Call, 0, 9, at, at + 3});
}

Program load(Parts parts) {
  Program program;
  std::string error;
  std::vector<char> blob = parts.blob();
  EXPECT_TRUE(program.load(blob.data(), blob.size(), error)) << error;
  return program;
}

TEST(Sizes, BuffersStayWhereTheCapacityPutsThem) {
  Program form = load(symbolic()), special;
  std::string error;
  int64_t capacity = 64, symbol = 5;
  ASSERT_TRUE(form.specialize(&symbol, &capacity, special, error)) << error;
  const int64_t *ints = special.ints();
  for (int64_t now : {int64_t(5), int64_t(64), int64_t(2)}) {
    ASSERT_TRUE(form.respecialize(&now, &capacity, special, error)) << error;
    EXPECT_EQ(special.ints(), ints); // a launch may hold an address in it
    EXPECT_EQ(special.slots()[kSecond].place, 64u * 256);
    EXPECT_EQ(special.slots()[kFixed].place, 64u * 512);
    EXPECT_EQ(special.header().arenaBytes, 64u * 512 + 256);
    EXPECT_EQ(special.slots()[kSecond].bytes, uint64_t(4 * now));
    EXPECT_EQ(special.ints()[special.slots()[kOutput].dims], now);
    EXPECT_EQ(special.kernels()[0].grid[0], uint32_t(now));
    EXPECT_EQ(special.ints()[special.steps()[1].c], now - 1);
  }
  EXPECT_EQ(form.arenaBytes(&capacity), 64u * 512 + 256);
  // Another copy of the form has its own layout.
  ASSERT_TRUE(form.specialize(&symbol, special, error)) << error;
  EXPECT_EQ(special.slots()[kSecond].place, 5u * 256);
}

/// The first patch of a kind that is a word's.
int64_t *patchOf(Parts &parts, PatchKind kind, int64_t word) {
  for (uint32_t i = 0; i < parts.header.patches; ++i)
    if (int64_t *patch = &parts.ints[parts.header.patchTable + 3 * uint64_t(i)];
        patch[0] == int64_t(kind) && patch[1] == word)
      return patch;
  return nullptr;
}

TEST(Sizes, ArgumentsMayBeNegative) {
  int64_t symbol = 0; // the view's place is -1 then
  Parts parts = symbolic();
  uint32_t place = parts.steps[1].c;
  Program special;
  std::string error;
  EXPECT_FALSE(load(parts).specialize(&symbol, special, error));
  EXPECT_NE(error.find("negative"), std::string::npos) << error;
  // The same word as a call's argument, of which a view knows nothing.
  parts.steps.erase(parts.steps.begin() + 1);
  patchOf(parts, PatchKind::Int, place)[0] = int64_t(PatchKind::Argument);
  Program form = load(parts);
  ASSERT_TRUE(form.specialize(&symbol, special, error)) << error;
  EXPECT_EQ(special.ints()[place], -1);
}

TEST(Sizes, WhatHasNoRoomIsTold) {
  Program form = load(symbolic());
  int64_t capacity = 64;
  for (int64_t fits : {2, 63, 64})
    EXPECT_TRUE(form.hasRoom(&fits, &capacity));
  int64_t more = 65;
  EXPECT_FALSE(form.hasRoom(&more, &capacity));
}

TEST(Sizes, WhatDiffersIsFound) {
  SizeDependence sizes(load(symbolic()));
  EXPECT_EQ(sizes.obstacle(), "");
  EXPECT_TRUE(sizes.ofKernel(0));
  for (uint32_t slot : {kInput, kFirst, kSecond, kOutput})
    EXPECT_TRUE(sizes.ofSlot(slot));
  EXPECT_FALSE(sizes.ofSlot(kFixed));
  EXPECT_TRUE(sizes.ofPlace(kView));
  EXPECT_FALSE(sizes.ofPlace(kFixed));
}

TEST(Sizes, CallsThatDifferAreObstacles) {
  Parts parts = symbolic();
  parts.slots.push_back(parts.slots[kFixed]);
  parts.slots.back().kind = SlotKind::Result;
  uint32_t result = parts.slots.size() - 1;
  Parts fixed = parts;
  addCall(fixed, kFixed, result);
  EXPECT_EQ(SizeDependence(load(fixed)).obstacle(), "");
  for (uint32_t operand : {kSecond, kView}) {
    Parts differs = parts;
    addCall(differs, operand, result);
    EXPECT_EQ(SizeDependence(load(differs)).obstacle(),
              "aten::relu is another call then");
  }
}

TEST(Sizes, LoopsAreObstacles) {
  Parts parts = symbolic();
  parts.slots.push_back(parts.slots[kFixed]);
  parts.slots.back().dtype = 11;
  parts.slots.back().bytes = 1;
  uint32_t flag = parts.slots.size() - 1;
  parts.steps.insert(parts.steps.begin() + 1, {{StepKind::If, 0, flag, 2, 0},
                                               {StepKind::IfEnd, 0, 0, 0, 0}});
  EXPECT_EQ(SizeDependence(load(parts)).obstacle(), "it has loops or branches");
}

} // namespace
