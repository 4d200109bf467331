//===- CostModel.cpp - Chooses the schedule of a GPU kernel ---------------===//
//
// The only place that weighs schedules. Its numbers were swept by hand on an
// H200 (docs of lib/Codegen/PTX in lib/Codegen/README.md).
//
//===----------------------------------------------------------------------===//

#include "pyjit/Codegen/PTX/Schedule.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace pyjit::codegen;

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
  while (lanes > 1 && (tail ? lanes > domain.vectorSize()
                            : domain.vectorSize() % lanes != 0))
    lanes /= 2;
  return lanes;
}

static Schedule chooseFlat(const Domain &domain, const Machine &machine) {
  Schedule schedule;
  Traffic traffic = trafficOf(domain);
  schedule.lanes = chooseLanes(domain, traffic, domain.numParallel == 1);
  int64_t capacity = machine.processors * machine.threadsPerProcessor;
  // Little work wants many threads, not wide ones.
  while (schedule.lanes > 1 &&
         domain.rows / schedule.lanes < machine.processors * 256)
    schedule.lanes /= 2;
  int64_t vectors = llvm::divideCeil(domain.rows, schedule.lanes);
  // Loads in flight, once every processor has its threads; bounded by the
  // registers that several inputs take.
  unsigned limit = traffic.accesses <= 3 ? 4 : traffic.accesses <= 6 ? 2 : 1;
  while (schedule.vectors < limit &&
         vectors >= 2 * capacity * schedule.vectors)
    schedule.vectors *= 2;
  schedule.threads = vectors < machine.processors * 256 ? 128 : 256;
  return schedule;
}

static Schedule chooseRow(const Domain &domain, const Machine &machine) {
  Schedule schedule;
  schedule.family = Family::Row;
  Traffic traffic = trafficOf(domain);
  schedule.lanes = chooseLanes(domain, traffic, /*tail=*/false);
  int64_t steps = domain.rowElements / schedule.lanes;
  // Elements that a thread holds in registers: fewer where a row has several
  // inputs or expensive bodies.
  int64_t elements = traffic.accesses <= 4 ? 64 : 32;
  unsigned most = std::max<int64_t>(1, elements / schedule.lanes);
  unsigned inFlight = std::min(4u, most);
  // One warp per row as long as four loads per lane suffice.
  schedule.group = 1;
  while (schedule.group < 32 &&
         steps > int64_t(schedule.group) * (schedule.group < 8 ? 1 : inFlight))
    schedule.group *= 2;
  while (schedule.group < 512 && steps > int64_t(schedule.group) * inFlight &&
         (schedule.group < 256 || inFlight == most))
    schedule.group *= 2;
  // Few rows: more threads on each.
  while (schedule.group < 512 &&
         domain.rows * schedule.group < machine.processors * 128 &&
         steps > schedule.group)
    schedule.group *= 2;
  while (schedule.group < 1024 && steps > int64_t(schedule.group) * most &&
         steps <= int64_t(1024) * most)
    schedule.group *= 2;
  schedule.vectors =
      std::max<int64_t>(1, llvm::divideCeil(steps, schedule.group));
  schedule.resident = schedule.vectors <= most;
  if (!schedule.resident) {
    schedule.vectors = inFlight;
    schedule.group = 512;
  }
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
         domain.rows / schedule.lanes < machine.processors * 32)
    schedule.lanes /= 2;
  schedule.threads = 256;
  schedule.group = 8;
  // More than 512 threads leave each too few registers.
  while (schedule.group < 16 &&
         domain.rows / schedule.lanes * schedule.group <
             machine.processors * 512 &&
         domain.rowElements > schedule.group * 4)
    schedule.group *= 2;
  while (schedule.group > 1 && domain.rowElements < schedule.group)
    schedule.group /= 2;
  schedule.threads = std::max(256u, schedule.group * 32);
  int64_t steps =
      std::max<int64_t>(1, llvm::divideCeil(domain.rowElements, schedule.group));
  unsigned most = std::max(1u, 32 / schedule.lanes);
  schedule.resident = domain.graph->numStages > 2 && steps <= most;
  schedule.vectors = schedule.resident ? steps : std::min<int64_t>(4, steps);
  return schedule;
}

Schedule chooseSchedule(const Domain &domain, const Machine &machine) {
  if (domain.empty)
    return Schedule();
  if (domain.numReduction == 0)
    return chooseFlat(domain, machine);
  if (domain.vectorDim >= 0 && !domain.vectorInReduction())
    return chooseColumn(domain, machine);
  return chooseRow(domain, machine);
}

} // namespace pyjit::ptx
