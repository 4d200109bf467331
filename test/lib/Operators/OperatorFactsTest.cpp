//===- OperatorFactsTest.cpp - facts by overload, operator, library -------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "pyjit/Operators/OperatorFacts.h"
#include "pyjit/Operators/OperatorInfo.h"
#include "pyjit/Operators/OperatorNames.h"

#include "gtest/gtest.h"

using namespace pyjit::operators;

TEST(OperatorFacts, OfOneOverload) {
  EXPECT_TRUE(lookupFacts(aten::softmax_int).keptWhole);
  EXPECT_FALSE(lookupFacts("aten::softmax.Dimname").keptWhole);
  EXPECT_STREQ(lookupFacts(aten::squeeze__dim).shapeChange, aten::squeeze_dim);
  EXPECT_EQ(lookupFacts(aten::squeeze_dim).shapeChange, nullptr);
}

TEST(OperatorFacts, OfAllOverloadsOfAnOperator) {
  EXPECT_TRUE(lookupFacts("aten::cdist").costly);
  EXPECT_TRUE(lookupFacts("aten::unique_dim.out").waitsForDevice);
  EXPECT_EQ(lookupFacts(aten::max_dim).sizeRule, SizeRule::Reduction);
  // Not by the beginning of a name.
  EXPECT_FALSE(lookupFacts("aten::cdist_backward").costly);
}

TEST(OperatorFacts, OfALibrary) {
  EXPECT_TRUE(lookupFacts("prims::anything").shapeFollows);
  EXPECT_TRUE(lookupFacts(mkldnn::_linear_pointwise_binary).ofCPULibrary);
  EXPECT_TRUE(lookupFacts("torchvision::roi_pool").shapeFollows);
  EXPECT_FALSE(lookupFacts("torchvision::nms").shapeFollows);
  EXPECT_FALSE(lookupFacts("mine::linear").costly);
  EXPECT_EQ(lookupFacts("").overwrites, -1);
}

TEST(OperatorFacts, SizesOfInPlaceForms) {
  EXPECT_EQ(lookupFacts("aten::cumsum_").sizeRule, SizeRule::Same);
  EXPECT_EQ(lookupFacts(aten::copy_).sizeRule, SizeRule::Pointwise);
  EXPECT_EQ(lookupFacts(aten::relu_).sizeRule, SizeRule::None);
}

TEST(OperatorFacts, OverwrittenOperands) {
  EXPECT_EQ(lookupFacts(aten::zeros_like).overwrites, 0);
  EXPECT_EQ(lookupFacts(aten::rrelu_with_noise).overwrites, 1);
  EXPECT_EQ(lookupFacts(aten::relu).overwrites, -1);
}

TEST(OperatorFacts, Costly) {
  EXPECT_FALSE(isCostly(aten::max_dim));
  EXPECT_TRUE(isCostly(aten::topk));
}
