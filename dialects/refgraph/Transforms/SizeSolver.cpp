//===- SizeSolver.cpp - What symbols of sizes stand for -------------------===//
//
// In doubt a size keeps its value, and why is remembered.
//
//===----------------------------------------------------------------------===//

#include "dialects/refgraph/Transforms/SizeLifter.h"

#include <numeric>

using namespace mlir;
using namespace pyjit;
using namespace pyjit::refgraph;

SizePolynomial SizeLifter::resolve(SizePolynomial size) const {
  for (auto &[symbol, by] : replaced)
    if (size.contains(symbol))
      size = size.substitute(symbol, by);
  return size;
}

SizePolynomial SizeLifter::getSymbol(Source source, int64_t value) {
  auto [it, isNew] = symbols.insert({source, values.size()});
  if (isNew) {
    values.push_back(value);
    // One and zero decide about broadcasting and layouts.
    if (value < 2 || specializeEverything)
      replaced[it->second] = SizePolynomial(value);
    if (specializeEverything && !whyEverything.empty())
      reasons[it->second] = whyEverything;
  }
  return resolve(SizePolynomial::symbol(it->second));
}

/// What is said of a symbol that keeps its value because of `at`.
std::string SizeLifter::describeReason(const Twine &what) const {
  std::string text = what.str(), line = lineOf(at->getLoc());
  return line.empty() ? text : text + " (" + line + ")";
}

/// "argument 0", "'weight'", ...
static std::string describeTensor(Value tensor) {
  auto get = tensor.getDefiningOp<GetOp>();
  if (!get)
    return "a tensor";
  std::string text;
  llvm::raw_string_ostream os(text);
  if (get.getSelector() == Selector::arg)
    os << "argument " << cast<IntegerAttr>(get.getKeyAttr()).getInt();
  else if (auto name = dyn_cast_or_null<StringAttr>(get.getKeyAttr()))
    os << "'" << name.getValue() << "'";
  else
    os << "item " << get.getKeyAttr();
  return text;
}

SmallVector<std::string> SizeLifter::explainSpecialized() const {
  SmallVector<std::string> lines;
  for (auto &[source, symbol] : symbols) {
    auto [value, dim] = source;
    auto found = reasons.find(symbol);
    if (found == reasons.end())
      continue;
    std::string text;
    llvm::raw_string_ostream os(text);
    if (!value)
      os << "a quotient of sizes";
    else if (dim >= 0)
      os << "size " << dim << " of " << describeTensor(value);
    else
      os << "a number that is a size";
    if (value && dim < 0)
      if (std::string line = lineOf(value.getLoc()); !line.empty())
        os << " (" << line << ")";
    os << " stays " << values[symbol] << ": " << found->second;
    lines.push_back(text);
  }
  return lines;
}

void SizeLifter::replace(unsigned symbol, SizePolynomial by) {
  if (by.isConstant() && at) {
    StringRef what = at->getName().getStringRef();
    if (auto call = dyn_cast<TensorOp>(at))
      what = call.getOverload();
    reasons.try_emplace(
        symbol, describeReason(!why.empty() ? Twine(why)
                                            : what + " relies on that value"));
  }
  for (auto &entry : replaced)
    entry.second = entry.second.substitute(symbol, by);
  replaced[symbol] = std::move(by);
  changed = true;
}

void SizeLifter::specialize(const SizePolynomial &size) {
  resolve(size).walkSymbols([&](unsigned symbol) {
    replace(symbol, SizePolynomial(values[symbol]));
  });
}

void SizeLifter::specialize(const SymbolicShape &shape) {
  for (const SizePolynomial &size : shape.sizes)
    specialize(size);
  for (const SizePolynomial &stride : shape.strides)
    specialize(stride);
  specialize(shape.offset);
}

void SizeLifter::specializeOperands(TensorOp call) {
  for (Value input : call.getInputs())
    if (isa<refgraph::TensorType>(input.getType())) {
      SymbolicShape shape = shapes[input];
      for (const SizePolynomial &size : shape.sizes)
        requireRecorded(size);
      specialize(shape);
    } else if (auto it = numbers.find(input); it != numbers.end())
      specialize(it->second);
}

//===----------------------------------------------------------------------===//
// Facts
//===----------------------------------------------------------------------===//

