//===- SizeWriter.cpp - The trace, with symbols in its types --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the types rely on is compared; `size(%n)` becomes an expression.
//
//===----------------------------------------------------------------------===//

#include "dialects/refgraph/Transforms/SizeLifter.h"

#include "pyjit/Operators/CallArguments.h"
#include "pyjit/Operators/OperatorFacts.h"
#include "pyjit/Operators/OperatorNames.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace pyjit;
using namespace pyjit::refgraph;

/// Over symbols that are least sizes; see findShifts.
SizePolynomial SizeLifter::shifted(SizePolynomial size) const {
  SizePolynomial result = size;
  for (auto [symbol, shift] : shifts)
    result = result.substitute(symbol, SizePolynomial::symbol(symbol) + shift);
  return result;
}

SizePolynomial SizeLifter::renumber(SizePolynomial size) const {
  // By way of numbers that are nobody's.
  constexpr unsigned apart = 1 << 20;
  SizePolynomial result = shifted(size);
  size.walkSymbols([&](unsigned symbol) {
    result = result.substitute(
        symbol, SizePolynomial::symbol(apart + finalNumber.lookup(symbol)));
  });
  SizePolynomial moved = result;
  result.walkSymbols([&](unsigned symbol) {
    moved = moved.substitute(symbol, SizePolynomial::symbol(symbol - apart));
  });
  return moved;
}

refgraph::TensorType SizeLifter::typeOf(const SymbolicShape &shape,
                                        refgraph::TensorType recorded) const {
  SizePolynomials sizes, strides;
  for (const SizePolynomial &size : shape.sizes)
    sizes.push_back(renumber(size));
  for (const SizePolynomial &stride : shape.strides)
    strides.push_back(renumber(stride));
  return refgraph::TensorType::get(recorded.getContext(), sizes, strides,
                                   recorded.getElementType(),
                                   recorded.getDevice());
}

Value SizeLifter::constant(int64_t value) {
  return ConstantOp::create(builder, trace.getLoc(),
                            ObjType::get(builder.getContext(), "int"),
                            builder.getI64IntegerAttr(value))
      .getResult();
}

Value SizeLifter::arith(StringRef function, Value a, Value b, int64_t value) {
  return ArithOp::create(builder, trace.getLoc(), a.getType(), function,
                         ValueRange{a, b}, builder.getI64IntegerAttr(value))
      .getResult();
}

/// What a symbol is. One that stands for its value is no number of its own.
Value SizeLifter::numberOf(unsigned symbol) {
  if (Value known = sourceNumber.lookup(symbol))
    return known;
  const analysis::SizeSolver::Quotient *quotient = solver.getQuotient(symbol);
  if (!quotient)
    return constant(solver.getValue(symbol));
  Value numerator = numberOf(quotient->numerator);
  Value number = arith("floordiv", numerator, constant(quotient->divisor),
                       solver.getValue(symbol));
  // Numbers are asked for in the order of the trace.
  return sourceNumber[symbol] = number;
}

/// A size in Python's arithmetic, over the numbers that the symbols are.
Value SizeLifter::numberOf(const SizePolynomial &size) {
  Value sum;
  int64_t total = 0;
  for (auto &[monomial, factor] : size.getTerms()) {
    Value product;
    int64_t value = 1;
    for (unsigned symbol : monomial) {
      Value number = numberOf(symbol);
      value *= solver.getValue(symbol);
      product = product ? arith("mul", product, number, value) : number;
    }
    if (!product)
      product = constant(factor);
    else if (factor != 1)
      product = arith("mul", product, constant(factor), value * factor);
    value *= factor;
    total += value;
    sum = sum ? arith("add", sum, product, total) : product;
  }
  return sum ? sum : constant(0);
}

void SizeLifter::compare(StringRef function, const SizePolynomial &a,
                         const SizePolynomial &b, bool outcome) {
  Value lhs = numberOf(a), rhs = numberOf(b);
  CompareOp::create(builder, trace.getLoc(), function, lhs, rhs, outcome);
}

