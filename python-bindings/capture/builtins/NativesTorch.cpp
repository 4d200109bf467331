//===- NativesTorch.cpp - Torch's native functions ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Most of them only call operators, and the dispatcher shows those. What moves
// tensor data into Python, makes tensors of Python data or changes a tensor
// behind the dispatcher's back is told apart by name, before the rest is let
// through.
//
//===----------------------------------------------------------------------===//

#include "builtins/Natives.h"
#include "tensors/FrozenLeaves.h"
#include "tensors/Tensors.h"

#include <algorithm>
#include <cstring>

using namespace pyjit::capture;

void Calls::tensorArgument(PyObject *o, int depth) {
  if (s.dead || isValue(o))
    return;
  if (!s.objects.require(o))
    return;
  if (ObjectTable::isTensor(o) || isNumpyNumber(o))
    return;
  if ((PyTuple_Check(o) || PyList_Check(o)) && depth < 5) {
    s.containers.readAll(o);
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); ++i)
      tensorArgument(PySequence_Fast_GET_ITEM(o, i), depth + 1);
    return;
  }
  static const std::set<std::string> fine = {
      "torch.dtype", "torch.device", "torch.layout", "torch.memory_format",
      "ellipsis",    "slice",        "torch.Size"};
  if (fine.count(Py_TYPE(o)->tp_name))
    return;
  if (PyType_Check(o))
    return;
  // What an operator of TorchScript's has just handed out.
  if (!std::strcmp(Py_TYPE(o)->tp_name, "torch._C.ScriptObject") &&
      !s.objects.isExternal(o))
    return;
  s.end(ReasonKind::TensorArgument, "a tensor function given a " + typeName(o));
}

ResultKind Calls::torchCall(const Call &call) {
  for (PyObject *arg : call.args)
    tensorArgument(arg);
  return ResultKind::FreshDeep;
}

namespace {

ResultKind torchOp(Recording &s, const Call &c) {
  noteNumberTensors(s, c);
  return s.calls.torchCall(c);
}

ResultKind tensorMetadata(Recording &s, const Call &c) {
  for (PyObject *arg : c.args)
    s.calls.tensorArgument(arg);
  return ResultKind::FreshDeep;
}

/// Seen by Python: becomes a guard.
ResultKind storageOffset(Recording &s, const Call &c) {
  if (c.args.size() == 1 && s.objects.isTensor(c.args[0]) &&
      s.objects.require(c.args[0]))
    s.tensors->readOffset(c.args[0]);
  return ResultKind::Known;
}

/// Data into Python: only of tensors that no input reaches.
ResultKind tensorData(Recording &s, const Call &c) {
  PyMethodDef *def = pyjitMethodDef(c.callable);
  if (def && c.args.size() == 1 && s.calls.called == c.callable &&
      s.objects.isTensor(c.args[0]) && !s.tensors->isConstant(c.args[0])) {
    s.calls.tensorArgument(c.args[0]);
    bool truth = !std::strcmp(def->ml_name, "is_nonzero");
    if ((truth || !std::strcmp(def->ml_name, "item")) &&
        s.scalars.readData(c.args[0],
                           truth ? NumberKind::Bool : NumberKind::Own))
      return ResultKind::Known;
  }
  for (PyObject *arg : c.args) {
    s.calls.tensorArgument(arg);
    if (s.objects.isTensor(arg) && !s.tensors->isConstant(arg))
      s.end(ReasonKind::DataInPython, "a tensor's data read by Python");
  }
  return ResultKind::FreshDeep;
}

/// Tensors in lists, nested no deeper than `tensorArgument` goes.
bool holdsTensors(PyObject *data) {
  if (!PyList_Check(data) && !PyTuple_Check(data))
    return ObjectTable::isTensor(data);
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(data); ++i)
    if (holdsTensors(PySequence_Fast_GET_ITEM(data, i)))
      return true;
  return false;
}

/// The tensor itself, or a conversion of it, recorded as its operators.
ResultKind ofTensor(Recording &s, const Call &c, const char *advice) {
  if (advice)
    warnOf(s, PyExc_UserWarning,
           std::string("To copy construct from a tensor, it is recommended to "
                       "use sourceTensor.detach().clone() or "
                       "sourceTensor.detach().clone().requires_grad_(True), "
                       "rather than ") +
               advice + "(sourceTensor).");
  return torchOp(s, c);
}

