//===- DataScalars.cpp - Python's scalars, of tensors' data ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `x.item()` gives Python a number that depends on data, and a loop's counter
// is another one in each iteration. A specialization computes such numbers by
// 0-dim tensors of f64, i64 or i1, their proxies. The recorder computes along
// on real ones: the dispatcher's callback writes the operators down as it
// writes the user's, and what comes out is compared with what Python had.
//
// Computed is what machine arithmetic gives exactly as Python does. Ints have
// no bounds in Python: a proxy says how large its number can be at most, and
// what could leave 2^53 is refused, or for a loop's numbers, made a condition.
//
//===----------------------------------------------------------------------===//

#include "breaks/Continuation.h"
#include "numbers/LiftedArguments.h"
#include "pyjit-c/Operators.h"
#include "tensors/TensorImpl.h"
#include "tensors/TensorObject.h"

#include <ATen/ScalarOps.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_to_copy.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/add.h>
#include <ATen/ops/any.h>
#include <ATen/ops/div.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ge.h>
#include <ATen/ops/gt.h>
#include <ATen/ops/le.h>
#include <ATen/ops/logical_and.h>
#include <ATen/ops/logical_not.h>
#include <ATen/ops/lt.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ne.h>
#include <ATen/ops/neg.h>
#include <ATen/ops/reshape.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/where.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/python_variable.h>

using namespace pyjit;
using namespace pyjit::capture;

/// Ints of this size are doubles, and their sums are ints of the machine.
static constexpr int64_t kExact = int64_t(1) << 53;
/// Products of ints of this size are.
static constexpr int64_t kFactor = int64_t(1) << 26;
static constexpr int64_t kUnknown = DataScalars::kUnbounded;

namespace {
/// Neither autograd nor autocast has a part in it.
struct Quietly {
  at::NoGradGuard grad;
  c10::impl::ExcludeDispatchKeyGuard autocast{c10::autocast_dispatch_keyset};
};

int64_t boundOf(at::ScalarType type) {
  switch (type) {
  case at::kBool:
    return 1;
  case at::kByte:
  case at::kChar:
    return 256;
  case at::kShort:
    return 1 << 16;
  case at::kInt:
    return int64_t(1) << 32;
  default:
    return kUnknown;
  }
}
} // namespace

int TensorRecorder::Impl::addProxy(const at::Tensor &tensor, int64_t bound) {
  TensorInfo *info = find(tensor);
  if (recording.ended() || !info || info->value < 0 || tensor.dim())
    return -1;
  // Its data flow into Python by what is written here, not unseen.
  info->constant = false;
  proxies.push_back({tensor, bound});
  return int(proxies.size()) - 1;
}

int DataScalars::readNumber(PyObject *object, NumberKind kind) {
  at::Tensor t = THPVariable_Unpack(object);
  TensorInfo *info = s.tensors->impl->find(t);
  if (!info || info->value < 0 || info->uninitialized || t.numel() != 1 ||
      t.is_complex() || unsupportedTensor(t))
    return -1;
  bool real = at::isFloatingType(t.scalar_type());
  if (kind == NumberKind::Own)
    kind = real                           ? NumberKind::Float
           : t.scalar_type() == at::kBool ? NumberKind::Bool
                                          : NumberKind::Int;
  // It raises for what is no number.
  if (kind == NumberKind::Int && real)
    return -1;
  int64_t bound = info->isCount ? kCount : boundOf(t.scalar_type());
  Quietly quietly;
  try {
    if (t.dim())
      t = at::reshape(t, {});
    if (kind == NumberKind::Bool)
      return s.tensors->impl->addProxy(at::ne(t, 0), 1);
    int proxy = s.tensors->impl->addProxy(
        at::_to_copy(t, kind == NumberKind::Int ? at::kLong : at::kDouble),
        bound);
    if (proxy >= 0)
      s.tensors->impl->proxies[proxy].isSingle =
          real && t.scalar_type() != at::kDouble;
    return proxy;
  } catch (const std::exception &) {
    return -1;
  }
}

int DataScalars::readContains(PyObject *object, PyObject *item, bool negated) {
  auto usable = [&](PyObject *tensor) {
    const at::Tensor &t = THPVariable_Unpack(tensor);
    TensorInfo *info = s.tensors->impl->find(t);
    return info && info->value >= 0 && !info->uninitialized &&
           !unsupportedTensor(t);
  };
  if (!usable(object))
    return -1;
  const at::Tensor &t = THPVariable_Unpack(object);
  Quietly quietly;
  try {
    at::Tensor same;
    rt::Number number;
    if (PyBool_Check(item))
      same = at::eq(t, item == Py_True);
    else if (isTensorObject(item))
      same = usable(item) ? at::eq(THPVariable_Unpack(item), t) : same;
    else if (asNumber(item, number))
      same =
          number.isFloat ? at::eq(t, number.real) : at::eq(t, number.integer);
    if (!same.defined())
      return -1;
    at::Tensor found = at::any(same);
    return s.tensors->impl->addProxy(negated ? at::logical_not(found) : found,
                                     1);
  } catch (const std::exception &) {
    return -1;
  }
}

