//===- Schedule.cpp - Schedules as attributes, and what fits a kernel -----===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "pyjit/Codegen/PTX/Schedule.h"
#include "Emitter.h"
#include "mlir/IR/Builders.h"
#include "pyjit/Codegen/RowsProduct.h"
#include "pyjit/Codegen/Schedule.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace pyjit::codegen;

namespace pyjit::ptx {

static constexpr StringLiteral familyNames[] = {"flat", "row",     "column",
                                                "tile", "product", "attention"};

DictionaryAttr Schedule::toAttr(MLIRContext *context) const {
  Builder b(context);
  SmallVector<NamedAttribute> entries;
  auto number = [&](StringRef name, unsigned value) {
    entries.push_back(b.getNamedAttr(name, b.getI64IntegerAttr(value)));
  };
  entries.push_back(b.getNamedAttr(
      "family", b.getStringAttr(familyNames[static_cast<unsigned>(family)])));
  number("lanes", lanes);
  number("vectors", vectors);
  number("threads", threads);
  if (family != Family::Flat && family != Family::Tile)
    number("group", group);
  if (family == Family::Row || family == Family::Column) {
    entries.push_back(b.getNamedAttr("resident", b.getBoolAttr(resident)));
  }
  if (blocks != 0)
    number("blocks", blocks);
  if (family == Family::Tile)
    number("across", across);
  return b.getDictionaryAttr(entries);
}

std::optional<Schedule> Schedule::fromAttr(DictionaryAttr attr,
                                           std::string &reason) {
  Schedule schedule;
  for (NamedAttribute entry : attr) {
    StringRef name = entry.getName();
    if (name == "family") {
      auto text = dyn_cast<StringAttr>(entry.getValue());
      auto it = text ? llvm::find(familyNames, text.getValue())
                     : std::end(familyNames);
      if (it == std::end(familyNames)) {
        reason = "a family is flat, row, column, tile, product or attention";
        return std::nullopt;
      }
      schedule.family = static_cast<Family>(it - std::begin(familyNames));
      continue;
    }
    if (name == "resident") {
      auto flag = dyn_cast<BoolAttr>(entry.getValue());
      if (!flag) {
        reason = "'resident' is a bool";
        return std::nullopt;
      }
      schedule.resident = flag.getValue();
      continue;
    }
    if (name == "across") {
      auto dim = dyn_cast<IntegerAttr>(entry.getValue());
      if (!dim || dim.getInt() < 0 || dim.getInt() > 64) {
        reason = "'across' is a dim";
        return std::nullopt;
      }
      schedule.across = dim.getInt();
      continue;
    }
    unsigned *field = llvm::StringSwitch<unsigned *>(name)
                          .Case("lanes", &schedule.lanes)
                          .Case("vectors", &schedule.vectors)
                          .Case("threads", &schedule.threads)
                          .Case("group", &schedule.group)
                          .Case("blocks", &schedule.blocks)
                          .Default(nullptr);
    auto value = dyn_cast<IntegerAttr>(entry.getValue());
    if (!field || !value || value.getInt() < 1 || value.getInt() > 1024) {
      reason = ("entry '" + name + "' of a schedule").str();
      return std::nullopt;
    }
    *field = value.getInt();
  }
  return schedule;
}

void Schedule::print(raw_ostream &os) const {
  os << familyNames[static_cast<unsigned>(family)] << ", " << lanes
     << " lanes x " << vectors << ", " << threads << " threads";
  if (family == Family::Row || family == Family::Column)
    os << ", " << group << " share a row"
       << (resident ? ", in registers" : ", row walked again");
  if (family == Family::Product)
    os << ", " << ProductTile::columns * group << " columns of a block";
  if (family == Family::Attention)
    os << ", " << group << " blocks of a cluster";
  if (blocks != 0)
    os << ", " << blocks << " blocks per multiprocessor";
  os << '\n';
}

Domain arrange(std::unique_ptr<KernelGraph> graph) {
  // The order of dims is a question of strides, the same for every target.
  codegen::ScheduleOptions options;
  options.vectorBits = 128;
  codegen::Schedule order = scheduleKernel(*graph, options);
  return describe(std::move(graph), order.vectorDim);
}

Domain describe(std::shared_ptr<KernelGraph> graph, int vectorDim) {
  Domain domain;
  domain.vectorDim = vectorDim;
  for (const Dim &dim : graph->dims) {
    ++(dim.reduction ? domain.numReduction : domain.numParallel);
    (dim.reduction ? domain.rowElements : domain.rows) *= dim.estimate();
    (dim.reduction ? domain.rowSize : domain.rowCount) *= dim.getSize();
    domain.empty |= !dim.reduction && dim.size == 0;
  }
  domain.graph = std::move(graph);
  return domain;
}

int64_t columnBytes(const Schedule &schedule, const Domain &domain) {
  SmallVector<int64_t> bytes(domain.graph->numStages);
  for (auto &node : domain.graph->nodes)
    if (node->kind == Node::Kind::Reduce)
      bytes[node->inputs[0]->stage] +=
          int64_t(schedule.threads) * schedule.lanes *
          std::max(4u, node->type.getIntOrFloatBitWidth() / 8);
  return schedule.group == 1 ? 0 : *llvm::max_element(bytes);
}

int64_t productPitch(const Schedule &schedule) {
  return ProductTile::columns * schedule.group + 4;
}

int64_t productBytes(const Schedule &schedule, int64_t rows) {
  return schedule.threads / 32 * llvm::alignTo(rows, ProductTile::rows) *
         productPitch(schedule) * sizeof(float);
}

bool verifySchedule(const Schedule &schedule, const Domain &domain,
                    std::string &reason) {
  auto no = [&](const Twine &why) {
    reason = why.str();
    return false;
  };
  if (domain.empty)
    return true;
  if (!llvm::isPowerOf2_64(schedule.lanes) || schedule.lanes > 16)
    return no("lanes are a power of two up to 16");
  if (schedule.threads % 32 != 0)
    return no("a block is made of warps of 32 threads");
  if (schedule.vectors > 64)
    return no("more than 64 vectors of a thread");
  bool reduces = domain.numReduction != 0;
  bool tailAllowed = schedule.family == Family::Flat &&
                     domain.numParallel == 1 && domain.numReduction == 0;
  if (schedule.lanes > 1 && domain.vectorDim < 0)
    return no("vectors without a dim to walk");
  if (!tailAllowed && !domain.isDividedBy(schedule.lanes)) {
    if (domain.graph->dims[domain.vectorDim].isSymbolic())
      return no("vectors need not divide the dim that they walk");
    return no("vectors do not divide the dim of " + Twine(domain.vectorSize()) +
              " elements that they walk");
  }
  switch (schedule.family) {
  case Family::Attention:
    return no("no softmax between two sums");
  case Family::Flat:
    return !reduces || no("a flat schedule of a kernel that reduces");
  case Family::Tile: {
    if (reduces)
      return no("a tile schedule of a kernel that reduces");
    if (domain.vectorDim < 0 || schedule.across < 0 ||
        schedule.across >= int(domain.numParallel) ||
        schedule.across == domain.vectorDim)
      return no("a tile lies along the vector dim and another");
    if (!domain.graph->dims[schedule.across].isMultipleOf(schedule.lanes))
      return no("vectors do not divide the dim that operands are read along");
    if (schedule.threads * schedule.vectors != 32 * 32 * schedule.lanes)
      return no("threads and vectors do not make up a square");
    int64_t bytes = 0;
    for (auto &node : domain.graph->nodes)
      if (isReadAcross(*node, domain.vectorDim, schedule.across))
        bytes += llvm::alignTo(
            int64_t(32 * schedule.lanes) * (32 * schedule.lanes + 1) *
                std::max(1u, node->type.getIntOrFloatBitWidth() / 8),
            16);
    return (bytes != 0 && bytes <= 48 << 10) ||
           no("tiles of " + Twine(bytes) + " bytes");
  }
  case Family::Product: {
    std::optional<RowsProduct> product = RowsProduct::find(*domain.graph);
    if (!product)
      return no("no product of few rows in half precision");
    if (schedule.lanes != ProductTile::load ||
        domain.vectorDim != int(product->sumDim))
      return no("a product is read by eight elements along its sum");
    int64_t bytes = productBytes(schedule, product->rowCount);
    return bytes <= 48 << 10 ||
           no("sums of " + Twine(bytes) + " bytes in shared memory");
  }
  case Family::Row:
  case Family::Column: {
    bool row = schedule.family == Family::Row;
    if (!reduces)
      return no("nothing is reduced");
    if (!llvm::isPowerOf2_64(schedule.group) ||
        schedule.threads % schedule.group != 0)
      return no("the threads that share a row are a power of two that divides "
                "the block");
    if (schedule.lanes > 1 && row != domain.vectorInReduction())
      return no(row ? "rows along a dim that is not reduced"
                    : "columns along a dim that is reduced");
    if (!row && columnBytes(schedule, domain) > 48 << 10)
      return no("columns meet in more than 48 KiB of shared memory");
    if (schedule.resident && !domain.rowSize.isConstant())
      return no("a row whose length differs between calls fits no registers");
    int64_t steps = domain.rowElements / (row ? schedule.lanes : 1);
    if (schedule.resident && steps > int64_t(schedule.group) * schedule.vectors)
      return no("a row of " + Twine(domain.rowElements) +
                " elements does not fit the threads that share it");
    return true;
  }
  }
  return true;
}

unsigned threadsPerKey(const Schedule &schedule, const Attention &attention) {
  int64_t longest = std::max(attention.features(), attention.columns());
  return llvm::PowerOf2Ceil(longest / schedule.lanes);
}

/// Of a query: the sums of all vectors, the maximum, and the sum of the
/// exponentials; on 16 bytes.
int64_t attentionPitch(const Schedule &schedule, const Attention &attention) {
  return int64_t(threadsPerKey(schedule, attention)) * schedule.lanes + 4;
}

int64_t attentionBytes(const Schedule &schedule, const Attention &attention) {
  int64_t perWarp = attention.queryCount * attentionPitch(schedule, attention);
  return (schedule.threads / 32 + (schedule.group > 1)) * perWarp *
         sizeof(float);
}

bool verifySchedule(const Schedule &schedule, const Attention &attention,
                    std::string &reason) {
  auto no = [&](const Twine &why) {
    reason = why.str();
    return false;
  };
  if (schedule.family != Family::Attention)
    return no("a softmax between two sums has a schedule of its own");
  if (!llvm::isPowerOf2_64(schedule.lanes) || schedule.lanes < 2 ||
      schedule.lanes > Attention::kMostLanes ||
      attention.features() % schedule.lanes != 0 ||
      attention.columns() % schedule.lanes != 0)
    return no("vectors do not divide features and columns");
  if (schedule.threads % 32 != 0)
    return no("a block is made of warps of 32 threads");
  if (threadsPerKey(schedule, attention) > Attention::kMostThreads)
    return no("a key takes more than a warp");
  if (schedule.vectors > 8)
    return no("more than 8 keys of a thread");
  if (!llvm::isPowerOf2_64(schedule.group) || schedule.group > 8)
    return no("a cluster has up to 8 blocks, a power of two");
  int64_t bytes = attentionBytes(schedule, attention);
  return bytes <= 48 << 10 ||
         no("sums of " + Twine(bytes) + " bytes in shared memory");
}

} // namespace pyjit::ptx
