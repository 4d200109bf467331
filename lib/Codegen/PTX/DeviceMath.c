//===- DeviceMath.c - The C library's functions for a GPU -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What kernels call where codegen-expand-math leaves a call: all functions of
// f64, and the rarer ones of f32, which are computed in f64 and rounded once.
// Compiled to LLVM bitcode when pyjit is built, linked into kernels that call;
// for the host under other names, so that a test can measure the errors
// (README.md). Tables and coefficients were computed with 300 bits.
//
//===----------------------------------------------------------------------===//

#include <stdint.h>

#ifdef PYJIT_DEVICE_MATH_PREFIX
#define NAME2(prefix, name) prefix##name
#define NAME1(prefix, name) NAME2(prefix, name)
#define F(name) NAME1(PYJIT_DEVICE_MATH_PREFIX, name)
#else
#define F(name) name
#endif

#pragma STDC FP_CONTRACT OFF

static inline uint64_t bitsOf(double x) {
  uint64_t bits;
  __builtin_memcpy(&bits, &x, 8);
  return bits;
}
static inline double ofBits(uint64_t bits) {
  double x;
  __builtin_memcpy(&x, &bits, 8);
  return x;
}
static inline double fma(double x, double y, double z) {
  return __builtin_fma(x, y, z);
}
static inline double absolute(double x) { return __builtin_fabs(x); }
static inline double withSign(double x, double sign) {
  return __builtin_copysign(x, sign);
}
static inline int isNan(double x) { return x != x; }
static const double infinity = __builtin_inf();

static const double ln2High = 0x1.62e42fefa3800p-1,
                    ln2Low = 0x1.ef35793c76730p-45,
                    inverseLn2 = 0x1.71547652b82fep+0;

/// 2 to the n, for n in the range of normal numbers.
static inline double power2(int n) {
  return ofBits((uint64_t)(n + 1023) << 52);
}

/// x * 2 to the n, rounded once; x is near one.
static inline double scale(double x, int n) {
  if (n > 1023)
    return x * power2(1023) * power2(n - 1023 > 1023 ? 1023 : n - 1023);
  if (n < -1021)
    return x * power2(n + 200 < -1022 ? -1022 : n + 200) * 0x1p-200;
  return x * power2(n);
}

/// exp(high + low) - 1 for |high| <= 0.35.
static inline double expm1Small(double high, double low) {
  double p = 1.0 / 6227020800.0;
  p = fma(p, high, 1.0 / 479001600.0);
  p = fma(p, high, 1.0 / 39916800.0);
  p = fma(p, high, 1.0 / 3628800.0);
  p = fma(p, high, 1.0 / 362880.0);
  p = fma(p, high, 1.0 / 40320.0);
  p = fma(p, high, 1.0 / 5040.0);
  p = fma(p, high, 1.0 / 720.0);
  p = fma(p, high, 1.0 / 120.0);
  p = fma(p, high, 1.0 / 24.0);
  p = fma(p, high, 1.0 / 6.0);
  p = fma(p, high, 0.5);
  return high + (fma(p * high, high, low) + low * high);
}

/// exp(x + tail), |tail| far below |x|.
static double expWithTail(double x, double tail) {
  if (isNan(x))
    return x;
  if (x > 709.8)
    return infinity;
  if (x < -745.2)
    return 0.0;
  double n = __builtin_rint(x * inverseLn2);
  double high = fma(-n, ln2High, x);
  double low = fma(-n, ln2Low, tail);
  double r = high + low;
  return scale(1.0 + expm1Small(r, (high - r) + low), (int)n);
}

double F(exp)(double x) { return expWithTail(x, 0.0); }

double F(exp2)(double x) {
  if (isNan(x))
    return x;
  if (x >= 1024.0)
    return infinity;
  if (x < -1075.0)
    return 0.0;
  double n = __builtin_rint(x), r = x - n;
  // r * ln 2 in two parts.
  double ln2 = 0x1.62e42fefa39efp-1, ln2Rest = 0x1.abc9e3b39803fp-56;
  double high = r * ln2;
  double low = fma(r, ln2, -high) + r * ln2Rest;
  return scale(1.0 + expm1Small(high, low), (int)n);
}

