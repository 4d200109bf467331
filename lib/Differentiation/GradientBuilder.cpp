//===- GradientBuilder.cpp - What gradients are made of -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "GradientBuilder.h"

#include "dialects/pyjit/IR/Attributes.h"
#include "pyjit/Operators/CallArguments.h"
#include "pyjit/Operators/ElementTypes.h"
#include "pyjit/Operators/OperatorNames.h"

using namespace mlir;
using namespace pyjit;
using namespace pyjit::differentiation;
using namespace pyjit::tssa;

RankedTensorType differentiation::rowMajorType(ArrayRef<Size> sizes,
                                               Type elementType) {
  return getSymbolicType(sizes, getRowMajorStrides(sizes), elementType);
}

Size differentiation::countOf(ArrayRef<Size> sizes) {
  Size count = 1;
  for (const Size &size : sizes)
    count *= size;
  return count;
}

/// The same layout, with elements of another type.
static RankedTensorType withElements(RankedTensorType type, Type elementType) {
  return RankedTensorType::get(type.getShape(), elementType,
                               type.getEncoding());
}

RankedTensorType differentiation::gradientTypeOf(RankedTensorType type) {
  return isDense(type) ? type : getRowMajorType(type);
}

bool differentiation::mayHaveGradient(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && isa<FloatType, ComplexType>(tensor.getElementType());
}

bool differentiation::isComplex(Value value) {
  return isa<ComplexType>(typeOf(value).getElementType());
}

/// The parts of complex numbers of type `type`, in a dimension behind theirs.
static RankedTensorType partsOf(RankedTensorType type) {
  SmallVector<Size> sizes = getSizes(type);
  sizes.push_back(2);
  return rowMajorType(
      sizes, cast<ComplexType>(type.getElementType()).getElementType());
}

GradientBuilder::GradientBuilder(OpBuilder &builder, Location loc)
    : CallBuilder(builder, loc), builder(builder) {}

/// PyTorch's broadcasting; null where it depends on the call.
static RankedTensorType broadcast(ArrayRef<RankedTensorType> types,
                                  Type elementType) {
  SmallVector<Size> result;
  for (RankedTensorType type : types) {
    SmallVector<Size> sizes = getSizes(type);
    if (sizes.size() > result.size())
      result.insert(result.begin(), sizes.size() - result.size(), Size(1));
    size_t lead = result.size() - sizes.size();
    for (auto [i, size] : llvm::enumerate(sizes)) {
      if (result[lead + i].is(1))
        result[lead + i] = size;
      else if (!size.is(1) && size != result[lead + i])
        return {};
    }
  }
  for (RankedTensorType type : types)
    if (getSizes(type) == result && isDense(type))
      return withElements(type, elementType);
  return rowMajorType(result, elementType);
}

Value GradientBuilder::pointwise(StringRef overload,
                                 ArrayRef<Argument> arguments) {
  const operators::OperatorInfo *info = operators::lookupOperator(overload);
  auto [operands, args] =
      tssa::splitArguments(builder.getContext(), overload, arguments);
  SmallVector<RankedTensorType> types;
  for (const Argument &argument : arguments)
    if (auto *value = std::get_if<Value>(&argument))
      types.push_back(typeOf(*value));
  if (!info || types.empty())
    return {};
  // Gradients are floats: the default type of floats is of no importance.
  Type elementType = operators::inferResultElementType(
      *info, builder.getArrayAttr(args),
      llvm::to_vector(ValueRange(operands).getTypes()), builder.getF32Type());
  if (!elementType)
    elementType = types.front().getElementType();
  if (RankedTensorType type = broadcast(types, elementType))
    return call(overload, arguments, type);
  return fail(operands.front());
}

/// Something else in the place of what cannot be built.
Value GradientBuilder::fail(Value other) {
  if (!failed)
    emitError(getLoc())
        << "cannot be differentiated: sizes of its gradient may "
           "differ from its operand's";
  failed = true;
  return other;
}

Value GradientBuilder::add(Value a, Argument b) {
  return pointwise(operators::aten::add_Tensor, {a, b, integer(1)});
}

Value GradientBuilder::multiply(Value a, Argument b) {
  return pointwise(operators::aten::mul_Tensor, {a, b});
}

Value GradientBuilder::subtract(Value a, Argument b) {
  return pointwise(operators::aten::sub_Tensor, {a, b, integer(1)});
}

Value GradientBuilder::divide(Value a, Argument b) {
  return pointwise(operators::aten::div_Tensor, {a, b});
}

Value GradientBuilder::select(Value condition, Argument a, Argument b) {
  assert(
      (std::holds_alternative<Value>(a) || std::holds_alternative<Value>(b)) &&
      "two numbers have the default dtype, which no operand's type tells");
  return pointwise(operators::aten::where_self, {condition, a, b});
}

Value GradientBuilder::negate(Value value) {
  return apply(operators::aten::neg, value);
}

Value GradientBuilder::equal(Value a, Argument b) {
  return pointwise(operators::aten::eq_Tensor, {a, b});
}

Attribute GradientBuilder::wrapped(double value) const {
  return operators::makeWrappedNumber(builder.getF64FloatAttr(value));
}

