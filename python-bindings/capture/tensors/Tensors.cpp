//===- Tensors.cpp - What is known of the call's tensors ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "builtins/Natives.h"
#include "pyjit-c/Operators.h"
#include "tensors/Gradients.h"
#include "tensors/TensorImpl.h"
#include "tensors/TensorObject.h"
#include "tensors/Wrappers.h"

#include <ATen/SavedTensorHooks.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <cstring>

using namespace pyjit::capture;

PyjitElement pyjit::capture::elementOf(at::ScalarType type) {
  switch (type) {
  case at::kHalf:
    return PyjitElementF16;
  case at::kBFloat16:
    return PyjitElementBF16;
  case at::kFloat:
    return PyjitElementF32;
  case at::kDouble:
    return PyjitElementF64;
  case at::kChar:
    return PyjitElementI8;
  case at::kShort:
    return PyjitElementI16;
  case at::kInt:
    return PyjitElementI32;
  case at::kLong:
    return PyjitElementI64;
  case at::kByte:
    return PyjitElementUI8;
  case at::kBool:
    return PyjitElementBool;
  case at::kComplexFloat:
    return PyjitElementC64;
  case at::kComplexDouble:
    return PyjitElementC128;
  default:
    return PyjitElementNone;
  }
}

const char *pyjit::capture::unsupportedTensor(const at::TensorBase &t,
                                              bool pending) {
  if (!t.defined())
    return "an undefined tensor";
  // A nested tensor calls itself strided, and throws when asked for its sizes.
  if (t.layout() != at::kStrided || t.unsafeGetTensorImpl()->is_nested())
    return "a tensor that is not strided";
  if (t.device().type() != at::kCPU && t.device().type() != at::kCUDA)
    return "a tensor that is neither on the CPU nor on a CUDA device";
  if (t.is_quantized() || elementOf(t.scalar_type()) == PyjitElementNone)
    return "a tensor of an unusual dtype";
  if (!pending && (t.is_conj() || t.is_neg()))
    return "a tensor with a pending conjugation or negation";
  auto *impl = t.unsafeGetTensorImpl();
  if (impl->has_named_tensor_meta() && impl->named_tensor_meta())
    return "a tensor with named dimensions";
  if (impl->is_python_dispatch() || impl->has_symbolic_sizes_strides())
    return "a tensor subclass";
  // `.data` of an inference tensor was set: it is none any more, and yet
  // writes to it are not counted.
  if (!t.is_inference() && !impl->version_counter().enabled())
    return "a tensor of inference mode that shows other data";
  c10::DispatchKeySet keys = t.key_set();
  if (keys.has(c10::DispatchKey::FuncTorchBatched) ||
      keys.has(c10::DispatchKey::FuncTorchGradWrapper) ||
      keys.has(c10::DispatchKey::Functionalize) ||
      keys.has(c10::DispatchKey::ZeroTensor))
    return "a tensor of a transform (functorch, functionalization)";
  return nullptr;
}

TensorRecorder::TensorRecorder(Recording &recording)
    : impl(std::make_unique<Impl>(recording)) {}

TensorRecorder::~TensorRecorder() { stop(); }

bool TensorRecorder::isTensor(PyObject *object) {
  return isTensorObject(object);
}

TensorInfo *TensorRecorder::Impl::find(const at::TensorBase &shown) {
  const at::TensorBase &tensor = plainTensor(shown);
  auto it = tensors.find(tensor.unsafeGetTensorImpl());
  if (it != tensors.end())
    return &it->second;
  if (!tensor.has_storage() || !tensor.storage().unsafeGetStorageImpl())
    return nullptr;
  for (c10::TensorImpl *factory : factories) {
    TensorInfo &made = tensors[factory];
    if (factory->unsafe_storage().unsafeGetStorageImpl() !=
            tensor.storage().unsafeGetStorageImpl() ||
        factory->storage_offset() != tensor.storage_offset() ||
        made.type != type(tensor))
      continue;
    TensorInfo copy = made;
    copy.impl = tensor.getIntrusivePtr();
    return &(tensors[tensor.unsafeGetTensorImpl()] = copy);
  }
  return nullptr;
}

PyjitType TensorRecorder::Impl::type(const at::TensorBase &t) {
  return recording.writer.tensor(t.sizes().data(), t.strides().data(),
                                 size_t(t.dim()), elementOf(t.scalar_type()),
                                 t.device().str());
}

/// Of a result that a mask leaves out, beside these: no elements.
static PyjitType typeOfNone(TraceWriter &writer,
                            const std::vector<at::Tensor> &results) {
  static constexpr int64_t kSize = 0, kStride = 1;
  auto shown = std::find_if(results.begin(), results.end(),
                            [](const at::Tensor &t) { return t.defined(); });
  return writer.tensor(&kSize, &kStride, 1, elementOf(shown->scalar_type()),
                       shown->device().str());
}

