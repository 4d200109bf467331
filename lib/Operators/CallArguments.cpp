//===- CallArguments.cpp - arguments of an ATen call as IR ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "pyjit/Operators/CallArguments.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Operation.h"
#include "pyjit/Analysis/SizeExpr.h"
#include "pyjit/Operators/OperatorInfo.h"

using namespace mlir;

namespace pyjit::operators {

Attribute getOperandPlaceholder(MLIRContext *context) {
  return UnitAttr::get(context);
}

Attribute getNoneArgument(MLIRContext *context) {
  return TypeAttr::get(NoneType::get(context));
}

bool isNoneArgument(Attribute arg) {
  auto type = dyn_cast<TypeAttr>(arg);
  return type && isa<NoneType>(type.getValue());
}

/// The value of a dictionary with the one entry `name`.
static Attribute getSingleEntry(Attribute arg, StringRef name) {
  auto dict = dyn_cast<DictionaryAttr>(arg);
  if (!dict || dict.size() != 1)
    return {};
  return dict.get(name);
}

static Attribute makeSingleEntry(StringRef name, Attribute value) {
  MLIRContext *context = value.getContext();
  return DictionaryAttr::get(
      context, NamedAttribute(StringAttr::get(context, name), value));
}

std::optional<double> getNumber(Attribute arg) {
  if (auto real = dyn_cast_or_null<FloatAttr>(arg))
    return real.getValueAsDouble();
  auto integer = dyn_cast_or_null<IntegerAttr>(arg);
  if (!integer)
    return std::nullopt;
  return integer.getType().isInteger(1)
             ? double(integer.getValue().getBoolValue())
             : double(integer.getInt());
}

TypedAttr getWrappedNumber(Attribute arg) {
  return dyn_cast_or_null<TypedAttr>(getSingleEntry(arg, "wrapped"));
}

Attribute makeWrappedNumber(TypedAttr number) {
  return makeSingleEntry("wrapped", number);
}

bool isWrappedOperand(Attribute arg) {
  return isa_and_nonnull<UnitAttr>(getSingleEntry(arg, "wrapped"));
}

bool isSizeOperand(Attribute arg) {
  return isa_and_nonnull<UnitAttr>(getSingleEntry(arg, "size"));
}

bool isNumberOperand(Attribute arg) {
  return isWrappedOperand(arg) || isSizeOperand(arg) ||
         isa_and_nonnull<UnitAttr>(getSingleEntry(arg, "number"));
}

Attribute makeNumberOperand(MLIRContext *context, bool wrapped) {
  return makeSingleEntry(wrapped ? "wrapped" : "number",
                         UnitAttr::get(context));
}

Attribute makeSizeOperand(MLIRContext *context) {
  return makeSingleEntry("size", UnitAttr::get(context));
}

StringAttr getDeviceArgument(Attribute arg) {
  return dyn_cast_or_null<StringAttr>(getSingleEntry(arg, "device"));
}

Attribute makeDeviceArgument(StringAttr name) {
  return makeSingleEntry("device", name);
}

AffineExpr getSizeArgument(Attribute arg) {
  auto map = dyn_cast<AffineMapAttr>(arg);
  if (!map || map.getValue().getNumDims() != 0 ||
      map.getValue().getNumResults() != 1)
    return {};
  return analysis::normalizeSize(map.getValue().getResult(0));
}

Attribute makeSizeArgument(AffineExpr size) {
  return AffineMapAttr::get(
      AffineMap::get(0, analysis::countSymbols(size), size, size.getContext()));
}

bool hasSizeArgument(ArrayAttr args) {
  return llvm::any_of(args, [](Attribute arg) {
    if (auto list = dyn_cast<ArrayAttr>(arg))
      return hasSizeArgument(list);
    return isa<AffineMapAttr>(arg);
  });
}

static unsigned countIn(Attribute arg) {
  if (isOperandPlaceholder(arg) || isNumberOperand(arg))
    return 1;
  if (auto list = dyn_cast<ArrayAttr>(arg))
    return countOperands(list);
  return 0;
}

unsigned countOperands(ArrayAttr args) {
  unsigned count = 0;
  for (Attribute arg : args)
    count += countIn(arg);
  return count;
}

void walkCallArguments(
    ArrayAttr args,
    llvm::function_ref<void(unsigned, Attribute, unsigned)> fn) {
  unsigned operand = 0;
  for (auto [index, arg] : llvm::enumerate(args)) {
    fn(index, arg, operand);
    operand += countIn(arg);
  }
}

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

using Operands = SmallVectorImpl<OpAsmParser::UnresolvedOperand>;

static ParseResult parseArgument(OpAsmParser &parser, Operands &operands,
                                 Attribute &arg);

static ParseResult parseList(OpAsmParser &parser,
                             OpAsmParser::Delimiter delimiter,
                             Operands &operands, ArrayAttr &list) {
  SmallVector<Attribute> values;
  if (parser.parseCommaSeparatedList(delimiter, [&] {
        return parseArgument(parser, operands, values.emplace_back());
      }))
    return failure();
  list = parser.getBuilder().getArrayAttr(values);
  return success();
}

static ParseResult parseArgument(OpAsmParser &parser, Operands &operands,
                                 Attribute &arg) {
  MLIRContext *context = parser.getContext();
  OpAsmParser::UnresolvedOperand operand;
  OptionalParseResult isOperand = parser.parseOptionalOperand(operand);
  if (isOperand.has_value()) {
    if (failed(*isOperand))
      return failure();
    operands.push_back(operand);
    arg = getOperandPlaceholder(context);
    return success();
  }
  if (succeeded(parser.parseOptionalKeyword("none"))) {
    arg = getNoneArgument(context);
    return success();
  }
  if (succeeded(parser.parseOptionalKeyword("device"))) {
    StringAttr name;
    if (parser.parseLParen() || parser.parseAttribute(name) ||
        parser.parseRParen())
      return failure();
    arg = makeDeviceArgument(name);
    return success();
  }
  if (succeeded(parser.parseOptionalKeyword("size"))) {
    if (parser.parseLParen() || parser.parseOperand(operand) ||
        parser.parseRParen())
      return failure();
    operands.push_back(operand);
    arg = makeSingleEntry("size", UnitAttr::get(context));
    return success();
  }
  bool wrapped = succeeded(parser.parseOptionalKeyword("wrapped"));
  if (wrapped || succeeded(parser.parseOptionalKeyword("number"))) {
    TypedAttr number;
    if (parser.parseLParen())
      return failure();
    isOperand = parser.parseOptionalOperand(operand);
    if (isOperand.has_value()) {
      if (failed(*isOperand))
        return failure();
      operands.push_back(operand);
      arg = makeNumberOperand(context, wrapped);
    } else if (!wrapped) {
      return parser.emitError(parser.getCurrentLocation(),
                              "expected an operand: numbers that are known "
                              "are written without number(...)");
    } else if (parser.parseAttribute(number)) {
      return failure();
    } else {
      arg = makeWrappedNumber(number);
    }
    return parser.parseRParen();
  }
  if (succeeded(parser.parseOptionalLSquare())) {
    SmallVector<Attribute> values;
    if (failed(parser.parseOptionalRSquare())) {
      if (parser.parseCommaSeparatedList([&] {
            return parseArgument(parser, operands, values.emplace_back());
          }) ||
          parser.parseRSquare())
        return failure();
    }
    arg = parser.getBuilder().getArrayAttr(values);
    return success();
  }
  return parser.parseAttribute(arg);
}

ParseResult parseCallArguments(OpAsmParser &parser, Operands &operands,
                               ArrayAttr &args) {
  return parseList(parser, OpAsmParser::Delimiter::Paren, operands, args);
}

static void printArgument(OpAsmPrinter &printer, OperandRange operands,
                          unsigned &next, Attribute arg) {
  if (isOperandPlaceholder(arg)) {
    // A wrong count is the verifier's to report; printing must survive it.
    if (next < operands.size())
      printer << operands[next++];
    else
      printer << "<<missing operand>>";
  } else if (isNumberOperand(arg)) {
    printer << (isWrappedOperand(arg) ? "wrapped("
                : isSizeOperand(arg)  ? "size("
                                      : "number(");
    printArgument(printer, operands, next,
                  getOperandPlaceholder(arg.getContext()));
    printer << ")";
  } else if (isNoneArgument(arg)) {
    printer << "none";
  } else if (StringAttr name = getDeviceArgument(arg)) {
    printer << "device(" << name << ")";
  } else if (TypedAttr number = getWrappedNumber(arg)) {
    printer << "wrapped(" << number << ")";
  } else if (auto list = dyn_cast<ArrayAttr>(arg)) {
    printer << "[";
    llvm::interleaveComma(list, printer, [&](Attribute value) {
      printArgument(printer, operands, next, value);
    });
    printer << "]";
  } else {
    printer << arg;
  }
}

void printCallArguments(OpAsmPrinter &printer, Operation *,
                        OperandRange operands, ArrayAttr args) {
  unsigned next = 0;
  printer << "(";
  llvm::interleaveComma(args, printer, [&](Attribute arg) {
    printArgument(printer, operands, next, arg);
  });
  printer << ")";
}

static bool isNumber(Attribute arg) {
  if (auto value = dyn_cast<IntegerAttr>(arg))
    return value.getType().isSignlessInteger(64) ||
           value.getType().isInteger(1);
  if (auto value = dyn_cast<FloatAttr>(arg))
    return value.getType().isF64();
  return false;
}

static bool isArgument(Attribute arg) {
  if (auto list = dyn_cast<ArrayAttr>(arg))
    return llvm::all_of(list, isArgument);
  if (TypedAttr number = getWrappedNumber(arg))
    return isNumber(number);
  return isOperandPlaceholder(arg) || isNumberOperand(arg) ||
         isNoneArgument(arg) || isNumber(arg) || isa<StringAttr>(arg) ||
         getDeviceArgument(arg) || getSizeArgument(arg);
}

LogicalResult verifyCallArguments(Operation *op, ArrayAttr args,
                                  unsigned numOperands) {
  for (auto [index, arg] : llvm::enumerate(args))
    if (!isArgument(arg))
      return op->emitOpError("argument ")
             << index << " is " << arg
             << ", expected an operand, i64, f64, bool, string, none, list, "
                "device(...), wrapped(...), number(...), size(...) or a size";
  unsigned expected = countOperands(args);
  if (expected != numOperands)
    return op->emitOpError("has ")
           << numOperands << " operands, but its arguments name " << expected;
  return success();
}

/// Whether an argument may stand where the schema has `type`. Numbers of one
/// kind stand for those of another one, as Python's do.
static bool fitsType(Attribute arg, StringRef type) {
  bool isOptional = type.consume_back("?");
  if (isNoneArgument(arg))
    return isOptional;
  if (size_t bracket = type.find('['); bracket != StringRef::npos) {
    StringRef element = type.take_front(bracket);
    auto list = dyn_cast<ArrayAttr>(arg);
    if (!list) // one number for all dimensions
      return !type.ends_with("[]") && fitsType(arg, element);
    return llvm::all_of(
        list, [&](Attribute entry) { return fitsType(entry, element); });
  }
  bool isTensor = isOperandPlaceholder(arg) || isWrappedOperand(arg) ||
                  getWrappedNumber(arg);
  if (type == "Tensor")
    return isTensor;
  if (isTensor || isa<ArrayAttr>(arg))
    return false;
  if (type == "str")
    return isa<StringAttr>(arg);
  if (type == "Device")
    return isa<StringAttr>(arg) || getDeviceArgument(arg);
  if (type == "Generator")
    return true;
  return isNumber(arg) || isNumberOperand(arg) || getSizeArgument(arg);
}

/// The most tensors that an overload returns, where the schema says it.
static std::optional<unsigned> countResults(StringRef schema) {
  StringRef results = schema.rsplit(" -> ").second;
  if (results.contains('[') || results.contains("Dict"))
    return std::nullopt;
  return results == "()" ? 0 : results.count(',') + 1;
}

LogicalResult verifyArguments(Operation *op, const OperatorInfo &info,
                              ArrayAttr args) {
  if (info.arguments.size() != args.size())
    return op->emitOpError("has ")
           << args.size() << " arguments, but '" << info.schema << "' has "
           << info.arguments.size();
  // Library calls take undefined tensors where their schemas have others.
  bool takesNone = info.lowering == Lowering::Library;
  for (auto [i, given] : llvm::enumerate(args)) {
    const ArgumentInfo &wanted = info.arguments[i];
    if (!fitsType(given, wanted.type) &&
        !(takesNone && i > 0 && isNoneArgument(given)))
      return op->emitOpError("has ")
             << given << " as '" << wanted.name << "', which '" << info.schema
             << "' takes a " << wanted.type << " for";
  }
  return success();
}

LogicalResult verifySchema(Operation *op, const OperatorInfo &info,
                           ArrayAttr args, unsigned numMutated) {
  if (failed(verifyArguments(op, info, args)))
    return failure();
  // Those that it writes are results by themselves, and some nobody asks for.
  std::optional<unsigned> count = countResults(info.schema);
  if (count && op->getNumResults() > *count + numMutated)
    return op->emitOpError("has ")
           << op->getNumResults() << " results, but '" << info.schema
           << "' gives " << *count
           << (numMutated ? ", and one more for each that it mutates" : "");
  if (count && *count != 0 && op->getNumResults() == 0)
    return op->emitOpError("has no result, but '") << info.schema << "' has";
  return success();
}

} // namespace pyjit::operators
