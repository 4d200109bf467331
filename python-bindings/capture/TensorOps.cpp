//===- TensorOps.cpp - Operators as the dispatcher saw them ---------------===//
//
// A thread-local RecordFunction callback sees every call that goes through the
// dispatcher, nested ones included. Composite operators are looked into, except
// for those that a library or a fused kernel serves whole.
//
//===----------------------------------------------------------------------===//

#include "TensorImpl.h"

#include <ATen/autocast_mode.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <algorithm>
#include <set>

using namespace pyjit::capture;

/// One operator call between its start and its end.
struct TensorRecorder::Impl::Operation : at::ObserverContext {
  explicit Operation(c10::OperatorHandle handle) : handle(handle) {}
  c10::OperatorHandle handle;
  std::string name; ///< with overload
  std::vector<c10::IValue> inputs;
};

namespace {

/// Composite operators that stay whole.
bool isKept(const std::string &name) {
  static const std::set<std::string> names = {
      "aten::linear", "aten::layer_norm", "aten::group_norm",
      "aten::batch_norm", "aten::scaled_dot_product_attention", "aten::conv1d",
      "aten::conv2d", "aten::conv3d", "aten::matmul", "aten::softmax.int",
      "aten::log_softmax.int",
      "aten::max_pool1d", // fills its result behind the dispatcher's back
      "aten::max_pool2d",
      // Check the factorisation's outcome and raise.
      "aten::linalg_inv", "aten::linalg_solve", "aten::linalg_cholesky",
      "aten::linalg_lu_factor", "aten::linalg_ldl_factor", "aten::inverse",
      "aten::adaptive_avg_pool3d", // restrides its result in place
      "aten::adaptive_avg_pool2d", "aten::rms_norm"};
  return names.count(name);
}

bool isEmptyFactory(const std::string &name) {
  return name.rfind("aten::empty", 0) == 0 ||
         name.rfind("aten::new_empty", 0) == 0;
}

bool isFactory(const std::string &name) {
  std::string base = name.substr(0, name.find('.'));
  return name.rfind("aten::new_", 0) == 0 ||
         (base.size() > 5 && base.compare(base.size() - 5, 5, "_like") == 0);
}

/// Answers about metadata: functions of what the tensor's guard covers. Any
/// other operator that hands out Python values reads data.
bool isQuestion(const std::string &name) {
  static const std::set<std::string> names = {
      "aten::is_same_size",
      "aten::is_set_to",
      "aten::is_pinned",
      "aten::_fused_sdp_choice",
      "aten::_use_cudnn_ctc_loss",
      "aten::_use_cudnn_ctc_loss.Tensor",
      "aten::_use_miopen_ctc_loss",
      "aten::_use_miopen_ctc_loss.Tensor",
      "aten::_has_same_storage_numel"};
  return names.count(name);
}

/// Operators whose result's shape follows from their operands' shapes. Of a
/// foreign library's operators nothing is known but these.
bool isShapeKnown(const std::string &name) {
  static const std::set<std::string> foreign = {
      "torchvision::roi_align", "torchvision::roi_pool",
      "torchvision::ps_roi_align", "torchvision::ps_roi_pool",
      "torchvision::deform_conv2d"};
  return name.rfind("aten::", 0) == 0 || name.rfind("prims::", 0) == 0 ||
         name.rfind("mkldnn::", 0) == 0 || foreign.count(name);
}

/// `squeeze_` and the like: the tensor becomes a view of what it was.
bool isShapeChange(const std::string &name) {
  static const std::set<std::string> names = {
      "aten::squeeze_",   "aten::squeeze_.dim", "aten::squeeze_.dims",
      "aten::unsqueeze_", "aten::transpose_",   "aten::t_"};
  return names.count(name);
}

bool has(const c10::IValue &tensor) {
  return tensor.isTensor() && tensor.toTensor().defined();
}

/// batch_norm in training mode writes its statistics, which no schema says.
bool isTrainingBatchNorm(const std::string &name,
                         const std::vector<c10::IValue> &inputs) {
  bool batchNorm = name == "aten::batch_norm" ||
                   name == "aten::native_batch_norm" ||
                   name == "aten::_batch_norm_impl_index" ||
                   name == "aten::cudnn_batch_norm";
  return batchNorm && inputs.size() > 5 && inputs[5].isBool() &&
         inputs[5].toBool() && (has(inputs[3]) || has(inputs[4]));
}

/// RReLU draws slopes in training only. In evaluation it is a leaky ReLU of
/// their mean, and its buffer for them is never filled.
void asLeakyRelu(std::optional<c10::OperatorHandle> &handle, std::string &name,
                 std::vector<c10::IValue> &inputs) {
  bool inplace = name == "aten::rrelu_with_noise_";
  if ((!inplace && name != "aten::rrelu_with_noise") || inputs.size() < 5 ||
      !inputs[4].isBool() || inputs[4].toBool() || !inputs[2].isScalar() ||
      !inputs[3].isScalar())
    return;
  double slope =
      (inputs[2].toScalar().toDouble() + inputs[3].toScalar().toDouble()) / 2;
  name = inplace ? "aten::leaky_relu_" : "aten::leaky_relu";
  inputs = {inputs[0], c10::IValue(slope)};
  handle = c10::Dispatcher::singleton().findSchema({name, ""});
}

const void *storageOf(const at::TensorBase &t) {
  return t.has_storage() ? t.storage().unsafeGetStorageImpl() : nullptr;
}

std::string wrappedText(const at::TensorBase &t) {
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

/// Collects the text of a call's arguments and the tensors among them.
struct Arguments {
  TensorRecorder::Impl &impl;
  std::vector<at::Tensor> operands;
  std::vector<TensorInfo *> infos;
  std::string types;
  std::string failure;

  std::string tensor(const at::Tensor &t) {
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
    operands.push_back(t);
    infos.push_back(info);
    types += (types.empty() ? "" : ", ") + impl.type(t);
    return "%" + std::to_string(info->value);
  }

  /// A lifted number: `form` is "wrapped" or "number".
  std::string number(PyObject *object, const char *form) {
    Scalars &scalars = impl.session.scalars;
    bool real = scalars.numberOf(object)->isFloat;
    int shadow = scalars.shadowOf(object);
    operands.emplace_back();
    if (shadow >= 0) {
      types += (types.empty() ? "" : ", ") +
               impl.session.tensors->shadowType(shadow);
      infos.push_back(nullptr);
      return std::string(form) + "(%" +
             std::to_string(impl.session.tensors->shadowValue(shadow)) + ")";
    }
    types += std::string(types.empty() ? "" : ", ") + "!refgraph.obj<\"" +
             (real ? "float" : "int") + "\">";
    infos.push_back(nullptr);
    return std::string(form) + "(%" + std::to_string(scalars.valueOf(object)) +
           ")";
  }

  /// An int, or a list of ints, some of which are lifted.
  std::string sizes(const c10::IValue &v,
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

  std::string text(const c10::IValue &v) {
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
};

/// The strides of dimensions of one included.
bool isRowMajor(const at::TensorBase &t) {
  int64_t expected = 1;
  for (int64_t d = t.dim(); d-- > 0;) {
    if (t.stride(d) != expected)
      return false;
    expected *= std::max<int64_t>(1, t.size(d));
  }
  return true;
}

/// The number that an argument is, as the dispatcher shows it.
bool toNumber(const c10::IValue &v, pyjit::rt::Number &number) {
  if (v.isInt())
    number = pyjit::rt::Number::of(int64_t(v.toInt()));
  else if (v.isDouble())
    number = pyjit::rt::Number::of(v.toDouble());
  else if (v.isTensor() && v.toTensor().defined() &&
           v.toTensor().unsafeGetTensorImpl()->is_wrapped_number() &&
           v.toTensor().dim() == 0 && v.toTensor().scalar_type() == at::kLong)
    number = pyjit::rt::Number::of(
        *static_cast<const int64_t *>(v.toTensor().const_data_ptr()));
  else if (v.isTensor() && v.toTensor().defined() &&
           v.toTensor().unsafeGetTensorImpl()->is_wrapped_number() &&
           v.toTensor().dim() == 0 && v.toTensor().scalar_type() == at::kDouble)
    number = pyjit::rt::Number::of(
        *static_cast<const double *>(v.toTensor().const_data_ptr()));
  else
    return false;
  return true;
}

/// Operators whose Python function hands its numbers on as they are, and whose
/// result's shape and type no number decides.
bool takesNumbers(const std::string &name) {
  static const std::set<std::string> names = {
      "add",         "sub",     "rsub",      "mul",        "div",
      "remainder",   "pow",     "lt",        "le",         "gt",
      "ge",          "eq",      "ne",        "clamp",      "clamp_min",
      "clamp_max",   "addcmul", "addcdiv",   "lerp",       "fill",
      "masked_fill", "full",    "full_like", "leaky_relu", "fmod",
      "floor_divide"};
  return names.count(name);
}

/// Which argument of an operator each lifted number of the running instruction
/// became: told by name, else by being the only one of that value.
std::vector<PyObject *> findLifted(Scalars &scalars,
                                   const std::string &overload,
                                   const c10::FunctionSchema &schema,
                                   const std::vector<c10::IValue> &inputs) {
  std::vector<PyObject *> lifted(inputs.size(), nullptr);
  Scalars::Use *use = scalars.use();
  if (!use || ++use->operators > 1 || use->composite)
    return lifted;
  std::string name = overload.substr(overload.find("::") + 2);
  name = name.substr(0, name.find('.'));
  if (!name.empty() && name.back() == '_')
    name.pop_back();
  bool same = name == use->name || (name == "rsub" && use->name == "sub");
  if (!same || !takesNumbers(name))
    return lifted;
  for (Scalars::Use::Argument &argument : use->arguments) {
    const pyjit::rt::Number &wanted = *scalars.numberOf(argument.number);
    std::vector<size_t> equal;
    for (size_t i = 0; i < inputs.size(); ++i) {
      pyjit::rt::Number number;
      if (!toNumber(inputs[i], number) || number.isFloat != wanted.isFloat ||
          number.bits() != wanted.bits())
        continue;
      const c10::Argument &formal = schema.arguments()[i];
      bool place = inputs[i].isTensor() ||
                   formal.real_type()->kind() == c10::TypeKind::NumberType;
      if (formal.real_type()->kind() == c10::TypeKind::OptionalType)
        place |= formal.real_type()
                     ->castRaw<c10::OptionalType>()
                     ->getElementType()
                     ->kind() == c10::TypeKind::NumberType;
      if (!argument.keyword.empty() && formal.name() != argument.keyword)
        continue;
      // `x + n` has an alpha of 1.
      if (argument.keyword.empty() && formal.name() == "alpha")
        continue;
      equal.push_back(place ? i : inputs.size());
    }
    if (equal.size() != 1 || equal[0] == inputs.size() || lifted[equal[0]])
      continue;
    // A negative power of an integer raises.
    if (name == "pow" && !wanted.isFloat)
      continue;
    lifted[equal[0]] = argument.number;
    argument.used = true;
  }
  return lifted;
}

/// Likewise for ints that are sizes, positions or numbers of elements: of each
/// argument, the lifted numbers among its elements.
std::vector<std::vector<PyObject *>>
findSizes(Scalars &scalars, const std::string &overload,
          const c10::FunctionSchema &schema,
          const std::vector<c10::IValue> &inputs) {
  std::vector<std::vector<PyObject *>> found(inputs.size());
  Scalars::Use *use = scalars.use();
  if (!use || !scalars.liftsSizes() || use->composite)
    return found;
  if (use->name == "getitem") {
    bool slice = overload == "aten::slice.Tensor";
    if ((!slice && overload != "aten::select.int") || !inputs[1].isInt())
      return found;
    auto [first, second] = scalars.findPart(overload, inputs[1].toInt());
    for (auto [number, i] : {std::pair(first, 2), std::pair(second, 3)}) {
      pyjit::rt::Number value;
      if (!number || !toNumber(inputs[i], value) ||
          value.bits() != scalars.numberOf(number)->bits())
        continue;
      found[i] = {number};
      scalars.noteUsed(number);
    }
    return found;
  }
  if (use->operators != 1)
    return found;
  std::string name = overload.substr(overload.find("::") + 2);
  name = name.substr(0, name.find('.'));
  static const std::set<std::string> lists = {
      "view",     "reshape",   "expand",    "repeat",
      "zeros",    "ones",      "empty",     "full",
      "rand",     "randn",     "new_zeros", "new_ones",
      "new_full", "new_empty", "unflatten", "split_with_sizes"};
  static const std::set<std::string> ints = {"arange", "topk", "split",
                                             "one_hot"};
  if (name != use->name &&
      !(name == "split_with_sizes" && use->name == "split"))
    return found;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (lists.count(name) && inputs[i].isIntList()) {
      std::vector<PyObject *> numbers =
          scalars.findInts(inputs[i].toIntVector());
      if (std::any_of(numbers.begin(), numbers.end(),
                      [](PyObject *number) { return number; }))
        found[i] = std::move(numbers);
    }
  if (!ints.count(name))
    return found;
  for (Scalars::Use::Argument &argument : use->arguments) {
    const pyjit::rt::Number &wanted = *scalars.numberOf(argument.number);
    std::vector<size_t> equal;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs[i].isInt() || wanted.isFloat ||
          inputs[i].toInt() != wanted.integer)
        continue;
      const std::string &formal = schema.arguments()[i].name();
      if (argument.keyword.empty() || formal == argument.keyword)
        equal.push_back(i);
    }
    if (equal.size() != 1 || !found[equal[0]].empty())
      continue;
    found[equal[0]] = {argument.number};
    argument.used = true;
  }
  return found;
}

void collectTensors(const c10::IValue &v, std::vector<at::Tensor> &out) {
  if (v.isTensor()) {
    if (v.toTensor().defined())
      out.push_back(v.toTensor());
  } else if (v.isList()) {
    for (const c10::IValue &element : v.toListRef())
      collectTensors(element, out);
  } else if (v.isTuple()) {
    for (const c10::IValue &element : v.toTupleRef().elements())
      collectTensors(element, out);
  }
}

bool holdsOtherThanTensors(const c10::IValue &v) {
  if (v.isTensor() || v.isNone())
    return false;
  if (v.isTensorList() || v.isOptionalTensorList())
    return false;
  return true;
}

std::string indexList(const std::vector<size_t> &list) {
  std::string text = "[";
  for (size_t i = 0; i < list.size(); ++i)
    text += (i ? ", " : "") + std::to_string(list[i]);
  return text + "]";
}

/// A number becomes one of this type, which eager checks.
void keepWithin(Scalars &scalars, PyObject *number, at::ScalarType type) {
  auto within = [&](double lowest, double highest) {
    scalars.keepWithin(number, lowest, highest);
  };
  switch (type) {
  case at::kHalf:
    return within(-65504, 65504);
  case at::kBFloat16:
    return within(-3.3895313892515355e38, 3.3895313892515355e38);
  case at::kFloat:
    if (PyFloat_Check(number))
      within(-3.4028234663852886e38, 3.4028234663852886e38);
    return;
  case at::kByte:
    return within(-255, 255);
  case at::kChar:
    return within(-128, 127);
  case at::kShort:
    return within(-32768, 32767);
  case at::kInt:
    return within(-2147483648.0, 2147483647.0);
  default:
    return;
  }
}

/// What a program leaves unwritten of memory that it asked for may hold
/// anything: zeros do, and then it may be written in parts, by indices or
/// masks. Memory that operators ask for is another matter: they may fill it
/// out of the dispatcher's sight.
void fillEmpty(std::string &name, const std::vector<c10::IValue> &inputs,
               std::string &text) {
  if (at::globalContext().deterministicAlgorithms())
    return; // filled by eager
  if (name == "aten::new_empty") {
    name = "aten::new_zeros";
  } else if (name == "aten::empty_like") {
    name = "aten::zeros_like";
  } else if (name == "aten::empty.memory_format" && inputs.back().isNone() &&
             text.size() > 6 && !text.compare(text.size() - 6, 6, ", none")) {
    name = "aten::zeros";
    text.resize(text.size() - 6);
  }
}

/// Operators run without the interpreter's lock.
struct HoldLock {
  PyGILState_STATE state = PyGILState_Ensure();
  ~HoldLock() { PyGILState_Release(state); }
};

} // namespace

std::unique_ptr<at::ObserverContext>
TensorRecorder::Impl::begin(const at::RecordFunction &fn) {
  if (session.ended() || suspended || session.deciding || depth > 0)
    return nullptr;
  auto operatorName = fn.operator_name();
  if (!operatorName)
    return nullptr;
  auto handle = c10::Dispatcher::singleton().findSchema(*operatorName);
  if (!handle)
    return nullptr;
  std::string name = operatorName->name;
  if (!operatorName->overload_name.empty())
    name += "." + operatorName->overload_name;
  auto inputs = fn.inputs();
  std::vector<c10::IValue> copies(inputs.begin(), inputs.end());
  asLeakyRelu(handle, name, copies);
  bool training = isTrainingBatchNorm(name, copies);
  bool composite = handle->hasKernelForDispatchKey(
      c10::DispatchKey::CompositeImplicitAutograd);
  // With a number of classes given, the result's shape follows from it.
  bool oneHot = name == "aten::one_hot" && copies.size() == 2 &&
                copies[1].isInt() && copies[1].toInt() > 0;
  if (composite &&
      (!(isKept(name) || oneHot || session.scalars.keepsWhole(name)) ||
       training)) {
    if (Scalars::Use *use = session.scalars.use())
      use->composite = true;
    if (session.scalars.liftsSizes()) {
      HoldLock lock;
      session.scalars.composite(name, copies);
    }
    return nullptr; // its parts are recorded
  }
  // Autocast casts the operands and calls the operator again.
  if (!c10::impl::tls_is_dispatch_key_excluded(c10::DispatchKey::AutocastCPU) &&
      handle->hasKernelForDispatchKey(c10::DispatchKey::AutocastCPU))
    return nullptr;
  if (training) {
    HoldLock lock;
    session.end("batch_norm in training mode updates its statistics");
    return nullptr;
  }
  auto operation = std::make_unique<Operation>(*handle);
  operation->name = std::move(name);
  operation->inputs = std::move(copies);
  ++depth;
  return operation;
}

void TensorRecorder::Impl::end(const at::RecordFunction &fn,
                               Operation &operation) {
  --depth;
  if (session.ended() || suspended)
    return;
  HoldLock lock;
  record(fn, operation);
}

void TensorRecorder::Impl::record(const at::RecordFunction &fn, Operation &op) {
  const c10::FunctionSchema &schema = op.handle.schema();
  const std::vector<c10::IValue> &outputs = fn.outputs();
  if (outputs.size() != schema.returns().size())
    return; // it raised
  auto refuse = [&](const std::string &why) {
    session.end("operator " + op.name + ": " + why);
  };

  // `x[i] = 2.0` fills a tensor of the number behind the dispatcher's back.
  if (op.name == "aten::lift_fresh" && session.storingNumber &&
      op.inputs[0].isTensor() && op.inputs[0].toTensor().dim() == 0 &&
      !find(op.inputs[0].toTensor()))
    constant(op.inputs[0].toTensor());

  // So do lists between a tensor's brackets.
  if (session.numbersAsTensors && op.name.rfind("aten::index", 0) == 0 &&
      op.inputs.size() > 1 && op.inputs[1].isList())
    for (const c10::IValue &index : op.inputs[1].toListRef())
      if (has(index)) {
        TensorInfo *info = find(index.toTensor());
        if (!info || info->uninitialized)
          constant(index.toTensor());
      }

  Arguments arguments{*this, {}, {}, "", ""};
  std::string text;
  std::vector<size_t> mutated, aliasOperands;
  std::vector<PyObject *> lifted =
      findLifted(session.scalars, op.name, schema, op.inputs);
  std::vector<std::vector<PyObject *>> sizes =
      findSizes(session.scalars, op.name, schema, op.inputs);
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    size_t first = arguments.operands.size();
    text += i ? ", " : "";
    if (!sizes[i].empty()) {
      text += arguments.sizes(op.inputs[i], sizes[i]);
      continue;
    }
    text += lifted[i]
                ? arguments.number(
                      lifted[i], op.inputs[i].isTensor() ? "wrapped" : "number")
                : arguments.text(op.inputs[i]);
    if (i >= schema.arguments().size())
      continue;
    const c10::AliasInfo *alias = schema.arguments()[i].alias_info();
    for (size_t j = first; alias && j < arguments.operands.size(); ++j)
      (alias->isWrite() ? mutated : aliasOperands).push_back(j);
  }

