//===- RerollLoops.cpp - Equal iterations become one loop -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Contract: functional tssa in and out, values unchanged. What Python wrote as
// a loop comes out of the recording as straight-line code, one window of equal
// operations after the other; those become a `scf.for`. In doubt the code
// stays.
//
//===----------------------------------------------------------------------===//

#include "dialects/pyjit/IR/Attributes.h"
#include "dialects/tssa/Transforms/Passes.h"

#include "Repetition.h"
#include "dialects/tssa/IR/Calls.h"
#include "dialects/tssa/IR/Views.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

#include <map>

namespace pyjit::tssa {
#define GEN_PASS_DEF_REROLLLOOPSPASS
#include "dialects/tssa/Transforms/Passes.h.inc"
} // namespace pyjit::tssa

using namespace mlir;
using namespace pyjit::tssa;

namespace {

/// Whether the value is, as it is, the new contents of an input.
bool isUpdate(Value value) {
  return llvm::any_of(value.getUses(), [](OpOperand &use) {
    auto returned = dyn_cast<func::ReturnOp>(use.getOwner());
    auto updates = returned ? returned->getParentOp()->getAttrOfType<ArrayAttr>(
                                  pyjit::attribute::kUpdates)
                            : ArrayAttr();
    return updates && llvm::any_of(updates, [&](Attribute update) {
             return cast<DenseI64ArrayAttr>(update)[0] ==
                    use.getOperandNumber();
           });
  });
}

/// Whether iterations compute what inputs become: an optimizer's, say.
bool updatesInputs(const Sequence &sequence, const Repetition &repetition) {
  return llvm::any_of(repetition.collections, [&](const auto &entry) {
    auto [position, result] = entry.first;
    const Item &first = sequence.items[repetition.start + position];
    return !entry.second.join && isUpdate(first.op->getResult(result));
  });
}

/// Whether a kernel behind the iterations may hold a reader of `value`.
bool isReadByKernels(const Sequence &sequence, const Repetition &repetition,
                     Value value) {
  return llvm::any_of(value.getUsers(), [&](Operation *user) {
    return llvm::any_of(
        ArrayRef(sequence.items).drop_front(repetition.end()),
        [&](const Item &item) { return item.op == user && item.joins; });
  });
}

/// Whether iterations compute nothing but what kernels of other operations read
/// one by one: a step of an optimizer that works on lists of tensors, say.
bool feedsKernels(const Sequence &sequence, const Repetition &repetition) {
  if (!repetition.chains.empty() || repetition.collections.empty())
    return false;
  for (int i = 0; i < repetition.period; ++i) {
    const Item &item = sequence.items[repetition.start + i];
    if (!item.joins || !item.leads)
      return false;
  }
  return llvm::all_of(repetition.collections, [&](const auto &entry) {
    auto [position, result] = entry.first;
    const Item &first = sequence.items[repetition.start + position];
    return !entry.second.join &&
           isReadByKernels(sequence, repetition, first.op->getResult(result));
  });
}

/// Whether a value has so many bytes that to write and to read it takes longer
/// than to compute it again, even where more is compiled for that.
bool isLarge(Value value) {
  constexpr int64_t kLarge = 1 << 20;
  auto type = cast<RankedTensorType>(value.getType());
  return type.hasStaticShape() && type.getElementType().isIntOrFloat() &&
         type.getNumElements() * type.getElementTypeBitWidth() / 8 >= kLarge;
}

/// Whether later kernels read what the iterations' kernels compute: the
/// backward of a layer's elementwise part, which would compute it again.
bool keepsWorkings(const Sequence &sequence, const Repetition &repetition) {
  return llvm::any_of(repetition.collections, [&](const auto &entry) {
    auto [position, result] = entry.first;
    const Item &first = sequence.items[repetition.start + position];
    Value value = first.op->getResult(result);
    return !entry.second.join && first.joins && first.leads && isLarge(value) &&
           isReadByKernels(sequence, repetition, value);
  });
}

/// Why a repetition is better left as it is, or an empty string: the cost model
/// (docs/decisions/2026-11-21-rerolling.md). What a loop saves is compile time,
/// in proportion to the operations that it leaves out: `findRepetitions` asked
/// for enough of them. What it may cost is run time, since no kernel reaches
/// from one iteration into the next.
StringRef whyNot(const Sequence &sequence, const Repetition &repetition,
                 bool recompute) {
  // Each of them is written where it belongs; a loop would collect them in one
  // tensor first.
  if (updatesInputs(sequence, repetition))
    return "inputs are written, each in its place";
  if (feedsKernels(sequence, repetition))
    return "kernels would reach from iterations to what reads their results";
  if (repetition.split != 0)
    return "kernels would reach from one iteration into the next";
  if (recompute && keepsWorkings(sequence, repetition))
    return "kernels behind them would compute again what a loop keeps";
  return "";
}

/// Carries out one repetition.
class Reroller {
public:
  Reroller(Sequence &sequence, const Repetition &plan)
      : sequence(sequence), plan(plan), outside(sequence.items[plan.start].op),
        inside(sequence.items[plan.start].op) {}

