//===- AutocastCache.h - The casts that autocast keeps ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Of a leaf that requires grad, autocast keeps the cast until the thread's
// outermost region ends: whoever needs it first makes it, later uses find it,
// even if somebody has written the weight meanwhile. Recorder and guards ask
// for it as autocast itself does.
//
//===----------------------------------------------------------------------===//
#ifndef PYJIT_CAPTURE_TENSORS_AUTOCASTCACHE_H
#define PYJIT_CAPTURE_TENSORS_AUTOCASTCACHE_H

#include <ATen/core/Tensor.h>

namespace pyjit::capture {

/// Whether it keeps casts of this tensor, in regions that keep any.
bool isCastKept(const at::Tensor &weight);

/// What a use of such a weight would be given by a region of that type;
/// undefined where it would raise.
at::Tensor keptCast(const at::Tensor &weight, at::ScalarType type);

/// Whether Python code has got hold of it, as it may of any tensor: by a hook
/// on saved tensors, say.
bool isSeenByPython(const at::TensorBase &cast);

/// Whether the thread is inside a region, be it one that switches autocast off.
bool isInsideAutocast();

} // namespace pyjit::capture

#endif // PYJIT_CAPTURE_TENSORS_AUTOCASTCACHE_H
