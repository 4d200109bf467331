//===- ProgramPools.cpp - what flat programs refer to ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "pyjit/Executable/ProgramPools.h"
#include "dialects/refgraph/IR/PythonValues.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace pyjit::executable {

std::optional<int8_t> getScalarType(Type type) {
  if (auto integer = dyn_cast<IntegerType>(type)) {
    bool isUnsigned = integer.isUnsigned();
    switch (integer.getWidth()) {
    case 1:
      return 11;
    case 8:
      return isUnsigned ? 0 : 1;
    case 16:
      return isUnsigned ? 27 : 2;
    case 32:
      return isUnsigned ? 28 : 3;
    case 64:
      return isUnsigned ? 29 : 4;
    default:
      return std::nullopt;
    }
  }
  if (auto complex = dyn_cast<ComplexType>(type))
    return llvm::TypeSwitch<Type, std::optional<int8_t>>(
               complex.getElementType())
        .Case([](Float16Type) { return 8; })
        .Case([](Float32Type) { return 9; })
        .Case([](Float64Type) { return 10; })
        .Default(std::nullopt);
  return llvm::TypeSwitch<Type, std::optional<int8_t>>(type)
      .Case([](Float16Type) { return 5; })
      .Case([](Float32Type) { return 6; })
      .Case([](Float64Type) { return 7; })
      .Case([](BFloat16Type) { return 15; })
      .Case([](Float8E5M2Type) { return 23; })
      .Case([](Float8E4M3FNType) { return 24; })
      .Case([](Float8E5M2FNUZType) { return 25; })
      .Case([](Float8E4M3FNUZType) { return 26; })
      .Default(std::nullopt);
}

/// c10::DeviceType and index; the index of "cuda" is not stated.
static std::optional<std::pair<int8_t, int8_t>> getDevice(StringRef name) {
  auto [type, index] = name.split(':');
  int8_t number = -1;
  if (!index.empty() && index.getAsInteger(10, number))
    return std::nullopt;
  if (type == "cpu")
    return std::pair<int8_t, int8_t>(0, -1);
  if (type == "cuda")
    return std::pair<int8_t, int8_t>(1, number);
  if (type == "meta")
    return std::pair<int8_t, int8_t>(14, -1);
  return std::nullopt;
}

uint32_t ProgramPools::addConstant(Attribute value) {
  if (auto it = constantIndex.find(value); it != constantIndex.end())
    return it->second;
  PyjitConstant constant = {};
  auto addBytes = [&](StringRef text) {
    constant.first = bytes.size();
    constant.count = text.size();
    bytes.insert(bytes.end(), text.begin(), text.end());
  };
  if (auto tuple = dyn_cast<ArrayAttr>(value)) {
    SmallVector<uint32_t> elements;
    for (Attribute element : tuple)
      elements.push_back(addConstant(element));
    constant.kind = PYJIT_CONST_TUPLE;
    constant.first = addList(elements);
    constant.count = elements.size();
  } else if (auto integer = dyn_cast<IntegerAttr>(value)) {
    llvm::APInt number = integer.getValue();
    if (integer.getType().isInteger(1)) {
      constant.kind = PYJIT_CONST_BOOL;
      constant.i = !number.isZero();
    } else if (number.isSignedIntN(64)) {
      constant.kind = PYJIT_CONST_INT;
      constant.i = number.getSExtValue();
    } else {
      SmallString<40> digits;
      number.toStringSigned(digits);
      constant.kind = PYJIT_CONST_BIGINT;
      addBytes(digits);
    }
  } else if (auto number = dyn_cast<FloatAttr>(value)) {
    constant.kind = PYJIT_CONST_FLOAT;
    constant.f = number.getValueAsDouble();
  } else if (auto text = dyn_cast<StringAttr>(value)) {
    constant.kind = PYJIT_CONST_STR;
    addBytes(text);
  } else if (refgraph::isPyNone(value)) {
    constant.kind = PYJIT_CONST_NONE;
  } else if (refgraph::isPyEllipsis(value)) {
    constant.kind = PYJIT_CONST_ELLIPSIS;
  } else if (StringAttr text = refgraph::getPyBytes(value)) {
    constant.kind = PYJIT_CONST_BYTES;
    addBytes(text);
  } else if (ArrayAttr parts = refgraph::getPyComplex(value)) {
    constant.kind = PYJIT_CONST_COMPLEX;
    constant.f = cast<FloatAttr>(parts[0]).getValueAsDouble();
    constant.g = cast<FloatAttr>(parts[1]).getValueAsDouble();
  } else {
    constant.kind = PYJIT_CONST_OBJECT;
    constant.i = refgraph::getPyObject(value).getInt();
  }
  uint32_t index = constants.size();
  constants.push_back(constant);
  constantIndex[value] = index;
  return index;
}

