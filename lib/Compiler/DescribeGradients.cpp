//===- DescribeGradients.cpp - What a backward program takes and gives ----===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "DescribeGradients.h"

#include "dialects/pyjit/IR/Attributes.h"

#include "llvm/ADT/BitVector.h"

using namespace mlir;
using namespace pyjit;
using namespace pyjit::compiler;

/// Inputs that some gradient depends on, by their elements or by a size.
static std::vector<uint32_t> readInputs(func::FuncOp forward,
                                        func::FuncOp backward) {
  llvm::BitVector read(forward.getNumArguments());
  auto lists = [](func::FuncOp function, StringRef name) {
    auto all = function->getAttrOfType<ArrayAttr>(name);
    return (all ? all : ArrayAttr::get(function.getContext(), {}))
        .getAsRange<DenseI64ArrayAttr>();
  };
  for (auto list : lists(backward, attribute::kReads))
    for (int64_t input : list.asArrayRef())
      read.set(unsigned(input));
  for (auto place : lists(forward, attribute::kSymbols))
    read.set(unsigned(place[0]));
  return {read.set_bits_begin(), read.set_bits_end()};
}

/// A row for each list: whether it has `columns[k]`.
static std::vector<uint8_t> rowsOf(func::FuncOp backward, StringRef name,
                                   ArrayRef<uint32_t> columns) {
  std::vector<uint8_t> rows;
  for (auto list :
       backward->getAttrOfType<ArrayAttr>(name).getAsRange<DenseI64ArrayAttr>())
    for (uint32_t column : columns)
      rows.push_back(llvm::is_contained(list.asArrayRef(), int64_t(column)));
  return rows;
}

/// Of each result, the number of the list that has it.
static std::vector<uint32_t> groupsOf(func::FuncOp backward,
                                      ArrayRef<uint32_t> results) {
  std::vector<uint32_t> groups(results.size(), 0);
  if (auto lists = backward->getAttrOfType<ArrayAttr>(attribute::kGroups))
    for (auto [number, list] :
         llvm::enumerate(lists.getAsRange<DenseI64ArrayAttr>()))
      for (auto [k, result] : llvm::enumerate(results))
        if (llvm::is_contained(list.asArrayRef(), int64_t(result)))
          groups[k] = uint32_t(number);
  return groups;
}

/// A row for each result: the arguments that it is computed from.
static std::vector<uint8_t> needsOf(func::FuncOp backward) {
  llvm::DenseMap<Value, llvm::BitVector> needs;
  unsigned count = backward.getNumArguments();
  for (BlockArgument argument : backward.getArguments()) {
    llvm::BitVector own(count);
    own.set(argument.getArgNumber());
    needs[argument] = own;
  }
  Block &block = backward.front();
  for (Operation &op : block.without_terminator()) {
    llvm::BitVector all(count);
    op.walk([&](Operation *inner) {
      for (Value operand : inner->getOperands())
        if (auto known = needs.find(operand); known != needs.end())
          all |= known->second;
    });
    for (Value result : op.getResults())
      needs[result] = all;
  }
  std::vector<uint8_t> rows;
  for (Value result : block.getTerminator()->getOperands())
    for (unsigned i = 0; i < count; ++i)
      rows.push_back(needs[result].test(i));
  return rows;
}

Executable::Gradients compiler::describeGradients(func::FuncOp forward,
                                                  func::FuncOp backward) {
  auto numbers = [](Operation *op, StringRef name) {
    auto list = op->getAttrOfType<DenseI64ArrayAttr>(name).asArrayRef();
    return std::vector<uint32_t>(list.begin(), list.end());
  };
  Executable::Gradients gradients;
  gradients.inputs = numbers(backward, attribute::kGradientInputs);
  gradients.results = numbers(forward, attribute::kGradientResults);
  gradients.reads = readInputs(forward, backward);
  gradients.reaches = rowsOf(backward, attribute::kReaches, gradients.results);
  gradients.groups = groupsOf(backward, gradients.results);
  gradients.uses = rowsOf(backward, attribute::kReads, gradients.reads);
  gradients.varies = rowsOf(backward, attribute::kVariesWith, gradients.reads);
  gradients.needs = needsOf(backward);
  if (backward->hasAttr(attribute::kLeads)) {
    gradients.leads = rowsOf(backward, attribute::kLeads, gradients.results);
    gradients.reachesDirectly =
        rowsOf(backward, attribute::kReachesDirectly, gradients.results);
  }
  if (backward->hasAttr(attribute::kKeeps)) {
    std::vector<uint32_t> keeps = numbers(backward, attribute::kKeeps);
    for (uint32_t result : gradients.results)
      gradients.keeps.push_back(llvm::is_contained(keeps, result));
  }
  if (backward->hasAttr(attribute::kStops))
    gradients.stops = numbers(backward, attribute::kStops);
  auto saved = forward->getAttrOfType<IntegerAttr>(attribute::kSaved);
  gradients.numResults = forward.getNumResults() - uint32_t(saved.getInt());
  static constexpr std::pair<StringRef, PyjitBackwardSource> kSources[] = {
      {attribute::kInput, PyjitBackwardInput},
      {attribute::kSeen, PyjitBackwardSeen},
      {attribute::kResult, PyjitBackwardResult},
      {attribute::kGradient, PyjitBackwardGradient}};
  for (unsigned i = 0; i < backward.getNumArguments(); ++i)
    for (auto [name, source] : kSources)
      if (auto number = backward.getArgAttrOfType<IntegerAttr>(i, name))
        gradients.arguments.push_back({source, uint32_t(number.getInt())});
  return gradients;
}
