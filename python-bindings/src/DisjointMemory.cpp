//===- DisjointMemory.cpp - Tensors that share no memory ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "DisjointMemory.h"

#include "capture/tensors/TensorObject.h"

#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <numeric>

namespace pyjit::python {

bool DisjointMemory::check(const uint32_t *list, uint32_t count,
                           uint32_t written,
                           const std::vector<PyObject *> &registers) {
  if (ranges.size() != count) {
    ranges.resize(count);
    for (uint32_t i = 0; i < count; ++i)
      ranges[i].number = i;
  }
  for (Range &range : ranges) {
    PyObject *object = registers[list[range.number]];
    if (!capture::isTensorObject(object))
      return false;
    const c10::TensorImpl *tensor =
        THPVariable_Unpack(object).unsafeGetTensorImpl();
    int64_t last = tensor->numel() ? 1 : 0;
    if (last)
      for (int64_t i = 0; i < tensor->dim(); ++i)
        last += (tensor->size(i) - 1) * tensor->stride(i);
    range.begin = reinterpret_cast<uintptr_t>(tensor->data());
    range.end = range.begin + last * tensor->itemsize();
  }
  if (!std::is_sorted(ranges.begin(), ranges.end()))
    std::sort(ranges.begin(), ranges.end());
  // A range overlaps an earlier one where that ends behind its begin; empty
  // ones come before what begins with them.
  uintptr_t writtenEnd = 0, readEnd = 0;
  for (const Range &range : ranges) {
    bool isWritten = range.number < written;
    if (writtenEnd > range.begin || (isWritten && readEnd > range.begin))
      return false;
    uintptr_t &end = isWritten ? writtenEnd : readEnd;
    end = std::max(end, range.end);
  }
  return true;
}

} // namespace pyjit::python
