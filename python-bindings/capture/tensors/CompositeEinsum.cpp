//===- CompositeEinsum.cpp - The sizes that einsum computes ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `sumproduct_pair` of ATen/native/Linear.cpp: both operands are permuted and
// reshaped to batches of matrices, [both, left, summed] and [both, summed,
// right]; their product is viewed as the dimensions that these were made of.
// Each is a run of neighbouring dimensions, in order, and ones do not matter:
// of sizes that are at least two, the three products tell the runs. What is
// summed has a size of one until the end, and is left out then.
//
//===----------------------------------------------------------------------===//

#include "tensors/Composites.h"

#include <algorithm>

using namespace pyjit;
using namespace pyjit::capture;

std::optional<Composites::Numbers>
Composites::regroup(const std::string &name, const at::Tensor &self,
                    const std::vector<int64_t> &values) {
  auto &matrices = running.back().matrices;
  Numbers own;
  for (const Computed &size : sizesOf(self))
    if (evaluate(size) != 1)
      own.push_back(size);
  if (name == operators::aten::reshape) {
    std::array<Numbers, 3> runs;
    auto next = own.begin();
    for (size_t i = 0; i < runs.size() && values.size() == runs.size(); ++i)
      for (int64_t size = 1; size < values[i] && next != own.end(); ++next) {
        runs[i].push_back(*next);
        size *= evaluate(*next);
      }
    Numbers sizes{product(runs[0]), product(runs[1]), product(runs[2])};
    if (next != own.end() || evaluate(sizes) != values)
      return std::nullopt;
    if (matrices.size() == 2)
      matrices.erase(matrices.begin());
    matrices.push_back(std::move(runs));
    return sizes;
  }
  auto spread = [&](const Numbers &parts) -> std::optional<Numbers> {
    Numbers sizes;
    auto next = parts.begin();
    for (int64_t value : values)
      sizes.push_back(value == 1 || next == parts.end() ? Computed() : *next++);
    bool known = next == parts.end() && evaluate(sizes) == values;
    return known ? std::optional(sizes) : std::nullopt;
  };
  if (auto same = spread(own))
    return same;
  if (matrices.size() != 2)
    return std::nullopt;
  Numbers parts;
  for (const Numbers *run : {&matrices[0][0], &matrices[0][1], &matrices[1][2]})
    parts.insert(parts.end(), run->begin(), run->end());
  return spread(parts);
}
