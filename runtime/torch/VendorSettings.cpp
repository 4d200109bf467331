//===- VendorSettings.cpp - How vendor libraries compute ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "VendorSettings.h"

#include <ATen/Context.h>

using namespace pyjit::rt;

VendorSettings VendorSettings::now() {
  const at::Context &context = at::globalContext();
  VendorSettings settings;
  // Of `float32_matmul_precision` and `allow_tf32` the getters raise where a
  // program mixes old settings with new ones; this one they all write.
  auto precision = [&](at::Float32Op op) {
    return uint8_t(context.float32Precision(at::Float32Backend::CUDA, op));
  };
  settings.float32Precision = {precision(at::Float32Op::MATMUL),
                               precision(at::Float32Op::CONV),
                               precision(at::Float32Op::RNN)};
  settings.halfPrecision = {uint8_t(context.allowFP16ReductionCuBLAS()),
                            uint8_t(context.allowBF16ReductionCuBLAS()),
                            uint8_t(context.allowFP16AccumulationCuBLAS())};
  for (bool on :
       {context.userEnabledCuDNN(), context.benchmarkCuDNN(),
        context.deterministicCuDNN(), context.deterministicAlgorithms(),
        context.userEnabledFlashSDP(), context.userEnabledFA3SDP(),
        context.userEnabledMemEfficientSDP(), context.userEnabledMathSDP(),
        context.userEnabledCuDNNSDP(), context.allowFP16BF16ReductionMathSDP()})
    settings.switches = settings.switches << 1 | uint32_t(on);
  return settings;
}
