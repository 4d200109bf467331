//===- SegmentReads.cpp - what a segment reads of those before it ---------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A read, or a check, of an object is answered by what earlier segments made
// and wrote, where that is known; it becomes one of the whole trace where the
// object is older than the call and no segment has changed it; else it is
// refused.
//
//===----------------------------------------------------------------------===//

#include "dialects/refgraph/Transforms/SegmentComposer.h"

#include "dialects/refgraph/IR/ObjectTypes.h"

using namespace mlir;

namespace pyjit::refgraph {

/// What a segment reads after another has written is not what was there before
/// the call. `onePlace`: the read is of the place `key` alone.
LogicalResult SegmentComposer::checkUnwritten(Operation *read, Value holder,
                                              Attribute key, bool onePlace) {
  Value node = getNode(holder);
  Value owner = node;
  if (auto get = node.getDefiningOp<GetOp>();
      get && get.getSelector() == Selector::dict)
    owner = getNode(get.getHolder());
  for (Operation *write : writes) {
    Value written = getNode(write->getOperand(0));
    Value writtenOwner = written;
    if (auto get = written.getDefiningOp<GetOp>();
        get && get.getSelector() == Selector::dict)
      writtenOwner = getNode(get.getHolder());
    Attribute writtenKey;
    std::optional<Selector> selector;
    if (auto set = dyn_cast<SetOp>(write)) {
      writtenKey = set.getKeyAttr();
      selector = set.getSelector();
    } else if (auto del = dyn_cast<DeleteOp>(write)) {
      writtenKey = del.getKeyAttr();
      selector = del.getSelector();
    }
    // A class or a closure cell is read in ways that name it differently.
    bool elsewhere = selector && *selector != Selector::typeattr &&
                     *selector != Selector::cell;
    if (selector && !elsewhere)
      return read->emitError(
          "reads after a segment that writes to a class or a "
          "closure");
    if (writtenOwner != owner)
      continue;
    if (selector && onePlace && key && writtenKey && key != writtenKey)
      continue;
    // What is appended changes no field.
    if (auto field = dyn_cast<GetOp>(read);
        isa<AppendOp>(write) && field && field.getSelector() == Selector::field)
      continue;
    // Another entry of its dict makes an object neither of another class nor
    // one with another dict.
    auto get = dyn_cast<GetOp>(read);
    if (get && elsewhere && *selector != Selector::slot &&
        *selector != Selector::grad &&
        (get.getSelector() == Selector::type ||
         get.getSelector() == Selector::dict))
      continue;
    return read->emitError("reads an object that an earlier segment writes to");
  }
  return success();
}

/// What an earlier segment has left at the very place that is read; null if
/// that cannot be told.
Value SegmentComposer::findWritten(Value holder, Selector selector,
                                   Attribute key) {
  // An instance's attribute is an entry of its `__dict__`.
  struct Spot {
    Value owner;
    Selector selector;
    Attribute key;
  };
  auto spotOf = [&](Value of, Selector selector, Attribute key) {
    Value node = getNode(of);
    auto dict = node.getDefiningOp<GetOp>();
    if (!dict || dict.getSelector() != Selector::dict)
      return Spot{node, selector, key};
    return Spot{getNode(dict.getHolder()),
                selector == Selector::item ? Selector::attr : selector, key};
  };
  Spot read = spotOf(holder, selector, key);
  if ((read.selector != Selector::attr && read.selector != Selector::item) ||
      !read.key)
    return {};
  for (Operation *write : llvm::reverse(writes)) {
    auto set = dyn_cast<SetOp>(write);
    if (set && (set.getSelector() == Selector::typeattr ||
                set.getSelector() == Selector::cell))
      return {};
    if (!set) {
      if (spotOf(write->getOperand(0), read.selector, {}).owner == read.owner)
        return {};
      continue;
    }
    Spot spot = spotOf(set.getHolder(), set.getSelector(), set.getKeyAttr());
    if (spot.owner != read.owner)
      continue;
    if (spot.selector != read.selector || !spot.key)
      return {};
    if (spot.key == read.key)
      return set.getValue();
  }
  return {};
}

/// What a created object holds at a place; null if that cannot be told.
Value SegmentComposer::resolve(CreateOp created, Selector selector,
                               Attribute key) {
  StringRef kind = created.getKind();
  auto lookup = [&](ArrayAttr keys, ValueRange values) {
    for (auto [name, value] : llvm::zip(keys, values))
      if (name == key)
        return value;
    return Value();
  };
  if (selector == Selector::item && kind != "dict" &&
      !created.getElements().empty()) {
    auto index = dyn_cast_or_null<IntegerAttr>(key);
    if (!index || kind == "set" || kind == "frozenset" || kind == "slice" ||
        index.getInt() < 0 ||
        index.getInt() >= int64_t(created.getElements().size()))
      return {};
    return created.getElements()[index.getInt()];
  }
  if (selector == Selector::item)
    return lookup(created.getItemKeys(), created.getItems());
  if (selector == Selector::attr)
    return lookup(created.getAttrNames(), created.getEntries());
  if (selector == Selector::cell && kind == "cell" &&
      !created.getElements().empty())
    return created.getElements().front();
  if (selector == Selector::field && kind == "token") {
    auto name = dyn_cast_or_null<StringAttr>(key);
    bool resets = name && name.getValue() == "resets";
    if (resets && !isLastSet(created))
      return {};
    if (resets || (name && name.getValue() == "var"))
      return created.getElements()[0];
  }
  if (selector == Selector::field && kind == "method") {
    auto name = dyn_cast_or_null<StringAttr>(key);
    if (name && name.getValue() == "__func__")
      return created.getElements()[0];
    if (name && name.getValue() == "__self__")
      return created.getElements()[1];
  }
  return {};
}

/// Adds what a second read of a place demands to the first.
LogicalResult SegmentComposer::mergeChecks(GetOp get, GetOp into) {
  if (failed(mergeLift(get, into)))
    return failure();
  mergeSizes(get, into);
  auto differs = [&](StringRef what) {
    auto error = get.emitError("demands another ")
                 << what << " than an earlier segment";
    error.attachNote(into.getLoc()) << "read here";
    return error;
  };
  if (get.getResult().getType() != into.getResult().getType())
    return differs("type");
  auto take = [&](StringRef name) {
    Attribute wanted = get->getAttr(name), had = into->getAttr(name);
    if (!wanted || wanted == had)
      return true;
    if (had)
      return false;
    into->setAttr(name, wanted);
    return true;
  };
  for (StringRef name : {"exact_type", "equals", "identity", "requires_grad",
                         "keyset", "param", "inference"})
    if (!take(name))
      return differs(name);
  if (isa<TensorType>(get.getResult().getType()) &&
      get.getOffset().value_or(0) != into.getOffset().value_or(0))
    return differs("storage offset");
  return success();
}

/// The read `get` finds `value`: now, or by a check.
LogicalResult SegmentComposer::bind(GetOp get, Value value) {
  Operation *def = getNode(value).getDefiningOp();
  auto differs = [&] {
    return get.emitError("was recorded with another value than the segment "
                         "before leaves");
  };
  if (get.getResult().getType() != value.getType())
    return differs();
  keepSizes(value, get.getLoc());
  if (auto made = dyn_cast<CreateOp>(def)) {
    bool typed = !get.getExactTypeAttr() || made.getKind() != "instance" ||
                 get.getExactTypeAttr() == made.getExactTypeAttr();
    if (!typed || get.getEqualsAttr() || get.getIdentityAttr())
      return differs();
  } else if (auto constant = dyn_cast<ConstantOp>(def)) {
    // What a lifted number was in another call says nothing.
    if (get.getIdentityAttr() || (get.getEqualsAttr() && !get.getLift() &&
                                  get.getEqualsAttr() != constant.getValue()))
      return differs();
  } else if (isa<ArithOp, SizeOp, StrideOp>(def)) {
    return bindNumber(get, value);
  } else if (isa<TensorOp, IfOp>(def)) {
    int64_t offset = 0;
    if (auto call = dyn_cast<TensorOp>(def))
      offset = call.getOffset(cast<OpResult>(getNode(value)).getResultNumber());
    bool plain = (!get.getExactTypeAttr() ||
                  (tensorClass &&
                   get.getExactTypeAttr().getInt() == tensorClass.getInt())) &&
                 !get.getParam() && !get.getIdentityAttr() &&
                 !get.getEqualsAttr() &&
                 get.getRequiresGrad().value_or(false) == requiresGrad(value);
    if (!plain || int64_t(get.getOffset().value_or(0)) != offset)
      return differs();
  } else if (auto first = dyn_cast<GetOp>(def)) {
    if (failed(mergeChecks(get, first)))
      return failure();
    note(first); // it may be known by identity now
  } else if (auto object = dyn_cast<ObjectOp>(def)) {
    if ((get.getIdentity() && *get.getIdentity() != object.getIndex()) ||
        get.getEqualsAttr() || isa<TensorType>(value.getType()))
      return differs();
    if (get.getExactTypeAttr()) {
      auto type = ObjType::get(get.getContext(), "type");
      auto check =
          GetOp::create(*reads, get.getLoc(), type, value, Selector::type);
      check.setIdentityAttr(get.getExactTypeAttr());
      note(check);
    }
  } else {
    return differs();
  }
  mapping.map(get.getResult(), value);
  return success();
}

LogicalResult SegmentComposer::appendRead(GetOp get) {
  Value holder = mapping.lookup(get.getHolder());
  // Operators of an earlier segment may have written it.
  if (get.getSelector() == Selector::data)
    return get.emitError("stays a graph break: a number that the host keeps in "
                         "a tensor");
  if (resetsFromBefore && isObject(holder.getType(), "_contextvars.ContextVar"))
    return get.emitError("stays a graph break: a context variable that an "
                         "earlier segment has reset");
  if (get.getSelector() == Selector::field)
    for (const Variable &set : llvm::reverse(variables))
      if (set.variable == getNode(holder))
        return bind(get, set.value);
  if (Value written = findWritten(holder, get.getSelector(), get.getKeyAttr()))
    return bind(get, written);
  if (failed(checkUnwritten(get, holder, get.getKeyAttr(),
                            get.getSelector() == Selector::attr ||
                                get.getSelector() == Selector::item ||
                                get.getSelector() == Selector::slot ||
                                get.getSelector() == Selector::grad)))
    return failure();
  Operation *def = getNode(holder).getDefiningOp();
  if (auto created = dyn_cast<CreateOp>(def)) {
    if (get.getSelector() == Selector::type && get.getIdentityAttr()) {
      if (created.getExactTypeAttr() != get.getIdentityAttr())
        return get.emitError("finds another type than the segment before made");
      mapping.map(get.getResult(),
                  getObject(get.getIdentityAttr(), get.getResult().getType(),
                            get.getLoc()));
      return success();
    }
    Value held = resolve(created, get.getSelector(), get.getKeyAttr());
    if (!held)
      return get.emitError("reads of an object that the segment before made");
    return bind(get, held);
  }
  if (!isa<GetOp, ObjectOp, ExternalOp>(def))
    return get.emitError("reads of an object that the segment before made");
  auto it = places.find(
      {getNode(holder), static_cast<int>(get.getSelector()), get.getKeyAttr()});
  if (it != places.end()) {
    if (failed(mergeChecks(get, it->second)))
      return failure();
    mapping.map(get.getResult(), it->second.getResult());
    keepSizes(it->second.getResult(), get.getLoc());
    note(it->second);
    return success();
  }
  // Eager may cast a weight later than at the call's start, or never.
  if (get.getSelector() == Selector::kept_cast)
    return get.emitError("reads a weight's cast, which autocast keeps only "
                         "from here on");
  note(reads->clone(*get, mapping));
  fresh.insert(mapping.lookup(get.getResult()));
  keepSizes(mapping.lookup(get.getResult()), get.getLoc());
  return success();
}

/// Whether a created object is a dict, or an instance of a class made of one,
/// that holds `item_keys`. An instance that holds nothing may be of any class.
static bool hasItems(CreateOp created) {
  return created.getKind() == "dict" || !created.getItems().empty();
}

/// What `len` says of a created object; -1 if that cannot be told.
static int64_t countElements(CreateOp created) {
  if (hasItems(created))
    return created.getItems().size();
  if (created.getKind() == "instance" && created.getElements().empty())
    return -1;
  return created.getElements().size();
}

/// Everything that is asked of objects, other than what they hold.
LogicalResult SegmentComposer::appendCheck(Operation *op) {
  SmallVector<Value> operands;
  bool made = false;
  for (Value operand : op->getOperands()) {
    operands.push_back(mapping.lookup(operand));
    made |= !isa<GetOp, ObjectOp, ExternalOp>(
        getNode(operands.back()).getDefiningOp());
  }
  if (isa<SameOp, DistinctOp>(op)) {
    bool same = getNode(operands[0]) == getNode(operands[1]);
    // An object that no segment has read yet may turn out to be another one.
    // Two that segments before this one took are two.
    bool mayAlias =
        !made && isa<SameOp>(op) && llvm::any_of(operands, [&](Value value) {
          return fresh.contains(getNode(value));
        });
    if (same != isa<SameOp>(op) && !mayAlias)
      return op->emitError("does not hold of what the segment before leaves");
    if (!made && !same)
      note(reads->clone(*op, mapping));
    return success();
  }
  auto absent = dyn_cast<AbsentOp>(op);
  auto present = dyn_cast<HoldsOp>(op);
  if (present && findWritten(operands[0], Selector::item, present.getKey()))
    return success();
  Attribute key = absent    ? absent.getKeyAttr()
                  : present ? present.getKeyAttr()
                            : Attribute();
  if (failed(checkUnwritten(op, operands[0], key, absent || present)))
    return failure();
  if (!made) {
    reads->clone(*op, mapping);
    return success();
  }
  auto created = getNode(operands[0]).getDefiningOp<CreateOp>();
  bool holds = false;
  if (auto length = dyn_cast<LengthOp>(op); length && created) {
    holds = countElements(created) == int64_t(length.getLength());
  } else if (auto keys = dyn_cast<KeysOp>(op); keys && created) {
    holds = hasItems(created) && created.getItemKeys() == keys.getKeysAttr();
  } else if (present && created) {
    holds = llvm::is_contained(created.getItemKeys(), present.getKey());
  } else if (auto offset = dyn_cast<OffsetOp>(op)) {
    auto result = cast<OpResult>(getNode(operands[0]));
    auto call = dyn_cast<TensorOp>(result.getOwner());
    holds = call && call.getOffset(result.getResultNumber()) ==
                        int64_t(offset.getOffset());
  } else if (absent && isa<TensorType>(operands[0].getType())) {
    // The recorder refuses to hand on a tensor that was given attributes.
    holds = absent.getSelector() == Selector::attr;
  } else if (absent && created && absent.getSelector() == Selector::item) {
    // Other keys than strings may be equal without looking alike.
    holds = hasItems(created) && isa<StringAttr>(absent.getKeyAttr()) &&
            llvm::all_of(created.getItemKeys(), llvm::IsaPred<StringAttr>) &&
            !llvm::is_contained(created.getItemKeys(), absent.getKeyAttr());
  } else if (absent && created && absent.getSelector() == Selector::cell) {
    holds = created.getKind() == "cell" && created.getElements().empty();
  } else if (absent && created) {
    holds = absent.getSelector() == Selector::attr &&
            created.getKind() == "instance" &&
            !resolve(created, Selector::attr, absent.getKeyAttr());
  }
  return holds
             ? success()
             : op->emitError("asks of an object that the segment before made");
}

} // namespace pyjit::refgraph
