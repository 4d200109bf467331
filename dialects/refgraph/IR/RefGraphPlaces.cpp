//===- RefGraphPlaces.cpp - verifiers of reads and writes of places -------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A place is a holder, a selector and a key: an attribute, an item, a cell.
//
//===----------------------------------------------------------------------===//

#include "dialects/refgraph/IR/ObjectTypes.h"
#include "dialects/refgraph/IR/PythonValues.h"
#include "dialects/refgraph/IR/RefGraph.h"

using namespace mlir;

namespace pyjit::refgraph {

/// The selector has the key that it needs and stands on a holder that has such
/// places.
static LogicalResult verifySource(Operation *op, Type holder, Selector selector,
                                  Attribute key) {
  StringRef name = stringifySelector(selector);
  auto index = dyn_cast_or_null<IntegerAttr>(key);
  switch (selector) {
  case Selector::arg:
  case Selector::cell:
    if (!index || !index.getType().isInteger(64) || index.getInt() < 0)
      return op->emitOpError("selector '") << name << "' needs an index";
    break;
  case Selector::attr:
  case Selector::typeattr:
  case Selector::slot:
  case Selector::field:
    if (!isa_and_nonnull<StringAttr>(key))
      return op->emitOpError("selector '") << name << "' needs a name";
    break;
  case Selector::item:
    if (!key || !isPyValue(key))
      return op->emitOpError("selector 'item' needs a Python value");
    break;
  default:
    if (key)
      return op->emitOpError("selector '") << name << "' takes no key";
  }
  bool external = isObject(holder, "external");
  if (external != (selector == Selector::arg))
    return external
               ? op->emitOpError("selector '")
                     << name << "' on the external state: only 'arg' is"
               : op->emitOpError("selector 'arg' needs the external state");
  switch (selector) {
  case Selector::code:
  case Selector::defaults:
  case Selector::kwdefaults:
  case Selector::globals:
  case Selector::cell:
    // A frame's variable that nested functions share is a cell by itself.
    if (selector == Selector::cell && isObject(holder, "cell"))
      break;
    if (!isObject(holder, "function"))
      return op->emitOpError("selector '")
             << name << "' needs a function, not " << holder;
    break;
  case Selector::grad:
  case Selector::data:
  case Selector::storage:
    if (!isa<TensorType>(holder))
      return op->emitOpError("selector '")
             << name << "' needs a tensor, not " << holder;
    break;
  case Selector::kept_cast:
    if (!isa<TensorType>(holder))
      return op->emitOpError("selector 'kept_cast' needs a tensor, not ")
             << holder;
    break;
  case Selector::item:
    if (isa<TensorType>(holder))
      return op->emitOpError("selector 'item' on a tensor is an operator call");
    break;
  default:
    break;
  }
  return success();
}

static LogicalResult verifyWrite(Operation *op, Type holder, Selector selector,
                                 Attribute key) {
  switch (selector) {
  case Selector::attr:
  case Selector::item:
  case Selector::typeattr:
  case Selector::cell:
  case Selector::slot:
  case Selector::grad:
  case Selector::data:
  case Selector::storage:
    return verifySource(op, holder, selector, key);
  default:
    return op->emitOpError("selector '")
           << stringifySelector(selector) << "' cannot be written";
  }
}

/// Checks that go with a read value of `type`.
template <typename OpTy> static LogicalResult verifyChecks(OpTy op, Type type) {
  for (auto [name, index] : {std::pair("type", op.getExactType()),
                             std::pair("is", op.getIdentity())})
    if (index && *index > INT32_MAX) // negative, too
      return op.emitOpError("check '")
             << name << "' needs an object index, not "
             << static_cast<int64_t>(*index);
  Attribute equals = op.getEqualsAttr();
  if (equals && !isPyValue(equals))
    return op.emitOpError("check 'equals' needs a Python value, not ")
           << equals;
  if (isa<TensorType>(type)) {
    if (equals)
      return op.emitOpError("a tensor is not compared by value");
    return success();
  }
  if (op.getRequiresGradAttr() || op.getKeysetAttr() || op.getOffsetAttr())
    return op.emitOpError("tensor metadata on a value of type ") << type;
  return success();
}

/// Both, in order.
static DenseI64ArrayAttr joinDims(DenseI64ArrayAttr a, DenseI64ArrayAttr b) {
  if (!a || !b)
    return a ? a : b;
  SmallVector<int64_t> dims(a.asArrayRef());
  llvm::append_range(dims, b.asArrayRef());
  llvm::sort(dims);
  dims.erase(llvm::unique(dims), dims.end());
  return DenseI64ArrayAttr::get(a.getContext(), dims);
}

void GetOp::liftLayoutOf(GetOp other) {
  if (DenseI64ArrayAttr dims =
          joinDims(getLiftSizesAttr(), other.getLiftSizesAttr()))
    setLiftSizesAttr(dims);
  if (DenseI64ArrayAttr dims =
          joinDims(getLiftStridesAttr(), other.getLiftStridesAttr()))
    setLiftStridesAttr(dims);
}

LogicalResult GetOp::verify() {
  if (failed(verifySource(*this, getHolder().getType(), getSelector(),
                          getKeyAttr())))
    return failure();
  if (getSelector() == Selector::kept_cast &&
      (!isa<TensorType>(getResult().getType()) || hasObjectChecks()))
    return emitOpError("selector 'kept_cast' finds a tensor, of which only "
                       "metadata is checked");
  if (getSelector() == Selector::storage)
    return emitOpError("selector 'storage' is written, and never read");
  if (getUnchecked() && !isa<GuardsOp>((*this)->getParentOp()))
    return emitOpError("is 'unchecked' outside of guards");
  if (getLift() && !isNumberType(getResult().getType()))
    return emitOpError("lifts ")
           << getResult().getType() << ", which is no int or float";
  for (auto [lifted, what] :
       {std::pair(getLiftSizes(), "size"), {getLiftStrides(), "stride"}}) {
    if (!lifted)
      continue;
    auto tensor = dyn_cast<TensorType>(getResult().getType());
    if (!tensor)
      return emitOpError("lifts ") << what << "s of " << getResult().getType()
                                   << ", which is no tensor";
    for (int64_t dim : *lifted)
      if (dim < 0 || dim >= static_cast<int64_t>(tensor.getRank()))
        return emitOpError("lifts ") << what << " " << dim << " of " << tensor;
  }
  return verifyChecks(*this, getResult().getType());
}

LogicalResult AbsentOp::verify() {
  switch (getSelector()) {
  case Selector::attr:
  case Selector::item:
  case Selector::typeattr:
  case Selector::cell:
  case Selector::slot:
    return verifySource(*this, getHolder().getType(), getSelector(),
                        getKeyAttr());
  default:
    return emitOpError("selector '")
           << stringifySelector(getSelector()) << "' always finds something";
  }
}

LogicalResult CheckOp::verify() {
  return verifyChecks(*this, getValue().getType());
}

LogicalResult SetOp::verify() {
  return verifyWrite(*this, getHolder().getType(), getSelector(), getKeyAttr());
}

LogicalResult DeleteOp::verify() {
  return verifyWrite(*this, getHolder().getType(), getSelector(), getKeyAttr());
}

} // namespace pyjit::refgraph
