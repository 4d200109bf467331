//===- SizeRules.cpp - What operators make of sizes -----------------------===//

#include "dialects/refgraph/Transforms/SizeRules.h"

#include "pyjit/Operators/CallArguments.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace pyjit;
using namespace pyjit::refgraph;

SizePolynomial SymbolicShape::numElements() const {
  SizePolynomial count = 1;
  for (const SizePolynomial &size : sizes)
    count = count * size;
  return count;
}

bool SymbolicShape::isSymbolic() const {
  auto varies = [](const SizePolynomial &e) { return !e.isConstant(); };
  return llvm::any_of(sizes, varies) || llvm::any_of(strides, varies);
}

//===----------------------------------------------------------------------===//
// Arguments
//===----------------------------------------------------------------------===//

/// "add" of "aten::add_.Tensor".
static StringRef baseName(TensorOp op) {
  StringRef name = op.getOverload();
  name.consume_front("aten::");
  name = name.split('.').first;
  if (!op.getMutates().empty() && !name.ends_with("__"))
    name.consume_back("_");
  return name;
}

SizeCall::SizeCall(TensorOp op, SizeFacts &facts)
    : op(op), facts(facts), name(baseName(op)),
      info(operators::lookupOperator(op.getOverload())) {}

/// The argument of that name, and the number of its first operand.
Attribute SizeCall::find(StringRef argument, unsigned *operand) const {
  int wanted = info ? info->findArgument(argument) : -1;
  Attribute found;
  operators::walkCallArguments(
      op.getArgs(), [&](unsigned index, Attribute arg, unsigned first) {
        if (static_cast<int>(index) != wanted)
          return;
        found = arg;
        *operand = first;
      });
  return found;
}

const SymbolicShape *SizeCall::tensor(StringRef argument) const {
  unsigned operand = 0;
  Attribute arg = find(argument, &operand);
  if (!arg || !operators::isOperandPlaceholder(arg))
    return nullptr;
  return &facts.shapeOf(op.getInputs()[operand]);
}

SmallVector<const SymbolicShape *> SizeCall::tensors(StringRef list) const {
  unsigned operand = 0;
  SmallVector<const SymbolicShape *> found;
  auto args = dyn_cast_or_null<ArrayAttr>(find(list, &operand));
  if (!args)
    return found;
  for (Attribute arg : args)
    found.push_back(operators::isOperandPlaceholder(arg)
                        ? &facts.shapeOf(op.getInputs()[operand++])
                        : nullptr);
  return found;
}

SmallVector<const SymbolicShape *> SizeCall::allTensors() const {
  SmallVector<const SymbolicShape *> found;
  for (Value input : op.getInputs())
    if (isa<refgraph::TensorType>(input.getType()))
      found.push_back(&facts.shapeOf(input));
  return found;
}

bool SizeCall::isNone(StringRef argument) const {
  unsigned operand;
  Attribute arg = find(argument, &operand);
  return !arg || operators::isNoneArgument(arg);
}

std::optional<SizePolynomial> SizeCall::sizeAt(Attribute arg,
                                               unsigned &operand) const {
  if (operators::isSizeOperand(arg))
    return facts.sizeOf(op.getInputs()[operand++]);
  if (AffineExpr size = operators::getSizeArgument(arg))
    return SizePolynomial::fromAffine(size);
  auto literal = dyn_cast<IntegerAttr>(arg);
  if (!literal || !literal.getType().isInteger(64))
    return std::nullopt;
  return SizePolynomial(literal.getInt());
}

std::optional<SizePolynomial> SizeCall::size(StringRef argument) const {
  unsigned operand;
  Attribute arg = find(argument, &operand);
  return arg ? sizeAt(arg, operand) : std::nullopt;
}

std::optional<SizePolynomials> SizeCall::sizes(StringRef argument) const {
  unsigned operand;
  auto list = dyn_cast_or_null<ArrayAttr>(find(argument, &operand));
  if (!list)
    return std::nullopt;
  SizePolynomials found;
  for (Attribute arg : list) {
    auto size = sizeAt(arg, operand);
    if (!size)
      return std::nullopt;
    found.push_back(*size);
  }
  return found;
}

