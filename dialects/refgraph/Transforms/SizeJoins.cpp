//===- SizeJoins.cpp - Sizes of joins, indexed reads and new tensors ------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "dialects/refgraph/Transforms/SizeRules.h"

#include <map>

using namespace mlir;
using namespace pyjit;
using namespace pyjit::refgraph;

using Shapes = std::optional<SymbolicShapes>;

//===----------------------------------------------------------------------===//
// Joins, indexed reads, writes
//===----------------------------------------------------------------------===//

Shapes size_rules::cat(const SizeCall &c) {
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
  return allResults(c, sizes);
}

Shapes size_rules::stack(const SizeCall &c) {
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
  return allResults(c, sizes);
}

Shapes size_rules::repeat(const SizeCall &c) {
  const SymbolicShape *self = c.tensor();
  auto repeats = c.sizes("repeats");
  if (!self || !repeats || repeats->size() < self->rank())
    return std::nullopt;
  SizePolynomials sizes = *repeats;
  unsigned ahead = repeats->size() - self->rank();
  for (unsigned i = 0; i < self->rank(); ++i)
    sizes[ahead + i] = sizes[ahead + i] * self->sizes[i];
  return allResults(c, sizes);
}

Shapes size_rules::pad(const SizeCall &c) {
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
  return allResults(c, sizes);
}

/// Of all elements in a row.
Shapes size_rules::take(const SizeCall &c) {
  const SymbolicShape *index = c.tensor("index");
  return index ? Shapes(allResults(c, index->sizes)) : std::nullopt;
}

Shapes size_rules::gather(const SizeCall &c) {
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
  return allResults(c, index->sizes);
}

Shapes size_rules::indexSelect(const SizeCall &c) {
  const SymbolicShape *self = c.tensor(), *index = c.tensor("index");
  if (!self || !index || self->rank() == 0 || index->rank() != 1)
    return std::nullopt;
  auto dim = c.dim("dim", self->rank());
  if (!dim)
    return std::nullopt;
  SizePolynomials sizes = self->sizes;
  sizes[*dim] = index->sizes[0];
  return allResults(c, sizes);
}

/// Rows of `source` go to rows of the first operand: an index for each.
Shapes size_rules::indexedRows(const SizeCall &c) {
  const SymbolicShape *self = c.tensor(), *index = c.tensor("index"),
                      *source = c.tensor("source");
  if (!self || !index || !source || self->rank() == 0 || index->rank() > 1 ||
      source->rank() != self->rank())
    return std::nullopt;
  auto dim = c.dim("dim", self->rank());
  if (!dim)
    return std::nullopt;
  for (unsigned i = 0; i < self->rank(); ++i)
    if (!c.facts.requireEqual(i == *dim ? index->numElements() : self->sizes[i],
                              source->sizes[i]))
      return std::nullopt;
  return allResults(c, self->sizes);
}

/// The last dimension, on the diagonal of the last two.
Shapes size_rules::diagEmbed(const SizeCall &c) {
  const SymbolicShape *self = c.tensor();
  if (!self || self->rank() == 0 || c.integer("offset") != 0 ||
      c.integer("dim1") != -2 || c.integer("dim2") != -1)
    return std::nullopt;
  SizePolynomials sizes = self->sizes;
  sizes.push_back(sizes.back());
  return allResults(c, sizes);
}

/// `x[i, :, j]` with tensors of integers: together where they stand side by
/// side, else in front.
Shapes size_rules::index(const SizeCall &c) {
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
  return allResults(c, sizes);
}

//===----------------------------------------------------------------------===//
// Factories
//===----------------------------------------------------------------------===//

Shapes size_rules::factory(const SizeCall &c) {
  auto sizes = c.sizes("size");
  if (!sizes)
    return std::nullopt;
  for (const SizePolynomial &size : *sizes)
    if (!c.facts.requireNotNegative(size))
      return std::nullopt;
  return allResults(c, *sizes);
}