int DataScalars::liftNumber(const rt::Number &number, int value,
                            const std::string &device, int64_t bound) {
  bool was = s.tensors->impl->suspended;
  s.tensors->impl->suspended = true;
  at::Tensor tensor;
  at::ScalarType type = number.isFloat ? at::kDouble : at::kLong;
  try {
    auto options = at::TensorOptions().dtype(type).device(at::Device(device));
    at::Scalar scalar =
        number.isFloat ? at::Scalar(number.real) : at::Scalar(number.integer);
    tensor = at::full({}, scalar, options);
  } catch (const std::exception &) {
  }
  s.tensors->impl->suspended = was;
  if (!tensor.defined())
    return -1;
  s.tensors->impl->bind(tensor, s.tensors->impl->addNumber(value, tensor));
  return s.tensors->impl->addProxy(tensor, bound);
}

void TensorRecorder::bindNumber(PyObject *object, PyObject *number) {
  Recording &s = impl->recording;
  if (s.ended() || !isTensor(object))
    return s.scalars.specialize(number);
  const at::Tensor &tensor = THPVariable_Unpack(object);
  bool plain = tensor.dim() == 0 && !tensor.requires_grad() &&
               !unsupportedTensor(tensor) &&
               tensor.scalar_type() != at::kBool && !tensor.is_complex();
  if (!plain)
    return s.scalars.specialize(number);
  keepWithin(s.scalars, number, tensor.scalar_type());
  if (s.scalars.isSpecialized(number))
    return;
  TensorInfo &info =
      impl->bind(tensor, impl->addNumber(s.scalars.valueOf(number), tensor));
  info.constant = info.uninitialized = info.external = false;
}

PyjitValue DataScalars::proxyValue(int proxy) {
  TensorInfo *info =
      s.tensors->impl->find(s.tensors->impl->proxies[proxy].tensor);
  return info ? info->value : -1;
}

std::string DataScalars::deviceOf(PyObject *tensor) {
  return THPVariable_Unpack(tensor).device().str();
}

bool DataScalars::isBool(PyObject *tensor) {
  return THPVariable_Unpack(tensor).scalar_type() == at::kBool;
}

std::string DataScalars::proxyDevice(int proxy) {
  return s.tensors->impl->proxies[proxy].tensor.device().str();
}

bool DataScalars::isSingle(int proxy) {
  return proxy >= 0 && s.tensors->impl->proxies[proxy].isSingle;
}

bool DataScalars::proxyIs(int proxy, PyObject *number) {
  at::DisableRecordFunctionGuard unseen;
  const at::Tensor &tensor = s.tensors->impl->proxies[proxy].tensor;
  try {
    at::Scalar found = tensor.item();
    switch (tensor.scalar_type()) {
    case at::kBool:
      return PyBool_Check(number) && (number == Py_True) == found.toBool();
    case at::kLong: {
      rt::Number wanted;
      return PyLong_CheckExact(number) && asNumber(number, wanted) &&
             wanted.integer == found.toLong();
    }
    default: {
      double value = found.toDouble();
      return PyFloat_CheckExact(number) &&
             rt::Number::of(value).bits() ==
                 rt::Number::of(PyFloat_AS_DOUBLE(number)).bits();
    }
    }
  } catch (const std::exception &) {
    return false;
  }
}

namespace {

/// An operand as tensor or wrapped number, in the type to compute in.
struct Operand {
  at::Tensor tensor;
  bool isConstant;
  int64_t bound = 0; ///< of an int
};

} // namespace

