//===- HostScalars.cpp - Numbers in tensors that the host keeps -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "numbers/HostScalars.h"

#include "numbers/Scalars.h"
#include "tensors/TensorImpl.h"

#include <torch/csrc/autograd/python_variable.h>

#include <cmath>
#include <optional>

using namespace pyjit;
using namespace pyjit::capture;

/// Whole numbers of this size are floats, and so are their sums.
static constexpr double kWhole = 1 << 23;

bool HostScalars::isCandidate(const at::TensorBase &t) const {
  if (t.dim() || !t.device().is_cpu() || t.requires_grad() ||
      t.is_inference() || t.is_conj() || t.is_neg() ||
      t.layout() != c10::kStrided)
    return false;
  switch (t.scalar_type()) {
  case at::kFloat:
  case at::kDouble:
  case at::kLong:
    break;
  default:
    return false;
  }
  TensorRecorder::Impl &impl = *s.tensors->impl;
  const TensorInfo *info = impl.find(t);
  return info && info->external && info->value >= 0 && !info->constant &&
         !impl.writtenStorages.count(t.storage().unsafeGetStorageImpl());
}

/// What the tensor holds now.
static rt::Number numberIn(const at::TensorBase &t) {
  switch (t.scalar_type()) {
  case at::kFloat:
    return rt::Number::of(
        double(*static_cast<const float *>(t.const_data_ptr())));
  case at::kDouble:
    return rt::Number::of(*static_cast<const double *>(t.const_data_ptr()));
  default:
    return rt::Number::of(*static_cast<const int64_t *>(t.const_data_ptr()));
  }
}

PyjitValue HostScalars::constant(const rt::Number &number) {
  return s.objects.addConstant(makeNumber(s, number));
}

PyjitValue HostScalars::arith(rt::Arith function,
                              const std::vector<PyjitValue> &operands,
                              const rt::Number &result) {
  return s.add(PyjitArithOp{
      .function = view(rt::kArithNames[unsigned(function)]),
      .operands = view(operands),
      .value = result.isFloat ? s.writer.real(result.real)
                              : s.writer.integer(result.integer),
      .resultType = s.writer.object(result.isFloat ? "float" : "int")});
}

void HostScalars::compare(rt::Compare function, PyjitValue a, PyjitValue b,
                          bool outcome) {
  s.add(PyjitCompareOp{.function = view(rt::kCompareNames[unsigned(function)]),
                       .lhs = a,
                       .rhs = b,
                       .outcome = outcome});
}

HostScalars::Held *HostScalars::find(const at::TensorBase &t) {
  auto known = tensors.find(t.unsafeGetTensorImpl());
  if (known != tensors.end())
    return isCandidate(t) ? &known->second : nullptr;
  if (!isCandidate(t))
    return nullptr;
  PyObject *object = THPVariable_Wrap(at::Tensor(t));
  Node *node = s.objects.find(object);
  Py_DECREF(object);
  if (!node || !node->external)
    return nullptr;
  Held held;
  held.node = node;
  held.before = held.number = numberIn(t);
  return &tensors.emplace(t.unsafeGetTensorImpl(), held).first->second;
}

/// An optimizer's counters go up together: where two are equal, they are one
/// number from here on.
void HostScalars::readFirst(Held &held) {
  if (held.read >= 0)
    return;
  const rt::Number &number = held.before;
  PyObject *object = makeNumber(s, number);
  auto *type = reinterpret_cast<PyObject *>(Py_TYPE(object));
  held.read = held.value = s.add(PyjitGetOp{
      .holder = s.objects.ssa(held.node),
      .selector = PyjitSelectorData,
      .exactType = some(s.objects.pin(type)->index),
      .equals = s.objects.constant(object),
      .lift = true,
      .resultType = s.writer.object(number.isFloat ? "float" : "int")});
  // Zeros of two signs are equal, and not the same.
  if (number.isFloat && !(std::abs(number.real) > 0))
    return;
  for (auto &entry : tensors)
    if (const Held &other = entry.second;
        &other != &held && other.read >= 0 &&
        other.before.isFloat == number.isFloat &&
        other.before.bits() == number.bits()) {
      compare(rt::Compare::Eq, held.read, other.read);
      held.read = held.value = other.read;
      return;
    }
}

PyjitValue HostScalars::read(const at::TensorBase &tensor, rt::Number &number) {
  if (s.surveying || s.ended())
    return -1;
  Held *held = find(tensor);
  if (!held)
    return -1;
  s.checkpoint.noteRead(storageOf(tensor));
  readFirst(*held);
  number = held->number;
  return held->value;
}

