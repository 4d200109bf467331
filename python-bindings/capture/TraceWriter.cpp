//===- TraceWriter.cpp - The trace of one recording -----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "TraceWriter.h"

using namespace pyjit::capture;

std::string pyjit::capture::utf8(PyObject *unicode) {
  PyObject *bytes =
      PyUnicode_AsEncodedString(unicode, "utf-8", "surrogatepass");
  if (!bytes) {
    PyErr_Clear();
    return "";
  }
  std::string text(PyBytes_AS_STRING(bytes), PyBytes_GET_SIZE(bytes));
  Py_DECREF(bytes);
  return text;
}

static std::string take(PyjitText *text) {
  PyjitString given = pyjitTextGet(text);
  std::string taken(given.data, given.size);
  pyjitTextDestroy(text);
  return taken;
}

std::string pyjit::capture::textOf(PyjitType type) {
  return take(pyjitTypePrint(type));
}

std::string pyjit::capture::textOf(PyjitAttribute attribute) {
  return take(pyjitAttributePrint(attribute));
}

TraceWriter::TraceWriter(PyjitContext *context, const std::string &name)
    : context(context), trace(pyjitTraceCreate(context, view(name))) {}

PyjitLocation TraceWriter::location(PyCodeObject *code, int offset,
                                    PyjitLocation caller) {
  int line = 0, column = 0, endLine = 0, endColumn = 0;
  PyCode_Addr2Location(code, offset, &line, &column, &endLine, &endColumn);
  line = line < 0 ? 0 : line;
  column = column < 0 ? 0 : column + 1;
  std::string &file = files[code];
  if (file.empty())
    file = utf8(code->co_filename);
  PyjitLocation inner = pyjitLocationFile(context, view(file), line, column);
  return caller ? pyjitLocationCall(inner, caller) : inner;
}
