//===- TSSA.cpp - the tssa dialect ----------------------------------------===//

#include "dialects/tssa/IR/TSSA.h"
#include "dialects/tssa/IR/Views.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "pyjit/Operators/CallArguments.h"
#include "pyjit/Operators/OperatorInfo.h"
#include "llvm/ADT/TypeSwitch.h"

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
  SmallVector<int64_t> params;
  auto parseNumber = [&]() -> ParseResult {
    if (succeeded(parser.parseOptionalQuestion())) {
      params.push_back(ShapedType::kDynamic);
      return success();
    }
    return parser.parseInteger(params.emplace_back());
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::OptionalSquare,
                                     parseNumber) ||
      parser.parseGreater())
    return {};
  return ViewAttr::get(parser.getContext(), *kind, params);
}

void ViewAttr::print(AsmPrinter &printer) const {
  printer << "<" << stringifyViewKind(getKind());
  // An empty list still counts: a view to rank 0.
  if (getKind() != ViewKind::alias) {
    printer << " [";
    llvm::interleaveComma(getParams(), printer, [&](int64_t value) {
      if (ShapedType::isDynamic(value))
        printer << "?";
      else
        printer << value;
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
} // namespace

void AtenOp::getEffects(
    SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>>
        &effects) {
  const operators::OperatorInfo *info =
      operators::lookupOperator(getOverload());
  // An overload that is not in the table may do anything.
  if (info && info->kind != operators::OperatorClass::Random &&
      info->kind != operators::OperatorClass::Dynamic)
    return;
  effects.emplace_back(MemoryEffects::Read::get(), Generator::get());
  effects.emplace_back(MemoryEffects::Write::get(), Generator::get());
}

LogicalResult AtenOp::verify() {
  if (failed(
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
  if (info && info->arguments.size() != getArgs().size())
    return emitOpError("has ")
           << getArgs().size() << " arguments, but '" << info->schema
           << "' has " << info->arguments.size();
  return success();
}

/// Checks shape and element type of what a path shows. Strides are the
/// producer's statement of eager's layout, and not checked.
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
  return success();
}

LogicalResult AccessOp::verify() {
  return verifyPath(*this, getPath(),
                    cast<RankedTensorType>(getSource().getType()),
                    cast<RankedTensorType>(getType()), getIndices().size());
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