/// Whether such sums can be what Python's arithmetic gives.
static bool mayStayExact(const rt::Number &number, const rt::Number &addend,
                         at::ScalarType type) {
  if (type != at::kFloat)
    return true;
  auto isWhole = [](double real) {
    return std::abs(real) <= kWhole && std::floor(real) == real;
  };
  return isWhole(number.real) && isWhole(addend.real);
}

/// Of whole numbers they are, be they others in other calls.
void HostScalars::keepWhole(const Held &held) {
  compare(rt::Compare::Le, held.value, constant(rt::Number::of(kWhole)));
  compare(rt::Compare::Ge, held.value, constant(rt::Number::of(-kWhole)));
  rt::Number zero = rt::Number::of(0.0);
  PyjitValue rest =
      arith(rt::Arith::Mod, {held.value, constant(rt::Number::of(1.0))}, zero);
  compare(rt::Compare::Eq, rest, constant(zero));
}

/// Equal numbers have equal sums: one line serves all.
bool HostScalars::takeEqualSum(Held &held, const rt::Number &sum) {
  for (auto &entry : tensors)
    if (const Held &other = entry.second; other.written &&
                                          other.from == held.value &&
                                          other.number.isFloat == sum.isFloat &&
                                          other.number.bits() == sum.bits()) {
      held.from = held.value;
      held.value = other.value;
      return true;
    }
  return false;
}

bool HostScalars::add(const at::TensorBase &tensor, const rt::Number &given) {
  if (s.surveying || s.ended() || !isCandidate(tensor))
    return false;
  rt::Number addend = given, now = numberIn(tensor), sum;
  if (now.isFloat && !addend.isFloat)
    addend = rt::Number::of(double(addend.integer));
  if (addend.isFloat != now.isFloat)
    return false;
  // The operator has run: a tensor that is met here first has its sum.
  bool isNew = !tensors.count(tensor.unsafeGetTensorImpl());
  Held *held = find(tensor);
  if (!held)
    return false;
  if (isNew)
    held->before = held->number =
        now.isFloat ? rt::Number::of(now.real - addend.real)
                    : rt::Number::of(now.integer - addend.integer);
  if (!rt::compute(rt::Arith::Add, held->number, addend, sum) ||
      sum.bits() != now.bits() ||
      !mayStayExact(held->number, addend, tensor.scalar_type())) {
    if (isNew)
      tensors.erase(tensor.unsafeGetTensorImpl());
    else
      s.end(ReasonKind::Operator,
            "a number that the host keeps in a tensor, and its sum is rounded");
    return !isNew;
  }
  readFirst(*held);
  if (!takeEqualSum(*held, sum)) {
    if (tensor.scalar_type() == at::kFloat)
      keepWhole(*held);
    held->from = held->value;
    held->value = arith(rt::Arith::Add, {held->value, constant(addend)}, sum);
  }
  held->number = sum;
  held->written = true;
  s.effects.noteData(held->node);
  s.checkpoint.noteWrite(storageOf(tensor));
  return true;
}

PyjitValue HostScalars::single(PyjitValue value, double number) {
  return arith(rt::Arith::Single, {value}, rt::Number::of(number));
}

/// In single precision: the factor is rounded, and so is the product, which has
/// room in a double.
bool HostScalars::multiply(const at::TensorBase &tensor, double before,
                           double factor, PyjitValue value) {
  if (s.surveying || s.ended() || !isCandidate(tensor) ||
      tensor.scalar_type() != at::kFloat)
    return false;
  bool isNew = !tensors.count(tensor.unsafeGetTensorImpl());
  Held *held = find(tensor);
  if (!held)
    return false;
  if (isNew)
    held->before = held->number = rt::Number::of(before);
  double rounded = float(factor), product = before * rounded;
  rt::Number result = rt::Number::of(double(float(product)));
  if (result.bits() != numberIn(tensor).bits() ||
      held->number.bits() != rt::Number::of(before).bits()) {
    if (isNew)
      tensors.erase(tensor.unsafeGetTensorImpl());
    else
      s.end(ReasonKind::Operator,
            "a number that the host keeps in a tensor, and its product is "
            "rounded otherwise");
    return !isNew;
  }
  readFirst(*held);
  PyjitValue wide = arith(rt::Arith::Mul, {held->value, single(value, rounded)},
                          rt::Number::of(product));
  held->from = held->value;
  held->value = single(wide, result.real);
  held->number = result;
  held->written = true;
  s.effects.noteData(held->node);
  s.checkpoint.noteWrite(storageOf(tensor));
  return true;
}