PyjitValue TensorRecorder::Impl::add(const OperatorCall &call,
                                     const std::vector<at::Tensor> &results) {
  std::vector<PyjitType> types;
  std::vector<int64_t> offsets;
  for (const at::Tensor &t : results) {
    types.push_back(t.defined() ? type(t)
                                : typeOfNone(recording.writer, results));
    // The written ones come last, and are where they were.
    if (types.size() + call.mutates.size() <= results.size())
      offsets.push_back(t.defined() ? t.storage_offset() : 0);
  }
  if (std::none_of(offsets.begin(), offsets.end(),
                   [](int64_t offset) { return offset; }))
    offsets.clear();
  return add(call, types, offsets);
}

PyjitValue TensorRecorder::Impl::add(const OperatorCall &call,
                                     const std::vector<PyjitType> &types,
                                     const std::vector<int64_t> &offsets) {
  ++recording.writer.amount.operators;
  return recording.add(
      PyjitTensorOp{.overload = view(call.overload),
                    .inputs = view(call.operands),
                    .args = recording.writer.list(call.arguments),
                    .aliases = view(call.aliases),
                    .mutates = view(call.mutates),
                    .offsets = view(offsets),
                    .noGrad = call.noGrad,
                    .kernel = call.kernel ? view(call.kernel) : PyjitString{},
                    .resultTypes = view(types)});
}

PyjitValue TensorRecorder::Impl::addNumber(PyjitValue value,
                                           const at::Tensor &result) {
  TraceWriter &writer = recording.writer;
  OperatorCall call;
  call.overload = operators::aten::full;
  call.operands = {value};
  call.arguments = {writer.list({}),
                    writer.number(PyjitNumberScalar),
                    writer.integer(int(result.scalar_type())),
                    writer.none(),
                    writer.device(result.device().str()),
                    writer.none()};
  return add(call, {result});
}

PyjitValue TensorRecorder::Impl::addDetach(PyjitValue source,
                                           const at::Tensor &result,
                                           bool noGrad) {
  OperatorCall call;
  call.overload = operators::aten::detach;
  call.operands = {source};
  call.arguments = {recording.writer.operand()};
  call.aliases = {0};
  call.noGrad = noGrad;
  return add(call, {result});
}

TensorInfo &TensorRecorder::Impl::bind(const at::TensorBase &tensor,
                                       int value) {
  TensorInfo &info = tensors[tensor.unsafeGetTensorImpl()];
  if (!info.impl)
    info.impl = tensor.getIntrusivePtr();
  info.value = value;
  info.type = type(tensor);
  info.isComputed = gradientOf(tensor) == Gradient::Computed;
  return info;
}

/// A class whose tensors PyTorch takes for tensors like any others.
static bool isPlainSubclass(Recording &s, PyTypeObject *cls) {
  static PyObject *disabled =
      findObject("torch._C:_disabled_torch_function_impl");
  return disabled &&
         s.attributes.typeLookup(cls, "__torch_function__") == disabled;
}

bool TensorRecorder::describe(PyObject *object, PyjitGetOp &get) {
  const at::Tensor &t = THPVariable_Unpack(object);
  PyTypeObject *cls = Py_TYPE(object);
  static PyObject *parameterClass = findObject("torch.nn:Parameter");
  bool isParameter = reinterpret_cast<PyObject *>(cls) == parameterClass;
  if (reinterpret_cast<PyObject *>(cls) != THPVariableClass && !isParameter &&
      !isPlainSubclass(impl->recording, cls)) {
    impl->recording.endWhole(ReasonKind::TensorKind,
                             "a tensor of class " + std::string(cls->tp_name));
    return false;
  }
  if (const char *why = unsupportedTensor(t)) {
    impl->recording.endWhole(ReasonKind::TensorKind, why);
    return false;
  }
  get.resultType = impl->type(t);
  // As it was when the call began.
  get.requiresGrad = {true, t.requires_grad() || impl->earlier.frozen.is(t)};
  get.keyset = some(int64_t(t.key_set().raw_repr()));
  if (t.storage_offset())
    get.offset = some(t.storage_offset());
  get.inference = t.is_inference();
  // However the call comes by it: a step's optimizer reads it before the model.
  get.param = isParameter;
  impl->recording.writer.amount.weights += isParameter;
  return true;
}

PyjitType TensorRecorder::irType(PyObject *object) {
  // A nested tensor throws when asked for its sizes; it is only passed on.
  if (!hasStrides(object))
    return impl->recording.writer.object("torch.Tensor");
  return impl->type(THPVariable_Unpack(object));
}

