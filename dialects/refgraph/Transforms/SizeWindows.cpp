//===- SizeWindows.cpp - Sizes that windows go over -----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Convolutions, pools, resizing. How many windows there are is rounded: a
// quotient is a symbol of its own (SizeLifter.h).
//
//===----------------------------------------------------------------------===//

#include "dialects/refgraph/Transforms/SizeRules.h"
#include "pyjit/Operators/OperatorNames.h"

using namespace mlir;
using namespace pyjit;
using namespace pyjit::refgraph;

using Shapes = std::optional<SymbolicShapes>;

/// The sizes from dimension `first` on keep their values.
bool refgraph::fixSizes(const SizeCall &c, const SymbolicShape *x,
                        unsigned first) {
  for (unsigned i = first; i < x->rank(); ++i)
    if (!c.facts.requireRecorded(x->sizes[i]))
      return false;
  return true;
}

/// An operator that works on the last dimensions, from number `copied` on,
/// whose sizes keep their values; results have those before them too.
std::optional<SymbolicShapes>
refgraph::leading(const SizeCall &c, const SymbolicShape *x, unsigned copied) {
  if (!x || x->rank() < copied || !fixSizes(c, x, copied))
    return std::nullopt;
  SymbolicShapes shapes;
  for (unsigned r = 0; r < c.op.getNumFresh(); ++r) {
    refgraph::TensorType type = c.resultType(r);
    if (type.getRank() < copied)
      return std::nullopt;
    SizePolynomials sizes(ArrayRef(x->sizes).take_front(copied));
    for (unsigned i = copied; i < type.getRank(); ++i)
      sizes.push_back(type.getShape()[i]);
    shapes.push_back(fresh(sizes));
  }
  return shapes;
}

/// What windows go over: one number for each dimension, or one for all.
struct Windows {
  SmallVector<int64_t> kernel, stride, padding, dilation;
  bool ceil = false;

  /// How many there are along a dimension of that size.
  std::optional<SizePolynomial> count(SizeFacts &facts, unsigned i,
                                      const SizePolynomial &size) const {
    int64_t span = dilation[i] * (kernel[i] - 1) + 1, step = stride[i];
    SizePolynomial room = size + (2 * padding[i] - span);
    if (step < 1 || !facts.requireNotNegative(room))
      return std::nullopt;
    auto steps = facts.floorDivide(ceil ? room + (step - 1) : room, step);
    if (!steps || !ceil)
      return steps ? std::optional(*steps + 1) : std::nullopt;
    // The last one does not begin behind the dimension and its first margin.
    SizePolynomial behind = *steps * step - size - padding[i];
    bool skips = facts.evaluate(behind) >= 0;
    if (!facts.requireNotNegative(skips ? behind : SizePolynomial(-1) - behind))
      return std::nullopt;
    return skips ? *steps : *steps + 1;
  }
};

/// The ints of an argument; `otherwise` where there is none.
static bool read(const SizeCall &c, StringRef argument, unsigned count,
                 ArrayRef<int64_t> otherwise, SmallVectorImpl<int64_t> &into) {
  auto given = c.integers(argument);
  if (!given && c.info->findArgument(argument) >= 0)
    return false;
  into.assign(otherwise.begin(), otherwise.end());
  if (given && !given->empty())
    into.assign(given->begin(), given->end());
  if (into.size() == 1)
    into.resize(count, into[0]);
  return into.size() == count;
}

/// Sizes of a convolution's result from dimension `first` on.
static std::optional<SizePolynomials> convolve(const SizeCall &c,
                                               const SymbolicShape *x,
                                               const SymbolicShape *w,
                                               unsigned first) {
  unsigned count = w->rank() - 2;
  Windows windows;
  SmallVector<int64_t> extra;
  bool transposed =
      c.isTrue("transposed") || c.rule == operators::SizeRule::ConvTranspose;
  for (unsigned i = 0; i < count; ++i)
    windows.kernel.push_back(c.facts.evaluate(w->sizes[2 + i]));
  if (!read(c, "stride", count, {1}, windows.stride) ||
      !read(c, "padding", count, {0}, windows.padding) ||
      !read(c, "dilation", count, {1}, windows.dilation) ||
      !read(c, "output_padding", count, {0}, extra))
    return std::nullopt;
  SizePolynomials sizes;
  for (unsigned i = 0; i < count; ++i) {
    const SizePolynomial &size = x->sizes[first + i];
    if (!transposed) {
      auto shown = windows.count(c.facts, i, size);
      if (!shown)
        return std::nullopt;
      sizes.push_back(*shown);
      continue;
    }
    int64_t more = windows.dilation[i] * (windows.kernel[i] - 1) -
                   2 * windows.padding[i] + extra[i] + 1;
    sizes.push_back((size - 1) * windows.stride[i] + more);
    if (!c.facts.requireNotNegative(sizes.back() - 1))
      return std::nullopt;
  }
  return sizes;
}