/// By an operator's name, of a tensor and a number.
static std::optional<rt::Compare> comparisonOf(const std::string &name) {
  static const std::pair<const char *, rt::Compare> known[] = {
      {operators::aten::eq_Scalar, rt::Compare::Eq},
      {operators::aten::ne_Scalar, rt::Compare::Ne},
      {operators::aten::lt_Scalar, rt::Compare::Lt},
      {operators::aten::le_Scalar, rt::Compare::Le},
      {operators::aten::gt_Scalar, rt::Compare::Gt},
      {operators::aten::ge_Scalar, rt::Compare::Ge}};
  for (auto &[overload, function] : known)
    if (name == overload)
      return function;
  return std::nullopt;
}

void HostScalars::noteComparison(const std::string &name,
                                 const at::TensorBase &tensor,
                                 const c10::Scalar &number,
                                 const at::TensorBase &result) {
  auto function = comparisonOf(name);
  if (!function || result.is_inference() || !isCandidate(tensor))
    return;
  bool whole = tensor.scalar_type() == at::kLong;
  // Both in the tensor's own type.
  if (whole ? !number.isIntegral(/*includeBool=*/false)
            : tensor.scalar_type() != at::kDouble &&
                  double(float(number.toDouble())) != number.toDouble())
    return;
  Comparison made{*function, -1, {}, {}};
  made.other = whole ? rt::Number::of(number.toLong())
                     : rt::Number::of(number.toDouble());
  made.value = read(tensor, made.number);
  if (made.value >= 0)
    comparisons[result.unsafeGetTensorImpl()] = made;
}

bool HostScalars::answers(PyObject *object) {
  const at::Tensor &result = THPVariable_Unpack(object);
  auto found = comparisons.find(result.unsafeGetTensorImpl());
  bool outcome;
  if (found == comparisons.end() || result._version() != 0 || s.surveying ||
      s.ended() ||
      !rt::compare(found->second.function, found->second.number,
                   found->second.other, outcome))
    return false;
  compare(found->second.function, found->second.value,
          constant(found->second.other), outcome);
  return true;
}

PyjitValue HostScalars::read(PyObject *tensor, rt::Number &number) {
  if (isTransformed(tensor))
    return -1;
  return read(THPVariable_Unpack(tensor), number);
}

PyjitValue HostScalars::readAs(NumberKind kind, PyObject *tensor,
                               rt::Number &number) {
  PyjitValue value = read(tensor, number);
  if (value < 0 || kind == NumberKind::Own ||
      number.isFloat == (kind == NumberKind::Float))
    return value;
  rt::Arith function =
      kind == NumberKind::Float ? rt::Arith::Float : rt::Arith::Int;
  rt::Number result;
  if (!rt::compute(function, number, number, result))
    return -1;
  number = result;
  return arith(function, {value}, result);
}

HostScalars &TensorRecorder::host() { return impl->host; }

bool HostScalars::isWritten(const at::TensorBase &tensor) const {
  if (tensors.empty() || !tensor.has_storage())
    return false;
  for (auto &entry : tensors)
    if (entry.second.written &&
        entry.first->unsafe_storage().is_alias_of(tensor.storage()))
      return true;
  return false;
}

PyjitValue HostScalars::tensorOf(const at::TensorBase &tensor) {
  for (auto &entry : tensors) {
    Held &held = entry.second;
    if (!held.written || tensor.dim() != 0 ||
        tensor.dtype() != entry.first->dtype() ||
        !entry.first->unsafe_storage().is_alias_of(tensor.storage()))
      continue;
    if (held.shown == held.value)
      return held.tensor;
    held.shown = held.value;
    held.tensor = s.tensors->impl->addNumber(held.value, at::Tensor(tensor));
    return held.tensor;
  }
  return -1;
}

bool HostScalars::isShownBy(PyObject *tensor) const {
  const at::Tensor &t = THPVariable_Unpack(tensor);
  const TensorInfo *info = s.tensors->impl->find(t);
  return info && !info->external && isWritten(t);
}

PyjitValue HostScalars::valueOf(Node *tensor) const {
  for (auto &entry : tensors)
    if (entry.second.node == tensor)
      return entry.second.value;
  return -1;
}
