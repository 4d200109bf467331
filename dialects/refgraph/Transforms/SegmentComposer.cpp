//===- SegmentComposer.cpp - one recording after another ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "dialects/refgraph/Transforms/SegmentComposer.h"
#include "dialects/refgraph/IR/PythonValues.h"
#include "mlir/IR/AttrTypeSubElements.h"

using namespace mlir;

namespace pyjit::refgraph {

SegmentComposer::SegmentComposer(TraceOp trace)
    : trace(trace),
      tensorClass(trace->getAttrOfType<IntegerAttr>(segment::kTensorClass)) {}

//===----------------------------------------------------------------------===//
// Which values are one object
//===----------------------------------------------------------------------===//

Value SegmentComposer::getNode(Value value) const {
  for (auto it = parent.find(value); it != parent.end();
       it = parent.find(value))
    value = it->second;
  return value;
}

void SegmentComposer::unite(Value a, Value b) {
  a = getNode(a);
  b = getNode(b);
  if (a != b)
    parent[b] = a;
}

void SegmentComposer::noteVersions(Operation *op) {
  if (auto call = dyn_cast<TensorOp>(op))
    for (auto [i, operand] : llvm::enumerate(call.getMutates()))
      unite(call.getInputs()[operand], call.getVersion(i));
}

static bool isOfType(Value value, StringRef name) {
  auto type = dyn_cast<ObjType>(value.getType());
  return type && type.getName() == name;
}

/// A context variable is set by making its token, and reset by deleting that.
void SegmentComposer::noteVariable(Operation *op) {
  if (auto made = dyn_cast<CreateOp>(op)) {
    if (made.setsVariable())
      variables.push_back({getNode(made.getElements()[0]),
                           getNode(made.getResult()), made.getElements()[1]});
  } else if (auto reset = dyn_cast<DeleteOp>(op)) {
    Value token = getNode(reset.getHolder());
    size_t before = variables.size();
    llvm::erase_if(variables,
                   [&](const Variable &v) { return v.token == token; });
    resetsFromBefore |=
        isOfType(token, "_contextvars.Token") && variables.size() == before;
  }
}

/// Whether a token takes back the last set of its variable, which nothing has
/// taken back.
bool SegmentComposer::isLastSet(CreateOp token) const {
  Value variable = getNode(token.getElements()[0]);
  for (const Variable &set : llvm::reverse(variables))
    if (set.variable == variable)
      return set.token == getNode(token.getResult());
  return false;
}

void SegmentComposer::note(Operation *op) {
  noteVariable(op);
  auto pin = [&](Value value, std::optional<int64_t> index) {
    if (!index)
      return;
    auto [it, isNew] = byIndex.try_emplace(*index, value);
    if (!isNew)
      unite(it->second, value);
  };
  if (auto object = dyn_cast<ObjectOp>(op)) {
    pin(object.getResult(), object.getIndex());
  } else if (auto get = dyn_cast<GetOp>(op)) {
    pin(get.getResult(), get.getIdentity());
    places.try_emplace({getNode(get.getHolder()),
                        static_cast<int>(get.getSelector()), get.getKeyAttr()},
                       get);
  } else if (auto same = dyn_cast<SameOp>(op)) {
    unite(same.getLhs(), same.getRhs());
  } else if (isa<ExternalOp>(op)) {
    if (external)
      unite(external, op->getResult(0));
    else
      external = op->getResult(0);
  } else if (isWrite(op)) {
    writes.push_back(op);
  } else {
    op->walk([&](TensorOp call) { noteVersions(call); });
  }
}

/// What stays as it is throughout a call, other than what segments may change.
static bool isOfTheCall(StateOp op) {
  return op.getValues().contains("handles_exception") ||
         op.getValues().contains("autocast_nested") ||
         op.getValues().contains("saved_tensor_hooks");
}

/// What no merged trace has.
static LogicalResult refuse(Operation &op) {
  if (isa<RequireGradOp, DifferentiableOp>(op))
    return op.emitError("stays a graph break: a segment leaves a tensor that "
                        "requires grad");
  return op.emitError("a decision that another segment would have to follow");
}

LogicalResult SegmentComposer::begin() {
  noteShared(trace);
  for (Operation &op : trace.getBody().front()) {
    if (isa<DecideOp, SymbolOp, RequireGradOp>(op))
      return refuse(op);
    if (auto found = dyn_cast<StateOp>(op); found && !isOfTheCall(found))
      state = found.getValues();
    note(&op);
    if (auto marked = dyn_cast<DifferentiableOp>(op))
      differentiable.insert(getNode(marked.getTensor()));
  }
  if (auto mode = trace->getAttrOfType<BoolAttr>(segment::kGradMode)) {
    NamedAttrList values(state);
    values.set("grad_mode", mode);
    state = values.getDictionary(trace.getContext());
  }
  followsSizes = trace->hasAttr(segment::kFollowsSizes);
  if (external)
    return success();
  OpBuilder front = OpBuilder::atBlockBegin(&trace.getBody().front());
  external = ExternalOp::create(front, trace.getLoc(),
                                ObjType::get(trace.getContext(), "external"));
  return success();
}

//===----------------------------------------------------------------------===//
// Objects known by identity
//===----------------------------------------------------------------------===//

/// The segment's object numbers become the trace's.
void SegmentComposer::renumber(TraceOp segment) {
  auto table = segment->getAttrOfType<DenseI64ArrayAttr>(segment::kObjects);
  if (!table)
    return;
  MLIRContext *context = segment.getContext();
  Builder builder(context);
  auto renumbered = [&](int64_t index) {
    return index < table.size() ? table[index] : index;
  };
  AttrTypeReplacer replacer;
  replacer.addReplacement(
      [&](DictionaryAttr value) -> std::optional<Attribute> {
        IntegerAttr object = getPyObject(value);
        if (!object)
          return std::nullopt;
        return DictionaryAttr::get(
            context,
            builder.getNamedAttr("object", builder.getI64IntegerAttr(
                                               renumbered(object.getInt()))));
      });
  segment.walk([&](Operation *op) {
    if (op == segment)
      return;
    replacer.replaceElementsIn(op);
    if (auto object = dyn_cast<ObjectOp>(op)) {
      object.setIndex(renumbered(object.getIndex()));
    } else if (auto get = dyn_cast<GetOp>(op)) {
      if (std::optional<int64_t> index = get.getExactType())
        get.setExactType(renumbered(*index));
      if (std::optional<int64_t> index = get.getIdentity())
        get.setIdentity(renumbered(*index));
    } else if (auto create = dyn_cast<CreateOp>(op)) {
      if (std::optional<int64_t> index = create.getExactType())
        create.setExactType(renumbered(*index));
    }
  });
}

Value SegmentComposer::getObject(IntegerAttr index, Type type, Location loc) {
  auto it = byIndex.find(index.getInt());
  if (it != byIndex.end())
    return it->second;
  auto object = ObjectOp::create(*reads, loc, type, index.getInt());
  note(object);
  return object.getResult();
}

//===----------------------------------------------------------------------===//
// Reads
//===----------------------------------------------------------------------===//

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
Value SegmentComposer::findWritten(GetOp get, Value holder) {
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
  Spot read = spotOf(holder, get.getSelector(), get.getKeyAttr());
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
  if (selector == Selector::cell && kind == "cell")
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
                 get.getRequiresGrad().value_or(false) ==
                     differentiable.contains(getNode(value));
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
  if (resetsFromBefore && isOfType(holder, "_contextvars.ContextVar"))
    return get.emitError("stays a graph break: a context variable that an "
                         "earlier segment has reset");
  if (get.getSelector() == Selector::field)
    for (const Variable &set : llvm::reverse(variables))
      if (set.variable == getNode(holder))
        return bind(get, set.value);
  if (Value written = findWritten(get, holder))
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
  if (failed(checkUnwritten(op, operands[0],
                            absent ? absent.getKeyAttr() : Attribute(),
                            absent != nullptr)))
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
  } else if (absent && created) {
    holds = absent.getSelector() == Selector::attr &&
            created.getKind() == "instance" &&
            !resolve(created, Selector::attr, absent.getKeyAttr());
  }
  return holds
             ? success()
             : op->emitError("asks of an object that the segment before made");
}