double F(expm1)(double x) {
  if (isNan(x) || x == 0.0)
    return x;
  if (x > 709.8)
    return infinity;
  if (x < -40.0)
    return -1.0;
  double n = __builtin_rint(x * inverseLn2);
  double high = fma(-n, ln2High, x);
  double low = -n * ln2Low;
  double r = high + low;
  double p = expm1Small(r, (high - r) + low);
  if (n == 0.0)
    return p;
  if (n > 60.0)
    return scale(1.0 + p, (int)n);
  double two = power2((int)n);
  double whole = two - 1.0;
  // What the difference lost, for n so large that 1 is below its last place.
  double lost = (two - whole) - 1.0;
  return whole + (two * p + lost);
}

/// log(x * 2^e) as high + low, for x in [sqrt(1/2), sqrt(2)] and in parts.
static inline double logParts(double x, double xLow, int e, double *low) {
  double d = x + 1.0;
  double m = x - 1.0;
  double f = m / d;
  double dLow = x - (d - 1.0);
  double rest = (fma(-f, d, m) - f * dLow + xLow * (1.0 - f)) / d;
  double z = f * f;
  double p = 1.0 / 25.0;
  p = fma(p, z, 1.0 / 23.0);
  p = fma(p, z, 1.0 / 21.0);
  p = fma(p, z, 1.0 / 19.0);
  p = fma(p, z, 1.0 / 17.0);
  p = fma(p, z, 1.0 / 15.0);
  p = fma(p, z, 1.0 / 13.0);
  p = fma(p, z, 1.0 / 11.0);
  p = fma(p, z, 1.0 / 9.0);
  p = fma(p, z, 1.0 / 7.0);
  p = fma(p, z, 1.0 / 5.0);
  p = fma(p, z, 1.0 / 3.0);
  double tail = fma(2.0 * f * z, p, 2.0 * rest);
  double a = e * ln2High, b = 2.0 * f;
  double sum = a + b;
  // |a| is 0 or larger than |b|.
  double lost = a == 0.0 ? 0.0 : b - (sum - a);
  double all = lost + fma((double)e, ln2Low, tail);
  double high = sum + all;
  *low = all - (high - sum);
  return high;
}

/// Splits a positive finite x into a number around one and a power of two.
static inline double splitNumber(double x, int *e) {
  int shift = 0;
  if (x < 0x1p-1022) {
    x *= 0x1p54;
    shift = -54;
  }
  uint64_t bits = bitsOf(x);
  // From the upper half on, the next power of two is nearer.
  uint64_t half = 0x3fe6a09e00000000u;
  int64_t n = (int64_t)(bits - half) >> 52;
  *e = (int)n + shift;
  return ofBits(bits - ((uint64_t)n << 52));
}

static inline int logSpecial(double x, double *result) {
  if (isNan(x) || x == infinity) {
    *result = x;
    return 1;
  }
  if (x == 0.0) {
    *result = -infinity;
    return 1;
  }
  if (x < 0.0) {
    *result = __builtin_nan("");
    return 1;
  }
  return 0;
}

static double logWithTail(double x, double *low) {
  int e;
  double m = splitNumber(x, &e);
  return logParts(m, 0.0, e, low);
}

double F(log)(double x) {
  double result, low;
  if (logSpecial(x, &result))
    return result;
  return logWithTail(x, &low);
}

static double logOfBase(double x, double high, double highLow) {
  double result, low;
  if (logSpecial(x, &result))
    return result;
  double l = logWithTail(x, &low);
  double product = l * high;
  return product + (fma(l, high, -product) + fma(l, highLow, low * high));
}

double F(log2)(double x) {
  return logOfBase(x, 0x1.71547652b82fep+0, 0x1.777d0ffda0d24p-56);
}
double F(log10)(double x) {
  return logOfBase(x, 0x1.bcb7b1526e50ep-2, 0x1.95355baaafad3p-57);
}

double F(log1p)(double x) {
  double result;
  if (x == 0.0 || x == infinity || isNan(x))
    return x;
  if (logSpecial(1.0 + x, &result) && x <= -1.0)
    return result;
  if (absolute(x) < 0x1p-54)
    return x;
  double u = 1.0 + x;
  double lost = absolute(x) < 1.0 ? x - (u - 1.0) : 1.0 - (u - x);
  int e;
  double m = splitNumber(u, &e), low;
  return logParts(m, e > 1000 ? 0.0 : lost * power2(-e), e, &low);
}

