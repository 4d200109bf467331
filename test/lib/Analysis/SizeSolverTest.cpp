//===- SizeSolverTest.cpp -------------------------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "pyjit/Analysis/SizeSolver.h"

#include <gtest/gtest.h>

using namespace pyjit::analysis;

namespace {

class SizeSolverTest : public testing::Test {
protected:
  SizePolynomial add(int64_t value) {
    return SizePolynomial::symbol(solver.addSymbol(value));
  }
  std::string why = "a rule relies on it";
  SizeSolver solver{[this] { return why; }};
};

TEST_F(SizeSolverTest, OneAndZeroKeepTheirValues) {
  EXPECT_EQ(solver.resolve(add(1)), SizePolynomial(1));
  EXPECT_EQ(solver.resolve(add(0)), SizePolynomial(0));
  SizePolynomial two = add(2);
  EXPECT_EQ(solver.resolve(two), two);
  EXPECT_FALSE(solver.hasChanged());
}

TEST_F(SizeSolverTest, AnEquationReplacesTheLatestSymbol) {
  SizePolynomial rows = add(6), columns = add(4), other = add(24);
  EXPECT_TRUE(solver.requireEqual(rows * columns, other));
  EXPECT_TRUE(solver.hasChanged());
  EXPECT_EQ(solver.resolve(other), rows * columns);
  EXPECT_EQ(solver.getReason(2), nullptr);
}

TEST_F(SizeSolverTest, WhatTheRunDisprovesIsNoFact) {
  SizePolynomial a = add(6), b = add(7);
  EXPECT_FALSE(solver.requireEqual(a, b));
  EXPECT_FALSE(solver.requireDifferent(a, b - 1));
  EXPECT_FALSE(solver.requireNotNegative(a - b));
  EXPECT_FALSE(solver.hasChanged());
}

TEST_F(SizeSolverTest, AConstantIsRememberedWithItsReason) {
  SizePolynomial a = add(6);
  EXPECT_TRUE(solver.requireEqual(a, 6));
  EXPECT_EQ(solver.resolve(a), SizePolynomial(6));
  ASSERT_NE(solver.getReason(0), nullptr);
  EXPECT_EQ(*solver.getReason(0), "a rule relies on it");
  why = "";
  solver.fix(add(8));
  EXPECT_EQ(solver.getReason(1), nullptr);
}

TEST_F(SizeSolverTest, AlikeExpressionsHaveEqualSymbols) {
  // Equal values: only one way round makes the expressions equal.
  SizePolynomial a = add(6), b = add(6), c = add(6), d = add(6);
  EXPECT_TRUE(solver.requireEqual((a - 1) * b, (c - 1) * d));
  EXPECT_EQ(solver.resolve(a), solver.resolve(c));
  EXPECT_EQ(solver.resolve(b), solver.resolve(d));
  EXPECT_NE(solver.resolve(a), solver.resolve(b));
  EXPECT_EQ(solver.getReason(0), nullptr);
}

TEST_F(SizeSolverTest, OthersThatWereEqualKeepTheirValues) {
  SizePolynomial a = add(7), b = add(4), c = add(9), d = add(3);
  EXPECT_TRUE(solver.requireEqual((a - 1) * b, (c - 1) * d));
  EXPECT_EQ(solver.resolve(a), SizePolynomial(7));
  EXPECT_EQ(solver.resolve(d), SizePolynomial(3));
}

TEST_F(SizeSolverTest, EqualProductsHaveEqualFactors) {
  SizePolynomial a = add(6), b = add(4), c = add(4), d = add(6);
  EXPECT_TRUE(solver.requireEqual(a * b, c * d));
  EXPECT_EQ(solver.resolve(a), solver.resolve(d));
  EXPECT_EQ(solver.resolve(b), solver.resolve(c));
  EXPECT_FALSE(solver.resolve(a).isConstant());
}

TEST_F(SizeSolverTest, OnlyWhatCallsHaveToCheckIsACondition) {
  SizePolynomial a = add(6), b = add(4);
  EXPECT_TRUE(solver.requireNotNegative(a - 2)); // symbols are at least 2
  EXPECT_TRUE(solver.getNotNegative().empty());
  EXPECT_TRUE(solver.requireNotNegative(a - b));
  EXPECT_EQ(solver.getNotNegative().size(), 1u);
  EXPECT_TRUE(solver.requireDifferent(a, 1));
  EXPECT_TRUE(solver.getDifferent().empty());
  EXPECT_TRUE(solver.requireDifferent(a, b));
  EXPECT_EQ(solver.getDifferent().size(), 1u);
  solver.restart();
  EXPECT_TRUE(solver.getNotNegative().empty());
  EXPECT_TRUE(solver.getDifferent().empty());
}

TEST_F(SizeSolverTest, EqualQuotientsAreOneSymbol) {
  SizePolynomial a = add(30);
  auto half = solver.floorDivide(a + 1, 2);
  auto same = solver.floorDivide(a * 2 + 2, 4);
  ASSERT_TRUE(half && same);
  EXPECT_EQ(*half, *same);
  EXPECT_EQ(solver.evaluate(*half), 15);
  ASSERT_NE(solver.getQuotient(1), nullptr);
  EXPECT_TRUE(solver.isUsed(1));
  EXPECT_EQ(*solver.floorDivide(a * 4, 4), a); // no rounding
}

TEST_F(SizeSolverTest, AQuotientThatKeepsItsValueFixesWhatItIsOf) {
  SizePolynomial a = add(30);
  SizePolynomial half = *solver.floorDivide(a, 2);
  EXPECT_TRUE(solver.requireRecorded(half));
  EXPECT_EQ(solver.resolve(half), SizePolynomial(15));
  EXPECT_EQ(solver.resolve(a), SizePolynomial(30));
}

TEST_F(SizeSolverTest, ASmallQuotientIsNoSizeThatMayDiffer) {
  SizePolynomial a = add(3);
  EXPECT_FALSE(solver.floorDivide(a, 2, /*mayFix=*/false));
  EXPECT_EQ(*solver.floorDivide(a, 2), SizePolynomial(1));
}

TEST_F(SizeSolverTest, AllThatAreMadeFromNowOnKeepTheirValues) {
  SizePolynomial before = add(5);
  solver.fixAll("a loop");
  SizePolynomial behind = add(5);
  EXPECT_FALSE(solver.resolve(before).isConstant());
  EXPECT_EQ(solver.resolve(behind), SizePolynomial(5));
  EXPECT_EQ(*solver.getReason(1), "a loop");
}

} // namespace
