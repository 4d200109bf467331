//===- DataNumbers.h - Python's numbers, computed in the record -*- C++ -*-===//
//
// No Torch header: files that include this one compile fast.
//
//===----------------------------------------------------------------------===//
#ifndef PYJIT_CAPTURE_NUMBERS_DATANUMBERS_H
#define PYJIT_CAPTURE_NUMBERS_DATANUMBERS_H

#include "CPython.h"
#include "TraceWriter.h"
#include "pyjit-rt/ScalarMath.h"

#include <set>
#include <string>
#include <utility>
#include <vector>

namespace pyjit::capture {

class Session;

/// What Python asked a tensor for: `item()`, `int()`, `float()`, `bool()`.
enum class NumberKind { Own, Int, Float, Bool };

/// A number that the record computes, or a known one.
struct NumberOperand {
  int shadow = -1;
  rt::Number number;
};

/// Numbers of tensors' data that the record computes (DataNumbers.cpp). Their
/// shadows are known by number; -1: it cannot be computed.
class DataNumbers {
public:
  explicit DataNumbers(Session &session) : s(session) {}

  int readNumber(PyObject *tensor, NumberKind kind);
  /// Likewise, of `item in tensor`, or `not in`: `torch.Tensor.__contains__`.
  int readContains(PyObject *tensor, PyObject *item, bool negated);
  /// Of a lifted number with this SSA value.
  int liftNumber(const rt::Number &number, int value,
                 const std::string &device);
  /// `expected`: where to put flags that have to be so for the result to be
  /// exact; null: nothing may be expected.
  int computeNumber(rt::Arith function, const NumberOperand *operands,
                    std::vector<std::pair<int, bool>> *expected);
  int compareNumbers(rt::Compare function, const NumberOperand *operands);
  PyjitValue shadowValue(int shadow);
  std::string shadowDevice(int shadow);
  static std::string deviceOf(PyObject *tensor);
  static bool isBool(PyObject *tensor);
  /// Whether Python has the number that the record would have.
  bool shadowIs(int shadow, PyObject *number);

  int noteSite();
  /// Instructions (of original code) that gave Python a number of a tensor's
  /// data.
  std::vector<std::pair<PyCodeObject *, int>> sites;
  /// Those of numbers that were used in a way that the record cannot compute:
  /// a cut is needed there.
  std::set<int> lostSites;

private:
  Session &s;
};

} // namespace pyjit::capture

#endif // PYJIT_CAPTURE_NUMBERS_DATANUMBERS_H
