//===- BlobBuilder.cpp - Tables of a launch program in the making ---------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "BlobBuilder.h"
#include "dialects/pyjit/IR/Attributes.h"

#include "dialects/tssa/IR/TSSA.h"
#include "dialects/tssa/IR/Views.h"
#include "pyjit/Operators/CallArguments.h"

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

} // namespace

FailureOr<uint32_t> BlobBuilder::addSlot(Location loc, Type of,
                                         rt::SlotKind kind, uint64_t place,
                                         uint8_t flags) {
  auto type = dyn_cast<RankedTensorType>(of);
  FailureOr<uint8_t> dtype = failure();
  if (type && tssa::hasKnownSizes(type) && type.getRank() < 256)
    dtype = scalarTypeOf(type.getElementType());
  if (failed(dtype))
    return emitError(loc) << "a launch program cannot hold a value of type "
                          << of;
  SmallVector<analysis::Size> sizes = tssa::getSizes(type);
  SmallVector<analysis::Size> strides = tssa::getSymbolicStrides(type);
  analysis::Size extent =
      tssa::getExtent(type) * elementBytes(type.getElementType());
  SmallVector<analysis::Size> numbers(sizes);
  numbers.append(strides);
  SmallVector<int64_t> dims;
  for (const analysis::Size &number : numbers)
    dims.push_back(number.isConstant() ? number.constant() : -1);
  rt::Slot slot{};
  slot.kind = kind;
  slot.dtype = *dtype;
  slot.rank = type.getRank();
  slot.flags = flags;
  slot.dims = words(dims);
  slot.place = place;
  slot.bytes = extent.isConstant() ? extent.constant() : 0;
  MLIRContext *context = of.getContext();
  for (auto [i, number] : llvm::enumerate(numbers))
    if (!number.isConstant())
      patch(rt::PatchKind::Int, slot.dims + i, number.toExpr(context));
  if (!extent.isConstant()) {
    patch(rt::PatchKind::SlotBytes, slots.size(), extent.toExpr(context));
    symbolicBytes[slots.size()] = extent;
  }
  slots.push_back(slot);
  return slots.size() - 1;
}

uint32_t
BlobBuilder::addKernel(StringRef name,
                       llvm::function_ref<KernelInfo(StringRef)> lookup) {
  auto [entry, isNew] = kernelIndex.try_emplace(name, kernels.size());
  if (!isNew)
    return entry->second;
  KernelInfo info = lookup(name);
  rt::Kernel kernel{};
  kernel.name = string(info.symbol.empty() ? name : StringRef(info.symbol));
  kernel.location = info.location.empty() ? rt::kNone : string(info.location);
  kernel.work = info.work;
  kernel.grain = std::max<int64_t>(1, info.grain);
  llvm::copy(info.grid, kernel.grid);
  llvm::copy(info.block, kernel.block);
  kernel.sharedBytes = info.sharedBytes;
  kernel.flags = info.waits ? rt::kKernelWaits : 0;
  kernel.align = rt::kNone;
  if (!info.align.empty()) {
    SmallVector<int64_t> list{static_cast<int64_t>(info.align.size())};
    list.append(info.align.begin(), info.align.end());
    kernel.align = words(list);
  }
  if (info.symbolicWork)
    patch(rt::PatchKind::KernelWork, kernels.size(), info.symbolicWork);
  if (info.symbolicGrain)
    patch(rt::PatchKind::KernelGrain, kernels.size(), info.symbolicGrain);
  if (info.symbolicBlocks)
    patch(rt::PatchKind::KernelBlocks, kernels.size(), info.symbolicBlocks);
  kernels.push_back(kernel);
  kernelNames.push_back(name.str());
  return entry->second;
}

LogicalResult BlobBuilder::readSymbols(Operation *program) {
  auto symbols = program->getAttrOfType<ArrayAttr>(attribute::kSymbols);
  context = program->getContext();
  if (!symbols)
    return success();
  for (Attribute symbol : symbols) {
    auto source = dyn_cast<DenseI64ArrayAttr>(symbol);
    if (!source || source.size() != 2)
      return program->emitError("pyjit.symbols has to list an input and a "
                                "dimension or -1 for each symbol");
    llvm::append_range(symbolSources, source.asArrayRef());
  }
  return success();
}

uint64_t BlobBuilder::symbolWords() {
  if (!symbolsAt)
    symbolsAt = words(SmallVector<int64_t>(numSymbols(), 0));
  return *symbolsAt;
}

uint32_t BlobBuilder::symbolValue(uint32_t number) {
  auto [entry, isNew] = valueSlots.try_emplace(number, slots.size());
  if (!isNew)
    return entry->second;
  rt::Slot slot{};
  slot.kind = rt::SlotKind::Words;
  slot.flags = rt::kSlotValue;
  slot.dtype = 4;
  slot.dims = 0;
  slot.place = symbolWords() + number;
  slot.bytes = 8;
  slots.push_back(slot);
  return entry->second;
}

