//===- Layout.cpp - sizes and strides of tensor types ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ViewKinds.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace pyjit::tssa;
using namespace pyjit::tssa::views;

static LayoutAttr layoutOf(RankedTensorType type) {
  return dyn_cast_or_null<LayoutAttr>(type.getEncoding());
}

bool pyjit::tssa::isSymbolic(RankedTensorType type) {
  return static_cast<bool>(layoutOf(type));
}

bool pyjit::tssa::hasKnownSizes(RankedTensorType type) {
  return type.hasStaticShape() || isSymbolic(type);
}

SmallVector<int64_t> pyjit::tssa::getRowMajorStrides(ArrayRef<int64_t> shape) {
  SmallVector<int64_t> strides(shape.size());
  int64_t stride = 1;
  for (int64_t i = static_cast<int64_t>(shape.size()) - 1; i >= 0; --i) {
    strides[i] = stride;
    stride *= std::max<int64_t>(shape[i], 1);
  }
  return strides;
}

SmallVector<Size> pyjit::tssa::getRowMajorStrides(ArrayRef<Size> shape) {
  SmallVector<Size> strides(shape.size());
  Size stride = 1;
  for (int64_t i = static_cast<int64_t>(shape.size()) - 1; i >= 0; --i) {
    strides[i] = stride;
    if (!shape[i].is(0))
      stride *= shape[i];
  }
  return strides;
}

SmallVector<Size> pyjit::tssa::getSizes(RankedTensorType type) {
  SmallVector<Size> sizes;
  if (LayoutAttr layout = layoutOf(type))
    llvm::append_range(sizes, layout.getSizes());
  else
    llvm::append_range(sizes, type.getShape());
  return sizes;
}

SmallVector<int64_t> pyjit::tssa::getStrides(RankedTensorType type) {
  if (auto encoding = dyn_cast_or_null<StridesAttr>(type.getEncoding()))
    return llvm::to_vector(encoding.getStrides());
  if (LayoutAttr layout = layoutOf(type)) {
    SmallVector<int64_t> strides;
    for (AffineExpr stride : layout.getStrides())
      strides.push_back(
          analysis::getConstantSize(stride).value_or(ShapedType::kDynamic));
    return strides;
  }
  return getRowMajorStrides(type.getShape());
}

SmallVector<Size> pyjit::tssa::getSymbolicStrides(RankedTensorType type) {
  SmallVector<Size> strides;
  if (LayoutAttr layout = layoutOf(type))
    llvm::append_range(strides, layout.getStrides());
  else
    llvm::append_range(strides, getStrides(type));
  return strides;
}

RankedTensorType pyjit::tssa::getTensorType(ArrayRef<int64_t> shape,
                                            ArrayRef<int64_t> strides,
                                            Type elementType) {
  if (ArrayRef<int64_t>(getRowMajorStrides(shape)) == strides)
    return RankedTensorType::get(shape, elementType);
  return RankedTensorType::get(
      shape, elementType, StridesAttr::get(elementType.getContext(), strides));
}

RankedTensorType pyjit::tssa::getSymbolicType(ArrayRef<Size> sizes,
                                              ArrayRef<Size> strides,
                                              Type elementType) {
  MLIRContext *context = elementType.getContext();
  SmallVector<int64_t> shape, plain;
  SmallVector<AffineExpr> sizeExprs, strideExprs;
  bool symbolic = false;
  auto take = [&](const Size &size, SmallVectorImpl<int64_t> &numbers,
                  SmallVectorImpl<AffineExpr> &exprs) {
    symbolic |= !size.isConstant();
    numbers.push_back(size.isConstant() ? size.constant()
                                        : ShapedType::kDynamic);
    exprs.push_back(size.toExpr(context));
  };
  for (const Size &size : sizes)
    take(size, shape, sizeExprs);
  for (const Size &stride : strides)
    take(stride, plain, strideExprs);
  if (!symbolic)
    return getTensorType(shape, plain, elementType);
  return RankedTensorType::get(
      shape, elementType, LayoutAttr::get(context, sizeExprs, strideExprs));
}

RankedTensorType pyjit::tssa::getSymbolicType(ArrayRef<AffineExpr> sizes,
                                              ArrayRef<AffineExpr> strides,
                                              Type elementType) {
  SmallVector<Size> s(sizes.begin(), sizes.end());
  SmallVector<Size> t(strides.begin(), strides.end());
  return getSymbolicType(s, t, elementType);
}

RankedTensorType pyjit::tssa::getRowMajorType(RankedTensorType type) {
  if (!isSymbolic(type))
    return RankedTensorType::get(type.getShape(), type.getElementType());
  SmallVector<Size> sizes = getSizes(type);
  return getSymbolicType(sizes, getRowMajorStrides(sizes),
                         type.getElementType());
}

SmallVector<unsigned>
pyjit::tssa::views::sortedDims(ArrayRef<int64_t> shape,
                               ArrayRef<int64_t> strides) {
  SmallVector<unsigned> dims;
  for (unsigned i = 0; i < shape.size(); ++i)
    if (shape[i] != 1)
      dims.push_back(i);
  llvm::sort(dims, [&](unsigned a, unsigned b) {
    return strides[a] != strides[b] ? strides[a] > strides[b] : a < b;
  });
  return dims;
}

bool pyjit::tssa::isDense(RankedTensorType type) {
  SmallVector<Size> sizes = getSizes(type), strides = getSymbolicStrides(type);
  if (llvm::is_contained(sizes, Size(0)))
    return true;
  // From the innermost dimension outwards: the next one begins where all
  // before it end.
  SmallVector<bool> taken(sizes.size());
  Size expected = 1;
  for (size_t found = 0; found < sizes.size();) {
    size_t before = found;
    for (size_t i = 0; i < sizes.size(); ++i) {
      if (taken[i] || (!sizes[i].is(1) && strides[i] != expected))
        continue;
      taken[i] = true;
      ++found;
      expected *= sizes[i];
    }
    if (found == before)
      return false;
  }
  return true;
}

Size pyjit::tssa::getExtent(RankedTensorType type) {
  SmallVector<Size> sizes = getSizes(type);
  if (llvm::is_contained(sizes, Size(0)))
    return 0;
  Size extent = 1;
  for (auto [size, stride] : llvm::zip(sizes, getSymbolicStrides(type)))
    extent += (size - 1) * stride;
  return extent;
}

bool pyjit::tssa::views::isNonOverlapping(ArrayRef<int64_t> shape,
                                          ArrayRef<int64_t> strides) {
  if (llvm::is_contained(shape, 0))
    return true;
  int64_t reach = 0; // largest offset of the dimensions so far
  SmallVector<unsigned> dims = sortedDims(shape, strides);
  for (unsigned dim : llvm::reverse(dims)) {
    if (strides[dim] <= reach)
      return false;
    reach += strides[dim] * (shape[dim] - 1);
  }
  return true;
}