  scf::ForOp run();

private:
  using Place = std::pair<unsigned, unsigned>;

  Item &item(int w, unsigned position) {
    return sequence.items[plan.start + w * plan.period + position];
  }
  Value made(int w, Place place) {
    return item(w, place.first).op->getResult(place.second);
  }
  Value before(Value root, ArrayAttr path, Type type);
  Value before(const Reading &reading) {
    return before(reading.root, reading.path, reading.value.getType());
  }
  Value view(OpBuilder &b, Value root, ArrayAttr path, RankedTensorType type);
  Value index(int64_t first, int64_t slope);
  Value indexed(Value root, const PathFamily &path, RankedTensorType type);
  Value operand(unsigned position, unsigned number);
  Value place(OpBuilder &b, const Collection &collection, Value into,
              Value part, Value at, int64_t length);
  Value empty(RankedTensorType type);
  void makeBody();
  void replaceUses();

  Sequence &sequence;
  const Repetition &plan;
  OpBuilder outside, inside;
  scf::ForOp loop;
  Location loc = outside.getUnknownLoc();
  DenseMap<std::pair<Value, ArrayAttr>, Value> viewsBefore, viewsInside;
  std::map<std::pair<int64_t, int64_t>, Value> indices;
  DenseMap<Place, Value> values; ///< of this iteration
  DenseMap<Place, unsigned> chainAt, finalAt, collectionAt;
  std::vector<std::pair<SmallVector<Value>, Value>> picks;
};

/// A view of a value from before the loop.
Value Reroller::before(Value root, ArrayAttr path, Type type) {
  if (path.empty())
    return root;
  Value &known = viewsBefore[{root, path}];
  if (!known || known.getType() != type)
    known = AccessOp::create(outside, loc, type, root, path, ValueRange());
  return known;
}

/// A view inside of the loop.
Value Reroller::view(OpBuilder &b, Value root, ArrayAttr path,
                     RankedTensorType type) {
  if (path.empty())
    return root;
  Value &known = viewsInside[{root, path}];
  if (!known || known.getType() != type)
    known = AccessOp::create(b, loc, type, root, path, ValueRange());
  return known;
}

/// The number `first + slope * iteration`.
Value Reroller::index(int64_t first, int64_t slope) {
  Value &known = indices[{first, slope}];
  if (known)
    return known;
  OpBuilder::InsertionGuard guard(inside);
  inside.setInsertionPointToStart(loop.getBody());
  known = loop.getInductionVar();
  auto constant = [&](int64_t value) {
    return arith::ConstantIndexOp::create(outside, loc, value);
  };
  if (slope != 1)
    known = arith::MulIOp::create(inside, loc, known, constant(slope));
  if (first != 0)
    known = arith::AddIOp::create(inside, loc, known, constant(first));
  return known;
}

/// The path with `?` in the place of the changing index.
static ViewAttr withIndex(const PathFamily &path) {
  auto view = cast<ViewAttr>(path.base[path.view]);
  SmallVector<int64_t> params(view.getParams());
  params[1] = ShapedType::kDynamic;
  return ViewAttr::get(view.getContext(), view.getKind(), params);
}

/// The part of `root` that this iteration sees.
Value Reroller::indexed(Value root, const PathFamily &path,
                        RankedTensorType type) {
  ArrayRef<Attribute> steps = path.base.getValue();
  // What comes before is a tensor of its own, so that the index counts strides.
  if (path.view > 0) {
    auto prefix = inside.getArrayAttr(steps.take_front(path.view));
    auto shown = inferPathType(prefix, cast<RankedTensorType>(root.getType()),
                               [&] { return emitError(loc); });
    bool isBefore = root.getParentRegion() != &loop.getRegion();
    root = isBefore ? before(root, prefix, shown)
                    : view(inside, root, prefix, shown);
  }
  SmallVector<Attribute> rest{withIndex(path)};
  llvm::append_range(rest, steps.drop_front(path.view + 1));
  return AccessOp::create(inside, loc, type, root, inside.getArrayAttr(rest),
                          index(path.indexAt(0), path.slope));
}

/// An operand of this iteration.
Value Reroller::operand(unsigned position, unsigned number) {
  const Family &family = plan.families[position][number];
  const Reading &reading = item(0, position).reads[number];
  auto type = cast<RankedTensorType>(reading.value.getType());
  if (family.distance >= 0) {
    Place place{family.position, family.result};
    Value root = family.distance == 0
                     ? values.lookup(place)
                     : loop.getRegionIterArg(chainAt.lookup(place) +
                                             family.distance - 1);
    return family.path.isIndexed() ? indexed(root, family.path, type)
                                   : view(inside, root, family.path.base, type);
  }
  if (family.sameRoot && family.samePath)
    return family.path.isIndexed() ? indexed(reading.root, family.path, type)
                                   : before(reading);
  SmallVector<Value> choices;
  for (int w = 0; w < plan.trips; ++w)
    choices.push_back(before(item(w, position).reads[number]));
  for (auto &[known, pick] : picks)
    if (known == choices)
      return pick;
  Value pick = PickOp::create(inside, loc, type, choices, index(0, 1));
  picks.push_back({choices, pick});
  return pick;
}

/// `into` with `part` at the place `at` of the collection.
Value Reroller::place(OpBuilder &b, const Collection &collection, Value into,
                      Value part, Value at, int64_t length) {
  constexpr int64_t any = ShapedType::kDynamic;
  ViewAttr path = collection.isCat
                      ? ViewAttr::get(b.getContext(), ViewKind::slice,
                                      {collection.dim, any, length, 1})
                      : ViewAttr::get(b.getContext(), ViewKind::select,
                                      {collection.dim, any});
  return AssignOp::create(b, loc, collection.type, into, part,
                          b.getArrayAttr(path), at);
}

Value Reroller::empty(RankedTensorType type) {
  return pyjit::tssa::makeEmpty(outside, loc, type);
}

static int64_t sumOf(ArrayRef<int64_t> numbers) {
  int64_t sum = 0;
  for (int64_t number : numbers)
    sum += number;
  return sum;
}

void Reroller::makeBody() {
  SmallVector<Value> yields(loop.getInitArgs().size());
  for (int r = 0; r < plan.period; ++r) {
    Item &first = item(0, r);
    loc = first.op->getLoc();
    SmallVector<Value> operands;
    for (unsigned o = 0; o < first.reads.size(); ++o)
      operands.push_back(operand(r, o));
    Operation *op;
    if (plan.paths[r].isIndexed()) {
      const PathFamily &path = plan.paths[r];
      SmallVector<Attribute> steps(path.base.getValue());
      steps[path.view] = withIndex(path);
      op =
          AssignOp::create(inside, loc, first.op->getResult(0).getType(),
                           operands[0], operands[1], inside.getArrayAttr(steps),
                           index(path.indexAt(0), path.slope));
    } else {
      op = inside.clone(*first.op);
      op->setOperands(operands);
    }
    for (OpResult result : op->getResults())
      values[{unsigned(r), result.getResultNumber()}] = result;
  }
  for (auto &[place, chain] : plan.chains) {
    unsigned at = chainAt.lookup(place);
    for (unsigned k = 0; k < chain.inits.size(); ++k)
      yields[at + k] = k == 0 ? values.lookup(place)
                              : Value(loop.getRegionIterArg(at + k - 1));
  }
  for (auto &[place, at] : finalAt)
    yields[at] = values.lookup(place);
  for (auto &[key, collection] : plan.collections) {
    unsigned at = collectionAt.lookup(key);
    Value part = values.lookup(key);
    int64_t length = collection.lengths[collection.firstOperand];
    if (!collection.path.empty()) {
      auto type = cast<RankedTensorType>(part.getType());
      part = view(
          inside, part, collection.path,
          inferPathType(collection.path, type, [&] { return emitError(loc); }));
    }
    int64_t first =
        sumOf(ArrayRef(collection.lengths).take_front(collection.firstOperand));
    yields[at] = this->place(inside, collection, loop.getRegionIterArg(at),
                             part, index(first, length), length);
  }
  scf::YieldOp::create(inside, loc, yields);
}

/// Uses after the loop get its results.
void Reroller::replaceUses() {
  llvm::SmallPtrSet<Operation *, 32> members;
  for (int i = plan.start; i < plan.end(); ++i)
    members.insert(sequence.items[i].op);
  auto replace = [&](Value value, function_ref<Value()> with,
                     Operation *except) {
    Value by;
    for (OpOperand &use : llvm::make_early_inc_range(value.getUses())) {
      Operation *user = use.getOwner();
      if (members.contains(user) || user == except)
        continue;
      if (!by)
        by = with();
      use.set(by);
    }
  };
  for (Place place : plan.finals) {
    Value result = loop.getResult(finalAt.lookup(place));
    replace(made(plan.trips - 1, place), [&] { return result; }, nullptr);
  }
  OpBuilder after(loop->getContext());
  after.setInsertionPointAfter(loop);
  for (const auto &entry : plan.collections) {
    Place key = entry.first;
    const Collection &collection = entry.second;
    Value whole = loop.getResult(collectionAt.lookup(key));
    AtenOp join = collection.join;
    if (join) {
      // Operands that are no iteration's are put beside theirs.
      after.setInsertionPoint(join);
      int64_t at = 0;
      for (auto [i, operand] : llvm::enumerate(join.getInputs())) {
        unsigned k = i - collection.firstOperand;
        if (k >= unsigned(plan.trips) && collection.lengths[i] != 0)
          whole =
              place(after, collection, whole, operand,
                    arith::ConstantIndexOp::create(after, join.getLoc(), at),
                    collection.lengths[i]);
        at += collection.lengths[i];
      }
      join.getResult(0).replaceAllUsesWith(whole);
      whole = loop.getResult(collectionAt.lookup(key));
      after.setInsertionPointAfter(loop);
    }
    int64_t at =
        sumOf(ArrayRef(collection.lengths).take_front(collection.firstOperand));
    for (int w = 0; w < plan.trips; ++w) {
      int64_t length = collection.lengths[collection.firstOperand + w];
      Value value = made(w, key);
      auto shown = [&]() -> Value {
        ViewAttr part =
            collection.isCat
                ? ViewAttr::get(after.getContext(), ViewKind::slice,
                                {collection.dim, at, length, 1})
                : ViewAttr::get(after.getContext(), ViewKind::select,
                                {collection.dim, at});
        ArrayAttr path = after.getArrayAttr(part);
        Value dense =
            AccessOp::create(after, loc,
                             inferPathType(path, collection.type,
                                           [&] { return emitError(loc); }),
                             whole, path, ValueRange());
        return dense;
      };
      replace(value, shown, join);
      at += length;
    }
    if (join)
      join.erase();
  }
}

scf::ForOp Reroller::run() {
  sequence.gatherFree();
  loc = item(0, 0).op->getLoc();
  SmallVector<Value> inits;
  for (auto &[place, chain] : plan.chains) {
    chainAt[place] = inits.size();
    for (const Reading &init : chain.inits)
      inits.push_back(before(init));
  }
  for (auto &place : plan.finals) {
    auto chain = chainAt.find(place);
    if (chain != chainAt.end()) {
      finalAt[place] = chain->second;
      continue;
    }
    finalAt[place] = inits.size();
    inits.push_back(empty(cast<RankedTensorType>(made(0, place).getType())));
  }
  for (auto &[place, collection] : plan.collections) {
    collectionAt[place] = inits.size();
    inits.push_back(empty(collection.type));
  }
  auto number = [&](int64_t value) {
    return arith::ConstantIndexOp::create(outside, loc, value);
  };
  Value from = number(0), to = number(plan.trips), by = number(1);
  loop = scf::ForOp::create(outside, loc, from, to, by, inits);
  // More of what the loop needs comes before it.
  outside.setInsertionPoint(loop);
  // A loop that hands nothing on has its terminator already.
  if (!loop.getBody()->empty())
    loop.getBody()->getTerminator()->erase();
  inside.setInsertionPointToStart(loop.getBody());
  makeBody();
  replaceUses();
  for (int i = plan.end(); i-- > plan.start;) {
    Operation *op = sequence.items[i].op;
    // Views that nothing reads any more.
    SmallVector<Operation *> views(op->getUsers());
    for (size_t k = 0; k < views.size(); ++k)
      llvm::append_range(views, views[k]->getUsers());
    llvm::SmallPtrSet<Operation *, 4> erased;
    for (Operation *view : llvm::reverse(views))
      if (erased.insert(view).second)
        view->erase();
    op->erase();
  }
  return loop;
}

struct RerollLoops : pyjit::tssa::impl::RerollLoopsPassBase<RerollLoops> {
  using RerollLoopsPassBase::RerollLoopsPassBase;

