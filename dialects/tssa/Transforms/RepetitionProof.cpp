//===- RepetitionProof.cpp - Proves that iterations are equal -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Iterations are equal if each operand has one meaning in all of them: the same
// value from before the loop, or what the same operation made so many
// iterations ago, seen through the same path, or one with an index that grows.
// Then come the values that cross iterations, and those that are needed after
// the loop.
//
//===----------------------------------------------------------------------===//

#include "RepetitionProof.h"
#include "dialects/pyjit/IR/Attributes.h"

#include "dialects/tssa/IR/Views.h"
#include "pyjit/Operators/OperatorNames.h"

using namespace mlir;
using namespace pyjit;
using namespace pyjit::tssa;

/// Iterations that a value may have to wait for its last reader.
static constexpr int kMaxDistance = 8;

RepetitionProver::RepetitionProver(Sequence &sequence, int minSaved)
    : items(sequence.items), minSaved(minSaved) {
  for (auto [i, item] : llvm::enumerate(items))
    position[item.op] = i;
}

/// Compares up to `trips` windows, and says how many are iterations.
int RepetitionProver::compareWindows(Repetition &found, int trips) {
  int start = found.start, period = found.period;
  found.families.clear();
  for (int r = 0; r < period; ++r)
    found.families.emplace_back(items[start + r].reads.size());
  found.paths.assign(period, {});
  for (int w = 0; w < trips; ++w)
    for (int r = 0; r < period; ++r) {
      Item &item = items[start + w * period + r];
      if (item.kind != items[start + r].kind ||
          !found.paths[r].add(w, item.path))
        return w;
      for (auto [o, read] : llvm::enumerate(item.reads)) {
        Family &family = found.families[r][o];
        int made = read.item - start;
        if (made < 0) {
          if (family.distance >= 0)
            return w;
          family.sameRoot &= read.root == items[start + r].reads[o].root;
          family.samePath = family.samePath && family.path.add(w, read.path);
          continue;
        }
        int distance = w - made / period;
        if (family.distance < 0) {
          // The iterations before it began found something else.
          if (distance != w || distance > kMaxDistance)
            return w;
          family.distance = distance;
          family.position = made % period;
          family.result = read.result;
          family.path = PathFamily();
        } else if (family.distance != distance ||
                   family.position != unsigned(made % period) ||
                   family.result != read.result) {
          return w;
        }
        if (!family.path.add(w, read.path))
          return w;
      }
    }
  return trips;
}

/// Whether the paths whose index changes are ones that a loop can have.
bool RepetitionProver::checkIndices(const Repetition &found) const {
  // Assignments at a changing index are the launcher's: the path up to there
  // has to be one of plain parts.
  for (const PathFamily &path : found.paths)
    if (path.isIndexed())
      for (int i = 0; i < path.view; ++i) {
        ViewKind kind = cast<ViewAttr>(path.base[i]).getKind();
        if (kind != ViewKind::select && kind != ViewKind::slice &&
            kind != ViewKind::permute)
          return false;
      }
  auto isStatic = [](Type type) {
    return cast<RankedTensorType>(type).hasStaticShape();
  };
  for (int r = 0; r < found.period; ++r) {
    if (found.paths[r].isIndexed() &&
        !isStatic(items[found.start + r].op->getOperand(0).getType()))
      return false;
    for (auto [o, family] : llvm::enumerate(found.families[r]))
      if (Value root = items[found.start + r].reads[o].root;
          (family.distance >= 0 || (family.sameRoot && family.samePath)) &&
          family.path.isIndexed() && !isStatic(root.getType()))
        return false;
  }
  return true;
}

bool RepetitionProver::prove(Repetition &found, int trips) {
  // What a window that is none has left behind is forgotten.
  for (;;) {
    if (trips < kMinTrips || found.period * (trips - 1) < minSaved)
      return false;
    int proven = compareWindows(found, trips);
    if (proven == trips)
      break;
    trips = proven;
  }
  found.trips = trips;
  return checkIndices(found) && resolveChains(found) && resolveResults(found);
}

/// What is read iterations after it was made, and what the first iterations
/// read instead.
bool RepetitionProver::resolveChains(Repetition &found) {
  for (int r = 0; r < found.period; ++r)
    for (auto [o, family] : llvm::enumerate(found.families[r])) {
      if (family.distance < 1)
        continue;
      if (family.distance >= found.trips)
        return false;
      Chain &chain = found.chains[{family.position, family.result}];
      if (int(chain.inits.size()) < family.distance)
        chain.inits.resize(family.distance);
      Type type = items[found.start + family.position]
                      .op->getResult(family.result)
                      .getType();
      for (int w = 0; w < family.distance; ++w) {
        Reading init = items[found.start + w * found.period + r].reads[o];
        if (family.path.isIndexed() || !family.path.base.empty()) {
          // The same part of something else.
          bool fits = family.path.isIndexed() &&
                              init.path.size() == family.path.base.size()
                          ? family.path.fits(w, init.path)
                          : init.path == family.path.base;
          if (!fits)
            return false;
          init = Reading{init.root, init.root,
                         ArrayAttr::get(type.getContext(), {})};
        }
        if (init.value.getType() != type)
          return false;
        Reading &slot = chain.inits[family.distance - w - 1];
        if (slot.value && (slot.root != init.root || slot.path != init.path))
          return false;
        slot = init;
      }
    }
  // Values that are kept for someone else's sake, and found by nobody.
  for (auto &[key, chain] : found.chains)
    for (Reading &init : chain.inits)
      if (!init.value)
        return false;
  return true;
}

