//===- GuardReads.cpp - what a trace read, each source once ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "dialects/refgraph/Transforms/GuardReads.h"
#include "dialects/refgraph/IR/PythonValues.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace pyjit::refgraph {

bool isStaticTypeName(StringRef name) {
  // `type` and `module` are missing on purpose: classes and modules may be
  // given another `__class__`.
  static constexpr StringRef names[] = {
      "NoneType", "collections.OrderedDict",
      "bool",     "builtin_function_or_method",
      "bytes",    "cell",
      "code",     "complex",
      "dict",     "ellipsis",
      "float",    "frozenset",
      "function", "int",
      "list",     "mappingproxy",
      "method",   "range",
      "set",      "slice",
      "str",      "tuple"};
  return llvm::is_contained(names, name);
}

bool GuardRead::hasTypeName(StringRef name) const {
  auto object = dyn_cast<ObjType>(type);
  return object && object.getName() == name;
}

bool GuardRead::hasStaticType() const {
  auto object = dyn_cast<ObjType>(type);
  return object && isStaticTypeName(object.getName());
}

bool GuardRead::isWatchedDict() const {
  return hasTypeName("dict") || hasTypeName("collections.OrderedDict");
}

bool GuardRead::cannotFail() const {
  if (object)
    return true;
  switch (selector.getValue()) {
  case Selector::dict:
  case Selector::type:
  case Selector::code:
  case Selector::defaults:
  case Selector::kwdefaults:
  case Selector::globals:
    return !hasChecks();
  default:
    return false;
  }
}

bool GuardReads::isWatchable(const GuardRead &holder, Selector selector,
                             Attribute key) {
  if (!holder.stable || holder.isTensor())
    return false;
  switch (selector) {
  case Selector::attr:
  case Selector::dict:
    // An instance's. Builtin objects have no __dict__, or (functions, types)
    // one that is not watched.
    return !holder.hasStaticType() && !holder.hasTypeName("type");
  case Selector::item:
    // A tuple cannot change.
    return holder.isWatchedDict() || holder.hasTypeName("tuple");
  case Selector::typeattr:
    // Whatever its metaclass.
    return true;
  case Selector::code:
  case Selector::defaults:
  case Selector::kwdefaults:
  case Selector::globals:
    return holder.hasTypeName("function");
  case Selector::field: {
    // Fields that nothing can rebind.
    static constexpr StringRef names[] = {"__func__", "__self__", "start",
                                          "stop",     "step",     "fget",
                                          "fset",     "fdel"};
    return holder.hasStaticType() &&
           llvm::is_contained(names, cast<StringAttr>(key).getValue());
  }
  case Selector::arg:
  case Selector::type:
  case Selector::cell:
  case Selector::slot:
  case Selector::grad:
  case Selector::data:
  case Selector::storage:
  case Selector::kept_cast:
    return false;
  }
  llvm_unreachable("selector");
}

GuardRead *GuardReads::add(GuardRead read) {
  if (read.object) {
    read.stable = true;
  } else if (read.holder) {
    read.stable = !read.lift &&
                  isWatchable(*read.holder, read.selector.getValue(), read.key);
    read.fromArgument = read.holder->fromArgument;
  } else {
    read.fromArgument = true;
  }
  reads.push_back(std::make_unique<GuardRead>(std::move(read)));
  return reads.back().get();
}

GuardRead *GuardReads::getPinned(IntegerAttr index, Type type, Location loc) {
  GuardRead *&read = pinned[index.getInt()];
  if (!read) {
    GuardRead object{loc, type};
    object.object = index;
    read = add(std::move(object));
  }
  return read;
}

/// What a read hangs from: an object known by identity is the same one however
/// it was reached.
GuardRead *GuardReads::lookupHolder(Value value) const {
  GuardRead *read = readOf.lookup(value);
  if (!read)
    read = readOf.lookup(plan->getNode(value));
  if (read && read->identity && !read->isTensor())
    return pinned.lookup(read->identity.getInt());
  return read;
}

void GuardReads::normalise(GuardRead *&holder, SelectorAttr &selector,
                           Attribute key) const {
  if (!holder || selector.getValue() != Selector::item ||
      !isa<StringAttr>(key) || holder->object || holder->identity ||
      holder->selector.getValue() != Selector::dict)
    return;
  selector = SelectorAttr::get(selector.getContext(), Selector::attr);
  holder = holder->holder;
}

LogicalResult GuardReads::merge(GetOp get, GuardRead &into,
                                const GuardRead &from) {
  auto conflict = [&](StringRef what) {
    auto diag = get.emitOpError("finds another ")
                << what << " than an earlier read of the same source";
    diag.attachNote(into.loc) << "earlier read";
    return diag;
  };
  auto take = [](auto &slot, auto value) {
    if (!slot)
      slot = value;
    return !value || slot == value;
  };
  if (into.type != from.type)
    return conflict("type");
  if (!take(into.exactType, from.exactType))
    return conflict("exact type");
  if (!take(into.equals, from.equals))
    return conflict("value");
  if (!take(into.identity, from.identity))
    return conflict("object");
  if (!take(into.requiresGrad, from.requiresGrad) ||
      !take(into.keyset, from.keyset) || !take(into.offset, from.offset))
    return conflict("layout");
  return success();
}

