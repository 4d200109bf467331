//===- Module.cpp - The extension module pyjit._C -------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#define PY_SSIZE_T_CLEAN // lengths in argument formats are Py_ssize_t

#include "CallArguments.h"
#include "CompiledFunction.h"
#include "CrossCompile.h"
#include "EagerParts.h"
#include "ModuleCall.h"
#include "Reference.h"
#include "Resumption.h"
#include "SpecializationObject.h"
#include "TraceObject.h"

#include "CPython.h"
#include "capture/Recorder.h"
#include "capture/breaks/CaptureTypes.h"
#include "capture/breaks/Continuation.h"
#include "capture/interpreter/DefaultDevice.h"

#include "pyjit-c/Compiler.h"
#include "pyjit-rt/RelaidResults.h"

#include <cstring>
#include <optional>

namespace pyjit::python {
namespace {

PyObject *buildError = nullptr; // set once, at module initialisation

/// A collection would run finalizers of objects that have nothing to do with
/// the call, in the middle of it and under observation.
struct NoCollection {
  // By the threshold: whether it is enabled is for the program to ask and set.
  int threshold = pyjitHoldCollection();
  ~NoCollection() { pyjitAllowCollection(threshold); }
};

/// A set of access paths, or null.
bool toPaths(PyObject *set, std::set<capture::AccessPath> &paths) {
  if (!set)
    return true;
  Reference iterator = Reference::steal(PyObject_GetIter(set));
  if (!iterator)
    return false;
  while (Reference item = Reference::steal(PyIter_Next(iterator.get()))) {
    const capture::AccessPath *path = capture::accessPathOf(item.get());
    if (!path)
      return false;
    paths.insert(*path);
  }
  return !PyErr_Occurred();
}

/// A tuple of ints.
template <typename Ints> bool toInts(PyObject *tuple, Ints &ints) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i)
    ints.insert(ints.end(), PyLong_AsLongLong(PyTuple_GET_ITEM(tuple, i)));
  return !PyErr_Occurred();
}

char **names(const char *const *keywords) {
  return const_cast<char **>(keywords);
}

PyObject *capture(PyObject *, PyObject *args, PyObject *options) {
  static const char *const keywords[] = {"context",      "target", "args",
                                         "kwargs",       "name",   "lifted",
                                         "follow_sizes", nullptr};
  PyObject *target, *arguments, *given, *lifted = nullptr;
  const char *name;
  int followSizes = 0;
  capture::CaptureRequest request;
  if (!PyArg_ParseTupleAndKeywords(
          args, options, "O&OO!O!s|$O!p:capture", names(keywords), toContext,
          &request.context, &target, &PyTuple_Type, &arguments, &PyDict_Type,
          &given, &name, &PySet_Type, &lifted, &followSizes))
    return nullptr;
  CallArguments call;
  request.name = name;
  request.followSizes = followSizes;
  if (!call.set(arguments, given) || !toPaths(lifted, request.lifted))
    return nullptr;
  capture::CaptureResult captured;
  {
    NoCollection guard;
    captured = capture::capture(request, target, call.values.data(),
                                call.positional, call.names.get());
  }
  if (!captured.result) {
    Py_XDECREF(captured.objects);
    return nullptr;
  }
  return capture::toPython(captured, wrapTrace);
}

PyObject *captureWithGraphBreaks(PyObject *, PyObject *args,
                                 PyObject *options) {
  static const char *const keywords[] = {
      "context", "target",  "args",    "kwargs", "name",
      "points",  "passed",  "planner", "lifted", "follow_sizes",
      "unseen",  "is_part", nullptr};
  PyObject *target, *arguments, *given, *lifted = nullptr, *unseen = nullptr;
  const char *name;
  int followSizes, isPart;
  capture::CaptureRequest request;
  if (!PyArg_ParseTupleAndKeywords(
          args, options, "O&OO!O!s$O!O!OO!pO!p:capture_with_graph_breaks",
          names(keywords), toContext, &request.context, &target, &PyTuple_Type,
          &arguments, &PyDict_Type, &given, &name, &PyDict_Type,
          &request.points, &PyDict_Type, &request.passed, &request.planner,
          &PySet_Type, &lifted, &followSizes, &PyTuple_Type, &unseen, &isPart))
    return nullptr;
  CallArguments call;
  request.name = name;
  request.followSizes = followSizes;
  request.isPart = isPart;
  if (!toInts(unseen, request.unseen) || !call.set(arguments, given) ||
      !toPaths(lifted, request.lifted))
    return nullptr;
  capture::SegmentedResult captured;
  {
    NoCollection guard;
    captured = capture::captureWithGraphBreaks(
        request, target, call.values.data(), call.positional, call.names.get());
  }
  PyObject *error = PyErr_GetRaisedException(); // the user's
  bool raised = !captured.result;
  Reference run = Reference::steal(capture::toPython(captured, wrapTrace));
  if (raised)
    PyErr_SetRaisedException(error);
  return raised ? nullptr : run.release();
}

PyjitString toString(const char *text) { return {text, std::strlen(text)}; }

