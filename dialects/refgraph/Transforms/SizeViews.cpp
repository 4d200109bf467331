//===- SizeViews.cpp - Sizes, strides and offsets of views ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "dialects/refgraph/Transforms/SizeRules.h"

using namespace mlir;
using namespace pyjit;
using namespace pyjit::refgraph;

using Shapes = std::optional<SymbolicShapes>;

static SymbolicShapes one(SymbolicShape shape) {
  SymbolicShapes shapes;
  shapes.push_back(std::move(shape));
  return shapes;
}

Shapes size_rules::alias(const SizeCall &c) {
  const SymbolicShape *self = c.tensor();
  return self ? Shapes(one(*self)) : std::nullopt;
}

static Shapes permuted(const SymbolicShape &self, ArrayRef<unsigned> order) {
  SymbolicShape shown;
  shown.offset = self.offset;
  for (unsigned dim : order) {
    shown.sizes.push_back(self.sizes[dim]);
    shown.strides.push_back(self.strides[dim]);
  }
  return one(shown);
}

static Shapes swapped(const SymbolicShape *self, std::optional<unsigned> a,
                      std::optional<unsigned> b) {
  if (!self || (self->rank() > 1 && (!a || !b)))
    return std::nullopt;
  auto order = llvm::to_vector(llvm::seq<unsigned>(0, self->rank()));
  if (self->rank() > 1)
    std::swap(order[*a], order[*b]);
  return permuted(*self, order);
}

Shapes size_rules::transpose(const SizeCall &c) {
  const SymbolicShape *self = c.tensor();
  return self ? swapped(self, c.dim("dim0", self->rank()),
                        c.dim("dim1", self->rank()))
              : std::nullopt;
}

Shapes size_rules::t(const SizeCall &c) { return swapped(c.tensor(), 0, 1); }

Shapes size_rules::permute(const SizeCall &c) {
  const SymbolicShape *self = c.tensor();
  auto dims = c.integers("dims");
  if (!self || !dims || dims->size() != self->rank())
    return std::nullopt;
  SmallVector<unsigned> order;
  for (int64_t dim : *dims)
    order.push_back(dim < 0 ? dim + self->rank() : dim);
  for (unsigned dim : order)
    if (dim >= self->rank())
      return std::nullopt;
  return permuted(*self, order);
}

Shapes size_rules::select(const SizeCall &c) {
  const SymbolicShape *self = c.tensor();
  auto index = c.size("index");
  if (!self || !index)
    return std::nullopt;
  auto dim = c.dim("dim", self->rank());
  if (!dim)
    return std::nullopt;
  const SizePolynomial &size = self->sizes[*dim];
  SizePolynomial at = *index;
  if (c.facts.evaluate(at) < 0) {
    if (!c.facts.requireNotNegative(SizePolynomial(-1) - at))
      return std::nullopt;
    at = at + size;
  }
  if (!c.facts.requireNotNegative(at) ||
      !c.facts.requireNotNegative(size - at - 1))
    return std::nullopt;
  SymbolicShape shown = *self;
  shown.start = at;
  shown.offset = self->offset + at * self->strides[*dim];
  shown.sizes.erase(shown.sizes.begin() + *dim);
  shown.strides.erase(shown.strides.begin() + *dim);
  return one(shown);
}

/// Part of a dimension.
static SymbolicShape part(const SymbolicShape &self, unsigned dim,
                          const SizePolynomial &start,
                          const SizePolynomial &length, int64_t step) {
  SymbolicShape shown = self;
  shown.start = start;
  shown.offset = self.offset + start * self.strides[dim];
  shown.sizes[dim] = length;
  shown.strides[dim] = self.strides[dim] * step;
  return shown;
}

/// A bound of a slice, wrapped and clamped as it was in the recorded run.
static std::optional<SizePolynomial>
bound(SizePolynomial at, const SizePolynomial &size, SizeFacts &facts) {
  if (facts.evaluate(at) < 0) {
    if (!facts.requireNotNegative(SizePolynomial(-1) - at))
      return std::nullopt;
    at = at + size;
    if (facts.evaluate(at) < 0)
      return facts.requireNotNegative(SizePolynomial(-1) - at)
                 ? std::optional<SizePolynomial>(0)
                 : std::nullopt;
  }
  if (!facts.requireNotNegative(at))
    return std::nullopt;
  bool over = facts.evaluate(at) > facts.evaluate(size);
  if (!facts.requireNotNegative(over ? at - size : size - at))
    return std::nullopt;
  return over ? size : at;
}

