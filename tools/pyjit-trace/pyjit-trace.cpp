//===- pyjit-trace.cpp - write the trace of one call in a script ----------===//
//
//   pyjit-trace SCRIPT --function NAME -o FILE.mlir [-- script arguments]
//
// Embeds CPython, runs the script and writes what the first call of the
// function did, as refgraph text. PYJIT_PYTHON names the interpreter whose
// environment (with torch and pyjit) is used; by default the tree's own.
//
//===----------------------------------------------------------------------===//

#include <Python.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

static int usage(const char *what) {
  std::fprintf(
      stderr,
      "pyjit-trace: error: %s\n"
      "usage: pyjit-trace SCRIPT --function NAME -o FILE.mlir [-- ARGUMENTS]\n",
      what);
  return 1;
}

int main(int argc, char **argv) {
  std::string script, function, output;
  std::vector<std::string> rest;
  for (int i = 1; i < argc; ++i) {
    std::string arg = argv[i];
    auto value = [&](std::string &into) {
      return ++i < argc && (into = argv[i], true);
    };
    if (arg == "--") {
      rest.assign(argv + i + 1, argv + argc);
      break;
    }
    if (arg == "--help" || arg == "-h") {
      std::puts("usage: pyjit-trace SCRIPT --function NAME -o FILE.mlir [-- "
                "ARGUMENTS]\n"
                "Runs SCRIPT and writes the trace of the first call of NAME; "
                "FILE.mlir may be -, standard output.");
      return 0;
    }
    if (arg == "--function" ? !value(function) : arg == "-o" && !value(output))
      return usage((arg + " takes a value").c_str());
    if (arg == "--function" || arg == "-o")
      continue;
    if (!script.empty() || arg[0] == '-')
      return usage(("unknown argument " + arg).c_str());
    script = arg;
  }
  if (script.empty() || function.empty() || output.empty())
    return usage("SCRIPT, --function and -o are needed");

  const char *python = std::getenv("PYJIT_PYTHON");
  PyConfig config;
  PyConfig_InitPythonConfig(&config);
  PyConfig_SetBytesString(&config, &config.program_name,
                          python ? python : PYJIT_DEFAULT_PYTHON);
  PyStatus status = Py_InitializeFromConfig(&config);
  PyConfig_Clear(&config);
  if (PyStatus_Exception(status))
    return usage(status.err_msg ? status.err_msg : "Python does not start");

  int code = 1;
  PyObject *module = PyImport_ImportModule("pyjit._trace_script");
  PyObject *list = PyList_New(0);
  for (const std::string &arg : rest) {
    PyObject *item = PyUnicode_DecodeFSDefault(arg.c_str());
    PyList_Append(list, item);
    Py_XDECREF(item);
  }
  PyObject *error =
      module
          ? PyObject_CallMethod(module, "trace_script", "sssO", script.c_str(),
                                function.c_str(), output.c_str(), list)
          : nullptr;
  if (!error) {
    PyErr_Print();
  } else if (const char *text = PyUnicode_AsUTF8(error); text && *text) {
    std::fprintf(stderr, "pyjit-trace: error: %s\n", text);
  } else {
    code = 0;
  }
  Py_XDECREF(error);
  Py_XDECREF(list);
  Py_XDECREF(module);
  return Py_FinalizeEx() < 0 ? 1 : code;
}
