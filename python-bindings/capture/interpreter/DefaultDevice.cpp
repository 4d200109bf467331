//===- DefaultDevice.cpp - torch.set_default_device -----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "interpreter/DefaultDevice.h"

#include "Recording.h"
#include "builtins/Natives.h"

#include <ATen/PythonTorchFunctionTLS.h>
#include <torch/csrc/Device.h>
#include <torch/csrc/PyInterpreter.h>

#include <opcode.h>

#include <cstring>
#include <utility>

using namespace pyjit::capture;
using Stack = at::impl::PythonTorchFunctionTLS;

//===----------------------------------------------------------------------===//
// Modes
//===----------------------------------------------------------------------===//

static PyTypeObject *standInType = nullptr; ///< once there is one
/// What `_device_constructors()` gave when the latest run began.
static PyObject *constructors = nullptr;

/// Torch's DeviceContext; null while nobody has imported it.
static PyTypeObject *contextType() {
  static PyTypeObject *type = nullptr;
  if (type)
    return type;
  PyObject *name = PyUnicode_FromString("torch.utils._device");
  PyObject *module = name ? PyImport_GetModule(name) : nullptr;
  PyObject *found =
      module ? PyObject_GetAttrString(module, "DeviceContext") : nullptr;
  PyErr_Clear();
  Py_XDECREF(name);
  Py_XDECREF(module);
  if (found && PyType_Check(found))
    type = reinterpret_cast<PyTypeObject *>(found); // for good
  return type;
}

/// The only mode on the stack, borrowed, or null.
static PyObject *onlyMode() {
  if (Stack::stack_len() != 1)
    return nullptr;
  return Stack::get_stack_at(0)->ptr(getPyInterpreter());
}

static bool isContext(PyObject *mode) {
  return mode && Py_TYPE(mode) == contextType();
}

static bool isStandIn(PyObject *mode) {
  return mode && standInType && Py_TYPE(mode) == standInType;
}

/// Of such a mode: its attribute `device`, a new reference, or null.
static PyObject *deviceOf(PyObject *mode) {
  static PyObject *name = PyUnicode_InternFromString("device");
  // No code of the program's is asked.
  PyObject *device = PyObject_GenericGetAttr(mode, name);
  if (!device)
    PyErr_Clear();
  else if (!THPDevice_Check(device))
    Py_CLEAR(device);
  return device;
}

FunctionModes FunctionModes::now() {
  if (Stack::stack_len() == 0)
    return {};
  PyObject *mode = onlyMode();
  bool asked = Stack::get_disabled_state() !=
               at::impl::TorchFunctionDisabledState::ALL_DISABLED;
  PyObject *held =
      asked && (isContext(mode) || isStandIn(mode)) ? deviceOf(mode) : nullptr;
  if (!held)
    return {Other};
  c10::Device device = reinterpret_cast<THPDevice *>(held)->device;
  Py_DECREF(held);
  // Tensors elsewhere are not recorded, and no guard has a name for it.
  if (device.type() != c10::kCPU && device.type() != c10::kCUDA &&
      device.type() != c10::kMeta)
    return {Other};
  return {Device, int8_t(device.type()), device.index()};
}

std::string FunctionModes::text() const {
  return c10::Device(c10::DeviceType(device), index).str();
}

//===----------------------------------------------------------------------===//
// What stands in a DeviceContext's place
//===----------------------------------------------------------------------===//

/// As DeviceContext's: `__torch_function__(func, types, args=(), kwargs=None)`.
static PyObject *torchFunction(PyObject *self, PyObject *arguments) {
  PyObject *function, *types, *args = nullptr, *kwargs = nullptr;
  if (!PyArg_ParseTuple(arguments, "OO|O!O:__torch_function__", &function,
                        &types, &PyTuple_Type, &args, &kwargs))
    return nullptr;
  if (kwargs == Py_None)
    kwargs = nullptr;
  PyObject *set = Py_NewRef(constructors); // hashing may run Python code
  int constructs = PySet_Contains(set, function);
  Py_DECREF(set);
  if (constructs < 0)
    return nullptr;
  PyObject *given =
      kwargs ? PyDict_GetItemString(kwargs, "device") : nullptr; // borrowed
  PyObject *merged = nullptr;
  if (constructs && (!given || given == Py_None)) {
    merged = kwargs ? PyDict_Copy(kwargs) : PyDict_New();
    PyObject *device = deviceOf(self);
    if (!device)
      PyErr_SetString(PyExc_AttributeError,
                      "'DeviceContext' object has no attribute 'device'");
    if (!merged || !device ||
        PyDict_SetItemString(merged, "device", device) < 0) {
      Py_XDECREF(merged);
      Py_XDECREF(device);
      return nullptr;
    }
    Py_DECREF(device);
    kwargs = merged;
  }
  PyObject *none = args ? nullptr : PyTuple_New(0);
  PyObject *result = PyObject_Call(function, args ? args : none, kwargs);
  Py_XDECREF(none);
  Py_XDECREF(merged);
  return result;
}

