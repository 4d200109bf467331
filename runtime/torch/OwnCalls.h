//===- OwnCalls.h - Library calls that PyTorch has no operator for -*- C++ -*-//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_RUNTIME_TORCH_OWNCALLS_H
#define PYJIT_RUNTIME_TORCH_OWNCALLS_H

namespace torch {
class Library;
} // namespace torch

namespace pyjit::rt {

/// Makes the operators of the namespace `pyjit` that programs call known to the
/// dispatcher, once in a process.
void registerOwnCalls();

/// `efficient_attention` and its backward (AttentionCalls.cpp).
void defineAttentionCalls(torch::Library &library);
/// `recurrence_backward` (RecurrentCalls.cpp).
void defineRecurrentCalls(torch::Library &library);
/// `host_recurrence` and its backward (HostRecurrence.cpp).
void defineHostRecurrence(torch::Library &library);

} // namespace pyjit::rt

#endif // PYJIT_RUNTIME_TORCH_OWNCALLS_H