//===--- Angles -------------------------------------------------------------//

/// 2 / pi.
static const uint64_t twoOverPi[20] = {
    0xa2f9836e4e441529u, 0xfc2757d1f534ddc0u, 0xdb6295993c439041u,
    0xfe5163abdebbc561u, 0xb7246e3a424dd2e0u, 0x06492eea09d1921cu,
    0xfe1deb1cb129a73eu, 0xe88235f52ebb4484u, 0xe99c7026b45f7e41u,
    0x3991d639835339f4u, 0x9c845f8bbdf9283bu, 0x1ff897ffde05980fu,
    0xef2f118b5a0a6d1fu, 0x6d367ecf27cb09b7u, 0x4f463f669e5fea2du,
    0x7527bac7ebe5f17bu, 0x3d0739f78a5292eau, 0x6bfb5fb11f8d5d08u,
    0x56033046fc7b6babu, 0xf0cfbc209af4361du};

static const double halfPi1 = 0x1.921fb54442d18p+0,
                    halfPi2 = 0x1.1a62633145c07p-54,
                    halfPi3 = -0x1.f1976b7ed8fbcp-110;

static inline uint64_t multiplyHigh(uint64_t a, uint64_t b) {
  return (uint64_t)(((unsigned __int128)a * b) >> 64);
}

/// x modulo pi/2 in [-pi/4, pi/4] as high + low, and the quadrant.
static double reduceAngle(double x, double *low, int *quadrant) {
  double a = absolute(x);
  if (a < 0x1p20) {
    double n = __builtin_rint(x * 0x1.45f306dc9c883p-1);
    double p = fma(-n, halfPi1, x);
    double q = n * halfPi2;
    double high = p - q;
    double r = (p - high) - q;
    double rest = fma(n, halfPi2, -q) + n * halfPi3;
    r -= rest;
    double sum = high + r;
    *low = r - (sum - high);
    *quadrant = (int)n;
    return sum;
  }
  // x is an integer of 53 bits times a power of two: three words of 2 / pi
  // around the binary point of their product decide.
  uint64_t bits = bitsOf(a);
  int exponent = (int)(bits >> 52) - 1075;
  uint64_t mantissa = (bits & 0xfffffffffffffu) | 0x10000000000000u;
  // What stands before bit `exponent - 2` of 2 / pi makes multiples of four.
  int skip = exponent - 2;
  uint64_t w[4];
  for (int i = 0; i < 4; ++i) {
    if (skip < 0) {
      uint64_t before = i ? twoOverPi[i - 1] : 0;
      w[i] = (before << (64 + skip)) | (twoOverPi[i] >> -skip);
    } else {
      int word = skip / 64 + i, shift = skip % 64;
      w[i] = shift ? (twoOverPi[word] << shift) |
                         (twoOverPi[word + 1] >> (64 - shift))
                   : twoOverPi[word];
    }
  }
  // The product modulo 2^192 of its fraction, from the lowest word on.
  uint64_t r2 = mantissa * w[2], c2 = multiplyHigh(mantissa, w[2]);
  uint64_t l3 = multiplyHigh(mantissa, w[3]);
  r2 += l3;
  c2 += r2 < l3;
  uint64_t r1 = mantissa * w[1], c1 = multiplyHigh(mantissa, w[1]);
  r1 += c2;
  c1 += r1 < c2;
  uint64_t r0 = mantissa * w[0] + c1;
  // The highest two bits are the integer part.
  uint64_t integer = r0 >> 62;
  uint64_t f0 = (r0 << 2) | (r1 >> 62);
  uint64_t f1 = (r1 << 2) | (r2 >> 62);
  int q = (int)integer;
  // To the nearest: a fraction over one half belongs to the next quadrant.
  int negative = (f0 >> 63) != 0;
  if (negative) {
    ++q;
    f0 = ~f0;
    f1 = ~f1;
  }
  double fraction = (double)f0 * 0x1p-64;
  // What the conversion rounded away, and the next word.
  uint64_t back = fraction >= 1.0 ? 0 : (uint64_t)(fraction * 0x1p64);
  double rest = (double)(int64_t)(f0 - back) * 0x1p-64 + (double)f1 * 0x1p-128;
  double high = fraction * halfPi1;
  double tail =
      fma(fraction, halfPi1, -high) + fraction * halfPi2 + rest * halfPi1;
  double sum = high + tail;
  double sumLow = tail - (sum - high);
  if (negative) {
    sum = -sum;
    sumLow = -sumLow;
  }
  if (x < 0) {
    sum = -sum;
    sumLow = -sumLow;
    q = -q;
  }
  *low = sumLow;
  *quadrant = q;
  return sum;
}