ResultKind fromData(Recording &s, const Call &c) {
  for (PyObject *arg : c.args) {
    if (s.objects.isTensor(arg))
      s.end(ReasonKind::TensorFromData, "a tensor made of a tensor's number");
    s.calls.tensorArgument(arg);
    if (!s.ended() && holdsTensors(arg))
      s.end(ReasonKind::TensorFromData,
            "a tensor made of tensors by torch.tensor");
  }
  return ResultKind::Constant;
}

bool isOfTensor(Recording &s, const Call &c) {
  PyObject *data = c.positional() ? c.args[0] : c.keyword("data");
  return data && s.objects.isTensor(data);
}

ResultKind asTensor(Recording &s, const Call &c) {
  return isOfTensor(s, c) ? ofTensor(s, c, nullptr) : fromData(s, c);
}

ResultKind makeTensor(Recording &s, const Call &c) {
  return isOfTensor(s, c) ? ofTensor(s, c, "torch.tensor") : fromData(s, c);
}

/// `torch.Tensor([1, 2])`; sizes make memory that nothing has filled.
ResultKind legacyTensor(Recording &s, const Call &c) {
  if (c.args.size() == 1 && !c.kwnames &&
      (PyList_CheckExact(c.args[0]) || PyTuple_CheckExact(c.args[0])))
    return fromData(s, c);
  return s.calls.unknownNative(c);
}

/// `tensor.new(2, 3)`, or of a shape, is `torch.empty` of its type and device.
ResultKind legacyNew(Recording &s, const Call &c) {
  bool ofShape = c.args.size() == 2 && isTorchSize(c.args[1]);
  bool ofSizes =
      !c.args.empty() &&
      std::all_of(c.args.begin() + 1, c.args.end(),
                  [](PyObject *arg) { return PyLong_CheckExact(arg); });
  return !c.kwnames && (ofShape || ofSizes) ? s.calls.torchCall(c)
                                            : s.calls.unknownNative(c);
}

/// Without an argument the name of the type, else a conversion.
ResultKind tensorType(Recording &s, const Call &c) {
  if (c.args.size() == 1)
    return tensorMetadata(s, c);
  if (c.args.size() == 2 && !c.kwnames &&
      !std::strcmp(Py_TYPE(c.args[1])->tp_name, "torch.dtype"))
    return s.calls.torchCall(c);
  return s.calls.unknownNative(c);
}

/// Of Python data, with the dtype and device of `self`.
ResultKind newTensor(Recording &s, const Call &c) {
  if (c.positional() == 2 && s.objects.isTensor(c.args[1]))
    return ofTensor(s, c, "tensor.new_tensor");
  Call data = c;
  if (!data.args.empty()) {
    s.calls.tensorArgument(data.args[0]);
    data.args.erase(data.args.begin());
  }
  return fromData(s, data);
}

/// State that refgraph.state pins, or that only debugging looks at.
ResultKind stateGetter(Recording &s, const Call &c) {
  for (PyObject *arg : c.args)
    if (!isValue(arg))
      s.objects.require(arg);
  return ResultKind::Fresh;
}

/// Looks at the types of its arguments only.
ResultKind hasTorchFunction(Recording &s, const Call &c) {
  for (PyObject *arg : c.args) {
    if (isValue(arg) || s.objects.isTensor(arg))
      continue;
    s.objects.require(arg);
    if (PyTuple_Check(arg) || PyList_Check(arg))
      s.containers.readAll(arg);
  }
  if (s.calls.called == c.callable && !c.kwnames)
    s.run.device->asks(s, c.callable, c.args.data(), c.args.size());
  return ResultKind::Known;
}

/// `_get_flash_sdp_enabled` and `_set_sdp_use_flash`, and so on.
ResultKind attentionKernels(Recording &s, const Call &c) {
  for (PyObject *arg : c.args)
    if (!PyBool_Check(arg))
      return s.calls.unknownNative(c);
  s.tensors->guardAttentionKernels();
  return ResultKind::Fresh;
}

ResultKind setGradMode(Recording &s, const Call &c) {
  for (PyObject *arg : c.args)
    if (!isValue(arg))
      s.end(ReasonKind::UnusualObject,
            "set_grad_enabled of a " + typeName(arg));
  return ResultKind::Known;
}