std::optional<int64_t> SizeCall::integer(StringRef argument) const {
  auto found = size(argument);
  return found ? found->getConstant() : std::nullopt;
}

std::optional<SmallVector<int64_t>>
SizeCall::integers(StringRef argument) const {
  if (auto one = integer(argument))
    return SmallVector<int64_t>{*one};
  auto list = sizes(argument);
  if (!list)
    return std::nullopt;
  SmallVector<int64_t> numbers;
  for (const SizePolynomial &size : *list) {
    if (!size.isConstant())
      return std::nullopt;
    numbers.push_back(*size.getConstant());
  }
  return numbers;
}

bool SizeCall::isTrue(StringRef argument) const {
  unsigned operand;
  auto value = dyn_cast_or_null<IntegerAttr>(find(argument, &operand));
  return value && value.getType().isInteger(1) && value.getValue().isOne();
}

std::optional<unsigned> SizeCall::dim(StringRef argument, unsigned rank,
                                      std::optional<int64_t> otherwise) const {
  auto value = integer(argument);
  if (!value && isNone(argument))
    value = otherwise;
  if (!value)
    return std::nullopt;
  int64_t wrapped = *value < 0 ? *value + rank : *value;
  if (wrapped < 0 || wrapped >= static_cast<int64_t>(rank))
    return std::nullopt;
  return wrapped;
}

//===----------------------------------------------------------------------===//
// Broadcasting
//===----------------------------------------------------------------------===//

using Shapes = std::optional<SymbolicShapes>;

static SymbolicShape fresh(SizePolynomials sizes) {
  return {std::move(sizes), {}, 0};
}

/// One for each result that the call returns.
static SymbolicShapes all(const SizeCall &c, const SizePolynomials &sizes) {
  return SymbolicShapes(c.op.getNumFresh(), fresh(sizes));
}

/// A size of one is a constant: symbols are not.
static bool isOne(const SizePolynomial &size) {
  return size == SizePolynomial(1);
}

static bool broadcast(SizePolynomials &into, ArrayRef<SizePolynomial> from,
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

static bool broadcastsTo(ArrayRef<SizePolynomial> from,
                         ArrayRef<SizePolynomial> to, SizeFacts &facts) {
  SizePolynomials joined(to);
  return from.size() <= to.size() && broadcast(joined, from, facts) &&
         ArrayRef(joined) == to;
}

static Shapes pointwise(const SizeCall &c) {
  SizePolynomials sizes;
  for (const SymbolicShape *shape : c.allTensors())
    if (!broadcast(sizes, shape->sizes, c.facts))
      return std::nullopt;
  return all(c, sizes);
}

/// The first operand's sizes; whatever else there is does not matter.
static Shapes same(const SizeCall &c) {
  auto tensors = c.allTensors();
  if (tensors.empty())
    return std::nullopt;
  return all(c, tensors[0]->sizes);
}

/// Losses: of each element, or of all.
static Shapes loss(const SizeCall &c) {
  auto reduction = c.integer("reduction");
  if (!reduction)
    return std::nullopt;
  Shapes shapes = pointwise(c);
  return shapes && *reduction != 0 ? Shapes(all(c, {})) : shapes;
}

static Shapes nllLoss(const SizeCall &c) {
  auto reduction = c.integer("reduction");
  const SymbolicShape *self = c.tensor(), *target = c.tensor("target");
  if (!reduction || !self || !target || self->rank() != 2 ||
      target->rank() != 1 || c.op.getNumFresh() != 2 ||
      !self->sizes[1].isConstant() ||
      !c.facts.requireEqual(self->sizes[0], target->sizes[0]))
    return std::nullopt;
  SymbolicShapes shapes = all(c, {});
  if (*reduction == 0)
    shapes[0] = fresh({self->sizes[0]});
  return shapes;
}

//===----------------------------------------------------------------------===//
// Reductions, positions
//===----------------------------------------------------------------------===//

static Shapes reduction(const SizeCall &c) {
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
  return all(c, sizes);
}

static Shapes topk(const SizeCall &c) {
  const SymbolicShape *self = c.tensor();
  auto k = c.size("k");
  if (!self || !k || self->rank() == 0)
    return std::nullopt;
  auto dim = c.dim("dim", self->rank(), -1);
  if (!dim || !c.facts.requireNotNegative(self->sizes[*dim] - *k))
    return std::nullopt;
  SizePolynomials sizes = self->sizes;
  sizes[*dim] = *k;
  return all(c, sizes);
}

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
  return all(c, sizes);
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
  return all(c, sizes);
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
  return all(c, sizes);
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
  return all(c, x->sizes);
}

