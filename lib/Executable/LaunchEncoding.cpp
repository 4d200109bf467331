//===- LaunchEncoding.cpp - From a planned function to launch bytes -------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "pyjit/Executable/LaunchEncoding.h"
#include "dialects/pyjit/IR/Attributes.h"
#include "pyjit/Operators/OperatorFacts.h"
#include "pyjit/Operators/OperatorNames.h"

#include "LaunchEncoder.h"

#include "dialects/refgraph/IR/RefGraph.h"
#include "dialects/tssa/IR/Views.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace pyjit;
using namespace pyjit::executable;

//===----------------------------------------------------------------------===//
// Slots
//===----------------------------------------------------------------------===//

FailureOr<uint32_t> LaunchEncoder::newSlot(Location loc, Type type,
                                           rt::SlotKind kind, uint64_t place) {
  return blob.addSlot(loc, type, kind, place);
}

FailureOr<uint32_t> LaunchEncoder::newBuffer(Location loc, Type type,
                                             int64_t first, int64_t last) {
  auto slot = newSlot(loc, type, rt::SlotKind::Arena);
  if (succeeded(slot))
    buffers[*slot] = {first, std::max(first, last),
                      static_cast<int64_t>(blob.slots[*slot].bytes)};
  return slot;
}

void LaunchEncoder::bind(Value value, uint32_t slot) {
  slotOf[value] = slot;
  valuesOf[slot].push_back(value);
  if (auto found = buffers.find(slot); found != buffers.end())
    found->second.last = std::max(found->second.last, lifetimes.lastUse(value));
}

LogicalResult LaunchEncoder::addSlot(Value value, rt::SlotKind kind,
                                     uint64_t place) {
  auto slot = newSlot(value.getLoc(), value.getType(), kind, place);
  if (failed(slot))
    return failure();
  bind(value, *slot);
  // Vendor results are dropped after their last use, so that the allocator may
  // give their memory to the next one.
  if (kind == rt::SlotKind::Result || kind == rt::SlotKind::View)
    releases[lifetimes.lastUse(value)].push_back(*slot);
  return success();
}

void LaunchEncoder::releaseAt(int64_t position) {
  if (auto found = releases.find(position); found != releases.end())
    for (uint32_t slot : found->second)
      step(rt::StepKind::Release, slot);
}

bool LaunchEncoder::isFree(uint32_t slot, Operation *op, bool before) {
  int64_t now = lifetimes.begin(op);
  return llvm::all_of(valuesOf[slot], [&](Value value) {
    int64_t last = lifetimes.lastUse(value, op);
    return before ? last < now : last <= now;
  });
}

/// Not what saved values show, too: that lies in their block.
std::optional<uint32_t> LaunchEncoder::givenBuffer(unsigned number) {
  uint32_t slot = uint32_t(blob.ints[number]), root = slot;
  if (wholes.contains(slot)) {
    root = rootsOf.find(slot)->second.front();
    for (unsigned i = firstSaved; i < function.getNumResults(); ++i)
      if (savedRoot(uint32_t(blob.ints[i])) == root)
        return std::nullopt;
  }
  if (!buffers.contains(root) || counters.contains(root))
    return std::nullopt;
  return root;
}

