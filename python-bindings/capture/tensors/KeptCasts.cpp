//===- KeptCasts.cpp - Weights' casts in a region around the call ---------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tensors/KeptCasts.h"
#include "tensors/AutocastCache.h"
#include "tensors/CastBatch.h"
#include "tensors/TensorImpl.h"
#include "tensors/TensorOpRecording.h"

#include <ATen/autocast_mode.h>
#include <c10/core/GradMode.h>

#include <algorithm>

using namespace pyjit::capture;

bool KeptCasts::outlast() const {
  const State &state = s.tensors->impl->state;
  return state.isInsideAutocast() || state.autocastCpu || state.autocastCuda;
}

static std::vector<at::Tensor>
tensorsOf(const std::vector<c10::IValue> &inputs) {
  std::vector<at::Tensor> tensors;
  for (const c10::IValue &input : inputs)
    collectTensors(input, tensors);
  return tensors;
}

void KeptCasts::enter(const c10::OperatorHandle &op,
                      const std::vector<c10::IValue> &inputs) {
  running.push_back({op, c10::GradMode::is_enabled(), tensorsOf(inputs),
                     /*casting=*/true, casts.size()});
}

bool KeptCasts::isKept(const c10::OperatorHandle &op,
                       const std::vector<c10::IValue> &inputs) const {
  return isCasting() && op.operator_name().name == operators::aten::_to_copy &&
         at::autocast::is_autocast_cache_enabled() && inputs[0].isTensor() &&
         isCastKept(inputs[0].toTensor());
}

void KeptCasts::bindOperands(const c10::OperatorHandle &op,
                             const std::vector<c10::IValue> &inputs) {
  if (!isCasting() || op.operator_name() != running.back().op.operator_name())
    return;
  running.back().casting = false;
  std::vector<at::Tensor> given = tensorsOf(inputs);
  const std::vector<at::Tensor> &operands = running.back().operands;
  if (!outlast() || given.size() != operands.size())
    return;
  for (size_t i = 0; i < given.size() && !s.ended(); ++i)
    if (!given[i].is_same(operands[i]) && isCastKept(operands[i]) &&
        !s.tensors->impl->find(given[i]))
      bind(operands[i], given[i]);
}

/// The guards read the cast before anything of the call has happened, and make
/// it where there is none.
const char *KeptCasts::whyNotBound(const at::Tensor &weight,
                                   const at::Tensor &cast) const {
  const TensorRecorder::Impl &impl = *s.tensors->impl;
  auto known = impl.tensors.find(weight.unsafeGetTensorImpl());
  if (known == impl.tensors.end() || !known->second.external ||
      known->second.value < 0)
    return "autocast keeps the cast of a tensor that the call has made";
  if (versionOf(weight) != known->second.version ||
      impl.writtenStorages.count(weight.unsafeGetTensorImpl()
                                     ->unsafe_storage()
                                     .unsafeGetStorageImpl()))
    return "autocast casts a weight that the call has written, and keeps that "
           "cast after the call";
  if (s.decisions.heads.count > 0)
    return "autocast keeps a weight's cast after a branch on a tensor's data";
  c10::DeviceType device = weight.device().type();
  if (cast.scalar_type() != at::autocast::get_autocast_dtype(device) ||
      !isCastOf(cast, weight) || isSeenByPython(cast))
    return "autocast has kept an unusual cast of a weight";
  return nullptr;
}

namespace {
/// Operators run without the interpreter's lock.
struct HoldLock {
  PyGILState_STATE state = PyGILState_Ensure();
  ~HoldLock() { PyGILState_Release(state); }
};
} // namespace

void KeptCasts::bind(const at::Tensor &weight, const at::Tensor &cast) {
  HoldLock lock;
  if (const char *why = whyNotBound(weight, cast))
    return s.end(ReasonKind::Autocast, why);
  TensorRecorder::Impl &impl = *s.tensors->impl;
  s.add(PyjitStateOp{.values = s.writer.state("autocast_nested",
                                              impl.state.isInsideAutocast())});
  PyjitValue value =
      s.add(PyjitGetOp{.holder = impl.find(weight)->value,
                       .selector = PyjitSelectorKeptCast,
                       .requiresGrad = {true, cast.requires_grad()},
                       .keyset = some(int64_t(cast.key_set().raw_repr())),
                       .resultType = impl.type(cast)});
  TensorInfo &info = impl.bind(cast, value);
  info.external = true;
  info.version = versionOf(cast);
  casts.emplace_back(weight, cast);
}

void KeptCasts::leave() {
  size_t first = running.back().bound;
  running.pop_back();
  bool kept = true;
  at::DisableRecordFunctionGuard unseen;
  for (size_t i = first; i < casts.size(); ++i) {
    const auto &[weight, cast] = casts[i];
    kept = kept && cast.is_same(keptCast(weight, cast.scalar_type()));
  }
  if (kept)
    return;
  HoldLock lock;
  s.endWhole(ReasonKind::Autocast,
             "an operator that takes a cast of a weight, which autocast has "
             "not kept");
}

bool KeptCasts::isMemoryOf(const at::TensorBase &tensor) const {
  return std::any_of(casts.begin(), casts.end(), [&](const auto &known) {
    return tensor.has_storage() &&
           tensor.storage().is_alias_of(known.second.storage());
  });
}