/// Two products of as many sizes, `a * b - c * d`: they are equal if their
/// factors are. Where these were not equal one by one, all keep their values.
bool SizeLifter::equateFactors(const SizePolynomial &rest) {
  auto terms = llvm::to_vector(rest.getTerms());
  auto lhs = terms.front().first, rhs = terms.back().first;
  auto byValue = [&](unsigned a, unsigned b) { return values[a] < values[b]; };
  llvm::stable_sort(lhs, byValue);
  llvm::stable_sort(rhs, byValue);
  if (terms.size() != 2 || terms.front().second + terms.back().second != 0 ||
      lhs.size() != rhs.size() ||
      !llvm::all_of(llvm::zip_equal(lhs, rhs), [&](auto pair) {
        return values[std::get<0>(pair)] == values[std::get<1>(pair)];
      })) {
    specialize(rest);
    return true;
  }
  for (auto [a, b] : llvm::zip_equal(lhs, rhs))
    requireEqual(SizePolynomial::symbol(a), SizePolynomial::symbol(b));
  return true;
}

bool SizeLifter::requireEqual(const SizePolynomial &a,
                              const SizePolynomial &b) {
  SizePolynomial rest = resolve(a) - resolve(b);
  if (evaluate(rest) != 0)
    return false;
  if (rest == SizePolynomial(0))
    return true;
  // What all terms are multiples of is not zero.
  while (true) {
    std::optional<unsigned> common;
    rest.walkSymbols([&](unsigned symbol) {
      if (llvm::all_of(rest.getTerms(), [&](auto &term) {
            return llvm::is_contained(term.first, symbol);
          }))
        common = symbol;
    });
    if (!common)
      break;
    rest = *rest.divide(SizePolynomial::symbol(*common));
  }
  // The latest symbol that is alone with a factor that divides all others.
  int64_t divisor = 0;
  for (auto &[monomial, factor] : rest.getTerms())
    divisor = std::gcd(divisor, factor);
  std::optional<unsigned> found;
  int64_t sign = 1;
  for (auto &[monomial, factor] : rest.getTerms()) {
    if (monomial.size() != 1 || std::abs(factor) != divisor)
      continue;
    unsigned symbol = monomial.front();
    unsigned uses = llvm::count_if(rest.getTerms(), [&](auto &term) {
      return llvm::is_contained(term.first, symbol);
    });
    if (uses == 1 && (!found || symbol > *found)) {
      found = symbol;
      sign = factor / divisor;
    }
  }
  if (!found)
    return equateFactors(rest);
  SizePolynomial others = *rest.divide(divisor) -
                          SizePolynomial(sign) * SizePolynomial::symbol(*found);
  replace(*found, SizePolynomial(-sign) * others);
  return true;
}

bool SizeLifter::requireNotNegative(const SizePolynomial &size) {
  SizePolynomial resolved = resolve(size);
  if (evaluate(resolved) < 0)
    return false;
  if (resolved.getLowerBound().value_or(-1) < 0)
    notNegative.push_back(resolved);
  return true;
}

bool SizeLifter::requireDifferent(const SizePolynomial &a,
                                  const SizePolynomial &b) {
  SizePolynomial rest = resolve(a) - resolve(b);
  if (evaluate(rest) == 0)
    return false;
  if (!rest.isConstant() && rest.getLowerBound().value_or(0) < 1 &&
      (SizePolynomial(0) - rest).getLowerBound().value_or(0) < 1)
    different.push_back({resolve(a), resolve(b)});
  return true;
}

bool SizeLifter::requireRecorded(const SizePolynomial &size) {
  SizePolynomial resolved = resolve(size);
  resolved.walkSymbols([&](unsigned symbol) {
    // One that an earlier symbol was computed from is a constant by now.
    if (!resolve(SizePolynomial::symbol(symbol)).isConstant())
      replace(symbol, SizePolynomial(values[symbol]));
    if (const Quotient *quotient = getQuotient(symbol))
      requireRecorded(SizePolynomial(quotient->numerator));
  });
  return true;
}

//===----------------------------------------------------------------------===//
// Quotients
//===----------------------------------------------------------------------===//

static int64_t floorDiv(int64_t a, int64_t b) {
  return a / b - (a % b != 0 && a < 0);
}