Shapes size_rules::slice(const SizeCall &c) {
  const SymbolicShape *self = c.tensor();
  if (!self || self->rank() == 0)
    return std::nullopt;
  auto dim = c.dim("dim", self->rank(), 0);
  auto step = c.isNone("step") ? std::optional<int64_t>(1) : c.integer("step");
  if (!dim || !step || *step < 1)
    return std::nullopt;
  const SizePolynomial &size = self->sizes[*dim];
  std::optional<SizePolynomial> start = SizePolynomial(0), end = size;
  if (!c.isNone("start"))
    if (start = c.size("start"); start)
      start = bound(*start, size, c.facts);
  if (!c.isNone("end"))
    if (end = c.size("end"); end)
      end = bound(*end, size, c.facts);
  if (!start || !end)
    return std::nullopt;
  SizePolynomial length = *end - *start;
  if (c.facts.evaluate(length) <= 0) {
    if (!c.facts.requireNotNegative(SizePolynomial(0) - length))
      return std::nullopt;
    length = 0;
  } else if (*step != 1) {
    auto count = c.facts.floorDivide(length + (*step - 1), *step);
    if (!count)
      return std::nullopt;
    length = *count;
  }
  return one(part(*self, *dim, *start, length, *step));
}

Shapes size_rules::narrow(const SizeCall &c) {
  const SymbolicShape *self = c.tensor();
  auto start = c.size("start"), length = c.size("length");
  if (!self || !start || !length)
    return std::nullopt;
  auto dim = c.dim("dim", self->rank());
  if (!dim || !c.facts.requireNotNegative(*start) ||
      !c.facts.requireNotNegative(*length) ||
      !c.facts.requireNotNegative(self->sizes[*dim] - *start - *length))
    return std::nullopt;
  return one(part(*self, *dim, *start, *length, 1));
}

Shapes size_rules::split(const SizeCall &c) {
  const SymbolicShape *self = c.tensor();
  auto each = c.size("split_size");
  if (!self || !each)
    return std::nullopt;
  auto dim = c.dim("dim", self->rank(), 0);
  if (!dim)
    return std::nullopt;
  SymbolicShapes shapes;
  unsigned count = c.op.getNumFresh();
  SizePolynomial start = 0;
  for (unsigned i = 0; i < count; ++i) {
    SizePolynomial length = *each;
    if (i + 1 == count) {
      length = self->sizes[*dim] - start;
      if (!c.facts.requireNotNegative(length - 1) ||
          !c.facts.requireNotNegative(*each - length))
        return std::nullopt;
    }
    shapes.push_back(part(*self, *dim, start, length, 1));
    start = start + *each;
  }
  return shapes;
}

Shapes size_rules::splitWithSizes(const SizeCall &c) {
  const SymbolicShape *self = c.tensor();
  auto lengths = c.sizes("split_sizes");
  if (!self || !lengths)
    return std::nullopt;
  auto dim = c.dim("dim", self->rank(), 0);
  if (!dim)
    return std::nullopt;
  SymbolicShapes shapes;
  SizePolynomial start = 0;
  for (const SizePolynomial &length : *lengths) {
    if (!c.facts.requireNotNegative(length))
      return std::nullopt;
    shapes.push_back(part(*self, *dim, start, length, 1));
    start = start + length;
  }
  if (!c.facts.requireEqual(start, self->sizes[*dim]))
    return std::nullopt;
  return shapes;
}

Shapes size_rules::unbind(const SizeCall &c) {
  const SymbolicShape *self = c.tensor();
  if (!self)
    return std::nullopt;
  auto dim = c.dim("dim", self->rank(), 0);
  unsigned count = c.op.getNumFresh();
  if (!dim ||
      !c.facts.requireEqual(self->sizes[*dim],
                            SizePolynomial(static_cast<int64_t>(count))))
    return std::nullopt;
  SymbolicShapes shapes;
  for (unsigned i = 0; i < count; ++i) {
    SymbolicShape shown = *self;
    shown.offset = self->offset + self->strides[*dim] *
                                      SizePolynomial(static_cast<int64_t>(i));
    shown.sizes.erase(shown.sizes.begin() + *dim);
    shown.strides.erase(shown.strides.begin() + *dim);
    shapes.push_back(shown);
  }
  return shapes;
}

