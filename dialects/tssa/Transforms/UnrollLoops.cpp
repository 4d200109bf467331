//===- UnrollLoops.cpp - Loops with a known number of iterations ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Contract: functions whose kernels are calls by now. A `scf.for` between
// constants becomes its iterations, one after the other, indices and picks
// constants. Other loops stay. What one iteration put into a tensor of all
// iterations' results is read where it was computed, not from there; such a
// tensor that nobody else reads is never made.
//
//===----------------------------------------------------------------------===//

#include "dialects/pyjit/IR/Attributes.h"
#include "dialects/tssa/IR/Views.h"
#include "dialects/tssa/Transforms/Passes.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"

namespace pyjit::tssa {
#define GEN_PASS_DEF_UNROLLLOOPSPASS
#include "dialects/tssa/Transforms/Passes.h.inc"
} // namespace pyjit::tssa

using namespace mlir;
using namespace pyjit::tssa;

namespace {

/// Traces repeat nothing more often; a loop of more iterations is a program's
/// own, and stays.
constexpr int64_t kMostIterations = 1 << 16;
/// Of all loops of a function together: nested ones multiply.
constexpr int64_t kMostOperations = 1 << 22;

/// `left`: so many operations may still be made, fewer afterwards.
bool unroll(scf::ForOp loop, int64_t &left) {
  APInt from, to, by;
  if (loop.getUnsignedCmp())
    return false;
  if (!matchPattern(loop.getLowerBound(), m_ConstantInt(&from)) ||
      !matchPattern(loop.getUpperBound(), m_ConstantInt(&to)) ||
      !matchPattern(loop.getStep(), m_ConstantInt(&by)) ||
      !by.isStrictlyPositive())
    return false;
  constexpr unsigned kWide = 128; // no difference overflows
  APInt distance = to.sext(kWide) - from.sext(kWide);
  APInt trips = distance.sdiv(by.sext(kWide));
  int64_t size = 1;
  loop.getBody()->walk([&](Operation *) { ++size; });
  if (trips.sgt(kMostIterations) ||
      (trips.isStrictlyPositive() && trips.getSExtValue() > left / size))
    return false;
  if (trips.isStrictlyPositive())
    left -= trips.getSExtValue() * size;
  OpBuilder builder(loop);
  SmallVector<Value> carried(loop.getInitArgs());
  for (APInt at = from.sext(kWide); at.slt(to.sext(kWide));
       at += by.sext(kWide)) {
    int64_t i = at.getSExtValue();
    IRMapping mapping;
    mapping.map(loop.getRegionIterArgs(), carried);
    Value number = arith::ConstantOp::create(
        builder, loop.getLoc(),
        builder.getIntegerAttr(loop.getInductionVar().getType(), i));
    mapping.map(loop.getInductionVar(), number);
    for (Operation &op : loop.getBody()->without_terminator()) {
      auto pick = dyn_cast<PickOp>(op);
      APInt index;
      if (pick &&
          matchPattern(mapping.lookupOrDefault(pick.getIndex()),
                       m_ConstantInt(&index)) &&
          index.ult(pick.getChoices().size())) {
        mapping.map(
            pick.getResult(),
            mapping.lookupOrDefault(pick.getChoices()[index.getZExtValue()]));
        continue;
      }
      Operation *made = builder.clone(op, mapping);
      SmallVector<Value> folded;
      if (isa<arith::ArithDialect>(op.getDialect()) &&
          succeeded(builder.tryFold(made, folded)) && !folded.empty()) {
        mapping.map(op.getResults(), folded);
        made->erase();
      }
    }
    SmallVector<Value> next;
    for (Value value : loop.getYieldedValues())
      next.push_back(mapping.lookupOrDefault(value));
    carried = next;
  }
  loop.replaceAllUsesWith(carried);
  loop.erase();
  return true;
}

/// What the first view of a path shows of dimension `dim`: `length` elements
/// from `start` on, the dimension itself left out by `select`.
struct Part {
  ViewKind kind;
  int64_t dim, start, length;

