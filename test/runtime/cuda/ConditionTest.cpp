//===- ConditionTest.cpp - Conditional nodes on every driver --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Drivers.h"

using namespace pyjit::rt::cuda;

namespace {

class Conditions : public DriverTest {
protected:
  void SetUp() override {
    DriverTest::SetUp();
    if (driver && !IsSkipped())
      loadLoopKernels();
  }
  float first(DevicePtr memory) { return get(memory)[0]; }
};

TEST_P(Conditions, WhileRunsAsLongAsItsFlagIsTrue) {
  DevicePtr x = make(repeat(0)), limit = make(repeat(5)), go = make(repeat(0));
  CapturedGraph graph(driver);
  graph.beginNodes();
  graph.beginWhile(setter, go);
  graph.addKernel(counter, {{x}, {limit}, {go}}, stream);
  graph.endBody();
  graph.finishNodes();
  for (float bound : {5.f, 1.f, 3000.f}) {
    put(x, repeat(0));
    put(limit, repeat(bound));
    putFlag(go, true);
    graph.replay(stream);
    EXPECT_EQ(first(x), bound);
  }
  putFlag(go, false);
  put(x, repeat(7));
  graph.replay(stream);
  EXPECT_EQ(first(x), 7);
}

TEST_P(Conditions, OneOfTwoBranchesRuns) {
  DevicePtr x = make(repeat(0)), y = make(repeat(0)), z = make(repeat(0)),
            limit = make(repeat(0)), go = make(repeat(0));
  CapturedGraph graph(driver);
  graph.beginNodes();
  graph.beginIf(setter, go, /*hasElse=*/true);
  // The flag is overwritten in the body: too late to matter.
  graph.addKernel(counter, {{x}, {limit}, {go}}, stream);
  graph.otherwise();
  graph.addKernel(counter, {{y}, {limit}, {z}}, stream);
  graph.endBody();
  graph.finishNodes();
  for (bool flag : {true, false, false, true, false}) {
    putFlag(go, flag);
    graph.replay(stream);
  }
  EXPECT_EQ(first(x), 2);
  EXPECT_EQ(first(y), 3);
}

TEST_P(Conditions, EmptyBodies) {
  DevicePtr x = make(repeat(0)), limit = make(repeat(0)), go = make(repeat(0)),
            other = make(repeat(0));
  CapturedGraph graph(driver);
  graph.beginNodes();
  graph.beginIf(setter, go, /*hasElse=*/true);
  graph.otherwise();
  graph.addKernel(counter, {{x}, {limit}, {other}}, stream);
  graph.endBody();
  graph.finishNodes();
  for (bool flag : {true, false}) {
    putFlag(go, flag);
    graph.replay(stream);
  }
  EXPECT_EQ(first(x), 1);
}

TEST_P(Conditions, LoopsInLoopsAndCapturedGraphsInBodies) {
  // Each outer round: one step captured elsewhere, then the inner loop anew.
  DevicePtr outer = make(repeat(0)), inner = make(repeat(0)),
            total = make(repeat(0)), three = make(repeat(3)),
            four = make(repeat(4)), zero = make(repeat(0)),
            outerGo = make(repeat(0)), innerGo = make(repeat(0)),
            ignored = make(repeat(0)), yes = make(repeat(0));
  putFlag(yes, true);
  CapturedGraph recorder(driver);
  ASSERT_EQ(driver->beginCapture(stream), kSuccess);
  recorder.addKernel(counter, {{outer}, {three}, {outerGo}}, stream);
  Graph captured = nullptr;
  ASSERT_EQ(driver->endCapture(stream, &captured), kSuccess);

  CapturedGraph graph(driver);
  graph.beginNodes();
  graph.beginWhile(setter, outerGo);
  graph.addGraph(captured);
  graph.addCopy({inner}, {zero}, 4, stream);
  graph.addCopy({innerGo}, {yes}, 1, stream);
  graph.beginWhile(setter, innerGo);
  graph.addKernel(counter, {{inner}, {four}, {innerGo}}, stream);
  graph.addKernel(counter, {{total}, {zero}, {ignored}}, stream);
  graph.endBody();
  graph.endBody();
  graph.finishNodes();
  for (int call = 1; call <= 2; ++call) {
    put(outer, repeat(0));
    putFlag(outerGo, true);
    graph.replay(stream);
    EXPECT_EQ(first(outer), 3);
    EXPECT_EQ(first(inner), 4);
    EXPECT_EQ(first(total), 12 * call);
  }
  EXPECT_EQ(driver->destroyGraph(captured), kSuccess);
}

TEST_P(Conditions, NodesOutsideOfBodiesAreRenewed) {
  loadTableWriter();
  DevicePtr x = make(repeat(0)), x2 = make(repeat(10)), y = make(repeat(0)),
            y2 = make(repeat(0)), at = make(repeat(0)),
            limit = make(repeat(20)), go = make(repeat(0));
  float number = 20;
  CapturedGraph graph(driver);
  graph.beginNodes();
  graph.addHostNumbers(writer, {{limit, 2, &number, 4}}, stream);
  graph.addCopy({at}, {x, 0}, 4, stream);
  graph.beginWhile(setter, go);
  graph.addKernel(counter, {{at}, {limit}, {go}}, stream);
  graph.endBody();
  graph.addCopy({y, 1}, {at}, 4, stream);
  graph.finishNodes();
  EXPECT_EQ(graph.numExternalNodes(), 3u);
  putFlag(go, true);
  graph.replay(stream);
  EXPECT_EQ(first(y), 20);
  put(at, repeat(0));
  number = 12;
  void *buffers[] = {asPointer(x2), asPointer(y2), &number};
  EXPECT_EQ(graph.update(buffers), 3u);
  putFlag(go, true);
  graph.replay(stream);
  EXPECT_EQ(first(y2), 12);
  EXPECT_EQ(first(y), 20);
}

TEST_P(Conditions, BodiesHoldNoAddressThatMoves) {
  loadTableWriter();
  DevicePtr x = make(repeat(0)), go = make(repeat(0));
  CapturedGraph graph(driver);
  graph.beginNodes();
  graph.beginIf(setter, go, /*hasElse=*/false);
  EXPECT_THROW(graph.addKernel(counter, {{x, 0}, {x}, {go}}, stream),
               std::runtime_error);
  EXPECT_THROW(graph.addCopy({x, 0}, {go}, 4, stream), std::runtime_error);
  float number = 0;
  EXPECT_THROW(graph.addHostNumbers(writer, {{x, 0, &number, 4}}, stream),
               std::runtime_error);
}

INSTANTIATE_TEST_SUITE_P(Drivers, Conditions,
                         testing::Values("simulated", "real"),
                         [](const auto &info) { return info.param; });

} // namespace