Shapes size_rules::convolution(const SizeCall &c) {
  const SymbolicShape *x = c.tensor("input"), *w = c.tensor("weight"),
                      *bias = c.tensor("bias");
  if (!x)
    x = c.tensor();
  if (!x || !w || w->isSymbolic() || (bias && bias->isSymbolic()))
    return std::nullopt;
  // Without a batch, the first dimension is the channels'.
  unsigned batch = x->rank() == w->rank() ? 1 : 0;
  if (x->rank() + 1 - batch == w->rank() && w->rank() > 2 &&
      c.op.getNumFresh() == 1 && c.resultType(0).getRank() == x->rank()) {
    if (auto spatial = convolve(c, x, w, batch + 1)) {
      if (!c.facts.requireRecorded(x->sizes[batch]))
        return std::nullopt;
      SizePolynomials sizes(ArrayRef(x->sizes).take_front(batch));
      sizes.push_back(c.resultType(0).getShape()[batch]);
      sizes.append(spatial->begin(), spatial->end());
      return allResults(c, sizes);
    }
  }
  return leading(c, x, batch);
}

Shapes size_rules::convTranspose(const SizeCall &c) { return convolution(c); }

/// Over the last dimensions, each image by itself; their sizes stay.
template <unsigned spatial> static Shapes images(const SizeCall &c) {
  const SymbolicShape *x = c.tensor();
  if (!x || x->rank() < spatial)
    return std::nullopt;
  return leading(c, x, x->rank() - spatial);
}

/// Windows over the last dimensions.
template <unsigned spatial> static Shapes pool(const SizeCall &c) {
  const SymbolicShape *x = c.tensor();
  if (!x || x->rank() < spatial)
    return std::nullopt;
  Windows windows;
  windows.ceil = c.isTrue("ceil_mode");
  if (!read(c, "kernel_size", spatial, {}, windows.kernel) ||
      !read(c, "stride", spatial, windows.kernel, windows.stride) ||
      !read(c, "padding", spatial, {0}, windows.padding) ||
      !read(c, "dilation", spatial, {1}, windows.dilation))
    return images<spatial>(c);
  SizePolynomials sizes(ArrayRef(x->sizes).drop_back(spatial));
  for (unsigned i = 0; i < spatial; ++i) {
    auto shown = windows.count(c.facts, i, x->sizes[x->rank() - spatial + i]);
    if (!shown)
      return images<spatial>(c);
    sizes.push_back(*shown);
  }
  return allResults(c, sizes);
}

/// The last dimensions get sizes that the call was given.
template <unsigned spatial> static Shapes adaptive(const SizeCall &c) {
  const SymbolicShape *x = c.tensor();
  auto given = c.sizes("output_size");
  if (!x || x->rank() < spatial || !given || given->size() != spatial)
    return std::nullopt;
  SizePolynomials sizes(ArrayRef(x->sizes).drop_back(spatial));
  sizes.append(given->begin(), given->end());
  return allResults(c, sizes);
}

/// Likewise; a scale beside them is what they were computed with.
template <unsigned spatial> static Shapes resized(const SizeCall &c) {
  Shapes shapes = adaptive<spatial>(c);
  if (!shapes)
    return std::nullopt;
  bool scaled = llvm::any_of(
      ArrayRef<StringRef>{"scales", "scales_d", "scales_h", "scales_w"},
      [&](StringRef name) { return !c.isNone(name); });
  const SymbolicShape *x = c.tensor();
  for (unsigned i = x->rank() - spatial; scaled && i < x->rank(); ++i) {
    const SizePolynomial &size = x->sizes[i];
    auto scale = shapes->front().sizes[i].divide(size);
    if (!size.isConstant() && (!scale || !scale->isConstant()))
      return images<spatial>(c);
  }
  return shapes;
}

Shapes size_rules::pool1d(const SizeCall &c) { return pool<1>(c); }
Shapes size_rules::pool2d(const SizeCall &c) { return pool<2>(c); }
Shapes size_rules::pool3d(const SizeCall &c) { return pool<3>(c); }
Shapes size_rules::adaptive1d(const SizeCall &c) { return adaptive<1>(c); }
Shapes size_rules::adaptive2d(const SizeCall &c) { return adaptive<2>(c); }
Shapes size_rules::adaptive3d(const SizeCall &c) { return adaptive<3>(c); }
Shapes size_rules::resized1d(const SizeCall &c) { return resized<1>(c); }
Shapes size_rules::resized2d(const SizeCall &c) { return resized<2>(c); }
Shapes size_rules::resized3d(const SizeCall &c) { return resized<3>(c); }

//===----------------------------------------------------------------------===//
// Pixels, windows and diagonals of given sizes
//===----------------------------------------------------------------------===//

