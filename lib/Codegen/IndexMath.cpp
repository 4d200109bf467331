//===- IndexMath.cpp - Index expressions over a kernel's domain -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "pyjit/Codegen/IndexMath.h"
#include "dialects/tssa/IR/TSSA.h"
#include "dialects/tssa/IR/Views.h"

using namespace mlir;

namespace pyjit::codegen {

int64_t LinearForm::coefficient(unsigned dim) const {
  for (auto &[base, factor] : terms)
    if (auto d = dyn_cast<AffineDimExpr>(base))
      if (d.getPosition() == dim)
        return factor;
  return 0;
}

bool LinearForm::isNonlinearIn(unsigned dim) const {
  for (auto &[base, factor] : terms)
    if (!isa<AffineDimExpr>(base) && base.isFunctionOfDim(dim))
      return true;
  return false;
}

AffineExpr LinearForm::cyclicTerm(unsigned dim) const {
  AffineExpr cyclic;
  for (auto &[base, factor] : terms) {
    if (!base.isFunctionOfDim(dim))
      continue;
    auto mod = dyn_cast<AffineBinaryOpExpr>(base);
    if (cyclic || factor != 1 || !mod ||
        base.getKind() != AffineExprKind::Mod ||
        !isa<AffineConstantExpr>(mod.getRHS()))
      return {};
    LinearForm inner = linearize(mod.getLHS());
    if (inner.isNonlinearIn(dim) || inner.coefficient(dim) != 1)
      return {};
    cyclic = base;
  }
  return cyclic;
}

bool LinearForm::uses(unsigned dim) const {
  for (auto &[base, factor] : terms)
    if (base.isFunctionOfDim(dim))
      return true;
  return false;
}

void LinearForm::add(AffineExpr base, int64_t coefficient) {
  for (auto it = terms.begin(); it != terms.end(); ++it) {
    if (it->first != base)
      continue;
    it->second += coefficient;
    if (it->second == 0)
      terms.erase(it);
    return;
  }
  if (coefficient != 0)
    terms.push_back({base, coefficient});
}

AffineExpr LinearForm::toExpr(MLIRContext *context) const {
  AffineExpr sum = getAffineConstantExpr(0, context);
  for (auto &[base, factor] : terms)
    sum = sum + base * factor;
  return sum + constant;
}

std::optional<analysis::Size> LinearForm::strideOf(unsigned dim) const {
  analysis::Size stride = coefficient(dim);
  for (auto &[base, factor] : terms) {
    if (isa<AffineDimExpr>(base) || !base.isFunctionOfDim(dim))
      continue;
    // d * s0 * s1: the dim is the innermost left factor.
    AffineExpr at = base;
    analysis::Size product = factor;
    while (at.getKind() == AffineExprKind::Mul) {
      auto binary = cast<AffineBinaryOpExpr>(at);
      AffineExpr by = analysis::normalizeSize(binary.getRHS());
      if (!by)
        return std::nullopt;
      product *= analysis::Size(by);
      at = binary.getLHS();
    }
    if (!isa<AffineDimExpr>(at))
      return std::nullopt;
    stride += product;
  }
  return stride;
}

/// Adds expr * factor * scale, where `scale` is a product of symbols or null.
static void accumulate(AffineExpr expr, int64_t factor, AffineExpr scale,
                       LinearForm &form) {
  auto addTimes = [&](AffineExpr base) {
    form.add(scale ? base * scale : base, factor);
  };
  if (auto constant = dyn_cast<AffineConstantExpr>(expr)) {
    if (scale)
      form.add(scale, factor * constant.getValue());
    else
      form.constant += factor * constant.getValue();
    return;
  }
  if (auto binary = dyn_cast<AffineBinaryOpExpr>(expr)) {
    if (expr.getKind() == AffineExprKind::Add) {
      accumulate(binary.getLHS(), factor, scale, form);
      accumulate(binary.getRHS(), factor, scale, form);
      return;
    }
    if (expr.getKind() == AffineExprKind::Mul) {
      AffineExpr lhs = binary.getLHS(), rhs = binary.getRHS();
      if (isa<AffineConstantExpr>(lhs))
        std::swap(lhs, rhs);
      if (auto constant = dyn_cast<AffineConstantExpr>(rhs))
        return accumulate(lhs, factor * constant.getValue(), scale, form);
      // A polynomial is multiplied term by term, so that products of symbols
      // have one form.
      AffineExpr by = analysis::normalizeSize(rhs);
      if (!by) {
        by = analysis::normalizeSize(lhs);
        lhs = rhs;
      }
      if (by) {
        SmallVector<AffineExpr> terms{by};
        while (!terms.empty()) {
          AffineExpr term = terms.pop_back_val();
          if (term.getKind() == AffineExprKind::Add) {
            terms.push_back(cast<AffineBinaryOpExpr>(term).getLHS());
            terms.push_back(cast<AffineBinaryOpExpr>(term).getRHS());
            continue;
          }
          int64_t times = 1;
          if (auto product = dyn_cast<AffineBinaryOpExpr>(term))
            if (auto number = dyn_cast<AffineConstantExpr>(product.getRHS())) {
              times = number.getValue();
              term = product.getLHS();
            }
          if (auto number = dyn_cast<AffineConstantExpr>(term)) {
            accumulate(lhs, factor * number.getValue(), scale, form);
            continue;
          }
          AffineExpr both =
              scale ? analysis::normalizeSize(scale * term) : term;
          accumulate(lhs, factor * times, both, form);
        }
        return;
      }
    }
  }
  // Symbols join the others, in order.
  if (isa<AffineSymbolExpr>(expr)) {
    form.add(scale ? analysis::normalizeSize(scale * expr) : expr, factor);
    return;
  }
  addTimes(expr);
}

LinearForm linearize(AffineExpr expr) {
  LinearForm form;
  accumulate(expr, 1, AffineExpr(), form);
  return form;
}

static int64_t floorDiv(int64_t a, int64_t b) {
  int64_t q = a / b;
  return a % b != 0 && ((a < 0) != (b < 0)) ? q - 1 : q;
}

/// What stands for a bound that is not known. Sums and products keep to it.
static constexpr int64_t kUnbounded = int64_t(1) << 60;

static int64_t clampRange(__int128 value) {
  return value > kUnbounded    ? kUnbounded
         : value < -kUnbounded ? -kUnbounded
                               : static_cast<int64_t>(value);
}

std::pair<int64_t, int64_t> range(AffineExpr expr, ArrayRef<int64_t> sizes) {
  if (auto constant = dyn_cast<AffineConstantExpr>(expr))
    return {constant.getValue(), constant.getValue()};
  if (auto dim = dyn_cast<AffineDimExpr>(expr)) {
    int64_t size = sizes[dim.getPosition()];
    if (ShapedType::isDynamic(size))
      return {0, kUnbounded};
    return {0, std::max<int64_t>(size - 1, 0)};
  }
  if (isa<AffineSymbolExpr>(expr))
    return {2, kUnbounded};
  auto binary = cast<AffineBinaryOpExpr>(expr);
  auto lhs = range(binary.getLHS(), sizes);
  auto rhs = range(binary.getRHS(), sizes);
  if ((expr.getKind() == AffineExprKind::FloorDiv ||
       expr.getKind() == AffineExprKind::Mod) &&
      rhs.first <= 0) {
    // A dimension of no elements is never read; of other divisors that may be
    // zero nothing is known.
    if (rhs.first == rhs.second)
      return {0, 0};
    return {-kUnbounded, kUnbounded};
  }
  switch (expr.getKind()) {
  case AffineExprKind::Add:
    return {clampRange(__int128(lhs.first) + rhs.first),
            clampRange(__int128(lhs.second) + rhs.second)};
  case AffineExprKind::Mul: {
    int64_t corners[] = {clampRange(__int128(lhs.first) * rhs.first),
                         clampRange(__int128(lhs.first) * rhs.second),
                         clampRange(__int128(lhs.second) * rhs.first),
                         clampRange(__int128(lhs.second) * rhs.second)};
    return {*llvm::min_element(corners), *llvm::max_element(corners)};
  }
  case AffineExprKind::FloorDiv:
    return {floorDiv(lhs.first, lhs.first < 0 ? rhs.first : rhs.second),
            floorDiv(lhs.second, lhs.second < 0 ? rhs.second : rhs.first)};
  case AffineExprKind::Mod:
    if (lhs.first >= 0 && lhs.second < rhs.first)
      return lhs;
    return {0, rhs.second - 1};
  default:
    llvm_unreachable("ceildiv does not occur in access expressions");
  }
}

/// Splits `form` for a division by `divisor`: `high * divisor + low`, where low
/// keeps what the divisor does not divide.
static std::pair<LinearForm, LinearForm> splitBy(const LinearForm &form,
                                                 int64_t divisor) {
  LinearForm high, low;
  for (auto &[base, factor] : form.terms)
    (factor % divisor == 0 ? high : low)
        .add(base, factor % divisor == 0 ? factor / divisor : factor);
  high.constant = floorDiv(form.constant, divisor);
  low.constant = form.constant - high.constant * divisor;
  return {high, low};
}

static bool within(const LinearForm &form, int64_t bound,
                   ArrayRef<int64_t> sizes, MLIRContext *context) {
  auto [lowest, highest] = range(form.toExpr(context), sizes);
  return lowest >= 0 && highest < bound && highest < kUnbounded;
}

/// floordiv (or mod) of `form` by `divisor`.
static AffineExpr divide(const LinearForm &form, int64_t divisor, bool mod,
                         ArrayRef<int64_t> sizes, MLIRContext *context) {
  auto [high, low] = splitBy(form, divisor);
  AffineExpr highExpr = high.toExpr(context), lowExpr = low.toExpr(context);
  if (within(low, divisor, sizes, context))
    return mod ? lowExpr : highExpr;
  // A factor g of the divisor: low = g * a + b with b in [0, g) divides as a by
  // divisor / g, and leaves b alone.
  for (auto &[base, g] : low.terms) {
    if (g <= 1 || divisor % g != 0)
      continue;
    auto [a, b] = splitBy(low, g);
    if (!within(b, g, sizes, context))
      continue;
    AffineExpr inner = divide(a, divisor / g, mod, sizes, context);
    return mod ? inner * g + b.toExpr(context) : highExpr + inner;
  }
  // (x floordiv a) floordiv b is x floordiv (a * b).
  if (!mod && low.terms.size() == 1 && low.constant == 0 &&
      low.terms[0].second == 1)
    if (auto inner = dyn_cast<AffineBinaryOpExpr>(low.terms[0].first))
      if (inner.getKind() == AffineExprKind::FloorDiv &&
          isa<AffineConstantExpr>(inner.getRHS())) {
        int64_t first = cast<AffineConstantExpr>(inner.getRHS()).getValue();
        return highExpr + divide(linearize(inner.getLHS()), first * divisor,
                                 false, sizes, context);
      }
  return mod ? lowExpr % divisor : highExpr + lowExpr.floorDiv(divisor);
}

AffineExpr simplify(AffineExpr expr, ArrayRef<int64_t> sizes) {
  MLIRContext *context = expr.getContext();
  if (isa<AffineConstantExpr>(expr))
    return expr;
  if (auto dim = dyn_cast<AffineDimExpr>(expr))
    return sizes[dim.getPosition()] == 1 ? getAffineConstantExpr(0, context)
                                         : expr;
  if (isa<AffineSymbolExpr>(expr))
    return expr;
  auto binary = cast<AffineBinaryOpExpr>(expr);
  AffineExpr lhs = simplify(binary.getLHS(), sizes);
  AffineExpr rhs = simplify(binary.getRHS(), sizes);
  switch (expr.getKind()) {
  case AffineExprKind::Add:
    return linearize(lhs + rhs).toExpr(context);
  case AffineExprKind::Mul:
    return linearize(lhs * rhs).toExpr(context);
  case AffineExprKind::FloorDiv:
  case AffineExprKind::Mod: {
    if (!isa<AffineConstantExpr>(rhs))
      return expr.getKind() == AffineExprKind::Mod ? lhs % rhs
                                                   : lhs.floorDiv(rhs);
    int64_t divisor = cast<AffineConstantExpr>(rhs).getValue();
    // A dimension of no elements is never read.
    if (divisor <= 0)
      return getAffineConstantExpr(0, context);
    return divide(linearize(lhs), divisor,
                  expr.getKind() == AffineExprKind::Mod, sizes, context);
  }
  default:
    return expr;
  }
}

SmallVector<int64_t> stridesOf(RankedTensorType type) {
  if (type.getEncoding())
    return tssa::getStrides(type);
  SmallVector<int64_t> strides(type.getRank(), 1);
  for (int64_t i = type.getRank() - 2; i >= 0; --i)
    strides[i] = strides[i + 1] * std::max<int64_t>(type.getDimSize(i + 1), 1);
  return strides;
}

AffineExpr offsetOf(RankedTensorType type, ArrayRef<AffineExpr> coordinates) {
  MLIRContext *context = type.getContext();
  AffineExpr offset = getAffineConstantExpr(0, context);
  if (tssa::isSymbolic(type)) {
    for (auto [coordinate, stride] :
         llvm::zip(coordinates, tssa::getSymbolicStrides(type)))
      offset = offset + coordinate * stride.toExpr(context);
    return offset;
  }
  for (auto [coordinate, stride] : llvm::zip(coordinates, stridesOf(type)))
    offset = offset + coordinate * stride;
  return offset;
}

} // namespace pyjit::codegen
