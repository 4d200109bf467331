//===- SizeSources.cpp - What symbols of sizes come from ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "dialects/refgraph/Transforms/SizeLifter.h"

using namespace mlir;
using namespace pyjit;
using namespace pyjit::refgraph;

SizePolynomial SizeLifter::getSymbol(Source source, int64_t value) {
  auto [it, isNew] = symbols.insert({source.key(), 0});
  if (isNew) {
    it->second = solver.addSymbol(value);
    sources[it->second] = source;
  }
  return solver.resolve(SizePolynomial::symbol(it->second));
}

/// Why a symbol keeps its value because of the operation `at`.
std::string SizeLifter::describeReason() const {
  if (!at)
    return "";
  std::string text = why;
  if (text.empty()) {
    auto call = dyn_cast<TensorOp>(at);
    text = ((call ? call.getOverload() : at->getName().getStringRef()) +
            " relies on that value")
               .str();
  }
  std::string line = lineOf(at->getLoc());
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
  for (unsigned symbol = 0; symbol < solver.getNumSymbols(); ++symbol) {
    const std::string *reason = solver.getReason(symbol);
    if (!reason)
      continue;
    Source source = sources.lookup(symbol);
    std::string text;
    llvm::raw_string_ostream os(text);
    switch (source.kind) {
    case Source::Quotient:
      os << "a quotient of sizes";
      break;
    case Source::Size:
    case Source::Stride:
      os << (source.kind == Source::Size ? "size " : "stride ") << source.dim
         << " of " << describeTensor(source.value);
      break;
    case Source::Number:
      os << "a number that is a size";
      if (std::string line = lineOf(source.value.getLoc()); !line.empty())
        os << " (" << line << ")";
      break;
    }
    os << " stays " << solver.getValue(symbol) << ": " << *reason;
    lines.push_back(text);
  }
  return lines;
}

void SizeLifter::specialize(const SymbolicShape &shape) {
  for (const SizePolynomial &size : shape.sizes)
    solver.fix(size);
  for (const SizePolynomial &stride : shape.strides)
    solver.fix(stride);
  solver.fix(shape.offset);
}

void SizeLifter::specializeOperands(TensorOp call) {
  for (Value input : call.getInputs())
    if (isa<refgraph::TensorType>(input.getType())) {
      SymbolicShape shape = shapes[input];
      for (const SizePolynomial &size : shape.sizes)
        requireRecorded(size);
      specialize(shape);
    } else if (auto it = numbers.find(input); it != numbers.end())
      solver.fix(it->second);
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

/// Whether a number is computed from others that are sizes, or can become some:
/// then it needs no symbol of its own, and `x[i:i + 1]` has a size that is
/// known for all `i`.
bool SizeLifter::followsSizes(Value number) {
  auto arith = number.getDefiningOp<ArithOp>();
  if (!arith ||
      !llvm::is_contained({"add", "sub", "mul", "neg"}, arith.getFunction()))
    return false;
  for (Value operand : arith.getOperands()) {
    if (numbers.contains(operand))
      continue;
    constexpr int64_t kLeast = 2; // of a symbol
    auto value = recordedValue(operand);
    if (!value || keepsValue(operand) ||
        (*value < kLeast && !operand.getDefiningOp<ArithOp>()))
      return false;
    sizeOf(operand);
  }
  visit(arith);
  return numbers.contains(number);
}

SizePolynomial SizeLifter::sizeOf(Value number) {
  if (numbers.contains(number) || followsSizes(number))
    return numbers.find(number)->second;
  SizePolynomial size =
      getSymbol({Source::Number, number}, *recordedValue(number));
  return numbers[number] = size;
}
