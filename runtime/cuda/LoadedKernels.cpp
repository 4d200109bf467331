//===- LoadedKernels.cpp - A program's kernels on a device ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "pyjit-rt/cuda/LoadedKernels.h"

#include <algorithm>
#include <cstdlib>
#include <stdexcept>

using namespace pyjit::rt;
using namespace pyjit::rt::cuda;

namespace {

/// "ptxas ..., line 120; error ..." names a line of the PTX; the kernel is the
/// last entry before it.
std::string kernelAtLine(const std::string &code, const std::string &log) {
  size_t at = log.find("line ");
  if (at == std::string::npos)
    return "";
  long line = std::strtol(log.c_str() + at + 5, nullptr, 10);
  std::string name;
  size_t begin = 0;
  for (long number = 1; number <= line && begin < code.size(); ++number) {
    size_t end = std::min(code.find('\n', begin), code.size());
    std::string text = code.substr(begin, end - begin);
    if (size_t entry = text.find(".entry "); entry != std::string::npos) {
      size_t first = entry + 7;
      name = text.substr(first, text.find_first_of("( \t", first) - first);
    }
    begin = end + 1;
  }
  return name;
}

std::string describe(const LoadedKernel &kernel) {
  std::string text = std::string("kernel ") + kernel.name;
  if (kernel.location)
    text += std::string(" (") + kernel.location + ")";
  return text;
}

} // namespace

/// The count, then pairs of address and value, which any number of threads
/// share.
std::string cuda::tableWriterCode() {
  static_assert(16 * LoadedKernels::kTableWords == 2048);
  return R"(.version 7.0
.target sm_70
.address_size 64
.visible .entry pyjit_write_table(.param .b64 count, .param .align 8 .b8 pairs[2048])
{
  .reg .pred %done;
  .reg .b32 %i, %step, %count;
  .reg .b64 %wide, %at, %pair, %to, %value;
  ld.param.b64 %wide, [count];
  cvt.u32.u64 %count, %wide;
  mov.u32 %i, %tid.x;
  mov.u32 %step, %ntid.x;
  mov.u64 %at, pairs;
next:
  setp.ge.u32 %done, %i, %count;
  @%done bra end;
  mul.wide.u32 %wide, %i, 16;
  add.u64 %pair, %at, %wide;
  ld.param.b64 %to, [%pair];
  ld.param.b64 %value, [%pair+8];
  st.global.b64 [%to], %value;
  add.u32 %i, %i, %step;
  bra next;
end:
  ret;
}
)";
}

HostKernel cuda::tableWriterFunction() {
  return {"pyjit_write_table",
          [](const uint64_t *params, const LaunchShape &) {
            for (uint64_t k = 0; k < params[0]; ++k)
              *reinterpret_cast<uint64_t *>(params[1 + 2 * k]) =
                  params[2 + 2 * k];
          },
          1 + 2 * LoadedKernels::kTableWords};
}

std::string cuda::conditionSetterCode() {
  return R"(.version 7.0
.target sm_70
.address_size 64
.extern .func cudaGraphSetConditional
(
  .param .b64 cudaGraphSetConditional_param_0,
  .param .b32 cudaGraphSetConditional_param_1
)
;
.visible .entry pyjit_set_condition(.param .u64 condition, .param .u64 flag, .param .u64 negated)
{
  .reg .pred %p<2>;
  .reg .b32 %r<4>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [condition];
  ld.param.u64 %rd2, [flag];
  ld.param.u32 %r1, [negated];
  ld.global.u8 %r2, [%rd2];
  setp.ne.u32 %p1, %r2, 0;
  selp.u32 %r2, 1, 0, %p1;
  xor.b32 %r3, %r2, %r1;
  {
  .param .b64 param0;
  st.param.b64 [param0], %rd1;
  .param .b32 param1;
  st.param.b32 [param1], %r3;
  call.uni cudaGraphSetConditional, (param0, param1);
  }
  ret;
}
)";
}

HostKernel cuda::conditionSetterFunction() {
  return {"pyjit_set_condition",
          [](const uint64_t *params, const LaunchShape &) {
            bool flag = *reinterpret_cast<const uint8_t *>(params[1]);
            *reinterpret_cast<uint32_t *>(params[0]) = flag != (params[2] != 0);
          },
          3};
}

LoadedCode::~LoadedCode() {
  for (Module module : modules)
    driver->unloadModule(module);
  if (writerModule)
    driver->unloadModule(writerModule);
}