ResultKind requireGrad(Recording &s, const Call &c) {
  PyObject *on = c.args.size() == 1 ? Py_True : c.args[1];
  bool plain = c.args.size() <= 2 && s.objects.isTensor(c.args[0]) &&
               s.objects.require(c.args[0]);
  if (plain && PyBool_Check(on) && setRequiresGrad(s, c.args[0], on == Py_True))
    return ResultKind::Known;
  return s.calls.unknownNative(c);
}

/// Who compiles frames of Python's on this thread, which a call that is
/// compiled has none of. Torch switches Dynamo off around its own functions,
/// and on again.
ResultKind setEvalFrame(Recording &s, const Call &c) {
  for (PyObject *arg : c.args)
    if (!isValue(arg))
      s.objects.require(arg);
  return ResultKind::Fresh;
}

ResultKind makeSize(Recording &s, const Call &c) {
  for (PyObject *arg : c.args)
    s.calls.tensorArgument(arg);
  return ResultKind::Fresh;
}

template <size_t N> bool oneOf(const char *name, const char *const (&list)[N]) {
  for (const char *entry : list)
    if (!std::strcmp(name, entry))
      return true;
  return false;
}

/// What is not let through though it lies among the operators.
const char *const kDenied[] = {"set_",
                               "set_data",
                               "resize_",
                               "resize_as_",
                               "data_ptr",
                               "storage",
                               "untyped_storage",
                               "_storage",
                               "numpy",
                               "__array__",
                               "_make_subclass",
                               "_make_wrapper_subclass",
                               "_make_dtensor",
                               "backward",
                               "_backward",
                               "register_hook",
                               "requires_grad_",
                               "retain_grad",
                               "share_memory_",
                               "from_numpy",
                               "frombuffer",
                               "asarray",
                               "from_file",
                               "map_",
                               "map2_",
                               "apply_",
                               "_typed_storage",
                               "new",
                               "record_stream",
                               "_fix_weakref",
                               "_clear_non_serializable_cached_data",
                               "__dlpack__",
                               "cuda",
                               "xpu",
                               "ipu",
                               "hpu",
                               "mtia",
                               "type",
                               "manual_seed",
                               "seed",
                               "initial_seed",
                               "pin_memory",
                               "names",
                               "rename_",
                               "rename",
                               "set_names",
                               "refine_names",
                               "align_to",
                               "align_as",
                               "cpu_",
                               "_sync",
                               "_to_functional_tensor",
                               "_from_functional_tensor",
                               "_functionalize_sync",
                               "_enable_functionalization",
                               "_disable_functionalization",
                               "compile",
                               "as_subclass",
                               "_set_throw_on_mutable_data_ptr",
                               "_set_warn_deprecated_on_mutable_data_ptr",
                               "__setstate__",
                               "_use_zero_impl",
                               "_is_view",
                               "is_set_to",
                               "is_pinned",
                               "_has_same_storage_numel",
                               "_use_cudnn_ctc_loss",
                               "_use_count",
                               "_dtensor__new__",
                               "_view_func",
                               "_view_func_unsafe",
                               "_rev_view_func_unsafe"};

/// The size of what they give follows from values.
const char *const kSizedByData[] = {"unique_dim", "_unique", "_unique2",
                                    "unique_consecutive"};
/// Likewise, and a count tells it (see OperatorRecording::goesBySize).
const char *const kSizedByCount[] = {"nonzero", "argwhere", "masked_select"};

const char *const kMetadata[] = {
    "size",
    "dim",
    "ndimension",
    "stride",
    "numel",
    "nelement",
    "is_contiguous",
    "element_size",
    "get_device",
    "is_floating_point",
    "is_complex",
    "is_signed",
    "is_same_size",
    "is_inference",
    "is_conj",
    "is_neg",
    "is_distributed",
    "has_names",
    "sym_size",
    "result_type",
    "can_cast",
    "promote_types",
    "__len__",
    "is_nonzero_",
    "is_tensor",
    "dense_dim",
    "sparse_dim",
    "is_cuda",
    "is_autocast_enabled",
    "is_autocast_cpu_enabled",
    "is_inference_mode_enabled",
    "is_autocast_cache_enabled",
    "get_autocast_dtype",
    "get_autocast_cpu_dtype",
    "get_autocast_gpu_dtype",
    "is_grad_enabled",
    "is_vulkan_available",
};