Shapes size_rules::unsqueeze(const SizeCall &c) {
  const SymbolicShape *self = c.tensor();
  if (!self)
    return std::nullopt;
  auto dim = c.dim("dim", self->rank() + 1);
  if (!dim)
    return std::nullopt;
  SymbolicShape shown = *self;
  SizePolynomial stride = *dim < self->rank()
                              ? self->sizes[*dim] * self->strides[*dim]
                              : SizePolynomial(1);
  shown.sizes.insert(shown.sizes.begin() + *dim, SizePolynomial(1));
  shown.strides.insert(shown.strides.begin() + *dim, stride);
  return one(shown);
}

Shapes size_rules::squeeze(const SizeCall &c) {
  const SymbolicShape *self = c.tensor();
  if (!self)
    return std::nullopt;
  SmallVector<int64_t> dims;
  bool every = c.info->findArgument("dim") < 0;
  if (!every) {
    auto given = c.integers("dim");
    if (!given)
      return std::nullopt;
    for (int64_t dim : *given)
      dims.push_back(dim < 0 ? dim + self->rank() : dim);
  }
  SymbolicShape shown;
  shown.offset = self->offset;
  for (unsigned i = 0; i < self->rank(); ++i) {
    if (self->sizes[i] == SizePolynomial(1) &&
        (every || llvm::is_contained(dims, int64_t(i))))
      continue;
    shown.sizes.push_back(self->sizes[i]);
    shown.strides.push_back(self->strides[i]);
  }
  return one(shown);
}

Shapes size_rules::expand(const SizeCall &c) {
  const SymbolicShape *self = c.tensor();
  std::optional<SizePolynomials> sizes;
  if (const SymbolicShape *other = c.tensor("other"))
    sizes = other->sizes;
  else
    sizes = c.sizes("size");
  if (!self || !sizes || sizes->size() < self->rank())
    return std::nullopt;
  unsigned ahead = sizes->size() - self->rank();
  SymbolicShape shown;
  shown.offset = self->offset;
  shown.sizes.resize(sizes->size());
  shown.strides.resize(sizes->size());
  if (self->rank() == 0) { // all strides are zero, as in ATen
    for (auto [i, size] : llvm::enumerate(*sizes)) {
      if (!c.facts.requireNotNegative(size))
        return std::nullopt;
      shown.sizes[i] = size;
    }
    return one(shown);
  }
  for (unsigned i = sizes->size(); i-- > 0;) {
    bool isNew = i < ahead;
    SizePolynomial size = isNew ? SizePolynomial(1) : self->sizes[i - ahead];
    SizePolynomial stride = !isNew ? self->strides[i - ahead]
                            : i + 1 < sizes->size()
                                ? shown.sizes[i + 1] * shown.strides[i + 1]
                                : SizePolynomial(1);
    SizePolynomial wanted = (*sizes)[i];
    if (wanted == SizePolynomial(-1)) {
      if (isNew)
        return std::nullopt;
      wanted = size;
    }
    if (size == SizePolynomial(1) && wanted != SizePolynomial(1)) {
      if (!c.facts.requireNotNegative(wanted))
        return std::nullopt;
      stride = 0;
      size = wanted;
    } else if (!c.facts.requireEqual(size, wanted)) {
      return std::nullopt;
    }
    shown.sizes[i] = size;
    shown.strides[i] = stride;
  }
  return one(shown);
}

/// Shown as numbers of another type, the elements are copied: their order has
/// to be the sizes' own (see convertRetyped).
static Shapes retyped(SymbolicShape shown) {
  SizePolynomial stride = 1;
  for (unsigned i = shown.rank(); i-- > 0;) {
    if (shown.strides[i] != stride)
      return std::nullopt;
    stride = stride * shown.sizes[i];
  }
  return one(std::move(shown));
}

Shapes size_rules::viewAsComplex(const SizeCall &c) {
  const SymbolicShape *self = c.tensor();
  if (!self || self->rank() == 0 || self->sizes.back() != SizePolynomial(2))
    return std::nullopt;
  SymbolicShape shown = *self;
  shown.sizes.pop_back();
  shown.strides.pop_back();
  for (SizePolynomial &stride : shown.strides) {
    auto half = stride.divide(2);
    if (!half)
      return std::nullopt;
    stride = *half;
  }
  auto offset = self->offset.divide(2);
  if (!offset)
    return std::nullopt;
  shown.offset = *offset;
  return retyped(std::move(shown));
}

