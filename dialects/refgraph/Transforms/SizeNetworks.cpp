//===- SizeNetworks.cpp - Sizes of products and of networks' operators ----===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "dialects/refgraph/Transforms/SizeRules.h"

using namespace mlir;
using namespace pyjit;
using namespace pyjit::refgraph;

using Shapes = std::optional<SymbolicShapes>;

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

static Shapes product(const SizeCall &c, const SymbolicShape *a,
                      const SymbolicShape *b, const SymbolicShape *added) {
  if (!a || !b || a->rank() == 0 || b->rank() == 0)
    return std::nullopt;
  const SizePolynomial &inner = b->sizes[b->rank() == 1 ? 0 : b->rank() - 2];
  if (!c.facts.requireEqual(a->sizes.back(), inner))
    return std::nullopt;
  SizePolynomials sizes(ArrayRef(a->sizes).drop_back(std::min(2u, a->rank())));
  if (!broadcast(sizes, ArrayRef(b->sizes).drop_back(std::min(2u, b->rank())),
                 c.facts))
    return std::nullopt;
  if (a->rank() > 1)
    sizes.push_back(a->sizes[a->rank() - 2]);
  if (b->rank() > 1)
    sizes.push_back(b->sizes.back());
  if (added && !broadcastsTo(added->sizes, sizes, c.facts))
    return std::nullopt;
  return allResults(c, sizes);
}

Shapes size_rules::mm(const SizeCall &c) {
  return product(c, c.tensor(), c.tensor("mat2"), nullptr);
}
Shapes size_rules::matmul(const SizeCall &c) {
  return product(c, c.tensor(), c.tensor("other"), nullptr);
}
Shapes size_rules::dot(const SizeCall &c) {
  return product(c, c.tensor(), c.tensor("tensor"), nullptr);
}
Shapes size_rules::mv(const SizeCall &c) {
  return product(c, c.tensor(), c.tensor("vec"), nullptr);
}
Shapes size_rules::addmm(const SizeCall &c) {
  return product(c, c.tensor("mat1"), c.tensor("mat2"), c.tensor());
}
Shapes size_rules::addmv(const SizeCall &c) {
  return product(c, c.tensor("mat"), c.tensor("vec"), c.tensor());
}
Shapes size_rules::baddbmm(const SizeCall &c) {
  return product(c, c.tensor("batch1"), c.tensor("batch2"), c.tensor());
}

/// Rows that are divided among matrices.
Shapes size_rules::groupedProduct(const SizeCall &c) {
  const SymbolicShape *rows = c.tensor(), *matrices = c.tensor("mat2");
  if (!rows || !matrices || rows->rank() != 2 || matrices->rank() != 3 ||
      !c.facts.requireEqual(rows->sizes[1], matrices->sizes[1]))
    return std::nullopt;
  return allResults(c, {rows->sizes[0], matrices->sizes[2]});
}

Shapes size_rules::linear(const SizeCall &c) {
  const SymbolicShape *x = c.tensor("input"), *w = c.tensor("weight"),
                      *bias = c.tensor("bias");
  if (!x || !w || x->rank() == 0 || w->rank() != 2 ||
      !c.facts.requireEqual(x->sizes.back(), w->sizes[1]))
    return std::nullopt;
  SizePolynomials sizes = x->sizes;
  sizes.back() = w->sizes[0];
  if (bias && !broadcastsTo(bias->sizes, sizes, c.facts))
    return std::nullopt;
  return allResults(c, sizes);
}

Shapes size_rules::attention(const SizeCall &c) {
  const SymbolicShape *q = c.tensor("query"), *k = c.tensor("key"),
                      *v = c.tensor("value"), *mask = c.tensor("attn_mask");
  if (!q || !k || !v || q->rank() < 3 || k->rank() != q->rank() ||
      v->rank() != q->rank())
    return std::nullopt;
  unsigned rank = q->rank();
  // Heads that share keys and values: how many is a number.
  bool grouped = c.isTrue("enable_gqa");
  if (grouped &&
      (!q->sizes[rank - 3].isConstant() || !k->sizes[rank - 3].isConstant() ||
       !v->sizes[rank - 3].isConstant()))
    return std::nullopt;
  // One head that all share (Falcon) is broadcast, as a batch of one is.
  auto isOne = [](const SizePolynomial &size) {
    return size.getConstant() == 1;
  };
  for (unsigned i = 0; i + 2 < rank; ++i)
    if (!(grouped && i + 3 == rank) &&
        !(isOne(k->sizes[i]) && isOne(v->sizes[i])) &&
        (!c.facts.requireEqual(q->sizes[i], k->sizes[i]) ||
         !c.facts.requireEqual(q->sizes[i], v->sizes[i])))
      return std::nullopt;
  if (!c.facts.requireEqual(k->sizes[rank - 2], v->sizes[rank - 2]) ||
      !c.facts.requireEqual(q->sizes[rank - 1], k->sizes[rank - 1]))
    return std::nullopt;
  if (mask) {
    SizePolynomials scores = q->sizes;
    scores.back() = k->sizes[rank - 2];
    if (!broadcastsTo(mask->sizes, scores, c.facts))
      return std::nullopt;
  }
  SizePolynomials sizes = q->sizes;
  sizes.back() = v->sizes.back();
  return allResults(c, sizes);
}

