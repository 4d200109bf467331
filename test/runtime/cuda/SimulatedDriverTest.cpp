//===- SimulatedDriverTest.cpp - What the test double refuses -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Drivers.h"

using namespace pyjit::rt::cuda;

namespace {

class Simulated : public DriverTest {};

TEST_P(Simulated, RefusesAllocationWhileCapturing) {
  ASSERT_EQ(driver->beginCapture(stream), kSuccess);
  DevicePtr memory = 0;
  EXPECT_EQ(driver->allocate(&memory, 16), kCaptureUnsupported);
  Graph graph = nullptr;
  EXPECT_EQ(driver->endCapture(stream, &graph), kCaptureInvalidated);
}

TEST_P(Simulated, RefusesHostMemoryWhileCapturing) {
  DevicePtr x = make(repeat(0));
  float value = 0;
  ASSERT_EQ(driver->beginCapture(stream), kSuccess);
  EXPECT_EQ(driver->copyFromHostAsync(x, &value, 4, stream),
            kCaptureUnsupported);
  Graph graph = nullptr;
  EXPECT_EQ(driver->endCapture(stream, &graph), kCaptureInvalidated);
}

TEST_P(Simulated, RefusesModulesWhileCapturing) {
  ASSERT_EQ(driver->beginCapture(stream), kSuccess);
  Module other = nullptr;
  EXPECT_EQ(driver->loadHostModule(&other, axpbKernels()), kCaptureUnsupported);
  Graph graph = nullptr;
  EXPECT_EQ(driver->endCapture(stream, &graph), kCaptureInvalidated);
}

TEST_P(Simulated, RefusesToCaptureTheDefaultStreamOrTwice) {
  EXPECT_NE(driver->beginCapture(nullptr), kSuccess);
  ASSERT_EQ(driver->beginCapture(stream), kSuccess);
  EXPECT_NE(driver->beginCapture(stream), kSuccess);
  Graph graph = nullptr;
  EXPECT_EQ(driver->endCapture(stream, &graph), kSuccess);
  EXPECT_EQ(driver->destroyGraph(graph), kSuccess);
  EXPECT_NE(driver->endCapture(stream, &graph), kSuccess);
}

TEST_P(Simulated, RefusesPtxAndUnknownKernels) {
  Module other = nullptr;
  std::string log;
  EXPECT_EQ(driver->loadModule(&other, kAxpbCode, log), kNotSupported);
  EXPECT_FALSE(log.empty());
  Function function = nullptr;
  EXPECT_EQ(driver->getFunction(&function, module, "nothing"), kInvalidValue);
}

TEST_P(Simulated, ALibraryChoosesItsCodeByAlignment) {
  HostKernel call = axpbKernels()[0];
  call.name = "a library's";
  call.library = true;
  Module library = nullptr;
  LoadedKernel loaded = kernel;
  ASSERT_EQ(driver->loadHostModule(&library, {call}), kSuccess);
  ASSERT_EQ(driver->getFunction(&loaded.function, library, "a library's"),
            kSuccess);
  DevicePtr pool = make(std::vector<float>(256, 1)), a = make({2}),
            b = make({3}), y = make(repeat(0));
  DevicePtr aligned = (pool + kVendorAlign) / kVendorAlign * kVendorAlign;
  for (bool wide : {true, false}) {
    // Captured with an address that is aligned, or one that is less so.
    DevicePtr x = wide ? aligned : aligned + 16;
    CapturedGraph captured(driver);
    ASSERT_EQ(driver->beginCapture(stream), kSuccess);
    captured.addKernel(loaded, {{x, 0}, {a}, {b}, {y}}, stream);
    Graph graph = nullptr;
    ASSERT_EQ(driver->endCapture(stream, &graph), kSuccess);
    captured.finish(graph, true);
    captured.replay(stream);
    EXPECT_EQ(get(y), repeat(5));
    void *other[] = {asPointer(aligned + 16)};
    captured.update(other);
    if (wide)
      EXPECT_THROW(captured.replay(stream), std::exception);
    else
      captured.replay(stream);
  }
  EXPECT_EQ(driver->unloadModule(library), kSuccess);
}

TEST_P(Simulated, RefusesReservationsWhileCapturing) {
  ASSERT_EQ(driver->beginCapture(stream), kSuccess);
  DevicePtr place = 0;
  EXPECT_EQ(driver->reserve(&place, 4096, 0), kCaptureUnsupported);
  Graph graph = nullptr;
  EXPECT_EQ(driver->endCapture(stream, &graph), kCaptureInvalidated);
  EXPECT_NE(driver->unreserve(4096, 4096), kSuccess);
}

TEST_P(Simulated, AConditionIsAskedForOnceAndInItsOwnGraph) {
  Graph one = nullptr, two = nullptr, body = nullptr;
  ASSERT_EQ(driver->createGraph(&one), kSuccess);
  ASSERT_EQ(driver->createGraph(&two), kSuccess);
  Condition condition = 0;
  GraphNode node = nullptr;
  ASSERT_EQ(driver->createCondition(&condition, one), kSuccess);
  EXPECT_NE(driver->addConditionNode(&node, two, nullptr, condition,
                                     ConditionKind::While, &body),
            kSuccess);
  ASSERT_EQ(driver->addConditionNode(&node, one, nullptr, condition,
                                     ConditionKind::While, &body),
            kSuccess);
  EXPECT_NE(body, nullptr);
  NodeType type = NodeType::Other;
  EXPECT_EQ(driver->getType(node, &type), kSuccess);
  EXPECT_EQ(type, NodeType::Conditional);
  Graph again = nullptr;
  EXPECT_NE(driver->addConditionNode(&node, one, nullptr, condition,
                                     ConditionKind::If, &again),
            kSuccess);
  EXPECT_EQ(driver->destroyGraph(one), kSuccess);
  EXPECT_EQ(driver->destroyGraph(two), kSuccess);
}

TEST_P(Simulated, NodesDependOnNodesOfTheirOwnGraph) {
  Graph one = nullptr, two = nullptr;
  ASSERT_EQ(driver->createGraph(&one), kSuccess);
  ASSERT_EQ(driver->createGraph(&two), kSuccess);
  GraphNode first = nullptr, second = nullptr;
  ASSERT_EQ(driver->addEmptyNode(&first, one, nullptr), kSuccess);
  EXPECT_NE(driver->addEmptyNode(&second, two, first), kSuccess);
  EXPECT_EQ(driver->destroyGraph(one), kSuccess);
  EXPECT_EQ(driver->destroyGraph(two), kSuccess);
}

TEST_P(Simulated, AConditionThatNobodySetIsAnError) {
  Graph graph = nullptr, body = nullptr;
  ASSERT_EQ(driver->createGraph(&graph), kSuccess);
  Condition condition = 0;
  GraphNode node = nullptr;
  ASSERT_EQ(driver->createCondition(&condition, graph), kSuccess);
  ASSERT_EQ(driver->addConditionNode(&node, graph, nullptr, condition,
                                     ConditionKind::If, &body),
            kSuccess);
  // A body belongs to its node.
  GraphExec exec = nullptr;
  EXPECT_NE(driver->instantiate(&exec, body), kSuccess);
  EXPECT_NE(driver->destroyGraph(body), kSuccess);
  EXPECT_NE(driver->addGraphNode(&node, graph, nullptr, body), kSuccess);
  ASSERT_EQ(driver->instantiate(&exec, graph), kSuccess);
  EXPECT_NE(driver->launchGraph(exec, stream), kSuccess);
  EXPECT_EQ(driver->destroyExec(exec), kSuccess);
  EXPECT_EQ(driver->destroyGraph(graph), kSuccess);
}

INSTANTIATE_TEST_SUITE_P(Drivers, Simulated, testing::Values("simulated"),
                         [](const auto &info) { return info.param; });

} // namespace
