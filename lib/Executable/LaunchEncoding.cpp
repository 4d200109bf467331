//===- LaunchEncoding.cpp - From a planned function to launch bytes -------===//

#include "pyjit/Executable/LaunchEncoding.h"

#include "ArenaPlan.h"

#include "dialects/tssa/IR/TSSA.h"
#include "dialects/tssa/IR/Views.h"
#include "pyjit-rt/Launch.h"
#include "pyjit/Operators/CallArguments.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"

#include <cstring>

using namespace mlir;
using namespace pyjit;
using namespace pyjit::executable;

namespace {

/// c10::ScalarType's numbers; part of PyTorch's serialisation format.
FailureOr<uint8_t> scalarTypeOf(Type type) {
  if (type.isUnsignedInteger(8))
    return uint8_t(0);
  if (type.isInteger(8))
    return uint8_t(1);
  if (type.isInteger(16))
    return uint8_t(2);
  if (type.isInteger(32))
    return uint8_t(3);
  if (type.isInteger(64))
    return uint8_t(4);
  if (type.isF16())
    return uint8_t(5);
  if (type.isF32())
    return uint8_t(6);
  if (type.isF64())
    return uint8_t(7);
  if (auto complex = dyn_cast<ComplexType>(type)) {
    if (complex.getElementType().isF32())
      return uint8_t(9);
    if (complex.getElementType().isF64())
      return uint8_t(10);
  }
  if (type.isInteger(1))
    return uint8_t(11);
  if (type.isBF16())
    return uint8_t(15);
  return failure();
}

int64_t elementBytes(Type type) {
  if (auto complex = dyn_cast<ComplexType>(type))
    return 2 * elementBytes(complex.getElementType());
  return std::max<int64_t>(1, type.getIntOrFloatBitWidth() / 8);
}

int64_t bitsOf(double value) {
  int64_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

class Encoder {
public:
  Encoder(func::FuncOp function,
          llvm::function_ref<KernelInfo(StringRef)> lookup)
      : function(function), lookup(lookup) {}

  FailureOr<LaunchProgram> run();

private:
  LogicalResult addSlot(Value value, rt::SlotKind kind, uint64_t place);
  LogicalResult encodeCall(tssa::AtenOp op);
  LogicalResult encodeCopy(tssa::AtenOp op, Value written, Value version);
  LogicalResult encodeArgument(Operation *op, Attribute arg,
                               Operation::operand_iterator &next);
  LogicalResult encodeKernel(func::CallOp op);
  LogicalResult encodeView(tssa::AccessOp op);
  void findLifetimes();
  void placeBuffers();
  uint32_t string(StringRef text);
  uint32_t words(ArrayRef<int64_t> values);
  void step(rt::StepKind kind, uint32_t a, uint32_t b = 0, uint32_t c = 0) {
    steps.push_back({kind, 0, a, b, c});
  }
  void releaseAfter(Operation *op);
  std::string assemble();

  func::FuncOp function;
  llvm::function_ref<KernelInfo(StringRef)> lookup;

  std::vector<rt::Slot> slots;
  std::vector<rt::Step> steps;
  std::vector<rt::Kernel> kernels;
  std::vector<std::string> kernelNames;
  std::vector<int64_t> ints;
  std::string chars;
  llvm::StringMap<uint32_t> strings;
  llvm::StringMap<uint32_t> kernelIndex;
  DenseMap<Value, uint32_t> slotOf;
  DenseMap<Operation *, int64_t> position; ///< of each op in the block
  DenseMap<Value, int64_t> lastUse; ///< views count as uses of their base
  uint64_t arenaBytes = 0;
  uint32_t numInputs = 0;
};

LogicalResult Encoder::addSlot(Value value, rt::SlotKind kind, uint64_t place) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  FailureOr<uint8_t> dtype = failure();
  if (type && type.hasStaticShape())
    dtype = scalarTypeOf(type.getElementType());
  if (failed(dtype))
    return emitError(value.getLoc())
           << "a launch program cannot hold a value of type "
           << value.getType();
  SmallVector<int64_t> strides = tssa::getStrides(type);
  int64_t extent = type.getNumElements() ? 1 : 0;
  if (extent)
    for (auto [size, stride] : llvm::zip(type.getShape(), strides))
      extent += (size - 1) * stride;
  SmallVector<int64_t> dims(type.getShape());
  dims.append(strides);
  rt::Slot slot{};
  slot.kind = kind;
  slot.dtype = *dtype;
  slot.rank = type.getRank();
  slot.dims = words(dims);
  slot.place = place;
  slot.bytes = extent * elementBytes(type.getElementType());
  slotOf[value] = slots.size();
  slots.push_back(slot);
  return success();
}

uint32_t Encoder::string(StringRef text) {
  auto [entry, isNew] = strings.try_emplace(text, chars.size());
  if (isNew) {
    chars += text;
    chars += '\0';
  }
  return entry->second;
}

uint32_t Encoder::words(ArrayRef<int64_t> values) {
  uint32_t at = ints.size();
  ints.insert(ints.end(), values.begin(), values.end());
  return at;
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
      slots[index].kind = rt::SlotKind::Arena;
      int64_t first = position[call];
      auto last = lastUse.find(result);
      lifetimes.push_back({first, last == lastUse.end() ? first : last->second,
                           static_cast<int64_t>(slots[index].bytes)});
      owners.push_back(index);
    }
  arenaBytes = planArena(lifetimes);
  for (auto [lifetime, owner] : llvm::zip(lifetimes, owners))
    slots[owner].place = lifetime.offset;
}