/// Ask the dispatcher for an operator whose result is a Python value: the
/// recorder of operators ends the capture unless all inputs are constants.
const char *const kData[] = {"item",     "tolist",      "is_nonzero",
                             "equal",    "allclose",    "__bool__",
                             "__int__",  "__float__",   "__index__",
                             "__long__", "__complex__", "__contains__"};

/// The program's own: nobody but recorded operators fills it (TensorOps.cpp).
ResultKind emptyFactory(Recording &s, const Call &c) {
  s.now.makesEmpty = true;
  return torchOp(s, c);
}

ResultKind sizedByData(Recording &s, const Call &c) {
  s.end(ReasonKind::DataDependentShape,
        "native function " + functionName(c.callable) +
            ", whose result's size depends on values");
  return ResultKind::Fresh;
}

ResultKind sizedByCount(Recording &s, const Call &c) {
  bool goesOn = s.decisions.atSize && s.decisions.atSize();
  return goesOn ? torchOp(s, c) : sizedByData(s, c);
}

NativeHandler classify(const char *name) {
  if (oneOf(name, kSizedByData))
    return sizedByData;
  if (oneOf(name, kSizedByCount))
    return sizedByCount;
  if (oneOf(name, kDenied))
    return nullptr;
  if (!std::strcmp(name, "storage_offset"))
    return storageOffset;
  if (oneOf(name, kMetadata))
    return tensorMetadata;
  if (oneOf(name, kData))
    return tensorData;
  if (!std::strcmp(name, "empty") || !std::strcmp(name, "empty_like") ||
      !std::strcmp(name, "new_empty"))
    return emptyFactory;
  if (!std::strcmp(name, "new_tensor"))
    return newTensor;
  if (!std::strcmp(name, "as_tensor"))
    return asTensor;
  if (!std::strcmp(name, "tensor"))
    return makeTensor;
  if (!std::strcmp(name, "scalar_tensor"))
    return fromData;
  return torchOp;
}

void addFamily(NativeTable &t, const char *module, const char *attribute) {
  PyObject *object = PyImport_ImportModule(module);
  if (object && attribute) {
    PyObject *inner = PyObject_GetAttrString(object, attribute);
    Py_DECREF(object);
    object = inner;
  }
  PyObject *names = object ? PyObject_Dir(object) : nullptr;
  for (Py_ssize_t i = 0; names && i < PyList_GET_SIZE(names); ++i) {
    PyObject *name = PyList_GET_ITEM(names, i);
    // Every object has these.
    if (PyObject_HasAttr(reinterpret_cast<PyObject *>(&PyBaseObject_Type),
                         name))
      continue;
    PyObject *member = PyObject_GetAttr(object, name);
    if (member && pyjitMethodDef(member))
      if (NativeHandler handler = classify(PyUnicode_AsUTF8(name)))
        t.add(member, handler);
    PyErr_Clear();
    Py_XDECREF(member);
  }
  PyErr_Clear();
  Py_XDECREF(names);
  Py_XDECREF(object);
}

} // namespace

/// A variable of the function that encloses `f`, borrowed, or null.
static PyObject *closureVariable(PyFunctionObject *f, const char *name) {
  PyObject *names = PyObject_GetAttrString(f->func_code, "co_freevars");
  PyObject *found = nullptr;
  for (Py_ssize_t i = 0;
       names && f->func_closure && i < PyTuple_GET_SIZE(names); ++i)
    if (!PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, i), name))
      found = PyCell_GET(PyTuple_GET_ITEM(f->func_closure, i));
  PyErr_Clear();
  Py_XDECREF(names);
  return found;
}