int TensorRecorder::valueOf(PyObject *object) {
  TensorInfo *info = impl->find(THPVariable_Unpack(object));
  return info ? info->value : -1;
}

void TensorRecorder::bindExternal(PyObject *object, int value) {
  const at::Tensor &t = THPVariable_Unpack(object);
  TensorInfo &info = impl->bind(t, value);
  if (!info.external)
    info.version = versionOf(t);
  info.external = true;
}

bool TensorRecorder::isConstant(PyObject *object) {
  TensorInfo *info = impl->find(THPVariable_Unpack(object));
  return info && info->constant;
}

bool TensorRecorder::isUninitialized(PyObject *object) {
  TensorInfo *info = impl->find(THPVariable_Unpack(object));
  return info && info->uninitialized;
}

bool TensorRecorder::stateOf(PyObject *object, std::string &text,
                             bool &external) {
  const at::Tensor &t = THPVariable_Unpack(object);
  TensorInfo *info = impl->find(t);
  if (!info || info->value < 0 || info->uninitialized || unsupportedTensor(t))
    return false;
  external = info->external;
  text = " " + textOf(impl->type(t)) + " " + Py_TYPE(object)->tp_name + " " +
         std::to_string(t.key_set().raw_repr()) + " " +
         std::to_string(t.storage_offset()) +
         (t.requires_grad() ? " grad" : "") + (info->readOnly ? " read" : "");
  // Data of constants may flow into Python: the very same one.
  if (info->constant)
    text += " constant " + std::to_string(info->value);
  return true;
}

int TensorRecorder::truthOf(PyObject *object) {
  const at::Tensor &t = THPVariable_Unpack(object);
  if (t.numel() != 1)
    return -1;
  at::DisableRecordFunctionGuard unseen;
  try {
    return t.is_nonzero();
  } catch (const std::exception &) {
    return -1;
  }
}

void TensorRecorder::suspend(bool on) { impl->suspended = on; }
bool TensorRecorder::suspended() const { return impl->suspended; }

bool TensorRecorder::hasStrides(PyObject *object) {
  const at::Tensor &t = THPVariable_Unpack(object);
  return t.layout() == at::kStrided && !t.unsafeGetTensorImpl()->is_nested();
}

bool TensorRecorder::requiresGrad(PyObject *object) {
  return THPVariable_Unpack(object).requires_grad();
}

bool pyjit::capture::isTransformed(PyObject *tensor) {
  return isWrapper(THPVariable_Unpack(tensor));
}

bool pyjit::capture::mightGoForward(const Recording &recording) {
  return recording.tensors->impl->state.forwardGrad;
}

bool pyjit::capture::guardHooks(Recording &recording) {
  TensorRecorder::Impl &impl = *recording.tensors->impl;
  if (!impl.state.savesTensorsPlainly)
    return false;
  if (!std::exchange(impl.earlier.hooksGuarded, true))
    recording.add(PyjitStateOp{
        .values = recording.writer.state("saved_tensor_hooks", false)});
  return true;
}

bool TensorRecorder::gradientFlows() const { return impl->gradientFlows; }

bool TensorRecorder::leaves(PyObject *object) {
  const at::Tensor &t = THPVariable_Unpack(object);
  if (std::none_of(impl->leaving.begin(), impl->leaving.end(),
                   [&](const at::Tensor &known) { return known.is_same(t); }))
    impl->leaving.push_back(t);
  // What was there before the call is what it is, and so are its views.
  for (auto &entry : impl->tensors)
    if (entry.second.external && entry.first->has_storage() &&
        t.has_storage() &&
        entry.first->unsafe_storage().unsafeGetStorageImpl() ==
            t.storage().unsafeGetStorageImpl())
      return true;
  int mode = t.is_inference();
  if (impl->leavingMode >= 0 && impl->leavingMode != mode)
    return false;
  impl->leavingMode = mode;
  return true;
}

bool pyjit::capture::savesThroughHooks() {
  return !at::SavedTensorDefaultHooks::get_tls_state().stack.empty();
}

void TensorRecorder::setCheckpointed(bool on) {
  impl->checkpointedFrom = -1;
  if (!on)
    return;
  impl->earlier.checkpointed = true;
  impl->checkpointedFrom = 0;
  for (auto &entry : impl->tensors)
    impl->checkpointedFrom =
        std::max(impl->checkpointedFrom, int(entry.second.value) + 1);
}

bool pyjit::capture::wasThereBefore(const TensorRecorder::Impl &impl,
                                    const at::TensorBase &t) {
  int from = impl.checkpointedFrom;
  if (from < 0 || !t.has_storage())
    return false;
  return std::any_of(
      impl.tensors.begin(), impl.tensors.end(), [&](const auto &entry) {
        return (entry.second.external || entry.second.value < from) &&
               entry.first->has_storage() &&
               entry.first->unsafe_storage().is_alias_of(t.storage());
      });
}