/// Channels become rows and columns, `by` of each.
Shapes size_rules::pixelShuffle(const SizeCall &c) {
  const SymbolicShape *x = c.tensor();
  auto by = c.integer("upscale_factor");
  if (!x || !by || *by < 1 || x->rank() < 3)
    return std::nullopt;
  SizePolynomials sizes = x->sizes;
  SizePolynomial &channels = sizes[x->rank() - 3];
  auto fewer = channels.divide(*by * *by);
  if (!fewer)
    return ::images<3>(c);
  channels = *fewer;
  for (unsigned i = x->rank() - 2; i < x->rank(); ++i)
    sizes[i] = sizes[i] * *by;
  return allResults(c, sizes);
}

/// Rows and columns become channels: they are multiples.
Shapes size_rules::pixelUnshuffle(const SizeCall &c) {
  const SymbolicShape *x = c.tensor();
  auto by = c.integer("downscale_factor");
  if (!x || !by || *by < 1 || x->rank() < 3)
    return std::nullopt;
  SizePolynomials sizes = x->sizes;
  sizes[x->rank() - 3] = sizes[x->rank() - 3] * (*by * *by);
  for (unsigned i = x->rank() - 2; i < x->rank(); ++i) {
    auto fewer = c.facts.floorDivide(sizes[i], *by);
    if (!fewer || !c.facts.requireEqual(*fewer * *by, sizes[i]))
      return ::images<3>(c);
    sizes[i] = *fewer;
  }
  return allResults(c, sizes);
}

/// Whether gradients flow in the call, or leave it.
static bool hasGradients(TensorOp op) {
  auto trace = op->getParentOfType<TraceOp>();
  return !trace ||
         trace
             .walk([](Operation *inner) {
               auto call = dyn_cast<TensorOp>(inner);
               bool found =
                   isa<DifferentiableOp>(inner) ||
                   (call && call.getOverload() == operators::pyjit::backward);
               return found ? WalkResult::interrupt() : WalkResult::advance();
             })
             .wasInterrupted();
}

/// Windows over a dimension, in a dimension of their own. Where they overlap,
/// their gradients add up at places that are numbers: no size may differ.
Shapes size_rules::unfold(const SizeCall &c) {
  const SymbolicShape *x = c.tensor();
  auto length = c.integer("size"), step = c.integer("step");
  if (!x || x->rank() == 0 || !length || !step || *length < 1 || *step < 1)
    return std::nullopt;
  auto dim = c.dim("dimension", x->rank());
  if (!dim)
    return std::nullopt;
  const SizePolynomial &size = x->sizes[*dim];
  if (hasGradients(c.op) && (*step < *length || !c.facts.requireRecorded(size)))
    return std::nullopt;
  auto steps = c.facts.requireNotNegative(size - *length)
                   ? c.facts.floorDivide(size - *length, *step)
                   : std::nullopt;
  if (!steps)
    return std::nullopt;
  SymbolicShape shown = *x;
  shown.start.reset();
  shown.sizes[*dim] = *steps + 1;
  shown.strides[*dim] = x->strides[*dim] * *step;
  shown.sizes.push_back(*length);
  shown.strides.push_back(x->strides[*dim]);
  return SymbolicShapes{shown};
}

/// How long a diagonal is follows from two sizes: where they are one, it is
/// that, else they keep their values.
Shapes size_rules::diagonal(const SizeCall &c) {
  const SymbolicShape *x = c.tensor();
  auto offset =
      c.isNone("offset") ? std::optional<int64_t>(0) : c.integer("offset");
  if (!x || x->rank() < 2 || !offset)
    return std::nullopt;
  auto rows = c.dim("dim1", x->rank(), 0),
       columns = c.dim("dim2", x->rank(), 1);
  if (!rows || !columns || *rows == *columns)
    return std::nullopt;
  int64_t down = std::max<int64_t>(0, -*offset),
          right = std::max<int64_t>(0, *offset);
  SizePolynomial length = x->sizes[*rows] - std::max(down, right);
  if (x->sizes[*rows] != x->sizes[*columns]) {
    if (!c.facts.requireRecorded(x->sizes[*rows]) ||
        !c.facts.requireRecorded(x->sizes[*columns]))
      return std::nullopt;
    length = std::min(c.facts.evaluate(x->sizes[*rows]) - down,
                      c.facts.evaluate(x->sizes[*columns]) - right);
  }
  if (c.facts.evaluate(length) < 1 || !c.facts.requireNotNegative(length - 1))
    return std::nullopt;
  SymbolicShape shown;
  shown.offset =
      x->offset + x->strides[*rows] * down + x->strides[*columns] * right;
  for (unsigned i = 0; i < x->rank(); ++i)
    if (i != *rows && i != *columns) {
      shown.sizes.push_back(x->sizes[i]);
      shown.strides.push_back(x->strides[i]);
    }
  shown.sizes.push_back(length);
  shown.strides.push_back(x->strides[*rows] + x->strides[*columns]);
  return SymbolicShapes{shown};
}