PyObject *build(PyObject *, PyObject *args, PyObject *given) {
  static const char *const keywords[] = {
      "trace",          "objects",  "nargs",       "keyword_names",
      "eager_rounding", "dump_dir", "accelerator", "specialize_sizes",
      "verify",         "depth",    nullptr};
  PyjitTrace *trace;
  const char *dumpDirectory, *accelerator, *depth;
  Py_ssize_t nargs;
  PyObject *objects, *keywordNames;
  int eagerRounding, specializeSizes, verify;
  if (!PyArg_ParseTupleAndKeywords(
          args, given, "O&O!nO$psspps:build", names(keywords), toTrace, &trace,
          &PyList_Type, &objects, &nargs, &keywordNames, &eagerRounding,
          &dumpDirectory, &accelerator, &specializeSizes, &verify, &depth))
    return nullptr;
  PyjitCompileOptions options{};
  options.size = sizeof options;
  if (!pyjitFindDepth(toString(depth), &options.depth)) {
    PyErr_Format(PyExc_ValueError, "build: unknown depth '%s'", depth);
    return nullptr;
  }
  options.eagerRounding = eagerRounding;
  options.specializeSizes = specializeSizes;
  options.verify = verify;
  options.dumpDirectory = toString(dumpDirectory);
  options.accelerator = toString(accelerator);
  std::string error;
  auto specialization = Specialization::build(
      trace, objects, nargs, keywordNames == Py_None ? nullptr : keywordNames,
      options, error);
  if (!specialization) {
    PyErr_SetString(buildError, error.c_str());
    return nullptr;
  }
  return wrapSpecialization(std::move(specialization));
}

PyObject *crossCompile(PyObject *, PyObject *args) {
  PyjitTrace *trace;
  int capability, eagerRounding = 0, specializeSizes = 0;
  if (!PyArg_ParseTuple(args, "O&i|pp:cross_compile", toTrace, &trace,
                        &capability, &eagerRounding, &specializeSizes))
    return nullptr;
  std::string error;
  PyjitCompileOptions options{};
  options.size = sizeof options;
  options.eagerRounding = eagerRounding;
  options.specializeSizes = specializeSizes;
  options.gpu.capability = capability;
  options.diagnostic = appendDiagnostic;
  options.user = &error;
  std::optional<CrossCompiled> made =
      python::crossCompile(trace, options, error);
  if (!made) {
    PyErr_SetString(buildError, error.c_str());
    return nullptr;
  }
  return Py_BuildValue("(s#s#)", made->launch.data(),
                       Py_ssize_t(made->launch.size()), made->kernels.data(),
                       Py_ssize_t(made->kernels.size()));
}

PyObject *merge(PyObject *, PyObject *args) {
  PyObject *list;
  if (!PyArg_ParseTuple(args, "O!:merge", &PyList_Type, &list))
    return nullptr;
  size_t count = PyList_GET_SIZE(list);
  std::vector<PyjitSegment> parts(count);
  std::vector<std::vector<int64_t>> takes(count), objects(count);
  for (size_t i = 0; i < count; ++i) {
    PyjitTrace *trace;
    PyObject *taken, *numbers;
    int kind, endsAtGraphBreak, gradMode;
    long long condition, tensorClass;
    if (!PyArg_ParseTuple(PyList_GET_ITEM(list, i), "O&iLLO!O!pi", toTrace,
                          &trace, &kind, &condition, &tensorClass,
                          &PyTuple_Type, &taken, &PyTuple_Type, &numbers,
                          &endsAtGraphBreak, &gradMode) ||
        !toInts(taken, takes[i]) || !toInts(numbers, objects[i]))
      return nullptr;
    parts[i] = {trace,
                PyjitSegmentKind(kind),
                condition,
                tensorClass,
                {takes[i].data(), takes[i].size()},
                {objects[i].data(), objects[i].size()},
                bool(endsAtGraphBreak),
                {gradMode >= 0, gradMode > 0}};
  }
  std::string error;
  PyjitCompileOptions options{};
  options.size = sizeof options;
  options.diagnostic = appendDiagnostic;
  options.user = &error;
  PyThreadState *thread = PyEval_SaveThread();
  capture::TraceHandle merged(pyjitMerge(parts.data(), count, &options));
  PyEval_RestoreThread(thread);
  if (!merged) {
    PyErr_SetString(buildError, error.c_str());
    return nullptr;
  }
  return wrapTrace(std::move(merged));
}

PyObject *isCapturing(PyObject *, PyObject *) {
  return PyBool_FromLong(capture::isCapturing());
}

PyObject *defaultDevice(PyObject *, PyObject *) {
  auto modes = capture::FunctionModes::now();
  switch (modes.kind) {
  case capture::FunctionModes::None:
    Py_RETURN_NONE;
  case capture::FunctionModes::Device:
    return PyUnicode_FromString(modes.text().c_str());
  case capture::FunctionModes::Other:
    break;
  }
  return PyUnicode_FromString("another mode");
}

