//===- ScalarMath.h - Arithmetic on Python's numbers ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What CPython computes for ints that fit 64 bits and for floats, without
// objects: guard programs compute lifted numbers with it, and the recorder asks
// it whether a recorded operation is one of these. Every function says no where
// Python would raise, or give a number that is not representable here; the
// specialization then does not apply and Python answers.
//
//===----------------------------------------------------------------------===//

#ifndef PYJIT_RT_SCALARMATH_H
#define PYJIT_RT_SCALARMATH_H

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace pyjit::rt {

/// An int of 64 bits or a float.
struct Number {
  bool isFloat = false;
  int64_t integer = 0;
  double real = 0;

  static Number of(int64_t value) { return {false, value, 0}; }
  static Number of(double value) { return {true, 0, value}; }
  /// From the bits that a flat program holds.
  static Number fromBits(bool isFloat, int64_t bits) {
    if (!isFloat)
      return of(bits);
    double value;
    std::memcpy(&value, &bits, sizeof value);
    return of(value);
  }
  int64_t bits() const {
    if (!isFloat)
      return integer;
    int64_t out;
    std::memcpy(&out, &real, sizeof out);
    return out;
  }
  double toDouble() const { return isFloat ? real : double(integer); }
};

enum class Arith : uint8_t {
  Add,
  Sub,
  Mul,
  TrueDiv,
  FloorDiv,
  Mod,
  Pow,
  Max,    ///< max(x, y) of two ints or two floats
  Min,    ///< likewise
  Lost,   ///< what x + y rounds off, as sum() computes it
  Regain, ///< x + y where y can be what sums to x have lost, else x
  Neg,
  Abs,
  Float, ///< float(x)
  Int,   ///< int(x)
  Sqrt,  ///< math.sqrt
  Sin,
  Cos,
  Exp,
  Log, ///< of one argument, as the next ones
  Log2,
  Log10,
  Tanh,
  Single, ///< rounded to single precision
};
inline constexpr const char *kArithNames[] = {
    "add", "sub",  "mul",    "truediv", "floordiv", "mod",   "pow",  "max",
    "min", "lost", "regain", "neg",     "abs",      "float", "int",  "sqrt",
    "sin", "cos",  "exp",    "log",     "log2",     "log10", "tanh", "single"};

/// `Is`: the same type and bits.
enum class Compare : uint8_t { Lt, Le, Eq, Ne, Gt, Ge, Is };
inline constexpr const char *kCompareNames[] = {"lt", "le", "eq", "ne",
                                                "gt", "ge", "is"};

inline bool isUnary(Arith op) { return op >= Arith::Neg; }

/// Whether Python raises for some operands: a call in which it would must fail
/// the guards, whether or not anything uses the result.
inline bool mayRaise(Arith op) {
  switch (op) {
  case Arith::TrueDiv:
  case Arith::FloorDiv:
  case Arith::Mod:
  case Arith::Pow:
  case Arith::Int: // of nan and of infinities
  case Arith::Sqrt:
  case Arith::Sin: // of infinities
  case Arith::Cos:
  case Arith::Exp: // an overflow
  case Arith::Log: // of what is not positive
  case Arith::Log2:
  case Arith::Log10:
    return true;
  default:
    return false;
  }
}

/// The entry of `names` that `name` is, or -1.
template <unsigned N>
inline int findName(const char *const (&names)[N], const char *name) {
  for (unsigned i = 0; i < N; ++i)
    if (!std::strcmp(names[i], name))
      return int(i);
  return -1;
}

namespace detail {

/// float_divmod of CPython's floatobject.c.
inline void floatDivMod(double x, double y, double &floor, double &mod) {
  mod = std::fmod(x, y);
  double div = (x - mod) / y;
  if (mod != 0) {
    if ((y < 0) != (mod < 0)) {
      mod += y;
      div -= 1.0;
    }
  } else {
    mod = std::copysign(0.0, y);
  }
  if (div != 0) {
    floor = std::floor(div);
    if (div - floor > 0.5)
      floor += 1.0;
  } else {
    floor = std::copysign(0.0, x / y);
  }
}

inline bool floatArith(Arith op, double x, double y, double &out) {
  double other;
  switch (op) {
  case Arith::Add:
    out = x + y;
    return true;
  case Arith::Sub:
    out = x - y;
    return true;
  case Arith::Mul:
    out = x * y;
    return true;
  case Arith::TrueDiv:
    out = x / y;
    return y != 0;
  case Arith::FloorDiv:
    if (y == 0)
      return false;
    floatDivMod(x, y, out, other);
    return true;
  case Arith::Mod:
    if (y == 0)
      return false;
    floatDivMod(x, y, other, out);
    return true;
  case Arith::Pow:
    // Special values have rules of their own, a negative base may give a
    // complex number, and an overflow raises.
    if (!std::isfinite(x) || !std::isfinite(y) || (x == 0 && y < 0) ||
        (x < 0 && y != std::floor(y)))
      return false;
    out = std::pow(x, y);
    return std::isfinite(out);
  case Arith::Max: // the first one of equals, and where one is nan
    out = y > x ? y : x;
    return true;
  case Arith::Min:
    out = y < x ? y : x;
    return true;
  case Arith::Lost: {
    double sum = x + y;
    bool first = std::fabs(x) >= std::fabs(y);
    out = first ? (x - sum) + y : (y - sum) + x;
    return true;
  }
  case Arith::Regain:
    out = y != 0 && std::isfinite(y) ? x + y : x;
    return true;
  default:
    return false;
  }
}

inline bool integerPower(int64_t base, int64_t exponent, int64_t &out) {
  out = 1;
  if (exponent < 0) // a float
    return false;
  while (exponent) {
    if (exponent & 1)
      if (__builtin_mul_overflow(out, base, &out))
        return false;
    exponent >>= 1;
    if (exponent && __builtin_mul_overflow(base, base, &base))
      return false;
  }
  return true;
}

/// Integers of at most 53 bits are doubles exactly.
inline bool isExact(int64_t value) {
  constexpr int64_t limit = int64_t(1) << 53;
  return value >= -limit && value <= limit;
}

inline bool integerArith(Arith op, int64_t x, int64_t y, Number &out) {
  int64_t result = 0;
  switch (op) {
  case Arith::Add:
    if (__builtin_add_overflow(x, y, &result))
      return false;
    break;
  case Arith::Sub:
    if (__builtin_sub_overflow(x, y, &result))
      return false;
    break;
  case Arith::Mul:
    if (__builtin_mul_overflow(x, y, &result))
      return false;
    break;
  case Arith::TrueDiv:
    if (y == 0 || !isExact(x) || !isExact(y))
      return false;
    out = Number::of(double(x) / double(y));
    return true;
  case Arith::FloorDiv:
  case Arith::Mod: {
    if (y == 0 || (x == std::numeric_limits<int64_t>::min() && y == -1))
      return false;
    int64_t quotient = x / y, rest = x % y;
    if (rest != 0 && (rest < 0) != (y < 0)) {
      rest += y;
      --quotient;
    }
    result = op == Arith::Mod ? rest : quotient;
    break;
  }
  case Arith::Pow:
    if (!integerPower(x, y, result))
      return false;
    break;
  case Arith::Max:
    result = y > x ? y : x;
    break;
  case Arith::Min:
    result = y < x ? y : x;
    break;
  default:
    return false;
  }
  out = Number::of(result);
  return true;
}

inline bool unaryArith(Arith op, const Number &x, Number &out) {
  double value = x.toDouble();
  switch (op) {
  case Arith::Neg:
  case Arith::Abs:
    if (x.isFloat) {
      out = Number::of(op == Arith::Neg ? -value : std::fabs(value));
      return true;
    }
    if (x.integer == std::numeric_limits<int64_t>::min())
      return false;
    out =
        Number::of(op == Arith::Neg || x.integer < 0 ? -x.integer : x.integer);
    return true;
  case Arith::Float:
    out = Number::of(value);
    return true;
  case Arith::Int:
    if (!x.isFloat) {
      out = x;
      return true;
    }
    if (!(value > -9.0e18 && value < 9.0e18))
      return false;
    out = Number::of(int64_t(value));
    return true;
  case Arith::Sqrt:
    if (!(value >= 0))
      return false;
    out = Number::of(std::sqrt(value));
    return true;
  case Arith::Single:
    out = Number::of(double(float(value)));
    return true;
  case Arith::Sin:
  case Arith::Cos:
    if (!std::isfinite(value))
      return false;
    out = Number::of(op == Arith::Sin ? std::sin(value) : std::cos(value));
    return true;
  case Arith::Exp:
    out = Number::of(std::exp(value));
    return std::isfinite(value) && std::isfinite(out.real);
  case Arith::Log:
  case Arith::Log2:
  case Arith::Log10:
    if (!std::isfinite(value) || value <= 0)
      return false;
    out = Number::of(op == Arith::Log    ? std::log(value)
                     : op == Arith::Log2 ? std::log2(value)
                                         : std::log10(value));
    return true;
  case Arith::Tanh:
    out = Number::of(std::tanh(value));
    return std::isfinite(value);
  default:
    return false;
  }
}

} // namespace detail

/// `y` is ignored by unary operations.
inline bool compute(Arith op, const Number &x, const Number &y, Number &out) {
  if (isUnary(op))
    return detail::unaryArith(op, x, out);
  if (!x.isFloat && !y.isFloat)
    return detail::integerArith(op, x.integer, y.integer, out);
  // Python gives back one of its arguments, of its own type.
  if ((op == Arith::Max || op == Arith::Min) && x.isFloat != y.isFloat)
    return false;
  double result;
  if (!detail::floatArith(op, x.toDouble(), y.toDouble(), result))
    return false;
  out = Number::of(result);
  return true;
}

inline bool compare(Compare op, const Number &x, const Number &y, bool &out) {
  auto decide = [op](auto a, auto b) {
    switch (op) {
    case Compare::Lt:
      return a < b;
    case Compare::Le:
      return a <= b;
    case Compare::Eq:
      return a == b;
    case Compare::Ne:
      return a != b;
    case Compare::Gt:
      return a > b;
    case Compare::Ge:
      return a >= b;
    case Compare::Is:
      break;
    }
    return false;
  };
  if (op == Compare::Is) {
    out = x.isFloat == y.isFloat && x.bits() == y.bits();
    return true;
  }
  if (!x.isFloat && !y.isFloat) {
    out = decide(x.integer, y.integer);
    return true;
  }
  // Python compares an int with a float exactly.
  if ((!x.isFloat && !detail::isExact(x.integer)) ||
      (!y.isFloat && !detail::isExact(y.integer)))
    return false;
  out = decide(x.toDouble(), y.toDouble());
  return true;
}

} // namespace pyjit::rt

#endif // PYJIT_RT_SCALARMATH_H
