//===- Target.cpp - What is compiled for ----------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "pyjit/Compiler/Target.h"
#include "pyjit/Codegen/PTX/Compile.h"
#include "pyjit/Codegen/X86/HostVectorMath.h"

#include "llvm/ADT/StringSwitch.h"

using namespace llvm;

namespace pyjit::compiler {

CpuTarget CpuTarget::host() {
  return {x86::hostVectorBits(), x86::hostMatmulLimits(),
          !x86::hostVectorMath().empty(), x86::hostPrefetches()};
}

Expected<CpuTarget> CpuTarget::named(StringRef name) {
  if (name == "host")
    return host();
  unsigned bits = StringSwitch<unsigned>(name)
                      .Case("x86-64-v2", 128)
                      .Case("x86-64-v3", 256)
                      .Case("x86-64-v4", 512)
                      .Default(0);
  if (!bits)
    return createStringError("no CPU is named '" + name +
                             "'; known are host, x86-64-v2, x86-64-v3 and "
                             "x86-64-v4");
  return CpuTarget{bits, x86::matmulLimits(bits, /*amd=*/false)};
}

namespace {
/// From NVIDIA's data sheets and the CUDA programming guide's table of compute
/// capabilities. The first entry of a chip is its largest part.
struct Part {
  StringLiteral name, chip;
  unsigned multiprocessors, threads;
};
constexpr Part kParts[] = {
    {"a100", "sm_80", 108, 2048},    {"rtx3090", "sm_86", 82, 1536},
    {"l40s", "sm_89", 142, 1536},    {"rtx4090", "sm_89", 128, 1536},
    {"h200", "sm_90", 132, 2048},    {"h100", "sm_90", 132, 2048},
    {"b200", "sm_100", 148, 2048},   {"b300", "sm_103", 148, 2048},
    {"rtx5090", "sm_120", 170, 1536}};
} // namespace

static GpuTarget targetOf(const Part &part) {
  return {
      part.chip.str(),
      {part.multiprocessors, part.threads, ptx::hasDependentLaunch(part.chip)}};
}

Expected<GpuTarget> GpuTarget::named(StringRef name) {
  for (const Part &part : kParts)
    if (part.name == name || part.chip == name)
      return targetOf(part);
  unsigned capability;
  if (name.starts_with("sm_") &&
      !name.drop_front(3).getAsInteger(10, capability))
    return ofDevice(capability);
  std::string known;
  for (const Part &part : kParts)
    known += (known.empty() ? "" : ", ") + part.name.str();
  return createStringError("no GPU is named '" + name +
                           "'; known are sm_80 to "
                           "sm_121, " +
                           known);
}

GpuTarget GpuTarget::ofDevice(unsigned capability, unsigned multiprocessors,
                              unsigned threadsPerMultiprocessor) {
  std::string chip = "sm_" + std::to_string(capability);
  const Part *part =
      llvm::find_if(kParts, [&](const Part &p) { return p.chip == chip; });
  GpuTarget target;
  if (part != std::end(kParts)) {
    target = targetOf(*part);
  } else {
    target.chip = chip;
    target.machine.dependentLaunch = ptx::hasDependentLaunch(chip);
  }
  if (multiprocessors)
    target.machine.multiprocessors = multiprocessors;
  if (threadsPerMultiprocessor)
    target.machine.threadsPerMultiprocessor = threadsPerMultiprocessor;
  return target;
}

} // namespace pyjit::compiler