static PyMethodDef torchFunctionMethod = {"__torch_function__", torchFunction,
                                          METH_VARARGS, nullptr};

/// A class derived from DeviceContext: who looks for one finds it.
static PyTypeObject *makeStandInType() {
  PyTypeObject *base = contextType();
  if (standInType || !base)
    return standInType;
  PyObject *made = PyObject_CallFunction(
      reinterpret_cast<PyObject *>(&PyType_Type), "s(O){}", "DeviceContext",
      reinterpret_cast<PyObject *>(base));
  if (!made)
    return nullptr;
  auto *type = reinterpret_cast<PyTypeObject *>(made);
  PyObject *method = PyDescr_NewMethod(type, &torchFunctionMethod);
  if (method && PyObject_SetAttrString(made, "__torch_function__", method) == 0)
    standInType = type; // for good
  else
    Py_DECREF(made);
  Py_XDECREF(method);
  return standInType;
}

/// Has the attributes of the mode; a new reference, or null.
static PyObject *standInFor(PyObject *context) {
  PyTypeObject *type = makeStandInType();
  PyObject *none = type ? PyTuple_New(0) : nullptr;
  PyObject *object =
      none ? PyBaseObject_Type.tp_new(type, none, nullptr) : nullptr;
  PyObject *dict =
      object ? PyObject_GetAttrString(context, "__dict__") : nullptr;
  if (!dict || PyObject_SetAttrString(object, "__dict__", dict) < 0)
    Py_CLEAR(object);
  PyErr_Clear();
  Py_XDECREF(dict);
  Py_XDECREF(none);
  return object;
}

//===----------------------------------------------------------------------===//
// The stack of a run's thread
//===----------------------------------------------------------------------===//

struct DefaultDevice::Mode {
  std::shared_ptr<c10::SafePyObject> object;
};

DefaultDevice::DefaultDevice() {
  // In front of the run: the first call of it runs code of Torch's.
  PyObject *function = findObject("torch.utils._device:_device_constructors");
  PyObject *found = function ? PyObject_CallNoArgs(function) : nullptr;
  if (found && PyAnySet_Check(found))
    Py_XSETREF(constructors, Py_NewRef(found));
  PyErr_Clear();
  Py_XDECREF(function);
  Py_XDECREF(found);
}

DefaultDevice::~DefaultDevice() {
  for (auto [standIn, context] : pairs) {
    Py_DECREF(standIn);
    Py_DECREF(context);
  }
}

/// Puts the one in the other's place, on top of the stack.
static void replaceTop(PyObject *mode) {
  Stack::pop_stack();
  Stack::push_onto_stack(
      std::make_shared<c10::SafePyObject>(Py_NewRef(mode), getPyInterpreter()));
}

void DefaultDevice::settle(bool recording) {
  if (Stack::stack_len() == 0)
    return;
  PyObject *mode = onlyMode();
  if (recording ? !isContext(mode) || !constructors : !isStandIn(mode))
    return;
  for (auto [standIn, context] : pairs)
    if (mode == (recording ? context : standIn))
      return replaceTop(recording ? standIn : context);
  if (!recording)
    return; // of another run
  if (PyObject *standIn = standInFor(mode)) {
    pairs.emplace_back(standIn, Py_NewRef(mode));
    replaceTop(standIn);
  }
}

void DefaultDevice::turnOff(PyjitFrame *until, std::set<int> ends) {
  off = std::make_unique<Mode>(Mode{Stack::pop_stack()});
  frame = until;
  returns = std::move(ends);
}

void DefaultDevice::turnOn() {
  Stack::push_onto_stack(std::move(off->object));
  off.reset();
  frame = nullptr;
}