//===----------------------------------------------------------------------===//
// Networks
//===----------------------------------------------------------------------===//

/// The first dimension is a batch, if there is one before `rank` others.
template <unsigned rank> static Shapes batched(const SizeCall &c) {
  const SymbolicShape *x = c.tensor();
  return x ? leading(c, x, x->rank() > rank ? 1 : 0) : std::nullopt;
}

Shapes size_rules::batchAlone(const SizeCall &c) { return batched<0>(c); }
Shapes size_rules::imageColumns(const SizeCall &c) { return batched<3>(c); }
Shapes size_rules::columnImages(const SizeCall &c) { return batched<2>(c); }

/// Margins of the last dimensions: reflected, repeated.
Shapes size_rules::margins(const SizeCall &c) {
  const SymbolicShape *x = c.tensor();
  auto amounts = c.integers("padding");
  if (!amounts)
    amounts = c.integers("pad");
  if (!x || !amounts || amounts->size() > 2 * x->rank())
    return std::nullopt;
  SizePolynomials sizes = x->sizes;
  for (unsigned i = 0; i + 1 < amounts->size(); i += 2) {
    SizePolynomial &size = sizes[x->rank() - 1 - i / 2];
    size = size + (*amounts)[i] + (*amounts)[i + 1];
    if (!c.facts.requireNotNegative(size - 1))
      return std::nullopt;
  }
  return allResults(c, sizes);
}

Shapes size_rules::gridSampler(const SizeCall &c) {
  const SymbolicShape *x = c.tensor("input"), *grid = c.tensor("grid");
  if (!x || !grid || x->rank() < 4 || grid->rank() != x->rank() ||
      !c.facts.requireEqual(x->sizes[0], grid->sizes[0]))
    return std::nullopt;
  SizePolynomials sizes{x->sizes[0], x->sizes[1]};
  for (unsigned i = 1; i + 1 < grid->rank(); ++i)
    sizes.push_back(grid->sizes[i]);
  return allResults(c, sizes);
}

/// One layer in one direction: all steps, the state behind the last.
Shapes size_rules::rnnLayer(const SizeCall &c) {
  const SymbolicShape *x = c.tensor("input"), *h = c.tensor("hx_"),
                      *cell = c.tensor("cx_");
  // Of how many layers and directions it is one does not matter here.
  auto hidden = c.integer("hidden_size");
  if (!x || !h || !cell || !hidden || x->rank() != 3 || h->rank() != 2 ||
      !c.facts.requireEqual(x->sizes[2],
                            SizePolynomial(c.facts.evaluate(x->sizes[2]))) ||
      !c.facts.requireEqual(x->sizes[1], h->sizes[0]) ||
      !c.facts.requireEqual(x->sizes[1], cell->sizes[0]))
    return std::nullopt;
  SymbolicShapes shapes;
  for (unsigned r = 0; r < c.op.getNumFresh(); ++r) {
    unsigned rank = c.resultType(r).getRank();
    if (r == 0 && rank == 3)
      shapes.push_back(fresh({x->sizes[0], x->sizes[1], *hidden}));
    else if ((r == 1 || r == 2) && rank == 2)
      shapes.push_back(fresh(r == 1 ? h->sizes : cell->sizes));
    else if (r == 3 && rank == 1 && c.op.getResult(r).use_empty())
      // What the backward needs; of what size is the library's own business
      // (`LastResultOpaque`).
      shapes.push_back(fresh({SizePolynomial(c.resultType(r).getShape()[0])}));
    else
      return std::nullopt;
  }
  return shapes;
}

/// One step of a fused cell: the new states, and a workspace with some numbers
/// for each element of a state.
Shapes size_rules::cell(const SizeCall &c) {
  const SymbolicShape *input = c.tensor("input_gates"),
                      *hidden = c.tensor("hidden_gates"),
                      *state = c.tensor("hx");
  if (!state)
    state = c.tensor("cx");
  if (!input || !hidden || !state || input->rank() != 2 ||
      hidden->rank() != 2 || state->rank() != 2)
    return std::nullopt;
  const SizePolynomial &batch = state->sizes[0], &size = state->sizes[1];
  // How many gates there are is the weights' business.
  if (!c.facts.requireEqual(size, SizePolynomial(c.facts.evaluate(size))))
    return std::nullopt;
  for (const SymbolicShape *gates : {input, hidden})
    if (!c.facts.requireEqual(gates->sizes[0], batch) ||
        !c.facts.requireEqual(
            gates->sizes[1], SizePolynomial(c.facts.evaluate(gates->sizes[1]))))
      return std::nullopt;
  SymbolicShapes shapes;
  unsigned last = c.op.getNumFresh() - 1;
  for (unsigned r = 0; r < last; ++r)
    shapes.push_back(fresh(state->sizes));
  shapes.push_back(
      fresh({batch, SizePolynomial(c.resultType(last).getShape()[1])}));
  return shapes;
}