Result LoadedCode::find(Function *function, const char *name) const {
  Result result = kNotFound;
  for (Module module : modules)
    if (!(result = driver->getFunction(function, module, name)))
      break;
  return result;
}

const LoadedKernel &LoadedKernels::conditionSetter() {
  if (setter.function)
    return setter;
  std::string log;
  setterCode = std::make_unique<LoadedCode>(driver);
  Module &module = setterCode->modules.emplace_back();
  Result result =
      driver->isSimulated()
          ? driver->loadHostModule(&module, {conditionSetterFunction()})
          : driver->loadModule(&module, conditionSetterCode().c_str(), log);
  setter.name = "pyjit_set_condition";
  setter.shape = {{1, 1, 1}, {1, 1, 1}, 0};
  if (!result)
    result = driver->getFunction(&setter.function, module, setter.name);
  if (result)
    throw std::runtime_error(
        "the driver takes no kernel that sets conditions: " +
        driver->describe(result) + (log.empty() ? "" : "\n" + log));
  return setter;
}

bool LoadedKernels::load(const Program &program,
                         const std::vector<KernelFn> &functions,
                         std::string &error,
                         std::shared_ptr<LoadedCode> *shared) {
  // Which functions a simulated device has is found on the steps.
  if (driver->isSimulated())
    shared = nullptr;
  if (shared)
    code = *shared;
  kernels.resize(program.numKernels());
  for (uint32_t i = 0; i < program.numKernels(); ++i) {
    const Kernel &source = program.kernels()[i];
    LoadedKernel &kernel = kernels[i];
    std::copy_n(source.grid, 3, kernel.shape.grid);
    std::copy_n(source.block, 3, kernel.shape.block);
    kernel.shape.sharedBytes = source.sharedBytes;
    kernel.waits = source.flags & kKernelWaits;
    kernel.name = program.string(source.name);
    if (source.location != kNone)
      kernel.location = program.string(source.location);
    if (source.align != kNone) {
      const int64_t *list = program.ints() + source.align;
      kernel.align.assign(list + 1, list + 1 + list[0]);
    }
  }
  for (uint32_t i = 0; i < program.numSteps(); ++i)
    if (const Step &step = program.steps()[i]; step.flags & kStepDeviceSizes)
      kernels[program.ints()[step.b + step.c]].deviceSizes = true;
  writer.name = "pyjit_write_table";
  writer.shape = {{1, 1, 1}, {kTableWords, 1, 1}, 0};
  if (driver->isSimulated())
    return loadFunctions(program, functions, error);
  if (!loadCode(program, error))
    return false;
  if (shared)
    *shared = code;
  return true;
}

/// Whether the table writer is asked for: by a table, or by numbers of the
/// host.
static bool writesWords(const Program &program) {
  const Step *steps = program.steps();
  return program.header().variants & 1u << unsigned(Variant::Table) ||
         std::any_of(steps, steps + program.numSteps(), [](const Step &step) {
           return step.kind == StepKind::HostValue;
         });
}

bool LoadedKernels::loadModules(const Program &program, std::string &error) {
  const int64_t *list = program.ints() + program.header().code;
  std::vector<const char *> modules;
  for (int64_t i = 1; i <= list[0]; ++i)
    modules.push_back(program.string(list[i]));
  auto assembled = driver->assemble(modules);
  for (size_t i = 0; i < modules.size(); ++i) {
    std::string log;
    Result result = driver->loadModule(
        &code->modules.emplace_back(),
        assembled ? (*assembled)[i].data() : modules[i], log);
    if (!result)
      continue;
    code->modules.pop_back();
    error = "the driver refuses the kernels: " + driver->describe(result);
    std::string name = kernelAtLine(modules[i], log);
    for (const LoadedKernel &kernel : kernels)
      if (name == kernel.name)
        error += ", " + describe(kernel);
    if (!log.empty())
      error += "\n" + log;
    return false;
  }
  return true;
}

/// Of a kernel that has something to do.
bool LoadedKernels::findFunction(LoadedKernel &kernel, std::string &error) {
  if (!kernel.shape.grid[0] || kernel.function)
    return true;
  Result result = code->find(&kernel.function, kernel.name);
  constexpr unsigned kWithoutAsking = 48 * 1024;
  if (!result && kernel.shape.sharedBytes > kWithoutAsking)
    result = driver->allowShared(kernel.function, kernel.shape.sharedBytes);
  if (result)
    error = describe(kernel) + ": " + driver->describe(result);
  return !result;
}

