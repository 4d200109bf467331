//===- SpecializationObject.cpp - The type Specialization -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "SpecializationObject.h"

#include "CallArguments.h"
#include "Reference.h"
#include "Resumption.h"

#include "capture/breaks/CaptureTypes.h"

#include "pyjit-rt/DataFlow.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <string_view>

namespace pyjit::python {
namespace {

struct SpecializationObject {
  PyObject_HEAD Specialization *specialization;
};

PyTypeObject *specializationType =
    nullptr; // set once, at module initialisation

PyObject *unicode(PyjitString text) {
  return PyUnicode_DecodeUTF8(text.data, text.size, "replace");
}

int traverse(PyObject *object, visitproc visit, void *arg) {
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(specializationOf(object).resumption);
  return 0;
}

int clearReferences(PyObject *object) {
  Py_CLEAR(specializationOf(object).resumption);
  return 0;
}

void destroy(PyObject *object) {
  PyTypeObject *type = Py_TYPE(object);
  PyObject_GC_UnTrack(object);
  // It may die while an exception is on its way (an interrupt behind the call
  // that made it), and to give watchers back looks at Python's errors.
  PyObject *error = PyErr_GetRaisedException();
  delete reinterpret_cast<SpecializationObject *>(object)->specialization;
  PyErr_SetRaisedException(error);
  type->tp_free(object);
  Py_DECREF(type);
}

PyObject *stages(PyObject *self, PyObject *) {
  PyObject *list = PyList_New(0);
  for (size_t i = 0; list; ++i) {
    PyjitString name;
    double seconds =
        pyjitExecutableStage(specializationOf(self).executable(), i, &name);
    if (seconds < 0)
      break;
    PyObject *pair = Py_BuildValue("(Nd)", unicode(name), seconds);
    if (!pair || PyList_Append(list, pair) < 0)
      Py_CLEAR(list);
    Py_XDECREF(pair);
  }
  return list;
}

PyObject *text(PyObject *self, PyObject *topic) {
  Py_ssize_t size;
  const char *data = PyUnicode_AsUTF8AndSize(topic, &size);
  if (!data)
    return nullptr;
  static const std::map<std::string_view, PyjitReport> reports = {
      {"guards", PyjitReportGuards},         {"graph", PyjitReportGraph},
      {"fusion", PyjitReportFusion},         {"kernels", PyjitReportKernels},
      {"cudagraph", PyjitReportCudaGraph},   {"programs", PyjitReportLaunch},
      {"sizes", PyjitReportSpecializedSizes}};
  std::string_view name(data, size);
  if (name == "launch") { // with what the launches have come to
    std::string report = specializationOf(self).launchReport();
    return unicode({report.data(), report.size()});
  }
  auto found = reports.find(name);
  if (found == reports.end())
    return PyErr_Format(PyExc_ValueError, "no report on '%U'", topic);
  return unicode(pyjitExecutableReport(specializationOf(self).executable(),
                                       found->second));
}

/// changed_numbers(args, kwargs): where numbers and sizes are that keep the
/// specialization from answering.
PyObject *changedNumbers(PyObject *self, PyObject *args) {
  CallArguments given;
  if (!given.parse(args, "O!O!:changed_numbers"))
    return nullptr;
  std::vector<capture::AccessPath> changed;
  specializationOf(self).collectChangedNumbers(
      given.values.data(), given.values.size(), given.names.get(), changed);
  PyObject *list = PyList_New(0);
  for (const capture::AccessPath &path : changed) {
    Reference wrapped = Reference::steal(capture::wrapAccessPath(path));
    if (!list || !wrapped || PyList_Append(list, wrapped.get()) < 0) {
      Py_XDECREF(list);
      return nullptr;
    }
  }
  return list;
}

PyObject *failedGuard(PyObject *self, PyObject *args) {
  CallArguments given;
  if (!given.parse(args, "O!O!:failed_guard"))
    return nullptr;
  return specializationOf(self).failedGuard(
      given.values.data(), given.values.size(), given.names.get());
}

PyObject *inputsOf(PyObject *self, PyObject *args) {
  CallArguments given;
  if (!given.parse(args, "O!O!:inputs_of"))
    return nullptr;
  return specializationOf(self).inputsOf(
      given.values.data(), given.values.size(), given.names.get());
}

PyObject *inputRegisters(PyObject *self, PyObject *) {
  return specializationOf(self).inputRegisters();
}

PyObject *guardSteps(PyObject *self, PyObject *) {
  return specializationOf(self).guardSteps();
}

PyObject *toTuple(const std::vector<uint32_t> &numbers) {
  Reference tuple = Reference::steal(PyTuple_New(Py_ssize_t(numbers.size())));
  for (size_t i = 0; tuple && i < numbers.size(); ++i) {
    PyObject *number = PyLong_FromUnsignedLong(numbers[i]);
    if (!number)
      return nullptr;
    PyTuple_SET_ITEM(tuple.get(), Py_ssize_t(i), number);
  }
  return tuple.release();
}

PyObject *dataFlow(PyObject *self, PyObject *) {
  static constexpr const char *kKinds[] = {"kernel", "call", "copy"};
  rt::DataFlow flow(specializationOf(self).programs().first->launchProgram());
  Reference nodes = Reference::steal(PyList_New(0));
  for (const rt::DataFlow::Node &node : flow.nodes) {
    Reference entry = Reference::steal(Py_BuildValue(
        "(sssNNI)", kKinds[size_t(node.kind)], node.name.c_str(),
        node.location.c_str(), toTuple(node.reads),
        PyBool_FromLong(node.readsInputs), unsigned(node.weights)));
    if (!nodes || !entry || PyList_Append(nodes.get(), entry.get()) < 0)
      return nullptr;
  }
  return Py_BuildValue("(NN)", nodes.release(), toTuple(flow.results));
}

#define PYJIT_COUNTER(NAME, EXPR)                                              \
  PyObject *NAME(PyObject *self, void *) {                                     \
    return PyLong_FromUnsignedLongLong(specializationOf(self).EXPR);           \
  }
PYJIT_COUNTER(getHits, hits)
PYJIT_COUNTER(getGuards, numGuards())
PYJIT_COUNTER(getKernels, numKernels())
PYJIT_COUNTER(getCalls, numVendorCalls())
PYJIT_COUNTER(getInputs, numInputs())
PYJIT_COUNTER(getSymbols, numSymbols())
PYJIT_COUNTER(getFailures, failures)
PYJIT_COUNTER(getUnanswered, unanswered)
PYJIT_COUNTER(getPrepared, numPrepared())
PYJIT_COUNTER(getHashed, numHashed())
PYJIT_COUNTER(getSharedWeightBytes, sharedWeightBytes())
#undef PYJIT_COUNTER

PyObject *getPackedMemory(PyObject *self, void *) {
  Reference bytes = Reference::steal(PyDict_New());
  for (auto [address, size] : specializationOf(self).packedMemory()) {
    Reference key =
        Reference::steal(PyLong_FromVoidPtr(const_cast<void *>(address)));
    Reference value = Reference::steal(PyLong_FromSize_t(size));
    if (!bytes || !key || !value ||
        PyDict_SetItem(bytes.get(), key.get(), value.get()) < 0)
      return nullptr;
  }
  return bytes.release();
}

/// What vendor calls allocate is their own.
PyObject *getPlannedMemory(PyObject *self, void *) {
  const Specialization &specialization = specializationOf(self);
  if (specialization.numSymbols())
    Py_RETURN_NONE;
  auto [launch, backward] = specialization.programs();
  const rt::Header &header = launch->launchProgram().header();
  uint64_t scratch =
      backward ? backward->program->launchProgram().header().arenaBytes : 0;
  return Py_BuildValue("(KKK)", (unsigned long long)header.arenaBytes,
                       (unsigned long long)header.savedBytes,
                       (unsigned long long)scratch);
}

PyObject *getError(PyObject *self, void *) {
  return PyUnicode_FromString(specializationOf(self).lastError.c_str());
}

/// A flag that may be None.
bool toFlag(PyObject *object, int &flag) {
  flag = object == Py_None ? -1 : PyObject_IsTrue(object);
  return !PyErr_Occurred();
}

PyObject *setEnd(PyObject *self, PyObject *args) {
  PyObject *resumption, *gradMode, *state;
  capture::DispatchState dispatchState;
  int flag;
  if (!PyArg_ParseTuple(args, "OOO:set_end", &resumption, &gradMode, &state) ||
      !toFlag(gradMode, flag) ||
      !capture::toDispatchState(state, dispatchState))
    return nullptr;
  if (resumption != Py_None && !isResumption(resumption)) {
    PyErr_SetString(PyExc_TypeError, "set_end takes a Resumption or None");
    return nullptr;
  }
  Specialization &specialization = specializationOf(self);
  Py_XSETREF(specialization.resumption,
             resumption == Py_None ? nullptr : Py_NewRef(resumption));
  specialization.gradMode = flag;
  specialization.setDispatchState(
      {dispatchState.included, dispatchState.excluded},
      dispatchState.inference);
  Py_RETURN_NONE;
}

PyObject *lookAfter(PyObject *self, PyObject *calls) {
  unsigned long number = PyLong_AsUnsignedLong(calls);
  if (PyErr_Occurred())
    return nullptr;
  specializationOf(self).untilLook =
      std::min<unsigned long>(number, UINT32_MAX);
  Py_RETURN_NONE;
}

PyObject *giveUp(PyObject *self, PyObject *) {
  specializationOf(self).leaveToEager(std::nullopt);
  specializationOf(self).untilLook = 0;
  Py_RETURN_NONE;
}

PyObject *answerAgain(PyObject *self, PyObject *) {
  specializationOf(self).answerAgain();
  Py_RETURN_NONE;
}

PyObject *getLeftToEager(PyObject *self, void *) {
  return PyBool_FromLong(specializationOf(self).isLeftToEager());
}

PyObject *getOnDevice(PyObject *self, void *) {
  return PyBool_FromLong(specializationOf(self).onDevice());
}

PyObject *preferLaunch(PyObject *self, PyObject *name) {
  static constexpr const char *kNames[rt::kNumVariants] = {"plain", "copy",
                                                           "table", "update"};
  const char *text = PyUnicode_AsUTF8(name);
  if (!text)
    return nullptr;
  for (unsigned i = 0; i < rt::kNumVariants; ++i)
    if (std::strcmp(text, kNames[i]) == 0) {
      specializationOf(self).preferLaunch(rt::Variant(i));
      Py_RETURN_NONE;
    }
  return PyErr_Format(PyExc_ValueError, "no way to launch: %R", name);
}

PyObject *setName(PyObject *self, PyObject *name) {
  Py_ssize_t size;
  const char *text = PyUnicode_AsUTF8AndSize(name, &size);
  if (!text)
    return nullptr;
  specializationOf(self).name.assign(text, size);
  Py_RETURN_NONE;
}

PyObject *getHostMicroseconds(PyObject *self, void *) {
  double median = specializationOf(self).hostMicroseconds();
  return median < 0 ? Py_NewRef(Py_None) : PyFloat_FromDouble(median);
}

PyMethodDef methods[] = {
    {"set_end", setEnd, METH_VARARGS,
     "set_end(resumption, grad_mode, dispatch_state): where the specialization "
     "ends if not "
     "with "
     "its function; the grad mode that it leaves behind, or None; the "
     "DispatchState that it belongs to."},
    {"set_name", setName, METH_O, "What profilers call its launches."},
    {"prefer_launch", preferLaunch, METH_O,
     "Launch on a device in this way, unmeasured, where it is offered."},
    {"look_after", lookAfter, METH_O,
     "look_after(calls): the engine is told when the specialization has had so "
     "many "
     "more calls; 0: never."},
    {"give_up", giveUp, METH_NOARGS,
     "From now on eager answers all calls that the guards accept."},
    {"answer_again", answerAgain, METH_NOARGS,
     "Takes `leave_to_eager` and `give_up` back."},
    {"stages", stages, METH_NOARGS, "Pairs of stage and seconds, in order."},
    {"changed_numbers", changedNumbers, METH_VARARGS,
     "Access paths of the numbers and sizes that keep the specialization from "
     "answering "
     "these arguments."},
    {"failed_guard", failedGuard, METH_VARARGS,
     "failed_guard(args, kwargs): the number of the first guard step that "
     "these "
     "arguments fail (-1: how many there are and their names; -2: Torch's "
     "dispatch state) and the object that it looks at; None: all hold."},
    {"inputs_of", inputsOf, METH_VARARGS,
     "inputs_of(args, kwargs): the tensors that the graph would take for these "
     "arguments, in order; None where the guards do not accept them."},
    {"input_registers", inputRegisters, METH_NOARGS,
     "Of each input of the graph, the guard program's register that it is in "
     "(-1: a cast that autocast keeps), and whether that is a number's."},
    {"data_flow", dataFlow, METH_NOARGS,
     "What the graph computes from what: kernels, vendor calls and copies, and "
     "those that give its results."},
    {"guard_steps", guardSteps, METH_NOARGS,
     "The guard program: (name, flags, dst, a, b, imm, operand) of each step."},
    {"text", text, METH_O, "A report on one topic; empty for an unknown one."},
    {nullptr, nullptr, 0, nullptr}};

PyGetSetDef getset[] = {
    {"hits", getHits, nullptr, "Calls answered.", nullptr},
    {"guards", getGuards, nullptr, "Checks in the guard program.", nullptr},
    {"kernels", getKernels, nullptr, "Generated kernels launched per call.",
     nullptr},
    {"vendor_calls", getCalls, nullptr, "Vendor calls per call.", nullptr},
    {"inputs", getInputs, nullptr, "Tensors that the graph takes.", nullptr},
    {"symbols", getSymbols, nullptr, "Sizes that may differ between calls.",
     nullptr},
    {"prepared", getPrepared, nullptr,
     "Parameters whose packed or folded values are kept.", nullptr},
    {"hashed", getHashed, nullptr,
     "Those of them that are hashed at each call, because writes to their "
     "memory could go unseen.",
     nullptr},
    {"packed_memory", getPackedMemory, nullptr,
     "The memory of their packed or folded values: bytes by address.", nullptr},
    {"planned_memory", getPlannedMemory, nullptr,
     "Bytes that a call is planned to take while it runs, from it to its "
     "backward, and while that runs; None where sizes differ between calls.",
     nullptr},
    {"shared_weight_bytes", getSharedWeightBytes, nullptr,
     "Bytes of those values that another specialization had computed.",
     nullptr},
    {"host_microseconds", getHostMicroseconds, nullptr,
     "Median of what a hit takes beside the launch, while that is measured.",
     nullptr},
    {"failures", getFailures, nullptr,
     "Calls whose launch raised and that eager answered.", nullptr},
    {"unanswered", getUnanswered, nullptr,
     "Calls whose data took a branch another way than the specialization "
     "speculates.",
     nullptr},
    {"left_to_eager", getLeftToEager, nullptr,
     "Whether eager answers calls that the guards accept.", nullptr},
    {"on_device", getOnDevice, nullptr,
     "Whether it launches work on a device, or on a simulated one.", nullptr},
    {"last_error", getError, nullptr, "Why the last failed launch failed.",
     nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyType_Slot slots[] = {{Py_tp_dealloc, reinterpret_cast<void *>(destroy)},
                       {Py_tp_traverse, reinterpret_cast<void *>(traverse)},
                       {Py_tp_clear, reinterpret_cast<void *>(clearReferences)},
                       {Py_tp_methods, methods},
                       {Py_tp_getset, getset},
                       {0, nullptr}};

PyType_Spec spec = {"pyjit._C.Specialization", sizeof(SpecializationObject), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC |
                        Py_TPFLAGS_DISALLOW_INSTANTIATION |
                        Py_TPFLAGS_IMMUTABLETYPE,
                    slots};

} // namespace

bool addSpecializationType(PyObject *module) {
  specializationType = reinterpret_cast<PyTypeObject *>(
      PyType_FromModuleAndSpec(module, &spec, nullptr));
  return specializationType &&
         PyModule_AddObjectRef(
             module, "Specialization",
             reinterpret_cast<PyObject *>(specializationType)) == 0;
}

bool isSpecialization(PyObject *object) {
  return Py_IS_TYPE(object, specializationType);
}

Specialization &specializationOf(PyObject *object) {
  return *reinterpret_cast<SpecializationObject *>(object)->specialization;
}

PyObject *wrapSpecialization(std::unique_ptr<Specialization> specialization) {
  auto *object = PyObject_GC_New(SpecializationObject, specializationType);
  if (object) {
    object->specialization = specialization.release();
    PyObject_GC_Track(object);
  }
  return reinterpret_cast<PyObject *>(object);
}

} // namespace pyjit::python
