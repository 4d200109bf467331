//===- DescribeKernel.cpp - What a launch has to know of a kernel ---------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "pyjit/Executable/LaunchEncoding.h"

#include "dialects/pyjit/IR/Attributes.h"
#include "dialects/refgraph/IR/RefGraph.h"

using namespace mlir;
using namespace pyjit;
using namespace pyjit::executable;

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