LogicalResult GuardReads::visit(GetOp get) {
  GuardRead read{get.getLoc(), get.getResult().getType()};
  read.selector = get.getSelectorAttr();
  read.key = get.getKeyAttr();
  read.label = get.getLabelAttr();
  read.exactType = get.getExactTypeAttr();
  read.equals = get.getEqualsAttr();
  read.identity = get.getIdentityAttr();
  read.requiresGrad = get.getRequiresGradAttr();
  read.keyset = get.getKeysetAttr();
  read.offset = get.getOffsetAttr();
  read.lift = get.getLift();
  if (read.selector.getValue() != Selector::arg) {
    read.holder = lookupHolder(get.getHolder());
    if (!read.holder)
      return get.emitOpError("reads an object that the call made");
  }

  // A type that is known by identity is a check of the holder.
  if (read.selector.getValue() == Selector::type && read.identity) {
    if (read.holder->exactType && read.holder->exactType != read.identity)
      return get.emitOpError("finds another type than an earlier check");
    read.holder->exactType = read.identity;
    readOf[get.getResult()] = getPinned(read.identity, read.type, read.loc);
    return success();
  }

  normalise(read.holder, read.selector, read.key);
  GuardRead *pinnedResult = nullptr;
  if (read.identity && !read.isTensor()) {
    pinnedResult = getPinned(read.identity, read.type, read.loc);
    // The object is pinned: its type is checked where it is looked at.
    if (read.exactType) {
      if (pinnedResult->exactType && pinnedResult->exactType != read.exactType)
        return get.emitOpError("finds another type than an earlier check");
      pinnedResult->exactType = read.exactType;
      read.exactType = {};
    }
  }
  Source source{read.holder, static_cast<int>(read.selector.getValue()),
                read.key};
  auto [it, isNew] = sources.try_emplace(source, nullptr);
  if (isNew)
    it->second = add(std::move(read));
  else if (failed(merge(get, *it->second, read)))
    return failure();
  readOf[get.getResult()] = it->second;
  return success();
}

LogicalResult GuardReads::visitCondition(Operation *op) {
  GuardCondition condition{op};
  GuardRead **slots[] = {&condition.lhs, &condition.rhs};
  for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
    *slots[i] = lookupHolder(operand);
    if (!*slots[i])
      return op->emitOpError("is about an object that the call made");
  }
  if (auto absent = dyn_cast<AbsentOp>(op)) {
    condition.selector = absent.getSelectorAttr();
    condition.key = absent.getKeyAttr();
    normalise(condition.lhs, condition.selector, condition.key);
  }
  conditions.push_back(condition);
  return success();
}

/// Drops conditions that occur twice or follow from others.
void GuardReads::dropImplied() {
  llvm::DenseMap<GuardRead *, llvm::DenseSet<Attribute>> keysOf;
  for (const GuardCondition &condition : conditions)
    if (auto keys = dyn_cast<KeysOp>(condition.op))
      keysOf[condition.lhs].insert(keys.getKeys().begin(),
                                   keys.getKeys().end());
  auto findKeys = [&](GuardRead *holder) -> llvm::DenseSet<Attribute> * {
    auto it = keysOf.find(holder);
    return it == keysOf.end() ? nullptr : &it->second;
  };
  llvm::DenseSet<std::tuple<GuardRead *, GuardRead *, Attribute>> seen;
  llvm::erase_if(conditions, [&](const GuardCondition &condition) {
    // What tells two conditions of one kind apart, and which kind it is.
    MLIRContext *context = condition.op->getContext();
    SmallVector<Attribute> id{condition.op->getName().getIdentifier()};
    if (condition.selector)
      id.push_back(condition.selector);
    if (condition.key)
      id.push_back(condition.key);
    bool implied =
        llvm::TypeSwitch<Operation *, bool>(condition.op)
            .Case([&](KeysOp keys) {
              id.push_back(keys.getKeys());
              return false;
            })
            .Case([&](TableOp table) {
              id.push_back(table.getPlacesAttr());
              return false;
            })
            .Case([&](LengthOp length) {
              id.push_back(length.getLengthAttr());
              return findKeys(condition.lhs) != nullptr;
            })
            .Case([&](HoldsOp holds) {
              id.push_back(holds.getKey());
              auto *keys = findKeys(condition.lhs);
              return keys && keys->contains(holds.getKey());
            })
            .Case([&](AbsentOp absent) {
              auto *keys = findKeys(condition.lhs);
              // Only keys that are equal by text are known to be equal: an
              // `object N` may compare equal to anything.
              return keys && condition.selector.getValue() == Selector::item &&
                     isa<StringAttr>(condition.key) &&
                     llvm::all_of(*keys, llvm::IsaPred<StringAttr>) &&
                     !keys->contains(condition.key);
            })
            .Case([&](StateOp state) {
              id.push_back(state.getValues());
              return false;
            })
            .Case([&](SameOp) { return condition.lhs == condition.rhs; })
            .Case([&](DistinctOp) {
              return condition.lhs != condition.rhs && condition.lhs->object &&
                     condition.rhs->object;
            })
            .Default(false);
    return implied || !seen.insert({condition.lhs, condition.rhs,
                                    ArrayAttr::get(context, id)})
                           .second;
  });
}

FailureOr<GuardReads> GuardReads::collect(TraceOp trace,
                                          const SpecializationPlan &plan) {
  GuardReads result;
  result.plan = &plan;
  for (Operation &op : trace.getBody().front()) {
    if (auto object = dyn_cast<ObjectOp>(op)) {
      GuardRead *read = result.getPinned(
          object.getIndexAttr(), object.getResult().getType(), op.getLoc());
      if (!read->hint)
        read->hint = object.getHintAttr();
      result.readOf[object.getResult()] = read;
    } else if (auto get = dyn_cast<GetOp>(op)) {
      if (failed(result.visit(get)))
        return failure();
    } else if (isa<AbsentOp, HoldsOp, LengthOp, KeysOp, TableOp, UnhookedOp,
                   SameOp, DistinctOp, StateOp>(op)) {
      if (failed(result.visitCondition(&op)))
        return failure();
    }
  }
  result.dropImplied();
  return result;
}

} // namespace pyjit::refgraph
