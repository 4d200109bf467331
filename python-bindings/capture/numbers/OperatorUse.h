//===- OperatorUse.h - Numbers that an operator is given --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef PYJIT_CAPTURE_NUMBERS_OPERATORUSE_H
#define PYJIT_CAPTURE_NUMBERS_OPERATORUSE_H

#include "CPython.h"
#include "TraceWriter.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/function_schema.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace pyjit::capture {

class Scalars;
struct Call;

/// Tracked numbers that the running instruction hands to an operator.
struct OperatorUse {
  OperatorUse() = default;
  /// `function`: the Python function's name.
  OperatorUse(PyjitFrame *frame, std::string function);

  PyjitFrame *frame = nullptr;
  std::string name; ///< of the Python function, without a trailing `_`
  struct Argument {
    PyObject *number;
    std::string keyword;
    size_t position = 0;     ///< among the call's arguments
    Py_ssize_t element = -1; ///< of the list that it stands in
    bool used = false;
  };
  std::vector<Argument> arguments;
  int operators = 0;
  bool composite = false;
  /// The probability that a composite operator hands to its parts, or null, and
  /// the numbers that these are given (DropRates.cpp).
  Argument *rate = nullptr;
  std::vector<std::pair<double, PyjitValue>> ofRate;
  /// The number that composite operators hand on to their parts as it is
  /// (HandedNumbers.cpp), or null.
  Argument *handed = nullptr;
  bool slot = false; ///< an operator of Python's, not a call

  // Sizes (SizeUses.cpp).
  std::vector<std::vector<PyObject *>> lists; ///< ints of the arguments
  bool open = false;                          ///< the last one goes on
  std::vector<PyObject *> ints;       ///< may be numbers that nobody takes
  std::map<PyObject *, int> usedInts; ///< how often
  struct Part {
    const char *name;
    int64_t dim;
    PyObject *first, *second;
  };
  std::vector<Part> parts; ///< of a subscript, in order
  /// The part of a tensor that a value is assigned to, as far as it is viewed;
  /// undefined elsewhere.
  at::Tensor target;

  /// Whether operators have taken a number in each place that it was given in.
  bool isTaken(PyObject *number) const;
  /// The call's argument that the operator takes at a place of its schema: a
  /// number that is followed, of this value. Null: there is none.
  Argument *findGiven(const Scalars &scalars, const c10::FunctionSchema &schema,
                      size_t place, const rt::Number &value);
  /// The ints that a call's arguments hold, in their order.
  void collectInts(const Call &call);
  /// Tracked numbers among the elements of an operator's list of ints: told by
  /// the whole list, which is one of the call's.
  std::vector<PyObject *> findInts(const Scalars &scalars,
                                   const std::vector<int64_t> &values);
  /// The numbers that a slice or selection of a subscript was given.
  std::pair<PyObject *, PyObject *> findPart(const std::string &overload,
                                             int64_t dim);
};

} // namespace pyjit::capture

#endif // PYJIT_CAPTURE_NUMBERS_OPERATORUSE_H
