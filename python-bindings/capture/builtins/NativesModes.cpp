//===- NativesModes.cpp - Autocast and inference mode within the call -----===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "builtins/Natives.h"
#include "objects/ObjectKinds.h"
#include "tensors/TensorImpl.h"

using namespace pyjit::capture;

namespace {

//===----------------------------------------------------------------------===//
// Autocast inside the call: it changes what operators run, and those are
// recorded; at the end everything has to be as it was.
//===----------------------------------------------------------------------===//

ResultKind torchSetting(Recording &s, const Call &c) {
  for (PyObject *arg : c.args)
    s.calls.tensorArgument(arg);
  return ResultKind::Known;
}

/// No graph break leaves a region that the call has begun. Where one was
/// needed, the next is made in front of the region.
ResultKind beginRegion(Recording &s, const Call &c) {
  const State &start = s.tensors->impl->state;
  if (State::now().autocastNesting == start.autocastNesting) {
    s.breaks.allocationSites.erase(c.callable);
    s.breaks.noteSite(c.callable);
  }
  return torchSetting(s, c);
}

ResultKind endRegion(Recording &s, const Call &c) {
  static PyObject *const begins =
      findObject("torch:autocast_increment_nesting");
  const State &start = s.tensors->impl->state;
  if (State::now().autocastNesting == start.autocastNesting + 1)
    s.breaks.allocationSites.erase(begins);
  return torchSetting(s, c);
}

ResultKind clearAutocastCache(Recording &s, const Call &c) {
  if (s.tensors->castsOutlast())
    s.end(ReasonKind::Autocast,
          "clear_autocast_cache() where a region of autocast lies around the "
          "call");
  else // one that is off may lie within one that has kept casts
    s.add(PyjitStateOp{.values = s.writer.state("autocast_nested", false)});
  return torchSetting(s, c);
}

//===----------------------------------------------------------------------===//
// torch.inference_mode() inside the call: the mode shows in the tensors that
// leave, and a specialization makes them in that mode. It cannot stay on at a
// graph break.
//===----------------------------------------------------------------------===//

ResultKind makeInferenceMode(Recording &s, const Call &c) {
  for (PyObject *arg : c.args)
    if (!isValue(arg))
      return s.calls.unknownNative(c);
  return ResultKind::Fresh;
}

ResultKind enterInferenceMode(Recording &s, const Call &c) {
  if (c.args.size() != 1 || s.objects.isExternal(c.args[0]))
    return s.calls.unknownNative(c);
  s.calls.inferenceModes.push_back(c.args[0]);
  if (!s.calls.firstInferenceMode)
    s.calls.firstInferenceMode = c.args[0];
  return ResultKind::Known;
}

ResultKind leaveInferenceMode(Recording &s, const Call &c) {
  auto &modes = s.calls.inferenceModes;
  if (c.args.empty() || modes.empty() || modes.back() != c.args[0])
    return s.calls.unknownNative(c);
  modes.pop_back();
  return ResultKind::Known;
}

} // namespace

void pyjit::capture::addModes(NativeTable &t) {
  if (PyObject *type = findObject("torch._C:_InferenceMode")) {
    t.addType(reinterpret_cast<PyTypeObject *>(type), makeInferenceMode);
    t.add("torch._C:_InferenceMode.__enter__", enterInferenceMode);
    t.add("torch._C:_InferenceMode.__exit__", leaveInferenceMode);
  }
  for (const char *name : {"set_autocast_enabled", "set_autocast_dtype",
                           "set_autocast_cache_enabled"})
    t.add(("torch:" + std::string(name)).c_str(), torchSetting);
  t.add("torch:autocast_increment_nesting", beginRegion);
  t.add("torch:autocast_decrement_nesting", endRegion);
  t.add("torch:clear_autocast_cache", clearAutocastCache);
}
