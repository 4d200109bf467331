//===- SizeDependence.h - What of a program differs with sizes --*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_RT_SIZEDEPENDENCE_H
#define PYJIT_RT_SIZEDEPENDENCE_H

#include "pyjit-rt/Program.h"

namespace pyjit::rt {

/// Of a form (a program with symbols): which slots, kernels and views are
/// others in calls of other sizes, and whether one captured graph can serve all
/// of them, with parameters that a replay renews.
class SizeDependence {
public:
  explicit SizeDependence(const Program &form);

  /// Sizes, strides or bytes.
  bool ofSlot(uint32_t slot) const { return slots[slot]; }
  bool ofKernel(uint32_t kernel) const { return kernels[kernel]; }
  /// Whether a view lies at an offset that differs, or is a view of one that
  /// does.
  bool ofPlace(uint32_t slot) const { return places[slot]; }
  /// Why one graph cannot; empty if it can.
  const std::string &obstacle() const { return why; }

private:
  bool ofCall(const Program &form, const Step &step) const;
  void findPlaces(const Program &form);
  std::string findObstacle(const Program &form) const;

  std::vector<bool> words, slots, kernels, places;
  std::string why;
};

} // namespace pyjit::rt

#endif // PYJIT_RT_SIZEDEPENDENCE_H