uint32_t BlobBuilder::symbolSlot() {
  if (wordsSlot)
    return *wordsSlot;
  int64_t count = numSymbols();
  rt::Slot slot{};
  slot.kind = rt::SlotKind::Words;
  slot.dtype = 4;
  slot.rank = 1;
  slot.dims = words({count, 1});
  slot.place = symbolWords();
  slot.bytes = 8 * count;
  slots.push_back(slot);
  wordsSlot = slots.size() - 1;
  return *wordsSlot;
}

uint32_t BlobBuilder::expression(AffineExpr value) {
  SmallVector<int64_t> code;
  auto put = [&](rt::SizeOp op) { code.push_back(static_cast<int64_t>(op)); };
  auto emit = [&](auto &&self, AffineExpr expr) -> void {
    if (auto constant = dyn_cast<AffineConstantExpr>(expr)) {
      put(rt::SizeOp::Number);
      code.push_back(constant.getValue());
      return;
    }
    if (auto symbol = dyn_cast<AffineSymbolExpr>(expr)) {
      put(rt::SizeOp::Symbol);
      code.push_back(symbol.getPosition());
      return;
    }
    auto binary = cast<AffineBinaryOpExpr>(expr);
    self(self, binary.getLHS());
    self(self, binary.getRHS());
    switch (expr.getKind()) {
    case AffineExprKind::Add:
      return put(rt::SizeOp::Add);
    case AffineExprKind::Mul:
      return put(rt::SizeOp::Mul);
    case AffineExprKind::FloorDiv:
      return put(rt::SizeOp::FloorDiv);
    case AffineExprKind::CeilDiv:
      return put(rt::SizeOp::CeilDiv);
    default:
      return put(rt::SizeOp::Mod);
    }
  };
  emit(emit, value);
  put(rt::SizeOp::End);
  return words(code);
}

uint32_t BlobBuilder::string(StringRef text) {
  auto [entry, isNew] = strings.try_emplace(text, chars.size());
  if (isNew) {
    chars += text;
    chars += '\0';
  }
  return entry->second;
}

uint32_t BlobBuilder::words(ArrayRef<int64_t> values) {
  uint32_t at = ints.size();
  ints.insert(ints.end(), values.begin(), values.end());
  return at;
}

FailureOr<uint32_t> BlobBuilder::addArguments(Operation *op, ArrayAttr args,
                                              ArrayRef<uint32_t> operands) {
  // Nested lists write their words in line, so the arguments' words must not be
  // interrupted by anything else.
  uint32_t at = ints.size();
  for (Attribute arg : args)
    if (failed(addArgument(op, arg, operands)))
      return failure();
  ints.push_back(static_cast<int64_t>(rt::ArgTag::End));
  return at;
}

LogicalResult BlobBuilder::addArgument(Operation *op, Attribute arg,
                                       ArrayRef<uint32_t> &operands) {
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
  if (operators::isOperandPlaceholder(arg)) {
    uint32_t slot = operands.front();
    operands = operands.drop_front();
    return put(rt::ArgTag::Tensor, slot);
  }
  if (operators::isNumberOperand(arg)) {
    uint32_t slot = operands.front();
    operands = operands.drop_front();
    return put(operators::isWrappedOperand(arg) ? rt::ArgTag::WrappedSlot
                                                : rt::ArgTag::NumberSlot,
               slot);
  }
  if (operators::isNoneArgument(arg)) {
    ints.push_back(static_cast<int64_t>(rt::ArgTag::None));
    return success();
  }
  if (AffineExpr size = operators::getSizeArgument(arg)) {
    patch(rt::PatchKind::Argument, ints.size() + 1, size);
    return put(rt::ArgTag::Int, 0);
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
      if (failed(addArgument(op, element, operands)))
        return failure();
    return success();
  }
  if (succeeded(
          number(arg, rt::ArgTag::Int, rt::ArgTag::Bool, rt::ArgTag::Double)))
    return success();
  return op->emitError("a vendor call cannot take the argument ") << arg;
}

LaunchProgram BlobBuilder::assemble(rt::Header header) {
  header.symbols = numSymbols();
  header.symbolTable = words(symbolSources);
  if (symbolsAt)
    for (uint32_t i = 0; i < header.symbols; ++i)
      patch(rt::PatchKind::Int, *symbolsAt + i,
            getAffineSymbolExpr(i, context));
  SmallVector<int64_t> table;
  // Those of one value stand together: the runtime computes it once.
  DenseMap<AffineExpr, int64_t> values;
  for (const Patch &patch : patches)
    if (auto [entry, isNew] = values.try_emplace(patch.value); isNew)
      entry->second = expression(patch.value);
  llvm::stable_sort(patches, [&](const Patch &a, const Patch &b) {
    return values.lookup(a.value) < values.lookup(b.value);
  });
  for (const Patch &patch : patches)
    llvm::append_values(table, static_cast<int64_t>(patch.kind), patch.index,
                        values.lookup(patch.value));
  header.patches = patches.size();
  header.patchTable = words(table);
  header.magic = rt::kLaunchMagic;
  header.version = rt::kLaunchVersion;
  header.slots = slots.size();
  header.steps = steps.size();
  header.kernels = kernels.size();
  header.ints = ints.size();
  header.chars = chars.size();
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
  return LaunchProgram{std::move(blob), kernelNames};
}
