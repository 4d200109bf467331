//===- TensorOpArguments.cpp - An operator's arguments --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tensors/TensorOpArguments.h"

#include <ATen/core/Tensor.h>

#include <utility>

using namespace pyjit::capture;

/// The number that Torch has wrapped, or null.
static PyjitAttribute wrappedNumber(TraceWriter &writer,
                                    const at::TensorBase &t) {
  const void *data = t.const_data_ptr();
  switch (t.scalar_type()) {
  case at::kDouble:
    return writer.real(*static_cast<const double *>(data));
  case at::kFloat:
    return writer.real(*static_cast<const float *>(data));
  case at::kLong:
    return writer.integer(*static_cast<const int64_t *>(data));
  case at::kBool:
    return writer.boolean(*static_cast<const bool *>(data));
  default:
    return nullptr;
  }
}

PyjitAttribute TensorOpArguments::tensor(const at::Tensor &t) {
  if (!t.defined())
    return writer.none();
  TensorInfo *info = impl.find(t);
  if (!info && impl.recording.calls.scripting &&
      impl.recording.calls.scripting == pyjitCurrentFrame()) {
    info = impl.constant(t);
    impl.recording.calls.scriptConstants = true;
    impl.recording.calls.scriptOnDevice |= !t.is_cpu();
  }
  if (!info || info->value < 0) {
    if (t.unsafeGetTensorImpl()->is_wrapped_number() && t.dim() == 0 &&
        t.device().is_cpu()) {
      if (PyjitAttribute number = wrappedNumber(writer, t))
        return pyjitArgumentWrapped(number);
      if (t.is_complex() && complexResult.defined())
        return complexNumber(t);
    }
    failure = "a tensor of unknown origin";
    return writer.none();
  }
  add(t, info, info->value);
  return writer.operand();
}

/// What a complex number of Python's is converted to, which has no form as an
/// argument: a constant of the result's type and device.
PyjitAttribute TensorOpArguments::complexNumber(const at::Tensor &number) {
  bool was = std::exchange(impl.suspended, true);
  at::Tensor constant = number.to(complexResult.options());
  impl.suspended = was;
  TensorInfo *info = impl.constant(constant);
  if (!info)
    return writer.none();
  add(constant, info, info->value);
  return writer.operand();
}

PyjitAttribute TensorOpArguments::number(PyObject *object,
                                         PyjitNumberForm form) {
  Scalars &scalars = impl.recording.scalars;
  int proxy = scalars.proxyOf(object);
  return computed(proxy >= 0 ? impl.recording.dataNumbers.proxyValue(proxy)
                             : scalars.valueOf(object),
                  form);
}

PyjitAttribute TensorOpArguments::computed(PyjitValue value,
                                           PyjitNumberForm form) {
  add({}, nullptr, value);
  return writer.number(form);
}

PyjitAttribute
TensorOpArguments::sizes(const c10::IValue &v,
                         const std::vector<PyObject *> &numbers) {
  if (!v.isList())
    return number(numbers[0], PyjitNumberSize);
  std::vector<PyjitAttribute> out;
  auto elements = v.toListRef();
  for (size_t i = 0; i < elements.size(); ++i)
    out.push_back(numbers[i] ? number(numbers[i], PyjitNumberSize)
                             : argument(elements[i]));
  return writer.list(out);
}

PyjitAttribute TensorOpArguments::argument(const c10::IValue &v) {
  if (v.isNone())
    return writer.none();
  if (v.isTensor())
    return tensor(v.toTensor());
  if (v.isBool())
    return writer.boolean(v.toBool());
  if (v.isInt())
    return writer.integer(v.toInt());
  if (v.isDouble())
    return writer.real(v.toDouble());
  if (v.isString())
    return writer.string(v.toStringRef());
  if (v.isDevice()) {
    onCurrentDevice |= v.toDevice().is_cuda() && !v.toDevice().has_index();
    return writer.device(v.toDevice().str());
  }
  if (v.isList()) {
    std::vector<PyjitAttribute> out;
    for (const c10::IValue &element : v.toListRef())
      out.push_back(argument(element));
    return writer.list(out);
  }
  failure = "an argument of kind " + v.tagKind();
  return writer.none();
}

void TensorOpArguments::add(const at::Tensor &t, TensorInfo *info,
                            PyjitValue value) {
  impl.recording.checkpoint.noteRead(storageOf(t));
  operands.push_back(t);
  infos.push_back(info);
  values.push_back(value);
}
