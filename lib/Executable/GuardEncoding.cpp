//===- GuardEncoding.cpp - refgraph.guards as a flat program --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "dialects/refgraph/IR/PythonValues.h"
#include "dialects/refgraph/Transforms/GuardReads.h"
#include "pyjit-rt/ScalarMath.h"
#include "pyjit/Executable/GuardProgram.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace pyjit::executable {

class GuardEncoder {
public:
  explicit GuardEncoder(GuardProgram &out) : out(out) {}
  LogicalResult encode(refgraph::GuardsOp guards);

private:
  LogicalResult encodeOp(Operation *op);
  void encodeWatch(refgraph::WatchOp watch);
  void encodeAccept(refgraph::AcceptOp accept);
  LogicalResult encodeGet(refgraph::GetOp op);
  LogicalResult encodeAbsent(refgraph::AbsentOp op);
  LogicalResult encodeState(refgraph::StateOp state);
  /// A check of all of a group of which the first ones are written.
  template <typename OpTy>
  LogicalResult encodeGroup(PyjitGuardOp code, OpTy op) {
    check(code, out.pools.addList(useAll(op.getOperands())),
          op.getNumOperands(), op.getWritten().size());
    return success();
  }
  void encodeEquals(uint32_t reg, Attribute value);
  template <typename OpTy>
  LogicalResult encodeChecks(OpTy op, uint32_t reg, Type type);
  template <typename OpTy> FailureOr<uint32_t> addTensor(OpTy op);
  template <typename OpTy> LogicalResult encodeTensor(OpTy op, uint32_t reg);

  uint32_t useNumber(Value value);
  void encodeArith(refgraph::ArithOp op);
  void encodeCompare(refgraph::CompareOp op);
  template <typename OpTy> void encodeDim(PyjitGuardOp code, OpTy op) {
    uint32_t dst = numbers[op.getResult()] = numNumbers++;
    add(code, dst, use(op.getTensor()), 0, op.getDim());
  }

  uint32_t define(Value value) { return registers[value] = numRegisters++; }
  uint32_t use(Value value) const { return registers.lookup(value); }
  /// As an input of the graph.
  uint32_t useInput(Value value);
  SmallVector<uint32_t> useAll(ValueRange values) const {
    return llvm::map_to_vector(values, [&](Value v) { return use(v); });
  }
  void add(PyjitGuardOp op, uint32_t dst, uint32_t a, uint32_t b = 0,
           int64_t imm = 0, uint16_t flags = 0) {
    code->push_back({static_cast<uint16_t>(op), flags, dst, a, b, imm});
  }
  void check(PyjitGuardOp op, uint32_t a, uint32_t b = 0, int64_t imm = 0,
             uint16_t flags = 0) {
    add(op, 0, a, b, imm, flags);
  }

  GuardProgram &out;
  std::vector<PyjitInst> *code = nullptr;
  llvm::DenseMap<Value, uint32_t> registers, numbers, keptCasts;
  uint32_t numRegisters = 0, numNumbers = 0;
};

static bool isFloat(Value number) {
  return cast<refgraph::ObjType>(number.getType()).getName() == "float";
}

/// The n register of a number: computed, a constant, or an object's value.
uint32_t GuardEncoder::useNumber(Value value) {
  auto [it, isNew] = numbers.try_emplace(value, numNumbers);
  if (!isNew)
    return it->second;
  uint32_t dst = numNumbers++;
  uint16_t flags = isFloat(value) ? PYJIT_GUARD_FLAG_FLOAT : 0;
  if (auto constant = value.getDefiningOp<refgraph::ConstantOp>()) {
    int64_t bits = 0;
    if (auto real = dyn_cast<FloatAttr>(constant.getValue()))
      bits = rt::Number::of(real.getValueAsDouble()).bits();
    else
      bits = cast<IntegerAttr>(constant.getValue()).getValue().getSExtValue();
    add(PYJIT_GUARD_NUMBER_CONST, dst, 0, 0, bits, flags);
  } else {
    add(PYJIT_GUARD_NUMBER, dst, use(value), 0, 0, flags);
  }
  return dst;
}

