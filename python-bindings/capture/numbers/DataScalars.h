//===- DataScalars.h - Python's scalars, of tensors' data -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// No Torch header: files that include this one compile fast.
//
//===----------------------------------------------------------------------===//
#ifndef PYJIT_CAPTURE_NUMBERS_DATASCALARS_H
#define PYJIT_CAPTURE_NUMBERS_DATASCALARS_H

#include "CPython.h"
#include "TraceWriter.h"
#include "pyjit-rt/ScalarMath.h"

#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace pyjit::capture {

class Recording;

/// What Python asked a tensor for: `item()`, `int()`, `float()`, `bool()`.
enum class NumberKind { Own, Int, Float, Bool };

/// A number that the specialization computes, or a known one.
struct NumberOperand {
  int proxy = -1;
  rt::Number number;
  bool isNonzero = false; ///< the guards say so
};

/// Data-dependent scalars that the specialization computes (DataScalars.cpp).
/// Their proxies are known by number; -1: it cannot be computed.
class DataScalars {
public:
  explicit DataScalars(Recording &recording) : s(recording) {}

  int readNumber(PyObject *tensor, NumberKind kind);
  /// Likewise, of `item in tensor`, or `not in`: `torch.Tensor.__contains__`.
  int readContains(PyObject *tensor, PyObject *item, bool negated);
  /// Of a lifted number with this SSA value; an int is at most so large.
  int liftNumber(const rt::Number &number, int value, const std::string &device,
                 int64_t bound = kUnbounded);
  static constexpr int64_t kUnbounded = std::numeric_limits<int64_t>::max();
  /// More than there are elements in any tensor.
  static constexpr int64_t kCount = int64_t(1) << 48;
  /// `expected`: where to put flags that have to be so for the result to be
  /// exact; null: nothing may be expected.
  int computeNumber(rt::Arith function, const NumberOperand *operands,
                    std::vector<std::pair<int, bool>> *expected);
  int compareNumbers(rt::Compare function, const NumberOperand *operands);
  /// Whether it is nan, infinite, or neither.
  int askKind(int proxy, bool nan, bool infinite);
  PyjitValue proxyValue(int proxy);
  std::string proxyDevice(int proxy);
  /// Whether single precision can hold it.
  bool isSingle(int proxy);
  static std::string deviceOf(PyObject *tensor);
  static bool isBool(PyObject *tensor);
  /// Whether Python has the number that the specialization would have.
  bool proxyIs(int proxy, PyObject *number);

  int noteSite();
  /// Instructions (of original code) that gave Python a data-dependent
  /// scalar.
  std::vector<std::pair<PyCodeObject *, int>> sites;
  /// Those of numbers that were used in a way that the specialization cannot
  /// compute: a graph break is needed there.
  std::set<int> lostSites;

private:
  Recording &s;
};

} // namespace pyjit::capture

#endif // PYJIT_CAPTURE_NUMBERS_DATASCALARS_H
