//===- ConformanceTest.cpp - What every driver has to do ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Drivers.h"

using namespace pyjit::rt::cuda;

namespace {

class Conformance : public DriverTest {};

TEST_P(Conformance, KernelsRunInTheOrderOfTheStream) {
  DevicePtr x = make(repeat(1)), a = make({2}), b = make({3}),
            y = make(repeat(0));
  CapturedGraph now(driver);
  now.addKernel(kernel, {{x}, {a}, {b}, {y}}, stream);
  now.addKernel(kernel, {{y}, {a}, {b}, {y}}, stream);
  EXPECT_EQ(get(y), repeat(13));
}

TEST_P(Conformance, CaptureRecordsAndDoesNotRun) {
  DevicePtr x = make(repeat(1)), a = make({2}), b = make({3}),
            y = make(repeat(0));
  CapturedGraph captured(driver);
  ASSERT_EQ(driver->beginCapture(stream), kSuccess);
  bool capturing = false;
  EXPECT_EQ(driver->isCapturing(stream, &capturing), kSuccess);
  EXPECT_TRUE(capturing);
  captured.addKernel(kernel, {{x}, {a}, {b}, {y}}, stream);
  Graph graph = nullptr;
  ASSERT_EQ(driver->endCapture(stream, &graph), kSuccess);
  EXPECT_EQ(get(y), repeat(0));
  captured.finish(graph, true);
  EXPECT_EQ(captured.numNodes(), 1u);
  EXPECT_EQ(captured.numExternalNodes(), 0u);
  captured.replay(stream);
  EXPECT_EQ(get(y), repeat(5));
}

TEST_P(Conformance, UpdatesReachTheNextReplayOnly) {
  DevicePtr x = make(repeat(1)), x2 = make(repeat(10)), a = make({2}),
            b = make({3}), y = make(repeat(0)), y2 = make(repeat(0));
  CapturedGraph captured(driver);
  ASSERT_EQ(driver->beginCapture(stream), kSuccess);
  captured.addKernel(kernel, {{x, 0}, {a}, {b}, {y, 1}}, stream);
  Graph graph = nullptr;
  ASSERT_EQ(driver->endCapture(stream, &graph), kSuccess);
  captured.finish(graph, true);
  EXPECT_EQ(captured.numExternalNodes(), 1u);
  void *first[] = {asPointer(x), asPointer(y)};
  EXPECT_EQ(captured.update(first), 0u);
  captured.replay(stream);
  void *second[] = {asPointer(x2), asPointer(y2)};
  EXPECT_EQ(captured.update(second), 1u);
  captured.replay(stream);
  EXPECT_EQ(get(y), repeat(5));
  EXPECT_EQ(get(y2), repeat(23));
}

TEST_P(Conformance, NumbersOfTheHostTravelInTheLaunch) {
  loadTableWriter();
  DevicePtr x = make(repeat(1)), a = make(repeat(0)), b = make({3}),
            y = make(repeat(0));
  float number = 2;
  CapturedGraph captured(driver);
  ASSERT_EQ(driver->beginCapture(stream), kSuccess);
  captured.addHostNumbers(writer, {{a, 0, &number, 4}}, stream);
  captured.addKernel(kernel, {{x}, {a}, {b}, {y}}, stream);
  Graph graph = nullptr;
  ASSERT_EQ(driver->endCapture(stream, &graph), kSuccess);
  captured.finish(graph, true);
  void *buffers[] = {&number};
  captured.replay(stream);
  EXPECT_EQ(get(y), repeat(5));
  number = -4;
  EXPECT_EQ(captured.update(buffers), 1u);
  captured.replay(stream);
  number = 100; // after the launch: too late
  EXPECT_EQ(get(y), repeat(-1));
}

TEST_P(Conformance, NumbersOfEveryWidth) {
  loadTableWriter();
  for (size_t bytes : {1u, 2u, 4u, 8u, 16u}) {
    DevicePtr target = make(repeat(0));
    unsigned char number[16];
    for (size_t i = 0; i < bytes; ++i)
      number[i] = 17 * (i + 1);
    CapturedGraph now(driver);
    now.addHostNumbers(writer, {{target, 0, number, bytes}}, stream);
    std::vector<float> raw = get(target);
    EXPECT_EQ(std::memcmp(raw.data(), number, bytes), 0) << bytes;
  }
}

TEST_P(Conformance, ManyNumbersAreFewNodes) {
  loadTableWriter();
  // One node takes 128 words.
  constexpr uint32_t kCount = 300;
  std::vector<double> numbers(kCount);
  std::vector<void *> buffers;
  std::vector<HostNumber> entries;
  std::vector<float> none(2 * kCount);
  DevicePtr target = make(none);
  for (uint32_t i = 0; i < kCount; ++i) {
    numbers[i] = i;
    buffers.push_back(&numbers[i]);
    entries.push_back({target + 8 * i, i, &numbers[i], 8});
  }
  CapturedGraph captured(driver);
  ASSERT_EQ(driver->beginCapture(stream), kSuccess);
  captured.addHostNumbers(writer, entries, stream);
  Graph graph = nullptr;
  ASSERT_EQ(driver->endCapture(stream, &graph), kSuccess);
  captured.finish(graph, true);
  EXPECT_EQ(captured.numNodes(), 3u);
  auto run = [&] {
    captured.replay(stream);
    std::vector<double> seen(kCount);
    EXPECT_EQ(driver->synchronize(stream), kSuccess);
    EXPECT_EQ(driver->copyToHost(seen.data(), target, 8 * kCount), kSuccess);
    EXPECT_EQ(seen, numbers);
  };
  EXPECT_EQ(captured.update(buffers.data()), 0u);
  run();
  numbers[200] = -1;
  EXPECT_EQ(captured.update(buffers.data()), 1u);
  run();
}

TEST_P(Conformance, CopiesFollowTheirOperands) {
  DevicePtr x = make(repeat(7)), x2 = make(repeat(8)), y = make(repeat(0)),
            y2 = make(repeat(0));
  CapturedGraph captured(driver);
  ASSERT_EQ(driver->beginCapture(stream), kSuccess);
  captured.addCopy({y, 1}, {x, 0}, 32, stream);
  Graph graph = nullptr;
  ASSERT_EQ(driver->endCapture(stream, &graph), kSuccess);
  captured.finish(graph, true);
  void *buffers[] = {asPointer(x2), asPointer(y2)};
  EXPECT_EQ(captured.update(buffers), 1u);
  captured.replay(stream);
  EXPECT_EQ(get(y), repeat(0));
  EXPECT_EQ(get(y2), repeat(8));
}

/// A grid, a number that a kernel takes, and a copy's bytes.
TEST_P(Conformance, SizesReachTheNextReplay) {
  load(markModule, kMarkCode, markKernel(), marker);
  DevicePtr x = make(repeat(0)), y = make(repeat(0));
  uint64_t bytes = 8;
  marker.shape.grid[0] = 3;
  CapturedGraph captured(driver);
  ASSERT_EQ(driver->beginCapture(stream), kSuccess);
  captured.addKernel(marker, {{x}, {7, 0}}, stream, /*varies=*/true);
  captured.addCopy({y}, {x}, bytes, stream, /*varies=*/true);
  Graph graph = nullptr;
  ASSERT_EQ(driver->endCapture(stream, &graph), kSuccess);
  captured.finish(graph, true);
  EXPECT_EQ(captured.numExternalNodes(), 2u);
  captured.replay(stream);
  EXPECT_EQ(get(x), std::vector<float>({7, 7, 7, 0, 0, 0, 0, 0}));
  EXPECT_EQ(get(y), std::vector<float>({7, 7, 0, 0, 0, 0, 0, 0}));
  void *numbers[] = {asPointer(7)};
  EXPECT_EQ(captured.update(numbers), 0u);
  marker.shape.grid[0] = 5;
  EXPECT_EQ(captured.update(numbers), 1u);
  numbers[0] = asPointer(9);
  bytes = 24;
  EXPECT_EQ(captured.update(numbers), 2u);
  captured.replay(stream);
  EXPECT_EQ(get(x), std::vector<float>({9, 9, 9, 9, 9, 0, 0, 0}));
  EXPECT_EQ(get(y), std::vector<float>({9, 9, 9, 9, 9, 0, 0, 0}));
  marker.shape.grid[0] = 2;
  numbers[0] = asPointer(4);
  bytes = 4;
  EXPECT_EQ(captured.update(numbers), 2u);
  captured.replay(stream);
  EXPECT_EQ(get(x), std::vector<float>({4, 4, 9, 9, 9, 0, 0, 0}));
  EXPECT_EQ(get(y), std::vector<float>({4, 9, 9, 9, 9, 0, 0, 0}));
}

TEST_P(Conformance, TableRenewsAddressesOfEveryKernel) {
  loadTableWriter();
  DevicePtr x = make(repeat(1)), x2 = make(repeat(10)), a = make({2}),
            b = make({3}), y = make(repeat(0)), y2 = make(repeat(0));
  DevicePtr table = make(repeat(0));
  CapturedGraph captured(driver);
  ASSERT_EQ(driver->beginCapture(stream), kSuccess);
  captured.addTable(writer, table, {{x, 0}, {y, 1}}, stream);
  captured.addKernel(indirect, {{table}, {a}, {b}, {table + 8}}, stream);
  Graph graph = nullptr;
  ASSERT_EQ(driver->endCapture(stream, &graph), kSuccess);
  captured.finish(graph, true);
  EXPECT_EQ(captured.numExternalNodes(), 1u);
  captured.replay(stream);
  EXPECT_EQ(get(y), repeat(5));
  void *buffers[] = {asPointer(x2), asPointer(y2)};
  EXPECT_EQ(captured.update(buffers), 1u);
  captured.replay(stream);
  EXPECT_EQ(get(y2), repeat(23));
  EXPECT_EQ(get(y), repeat(5));
}

TEST_P(Conformance, DifferentialCaptureFindsWordsAndTheyWork) {
  DevicePtr a = make({2}), b = make({3});
  DevicePtr pool = make(std::vector<float>(4096, 1));
  // Three places for each operand, at distances that tell them apart.
  MovedOperand x{{pool, pool + 256, pool + 1024}, 32};
  MovedOperand y{{pool + 4096, pool + 4608, pool + 6144}, 32};
  std::array<Graph, 3> graphs{};
  for (int k = 0; k < 3; ++k) {
    CapturedGraph recorder(driver);
    ASSERT_EQ(driver->beginCapture(stream), kSuccess);
    recorder.addKernel(kernel, {{x.address[k]}, {a}, {b}, {y.address[k]}},
                       stream);
    ASSERT_EQ(driver->endCapture(stream, &graphs[k]), kSuccess);
  }
  std::vector<OperandWord> words;
  Unexplained why;
  std::string reason;
  ASSERT_TRUE(findOperandWords(*driver, graphs, nullptr, {x, y}, words, why))
      << why.reason;
  ASSERT_EQ(words.size(), 2u);
  EXPECT_EQ(words[0].operand, 0u);
  EXPECT_EQ(words[0].offset, 0u);
  EXPECT_EQ(words[1].operand, 1u);
  EXPECT_EQ(words[1].offset, 24u);

  // A fourth place, never captured.
  DevicePtr x4 = make(repeat(5)), y4 = make(repeat(0));
  GraphExec exec = nullptr;
  ASSERT_EQ(driver->instantiate(&exec, graphs[0]), kSuccess);
  std::vector<GraphNode> nodes;
  ASSERT_EQ(driver->getNodes(graphs[0], &nodes), kSuccess);
  PatchedNode node;
  ASSERT_TRUE(node.read(*driver, nodes[0], reason)) << reason;
  node.set(words[0].offset, x4 + words[0].addend);
  node.set(words[1].offset, y4 + words[1].addend);
  ASSERT_EQ(node.write(*driver, exec), kSuccess);
  ASSERT_EQ(driver->launchGraph(exec, stream), kSuccess);
  EXPECT_EQ(get(y4), repeat(13));
  EXPECT_EQ(driver->destroyExec(exec), kSuccess);
  for (Graph graph : graphs)
    EXPECT_EQ(driver->destroyGraph(graph), kSuccess);
}

TEST_P(Conformance, DifferentialCaptureProvesOrRefuses) {
  DevicePtr a = make({2}), b = make({3}), other = make({4});
  DevicePtr pool = make(std::vector<float>(4096, 1));
  MovedOperand x{{pool, pool + 256, pool + 1024}, 32};
  auto captureWith = [&](std::array<DevicePtr, 3> scale) {
    std::array<Graph, 3> graphs{};
    for (int k = 0; k < 3; ++k) {
      CapturedGraph recorder(driver);
      EXPECT_EQ(driver->beginCapture(stream), kSuccess);
      recorder.addKernel(
          kernel, {{x.address[k]}, {scale[k]}, {b}, {pool + 8192}}, stream);
      EXPECT_EQ(driver->endCapture(stream, &graphs[k]), kSuccess);
    }
    return graphs;
  };
  std::vector<OperandWord> words;
  Unexplained why;
  // A word that changed and follows nothing.
  auto graphs = captureWith({a, other, a});
  EXPECT_FALSE(findOperandWords(*driver, graphs, nullptr, {x}, words, why));
  EXPECT_NE(why.reason.find("follows no operand"), std::string::npos)
      << why.reason;
  EXPECT_EQ(why.nodes, std::vector<uint32_t>{0});
  // It differs from itself, too: nobody has written it.
  auto again = captureWith({b, b, b});
  EXPECT_TRUE(findOperandWords(*driver, graphs, again[0], {x}, words, why))
      << why.reason;
  ASSERT_EQ(words.size(), 1u);
  EXPECT_EQ(words[0].offset, 0u);
  // A control that is no other says nothing.
  auto equal = captureWith({a, a, a});
  EXPECT_FALSE(findOperandWords(*driver, graphs, equal[0], {x}, words, why));
  // Two captures agree, the third does not confirm.
  auto unconfirmed = captureWith({a, a, other});
  EXPECT_FALSE(
      findOperandWords(*driver, unconfirmed, nullptr, {x}, words, why));
  // Operands that moved alike.
  auto same = captureWith({a, a, a});
  MovedOperand alike{{pool + 8, pool + 264, pool + 1032}, 8};
  EXPECT_FALSE(
      findOperandWords(*driver, same, nullptr, {x, alike}, words, why));
  EXPECT_TRUE(findOperandWords(*driver, same, nullptr, {x}, words, why))
      << why.reason;
  for (auto &list : {graphs, again, equal, unconfirmed, same})
    for (Graph graph : list)
      driver->destroyGraph(graph);
}

/// What a library does with one operand, in three places.
class Differential : public DriverTest {
protected:
  template <class Launch> bool prove(const MovedOperand &operand, Launch f) {
    for (int k = 0; k < 3; ++k) {
      EXPECT_EQ(driver->beginCapture(stream), kSuccess);
      f(k, operand.address[k]);
      graphs.emplace_back();
      EXPECT_EQ(driver->endCapture(stream, &graphs.back()), kSuccess);
    }
    size_t n = graphs.size();
    Unexplained why;
    bool proved =
        findOperandWords(*driver, {graphs[n - 3], graphs[n - 2], graphs[n - 1]},
                         nullptr, {operand}, words, why);
    reason = why.reason;
    return proved;
  }
  void TearDown() override {
    for (Graph graph : graphs)
      driver->destroyGraph(graph);
    DriverTest::TearDown();
  }
  std::vector<Graph> graphs;
  std::vector<OperandWord> words;
  std::string reason;
};

TEST_P(Differential, ReplaysFollowWhatWasProved) {
  DevicePtr a = make({2}), b = make({3}), y = make(repeat(0)),
            t = make(repeat(0));
  DevicePtr pool = make(std::vector<float>(4096, 1));
  MovedOperand x{{pool, pool + 256, pool + 1024}, 64};
  // A kernel reads the second half, a copy the first one; a fill is between.
  ASSERT_TRUE(prove(x, [&](int, DevicePtr at) {
    CapturedGraph recorder(driver);
    recorder.addCopy({t}, {at}, 32, stream);
    ASSERT_EQ(driver->fillAsync({b, 0x40400000, 4, 1}, stream), kSuccess);
    recorder.addKernel(kernel, {{at + 32}, {a}, {b}, {y}}, stream);
  })) << reason;
  ASSERT_EQ(words.size(), 2u);
  EXPECT_EQ(words[0].offset, kCopySource);
  EXPECT_EQ(words[0].addend, 0);
  EXPECT_EQ(words[1].node, 2u);
  EXPECT_EQ(words[1].addend, 32);

  CapturedGraph captured(driver);
  captured.take(graphs.back(), true);
  graphs.pop_back();
  PatchedOperand operand{0, x.address[2], ~uint64_t(0), 4};
  void *first[] = {asPointer(x.address[2])};
  ASSERT_TRUE(captured.patch(words, {operand}, first, reason)) << reason;
  captured.finish();
  EXPECT_EQ(captured.numExternalNodes(), 2u);
  std::vector<float> values = repeat(7), more = repeat(5);
  values.insert(values.end(), more.begin(), more.end());
  DevicePtr elsewhere = make(values);
  void *buffers[] = {asPointer(elsewhere)};
  ASSERT_TRUE(captured.fits(buffers, reason)) << reason;
  EXPECT_EQ(captured.update(buffers), 2u);
  EXPECT_EQ(captured.update(buffers), 0u);
  captured.replay(stream);
  EXPECT_EQ(get(t), repeat(7));
  EXPECT_EQ(get(y), repeat(13));
}

TEST_P(Differential, AProofHoldsForWhatWasVaried) {
  DevicePtr a = make({2}), b = make({3}), y = make(repeat(0));
  CapturedGraph captured(driver);
  ASSERT_EQ(driver->beginCapture(stream), kSuccess);
  captured.addKernel(kernel, {{y}, {a}, {b}, {y}}, stream);
  Graph graph = nullptr;
  ASSERT_EQ(driver->endCapture(stream, &graph), kSuccess);
  captured.finish(graph, true);
  void *none[] = {nullptr};
  ASSERT_TRUE(captured.patch({}, {{0, 0x1000, 0xff00, 0x100}}, none, reason));
  for (uint64_t address : {0x1000, 0xff00, 0x0}) {
    void *buffers[] = {reinterpret_cast<void *>(address)};
    EXPECT_TRUE(captured.fits(buffers, reason)) << address;
  }
  for (uint64_t address : {0x1080, 0x11000, 0x1010}) {
    void *buffers[] = {reinterpret_cast<void *>(address)};
    EXPECT_FALSE(captured.fits(buffers, reason)) << address;
  }
}

TEST_P(Differential, WritesToAnOperandAreRefused) {
  DevicePtr a = make({2});
  DevicePtr pool = make(std::vector<float>(4096, 1));
  MovedOperand x{{pool, pool + 256, pool + 1024}, 64};
  EXPECT_FALSE(prove(x, [&](int, DevicePtr at) {
    CapturedGraph(driver).addCopy({at}, {a}, 4, stream);
  }));
  EXPECT_NE(reason.find("target"), std::string::npos) << reason;
  EXPECT_FALSE(prove(x, [&](int, DevicePtr at) {
    ASSERT_EQ(driver->fillAsync({at, 0, 4, 8}, stream), kSuccess);
  }));
  EXPECT_NE(reason.find("fill"), std::string::npos) << reason;
}

TEST_P(Differential, OtherThingsThatDifferAreRefused) {
  DevicePtr a = make({2}), b = make({3});
  DevicePtr pool = make(std::vector<float>(4096, 1));
  MovedOperand x{{pool, pool + 256, pool + 1024}, 64};
  // A result elsewhere each time.
  EXPECT_FALSE(prove(x, [&](int k, DevicePtr at) {
    CapturedGraph(driver).addKernel(
        kernel, {{at}, {a}, {b}, {pool + 8192 + 512u * k}}, stream);
  }));
  EXPECT_NE(reason.find("follows no operand"), std::string::npos) << reason;
  // An address of the operand's, but not from the same place in it.
  EXPECT_FALSE(prove(x, [&](int k, DevicePtr at) {
    CapturedGraph(driver).addKernel(kernel, {{at + 4u * k}, {a}, {b}, {pool}},
                                    stream);
  }));
  // Another number of nodes; another launch.
  EXPECT_FALSE(prove(x, [&](int k, DevicePtr at) {
    for (int i = 0; i <= k; ++i)
      CapturedGraph(driver).addKernel(kernel, {{at}, {a}, {b}, {pool}}, stream);
  }));
  EXPECT_FALSE(prove(x, [&](int k, DevicePtr at) {
    LoadedKernel other = kernel;
    other.shape.block[0] = 8 + k;
    CapturedGraph(driver).addKernel(other, {{at}, {a}, {b}, {pool}}, stream);
  }));
  EXPECT_NE(reason.find("different kernels"), std::string::npos) << reason;
  EXPECT_FALSE(prove(x, [&](int k, DevicePtr at) {
    CapturedGraph(driver).addKernel(k == 1 ? indirect : kernel,
                                    {{at}, {a}, {b}, {pool}}, stream);
  }));
}

/// The memory that stood in for an operand is gone when a call renews the copy
/// that reads it: the driver would refuse other addresses then.
TEST_P(Differential, CopiesForgetWhatStoodIn) {
  DevicePtr here = make(repeat(1)), there = make(repeat(7)),
            t = make(repeat(0)), window = 0;
  constexpr size_t kBytes = 4096;
  ASSERT_EQ(driver->reserve(&window, kBytes, 0), kSuccess);
  CapturedGraph captured(driver);
  ASSERT_EQ(driver->beginCapture(stream), kSuccess);
  ASSERT_EQ(driver->copyAsync(t, window + 64, 32, stream), kSuccess);
  Graph graph = nullptr;
  ASSERT_EQ(driver->endCapture(stream, &graph), kSuccess);
  captured.take(graph, true);
  void *buffers[] = {asPointer(here)}, *others[] = {asPointer(there)};
  PatchedOperand operand{0, here, ~uint64_t(0), 4};
  ASSERT_TRUE(
      captured.patch({{0, kCopySource, 0, 0}}, {operand}, buffers, reason))
      << reason;
  captured.finish();
  ASSERT_EQ(driver->unreserve(window, kBytes), kSuccess);
  for (auto [addresses, expected] : {std::pair(buffers, 1), {others, 7}}) {
    captured.update(addresses);
    captured.replay(stream);
    EXPECT_EQ(get(t), repeat(expected));
  }
}

TEST_P(Differential, ReservedAddressesAreFarApart) {
  DevicePtr near = make(repeat(1));
  DevicePtr wish = (near ^ uint64_t(0x240000000000)) & ~(kReservedAlign - 1);
  DevicePtr one = 0, two = 0;
  constexpr size_t kBytes = 5 << 20;
  ASSERT_EQ(driver->reserve(&one, kBytes, wish), kSuccess);
  ASSERT_EQ(driver->reserve(&two, kBytes, wish), kSuccess);
  EXPECT_EQ(one % kReservedAlign, 0u);
  EXPECT_EQ(two % kReservedAlign, 0u);
  EXPECT_EQ(one, wish);
  // Wishes anywhere in the address space.
  for (unsigned bit = 30; bit < 47; ++bit) {
    DevicePtr place = 0, far = wish ^ (uint64_t(1) << bit);
    ASSERT_EQ(driver->reserve(&place, 4096, far), kSuccess);
    EXPECT_EQ(place, far) << "bit " << bit;
    EXPECT_EQ(driver->unreserve(place, 4096), kSuccess);
  }
  EXPECT_TRUE(two >= one + kBytes || one >= two + kBytes);
  // They can be used, to the last byte.
  EXPECT_EQ(driver->copyAsync(one + kBytes - 32, near, 32, stream), kSuccess);
  EXPECT_EQ(get(one + kBytes - 32), repeat(1));
  EXPECT_EQ(driver->unreserve(one, kBytes), kSuccess);
  EXPECT_EQ(driver->unreserve(two, kBytes), kSuccess);
}

INSTANTIATE_TEST_SUITE_P(Drivers, Differential,
                         testing::Values("simulated", "real"),
                         [](const auto &info) { return info.param; });

TEST_P(Conformance, RefusesWhatACaptureForbids) {
  ASSERT_EQ(driver->beginCapture(stream), kSuccess);
  EXPECT_EQ(driver->synchronize(stream), kCaptureUnsupported);
  Graph graph = nullptr;
  EXPECT_EQ(driver->endCapture(stream, &graph), kCaptureInvalidated);
  EXPECT_EQ(graph, nullptr);
  // The stream is usable again.
  bool capturing = true;
  EXPECT_EQ(driver->isCapturing(stream, &capturing), kSuccess);
  EXPECT_FALSE(capturing);
  EXPECT_EQ(driver->synchronize(stream), kSuccess);
}

TEST_P(Conformance, RefusesParametersOfAnotherKernel) {
  DevicePtr x = make(repeat(1)), a = make({2}), b = make({3});
  ASSERT_EQ(driver->beginCapture(stream), kSuccess);
  CapturedGraph recorder(driver);
  recorder.addKernel(kernel, {{x}, {a}, {b}, {x}}, stream);
  Graph graph = nullptr;
  ASSERT_EQ(driver->endCapture(stream, &graph), kSuccess);
  GraphExec exec = nullptr;
  ASSERT_EQ(driver->instantiate(&exec, graph), kSuccess);
  std::vector<GraphNode> nodes;
  ASSERT_EQ(driver->getNodes(graph, &nodes), kSuccess);
  ASSERT_EQ(nodes.size(), 1u);
  NodeType type = NodeType::Other;
  EXPECT_EQ(driver->getType(nodes[0], &type), kSuccess);
  EXPECT_EQ(type, NodeType::Kernel);
  EXPECT_NE(driver->setCopyParams(exec, nodes[0], {x, x, 4}), kSuccess);
  driver->destroyExec(exec);
  driver->destroyGraph(graph);
}

TEST_P(Conformance, BadLaunchesNameTheKernel) {
  LoadedKernel bad = kernel;
  bad.shape.block[0] = 5000;
  bad.location = "model.py:12";
  DevicePtr x = make(repeat(1));
  CapturedGraph now(driver);
  try {
    now.addKernel(bad, {{x}, {x}, {x}, {x}}, stream);
    FAIL() << "launched";
  } catch (const std::exception &error) {
    EXPECT_NE(std::string(error.what()).find("axpb (model.py:12)"),
              std::string::npos)
        << error.what();
  }
  EXPECT_EQ(driver->synchronize(stream), kSuccess);
}

INSTANTIATE_TEST_SUITE_P(Drivers, Conformance,
                         testing::Values("simulated", "real"),
                         [](const auto &info) { return info.param; });

} // namespace