/// Whether someone other than the iterations and `except` needs the value,
/// views of it included.
bool RepetitionProver::leadsOut(Value value, const Repetition &found,
                                Operation *except) {
  return llvm::any_of(value.getUsers(), [&](Operation *user) {
    auto at = position.find(user);
    if (at != position.end())
      return user != except &&
             (at->second < found.start || at->second >= found.end());
    auto access = dyn_cast<AccessOp>(user);
    if (access && access.getIndices().empty())
      return leadsOut(access.getResult(), found, except);
    return true;
  });
}

bool RepetitionProver::resolveResults(Repetition &found) {
  for (int r = 0; r < found.period; ++r)
    for (OpResult result : items[found.start + r].op->getOpResults()) {
      unsigned number = result.getResultNumber();
      bool last = false, others = false;
      for (int w = 0; w < found.trips; ++w) {
        Operation *op = items[found.start + w * found.period + r].op;
        if (leadsOut(op->getResult(number), found))
          (w + 1 == found.trips ? last : others) = true;
      }
      if (others) {
        if (!collect(found, r, number))
          return false;
        Operation *join = found.collections[{unsigned(r), number}].join;
        last = join &&
               leadsOut(
                   items[found.end() - found.period + r].op->getResult(number),
                   found, join);
      }
      if (last)
        found.finals.push_back({r, number});
    }
  return true;
}

/// Calls that the value, or a view of it, is an operand of.
static SmallVector<Operation *> findJoins(Value value) {
  SmallVector<Operation *> joins;
  for (Operation *user : value.getUsers()) {
    if (isa<AtenOp>(user))
      joins.push_back(user);
    else if (auto access = dyn_cast<AccessOp>(user))
      llvm::append_range(joins, findJoins(access.getResult()));
  }
  return joins;
}

/// Whether `join` is an aten::cat or aten::stack whose list has the values of
/// all iterations, one after the other.
bool RepetitionProver::matchJoin(Repetition &found, const Item &item,
                                 function_ref<Value(int)> valueOf,
                                 Collection &made) {
  auto join = dyn_cast<AtenOp>(item.op);
  if (!join || join->getNumResults() != 1 || join.getMutates() ||
      join->hasAttr(attribute::kVendorCall) || join.getArgs().size() != 2)
    return false;
  bool isCat = join.getOverload() == operators::aten::cat;
  auto dim = dyn_cast<IntegerAttr>(join.getArgs()[1]);
  auto type = cast<RankedTensorType>(join.getResult(0).getType());
  if ((!isCat && join.getOverload() != operators::aten::stack) || !dim ||
      !type.hasStaticShape() || type.getEncoding() || type.getRank() == 0)
    return false;
  int64_t d = dim.getInt() < 0 ? dim.getInt() + type.getRank() : dim.getInt();
  // What each operand takes of that dimension.
  SmallVector<int64_t> lengths;
  for (const Reading &read : item.reads) {
    auto part = cast<RankedTensorType>(read.value.getType());
    if (part.getElementType() != type.getElementType() ||
        part.getRank() + (isCat ? 0 : 1) != type.getRank())
      return false;
    lengths.push_back(isCat ? part.getDimSize(d) : 1);
  }
  auto *begin = llvm::find_if(
      item.reads, [&](const Reading &read) { return read.root == valueOf(0); });
  if (item.reads.end() - begin < found.trips || lengths.empty())
    return false;
  for (int w = 0; w < found.trips; ++w)
    if (begin[w].root != valueOf(w) || begin[w].path != begin->path ||
        lengths[begin - item.reads.begin() + w] == 0)
      return false;
  made.type = type;
  made.dim = d;
  made.join = join;
  made.isCat = isCat;
  made.path = begin->path;
  made.firstOperand = begin - item.reads.begin();
  made.lengths = lengths;
  // Who else needs them has to find them in the result as they are. (The last
  // one is a result of its own.)
  ViewAttr view =
      isCat ? ViewAttr::get(type.getContext(), ViewKind::slice,
                            {d, 0, lengths[made.firstOperand], 1})
            : ViewAttr::get(type.getContext(), ViewKind::select, {d, 0});
  auto shown = inferPathType(ArrayAttr::get(type.getContext(), view), type,
                             [&] { return join->emitError(); });
  if (made.path.empty() && shown == valueOf(0).getType())
    return true;
  for (int w = 0; w + 1 < found.trips; ++w)
    if (leadsOut(valueOf(w), found, join))
      return false;
  return true;
}

/// The values of all iterations as parts of one tensor: the result of a join
/// of them, if there is one.
bool RepetitionProver::collect(Repetition &found, unsigned at,
                               unsigned number) {
  auto valueOf = [&](int w) -> Value {
    return items[found.start + w * found.period + at].op->getResult(number);
  };
  auto type = cast<RankedTensorType>(valueOf(0).getType());
  if (!type.hasStaticShape() || !isDense(type))
    return false;
  Collection made;
  for (Operation *user : findJoins(valueOf(0)))
    if (auto where = position.find(user);
        where != position.end() && where->second >= found.end() &&
        llvm::none_of(found.collections,
                      [&](auto &other) { return other.second.join == user; }) &&
        matchJoin(found, items[where->second], valueOf, made)) {
      found.collections[{at, number}] = std::move(made);
      return true;
    }
  made = Collection();
  SmallVector<int64_t> shape{found.trips}, strides{type.getNumElements()};
  llvm::append_range(shape, type.getShape());
  llvm::append_range(strides, getStrides(type));
  made.type = getTensorType(shape, strides, type.getElementType());
  made.path = ArrayAttr::get(type.getContext(), {});
  made.lengths.assign(found.trips, 1);
  found.collections[{at, number}] = std::move(made);
  return true;
}