static Shapes normalisedChannels(const SizeCall &c) {
  const SymbolicShape *x = c.tensor("input");
  if (!x || x->rank() < 2 || !x->sizes[1].isConstant() ||
      c.op.getNumFresh() != 1)
    return std::nullopt;
  return all(c, x->sizes);
}

static Shapes embedding(const SizeCall &c) {
  const SymbolicShape *w = c.tensor("weight"), *indices = c.tensor("indices");
  if (!w || !indices || w->rank() != 2)
    return std::nullopt;
  SizePolynomials sizes = indices->sizes;
  sizes.push_back(w->sizes[1]);
  return all(c, sizes);
}

static Shapes oneHot(const SizeCall &c) {
  const SymbolicShape *self = c.tensor();
  auto classes = c.size("num_classes");
  if (!self || !classes || c.facts.evaluate(*classes) <= 0)
    return std::nullopt;
  SizePolynomials sizes = self->sizes;
  sizes.push_back(*classes);
  return all(c, sizes);
}

//===----------------------------------------------------------------------===//
// Joins, indexed reads, writes
//===----------------------------------------------------------------------===//

static Shapes cat(const SizeCall &c) {
  auto tensors = c.tensors("tensors");
  if (tensors.empty() || llvm::is_contained(tensors, nullptr))
    return std::nullopt;
  // Torch skips those of shape [0], whatever the others' rank is.
  llvm::erase_if(tensors, [](const SymbolicShape *shape) {
    return shape->rank() == 1 && shape->sizes[0] == SizePolynomial(0);
  });
  if (tensors.empty())
    return std::nullopt;
  SizePolynomials sizes = tensors[0]->sizes;
  auto dim = c.dim("dim", sizes.size(), 0);
  if (!dim)
    return std::nullopt;
  for (const SymbolicShape *next : ArrayRef(tensors).drop_front()) {
    if (next->rank() != sizes.size())
      return std::nullopt;
    for (unsigned i = 0; i < sizes.size(); ++i) {
      if (i == *dim)
        sizes[i] = sizes[i] + next->sizes[i];
      else if (!c.facts.requireEqual(sizes[i], next->sizes[i]))
        return std::nullopt;
    }
  }
  return all(c, sizes);
}

static Shapes stack(const SizeCall &c) {
  auto tensors = c.tensors("tensors");
  if (tensors.empty() || llvm::is_contained(tensors, nullptr))
    return std::nullopt;
  SizePolynomials sizes = tensors[0]->sizes;
  auto dim = c.dim("dim", sizes.size() + 1, 0);
  if (!dim)
    return std::nullopt;
  for (const SymbolicShape *next : ArrayRef(tensors).drop_front()) {
    if (next->rank() != sizes.size())
      return std::nullopt;
    for (unsigned i = 0; i < sizes.size(); ++i)
      if (!c.facts.requireEqual(sizes[i], next->sizes[i]))
        return std::nullopt;
  }
  sizes.insert(sizes.begin() + *dim,
               SizePolynomial(static_cast<int64_t>(tensors.size())));
  return all(c, sizes);
}

static Shapes repeat(const SizeCall &c) {
  const SymbolicShape *self = c.tensor();
  auto repeats = c.sizes("repeats");
  if (!self || !repeats || repeats->size() < self->rank())
    return std::nullopt;
  SizePolynomials sizes = *repeats;
  unsigned ahead = repeats->size() - self->rank();
  for (unsigned i = 0; i < self->rank(); ++i)
    sizes[ahead + i] = sizes[ahead + i] * self->sizes[i];
  return all(c, sizes);
}