  for (size_t i = 0; i < op.inputs.size(); ++i)
    if (lifted[i] && !op.inputs[i].isTensor() && !outputs.empty() &&
        outputs[0].isTensor())
      keepWithin(session.scalars, lifted[i],
                 outputs[0].toTensor().scalar_type());

  if (session.makesEmpty)
    fillEmpty(op.name, op.inputs, text);

  // Values that flow back into Python.
  bool other = false;
  for (const c10::IValue &output : outputs)
    other |= holdsOtherThanTensors(output);
  bool constant = true;
  for (TensorInfo *info : arguments.infos)
    constant &= info && info->constant;
  bool dataDependent = op.handle.hasTag(at::Tag::data_dependent_output);
  bool dynamicShape = op.handle.hasTag(at::Tag::dynamic_output_shape);
  if (op.name.rfind("aten::index.", 0) == 0 ||
      op.name.rfind("aten::index_put", 0) == 0) {
    // Only masks make the result's shape depend on data.
    dynamicShape = false;
    for (size_t j = 1; j < arguments.operands.size(); ++j) {
      at::ScalarType type = arguments.operands[j].scalar_type();
      dynamicShape |=
          op.name[11] == '.' && (type == at::kBool || type == at::kByte);
    }
  }
  if (op.name == "aten::one_hot") // with a number of classes given
    dynamicShape = false;
  if ((dataDependent || dynamicShape) && !constant)
    return refuse(dataDependent ? "its tensor's data flows into Python"
                                : "the result's shape depends on data");
  if (other && mutated.empty()) {
    if (!constant && !isQuestion(op.name))
      return refuse("its tensor's data flows into Python");
    session.scalars.composite(op.name, op.inputs);
    return;
  }
  if (!isShapeKnown(op.name))
    return refuse("nothing is known about it");
  if (!arguments.failure.empty())
    return refuse(arguments.failure);
  // The launch program draws from the same generator in the same order.
  if (op.handle.hasTag(at::Tag::nondeterministic_seeded))
    constant = false;
  if (other || outputs.empty())
    return refuse("results other than tensors");

