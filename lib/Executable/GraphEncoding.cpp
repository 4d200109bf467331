//===- GraphEncoding.cpp - From cudagraph programs to launch bytes --------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ArenaPlan.h"
#include "BlobBuilder.h"

#include "dialects/cudagraph/IR/CudaGraph.h"
#include "dialects/pyjit/IR/Attributes.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace pyjit;
using namespace pyjit::executable;

namespace {

class Encoder {
public:
  Encoder(cudagraph::ProgramOp program,
          llvm::function_ref<KernelInfo(StringRef)> lookup, unsigned firstSaved)
      : program(program), lookup(lookup), firstSaved(firstSaved),
        blob(program.getBlock().getTerminator()->getNumOperands()) {}

  FailureOr<LaunchProgram> run(ArrayRef<std::string> code);

private:
  LogicalResult encode(Block &block);
  LogicalResult encode(Operation &op);
  LogicalResult encodeKernel(cudagraph::KernelOp op);
  LogicalResult encodeCall(cudagraph::CallOp op);
  LogicalResult encodeGraph(cudagraph::GraphOp op);
  LogicalResult encodeWhile(cudagraph::WhileOp op);
  LogicalResult encodeIf(cudagraph::IfOp op);
  LogicalResult addSlot(Value value, rt::SlotKind kind, uint64_t place,
                        bool stable = false);
  uint32_t slot(Value value) { return slotOf.lookup(value); }
  void placeBuffers();
  void markUpdates();
  bool writesInput(ValueRange written) const;
  uint64_t placeSaved();