LogicalResult Encoder::encodeArgument(Operation *op, Attribute arg,
                                      Operation::operand_iterator &next) {
  auto put = [&](rt::ArgTag tag, int64_t value) {
    ints.push_back(static_cast<int64_t>(tag));
    ints.push_back(value);
    return success();
  };
  auto number = [&](Attribute attr, rt::ArgTag ofInt, rt::ArgTag ofBool,
                    rt::ArgTag ofDouble) -> LogicalResult {
    if (auto boolean = dyn_cast<BoolAttr>(attr))
      return put(ofBool, boolean.getValue());
    if (auto integer = dyn_cast<IntegerAttr>(attr))
      return put(ofInt, integer.getInt());
    if (auto real = dyn_cast<FloatAttr>(attr))
      return put(ofDouble, bitsOf(real.getValueAsDouble()));
    return failure();
  };
  if (operators::isOperandPlaceholder(arg))
    return put(rt::ArgTag::Tensor, slotOf.lookup(*next++));
  if (operators::isNumberOperand(arg))
    return put(operators::isWrappedOperand(arg) ? rt::ArgTag::WrappedSlot
                                                : rt::ArgTag::NumberSlot,
               slotOf.lookup(*next++));
  if (operators::isNoneArgument(arg)) {
    ints.push_back(static_cast<int64_t>(rt::ArgTag::None));
    return success();
  }
  if (auto text = dyn_cast<StringAttr>(arg))
    return put(rt::ArgTag::String, string(text.getValue()));
  if (StringAttr device = operators::getDeviceArgument(arg))
    return put(rt::ArgTag::Device, string(device.getValue()));
  if (TypedAttr wrapped = operators::getWrappedNumber(arg))
    return number(wrapped, rt::ArgTag::WrappedInt, rt::ArgTag::WrappedBool,
                  rt::ArgTag::WrappedDouble);
  if (auto list = dyn_cast<ArrayAttr>(arg)) {
    (void)put(rt::ArgTag::List, list.size());
    for (Attribute element : list)
      if (failed(encodeArgument(op, element, next)))
        return failure();
    return success();
  }
  if (succeeded(
          number(arg, rt::ArgTag::Int, rt::ArgTag::Bool, rt::ArgTag::Double)))
    return success();
  return op->emitError("a library call cannot take the argument ") << arg;
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
  // Nested lists write their words in line, so the arguments' words must not be
  // interrupted by anything else.
  uint32_t arguments = ints.size();
  auto next = op->operand_begin();
  for (Attribute arg : op.getArgs())
    if (failed(encodeArgument(op, arg, next)))
      return failure();
  ints.push_back(static_cast<int64_t>(rt::ArgTag::End));
  SmallVector<int64_t> results{static_cast<int64_t>(fresh.size())};
  for (Value result : fresh)
    results.push_back(result.use_empty() ? -1 : int64_t(slotOf[result]));
  step(rt::StepKind::Call, string(op.getOverload()), arguments, words(results));
  for (auto [value, slot] : replaced)
    slotOf[value] = slot;
  return success();
}