/// Sine and cosine of high + low, |high| <= pi/4.
static inline double sineOf(double x, double low) {
  double z = x * x;
  double p = 1.0 / 355687428096000.0;
  p = fma(p, z, -1.0 / 1307674368000.0);
  p = fma(p, z, 1.0 / 6227020800.0);
  p = fma(p, z, -1.0 / 39916800.0);
  p = fma(p, z, 1.0 / 362880.0);
  p = fma(p, z, -1.0 / 5040.0);
  p = fma(p, z, 1.0 / 120.0);
  p = fma(p, z, -1.0 / 6.0);
  return x + fma(x * z, p, low * (1.0 - 0.5 * z));
}
static inline double cosineOf(double x, double low) {
  double z = x * x;
  double p = 1.0 / 20922789888000.0;
  p = fma(p, z, -1.0 / 87178291200.0);
  p = fma(p, z, 1.0 / 479001600.0);
  p = fma(p, z, -1.0 / 3628800.0);
  p = fma(p, z, 1.0 / 40320.0);
  p = fma(p, z, -1.0 / 720.0);
  p = fma(p, z, 1.0 / 24.0);
  double half = 0.5 * z, one = 1.0 - half;
  return one + (((1.0 - one) - half) + fma(z * z, p, -x * low));
}

static double sineOrCosine(double x, int add) {
  if (isNan(x) || absolute(x) == infinity)
    return __builtin_nan("");
  double low;
  int quadrant;
  double r = reduceAngle(x, &low, &quadrant);
  quadrant += add;
  double value = quadrant & 1 ? cosineOf(r, low) : sineOf(r, low);
  return quadrant & 2 ? -value : value;
}

double F(sin)(double x) { return x == 0.0 ? x : sineOrCosine(x, 0); }
double F(cos)(double x) { return sineOrCosine(x, 1); }
double F(tan)(double x) {
  if (x == 0.0 || isNan(x))
    return x;
  if (absolute(x) == infinity)
    return __builtin_nan("");
  double low;
  int quadrant;
  double r = reduceAngle(x, &low, &quadrant);
  double s = sineOf(r, low), c = cosineOf(r, low);
  return quadrant & 1 ? -c / s : s / c;
}

/// atan(k / 8).
static const double atanHigh[9] = {0.0,
                                   0x1.fd5ba9aac2f6ep-4,
                                   0x1.f5b75f92c80ddp-3,
                                   0x1.6f61941e4def1p-2,
                                   0x1.dac670561bb4fp-2,
                                   0x1.1e00babdefeb4p-1,
                                   0x1.4978fa3269ee1p-1,
                                   0x1.700a7c5784634p-1,
                                   0x1.921fb54442d18p-1};
static const double atanLow[9] = {0.0,
                                  -0x1.cd37686760c17p-59,
                                  0x1.8ab6e3cf7afbdp-57,
                                  -0x1.c63aae6f6e918p-56,
                                  0x1.a2b7f222f65e2p-56,
                                  -0x1.928df287a668fp-58,
                                  0x1.2419a87f2a458p-56,
                                  -0x1.8c34d25aadef6p-56,
                                  0x1.1a62633145c07p-55};