  cudagraph::ProgramOp program;
  /// Buffers without a place, and how long they live.
  SmallVector<uint32_t> unplaced;
  std::vector<Lifetime> lifetimes;
  llvm::function_ref<KernelInfo(StringRef)> lookup;
  unsigned firstSaved;
  BlobBuilder blob;
  DenseMap<Value, uint32_t> slotOf;
  uint32_t numInputs = 0, numGraphs = 0;
};

LogicalResult Encoder::addSlot(Value value, rt::SlotKind kind, uint64_t place,
                               bool stable) {
  auto type = cast<cudagraph::BufferType>(value.getType());
  uint8_t flags =
      (type.isHost() ? rt::kSlotHost : 0) | (stable ? rt::kSlotStable : 0);
  auto added =
      blob.addSlot(value.getLoc(), type.getTensor(), kind, place, flags);
  if (succeeded(added))
    slotOf[value] = *added;
  return added;
}

LogicalResult Encoder::encodeKernel(cudagraph::KernelOp op) {
  SmallVector<int64_t> words;
  for (Value buffer : op->getOperands())
    words.push_back(slot(buffer));
  // Symbols follow the buffers: each by value, or their table on a simulated
  // device.
  KernelInfo info = lookup(op.getKernel()), indirect;
  if (op.getIndirectKernel())
    indirect = lookup(*op.getIndirectKernel());
  ArrayRef<int64_t> symbols = info.symbolParameters,
                    more = indirect.symbolParameters;
  // One list serves both versions: a launch may give more than a kernel takes,
  // and the number of blocks may ask for symbols that no element does.
  bool sameWords = more.take_front(symbols.size()) == symbols;
  if (sameWords)
    symbols = more;
  bool table = info.readsSymbols || indirect.readsSymbols;
  if (unsigned(table) > blob.numSymbols() ||
      llvm::any_of(symbols, [&](int64_t symbol) {
        return symbol < 0 || symbol >= int64_t(blob.numSymbols());
      }))
    return op.emitError("its kernel has symbolic sizes, but the program does "
                        "not say what its symbols are (pyjit.symbols)");
  for (int64_t symbol : symbols)
    words.push_back(blob.symbolValue(symbol));
  if (table)
    words.push_back(blob.symbolSlot());
  unsigned count = words.size();
  uint16_t flags = writesInput(op.getWrites()) ? rt::kStepWritesInput : 0;
  if (op.getIndirectKernel() && count <= cudagraph::kMostIndirect &&
      sameWords) {
    int64_t mask = 0;
    for (int64_t i : op.getIndirectAttr().asArrayRef())
      mask |= int64_t(1) << i;
    if (indirect.deviceSizes) {
      flags |= rt::kStepDeviceSizes;
      for (size_t i = 0; i < symbols.size(); ++i)
        mask |= int64_t(1) << (op->getNumOperands() + i);
    }
    words.push_back(blob.addKernel(*op.getIndirectKernel(), lookup));
    words.push_back(mask);
    flags |= rt::kStepIndirect;
  }
  uint32_t kernel = blob.addKernel(op.getKernel(), lookup);
  blob.step(rt::StepKind::Kernel, kernel, blob.words(words), count, flags);
  return success();
}

LogicalResult Encoder::encodeCall(cudagraph::CallOp op) {
  for (Value result : op.getOutputs())
    if (failed(addSlot(result, rt::SlotKind::Result, 0)))
      return failure();
  SmallVector<uint32_t> operands;
  for (Value operand : op.getInputs())
    operands.push_back(slot(operand));
  FailureOr<uint32_t> arguments = blob.addArguments(op, op.getArgs(), operands);
  if (failed(arguments))
    return failure();
  SmallVector<int64_t> results{static_cast<int64_t>(op.getNumResults())};
  for (Value result : op.getOutputs())
    results.push_back(result.use_empty() ? -1 : int64_t(slot(result)));
  blob.step(rt::StepKind::Call, blob.string(op.getOverload()), *arguments,
            blob.words(results));
  return success();
}

LogicalResult Encoder::encodeGraph(cudagraph::GraphOp op) {
  SmallVector<int64_t> externals{
      static_cast<int64_t>(op.getExternals().size())};
  for (Value external : op.getExternals())
    externals.push_back(slot(external));
  uint32_t number = numGraphs++;
  blob.step(rt::StepKind::GraphBegin, number, blob.words(externals));
  if (failed(encode(op.getBlock())))
    return failure();
  blob.step(rt::StepKind::GraphEnd, number);
  for (auto [inner, outer] :
       llvm::zip(op.getBlock().back().getOperands(), op.getResults()))
    slotOf[outer] = slot(inner);
  return success();
}

LogicalResult Encoder::encodeWhile(cudagraph::WhileOp op) {
  uint32_t begin = blob.steps.size();
  blob.step(rt::StepKind::While, 0);
  blob.step(rt::StepKind::WhileTest, slot(op.getCondition()));
  if (failed(encode(op.getBody().front())))
    return failure();
  uint32_t end = blob.steps.size();
  blob.step(rt::StepKind::WhileEnd, begin);
  blob.steps[begin].a = blob.steps[begin + 1].b = end;
  return success();
}

LogicalResult Encoder::encodeIf(cudagraph::IfOp op) {
  uint32_t begin = blob.steps.size();
  blob.step(rt::StepKind::If, slot(op.getCondition()));
  if (failed(encode(op.getThen().front())))
    return failure();
  uint32_t *partner = &blob.steps[begin].b;
  if (!op.getOtherwise().empty()) {
    *partner = blob.steps.size();
    uint32_t middle = *partner;
    blob.step(rt::StepKind::Else, 0);
    if (failed(encode(op.getOtherwise().front())))
      return failure();
    partner = &blob.steps[middle].a;
  }
  *partner = blob.steps.size();
  blob.step(rt::StepKind::IfEnd, 0);
  return success();
}

LogicalResult Encoder::encode(Operation &op) {
  if (auto external = dyn_cast<cudagraph::ExternalOp>(op)) {
    rt::SlotKind kinds[] = {rt::SlotKind::Input, rt::SlotKind::Cached,
                            rt::SlotKind::Fresh};
    if (external.getRole() == cudagraph::Role::input)
      numInputs = std::max<uint32_t>(numInputs, external.getNumber() + 1);
    return addSlot(external.getBuffer(), kinds[unsigned(external.getRole())],
                   external.getNumber(), external.getStable());
  }
  if (auto buffer = dyn_cast<cudagraph::BufferOp>(op)) {
    auto lives = buffer.getLives();
    if (!buffer.getOffset() && !lives)
      return op.emitError("has no place yet; run cudagraph-plan-memory");
    if (failed(addSlot(buffer.getBuffer(), rt::SlotKind::Arena,
                       buffer.getOffset().value_or(0))))
      return failure();
    if (lives) {
      unplaced.push_back(slot(buffer.getBuffer()));
      lifetimes.push_back({(*lives)[0], (*lives)[1], 0});
    }
    return success();
  }
  if (auto view = dyn_cast<cudagraph::ViewOp>(op)) {
    if (failed(addSlot(view.getResult(), rt::SlotKind::View, 0)))
      return failure();
    uint32_t word = blob.words(static_cast<int64_t>(view.getOffset()));
    if (auto symbolic = view.getSymbolic())
      blob.patch(rt::PatchKind::Int, word,
                 symbolic->getResult(0) +
                     static_cast<int64_t>(view.getOffset()));
    blob.step(rt::StepKind::View, slot(view.getResult()),
              slot(view.getSource()), word);
    return success();
  }
  if (auto release = dyn_cast<cudagraph::ReleaseOp>(op)) {
    blob.step(rt::StepKind::Release, slot(release.getBuffer()));
    return success();
  }
  if (auto copy = dyn_cast<cudagraph::CopyOp>(op)) {
    uint16_t flags = copy.getPatchable() ? rt::kStepPatchable : 0;
    if (writesInput(copy.getTarget()))
      flags |= rt::kStepWritesInput;
    blob.step(rt::StepKind::Copy, slot(copy.getSource()),
              slot(copy.getTarget()), 0, flags);
    return success();
  }
  if (auto value = dyn_cast<cudagraph::HostValueOp>(op)) {
    blob.step(rt::StepKind::HostValue, slot(value.getSource()),
              slot(value.getTarget()));
    return success();
  }
  if (auto speculate = dyn_cast<cudagraph::SpeculateOp>(op)) {
    blob.step(rt::StepKind::Speculate, slot(speculate.getFlag()));
    return success();
  }
  if (auto kernel = dyn_cast<cudagraph::KernelOp>(op))
    return encodeKernel(kernel);
  if (auto call = dyn_cast<cudagraph::CallOp>(op))
    return encodeCall(call);
  if (auto graph = dyn_cast<cudagraph::GraphOp>(op))
    return encodeGraph(graph);
  if (auto loop = dyn_cast<cudagraph::WhileOp>(op))
    return encodeWhile(loop);
  if (auto branch = dyn_cast<cudagraph::IfOp>(op))
    return encodeIf(branch);
  return op.emitError("cannot be launched yet");
}

LogicalResult Encoder::encode(Block &block) {
  // Bodies of loops and branches have no terminator.
  for (Operation &op : block)
    if (!op.hasTrait<OpTrait::IsTerminator>() && failed(encode(op)))
      return failure();
  return success();
}

/// Places in an arena whose size differs between calls.
void Encoder::placeBuffers() {
  if (unplaced.empty())
    return;
  SmallVector<analysis::Size> bytes;
  for (uint32_t slot : unplaced)
    bytes.push_back(blob.bytesOf(slot));
  constexpr int64_t kAlignment = 256;
  SymbolicArena arena =
      planArena(lifetimes, bytes, program.getContext(), kAlignment);
  for (auto [slot, offset] : llvm::zip(unplaced, arena.offsets))
    blob.patch(rt::PatchKind::SlotPlace, slot, offset);
  blob.patch(rt::PatchKind::ArenaBytes, 0, arena.bytes);
}

/// Outputs that are for the backward program alone, in one block.
uint64_t Encoder::placeSaved() {
  unsigned count = program.getBlock().back().getNumOperands();
  llvm::SetVector<uint32_t> owners;
  for (unsigned i = firstSaved; i < count; ++i)
    if (blob.slots[blob.ints[i]].kind == rt::SlotKind::Fresh)
      owners.insert(uint32_t(blob.ints[i]));
  for (unsigned i = 0; i < std::min(firstSaved, count); ++i)
    owners.remove(uint32_t(blob.ints[i]));
  constexpr int64_t kAlignment = 256; // as the arena's
  return blob.placeSaved(owners.getArrayRef(), kAlignment);
}

/// Outputs that are new contents of inputs, and the launches that write them.
void Encoder::markUpdates() {
  auto updates = program->getAttrOfType<ArrayAttr>(attribute::kUpdates);
  if (!updates)
    return;
  for (auto update : updates.getAsRange<DenseI64ArrayAttr>()) {
    int64_t &output = blob.ints[update[0]];
    blob.slots[output].flags |= rt::kSlotWritten;
    output |= rt::kOutputInPlace;
  }
}

/// Whether one of the buffers is an input that the program writes.
bool Encoder::writesInput(ValueRange written) const {
  return llvm::any_of(written, [](Value buffer) {
    auto external = buffer.getDefiningOp<cudagraph::ExternalOp>();
    return external && external.getRole() == cudagraph::Role::input;
  });
}

FailureOr<LaunchProgram> Encoder::run(ArrayRef<std::string> code) {
  if (failed(blob.readSymbols(program)) || failed(encode(program.getBlock())))
    return failure();
  placeBuffers();
  auto returned = program.getBlock().back().getOperands();
  for (auto [i, value] : llvm::enumerate(returned))
    blob.ints[i] = slot(value);
  markUpdates();
  rt::Header header{};
  header.inputs = numInputs;
  header.outputs = returned.size();
  header.arenaBytes = program.getArena().value_or(0);
  header.savedBytes = placeSaved();
  header.firstSaved = std::min(firstSaved, header.outputs);
  header.code = rt::kNone;
  if (!code.empty()) {
    header.code = blob.ints.size();
    blob.ints.push_back(code.size());
    for (const std::string &part : code)
      blob.ints.push_back(blob.string(part));
  }
  auto [type, index] = program.getDevice().split(':');
  header.deviceType = type == "cuda" ? 1 : 0;
  int number = 0;
  if (type != "cuda" && type != "cpu")
    return program.emitError("launches on ")
           << program.getDevice() << ", which no driver reaches";
  if (!index.empty() && index.getAsInteger(10, number))
    return program.emitError("names no device: ") << program.getDevice();
  header.deviceIndex = number;
  header.variants = 1u << unsigned(rt::Variant::Plain);
  if (auto variants = program.getVariants())
    for (Attribute variant : *variants)
      header.variants |= 1u << unsigned(*cudagraph::symbolizeVariant(
                             cast<StringAttr>(variant).getValue()));
  return blob.assemble(header);
}

} // namespace

FailureOr<LaunchProgram> pyjit::executable::encodeProgram(
    Operation *program, ArrayRef<std::string> code,
    llvm::function_ref<KernelInfo(StringRef)> lookup, unsigned firstSaved) {
  auto op = dyn_cast<cudagraph::ProgramOp>(program);
  if (!op)
    return program->emitError("is no launch program");
  return Encoder(op, lookup, firstSaved).run(code);
}
