//===- LaunchChoiceTest.cpp - Choosing a way to launch from given times ---===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "pyjit-rt/cuda/LaunchChoice.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>

using namespace pyjit::rt;
using namespace pyjit::rt::cuda;

namespace {

constexpr uint32_t kAll = 15;
using Times = std::function<double(Variant, uint64_t call)>;

double steady(Variant variant, uint64_t) {
  return std::array<double, 4>{4e-5, 3e-5, 1e-5, 2e-5}[unsigned(variant)];
}

struct Program {
  explicit Program(LaunchChoice &choice, Times times)
      : choice(choice), times(std::move(times)) {}
  void calls(uint64_t number) {
    for (uint64_t end = call + number; call < end; ++call) {
      Variant variant = choice.next();
      double taken = times(variant, call);
      seconds += taken;
      ++counts[unsigned(variant)];
      if (!choice.wantsTime()) {
        choice.passed();
      } else if (!captured[unsigned(variant)]) {
        captured[unsigned(variant)] = true;
        seconds += kCapture;
        choice.prepared(taken + kCapture);
      } else {
        ++timed;
        choice.timed(taken);
      }
      for (unsigned v = 1; v < 4; ++v)
        captured[v] = captured[v] && choice.mayAskFor(Variant(v));
    }
  }
  static constexpr double kCapture = 2e-4;
  LaunchChoice &choice;
  Times times;
  uint64_t call = 0, timed = 0;
  double seconds = 0;
  std::array<uint64_t, 4> counts{};
  std::array<bool, 4> captured{true, false, false, false};
};

TEST(LaunchChoice, TheFastestIsChosen) {
  for (unsigned fastest = 0; fastest < 4; ++fastest) {
    LaunchChoice choice(kAll, false);
    Program program(choice, [&](Variant v, uint64_t) {
      return unsigned(v) == fastest ? 1e-5 : 3e-5;
    });
    program.calls(12);
    EXPECT_EQ(choice.chosen(), Variant(fastest)); // as far as is known
    EXPECT_FALSE(choice.decided());
    program.calls(1200);
    EXPECT_EQ(choice.chosen(), Variant(fastest));
    EXPECT_TRUE(choice.decided());
    EXPECT_EQ(program.timed, 4u * 4);
    EXPECT_NEAR(choice.figure(Variant(fastest)), 1e-5, 1e-9);
  }
}

TEST(LaunchChoice, PlainLaunchesKeepTheHostBusy) {
  for (double plain : {0.97e-5, 0.93e-5}) {
    LaunchChoice choice(kAll, false);
    Program program(choice, [&](Variant v, uint64_t) {
      return v == Variant::Plain ? plain : v == Variant::Update ? 1e-5 : 3e-5;
    });
    program.calls(1200);
    EXPECT_EQ(choice.chosen(),
              plain > 0.95e-5 ? Variant::Update : Variant::Plain);
    EXPECT_NEAR(choice.figure(Variant::Plain), plain, 1e-9);
  }
}

TEST(LaunchChoice, NothingToChoose) {
  LaunchChoice choice(1, false);
  EXPECT_TRUE(choice.decided());
  Program program(choice, steady);
  program.calls(10000);
  EXPECT_EQ(program.timed, 0u);
}

TEST(LaunchChoice, ABurstOfANeighbourDecidesNothing) {
  // The device is somebody else's for some hundred calls, beginning anywhere.
  for (uint64_t begin = 0; begin < 1100; ++begin) {
    LaunchChoice choice(kAll, false);
    Program program(choice, [&](Variant v, uint64_t call) {
      bool busy = call >= begin && call < begin + 100;
      // By turns: whoever is timed then looks slow.
      return steady(v, call) * (busy && call % 3 ? 25 : 1);
    });
    program.calls(1300);
    EXPECT_TRUE(choice.decided());
    EXPECT_EQ(choice.chosen(), Variant::Table) << begin;
  }
}

TEST(LaunchChoice, AWrongChoiceIsPutRight) {
  LaunchChoice choice(kAll, false);
  Program program(choice, [&](Variant v, uint64_t call) {
    return steady(v, call) * (call < 1200 && v == Variant::Table ? 25 : 1);
  });
  program.calls(1200);
  EXPECT_EQ(choice.chosen(), Variant::Update);
  program.calls(100'000);
  EXPECT_EQ(choice.chosen(), Variant::Table);
  EXPECT_GE(choice.numLooks(), 2u);
}

TEST(LaunchChoice, LookingCostsLittle) {
  LaunchChoice choice(kAll, false);
  Program program(choice, steady);
  program.calls(1200);
  double first = program.seconds;
  program.calls(3'000'000);
  EXPECT_GE(choice.numLooks(), 3u);
  EXPECT_LE(choice.numLooks(), 8u);
  EXPECT_LT(program.seconds - first, 3'000'000 * 1e-5 * 1.02);
}

TEST(LaunchChoice, AFailureIsTriedAgainLater) {
  LaunchChoice choice(kAll, false);
  bool broken = true;
  uint64_t failures = 0;
  Program program(choice, steady);
  for (uint64_t call = 0; call < 3'000'000; ++call) {
    if (call == 1300)
      broken = false;
    if (broken && choice.next() == Variant::Table) {
      ++failures;
      choice.failed("out of memory");
      EXPECT_NE(choice.next(), Variant::Table);
    }
    program.calls(1);
    if (call == 1299) {
      EXPECT_TRUE(choice.decided());
      EXPECT_EQ(choice.chosen(), Variant::Update);
      EXPECT_EQ(choice.failure(Variant::Table), "out of memory");
    }
  }
  EXPECT_EQ(failures, 1u);
  EXPECT_EQ(choice.chosen(), Variant::Table);
  EXPECT_EQ(choice.failure(Variant::Table), "");
}

TEST(LaunchChoice, AllButPlainFail) {
  LaunchChoice choice(kAll, false);
  for (unsigned i = 0; i < 1000; ++i) {
    if (choice.next() != Variant::Plain)
      choice.failed("no");
    else if (choice.wantsTime())
      choice.timed(1e-5);
    else
      choice.passed();
    EXPECT_EQ(choice.chosen(), Variant::Plain);
  }
}

TEST(LaunchChoice, WhatWasChosenFails) {
  LaunchChoice choice(kAll, false);
  Program program(choice, steady);
  program.calls(1200);
  ASSERT_EQ(choice.chosen(), Variant::Table);
  choice.failed("the driver says no");
  EXPECT_NE(choice.next(), Variant::Table);
  program.calls(1200);
  EXPECT_TRUE(choice.decided());
}

TEST(LaunchChoice, TheVerySlowAreTimedOnce) {
  LaunchChoice choice(kAll, true);
  Program program(choice, [](Variant v, uint64_t) {
    return v == Variant::Plain ? 1e-2 : steady(v, 0);
  });
  program.calls(1200);
  EXPECT_EQ(program.counts[0], 1u);
  EXPECT_EQ(choice.chosen(), Variant::Table);
}

TEST(LaunchChoice, FixedForGood) {
  LaunchChoice choice(kAll, false);
  choice.fix(Variant::Copy);
  Program program(choice, steady);
  program.calls(100'000);
  EXPECT_EQ(program.counts[unsigned(Variant::Copy)], 100'000u);
  EXPECT_EQ(program.timed, 0u);
  choice.failed("no");
  EXPECT_EQ(choice.next(), Variant::Plain);
  EXPECT_EQ(choice.failure(Variant::Copy), "no");
}

TEST(LaunchChoice, WhatOthersChoseIsLookedAtLater) {
  LaunchChoice choice(kAll, false);
  choice.assume(Variant::Update);
  Program program(choice, steady);
  program.calls(1000);
  EXPECT_EQ(program.counts[unsigned(Variant::Update)], 1000u);
  program.calls(3000);
  EXPECT_EQ(choice.chosen(), Variant::Table);
}

TEST(LaunchChoice, NoiseAndLuck) {
  unsigned wrong = 0;
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<double> noise(0.9, 1.1);
    LaunchChoice choice(kAll, false);
    Program program(choice, [&](Variant v, uint64_t call) {
      return steady(v, call) * noise(random) * (random() % 20 ? 1 : 30);
    });
    program.calls(1200);
    wrong += choice.chosen() != Variant::Table;
  }
  EXPECT_LE(wrong, 3u);
}

} // namespace
