//===- CostModel.cpp - Chooses the schedule of a GPU kernel ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The only place that weighs schedules. Its numbers were swept by hand on an
// H200 (docs of lib/Codegen/PTX in lib/Codegen/README.md).
//
//===----------------------------------------------------------------------===//

#include "Emitter.h"
#include "pyjit/Codegen/OnlineSum.h"
#include "pyjit/Codegen/PTX/Schedule.h"
#include "pyjit/Codegen/RowsProduct.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace pyjit::codegen;
using pyjit::analysis::Size;

namespace pyjit::ptx {

static unsigned bytesOf(Type type) {
  return std::max(1u, type.getIntOrFloatBitWidth() / 8);
}

namespace {
/// What the threads of a kernel move and hold.
struct Traffic {
  /// Bytes of the widest element that vectors access.
  unsigned widest = 1;
  /// Distinct values along the vector dim that memory gives or takes.
  unsigned accesses = 0;
  unsigned cost = 0;
};
} // namespace

static Traffic trafficOf(const Domain &domain) {
  Traffic traffic;
  auto visit = [&](Type type, AffineExpr offset) {
    if (domain.vectorDim < 0 || !offset.isFunctionOfDim(domain.vectorDim))
      return;
    traffic.widest = std::max(traffic.widest, bytesOf(type));
    ++traffic.accesses;
  };
  for (auto &node : domain.graph->nodes)
    if (node->kind == Node::Kind::Load)
      visit(node->type, node->offset);
    else if (node->kind == Node::Kind::Reduce)
      traffic.cost += node->inputs[0]->cost;
  for (const Store &store : domain.graph->stores) {
    visit(store.node->type, store.offset);
    traffic.cost += store.node->cost;
  }
  return traffic;
}

static unsigned chooseLanes(const Domain &domain, const Traffic &traffic,
                            bool tail) {
  if (domain.vectorDim < 0)
    return 1;
  unsigned lanes = std::max(1u, 16 / traffic.widest);
  while (lanes > 1 &&
         (tail ? lanes > domain.vectorSize() : !domain.isDividedBy(lanes)))
    lanes /= 2;
  return lanes;
}

static Schedule chooseFlat(const Domain &domain, const Machine &machine) {
  Schedule schedule;
  Traffic traffic = trafficOf(domain);
  schedule.lanes = chooseLanes(domain, traffic, domain.numParallel == 1);
  int64_t capacity =
      int64_t(machine.multiprocessors) * machine.threadsPerMultiprocessor;
  // Little work wants many threads, not wide ones; of how much there is the
  // estimate says nothing, and narrow accesses cost more than few threads.
  unsigned least =
      domain.rowCount.isConstant() ? 1 : std::max(1u, 8 / traffic.widest);
  while (schedule.lanes > least &&
         domain.rows / schedule.lanes < machine.multiprocessors * 256)
    schedule.lanes /= 2;
  int64_t vectors = llvm::divideCeil(domain.rows, schedule.lanes);
  // Loads in flight, once every multiprocessor has its threads; bounded by the
  // registers that several inputs take. Narrow ones are more of them (2048 rows
  // of 30522 and 50257 elements of half precision on an H200: 68 and 129 us,
  // 79 and 247 with half as many).
  unsigned limit = traffic.accesses > 6                  ? 1
                   : schedule.lanes * traffic.widest > 4 ? 2
                                                         : 4;
  while (schedule.vectors < limit && vectors >= 2 * capacity * schedule.vectors)
    schedule.vectors *= 2;
  schedule.threads = 128;
  return schedule;
}

/// Whether the kernel reduces its rows in one walk to a maximum and a sum below
/// it. `writes`: and walks them again to write them, as softmax does; else it
/// stores but a few numbers of each, as the losses of language models do.
static bool beginsWithOnlineSum(const Domain &domain, bool writes) {
  llvm::SmallBitVector reduced(domain.numParallel + domain.numReduction);
  reduced.set(domain.numParallel, reduced.size());
  unsigned stages = domain.graph->numStages;
  return (writes ? stages == 3 : stages <= 3) &&
         findOnlineSum(*domain.graph, 0, reduced) &&
         writes == llvm::any_of(domain.graph->stores, [&](const Store &store) {
           return store.dims.anyCommon(reduced);
         });
}

/// Long rows that are walked once need not stay in registers: small blocks,
/// of which several overlap, with 64 bytes in flight for each thread (2048
/// rows of 30522, 50257 and 32000 elements of bf16 on an H200: 51, 85 and
/// 54 us; 65, 111 and 70 where a block of 1024 threads holds a row).
static void walkOnce(Schedule &schedule, unsigned widest) {
  bool narrow = schedule.lanes * widest < 16;
  schedule.group = schedule.threads = narrow ? 128 : 256;
  schedule.vectors = std::min(16u, 64 / (schedule.lanes * widest));
  schedule.blocks = narrow ? 6 : 4;
  schedule.resident = false;
}

static Schedule chooseRow(const Domain &domain, const Machine &machine) {
  Schedule schedule;
  schedule.family = Family::Row;
  Traffic traffic = trafficOf(domain);
  schedule.lanes = chooseLanes(domain, traffic, /*tail=*/false);
  int64_t steps = domain.rowElements / schedule.lanes;
  constexpr int64_t longRow = 8192;
  if (domain.rowSize.isConstant() && domain.rowElements >= longRow &&
      traffic.widest <= 4 && domain.rows >= 2 * machine.multiprocessors &&
      beginsWithOnlineSum(domain, /*writes=*/false)) {
    walkOnce(schedule, traffic.widest);
    return schedule;
  }
  // Elements that a thread holds in registers: fewer where a row has several
  // inputs or expensive bodies.
  int64_t elements = traffic.accesses <= 4 ? 64 : 32;
  if (traffic.widest == 8)
    elements /= 4;
  if (!domain.rowSize.isConstant()) {
    // Rows of any length: a warp each, walked again for each stage.
    schedule.group = 32;
    schedule.vectors =
        std::max<int64_t>(1, std::min<int64_t>(2, elements / 32));
    schedule.threads = 128;
    schedule.blocks = 1;
    return schedule;
  }
  unsigned most = std::max<int64_t>(1, elements / schedule.lanes);
  // A block of 1024 threads has half as many registers for each.
  unsigned mostOfAll = std::max(1u, most / (traffic.accesses <= 3 ? 2 : 4));
  unsigned inFlight = std::min(4u, most);
  // f64 and its functions take too many registers for the largest blocks.
  unsigned largest = traffic.widest == 8 ? 512 : 1024;
  // One warp per row as long as four loads per lane suffice, then as few
  // threads as can hold the row.
  schedule.group = 1;
  while (schedule.group < 32 &&
         steps > int64_t(schedule.group) * (schedule.group < 8 ? 1 : inFlight))
    schedule.group *= 2;
  if (steps > int64_t(32) * inFlight)
    schedule.group = 64;
  while (schedule.group < 256 && steps > int64_t(schedule.group) * most)
    schedule.group *= 2;
  // Few rows: more threads on each.
  while (schedule.group < 512 &&
         domain.rows * schedule.group < machine.multiprocessors * 128 &&
         steps > schedule.group)
    schedule.group *= 2;
  if (steps > int64_t(schedule.group) * most)
    schedule.group = steps <= int64_t(512) * inFlight ? 512 : largest;
  schedule.vectors =
      std::max<int64_t>(1, llvm::divideCeil(steps, schedule.group));
  schedule.resident =
      schedule.vectors <= (schedule.group == 1024 ? mostOfAll : most);
  if (!schedule.resident) {
    // Walked again from the second-level cache. The largest blocks only where
    // they leave no rest, which would take more registers than they have.
    unsigned inLargest = beginsWithOnlineSum(domain, /*writes=*/true) ? 4 : 2;
    bool whole = (traffic.accesses > 2 || inLargest == 4) &&
                 steps % (inLargest * largest) == 0;
    schedule.group = whole ? largest : 512;
    schedule.vectors = std::min(whole ? inLargest : 4u, most);
  }
  // There ptxas would rather spill a little than have fewer blocks at once.
  int64_t held = int64_t(schedule.vectors) * schedule.lanes;
  if (!schedule.resident || (held > 32 && held < 64))
    schedule.blocks = 1;
  schedule.threads = std::max(schedule.group, 128u);
  return schedule;
}

static Schedule chooseColumn(const Domain &domain, const Machine &machine) {
  Schedule schedule;
  schedule.family = Family::Column;
  Traffic traffic = trafficOf(domain);
  schedule.lanes = std::min(8u, chooseLanes(domain, traffic, /*tail=*/false));
  // A warp side by side still reads whole sectors with fewer lanes.
  while (schedule.lanes > 2 &&
         domain.rows / schedule.lanes < machine.multiprocessors * 32)
    schedule.lanes /= 2;
  schedule.threads = 256;
  schedule.group = 8;
  while (schedule.group < 32 &&
         domain.rows / schedule.lanes * schedule.group <
             machine.multiprocessors * 512 &&
         domain.rowElements > schedule.group * 4)
    schedule.group *= 2;
  while (schedule.group > 1 && domain.rowElements < schedule.group)
    schedule.group /= 2;
  // More than 512 threads leave each too few registers.
  schedule.threads = std::clamp(schedule.group * 32, 256u, 512u);
  while (schedule.lanes > 1 && columnBytes(schedule, domain) > 48 << 10)
    schedule.lanes /= 2;
  while (schedule.group > 1 && columnBytes(schedule, domain) > 48 << 10) {
    schedule.group /= 2;
    schedule.threads = std::max(64u, schedule.group * 32);
  }
  int64_t steps = std::max<int64_t>(
      1, llvm::divideCeil(domain.rowElements, schedule.group));
  // Elements that a thread holds: fewer where a row has several operands.
  unsigned elements = traffic.accesses <= 4 ? 32 : 16;
  unsigned most = std::max(1u, elements / schedule.lanes);
  schedule.resident = domain.graph->numStages > 2 && steps <= most &&
                      domain.rowSize.isConstant();
  schedule.vectors = schedule.resident ? steps : std::min<int64_t>(4, steps);
  // Where there are no more blocks than multiprocessors, ptxas need not spill
  // so that two of them fit.
  if (domain.rows / schedule.lanes * schedule.group <=
      int64_t(machine.multiprocessors) * schedule.threads)
    schedule.blocks = 1;
  return schedule;
}

int64_t largestDivisor(int64_t extent, int64_t most) {
  for (int64_t divisor = std::min(extent, most); divisor > 1; --divisor)
    if (extent % divisor == 0)
      return divisor;
  return 1;
}

int64_t chooseParts(const Domain &domain, const Schedule &schedule,
                    const Machine &machine, int64_t bytes) {
  if (schedule.family == Family::Product)
    return 1;
  bool columns = schedule.family == Family::Column;
  int64_t groups = schedule.threads / schedule.group;
  int64_t blocks = llvm::divideCeil(
      columns ? domain.rows / schedule.lanes : domain.rows, groups);
  int64_t busy = std::min<int64_t>(blocks, machine.multiprocessors);
  // Bytes that a multiprocessor takes from memory in a microsecond, where all
  // of them read and where one block of each does: columns are read in pieces
  // of a few sectors. Microseconds that a further launch costs.
  constexpr double rate = 33e3, columnRate = 18e3, launch = 3;
  double once = bytes / ((columns ? columnRate : rate) * busy);
  double twice = bytes / (rate * machine.multiprocessors) + launch;
  if (twice >= once)
    return 1;
  int64_t wanted = llvm::divideCeil(4 * machine.multiprocessors, blocks);
  // Parts stay long enough to be read by whole vectors of many threads.
  int64_t least = columns ? 16 : 4096;
  return std::max<int64_t>(1, std::min(wanted, domain.rowElements / least));
}

/// The dim along which most operands lie that do not lie along the vector dim;
/// -1 if tiles would not pay.
static int chooseAcross(const Domain &domain) {
  if (domain.vectorDim < 0 || domain.vectorSize() < 16)
    return -1;
  int best = -1;
  unsigned most = 0;
  for (unsigned d = 0; d < domain.numParallel; ++d) {
    if (int(d) == domain.vectorDim || domain.graph->dims[d].estimate() < 16)
      continue;
    unsigned count = 0;
    for (auto &node : domain.graph->nodes)
      count += isReadAcross(*node, domain.vectorDim, d);
    if (count > most) {
      most = count;
      best = d;
    }
  }
  // Each operand needs a tile of its own in shared memory.
  return most <= 3 ? best : -1;
}

static Schedule chooseTile(const Domain &domain, int across) {
  Schedule schedule;
  schedule.family = Family::Tile;
  schedule.across = across;
  unsigned widest = 1;
  for (auto &node : domain.graph->nodes)
    if (isReadAcross(*node, domain.vectorDim, across))
      widest = std::max(widest, bytesOf(node->type));
  // A warp takes 128 bytes of a row, where the dims allow it.
  schedule.lanes = std::max(1u, 4 / std::max(2u, widest));
  while (schedule.lanes > 1 &&
         (!domain.isDividedBy(schedule.lanes) ||
          !domain.graph->dims[across].isMultipleOf(schedule.lanes)))
    schedule.lanes /= 2;
  schedule.threads = 256;
  schedule.vectors = 32 * 32 * schedule.lanes / schedule.threads;
  return schedule;
}

/// Bytes of the matrix in flight are all that counts. Where blocks are many,
/// they have more columns, since each block reads all rows; where they are few,
/// more warps.
static Schedule chooseProduct(const Domain &domain, const RowsProduct &product,
                              const Machine &machine) {
  Schedule schedule;
  schedule.family = Family::Product;
  schedule.lanes = ProductTile::load;
  int64_t steps = domain.rowElements / ProductTile::run;
  int64_t blocks = llvm::divideCeil(
      domain.graph->dims[product.columnDim].estimate(), ProductTile::columns);
  int64_t enough = 2 * int64_t(machine.multiprocessors);
  while (schedule.group < 4 && blocks / (2 * schedule.group) >= enough)
    schedule.group *= 2;
  bool few = blocks <= enough;
  int64_t warps = few ? 16 : 8;
  while (warps > 1 && warps > steps)
    warps /= 2;
  schedule.threads = 32 * warps;
  int64_t each = llvm::divideCeil(steps, warps);
  int64_t most = 4 / schedule.group;
  schedule.vectors = std::min(each, most);
  // Rather a load less than a rest.
  if (each > most && each % most != 0 && most > 2 && each % (most - 1) == 0)
    schedule.vectors = most - 1;
  // ptxas takes no more registers than a full multiprocessor leaves for each
  // thread, and then has four loads in flight; told of fewer blocks it has 10
  // to 24 (seen in its SASS), which fill 64 to 128 registers.
  if (few)
    schedule.blocks = blocks <= machine.multiprocessors ? 1 : 2;
  else
    schedule.blocks =
        4 - (schedule.group > 1) - (product.rowCount > ProductTile::rows);
  return schedule;
}

Schedule chooseSchedule(const Attention &attention, const Machine &machine) {
  Schedule schedule;
  schedule.family = Family::Attention;
  unsigned bytes =
      std::max(bytesOf(attention.key->type), bytesOf(attention.value->type));
  auto divides = [&](unsigned lanes) {
    return attention.features() % lanes == 0 &&
           attention.columns() % lanes == 0;
  };
  schedule.lanes = 16 / bytes;
  while (schedule.lanes > 2 && !divides(schedule.lanes))
    schedule.lanes /= 2;
  // Wide ones are several accesses.
  while (threadsPerKey(schedule, attention) > Attention::kMostThreads &&
         schedule.lanes < Attention::kMostLanes && divides(2 * schedule.lanes))
    schedule.lanes *= 2;
  // A thread holds a vector of sums in f32 for each query.
  schedule.vectors = attention.queryCount * schedule.lanes <= 16 ? 4 : 2;
  schedule.blocks = 1;
  // What is read of a key is small: as many blocks as there are
  // multiprocessors, while each of their threads has a key.
  auto workers = [&] {
    return int64_t(schedule.group) * schedule.threads /
           threadsPerKey(schedule, attention);
  };
  Size keys = attention.keyCount();
  int64_t outer = attention.outerCount().estimate();
  if (machine.dependentLaunch)
    while (schedule.group < 8 &&
           outer * schedule.group * 2 <= machine.multiprocessors &&
           (!keys.isConstant() || workers() < keys.constant()))
      schedule.group *= 2;
  while (schedule.threads > 32 &&
         attentionBytes(schedule, attention) > 48 << 10)
    schedule.threads /= 2;
  return schedule;
}

Schedule chooseSchedule(const Domain &domain, const Machine &machine) {
  if (domain.empty)
    return Schedule();
  if (std::optional<RowsProduct> product = RowsProduct::find(*domain.graph))
    if (domain.vectorDim == int(product->sumDim))
      return chooseProduct(domain, *product, machine);
  if (domain.numReduction == 0)
    if (int across = chooseAcross(domain); across >= 0)
      return chooseTile(domain, across);
  if (domain.numReduction == 0)
    return chooseFlat(domain, machine);
  if (domain.vectorDim >= 0 && !domain.vectorInReduction())
    return chooseColumn(domain, machine);
  return chooseRow(domain, machine);
}

} // namespace pyjit::ptx