/// Quotients that types or arguments name are symbols of the specialization; of
/// others it is enough that they are compared.
void SizeLifter::findShown() {
  auto look = [&](const SizePolynomial &size) {
    size.walkSymbols([&](unsigned symbol) { shown.insert(symbol); });
  };
  for (auto &[value, shape] : shapes) {
    llvm::for_each(shape.sizes, look);
    llvm::for_each(shape.strides, look);
    look(shape.offset);
    if (shape.start)
      look(solver.resolve(*shape.start));
  }
  for (auto call : trace.getBody().getOps<TensorOp>())
    for (Value input : call.getInputs())
      if (auto number = numbers.find(input); number != numbers.end())
        look(number->second);
}

/// Types know nothing of a symbol but that it is at least 2. Where a size is
/// less than one (`s0 - 1`, as of `h[:, :-1]`), the symbol becomes the lesser
/// size, and the other is `s0 + 1`: nothing is left to depend on whether it is
/// one.
void SizeLifter::findShifts() {
  for (auto &[value, shape] : shapes)
    for (const SizePolynomial &size : shape.sizes) {
      auto &terms = size.getTerms();
      auto last = terms.rbegin();
      if (terms.size() != 2 || !last->first.empty() || last->second > 0 ||
          terms.begin()->first.size() != 1)
        continue;
      // factor * (symbol + shift) - less is at least 2 from symbol 2 on.
      int64_t factor = terms.begin()->second, less = -last->second;
      if (factor < 1)
        continue;
      int64_t &shift = shifts[terms.begin()->first.front()];
      shift = std::max(shift,
                       llvm::divideCeilSigned(2 + less - 2 * factor, factor));
    }
}

/// Every source as a number: behind the read of its tensor.
void SizeLifter::writeSources() {
  findShown();
  for (unsigned symbol = 0; symbol < solver.getNumSymbols(); ++symbol) {
    auto [kind, value, dim] = sources.lookup(symbol);
    const SizePolynomial *by = solver.getReplacement(symbol);
    if (kind == Source::Quotient) {
      if (!by && shown.contains(symbol))
        finalNumber[symbol] = finalNumber.size();
      continue;
    }
    if (by && by->isConstant() && kind != Source::Number) {
      ++numKept; // it is compared with its tensor
      continue;
    }
    if (!by)
      finalNumber[symbol] = finalNumber.size();
    if (kind == Source::Number) {
      sourceNumber[symbol] = value;
      continue;
    }
    builder.setInsertionPointAfterValue(value);
    auto number = ObjType::get(builder.getContext(), "int");
    int64_t recorded = solver.getValue(symbol);
    sourceNumber[symbol] = kind == Source::Size
                               ? SizeOp::create(builder, value.getLoc(), number,
                                                value, dim, recorded)
                                     .getResult()
                               : StrideOp::create(builder, value.getLoc(),
                                                  number, value, dim, recorded)
                                     .getResult();
  }
  numLifted += finalNumber.size();
}

/// Sizes that Python saw: those of other tensors than inputs are computed.
void SizeLifter::writeNumbers() {
  for (Operation &op : llvm::make_early_inc_range(trace.getBody().front())) {
    if (!isa<SizeOp, StrideOp>(op))
      continue;
    Value number = op.getResult(0);
    auto known = numbers.find(number);
    if (known == numbers.end())
      continue; // one of ours
    SizePolynomial size = known->second;
    bool external = isa<GetOp>(op.getOperand(0).getDefiningOp());
    if (external && !size.isConstant())
      continue;
    builder.setInsertionPoint(&op);
    number.replaceAllUsesWith(numberOf(size));
    op.erase();
  }
  for (LayoutOp op :
       llvm::make_early_inc_range(trace.getBody().getOps<LayoutOp>()))
    op.erase();
}

void SizeLifter::writeTypes() {
  for (Operation &op : trace.getBody().front()) {
    for (Value result : op.getResults()) {
      auto it = shapes.find(result);
      if (it != shapes.end() && it->second.isSymbolic())
        result.setType(
            typeOf(it->second, cast<refgraph::TensorType>(result.getType())));
    }
    if (auto get = dyn_cast<GetOp>(op)) {
      get.removeLiftSizesAttr();
      get.removeLiftStridesAttr();
    } else if (auto call = dyn_cast<TensorOp>(op)) {
      SmallVector<Attribute> offsets;
      bool varies = false;
      for (Value result : call.getResults().take_front(call.getNumFresh())) {
        const SizePolynomial &offset = shapes[result].offset;
        varies |= !offset.isConstant();
        offsets.push_back(operators::makeSizeArgument(
            renumber(offset).toAffine(call.getContext())));
      }
      if (varies)
        call.setSymbolicOffsetsAttr(builder.getArrayAttr(offsets));
    }
  }
}

