//===- Planner.cpp - Which operations share a kernel ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Operations are taken in block order; each tries to take the groups of its
// producers into its own. A union is kept if the code generator sees one kernel
// in it, if no path leaves the union and comes back, and if it does not compute
// expensive values more often than its parts did. What is then stored for
// several kernels, but is cheap, they compute themselves; and reductions of one
// operand are joined.
//
//===----------------------------------------------------------------------===//

#include "Planner.h"
#include "PartWrites.h"

#include "dialects/pyjit/IR/Attributes.h"
#include "dialects/tssa/IR/TSSA.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "pyjit/Codegen/RowsProduct.h"
#include "pyjit/Codegen/Schedule.h"

using namespace mlir;
using pyjit::codegen::KernelGraph;
using pyjit::codegen::Node;

namespace pyjit::fusion {

/// Elements of an operand whose second walk costs more than a launch.
constexpr int64_t kLarge = 1 << 14;

/// Whether another kernel looks through `view`, directly or through views of
/// it, at what it views. Who is in no group yet will not: see `isStoredAlone`.
bool Planner::readThrough(Operation *view, const Candidate &candidate) {
  SmallVector<Operation *> views{view};
  while (!views.empty())
    for (Operation *user : views.pop_back_val()->getUsers()) {
      if (candidate.owned.contains(user) || !isa<linalg::GenericOp>(user))
        continue;
      Candidate *reader = groupOf.lookup(user);
      if (reader && reader->views.contains(view))
        return true;
      if (!reader && isView(user))
        views.push_back(user);
    }
  return false;
}

/// Whether a kernel other than the candidate's computes `user` from what `root`
/// has stored, or `user` is in no kernel.
bool Planner::isReadBy(Operation *user, Operation *root,
                       const Candidate &candidate) {
  // A union of candidates is asked before it is one of them.
  auto isPart = [&](const Candidate *reader) {
    return reader == &candidate ||
           (!reader->owned.empty() &&
            candidate.owned.contains(reader->owned.front()));
  };
  auto reads = [&](const Candidate *reader) {
    return !isPart(reader) && !reader->owned.contains(root) &&
           (isView(root) || !reader->views.contains(root));
  };
  if (!candidate.owned.contains(user)) {
    Candidate *owner = groupOf.lookup(user);
    if (!owner || (owner->isNeeded && reads(owner)))
      return true;
  }
  auto again = computedAgain.find(user);
  return again != computedAgain.end() && llvm::any_of(again->second, reads);
}

/// Whether someone outside of the candidate reads `value`, directly or through
/// views.
bool Planner::isLiveOut(Value value, const Candidate &candidate) {
  Operation *root = value.getDefiningOp();
  while (isView(root) && !candidate.owned.contains(root))
    root = root->getOperand(0).getDefiningOp();
  for (Operation *user : value.getUsers()) {
    if (candidate.owned.contains(user)) {
      // A view that is copied here is still read through elsewhere.
      if (isView(user) ? readThrough(user, candidate)
                       : isReadBy(user, root, candidate))
        return true;
      continue;
    }
    if (isView(user)) {
      // Read through by another group, or by none.
      if (user->getBlock() != &block ||
          isLiveOut(user->getResult(0), candidate))
        return true;
      continue;
    }
    if (isReadBy(user, root, candidate))
      return true;
  }
  return false;
}

/// Whether a kernel computes this view together with what it views: whoever
/// looks through it has that kernel store both.
bool Planner::isStoredAlone(Operation *view) {
  Candidate *owner = groupOf.lookup(view);
  if (!owner)
    return false;
  SmallVector<Operation *> views{view};
  while (!views.empty())
    for (Value operand : views.pop_back_val()->getOperands()) {
      Operation *producer = operand.getDefiningOp();
      if (!producer)
        continue;
      if (owner->owned.contains(producer))
        return true;
      if (owner->views.contains(producer))
        views.push_back(producer);
    }
  return false;
}

/// Views that `op` reads through become part of the candidate.
void Planner::addViews(Operation *op, Candidate &candidate) {
  for (Value operand : op->getOperands())
    if (Operation *producer = operand.getDefiningOp())
      if (producer->getBlock() == &block && isView(producer) &&
          !candidate.owned.contains(producer) && !isStoredAlone(producer)) {
        candidate.views.insert(producer);
        addViews(producer, candidate);
      }
}

Group Planner::boundary(const Candidate &candidate) {
  Group group;
  group.ops.append(candidate.owned.begin(), candidate.owned.end());
  // A view that is copied for someone else may be read through, too.
  for (Operation *view : candidate.views)
    if (!candidate.owned.contains(view))
      group.ops.push_back(view);
  llvm::sort(group.ops, [&](Operation *a, Operation *b) {
    return position.lookup(a) < position.lookup(b);
  });
  llvm::SetVector<Value> inputs;
  auto inside = [&](Operation *op) {
    return candidate.owned.contains(op) || candidate.views.contains(op);
  };
  auto addInput = [&](Value value) {
    Operation *producer = value.getDefiningOp();
    if (producer && (inside(producer) || isFree(producer)))
      return;
    if (isa<RankedTensorType>(value.getType()))
      inputs.insert(value);
  };
  for (Operation *op : group.ops) {
    if (!candidate.owned.contains(op) && !isView(op))
      group.again.push_back(op);
    for (Value operand : op->getOperands())
      addInput(operand);
    op->walk([&](tensor::ExtractOp extract) { addInput(extract.getTensor()); });
  }
  group.inputs.assign(inputs.begin(), inputs.end());
  for (Operation *op : group.ops)
    if (candidate.owned.contains(op))
      for (Value result : op->getResults())
        if (isLiveOut(result, candidate))
          group.results.push_back(result);
  return group;
}

/// A kernel runs as a whole: nothing may need one of its results and produce
/// one of its inputs.
bool Planner::leavesAndReturns(const Candidate &candidate) {
  unsigned last = 0;
  for (Operation *op : candidate.owned)
    last = std::max(last, position.lookup(op));
  llvm::SmallPtrSet<Operation *, 32> visited;
  SmallVector<Operation *> stack;
  auto push = [&](Operation *op) {
    SmallVector<Operation *> after(op->getUsers());
    if (Operation *effect = nextEffect.lookup(op))
      after.push_back(effect);
    if (auto writes = nextWrites.find(op); writes != nextWrites.end())
      llvm::append_range(after, writes->second);
    for (Operation *user : after) {
      while (user && user->getBlock() != &block)
        user = user->getParentOp();
      if (!user)
        continue;
      // Another group runs as a whole, too.
      auto it = groupOf.find(user);
      ArrayRef<Operation *> together = user;
      if (it != groupOf.end() && !candidate.owned.contains(user))
        together = it->second->owned.getArrayRef();
      for (Operation *next : together)
        if (position.lookup(next) <= last && visited.insert(next).second)
          stack.push_back(next);
    }
  };
  // The candidate's views of its own values are left through, too.
  SmallVector<Operation *> inside(candidate.owned.begin(),
                                  candidate.owned.end());
  llvm::SmallPtrSet<Operation *, 32> left;
  SmallVector<Operation *> outside;
  while (!inside.empty()) {
    push(inside.pop_back_val());
    for (Operation *op : stack) {
      if (candidate.views.contains(op) && !candidate.owned.contains(op))
        inside.push_back(op);
      else if (!candidate.owned.contains(op) && left.insert(op).second)
        outside.push_back(op);
    }
    stack.clear();
  }
  visited.clear();
  visited.insert(outside.begin(), outside.end());
  stack = outside;
  while (!stack.empty()) {
    Operation *op = stack.pop_back_val();
    if (candidate.owned.contains(op))
      return true;
    push(op);
  }
  return false;
}

/// The operations that alone read `op`'s result, up to a reduction; none if
/// there is none.
static SmallVector<Operation *> wayToReduction(Operation *op) {
  constexpr unsigned kFar = 8;
  SmallVector<Operation *> way;
  for (Operation *at = op; way.size() < kFar;) {
    if (at->getNumResults() != 1 || !at->hasOneUse())
      break;
    auto user = dyn_cast<linalg::GenericOp>(*at->user_begin());
    if (!user || user->getBlock() != op->getBlock())
      break;
    at = user;
    if (isView(user))
      continue;
    way.push_back(user);
    if (user.getNumReductionLoops() != 0)
      return way;
  }
  return {};
}

/// Whether `op`, the last of `consumer`, could share a kernel with the
/// reduction that it is computed for, and not any more once both are `merged`
/// with a producer that is stored anyway: then its elements would be stored,
/// and be read again, which is more than to read the producer's.
bool Planner::leavesItsReduction(Operation *op, const Candidate &merged,
                                 const Candidate &consumer,
                                 const Candidate &producer) {
  SmallVector<Operation *> way = wayToReduction(op);
  if (way.empty())
    return false;
  auto isProduced = [&](Value value) {
    return value.getDefiningOp() &&
           producer.owned.contains(value.getDefiningOp());
  };
  Group alone = boundary(consumer);
  if (alone.results.size() != 1 || alone.results.front() != op->getResult(0) ||
      llvm::none_of(boundary(merged).results, isProduced))
    return false;
  auto bitsOf = [](Value value) {
    Type element = getElementTypeOrSelf(value.getType());
    return element.isIntOrFloat() ? element.getIntOrFloatBitWidth() : 0;
  };
  unsigned read = 0;
  for (Value input : alone.inputs)
    read += isProduced(input) ? bitsOf(input) : 0;
  if (2 * bitsOf(op->getResult(0)) < read)
    return false;
  auto isKernel = [&](Candidate candidate) {
    for (Operation *next : way) {
      candidate.owned.insert(next);
      addViews(next, candidate);
    }
    Group group = boundary(candidate);
    std::string ignored;
    return KernelGraph::build(group.inputs, group.results, ignored) != nullptr;
  };
  return isKernel(consumer) && !isKernel(merged);
}

static int64_t elementsOf(const KernelGraph &graph) {
  int64_t count = 1;
  for (const codegen::Dim &dim : graph.dims)
    count *= dim.estimate();
  return count;
}

/// Operations of a value that cost more than to store it and to read it again.
constexpr unsigned kDear = 8;

bool Planner::worthwhile(const Candidate &merged, const Candidate &consumer,
                         const Candidate &producer) {
  Group group = boundary(merged);
  if (group.ops.size() > options.maxGroupSize ||
      group.inputs.size() + group.results.size() > options.maxBuffers)
    return false;
  std::string reason;
  auto graph = KernelGraph::build(group.inputs, group.results, reason);
  if (!graph)
    return false;
  if (options.updatesApart && graph->hasReduction() &&
      llvm::any_of(group.results,
                   [&](Value result) { return updates.contains(result); }))
    return false;
  // A value asked for at several points is computed as often: an expensive one
  // at two, a cheap one (a padded element) at the nine of a window.
  llvm::SmallDenseMap<Value, unsigned> points;
  for (auto &node : graph->nodes) {
    if (node->kind != Node::Kind::Compute)
      continue;
    unsigned again = points[node->element]++ * node->cost;
    if (again >= 2 * options.maxRecomputeCost ||
        (again > 0 && node->cost >= kDear))
      return false;
  }
  // The factors of a product are read many times: they stay loads, and nothing
  // else is summed beside it.
  auto contractions = [](const KernelGraph &g) -> int64_t {
    if (codegen::RowsProduct::find(g))
      return 1;
    return llvm::count_if(g.nodes, [](auto &node) {
      return asContraction(node.get()).has_value();
    });
  };
  auto sums = llvm::count_if(graph->nodes, [](auto &node) {
    return node->kind == Node::Kind::Reduce;
  });
  if (sums != 1 || contractions(*graph) != 1) {
    std::string ignored;
    for (const Candidate *part : {&consumer, &producer}) {
      Group alone = boundary(*part);
      auto single = KernelGraph::build(alone.inputs, alone.results, ignored);
      if (single && contractions(*single) != 0)
        return false;
    }
  }
  codegen::Schedule schedule = codegen::scheduleKernel(*graph, {});
  for (auto &node : graph->nodes) {
    if (node->kind != Node::Kind::Compute || node->cost < 12)
      continue;
    // Computed once per iteration of the loops down to its innermost dim.
    int64_t own = 1, times = 1, pending = 1;
    for (unsigned d = 0; d < graph->dims.size(); ++d) {
      if (graph->dims[d].reduction && !node->dims.test(d))
        continue;
      pending *= graph->dims[d].estimate();
      if (node->dims.test(d)) {
        own *= graph->dims[d].estimate();
        times = pending;
      }
    }
    if (times > own)
      return false;
  }
  // A reduction to few values leaves no parallel work for what follows it.
  if (graph->hasReduction() && schedule.work < 8 &&
      elementsOf(*graph) > (1 << 16)) {
    Group alone = boundary(consumer);
    auto single = KernelGraph::build(alone.inputs, alone.results, reason);
    if (single && kMuchLess * elementsOf(*single) > elementsOf(*graph) &&
        (!single->hasReduction() ||
         codegen::scheduleKernel(*single, {}).work > schedule.work))
      return false;
    alone = boundary(producer);
    single = KernelGraph::build(alone.inputs, alone.results, reason);
    if (single && single->hasReduction() &&
        codegen::scheduleKernel(*single, {}).work > schedule.work)
      return false;
  }
  return true;
}

void Planner::readBlock() {
  unsigned speculations = 0;
  Operation *effect = nullptr;
  for (Operation &op : block) {
    position[&op] = position.size();
    epoch[&op] = speculations;
    speculations += isa<tssa::SpeculateOp>(op);
    if (keepsItsPlace(&op)) {
      if (effect)
        nextEffect[effect] = &op;
      effect = &op;
    }
  }
  for (auto [reader, write] : findReadsBefore(block))
    nextWrites[reader].push_back(write);
  auto function = dyn_cast<func::FuncOp>(block.getParentOp());
  auto pairs = function
                   ? function->getAttrOfType<ArrayAttr>(attribute::kUpdates)
                   : nullptr;
  if (!pairs)
    return;
  for (auto update : pairs.getAsRange<DenseI64ArrayAttr>()) {
    updates.insert(block.getTerminator()->getOperand(update[0]));
    written.insert(function.getArgument(update[1]));
  }
}

Planner::Candidate Planner::join(Candidate a, const Candidate &b) {
  a.owned.insert(b.owned.begin(), b.owned.end());
  a.views.insert(b.views.begin(), b.views.end());
  return a;
}

/// `mine` becomes `merged`, and `other` is no candidate any more.
void Planner::take(Candidate *mine, Candidate *other, Candidate merged) {
  for (Operation *moved : other->owned)
    groupOf[moved] = mine;
  for (auto &[op, readers] : computedAgain)
    if (readers.remove(other))
      readers.insert(mine);
  *mine = std::move(merged);
  other->owned.clear();
}

void Planner::takeProducers(Operation *op, Candidate *mine) {
  for (bool changed = true; changed;) {
    changed = false;
    llvm::SetVector<Candidate *> producers;
    for (Operation *member : boundary(*mine).ops)
      for (Value operand : member->getOperands())
        if (Operation *producer = operand.getDefiningOp())
          if (Candidate *other = groupOf.lookup(producer);
              other && other != mine &&
              !producer->hasAttr(attribute::kPacked) &&
              epoch.lookup(producer) == epoch.lookup(op))
            producers.insert(other);
    for (Candidate *other : llvm::reverse(producers.getArrayRef())) {
      Candidate merged = join(*mine, *other);
      if (leavesAndReturns(merged) ||
          leavesItsReduction(op, merged, *mine, *other) ||
          !worthwhile(merged, *mine, *other))
        continue;
      take(mine, other, std::move(merged));
      changed = true;
      break;
    }
  }
}

void Planner::joinProducers() {
  for (Operation &op : block) {
    if (!isa<linalg::GenericOp>(op))
      continue;
    // A view that something other than a kernel reads is copied by one.
    if (isView(&op) && llvm::all_of(op.getUsers(), [](Operation *user) {
          return isa<linalg::GenericOp>(user);
        }))
      continue;
    auto made = std::make_unique<Candidate>();
    made->owned.insert(&op);
    addViews(&op, *made);
    Candidate *mine = made.get();
    candidates.push_back(std::move(made));
    groupOf[&op] = mine;
    takeProducers(&op, mine);
  }
}

bool Planner::shareWalk(const Group &a, const Group &b) const {
  auto count = [](Value value) {
    auto type = cast<RankedTensorType>(value.getType());
    return type.hasStaticShape() ? type.getNumElements() : 0;
  };
  auto leavesLittle = [&](const Group &group, int64_t read) {
    return llvm::all_of(group.results, [&](Value result) {
      return cast<RankedTensorType>(result.getType()).hasStaticShape() &&
             kMuchLess * count(result) <= read;
    });
  };
  return llvm::any_of(a.inputs, [&](Value input) {
    return count(input) >= kLarge && llvm::is_contained(b.inputs, input) &&
           leavesLittle(a, count(input)) && leavesLittle(b, count(input));
  });
}

bool reduces(Operation *op) {
  auto generic = dyn_cast<linalg::GenericOp>(op);
  return generic && generic.getNumReductionLoops() != 0;
}

void Planner::joinSiblings() {
  std::vector<std::pair<Candidate *, Group>> earlier;
  for (auto &candidate : candidates) {
    if (llvm::none_of(candidate->owned, reduces))
      continue;
    Candidate *mine = candidate.get();
    Group group = boundary(*mine);
    for (auto &[other, theirs] : earlier) {
      if (other->owned.empty() || !shareWalk(theirs, group) ||
          !areTogether(*other, *mine))
        continue;
      Candidate merged = join(*mine, *other);
      if (leavesAndReturns(merged) || !worthwhile(merged, *mine, *other))
        continue;
      take(mine, other, std::move(merged));
      group = boundary(*mine);
    }
    earlier.emplace_back(mine, std::move(group));
  }
}

Plan Planner::run() {
  readBlock();
  joinProducers();
  recompute();
  joinSiblings();
  if (options.attention) {
    joinAttention();
    joinEqualSizes();
  }
  Plan plan;
  plan.block = &block;
  for (auto &candidate : candidates) {
    if (candidate->owned.empty())
      continue;
    Group group = boundary(*candidate);
    // What nobody needs is not computed.
    if (!group.results.empty())
      plan.groups.push_back(std::move(group));
  }
  return plan;
}

} // namespace pyjit::fusion
