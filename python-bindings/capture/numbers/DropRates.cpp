//===- DropRates.cpp - Probabilities that composites hand on --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "numbers/DropRates.h"

#include "Recording.h"
#include "numbers/LiftedArguments.h"

#include <ATen/core/Tensor.h>

using namespace pyjit;
using namespace pyjit::capture;

namespace {

/// A number of C++'s, and the value that the trace computes it by.
struct Real {
  double number;
  PyjitValue value;
};

/// Arithmetic of doubles, as C++ has it.
class RateMath {
public:
  explicit RateMath(Recording &recording) : s(recording) {}

  Real constant(double number) {
    PyObject *object = makeNumber(s, rt::Number::of(number));
    return {number, s.objects.addConstant(object)};
  }
  Real compute(rt::Arith function, Real a, Real b) {
    return write(function, {a.value, b.value}, a, b);
  }
  Real sqrt(Real a) { return write(rt::Arith::Sqrt, {a.value}, a, a); }
  void compare(rt::Compare function, Real a, double limit) {
    s.add(
        PyjitCompareOp{.function = view(rt::kCompareNames[unsigned(function)]),
                       .lhs = a.value,
                       .rhs = constant(limit).value,
                       .outcome = true});
  }

private:
  Real write(rt::Arith function, const std::vector<PyjitValue> &operands,
             Real a, Real b) {
    rt::Number result;
    rt::compute(function, rt::Number::of(a.number), rt::Number::of(b.number),
                result);
    PyjitValue value = s.add(
        PyjitArithOp{.function = view(rt::kArithNames[unsigned(function)]),
                     .operands = view(operands),
                     .value = s.writer.real(result.real),
                     .resultType = s.writer.object("float")});
    return {result.real, value};
  }

  Recording &s;
};

} // namespace

/// As ATen's Dropout.cpp computes what it multiplies and adds.
static std::vector<Real> numbersOf(RateMath &math, Real p, bool alphaDropout) {
  using rt::Arith;
  Real keep = math.compute(Arith::Sub, math.constant(1), p);
  if (!alphaDropout)
    return {keep};
  constexpr double kAlpha = 1.7580993408473766;
  Real one = math.constant(1), alpha = math.constant(kAlpha);
  Real spread = math.compute(
      Arith::Add, math.compute(Arith::Mul, math.constant(kAlpha * kAlpha), p),
      one);
  Real a = math.compute(Arith::TrueDiv, one,
                        math.sqrt(math.compute(Arith::Mul, spread, keep)));
  Real scaled = math.compute(Arith::Mul, alpha, a);
  return {keep, a, scaled, math.compute(Arith::Mul, scaled, p)};
}

bool pyjit::capture::followRate(Recording &recording,
                                const PyjitOperatorFacts &facts,
                                const c10::FunctionSchema &schema,
                                const std::vector<c10::IValue> &inputs) {
  OperatorUse *use = recording.scalars.use();
  if (!use || use->composite)
    return false;
  if (!facts.handsOnRate)
    return use->rate; // on the way to a dropout
  auto place = schema.argumentIndexWithName(facts.drawsByProbability);
  if (!place || !inputs[*place].isDouble() || !inputs[0].isTensor() ||
      !inputs[0].toTensor().is_cpu())
    return false;
  double rate = inputs[*place].toDouble();
  // Of nothing, and of all, ATen draws no numbers.
  if (!(rate > 0 && rate < 1))
    return false;
  if (!use->rate) {
    if (use->name != functionOf(schema.name()))
      return false;
    use->rate =
        use->findGiven(recording.scalars, schema, *place, rt::Number::of(rate));
  }
  if (!use->rate || recording.scalars.numberOf(use->rate->number)->bits() !=
                        rt::Number::of(rate).bits())
    return false;
  if (!facts.dropout)
    return true;
  use->rate->used = true;
  if (!use->ofRate.empty())
    return true;
  RateMath math(recording);
  Real p{rate, recording.scalars.valueOf(use->rate->number)};
  math.compare(rt::Compare::Gt, p, 0);
  math.compare(rt::Compare::Lt, p, 1);
  bool isAlpha = functionOf(schema.name()).find("alpha") != std::string::npos;
  for (Real made : numbersOf(math, p, isAlpha))
    use->ofRate.emplace_back(made.number, made.value);
  return true;
}

/// The numbers that `numbersOf` computes, by the operators that take them.
static std::vector<size_t> placesIn(const std::string &overload) {
  if (overload == operators::aten::bernoulli__float ||
      overload == operators::aten::div__Scalar)
    return {0};
  if (overload == operators::aten::mul__Scalar)
    return {1, 2};
  if (overload == operators::aten::add__Scalar)
    return {3};
  return {};
}

int pyjit::capture::findOfRate(Recording &recording,
                               const std::string &overload,
                               const std::vector<c10::IValue> &inputs,
                               size_t i) {
  OperatorUse *use = recording.scalars.use();
  if (!use || use->ofRate.empty() || i != 1 || !inputs[1].isDouble())
    return -1;
  for (size_t place : placesIn(overload))
    if (place < use->ofRate.size() &&
        use->ofRate[place].first == inputs[1].toDouble())
      return use->ofRate[place].second;
  // A part that is not known to take what is computed of the probability.
  use->composite = true;
  return -1;
}