/// `size(%n)` as what it is.
Attribute SizeLifter::fold(Attribute arg, OperandRange operands, unsigned &next,
                           SmallVectorImpl<Value> &kept) {
  if (auto list = dyn_cast<ArrayAttr>(arg)) {
    SmallVector<Attribute> elements;
    for (Attribute element : list)
      elements.push_back(fold(element, operands, next, kept));
    return ArrayAttr::get(arg.getContext(), elements);
  }
  if (operators::isSizeOperand(arg)) {
    SizePolynomial size = numbers.lookup(operands[next++]);
    if (auto known = size.getConstant())
      return builder.getI64IntegerAttr(*known);
    return operators::makeSizeArgument(
        renumber(size).toAffine(arg.getContext()));
  }
  if (operators::isOperandPlaceholder(arg) || operators::isNumberOperand(arg))
    kept.push_back(operands[next++]);
  return arg;
}

/// Where a part of a dimension begins, counted from the front: from the end it
/// would depend on what the dimension's size is, and nothing else says that a
/// number which differs between calls (`x[-n:]`) counts from there.
void SizeLifter::writeStart(TensorOp call) {
  if (call.getNumFresh() != 1)
    return;
  const auto *info = operators::lookupOperator(call.getOverload());
  auto start = shapes[call.getResult(0)].start;
  int argument = -1;
  if (start && call.getOverload() == operators::aten::select_int)
    argument = info->findArgument("index");
  else if (start && call.getOverload() == operators::aten::slice_Tensor)
    argument = info->findArgument("start");
  if (argument < 0)
    return;
  SizePolynomial at = renumber(solver.resolve(*start));
  SmallVector<Attribute> args(call.getArgs().getValue());
  if (!shapes[call.getInputs()[0]].isSymbolic() &&
      !operators::getSizeArgument(args[argument]))
    return;
  if (auto known = at.getConstant())
    args[argument] = builder.getI64IntegerAttr(*known);
  else
    args[argument] =
        operators::makeSizeArgument(at.toAffine(call.getContext()));
  call.setArgsAttr(builder.getArrayAttr(args));
}

void SizeLifter::writeCalls() {
  for (auto call : trace.getBody().getOps<TensorOp>()) {
    if (llvm::all_of(call.getInputs(), [](Value input) {
          return isa<refgraph::TensorType>(input.getType());
        }))
      continue;
    SmallVector<Value> kept;
    unsigned next = 0;
    auto args =
        cast<ArrayAttr>(fold(call.getArgs(), call.getInputs(), next, kept));
    call.replaceArguments(args, kept);
  }
  for (auto call : trace.getBody().getOps<TensorOp>())
    if (!call.getAliases().empty())
      writeStart(call);
}

bool refgraph::isWholeView(TensorOp call) {
  return operators::lookupFacts(call.getOverload()).wholeView &&
         call.getNumFresh() == 1 && call.getMutates().empty();
}

