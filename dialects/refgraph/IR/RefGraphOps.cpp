//===- RefGraphOps.cpp - verifiers of the refgraph ops --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads and writes of places: RefGraphPlaces.cpp; decisions and loops:
// RefGraphControl.cpp; the parts of a specialization: RefGraphParts.cpp.
//
//===----------------------------------------------------------------------===//

#include "dialects/refgraph/IR/ObjectTypes.h"
#include "dialects/refgraph/IR/PythonValues.h"
#include "dialects/refgraph/IR/RefGraph.h"
#include "dialects/refgraph/IR/RefGraphSyntax.h"
#include "mlir/IR/Builders.h"
#include "pyjit-rt/ScalarMath.h"
#include "pyjit/Operators/CallArguments.h"
#include "llvm/ADT/SmallSet.h"

#include <functional>

using namespace mlir;

namespace pyjit::refgraph {

/// What computes a number of Python's in the graph.
static bool isNumberTensor(TensorType type) {
  return type && !type.isSymbolic() && type.getRank() == 0 &&
         (type.getElementType().isF64() ||
          type.getElementType().isInteger(64) ||
          type.getElementType().isInteger(1));
}

//===----------------------------------------------------------------------===//
// Values and containers
//===----------------------------------------------------------------------===//

/// Whether a constant is a number of that type that fits 64 bits.
static bool isNumberOf(Attribute value, Type type) {
  if (auto integer = dyn_cast<IntegerAttr>(value))
    return isObject(type, "int") && !integer.getType().isInteger(1) &&
           integer.getValue().isSignedIntN(64);
  return isa<FloatAttr>(value) && isObject(type, "float");
}

static LogicalResult verifyNumbers(Operation *op) {
  for (Type type : op->getOperandTypes())
    if (!isNumberType(type))
      return op->emitOpError("takes ints and floats, not ") << type;
  return success();
}

LogicalResult ArithOp::verify() {
  int function = rt::findName(rt::kArithNames, getFunction().str().c_str());
  if (function < 0)
    return emitOpError("unknown function '") << getFunction() << "'";
  unsigned count = rt::isUnary(static_cast<rt::Arith>(function)) ? 1 : 2;
  if (getOperands().size() != count)
    return emitOpError("'") << getFunction() << "' takes " << count
                            << " operands, not " << getOperands().size();
  if (!isNumberOf(getValue(), getResult().getType()))
    return emitOpError("result ")
           << getValue() << " is no number of type " << getResult().getType();
  return verifyNumbers(*this);
}

bool GetOp::keepsValue() {
  if (!getEqualsAttr() || !getExactTypeAttr())
    return true;
  return llvm::any_of(getResult().getUsers(), [](Operation *user) {
    auto compare = dyn_cast<CompareOp>(user);
    if (!compare || compare.getFunction() != "is" || !compare.getOutcome())
      return false;
    return compare.getLhs().getDefiningOp<ConstantOp>() ||
           compare.getRhs().getDefiningOp<ConstantOp>();
  });
}

bool ArithOp::mayRaise() {
  int function = rt::findName(rt::kArithNames, getFunction().str().c_str());
  return function >= 0 && rt::mayRaise(static_cast<rt::Arith>(function));
}

/// An error is seen from outside.
void ArithOp::getEffects(
    SmallVectorImpl<MemoryEffects::EffectInstance> &effects) {
  if (mayRaise())
    effects.emplace_back(MemoryEffects::Write::get());
}

LogicalResult CompareOp::verify() {
  if (rt::findName(rt::kCompareNames, getFunction().str().c_str()) < 0)
    return emitOpError("unknown function '") << getFunction() << "'";
  return verifyNumbers(*this);
}

template <typename OpTy>
static LogicalResult verifyDim(OpTy op, int64_t known, const char *what) {
  auto type = cast<TensorType>(op.getTensor().getType());
  if (!isObject(op.getResult().getType(), "int"))
    return op.emitOpError("result has type ") << op.getResult().getType();
  if (op.getDim() >= type.getRank())
    return op.emitOpError("asks for ")
           << what << " " << op.getDim() << " of " << type;
  if (!ShapedType::isDynamic(known) &&
      known != static_cast<int64_t>(op.getValue()))
    return op.emitOpError("is ") << op.getValue() << ", but " << what << " "
                                 << op.getDim() << " of " << type << " is not";
  return success();
}

static TensorType typeOf(Value tensor) {
  return cast<TensorType>(tensor.getType());
}

static int64_t at(ArrayRef<int64_t> numbers, uint64_t i) {
  return i < numbers.size() ? numbers[i] : ShapedType::kDynamic;
}

LogicalResult SizeOp::verify() {
  return verifyDim(*this, at(typeOf(getTensor()).getShape(), getDim()), "size");
}

LogicalResult StrideOp::verify() {
  return verifyDim(*this, at(typeOf(getTensor()).getStrides(), getDim()),
                   "stride");
}

static LogicalResult verifyPyValue(Operation *op, Attribute value) {
  if (!isPyValue(value))
    return op->emitOpError("expected a Python value, found ") << value;
  return success();
}

LogicalResult ConstantOp::verify() { return verifyPyValue(*this, getValue()); }

LogicalResult HoldsOp::verify() { return verifyPyValue(*this, getKey()); }

static LogicalResult verifyKeys(Operation *op, ArrayAttr keys) {
  llvm::SmallDenseSet<Attribute, 16> seen;
  for (Attribute key : keys) {
    if (failed(verifyPyValue(op, key)))
      return failure();
    if (!seen.insert(key).second)
      return op->emitOpError("key ") << key << " occurs twice";
  }
  return success();
}

/// Of a check of a group of which the first ones are written.
template <typename OpTy>
static LogicalResult verifyGroup(OpTy op, StringRef what, StringRef twice) {
  if (op.getWritten().empty() || op->getNumOperands() < 2)
    return op.emitOpError("needs a written ") << what << " and another one";
  llvm::SmallDenseSet<Value> seen;
  for (Value value : op->getOperands())
    if (!seen.insert(value).second)
      return op.emitOpError("lists ") << (what == "object" ? "an " : "a ")
                                      << what << " twice, which " << twice;
  return success();
}

LogicalResult DisjointOp::verify() {
  return verifyGroup(*this, "tensor", "overlaps itself");
}

LogicalResult UnaliasedOp::verify() {
  return verifyGroup(*this, "object", "is no other one than itself");
}

LogicalResult KeysOp::verify() { return verifyKeys(*this, getKeys()); }

LogicalResult TableOp::verify() {
  if (!llvm::isPowerOf2_64(getPlaces().size()))
    return emitOpError("a set's table has a power of two of places, not ")
           << getPlaces().size();
  for (int64_t place : getPlaces())
    if (place < 0 || place > 2)
      return emitOpError("a place is 0, 1 or 2, not ") << place;
  return success();
}

ArrayRef<StringRef> StateOp::getFlagNames() {
  static constexpr StringRef names[] = {"grad_mode",
                                        "inference_mode",
                                        "autocast_cpu",
                                        "autocast_cuda",
                                        "autocast_cache",
                                        "deterministic",
                                        "deterministic_warn_only",
                                        "cudnn_enabled",
                                        "mkldnn_enabled",
                                        "torch_function_mode",
                                        "dispatch_mode",
                                        "handles_exception",
                                        "autocast_nested",
                                        "saved_tensor_hooks",
                                        "sdp_flash",
                                        "sdp_mem_efficient",
                                        "sdp_math",
                                        "sdp_cudnn",
                                        "sdp_overrideable"};
  return names;
}

ArrayRef<StringRef> StateOp::getTypeNames() {
  static constexpr StringRef names[] = {"default_dtype", "autocast_cpu_dtype",
                                        "autocast_cuda_dtype"};
  return names;
}

LogicalResult StateOp::verify() {
  for (NamedAttribute entry : getValues()) {
    StringRef name = entry.getName();
    if (llvm::is_contained(getFlagNames(), name)) {
      if (!isa<BoolAttr>(entry.getValue()))
        return emitOpError("state '") << name << "' needs true or false";
    } else if (llvm::is_contained(getTypeNames(), name)) {
      if (!isa<TypeAttr>(entry.getValue()))
        return emitOpError("state '") << name << "' needs an element type";
    } else if (name == getDeviceName()) {
      auto index = dyn_cast<IntegerAttr>(entry.getValue());
      if (!index || !index.getType().isInteger(64) || index.getInt() < 0 ||
          index.getInt() > std::numeric_limits<int8_t>::max())
        return emitOpError("state '")
               << name << "' needs the index of a device";
    } else if (name == getDefaultDeviceName()) {
      auto mode = getValues().getAs<BoolAttr>("torch_function_mode");
      if (!isa<StringAttr>(entry.getValue()) || !mode || !mode.getValue())
        return emitOpError("state '")
               << name << "' needs a device, and torch_function_mode = true";
    } else {
      return emitOpError("unknown state '") << name << "'";
    }
  }
  return success();
}

/// `item()` of a tensor says what number it is.
static LogicalResult verifyNumber(CreateOp op) {
  auto tensor = dyn_cast<TensorType>(op.getElements().front().getType());
  if (!isNumberTensor(tensor))
    return op.emitOpError("of kind 'number' is made of a 0-dim tensor of f64, "
                          "i64 or i1, not of ")
           << op.getElements().front().getType();
  Type element = tensor.getElementType();
  StringRef name = element.isF64()        ? "float"
                   : element.isInteger(1) ? "bool"
                                          : "int";
  if (!isObject(op.getResult().getType(), name))
    return op.emitOpError("makes a number of type '")
           << name << "', not " << op.getResult().getType();
  return success();
}

LogicalResult CreateOp::verify() {
  if (getItemKeys().size() != getItems().size())
    return emitOpError("has ") << getItemKeys().size() << " keys but "
                               << getItems().size() << " items";
  if (getAttrNames().size() != getEntries().size())
    return emitOpError("has ")
           << getAttrNames().size() << " attribute names but "
           << getEntries().size() << " values";
  if (failed(verifyKeys(*this, getItemKeys())) ||
      failed(verifyKeys(*this, getAttrNames())))
    return failure();
  for (Attribute name : getAttrNames())
    if (!isa<StringAttr>(name))
      return emitOpError("attribute name ") << name << " is no string";

  StringRef kind = getKind();
  if (kind == "instance") {
    if (!getExactType())
      return emitOpError("of an instance needs its type");
    if (!getElements().empty() && !getItems().empty())
      return emitOpError("has both elements and items");
    return success();
  }
  if (kind == "iterator") {
    if (!getExactType() || getElements().empty() || !getItems().empty() ||
        !getEntries().empty())
      return emitOpError("of an iterator needs its type and its parts");
    return success();
  }
  if (kind == "deque") {
    if (getExactType() || !getItems().empty() ||
        getAttrNames() != Builder(getContext()).getStrArrayAttr({"maxlen"}))
      return emitOpError("of a deque takes elements and its maxlen");
    return success();
  }
  bool isSet = kind == "set" || kind == "frozenset";
  if (isSet && !getExactType() && getItems().empty() &&
      getAttrNames() == Builder(getContext()).getStrArrayAttr({"table"}))
    return success();
  if (getExactType() || !getEntries().empty())
    return emitOpError("of kind '")
           << kind << "': only an instance has a type and attributes";
  if (kind == "dict") {
    if (!getElements().empty())
      return emitOpError("of a dict takes items, not elements");
    return success();
  }
  if (!getItems().empty())
    return emitOpError("of kind '") << kind << "' takes no items";
  std::optional<unsigned> count;
  if (kind == "slice" || kind == "range" || kind == "range_iterator")
    count = 3;
  else if (kind == "function")
    count = 6;
  else if (kind == "method" || kind == "token")
    count = 2;
  else if (kind == "number" || (kind == "cell" && !getElements().empty()))
    count = 1;
  else if (kind == "generator" && getElements().empty())
    return emitOpError("of kind 'generator' lacks the function that makes it");
  else if (kind != "cell" && kind != "generator" &&
           !llvm::is_contained({"tuple", "list", "set", "frozenset", "size"},
                               kind))
    return emitOpError("unknown kind '") << kind << "'";
  if (count && getElements().size() != *count)
    return emitOpError("of kind '")
           << kind << "' takes " << *count << " elements, not "
           << getElements().size();
  if (kind == "number")
    return verifyNumber(*this);
  return success();
}

LogicalResult ReplaceOp::verify() {
  ArrayAttr keys = getKeysAttr();
  if (!keys)
    return success();
  if (keys.size() != getValues().size())
    return emitOpError("has ")
           << keys.size() << " keys but " << getValues().size() << " items";
  return verifyKeys(*this, keys);
}

//===----------------------------------------------------------------------===//
// Tensors
//===----------------------------------------------------------------------===//

bool TensorOp::hasOperatorTrait(StringRef name) {
  ArrayAttr traits = getTraitsAttr();
  return traits && llvm::any_of(traits.getAsRange<StringAttr>(),
                                [&](StringAttr t) { return t == name; });
}

/// Numbers and tensors stand where the arguments have a place for them.
static LogicalResult verifyOperands(TensorOp op) {
  LogicalResult numbers = success();
  unsigned next = 0;
  std::function<void(Attribute)> look = [&](Attribute arg) {
    if (auto list = dyn_cast<ArrayAttr>(arg)) {
      llvm::for_each(list, look);
      return;
    }
    bool number = operators::isNumberOperand(arg);
    if (!number && !operators::isOperandPlaceholder(arg))
      return;
    unsigned operand = next++;
    Type type = op.getInputs()[operand].getType();
    bool fits = operators::isSizeOperand(arg) ? isObject(type, "int")
                : number ? isNumberType(type) ||
                               isNumberTensor(dyn_cast<TensorType>(type))
                         : isa<TensorType>(type);
    if (!fits)
      numbers = op.emitOpError("operand ")
                << operand << " of type " << type << " stands in place of "
                << (operators::isSizeOperand(arg) ? "an int"
                    : number                      ? "a number"
                                                  : "a tensor");
  };
  llvm::for_each(op.getArgs(), look);
  return numbers;
}

/// What shares memory is tensors of one device, and keeps its type.
static LogicalResult verifyMemory(TensorOp op) {
  for (int64_t operand : op.getAliases()) {
    auto shown = dyn_cast<TensorType>(op.getInputs()[operand].getType());
    if (!shown)
      return op.emitOpError("'aliases' names a number");
    ResultRange fresh = op.getResults().take_front(op.getNumFresh());
    if (!fresh.empty() && llvm::none_of(fresh, [&](Value result) {
          auto tensor = dyn_cast<TensorType>(result.getType());
          return tensor && tensor.getDevice() == shown.getDevice();
        }))
      return op.emitOpError("'aliases' names operand ")
             << operand << ", on whose device is no result";
  }
  for (auto [i, operand] : llvm::enumerate(op.getMutates())) {
    if (!isa<TensorType>(op.getInputs()[operand].getType()))
      return op.emitOpError("'mutates' names a number");
    auto before = cast<TensorType>(op.getInputs()[operand].getType());
    auto after = cast<TensorType>(op.getVersion(i).getType());
    if (before.getElementType() != after.getElementType() ||
        before.getDevice() != after.getDevice())
      return op.emitOpError("new version of operand ")
             << operand << " has type " << after << ", not " << before;
  }
  return success();
}

LogicalResult TensorOp::verify() {
  if (failed(
          operators::verifyCallArguments(*this, getArgs(), getInputs().size())))
    return failure();
  auto verifyNumbers = [&](StringRef keyword,
                           ArrayRef<int64_t> numbers) -> LogicalResult {
    llvm::SmallSet<int64_t, 4> seen;
    for (int64_t number : numbers) {
      if (number < 0 || number >= static_cast<int64_t>(getInputs().size()))
        return emitOpError("'") << keyword << "' names operand " << number
                                << " of " << getInputs().size();
      if (!seen.insert(number).second)
        return emitOpError("'")
               << keyword << "' names operand " << number << " twice";
    }
    return success();
  };
  if (failed(verifyNumbers("aliases", getAliases())) ||
      failed(verifyNumbers("mutates", getMutates())))
    return failure();
  if (getNumResults() < getMutates().size())
    return emitOpError("has ")
           << getNumResults() << " results, fewer than the "
           << getMutates().size() << " operands that it mutates";
  if (failed(verifyOperands(*this)) || failed(verifyMemory(*this)))
    return failure();
  if (!getAliases().empty() && getNumFresh() == 0)
    return emitOpError("'aliases' without a result that could share storage");
  if (auto offsets = getOffsets())
    if (offsets->size() != getNumFresh())
      return emitOpError("has ") << offsets->size() << " offsets for "
                                 << getNumFresh() << " fresh results";
  if (getNoGrad() &&
      llvm::none_of(getInputs().getTypes(), llvm::IsaPred<TensorType>))
    return emitOpError("'no_grad' without an operand that could require grad");
  return success();
}

void TensorOp::replaceArguments(ArrayAttr args, ValueRange kept) {
  SmallVector<int64_t> position;
  unsigned next = 0;
  for (Value input : getInputs())
    position.push_back(next < kept.size() && kept[next] == input ? next++ : -1);
  auto renumber = [&](ArrayRef<int64_t> numbers) {
    return llvm::map_to_vector(
        numbers, [&](int64_t number) { return position[number]; });
  };
  setAliases(renumber(getAliases()));
  setMutates(renumber(getMutates()));
  setArgsAttr(args);
  getInputsMutable().assign(kept);
}

LogicalResult DifferentiableOp::verify() {
  auto type = cast<TensorType>(getTensor().getType());
  if (!type.mayHaveGradient())
    return emitOpError("on elements that have no gradient: ") << type;
  return success();
}

LogicalResult ShownOp::verify() {
  if (getMode() == "detached" || getMode() == "view of detached" || isData() ||
      getMode() == "no_grad" || getMode() == "grad" ||
      getMode() == "one of several" || getMode() == "reshaped" || isOfItself())
    return success();
  return emitOpError("in an unknown way: '") << getMode() << "'";
}

LogicalResult ViewOp::verify() {
  auto base = cast<TensorType>(getBase().getType());
  auto type = cast<TensorType>(getResult().getType());
  if (base.getDevice() != type.getDevice())
    return emitOpError("moves ") << base << " to another device";
  bool known = true;
  auto look = [&](const analysis::SizePolynomial &size) {
    size.walkSymbols(
        [&](unsigned symbol) { known &= symbol < getSymbols().size(); });
  };
  for (unsigned i = 0; i < type.getRank(); ++i) {
    look(type.getSize(i));
    look(type.getStride(i));
  }
  if (AffineMapAttr plus = getPlusAttr())
    look(*analysis::SizePolynomial::fromAffine(
        operators::getSizeArgument(plus)));
  return known ? success() : emitOpError("has symbols without a number");
}

} // namespace pyjit::refgraph

#define GET_OP_CLASSES
#include "dialects/refgraph/IR/RefGraphOps.cpp.inc"
