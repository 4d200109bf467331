//===- LiftSizes.cpp - sizes that differ between calls become symbols -----===//
//
// Contract: in, traces whose reads may have `lift_sizes` and whose types are
// those of the recorded run; out, the same traces, in which those sizes are
// symbols, all types follow from them, and what the types rely on is compared.
// In doubt a size keeps its value.
//
// A symbol is first given to every lifted size and to every number that stands
// in a size's place. Going through the trace, rules find that two expressions
// have to be equal, or that a symbol has to keep its value: the symbol is then
// replaced for good, and the trace is gone through again. Why a size keeps its
// value is said in an attribute of the module, for readers.
//
//===----------------------------------------------------------------------===//

#include "dialects/refgraph/Transforms/Passes.h"
#include "dialects/refgraph/Transforms/SizeRules.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "pyjit/Operators/CallArguments.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

#include <numeric>

namespace pyjit::refgraph {
#define GEN_PASS_DEF_LIFTSIZESPASS
#include "dialects/refgraph/Transforms/Passes.h.inc"
} // namespace pyjit::refgraph

using namespace mlir;
using namespace pyjit;
using namespace pyjit::refgraph;

namespace {

bool isWholeView(TensorOp call);

class SizeLifter : public SizeFacts {
public:
  SizeLifter(TraceOp trace, bool pinAll)
      : trace(trace), builder(trace.getContext()), pinEverything(pinAll) {}

  void run();
  /// One line for each size that keeps its value.
  SmallVector<std::string> explainPinned() const;
  unsigned numLifted = 0, numKept = 0;

  int64_t evaluate(const SizePolynomial &size) const override {
    return size.evaluate(values);
  }
  bool requireEqual(const SizePolynomial &a, const SizePolynomial &b) override;
  bool requireNotNegative(const SizePolynomial &size) override;
  bool requireDifferent(const SizePolynomial &a,
                        const SizePolynomial &b) override;
  const SymbolicShape &shapeOf(Value tensor) override { return shapes[tensor]; }
  SizePolynomial sizeOf(Value number) override;

private:
  /// Where a symbol comes from: a dimension of a tensor that was read, or a
  /// number.
  using Source = std::pair<Value, int64_t>;

  void visit(Operation &op);
  void visit(GetOp get);
  void visit(TensorOp call);
  void visit(ArithOp arith);
  void visitLayout(LayoutOp op);

  SizePolynomial getSymbol(Source source, int64_t value);
  SizePolynomial resolve(SizePolynomial size) const;
  void replace(unsigned symbol, SizePolynomial by);
  std::string describeReason(const Twine &what) const;
  void pin(const SizePolynomial &size);
  void pin(const SymbolicShape &shape);
  void pinOperands(TensorOp call);
  SymbolicShape constantShape(refgraph::TensorType type) const;
  bool order(SymbolicShape &shape, refgraph::TensorType recorded, bool dense);
  bool settle(SymbolicShape &shape, refgraph::TensorType recorded);
  bool lookAtStrides(const SymbolicShape &shape);

  // The end.
  void write();
  void writeSources();
  void writeTypes();
  void writeNumbers();
  void writeCalls();
  void writeStart(TensorOp call);
  void writeWholeViews();
  void writeConditions();
  Attribute fold(Attribute arg, OperandRange operands, unsigned &next,
                 SmallVectorImpl<Value> &kept);
  Value numberOf(const SizePolynomial &size);
  Value constant(int64_t value);
  Value arith(StringRef function, Value a, Value b, int64_t value);
  void compare(StringRef function, const SizePolynomial &a,
               const SizePolynomial &b, bool outcome);
  SizePolynomial renumber(SizePolynomial size) const;
  refgraph::TensorType typeOf(const SymbolicShape &shape,
                              refgraph::TensorType recorded) const;

  TraceOp trace;
  OpBuilder builder;
  bool pinEverything;
  std::string whyEverything;