  // It counts from the start of the storage, and how far into its storage an
  // input begins may differ between calls.
  if (op.name.rfind("aten::as_strided", 0) == 0 && !arguments.operands.empty())
    for (auto &entry : tensors)
      if (entry.second.external &&
          storageOf(at::TensorBase(entry.second.impl)) ==
              storageOf(arguments.operands[0]))
        return refuse("it views an input's storage");

  // Autocast turns grad mode on for the casts of weights that it keeps.
  bool gradient =
      c10::GradMode::is_enabled() &&
      !(op.name == "aten::_to_copy" &&
        at::autocast::is_autocast_enabled(at::kCPU) &&
        c10::impl::tls_is_dispatch_key_excluded(c10::DispatchKey::AutocastCPU));
  for (size_t j = 0; j < arguments.operands.size(); ++j) {
    const at::Tensor &t = arguments.operands[j];
    if (!arguments.infos[j])
      continue; // a number
    if (gradient && t.requires_grad())
      return session.endWhole("operator " + op.name +
                              ": grad mode is on and an input requires grad");
    if (const char *why = unsupportedTensor(t))
      return session.endWhole("operator " + op.name + ": " + why);
    bool writes = std::find(mutated.begin(), mutated.end(), j) != mutated.end();
    if (arguments.infos[j]->uninitialized && !writes && aliasOperands.empty())
      return refuse("it reads memory that no operator has filled");
    if (writes && (mayOverlap(t) || arguments.infos[j]->readOnly))
      return refuse("it writes through a view that shows an element twice, or "
                    "that no kernel can write");
    if (writes && type(t) != arguments.infos[j]->type &&
        !(isShapeChange(op.name) && !arguments.infos[j]->external))
      return refuse("it changes the shape of a tensor in place");
  }

