//===- Drivers.h - The drivers that the tests run on ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_TEST_RUNTIME_CUDA_DRIVERS_H
#define PYJIT_TEST_RUNTIME_CUDA_DRIVERS_H

#include "pyjit-rt/cuda/CapturedGraph.h"
#include "pyjit-rt/cuda/Differential.h"

#include <gtest/gtest.h>

#include <cstring>

namespace pyjit::rt::cuda {

/// y[i] = a * x[i] + b for eight floats; the numbers are in device memory.
inline const char *kAxpbCode = R"(.version 7.0
.target sm_70
.address_size 64
.visible .entry axpb(.param .u64 px, .param .u64 pa, .param .u64 pb, .param .u64 py)
{
  .reg .b64 %rd<8>;
  .reg .b32 %r<2>;
  .reg .f32 %f<5>;
  ld.param.u64 %rd1, [px];
  ld.param.u64 %rd2, [pa];
  ld.param.u64 %rd3, [pb];
  ld.param.u64 %rd4, [py];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd5, %r1, 4;
  add.s64 %rd6, %rd1, %rd5;
  add.s64 %rd7, %rd4, %rd5;
  ld.global.f32 %f1, [%rd6];
  ld.global.f32 %f2, [%rd2];
  ld.global.f32 %f3, [%rd3];
  fma.rn.f32 %f4, %f1, %f2, %f3;
  st.global.f32 [%rd7], %f4;
  ret;
}
.visible .entry axpb_indirect(.param .u64 px, .param .u64 pa, .param .u64 pb, .param .u64 py)
{
  .reg .b64 %rd<8>;
  .reg .b32 %r<2>;
  .reg .f32 %f<5>;
  ld.param.u64 %rd1, [px];
  ld.global.u64 %rd1, [%rd1];
  ld.param.u64 %rd2, [pa];
  ld.param.u64 %rd3, [pb];
  ld.param.u64 %rd4, [py];
  ld.global.u64 %rd4, [%rd4];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd5, %r1, 4;
  add.s64 %rd6, %rd1, %rd5;
  add.s64 %rd7, %rd4, %rd5;
  ld.global.f32 %f1, [%rd6];
  ld.global.f32 %f2, [%rd2];
  ld.global.f32 %f3, [%rd3];
  fma.rn.f32 %f4, %f1, %f2, %f3;
  st.global.f32 [%rd7], %f4;
  ret;
}
)";

/// x += 1, for one float; the bool at `pgo` says whether it is below the limit.
inline const char *kCountCode = R"(.version 7.0
.target sm_70
.address_size 64
.visible .entry count(.param .u64 px, .param .u64 plimit, .param .u64 pgo)
{
  .reg .pred %p<2>;
  .reg .b64 %rd<4>;
  .reg .b32 %r<2>;
  .reg .f32 %f<3>;
  ld.param.u64 %rd1, [px];
  ld.param.u64 %rd2, [plimit];
  ld.param.u64 %rd3, [pgo];
  ld.global.f32 %f1, [%rd1];
  add.f32 %f1, %f1, 0f3F800000;
  st.global.f32 [%rd1], %f1;
  ld.global.f32 %f2, [%rd2];
  setp.lt.f32 %p1, %f1, %f2;
  selp.u32 %r1, 1, 0, %p1;
  st.global.u8 [%rd3], %r1;
  ret;
}
)";

inline HostKernel countKernel() {
  return {"count",
          [](const uint64_t *p, const LaunchShape &) {
            float &x = *reinterpret_cast<float *>(p[0]);
            x += 1;
            *reinterpret_cast<bool *>(p[2]) =
                x < *reinterpret_cast<float *>(p[1]);
          },
          3};
}

/// y[block] = value.
inline const char *kMarkCode = R"(.version 7.0
.target sm_70
.address_size 64
.visible .entry mark(.param .u64 py, .param .u64 pvalue)
{
  .reg .b64 %rd<4>;
  .reg .b32 %r<2>;
  .reg .f32 %f<2>;
  ld.param.u64 %rd1, [py];
  ld.param.u64 %rd2, [pvalue];
  mov.u32 %r1, %ctaid.x;
  mul.wide.u32 %rd3, %r1, 4;
  add.u64 %rd1, %rd1, %rd3;
  cvt.rn.f32.u64 %f1, %rd2;
  st.global.f32 [%rd1], %f1;
  ret;
}
)";

inline HostKernel markKernel() {
  return {"mark",
          [](const uint64_t *p, const LaunchShape &shape) {
            for (unsigned block = 0; block < shape.grid[0]; ++block)
              reinterpret_cast<float *>(p[0])[block] = p[1];
          },
          2};
}

inline void axpb(const float *x, const float *a, const float *b, float *y) {
  for (int i = 0; i < 8; ++i)
    y[i] = *a * x[i] + *b;
}