  llvm::MapVector<Source, unsigned> symbols;
  SmallVector<int64_t> values;
  /// What stands for a symbol for good; resolved.
  llvm::MapVector<unsigned, SizePolynomial> replaced;
  bool changed = false;
  /// Of symbols that stand for their recorded value.
  llvm::DenseMap<unsigned, std::string> reasons;

  // Of one way through the trace.
  Operation *at = nullptr; ///< where it is
  std::string why;         ///< more than that two sizes have to be equal
  llvm::DenseMap<Value, SymbolicShape> shapes;
  llvm::DenseMap<Value, SizePolynomial> numbers;
  SmallVector<SizePolynomial> notNegative;
  SmallVector<std::pair<SizePolynomial, SizePolynomial>> different;

  // While writing.
  llvm::DenseMap<unsigned, unsigned> finalNumber;
  llvm::DenseMap<unsigned, Value> sourceNumber;
};

/// The line of the innermost frame.
static std::string lineOf(Location loc) {
  std::string text;
  loc->walk([&](Location part) {
    auto file = dyn_cast<FileLineColLoc>(part);
    if (!file)
      return WalkResult::advance();
    text = (file.getFilename().getValue() + ":" + Twine(file.getLine())).str();
    return WalkResult::interrupt();
  });
  return text;
}

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
    if (value < 2 || pinEverything)
      replaced[it->second] = SizePolynomial(value);
    if (pinEverything && !whyEverything.empty())
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

SmallVector<std::string> SizeLifter::explainPinned() const {
  SmallVector<std::string> lines;
  for (auto &[source, symbol] : symbols) {
    auto [value, dim] = source;
    auto found = reasons.find(symbol);
    if (found == reasons.end())
      continue;
    std::string text;
    llvm::raw_string_ostream os(text);
    if (dim >= 0)
      os << "size " << dim << " of " << describeTensor(value);
    else
      os << "a number that is a size";
    if (dim < 0)
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

void SizeLifter::pin(const SizePolynomial &size) {
  resolve(size).walkSymbols([&](unsigned symbol) {
    replace(symbol, SizePolynomial(values[symbol]));
  });
}

void SizeLifter::pin(const SymbolicShape &shape) {
  for (const SizePolynomial &size : shape.sizes)
    pin(size);
  for (const SizePolynomial &stride : shape.strides)
    pin(stride);
  pin(shape.offset);
}

void SizeLifter::pinOperands(TensorOp call) {
  for (Value input : call.getInputs())
    if (isa<refgraph::TensorType>(input.getType()))
      pin(shapes[input]);
    else if (auto it = numbers.find(input); it != numbers.end())
      pin(it->second);
}

//===----------------------------------------------------------------------===//
// Facts
//===----------------------------------------------------------------------===//

bool SizeLifter::requireEqual(const SizePolynomial &a,
                              const SizePolynomial &b) {
  SizePolynomial rest = resolve(a) - resolve(b);
  if (evaluate(rest) != 0)
    return false;
  if (rest == SizePolynomial(0))
    return true;
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
  if (!found) {
    pin(rest);
    return true;
  }
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

/// What a number was in the recorded run.
std::optional<int64_t> recordedValue(Value number) {
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

//===----------------------------------------------------------------------===//
// Layouts
//===----------------------------------------------------------------------===//

SymbolicShape SizeLifter::constantShape(refgraph::TensorType type) const {
  SymbolicShape shape;
  for (unsigned i = 0; i < type.getRank(); ++i) {
    shape.sizes.push_back(type.getShape()[i]);
    shape.strides.push_back(type.getStrides()[i]);
  }
  return shape;
}

/// Strides from the recorded ones: a stride that was what the dimensions below
/// it span follows from them. `dense`: of a fresh tensor, so they all are.
bool SizeLifter::order(SymbolicShape &shape, refgraph::TensorType recorded,
                       bool dense) {
  unsigned rank = shape.rank();
  auto dims = llvm::to_vector(llvm::seq<unsigned>(0, rank));
  ArrayRef<int64_t> sizes = recorded.getShape(),
                    strides = recorded.getStrides();
  llvm::stable_sort(dims, [&](unsigned a, unsigned b) {
    if (strides[a] != strides[b])
      return strides[a] < strides[b];
    // Of equal strides, the one of a size of one lies within the other.
    if ((sizes[a] == 1) != (sizes[b] == 1))
      return sizes[a] == 1;
    return a > b;
  });
  shape.strides.assign(rank, SizePolynomial(0));
  SizePolynomial span = 1;
  SmallVector<SizePolynomial> spans{span};
  for (unsigned dim : dims) {
    int64_t stride = strides[dim];
    const auto *found = llvm::find_if(llvm::reverse(spans), [&](auto &known) {
                          return evaluate(known) == stride;
                        }).base();
    bool known = found != spans.begin();
    if (sizes[dim] == 1) {
      if (!known && dense && stride != 1)
        return false;
      shape.strides[dim] = known ? *std::prev(found) : SizePolynomial(stride);
      continue;
    }
    bool packed = evaluate(span) == stride;
    if (dense && !packed)
      return false;
    shape.strides[dim] = packed ? span : SizePolynomial(stride);
    if (stride != 0) {
      span = shape.strides[dim] * shape.sizes[dim];
      spans.push_back(span);
    }
  }
  return true;
}

/// Eager's choices depend on which dimensions lie packed within which: that
/// stays as it was.
bool SizeLifter::lookAtStrides(const SymbolicShape &shape) {
  SmallVector<unsigned> dims;
  for (unsigned i = 0; i < shape.rank(); ++i)
    if (shape.sizes[i] != SizePolynomial(1) &&
        shape.strides[i] != SizePolynomial(0))
      dims.push_back(i);
  llvm::stable_sort(dims, [&](unsigned a, unsigned b) {
    return evaluate(shape.strides[a]) < evaluate(shape.strides[b]);
  });
  SizePolynomial span = 1;
  for (auto [i, dim] : llvm::enumerate(dims)) {
    const SizePolynomial &stride = shape.strides[dim];
    if (stride != span &&
        !(evaluate(stride) == evaluate(span) ? requireEqual(stride, span)
                                             : requireDifferent(stride, span)))
      return false;
    if (i > 0 && !requireNotNegative(stride - shape.strides[dims[i - 1]]))
      return false;
    span = stride * shape.sizes[dim];
  }
  return true;
}

/// Makes a shape complete and confirms it by what was recorded.
bool SizeLifter::settle(SymbolicShape &shape, refgraph::TensorType recorded) {
  if (shape.rank() != recorded.getRank())
    return false;
  for (unsigned i = 0; i < shape.rank(); ++i) {
    shape.sizes[i] = resolve(shape.sizes[i]);
    if (evaluate(shape.sizes[i]) != recorded.getShape()[i])
      return false;
  }
  bool fresh = shape.strides.empty();
  if (fresh && !order(shape, recorded, /*dense=*/true))
    return false;
  for (unsigned i = 0; i < shape.rank(); ++i) {
    shape.strides[i] = resolve(shape.strides[i]);
    if (evaluate(shape.strides[i]) != recorded.getStrides()[i])
      return false;
  }
  shape.offset = resolve(shape.offset);
  if (!shape.isSymbolic())
    return true;
  for (const SizePolynomial &size : shape.sizes)
    if (!size.isConstant() && !requireNotNegative(size - 2))
      return false;
  return fresh || lookAtStrides(shape);
}

//===----------------------------------------------------------------------===//
// Through the trace
//===----------------------------------------------------------------------===//

void SizeLifter::visit(GetOp get) {
  Value result = get.getResult();
  auto type = dyn_cast<refgraph::TensorType>(result.getType());
  if (!type)
    return;
  SymbolicShape shape = constantShape(type);
  shape.offset = get.getOffset().value_or(0);
  if (auto dims = get.getLiftSizes()) {
    for (int64_t dim : *dims)
      shape.sizes[dim] = getSymbol({result, dim}, type.getShape()[dim]);
    if (!order(shape, type, /*dense=*/false) || !settle(shape, type)) {
      pin(shape);
      shape = constantShape(type);
      shape.offset = get.getOffset().value_or(0);
    }
  }
  shapes[result] = shape;
}

void SizeLifter::visit(ArithOp arith) {
  SmallVector<SizePolynomial> operands;
  for (Value operand : arith.getOperands()) {
    auto it = numbers.find(operand);
    if (it == numbers.end())
      return;
    operands.push_back(it->second);
  }
  StringRef function = arith.getFunction();
  auto set = [&](const SizePolynomial &size) {
    auto value = recordedValue(arith.getResult());
    if (value && evaluate(size) == *value)
      numbers[arith.getResult()] = size;
  };
  if (function == "neg")
    return set(SizePolynomial(0) - operands[0]);
  if (function == "int" || function == "abs") {
    if (operands[0].getLowerBound().value_or(-1) >= 0)
      set(operands[0]);
    return;
  }
  if (operands.size() != 2)
    return;
  if (function == "add")
    return set(operands[0] + operands[1]);
  if (function == "sub")
    return set(operands[0] - operands[1]);
  if (function == "mul")
    return set(operands[0] * operands[1]);
  // Without a remainder it does not matter which way it is rounded.
  if (function != "floordiv" && function != "mod")
    return;
  auto quotient = operands[0].divide(operands[1]);
  if (quotient && operands[1].getLowerBound().value_or(0) > 0)
    set(function == "mod" ? SizePolynomial(0) : *quotient);
}

void SizeLifter::visitLayout(LayoutOp op) {
  const SymbolicShape &shape = shapes[op.getTensor()];
  if (!shape.isSymbolic())
    return;
  SizePolynomial span = 1;
  bool rowMajor = true;
  for (unsigned i = shape.rank(); i-- > 0;) {
    if (shape.sizes[i] != SizePolynomial(1))
      rowMajor &= shape.strides[i] == span;
    span = span * shape.sizes[i];
  }
  StringRef question = op.getQuestion();
  if (question == "contiguous" && rowMajor)
    return;
  why = question == "contiguous" ? "Python asked for its layout"
        : question == "all"
            ? "Python asked for more of it than sizes"
            : (question + " may compute other sizes from it").str();
  pin(SymbolicShape(shape));
}

void SizeLifter::visit(TensorOp call) {
  bool symbolic = false;
  for (Value input : call.getInputs()) {
    if (isa<refgraph::TensorType>(input.getType()))
      symbolic |=
          shapes[input].isSymbolic() || !shapes[input].offset.isConstant();
  }
  operators::walkCallArguments(
      call.getArgs(), [&](unsigned, Attribute arg, unsigned first) {
        auto look = [&](Attribute part) {
          if (operators::isSizeOperand(part))
            symbolic |= !sizeOf(call.getInputs()[first]).isConstant();
          first +=
              operators::countOperands(ArrayAttr::get(call.getContext(), part));
        };
        if (auto list = dyn_cast<ArrayAttr>(arg))
          llvm::for_each(list, look);
        else
          look(arg);
      });
  unsigned fresh = call.getNumFresh();
  SymbolicShapes results;
  bool known = false;
  if (symbolic && !changed) {
    std::optional<SymbolicShapes> inferred = inferShapes(SizeCall(call, *this));
    known = inferred && inferred->size() == fresh;
    for (unsigned i = 0; known && i < fresh; ++i)
      known = settle((*inferred)[i],
                     cast<refgraph::TensorType>(call.getResult(i).getType())) &&
              evaluate((*inferred)[i].offset) == call.getOffset(i);
    for (unsigned i = 0; known && i < call.getMutates().size(); ++i)
      known = call.getVersion(i).getType() ==
              call.getInputs()[call.getMutates()[i]].getType();
    if (known) {
      results = std::move(*inferred);
    } else {
      why = (call.getOverload() + (inferred ? " gave other sizes than its rule "
                                              "says"
                                            : " has no rule for its sizes"))
                .str();
      pinOperands(call);
    }
  }
  for (unsigned i = 0; i < fresh; ++i) {
    Value result = call.getResult(i);
    SymbolicShape shape =
        known ? results[i]
              : constantShape(cast<refgraph::TensorType>(result.getType()));
    if (!known)
      shape.offset = call.getOffset(i);
    shapes[result] = shape;
  }
  for (auto [i, operand] : llvm::enumerate(call.getMutates())) {
    Value version = call.getVersion(i);
    SymbolicShape shape = shapes[call.getInputs()[operand]];
    if (version.getType() != call.getInputs()[operand].getType())
      shape = constantShape(cast<refgraph::TensorType>(version.getType()));
    shapes[version] = shape;
  }
}

void SizeLifter::visit(Operation &op) {
  at = &op;
  why.clear();
  if (auto get = dyn_cast<GetOp>(op))
    return visit(get);
  if (auto call = dyn_cast<TensorOp>(op))
    return visit(call);
  if (auto arith = dyn_cast<ArithOp>(op))
    return visit(arith);
  if (auto layout = dyn_cast<LayoutOp>(op))
    return visitLayout(layout);
  if (auto object = dyn_cast<ObjectOp>(op)) {
    if (auto type =
            dyn_cast<refgraph::TensorType>(object.getResult().getType()))
      shapes[object.getResult()] = constantShape(type);
  } else if (auto constant = dyn_cast<ConstantOp>(op)) {
    if (auto value = recordedValue(constant.getResult()))
      numbers[constant.getResult()] = *value;
  } else if (auto size = dyn_cast<SizeOp>(op)) {
    numbers[size.getResult()] = shapes[size.getTensor()].sizes[size.getDim()];
  } else if (auto stride = dyn_cast<StrideOp>(op)) {
    numbers[stride.getResult()] =
        shapes[stride.getTensor()].strides[stride.getDim()];
  } else if (auto offset = dyn_cast<OffsetOp>(op)) {
    why = "Python asked for its storage offset";
    pin(SizePolynomial(shapes[offset.getTensor()].offset));
  } else if (auto same = dyn_cast<SameOp>(op)) {
    if (!isa<refgraph::TensorType>(same.getLhs().getType()) ||
        !isa<refgraph::TensorType>(same.getRhs().getType()))
      return;
    SymbolicShape lhs = shapes[same.getLhs()], rhs = shapes[same.getRhs()];
    if (lhs.rank() != rhs.rank())
      return;
    for (unsigned i = 0; i < lhs.rank(); ++i)
      if (!requireEqual(lhs.sizes[i], rhs.sizes[i]) ||
          !requireEqual(lhs.strides[i], rhs.strides[i])) {
        pin(lhs);
        pin(rhs);
      }
  } else if (auto compare = dyn_cast<CompareOp>(op)) {
    // Used in a way that was not recorded.
    if (compare.getFunction() != "is" || !compare.getOutcome())
      return;
    auto lhs = numbers.find(compare.getLhs()),
         rhs = numbers.find(compare.getRhs());
    if (lhs == numbers.end() || rhs == numbers.end() ||
        lhs->second.isConstant() == rhs->second.isConstant())
      return;
    auto said = compare->getAttrOfType<StringAttr>("why");
    why = said ? said.str() : "it was used in a way that is not followed";
    pin(lhs->second - rhs->second);
  }
}

void SizeLifter::run() {
  bool any = false;
  for (Operation &op : trace.getBody().front()) {
    auto get = dyn_cast<GetOp>(op);
    auto call = dyn_cast<TensorOp>(op);
    any |= (get && get.getLiftSizes()) || isa<SizeOp, StrideOp, LayoutOp>(op) ||
           (call && (isWholeView(call) ||
                     llvm::any_of(call.getInputs(), [](Value input) {
                       return !isa<refgraph::TensorType>(input.getType());
                     })));
  }
  if (!any)
    return;
  // What a loop on data carries keeps its sizes.
  if (!pinEverything && !trace.getBody().getOps<DecideOp>().empty())
    whyEverything = "the record has a loop that data end";
  if (!pinEverything && !trace.getBody().getOps<IfOp>().empty())
    whyEverything = "the record has a branch on data";
  pinEverything |= !whyEverything.empty();
  do {
    changed = false;
    shapes.clear();
    numbers.clear();
    notNegative.clear();
    different.clear();
    for (Operation &op : trace.getBody().front()) {
      visit(op);
      if (changed)
        break;
    }
  } while (changed);
  write();
}

//===----------------------------------------------------------------------===//
// The end
//===----------------------------------------------------------------------===//

SizePolynomial SizeLifter::renumber(SizePolynomial size) const {
  // By way of numbers that are nobody's.
  constexpr unsigned apart = 1 << 20;
  SizePolynomial result = size;
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

/// A size in Python's arithmetic, over the numbers that the symbols are.
Value SizeLifter::numberOf(const SizePolynomial &size) {
  Value sum;
  int64_t total = 0;
  for (auto &[monomial, factor] : llvm::reverse(size.getTerms())) {
    Value product;
    int64_t value = 1;
    for (unsigned symbol : monomial) {
      Value number = sourceNumber.lookup(symbol);
      value *= values[symbol];
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

/// Every source as a number: behind the read of its tensor.
void SizeLifter::writeSources() {
  for (auto &[source, symbol] : symbols) {
    auto [value, dim] = source;
    auto by = replaced.find(symbol);
    if (by != replaced.end() && by->second.isConstant() && dim >= 0) {
      ++numKept; // a size's constant is compared with its tensor
      continue;
    }
    if (by == replaced.end())
      finalNumber[symbol] = finalNumber.size();
    if (dim < 0) {
      sourceNumber[symbol] = value;
      continue;
    }
    builder.setInsertionPointAfterValue(value);
    sourceNumber[symbol] =
        SizeOp::create(builder, value.getLoc(),
                       ObjType::get(builder.getContext(), "int"), value, dim,
                       values[symbol])
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
    } else if (auto call = dyn_cast<TensorOp>(op)) {
      for (Value result : call.getResults().take_front(call.getNumFresh()))
        if (!shapes[result].offset.isConstant())
          call.setSymbolicOffsets(true);
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
/// would depend on what the dimension's size is.
void SizeLifter::writeStart(TensorOp call) {
  if (call.getNumFresh() != 1 || !shapes[call.getInputs()[0]].isSymbolic())
    return;
  const auto *info = operators::lookupOperator(call.getOverload());
  auto start = shapes[call.getResult(0)].start;
  int argument = -1;
  if (start && call.getOverload() == "aten::select.int")
    argument = info->findArgument("index");
  else if (start && call.getOverload() == "aten::slice.Tensor")
    argument = info->findArgument("start");
  if (argument < 0)
    return;
  SizePolynomial at = renumber(resolve(*start));
  SmallVector<Attribute> args(call.getArgs().getValue());
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
    // Sizes stand behind the tensors that `aliases` and `mutates` name, or
    // among none at all.
    auto renumbered = [&](ArrayRef<int64_t> positions) {
      SmallVector<int64_t> moved;
      for (int64_t position : positions)
        moved.push_back(llvm::find(kept, call.getInputs()[position]) -
                        kept.begin());
      return moved;
    };
    call.setAliases(renumbered(call.getAliases()));
    call.setMutates(renumbered(call.getMutates()));
    call.setArgsAttr(args);
    call.getInputsMutable().assign(kept);
  }
  for (auto call : trace.getBody().getOps<TensorOp>())
    if (!call.getAliases().empty())
      writeStart(call);
}

/// Operators that the recorder keeps whole for their sizes' sake.
bool isWholeView(TensorOp call) {
  StringRef name = call.getOverload();
  return (name == "aten::reshape" || name == "aten::flatten.using_ints" ||
          name == "aten::unflatten.int" || name == "aten::view_as" ||
          name == "aten::expand_as") &&
         call.getNumFresh() == 1 && call.getMutates().empty();
}

/// As what they are made of: a view, of a copy where memory does not allow one.
void SizeLifter::writeWholeViews() {
  for (auto call :
       llvm::make_early_inc_range(trace.getBody().getOps<TensorOp>())) {
    if (!isWholeView(call))
      continue;
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
    bool expands = call.getOverload() == "aten::expand_as";
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
      copy.setOverload("aten::clone");
      copy.getInputsMutable().assign(self);
      copy.setArgsAttr(
          builder.getArrayAttr({operand, builder.getI64IntegerAttr(0)}));
      copy.getResult(0).setType(refgraph::TensorType::get(
          context, whole, strides, type.getElementType(), type.getDevice()));
      self = copy.getResult(0);
    }
    call.setOverload(copies    ? "aten::_unsafe_view"
                     : expands ? "aten::expand"
                               : "aten::view");
    SmallVector<Attribute> args{operand, builder.getArrayAttr(sizes)};
    if (expands)
      args.push_back(builder.getBoolAttr(false));
    call.getInputsMutable().assign(self);
    call.setArgsAttr(builder.getArrayAttr(args));
  }
}

void SizeLifter::writeConditions() {
  builder.setInsertionPoint(trace.getBody().front().getTerminator());
  for (auto &[source, symbol] : symbols) {
    auto [value, dim] = source;
    auto by = replaced.find(symbol);
    if (by == replaced.end()) {
      compare("ge", SizePolynomial::symbol(symbol), 2, true);
      SymbolOp::create(builder, trace.getLoc(), finalNumber.lookup(symbol),
                       sourceNumber.lookup(symbol));
    } else if (!by->second.isConstant()) {
      compare("eq", SizePolynomial::symbol(symbol), by->second, true);
    } else if (dim < 0 && !value.getDefiningOp<ConstantOp>()) {
      compare("is", SizePolynomial::symbol(symbol), by->second, true);
    }
  }
  llvm::SmallVector<SizePolynomial> done;
  for (const SizePolynomial &size : notNegative) {
    if (llvm::is_contained(done, size) ||
        size.getLowerBound().value_or(-1) >= 0)
      continue;
    done.push_back(size);
    compare("ge", size, 0, true);
  }
  for (auto &[a, b] : different)
    compare("ne", a, b, true);
  for (auto get : trace.getBody().getOps<GetOp>()) {
    auto it = shapes.find(get.getResult());
    if (it == shapes.end() || !it->second.isSymbolic())
      continue;
    // Sizes are the symbols' own; of those that are not one's, and of strides,
    // the values are compared.
    for (unsigned i = 0; i < it->second.rank(); ++i) {
      const SizePolynomial &stride = it->second.strides[i];
      if (stride.isConstant())
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
  writeSources();
  writeCalls();
  writeTypes();
  writeWholeViews();
  writeNumbers();
  writeConditions();
}

struct LiftSizesPass
    : public pyjit::refgraph::impl::LiftSizesPassBase<LiftSizesPass> {
  using LiftSizesPassBase::LiftSizesPassBase;

  void runOnOperation() override {
    SmallVector<std::string> pinned;
    for (TraceOp trace : getOperation().getOps<TraceOp>()) {
      SizeLifter lifter(trace, pin);
      lifter.run();
      numSymbols += lifter.numLifted;
      numKept += lifter.numKept;
      pinned.append(lifter.explainPinned());
    }
    if (pinned.empty())
      return;
    auto lines = llvm::map_to_vector(
        pinned, [](const std::string &line) { return StringRef(line); });
    getOperation()->setAttr(kPinnedSizes,
                            Builder(&getContext()).getStrArrayAttr(lines));
  }
};

} // namespace