/// Both operands in one type. False: not exact.
static bool prepare(const std::vector<Proxy> &proxies,
                    const NumberOperand *operands, unsigned count, bool &real,
                    Operand *out) {
  real = false;
  for (unsigned i = 0; i < count; ++i)
    real |= operands[i].proxy >= 0
                ? at::isFloatingType(
                      proxies[operands[i].proxy].tensor.scalar_type())
                : operands[i].number.isFloat;
  c10::optional<at::Device> device;
  for (unsigned i = 0; i < count; ++i) {
    const NumberOperand &operand = operands[i];
    Operand &made = out[i];
    made.isConstant = operand.proxy < 0;
    if (made.isConstant) {
      const rt::Number &number = operand.number;
      if (!number.isFloat) {
        if (number.integer > kExact || number.integer < -kExact)
          return false;
        made.bound = std::abs(number.integer);
      }
      made.tensor = at::native::wrapped_scalar_tensor(
          real ? at::Scalar(number.toDouble()) : at::Scalar(number.integer));
      continue;
    }
    const Proxy &proxy = proxies[operand.proxy];
    made.tensor = proxy.tensor;
    made.bound = proxy.bound;
    if (device && *device != made.tensor.device())
      return false;
    device = made.tensor.device();
    if (made.tensor.scalar_type() == at::kBool ||
        (real && made.tensor.scalar_type() == at::kLong))
      made.tensor = at::_to_copy(made.tensor, real ? at::kDouble : at::kLong);
  }
  return true;
}

/// What is one thing or another by how two floats compare, or what they are.
static at::Tensor choose(rt::Arith function, const at::Tensor &a,
                         const at::Tensor &b) {
  // Both branches of a `where` are tensors of the trace.
  switch (function) {
  case rt::Arith::Max:
    return at::where(at::gt(b, a), b, a);
  case rt::Arith::Min:
    return at::where(at::lt(b, a), b, a);
  case rt::Arith::Lost: {
    at::Tensor sum = at::add(a, b);
    return at::where(at::ge(at::abs(a), at::abs(b)),
                     at::add(at::sub(a, sum), b), at::add(at::sub(b, sum), a));
  }
  default: {
    const double infinity = std::numeric_limits<double>::infinity();
    at::Tensor isLost =
        at::logical_and(at::ne(b, 0), at::lt(at::abs(b), infinity));
    return at::where(isLost, at::add(a, b), a);
  }
  }
}

/// Of floats; nothing where it is not what Python gives.
static at::Tensor computeReal(rt::Arith function, const at::Tensor &a,
                              const at::Tensor &b, bool isNonzero,
                              bool squares) {
  switch (function) {
  case rt::Arith::Add:
    return at::add(a, b);
  case rt::Arith::Sub:
    return at::sub(a, b);
  case rt::Arith::Mul:
    return at::mul(a, b);
  case rt::Arith::TrueDiv:
    return isNonzero ? at::div(a, b) : at::Tensor(); // zero raises
  case rt::Arith::Pow:
    return squares ? at::mul(a, a) : at::Tensor();
  case rt::Arith::Max:
  case rt::Arith::Min:
  case rt::Arith::Lost:
  case rt::Arith::Regain:
    return choose(function, a, b);
  case rt::Arith::Neg:
    return at::neg(a);
  case rt::Arith::Abs:
    return at::abs(a);
  default:
    return {};
  }
}

int DataScalars::computeNumber(rt::Arith function,
                               const NumberOperand *operands,
                               std::vector<std::pair<int, bool>> *expected) {
  Quietly quietly;
  bool real;
  Operand made[2];
  unsigned count = rt::isUnary(function) ? 1 : 2;
  // An int or None of what a loop counts has no bounds of its own.
  auto within = [&](const Operand &operand, int64_t limit) {
    if (operand.isConstant || operand.bound <= limit)
      return operand.bound <= limit;
    if (!expected)
      return false;
    int below = s.tensors->impl->addProxy(at::lt(operand.tensor, limit), 1);
    int above = s.tensors->impl->addProxy(at::gt(operand.tensor, -limit), 1);
    expected->push_back({below, true});
    expected->push_back({above, true});
    return below >= 0 && above >= 0;
  };
  try {
    if (!prepare(s.tensors->impl->proxies, operands, count, real, made))
      return -1;
    at::Tensor &a = made[0].tensor, &b = made[1].tensor;
    int64_t x = made[0].bound, y = made[1].bound;
    auto known = [](int64_t bound) { return bound <= kExact; };
    bool isNonzero = count > 1 && operands[1].number.toDouble() != 0 &&
                     (made[1].isConstant || operands[1].isNonzero);
    if (real) {
      if (function == rt::Arith::Float)
        return operands[0].proxy;
      // Of single precision the square is a double, and so what `pow` gives.
      bool squares = count > 1 && made[1].isConstant &&
                     isSingle(operands[0].proxy) &&
                     operands[1].number.toDouble() == 2;
      at::Tensor result = computeReal(function, a, b, isNonzero, squares);
      return result.defined() ? s.tensors->impl->addProxy(result, 0) : -1;
    }
    switch (function) {
    case rt::Arith::Float:
      return s.tensors->impl->addProxy(at::_to_copy(a, at::kDouble), 0);
    case rt::Arith::Int:
      return s.tensors->impl->addProxy(a, x);
    case rt::Arith::Add:
    case rt::Arith::Sub: {
      if (!within(made[0], kExact) || !within(made[1], kExact))
        return -1;
      bool add = function == rt::Arith::Add;
      return s.tensors->impl->addProxy(add ? at::add(a, b) : at::sub(a, b),
                                       known(x) && known(y) ? x + y : kUnknown);
    }
    case rt::Arith::TrueDiv: // of doubles, where both are
      if (!within(made[0], kExact) || !within(made[1], kExact) || !isNonzero)
        return -1;
      return s.tensors->impl->addProxy(
          at::div(at::_to_copy(a, at::kDouble),
                  made[1].isConstant ? at::native::wrapped_scalar_tensor(
                                           operands[1].number.toDouble())
                                     : at::_to_copy(b, at::kDouble)),
          0);
    case rt::Arith::Mul: {
      bool fits = double(x) * double(y) <= double(kExact);
      if (!fits && (!within(made[0], kFactor) || !within(made[1], kFactor)))
        return -1;
      return s.tensors->impl->addProxy(at::mul(a, b), fits ? x * y : kUnknown);
    }
    case rt::Arith::Neg:
    case rt::Arith::Abs:
      if (!within(made[0], kExact))
        return -1;
      return s.tensors->impl->addProxy(
          function == rt::Arith::Neg ? at::neg(a) : at::abs(a), x);
    default:
      return -1;
    }
  } catch (const std::exception &) {
    return -1;
  }
}

