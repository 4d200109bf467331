//===- Recipe.cpp - how one call computes its result ----------------------===//
//
// Walks a table expression (prefix order) for one call. What the expression
// asks about constant arguments is decided here; types, broadcasting and
// conversions become explicit; every reduction becomes a step.
//
//===----------------------------------------------------------------------===//

#include "pyjit/Operators/Recipe.h"
#include "mlir/IR/Builders.h"
#include "pyjit/Operators/CallArguments.h"
#include "pyjit/Operators/ElementTypes.h"
#include "llvm/Support/raw_ostream.h"
#include <vector>

using namespace mlir;

namespace pyjit::operators {

SmallVector<int64_t> Step::getResultShape() const {
  SmallVector<int64_t> result;
  for (auto [dim, size] : llvm::enumerate(shape))
    if (!llvm::is_contained(reducedDims, dim))
      result.push_back(size);
  return result;
}

namespace {

/// Something to read: an operand or an earlier step's result, seen with a
/// shape that broadcasts as PyTorch's do. `dims[i]` is the dimension of that
/// shape along which the tensor's own dimension i lies.
struct Source {
  bool isStep;
  unsigned number;
  SmallVector<int64_t> shape;
  SmallVector<unsigned> dims;
  bool operator==(const Source &other) const {
    return isStep == other.isStep && number == other.number &&
           shape == other.shape && dims == other.dims;
  }
};

/// A partial expression. Input nodes are numbered by source; Index nodes count
/// dimensions from the last one, from 1.
struct Value {
  ScalarExpr nodes;
  SmallVector<int64_t> shape;
  Type type() const { return nodes.front().type; }
};

class Resolver {
public:
  Resolver(const OperatorInfo &info, ArrayAttr args, TypeRange operands,
           RankedTensorType result, Type defaultFloat)
      : info(info), args(args), operands(operands), result(result),
        builder(args.getContext()), defaultFloat(defaultFloat) {
    walkCallArguments(args, [&](unsigned, Attribute, unsigned first) {
      firstOperand.push_back(first);
    });
  }

  FailureOr<Recipe> run();

private:
  using MaybeValue = FailureOr<Value>;

  // The expression
  MaybeValue eval(Type expected);
  MaybeValue evalArgument(unsigned index, Type type);
  MaybeValue evalScalar(ScalarOp op, Type expected);
  MaybeValue evalReduction(const TableNode &node, Type expected);
  MaybeValue choose(bool first, Type expected);
  void skip();
  const TableNode &peek() const { return info.expression[cursor]; }

  // Values
  MaybeValue constant(Attribute number, Type type);
  Value read(Source source, Type elementType);
  Value convert(Value value, Type type);
  MaybeValue combine(ScalarOp op, Type type, ArrayRef<Value> children);
  std::optional<SmallVector<int64_t>> broadcast(ArrayRef<int64_t> a,
                                                ArrayRef<int64_t> b);

  // Steps
  LogicalResult addStep(const Value &value, ArrayRef<int64_t> shape,
                        ArrayRef<int64_t> positions);
  Value materialize(const Value &value);
  LogicalResult finish(Value value);
  FailureOr<SmallVector<unsigned>> reducedDims(const TableNode &node,
                                               unsigned rank);