/// atan(y / x) for y, x >= 0, not both zero or infinite, as high + low.
static double atanOfQuotient(double y, double x, double *low) {
  int swap = y > x;
  double n = swap ? x : y, d = swap ? y : x;
  double q = n / d;
  // The nearest eighth; what is left is an angle below a sixteenth.
  double k = __builtin_rint(q * 8.0);
  double c = k * 0.125;
  // (n - c d) / (d + c n), the numerator in two parts.
  double cd = c * d;
  double top = (n - cd) - fma(c, d, -cd);
  double bottom = fma(c, n, d);
  double t = k == 0.0 ? q : top / bottom;
  double error = k == 0.0 ? fma(-q, d, n) / d : fma(-t, bottom, top) / bottom;
  double z = t * t;
  double p = -1.0 / 15.0;
  p = fma(p, z, 1.0 / 13.0);
  p = fma(p, z, -1.0 / 11.0);
  p = fma(p, z, 1.0 / 9.0);
  p = fma(p, z, -1.0 / 7.0);
  p = fma(p, z, 1.0 / 5.0);
  p = fma(p, z, -1.0 / 3.0);
  double tail = fma(t * z, p, error) + atanLow[(int)k];
  double base = atanHigh[(int)k];
  double high = base + t;
  tail += base == 0.0 ? 0.0 : t - (high - base);
  double sum = high + tail;
  tail = tail - (sum - high);
  if (!swap) {
    *low = tail;
    return sum;
  }
  double r = halfPi1 - sum;
  *low = ((halfPi1 - r) - sum) + (halfPi2 - tail);
  return r;
}

double F(atan)(double x) {
  if (isNan(x) || x == 0.0)
    return x;
  double low, a = absolute(x);
  if (a == infinity)
    return withSign(halfPi1, x);
  if (a < 0x1p-30)
    return x;
  double high = atanOfQuotient(a, 1.0, &low);
  return withSign(high + low, x);
}

double F(atan2)(double y, double x) {
  if (isNan(x) || isNan(y))
    return x + y;
  double a = absolute(y), c = absolute(x);
  int left = (bitsOf(x) >> 63) != 0;
  double high, low = 0.0;
  if (a == 0.0) {
    high = 0.0;
  } else if (c == 0.0 || (a == infinity && c != infinity)) {
    return withSign(halfPi1, y);
  } else if (c == infinity) {
    high = a == infinity ? 0x1.921fb54442d18p-1 : 0.0;
    low = a == infinity ? 0x1.1a62633145c07p-55 : 0.0;
  } else {
    // Both in a range where nothing over- or underflows in between.
    double largest = a > c ? a : c;
    double factor = largest > 0x1p900 ? 0x1p-200 : 1.0;
    if (largest < 0x1p-900)
      factor = 0x1p200;
    if (a < c * 0x1p-120) {
      high = left ? 0.0 : a / c;
    } else if (c < a * 0x1p-120) {
      return withSign(halfPi1, y);
    } else {
      high = atanOfQuotient(a * factor, c * factor, &low);
    }
  }
  if (left) {
    double pi = 2.0 * halfPi1;
    double r = pi - high;
    high = r + (((pi - r) - high) + (2.0 * halfPi2 - low));
    low = 0.0;
  }
  return withSign(high + low, y);
}

/// sqrt((1 - a) (1 + a)) in two parts, for 0 <= a <= 1.
static inline double cosineOfSine(double a, double *low) {
  double square = a * a;
  double squareLow = fma(a, a, -square);
  double one = 1.0 - square;
  double rest = ((1.0 - one) - square) - squareLow;
  double c = __builtin_sqrt(one + rest);
  if (c == 0.0) {
    *low = 0.0;
    return 0.0;
  }
  *low = (fma(-c, c, one) + rest) / (2.0 * c);
  return c;
}

double F(asin)(double x) {
  double a = absolute(x);
  if (isNan(x) || x == 0.0)
    return x;
  if (a > 1.0)
    return __builtin_nan("");
  if (a < 0x1p-28)
    return x;
  double cLow, low;
  double c = cosineOfSine(a, &cLow);
  if (c == 0.0)
    return withSign(halfPi1, x);
  double high = atanOfQuotient(a, c, &low);
  // d atan(a / c) / dc = -a, since a^2 + c^2 = 1.
  return withSign(high + (low - a * cLow), x);
}

double F(acos)(double x) {
  double a = absolute(x);
  if (isNan(x))
    return x;
  if (a > 1.0)
    return __builtin_nan("");
  double cLow, low;
  double c = cosineOfSine(a, &cLow);
  // acos(x) is the angle whose cosine is x and whose sine is c.
  double high = a == 0.0 ? halfPi1 : atanOfQuotient(c, a, &low);
  low = a == 0.0 ? halfPi2 : low + a * cLow;
  if (x >= 0.0)
    return high + low;
  double pi = 2.0 * halfPi1;
  double r = pi - high;
  return r + (((pi - r) - high) + (2.0 * halfPi2 - low));
}

//===--- Hyperbolic functions -----------------------------------------------//