PyObject *callDisabled(PyObject *, PyObject *args) {
  PyObject *function, *arguments, *keywords;
  if (!PyArg_ParseTuple(args, "OO!O!:call_disabled", &function, &PyTuple_Type,
                        &arguments, &PyDict_Type, &keywords))
    return nullptr;
  EagerPart plain(nullptr);
  return PyObject_Call(function, arguments, keywords);
}

PyObject *measureHost(PyObject *, PyObject *on) {
  int truth = PyObject_IsTrue(on);
  if (truth < 0)
    return nullptr;
  Specialization::measureHost(truth);
  Py_RETURN_NONE;
}

PyObject *relaidResults(PyObject *, PyObject *) {
  Reference counts = Reference::steal(PyDict_New());
  if (!counts)
    return nullptr;
  for (const auto &[overload, count] : rt::relaidResults()) {
    Reference number = Reference::steal(PyLong_FromUnsignedLongLong(count));
    if (!number ||
        PyDict_SetItemString(counts.get(), overload.c_str(), number.get()))
      return nullptr;
  }
  return counts.release();
}

PyCFunction method(PyCFunctionWithKeywords function) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

PyMethodDef methods[] = {
    {"capture", method(capture), METH_VARARGS | METH_KEYWORDS,
     "capture(context, target, args, kwargs, name, *, lifted=set(), "
     "follow_sizes=False) -> Capture\n"
     "Runs one monitored call, which is recorded as a whole or not at all."},
    {"capture_with_graph_breaks", method(captureWithGraphBreaks),
     METH_VARARGS | METH_KEYWORDS,
     "capture_with_graph_breaks(context, target, args, kwargs, name, *, "
     "points, "
     "passed, "
     "planner, lifted, follow_sizes, unseen, is_part) -> Capture\n"
     "Runs one monitored call, recorded in segments."},
    {"build", method(build), METH_VARARGS | METH_KEYWORDS,
     "build(trace, objects, nargs, keyword_names, *, eager_rounding, dump_dir, "
     "accelerator, specialize_sizes, verify, depth) -> Specialization\n"
     "Compiles a captured call. Raises BuildError."},
    {"cross_compile", crossCompile, METH_VARARGS,
     "cross_compile(trace, capability, eager_rounding=False, "
     "specialize_sizes=False) "
     "-> (launch, kernels)\n"
     "The launch programs as text and the PTX that build would load where a "
     "GPU "
     "of this compute capability (90 for 9.0) is; neither it nor its driver "
     "has "
     "to be here. Raises BuildError."},
    {"merge", merge, METH_VARARGS,
     "merge([MergeSegment, ...]) -> Trace\n"
     "One trace of the segments of a call with a graph break at a branch on "
     "data, in "
     "one context. Raises BuildError."},
    {"is_capturing", isCapturing, METH_NOARGS,
     "Whether this thread is inside a monitored run."},
    {"default_device", defaultDevice, METH_NOARGS,
     "The device of torch.set_default_device, or of the with statement "
     "around; None: no __torch_function__ mode is active; \"another mode\": "
     "another one is."},
    {"call_through", callThrough, METH_O,
     "call_through(type): calls of instances go to their `_pyjit_call`."},
    {"call_disabled", callDisabled, METH_VARARGS,
     "call_disabled(function, args, kwargs): calls it; no capture goes past."},
    {"measure_host", measureHost, METH_O,
     "measure_host(on): whether hits note what they take beside the launch."},
    {"relaid_results", relaidResults, METH_NOARGS,
     "relaid_results(): by overload, how many results of "
     "vendor calls were copied so far because their strides were not those "
     "that a program is compiled for. A rule that says what the call returns "
     "is wrong then: right answers, at a cost."},
    {nullptr, nullptr, 0, nullptr}};

PyModuleDef definition = {PyModuleDef_HEAD_INIT,
                          "pyjit._C",
                          "The compiled half of pyjit.",
                          -1,
                          methods,
                          nullptr,
                          nullptr,
                          nullptr,
                          nullptr};

} // namespace
} // namespace pyjit::python

PyMODINIT_FUNC PyInit__C() {
  using namespace pyjit::python;
  // Its types and operators are used from here on; also loads libtorch_python.
  Reference torch = Reference::steal(PyImport_ImportModule("torch"));
  if (!torch)
    return nullptr;
  Reference module = Reference::steal(PyModule_Create(&definition));
  if (!module || !addCompiledFunctionType(module.get()) ||
      !addSpecializationType(module.get()) || !addTraceTypes(module.get()) ||
      !addResumptionType(module.get()) || !addModuleCallsType(module.get()) ||
      !pyjit::capture::addContinuationType(module.get()) ||
      !pyjit::capture::addCaptureTypes(module.get()))
    return nullptr;
  buildError = PyErr_NewExceptionWithDoc(
      "pyjit._C.BuildError",
      "A captured call does not compile; has the diagnostics.",
      PyExc_RuntimeError, nullptr);
  if (!buildError ||
      PyModule_AddObjectRef(module.get(), "BuildError", buildError) < 0)
    return nullptr;
  return module.release();
}