FailureOr<PyjitTensorMeta> ProgramPools::makeTensor(Operation *op,
                                                    refgraph::TensorType type) {
  std::optional<int8_t> dtype = getScalarType(type.getElementType());
  if (!dtype)
    return op->emitOpError("has element type ")
           << type.getElementType() << ", which PyTorch does not have";
  auto device = getDevice(type.getDevice());
  if (!device)
    return op->emitOpError("names unknown device '") << type.getDevice() << "'";
  auto [it, isNew] = dimsIndex.try_emplace(type, ints.size());
  if (isNew) {
    for (ArrayRef<int64_t> numbers : {type.getShape(), type.getStrides()})
      for (int64_t number : numbers)
        ints.push_back(ShapedType::isDynamic(number) ? PYJIT_ANY_DIM : number);
  }
  PyjitTensorMeta meta = {};
  meta.rank = type.getRank();
  meta.dims = it->second;
  meta.dtype = *dtype;
  std::tie(meta.deviceType, meta.deviceIndex) = *device;
  return meta;
}

static bool operator==(const PyjitTensorMeta &a, const PyjitTensorMeta &b) {
  return a.rank == b.rank && a.dims == b.dims && a.dtype == b.dtype &&
         a.deviceType == b.deviceType && a.deviceIndex == b.deviceIndex &&
         a.requiresGrad == b.requiresGrad && a.flags == b.flags &&
         a.keyset == b.keyset && a.offset == b.offset;
}

uint32_t ProgramPools::addTensor(const PyjitTensorMeta &meta) {
  // Layers of a network repeat few layouts: look at the recent ones only.
  size_t first = tensors.size() > 64 ? tensors.size() - 64 : 0;
  for (size_t i = tensors.size(); i > first; --i)
    if (tensors[i - 1] == meta)
      return i - 1;
  tensors.push_back(meta);
  return tensors.size() - 1;
}

FailureOr<uint32_t> ProgramPools::addState(refgraph::StateOp op) {
  PyjitState state = {0, 0, -1, -1, -1, -1, -1, -1};
  ArrayRef<StringRef> flags = refgraph::StateOp::getFlagNames();
  ArrayRef<StringRef> types = refgraph::StateOp::getTypeNames();
  int8_t *slots[] = {&state.defaultDtype, &state.autocastCpuDtype,
                     &state.autocastCudaDtype};
  for (NamedAttribute entry : op.getValues()) {
    StringRef name = entry.getName();
    if (const auto *flag = llvm::find(flags, name); flag != flags.end()) {
      uint32_t bit = 1u << (flag - flags.begin());
      state.known |= bit;
      if (cast<BoolAttr>(entry.getValue()).getValue())
        state.value |= bit;
      continue;
    }
    if (name == refgraph::StateOp::getDeviceName()) {
      state.cudaDevice = cast<IntegerAttr>(entry.getValue()).getInt();
      continue;
    }
    if (name == refgraph::StateOp::getDefaultDeviceName()) {
      StringRef device = cast<StringAttr>(entry.getValue()).getValue();
      auto known = getDevice(device);
      if (!known)
        return op.emitOpError("state '")
               << name << "' is " << entry.getValue()
               << ", which is no device that is known";
      state.defaultDevice = known->first;
      // As Python compares devices: "cpu:0" is another than "cpu".
      if (device.split(':').second.getAsInteger(10, state.defaultDeviceIndex))
        state.defaultDeviceIndex = -1;
      continue;
    }
    auto type = cast<TypeAttr>(entry.getValue()).getValue();
    std::optional<int8_t> dtype = getScalarType(type);
    if (!dtype)
      return op.emitOpError("state '")
             << name << "' is " << type << ", which PyTorch does not have";
    *slots[llvm::find(types, name) - types.begin()] = *dtype;
  }
  states.push_back(state);
  return states.size() - 1;
}

uint32_t ProgramPools::addList(ArrayRef<uint32_t> registers) {
  uint32_t first = lists.size();
  lists.insert(lists.end(), registers.begin(), registers.end());
  return first;
}

uint32_t ProgramPools::addInts(ArrayRef<int64_t> numbers) {
  uint32_t first = ints.size();
  ints.insert(ints.end(), numbers.begin(), numbers.end());
  return first;
}

PyjitPools ProgramPools::view() const {
  PyjitPools view = {};
  view.constants = constants.data();
  view.numConstants = constants.size();
  view.tensors = tensors.data();
  view.numTensors = tensors.size();
  view.states = states.data();
  view.numStates = states.size();
  view.ints = ints.data();
  view.numInts = ints.size();
  view.lists = lists.data();
  view.numLists = lists.size();
  view.bytes = bytes.data();
  view.numBytes = bytes.size();
  return view;
}

} // namespace pyjit::executable
