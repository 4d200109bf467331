//===- TensorOpArguments.cpp - The text of an operator's arguments --------===//

#include "TensorOpArguments.h"

#include <ATen/core/Tensor.h>

using namespace pyjit::capture;

static std::string wrappedText(const at::TensorBase &t) {
  const void *data = t.const_data_ptr();
  switch (t.scalar_type()) {
  case at::kDouble:
    return floatText(*static_cast<const double *>(data)) + " : f64";
  case at::kFloat:
    return floatText(*static_cast<const float *>(data)) + " : f64";
  case at::kLong:
    return std::to_string(*static_cast<const int64_t *>(data)) + " : i64";
  case at::kBool:
    return *static_cast<const bool *>(data) ? "true" : "false";
  default:
    return "";
  }
}

std::string TensorOpArguments::tensor(const at::Tensor &t) {
  if (!t.defined())
    return "none";
  TensorInfo *info = impl.find(t);
  if (!info && impl.session.scripting &&
      impl.session.scripting == pyjitCurrentFrame()) {
    info = impl.constant(t);
    impl.session.scriptConstants = true;
  }
  if (!info || info->value < 0) {
    if (t.unsafeGetTensorImpl()->is_wrapped_number() && t.dim() == 0 &&
        t.device().is_cpu()) {
      std::string value = wrappedText(t);
      if (!value.empty())
        return "wrapped(" + value + ")";
    }
    failure = "a tensor of unknown origin";
    return "none";
  }
  return add(t, info, info->value, impl.type(t));
}

std::string TensorOpArguments::number(PyObject *object, const char *form) {
  Scalars &scalars = impl.session.scalars;
  TensorRecorder &tensors = *impl.session.tensors;
  int shadow = scalars.shadowOf(object);
  const char *type = scalars.numberOf(object)->isFloat ? "float" : "int";
  std::string operand =
      shadow >= 0 ? add({}, nullptr, tensors.shadowValue(shadow),
                        tensors.shadowType(shadow))
                  : add({}, nullptr, scalars.valueOf(object),
                        std::string("!refgraph.obj<\"") + type + "\">");
  return std::string(form) + "(" + operand + ")";
}

std::string TensorOpArguments::computed(int value, const char *form) {
  return std::string(form) + "(" +
         add({}, nullptr, value, "!refgraph.obj<\"int\">") + ")";
}

std::string TensorOpArguments::sizes(const c10::IValue &v,
                                     const std::vector<PyObject *> &numbers) {
  if (!v.isList())
    return number(numbers[0], "size");
  std::string out;
  auto elements = v.toListRef();
  for (size_t i = 0; i < elements.size(); ++i)
    out += (out.empty() ? "" : ", ") +
           (numbers[i] ? number(numbers[i], "size") : text(elements[i]));
  return "[" + out + "]";
}

std::string TensorOpArguments::text(const c10::IValue &v) {
  if (v.isNone())
    return "none";
  if (v.isTensor())
    return tensor(v.toTensor());
  if (v.isBool())
    return v.toBool() ? "true" : "false";
  if (v.isInt())
    return std::to_string(v.toInt()) + " : i64";
  if (v.isDouble())
    return floatText(v.toDouble()) + " : f64";
  if (v.isString())
    return pyjit::capture::quoted(v.toStringRef());
  if (v.isDevice())
    return "device(" + pyjit::capture::quoted(v.toDevice().str()) + ")";
  if (v.isList()) {
    std::string out;
    for (const c10::IValue &element : v.toListRef())
      out += (out.empty() ? "" : ", ") + text(element);
    return "[" + out + "]";
  }
  failure = "an argument of kind " + v.tagKind();
  return "none";
}

std::string TensorOpArguments::add(const at::Tensor &t, TensorInfo *info,
                                   int value, const std::string &type) {
  operands.push_back(t);
  infos.push_back(info);
  types += (types.empty() ? "" : ", ") + type;
  return "%" + std::to_string(value);
}
