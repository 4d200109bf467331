//===- SizeRules.cpp - What operators make of sizes -----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Element by element, over dimensions, and which rule is an operator's.
//
//===----------------------------------------------------------------------===//

#include "dialects/refgraph/Transforms/SizeRules.h"

using namespace mlir;
using namespace pyjit;
using namespace pyjit::refgraph;

//===----------------------------------------------------------------------===//
// Broadcasting
//===----------------------------------------------------------------------===//

using Shapes = std::optional<SymbolicShapes>;

SymbolicShape refgraph::fresh(SizePolynomials sizes) {
  return {std::move(sizes), {}, 0};
}

/// One for each result that the call returns.
SymbolicShapes refgraph::allResults(const SizeCall &c,
                                    const SizePolynomials &sizes) {
  return SymbolicShapes(c.op.getNumFresh(), fresh(sizes));
}

/// A size of one is a constant: symbols are not.
static bool isOne(const SizePolynomial &size) {
  return size == SizePolynomial(1);
}

bool refgraph::broadcast(SizePolynomials &into, ArrayRef<SizePolynomial> from,
                         SizeFacts &facts) {
  if (from.size() > into.size())
    into.insert(into.begin(), from.size() - into.size(), SizePolynomial(1));
  for (unsigned i = 1; i <= from.size(); ++i) {
    SizePolynomial &size = into[into.size() - i];
    const SizePolynomial &other = from[from.size() - i];
    if (isOne(size))
      size = other;
    else if (!isOne(other) && !facts.requireEqual(size, other))
      return false;
  }
  return true;
}

bool refgraph::broadcastsTo(ArrayRef<SizePolynomial> from,
                            ArrayRef<SizePolynomial> to, SizeFacts &facts) {
  SizePolynomials joined(to);
  return from.size() <= to.size() && broadcast(joined, from, facts) &&
         ArrayRef(joined) == to;
}

Shapes size_rules::pointwise(const SizeCall &c) {
  SizePolynomials sizes;
  for (const SymbolicShape *shape : c.allTensors())
    if (!broadcast(sizes, shape->sizes, c.facts))
      return std::nullopt;
  return allResults(c, sizes);
}

/// The first operand's sizes; whatever else there is does not matter.
Shapes size_rules::same(const SizeCall &c) {
  auto tensors = c.allTensors();
  if (tensors.empty())
    return std::nullopt;
  return allResults(c, tensors[0]->sizes);
}

/// Of vectors of three along one dimension.
Shapes size_rules::cross(const SizeCall &c) {
  Shapes shapes = pointwise(c);
  if (!shapes || shapes->size() != 1)
    return std::nullopt;
  const SizePolynomials &sizes = shapes->front().sizes;
  auto dim = c.dim("dim", sizes.size(), -1);
  if (!dim || !c.facts.requireEqual(sizes[*dim], SizePolynomial(3)))
    return std::nullopt;
  return shapes;
}

/// What is put in has any size.
Shapes size_rules::maskedScatter(const SizeCall &c) {
  const SymbolicShape *self = c.tensor(), *mask = c.tensor("mask");
  if (!self || !mask)
    return std::nullopt;
  SizePolynomials sizes = self->sizes;
  if (!broadcast(sizes, mask->sizes, c.facts))
    return std::nullopt;
  return allResults(c, sizes);
}

/// Of each element, or of one number.
Shapes size_rules::isIn(const SizeCall &c) {
  const SymbolicShape *elements = c.tensor("elements");
  return allResults(c, elements ? elements->sizes : SizePolynomials());
}

/// Losses: of each element, or of all.
Shapes size_rules::loss(const SizeCall &c) {
  auto reduction = c.integer("reduction");
  if (!reduction)
    return std::nullopt;
  Shapes shapes = pointwise(c);
  return shapes && *reduction != 0 ? Shapes(allResults(c, {})) : shapes;
}

/// Of rows, or of images: classes are the second dimension.
Shapes size_rules::nllLoss(const SizeCall &c) {
  auto reduction = c.integer("reduction");
  const SymbolicShape *self = c.tensor(), *target = c.tensor("target"),
                      *weight = c.tensor("weight");
  if (!reduction || !self || !target || self->rank() < 2 ||
      target->rank() + 1 != self->rank() || c.op.getNumFresh() != 2 ||
      (weight && weight->rank() != 1))
    return std::nullopt;
  SizePolynomials rows = self->sizes;
  rows.erase(rows.begin() + 1);
  for (unsigned i = 0; i < rows.size(); ++i)
    if (!c.facts.requireEqual(rows[i], target->sizes[i]))
      return std::nullopt;
  if (weight && !c.facts.requireEqual(weight->sizes[0], self->sizes[1]))
    return std::nullopt;
  SymbolicShapes shapes = allResults(c, {});
  if (*reduction == 0)
    shapes[0] = fresh(rows);
  return shapes;
}

/// Of rows; the second result, of some, is where the target's classes are.
Shapes size_rules::marginLoss(const SizeCall &c) {
  auto reduction = c.integer("reduction");
  const SymbolicShape *self = c.tensor(), *target = c.tensor("target");
  if (!reduction || !self || !target || self->rank() != 2 ||
      !c.facts.requireEqual(self->sizes[0], target->sizes[0]) ||
      (target->rank() == 2 &&
       !c.facts.requireEqual(self->sizes[1], target->sizes[1])))
    return std::nullopt;
  SymbolicShapes shapes = allResults(c, target->sizes);
  shapes[0] = fresh(*reduction == 0 ? SizePolynomials{self->sizes[0]}
                                    : SizePolynomials());
  return shapes;
}

