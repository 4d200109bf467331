//===- VendorSettings.h - How vendor libraries compute ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_RUNTIME_TORCH_VENDORSETTINGS_H
#define PYJIT_RUNTIME_TORCH_VENDORSETTINGS_H

#include <array>
#include <cstdint>

namespace pyjit::rt {

/// What a program can set for vendor calls besides their operands, by
/// `torch.backends`, `torch.set_float32_matmul_precision` and the like. A call
/// reads it when it is made: a captured graph holds kernels of one setting.
struct VendorSettings {
  /// Precision of float32 matmuls, convolutions and recurrent layers.
  std::array<uint8_t, 3> float32Precision{};
  /// Reductions and accumulation of half precision in cuBLAS.
  std::array<uint8_t, 3> halfPrecision{};
  /// cuDNN's choice of algorithms, which kinds of attention may be taken, ...
  uint32_t switches = 0;

  static VendorSettings now();
  bool operator==(const VendorSettings &other) const {
    return float32Precision == other.float32Precision &&
           halfPrecision == other.halfPrecision && switches == other.switches;
  }
  bool operator!=(const VendorSettings &other) const {
    return !(*this == other);
  }
};

} // namespace pyjit::rt

#endif // PYJIT_RUNTIME_TORCH_VENDORSETTINGS_H