void GuardEncoder::encodeArith(refgraph::ArithOp op) {
  SmallVector<uint32_t> operands = llvm::map_to_vector(
      op.getOperands(), [&](Value v) { return useNumber(v); });
  uint32_t dst = numbers[op.getResult()] = numNumbers++;
  add(PYJIT_GUARD_ARITH, dst, operands.front(), operands.back(),
      rt::findName(rt::kArithNames, op.getFunction().str().c_str()));
}

void GuardEncoder::encodeCompare(refgraph::CompareOp op) {
  uint32_t lhs = useNumber(op.getLhs()), rhs = useNumber(op.getRhs());
  check(PYJIT_GUARD_COMPARE, lhs, rhs,
        rt::findName(rt::kCompareNames, op.getFunction().str().c_str()),
        op.getOutcome() ? PYJIT_GUARD_FLAG_TRUE : 0);
}

void GuardEncoder::encodeEquals(uint32_t reg, Attribute value) {
  uint32_t constant = out.pools.addConstant(value);
  auto integer = dyn_cast<IntegerAttr>(value);
  if ((integer && integer.getType().isInteger(1)) ||
      refgraph::isPyNone(value) || refgraph::isPyEllipsis(value))
    check(PYJIT_GUARD_IS_CONST, reg, constant);
  else if (integer && integer.getValue().isSignedIntN(64))
    check(PYJIT_GUARD_EQ_INT, reg, constant, integer.getValue().getSExtValue());
  else if (auto number = dyn_cast<FloatAttr>(value))
    check(PYJIT_GUARD_EQ_FLOAT, reg, constant,
          number.getValue().bitcastToAPInt().getSExtValue());
  else if (isa<StringAttr>(value))
    check(PYJIT_GUARD_EQ_STR, reg, constant);
  else
    check(PYJIT_GUARD_EQ, reg, constant);
}

uint32_t GuardEncoder::useInput(Value value) {
  if (!isa<refgraph::TensorType>(value.getType()))
    return PYJIT_INPUT_NUMBER | useNumber(value);
  auto cast = keptCasts.find(value);
  return cast == keptCasts.end() ? use(value)
                                 : PYJIT_INPUT_KEPT_CAST | cast->second;
}

/// The metadata that it demands.
template <typename OpTy> FailureOr<uint32_t> GuardEncoder::addTensor(OpTy op) {
  auto type = cast<refgraph::TensorType>(op->getNumResults()
                                             ? op->getResult(0).getType()
                                             : op->getOperand(0).getType());
  FailureOr<PyjitTensorMeta> meta = out.pools.makeTensor(op, type);
  if (failed(meta))
    return failure();
  if (auto requiresGrad = op.getRequiresGrad()) {
    meta->flags |= PYJIT_TENSOR_HAS_REQUIRES_GRAD;
    meta->requiresGrad = *requiresGrad;
  }
  if (auto keyset = op.getKeyset()) {
    meta->flags |= PYJIT_TENSOR_HAS_KEYSET;
    meta->keyset = *keyset;
  }
  if (auto offset = op.getOffset()) {
    meta->flags |= PYJIT_TENSOR_HAS_OFFSET;
    meta->offset = *offset;
  }
  return out.pools.addTensor(*meta);
}

template <typename OpTy>
LogicalResult GuardEncoder::encodeTensor(OpTy op, uint32_t reg) {
  FailureOr<uint32_t> meta = addTensor(op);
  if (failed(meta))
    return failure();
  check(PYJIT_GUARD_TENSOR, reg, 0, *meta);
  return success();
}

template <typename OpTy>
LogicalResult GuardEncoder::encodeChecks(OpTy op, uint32_t reg, Type type) {
  if (auto exactType = op.getExactType()) {
    auto object = dyn_cast<refgraph::ObjType>(type);
    bool staticType = code == &out.watched && object &&
                      refgraph::isStaticTypeName(object.getName());
    check(PYJIT_GUARD_TYPE_IS, reg, 0, *exactType,
          staticType ? PYJIT_GUARD_FLAG_STATIC_TYPE : 0);
  }
  if (Attribute equals = op.getEqualsAttr())
    encodeEquals(reg, equals);
  if (auto identity = op.getIdentity())
    check(PYJIT_GUARD_IS, reg, 0, *identity);
  return success();
}