void DefaultDevice::onEvent(PyjitFrame *now, int offset, bool starts) {
  if (!off)
    return;
  // A new frame may begin where the old one was.
  if (now == frame) {
    if (starts || returns.empty() || returns.count(offset))
      turnOn();
    return;
  }
  for (PyjitFrame *f = now; f; f = pyjitPreviousFrame(f))
    if (f == frame)
      return;
  turnOn();
}

void DefaultDevice::end() {
  if (off)
    turnOn();
  settle(/*recording=*/false);
}

/// `if has_torch_function(…): return handle_torch_function(…)`, of which the
/// instruction at `offset` is the first call.
static bool handsOver(const CodeInfo &info, PyCodeObject *code, int offset) {
  int jump = info.jumpBehind(offset);
  if (jump < 0 || info.at(jump).op != POP_JUMP_IF_FALSE)
    return false;
  for (int at = info.at(jump).next;; at = info.at(at).next) {
    const Instruction &in = info.at(at);
    bool names = in.op == LOAD_GLOBAL || in.op == LOAD_ATTR;
    if (names && !PyUnicode_CompareWithASCIIString(
                     PyTuple_GET_ITEM(code->co_names, in.arg >> 1),
                     "handle_torch_function"))
      return true;
    if (!names && in.op != EXTENDED_ARG && in.op != PUSH_NULL)
      return false;
  }
}

/// Whether code of the module runs, or of one in it.
static bool isOfModule(PyjitFrame *frame, const char *module) {
  static PyObject *key = PyUnicode_InternFromString("__name__");
  PyObject *globals = pyjitFrameGlobals(frame);
  PyObject *name = globals ? PyDict_GetItemWithError(globals, key) : nullptr;
  const char *text =
      name && PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : nullptr;
  size_t size = std::strlen(module);
  return text && !std::strncmp(text, module, size) &&
         (!text[size] || text[size] == '.');
}

static std::set<int> returnsOf(const CodeInfo &info) {
  std::set<int> found;
  for (size_t i = 0; i < info.instructions.size(); ++i)
    if (const Instruction &in = info.instructions[i];
        in.start && (in.op == RETURN_VALUE || in.op == RETURN_CONST))
      found.insert(int(2 * i));
  return found;
}

void DefaultDevice::asks(Recording &recording, PyObject *function,
                         PyObject *const *args, size_t nargs) {
  if (recording.dead || !isStandIn(onlyMode()))
    return;
  const ShadowFrame &top = *recording.tracker.top();
  const CodeInfo &info = recording.tracker.info(top.code);
  PyObject *asking = pyjitFrameFunction(top.frame);
  // What stands in front of the question eager does twice, which is the same
  // in Torch's own code.
  if (pyjitFrameIsGenerator(top.frame) || !isOfModule(top.frame, "torch") ||
      !handsOver(info, top.code, top.offset) || !asking ||
      PySet_Contains(constructors, asking) != 0)
    return PyErr_Clear();
  turnOff(top.frame, returnsOf(info));
  // A tensor of a subclass handles it itself, with the mode on.
  PyObject *answer = PyObject_Vectorcall(function, args, nargs, nullptr);
  if (answer != Py_False)
    turnOn();
  PyErr_Clear();
  Py_XDECREF(answer);
}

void DefaultDevice::callsOperator(Recording &recording) {
  if (!recording.dead && isStandIn(onlyMode()))
    turnOff(recording.tracker.top()->frame, {});
}

PyObject *DefaultDevice::shownToTorch(const Recording &recording) const {
  static PyObject *lister =
      findObject("torch.overrides:_get_current_function_mode_stack");
  const auto &frames = recording.tracker.frames;
  if (!lister || frames.size() < 3 || !isStandIn(onlyMode()) ||
      pyjitFrameFunction(frames.back().frame) != lister)
    return nullptr;
  PyjitFrame *asking = frames[frames.size() - 2].frame;
  return isOfModule(asking, "torch.amp.autocast_mode") ||
                 isOfModule(asking, "torch._export.utils")
             ? onlyMode()
             : nullptr;
}

int DefaultDevice::caller(const Recording &recording) const {
  if (!off || returns.empty())
    return -1;
  const auto &frames = recording.tracker.frames;
  for (size_t i = 1; i < frames.size(); ++i)
    if (frames[i].frame == frame)
      return int(i) - 1;
  return 0;
}