Attribute GradientBuilder::wrappedInteger(int64_t value) const {
  return operators::makeWrappedNumber(builder.getI64IntegerAttr(value));
}

Attribute GradientBuilder::sizes(RankedTensorType type) const {
  SmallVector<Attribute> list;
  for (const Size &size : getSizes(type))
    list.push_back(size.isConstant() ? integer(size.constant())
                                     : operators::makeSizeArgument(
                                           size.toExpr(builder.getContext())));
  return builder.getArrayAttr(list);
}

/// Those of complex numbers are made of real ones: a vendor call would have to
/// name its device.
Value GradientBuilder::zeros(RankedTensorType type) {
  if (isa<ComplexType>(type.getElementType()))
    return layOut(call(operators::aten::view_as_complex_copy,
                       {zeros(partsOf(type))}, getRowMajorType(type)),
                  type);
  Attribute dtype = integer(operators::getScalarType(type.getElementType()));
  return call(operators::aten::zeros,
              {sizes(type), dtype, none(), none(), none()}, type);
}

Value GradientBuilder::ones(RankedTensorType type) {
  assert(!isa<ComplexType>(type.getElementType()) && "no gradient needs them");
  Attribute dtype = integer(operators::getScalarType(type.getElementType()));
  return call(operators::aten::ones,
              {sizes(type), dtype, none(), none(), none()}, type);
}

Value GradientBuilder::zerosBy(Value gradient) {
  return callLike(operators::aten::zeros_like,
                  {gradient, none(), none(), none(), none(), none()});
}

Value GradientBuilder::convert(Value value, Type elementType) {
  if (isComplex(value) && !isa<ComplexType>(elementType))
    value = realPart(*this, value);
  RankedTensorType type = typeOf(value);
  if (type.getElementType() == elementType)
    return value;
  return call(operators::aten::_to_copy,
              {value, integer(operators::getScalarType(elementType)), none(),
               none(), none(), boolean(false), none()},
              withElements(gradientTypeOf(type), elementType));
}

Value GradientBuilder::layOut(Value value, RankedTensorType type) {
  if (value.getType() == type)
    return value;
  return call(operators::aten::clone, {value, none()}, type);
}

Value GradientBuilder::sum(Value value, ArrayRef<int64_t> dims) {
  if (dims.empty())
    return value;
  SmallVector<Size> sizes = getSizes(typeOf(value));
  for (int64_t dim : dims)
    sizes[dim] = 1;
  return call(operators::aten::sum_dim_IntList,
              {value, integers(dims), boolean(true), none()},
              rowMajorType(sizes, typeOf(value).getElementType()));
}

Value GradientBuilder::savedInEager(Value value) {
  if (Operation *op = value ? value.getDefiningOp() : nullptr)
    op->setAttr(attribute::kSavedInEager, builder.getUnitAttr());
  return value;
}

Value GradientBuilder::mean(Value value, ArrayRef<int64_t> dims) {
  SmallVector<Size> sizes = getSizes(typeOf(value));
  for (int64_t dim : dims)
    sizes[dim] = 1;
  return call(operators::aten::mean_dim,
              {value, integers(dims), boolean(true), none()},
              rowMajorType(sizes, typeOf(value).getElementType()));
}

/// A size that differs between calls is told by a sum of ones, of which no more
/// are added than the size says.
Argument GradientBuilder::count(ArrayRef<Size> sizes, double less) {
  double factor = 1;
  Value product;
  for (Size size : sizes) {
    if (size.isConstant()) {
      factor *= double(size.constant());
      continue;
    }
    RankedTensorType type = rowMajorType({size}, builder.getF64Type());
    Value number =
        access(sum(ones(type), {0}),
               ViewAttr::get(builder.getContext(), ViewKind::squeeze, {0}));
    product = product ? multiply(product, number) : number;
  }
  if (!product)
    return wrapped(factor - less);
  return subtract(multiply(product, wrapped(factor)), wrapped(less));
}

Value GradientBuilder::sumTo(Value gradient, RankedTensorType type) {
  SmallVector<Size> from = getSizes(typeOf(gradient)), to = getSizes(type);
  int64_t lead = int64_t(from.size()) - int64_t(to.size());
  SmallVector<int64_t> summed, gone;
  for (int64_t i = 0; i < int64_t(from.size()); ++i) {
    if (i < lead)
      gone.push_back(i);
    if (!from[i].is(1) && (i < lead || to[i - lead].is(1)))
      summed.push_back(i);
  }
  gradient = sum(gradient, summed);
  if (!gone.empty())
    gradient = access(
        gradient, ViewAttr::get(builder.getContext(), ViewKind::squeeze, gone));
  if (getSizes(typeOf(gradient)) != to)
    return fail(gradient);
  return convert(gradient, type.getElementType());
}

Value GradientBuilder::expand(Value value, RankedTensorType type) {
  if (getSizes(typeOf(value)) == getSizes(type))
    return value;
  SmallVector<AffineExpr> exprs;
  for (const Size &size : getSizes(type))
    exprs.push_back(size.toExpr(builder.getContext()));
  return access(value, ViewAttr::getSymbolic(builder.getContext(),
                                             ViewKind::expand, exprs));
}