Shapes size_rules::viewAsReal(const SizeCall &c) {
  const SymbolicShape *self = c.tensor();
  if (!self)
    return std::nullopt;
  SymbolicShape shown = *self;
  shown.offset = self->offset * 2;
  for (SizePolynomial &stride : shown.strides)
    stride = stride * 2;
  shown.sizes.push_back(2);
  shown.strides.push_back(1);
  return retyped(std::move(shown));
}

//===----------------------------------------------------------------------===//
// The same elements in other sizes
//===----------------------------------------------------------------------===//

/// As at::detail::computeStride does it.
std::optional<SizePolynomials>
refgraph::inferViewStrides(const SymbolicShape &source,
                           ArrayRef<SizePolynomial> sizes, SizeFacts &facts) {
  SizePolynomials strides(sizes.size(), SizePolynomial(1));
  if (source.rank() == 0)
    return strides;
  // Of what is empty, eager keeps or normalises the strides by rules that do
  // not matter here.
  if (facts.evaluate(source.numElements()) == 0)
    return std::nullopt;
  SizePolynomial step = source.strides.back(), taken = 1, given = 1;
  int64_t at = static_cast<int64_t>(sizes.size()) - 1;
  for (int64_t dim = source.rank() - 1; dim >= 0; --dim) {
    taken = taken * source.sizes[dim];
    if (dim > 0 && (source.sizes[dim - 1] == SizePolynomial(1) ||
                    source.strides[dim - 1] == taken * step))
      continue;
    // Equal by chance in the recorded run: not in the next one.
    if (dim > 0 && facts.evaluate(source.strides[dim - 1]) ==
                       facts.evaluate(taken * step)) {
      if (!facts.requireEqual(source.strides[dim - 1], taken * step))
        return std::nullopt;
      continue;
    }
    while (at >= 0 && (facts.evaluate(given) < facts.evaluate(taken) ||
                       sizes[at] == SizePolynomial(1))) {
      strides[at] = given * step;
      given = given * sizes[at--];
    }
    if (!facts.requireEqual(given, taken))
      return std::nullopt;
    if (dim > 0) {
      step = source.strides[dim - 1];
      taken = given = 1;
    }
  }
  if (at >= 0)
    return std::nullopt;
  return strides;
}

/// Of all sizes but the one that is left open.
static SizePolynomial productOf(ArrayRef<SizePolynomial> sizes) {
  SizePolynomial product = 1;
  for (const SizePolynomial &size : sizes)
    if (size != SizePolynomial(-1))
      product = product * size;
  return product;
}

/// `mask.view(batch, -1)`, of a batch that is another tensor's: where a size of
/// a view is as large as a dimension of `source`, the one at its place first,
/// they are required to be equal, and the view's is that dimension's.
static void requireDimensions(const SymbolicShape &source,
                              MutableArrayRef<SizePolynomial> sizes,
                              SizeFacts &facts) {
  for (auto [at, size] : llvm::enumerate(sizes)) {
    if (size.isConstant() || llvm::is_contained(source.sizes, size))
      continue;
    int64_t wanted = facts.evaluate(size);
    auto isAlike = [&](const SizePolynomial &dimension) {
      return facts.evaluate(dimension) == wanted;
    };
    const SizePolynomial *found =
        at < source.rank() && isAlike(source.sizes[at])
            ? &source.sizes[at]
            : llvm::find_if(source.sizes, isAlike);
    if (found != source.sizes.end() && facts.requireEqual(*found, size))
      size = *found;
  }
}