Shapes size_rules::arange(const SizeCall &c) {
  SizePolynomial start = 0, step = 1;
  if (!c.isNone("start")) {
    auto given = c.size("start");
    if (!given)
      return std::nullopt;
    start = *given;
  }
  if (!c.isNone("step")) {
    auto given = c.size("step");
    if (!given || given->getLowerBound().value_or(0) < 1)
      return std::nullopt;
    step = *given;
  }
  auto end = c.size("end");
  if (!end || !c.facts.requireNotNegative(*end - start))
    return std::nullopt;
  auto count = (*end - start).divide(step);
  return count ? Shapes(allResults(c, {*count})) : std::nullopt;
}

Shapes size_rules::linspace(const SizeCall &c) {
  auto steps = c.size("steps");
  if (!steps || !c.facts.requireNotNegative(*steps))
    return std::nullopt;
  return allResults(c, {*steps});
}

Shapes size_rules::eye(const SizeCall &c) {
  auto rows = c.size("n"), columns = c.size("m");
  if (!rows || !c.facts.requireNotNegative(*rows) ||
      (columns && !c.facts.requireNotNegative(*columns)))
    return std::nullopt;
  return allResults(c, {*rows, columns.value_or(*rows)});
}

Shapes size_rules::randperm(const SizeCall &c) {
  auto count = c.size("n");
  if (!count || !c.facts.requireNotNegative(*count))
    return std::nullopt;
  return allResults(c, {*count});
}

/// Of each row, or of one alone, as many as were asked for: no more than there
/// are, where none is drawn twice.
Shapes size_rules::multinomial(const SizeCall &c) {
  const SymbolicShape *self = c.tensor();
  auto count = c.size("num_samples");
  if (!self || !count || self->rank() == 0)
    return std::nullopt;
  if (!c.isTrue("replacement") &&
      !c.facts.requireNotNegative(self->sizes.back() - *count))
    return std::nullopt;
  SizePolynomials sizes = self->sizes;
  sizes.back() = *count;
  return allResults(c, sizes);
}

//===----------------------------------------------------------------------===//
// Products by an equation
//===----------------------------------------------------------------------===//

/// `einsum`: sizes by letters. Dimensions of an ellipsis count from the last.
Shapes size_rules::einsum(const SizeCall &c) {
  auto tensors = c.tensors("tensors");
  StringRef equation = c.text("equation");
  if (equation.empty() || tensors.empty() ||
      llvm::is_contained(tensors, nullptr))
    return std::nullopt;
  std::string text;
  for (char letter : equation)
    if (letter != ' ')
      text += letter;
  auto [left, right] = StringRef(text).split("->");
  SmallVector<StringRef> operands;
  left.split(operands, ',');
  if (operands.size() != tensors.size())
    return std::nullopt;
  std::map<char, SizePolynomial> sizes;
  std::map<char, unsigned> uses;
  SizePolynomials rest;
  auto meet = [&](SizePolynomial &known, const SizePolynomial &size) {
    if (known == SizePolynomial(1))
      known = size;
    return size == SizePolynomial(1) || c.facts.requireEqual(known, size);
  };
  for (auto [subscript, shape] : llvm::zip_equal(operands, tensors)) {
    auto [front, back] = subscript.split("...");
    unsigned letters = front.size() + back.size();
    bool open = front.size() != subscript.size();
    if (letters > shape->rank() || (!open && letters != shape->rank()))
      return std::nullopt;
    unsigned hidden = shape->rank() - letters;
    for (unsigned i = 0; i < letters; ++i) {
      bool behind = i >= front.size();
      char letter = behind ? back[i - front.size()] : front[i];
      const SizePolynomial &size = shape->sizes[behind ? i + hidden : i];
      ++uses[letter];
      if (!meet(sizes.try_emplace(letter, SizePolynomial(1)).first->second,
                size))
        return std::nullopt;
    }
    if (!broadcast(rest, ArrayRef(shape->sizes).slice(front.size(), hidden),
                   c.facts))
      return std::nullopt;
  }
  SizePolynomials result;
  if (text.find("->") == std::string::npos) {
    result = rest;
    for (auto &[letter, count] : uses)
      if (count == 1)
        result.push_back(sizes.at(letter));
    return allResults(c, result);
  }
  auto [front, back] = right.split("...");
  for (char letter : front)
    result.push_back(sizes[letter]);
  if (front.size() != right.size())
    result.append(rest.begin(), rest.end());
  for (char letter : back)
    result.push_back(sizes[letter]);
  return allResults(c, result);
}
