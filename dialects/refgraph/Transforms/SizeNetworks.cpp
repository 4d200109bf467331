//===- SizeNetworks.cpp - Sizes of products and of networks' operators ----===//

#include "dialects/refgraph/Transforms/SizeRules.h"
#include "llvm/ADT/StringMap.h"

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

static Shapes mm(const SizeCall &c) {
  return product(c, c.tensor(), c.tensor("mat2"), nullptr);
}
static Shapes matmul(const SizeCall &c) {
  return product(c, c.tensor(), c.tensor("other"), nullptr);
}
static Shapes dot(const SizeCall &c) {
  return product(c, c.tensor(), c.tensor("tensor"), nullptr);
}
static Shapes mv(const SizeCall &c) {
  return product(c, c.tensor(), c.tensor("vec"), nullptr);
}
static Shapes addmm(const SizeCall &c) {
  return product(c, c.tensor("mat1"), c.tensor("mat2"), c.tensor());
}
static Shapes addmv(const SizeCall &c) {
  return product(c, c.tensor("mat"), c.tensor("vec"), c.tensor());
}
static Shapes baddbmm(const SizeCall &c) {
  return product(c, c.tensor("batch1"), c.tensor("batch2"), c.tensor());
}

static Shapes linear(const SizeCall &c) {
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

static Shapes attention(const SizeCall &c) {
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
  for (unsigned i = 0; i + 2 < rank; ++i)
    if (!(grouped && i + 3 == rank) &&
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

/// Which differ between calls, among the dimensions that such an operator moves
/// windows over: none may.
static Shapes leading(const SizeCall &c, const SymbolicShape *x,
                      unsigned spatial, unsigned copied) {
  if (!x || x->rank() < spatial)
    return std::nullopt;
  for (unsigned i = copied; i < x->rank(); ++i)
    if (!x->sizes[i].isConstant())
      return std::nullopt;
  SymbolicShapes shapes;
  for (unsigned r = 0; r < c.op.getNumFresh(); ++r) {
    refgraph::TensorType type = c.resultType(r);
    if (type.getRank() != x->rank())
      return std::nullopt;
    SizePolynomials sizes(ArrayRef(x->sizes).take_front(copied));
    for (unsigned i = copied; i < type.getRank(); ++i)
      sizes.push_back(type.getShape()[i]);
    shapes.push_back(fresh(sizes));
  }
  return shapes;
}

static Shapes convolution(const SizeCall &c) {
  const SymbolicShape *x = c.tensor("input"), *w = c.tensor("weight"),
                      *bias = c.tensor("bias");
  if (!x)
    x = c.tensor();
  if (!x || !w || w->isSymbolic() || (bias && bias->isSymbolic()))
    return std::nullopt;
  // Without a batch, the first dimension is the channels'.
  return leading(c, x, w->rank() - 2, x->rank() == w->rank() ? 1 : 0);
}

template <unsigned spatial> static Shapes pool(const SizeCall &c) {
  const SymbolicShape *x = c.tensor();
  if (!x || x->rank() < spatial)
    return std::nullopt;
  return leading(c, x, spatial, x->rank() - spatial);
}

static Shapes normalisedLast(const SizeCall &c) {
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

static Shapes normalisedChannels(const SizeCall &c) {
  const SymbolicShape *x = c.tensor("input");
  if (!x || x->rank() < 2 || !x->sizes[1].isConstant() ||
      c.op.getNumFresh() != 1)
    return std::nullopt;
  return allResults(c, x->sizes);
}

static Shapes embedding(const SizeCall &c) {
  const SymbolicShape *w = c.tensor("weight"), *indices = c.tensor("indices");
  if (!w || !indices || w->rank() != 2)
    return std::nullopt;
  SizePolynomials sizes = indices->sizes;
  sizes.push_back(w->sizes[1]);
  return allResults(c, sizes);
}

static Shapes oneHot(const SizeCall &c) {
  const SymbolicShape *self = c.tensor();
  auto classes = c.size("num_classes");
  if (!self || !classes || c.facts.evaluate(*classes) <= 0)
    return std::nullopt;
  SizePolynomials sizes = self->sizes;
  sizes.push_back(*classes);
  return allResults(c, sizes);
}

SizeRule refgraph::findSizeNetworkRule(StringRef name) {
  static const llvm::StringMap<SizeRule> rules{
      {"mm", mm},
      {"bmm", mm},
      {"matmul", matmul},
      {"dot", dot},
      {"mv", mv},
      {"addmm", addmm},
      {"addmv", addmv},
      {"baddbmm", baddbmm},
      {"linear", linear},
      {"scaled_dot_product_attention", attention},
      {"convolution", convolution},
      {"_convolution", convolution},
      {"conv1d", convolution},
      {"conv2d", convolution},
      {"conv3d", convolution},
      {"mkldnn_convolution", convolution},
      {"max_pool1d", pool<1>},
      {"avg_pool1d", pool<1>},
      {"adaptive_avg_pool1d", pool<1>},
      {"max_pool2d", pool<2>},
      {"max_pool2d_with_indices", pool<2>},
      {"avg_pool2d", pool<2>},
      {"adaptive_avg_pool2d", pool<2>},
      {"_adaptive_avg_pool2d", pool<2>},
      {"adaptive_max_pool2d", pool<2>},
      {"upsample_nearest2d", pool<2>},
      {"upsample_bilinear2d", pool<2>},
      {"upsample_bicubic2d", pool<2>},
      {"layer_norm", normalisedLast},
      {"rms_norm", normalisedLast},
      {"_fused_rms_norm", normalisedLast},
      {"batch_norm", normalisedChannels},
      {"group_norm", normalisedChannels},
      {"instance_norm", normalisedChannels},
      {"embedding", embedding},
      {"one_hot", oneHot},
  };
  return rules.lookup(name);
}
