//===- HostScalars.h - Numbers in tensors that the host keeps ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An optimizer counts its steps in a tensor of the CPU without dimensions, and
// asks for its `item()` in each. Such a number is known before the launch: the
// guards read it, Python's arithmetic on it is done with them, and what the
// call adds to it is written when the launch is over. No program has a part in
// it, on whichever device it runs.
//
//===----------------------------------------------------------------------===//
#ifndef PYJIT_CAPTURE_NUMBERS_HOSTSCALARS_H
#define PYJIT_CAPTURE_NUMBERS_HOSTSCALARS_H

#include "numbers/DataScalars.h"
#include "objects/Node.h"

#include "pyjit-rt/ScalarMath.h"

#include <string>
#include <unordered_map>

namespace at {
class TensorBase;
}
namespace c10 {
class Scalar;
struct TensorImpl;
} // namespace c10

namespace pyjit::capture {

class Recording;

class HostScalars {
public:
  explicit HostScalars(Recording &recording) : s(recording) {}

  /// The SSA value of the number that the tensor holds, which is `number`; -1
  /// if it is no such tensor.
  PyjitValue read(const at::TensorBase &tensor, rt::Number &number);
  PyjitValue read(PyObject *tensor, rt::Number &number);
  /// Likewise of what Python makes of it: `float(tensor)`, `int(tensor)`.
  PyjitValue readAs(NumberKind kind, PyObject *tensor, rt::Number &number);
  /// `tensor += addend` has run. False: it is an operator like any other.
  bool add(const at::TensorBase &tensor, const rt::Number &addend);
  /// `tensor *= factor` has run, of a factor that the guards compute as
  /// `value`; `before` is what it held.
  bool multiply(const at::TensorBase &tensor, double before, double factor,
                PyjitValue value);
  /// `tensor == number`, or the like, has run: Python may ask for its truth.
  void noteComparison(const std::string &name, const at::TensorBase &tensor,
                      const c10::Scalar &number, const at::TensorBase &result);
  /// The guards say what such a truth is; false of any other tensor.
  bool answers(PyObject *result);
  /// Whether the call has changed what the tensor's memory holds, in a way that
  /// no operator of the trace has.
  bool isWritten(const at::TensorBase &tensor) const;
  /// Whether it is a view of such a tensor.
  bool isShownBy(PyObject *tensor) const;
  /// A value of the trace that holds what a written tensor holds now, or -1.
  PyjitValue tensorOf(const at::TensorBase &tensor);
  /// What a written tensor holds at the end.
  PyjitValue valueOf(Node *tensor) const;

private:
  struct Held {
    Node *node = nullptr;
    /// What the guards read, and what it holds now.
    PyjitValue read = -1, value = -1;
    rt::Number before, number;
    bool written = false;
    PyjitValue from = -1; ///< what the last sum was made of
    /// What `tensorOf` made, and of which number.
    PyjitValue tensor = -1, shown = -1;
  };
  Held *find(const at::TensorBase &tensor);
  bool isCandidate(const at::TensorBase &tensor) const;
  void readFirst(Held &held);
  bool takeEqualSum(Held &held, const rt::Number &sum);
  void keepWhole(const Held &held);
  PyjitValue constant(const rt::Number &number);
  PyjitValue single(PyjitValue value, double number);
  PyjitValue arith(rt::Arith function, const std::vector<PyjitValue> &operands,
                   const rt::Number &result);
  void compare(rt::Compare function, PyjitValue a, PyjitValue b,
               bool outcome = true);

  struct Comparison {
    rt::Compare function;
    PyjitValue value; ///< of what the tensor held
    rt::Number number, other;
  };

  Recording &s;
  std::unordered_map<const c10::TensorImpl *, Comparison> comparisons;
  std::unordered_map<const c10::TensorImpl *, Held> tensors;
};

} // namespace pyjit::capture

#endif // PYJIT_CAPTURE_NUMBERS_HOSTSCALARS_H
