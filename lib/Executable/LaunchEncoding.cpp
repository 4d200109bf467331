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
// A function
//===----------------------------------------------------------------------===//

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