  const OperatorInfo &info;
  ArrayAttr args;
  TypeRange operands;
  RankedTensorType result;
  Builder builder;
  Type defaultFloat;
  SmallVector<unsigned> firstOperand;
  size_t cursor = 0;
  Type compute; ///< f32 and up
  SmallVector<Source> sources;
  std::vector<Value> locals;
  Recipe recipe;
};

/// Dimensions 0, 1, … of a shape.
SmallVector<int64_t> iota(size_t count) {
  return llvm::to_vector(llvm::seq<int64_t>(count));
}

bool isComplex(Type type) { return isa<ComplexType>(type); }

} // namespace

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

/// A number in a type, converted as ATen converts a Scalar.
Resolver::MaybeValue Resolver::constant(Attribute number, Type type) {
  TypedAttr value;
  double real = 0;
  int64_t integer = 0;
  if (auto attr = dyn_cast<FloatAttr>(number)) {
    real = attr.getValueAsDouble();
    if (isa<IntegerType>(type) && !type.isInteger(1)) {
      if (!(real >= -9.0e18 && real <= 9.0e18))
        return failure();
      integer = static_cast<int64_t>(real);
    } else {
      integer = real != 0;
    }
  } else if (auto attr = dyn_cast<IntegerAttr>(number)) {
    integer = attr.getType().isInteger(1) ? attr.getValue().getBoolValue()
                                          : attr.getInt();
    real = static_cast<double>(integer);
  } else {
    return failure();
  }
  if (isa<FloatType>(type)) {
    value = FloatAttr::get(type, real);
  } else {
    unsigned width = type.getIntOrFloatBitWidth();
    APInt bits(width, type.isInteger(1) ? integer != 0 : integer,
               /*isSigned=*/true, /*implicitTrunc=*/true);
    value = IntegerAttr::get(type, bits);
  }
  Value result;
  result.nodes.push_back({ScalarOp::Const, type, 0, 0, value});
  return result;
}

Value Resolver::read(Source source, Type elementType) {
  auto *known = llvm::find(sources, source);
  unsigned number = known - sources.begin();
  Value value;
  value.shape = source.shape;
  value.nodes.push_back({ScalarOp::Input, elementType, number, 0, {}});
  if (known == sources.end())
    sources.push_back(std::move(source));
  return value;
}

Value Resolver::convert(Value value, Type type) {
  if (value.type() == type)
    return value;
  if (value.nodes.front().op == ScalarOp::Const && value.nodes.size() == 1) {
    MaybeValue number = constant(value.nodes.front().constant, type);
    if (succeeded(number))
      return *number;
  }
  value.nodes.insert(value.nodes.begin(), {ScalarOp::Cast, type, 0, 0, {}});
  return value;
}

std::optional<SmallVector<int64_t>> Resolver::broadcast(ArrayRef<int64_t> a,
                                                        ArrayRef<int64_t> b) {
  if (a.size() < b.size())
    std::swap(a, b);
  SmallVector<int64_t> shape(a);
  size_t lead = a.size() - b.size();
  for (auto [i, size] : llvm::enumerate(b)) {
    int64_t &mine = shape[lead + i];
    if (mine == 1)
      mine = size;
    else if (size != 1 && size != mine)
      return std::nullopt;
  }
  return shape;
}

Resolver::MaybeValue Resolver::combine(ScalarOp op, Type type,
                                       ArrayRef<Value> children) {
  // x * 1: `alpha` and its like.
  if (op == ScalarOp::Mul && children[1].nodes.front().op == ScalarOp::Const) {
    TypedAttr number = children[1].nodes.front().constant;
    auto real = dyn_cast<FloatAttr>(number);
    auto integer = dyn_cast<IntegerAttr>(number);
    if ((real && real.getValueAsDouble() == 1.0) ||
        (integer && integer.getValue().isOne()))
      return children[0];
  }
  Value value;
  value.nodes.push_back({op, type, 0, 0, {}});
  for (const Value &child : children) {
    llvm::append_range(value.nodes, child.nodes);
    auto shape = broadcast(value.shape, child.shape);
    if (!shape)
      return failure();
    value.shape = *shape;
  }
  return value;
}

//===----------------------------------------------------------------------===//
// The expression
//===----------------------------------------------------------------------===//

/// An argument in `type`; in its own type where that is null.
Resolver::MaybeValue Resolver::evalArgument(unsigned index, Type type) {
  Attribute arg = args[index];
  if (TypedAttr number = getWrappedNumber(arg))
    arg = number;
  if (isNumberOperand(arg)) {
    unsigned operand = firstOperand[index];
    Type own = cast<RankedTensorType>(operands[operand]).getElementType();
    // Out of range, ATen's conversion is not the machine's.
    if (isa<FloatType>(own) && type && !isa<FloatType>(type))
      return failure();
    Value value = read({false, operand, {}, {}}, own);
    return convert(value, type ? type : own);
  }
  if (!isOperandPlaceholder(arg)) {
    auto number = dyn_cast<TypedAttr>(arg);
    if (!number || isNoneArgument(arg))
      return failure();
    return constant(number, type ? type : number.getType());
  }
  unsigned operand = firstOperand[index];
  auto tensor = cast<RankedTensorType>(operands[operand]);
  Source source{false, operand, llvm::to_vector(tensor.getShape()), {}};
  for (int64_t dim : iota(tensor.getRank()))
    source.dims.push_back(dim);
  Value value = read(std::move(source), tensor.getElementType());
  return convert(value, type ? type : getComputeType(tensor.getElementType()));
}

static unsigned getTableChildren(const TableNode &node) {
  switch (node.op) {
  case TableOp::Scalar:
    return getNumChildren(node.scalar);
  case TableOp::Argument:
  case TableOp::Raw:
  case TableOp::Channel:
  case TableOp::Number:
  case TableOp::IterIndex:
  case TableOp::Local:
  case TableOp::Unsupported:
    return 0;
  case TableOp::IfNone:
  case TableOp::IfTrue:
  case TableOp::IfString:
  case TableOp::IfNumber:
  case TableOp::IfDivisor:
  case TableOp::IfFloat:
  case TableOp::Let:
    return 2;
  default:
    return 1;
  }
}

void Resolver::skip() {
  unsigned children = getTableChildren(info.expression[cursor++]);
  for (unsigned i = 0; i < children; ++i)
    skip();
}

Resolver::MaybeValue Resolver::choose(bool first, Type expected) {
  if (!first)
    skip();
  MaybeValue value = eval(expected);
  if (first)
    skip();
  return value;
}

/// A constant argument as a number, if it is one.
static std::optional<double> getNumber(Attribute arg) {
  if (TypedAttr wrapped = getWrappedNumber(arg))
    arg = wrapped;
  if (auto value = dyn_cast<FloatAttr>(arg))
    return value.getValueAsDouble();
  if (auto value = dyn_cast<IntegerAttr>(arg))
    return value.getType().isInteger(1)
               ? static_cast<double>(value.getValue().getBoolValue())
               : static_cast<double>(value.getInt());
  return std::nullopt;
}

Resolver::MaybeValue Resolver::eval(Type expected) {
  const TableNode &node = info.expression[cursor++];
  switch (node.op) {
  case TableOp::Scalar:
    return evalScalar(node.scalar, expected);
  case TableOp::Argument:
    return evalArgument(node.index, compute);
  case TableOp::Raw:
    return evalArgument(node.index, {});
  case TableOp::Channel: {
    if (!isOperandPlaceholder(args[node.index]))
      return failure();
    unsigned operand = firstOperand[node.index];
    auto tensor = cast<RankedTensorType>(operands[operand]);
    auto self = cast<RankedTensorType>(operands[0]);
    if (tensor.getRank() != 1 || self.getRank() < 2)
      return failure();
    Source source{false, operand, {}, {0}};
    source.shape.assign(self.getRank() - 1, 1);
    source.shape[0] = tensor.getDimSize(0);
    return convert(read(std::move(source), tensor.getElementType()), compute);
  }
  case TableOp::Number:
    return constant(builder.getF64FloatAttr(node.number), expected);
  case TableOp::IterIndex: {
    unsigned rank = result.getRank();
    if (node.index > rank)
      return failure();
    Value value;
    value.shape.assign(result.getShape().begin(), result.getShape().end());
    value.nodes.push_back(
        {ScalarOp::Index, builder.getI64Type(), node.index, 0, {}});
    return value;
  }
  case TableOp::Value:
    return eval(expected);
  case TableOp::Bool: {
    MaybeValue child = eval(compute);
    if (failed(child))
      return failure();
    return convert(*child, builder.getI1Type());
  }
  case TableOp::Step: {
    MaybeValue child = eval(expected);
    if (failed(child))
      return failure();
    return materialize(*child);
  }
  case TableOp::IfNone:
    return choose(isNoneArgument(args[node.index]), expected);
  case TableOp::IfTrue: {
    std::optional<double> number = getNumber(args[node.index]);
    if (!number)
      return failure();
    return choose(*number != 0, expected);
  }
  case TableOp::IfString: {
    auto text = dyn_cast<StringAttr>(args[node.index]);
    if (!text)
      return failure();
    return choose(text.getValue() == node.text, expected);
  }
  case TableOp::IfNumber: {
    std::optional<double> number = getNumber(args[node.index]);
    return choose(number && *number == node.number, expected);
  }
  case TableOp::IfDivisor: {
    std::optional<double> number = getNumber(args[node.index]);
    return choose(number && *number != 0, expected);
  }
  case TableOp::IfFloat:
    return choose(isa<FloatType>(compute), expected);
  case TableOp::Let: {
    MaybeValue value = eval(expected);
    if (failed(value))
      return failure();
    if (locals.size() <= node.index)
      locals.resize(node.index + 1);
    locals[node.index] = *value;
    return eval(expected);
  }
  case TableOp::Local:
    return locals[node.index];
  case TableOp::Unsupported:
    return failure();
  default:
    return evalReduction(node, expected);
  }
}

static bool isLiteral(const TableNode &node) {
  return node.op == TableOp::Number;
}

/// Whether a node has a meaning on i1 (torch.bool).
static bool worksOnBool(ScalarOp op) {
  switch (op) {
  case ScalarOp::Add:
  case ScalarOp::Mul:
  case ScalarOp::Maximum:
  case ScalarOp::Minimum:
  case ScalarOp::BitAnd:
  case ScalarOp::BitOr:
  case ScalarOp::BitXor:
  case ScalarOp::BitNot:
  case ScalarOp::Eq:
  case ScalarOp::Ne:
  case ScalarOp::Lt:
  case ScalarOp::Le:
  case ScalarOp::Gt:
  case ScalarOp::Ge:
  case ScalarOp::Select:
    return true;
  default:
    return false;
  }
}

static bool needsFloat(ScalarOp op) {
  return op == ScalarOp::Div || op == ScalarOp::Atan2 ||
         op == ScalarOp::Hypot || op == ScalarOp::Copysign ||
         op == ScalarOp::IsNan || op == ScalarOp::IsInf ||
         (op >= ScalarOp::Floor && op <= ScalarOp::Sigmoid);
}

Resolver::MaybeValue Resolver::evalScalar(ScalarOp op, Type expected) {
  bool isPredicate = op >= ScalarOp::Eq && op <= ScalarOp::SignBit;
  unsigned count = getNumChildren(op);
  std::vector<Value> children;
  unsigned first = 0;
  if (op == ScalarOp::Select) {
    MaybeValue condition = eval(builder.getI1Type());
    if (failed(condition) || !condition->type().isInteger(1))
      return failure();
    children.push_back(*condition);
    first = 1;
  }
  // Literals take the other operands' type.
  Type type;
  size_t begin = cursor;
  for (unsigned i = first; i < count; ++i) {
    if (isLiteral(peek())) {
      skip();
      continue;
    }
    MaybeValue child = eval(isPredicate ? compute : expected);
    if (failed(child))
      return failure();
    if (!type)
      type = child->type();
    children.push_back(*child);
  }
  if (!type)
    type = isPredicate ? compute : expected;
  if (children.size() < count) {
    // A second walk, for the literals only.
    size_t end = cursor;
    cursor = begin;
    std::vector<Value> all(children.begin(), children.begin() + first);
    size_t next = first;
    for (unsigned i = first; i < count; ++i) {
      if (isLiteral(peek())) {
        MaybeValue child = eval(type);
        if (failed(child))
          return failure();
        all.push_back(*child);
      } else {
        skip();
        all.push_back(children[next++]);
      }
    }
    cursor = end;
    children = all;
  }
  for (Value &child : llvm::drop_begin(children, first)) {
    // Numbers that were converted before their neighbour's type was known.
    if (child.type() != type && child.nodes.size() == 1 &&
        child.nodes.front().op == ScalarOp::Const)
      child = convert(child, type);
    if (child.type() != type)
      return failure();
  }
  if ((type.isInteger(1) && !worksOnBool(op)) ||
      (isa<IntegerType>(type) && needsFloat(op)) ||
      (isa<FloatType>(type) && op >= ScalarOp::BitAnd && op <= ScalarOp::Shr))
    return failure();
  return combine(op, isPredicate ? Type(builder.getI1Type()) : type, children);
}

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

FailureOr<SmallVector<unsigned>> Resolver::reducedDims(const TableNode &node,
                                                       unsigned rank) {
  SmallVector<unsigned> dims;
  auto every = [&] {
    for (unsigned i = 0; i < rank; ++i)
      dims.push_back(i);
    return dims;
  };
  if (node.dims == TableDims::Every)
    return every();
  Attribute arg = args[node.index];
  auto list = dyn_cast<ArrayAttr>(arg);
  if (node.dims == TableDims::Last) {
    if (!list || list.size() > rank)
      return failure();
    for (unsigned i = rank - list.size(); i < rank; ++i)
      dims.push_back(i);
    return dims;
  }
  // any and all take an empty list by its word; to the others it means all.
  bool literal = node.op == TableOp::ReduceAny || node.op == TableOp::ReduceAll;
  if (isNoneArgument(arg) || (list && list.empty() && !literal))
    return every();
  SmallVector<Attribute> named;
  if (list)
    llvm::append_range(named, list);
  else
    named.push_back(arg);
  for (Attribute attr : named) {
    auto dim = dyn_cast<IntegerAttr>(attr);
    if (!dim)
      return failure();
    // A 0-dim tensor reduces over dimension 0 or -1 of none.
    if (rank == 0)
      continue;
    int64_t value = dim.getInt() < 0 ? dim.getInt() + rank : dim.getInt();
    if (value < 0 || value >= static_cast<int64_t>(rank))
      return failure();
    dims.push_back(value);
  }
  llvm::sort(dims);
  return dims;
}

Resolver::MaybeValue Resolver::evalReduction(const TableNode &node,
                                             Type expected) {
  MaybeValue child = eval(compute);
  if (failed(child))
    return failure();
  unsigned rank = child->shape.size();
  FailureOr<SmallVector<unsigned>> dims = reducedDims(node, rank);
  if (failed(dims))
    return failure();
  if (node.op == TableOp::Count) {
    int64_t count = 1;
    for (unsigned dim : *dims)
      count *= child->shape[dim];
    return constant(builder.getI64IntegerAttr(count), expected);
  }

  Type type = child->type();
  Attribute init;
  ScalarOp op;
  bool isFloat = isa<FloatType>(type);
  auto extreme = [&](bool lowest) -> Attribute {
    if (isFloat)
      return FloatAttr::get(
          type,
          APFloat::getInf(cast<FloatType>(type).getFloatSemantics(), lowest));
    auto integer = cast<IntegerType>(type);
    unsigned width = integer.getWidth();
    if (integer.isUnsigned() || width == 1)
      return IntegerAttr::get(type, lowest ? APInt::getZero(width)
                                           : APInt::getAllOnes(width));
    return IntegerAttr::get(type, lowest ? APInt::getSignedMinValue(width)
                                         : APInt::getSignedMaxValue(width));
  };
  auto number = [&](int64_t value) -> Attribute {
    return constant(builder.getI64IntegerAttr(value), type)
        ->nodes.front()
        .constant;
  };
  switch (node.op) {
  case TableOp::ReduceSum:
    op = ScalarOp::Add, init = number(0);
    break;
  case TableOp::ReduceProd:
    op = ScalarOp::Mul, init = number(1);
    break;
  case TableOp::ReduceMax:
    op = ScalarOp::Maximum, init = extreme(true);
    break;
  case TableOp::ReduceMin:
    op = ScalarOp::Minimum, init = extreme(false);
    break;
  case TableOp::ReduceAny:
    op = ScalarOp::BitOr, init = number(0);
    break;
  default:
    op = ScalarOp::BitAnd, init = number(1);
    break;
  }
  if ((op == ScalarOp::BitOr || op == ScalarOp::BitAnd) && !type.isInteger(1))
    return failure();

  if (failed(addStep(*child, child->shape, iota(rank))))
    return failure();
  Step &step = recipe.steps.back();
  step.isReduction = true;
  step.reducedDims = *dims;
  step.combine = op;
  step.init = cast<TypedAttr>(init);
  Source source{
      true, static_cast<unsigned>(recipe.steps.size() - 1), child->shape, {}};
  for (unsigned i = 0; i < rank; ++i) {
    if (llvm::is_contained(*dims, i))
      source.shape[i] = 1;
    else
      source.dims.push_back(i);
  }
  return read(std::move(source), type);
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

/// Adds a step that computes `value` over `shape`. `positions[i]` is the
/// iteration dimension along which the value's dimension i lies; -1: the
/// dimension has size 1 and no counterpart.
LogicalResult Resolver::addStep(const Value &value, ArrayRef<int64_t> shape,
                                ArrayRef<int64_t> positions) {
  Step step;
  step.shape.assign(shape.begin(), shape.end());
  int64_t rank = value.shape.size();
  SmallVector<std::pair<unsigned, unsigned>> numbers; // source, input
  for (ScalarNode node : value.nodes) {
    if (node.op == ScalarOp::Index) {
      int64_t position = positions[rank - node.index];
      if (position < 0)
        return failure();
      node.index = position;
    }
    if (node.op == ScalarOp::Input) {
      auto *known = llvm::find_if(
          numbers, [&](auto &pair) { return pair.first == node.index; });
      if (known == numbers.end()) {
        const Source &source = sources[node.index];
        int64_t lead = rank - static_cast<int64_t>(source.shape.size());
        SmallVector<AffineExpr> exprs;
        for (unsigned dim : source.dims) {
          int64_t position = positions[lead + dim];
          bool repeated =
              position < 0 || (source.shape[dim] == 1 && shape[position] != 1);
          exprs.push_back(repeated ? builder.getAffineConstantExpr(0)
                                   : builder.getAffineDimExpr(position));
        }
        step.inputs.push_back(
            {source.isStep, source.number,
             AffineMap::get(shape.size(), 0, exprs, builder.getContext())});
        numbers.push_back({node.index, step.inputs.size() - 1});
        known = &numbers.back();
      }
      node.index = known->second;
    }
    step.expr.push_back(node);
  }
  recipe.steps.push_back(std::move(step));
  return success();
}

Value Resolver::materialize(const Value &value) {
  // Cannot fail: every dimension has its position.
  (void)addStep(value, value.shape, iota(value.shape.size()));
  Source source{
      true, static_cast<unsigned>(recipe.steps.size() - 1), value.shape, {}};
  for (int64_t dim : iota(value.shape.size()))
    source.dims.push_back(dim);
  return read(std::move(source), value.type());
}

/// Makes the last step give the call's result.
LogicalResult Resolver::finish(Value value) {
  value = convert(std::move(value), result.getElementType());
  ArrayRef<int64_t> target = result.getShape();

  // A reduction whose result is the call's already.
  const ScalarNode &root = value.nodes.front();
  if (root.op == ScalarOp::Input && sources[root.index].isStep &&
      sources[root.index].number + 1 == recipe.steps.size() &&
      ArrayRef<int64_t>(recipe.steps.back().getResultShape()) == target &&
      recipe.steps.back().isReduction)
    return success();

  // Only fill, copy and the like broadcast; a reduction of another shape is
  // one that we have misunderstood.
  int64_t count = 1;
  for (int64_t size : value.shape)
    count *= size;
  if (!recipe.steps.empty() && count != result.getNumElements())
    return failure();

  // Broadcast to the result.
  SmallVector<int64_t> positions;
  auto shape = broadcast(value.shape, target);
  if (value.shape.size() <= target.size() && shape &&
      ArrayRef<int64_t>(*shape) == target) {
    int64_t lead = target.size() - value.shape.size();
    for (int64_t dim : iota(value.shape.size()))
      positions.push_back(lead + dim);
    return addStep(value, target, positions);
  }

  // Or lose the dimensions of size 1 that a reduction kept.
  size_t next = 0;
  size_t surplus = value.shape.size() > target.size()
                       ? value.shape.size() - target.size()
                       : 0;
  for (int64_t size : value.shape) {
    if (next < target.size() && target[next] == size &&
        (size != 1 || surplus == 0)) {
      positions.push_back(next++);
    } else if (size == 1) {
      positions.push_back(-1);
      surplus -= surplus > 0;
    } else {
      // A dimension of size 1 of the result has no counterpart left.
      while (next < target.size() && target[next] == 1)
        ++next;
      if (next == target.size() || target[next] != size)
        return failure();
      positions.push_back(next++);
    }
  }
  for (; next < target.size(); ++next)
    if (target[next] != 1)
      return failure();
  return addStep(value, target, positions);
}

FailureOr<Recipe> Resolver::run() {
  for (Type operand : operands) {
    auto tensor = dyn_cast<RankedTensorType>(operand);
    if (!tensor || !tensor.hasStaticShape() ||
        isComplex(tensor.getElementType()))
      return failure();
  }
  if (!result.hasStaticShape() || isComplex(result.getElementType()))
    return failure();
  // The rule and the call must agree on the result's type: eager's word counts,
  // and where the two differ we have misunderstood something.
  Type byRule = inferResultElementType(info, args, operands, defaultFloat);
  if (byRule && byRule != result.getElementType())
    return failure();

  Type type;
  switch (info.compute) {
  case ComputeRule::Result:
    type = result.getElementType();
    break;
  case ComputeRule::Promote:
    type = getCommonType(info, args, operands, defaultFloat);
    break;
  case ComputeRule::Self:
    if (!operands.empty())
      type = cast<RankedTensorType>(operands[0]).getElementType();
    break;
  }
  if (!type)
    return failure();
  compute = getComputeType(type);

  FailureOr<Value> value = eval(compute);
  if (failed(value) || failed(finish(*value)))
    return failure();
  return recipe;
}

FailureOr<Recipe> resolveRecipe(StringRef overload, ArrayAttr args,
                                TypeRange operands, RankedTensorType result,
                                Type defaultFloat) {
  const OperatorInfo *info = lookupOperator(overload);
  if (!info || info->lowering != Lowering::Recipe ||
      info->arguments.size() != args.size())
    return failure();
  if (!defaultFloat)
    defaultFloat = Float32Type::get(args.getContext());
  return Resolver(*info, args, operands, result, defaultFloat).run();
}

void print(llvm::raw_ostream &os, const Recipe &recipe) {
  for (auto [i, step] : llvm::enumerate(recipe.steps)) {
    os << "step " << i << " [";
    llvm::interleaveComma(step.shape, os);
    os << "]";
    if (step.isReduction) {
      os << " " << stringify(step.combine) << " over [";
      llvm::interleaveComma(step.reducedDims, os);
      os << "] from " << step.init;
    }
    os << ": ";
    print(os, step.expr);
    os << "\n";
    for (auto [j, input] : llvm::enumerate(step.inputs))
      os << "  " << j << " = " << (input.isStep ? "step " : "operand ")
         << input.number << " " << input.map << "\n";
  }
}

} // namespace pyjit::operators
