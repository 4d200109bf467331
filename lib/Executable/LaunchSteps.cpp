//===- LaunchSteps.cpp - The steps of straight-line code ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels, vendor calls, views and copies, each as the step that the runtime
// carries out, and what it says of the slots that it defines.
//
//===----------------------------------------------------------------------===//

#include "LaunchEncoder.h"

#include "dialects/pyjit/IR/Attributes.h"
#include "dialects/tssa/IR/Views.h"
#include "pyjit/Operators/OperatorFacts.h"
#include "pyjit/Operators/OperatorNames.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace pyjit;
using namespace pyjit::executable;

LogicalResult LaunchEncoder::encodeCall(tssa::AtenOp op) {
  if (op->hasAttr(attribute::kInPlace))
    return encodePart(op);
  unsigned numWritten = op.getMutates() ? op.getMutates()->size() : 0;
  SmallVector<std::pair<Value, uint32_t>> replaced;
  for (auto [operand, version] :
       llvm::zip(op.getMutates().value_or(ArrayRef<int64_t>()),
                 op.getResults().take_back(numWritten))) {
    Value written = op.getOperands()[operand];
    uint32_t before = slotOf.lookup(written);
    if (failed(encodeCopy(op, written, version)))
      return failure();
    replaced.emplace_back(written, before);
    slotOf[written] = slotOf.lookup(version);
  }
  auto fresh = op.getResults().drop_back(numWritten);
  for (Value result : fresh)
    if (failed(addSlot(result, rt::SlotKind::Result)))
      return failure();
  // A kernel would read it by the recorded size.
  auto isForCalls = [](Value value) {
    return llvm::all_of(value.getUsers(), [](Operation *user) {
      return isa<tssa::AtenOp>(user) || user->hasTrait<OpTrait::IsTerminator>();
    });
  };
  if (!fresh.empty() && isForCalls(fresh.back()) &&
      operators::lookupFacts(op.getOverload()).lastResultOpaque)
    blob.slots[slotOf[fresh.back()]].flags |= rt::kSlotOpaque;
  SmallVector<uint32_t> operands;
  for (Value operand : op.getOperands())
    operands.push_back(slotOf.lookup(operand));
  FailureOr<uint32_t> arguments = blob.addArguments(op, op.getArgs(), operands);
  if (failed(arguments))
    return failure();
  SmallVector<int64_t> results{static_cast<int64_t>(fresh.size())};
  for (Value result : fresh)
    results.push_back(result.use_empty() ? -1 : int64_t(slotOf[result]));
  step(rt::StepKind::Call, blob.string(op.getOverload()), *arguments,
       blob.words(results));
  for (auto [value, slot] : replaced)
    slotOf[value] = slot;
  return success();
}

/// Values do not change, so a vendor call that writes an operand gets a copy
/// of it to write, unless nothing else will ever look at the operand.
LogicalResult LaunchEncoder::encodeCopy(tssa::AtenOp op, Value written,
                                        Value version) {
  uint32_t slot = slotOf.lookup(written);
  bool last = blob.slots[slot].kind == rt::SlotKind::Result &&
              isFree(slot, op, /*before=*/false) &&
              llvm::count(op.getOperands(), written) == 1 &&
              written.getType() == version.getType();
  if (failed(
          addSlot(version, last ? rt::SlotKind::View : rt::SlotKind::Result)))
    return failure();
  if (last) {
    step(rt::StepKind::View, slotOf[version], slot, blob.words(0));
    return success();
  }
  auto word = [](rt::ArgTag tag) { return static_cast<int64_t>(tag); };
  uint32_t arguments =
      blob.words({word(rt::ArgTag::Tensor), slot, word(rt::ArgTag::None),
                  word(rt::ArgTag::End)});
  step(rt::StepKind::Call, blob.string(operators::aten::clone), arguments,
       blob.words({1, static_cast<int64_t>(slotOf[version])}));
  return success();
}

