//===- MockEncoding.cpp - refgraph.mock as a flat program -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "pyjit/Analysis/SizePolynomial.h"
#include "pyjit/Executable/MockProgram.h"
#include "pyjit/Operators/CallArguments.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace pyjit::executable {

class MockEncoder {
public:
  MockEncoder(const GuardProgram &guards, MockProgram &out)
      : guards(guards), out(out) {}
  LogicalResult encode(refgraph::MockOp mock);

private:
  LogicalResult encodeOp(Operation *op);
  LogicalResult encodeCreate(refgraph::CreateOp op);
  LogicalResult encodeView(refgraph::ViewOp op);
  /// The instruction that writes (or deletes) a place of `holder`.
  LogicalResult encodeWrite(Operation *op, bool isDelete, Value holder,
                            refgraph::Selector selector, Attribute key,
                            uint32_t value);

  uint32_t define(Value value) { return registers[value] = numRegisters++; }
  uint32_t use(Value value) const { return registers.lookup(value); }
  uint32_t addList(ValueRange values) {
    return out.pools.addList(
        llvm::map_to_vector(values, [&](Value v) { return use(v); }));
  }
  void add(PyjitMockOp op, uint32_t dst, uint32_t a, uint32_t b = 0,
           int64_t imm = 0) {
    out.insts.push_back({static_cast<uint16_t>(op), 0, dst, a, b, imm});
  }
  void setItems(uint32_t dict, ArrayAttr keys, ValueRange values) {
    for (auto [key, value] : llvm::zip_equal(keys, values))
      add(PYJIT_MOCK_SET_ITEM, 0, dict, use(value), out.pools.addConstant(key));
  }

  const GuardProgram &guards;
  MockProgram &out;
  llvm::DenseMap<Value, uint32_t> registers;
  uint32_t numRegisters = 0;
};

LogicalResult MockEncoder::encodeCreate(refgraph::CreateOp op) {
  StringRef kind = op.getKind();
  uint32_t count = op.getElements().size();
  if (kind == "instance") {
    uint32_t list = addList(op.getElements());
    uint32_t dst = define(op.getResult());
    add(PYJIT_MOCK_NEW, dst, list, count, *op.getExactType());
    setItems(dst, op.getItemKeys(), op.getItems());
    for (auto [name, value] :
         llvm::zip_equal(op.getAttrNames(), op.getEntries()))
      add(PYJIT_MOCK_SET_ATTR, 0, dst, use(value), out.pools.addConstant(name));
    return success();
  }
  if (kind == "iterator") {
    uint32_t list = addList(op.getElements());
    add(PYJIT_MOCK_ITERATOR, define(op.getResult()), list, count,
        *op.getExactType());
    return success();
  }
  if (kind == "dict") {
    uint32_t dst = define(op.getResult());
    add(PYJIT_MOCK_DICT, dst, 0);
    setItems(dst, op.getItemKeys(), op.getItems());
    return success();
  }
  if (kind == "deque") {
    uint32_t bound = use(op.getEntries().front());
    uint32_t list = addList(op.getElements());
    add(PYJIT_MOCK_DEQUE, define(op.getResult()), list, count, bound);
    return success();
  }
  if (!op.getEntries().empty()) { // a set, and its table
    uint32_t table = use(op.getEntries().front());
    uint32_t list = addList(op.getElements());
    add(kind == "set" ? PYJIT_MOCK_SET_OF_TABLE : PYJIT_MOCK_FROZENSET_OF_TABLE,
        define(op.getResult()), list, count, table);
    return success();
  }
  auto code = llvm::StringSwitch<PyjitMockOp>(kind)
                  .Case("tuple", PYJIT_MOCK_TUPLE)
                  .Case("list", PYJIT_MOCK_LIST)
                  .Case("set", PYJIT_MOCK_SET)
                  .Case("frozenset", PYJIT_MOCK_FROZENSET)
                  .Case("slice", PYJIT_MOCK_SLICE)
                  .Case("range", PYJIT_MOCK_RANGE)
                  .Case("range_iterator", PYJIT_MOCK_RANGE_ITERATOR)
                  .Case("method", PYJIT_MOCK_METHOD)
                  .Case("cell", PYJIT_MOCK_CELL)
                  .Case("generator", PYJIT_MOCK_GENERATOR)
                  .Case("token", PYJIT_MOCK_TOKEN)
                  .Case("number", PYJIT_MOCK_ITEM)
                  .Case("function", PYJIT_MOCK_FUNCTION)
                  .Case("size", PYJIT_MOCK_SIZE)
                  .Default(PYJIT_MOCK_RETURN);
  if (code == PYJIT_MOCK_RETURN)
    return op.emitOpError("of kind '") << kind << "' cannot be encoded";
  uint32_t list = addList(op.getElements());
  add(code, define(op.getResult()), list, count);
  return success();
}

