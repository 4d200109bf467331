//===- RefGraphSyntax.cpp - text format of the refgraph ops ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "dialects/refgraph/IR/RefGraphSyntax.h"
#include "mlir/IR/Builders.h"
#include "pyjit/Operators/CallArguments.h"

using namespace mlir;

namespace pyjit::refgraph {

//===----------------------------------------------------------------------===//
// Directives
//===----------------------------------------------------------------------===//

ParseResult parsePyValues(OpAsmParser &parser, ArrayAttr &values) {
  SmallVector<Attribute> list;
  if (parser.parseCommaSeparatedList(OpAsmParser::Delimiter::Square, [&] {
        return parsePyValue(parser, list.emplace_back());
      }))
    return failure();
  values = parser.getBuilder().getArrayAttr(list);
  return success();
}

void printPyValues(OpAsmPrinter &printer, Operation *, ArrayAttr values) {
  printer << "[";
  llvm::interleaveComma(values, printer,
                        [&](Attribute value) { printPyValue(printer, value); });
  printer << "]";
}

ParseResult parseSelector(OpAsmParser &parser, SelectorAttr &selector,
                          Attribute &key, StringAttr &label) {
  SMLoc loc = parser.getCurrentLocation();
  StringRef keyword;
  if (parser.parseKeyword(&keyword))
    return failure();
  std::optional<Selector> value = symbolizeSelector(keyword);
  if (!value)
    return parser.emitError(loc, "unknown selector '") << keyword << "'";
  selector = SelectorAttr::get(parser.getContext(), *value);
  switch (*value) {
  case Selector::dict:
  case Selector::type:
  case Selector::code:
  case Selector::defaults:
  case Selector::kwdefaults:
  case Selector::globals:
  case Selector::grad:
  case Selector::data:
  case Selector::storage:
  case Selector::kept_cast:
    return success();
  default:
    break;
  }
  if (parser.parseLParen() || parsePyValue(parser, key))
    return failure();
  bool labelled = *value == Selector::arg || *value == Selector::cell;
  if (labelled && succeeded(parser.parseOptionalComma()) &&
      parser.parseAttribute(label))
    return failure();
  return parser.parseRParen();
}

void printSelector(OpAsmPrinter &printer, Operation *, SelectorAttr selector,
                   Attribute key, StringAttr label) {
  printer << stringifySelector(selector.getValue());
  if (!key)
    return;
  printer << "(";
  printPyValue(printer, key);
  if (label)
    printer << ", " << label;
  printer << ")";
}

/// `keyword(index)` if the keyword follows.
static ParseResult parseOptionalIndex(OpAsmParser &parser, StringRef keyword,
                                      IntegerAttr &index) {
  if (failed(parser.parseOptionalKeyword(keyword)))
    return success();
  int64_t value;
  if (parser.parseLParen() || parser.parseInteger(value) ||
      parser.parseRParen())
    return failure();
  index = parser.getBuilder().getI64IntegerAttr(value);
  return success();
}

ParseResult parseChecks(OpAsmParser &parser, IntegerAttr &exactType,
                        Attribute &equals, IntegerAttr &identity) {
  if (parseOptionalIndex(parser, "type", exactType))
    return failure();
  if (succeeded(parser.parseOptionalKeyword("equals")) &&
      (parser.parseLParen() || parsePyValue(parser, equals) ||
       parser.parseRParen()))
    return failure();
  return parseOptionalIndex(parser, "is", identity);
}

/// Each check after a blank.
static void printChecksAfter(OpAsmPrinter &printer, IntegerAttr exactType,
                             Attribute equals, IntegerAttr identity) {
  if (exactType)
    printer << " type(" << exactType.getInt() << ")";
  if (equals) {
    printer << " equals(";
    printPyValue(printer, equals);
    printer << ")";
  }
  if (identity)
    printer << " is(" << identity.getInt() << ")";
}

void printChecks(OpAsmPrinter &printer, Operation *, IntegerAttr exactType,
                 Attribute equals, IntegerAttr identity) {
  printChecksAfter(printer, exactType, equals, identity);
}

ParseResult parseSourceAndChecks(OpAsmParser &parser, SelectorAttr &selector,
                                 Attribute &key, StringAttr &label,
                                 IntegerAttr &exactType, Attribute &equals,
                                 IntegerAttr &identity) {
  return failure(failed(parseSelector(parser, selector, key, label)) ||
                 failed(parseChecks(parser, exactType, equals, identity)));
}

void printSourceAndChecks(OpAsmPrinter &printer, Operation *op,
                          SelectorAttr selector, Attribute key,
                          StringAttr label, IntegerAttr exactType,
                          Attribute equals, IntegerAttr identity) {
  printSelector(printer, op, selector, key, label);
  printChecksAfter(printer, exactType, equals, identity);
}

ParseResult parseGetTypes(OpAsmParser &parser, SelectorAttr selector,
                          Type &holder, Type &result) {
  if (selector.getValue() == Selector::arg) {
    holder = ObjType::get(parser.getContext(), "external");
    return parser.parseType(result);
  }
  return failure(parser.parseType(holder) || parser.parseArrow() ||
                 parser.parseType(result));
}

void printGetTypes(OpAsmPrinter &printer, Operation *, SelectorAttr selector,
                   Type holder, Type result) {
  if (selector.getValue() != Selector::arg)
    printer << holder << " -> ";
  printer << result;
}

ParseResult parseExternalType(OpAsmParser &parser, Type &type) {
  type = ObjType::get(parser.getContext(), "external");
  return success();
}

void printExternalType(OpAsmPrinter &, Operation *, Type) {}

ParseResult parseIntType(OpAsmParser &parser, Type &type) {
  type = ObjType::get(parser.getContext(), "int");
  return success();
}

void printIntType(OpAsmPrinter &, Operation *, Type) {}

ParseResult parseConstantType(OpAsmParser &parser, Attribute value,
                              Type &type) {
  type = ObjType::get(parser.getContext(), getPyTypeName(value));
  return success();
}

void printConstantType(OpAsmPrinter &, Operation *, Attribute, Type) {}

/// `keyword [i, j]`; returns none when the keyword does not follow.
static OptionalParseResult parseOptionalNumbers(OpAsmParser &parser,
                                                StringRef keyword,
                                                DenseI64ArrayAttr &numbers) {
  if (failed(parser.parseOptionalKeyword(keyword)))
    return std::nullopt;
  SmallVector<int64_t> values;
  if (parser.parseCommaSeparatedList(OpAsmParser::Delimiter::Square, [&] {
        return parser.parseInteger(values.emplace_back());
      }))
    return failure();
  numbers = parser.getBuilder().getDenseI64ArrayAttr(values);
  return success();
}

ParseResult parseTensorCall(OpAsmParser &parser, UnresolvedOperands &operands,
                            ArrayAttr &args, DenseI64ArrayAttr &aliases,
                            DenseI64ArrayAttr &mutates) {
  if (operators::parseCallArguments(parser, operands, args))
    return failure();
  aliases = mutates = parser.getBuilder().getDenseI64ArrayAttr({});
  // In either order.
  while (true) {
    OptionalParseResult found =
        parseOptionalNumbers(parser, "aliases", aliases);
    if (!found.has_value())
      found = parseOptionalNumbers(parser, "mutates", mutates);
    if (!found.has_value())
      return success();
    if (failed(*found))
      return failure();
  }
}

static void printNumbers(OpAsmPrinter &printer, StringRef keyword,
                         ArrayRef<int64_t> numbers) {
  if (numbers.empty())
    return;
  printer << " " << keyword << " [";
  llvm::interleaveComma(numbers, printer);
  printer << "]";
}

void printTensorCall(OpAsmPrinter &printer, Operation *op,
                     OperandRange operands, ArrayAttr args,
                     DenseI64ArrayAttr aliases, DenseI64ArrayAttr mutates) {
  operators::printCallArguments(printer, op, operands, args);
  printNumbers(printer, "aliases", aliases);
  printNumbers(printer, "mutates", mutates);
}

//===----------------------------------------------------------------------===//
// create, replace
//===----------------------------------------------------------------------===//

static ParseResult parseOperandList(OpAsmParser &parser,
                                    UnresolvedOperands &operands) {
  return parser.parseOperandList(operands, OpAsmParser::Delimiter::Square);
}

static void printOperandList(OpAsmPrinter &printer, OperandRange operands) {
  printer << " [";
  printer.printOperands(operands);
  printer << "]";
}

/// `{K = %v, …}`
static ParseResult parsePairs(OpAsmParser &parser, ArrayAttr &keys,
                              UnresolvedOperands &operands) {
  SmallVector<Attribute> list;
  if (parser.parseCommaSeparatedList(OpAsmParser::Delimiter::Braces, [&] {
        return failure(failed(parsePyValue(parser, list.emplace_back())) ||
                       failed(parser.parseEqual()) ||
                       failed(parser.parseOperand(operands.emplace_back())));
      }))
    return failure();
  keys = parser.getBuilder().getArrayAttr(list);
  return success();
}

static void printPairs(OpAsmPrinter &printer, ArrayAttr keys,
                       OperandRange operands) {
  printer << " {";
  // Counts may differ in IR that the verifier is about to refuse.
  size_t count = std::min<size_t>(keys.size(), operands.size());
  llvm::interleaveComma(llvm::seq<size_t>(0, count), printer, [&](size_t i) {
    printPyValue(printer, keys[i]);
    printer << " = " << operands[i];
  });
  printer << "}";
}

ParseResult CreateOp::parse(OpAsmParser &parser, OperationState &result) {
  auto &properties = result.getOrAddProperties<Properties>();
  Builder &builder = parser.getBuilder();
  SmallVector<OpAsmParser::UnresolvedOperand> elements, items, entries;
  properties.item_keys = properties.attr_names = builder.getArrayAttr({});
  if (parser.parseAttribute(properties.kind) ||
      parseOptionalIndex(parser, "type", properties.exact_type))
    return failure();
  // `[` opens the elements; a list without any may be left out.
  OpAsmParser::Delimiter delimiter = OpAsmParser::Delimiter::OptionalSquare;
  if (parser.parseOperandList(elements, delimiter))
    return failure();
  if (succeeded(parser.parseOptionalKeyword("items")) &&
      parsePairs(parser, properties.item_keys, items))
    return failure();
  if (succeeded(parser.parseOptionalKeyword("attrs")) &&
      parsePairs(parser, properties.attr_names, entries))
    return failure();
  properties.operandSegmentSizes = {static_cast<int32_t>(elements.size()),
                                    static_cast<int32_t>(items.size()),
                                    static_cast<int32_t>(entries.size())};
  SmallVector<OpAsmParser::UnresolvedOperand> operands(elements);
  llvm::append_range(operands, items);
  llvm::append_range(operands, entries);
  FunctionType type;
  if (parser.parseOptionalAttrDict(result.attributes) ||
      parser.parseColonType(type) ||
      parser.resolveOperands(operands, type.getInputs(), parser.getNameLoc(),
                             result.operands))
    return failure();
  result.addTypes(type.getResults());
  return success();
}

void CreateOp::print(OpAsmPrinter &printer) {
  printer << " " << getKindAttr();
  if (auto type = getExactType())
    printer << " type(" << *type << ")";
  if (!getElements().empty() || (getItems().empty() && getEntries().empty()))
    printOperandList(printer, getElements());
  if (!getItemKeys().empty()) {
    printer << " items";
    printPairs(printer, getItemKeys(), getItems());
  }
  if (!getAttrNames().empty()) {
    printer << " attrs";
    printPairs(printer, getAttrNames(), getEntries());
  }
  printer.printOptionalAttrDict(
      (*this)->getAttrs(),
      {"kind", "exact_type", "item_keys", "attr_names", "operandSegmentSizes"});
  printer << " : ";
  printer.printFunctionalType(*this);
}

ParseResult ReplaceOp::parse(OpAsmParser &parser, OperationState &result) {
  OpAsmParser::UnresolvedOperand holder;
  SmallVector<OpAsmParser::UnresolvedOperand> values;
  ArrayAttr keys;
  Type holderType;
  SmallVector<Type> types;
  if (parser.parseOperand(holder))
    return failure();
  if (succeeded(parser.parseOptionalKeyword("items"))) {
    if (parsePairs(parser, keys, values))
      return failure();
    result.getOrAddProperties<Properties>().keys = keys;
  } else if (parseOperandList(parser, values)) {
    return failure();
  }
  if (parser.parseOptionalAttrDict(result.attributes) ||
      parser.parseColonType(holderType) || parser.parseComma() ||
      parser.parseCommaSeparatedList(
          OpAsmParser::Delimiter::Paren,
          [&] { return parser.parseType(types.emplace_back()); }) ||
      parser.resolveOperand(holder, holderType, result.operands) ||
      parser.resolveOperands(values, types, parser.getNameLoc(),
                             result.operands))
    return failure();
  return success();
}

void ReplaceOp::print(OpAsmPrinter &printer) {
  printer << " " << getHolder();
  if (ArrayAttr keys = getKeysAttr()) {
    printer << " items";
    printPairs(printer, keys, getValues());
  } else {
    printOperandList(printer, getValues());
  }
  printer.printOptionalAttrDict((*this)->getAttrs(), {"keys"});
  printer << " : " << getHolder().getType() << ", (";
  llvm::interleaveComma(getValues().getTypes(), printer);
  printer << ")";
}

//===----------------------------------------------------------------------===//
// mock, graph
//===----------------------------------------------------------------------===//

using Arguments = SmallVector<OpAsmParser::Argument>;

/// `keyword(%a: T, …)`, or nothing.
static ParseResult parseOptionalArguments(OpAsmParser &parser,
                                          StringRef keyword,
                                          Arguments &arguments) {
  if (failed(parser.parseOptionalKeyword(keyword)))
    return success();
  Arguments list;
  if (parser.parseArgumentList(list, OpAsmParser::Delimiter::Paren,
                               /*allowType=*/true))
    return failure();
  llvm::append_range(arguments, list);
  return success();
}

static void printArguments(OpAsmPrinter &printer,
                           Block::BlockArgListType arguments) {
  printer << "(";
  llvm::interleaveComma(arguments, printer, [&](BlockArgument argument) {
    printer.printRegionArgument(argument);
  });
  printer << ")";
}

ParseResult MockOp::parse(OpAsmParser &parser, OperationState &result) {
  auto &properties = result.getOrAddProperties<Properties>();
  Builder &builder = parser.getBuilder();
  Arguments arguments;
  if (parser.parseAttribute(properties.specialization) ||
      parseOptionalArguments(parser, "inputs", arguments))
    return failure();
  int64_t inputs = arguments.size();
  if (parseOptionalArguments(parser, "keeps", arguments))
    return failure();
  properties.num_inputs = builder.getI64IntegerAttr(inputs);
  properties.num_kept = builder.getI64IntegerAttr(arguments.size() - inputs);
  return failure(failed(parseOptionalArguments(parser, "results", arguments)) ||
                 parser.parseOptionalAttrDictWithKeyword(result.attributes) ||
                 parser.parseRegion(*result.addRegion(), arguments));
}

void MockOp::print(OpAsmPrinter &printer) {
  printer << " ";
  printer.printSymbolName(getSpecialization());
  for (auto [keyword, arguments] :
       {std::pair("inputs", getInputs()), std::pair("keeps", getKept()),
        std::pair("results", getResults())}) {
    if (arguments.empty())
      continue;
    printer << " " << keyword;
    printArguments(printer, arguments);
  }
  printer.printOptionalAttrDictWithKeyword(
      (*this)->getAttrs(), {"specialization", "num_inputs", "num_kept"});
  printer << " ";
  printer.printRegion(getBody(), /*printEntryBlockArgs=*/false);
}

ParseResult GraphOp::parse(OpAsmParser &parser, OperationState &result) {
  auto &properties = result.getOrAddProperties<Properties>();
  Arguments arguments;
  properties.mutates = parser.getBuilder().getDenseI64ArrayAttr({});
  if (parser.parseAttribute(properties.specialization) ||
      parser.parseArgumentList(arguments, OpAsmParser::Delimiter::Paren,
                               /*allowType=*/true))
    return failure();
  OptionalParseResult mutates =
      parseOptionalNumbers(parser, "mutates", properties.mutates);
  return failure((mutates.has_value() && failed(*mutates)) ||
                 parser.parseOptionalAttrDictWithKeyword(result.attributes) ||
                 parser.parseRegion(*result.addRegion(), arguments));
}

void GraphOp::print(OpAsmPrinter &printer) {
  printer << " ";
  printer.printSymbolName(getSpecialization());
  printArguments(printer, getBody().getArguments());
  printNumbers(printer, "mutates", getMutates());
  SmallVector<StringRef> known{"specialization", "mutates"};
  if (!getGradientViews())
    known.push_back("gradient_views");
  printer.printOptionalAttrDictWithKeyword((*this)->getAttrs(), known);
  printer << " ";
  printer.printRegion(getBody(), /*printEntryBlockArgs=*/false);
}

} // namespace pyjit::refgraph
