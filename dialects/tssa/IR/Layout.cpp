//===- Layout.cpp - strides of tensor types -------------------------------===//

#include "ViewRules.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace pyjit::tssa;
using namespace pyjit::tssa::views;

SmallVector<int64_t> pyjit::tssa::getRowMajorStrides(ArrayRef<int64_t> shape) {
  SmallVector<int64_t> strides(shape.size());
  int64_t stride = 1;
  for (int64_t i = static_cast<int64_t>(shape.size()) - 1; i >= 0; --i) {
    strides[i] = stride;
    stride *= std::max<int64_t>(shape[i], 1);
  }
  return strides;
}

SmallVector<int64_t> pyjit::tssa::getStrides(RankedTensorType type) {
  if (auto encoding = dyn_cast_or_null<StridesAttr>(type.getEncoding()))
    return llvm::to_vector(encoding.getStrides());
  return getRowMajorStrides(type.getShape());
}

RankedTensorType pyjit::tssa::getTensorType(ArrayRef<int64_t> shape,
                                            ArrayRef<int64_t> strides,
                                            Type elementType) {
  if (ArrayRef<int64_t>(getRowMajorStrides(shape)) == strides)
    return RankedTensorType::get(shape, elementType);
  return RankedTensorType::get(
      shape, elementType, StridesAttr::get(elementType.getContext(), strides));
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
  if (type.getNumElements() == 0)
    return true;
  SmallVector<int64_t> strides = getStrides(type);
  int64_t expected = 1;
  for (unsigned dim : llvm::reverse(sortedDims(type.getShape(), strides))) {
    if (strides[dim] != expected)
      return false;
    expected *= type.getDimSize(dim);
  }
  return true;
}

bool pyjit::tssa::views::isNonOverlapping(ArrayRef<int64_t> shape,
                                          ArrayRef<int64_t> strides) {
  if (llvm::is_contained(shape, 0))
    return true;
  int64_t reach = 0; // largest offset of the dimensions so far
  for (unsigned dim : llvm::reverse(sortedDims(shape, strides))) {
    if (strides[dim] <= reach)
      return false;
    reach += strides[dim] * (shape[dim] - 1);
  }
  return true;
}