LogicalResult GuardEncoder::encodeGet(refgraph::GetOp op) {
  using refgraph::Selector;
  uint32_t holder = use(op.getHolder());
  if (op.getSelector() == Selector::kept_cast) {
    FailureOr<uint32_t> meta = addTensor(op);
    if (failed(meta))
      return failure();
    uint32_t number = keptCasts.size();
    keptCasts[op.getResult()] = number;
    add(PYJIT_GUARD_KEPT_CAST, number, holder, 0, *meta);
    return success();
  }
  uint32_t dst = define(op.getResult());
  Attribute key = op.getKeyAttr();
  auto named = [&](PyjitGuardOp code) {
    add(code, dst, holder, out.pools.addConstant(key));
  };
  switch (op.getSelector()) {
  case Selector::arg:
    add(PYJIT_GUARD_ARG, dst, 0, 0, cast<IntegerAttr>(key).getInt());
    break;
  case Selector::attr:
    named(PYJIT_GUARD_ATTR);
    break;
  case Selector::dict:
    add(PYJIT_GUARD_DICT, dst, holder);
    break;
  case Selector::item:
    // An integer may be a list's index or a dict's key.
    if (auto index = dyn_cast<IntegerAttr>(key);
        index && index.getType().isInteger(64))
      add(PYJIT_GUARD_ITEM, dst, holder, out.pools.addConstant(key),
          index.getInt());
    else
      named(PYJIT_GUARD_KEY);
    break;
  case Selector::type:
    add(PYJIT_GUARD_TYPE, dst, holder);
    break;
  case Selector::typeattr:
    named(PYJIT_GUARD_TYPEATTR);
    break;
  case Selector::code:
    add(PYJIT_GUARD_CODE, dst, holder);
    break;
  case Selector::defaults:
    add(PYJIT_GUARD_DEFAULTS, dst, holder);
    break;
  case Selector::kwdefaults:
    add(PYJIT_GUARD_KWDEFAULTS, dst, holder);
    break;
  case Selector::globals:
    add(PYJIT_GUARD_GLOBALS, dst, holder);
    break;
  case Selector::cell:
    add(PYJIT_GUARD_CELL, dst, holder, 0, cast<IntegerAttr>(key).getInt());
    break;
  case Selector::slot:
    named(PYJIT_GUARD_SLOT);
    break;
  case Selector::grad:
    add(PYJIT_GUARD_GRAD, dst, holder);
    break;
  case Selector::data:
    add(PYJIT_GUARD_DATA, dst, holder);
    break;
  case Selector::field:
    named(PYJIT_GUARD_FIELD);
    break;
  case Selector::kept_cast:
    break; // above
  case Selector::storage:
    break; // never read
  }
  Type type = op.getResult().getType();
  if (failed(encodeChecks(op, dst, type)))
    return failure();
  if (isa<refgraph::TensorType>(type) && !op.getUnchecked())
    return encodeTensor(op, dst);
  return success();
}

LogicalResult GuardEncoder::encodeAbsent(refgraph::AbsentOp op) {
  using refgraph::Selector;
  uint32_t holder = use(op.getHolder());
  Attribute key = op.getKeyAttr();
  switch (op.getSelector()) {
  case Selector::attr:
    check(PYJIT_GUARD_NO_ATTR, holder, out.pools.addConstant(key));
    return success();
  case Selector::item:
    check(PYJIT_GUARD_NO_KEY, holder, out.pools.addConstant(key));
    return success();
  case Selector::typeattr:
    check(PYJIT_GUARD_NO_TYPEATTR, holder, out.pools.addConstant(key));
    return success();
  case Selector::cell:
    check(PYJIT_GUARD_NO_CELL, holder, 0, cast<IntegerAttr>(key).getInt());
    return success();
  case Selector::slot:
    check(PYJIT_GUARD_NO_SLOT, holder, out.pools.addConstant(key));
    return success();
  default:
    return op.emitOpError("cannot be encoded");
  }
}