double F(sinh)(double x) {
  double a = absolute(x);
  if (isNan(x) || a == infinity || a < 0x1p-28)
    return x;
  if (a > 709.0) {
    double half = F(exp)(0.5 * a);
    return withSign(0.5 * half * half, x);
  }
  double e = F(expm1)(a);
  double value =
      a < 1.0 ? e - e * e / (2.0 * (e + 1.0)) : 0.5 * (e + e / (e + 1.0));
  return withSign(value, x);
}

double F(cosh)(double x) {
  double a = absolute(x);
  if (isNan(x))
    return x;
  if (a > 709.0) {
    double half = F(exp)(0.5 * a);
    return 0.5 * half * half;
  }
  double e = F(exp)(a);
  if (a < 0.5) {
    double m = F(expm1)(a);
    return 1.0 + m * m / (2.0 * (m + 1.0));
  }
  return 0.5 * e + 0.5 / e;
}

double F(tanh)(double x) {
  double a = absolute(x);
  if (isNan(x) || a < 0x1p-28)
    return x;
  if (a > 22.0)
    return withSign(1.0, x);
  double value;
  if (a < 0.5) {
    double e = F(expm1)(2.0 * a);
    value = e / (e + 2.0);
  } else {
    value = 1.0 - 2.0 / (F(exp)(2.0 * a) + 1.0);
  }
  return withSign(value, x);
}

double F(asinh)(double x) {
  double a = absolute(x);
  if (isNan(x) || a == infinity || a < 0x1p-28)
    return x;
  double value;
  if (a > 0x1p28) {
    double low;
    int e;
    double m = splitNumber(a, &e);
    value = logParts(m, 0.0, e + 1, &low);
  } else {
    double z = a * a;
    value = F(log1p)(a + z / (1.0 + __builtin_sqrt(z + 1.0)));
  }
  return withSign(value, x);
}

double F(acosh)(double x) {
  if (isNan(x))
    return x;
  if (x < 1.0)
    return __builtin_nan("");
  if (x > 0x1p28) {
    if (x == infinity)
      return x;
    double low;
    int e;
    double m = splitNumber(x, &e);
    return logParts(m, 0.0, e + 1, &low);
  }
  double t = x - 1.0;
  return F(log1p)(t + __builtin_sqrt(2.0 * t + t * t));
}

double F(atanh)(double x) {
  double a = absolute(x);
  if (isNan(x) || a < 0x1p-28)
    return x;
  if (a > 1.0)
    return __builtin_nan("");
  if (a == 1.0)
    return withSign(infinity, x);
  double value = a < 0.5 ? F(log1p)(2.0 * a + 2.0 * a * a / (1.0 - a))
                         : F(log1p)(2.0 * a / (1.0 - a));
  return withSign(0.5 * value, x);
}

//===--- Error function -----------------------------------------------------//

/// erf(x) / x over 2 x^2 - 1, for |x| <= 1.
static double erfSmall(double x) {
  static const double c[12] = {
      0.9654687386698673,     -0.1405360890227171,    0.019852496688984218,
      -0.0022854855611440855, 0.00021751715603563488, -1.75371694412802e-05,
      1.2233827638093572e-06, -7.51156925108609e-08,  4.115751500265885e-09,
      -2.035231956483527e-10, 9.21125018742823e-12,   -3.80659122412214e-13};
  double t = fma(2.0 * x, x, -1.0);
  double p = c[11];
  for (int i = 10; i >= 0; --i)
    p = fma(p, t, c[i]);
  return x * p;
}

/// erfc(x) for x in [1, 28].
static double erfcLarge(double x) {
  static const double c[21] = {
      0.6113178940092338,    -0.04600854190396103,   0.0063006442757398634,
      0.0065410953912015575, -0.007366631277148243,  0.004758085283279697,
      -0.002326578842738714, 0.0009074816527663589,  -0.0002802178148384411,
      6.422017731970805e-05, -8.536453674177682e-06, -5.028401732241393e-07,
      5.465766374684154e-07, -9.902857062400992e-08, -9.843614561004956e-09,
      7.511237818202874e-09, -5.994359574812618e-10, -3.842048105744872e-10,
      8.185440925153873e-11, 1.430273858888597e-11,  -5.1066886113166114e-12};
  double t =
      fma((x - 4.0) / (x + 4.0), 1.4814814814814814, -0.1111111111111111);
  double p = c[20];
  for (int i = 19; i >= 0; --i)
    p = fma(p, t, c[i]);
  // exp(-x^2) with the square in two parts.
  double square = x * x;
  return expWithTail(-square, -fma(x, x, -square)) * (p / (x + 0.5));
}

