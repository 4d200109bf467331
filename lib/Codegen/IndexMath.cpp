//===- IndexMath.cpp - Index expressions over a kernel's domain -----------===//

#include "pyjit/Codegen/IndexMath.h"
#include "dialects/tssa/IR/TSSA.h"

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

static void accumulate(AffineExpr expr, int64_t factor, LinearForm &form) {
  if (auto constant = dyn_cast<AffineConstantExpr>(expr)) {
    form.constant += factor * constant.getValue();
    return;
  }
  if (auto binary = dyn_cast<AffineBinaryOpExpr>(expr)) {
    if (expr.getKind() == AffineExprKind::Add) {
      accumulate(binary.getLHS(), factor, form);
      accumulate(binary.getRHS(), factor, form);
      return;
    }
    if (expr.getKind() == AffineExprKind::Mul) {
      if (auto scale = dyn_cast<AffineConstantExpr>(binary.getRHS()))
        return accumulate(binary.getLHS(), factor * scale.getValue(), form);
      if (auto scale = dyn_cast<AffineConstantExpr>(binary.getLHS()))
        return accumulate(binary.getRHS(), factor * scale.getValue(), form);
    }
  }
  form.add(expr, factor);
}

LinearForm linearize(AffineExpr expr) {
  LinearForm form;
  accumulate(expr, 1, form);
  return form;
}

static int64_t floorDiv(int64_t a, int64_t b) {
  int64_t q = a / b;
  return a % b != 0 && ((a < 0) != (b < 0)) ? q - 1 : q;
}

std::pair<int64_t, int64_t> range(AffineExpr expr, ArrayRef<int64_t> sizes) {
  if (auto constant = dyn_cast<AffineConstantExpr>(expr))
    return {constant.getValue(), constant.getValue()};
  if (auto dim = dyn_cast<AffineDimExpr>(expr))
    return {0, std::max<int64_t>(sizes[dim.getPosition()] - 1, 0)};
  auto binary = cast<AffineBinaryOpExpr>(expr);
  auto lhs = range(binary.getLHS(), sizes);
  auto rhs = range(binary.getRHS(), sizes);
  if ((expr.getKind() == AffineExprKind::FloorDiv ||
       expr.getKind() == AffineExprKind::Mod) &&
      rhs.first <= 0)
    return {0, 0};
  switch (expr.getKind()) {
  case AffineExprKind::Add:
    return {lhs.first + rhs.first, lhs.second + rhs.second};
  case AffineExprKind::Mul: {
    int64_t a = lhs.first * rhs.first, b = lhs.second * rhs.first;
    return {std::min(a, b), std::max(a, b)};
  }
  case AffineExprKind::FloorDiv:
    return {floorDiv(lhs.first, rhs.first), floorDiv(lhs.second, rhs.first)};
  case AffineExprKind::Mod:
    if (lhs.first >= 0 && lhs.second < rhs.first)
      return lhs;
    return {0, rhs.first - 1};
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
  return lowest >= 0 && highest < bound;
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
      if (inner.getKind() == AffineExprKind::FloorDiv) {
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
  if (auto strides = dyn_cast_or_null<tssa::StridesAttr>(type.getEncoding()))
    return SmallVector<int64_t>(strides.getStrides());
  SmallVector<int64_t> strides(type.getRank(), 1);
  for (int64_t i = type.getRank() - 2; i >= 0; --i)
    strides[i] = strides[i + 1] * std::max<int64_t>(type.getDimSize(i + 1), 1);
  return strides;
}

AffineExpr offsetOf(RankedTensorType type, ArrayRef<AffineExpr> coordinates) {
  AffineExpr offset = getAffineConstantExpr(0, type.getContext());
  for (auto [coordinate, stride] : llvm::zip(coordinates, stridesOf(type)))
    offset = offset + coordinate * stride;
  return offset;
}

} // namespace pyjit::codegen