static Shapes pad(const SizeCall &c) {
  const SymbolicShape *self = c.tensor();
  auto amounts = c.sizes("pad");
  if (!self || !amounts || amounts->size() > 2 * self->rank())
    return std::nullopt;
  SizePolynomials sizes = self->sizes;
  for (unsigned i = 0; i + 1 < amounts->size(); i += 2) {
    SizePolynomial &size = sizes[self->rank() - 1 - i / 2];
    size = size + (*amounts)[i] + (*amounts)[i + 1];
    if (!c.facts.requireNotNegative(size - 1))
      return std::nullopt;
  }
  return all(c, sizes);
}

static Shapes gather(const SizeCall &c) {
  const SymbolicShape *self = c.tensor(), *index = c.tensor("index");
  if (!self || !index || self->rank() != index->rank() || self->rank() == 0)
    return std::nullopt;
  auto dim = c.dim("dim", self->rank());
  if (!dim)
    return std::nullopt;
  for (unsigned i = 0; i < self->rank(); ++i)
    if (i != *dim &&
        !c.facts.requireNotNegative(self->sizes[i] - index->sizes[i]))
      return std::nullopt;
  return all(c, index->sizes);
}

static Shapes indexSelect(const SizeCall &c) {
  const SymbolicShape *self = c.tensor(), *index = c.tensor("index");
  if (!self || !index || self->rank() == 0 || index->rank() != 1)
    return std::nullopt;
  auto dim = c.dim("dim", self->rank());
  if (!dim)
    return std::nullopt;
  SizePolynomials sizes = self->sizes;
  sizes[*dim] = index->sizes[0];
  return all(c, sizes);
}

/// `x[i, :, j]` with tensors of integers: together where they stand side by
/// side, else in front.
static Shapes index(const SizeCall &c) {
  const SymbolicShape *self = c.tensor();
  auto indices = c.tensors("indices");
  if (!self || indices.size() > self->rank())
    return std::nullopt;
  SizePolynomials joined, sizes;
  unsigned first = self->rank(), last = 0, count = 0;
  for (auto [i, shape] : llvm::enumerate(indices)) {
    if (!shape)
      continue;
    if (!broadcast(joined, shape->sizes, c.facts))
      return std::nullopt;
    first = std::min<unsigned>(first, i);
    last = i;
    ++count;
  }
  for (Value input : c.op.getInputs().drop_front()) {
    Type type = cast<refgraph::TensorType>(input.getType()).getElementType();
    if (type.isInteger(1) || type.isUnsignedInteger())
      return std::nullopt;
  }
  if (count == 0)
    return std::nullopt;
  bool adjacent = last - first + 1 == count;
  if (!adjacent)
    sizes = joined;
  for (unsigned i = 0; i < self->rank(); ++i) {
    if (i < indices.size() && indices[i]) {
      if (adjacent && i == first)
        sizes.append(joined.begin(), joined.end());
      continue;
    }
    sizes.push_back(self->sizes[i]);
  }
  return all(c, sizes);
}

//===----------------------------------------------------------------------===//
// Factories
//===----------------------------------------------------------------------===//

static Shapes factory(const SizeCall &c) {
  auto sizes = c.sizes("size");
  if (!sizes)
    return std::nullopt;
  for (const SizePolynomial &size : *sizes)
    if (!c.facts.requireNotNegative(size))
      return std::nullopt;
  return all(c, *sizes);
}

