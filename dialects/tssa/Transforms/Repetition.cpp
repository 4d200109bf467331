//===- Repetition.cpp - Finds equal iterations ----------------------------===//
//
// In three steps, each about linear in the number of operations. Runs of kinds
// that come again after `p` operations are found from the distances at which
// kinds, and sequences of kinds, come again. The windows of a run are compared
// by where their operands come from, relative to the window: every k-th is
// equal to the k-th before where iterations have k windows (layers inside of
// steps). What that gives is then proven operand by operand.
//
//===----------------------------------------------------------------------===//

#include "Repetition.h"

#include "dialects/tssa/IR/Views.h"

#include "llvm/ADT/Hashing.h"
#include <unordered_map>

using namespace mlir;
using namespace pyjit::tssa;

namespace {

/// Fewer iterations are no loop.
constexpr int kMinTrips = 4;
/// Distances that are tried, windows in an iteration, and places to begin it.
constexpr unsigned kMaxPeriods = 24, kMaxWindows = 128, kMaxStarts = 16;
/// Iterations that a value may have to wait for its last reader.
constexpr int kMaxDistance = 8;

struct Run {
  int begin, end, period;
};

class Finder {
public:
  Finder(Sequence &sequence, int minSaved)
      : items(sequence.items), minSaved(minSaved) {
    for (auto [i, item] : llvm::enumerate(items))
      position[item.op] = i;
  }
  std::vector<Repetition> run();

private:
  SmallVector<int> findPeriods();
  void searchRun(const Run &run);
  bool searchWindows(const Run &run, bool exact);
  bool searchStart(const Run &run, int begin, int end, int period);
  int proveWindows(Repetition &found, int trips);
  bool prove(Repetition &found, int trips);
  bool resolveChains(Repetition &found);
  bool resolveResults(Repetition &found);
  bool collect(Repetition &found, unsigned position, unsigned result);
  bool matchJoin(Repetition &found, const Item &item,
                 function_ref<Value(int)> valueOf, Collection &made);
  bool leadsOut(Value value, const Repetition &found,
                Operation *except = nullptr);
  SmallVector<unsigned> countLostFusions(int from, int period);
  SmallVector<unsigned> countLive(int from, int period);