LogicalResult MockEncoder::encodeView(refgraph::ViewOp op) {
  auto type = cast<refgraph::TensorType>(op.getResult().getType());
  FailureOr<PyjitTensorMeta> meta = out.pools.makeTensor(op, type);
  if (failed(meta))
    return failure();
  meta->flags |= PYJIT_TENSOR_HAS_OFFSET;
  meta->offset = op.getOffset();
  uint32_t base = use(op.getBase()), expressions = 0;
  if (!op.getSymbols().empty()) {
    SmallVector<int64_t> code;
    code.push_back(op.getSymbols().size());
    for (Value symbol : op.getSymbols())
      code.push_back(use(symbol));
    auto encode = [&](const analysis::SizePolynomial &size) {
      code.push_back(size.getTerms().size());
      for (auto &[monomial, factor] : size.getTerms()) {
        code.push_back(factor);
        code.push_back(monomial.size());
        code.append(monomial.begin(), monomial.end());
      }
    };
    for (unsigned i = 0; i < type.getRank(); ++i)
      if (ShapedType::isDynamic(type.getShape()[i]))
        encode(type.getSize(i));
    for (unsigned i = 0; i < type.getRank(); ++i)
      if (ShapedType::isDynamic(type.getStrides()[i]))
        encode(type.getStride(i));
    AffineMapAttr plus = op.getPlusAttr();
    encode(plus ? *analysis::SizePolynomial::fromAffine(
                      operators::getSizeArgument(plus))
                : analysis::SizePolynomial(0));
    expressions = 1 + out.pools.addInts(code);
  }
  add(PYJIT_MOCK_VIEW, define(op.getResult()), base, expressions,
      out.pools.addTensor(*meta));
  out.insts.back().flags =
      llvm::StringSwitch<uint16_t>(op.getShown().value_or(""))
          .Case("detached", PYJIT_MOCK_FLAG_DETACHED)
          .Case("view of detached", PYJIT_MOCK_FLAG_OF_DETACHED)
          .Case("data", PYJIT_MOCK_FLAG_DATA)
          .Case("no_grad", PYJIT_MOCK_FLAG_NO_GRAD)
          .Case("grad", PYJIT_MOCK_FLAG_GRAD)
          .Case("one of several",
                PYJIT_MOCK_FLAG_GRAD | PYJIT_MOCK_FLAG_SEVERAL)
          .Case("reshaped", PYJIT_MOCK_FLAG_RESHAPED)
          .Default(0);
  return success();
}

LogicalResult MockEncoder::encodeWrite(Operation *op, bool isDelete,
                                       Value holder,
                                       refgraph::Selector selector,
                                       Attribute key, uint32_t value) {
  using refgraph::Selector;
  auto emit = [&](PyjitMockOp set, PyjitMockOp remove, int64_t imm) {
    add(isDelete ? remove : set, 0, use(holder), value, imm);
    return success();
  };
  switch (selector) {
  case Selector::attr:
    return emit(PYJIT_MOCK_SET_ATTR, PYJIT_MOCK_DEL_ATTR,
                out.pools.addConstant(key));
  case Selector::item:
    return emit(PYJIT_MOCK_SET_ITEM, PYJIT_MOCK_DEL_ITEM,
                out.pools.addConstant(key));
  case Selector::typeattr:
    return emit(PYJIT_MOCK_SET_TYPEATTR, PYJIT_MOCK_DEL_TYPEATTR,
                out.pools.addConstant(key));
  case Selector::cell:
    return emit(PYJIT_MOCK_SET_CELL, PYJIT_MOCK_DEL_CELL,
                cast<IntegerAttr>(key).getInt());
  case Selector::slot:
    return emit(PYJIT_MOCK_SET_SLOT, PYJIT_MOCK_DEL_SLOT,
                out.pools.addConstant(key));
  case Selector::grad:
    if (isDelete)
      return op->emitOpError("a tensor's gradient is None, it is never gone");
    add(PYJIT_MOCK_SET_GRAD, 0, use(holder), value);
    return success();
  case Selector::data:
    if (isDelete)
      return op->emitOpError("a tensor always holds a number");
    add(PYJIT_MOCK_SET_DATA, 0, use(holder), value);
    return success();
  case Selector::storage:
    if (isDelete)
      return op->emitOpError("a tensor always shows some memory");
    add(PYJIT_MOCK_SET_STORAGE, 0, use(holder), value);
    return success();
  default:
    return op->emitOpError("cannot be encoded");
  }
}