static Shapes arange(const SizeCall &c) {
  SizePolynomial start = 0;
  if (!c.isNone("start")) {
    auto given = c.size("start");
    if (!given)
      return std::nullopt;
    start = *given;
  }
  auto end = c.size("end");
  if (!end || (!c.isNone("step") && c.integer("step") != 1) ||
      !c.facts.requireNotNegative(*end - start))
    return std::nullopt;
  return all(c, {*end - start});
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

static SizeRule findRule(const SizeCall &c) {
  static const llvm::StringMap<SizeRule> rules{
      {"_softmax", same},
      {"softmax", same},
      {"log_softmax", same},
      {"_log_softmax", same},
      {"clone", same},
      {"contiguous", same},
      {"_to_copy", same},
      {"to", same},
      {"dropout", same},
      {"native_dropout", same},
      {"cumsum", same},
      {"cumprod", same},
      {"flip", same},
      {"roll", same},
      {"sort", same},
      {"argsort", same},
      {"tril", same},
      {"triu", same},
      {"zeros_like", same},
      {"ones_like", same},
      {"full_like", same},
      {"empty_like", same},
      {"rand_like", same},
      {"randn_like", same},
      {"bernoulli", same},
      {"scatter", same},
      {"scatter_add", same},
      {"scatter_reduce", same},
      {"index_add", same},
      {"index_copy", same},
      {"index_fill", same},
      {"index_put", same},
      {"fill", same},
      {"zero", same},
      {"normal", same},
      {"uniform", same},
      {"_transformer_encoder_layer_fwd", same},
      {"where", pointwise},
      {"copy", pointwise},
      {"masked_fill", pointwise},
      {"lerp", pointwise},
      {"mse_loss", loss},
      {"l1_loss", loss},
      {"smooth_l1_loss", loss},
      {"huber_loss", loss},
      {"binary_cross_entropy", loss},
      {"binary_cross_entropy_with_logits", loss},
      {"nll_loss_forward", nllLoss},
      {"sum", reduction},
      {"mean", reduction},
      {"prod", reduction},
      {"amax", reduction},
      {"amin", reduction},
      {"max", reduction},
      {"min", reduction},
      {"all", reduction},
      {"any", reduction},
      {"argmax", reduction},
      {"argmin", reduction},
      {"logsumexp", reduction},
      {"var", reduction},
      {"std", reduction},
      {"var_mean", reduction},
      {"std_mean", reduction},
      {"norm", reduction},
      {"linalg_vector_norm", reduction},
      {"topk", topk},
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
      {"cat", cat},
      {"concat", cat},
      {"stack", stack},
      {"repeat", repeat},
      {"constant_pad_nd", pad},
      {"gather", gather},
      {"index_select", indexSelect},
      {"index", index},
      {"zeros", factory},
      {"ones", factory},
      {"full", factory},
      {"empty", factory},
      {"rand", factory},
      {"randn", factory},
      {"new_zeros", factory},
      {"new_ones", factory},
      {"new_full", factory},
      {"new_empty", factory},
      {"arange", arange},
  };
  if (SizeRule view = findSizeViewRule(c.name))
    return view;
  auto found = rules.find(c.name);
  SizeRule named = found == rules.end() ? nullptr : found->second;
  // That an operator is computed element by element says nothing about what its
  // operands' sizes are to each other (a norm's channels); overloads of a
  // reduction's name may be pointwise (`max.other`).
  if (named && named != reduction && named != same)
    return named;
  const operators::OperatorInfo *info = c.info;
  if (info && info->lowering == operators::Lowering::Twin)
    info = operators::lookupOperator(info->twin);
  return isPointwise(info) ? pointwise : named;
}

Shapes refgraph::inferShapes(const SizeCall &call) {
  if (!call.info)
    return std::nullopt;
  SizeRule rule = findRule(call);
  if (!rule)
    return std::nullopt;
  ArrayRef<int64_t> written = call.op.getMutates();
  if (written.empty()) {
    Shapes shapes = rule(call);
    if (!shapes || shapes->size() != call.op.getNumFresh())
      return std::nullopt;
    return shapes;
  }
  // What an operator writes into its first operand has that operand's sizes
  // without broadcasting it.
  if (written.size() != 1 || written[0] != 0 || call.op.getNumFresh() != 0)
    return std::nullopt;
  if (rule == same)
    return SymbolicShapes();
  if (rule != pointwise && rule != linear && rule != addmm && rule != baddbmm)
    return std::nullopt;
  SizePolynomials sizes = call.allTensors()[0]->sizes;
  for (const SymbolicShape *shape : call.allTensors())
    if (rule == pointwise && !broadcastsTo(shape->sizes, sizes, call.facts))
      return std::nullopt;
  return SymbolicShapes();
}
