//===- Pyjit.cpp - The dialect of attributes ------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "dialects/pyjit/IR/Pyjit.h"
#include "dialects/pyjit/IR/Attributes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/SymbolTable.h"

using namespace mlir;
using namespace pyjit;

#include "dialects/pyjit/IR/PyjitDialect.cpp.inc"

void PyjitDialect::initialize() {}

namespace {

/// Where an attribute may stand.
enum Places : unsigned { Function = 1, Argument = 2, Call = 4, Module = 8 };

/// What an attribute's integers number.
enum class Numbers {
  Any,
  Amount,  ///< any number that is not negative
  Natural, ///< something of another function
  Place,   ///< a dimension, or an input of the function around a call; or -1
  Count,   ///< that many of the function's results
  Result,
  Input
};

struct Rule {
  llvm::StringLiteral name;
  unsigned places;
  bool (*fits)(Attribute value);
  const char *expected;
  Numbers numbers = Numbers::Any;
  Numbers second = numbers; ///< the other one of a pair
};

bool isUnit(Attribute value) { return isa<UnitAttr>(value); }
bool isString(Attribute value) { return isa<StringAttr>(value); }
bool isInteger(Attribute value) {
  auto integer = dyn_cast<IntegerAttr>(value);
  return integer && integer.getType().isSignlessIntOrIndex() &&
         integer.getValue().getBitWidth() <= 64;
}
bool isIntegers(Attribute value) { return isa<DenseI64ArrayAttr>(value); }
bool isBytes(Attribute value) { return isa<DenseI32ArrayAttr>(value); }
bool isMap(Attribute value) {
  auto map = dyn_cast<AffineMapAttr>(value);
  return map && map.getValue().getNumResults() == 1;
}
bool isSize(Attribute value) { return isInteger(value) || isMap(value); }
bool isThree(Attribute value) {
  auto array = dyn_cast<DenseI32ArrayAttr>(value);
  return array && array.size() == 3;
}
bool isLists(Attribute value) {
  auto list = dyn_cast<ArrayAttr>(value);
  return list && llvm::all_of(list, llvm::IsaPred<DenseI64ArrayAttr>);
}
bool isStrings(Attribute value) {
  auto list = dyn_cast<ArrayAttr>(value);
  return list && llvm::all_of(list, llvm::IsaPred<StringAttr>);
}
bool isSources(Attribute value) {
  auto list = dyn_cast<ArrayAttr>(value);
  return list && llvm::all_of(list, [](Attribute entry) {
           auto source = dyn_cast<DenseI64ArrayAttr>(entry);
           return source && source.size() == 2;
         });
}
/// Sources of which neither a result nor an input is named twice.
bool isUpdates(Attribute value) {
  if (!isSources(value))
    return false;
  llvm::SmallDenseSet<int64_t> results, inputs;
  return llvm::all_of(cast<ArrayAttr>(value).getAsRange<DenseI64ArrayAttr>(),
                      [&](auto update) {
                        return results.insert(update[0]).second &&
                               inputs.insert(update[1]).second;
                      });
}

const Rule kRules[] = {
    {attribute::kStage, Module, isString, "a string"},
    {attribute::kDevice, Function | Argument | Call, isString, "a string"},
    {attribute::kDefaultDtype, Function,
     [](Attribute value) { return isa<TypeAttr>(value); }, "a type"},
    {attribute::kSymbols, Function, isSources, "arrays of an input and a dim",
     Numbers::Input, Numbers::Place},
    {attribute::kPrepare, Function, isUnit, "no value"},
    {attribute::kInputs, Function, isIntegers, "an array of i64",
     Numbers::Natural},
    {attribute::kDigests, Function, isStrings, "an array of strings"},
    {attribute::kSources, Function, isLists, "arrays of i64", Numbers::Input},
    {attribute::kGradientInputs, Function, isIntegers, "an array of i64",
     Numbers::Natural},
    {attribute::kGradientResults, Function, isIntegers, "an array of i64",
     Numbers::Natural},
    {attribute::kGradientViews, Function, isInteger, "an integer",
     Numbers::Count},
    {attribute::kReaches, Function, isLists, "arrays of i64", Numbers::Natural},
    {attribute::kReads, Function, isLists, "arrays of i64", Numbers::Natural},
    {attribute::kVariesWith, Function, isLists, "arrays of i64",
     Numbers::Natural},
    {attribute::kGroups, Function, isLists, "arrays of i64", Numbers::Natural},
    {attribute::kLeads, Function, isLists, "arrays of i64", Numbers::Natural},
    {attribute::kReachesDirectly, Function, isLists, "arrays of i64",
     Numbers::Natural},
    {attribute::kKeeps, Function, isIntegers, "an array of i64",
     Numbers::Natural},
    {attribute::kStops, Function, isIntegers, "an array of i64",
     Numbers::Natural},
    {attribute::kSaved, Function, isInteger, "an integer", Numbers::Count},
    {attribute::kUpdates, Function, isUpdates,
     "arrays of a result and an input, each named once", Numbers::Result,
     Numbers::Input},
    {attribute::kParam, Argument, isUnit, "no value"},
    {attribute::kTrained, Argument, isUnit, "no value"},
    {attribute::kCached, Argument, isInteger, "an integer", Numbers::Natural},
    {attribute::kInput, Argument, isInteger, "an integer", Numbers::Natural},
    {attribute::kSeen, Argument, isInteger, "an integer", Numbers::Natural},
    {attribute::kResult, Argument, isInteger, "an integer", Numbers::Natural},
    {attribute::kGradient, Argument, isInteger, "an integer", Numbers::Natural},
    {attribute::kElements, Argument, isIntegers, "an array of i64"},
    {attribute::kVendorCall, Call, isUnit, "no value"},
    {attribute::kMustRun, Call, isUnit, "no value"},
    {attribute::kPacked, Call, isUnit, "no value"},
    {attribute::kReadThrough, Call, isUnit, "no value"},
    {attribute::kTakesKernel, Call, isString, "a string"},
    {attribute::kGradientAt, Call, isInteger, "an integer", Numbers::Natural},
    {attribute::kSavedInEager, Call, isUnit, "no value"},
    {attribute::kInPlace, Call, isIntegers, "an array of i64", Numbers::Place},
    {attribute::kPart, Call, isUnit, "no value"},
    {attribute::kUndo, Call, isUnit, "no value"},
    {attribute::kKernel, Function, isUnit, "no value"},
    {attribute::kMayOverlap, Function, isSources,
     "arrays of a result and an operand", Numbers::Natural},
    {attribute::kBatch, Function, isInteger, "an integer", Numbers::Amount},
    {attribute::kWork, Function, isSize, "an integer or a map of one result",
     Numbers::Amount},
    {attribute::kGrain, Function, isSize, "an integer or a map of one result",
     Numbers::Amount},
    {attribute::kReadsSymbols, Function,
     [](Attribute value) { return isUnit(value) || isIntegers(value); },
     "no value or an array of i64"},
    {attribute::kSymbol, Function, isString, "a string"},
    {attribute::kGrid, Function, isThree, "an array of three i32",
     Numbers::Natural},
    {attribute::kBlock, Function, isThree, "an array of three i32",
     Numbers::Natural},
    {attribute::kBlocks, Function, isMap, "a map of one result"},
    {attribute::kShared, Function, isInteger, "an integer", Numbers::Amount},
    {attribute::kAlign, Function, isBytes, "an array of i32", Numbers::Natural},
    {attribute::kIndirect, Function,
     [](Attribute value) { return isa<DenseBoolArrayAttr>(value); },
     "an array of i1"},
    {attribute::kDeviceSizes, Function, isUnit, "no value"},
    {attribute::kWaits, Function, isUnit, "no value"},
    {attribute::kCluster, Function, isInteger, "an integer"},
    {attribute::kSchedule, Function,
     [](Attribute value) { return isa<DictionaryAttr>(value); },
     "a dictionary"},
    {attribute::kEntry, Function, isUnit, "no value"},
};

/// An attribute's integers, each with what it numbers.
SmallVector<std::pair<int64_t, Numbers>> numbersIn(const Rule &rule,
                                                   Attribute value) {
  SmallVector<std::pair<int64_t, Numbers>> found;
  if (auto integer = dyn_cast<IntegerAttr>(value))
    found.emplace_back(integer.getInt(), rule.numbers);
  if (auto integers = dyn_cast<DenseI64ArrayAttr>(value))
    for (int64_t number : integers.asArrayRef())
      found.emplace_back(number, rule.numbers);
  if (auto integers = dyn_cast<DenseI32ArrayAttr>(value))
    for (int64_t number : integers.asArrayRef())
      found.emplace_back(number, rule.numbers);
  if (auto lists = dyn_cast<ArrayAttr>(value))
    for (auto list : lists.getAsRange<DenseI64ArrayAttr>())
      for (auto [i, number] : llvm::enumerate(list.asArrayRef()))
        found.emplace_back(number, i == 1 ? rule.second : rule.numbers);
  return found;
}

/// Passes take what the numbers name without looking.
LogicalResult verifyNumbers(Operation *op, const Rule &rule, Attribute value) {
  // The function's own verifier comes later, and not every program is one.
  bool isOfCall = rule.places & Call && !(rule.places & Function);
  auto function = isOfCall ? op->getParentOfType<func::FuncOp>()
                           : dyn_cast<func::FuncOp>(op);
  auto given = function ? function->getAttrOfType<TypeAttr>(
                              function.getFunctionTypeAttrName())
                        : TypeAttr();
  auto type = given ? dyn_cast<FunctionType>(given.getValue()) : FunctionType();
  if (rule.numbers == Numbers::Any || isa<StringAttr>(value))
    return success();
  bool isOfResults =
      rule.numbers == Numbers::Result || rule.numbers == Numbers::Count;
  Region *body = function && isOfResults && !function.isExternal()
                     ? &function.getBody()
                     : nullptr;
  if (body &&
      (body->front().empty() || !isa<func::ReturnOp>(body->front().back())))
    return op->emitError("'") << rule.name
                              << "' belongs to a function whose first block "
                                 "ends in func.return";
  for (auto [number, what] : numbersIn(rule, value)) {
    int64_t least = what == Numbers::Place ? -1 : 0;
    int64_t most = what == Numbers::Amount ? INT64_MAX : INT32_MAX;
    if (type &&
        (what == Numbers::Input || (isOfCall && what == Numbers::Place)))
      most = int64_t(type.getNumInputs()) - 1;
    if (type && what == Numbers::Result)
      most = int64_t(type.getNumResults()) - 1;
    if (type && what == Numbers::Count)
      most = type.getNumResults();
    if (number >= least && number <= most)
      continue;
    InFlightDiagnostic error = op->emitError("'")
                               << rule.name << "' says " << number;
    if (number < least || !type)
      return error << ", which numbers nothing";
    return error << " of a function of " << type.getNumInputs()
                 << " inputs and " << type.getNumResults() << " results";
  }
  return success();
}

LogicalResult verifyAttribute(Operation *op, NamedAttribute given,
                              unsigned place, const char *placeName) {
  const Rule *rule = llvm::find_if(
      kRules, [&](const Rule &r) { return r.name == given.getName(); });
  if (rule == std::end(kRules))
    return op->emitError("'")
           << given.getName().getValue() << "' is no attribute of pyjit's";
  if (!(rule->places & place))
    return op->emitError("'") << given.getName().getValue()
                              << "' does not belong to " << placeName;
  if (!rule->fits(given.getValue()))
    return op->emitError("'") << given.getName().getValue() << "' takes "
                              << rule->expected << ", not " << given.getValue();
  return verifyNumbers(op, *rule, given.getValue());
}

} // namespace

LogicalResult PyjitDialect::verifyOperationAttribute(Operation *op,
                                                     NamedAttribute given) {
  if (isa<ModuleOp>(op))
    return verifyAttribute(op, given, Module, "a module");
  // A graph of a specialization has no symbol of its own.
  bool isFunction = isa<SymbolOpInterface>(op) ||
                    op->hasTrait<OpTrait::IsIsolatedFromAbove>();
  return verifyAttribute(op, given, isFunction ? Function : Call,
                         isFunction ? "a function" : "a call");
}

LogicalResult PyjitDialect::verifyRegionArgAttribute(Operation *op, unsigned,
                                                     unsigned,
                                                     NamedAttribute given) {
  return verifyAttribute(op, given, Argument, "an argument");
}

void pyjit::registerPyjitDialect(DialectRegistry &registry) {
  registry.insert<PyjitDialect>();
  registry.addExtension(+[](MLIRContext *context, func::FuncDialect *) {
    context->getOrLoadDialect<PyjitDialect>();
  });
}
