//===- pyjit-trace.cpp - write the trace of one call in a script ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//   pyjit-trace SCRIPT --function NAME -o FILE.mlir [-- script arguments]
//
// Embeds CPython, runs the script and writes what the first call of the
// function did, as refgraph text. NAME may be a method (Model.forward) or a
// nested function (main.step). The environment (with torch and pyjit) is that
// of the interpreter that PYJIT_PYTHON names, or else the active virtual
// environment if its Python is of this version, or else the tree's own.
//
//===----------------------------------------------------------------------===//

#include <Python.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
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

/// Whether pyvenv.cfg in this folder says that its Python is of this version.
static bool isOfThisVersion(const std::string &folder) {
  std::ifstream file(folder + "/pyvenv.cfg");
  const std::string version = std::to_string(PY_MAJOR_VERSION) + "." +
                              std::to_string(PY_MINOR_VERSION) + ".";
  for (std::string line; std::getline(file, line);) {
    size_t equals = line.find('=');
    if (line.rfind("version", 0) != 0 || equals == std::string::npos)
      continue; // `version`, or `version_info`
    size_t value = line.find_first_not_of(" \t", equals + 1);
    return value != std::string::npos &&
           line.compare(value, version.size(), version) == 0;
  }
  return false;
}

/// The interpreter whose environment is used.
static std::string choosePython() {
  if (const char *python = std::getenv("PYJIT_PYTHON"))
    return python;
  const char *active = std::getenv("VIRTUAL_ENV");
  if (!active || !*active)
    return PYJIT_DEFAULT_PYTHON;
  if (isOfThisVersion(active))
    return std::string(active) + "/bin/python";
  std::fprintf(stderr,
               "pyjit-trace: note: the active environment %s is not of Python "
               "%d.%d; using %s\n",
               active, PY_MAJOR_VERSION, PY_MINOR_VERSION,
               PYJIT_DEFAULT_PYTHON);
  return PYJIT_DEFAULT_PYTHON;
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
                "Runs SCRIPT and writes the trace of the first call of NAME: a "
                "function, a method (Model.forward), a nested function\n"
                "(main.step) or a variable that holds a module. FILE.mlir may "
                "be -, standard output. The environment is that of\n"
                "PYJIT_PYTHON, or the active one (VIRTUAL_ENV).");
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

  const std::string python = choosePython();
  PyConfig config;
  PyConfig_InitPythonConfig(&config);
  PyConfig_SetBytesString(&config, &config.program_name, python.c_str());
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
