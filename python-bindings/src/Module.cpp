//===- Module.cpp - The extension module pyjit._C -------------------------===//

#define PY_SSIZE_T_CLEAN // lengths in argument formats are Py_ssize_t

#include "CompiledFunction.h"
#include "CrossCompile.h"
#include "Cut.h"
#include "ModuleCall.h"
#include "RecordObject.h"
#include "Reference.h"
#include "TraceObject.h"

#include "capture/Continuation.h"
#include "capture/Recorder.h"
#include "capture/cpython_3_12.h"

#include "pyjit-c/Compiler.h"

#include <cstring>
#include <optional>

namespace pyjit::python {
namespace {

PyObject *buildError = nullptr; // set once, at module initialisation

/// A call's arguments as a vectorcall has them.
struct Arguments {
  std::vector<PyObject *> values;
  size_t positional = 0;
  Reference names;

  bool set(PyObject *arguments, PyObject *keywords) {
    positional = PyTuple_GET_SIZE(arguments);
    for (size_t i = 0; i < positional; ++i)
      values.push_back(PyTuple_GET_ITEM(arguments, i));
    Py_ssize_t count = PyDict_GET_SIZE(keywords);
    if (!count)
      return true;
    names = Reference::steal(PyTuple_New(count));
    if (!names)
      return false;
    Py_ssize_t position = 0, index = 0;
    PyObject *key, *value;
    while (PyDict_Next(keywords, &position, &key, &value)) {
      PyTuple_SET_ITEM(names.get(), index++, Py_NewRef(key));
      values.push_back(value);
    }
    return true;
  }
};

/// A collection would run finalizers of objects that have nothing to do with
/// the call, in the middle of it and under observation.
struct NoCollection {
  // By the threshold: whether it is enabled is for the program to ask and set.
  int threshold = pyjitHoldCollection();
  ~NoCollection() { pyjitAllowCollection(threshold); }
};

/// A set of strings, or null.
bool toPlaces(PyObject *set, std::set<std::string> &places) {
  if (!set)
    return true;
  Reference iterator = Reference::steal(PyObject_GetIter(set));
  if (!iterator)
    return false;
  while (Reference place = Reference::steal(PyIter_Next(iterator.get())))
    if (const char *text = PyUnicode_AsUTF8(place.get()))
      places.insert(text);
  return !PyErr_Occurred();
}

/// For `Record.set_end`.
PyObject *toTuple(const capture::Footing &footing) {
  return Py_BuildValue("(KKi)", (unsigned long long)footing.included,
                       (unsigned long long)footing.excluded, footing.inference);
}

PyObject *capture(PyObject *, PyObject *args) {
  PyjitContext *context;
  PyObject *target, *arguments, *keywords, *lifted = nullptr;
  const char *name;
  if (!PyArg_ParseTuple(args, "O&OO!O!s|O!:capture", toContext, &context,
                        &target, &PyTuple_Type, &arguments, &PyDict_Type,
                        &keywords, &name, &PySet_Type, &lifted))
    return nullptr;
  Arguments call;
  std::set<std::string> places;
  if (!call.set(arguments, keywords) || !toPlaces(lifted, places))
    return nullptr;
  capture::CaptureResult captured;
  {
    NoCollection guard;
    captured =
        capture::capture(context, target, call.values.data(), call.positional,
                         call.names.get(), name, std::move(places));
  }
  Reference objects = Reference::steal(captured.objects);
  if (!captured.result)
    return nullptr;
  return Py_BuildValue(
      "(NNOs#N)", captured.result, wrapTrace(std::move(captured.trace)),
      objects ? objects.get() : Py_None, captured.reason.data(),
      Py_ssize_t(captured.reason.size()), toTuple(captured.footing));
}

PyObject *captureWithCuts(PyObject *, PyObject *args) {
  PyjitContext *context;
  PyObject *target, *arguments, *keywords, *points, *planner, *lifted = nullptr,
                                                              *passed = nullptr;
  const char *name;
  if (!PyArg_ParseTuple(args, "O&OO!O!sO!O|O!O!:capture_with_cuts", toContext,
                        &context, &target, &PyTuple_Type, &arguments,
                        &PyDict_Type, &keywords, &name, &PyDict_Type, &points,
                        &planner, &PySet_Type, &lifted, &PyTuple_Type, &passed))
    return nullptr;
  std::set<int> unseen;
  for (Py_ssize_t i = 0; passed && i < PyTuple_GET_SIZE(passed); ++i)
    unseen.insert(int(PyLong_AsLong(PyTuple_GET_ITEM(passed, i))));
  if (PyErr_Occurred())
    return nullptr;
  Arguments call;
  std::set<std::string> places;
  if (!call.set(arguments, keywords) || !toPlaces(lifted, places))
    return nullptr;
  capture::CutResult captured;
  {
    NoCollection guard;
    captured = capture::captureWithCuts(
        context, target, call.values.data(), call.positional, call.names.get(),
        name, points, planner, std::move(places), std::move(unseen));
  }
  PyObject *error = PyErr_GetRaisedException(); // the user's
  Reference segments = Reference::steal(PyList_New(0));
  bool ok = bool(segments);
  for (capture::Segment &segment : captured.segments) {
    auto orNone = [](PyObject *object) {
      return object ? object : Py_NewRef(Py_None);
    };
    PyObject *fallback = nullptr;
    for (capture::Segment &plain : segment.fallback) {
      Py_XDECREF(plain.key); // the segment's
      fallback = Py_BuildValue("(NNNiN)", wrapTrace(std::move(plain.trace)),
                               plain.objects, orNone(plain.cut), plain.gradMode,
                               toTuple(plain.footing));
    }
    PyObject *numbers = PyList_New(0);
    for (auto [code, offset] : segment.numbers) {
      Reference site = Reference::steal(Py_BuildValue("(Ni)", code, offset));
      ok = ok && site && PyList_Append(numbers, site.get()) == 0;
    }
    Reference entry = Reference::steal(Py_BuildValue(
        "(NNNnNiNNNN)", orNone(segment.key),
        wrapTrace(std::move(segment.trace)), segment.objects, segment.nargs,
        orNone(segment.cut), segment.gradMode, orNone(fallback),
        PyBool_FromLong(segment.mayLoop), numbers, toTuple(segment.footing)));
    ok = ok && entry && PyList_Append(segments.get(), entry.get()) == 0;
  }
  Reference learned = Reference::steal(captured.learned);
  Reference result = Reference::steal(captured.result);
  if (error)
    PyErr_SetRaisedException(error);
  if (!result || !ok)
    return nullptr;
  return Py_BuildValue("(OOOs#)", result.get(), segments.get(), learned.get(),
                       captured.reason.data(),
                       Py_ssize_t(captured.reason.size()));
}

PyjitString toString(const char *text) { return {text, std::strlen(text)}; }

PyObject *build(PyObject *, PyObject *args) {
  PyjitTrace *trace;
  const char *dumpDirectory, *accelerator = "";
  Py_ssize_t nargs;
  PyObject *objects, *keywords;
  int eagerRounding, pinSizes = 0, verify = 0;
  if (!PyArg_ParseTuple(args, "O&O!nOps|spp:build", toTrace, &trace,
                        &PyList_Type, &objects, &nargs, &keywords,
                        &eagerRounding, &dumpDirectory, &accelerator, &pinSizes,
                        &verify))
    return nullptr;
  PyjitCompileOptions options{};
  options.size = sizeof options;
  options.eagerRounding = eagerRounding;
  options.pinSizes = pinSizes;
  options.verify = verify;
  options.dumpDirectory = toString(dumpDirectory);
  options.accelerator = toString(accelerator);
  std::string error;
  auto record =
      Record::build(trace, objects, nargs,
                    keywords == Py_None ? nullptr : keywords, options, error);
  if (!record) {
    PyErr_SetString(buildError, error.c_str());
    return nullptr;
  }
  return wrapRecord(std::move(record));
}

PyObject *crossCompile(PyObject *, PyObject *args) {
  PyjitTrace *trace;
  int capability, eagerRounding = 0, pinSizes = 0;
  if (!PyArg_ParseTuple(args, "O&i|pp:cross_compile", toTrace, &trace,
                        &capability, &eagerRounding, &pinSizes))
    return nullptr;
  std::string error;
  PyjitCompileOptions options{};
  options.size = sizeof options;
  options.eagerRounding = eagerRounding;
  options.pinSizes = pinSizes;
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

/// A tuple of ints.
bool toInts(PyObject *tuple, std::vector<int64_t> &ints) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i)
    ints.push_back(PyLong_AsLongLong(PyTuple_GET_ITEM(tuple, i)));
  return !PyErr_Occurred();
}

PyObject *merge(PyObject *, PyObject *args) {
  PyObject *list;
  if (!PyArg_ParseTuple(args, "O!:merge", &PyList_Type, &list))
    return nullptr;
  size_t count = PyList_GET_SIZE(list);
  std::vector<PyjitPart> parts(count);
  std::vector<std::vector<int64_t>> takes(count), objects(count);
  for (size_t i = 0; i < count; ++i) {
    PyjitTrace *trace;
    PyObject *taken, *numbers;
    int kind, endsAtCut, gradMode;
    long long condition, tensorClass;
    if (!PyArg_ParseTuple(PyList_GET_ITEM(list, i), "O&iLLO!O!pi", toTrace,
                          &trace, &kind, &condition, &tensorClass,
                          &PyTuple_Type, &taken, &PyTuple_Type, &numbers,
                          &endsAtCut, &gradMode) ||
        !toInts(taken, takes[i]) || !toInts(numbers, objects[i]))
      return nullptr;
    parts[i] = {trace,
                PyjitPartKind(kind),
                condition,
                tensorClass,
                {takes[i].data(), takes[i].size()},
                {objects[i].data(), objects[i].size()},
                bool(endsAtCut),
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

PyObject *callDisabled(PyObject *, PyObject *args) {
  PyObject *function, *arguments, *keywords;
  if (!PyArg_ParseTuple(args, "OO!O!:call_disabled", &function, &PyTuple_Type,
                        &arguments, &PyDict_Type, &keywords))
    return nullptr;
  return PyObject_Call(function, arguments, keywords);
}

PyObject *measureHost(PyObject *, PyObject *on) {
  int truth = PyObject_IsTrue(on);
  if (truth < 0)
    return nullptr;
  Record::measureHost(truth);
  Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    {"capture", capture, METH_VARARGS,
     "capture(context, target, args, kwargs, name, lifted=set()) -> (result, "
     "trace, objects, reason, footing)\n"
     "Runs one monitored call. reason is empty when it was captured."},
    {"capture_with_cuts", captureWithCuts, METH_VARARGS,
     "capture_with_cuts(context, target, args, kwargs, name, points, planner, "
     "lifted=set(), unseen=()) -> "
     "(result,"
     " segments, learned, reason)\n"
     "Runs one monitored call, recorded in parts. A segment is (key, trace, "
     "objects, nargs, cut, grad_mode, fallback, may_loop, numbers, footing); "
     "fallback, or None, is what to "
     "compile where trace's decisions are no loop: (trace, objects, cut, "
     "grad_mode, footing)."},
    {"build", build, METH_VARARGS,
     "build(trace, objects, nargs, keyword_names, eager_rounding, dump_dir, "
     "accelerator='', pin_sizes=False, verify=False) -> Record\nCompiles a "
     "captured call. "
     "Raises BuildError."},
    {"cross_compile", crossCompile, METH_VARARGS,
     "cross_compile(trace, capability, eager_rounding=False, pin_sizes=False) "
     "-> (launch, kernels)\n"
     "The launch programs as text and the PTX that build would load where a "
     "GPU "
     "of this compute capability (90 for 9.0) is; neither it nor its driver "
     "has "
     "to be here. Raises BuildError."},
    {"merge", merge, METH_VARARGS,
     "merge([MergePart, ...]) -> Trace\n"
     "One trace of the parts of a call that was cut at a branch on data, in "
     "one context. Raises BuildError."},
    {"is_capturing", isCapturing, METH_NOARGS,
     "Whether this thread is inside a monitored run."},
    {"call_through", callThrough, METH_O,
     "call_through(type): calls of instances go to their `_pyjit_call`."},
    {"call_disabled", callDisabled, METH_VARARGS,
     "call_disabled(function, args, kwargs): calls it; no capture goes past."},
    {"measure_host", measureHost, METH_O,
     "measure_host(on): whether hits note what they take beside the launch."},
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
      !addRecordType(module.get()) || !addTraceTypes(module.get()) ||
      !addCutType(module.get()) ||
      !pyjit::capture::addContinuationType(module.get()))
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