LogicalResult LaunchEncoder::encodeKernel(func::CallOp op) {
  uint32_t kernel = blob.addKernel(op.getCallee(), lookup);
  bool readsSymbols = lookup(op.getCallee()).readsSymbols;
  if (readsSymbols && !blob.numSymbols())
    return op.emitError("its kernel has symbolic sizes, but the function does "
                        "not say what its symbols are (pyjit.symbols)");
  SmallVector<int64_t> words;
  for (Value operand : op.getOperands())
    words.push_back(slotOf.lookup(operand));
  auto places = op->getAttrOfType<DenseI64ArrayAttr>(attribute::kInPlace);
  uint16_t flags = 0;
  for (OpResult result : op->getResults()) {
    std::optional<uint32_t> slot = carriedBuffer(result);
    if (int64_t input = places ? places[result.getResultNumber()] : -1;
        input >= 0) {
      slot = slotOf.lookup(function.getArgument(input));
      flags = rt::kStepWritesInput;
    } else if (!slot || llvm::is_contained(words, *slot)) {
      auto buffer =
          newBuffer(op.getLoc(), result.getType(), lifetimes.begin(op));
      if (failed(buffer))
        return failure();
      slot = *buffer;
    }
    bind(result, *slot);
    words.push_back(*slot);
  }
  if (readsSymbols)
    words.push_back(blob.symbolSlot());
  step(rt::StepKind::Kernel, kernel, blob.words(words), words.size(), flags);
  return success();
}

/// A path with numbers known at run time, step by step: how many elements of
/// what it views each of them may count.
static SmallVector<int64_t> indexLimits(ArrayAttr path,
                                        RankedTensorType source) {
  SmallVector<int64_t> limits;
  auto noError = [&]() -> InFlightDiagnostic { return {}; };
  for (auto view : path.getAsRange<tssa::ViewAttr>()) {
    ArrayRef<int64_t> params = view.getParams();
    if (view.getNumDynamic() == 1) {
      int64_t size = source.getDimSize(params[0]);
      if (view.getKind() == tssa::ViewKind::slice)
        size = params[2] == 0 ? size + 1 : size - (params[2] - 1) * params[3];
      limits.push_back(size);
    }
    source = tssa::inferViewType(view, source, noError);
  }
  return limits;
}

LogicalResult LaunchEncoder::encodeView(Operation *op, ArrayAttr path,
                                        ValueRange indices,
                                        RankedTensorType source, uint32_t from,
                                        uint32_t to) {
  AffineMap map = tssa::getPathMap(path, source);
  if (map && indices.empty() &&
      (tssa::isSymbolic(source) || map.getNumSymbols())) {
    auto offset = tssa::getFirstOffset(map, source);
    if (failed(offset))
      return op->emitError("a view whose place is no polynomial over sizes "
                           "cannot be launched");
    uint32_t word = blob.words(offset->isConstant() ? offset->constant() : 0);
    if (!offset->isConstant())
      blob.patch(rt::PatchKind::Int, word, offset->toExpr(op->getContext()));
    step(rt::StepKind::View, to, from, word);
    return success();
  }
  if (!map || !source.hasStaticShape() || map.getNumSymbols() != indices.size())
    return op->emitError("a launch program cannot show this view");
  // The first element's place; the strides are those of the result's type.
  SmallVector<int64_t> strides = tssa::getStrides(source);
  Builder builder(op->getContext());
  SmallVector<AffineExpr> first(map.getNumDims(),
                                builder.getAffineConstantExpr(0));
  auto offsetAt = [&](ArrayRef<int64_t> numbers) {
    SmallVector<AffineExpr> symbols;
    for (int64_t number : numbers)
      symbols.push_back(builder.getAffineConstantExpr(number));
    int64_t offset = 0;
    for (auto [expr, stride] : llvm::zip(map.getResults(), strides)) {
      AffineExpr index = expr.replaceDimsAndSymbols(first, symbols);
      offset += cast<AffineConstantExpr>(index).getValue() * stride;
    }
    return offset;
  };
  SmallVector<int64_t> numbers(indices.size(), 0);
  int64_t start = offsetAt(numbers);
  if (indices.empty()) {
    step(rt::StepKind::View, to, from, blob.words(start));
    return success();
  }
  SmallVector<int64_t> limits = indexLimits(path, source);
  if (limits.size() != indices.size())
    return op->emitError("several numbers of one view are known at run time "
                         "only");
  SmallVector<int64_t> words;
  int64_t expected = start, offset = start;
  for (auto [i, index] : llvm::enumerate(indices)) {
    auto number = numberOf(op, index);
    if (failed(number))
      return failure();
    int64_t limit = limits[i], stride = 0;
    if (limit > 1) {
      numbers[i] = 1;
      stride = offsetAt(numbers) - start;
      numbers[i] = 0;
      expected += stride * (limit - 1);
    }
    if (!number->slot) {
      if (number->add < 0 || number->add >= limit)
        return op->emitError("index out of range");
      offset += number->add * stride;
      continue;
    }
    llvm::append_values(words, *number->slot, number->multiply, number->add,
                        limit, stride);
  }
  // Any strided view is linear in its numbers: say so rather than rely on it.
  for (auto [number, limit] : llvm::zip(numbers, limits))
    number = std::max<int64_t>(limit - 1, 0);
  if (offsetAt(numbers) != expected)
    return op->emitError("a view whose place is not linear in its indices");
  int64_t count = words.size() / 5;
  words.insert(words.begin(), {offset, count});
  step(rt::StepKind::View, to, from, blob.words(words), rt::kStepDynamic);
  return success();
}