  if (isShapeChange(op.name) && mutated == std::vector<size_t>{0} &&
      arguments.operands.size() == 1 && !arguments.infos[0]->external)
    return recordShapeChange(op.name, text, arguments.operands[0],
                             arguments.infos[0]->type);

  // Fresh results: not the very operand that went in.
  std::vector<at::Tensor> returned, fresh;
  for (const c10::IValue &output : outputs)
    collectTensors(output, returned);
  for (const at::Tensor &t : returned) {
    bool isOperand = false;
    for (const at::Tensor &operand : arguments.operands)
      isOperand |= operand.defined() && operand.is_same(t);
    if (isOperand)
      continue;
    if (const char *why = unsupportedTensor(t))
      return refuse(why);
    fresh.push_back(t);
  }
  if (fresh.empty() && mutated.empty())
    return;

  std::vector<size_t> aliases;
  std::set<const void *> freshStorages;
  for (const at::Tensor &t : fresh)
    if (storageOf(t))
      freshStorages.insert(storageOf(t));
  auto collectAliases = [&](const std::vector<size_t> *among) {
    for (size_t j = 0; j < arguments.operands.size(); ++j) {
      bool candidate =
          !among || std::find(among->begin(), among->end(), j) != among->end();
      if (candidate && arguments.infos[j] &&
          freshStorages.count(storageOf(arguments.operands[j])))
        aliases.push_back(j);
    }
  };
  collectAliases(&aliasOperands);
  if (aliases.empty())
    collectAliases(nullptr);
  // A view with another element type becomes a copy; see convertRetyped.
  for (size_t j : aliases) {
    const at::Tensor &source = arguments.operands[j];
    if (fresh[0].scalar_type() == source.scalar_type())
      continue;
    if (fresh.size() != 1 || !isRowMajor(fresh[0]) ||
        (op.name != "aten::view_as_real" &&
         op.name != "aten::view_as_complex" && op.name != "aten::view.dtype"))
      return refuse("its result shows memory as numbers of another type");
    retypedStorages.emplace(storageOf(source), op.name);
    for (auto &entry : tensors)
      if (entry.second.external && entry.second.value >= 0 &&
          entry.first->has_storage() &&
          entry.first->unsafe_storage().unsafeGetStorageImpl() ==
              storageOf(source))
        readOffset(at::TensorBase(entry.second.impl), entry.second.value);
  }
  bool uninitialized = isEmptyFactory(op.name);
  bool readOnly = !aliases.empty() &&
                  (op.name == "aten::unfold" || op.name == "aten::as_strided");
  for (size_t j : aliases) {
    uninitialized |= arguments.infos[j]->uninitialized;
    readOnly |= arguments.infos[j]->readOnly ||
                mayOverlap(arguments.operands[j]) ||
                arguments.operands[j].is_complex();
  }