/// An operator, or a branch with those in its arms.
LogicalResult SegmentComposer::appendOperators(Operation *op, OpBuilder &body,
                                               bool inArm) {
  WalkResult walked = op->walk([&](TensorOp call) {
    return failed(checkNumbers(call, inArm)) ? WalkResult::interrupt()
                                             : WalkResult::advance();
  });
  if (walked.wasInterrupted())
    return failure();
  Operation *copy = body.clone(*op, mapping);
  copy->walk([&](TensorOp call) {
    if (inArm)
      foldSizes(call);
    noteVersions(call);
  });
  return success();
}

FailureOr<Value>
SegmentComposer::append(TraceOp segment, ArrayRef<Value> arguments,
                        OpBuilder &readsAt, OpBuilder &body,
                        SmallVectorImpl<Operation *> &written) {
  // Operators of this segment would read the memory that it showed before.
  for (Operation *write : writes)
    if (auto set = dyn_cast<SetOp>(write);
        set && set.getSelector() == Selector::storage)
      return set.emitError("stays a graph break: a segment sets what a tensor "
                           "shows, and another one follows");
  renumber(segment);
  noteShared(segment);
  mapping.clear();
  fresh.clear();
  reads = &readsAt;
  for (Operation *op : settings)
    noteVariable(op);
  settings.clear();
  bool inArm = isa<IfOp>(body.getBlock()->getParentOp());
  beginSizes(segment);
  // What the segment itself writes, it has recorded its reads around.
  Value left;
  for (Operation &op : segment.getBody().front()) {
    if (isa<ExternalOp>(op)) {
      mapping.map(op.getResult(0), external);
    } else if (auto found = dyn_cast<StateOp>(op)) {
      if (isOfTheCall(found))
        reads->clone(op, mapping);
      else if (found.getValues() != state)
        return op.emitError("begins with another state of the thread than the "
                            "segment before leaves");
    } else if (auto object = dyn_cast<ObjectOp>(op)) {
      auto it = byIndex.find(object.getIndex());
      if (it != byIndex.end() &&
          it->second.getType() == object.getResult().getType())
        mapping.map(object.getResult(), it->second);
      else
        note(reads->clone(op, mapping));
    } else if (auto get = dyn_cast<GetOp>(op)) {
      LogicalResult done = success();
      if (get.getSelector() == Selector::arg) {
        size_t number = cast<IntegerAttr>(get.getKeyAttr()).getInt();
        if (number >= arguments.size())
          return get.emitError("an argument that nobody gives");
        done = bind(get, arguments[number]);
      } else {
        done = appendRead(get);
      }
      if (failed(done))
        return failure();
    } else if (isa<AbsentOp, HoldsOp, LengthOp, KeysOp, OffsetOp, SameOp,
                   DistinctOp>(op)) {
      if (failed(appendCheck(&op)))
        return failure();
    } else if (isa<TensorOp, IfOp>(op)) {
      if (failed(appendOperators(&op, body, inArm)))
        return failure();
    } else if (auto arith = dyn_cast<ArithOp>(op)) {
      if (failed(appendArith(arith)))
        return failure();
    } else if (auto compare = dyn_cast<CompareOp>(op)) {
      if (failed(appendCompare(compare)))
        return failure();
    } else if (isa<SizeOp, StrideOp, LayoutOp>(op)) {
      appendSize(&op, body);
    } else if (isa<CreateOp, ConstantOp>(op)) {
      Operation *copy = body.clone(op, mapping);
      if (auto made = dyn_cast<CreateOp>(copy); made && made.setsVariable()) {
        if (inArm)
          return op.emitError("sets a context variable in one arm");
        settings.push_back(copy);
      }
    } else if (auto marked = dyn_cast<DifferentiableOp>(op)) {
      if (failed(appendGradient(marked, body)))
        return failure();
    } else if (isa<AdvanceOp, ShownOp>(op)) {
      body.clone(op, mapping);
    } else if (isa<SpeculateOp>(op)) {
      if (inArm)
        return op.emitError("ends the specialization in one arm alone");
      body.clone(op, mapping);
    } else if (isWrite(&op)) {
      written.push_back(body.clone(op, mapping));
      if (isa<DeleteOp>(op))
        settings.push_back(written.back());
    } else if (auto leave = dyn_cast<LeaveOp>(op)) {
      left = mapping.lookup(leave.getValue());
    } else {
      return refuse(op);
    }
  }
  if (auto mode = segment->getAttrOfType<BoolAttr>(segment::kGradMode)) {
    NamedAttrList values(state);
    values.set("grad_mode", mode);
    state = values.getDictionary(trace.getContext());
  }
  return left;
}

} // namespace pyjit::refgraph
