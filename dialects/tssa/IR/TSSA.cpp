//===- TSSA.cpp - the tssa dialect ----------------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "dialects/tssa/IR/TSSA.h"
#include "dialects/pyjit/IR/Attributes.h"
#include "dialects/tssa/IR/Views.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "pyjit/Analysis/SizeExpr.h"
#include "pyjit/Operators/CallArguments.h"
#include "pyjit/Operators/ElementTypes.h"
#include "pyjit/Operators/OperatorInfo.h"
#include "pyjit/Operators/Raises.h"
#include "pyjit/Operators/Random.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace pyjit;
using namespace pyjit::tssa;
using operators::parseCallArguments;
using operators::printCallArguments;

#include "dialects/tssa/IR/TSSADialect.cpp.inc"
#include "dialects/tssa/IR/TSSAEnums.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/tssa/IR/TSSAAttrs.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "dialects/tssa/IR/TSSATypes.cpp.inc"

void TSSADialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/tssa/IR/TSSAAttrs.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialects/tssa/IR/TSSATypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/tssa/IR/TSSAOps.cpp.inc"
      >();
}

void pyjit::tssa::registerTSSADialect(DialectRegistry &registry) {
  registry.insert<TSSADialect>();
}

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

LogicalResult StridesAttr::verifyEncoding(
    ArrayRef<int64_t> shape, Type,
    function_ref<InFlightDiagnostic()> emitError) const {
  if (shape.size() != getStrides().size())
    return emitError() << "has " << getStrides().size()
                       << " strides for a tensor of rank " << shape.size();
  for (int64_t stride : getStrides())
    if (stride < 0)
      return emitError() << "has the negative stride " << stride;
  return success();
}

AffineMap StridesAttr::getAffineMap() const {
  return makeStridedLinearLayoutMap(getStrides(), 0, getContext());
}

LogicalResult
StridesAttr::getStridesAndOffset(ArrayRef<int64_t>,
                                 SmallVectorImpl<int64_t> &strides,
                                 int64_t &offset) const {
  strides.assign(getStrides().begin(), getStrides().end());
  offset = 0;
  return success();
}

/// One number: a constant, or a polynomial over symbols in normal form.
static ParseResult parseSize(AsmParser &parser, AffineExpr &size) {
  constexpr unsigned kMaxSymbols = 64;
  SmallVector<std::string> names;
  SmallVector<std::pair<StringRef, AffineExpr>> symbols;
  for (unsigned i = 0; i < kMaxSymbols; ++i)
    names.push_back("s" + std::to_string(i));
  for (auto [i, name] : llvm::enumerate(names))
    symbols.emplace_back(name, getAffineSymbolExpr(i, parser.getContext()));
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseAffineExpr(symbols, size))
    return failure();
  size = analysis::normalizeSize(size);
  if (!size)
    return parser.emitError(loc, "a size is a sum of products of symbols");
  return success();
}

static ParseResult parseSizes(AsmParser &parser,
                              SmallVectorImpl<AffineExpr> &sizes) {
  return parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&] {
    return parseSize(parser, sizes.emplace_back());
  });
}

static void printSizes(AsmPrinter &printer, ArrayRef<AffineExpr> sizes) {
  printer << "[";
  llvm::interleaveComma(sizes, printer,
                        [&](AffineExpr size) { printer << size; });
  printer << "]";
}

Attribute LayoutAttr::parse(AsmParser &parser, Type) {
  SmallVector<AffineExpr> sizes, strides;
  if (parser.parseLess() || parseSizes(parser, sizes) || parser.parseComma() ||
      parseSizes(parser, strides) || parser.parseGreater())
    return {};
  return LayoutAttr::get(parser.getContext(), sizes, strides);
}

void LayoutAttr::print(AsmPrinter &printer) const {
  printer << "<";
  printSizes(printer, getSizes());
  printer << ", ";
  printSizes(printer, getStrides());
  printer << ">";
}