Value GradientBuilder::empty(Value gradient, RankedTensorType type) {
  auto dims =
      llvm::to_vector(llvm::seq<int64_t>(0, typeOf(gradient).getRank()));
  SmallVector<Size> ones(type.getRank(), Size(1));
  Type elementType = type.getElementType();
  Value one = convert(sum(gradient, dims), elementType);
  one = reshape(one, rowMajorType(ones, elementType));
  return layOut(expand(one, type), gradientTypeOf(type));
}

Value GradientBuilder::reshape(Value value, RankedTensorType type) {
  if (getSizes(typeOf(value)) == getSizes(type))
    return value;
  SmallVector<AffineExpr> exprs;
  for (const Size &size : getSizes(type))
    exprs.push_back(size.toExpr(builder.getContext()));
  return show(value, ViewAttr::getSymbolic(builder.getContext(), ViewKind::view,
                                           exprs));
}

Value GradientBuilder::show(Value value, ViewAttr view) {
  if (view.getKind() == ViewKind::view)
    value = layOut(value, getRowMajorType(typeOf(value)));
  return access(value, view);
}

Value GradientBuilder::unsqueeze(Value value, int64_t dim) {
  return access(
      value, ViewAttr::get(builder.getContext(), ViewKind::unsqueeze, {dim}));
}

Value GradientBuilder::flatten(Value value) {
  RankedTensorType type = typeOf(value);
  return reshape(
      value, rowMajorType({countOf(getSizes(type))}, type.getElementType()));
}

Value GradientBuilder::slice(Value value, int64_t dim, const Size &start,
                             const Size &length) {
  MLIRContext *context = value.getContext();
  SmallVector<AffineExpr> numbers;
  for (const Size &number : {Size(dim), start, length, Size(1)})
    numbers.push_back(number.toExpr(context));
  return access(value,
                ViewAttr::getSymbolic(context, ViewKind::slice, numbers));
}

Value GradientBuilder::callLike(StringRef overload,
                                ArrayRef<Argument> arguments) {
  Value first = std::get<Value>(arguments.front());
  return call(overload, arguments, gradientTypeOf(typeOf(first)));
}

Value GradientBuilder::oneMinus(Value value) {
  return subtract(ones(typeOf(value)), value);
}

Value GradientBuilder::flip(Value value, int64_t dim) {
  return callLike(operators::aten::flip, {value, integers({dim})});
}

Value GradientBuilder::gather(Value value, int64_t dim, Value index) {
  return call(
      operators::aten::gather, {value, integer(dim), index, boolean(false)},
      rowMajorType(getSizes(typeOf(index)), typeOf(value).getElementType()));
}

Value GradientBuilder::transpose(Value value, int64_t a, int64_t b) {
  auto dims = llvm::to_vector(llvm::seq<int64_t>(0, typeOf(value).getRank()));
  std::swap(dims[a], dims[b]);
  return permute(value, dims);
}

ValueRange GradientBuilder::callAll(StringRef overload,
                                    ArrayRef<Argument> arguments,
                                    ArrayRef<Type> results) {
  auto [operands, args] =
      tssa::splitArguments(builder.getContext(), overload, arguments);
  return AtenOp::create(builder, getLoc(), TypeRange(results), overload,
                        operands, builder.getArrayAttr(args),
                        DenseI64ArrayAttr())
      .getResults();
}

Value GradientBuilder::product(Value a, Value b) {
  SmallVector<Size> sizes = getSizes(typeOf(a));
  sizes.back() = getSizes(typeOf(b)).back();
  return call(sizes.size() == 3 ? operators::aten::bmm : operators::aten::mm,
              {a, b}, rowMajorType(sizes, typeOf(a).getElementType()));
}

//===----------------------------------------------------------------------===//
// Complex numbers
//===----------------------------------------------------------------------===//

Value differentiation::conjugate(GradientBuilder &build, Value value) {
  if (!isComplex(value))
    return value;
  if (AtenOp known = matchCall(value, operators::aten::_conj_physical))
    return known.getOperand(0);
  return build.callLike(operators::aten::_conj_physical, {value});
}

static Value part(GradientBuilder &build, Value value, int64_t index) {
  assert(isComplex(value) && "only complex numbers have parts");
  RankedTensorType type = typeOf(value);
  Value parts =
      build.call(operators::aten::view_as_real_copy, {value}, partsOf(type));
  return build.access(parts, ViewAttr::get(value.getContext(), ViewKind::select,
                                           {type.getRank(), index}));
}

Value differentiation::realPart(GradientBuilder &build, Value value) {
  return part(build, value, 0);
}

Value differentiation::imaginaryPart(GradientBuilder &build, Value value) {
  return part(build, value, 1);
}

Value differentiation::makeComplex(GradientBuilder &build, Value real,
                                   Value imaginary) {
  RankedTensorType type = typeOf(real);
  return build.call(
      operators::aten::complex, {real, imaginary},
      rowMajorType(getSizes(type), ComplexType::get(type.getElementType())));
}
