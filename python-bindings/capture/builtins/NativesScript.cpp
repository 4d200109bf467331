//===- NativesScript.cpp - Functions compiled by TorchScript --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "builtins/Natives.h"
#include "tensors/TensorOpFacts.h"
#include "tensors/Tensors.h"

#include <torch/csrc/autograd/python_variable.h>

#include <cstring>

using namespace pyjit;
using namespace pyjit::capture;

bool pyjit::capture::isScriptFunction(PyObject *object) {
  const char *name = Py_TYPE(object)->tp_name;
  size_t n = std::strlen(name), m = std::strlen("ScriptFunction");
  if (n < m || std::strcmp(name + n - m, "ScriptFunction"))
    return false;
  static PyObject *cls = findObject("torch._C:ScriptFunction");
  return reinterpret_cast<PyObject *>(Py_TYPE(object)) == cls;
}

static std::string textOf(PyObject *graph) {
  PyObject *text = graph ? PyObject_Str(graph) : nullptr;
  const char *chars = text ? PyUnicode_AsUTF8(text) : nullptr;
  std::string out = chars ? chars : "";
  Py_XDECREF(text);
  Py_XDECREF(graph);
  PyErr_Clear();
  return out;
}

/// The names of a graph's instructions, each with its place in the text, until
/// `visit` returns false. Returns whether it never did.
template <typename Visit>
static bool everyInstruction(const std::string &graph, Visit visit) {
  auto isName = [](char c) {
    return c == '_' || std::isalnum(static_cast<unsigned char>(c));
  };
  for (size_t at = 0; (at = graph.find("::", at)) != std::string::npos;
       at += 2) {
    size_t begin = at, end = at + 2;
    while (begin > 0 && isName(graph[begin - 1]))
      --begin;
    while (end < graph.size() && isName(graph[end]))
      ++end;
    if (!visit(graph.substr(begin, end - begin), begin))
      return false;
  }
  return true;
}

/// Whether no instruction reads tensor data, calls back into Python or does
/// something besides computing.
static bool isPlainScript(const std::string &graph) {
  return !graph.empty() &&
         everyInstruction(graph, [](const std::string &name, size_t) {
           return !factsOf(name).stopsScript;
         });
}

/// `%2 : int = prim::Constant…`: a tensor among a graph's constants may be one
/// that the program still holds.
static bool isPlainConstant(const std::string &graph, size_t at) {
  size_t line = graph.rfind('\n', at);
  line = line == std::string::npos ? 0 : line + 1;
  size_t colon = graph.find(" : ", line), equals = graph.find(" = ", line);
  if (colon > at || equals > at)
    return false;
  static const std::set<std::string> types = {
      "int",   "float",  "bool",    "str",      "NoneType", "Device",
      "int[]", "bool[]", "float[]", "Function", "str[]"};
  return types.count(graph.substr(colon + 3, equals - colon - 3));
}

/// `prim::DifferentiableGraph_0`: one of several graphs that are run apart.
static std::string withoutNumber(const std::string &name) {
  size_t end = name.find_last_not_of("0123456789");
  bool numbered =
      end != std::string::npos && end + 1 < name.size() && name[end] == '_';
  return numbered ? name.substr(0, end) : name;
}

/// Which graph's text it is: the function's, or that of what ran, where a
/// tensor among the constants is the result of instructions, and graphs that
/// are run apart are, or may be, what the text shows of them.
enum class ScriptForm { Written, Ran, RanUnfused };

/// Whether each instruction of a TorchScript graph is an operator that the
/// dispatcher shows, or computes with Python data and tensors' metadata alone.
/// A tensor that no operator made is then made of these.
static bool showsItsTensors(const std::string &graph, ScriptForm form) {
  return everyInstruction(graph, [&](const std::string &name, size_t begin) {
    if (name == operators::prim::Constant && form == ScriptForm::Written &&
        !isPlainConstant(graph, begin))
      return false;
    return factsOf(name).plainInScript ||
           (form == ScriptForm::RanUnfused &&
            factsOf(withoutNumber(name)).runsApartInScript) ||
           (name.rfind("aten::", 0) == 0 && TensorRecorder::isOperator(name));
  });
}

ResultKind pyjit::capture::callScript(Recording &s, const Call &c) {
  s.objects.pin(c.callable);
  for (PyObject *arg : c.args)
    s.scalars.specializeDeep(arg);
  // Asked from C++.
  static PyObject *asked = findObject("torch.compiler:is_exporting");
  if (asked && !s.objects.find(asked))
    s.objects.pin(asked);
  std::string graph =
      textOf(PyObject_GetAttrString(c.callable, "inlined_graph"));
  if (!isPlainScript(graph))
    return s.calls.unknownNative(c);
  s.calls.scripting = showsItsTensors(graph, ScriptForm::Written)
                          ? s.tracker.top()->frame
                          : nullptr;
  s.calls.scriptConstants = s.calls.scriptOnDevice = false;
  return s.calls.torchCall(c);
}

/// Whether TorchScript makes kernels of what it runs on the CPU.
static bool mayFuseOnCpu() {
  static PyObject *asks = findObject("torch._C:_jit_can_fuse_on_cpu");
  PyObject *answer = asks ? PyObject_CallNoArgs(asks) : nullptr;
  bool fuses = answer != Py_False;
  Py_XDECREF(answer);
  PyErr_Clear();
  return fuses;
}

/// A tensor of unknown origin was taken for one of Python data. What ran may be
/// another graph than the function's: fused, say, so that operators are not
/// seen.
void Calls::finishScript(PyObject *result) {
  if (result && ObjectTable::isTensor(result) &&
      s.tensors->valueOf(result) < 0) {
    s.tensors->bindConstant(result);
    scriptConstants = true;
    scriptOnDevice |= !THPVariable_Unpack(result).is_cpu();
  }
  scripting = nullptr;
  if (!scriptConstants || s.dead)
    return;
  scriptConstants = false;
  PyObject *module = PyImport_ImportModule("torch._C");
  PyObject *graph =
      module ? PyObject_CallMethod(module, "_last_executed_optimized_graph",
                                   nullptr)
             : nullptr;
  Py_XDECREF(module);
  std::string text = textOf(graph);
  ScriptForm form = scriptOnDevice || mayFuseOnCpu() ? ScriptForm::Ran
                                                     : ScriptForm::RanUnfused;
  if (text.empty() || !showsItsTensors(text, form))
    s.end(ReasonKind::TorchScript,
          "a TorchScript function that runs in another form");
}
