//===- LaunchEncoding.cpp - From a planned function to launch bytes -------===//

#include "pyjit/Executable/LaunchEncoding.h"

#include "ArenaPlan.h"
#include "BlobBuilder.h"

#include "dialects/tssa/IR/TSSA.h"
#include "dialects/tssa/IR/Views.h"

#include "llvm/ADT/DenseMap.h"

using namespace mlir;
using namespace pyjit;
using namespace pyjit::executable;

namespace {

class Encoder {
public:
  Encoder(func::FuncOp function,
          llvm::function_ref<KernelInfo(StringRef)> lookup)
      : function(function), lookup(lookup), blob(function.getNumResults()) {}

  FailureOr<LaunchProgram> run();

private:
  LogicalResult addSlot(Value value, rt::SlotKind kind, uint64_t place);
  LogicalResult encodeCall(tssa::AtenOp op);
  LogicalResult encodeCopy(tssa::AtenOp op, Value written, Value version);
  LogicalResult encodeKernel(func::CallOp op);
  LogicalResult encodeView(tssa::AccessOp op);
  void findLifetimes();
  void placeBuffers();
  void step(rt::StepKind kind, uint32_t a, uint32_t b = 0, uint32_t c = 0) {
    blob.step(kind, a, b, c);
  }
  void releaseAfter(Operation *op);

  func::FuncOp function;
  llvm::function_ref<KernelInfo(StringRef)> lookup;