/// Decides where buffers live: those with values that are returned are fresh at
/// each call, the others share the arena.
void LaunchEncoder::placeBuffers() {
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    if (auto given = givenBuffer(i))
      blob.slots[*given].kind = rt::SlotKind::Fresh;
  savedBytes = placeSaved();
  std::vector<Lifetime> shared;
  std::vector<uint32_t> owners;
  for (auto &[slot, lifetime] : buffers)
    if (blob.slots[slot].kind == rt::SlotKind::Arena) {
      shared.push_back(lifetime);
      owners.push_back(slot);
    }
  SmallVector<analysis::Size> bytes;
  for (uint32_t owner : owners)
    bytes.push_back(blob.bytesOf(owner));
  if (llvm::any_of(bytes, [](auto &size) { return !size.isConstant(); })) {
    SymbolicArena arena = planArena(shared, bytes, function.getContext());
    for (auto [owner, offset] : llvm::zip(owners, arena.offsets))
      blob.patch(rt::PatchKind::SlotPlace, owner, offset);
    blob.patch(rt::PatchKind::ArenaBytes, 0, arena.bytes);
    return;
  }
  arenaBytes = planArena(shared);
  for (auto [lifetime, owner] : llvm::zip(shared, owners))
    blob.slots[owner].place = lifetime.offset;
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

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

LogicalResult LaunchEncoder::encode(Operation *op) {
  if (auto call = dyn_cast<func::CallOp>(op))
    return encodeKernel(call);
  if (auto call = dyn_cast<tssa::AtenOp>(op))
    return encodeCall(call);
  if (auto view = dyn_cast<tssa::AccessOp>(op))
    return encodeAccess(view);
  if (auto pick = dyn_cast<tssa::PickOp>(op))
    return encodePick(pick);
  if (auto assign = dyn_cast<tssa::AssignOp>(op))
    return encodeAssign(assign);
  if (isEmpty(op->getNumResults() ? op->getResult(0) : Value())) {
    if (llvm::all_of(op->getUsers(), llvm::IsaPred<scf::ForOp, scf::WhileOp>))
      return success(); // each loop has a buffer of its own
    auto buffer = newBuffer(op->getLoc(), op->getResult(0).getType(),
                            lifetimes.begin(op));
    if (failed(buffer))
      return failure();
    bind(op->getResult(0), *buffer);
    return success();
  }
  if (auto speculate = dyn_cast<tssa::SpeculateOp>(op)) {
    step(rt::StepKind::Speculate, slotOf.lookup(speculate.getFlag()));
    return success();
  }
  if (auto loop = dyn_cast<scf::WhileOp>(op))
    return encodeWhile(loop);
  if (auto loop = dyn_cast<scf::ForOp>(op))
    return encodeFor(loop);
  if (auto branch = dyn_cast<scf::IfOp>(op))
    return encodeIf(branch);
  if (isa<tensor::ExtractOp, tensor::FromElementsOp>(op) ||
      isa<arith::ArithDialect>(op->getDialect()))
    return encodeNumber(op);
  return op->emitError("is neither a kernel, a vendor call nor a view; "
                       "fusion-outline should have put it into a kernel");
}

LogicalResult LaunchEncoder::encode(Block &block) {
  for (Operation &op : block.without_terminator()) {
    if (failed(encode(&op)))
      return failure();
    // What entering a region needs last is dropped behind it.
    releaseAt(lifetimes.begin(&op));
    if (op.getNumRegions())
      releaseAt(lifetimes.end(&op));
  }
  return success();
}

/// Whether the slot's memory is, or may be, an input's that is written.
bool LaunchEncoder::showsWritten(uint32_t slot) const {
  auto isWritten = [&](uint32_t root) {
    return blob.slots[root].flags & rt::kSlotWritten;
  };
  return isWritten(slot) || llvm::any_of(rootsOf.lookup(slot), isWritten);
}

LogicalResult LaunchEncoder::ownResult(unsigned number, Value value) {
  uint32_t slot = slotOf.lookup(value);
  auto given = givenBuffer(number);
  bool isOwn = given || blob.slots[slot].kind == rt::SlotKind::Result;
  for (unsigned i = 0; i < number; ++i)
    isOwn &= updates.contains(i) ||
             (blob.ints[i] != slot && (!given || givenBuffer(i) != given));
  // Values that are saved may share memory of the call's own.
  if (isOwn || (number >= firstSaved && savedRoot(slot)))
    return success();
  auto buffer = newBuffer(value.getLoc(), value.getType(),
                          lifetimes.begin(function.front().getTerminator()));
  if (failed(buffer))
    return failure();
  step(rt::StepKind::Copy, slot, *buffer);
  blob.ints[number] = *buffer;
  return success();
}

/// Whether a Copy step can put `value` where `input` is: element by element.
static bool canCopy(Value value, BlockArgument input) {
  auto from = dyn_cast<RankedTensorType>(value.getType());
  auto to = dyn_cast<RankedTensorType>(input.getType());
  return from == to ||
         (from && to && from.hasStaticShape() && to.hasStaticShape() &&
          from.getShape() == to.getShape() &&
          from.getElementType() == to.getElementType());
}

LogicalResult LaunchEncoder::finishUpdates() {
  Operation *last = function.front().getTerminator();
  int64_t now = lifetimes.begin(last);
  for (auto [i, value] : llvm::enumerate(last->getOperands()))
    if (!updates.contains(i) && failed(ownResult(i, value)))
      return failure();
  // What another copy is about to overwrite is read before any of them.
  SmallVector<std::pair<uint32_t, uint32_t>> copies;
  for (auto [i, target] : updates) {
    Value value = last->getOperand(i);
    uint32_t source = slotOf.lookup(value);
    blob.ints[i] = int64_t(target) | rt::kOutputInPlace;
    if (source == target)
      continue;
    if (showsWritten(source)) {
      auto buffer = newBuffer(value.getLoc(), value.getType(), now);
      if (failed(buffer))
        return failure();
      step(rt::StepKind::Copy, source, *buffer);
      source = *buffer;
    }
    copies.emplace_back(source, target);
  }
  for (auto [source, target] : copies)
    step(rt::StepKind::Copy, source, target, 0, rt::kStepWritesInput);
  return success();
}

FailureOr<LaunchProgram> LaunchEncoder::run() {
  if (failed(blob.readSymbols(function)))
    return failure();
  for (BlockArgument arg : function.getArguments()) {
    auto cached = function.getArgAttrOfType<IntegerAttr>(arg.getArgNumber(),
                                                         attribute::kCached);
    if (failed(addSlot(arg, cached ? rt::SlotKind::Cached : rt::SlotKind::Input,
                       cached ? cached.getInt() : numInputs)))
      return failure();
    if (function.getArgAttr(arg.getArgNumber(), attribute::kParam))
      blob.slots[slotOf[arg]].flags |= rt::kSlotStable;
    numInputs += !cached;
  }
  if (auto pairs = function->getAttrOfType<ArrayAttr>(attribute::kUpdates))
    for (auto pair : pairs.getAsRange<DenseI64ArrayAttr>())
      if (canCopy(function.front().getTerminator()->getOperand(pair[0]),
                  function.getArgument(pair[1])))
        updates[pair[0]] = slotOf.lookup(function.getArgument(pair[1]));
  for (auto [result, slot] : updates)
    blob.slots[slot].flags |= rt::kSlotWritten;
  keepIndices();
  if (failed(encode(function.front())))
    return failure();
  for (auto [i, value] :
       llvm::enumerate(function.front().getTerminator()->getOperands()))
    blob.ints[i] = slotOf.lookup(value);
  if (!updates.empty() && failed(finishUpdates()))
    return failure();
  placeBuffers();
  rt::Header header{};
  header.inputs = numInputs;
  header.outputs = function.getNumResults();
  header.arenaBytes = arenaBytes;
  header.savedBytes = savedBytes;
  header.firstSaved = std::min(firstSaved, header.outputs);
  header.code = rt::kNone;
  return blob.assemble(header);
}

/// How a GPU's code of the kernel is launched. Nothing where the declaration is
/// one of the host's.
static void describeLaunch(Operation *kernel, KernelInfo &info) {
  auto symbol = kernel->getAttrOfType<StringAttr>(attribute::kSymbol);
  if (!symbol)
    return;
  info.symbol = symbol.str();
  auto read = [&](StringRef name, std::array<uint32_t, 3> &numbers) {
    if (auto attr = kernel->getAttrOfType<DenseI32ArrayAttr>(name))
      llvm::copy(attr.asArrayRef().take_front(3), numbers.begin());
  };
  read(attribute::kGrid, info.grid);
  read(attribute::kBlock, info.block);
  if (auto shared = kernel->getAttrOfType<IntegerAttr>(attribute::kShared))
    info.sharedBytes = shared.getInt();
  info.waits = kernel->hasAttr(attribute::kWaits);
  if (auto align = kernel->getAttrOfType<DenseI32ArrayAttr>(attribute::kAlign))
    info.align.assign(align.asArrayRef().begin(), align.asArrayRef().end());
  // A word that holds an address is always aligned.
  if (auto indirect =
          kernel->getAttrOfType<DenseBoolArrayAttr>(attribute::kIndirect))
    for (auto [align, isIndirect] :
         llvm::zip(info.align, indirect.asArrayRef()))
      if (isIndirect)
        align = 1;
}

KernelInfo pyjit::executable::describeKernel(Operation *module,
                                             StringRef name) {
  Operation *kernel = SymbolTable::lookupSymbolIn(module, name);
  KernelInfo info;
  info.location = refgraph::lineOf(kernel->getLoc());
  auto read = [&](StringRef name, int64_t &value, AffineExpr &symbolic) {
    Attribute attr = kernel->getAttr(name);
    if (auto number = dyn_cast_or_null<IntegerAttr>(attr))
      value = number.getInt();
    else if (auto map = dyn_cast_or_null<AffineMapAttr>(attr))
      symbolic = map.getValue().getResult(0);
  };
  read(attribute::kWork, info.work, info.symbolicWork);
  read(attribute::kGrain, info.grain, info.symbolicGrain);
  int64_t blocks = 0;
  read(attribute::kBlocks, blocks, info.symbolicBlocks);
  if (auto list =
          kernel->getAttrOfType<DenseI64ArrayAttr>(attribute::kReadsSymbols))
    info.symbolParameters = list.asArrayRef().vec();
  else
    info.readsSymbols = kernel->hasAttr(attribute::kReadsSymbols);
  info.deviceSizes = kernel->hasAttr(attribute::kDeviceSizes);
  describeLaunch(kernel, info);
  return info;
}

FailureOr<LaunchProgram> pyjit::executable::encodeLaunch(
    func::FuncOp function, llvm::function_ref<KernelInfo(StringRef)> lookup,
    unsigned firstSaved) {
  if (function.isExternal())
    return function.emitError("has no body to be launched");
  if (!function.getBody().hasOneBlock())
    return function.emitError(
        "control flow that is not structured cannot be launched");
  return LaunchEncoder(function, lookup, firstSaved).run();
}

FailureOr<LaunchProgram>
pyjit::executable::encodeEntry(Operation *entry, ArrayRef<std::string> code,
                               llvm::function_ref<KernelInfo(StringRef)> lookup,
                               unsigned firstSaved) {
  if (auto function = dyn_cast<func::FuncOp>(entry))
    return encodeLaunch(function, lookup, firstSaved);
  return encodeProgram(entry, code, lookup, firstSaved);
}