LogicalResult
LayoutAttr::verifyEncoding(ArrayRef<int64_t> shape, Type,
                           function_ref<InFlightDiagnostic()> emitError) const {
  if (shape.size() != getSizes().size() || shape.size() != getStrides().size())
    return emitError() << "has " << getSizes().size() << " sizes and "
                       << getStrides().size()
                       << " strides for a tensor of rank " << shape.size();
  bool symbolic = false;
  for (auto [number, size] : llvm::zip(shape, getSizes())) {
    if (number !=
        analysis::getConstantSize(size).value_or(ShapedType::kDynamic))
      return emitError() << "says other sizes than the type's dimensions";
    symbolic |= ShapedType::isDynamic(number);
  }
  for (AffineExpr stride : getStrides()) {
    std::optional<int64_t> known = analysis::getConstantSize(stride);
    if (known && *known < 0)
      return emitError() << "has the negative stride " << *known;
    symbolic |= !known;
  }
  if (!symbolic)
    return emitError() << "has numbers only: #tssa.strides says that";
  return success();
}

Attribute ViewAttr::parse(AsmParser &parser, Type) {
  StringRef keyword;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseLess() || parser.parseKeyword(&keyword))
    return {};
  std::optional<ViewKind> kind = symbolizeViewKind(keyword);
  if (!kind) {
    parser.emitError(loc) << "unknown kind of view '" << keyword << "'";
    return {};
  }
  SmallVector<AffineExpr> numbers;
  auto parseNumber = [&]() -> ParseResult {
    if (succeeded(parser.parseOptionalQuestion())) {
      numbers.push_back(
          getAffineConstantExpr(ShapedType::kDynamic, parser.getContext()));
      return success();
    }
    // Most are plain, and expressions may not begin with a sign.
    int64_t value;
    OptionalParseResult plain = parser.parseOptionalInteger(value);
    if (!plain.has_value())
      return parseSize(parser, numbers.emplace_back());
    numbers.push_back(getAffineConstantExpr(value, parser.getContext()));
    return *plain;
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::OptionalSquare,
                                     parseNumber) ||
      parser.parseGreater())
    return {};
  return ViewAttr::getSymbolic(parser.getContext(), *kind, numbers);
}

ViewAttr ViewAttr::getSymbolic(MLIRContext *context, ViewKind kind,
                               ArrayRef<AffineExpr> numbers) {
  SmallVector<int64_t> params;
  SmallVector<AffineExpr> exprs;
  for (AffineExpr number : numbers) {
    exprs.push_back(analysis::normalizeSize(number));
    assert(exprs.back() && "numbers of views are polynomials over symbols");
    params.push_back(
        analysis::getConstantSize(exprs.back()).value_or(kSymbolic));
  }
  if (!llvm::is_contained(params, kSymbolic))
    exprs.clear();
  return ViewAttr::get(context, kind, params, exprs);
}

void ViewAttr::print(AsmPrinter &printer) const {
  printer << "<" << stringifyViewKind(getKind());
  // An empty list still counts: a view to rank 0.
  if (getKind() != ViewKind::alias) {
    printer << " [";
    llvm::interleaveComma(llvm::seq<size_t>(getParams().size()), printer,
                          [&](size_t i) {
                            if (ShapedType::isDynamic(getParams()[i]))
                              printer << "?";
                            else if (getParams()[i] == kSymbolic)
                              printer << getExprs()[i];
                            else
                              printer << getParams()[i];
                          });
    printer << "]";
  }
  printer << ">";
}

