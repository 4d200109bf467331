//===- Writer.cpp - refgraph text -----------------------------------------===//

#include "Writer.h"

#include <cmath>
#include <cstdio>
#include <cstring>

using namespace pyjit::capture;

std::string pyjit::capture::quoted(const std::string &text) {
  std::string out = "\"";
  for (unsigned char c : text) {
    if (c == '"' || c == '\\' || c < 0x20 || c >= 0x7f) {
      char escape[4];
      std::snprintf(escape, sizeof(escape), "\\%02X", c);
      out += escape;
    } else {
      out += char(c);
    }
  }
  return out + "\"";
}

std::string pyjit::capture::quotedString(PyObject *unicode) {
  PyObject *bytes =
      PyUnicode_AsEncodedString(unicode, "utf-8", "surrogatepass");
  if (!bytes) {
    PyErr_Clear();
    return "\"\"";
  }
  std::string text(PyBytes_AS_STRING(bytes), PyBytes_GET_SIZE(bytes));
  Py_DECREF(bytes);
  return quoted(text);
}

std::string pyjit::capture::floatText(double value) {
  if (!std::isfinite(value)) {
    uint64_t bits;
    std::memcpy(&bits, &value, sizeof(bits));
    char text[32];
    std::snprintf(text, sizeof(text), "0x%016llX", (unsigned long long)bits);
    return text;
  }
  char text[40];
  std::snprintf(text, sizeof(text), "%.17g", value);
  std::string out = text;
  size_t exponent = out.find('e');
  if (out.find('.') == std::string::npos)
    out.insert(exponent == std::string::npos ? out.size() : exponent, ".0");
  return out;
}

void Writer::line(const std::string &text, int loc) {
  body += "  ";
  body += text;
  if (loc >= 0)
    body += " loc(#loc" + std::to_string(loc) + ")";
  body += '\n';
}

void Writer::header(const std::string &text) {
  headers += "  " + text + " loc(unknown)\n";
}

int Writer::location(PyCodeObject *code, int offset, int caller) {
  int line = 0, column = 0, endLine = 0, endColumn = 0;
  PyCode_Addr2Location(code, offset, &line, &column, &endLine, &endColumn);
  line = line < 0 ? 0 : line;
  column = column < 0 ? 0 : column + 1;
  auto key = std::make_tuple(code, line, column, caller);
  auto found = ids.find(key);
  if (found != ids.end())
    return found->second;
  auto innerKey = std::make_tuple(code, line, column, -1);
  int inner;
  auto foundInner = ids.find(innerKey);
  if (foundInner != ids.end()) {
    inner = foundInner->second;
  } else {
    std::string &file = files[code];
    if (file.empty())
      file = quotedString(code->co_filename);
    inner = int(locs.size());
    locs.push_back("loc(" + file + ":" + std::to_string(line) + ":" +
                   std::to_string(column) + ")");
    ids[innerKey] = inner;
  }
  if (caller < 0)
    return inner;
  int outer = int(locs.size());
  locs.push_back("loc(callsite(#loc" + std::to_string(inner) + " at #loc" +
                 std::to_string(caller) + "))");
  ids[key] = outer;
  return outer;
}

std::string Writer::finish(const std::string &name,
                           const std::string &attribute) const {
  std::string out =
      "refgraph.trace @" + quoted(name) +
      (attribute.empty() ? "" : " attributes {" + attribute + "}") + " {\n";
  out += headers;
  out += body;
  out += "} loc(unknown)\n";
  for (size_t i = 0; i < locs.size(); ++i)
    out += "#loc" + std::to_string(i) + " = " + locs[i] + "\n";
  return out;
}
