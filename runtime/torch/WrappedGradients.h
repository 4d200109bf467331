// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===- WrappedGradients.h - Gradients of vmap and of forward mode -*- C++
//-*-===//
//
// A compiled backward reads memory, which gradients that another transform has
// wrapped do not show: those of a batch (vmap over torch.autograd.grad,
// is_grads_batched, jacobian(vectorize=True)) and those with a tangent
// (forward-mode over reverse-mode). A backward is linear in its gradients, so
// that it is run for each element of the batch, and for the tangents as for the
// gradients.
//
//===----------------------------------------------------------------------===//
#ifndef PYJIT_RT_WRAPPEDGRADIENTS_H
#define PYJIT_RT_WRAPPEDGRADIENTS_H

#include <torch/csrc/autograd/variable.h>

#include <functional>

namespace pyjit::rt {

using Gradients = torch::autograd::variable_list;
using Backward = std::function<Gradients(Gradients &&)>;

/// Whether some gradient is of a batch or has a tangent.
bool areWrapped(const Gradients &gradients);

/// Takes one level of wrapping off, runs `backward` on what is inside, and
/// wraps its results.
Gradients runUnwrapped(const Gradients &gradients, const Backward &backward);

} // namespace pyjit::rt

#endif // PYJIT_RT_WRAPPEDGRADIENTS_H
