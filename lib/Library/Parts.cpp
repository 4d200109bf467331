//===- Parts.cpp - Results that become parts of larger ones ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Parts.h"

#include "Calls.h"

#include "dialects/tssa/IR/Views.h"

using namespace mlir;
using namespace pyjit;
using namespace pyjit::library;

/// Whether the strides of `shown` are what the path shows of memory that lies
/// as `source` says: along each dimension, the others first and last.
static bool isStrided(ArrayAttr path, RankedTensorType source,
                      RankedTensorType shown) {
  AffineMap map = tssa::getPathMap(path, source);
  SmallVector<int64_t> from = tssa::getStrides(source);
  SmallVector<int64_t> strides = tssa::getStrides(shown);
  auto addressOf = [&](ArrayRef<int64_t> index) {
    int64_t address = 0;
    for (auto [place, stride] : llvm::zip(map.compose(index), from))
      address += place * stride;
    return address;
  };
  SmallVector<int64_t> first(shown.getRank(), 0), last;
  for (int64_t size : shown.getShape())
    last.push_back(size - 1);
  int64_t base = addressOf(first);
  for (SmallVector<int64_t> index : {first, last})
    for (int64_t d = 0; d < shown.getRank(); ++d) {
      int64_t kept = index[d];
      for (int64_t k = 0; k < shown.getDimSize(d); ++k) {
        index[d] = k;
        int64_t expected = base;
        for (auto [i, stride] : llvm::zip(index, strides))
          expected += i * stride;
        if (addressOf(index) != expected)
          return false;
      }
      index[d] = kept;
    }
  return true;
}

bool library::canLieElsewhere(Value value, RankedTensorType type,
                              Retyping &changes) {
  changes.emplace_back(value, type);
  for (Operation *user : value.getUsers()) {
    // Operators do not depend on their operands' layout, other than in time.
    if (auto call = dyn_cast<tssa::AtenOp>(user)) {
      if (call.getMutates())
        return false;
      continue;
    }
    auto access = dyn_cast<tssa::AccessOp>(user);
    if (!access || !access.getIndices().empty())
      return false;
    ScopedDiagnosticHandler silence(user->getContext(),
                                    [](Diagnostic &) { return success(); });
    RankedTensorType shown = tssa::inferPathType(
        access.getPath(), type, [&] { return access.emitError(); });
    if (!shown || shown.getShape() != typeOf(access.getResult()).getShape() ||
        shown.getNumElements() == 0 ||
        !isStrided(access.getPath(), type, shown) ||
        !canLieElsewhere(access.getResult(), shown, changes))
      return false;
  }
  return true;
}

void library::retype(const Retyping &changes) {
  for (auto [value, type] : changes)
    value.setType(type);
}