/// In one form: what divides is taken out, so that the rest is the least one,
/// its first factor is positive, and all of it is divided by what it has in
/// common with the divisor. `mayPin`: a quotient of 0 or 1 will do, which the
/// guards compare.
std::optional<SizePolynomial> SizeLifter::round(const SizePolynomial &size,
                                                int64_t by, bool mayPin) {
  constexpr unsigned limit = 24; // each one is computed in each call
  SizePolynomial whole = 0, rest = resolve(size);
  auto take = [&](const SizePolynomial::Monomial &monomial, int64_t times) {
    SizePolynomial term = times;
    for (unsigned symbol : monomial)
      term = term * SizePolynomial::symbol(symbol);
    whole = whole + term;
    rest = rest - term * by;
  };
  SizePolynomial given = rest;
  for (auto &[monomial, factor] : given.getTerms())
    if (!monomial.empty()) {
      int64_t times = (2 * std::abs(factor) + by - 1) / (2 * by);
      take(monomial, factor < 0 ? -times : times);
    }
  int64_t sign = 1;
  if (!rest.isConstant() && rest.getTerms().begin()->second < 0) {
    // -floor(-(rest) / by), rounded the other way.
    sign = -1;
    rest = SizePolynomial(by - 1) - rest;
  }
  SizePolynomial before = whole;
  whole = 0;
  int64_t common = by, constant = 0;
  for (auto &[monomial, factor] : rest.getTerms())
    if (monomial.empty())
      constant = factor;
    else
      common = std::gcd(common, factor);
  take({}, floorDiv(constant, by));
  if (auto number = rest.getConstant())
    return before + SizePolynomial(sign) * (whole + floorDiv(*number, by));
  constant -= floorDiv(constant, by) * by;
  rest = *(rest - constant).divide(common) + floorDiv(constant, common);
  by /= common;
  if (by != 1) {
    if (quotients.size() >= limit ||
        (!mayPin && floorDiv(evaluate(rest), by) < 2))
      return std::nullopt;
    rest = getQuotient(rest, by);
  }
  return before + SizePolynomial(sign) * (whole + rest);
}

std::optional<SizePolynomial>
SizeLifter::floorDivide(const SizePolynomial &size, int64_t by) {
  return round(size, by, /*mayPin=*/true);
}

SizePolynomial SizeLifter::getQuotient(const SizePolynomial &numerator,
                                       int64_t divisor) {
  unsigned number = 0;
  while (number < quotients.size() &&
         (quotients[number].numerator != numerator ||
          quotients[number].divisor != divisor))
    ++number;
  if (number == quotients.size())
    quotients.push_back({numerator, divisor});
  Source source{Value(), number};
  SizePolynomial size =
      getSymbol(source, floorDiv(evaluate(numerator), divisor));
  divided.insert(symbols.lookup(source));
  return size;
}

/// Symbols are numbered in the order in which they were met.
const SizeLifter::Quotient *SizeLifter::getQuotient(unsigned symbol) const {
  auto [value, number] = (symbols.begin() + symbol)->first;
  return value ? nullptr : &quotients[number];
}

/// What a number was in the recorded run.
std::optional<int64_t> refgraph::recordedValue(Value number) {
  Operation *op = number.getDefiningOp();
  Attribute value;
  if (auto get = dyn_cast<GetOp>(op))
    value = get.getEqualsAttr();
  else if (auto constant = dyn_cast<ConstantOp>(op))
    value = constant.getValue();
  else if (auto arith = dyn_cast<ArithOp>(op))
    value = arith.getValue();
  else if (auto size = dyn_cast<SizeOp>(op))
    return size.getValue();
  else if (auto stride = dyn_cast<StrideOp>(op))
    return stride.getValue();
  auto integer = dyn_cast_or_null<IntegerAttr>(value);
  if (!integer || !integer.getValue().isSignedIntN(64) ||
      integer.getType().isInteger(1))
    return std::nullopt;
  return integer.getInt();
}

SizePolynomial SizeLifter::sizeOf(Value number) {
  auto known = numbers.find(number);
  if (known != numbers.end())
    return known->second;
  SizePolynomial size = getSymbol({number, -1}, *recordedValue(number));
  return numbers[number] = size;
}