/// All layers and directions: what each step gives, and the states behind the
/// last, a hidden one and with some kinds a cell's.
Shapes size_rules::recurrence(const SizeCall &c) {
  const SymbolicShape *x = c.tensor("input");
  SmallVector<const SymbolicShape *> states = c.tensors("hx");
  if (const SymbolicShape *state = states.empty() ? c.tensor("hx") : nullptr)
    states.push_back(state);
  if (!x || x->rank() != 3 || states.empty() ||
      c.op.getNumFresh() != states.size() + 1 ||
      !c.facts.requireEqual(x->sizes[2],
                            SizePolynomial(c.facts.evaluate(x->sizes[2]))))
    return std::nullopt;
  bool batchFirst = c.isTrue("batch_first");
  const SizePolynomial &batch = x->sizes[batchFirst ? 0 : 1];
  for (const SymbolicShape *state : states)
    if (state->rank() != 3 || !c.facts.requireEqual(state->sizes[1], batch))
      return std::nullopt;
  SizePolynomial width =
      states[0]->sizes[2] * SizePolynomial(c.isTrue("bidirectional") ? 2 : 1);
  SymbolicShapes shapes{fresh({x->sizes[0], x->sizes[1], width})};
  for (const SymbolicShape *state : states)
    shapes.push_back(fresh(state->sizes));
  return shapes;
}

/// The attention of torch.nn, with its projections.
Shapes size_rules::nativeAttention(const SizeCall &c) {
  const SymbolicShape *q = c.tensor("query"), *k = c.tensor("key"),
                      *v = c.tensor("value"), *mask = c.tensor("mask");
  auto heads = c.integer("num_head");
  if (!q || !k || !v || !heads || q->rank() != 3 || k->rank() != 3 ||
      v->rank() != 3 || (mask && mask->rank() > 4))
    return std::nullopt;
  // It is meant for one tensor.
  for (const SymbolicShape *other : {k, v})
    for (unsigned i = 0; i < 3; ++i)
      if (!c.facts.requireEqual(q->sizes[i], other->sizes[i]))
        return std::nullopt;
  SizePolynomials weights{q->sizes[0], q->sizes[1], k->sizes[1]};
  if (mask) {
    // Of the keys of each sequence, of all pairs, or of these for each head.
    SizePolynomials wanted(weights);
    if (mask->rank() == 2)
      wanted = c.integer("mask_type") == 1
                   ? SizePolynomials{q->sizes[0], k->sizes[1]}
                   : SizePolynomials{q->sizes[1], k->sizes[1]};
    else if (mask->rank() == 4)
      wanted.insert(wanted.begin() + 1, SizePolynomial(*heads));
    if (!broadcastsTo(mask->sizes, wanted, c.facts))
      return std::nullopt;
  }
  SymbolicShapes shapes;
  for (unsigned r = 0; r < c.op.getNumFresh(); ++r) {
    SizePolynomials sizes = r == 0 ? q->sizes : weights;
    if (r == 1 && c.resultType(r).getRank() == 4)
      sizes.insert(sizes.begin() + 1, SizePolynomial(*heads));
    shapes.push_back(fresh(sizes));
  }
  return shapes;
}

Shapes size_rules::encoderLayer(const SizeCall &c) {
  const SymbolicShape *x = c.tensor("src"), *mask = c.tensor("mask");
  // Masks come in several meanings.
  if (!x || x->rank() != 3 || (mask && (mask->isSymbolic() || x->isSymbolic())))
    return std::nullopt;
  return allResults(c, x->sizes);
}

Shapes size_rules::embeddingBag(const SizeCall &c) {
  const SymbolicShape *w = c.tensor("weight"), *indices = c.tensor("indices"),
                      *offsets = c.tensor("offsets");
  if (!w || !indices || !offsets || w->rank() != 2 || indices->rank() != 1 ||
      offsets->rank() != 1 || c.op.getNumFresh() != 4)
    return std::nullopt;
  if (const SymbolicShape *weights = c.tensor("per_sample_weights"))
    if (weights->rank() != 1 ||
        !c.facts.requireEqual(weights->sizes[0], indices->sizes[0]))
      return std::nullopt;
  SizePolynomial bags = offsets->sizes[0];
  if (c.isTrue("include_last_offset"))
    bags = bags - 1;
  // What the backward pass would need is there or is empty.
  auto given = [&](unsigned result, const SizePolynomial &count) {
    SizePolynomials sizes;
    for (int64_t size : c.resultType(result).getShape())
      sizes.push_back(size);
    if (!sizes.empty() && sizes[0] != SizePolynomial(0))
      sizes[0] = count;
    return fresh(sizes);
  };
  return SymbolicShapes{fresh({bags, w->sizes[1]}), given(1, indices->sizes[0]),
                        given(2, bags), given(3, bags)};
}

