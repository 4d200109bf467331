//===- Repetition.cpp - Finds equal iterations ----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// In three steps, each about linear in the number of operations. Runs of kinds
// that come again after `p` operations are found from the distances at which
// kinds, and sequences of kinds, come again. The windows of a run are compared
// by where their operands come from, relative to the window: every k-th is
// equal to the k-th before where iterations have k windows (layers inside of
// steps). What that gives is then proven (RepetitionProof.cpp).
//
//===----------------------------------------------------------------------===//

#include "RepetitionProof.h"

#include "llvm/ADT/Hashing.h"
#include <unordered_map>

using namespace mlir;
using namespace pyjit::tssa;

namespace {

/// Distances that are tried, windows in an iteration, and places to begin it.
constexpr unsigned kMaxPeriods = 24, kMaxWindows = 128, kMaxStarts = 16;

struct Run {
  int begin, end, period;
};

class Finder {
public:
  Finder(Sequence &sequence, int minSaved)
      : items(sequence.items), minSaved(minSaved), prover(sequence, minSaved) {}
  std::vector<Repetition> run();

private:
  SmallVector<int> findPeriods();
  void searchRun(const Run &run);
  bool searchWindows(const Run &run, bool exact);
  bool searchStart(const Run &run, int begin, int end, int period);
  SmallVector<unsigned> countLostFusions(int from, int period);
  SmallVector<unsigned> countLive(int from, int period);

  std::vector<Item> &items;
  int minSaved;
  RepetitionProver prover;
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
/// for no vendor call of its own iteration, and is asked for by one, or by the
/// next iteration: no other kernel of its own iteration can take it in.
SmallVector<unsigned> Finder::countLostFusions(int from, int period) {
  SmallVector<unsigned> lost(period, 0);
  // Long iterations have kernels enough of their own.
  constexpr int kLongIteration = 192;
  if (period > kLongIteration)
    return lost;
  int limit = std::min<int>(from + 3 * period, items.size());
  // By operation: the first one before it with which it could share a kernel
  // directly, because no path between them goes through a vendor call.
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
    if (prover.prove(found, (limit - start) / period)) {
      repetitions.push_back(std::move(found));
      return true;
    }
  }
  return false;
}

} // namespace

std::vector<Repetition> pyjit::tssa::findRepetitions(Sequence &sequence,
                                                     int minSaved) {
  return Finder(sequence, minSaved).run();
}