  bool operator==(const Part &other) const {
    return kind == other.kind && dim == other.dim && start == other.start &&
           length == other.length;
  }
  bool isApartFrom(const Part &other) const {
    return dim == other.dim && (start + length <= other.start ||
                                other.start + other.length <= start);
  }
};

/// Nothing where it is no select or dense slice at a known place.
std::optional<Part> firstPart(ArrayAttr path, OperandRange indices) {
  if (path.empty())
    return std::nullopt;
  auto view = cast<ViewAttr>(path[0]);
  bool isSlice = view.getKind() == ViewKind::slice;
  if ((!isSlice && view.getKind() != ViewKind::select) ||
      !view.getExprs().empty())
    return std::nullopt;
  ArrayRef<int64_t> params = view.getParams();
  Part part{view.getKind(), params[0], params[1], isSlice ? params[2] : 1};
  if (ShapedType::isDynamic(part.start)) {
    APInt index;
    if (!matchPattern(indices.front(), m_ConstantInt(&index)))
      return std::nullopt;
    part.start = index.getSExtValue();
  }
  if (part.start < 0 || ShapedType::isDynamic(part.length) ||
      (isSlice && params[3] != 1))
    return std::nullopt;
  return part;
}

/// The value that was assigned to the part that `access` shows first.
Value findAssigned(AccessOp access, const Part &part) {
  Value whole = access.getSource();
  while (auto assign = whole.getDefiningOp<AssignOp>()) {
    std::optional<Part> written;
    if (assign.getPath().size() == 1)
      written = firstPart(assign.getPath(), assign.getIndices());
    if (!written)
      return {};
    if (*written == part)
      return assign.getSource();
    if (!written->isApartFrom(part))
      return {};
    whole = assign.getTarget();
  }
  return {};
}

/// Reads the value itself where it has the layout that is asked for.
void readDirectly(AccessOp access) {
  std::optional<Part> part = firstPart(access.getPath(), access.getIndices());
  Value value = part ? findAssigned(access, *part) : Value();
  if (!value)
    return;
  auto view = cast<ViewAttr>(access.getPath()[0]);
  auto partType =
      inferViewType(view, cast<RankedTensorType>(access.getSource().getType()),
                    [&] { return access.emitError(); });
  if (value.getType() != partType)
    return;
  if (ArrayRef<Attribute> rest = access.getPath().getValue().drop_front();
      !rest.empty()) {
    OpBuilder builder(access);
    ValueRange indices = access.getIndices();
    value = AccessOp::create(builder, access.getLoc(), access.getType(), value,
                             builder.getArrayAttr(rest),
                             indices.drop_front(view.getNumDynamic()));
  }
  access.replaceAllUsesWith(value);
}

/// Collections of results that nobody reads any more.
void dropUnread(func::FuncOp function) {
  SmallVector<Operation *> ops;
  function.walk([&](Operation *op) {
    if (isa<AccessOp, AssignOp, EmptyOp, tensor::EmptyOp>(op))
      ops.push_back(op);
  });
  for (Operation *op : llvm::reverse(ops))
    if (op->use_empty())
      op->erase();
}

struct UnrollLoops : pyjit::tssa::impl::UnrollLoopsPassBase<UnrollLoops> {
  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (function->hasAttr(pyjit::attribute::kKernel))
      return;
    // Inner loops first, so that they are unrolled once.
    SmallVector<scf::ForOp> loops;
    function.walk([&](scf::ForOp loop) { loops.push_back(loop); });
    unsigned count = 0;
    int64_t left = kMostOperations;
    for (scf::ForOp loop : loops)
      count += unroll(loop, left);
    numLoops += count;
    if (!count)
      return;
    function.walk([](AccessOp access) { readDirectly(access); });
    dropUnread(function);
  }
};

} // namespace