bool TensorRecorder::gradMode() { return c10::GradMode::is_enabled(); }

bool TensorRecorder::isKeptCast(PyObject *object) {
  return impl->casts.isMemoryOf(THPVariable_Unpack(object));
}

bool TensorRecorder::castsOutlast() const { return impl->casts.outlast(); }

void TensorRecorder::readOffset(PyObject *object) {
  impl->readOffset(THPVariable_Unpack(object), valueOf(object));
}

void TensorRecorder::Impl::readOffset(const at::TensorBase &t, int value) {
  recording.add(PyjitOffsetOp{.tensor = value, .offset = t.storage_offset()});
}

void TensorRecorder::bindConstant(PyObject *object) {
  if (isTensor(object) && valueOf(object) < 0)
    impl->constant(plainTensor(THPVariable_Unpack(object)));
}

void TensorRecorder::bindData(PyObject *object, PyObject *of) {
  Recording &s = impl->recording;
  if (!isTensor(object) || s.ended())
    return;
  const at::Tensor &t = THPVariable_Unpack(object);
  const at::Tensor &from = THPVariable_Unpack(of);
  TensorInfo *found = impl->find(from);
  if (!found || found->value < 0 || unsupportedTensor(t) ||
      impl->type(t) != impl->type(from))
    return s.end(ReasonKind::TensorAttribute, "tensor attribute data");
  TensorInfo source = *found;
  bool noGrad = impl->state.gradMode && from.requires_grad();
  TensorInfo &info = impl->bind(t, impl->addDetach(source.value, t, noGrad));
  info.constant = source.constant;
  info.uninitialized = source.uninitialized;
  info.readOnly = source.readOnly;
  info.data = info.impl.get();
}

bool TensorRecorder::showsData(PyObject *object) {
  TensorInfo *info = impl->find(THPVariable_Unpack(object));
  return info && info->data && info->data != info->impl.get() &&
         !info->external;
}

void pyjit::capture::noteSite(Recording &recording, const at::Tensor &tensor) {
  PyObject *object = THPVariable_Wrap(tensor);
  recording.objects.keep(object);
  recording.breaks.noteSite(object);
  Py_DECREF(object);
}

/// The object of an equal number, or -1: each layer makes its own
/// `torch.tensor(8.0)`, and each would be an input.
int TensorRecorder::Impl::findConstant(const at::Tensor &copy,
                                       PyjitType type) const {
  for (const Constant &known : constants)
    if (known.type == type && !copy.dim() && copy.device().is_cpu() &&
        !std::memcmp(known.copy.const_data_ptr(), copy.const_data_ptr(),
                     copy.nbytes()))
      return known.root;
  return -1;
}

/// The elements of a few indices: what follows from them is found out when the
/// specialization is compiled.
static std::vector<int64_t> heldBy(const at::Tensor &copy) {
  constexpr int64_t kFew = 16;
  if (copy.scalar_type() != at::kLong || !copy.device().is_cpu() ||
      copy.dim() == 0 || copy.numel() == 0 || copy.numel() > kFew)
    return {};
  at::Tensor flat(plainTensor(copy.contiguous()));
  auto *elements = static_cast<const int64_t *>(flat.const_data_ptr());
  return {elements, elements + flat.numel()};
}

/// The specialization keeps a copy of its own: the program may write to the
/// tensor.
TensorInfo *TensorRecorder::Impl::constant(const at::TensorBase &tensor) {
  Recording &s = recording;
  at::Tensor t(tensor);
  if (const char *why = unsupportedTensor(t)) {
    s.end(ReasonKind::TensorKind, why);
    return nullptr;
  }
  bool was = suspended;
  suspended = true;
  // Within a transform it gets a wrapper.
  at::Tensor copy(plainTensor(t.detach().clone()));
  PyObject *wrapped = THPVariable_Wrap(copy);
  std::vector<int64_t> held = heldBy(copy);
  suspended = was;
  PyjitType type = this->type(t);
  PyjitValue root = findConstant(copy, type);
  if (root < 0) {
    int index = int(PyList_GET_SIZE(s.objects.list));
    PyList_Append(s.objects.list, wrapped);
    root = s.add(PyjitObjectOp{.index = index,
                               .hint = view("constant tensor"),
                               .holds = view(held),
                               .resultType = type});
    if (copy.dim() == 0)
      constants.push_back({copy, type, root});
  }
  Py_DECREF(wrapped);
  OperatorCall call;
  call.overload = operators::aten::clone;
  call.operands = {root};
  call.arguments = {s.writer.operand(), s.writer.none()};
  TensorInfo &info = bind(t, add(call, {t}));
  info.constant = true;
  info.uninitialized = false;
  return &info;
}