/// The entries of `dict` that the watched part looked at, or nothing where it
/// depends on all of them.
static std::optional<SetVector<Attribute>> getWatchedKeys(Value dict,
                                                          Operation *watch) {
  SetVector<Attribute> keys;
  for (Operation *user : dict.getUsers()) {
    if (user == watch || !user->isBeforeInBlock(watch))
      continue;
    Attribute key;
    if (auto get = dyn_cast<refgraph::GetOp>(user))
      key = get.getSelector() == refgraph::Selector::item ? get.getKeyAttr()
                                                          : Attribute();
    else if (auto absent = dyn_cast<refgraph::AbsentOp>(user))
      key = absent.getSelector() == refgraph::Selector::item
                ? absent.getKeyAttr()
                : Attribute();
    else if (auto holds = dyn_cast<refgraph::HoldsOp>(user))
      key = holds.getKey();
    else if (isa<refgraph::SameOp, refgraph::DistinctOp>(user))
      continue; // identity
    if (!isa_and_nonnull<StringAttr>(key))
      return std::nullopt;
    keys.insert(key);
  }
  return keys;
}

void GuardEncoder::encodeWatch(refgraph::WatchOp watch) {
  for (Value dict : watch.getDicts()) {
    PyjitWatch entry = {PYJIT_WATCH_DICT, use(dict), 0, PYJIT_WATCH_ALL_KEYS};
    if (auto keys = getWatchedKeys(dict, watch)) {
      SmallVector<uint32_t> constants = llvm::map_to_vector(
          *keys, [&](Attribute key) { return out.pools.addConstant(key); });
      entry.firstKey = out.pools.addList(constants);
      entry.numKeys = constants.size();
    }
    out.watches.push_back(entry);
  }
  for (Value type : watch.getTypes())
    out.watches.push_back(
        {PYJIT_WATCH_TYPE, use(type), 0, PYJIT_WATCH_ALL_KEYS});
  for (Value function : watch.getFunctions())
    out.watches.push_back(
        {PYJIT_WATCH_FUNCTION, use(function), 0, PYJIT_WATCH_ALL_KEYS});
  code = &out.always;
}

void GuardEncoder::encodeAccept(refgraph::AcceptOp accept) {
  for (Value input : accept.getInputs())
    out.inputs.push_back(useInput(input));
  for (Value value : accept.getKept())
    out.kept.push_back(
        isa<refgraph::ArithOp, refgraph::SizeOp>(value.getDefiningOp())
            ? PYJIT_INPUT_NUMBER | useNumber(value)
            : use(value));
}

LogicalResult GuardEncoder::encodeState(refgraph::StateOp state) {
  FailureOr<uint32_t> index = out.pools.addState(state);
  if (failed(index))
    return failure();
  check(PYJIT_GUARD_STATE, 0, 0, *index);
  return success();
}