/// Values do not change, so a library call that writes an operand gets a copy
/// of it to write, unless nothing else will ever look at the operand.
LogicalResult Encoder::encodeCopy(tssa::AtenOp op, Value written,
                                  Value version) {
  uint32_t slot = slotOf.lookup(written);
  bool last = slots[slot].kind == rt::SlotKind::Result &&
              lastUse.lookup(written) == position[op] &&
              llvm::count(op.getOperands(), written) == 1 &&
              written.getType() == version.getType();
  if (failed(addSlot(version, last ? rt::SlotKind::View : rt::SlotKind::Result,
                     0)))
    return failure();
  if (last) {
    step(rt::StepKind::View, slotOf[version], slot, words(0));
    return success();
  }
  auto word = [](rt::ArgTag tag) { return static_cast<int64_t>(tag); };
  uint32_t arguments = words({word(rt::ArgTag::Tensor), slot,
                              word(rt::ArgTag::None), word(rt::ArgTag::End)});
  step(rt::StepKind::Call, string("aten::clone"), arguments,
       words({1, static_cast<int64_t>(slotOf[version])}));
  return success();
}

LogicalResult Encoder::encodeKernel(func::CallOp op) {
  StringRef name = op.getCallee();
  auto [entry, isNew] = kernelIndex.try_emplace(name, kernels.size());
  if (isNew) {
    KernelInfo info = lookup(name);
    kernels.push_back(
        {string(name), 0, info.work, std::max<int64_t>(1, info.grain)});
    kernelNames.push_back(name.str());
  }
  SmallVector<int64_t> buffers;
  for (Value operand : op.getOperands())
    buffers.push_back(slotOf.lookup(operand));
  for (Value result : op.getResults()) {
    if (failed(addSlot(result, rt::SlotKind::Fresh, 0)))
      return failure();
    buffers.push_back(slotOf[result]);
  }
  step(rt::StepKind::Kernel, entry->second, words(buffers), buffers.size());
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
       slotOf.lookup(op.getSource()), words(offset));
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
    if (slots[slot].kind == rt::SlotKind::Result ||
        slots[slot].kind == rt::SlotKind::View)
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

std::string Encoder::assemble() {
  rt::Header header{};
  header.magic = rt::kLaunchMagic;
  header.version = rt::kLaunchVersion;
  header.slots = slots.size();
  header.steps = steps.size();
  header.kernels = kernels.size();
  header.inputs = numInputs;
  header.outputs = function.getNumResults();
  header.ints = ints.size();
  header.chars = chars.size();
  header.arenaBytes = arenaBytes;
  auto bytes = [](const auto &table) {
    return table.size() * sizeof(table[0]);
  };
  header.size = sizeof header + bytes(slots) + bytes(steps) + bytes(kernels) +
                bytes(ints) + chars.size();
  std::string blob;
  blob.reserve(header.size);
  auto append = [&](const void *data, size_t size) {
    blob.append(static_cast<const char *>(data), size);
  };
  append(&header, sizeof header);
  append(slots.data(), bytes(slots));
  append(steps.data(), bytes(steps));
  append(kernels.data(), bytes(kernels));
  append(ints.data(), bytes(ints));
  append(chars.data(), chars.size());
  return blob;
}

FailureOr<LaunchProgram> Encoder::run() {
  if (!function.getBody().hasOneBlock())
    return function.emitError(
        "only straight-line functions can be launched yet");
  ints.resize(function.getNumResults()); // the output list comes first
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
    ints[i] = slotOf.lookup(value);
  placeBuffers();
  return LaunchProgram{assemble(), kernelNames};
}

} // namespace

FailureOr<LaunchProgram> pyjit::executable::encodeLaunch(
    func::FuncOp function, llvm::function_ref<KernelInfo(StringRef)> lookup) {
  return Encoder(function, lookup).run();
}