std::optional<SizePolynomials> refgraph::resolveViewSizes(const SizeCall &c) {
  const SymbolicShape *self = c.tensor();
  if (!self)
    return std::nullopt;
  SizePolynomial count = self->numElements();
  if (c.rule == operators::SizeRule::Flatten) {
    if (self->rank() == 0)
      return SizePolynomials{SizePolynomial(1)};
    auto start = c.dim("start_dim", self->rank(), 0);
    auto end = c.dim("end_dim", self->rank(), -1);
    if (!start || !end || *end < *start)
      return std::nullopt;
    SizePolynomials sizes(ArrayRef(self->sizes).take_front(*start));
    SizePolynomial joined = 1;
    for (unsigned i = *start; i <= *end; ++i)
      joined = joined * self->sizes[i];
    sizes.push_back(joined);
    sizes.append(self->sizes.begin() + *end + 1, self->sizes.end());
    return sizes;
  }
  bool unflattens = c.rule == operators::SizeRule::Unflatten;
  std::optional<SizePolynomials> sizes;
  if (const SymbolicShape *other = c.tensor("other"))
    sizes = other->sizes;
  else if (unflattens)
    sizes = c.sizes("sizes");
  else
    sizes = c.sizes(c.rule == operators::SizeRule::Reshape ? "shape" : "size");
  if (!sizes)
    return std::nullopt;
  unsigned at = 0;
  if (unflattens) {
    auto dim = c.dim("dim", self->rank());
    if (!dim)
      return std::nullopt;
    at = *dim;
    count = self->sizes[at];
  }
  SizePolynomial *open = nullptr;
  for (SizePolynomial &size : *sizes) {
    if (size == SizePolynomial(-1) && !open)
      open = &size;
    else if (!c.facts.requireNotNegative(size))
      return std::nullopt;
  }
  SizePolynomial product = productOf(*sizes);
  if (open) {
    auto rest = count.divide(product);
    if (!rest) {
      requireDimensions(*self, *sizes, c.facts);
      rest = count.divide(productOf(*sizes));
    }
    if (!rest)
      return std::nullopt;
    *open = *rest;
  } else if (!c.facts.requireEqual(count, product)) {
    return std::nullopt;
  }
  if (!unflattens)
    return sizes;
  SizePolynomials whole(ArrayRef(self->sizes).take_front(at));
  whole.append(sizes->begin(), sizes->end());
  whole.append(self->sizes.begin() + at + 1, self->sizes.end());
  return whole;
}

/// Whether no view shows `source` in other sizes, now or in any call. A view
/// has to be split where dimensions of `source` do not lie behind one another;
/// of one such place it is required that no dimension of the view begins there.
static bool requireNoView(const SymbolicShape &source,
                          ArrayRef<SizePolynomial> sizes, SizeFacts &facts) {
  SizePolynomials places{SizePolynomial(1)};
  for (const SizePolynomial &size : llvm::reverse(sizes))
    places.push_back(places.back() * size);
  bool found = false;
  SizePolynomial step = source.rank() ? source.strides.back() : 1;
  SizePolynomial chunk = 1, taken = 1;
  for (unsigned dim = source.rank(); dim-- > 1;) {
    chunk = chunk * source.sizes[dim];
    taken = taken * source.sizes[dim];
    const SizePolynomial &next = source.strides[dim - 1];
    if (source.sizes[dim - 1] == SizePolynomial(1) || next == chunk * step)
      continue;
    if (!facts.requireDifferent(next, chunk * step))
      return false;
    auto differs = [&](const SizePolynomial &place) {
      return facts.evaluate(place) != facts.evaluate(taken);
    };
    if (!found && llvm::all_of(places, differs)) {
      found = true;
      for (const SizePolynomial &place : places)
        facts.requireDifferent(place, taken);
    }
    step = next;
    chunk = 1;
  }
  return found;
}

Shapes size_rules::view(const SizeCall &c) {
  const SymbolicShape *self = c.tensor();
  auto sizes = resolveViewSizes(c);
  if (!self || !sizes || c.op.getNumFresh() != 1)
    return std::nullopt;
  SymbolicShape shown{*sizes, {}, 0};
  // `reshape` copies what no view can show.
  if (c.op.getAliases().empty() && c.rule != operators::SizeRule::UnsafeView) {
    if (!requireNoView(*self, *sizes, c.facts))
      return std::nullopt;
    return one(shown);
  }
  auto strides = inferViewStrides(*self, *sizes, c.facts);
  if (!strides)
    return std::nullopt;
  shown.strides = *strides;
  shown.offset = self->offset;
  return one(shown);
}

Shapes size_rules::unsafeView(const SizeCall &c) { return view(c); }
Shapes size_rules::reshape(const SizeCall &c) { return view(c); }
Shapes size_rules::flatten(const SizeCall &c) { return view(c); }
Shapes size_rules::unflatten(const SizeCall &c) { return view(c); }