  std::string results, resultTypes, offsets;
  std::vector<int> values;
  bool anyOffset = false;
  size_t count = fresh.size() + mutated.size();
  for (size_t i = 0; i < count; ++i) {
    const at::Tensor &t = i < fresh.size()
                              ? fresh[i]
                              : arguments.operands[mutated[i - fresh.size()]];
    values.push_back(session.writer.fresh());
    results += (i ? ", %" : "%") + std::to_string(values.back());
    resultTypes += (i ? ", " : "") + type(t);
    if (i < fresh.size()) {
      offsets += (i ? ", " : "") + std::to_string(t.storage_offset());
      anyOffset |= t.storage_offset() != 0;
    }
  }
  std::string line = results + " = refgraph.tensor_op " +
                     pyjit::capture::quoted(op.name) + "(" + text + ")";
  if (!mutated.empty())
    line += " mutates " + indexList(mutated);
  if (!aliases.empty())
    line += " aliases " + indexList(aliases);
  if (anyOffset)
    line += " {offsets = array<i64: " + offsets + ">}";
  line += " : (" + arguments.types + ") -> " +
          (count == 1 ? resultTypes : "(" + resultTypes + ")");
  session.writer.line(line, session.location());

  for (size_t i = 0; i < fresh.size(); ++i) {
    TensorInfo &info = bind(fresh[i], values[i]);
    info.external = false;
    info.constant = constant && !uninitialized;
    info.uninitialized = uninitialized && fresh[i].numel() > 0;
    info.readOnly = readOnly;
    if (std::none_of(arguments.infos.begin(), arguments.infos.end(),
                     [](TensorInfo *operand) { return operand; }) ||
        isFactory(op.name))
      factories.push_back(fresh[i].unsafeGetTensorImpl());
  }
  for (size_t i = 0; i < mutated.size(); ++i) {
    const at::Tensor &t = arguments.operands[mutated[i]];
    bind(t, values[fresh.size() + i]);
    const void *storage = storageOf(t);
    writtenStorages.emplace(storage, op.name);
    // Whatever shows this memory holds what was written.
    for (auto &entry : tensors) {
      if (entry.first->has_storage() &&
          entry.first->unsafe_storage().unsafeGetStorageImpl() == storage) {
        entry.second.uninitialized = false;
        entry.second.constant &= constant;
      }
    }
  }
}