  BlobBuilder blob;
  DenseMap<Value, uint32_t> slotOf;
  DenseMap<Operation *, int64_t> position; ///< of each op in the block
  DenseMap<Value, int64_t> lastUse; ///< views count as uses of their base
  uint64_t arenaBytes = 0;
  uint32_t numInputs = 0;
};

LogicalResult Encoder::addSlot(Value value, rt::SlotKind kind, uint64_t place) {
  auto slot = blob.addSlot(value.getLoc(), value.getType(), kind, place);
  if (succeeded(slot))
    slotOf[value] = *slot;
  return slot;
}

void Encoder::findLifetimes() {
  int64_t at = 0;
  Block &block = function.front();
  for (Operation &op : block)
    position[&op] = at++;
  for (Operation &op : llvm::reverse(block)) {
    // A view keeps its base alive for as long as it is used itself.
    int64_t use = position[&op];
    if (isa<tssa::AccessOp>(op))
      if (auto found = lastUse.find(op.getResult(0)); found != lastUse.end())
        use = found->second;
    for (Value operand : op.getOperands()) {
      int64_t &last = lastUse[operand];
      last = std::max(last, use);
    }
  }
}

/// Decides where the results of kernels live: returned values are fresh at each
/// call, the others share the arena.
void Encoder::placeBuffers() {
  auto ret = cast<func::ReturnOp>(function.front().getTerminator());
  std::vector<Lifetime> lifetimes;
  std::vector<uint32_t> owners;
  for (auto call : function.front().getOps<func::CallOp>())
    for (Value result : call.getResults()) {
      uint32_t index = slotOf[result];
      if (llvm::is_contained(ret.getOperands(), result))
        continue;
      blob.slots[index].kind = rt::SlotKind::Arena;
      int64_t first = position[call];
      auto last = lastUse.find(result);
      lifetimes.push_back({first, last == lastUse.end() ? first : last->second,
                           static_cast<int64_t>(blob.slots[index].bytes)});
      owners.push_back(index);
    }
  arenaBytes = planArena(lifetimes);
  for (auto [lifetime, owner] : llvm::zip(lifetimes, owners))
    blob.slots[owner].place = lifetime.offset;
}

LogicalResult Encoder::encodeCall(tssa::AtenOp op) {
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
    if (failed(addSlot(result, rt::SlotKind::Result, 0)))
      return failure();
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

/// Values do not change, so a library call that writes an operand gets a copy
/// of it to write, unless nothing else will ever look at the operand.
LogicalResult Encoder::encodeCopy(tssa::AtenOp op, Value written,
                                  Value version) {
  uint32_t slot = slotOf.lookup(written);
  bool last = blob.slots[slot].kind == rt::SlotKind::Result &&
              lastUse.lookup(written) == position[op] &&
              llvm::count(op.getOperands(), written) == 1 &&
              written.getType() == version.getType();
  if (failed(addSlot(version, last ? rt::SlotKind::View : rt::SlotKind::Result,
                     0)))
    return failure();
  if (last) {
    step(rt::StepKind::View, slotOf[version], slot, blob.words(0));
    return success();
  }
  auto word = [](rt::ArgTag tag) { return static_cast<int64_t>(tag); };
  uint32_t arguments =
      blob.words({word(rt::ArgTag::Tensor), slot, word(rt::ArgTag::None),
                  word(rt::ArgTag::End)});
  step(rt::StepKind::Call, blob.string("aten::clone"), arguments,
       blob.words({1, static_cast<int64_t>(slotOf[version])}));
  return success();
}

LogicalResult Encoder::encodeKernel(func::CallOp op) {
  uint32_t kernel = blob.addKernel(op.getCallee(), lookup);
  SmallVector<int64_t> buffers;
  for (Value operand : op.getOperands())
    buffers.push_back(slotOf.lookup(operand));
  for (Value result : op.getResults()) {
    if (failed(addSlot(result, rt::SlotKind::Fresh, 0)))
      return failure();
    buffers.push_back(slotOf[result]);
  }
  step(rt::StepKind::Kernel, kernel, blob.words(buffers), buffers.size());
  return success();
}

LogicalResult Encoder::encodeView(tssa::AccessOp op) {
  auto source = cast<RankedTensorType>(op.getSource().getType());
  if (!op.getIndices().empty())
    return op.emitError(
        "a view at an index known only at run time cannot be launched yet");
  if (failed(addSlot(op.getResult(), rt::SlotKind::View, 0)))
    return failure();
  // The first element's place; the strides are those of the result's type.
  AffineMap map = tssa::getPathMap(op.getPath(), source);
  SmallVector<int64_t> zero(map.getNumDims(), 0);
  int64_t offset = 0;
  for (auto [index, stride] :
       llvm::zip(map.compose(zero), tssa::getStrides(source)))
    offset += index * stride;
  step(rt::StepKind::View, slotOf[op.getResult()],
       slotOf.lookup(op.getSource()), blob.words(offset));
  return success();
}

/// Library results are dropped after their last use, so that the allocator may
/// give their memory to the next one.
void Encoder::releaseAfter(Operation *op) {
  int64_t now = position[op];
  auto release = [&](Value value) {
    auto found = lastUse.find(value);
    if (found == lastUse.end() || found->second != now)
      return;
    uint32_t slot = slotOf.lookup(value);
    if (blob.slots[slot].kind == rt::SlotKind::Result ||
        blob.slots[slot].kind == rt::SlotKind::View)
      step(rt::StepKind::Release, slot);
  };
  SmallPtrSet<Value, 8> seen;
  for (Value operand : op->getOperands()) {
    for (Value value = operand; value && seen.insert(value).second;) {
      release(value);
      auto view = value.getDefiningOp<tssa::AccessOp>();
      value = view ? view.getSource() : Value();
    }
  }
}

FailureOr<LaunchProgram> Encoder::run() {
  if (!function.getBody().hasOneBlock())
    return function.emitError(
        "only straight-line functions can be launched yet");
  findLifetimes();
  for (BlockArgument arg : function.getArguments()) {
    auto cached = function.getArgAttrOfType<IntegerAttr>(arg.getArgNumber(),
                                                         "pyjit.cached");
    if (failed(addSlot(arg, cached ? rt::SlotKind::Cached : rt::SlotKind::Input,
                       cached ? cached.getInt() : numInputs)))
      return failure();
    numInputs += !cached;
  }
  for (Operation &op : function.front().without_terminator()) {
    LogicalResult encoded = failure();
    if (auto call = dyn_cast<func::CallOp>(op))
      encoded = encodeKernel(call);
    else if (auto call = dyn_cast<tssa::AtenOp>(op))
      encoded = encodeCall(call);
    else if (auto view = dyn_cast<tssa::AccessOp>(op))
      encoded = encodeView(view);
    else
      encoded = op.emitError("is neither a kernel, a library call nor a view; "
                             "fusion-outline should have put it into a kernel");
    if (failed(encoded))
      return failure();
    releaseAfter(&op);
  }
  for (auto [i, value] :
       llvm::enumerate(function.front().getTerminator()->getOperands()))
    blob.ints[i] = slotOf.lookup(value);
  placeBuffers();
  rt::Header header{};
  header.inputs = numInputs;
  header.outputs = function.getNumResults();
  header.arenaBytes = arenaBytes;
  header.code = rt::kNone;
  return blob.assemble(header);
}

} // namespace

FailureOr<LaunchProgram> pyjit::executable::encodeLaunch(
    func::FuncOp function, llvm::function_ref<KernelInfo(StringRef)> lookup) {
  return Encoder(function, lookup).run();
}