  /// Rolls what repeats in a block, one loop after the other, and then what
  /// repeats in the loops' bodies.
  void reroll(Block &block) {
    constexpr unsigned kMaxLoops = 32;
    SmallVector<scf::ForOp> loops;
    for (bool changed = true; changed && loops.size() < kMaxLoops;) {
      changed = false;
      Sequence sequence(block);
      for (const Repetition &found : findRepetitions(sequence, minSaved)) {
        StringRef reason = whyNot(sequence, found, recompute);
        Operation *first = sequence.items[found.start].op;
        if (!reason.empty()) {
          if (explain)
            first->emitRemark()
                << found.trips << " iterations of " << found.period
                << " operations stay: " << reason;
          continue;
        }
        if (explain)
          first->emitRemark() << found.trips << " iterations of "
                              << found.period << " operations become a loop";
        loops.push_back(Reroller(sequence, found).run());
        ++numLoops;
        changed = true;
        break;
      }
    }
    if (loops.empty())
      return;
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
      if (isa<AccessOp, AssignOp>(op) && op.use_empty())
        op.erase();
    for (scf::ForOp loop : loops)
      reroll(*loop.getBody());
  }

  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (function.isExternal() || function->hasAttr(pyjit::attribute::kKernel) ||
        !function.getBody().hasOneBlock())
      return;
    // What is prepared from parameters may be opaque (packed weights): it has
    // no elements that a loop could leave in a larger tensor. A backward
    // program returns gradients of each iteration's weights, tensors of their
    // own, which a loop would leave as parts of one.
    if (function->hasAttr(pyjit::attribute::kPrepare) ||
        function->hasAttr(pyjit::attribute::kGradientInputs))
      return;
    reroll(function.front());
  }
};

} // namespace