int DataScalars::askKind(int proxy, bool nan, bool infinite) {
  Quietly quietly;
  const double infinity = std::numeric_limits<double>::infinity();
  at::Tensor t = s.tensors->impl->proxies[proxy].tensor;
  try {
    if (!at::isFloatingType(t.scalar_type()))
      return -1;
    return s.tensors->impl->addProxy(nan        ? at::ne(t, t)
                                     : infinite ? at::eq(at::abs(t), infinity)
                                                : at::lt(at::abs(t), infinity),
                                     1);
  } catch (const std::exception &) {
    return -1;
  }
}

int DataScalars::compareNumbers(rt::Compare function,
                                const NumberOperand *operands) {
  Quietly quietly;
  bool real;
  Operand made[2];
  // Python compares an int with a float exactly.
  bool mixed[2];
  for (unsigned i = 0; i < 2; ++i)
    mixed[i] =
        operands[i].proxy >= 0
            ? !at::isFloatingType(s.tensors->impl->proxies[operands[i].proxy]
                                      .tensor.scalar_type())
            : !operands[i].number.isFloat;
  try {
    if (!prepare(s.tensors->impl->proxies, operands, 2, real, made))
      return -1;
    for (unsigned i = 0; i < 2; ++i)
      if (real && mixed[i] && made[i].bound > kExact)
        return -1;
    // The one that is computed stands first.
    if (made[0].isConstant) {
      std::swap(made[0], made[1]);
      switch (function) {
      case rt::Compare::Lt:
        function = rt::Compare::Gt;
        break;
      case rt::Compare::Le:
        function = rt::Compare::Ge;
        break;
      case rt::Compare::Gt:
        function = rt::Compare::Lt;
        break;
      case rt::Compare::Ge:
        function = rt::Compare::Le;
        break;
      default:
        break;
      }
    }
    at::Tensor &a = made[0].tensor, &b = made[1].tensor;
    auto compare = [&](auto apply) {
      return s.tensors->impl->addProxy(
          made[1].isConstant ? apply(a, b.item()) : apply(a, b), 1);
    };
    switch (function) {
    case rt::Compare::Lt:
      return compare([](auto &x, auto &&y) { return at::lt(x, y); });
    case rt::Compare::Le:
      return compare([](auto &x, auto &&y) { return at::le(x, y); });
    case rt::Compare::Eq:
      return compare([](auto &x, auto &&y) { return at::eq(x, y); });
    case rt::Compare::Ne:
      return compare([](auto &x, auto &&y) { return at::ne(x, y); });
    case rt::Compare::Gt:
      return compare([](auto &x, auto &&y) { return at::gt(x, y); });
    case rt::Compare::Ge:
      return compare([](auto &x, auto &&y) { return at::ge(x, y); });
    case rt::Compare::Is:
      break;
    }
  } catch (const std::exception &) {
  }
  return -1;
}

int DataScalars::noteSite() {
  const ShadowFrame &frame = s.tracker.frames.back();
  Origin origin = originOf(frame.code, nullptr);
  s.objects.keep(reinterpret_cast<PyObject *>(origin.code));
  sites.push_back({origin.code, frame.offset - origin.shift});
  return int(sites.size()) - 1;
}