Shapes size_rules::distances(const SizeCall &c) {
  const SymbolicShape *a = c.tensor("x1"), *b = c.tensor("x2");
  if (!a || !b || a->rank() < 2 || b->rank() < 2 ||
      !c.facts.requireEqual(a->sizes.back(), b->sizes.back()))
    return std::nullopt;
  SizePolynomials sizes(ArrayRef(a->sizes).drop_back(2));
  if (!broadcast(sizes, ArrayRef(b->sizes).drop_back(2), c.facts))
    return std::nullopt;
  sizes.push_back(a->sizes[a->rank() - 2]);
  sizes.push_back(b->sizes[b->rank() - 2]);
  return allResults(c, sizes);
}

Shapes size_rules::glu(const SizeCall &c) {
  const SymbolicShape *x = c.tensor();
  if (!x || x->rank() == 0)
    return std::nullopt;
  auto dim = c.dim("dim", x->rank(), -1);
  if (!dim)
    return std::nullopt;
  auto half = c.facts.floorDivide(x->sizes[*dim], 2);
  if (!half || !c.facts.requireEqual(*half * 2, x->sizes[*dim]))
    return std::nullopt;
  SizePolynomials sizes = x->sizes;
  sizes[*dim] = *half;
  return allResults(c, sizes);
}

Shapes size_rules::normalisedLast(const SizeCall &c) {
  const SymbolicShape *x = c.tensor("input");
  auto last = c.sizes("normalized_shape");
  if (!x || !last || last->size() > x->rank())
    return std::nullopt;
  for (unsigned i = 1; i <= last->size(); ++i)
    if (!c.facts.requireEqual(x->sizes[x->rank() - i],
                              (*last)[last->size() - i]))
      return std::nullopt;
  for (StringRef name : {"weight", "bias"})
    if (const SymbolicShape *p = c.tensor(name); p && p->isSymbolic())
      return std::nullopt;
  return allResults(c, x->sizes);
}

Shapes size_rules::normalisedChannels(const SizeCall &c) {
  const SymbolicShape *x = c.tensor("input");
  if (!x || x->rank() < 2 || c.op.getNumFresh() != 1)
    return std::nullopt;
  // Instances are normalised as channels of one image.
  for (StringRef name : {"weight", "bias", "running_mean", "running_var"})
    if (const SymbolicShape *p = c.tensor(name))
      if (p->rank() != 1 || !c.facts.requireEqual(p->sizes[0], x->sizes[1]))
        return std::nullopt;
  if (!x->sizes[1].isConstant() && c.rule != operators::SizeRule::BatchNorm)
    return std::nullopt;
  return allResults(c, x->sizes);
}

Shapes size_rules::batchNorm(const SizeCall &c) {
  return normalisedChannels(c);
}

/// Statistics of the batch have one element for each channel.
Shapes size_rules::batchNormTraining(const SizeCall &c) {
  const SymbolicShape *x = c.tensor("input");
  if (!x || x->rank() < 2 || c.op.getNumFresh() != 3)
    return std::nullopt;
  for (StringRef name : {"weight", "bias", "running_mean", "running_var"})
    if (const SymbolicShape *p = c.tensor(name))
      if (p->rank() != 1 || !c.facts.requireEqual(p->sizes[0], x->sizes[1]))
        return std::nullopt;
  SizePolynomials channels{x->sizes[1]};
  return SymbolicShapes{fresh(x->sizes), fresh(channels), fresh(channels)};
}

Shapes size_rules::embedding(const SizeCall &c) {
  const SymbolicShape *w = c.tensor("weight"), *indices = c.tensor("indices");
  if (!w || !indices || w->rank() != 2)
    return std::nullopt;
  SizePolynomials sizes = indices->sizes;
  sizes.push_back(w->sizes[1]);
  return allResults(c, sizes);
}

Shapes size_rules::oneHot(const SizeCall &c) {
  const SymbolicShape *self = c.tensor();
  auto classes = c.size("num_classes");
  if (!self || !classes || c.facts.evaluate(*classes) <= 0)
    return std::nullopt;
  SizePolynomials sizes = self->sizes;
  sizes.push_back(*classes);
  return allResults(c, sizes);
}
