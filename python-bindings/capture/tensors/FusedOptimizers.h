//===- FusedOptimizers.h - Updates that Torch has as one kernel -*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef PYJIT_CAPTURE_FUSEDOPTIMIZERS_H
#define PYJIT_CAPTURE_FUSEDOPTIMIZERS_H

#include "tensors/TensorOpRecording.h"

namespace pyjit::capture {

/// Whether it is the update of an optimizer with `fused=True`.
bool isFusedUpdate(const std::string &name);
/// Records it as the operators that compute the same.
void recordFusedUpdate(TensorRecorder::Impl &impl,
                       TensorRecorder::Impl::Operation &operation);

} // namespace pyjit::capture

#endif // PYJIT_CAPTURE_FUSEDOPTIMIZERS_H