unsigned ViewAttr::getNumDynamic() {
  return llvm::count_if(getParams(), ShapedType::isDynamic);
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

namespace {
/// The state of PyTorch's generators: calls that draw from it keep their order.
struct Generator : SideEffects::Resource::Base<Generator> {
  StringRef getName() final { return "PyTorchGenerator"; }
};

/// An exception. Which of several is raised does not matter: eager answers a
/// call that raises.
struct Errors : SideEffects::Resource::Base<Errors> {
  StringRef getName() final { return "Errors"; }
};
} // namespace

bool tssa::mayMove(Operation *op) {
  std::optional<SmallVector<MemoryEffects::EffectInstance>> effects =
      getEffectsRecursively(op);
  return effects && llvm::all_of(*effects, [](auto &effect) {
           return effect.getResource() == Errors::get();
         });
}

void AtenOp::getEffects(
    SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>>
        &effects) {
  const operators::OperatorInfo *info =
      operators::lookupOperator(getOverload());
  // An overload that is not in the table may do anything.
  bool draws = info && info->kind == operators::OperatorClass::Random &&
               !operators::drawsNothing(*info, getArgs());
  if (info && !draws && info->kind != operators::OperatorClass::Dynamic) {
    if ((*this)->hasAttr(attribute::kMustRun))
      effects.emplace_back(MemoryEffects::Write::get(), Errors::get());
    return;
  }
  effects.emplace_back(MemoryEffects::Read::get(), Generator::get());
  effects.emplace_back(MemoryEffects::Write::get(), Generator::get());
}

/// Operators know tensors of PyTorch's element types, of sizes that are known
/// when the function is called.
static LogicalResult verifyTensors(AtenOp op) {
  for (Type type :
       llvm::concat<const Type>(op.getOperandTypes(), op.getResultTypes())) {
    auto tensor = cast<RankedTensorType>(type);
    if (!hasKnownSizes(tensor))
      return op.emitOpError("has a ")
             << type << ", whose sizes no #tssa.layout says";
    if (!operators::isElementType(tensor.getElementType()))
      return op.emitOpError("has a ")
             << type << ", whose elements no tensor of PyTorch's has";
    int64_t bytes = 16; // of a complex number
    for (int64_t size : tensor.getShape())
      if (!ShapedType::isDynamic(size) && llvm::MulOverflow(bytes, size, bytes))
        return op.emitOpError("has a ")
               << type << ", of more elements than can be counted";
  }
  return success();
}

LogicalResult AtenOp::verify() {
  if (failed(verifyTensors(*this)) ||
      failed(
          operators::verifyCallArguments(*this, getArgs(), getInputs().size())))
    return failure();
  ArrayRef<int64_t> mutates = getMutates().value_or(ArrayRef<int64_t>());
  if (mutates.size() > getNumResults())
    return emitOpError("mutates ") << mutates.size() << " operands, but has "
                                   << getNumResults() << " results";
  unsigned firstNew = getNumResults() - mutates.size();
  for (auto [index, operand] : llvm::enumerate(mutates)) {
    if (operand < 0 || operand >= static_cast<int64_t>(getNumOperands()))
      return emitOpError("mutates operand ")
             << operand << " of " << getNumOperands();
    if (getResult(firstNew + index).getType() != getOperand(operand).getType())
      return emitOpError("result ")
             << firstNew + index << " is the new value of operand " << operand
             << ", but has another type";
  }
  const operators::OperatorInfo *info =
      operators::lookupOperator(getOverload());
  return info ? operators::verifySchema(*this, *info, getArgs(), mutates.size())
              : success();
}

/// Whether what a path shows lies otherwise than `result` states, which every
/// reader of the memory believes. A reshape may have copied in eager, and an
/// empty path states a layout anew.
static bool liesElsewhere(ArrayAttr path, RankedTensorType shown,
                          RankedTensorType result) {
  bool mayCopy = llvm::any_of(path.getAsRange<ViewAttr>(), [](ViewAttr view) {
    return view.getKind() == ViewKind::view;
  });
  if (path.empty() || mayCopy || !hasKnownSizes(shown) ||
      !hasKnownSizes(result))
    return false;
  SmallVector<Size> sizes = getSizes(result);
  if (llvm::any_of(sizes, [](const Size &size) { return size.is(0); }))
    return false;
  for (auto [size, is, stated] :
       llvm::zip(sizes, getSymbolicStrides(shown), getSymbolicStrides(result)))
    if (!size.is(1) && is.isConstant() && stated.isConstant() && is != stated)
      return true;
  return false;
}

/// Checks shape, element type and strides of what a path shows.
static LogicalResult verifyPath(Operation *op, ArrayAttr path,
                                RankedTensorType source,
                                RankedTensorType result, unsigned numIndices) {
  if (getNumDynamic(path) != numIndices)
    return op->emitOpError("path takes ")
           << getNumDynamic(path) << " indices, but has " << numIndices;
  RankedTensorType shown =
      inferPathType(path, source, [&] { return op->emitOpError(); });
  if (!shown)
    return failure();
  if (shown.getShape() != result.getShape() ||
      shown.getElementType() != result.getElementType())
    return op->emitOpError("path shows ") << shown << ", not " << result;
  // What is assigned may lie anywhere.
  if (isa<AccessOp>(op) && liesElsewhere(path, shown, result))
    return op->emitOpError("shows what lies as ")
           << shown << " does, not as " << result;
  return success();
}

LogicalResult SizeOp::verify() {
  AffineMap map = getMap();
  if (map.getNumDims() != 0 || map.getNumResults() != 1 ||
      !analysis::normalizeSize(map.getResult(0)))
    return emitOpError("takes one polynomial over symbols, not ")
           << getMapAttr();
  return success();
}

LogicalResult EmptyOp::verify() {
  auto type = cast<RankedTensorType>(getType());
  if (!isa_and_nonnull<LayoutAttr>(type.getEncoding()))
    return emitOpError("is of a type without symbolic sizes: tensor.empty is "
                       "the op for that");
  return success();
}

LogicalResult AccessOp::verify() {
  return verifyPath(*this, getPath(),
                    cast<RankedTensorType>(getSource().getType()),
                    cast<RankedTensorType>(getType()), getIndices().size());
}

/// All choices have the result's type.
static ParseResult
parsePickType(OpAsmParser &parser, SmallVectorImpl<Type> &types,
              ArrayRef<OpAsmParser::UnresolvedOperand> choices, Type &result) {
  if (parser.parseType(result))
    return failure();
  types.assign(choices.size(), result);
  return success();
}

static void printPickType(OpAsmPrinter &printer, Operation *, TypeRange,
                          OperandRange, Type result) {
  printer << result;
}

LogicalResult PickOp::verify() {
  if (getChoices().empty())
    return emitOpError("has nothing to pick from");
  for (auto [i, choice] : llvm::enumerate(getChoices()))
    if (choice.getType() != getType())
      return emitOpError("picks a ") << getType() << ", but choice " << i
                                     << " is a " << choice.getType();
  return success();
}

LogicalResult SpeculateOp::verify() {
  auto type = cast<RankedTensorType>(getFlag().getType());
  if (type.getRank() != 0 || !type.getElementType().isInteger(1))
    return emitOpError("is decided by a bool tensor without dimensions, not ")
           << type;
  if (!isa_and_nonnull<FunctionOpInterface>((*this)->getParentOp()))
    return emitOpError("ends the program, which a region inside of it cannot");
  return success();
}

LogicalResult AssignOp::verify() {
  auto target = cast<RankedTensorType>(getTarget().getType());
  if (failed(verifyPath(*this, getPath(), target,
                        cast<RankedTensorType>(getSource().getType()),
                        getIndices().size())))
    return failure();
  if (!isInjective(getPath(), target))
    return emitOpError("assigns through a path that shows an element twice");
  return success();
}

LogicalResult ViewOp::verify() {
  return verifyPath(*this, getPath(), getSource().getType().getTensor(),
                    getResult().getType().getTensor(), getIndices().size());
}

#define GET_OP_CLASSES
#include "dialects/tssa/IR/TSSAOps.cpp.inc"