LogicalResult LaunchEncoder::encodeAccess(tssa::AccessOp op) {
  uint32_t from = slotOf.lookup(op.getSource());
  if (failed(addSlot(op.getResult(), rt::SlotKind::View)))
    return failure();
  uint32_t to = slotOf.lookup(op.getResult());
  auto roots = rootsOf.lookup(from);
  if (roots.empty())
    roots.push_back(from);
  rootsOf[to] = roots;
  bool ofWhole =
      roots.size() == 1 && (roots.front() == from || wholes.contains(from));
  if (ofWhole && tssa::showsWhole(op))
    wholes.insert(to);
  return encodeView(op, op.getPath(), op.getIndices(),
                    cast<RankedTensorType>(op.getSource().getType()), from, to);
}

LogicalResult LaunchEncoder::encodePick(tssa::PickOp op) {
  auto number = numberOf(op, op.getIndex());
  if (failed(number) || failed(addSlot(op.getResult(), rt::SlotKind::View)))
    return failure();
  uint32_t to = slotOf.lookup(op.getResult());
  SmallVector<int64_t> words;
  for (Value choice : op.getChoices()) {
    uint32_t from = slotOf.lookup(choice);
    words.push_back(from);
    auto roots = rootsOf.lookup(from);
    if (roots.empty())
      roots.push_back(from);
    llvm::append_range(rootsOf[to], roots);
  }
  if (!number->slot) {
    if (number->add < 0 || number->add >= int64_t(words.size()))
      return op.emitError("index out of range");
    step(rt::StepKind::Move, to, words[number->add]);
    return success();
  }
  words.insert(words.begin(), {int64_t(*number->slot), number->multiply,
                               number->add, int64_t(words.size())});
  step(rt::StepKind::Pick, to, blob.words(words));
  return success();
}

bool LaunchEncoder::isEmpty(Value value) {
  return value &&
         isa_and_nonnull<tensor::EmptyOp, tssa::EmptyOp>(value.getDefiningOp());
}

/// The target's memory becomes the result's where nobody needs it any more;
/// then only the part is copied.
LogicalResult LaunchEncoder::encodeAssign(tssa::AssignOp op) {
  if (op->hasAttr(attribute::kInPlace))
    return encodePart(op);
  auto type = cast<RankedTensorType>(op.getType());
  uint32_t target = slotOf.lookup(op.getTarget());
  uint32_t source = slotOf.lookup(op.getSource());
  int64_t now = lifetimes.begin(op);
  bool inPlace = buffers.contains(target) && !counters.contains(target) &&
                 source != target &&
                 !llvm::is_contained(rootsOf.lookup(source), target) &&
                 isFree(target, op, /*before=*/false);
  uint32_t result = target;
  if (!inPlace) {
    auto buffer = newBuffer(op.getLoc(), type, now);
    if (failed(buffer))
      return failure();
    result = *buffer;
    step(rt::StepKind::Copy, target, result);
  }
  bind(op.getResult(), result);
  RankedTensorType part =
      tssa::inferPathType(op.getPath(), type, [&] { return op.emitError(); });
  if (!part)
    return failure();
  auto view = newSlot(op.getLoc(), part, rt::SlotKind::View);
  if (failed(view) || failed(encodeView(op, op.getPath(), op.getIndices(), type,
                                        result, *view)))
    return failure();
  step(rt::StepKind::Copy, source, *view);
  return success();
}