double F(erf)(double x) {
  double a = absolute(x);
  if (isNan(x))
    return x;
  if (a <= 1.0)
    return erfSmall(x);
  if (a > 6.0)
    return withSign(1.0, x);
  return withSign(1.0 - erfcLarge(a), x);
}

double F(erfc)(double x) {
  if (isNan(x))
    return x;
  if (absolute(x) <= 1.0)
    return x < 0.5 ? 1.0 - erfSmall(x) : 0.5 - (erfSmall(x) - 0.5);
  if (x > 27.3)
    return 0.0;
  if (x < -6.0)
    return 2.0;
  return x > 0.0 ? erfcLarge(x) : 2.0 - erfcLarge(-x);
}

//===--- Powers -------------------------------------------------------------//

double F(cbrt)(double x) {
  double a = absolute(x);
  if (isNan(x) || x == 0.0 || a == infinity)
    return x;
  int e;
  double m = splitNumber(a, &e), low;
  int third = (e >= 0 ? e : e - 2) / 3;
  // In [0.7, 5.7).
  m *= power2(e - 3 * third);
  double l = logWithTail(m, &low);
  double y = F(exp)(l * (1.0 / 3.0));
  // Newton's step on the residue, which is exact to the last bits.
  double square = y * y;
  double residue = fma(square, y, -m) + fma(y, y, -square) * y;
  y -= residue / (3.0 * square);
  return withSign(scale(y, third), x);
}

static inline int isInteger(double y) { return __builtin_trunc(y) == y; }
static inline int isOdd(double y) {
  return isInteger(y) && absolute(y) < 0x1p53 &&
         ((int64_t)absolute(y) & 1) != 0;
}

/// A number as the sum of two, the second below the first's last place.
typedef struct {
  double high, low;
} Pair;

/// a * b.
static inline Pair multiply(Pair a, Pair b) {
  double product = a.high * b.high;
  double rest = fma(a.high, b.high, -product);
  return (Pair){product, rest + (a.high * b.low + a.low * b.high)};
}

/// a + b for |a| > |b|.
static inline Pair addSmaller(Pair a, Pair b) {
  double sum = a.high + b.high;
  double lost = b.high - (sum - a.high);
  double rest = lost + (a.low + b.low);
  double high = sum + rest;
  return (Pair){high, rest - (high - sum)};
}

/// log(x) to 67 bits for a positive finite x: a power multiplies the error by
/// up to 745.
static Pair logTwice(double x) {
  int e;
  double m = splitNumber(x, &e);
  // atanh(f) = f + f^3 / 3 + f^5 / 5 + ..., f = (m - 1) / (m + 1) < 0.172.
  double d = m + 1.0, dLow = m - (d - 1.0), above = m - 1.0;
  double quotient = above / d;
  Pair f = {quotient, (fma(-quotient, d, above) - quotient * dLow) / d};
  Pair z = multiply(f, f);
  double p = 1.0 / 25.0;
  p = fma(p, z.high, 1.0 / 23.0);
  p = fma(p, z.high, 1.0 / 21.0);
  p = fma(p, z.high, 1.0 / 19.0);
  p = fma(p, z.high, 1.0 / 17.0);
  p = fma(p, z.high, 1.0 / 15.0);
  p = fma(p, z.high, 1.0 / 13.0);
  p = fma(p, z.high, 1.0 / 11.0);
  p = fma(p, z.high, 1.0 / 9.0);
  p = fma(p, z.high, 1.0 / 7.0);
  Pair fifth = {1.0 / 5.0, -0x1.999999999999ap-57};
  Pair third = {1.0 / 3.0, 0x1.5555555555555p-56};
  Pair sum = addSmaller(fifth, multiply(z, (Pair){p, 0.0}));
  sum = addSmaller(third, multiply(z, sum));
  Pair twice = {2.0 * f.high, 2.0 * f.low};
  Pair logarithm = addSmaller(twice, multiply(twice, multiply(z, sum)));
  if (e == 0)
    return logarithm;
  return addSmaller((Pair){e * ln2High, e * ln2Low}, logarithm);
}