LogicalResult MockEncoder::encodeOp(Operation *op) {
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](refgraph::ObjectOp object) {
        add(PYJIT_MOCK_OBJECT, define(object.getResult()), 0, 0,
            object.getIndex());
        return success();
      })
      .Case([&](refgraph::ConstantOp constant) {
        add(PYJIT_MOCK_CONST, define(constant.getResult()), 0,
            out.pools.addConstant(constant.getValue()));
        return success();
      })
      .Case([&](refgraph::CreateOp create) { return encodeCreate(create); })
      .Case([&](refgraph::ViewOp view) { return encodeView(view); })
      .Case([&](refgraph::CopyBackOp copy) {
        add(PYJIT_MOCK_COPY_BACK, 0, use(copy.getInput()),
            use(copy.getValue()));
        return success();
      })
      .Case([&](refgraph::SetOp set) {
        return encodeWrite(set, false, set.getHolder(), set.getSelector(),
                           set.getKeyAttr(), use(set.getValue()));
      })
      .Case([&](refgraph::DeleteOp del) {
        return encodeWrite(del, true, del.getHolder(), del.getSelector(),
                           del.getKeyAttr(), 0);
      })
      .Case([&](refgraph::AppendOp append) {
        add(PYJIT_MOCK_APPEND, 0, use(append.getHolder()),
            use(append.getValue()));
        return success();
      })
      .Case([&](refgraph::ReplaceOp replace) {
        uint32_t holder = use(replace.getHolder());
        if (ArrayAttr keys = replace.getKeysAttr()) {
          add(PYJIT_MOCK_CLEAR, 0, holder);
          setItems(holder, keys, replace.getValues());
        } else {
          add(PYJIT_MOCK_REPLACE, 0, holder, addList(replace.getValues()),
              replace.getValues().size());
        }
        return success();
      })
      .Case([&](refgraph::AdvanceOp advance) {
        add(PYJIT_MOCK_ADVANCE, 0, use(advance.getTensor()), 0,
            advance.getCount());
        return success();
      })
      .Case([&](refgraph::RequireGradOp leaf) {
        add(leaf.getFreed() ? PYJIT_MOCK_FREED_GRAPH : PYJIT_MOCK_REQUIRE_GRAD,
            0, use(leaf.getTensor()));
        return success();
      })
      .Case([&](refgraph::DifferentiableOp view) {
        add(PYJIT_MOCK_DIFFERENTIABLE, 0, use(view.getTensor()));
        return success();
      })
      .Case([&](refgraph::LeaveOp leave) {
        add(PYJIT_MOCK_RETURN, 0, use(leave.getValue()));
        return success();
      })
      .Default([](Operation *other) {
        return other->emitOpError("cannot be encoded in a mock");
      });
}

LogicalResult MockEncoder::encode(refgraph::MockOp mock) {
  const PyjitGuardProgram &guard = *guards.get();
  if (mock.getInputs().size() != guard.numInputs ||
      mock.getKept().size() != guards.getKept().size())
    return mock.emitOpError("has ")
           << mock.getInputs().size() << " inputs and " << mock.getKept().size()
           << " kept objects, its guards accept " << guard.numInputs << " and "
           << guards.getKept().size();
  numRegisters = guard.numRegisters;
  for (BlockArgument argument : mock.getResults())
    define(argument);
  for (auto [i, argument] : llvm::enumerate(mock.getInputs()))
    if (guard.inputs[i] & PYJIT_INPUT_KEPT_CAST && !argument.use_empty())
      return mock.emitOpError("hands out the cast that autocast keeps of a "
                              "weight, input ")
             << i;
  auto given = [&](BlockArgument argument, uint32_t reg) {
    if (!(reg & PYJIT_INPUT_NUMBER))
      registers[argument] = reg;
    else if (!argument.use_empty())
      add(PYJIT_MOCK_BOX, define(argument), reg & ~PYJIT_INPUT_NUMBER);
  };
  for (auto [i, argument] : llvm::enumerate(mock.getInputs()))
    given(argument, guard.inputs[i]);
  for (auto [i, argument] : llvm::enumerate(mock.getKept()))
    given(argument, guards.getKept()[i]);
  for (Operation &op : mock.getBody().front())
    if (failed(encodeOp(&op)))
      return failure();
  PyjitMockProgram &program = out.program;
  program.version = PYJIT_PROGRAMS_VERSION;
  program.numRegisters = numRegisters;
  program.firstResult = guard.numRegisters;
  program.numResults = mock.getResults().size();
  program.insts = out.insts.data();
  program.numInsts = out.insts.size();
  program.pools = out.pools.view();
  return success();
}

LogicalResult encodeMock(refgraph::MockOp mock, const GuardProgram &guards,
                         MockProgram &program) {
  program = MockProgram();
  return MockEncoder(guards, program).encode(mock);
}

LogicalResult encodeSpecialization(refgraph::GuardsOp guards,
                                   refgraph::MockOp mock,
                                   GuardProgram &guardProgram,
                                   MockProgram &mockProgram) {
  if (failed(encodeGuards(guards, guardProgram)))
    return failure();
  return encodeMock(mock, guardProgram, mockProgram);
}

} // namespace pyjit::executable
