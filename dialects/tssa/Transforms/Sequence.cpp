//===- Sequence.cpp - Straight-line code as a sequence of kinds -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Repetition.h"

#include "pyjit/Operators/OperatorInfo.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/OperationSupport.h"
#include "mlir/Transforms/RegionUtils.h"
#include "llvm/ADT/Hashing.h"
#include <unordered_map>

using namespace mlir;
using namespace pyjit;
using namespace pyjit::tssa;

/// No operands, no effects: may be made again anywhere.
static bool isFree(Operation &op) {
  return op.hasTrait<OpTrait::ConstantLike>() ||
         ((isa<tensor::EmptyOp, tssa::EmptyOp, SizeOp>(op)) &&
          op.getNumOperands() == 0);
}

/// A view at a place that is known.
static bool isStaticView(Operation *op) {
  auto access = dyn_cast_or_null<AccessOp>(op);
  return access && access.getIndices().empty();
}

static bool isForKernel(Operation &op) {
  auto call = dyn_cast<AtenOp>(op);
  if (!call)
    return true;
  const operators::OperatorInfo *info =
      operators::lookupOperator(call.getOverload());
  return info && (info->lowering == operators::Lowering::Recipe ||
                  info->lowering == operators::Lowering::Structured);
}

//===----------------------------------------------------------------------===//
// Paths
//===----------------------------------------------------------------------===//

/// The parameter of a view that may be an index known at run time, or -1.
static int indexOf(ViewAttr view) {
  bool has =
      view.getKind() == ViewKind::select || view.getKind() == ViewKind::slice;
  return has && !view.isSymbolic() && view.getNumDynamic() == 0 ? 1 : -1;
}

/// Where two paths differ: in one index, by `delta`.
static bool differInIndex(ArrayAttr a, ArrayAttr b, int &view, int64_t &delta) {
  if (a.size() != b.size())
    return false;
  view = -1;
  for (auto [i, pair] : llvm::enumerate(llvm::zip(a, b))) {
    auto [x, y] = pair;
    if (x == y)
      continue;
    auto one = cast<ViewAttr>(x), two = cast<ViewAttr>(y);
    int index = indexOf(one);
    if (view >= 0 || one.getKind() != two.getKind() || index < 0 ||
        indexOf(two) < 0)
      return false;
    for (auto [k, numbers] :
         llvm::enumerate(llvm::zip(one.getParams(), two.getParams())))
      if (int(k) != index && std::get<0>(numbers) != std::get<1>(numbers))
        return false;
    view = i;
    delta = two.getParams()[index] - one.getParams()[index];
  }
  return view >= 0;
}

bool PathFamily::fits(int64_t w, ArrayAttr path) const {
  if (path == base)
    return slope == 0 || w == first;
  int where;
  int64_t delta;
  return slope != 0 && differInIndex(base, path, where, delta) &&
         where == view && delta == slope * (w - first);
}

bool PathFamily::add(int64_t w, ArrayAttr path) {
  if (!base) {
    base = path;
    first = w;
    return true;
  }
  if (!settled && w != first) {
    settled = true;
    int64_t delta;
    if (path != base) {
      if (!differInIndex(base, path, view, delta) || delta % (w - first))
        return false;
      slope = delta / (w - first);
    }
  }
  return fits(w, path);
}

int64_t PathFamily::indexAt(int64_t w) const {
  return cast<ViewAttr>(base[view]).getParams()[1] + slope * (w - first);
}

//===----------------------------------------------------------------------===//
// The sequence
//===----------------------------------------------------------------------===//

Reading Sequence::read(Value value) {
  Reading reading{value, value, none};
  SmallVector<ArrayAttr, 2> steps;
  while (isStaticView(reading.root.getDefiningOp()) &&
         reading.root.getParentBlock() == &block) {
    auto access = cast<AccessOp>(reading.root.getDefiningOp());
    steps.push_back(access.getPath());
    reading.root = access.getSource();
  }
  if (steps.size() == 1) {
    reading.path = steps.front();
  } else if (!steps.empty()) {
    SmallVector<Attribute> whole;
    for (ArrayAttr step : llvm::reverse(steps))
      llvm::append_range(whole, step);
    reading.path = ArrayAttr::get(none.getContext(), whole);
  }
  if (Value same = freeOf.lookup(reading.root)) {
    if (reading.root == reading.value)
      reading.value = same;
    reading.root = same;
  }
  if (Operation *op = reading.root.getDefiningOp())
    if (auto found = itemOf.find(op); found != itemOf.end()) {
      reading.item = found->second;
      reading.result = cast<OpResult>(reading.root).getResultNumber();
    }
  return reading;
}

namespace {
/// What makes operations of one kind.
struct KindKey {
  Operation *op;
  Attribute attributes;
};
} // namespace