  std::vector<Item> &items;
  int minSaved;
  DenseMap<Operation *, int> position;
  std::vector<Repetition> repetitions;
};

//===----------------------------------------------------------------------===//
// Runs of kinds
//===----------------------------------------------------------------------===//

/// Distances at which kinds, or several kinds in a row, come again, the most
/// frequent first.
SmallVector<int> Finder::findPeriods() {
  DenseMap<int, unsigned> count;
  std::vector<size_t> grams(items.size());
  for (auto [i, item] : llvm::enumerate(items))
    grams[i] = item.kind;
  for (unsigned width = 1; width <= 64; width *= 8) {
    std::unordered_map<size_t, int> last;
    for (int i = 0, e = int(items.size()) - int(width) + 1; i < e; ++i) {
      auto [found, isNew] = last.try_emplace(grams[i], i);
      if (!isNew) {
        ++count[i - found->second];
        found->second = i;
      }
    }
    // Eight in a row are one of the next.
    std::vector<size_t> wider(items.size());
    for (int i = 0, e = items.size(); i < e; ++i)
      for (unsigned k = 0; k < 8; ++k)
        if (size_t j = i + k * width; j < items.size())
          wider[i] = llvm::hash_combine(wider[i], grams[j]);
    grams = std::move(wider);
  }
  SmallVector<std::pair<unsigned, int>> byCount;
  for (auto [distance, times] : count)
    if (times + 1 >= unsigned(kMinTrips) &&
        distance * kMinTrips <= int(items.size()))
      byCount.push_back({times, -distance});
  llvm::sort(byCount, std::greater<>());
  SmallVector<int> periods;
  for (auto [times, distance] : ArrayRef(byCount).take_front(kMaxPeriods))
    periods.push_back(-distance);
  return periods;
}

std::vector<Repetition> Finder::run() {
  if (int(items.size()) <= minSaved)
    return {};
  std::vector<Run> known;
  for (int period : findPeriods())
    for (int i = 0, e = int(items.size()) - period; i < e; ++i) {
      if (items[i].kind != items[i + period].kind)
        continue;
      int begin = i;
      while (i < e && items[i].kind == items[i + period].kind)
        ++i;
      Run run{begin, i + period, period};
      int length = run.end - run.begin;
      if (length < kMinTrips * period || length - period < minSaved ||
          llvm::any_of(
              known,
              [&](const Run &other) {
                return other.begin <= run.begin && run.end <= other.end &&
                       run.period % other.period == 0;
              }))
        continue;
      known.push_back(run);
      searchRun(run);
    }
  llvm::stable_sort(repetitions, [](const Repetition &a, const Repetition &b) {
    return a.saved() > b.saved();
  });
  return std::move(repetitions);
}

//===----------------------------------------------------------------------===//
// Windows of a run
//===----------------------------------------------------------------------===//

void Finder::searchRun(const Run &run) {
  // What is alike in all iterations makes better loops than what has to be
  // picked from a list. Later iterations may look back at the first one.
  int windows = (run.end - run.begin) / run.period;
  for (int skipped : {0, 1, windows / 4}) {
    Run rest{run.begin + skipped * run.period, run.end, run.period};
    if (searchWindows(rest, /*exact=*/true) ||
        searchWindows(rest, /*exact=*/false))
      return;
  }
}

/// Looks for iterations of `k` windows. With `exact`, what comes from before
/// the run has to be the same value.
bool Finder::searchWindows(const Run &run, bool exact) {
  int count = (run.end - run.begin) / run.period;
  SmallVector<size_t> letters;
  for (int w = 0; w < count; ++w) {
    llvm::hash_code letter(0);
    int begin = run.begin + w * run.period;
    for (int r = 0; r < run.period; ++r)
      for (const Reading &read : items[begin + r].reads) {
        int made = read.item - run.begin;
        if (made >= 0)
          letter = llvm::hash_combine(letter, made % run.period,
                                      w - made / run.period, read.result);
        else
          letter = llvm::hash_combine(
              letter, exact ? read.root.getAsOpaquePointer() : nullptr);
      }
    letters.push_back(letter);
  }
  struct Interval {
    int begin, end, windows;
    int saved() const { return end - begin - windows; }
  };
  SmallVector<Interval> best;
  int bestSaved = 0;
  for (int k = 1; k <= std::min<int>(count / kMinTrips, kMaxWindows); ++k) {
    SmallVector<Interval> found;
    int saved = 0;
    for (int w = 0; w + k < count; ++w) {
      int begin = w;
      while (w + k < count && letters[w] == letters[w + k])
        ++w;
      Interval interval{begin, w + k, k};
      // Those of one k overlap by less than an iteration.
      if (!found.empty())
        interval.begin = std::max(interval.begin, found.back().end);
      // What the first iteration finds differs from what the others do.
      if (interval.end - interval.begin < (kMinTrips - 1) * k)
        continue;
      saved += interval.saved();
      found.push_back(interval);
    }
    // A longer iteration has to leave out clearly more.
    if (saved * 10 > bestSaved * 11) {
      bestSaved = saved;
      best = found;
    }
  }
  bool covered = false;
  for (const Interval &interval : best) {
    int begin = run.begin + interval.begin * run.period;
    int end = run.begin + interval.end * run.period;
    int period = interval.windows * run.period;
    if (end - begin < minSaved)
      continue;
    covered |= searchStart(run, begin, end, period) &&
               (end - begin) * 10 >= (run.end - run.begin) * 8;
  }
  return covered;
}

/// For each place at which iterations could be parted, modulo `period`: how
/// many operations would become kernels of their own only because kernels do
/// not reach across it. `from` is where three periods follow.
///
/// Such an operation reads what a kernel of the iteration before made, waits
/// for no library call of its own iteration, and is asked for by one, or by the
/// next iteration: no other kernel of its own iteration can take it in.
SmallVector<unsigned> Finder::countLostFusions(int from, int period) {
  SmallVector<unsigned> lost(period, 0);
  // Long iterations have kernels enough of their own.
  constexpr int kLongIteration = 192;
  if (period > kLongIteration)
    return lost;
  int limit = std::min<int>(from + 3 * period, items.size());
  // By operation: the first one before it with which it could share a kernel
  // directly, because no path between them goes through a library call.
  SmallVector<int> partner(limit - from, limit);
  for (int i = from; i < limit; ++i) {
    if (!items[i].leads)
      continue;
    int end = std::min(limit, i + 2 * period);
    SmallVector<bool> depends(end - i), called(end - i);
    depends[0] = true;
    for (int j = i + 1; j < end; ++j) {
      bool direct = false;
      for (const Reading &read : items[j].reads) {
        int made = read.item - i;
        if (made < 0 || !depends[made])
          continue;
        depends[j - i] = true;
        called[j - i] = called[j - i] || called[made];
        direct |= made == 0;
      }
      if (depends[j - i] && !items[j].joins)
        called[j - i] = true;
      if (direct && items[j].joins && !called[j - i])
        partner[j - from] = std::min(partner[j - from], i);
    }
  }
  for (int begin = from + period; begin < from + 2 * period; ++begin) {
    int end = std::min(begin + period, limit);
    SmallVector<bool> early(end - begin), alone(end - begin);
    for (int j = begin; j < std::min(limit, end + period); ++j) {
      bool waits = false, asks = false;
      for (const Reading &read : items[j].reads) {
        int made = read.item - begin;
        if (made < 0 || made >= end - begin)
          continue;
        waits |= !early[made];
        asks |= alone[made];
      }
      if (j >= end) {
        lost[begin % period] += asks && items[j].joins;
        continue;
      }
      early[j - begin] = items[j].joins && !waits;
      alone[j - begin] =
          early[j - begin] && (asks || partner[j - from] < begin);
      lost[begin % period] += asks && !items[j].joins;
    }
  }
  return lost;
}

/// For each such place, how many values are alive there.
SmallVector<unsigned> Finder::countLive(int from, int period) {
  SmallVector<unsigned> live(period, 0);
  int limit = std::min<int>(from + 3 * period, items.size());
  DenseMap<int, int> last;
  for (int j = from; j < limit; ++j)
    for (const Reading &read : items[j].reads)
      if (read.item >= from && read.item < from + period)
        last[read.item] = j;
  for (auto [i, j] : last)
    for (int at = i + 1; at <= std::min(j, i + period); ++at)
      ++live[at % period];
  return live;
}

/// Chooses where iterations of `period` operations between about `begin` and
/// `end` begin: where they have least in common.
bool Finder::searchStart(const Run &run, int begin, int end, int period) {
  int from = begin;
  if (from + 3 * period > end && begin - period >= run.begin)
    from = begin - period;
  SmallVector<unsigned> fusions = countLostFusions(from, period);
  SmallVector<unsigned> live = countLive(from, period);
  // What the first iterations find may be something else than what the others
  // find, so they may lie before `begin`.
  constexpr int kMaxFirst = 3;
  int first = std::max(run.begin, begin - kMaxFirst * period);
  int limit = std::min(run.end, end + period);
  int most = (limit - first) / period;
  SmallVector<std::tuple<unsigned, unsigned, int>> starts;
  for (int start = first; start < begin + period; ++start) {
    unsigned lost = most - (limit - start) / period;
    starts.push_back(
        {fusions[start % period], live[start % period] + 2 * lost, start});
  }
  llvm::sort(starts);
  for (auto [split, cost, start] : ArrayRef(starts).take_front(kMaxStarts)) {
    Repetition found;
    found.start = start;
    found.period = period;
    found.split = split;
    if (prove(found, (limit - start) / period)) {
      repetitions.push_back(std::move(found));
      return true;
    }
  }
  return false;
}

//===----------------------------------------------------------------------===//
// Proof
//===----------------------------------------------------------------------===//

/// Compares up to `trips` windows, and says how many are iterations.
int Finder::proveWindows(Repetition &found, int trips) {
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

bool Finder::prove(Repetition &found, int trips) {
  // What a window that is none has left behind is forgotten.
  for (;;) {
    if (trips < kMinTrips || found.period * (trips - 1) < minSaved)
      return false;
    int proven = proveWindows(found, trips);
    if (proven == trips)
      break;
    trips = proven;
  }
  found.trips = trips;
  // Assignments at a changing index are the launcher's: the path up to there
  // has to be one of plain parts.
  for (PathFamily &path : found.paths)
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
  return resolveChains(found) && resolveResults(found);
}

/// What is read iterations after it was made, and what the first iterations
/// read instead.
bool Finder::resolveChains(Repetition &found) {
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
bool Finder::leadsOut(Value value, const Repetition &found, Operation *except) {
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

bool Finder::resolveResults(Repetition &found) {
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
bool Finder::matchJoin(Repetition &found, const Item &item,
                       function_ref<Value(int)> valueOf, Collection &made) {
  auto join = dyn_cast<AtenOp>(item.op);
  if (!join || join->getNumResults() != 1 || join.getMutates() ||
      join->hasAttr("pyjit.library") || join.getArgs().size() != 2)
    return false;
  bool isCat = join.getOverload() == "aten::cat";
  auto dim = dyn_cast<IntegerAttr>(join.getArgs()[1]);
  auto type = cast<RankedTensorType>(join.getResult(0).getType());
  if ((!isCat && join.getOverload() != "aten::stack") || !dim ||
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
bool Finder::collect(Repetition &found, unsigned at, unsigned number) {
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

} // namespace

std::vector<Repetition> pyjit::tssa::findRepetitions(Sequence &sequence,
                                                     int minSaved) {
  return Finder(sequence, minSaved).run();
}
