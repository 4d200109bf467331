//===- PythonValues.cpp - immutable Python values as attributes -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "dialects/refgraph/IR/PythonValues.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"

using namespace mlir;

namespace pyjit::refgraph {

/// The value of a dictionary with the one entry `name`.
static Attribute getSingleEntry(Attribute value, StringRef name) {
  auto dict = dyn_cast<DictionaryAttr>(value);
  return dict && dict.size() == 1 ? dict.get(name) : Attribute();
}

static Attribute makeSingleEntry(StringRef name, Attribute value) {
  MLIRContext *context = value.getContext();
  return DictionaryAttr::get(
      context, NamedAttribute(StringAttr::get(context, name), value));
}

Attribute getPyNone(MLIRContext *context) {
  return TypeAttr::get(NoneType::get(context));
}

Attribute makePyEllipsis(MLIRContext *context) {
  return makeSingleEntry("ellipsis", UnitAttr::get(context));
}

Attribute makePyBytes(MLIRContext *context, StringRef bytes) {
  return makeSingleEntry("bytes", StringAttr::get(context, bytes));
}

Attribute makePyComplex(MLIRContext *context, double real, double imaginary) {
  Builder builder(context);
  return makeSingleEntry(
      "complex", builder.getArrayAttr({builder.getF64FloatAttr(real),
                                       builder.getF64FloatAttr(imaginary)}));
}

Attribute makePyObject(MLIRContext *context, int64_t index) {
  return makeSingleEntry("object", Builder(context).getI64IntegerAttr(index));
}

bool isPyNone(Attribute value) {
  auto type = dyn_cast<TypeAttr>(value);
  return type && isa<NoneType>(type.getValue());
}

bool isPyEllipsis(Attribute value) {
  return isa_and_nonnull<UnitAttr>(getSingleEntry(value, "ellipsis"));
}

StringAttr getPyBytes(Attribute value) {
  return dyn_cast_or_null<StringAttr>(getSingleEntry(value, "bytes"));
}

ArrayAttr getPyComplex(Attribute value) {
  return dyn_cast_or_null<ArrayAttr>(getSingleEntry(value, "complex"));
}

IntegerAttr getPyObject(Attribute value) {
  return dyn_cast_or_null<IntegerAttr>(getSingleEntry(value, "object"));
}

static bool isDouble(Attribute value) {
  auto number = dyn_cast<FloatAttr>(value);
  return number && number.getType().isF64();
}

bool isPyValue(Attribute value) {
  if (auto tuple = dyn_cast<ArrayAttr>(value))
    return llvm::all_of(tuple, isPyValue);
  if (auto number = dyn_cast<IntegerAttr>(value)) {
    auto type = dyn_cast<IntegerType>(number.getType());
    return type && type.isSignless() &&
           (type.getWidth() == 1 || type.getWidth() >= 64);
  }
  if (ArrayAttr parts = getPyComplex(value))
    return parts.size() == 2 && llvm::all_of(parts, isDouble);
  if (IntegerAttr index = getPyObject(value))
    return index.getType().isInteger(64) && index.getInt() >= 0;
  return isDouble(value) || isa<StringAttr>(value) || isPyNone(value) ||
         isPyEllipsis(value) || getPyBytes(value);
}

StringRef getPyTypeName(Attribute value) {
  if (auto number = dyn_cast<IntegerAttr>(value))
    return number.getType().isInteger(1) ? "bool" : "int";
  if (isa<FloatAttr>(value))
    return "float";
  if (isa<StringAttr>(value))
    return "str";
  if (isa<ArrayAttr>(value))
    return "tuple";
  if (isPyNone(value))
    return "NoneType";
  if (isPyEllipsis(value))
    return "ellipsis";
  if (getPyBytes(value))
    return "bytes";
  if (getPyComplex(value))
    return "complex";
  return "object";
}

ParseResult parsePyValue(OpAsmParser &parser, Attribute &value) {
  Builder &builder = parser.getBuilder();
  SMLoc loc = parser.getCurrentLocation();
  StringRef keyword;
  if (succeeded(parser.parseOptionalLParen())) {
    SmallVector<Attribute> elements;
    if (failed(parser.parseOptionalRParen()) &&
        (parser.parseCommaSeparatedList(
             [&] { return parsePyValue(parser, elements.emplace_back()); }) ||
         parser.parseRParen()))
      return failure();
    value = builder.getArrayAttr(elements);
    return success();
  }
  if (succeeded(parser.parseOptionalKeyword(&keyword, {"none", "true", "false",
                                                       "ellipsis", "bytes",
                                                       "complex", "object"}))) {
    if (keyword == "none") {
      value = getPyNone(builder.getContext());
    } else if (keyword == "true" || keyword == "false") {
      value = builder.getBoolAttr(keyword == "true");
    } else if (keyword == "ellipsis") {
      value = makePyEllipsis(builder.getContext());
    } else if (keyword == "bytes") {
      StringAttr bytes;
      if (parser.parseLParen() || parser.parseAttribute(bytes) ||
          parser.parseRParen())
        return failure();
      value = makePyBytes(builder.getContext(), bytes.getValue());
    } else if (keyword == "complex") {
      FloatAttr real, imaginary;
      if (parser.parseLParen() || parser.parseAttribute(real) ||
          parser.parseComma() || parser.parseAttribute(imaginary) ||
          parser.parseRParen())
        return failure();
      value =
          makeSingleEntry("complex", builder.getArrayAttr({real, imaginary}));
    } else {
      int64_t index;
      if (parser.parseInteger(index))
        return failure();
      value = makePyObject(builder.getContext(), index);
    }
    return success();
  }
  if (parser.parseAttribute(value))
    return failure();
  if (!isPyValue(value))
    return parser.emitError(loc, "expected a Python value, found ") << value;
  return success();
}

void printPyValue(OpAsmPrinter &printer, Attribute value) {
  if (auto tuple = dyn_cast<ArrayAttr>(value)) {
    printer << "(";
    llvm::interleaveComma(tuple, printer, [&](Attribute element) {
      printPyValue(printer, element);
    });
    printer << ")";
  } else if (isPyNone(value)) {
    printer << "none";
  } else if (isPyEllipsis(value)) {
    printer << "ellipsis";
  } else if (StringAttr bytes = getPyBytes(value)) {
    printer << "bytes(" << bytes << ")";
  } else if (ArrayAttr parts = getPyComplex(value)) {
    printer << "complex(" << parts[0] << ", " << parts[1] << ")";
  } else if (IntegerAttr index = getPyObject(value)) {
    printer << "object " << index.getInt();
  } else if (auto number = dyn_cast<IntegerAttr>(value);
             number && number.getType().isInteger(64)) {
    printer << number.getInt();
  } else {
    printer << value;
  }
}

} // namespace pyjit::refgraph
