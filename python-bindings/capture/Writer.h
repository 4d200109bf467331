//===- Writer.h - refgraph text ---------------------------------*- C++ -*-===//
#ifndef PYJIT_CAPTURE_WRITER_H
#define PYJIT_CAPTURE_WRITER_H

#include <Python.h>

#include <map>
#include <string>
#include <tuple>
#include <vector>

namespace pyjit::capture {

/// Escapes and quotes for MLIR.
std::string quoted(const std::string &text);
/// A string as UTF-8 (lone surrogates passed through), quoted.
std::string quotedString(PyObject *unicode);
std::string floatText(double value);

/// Collects lines and locations of one trace.
class Writer {
public:
  int fresh() { return nextValue++; }
  /// Appends one op; `loc` is a location id of this writer.
  void line(const std::string &text, int loc);
  /// Puts a line before all others (refgraph.external, refgraph.state).
  void header(const std::string &text);
  /// Location of an instruction, nested in `caller` (-1: outermost).
  int location(PyCodeObject *code, int offset, int caller);
  std::string finish(const std::string &name,
                     const std::string &attribute = "") const;

private:
  int nextValue = 0;
  std::string headers;
  std::string body;
  std::vector<std::string> locs;
  std::map<std::tuple<PyCodeObject *, int, int, int>, int> ids;
  std::map<PyCodeObject *, std::string> files;
};

} // namespace pyjit::capture

#endif // PYJIT_CAPTURE_WRITER_H
