//===- NumberTensors.cpp - Tensors in the place of numbers ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `p.add_(g, alpha=t)` of a tensor `t`: Torch's parser of arguments calls
// `item()`, and the operator is given a number. It is one of data, which the
// specialization computes, or, of a tensor in which the host keeps a number,
// one that the guards read.
//
//===----------------------------------------------------------------------===//

#include "Recording.h"
#include "interpreter/OpcodeTable.h"
#include "numbers/HostScalars.h"
#include "numbers/Scalars.h"
#include "tensors/TensorImpl.h"

#include <torch/csrc/autograd/python_variable.h>

#include <optional>

using namespace pyjit;
using namespace pyjit::capture;

void pyjit::capture::noteNumberTensors(Recording &s, const Call &call) {
  const char *name = nullptr;
  if (PyMethodDef *def = pyjitMethodDef(call.callable))
    name = def->ml_name;
  if (!name)
    return;
  s.now.function = name;
  for (size_t i = 0; i < call.args.size(); ++i) {
    PyObject *argument = call.args[i];
    if (!s.objects.isTensor(argument) || THPVariable_Unpack(argument).dim())
      continue;
    const char *keyword = "";
    if (i >= call.positional())
      keyword = PyUnicode_AsUTF8(
          PyTuple_GET_ITEM(call.kwnames, i - call.positional()));
    if (keyword)
      s.now.numberTensors.push_back({argument, keyword, i});
  }
}

/// The number that it holds; nothing: it has none.
static std::optional<rt::Number> numberIn(const at::Tensor &tensor) {
  at::DisableRecordFunctionGuard unseen;
  at::ScalarType type = tensor.scalar_type();
  if (at::isFloatingType(type))
    return rt::Number::of(tensor.item().toDouble());
  if (at::isIntegralType(type, /*includeBool=*/false))
    return rt::Number::of(tensor.item().toLong());
  return std::nullopt;
}

bool Scalars::takeNumber(PyObject *tensor) {
  const ShadowFrame &top = s.tracker.frames.back();
  if (s.surveying || s.ended() || !top.code || top.frame != frame ||
      !takesArguments(s.tracker.info(top.code).at(top.offset).op) ||
      s.now.tookTensors)
    return false;
  const InstructionContext::NumberTensor *place = nullptr;
  for (const auto &given : s.now.numberTensors)
    if (THPVariable_Unpack(given.tensor).is_same(THPVariable_Unpack(tensor))) {
      if (place) // given twice
        return false;
      place = &given;
    }
  std::optional<rt::Number> number;
  if (place)
    number = numberIn(THPVariable_Unpack(tensor));
  if (!number)
    return false;
  rt::Number known;
  int value = s.tensors->host().read(tensor, known), proxy = -1;
  if (value < 0)
    proxy = s.dataNumbers.readNumber(tensor, NumberKind::Own);
  if ((value < 0 && proxy < 0) || s.ended())
    return false;
  PyObject *unique = track(makeNumber(s, *number), *number, value);
  if (!unique)
    return false;
  if (proxy >= 0) {
    Tracked &entry = tracked.find(unique)->second;
    entry.proxy = proxy;
    entry.data = true;
    entry.site = s.dataNumbers.noteSite();
  }
  if (!hasUse || currentUse.frame != frame) {
    currentUse = OperatorUse(frame, s.now.function);
    hasUse = true;
  }
  currentUse.arguments.push_back({unique, place->keyword, place->position});
  return true;
}