/// The second result is scratch memory, of some builds.
Shapes size_rules::logSigmoid(const SizeCall &c) {
  const SymbolicShape *self = c.tensor();
  if (!self || c.op.getNumFresh() != 2)
    return std::nullopt;
  SymbolicShapes shapes = allResults(c, self->sizes);
  if (c.resultType(1).getShape() == ArrayRef<int64_t>{0})
    shapes[1] = fresh({SizePolynomial(0)});
  return shapes;
}

/// Positions in rows that are one, or as many as there are.
Shapes size_rules::searched(const SizeCall &c) {
  const SymbolicShape *sorted = c.tensor("sorted_sequence"), *self = c.tensor();
  if (!sorted || !self ||
      (sorted->rank() != 1 && sorted->rank() != self->rank()))
    return std::nullopt;
  for (unsigned i = 0; i + 1 < sorted->rank(); ++i)
    if (!c.facts.requireEqual(sorted->sizes[i], self->sizes[i]))
      return std::nullopt;
  return allResults(c, self->sizes);
}

Shapes size_rules::rot90(const SizeCall &c) {
  const SymbolicShape *self = c.tensor();
  auto turns = c.integer("k");
  auto dims = c.integers("dims");
  if (!self || !turns || !dims || dims->size() != 2)
    return std::nullopt;
  SizePolynomials sizes = self->sizes;
  for (int64_t &dim : *dims)
    if (dim += dim < 0 ? self->rank() : 0; dim < 0 || dim >= self->rank())
      return std::nullopt;
  if (*turns % 2 != 0)
    std::swap(sizes[(*dims)[0]], sizes[(*dims)[1]]);
  return allResults(c, sizes);
}

//===----------------------------------------------------------------------===//
// Reductions, positions
//===----------------------------------------------------------------------===//

Shapes size_rules::reduction(const SizeCall &c) {
  const SymbolicShape *self = c.tensor();
  if (!self)
    self = c.tensor("input");
  if (!self)
    return std::nullopt;
  SmallVector<int64_t> dims;
  if (!c.isNone("dim")) {
    auto given = c.integers("dim");
    if (!given)
      return std::nullopt;
    dims = *given;
  }
  bool keep = c.isTrue("keepdim");
  int64_t rank = self->rank();
  for (int64_t &dim : dims)
    dim = dim < 0 ? dim + std::max<int64_t>(rank, 1) : dim;
  SizePolynomials sizes;
  for (int64_t i = 0; i < rank; ++i) {
    if (!dims.empty() && !llvm::is_contained(dims, i))
      sizes.push_back(self->sizes[i]);
    else if (keep)
      sizes.push_back(1);
  }
  return allResults(c, sizes);
}

Shapes size_rules::histogram(const SizeCall &c) {
  auto bins = c.size("bins");
  return bins ? Shapes(allResults(c, {*bins})) : std::nullopt;
}

Shapes size_rules::topk(const SizeCall &c) {
  const SymbolicShape *self = c.tensor();
  auto k = c.size("k");
  if (!self || !k || self->rank() == 0)
    return std::nullopt;
  auto dim = c.dim("dim", self->rank(), -1);
  if (!dim || !c.facts.requireNotNegative(self->sizes[*dim] - *k))
    return std::nullopt;
  SizePolynomials sizes = self->sizes;
  sizes[*dim] = *k;
  return allResults(c, sizes);
}

/// An expression that is computed element by element.
static bool isPointwise(const operators::OperatorInfo *info) {
  using operators::TableOp;
  return info && info->lowering == operators::Lowering::Recipe &&
         llvm::none_of(info->expression, [](const operators::TableNode &node) {
           return node.dims != operators::TableDims::None ||
                  node.op == TableOp::IterIndex || node.op == TableOp::Count ||
                  (node.op >= TableOp::ReduceSum &&
                   node.op <= TableOp::ReduceAll);
         });
}

static SizeRuleFunction findRule(const SizeCall &c) {
  static constexpr SizeRuleFunction functions[] = {
      nullptr,
#define PYJIT_SIZE_RULE(Name, name) size_rules::name,
#include "pyjit-c/OperatorFacts.h.inc"
  };
  SizeRuleFunction named = functions[static_cast<unsigned>(c.rule)];
  // That an operator is computed element by element says nothing about what its
  // operands' sizes are to each other (a norm's channels); overloads of a
  // reduction's name may be pointwise (`max.other`).
  if (named && named != size_rules::reduction && named != size_rules::same)
    return named;
  const operators::OperatorInfo *info = c.info;
  if (info && info->lowering == operators::Lowering::InPlace)
    info = operators::lookupOperator(info->functional);
  return isPointwise(info) ? size_rules::pointwise : named;
}

Shapes refgraph::inferShapes(const SizeCall &call) {
  if (!call.info)
    return std::nullopt;
  SizeRuleFunction rule = findRule(call);
  if (!rule)
    return std::nullopt;
  ArrayRef<int64_t> written = call.op.getMutates();
  // A batch norm writes its statistics, which keep their sizes.
  if (written.empty() || rule == size_rules::batchNormTraining) {
    Shapes shapes = rule(call);
    if (!shapes || shapes->size() != call.op.getNumFresh())
      return std::nullopt;
    return shapes;
  }
  // What an operator writes into its first operand has that operand's sizes
  // without broadcasting it.
  if (written.size() != 1 || written[0] != 0 || call.op.getNumFresh() != 0)
    return std::nullopt;
  if (rule == size_rules::same)
    return SymbolicShapes();
  if (rule == size_rules::indexedRows)
    return rule(call);
  if (rule != size_rules::pointwise)
    return std::nullopt;
  SizePolynomials sizes = call.allTensors()[0]->sizes;
  for (const SymbolicShape *shape : call.allTensors())
    if (!broadcastsTo(shape->sizes, sizes, call.facts))
      return std::nullopt;
  return SymbolicShapes();
}