/// The tensor's next version is a view of the last.
void TensorRecorder::Impl::recordShapeChange(const std::string &name,
                                             const std::string &arguments,
                                             const at::Tensor &t,
                                             std::string before) {
  std::string view = name;
  view.erase(view.find('_', view.find("::") + 2), 1);
  int value = session.writer.fresh();
  std::string line = "%" + std::to_string(value) + " = refgraph.tensor_op " +
                     pyjit::capture::quoted(view) + "(" + arguments +
                     ") aliases [0]";
  if (t.storage_offset())
    line +=
        " {offsets = array<i64: " + std::to_string(t.storage_offset()) + ">}";
  line += " : (" + before + ") -> " + type(t);
  session.writer.line(line, session.location());
  bind(t, value);
}

bool TensorRecorder::isOperator(const std::string &name) {
  static const std::set<std::string> *names = [] {
    auto *all = new std::set<std::string>;
    for (const c10::OperatorName &op :
         c10::Dispatcher::singleton().getAllOpNames())
      all->insert(op.name);
    return all;
  }();
  return names->count(name);
}

void TensorRecorder::start() {
  impl->callback = at::addThreadLocalCallback(
      at::RecordFunctionCallback(
          [](const at::RecordFunction &fn)
              -> std::unique_ptr<at::ObserverContext> {
            Session *session = Session::current;
            return session ? session->tensors->impl->begin(fn) : nullptr;
          },
          [](const at::RecordFunction &fn, at::ObserverContext *context) {
            Session *session = Session::current;
            if (session && context)
              session->tensors->impl->end(
                  fn, *static_cast<Impl::Operation *>(context));
          })
          .needsInputs(true)
          .needsOutputs(true)
          .scopes({at::RecordScope::FUNCTION}));
  impl->watching = true;
}

void TensorRecorder::stop() {
  if (impl->watching)
    at::removeCallback(impl->callback);
  impl->watching = false;
}