inline std::vector<HostKernel> axpbKernels() {
  auto direct = [](const uint64_t *p, const LaunchShape &) {
    axpb(reinterpret_cast<float *>(p[0]), reinterpret_cast<float *>(p[1]),
         reinterpret_cast<float *>(p[2]), reinterpret_cast<float *>(p[3]));
  };
  auto indirect = [](const uint64_t *p, const LaunchShape &) {
    axpb(*reinterpret_cast<float **>(p[0]), reinterpret_cast<float *>(p[1]),
         reinterpret_cast<float *>(p[2]), *reinterpret_cast<float **>(p[3]));
  };
  return {{"axpb", direct, 4}, {"axpb_indirect", indirect, 4}};
}

/// Runs on the simulated driver, and on this machine's if it has one: the same
/// program has to do the same on both.
class DriverTest : public testing::TestWithParam<const char *> {
protected:
  void SetUp() override {
    if (std::string(GetParam()) == "simulated") {
      driver = makeSimulatedDriver();
    } else {
      std::string error;
      driver = openDriver(error);
      if (!driver)
        GTEST_SKIP() << error;
      ASSERT_EQ(driver->enter(0), kSuccess);
    }
    ASSERT_EQ(driver->createStream(&stream), kSuccess);
    std::string log;
    if (driver->isSimulated())
      ASSERT_EQ(driver->loadHostModule(&module, axpbKernels()), kSuccess);
    else
      ASSERT_EQ(driver->loadModule(&module, kAxpbCode, log), kSuccess) << log;
    kernel.name = "axpb";
    indirect.name = "axpb_indirect";
    kernel.shape = indirect.shape = {{1, 1, 1}, {8, 1, 1}, 0};
    ASSERT_EQ(driver->getFunction(&kernel.function, module, "axpb"), kSuccess);
    ASSERT_EQ(driver->getFunction(&indirect.function, module, "axpb_indirect"),
              kSuccess);
  }

  void TearDown() override {
    if (!driver)
      return;
    for (DevicePtr memory : owned)
      driver->release(memory);
    if (stream)
      driver->destroyStream(stream);
    for (Module loaded :
         {module, setterModule, countModule, writerModule, markModule})
      if (loaded)
        driver->unloadModule(loaded);
  }

  /// A kernel of one thread.
  void load(Module &into, const std::string &code, HostKernel host,
            LoadedKernel &kernel) {
    std::string log;
    ASSERT_EQ(driver->isSimulated()
                  ? driver->loadHostModule(&into, {host})
                  : driver->loadModule(&into, code.c_str(), log),
              kSuccess)
        << log;
    kernel.name = "a kernel of one thread";
    kernel.shape = {{1, 1, 1}, {1, 1, 1}, 0};
    ASSERT_EQ(driver->getFunction(&kernel.function, into, host.name.c_str()),
              kSuccess);
  }
  /// The kernels of loops: one that counts, one that sets conditions.
  void loadLoopKernels() {
    load(setterModule, conditionSetterCode(), conditionSetterFunction(),
         setter);
    load(countModule, kCountCode, countKernel(), counter);
  }
  void loadTableWriter() {
    load(writerModule, tableWriterCode(), tableWriterFunction(), writer);
  }
  void putFlag(DevicePtr memory, bool flag) {
    EXPECT_EQ(driver->copyFromHostAsync(memory, &flag, 1, stream), kSuccess);
    EXPECT_EQ(driver->synchronize(stream), kSuccess);
  }

  /// Device memory with these floats.
  DevicePtr make(std::vector<float> values) {
    DevicePtr memory = 0;
    EXPECT_EQ(driver->allocate(&memory, 4 * values.size()), kSuccess);
    owned.push_back(memory);
    put(memory, values);
    return memory;
  }
  void put(DevicePtr memory, const std::vector<float> &values) {
    EXPECT_EQ(driver->copyFromHostAsync(memory, values.data(),
                                        4 * values.size(), stream),
              kSuccess);
    EXPECT_EQ(driver->synchronize(stream), kSuccess);
  }
  std::vector<float> get(DevicePtr memory) {
    std::vector<float> values(8);
    EXPECT_EQ(driver->synchronize(stream), kSuccess);
    EXPECT_EQ(driver->copyToHost(values.data(), memory, 32), kSuccess);
    return values;
  }
  static std::vector<float> repeat(float value) {
    return std::vector<float>(8, value);
  }
  static void *asPointer(DevicePtr memory) {
    return reinterpret_cast<void *>(memory);
  }

  std::shared_ptr<Driver> driver;
  Stream stream = nullptr;
  Module module = nullptr, setterModule = nullptr, countModule = nullptr,
         writerModule = nullptr, markModule = nullptr;
  LoadedKernel kernel, indirect, setter, counter, writer, marker;
  std::vector<DevicePtr> owned;
};

} // namespace pyjit::rt::cuda

#endif