/// The path with its indices left out.
static llvm::hash_code hashShape(ArrayAttr path) {
  llvm::hash_code hash(0);
  for (Attribute step : path) {
    auto view = cast<ViewAttr>(step);
    int index = indexOf(view);
    hash = llvm::hash_combine(hash, view.getKind());
    for (auto [k, number] : llvm::enumerate(view.getParams()))
      hash = llvm::hash_combine(hash, int(k) == index ? 0 : number);
  }
  return hash;
}

static bool haveSameShape(ArrayAttr a, ArrayAttr b) {
  int view;
  int64_t delta;
  return a == b || differInIndex(a, b, view, delta);
}

static bool isSameKind(const KindKey &a, const KindKey &b) {
  if (a.op->getName() != b.op->getName() || a.attributes != b.attributes ||
      a.op->getNumOperands() != b.op->getNumOperands() ||
      a.op->getResultTypes() != b.op->getResultTypes() ||
      a.op->getOperandTypes() != b.op->getOperandTypes() ||
      a.op->getNumRegions() != b.op->getNumRegions())
    return false;
  if (auto assign = dyn_cast<AssignOp>(a.op))
    if (!haveSameShape(assign.getPath(), cast<AssignOp>(b.op).getPath()))
      return false;
  for (auto [x, y] : llvm::zip(a.op->getRegions(), b.op->getRegions()))
    if (!OperationEquivalence::isRegionEquivalentTo(
            &x, &y, OperationEquivalence::IgnoreLocations))
      return false;
  return true;
}

/// Whether an operation's regions know of nothing but its operands, and of what
/// may stand anywhere.
static bool isSelfContained(Operation &op) {
  if (op.getNumRegions() == 0)
    return true;
  llvm::SetVector<Value> used;
  getUsedValuesDefinedAbove(op.getRegions(), used);
  return llvm::all_of(used, [](Value value) {
    return value.getDefiningOp() && isFree(*value.getDefiningOp());
  });
}

Sequence::Sequence(Block &block)
    : block(block),
      none(ArrayAttr::get(block.getParentOp()->getContext(), {})) {
  std::unordered_map<size_t, SmallVector<std::pair<KindKey, unsigned>, 1>>
      kinds;
  std::unordered_map<size_t, SmallVector<Operation *, 1>> frees;
  unsigned numKinds = 0;
  StringAttr pathName = StringAttr::get(none.getContext(), "path");
  for (Operation &op : block.without_terminator()) {
    if (isStaticView(&op))
      continue;
    if (isFree(op)) {
      free.push_back(&op);
      auto &same = frees[OperationEquivalence::computeHash(
          &op, OperationEquivalence::directHashValue,
          OperationEquivalence::ignoreHashValue,
          OperationEquivalence::IgnoreLocations)];
      auto *found = llvm::find_if(same, [&](Operation *other) {
        return OperationEquivalence::isEquivalentTo(
            &op, other, OperationEquivalence::IgnoreLocations);
      });
      if (found == same.end()) {
        same.push_back(&op);
        continue;
      }
      for (auto [mine, theirs] :
           llvm::zip(op.getResults(), (*found)->getResults()))
        freeOf[mine] = theirs;
      continue;
    }
    auto generic = dyn_cast<linalg::GenericOp>(op);
    bool isProduct = generic && generic.getNumReductionLoops() != 0;
    bool forKernel = isForKernel(op);
    Item item{&op, 0, forKernel && !isProduct, forKernel, none, {}};
    DictionaryAttr attributes = op.getAttrDictionary();
    if (auto assign = dyn_cast<AssignOp>(op)) {
      item.path = assign.getPath();
      NamedAttrList rest(attributes);
      rest.erase(pathName);
      attributes = rest.getDictionary(none.getContext());
    }
    for (Value operand : op.getOperands())
      item.reads.push_back(read(operand));
    // An exit is part of no iteration.
    if (isSelfContained(op) && !isa<SpeculateOp>(op)) {
      llvm::hash_code hash =
          llvm::hash_combine(op.getName(), attributes, hashShape(item.path),
                             llvm::hash_combine_range(op.operand_type_begin(),
                                                      op.operand_type_end()),
                             llvm::hash_combine_range(op.result_type_begin(),
                                                      op.result_type_end()));
      KindKey key{&op, attributes};
      auto &bucket = kinds[hash];
      auto *found = llvm::find_if(
          bucket, [&](auto &entry) { return isSameKind(entry.first, key); });
      if (found == bucket.end()) {
        bucket.emplace_back(key, numKinds++);
        found = std::prev(bucket.end());
      }
      item.kind = found->second;
    } else {
      item.kind = numKinds++;
    }
    itemOf[&op] = items.size();
    items.push_back(std::move(item));
  }
}

void Sequence::gatherFree() {
  for (Operation *op : free) {
    if (op->getNumResults() && freeOf.contains(op->getResult(0))) {
      for (Value result : op->getResults())
        result.replaceAllUsesWith(freeOf.lookup(result));
      op->erase();
    } else {
      op->moveBefore(&block, block.begin());
    }
  }
  free.clear();
}