/// A simulated device's grid says how much there is to do: that many blocks,
/// of 31 bits in x and the rest in y.
static void setWork(LaunchShape &shape, uint64_t work) {
  constexpr uint64_t kMost = uint64_t(1) << 31;
  shape = {{0, 1, 1}, {1, 1, 1}, 0};
  if (!work)
    return;
  shape.grid[0] = (work - 1) % kMost + 1;
  shape.grid[1] = (work - 1) / kMost + 1;
}

static int64_t workOf(const LaunchShape &shape) {
  return (int64_t(shape.grid[1] - 1) << 31) + shape.grid[0];
}

bool LoadedKernels::resize(const Program &program, std::string &error) {
  for (uint32_t i = 0; i < kernels.size(); ++i) {
    const Kernel &source = program.kernels()[i];
    LoadedKernel &kernel = kernels[i];
    if (driver->isSimulated()) {
      (*works)[i] = source.work;
      int64_t before = kernel.deviceSizes ? workOf(kernel.shape) : 0;
      setWork(kernel.shape, std::max(before, source.work));
    } else {
      unsigned before = kernel.deviceSizes ? kernel.shape.grid[0] : 0;
      std::copy_n(source.grid, 3, kernel.shape.grid);
      kernel.shape.grid[0] = std::max(before, kernel.shape.grid[0]);
    }
    if (!findFunction(kernel, error))
      return false;
  }
  return true;
}

bool LoadedKernels::loadCode(const Program &program, std::string &error) {
  std::string log;
  bool known = code != nullptr;
  if (!known)
    code = std::make_shared<LoadedCode>(driver);
  if (program.header().code != kNone) {
    if (!known && !loadModules(program, error))
      return false;
    for (LoadedKernel &kernel : kernels)
      if (!findFunction(kernel, error))
        return false;
  } else if (!kernels.empty()) {
    error = "the launch program has kernels, but no code for a GPU";
    return false;
  }
  if (!writesWords(program))
    return true;
  Result result = code->writerModule
                      ? Result()
                      : driver->loadModule(&code->writerModule,
                                           tableWriterCode().c_str(), log);
  if (!result)
    result =
        driver->getFunction(&writer.function, code->writerModule, writer.name);
  if (result)
    error = "pyjit_write_table: " + driver->describe(result) + "\n" + log;
  return !result;
}

bool LoadedKernels::loadFunctions(const Program &program,
                                  const std::vector<KernelFn> &functions,
                                  std::string &error) {
  if (functions.size() != kernels.size()) {
    error = "the launch program names " + std::to_string(kernels.size()) +
            " kernels, " + std::to_string(functions.size()) + " were given";
    return false;
  }
  // Which buffers a kernel takes, and which of them through a word, stands on
  // the steps.
  std::vector<HostKernel> host(kernels.size());
  works = std::make_shared<std::vector<int64_t>>();
  for (uint32_t i = 0; i < program.numSteps(); ++i) {
    const Step &step = program.steps()[i];
    if (step.kind != StepKind::Kernel)
      continue;
    auto make = [&](uint32_t index, uint64_t indirect) {
      bool deviceSizes = kernels[index].deviceSizes;
      KernelFn function = functions[index];
      unsigned count = step.c;
      host[index] = {
          kernels[index].name,
          [=, now = works](const uint64_t *params, const LaunchShape &shape) {
            std::vector<void *> buffers(count);
            for (unsigned k = 0; k < count; ++k)
              buffers[k] = isIndirect(indirect, k)
                               ? *reinterpret_cast<void **>(params[k])
                               : reinterpret_cast<void *>(params[k]);
            int64_t work = workOf(shape);
            if (deviceSizes) // the others leave
              work = std::min(work, (*now)[index]);
            function(buffers.data(), 0, work);
          },
          count,
          // The indirect version relies on what the kernel relies
          // on, of the addresses that its words hold.
          kernels[step.a].align, indirect};
    };
    make(step.a, 0);
    if (step.flags & kStepIndirect)
      make(program.ints()[step.b + step.c],
           program.ints()[step.b + step.c + 1]);
  }
  for (uint32_t i = 0; i < kernels.size(); ++i) {
    host[i].name = kernels[i].name;
    works->push_back(program.kernels()[i].work);
    setWork(kernels[i].shape, works->back());
  }
  host.push_back(tableWriterFunction());
  code = std::make_shared<LoadedCode>(driver);
  if (driver->loadHostModule(&code->modules.emplace_back(), std::move(host))) {
    error = "the simulated driver takes no module now";
    return false;
  }
  for (LoadedKernel &kernel : kernels)
    code->find(&kernel.function, kernel.name);
  code->find(&writer.function, writer.name);
  return true;
}