LogicalResult GuardEncoder::encodeOp(Operation *op) {
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](refgraph::ExternalOp) { return success(); })
      .Case([&](refgraph::ObjectOp object) {
        add(PYJIT_GUARD_OBJECT, define(object.getResult()), 0, 0,
            object.getIndex());
        return success();
      })
      .Case([&](refgraph::GetOp get) { return encodeGet(get); })
      .Case([&](refgraph::AbsentOp absent) { return encodeAbsent(absent); })
      .Case([&](refgraph::HoldsOp holds) {
        check(PYJIT_GUARD_HOLDS, use(holds.getHolder()),
              out.pools.addConstant(holds.getKey()));
        return success();
      })
      .Case([&](refgraph::LengthOp length) {
        check(PYJIT_GUARD_LENGTH, use(length.getHolder()), 0,
              length.getLength());
        return success();
      })
      .Case([&](refgraph::KeysOp keys) {
        check(PYJIT_GUARD_KEYS, use(keys.getHolder()),
              out.pools.addConstant(keys.getKeys()));
        return success();
      })
      .Case([&](refgraph::TableOp table) {
        Builder builder(table.getContext());
        check(
            PYJIT_GUARD_TABLE, use(table.getHolder()),
            out.pools.addConstant(builder.getI64ArrayAttr(table.getPlaces())));
        return success();
      })
      .Case([&](refgraph::UnhookedOp leaf) {
        check(PYJIT_GUARD_UNHOOKED, use(leaf.getTensor()));
        return success();
      })
      .Case([&](refgraph::SameOp same) {
        check(PYJIT_GUARD_SAME, use(same.getLhs()), use(same.getRhs()));
        return success();
      })
      .Case([&](refgraph::DistinctOp distinct) {
        check(PYJIT_GUARD_DISTINCT, use(distinct.getLhs()),
              use(distinct.getRhs()));
        return success();
      })
      .Case([&](refgraph::DisjointOp disjoint) {
        return encodeGroup(PYJIT_GUARD_DISJOINT, disjoint);
      })
      .Case([&](refgraph::UnaliasedOp unaliased) {
        return encodeGroup(PYJIT_GUARD_UNALIASED, unaliased);
      })
      .Case([&](refgraph::StateOp state) { return encodeState(state); })
      .Case([&](refgraph::CheckOp again) -> LogicalResult {
        uint32_t reg = use(again.getValue());
        Type type = again.getValue().getType();
        if (failed(encodeChecks(again, reg, type)))
          return failure();
        return isa<refgraph::TensorType>(type) ? encodeTensor(again, reg)
                                               : success();
      })
      .Case([&](refgraph::InstanceOp instance) {
        auto type = instance.getExactType();
        check(PYJIT_GUARD_INSTANCE, use(instance.getValue()),
              use(instance.getDict()), type ? int64_t(*type) : -1);
        return success();
      })
      // Numbers are made where they are used.
      .Case([&](refgraph::ConstantOp) { return success(); })
      .Case([&](refgraph::ArithOp arith) {
        encodeArith(arith);
        return success();
      })
      .Case([&](refgraph::CompareOp compare) {
        encodeCompare(compare);
        return success();
      })
      .Case([&](refgraph::SizeOp size) {
        encodeDim(PYJIT_GUARD_SIZE, size);
        return success();
      })
      .Case([&](refgraph::StrideOp stride) {
        encodeDim(PYJIT_GUARD_STRIDE, stride);
        return success();
      })
      .Case([&](refgraph::WatchOp watch) {
        encodeWatch(watch);
        return success();
      })
      .Case([&](refgraph::AcceptOp accept) {
        encodeAccept(accept);
        return success();
      })
      .Default([](Operation *other) {
        return other->emitOpError("cannot be encoded as a guard");
      });
}

LogicalResult GuardEncoder::encode(refgraph::GuardsOp guards) {
  bool watched = !guards.getBody().getOps<refgraph::WatchOp>().empty();
  code = watched ? &out.watched : &out.always;
  for (Operation &op : guards.getBody().front())
    if (failed(encodeOp(&op)))
      return failure();
  PyjitGuardProgram &program = out.program;
  program.version = PYJIT_PROGRAMS_VERSION;
  program.numRegisters = numRegisters;
  program.watched = out.watched.data();
  program.numWatched = out.watched.size();
  program.always = out.always.data();
  program.numAlways = out.always.size();
  program.watches = out.watches.data();
  program.numWatches = out.watches.size();
  program.inputs = out.inputs.data();
  program.numInputs = out.inputs.size();
  program.numNumbers = numNumbers;
  program.numKeptCasts = keptCasts.size();
  program.pools = out.pools.view();
  return success();
}

LogicalResult encodeGuards(refgraph::GuardsOp guards, GuardProgram &program) {
  program = GuardProgram();
  return GuardEncoder(program).encode(guards);
}

} // namespace pyjit::executable