/// x^y within a unit in the last place, or, rounded to f32 afterwards,
/// within 9.
static inline double power(double x, double y, int single) {
  if (y == 0.0 || x == 1.0)
    return 1.0;
  if (isNan(x) || isNan(y))
    return x + y;
  double a = absolute(x);
  int negative = (bitsOf(x) >> 63) != 0 && isOdd(y);
  if (absolute(y) == infinity) {
    if (a == 1.0)
      return 1.0;
    return (a > 1.0) == (y > 0.0) ? infinity : 0.0;
  }
  if (a == 0.0 || a == infinity) {
    double value = (a == 0.0) == (y > 0.0) ? 0.0 : infinity;
    return negative ? -value : value;
  }
  if (x < 0.0 && !isInteger(y))
    return __builtin_nan("");
  Pair logarithm;
  if (single)
    logarithm.high = logWithTail(a, &logarithm.low);
  else
    logarithm = logTwice(a);
  Pair product = multiply(logarithm, (Pair){y, 0.0});
  double value;
  if (!(absolute(product.high) < 0x1p60))
    value = product.high > 0.0 ? infinity : 0.0;
  else
    value = expWithTail(product.high, product.low);
  return negative ? -value : value;
}

/// Exact: the quotient's bits one after the other.
double F(fmod)(double x, double y) {
  double a = absolute(x), d = absolute(y);
  if (isNan(x) || isNan(y) || a == infinity || d == 0.0)
    return __builtin_nan("");
  if (a < d)
    return x;
  uint64_t xBits = bitsOf(a), yBits = bitsOf(d);
  int xExponent = (int)(xBits >> 52), yExponent = (int)(yBits >> 52);
  uint64_t m = xBits & 0xfffffffffffffu, n = yBits & 0xfffffffffffffu;
  // Denormal numbers get the form of the others.
  if (xExponent)
    m |= 0x10000000000000u;
  else
    for (xExponent = 1; m < 0x10000000000000u; --xExponent)
      m <<= 1;
  if (yExponent)
    n |= 0x10000000000000u;
  else
    for (yExponent = 1; n < 0x10000000000000u; --yExponent)
      n <<= 1;
  for (int i = xExponent; i > yExponent; --i) {
    if (m >= n)
      m -= n;
    m <<= 1;
  }
  if (m >= n)
    m -= n;
  // m * 2^(yExponent - 1075), exact.
  double value = (double)m;
  int n2 = yExponent - 1075;
  if (n2 < -1000)
    value = value * 0x1p-1000 * power2(n2 + 1000);
  else if (n2 > 970)
    value = value * 0x1p970 * power2(n2 - 970);
  else
    value = value * power2(n2);
  return withSign(value, x);
}

//===--- f32 ----------------------------------------------------------------//

#define THROUGH_F64(name)                                                      \
  float F(name##f)(float x) { return (float)F(name)((double)x); }
THROUGH_F64(exp)
THROUGH_F64(exp2)
THROUGH_F64(expm1)
THROUGH_F64(log)
THROUGH_F64(log2)
THROUGH_F64(log10)
THROUGH_F64(log1p)
THROUGH_F64(sin)
THROUGH_F64(cos)
THROUGH_F64(tan)
THROUGH_F64(asin)
THROUGH_F64(acos)
THROUGH_F64(atan)
THROUGH_F64(sinh)
THROUGH_F64(cosh)
THROUGH_F64(tanh)
THROUGH_F64(asinh)
THROUGH_F64(acosh)
THROUGH_F64(atanh)
THROUGH_F64(erf)
THROUGH_F64(erfc)
THROUGH_F64(cbrt)
double F(pow)(double x, double y) { return power(x, y, 0); }
float F(powf)(float x, float y) {
  return (float)power((double)x, (double)y, 1);
}
float F(atan2f)(float y, float x) {
  return (float)F(atan2)((double)y, (double)x);
}
float F(fmodf)(float x, float y) {
  return (float)F(fmod)((double)x, (double)y);
}
/// Halves away from zero, as C has it.
double F(round)(double x) {
  double t = __builtin_trunc(x);
  return absolute(x - t) >= 0.5 ? t + withSign(1.0, x) : withSign(t, x);
}
float F(roundf)(float x) { return (float)F(round)((double)x); }