/// As what they are made of: a view, of a copy where memory does not allow one.
void SizeLifter::writeWholeViews() {
  // Arms have them, too; no size differs between calls there.
  trace.walk([&](TensorOp call) {
    if (!isWholeView(call))
      return;
    auto shown = cast<refgraph::TensorType>(call.getResult(0).getType());
    MLIRContext *context = call.getContext();
    SmallVector<Attribute> sizes;
    for (unsigned i = 0; i < shown.getRank(); ++i) {
      SizePolynomial size = shown.getSize(i);
      if (auto known = size.getConstant())
        sizes.push_back(builder.getI64IntegerAttr(*known));
      else
        sizes.push_back(operators::makeSizeArgument(size.toAffine(context)));
    }
    Attribute operand = operators::getOperandPlaceholder(context);
    Value self = call.getInputs()[0];
    bool expands = call.getOverload() == operators::aten::expand_as;
    bool copies = call.getAliases().empty() && !expands;
    builder.setInsertionPoint(call);
    if (copies) {
      auto type = cast<refgraph::TensorType>(self.getType());
      SizePolynomials whole, strides(type.getRank());
      SizePolynomial span = 1;
      for (unsigned i = type.getRank(); i-- > 0;) {
        strides[i] = span;
        if (type.getShape()[i] != 0)
          span = span * type.getSize(i);
      }
      for (unsigned i = 0; i < type.getRank(); ++i)
        whole.push_back(type.getSize(i));
      auto copy = cast<TensorOp>(builder.clone(*call));
      copy.setOverload(operators::aten::clone);
      copy.getInputsMutable().assign(self);
      copy.setArgsAttr(
          builder.getArrayAttr({operand, builder.getI64IntegerAttr(0)}));
      copy.getResult(0).setType(refgraph::TensorType::get(
          context, whole, strides, type.getElementType(), type.getDevice()));
      self = copy.getResult(0);
    }
    call.setOverload(copies    ? operators::aten::_unsafe_view
                     : expands ? operators::aten::expand
                               : operators::aten::view);
    SmallVector<Attribute> args{operand, builder.getArrayAttr(sizes)};
    if (expands)
      args.push_back(builder.getBoolAttr(false));
    call.getInputsMutable().assign(self);
    call.setArgsAttr(builder.getArrayAttr(args));
  });
}

void SizeLifter::writeConditions() {
  builder.setInsertionPoint(trace.getBody().front().getTerminator());
  for (unsigned symbol = 0; symbol < solver.getNumSymbols(); ++symbol) {
    auto [kind, value, dim] = sources.lookup(symbol);
    const SizePolynomial *by = solver.getReplacement(symbol);
    // Of sizes that are something else by now.
    if (kind == Source::Quotient && !solver.isUsed(symbol) &&
        !shown.contains(symbol))
      continue;
    if (!by) {
      int64_t shift = shifts.lookup(symbol);
      compare("ge", SizePolynomial::symbol(symbol), 2 + shift, true);
      if (finalNumber.contains(symbol))
        SymbolOp::create(builder, trace.getLoc(), finalNumber.lookup(symbol),
                         numberOf(SizePolynomial::symbol(symbol) - shift));
    } else if (!by->isConstant()) {
      compare("eq", SizePolynomial::symbol(symbol), *by, true);
    } else if (kind == Source::Quotient) {
      compare("is", SizePolynomial::symbol(symbol), *by, true);
    } else if (kind == Source::Number && !value.getDefiningOp<ConstantOp>()) {
      compare("is", SizePolynomial::symbol(symbol), *by, true);
    }
  }
  llvm::SmallVector<SizePolynomial> done;
  for (const SizePolynomial &size : solver.getNotNegative()) {
    if (llvm::is_contained(done, size) ||
        shifted(size).getLowerBound().value_or(-1) >= 0)
      continue; // it follows from what symbols are at least
    done.push_back(size);
    compare("ge", size, 0, true);
  }
  for (auto &[a, b] : solver.getDifferent())
    compare("ne", a, b, true);
  for (auto get : trace.getBody().getOps<GetOp>()) {
    auto it = shapes.find(get.getResult());
    if (it == shapes.end() || !it->second.isSymbolic())
      continue;
    // Sizes are the symbols' own; of those that are not one's, and of strides,
    // the values are compared.
    for (unsigned i = 0; i < it->second.rank(); ++i) {
      const SizePolynomial &stride = it->second.strides[i];
      auto itself = symbols.find(Source{Source::Stride, get, i}.key());
      if (stride.isConstant() ||
          (itself != symbols.end() &&
           stride == SizePolynomial::symbol(itself->second)))
        continue;
      Value read = StrideOp::create(builder, get.getLoc(),
                                    ObjType::get(builder.getContext(), "int"),
                                    get.getResult(), i, evaluate(stride))
                       .getResult();
      CompareOp::create(builder, get.getLoc(), "eq", read, numberOf(stride),
                        true);
    }
  }
}

void SizeLifter::write() {
  findShifts();
  writeSources();
  writeCalls();
  writeTypes();
  writeWholeViews();
  writeNumbers();
  writeConditions();
}
