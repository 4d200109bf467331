//===- SizeLayouts.cpp - Strides of tensors whose sizes are symbols -------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "dialects/refgraph/Transforms/SizeLifter.h"

using namespace mlir;
using namespace pyjit;
using namespace pyjit::refgraph;

SymbolicShape SizeLifter::constantShape(refgraph::TensorType type) const {
  SymbolicShape shape;
  for (unsigned i = 0; i < type.getRank(); ++i) {
    shape.sizes.push_back(type.getShape()[i]);
    shape.strides.push_back(type.getStrides()[i]);
  }
  return shape;
}

/// Strides from the recorded ones: a stride that was what the dimensions below
/// it span follows from them. `dense`: of a fresh tensor, so they all are.
/// Other strides keep their values, or are symbols of their own where `read`
/// lifts them (`z[:, :-1]`, whose rows lie further apart than they are long).
bool SizeLifter::order(SymbolicShape &shape, refgraph::TensorType recorded,
                       bool dense, GetOp read) {
  ArrayRef<int64_t> lifted =
      read ? read.getLiftStrides().value_or(ArrayRef<int64_t>())
           : ArrayRef<int64_t>();
  unsigned rank = shape.rank();
  auto dims = llvm::to_vector(llvm::seq<unsigned>(0, rank));
  ArrayRef<int64_t> sizes = recorded.getShape(),
                    strides = recorded.getStrides();
  llvm::stable_sort(dims, [&](unsigned a, unsigned b) {
    if (strides[a] != strides[b])
      return strides[a] < strides[b];
    // Of equal strides, the one of a size of one lies within the other.
    if ((sizes[a] == 1) != (sizes[b] == 1))
      return sizes[a] == 1;
    return a > b;
  });
  shape.strides.assign(rank, SizePolynomial(0));
  SizePolynomial span = 1;
  SmallVector<SizePolynomial> spans{span};
  for (unsigned dim : dims) {
    int64_t stride = strides[dim];
    const auto *found = llvm::find_if(llvm::reverse(spans), [&](auto &known) {
                          return evaluate(known) == stride;
                        }).base();
    bool known = found != spans.begin();
    if (sizes[dim] == 1) {
      if (!known && dense && stride != 1)
        return false;
      shape.strides[dim] = known ? *std::prev(found) : SizePolynomial(stride);
      continue;
    }
    bool packed = evaluate(span) == stride;
    if (dense && !packed)
      return false;
    shape.strides[dim] =
        packed ? span
        : llvm::is_contained(lifted, dim)
            ? getSymbol({Source::Stride, read.getResult(), dim}, stride)
            : SizePolynomial(stride);
    if (stride != 0) {
      // Of nothing, Torch's strides are those of one.
      span = sizes[dim] == 0 ? shape.strides[dim]
                             : shape.strides[dim] * shape.sizes[dim];
      spans.push_back(span);
    }
  }
  return true;
}

/// Eager's choices depend on which dimensions lie packed within which, and on
/// whether elements overlap: that stays as it was.
bool SizeLifter::lookAtStrides(const SymbolicShape &shape) {
  SmallVector<unsigned> dims;
  for (unsigned i = 0; i < shape.rank(); ++i)
    if (shape.sizes[i] != SizePolynomial(1) &&
        shape.strides[i] != SizePolynomial(0))
      dims.push_back(i);
  llvm::stable_sort(dims, [&](unsigned a, unsigned b) {
    return evaluate(shape.strides[a]) < evaluate(shape.strides[b]);
  });
  SizePolynomial span = 1;
  for (auto [i, dim] : llvm::enumerate(dims)) {
    const SizePolynomial &stride = shape.strides[dim];
    int64_t gap = evaluate(stride) - evaluate(span);
    if (stride != span && !(gap == 0  ? requireEqual(stride, span)
                            : gap > 0 ? requireNotNegative(stride - span - 1)
                                      : requireNotNegative(span - stride - 1)))
      return false;
    if (i > 0 && !requireNotNegative(stride - shape.strides[dims[i - 1]]))
      return false;
    span = stride * shape.sizes[dim];
  }
  return true;
}

/// Makes a shape complete and confirms it by what was recorded.
bool SizeLifter::settle(SymbolicShape &shape, refgraph::TensorType recorded) {
  if (shape.rank() != recorded.getRank())
    return false;
  for (unsigned i = 0; i < shape.rank(); ++i) {
    shape.sizes[i] = solver.resolve(shape.sizes[i]);
    if (evaluate(shape.sizes[i]) != recorded.getShape()[i])
      return false;
  }
  bool fresh = shape.strides.empty();
  if (fresh && !order(shape, recorded, /*dense=*/true))
    return false;
  for (unsigned i = 0; i < shape.rank(); ++i) {
    shape.strides[i] = solver.resolve(shape.strides[i]);
    if (evaluate(shape.strides[i]) != recorded.getStrides()[i])
      return false;
  }
  shape.offset = solver.resolve(shape.offset);
  if (!shape.isSymbolic())
    return true;
  for (const SizePolynomial &size : shape.sizes)
    if (!size.isConstant() && !requireNotNegative(size - 2))
      return false;
  return fresh || lookAtStrides(shape);
}

/// Whether it is as contiguous in every call as it was in the recorded one.
bool SizeLifter::staysContiguous(const SymbolicShape &shape) {
  SizePolynomial span = 1;
  for (unsigned i = shape.rank(); i-- > 0;) {
    // A symbol is no one.
    if (shape.sizes[i] != SizePolynomial(1) && shape.strides[i] != span)
      return evaluate(shape.strides[i]) != evaluate(span) &&
             requireDifferent(shape.strides[i], span);
    span = span * shape.sizes[i];
  }
  return true;
}

void SizeLifter::visitLayout(LayoutOp op) {
  const SymbolicShape &shape = shapes[op.getTensor()];
  if (!shape.isSymbolic())
    return;
  StringRef question = op.getQuestion();
  if (question == "contiguous" && staysContiguous(shape))
    return;
  why = question == "contiguous" ? "Python asked for its layout"
        : question == "all"
            ? "Python asked for more of it than sizes"
            : (question + " may compute other sizes from it").str();
  specialize(SymbolicShape(shape));
}