void pyjit::capture::wrapForDynamo(PyObject *callable) {
  auto *f = reinterpret_cast<PyFunctionObject *>(callable);
  // functools.wraps has renamed the function, and not its code.
  auto *code = reinterpret_cast<PyCodeObject *>(f->func_code);
  if (PyUnicode_CompareWithASCIIString(code->co_qualname,
                                       "_disable_dynamo.<locals>.inner"))
    return;
  PyObject *fn = closureVariable(f, "fn"),
           *recursive = closureVariable(f, "recursive");
  if (!fn || !recursive || PyObject_HasAttrString(fn, "__dynamo_disable"))
    return;
  PyObject *disable = findObject("torch._dynamo:disable");
  PyObject *arguments = Py_BuildValue("(OO)", fn, recursive);
  PyObject *keywords = Py_BuildValue("{s:O}", "wrapping", Py_False);
  PyObject *wrapper = disable && arguments && keywords
                          ? PyObject_Call(disable, arguments, keywords)
                          : nullptr;
  if (wrapper)
    PyObject_SetAttrString(fn, "__dynamo_disable", wrapper);
  PyErr_Clear();
  Py_XDECREF(disable);
  Py_XDECREF(arguments);
  Py_XDECREF(keywords);
  Py_XDECREF(wrapper);
}

void pyjit::capture::addTorch(NativeTable &t) {
  addFamily(t, "torch._C", "_VariableFunctions");
  addFamily(t, "torch._C._nn", nullptr);
  addFamily(t, "torch._C._linalg", nullptr);
  addFamily(t, "torch._C._fft", nullptr);
  addFamily(t, "torch._C._special", nullptr);
  PyObject *base = findObject("torch._C:TensorBase");
  if (base) {
    PyObject *dict = PyType_GetDict(reinterpret_cast<PyTypeObject *>(base));
    PyObject *key, *value;
    Py_ssize_t position = 0;
    while (PyDict_Next(dict, &position, &key, &value))
      if (pyjitMethodDef(value))
        if (NativeHandler handler = classify(PyUnicode_AsUTF8(key)))
          t.add(value, handler);
    Py_DECREF(dict);
  }
  Py_XDECREF(base);
  PyErr_Clear();
  t.add("torch._C:TensorBase.size", tensorMetadata);
  t.add("torch._C:TensorBase.type", tensorType);
  t.add("torch._C:TensorBase.new", legacyNew);
  for (const char *name : {
           "_get_tracing_state",
           "_get_cudnn_enabled",
           "_is_tracing",
           "is_grad_enabled",
           "_get_deterministic_algorithms",
           "_get_deterministic_algorithms_warn_only",
           "_log_api_usage_once",
           "_cuda_isCurrentStreamCapturing",
           "_get_mkldnn_enabled",
           "get_default_dtype",
           "is_autocast_enabled",
           "is_autocast_cpu_enabled",
           "is_inference_mode_enabled",
           "_is_any_autocast_enabled",
           "_is_torch_function_enabled",
           "get_autocast_dtype",
           "is_autocast_cache_enabled",
           "_is_torch_function_all_disabled",
           "_len_torch_function_stack",
           "_len_torch_dispatch_stack",
           "_is_tracing",
           "_are_functorch_transforms_active",
           "_is_torch_function_mode_enabled",
           "_is_autocast_available",
           "_get_privateuse1_backend_name",
           "_get_cpu_capability",
           "_cuda_getDeviceCount",
           "_cuda_isInBadFork",
       })
    t.add(("torch._C:" + std::string(name)).c_str(), stateGetter);
  for (std::string kernel :
       {"flash", "mem_efficient", "math", "cudnn", "overrideable"}) {
    t.add(("torch._C:_get_" + kernel + "_sdp_enabled").c_str(),
          attentionKernels);
    t.add(("torch._C:_set_sdp_use_" + kernel).c_str(), attentionKernels);
  }
  for (const char *name : {"_has_torch_function", "_has_torch_function_unary",
                           "_has_torch_function_variadic"})
    t.add(("torch._C:" + std::string(name)).c_str(), hasTorchFunction);
  // By device and element type, which the guards of its tensors check.
  t.add("torch._C:_group_tensors_by_device_and_dtype", torchOp);
  t.add("torch._C:_set_grad_enabled", setGradMode);
  t.add("torch._C._dynamo.eval_frame:set_eval_frame", setEvalFrame);
  t.add("torch._C:TensorBase.requires_grad_", requireGrad);
  t.add("torch:Tensor", legacyTensor);
  t.add("torch:Size", makeSize);
  t.add("torch:Size.numel", nativePure);
  t.add("torch._C:_infer_size", nativePure);
  t.add("torch:device", nativePure);
  t.add("torch:finfo", nativePure);
  t.add("torch:iinfo", nativePure);
}
