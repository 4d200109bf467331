//===- Foreach.cpp - Operators on lists of tensors ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `_foreach_add_` does to each tensor of a list what `add_` does to one. It is
// recorded as these calls, in the order of the list, as ATen's own loop makes
// them where there is no kernel for lists. Which operator does the work of one
// tensor follows from the schemas: it has the name behind `_foreach_`, and
// takes a tensor for each list of tensors and a number for each list of
// numbers.
//
//===----------------------------------------------------------------------===//

#include "numbers/LiftedArguments.h"
#include "tensors/TensorOpFacts.h"
#include "tensors/TensorOpRecording.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/jit_type.h>

#include <exception>
#include <map>
#include <set>

using namespace pyjit::capture;

static const std::string kPrefix = "_foreach_";

/// "add_" of "_foreach_add_", behind its library's name; or nothing.
static std::optional<std::string> workOf(const std::string &name) {
  size_t at = name.find("::");
  if (at == std::string::npos || name.compare(at + 2, kPrefix.size(), kPrefix))
    return std::nullopt;
  return name.substr(0, at + 2) + name.substr(at + 2 + kPrefix.size());
}

bool pyjit::capture::isOverLists(const std::string &name) {
  return workOf(name).has_value();
}

namespace {

using Impl = TensorRecorder::Impl;

/// The operator that does the work of one tensor.
struct EachTensor {
  c10::OperatorHandle handle;
  std::string name; ///< with overload
  /// Of each argument of the operator on lists, which of its own that is.
  std::vector<size_t> places;
};

/// The type of one tensor's part of an argument.
c10::TypePtr elementType(const c10::TypePtr &type) {
  auto list = type->cast<c10::ListType>();
  return list ? list->getElementType() : type;
}

/// An argument becomes that of its name, or else that of its place.
std::optional<std::vector<size_t>> match(const c10::FunctionSchema &lists,
                                         const c10::FunctionSchema &one) {
  std::vector<size_t> places;
  std::set<size_t> given;
  for (size_t i = 0; i < lists.arguments().size(); ++i) {
    const c10::Argument &argument = lists.arguments()[i];
    size_t place = one.argumentIndexWithName(argument.name()).value_or(int(i));
    if (place >= one.arguments().size() || !given.insert(place).second ||
        *elementType(argument.type()) != *one.arguments()[place].type())
      return std::nullopt;
    places.push_back(place);
  }
  for (size_t j = 0; j < one.arguments().size(); ++j)
    if (one.arguments()[j].is_out() ||
        (!given.count(j) && !one.arguments()[j].default_value()))
      return std::nullopt;
  return places;
}

using OverloadsByName = std::map<std::string, std::vector<c10::OperatorName>>;

std::optional<EachTensor> search(const OverloadsByName &all,
                                 const std::string &name,
                                 const c10::FunctionSchema &schema) {
  PyjitOperatorFacts facts = factsOf(name);
  std::string wanted = *workOf(schema.name());
  if (facts.eachTensor)
    wanted = wanted.substr(0, wanted.find("::") + 2) + facts.eachTensor;
  auto candidates = all.find(wanted);
  if (candidates == all.end())
    return std::nullopt;
  for (const c10::OperatorName &candidate : candidates->second) {
    auto handle = c10::Dispatcher::singleton().findSchema(candidate);
    if (!handle)
      continue;
    if (auto places = match(schema, handle->schema()))
      return EachTensor{*handle, c10::toString(candidate), std::move(*places)};
  }
  return std::nullopt;
}

/// By name with overload.
std::map<std::string, EachTensor> searchAll() {
  c10::Dispatcher &dispatcher = c10::Dispatcher::singleton();
  OverloadsByName all;
  for (const c10::OperatorName &name : dispatcher.getAllOpNames())
    all[name.name].push_back(name);
  std::map<std::string, EachTensor> found;
  for (const auto &[name, overloads] : all)
    for (const c10::OperatorName &overload : overloads)
      if (isOverLists(name))
        if (auto handle = dispatcher.findSchema(overload))
          if (auto each =
                  search(all, c10::toString(overload), handle->schema()))
            found.emplace(c10::toString(overload), std::move(*each));
  return found;
}

const EachTensor *find(const std::string &name) {
  static const auto *table = new std::map<std::string, EachTensor>(searchAll());
  auto found = table->find(name);
  return found == table->end() ? nullptr : &found->second;
}

/// What is added to a number that the host keeps is told from the sum, which
/// has to be that of one addition.
bool countsTwice(const std::vector<c10::IValue> &tensors) {
  std::set<const void *> seen;
  for (const c10::IValue &element : tensors) {
    const at::Tensor &t = element.toTensor();
    if (t.defined() && t.dim() == 0 && t.device().is_cpu() &&
        !seen.insert(t.const_data_ptr()).second)
      return true;
  }
  return false;
}

} // namespace

void pyjit::capture::recordOverLists(Impl &impl, Impl::Operation &op,
                                     const std::vector<c10::IValue> &outputs) {
  // An operator in place has no outputs, raise it or not.
  if (std::uncaught_exceptions())
    return;
  const c10::FunctionSchema &schema = op.handle.schema();
  const EachTensor *each = find(op.name);
  const std::vector<c10::IValue> *tensors = nullptr;
  std::vector<c10::IValue> list;
  for (const c10::IValue &input : op.inputs)
    if (!tensors && input.isTensorList()) {
      list = input.toListRef().vec();
      tensors = &list;
    }
  if (!each || !tensors)
    return impl.recording.end(
        ReasonKind::Operator,
        "operator " + op.name + ": it is not known what it does to one tensor");
  bool inPlace = schema.returns().empty();
  if (inPlace && countsTwice(list))
    return impl.recording.end(ReasonKind::Operator,
                              "operator " + op.name +
                                  ": its list holds a number twice");
  const auto lifted =
      findLiftedElements(impl.recording.scalars, schema, op.inputs);
  const c10::FunctionSchema &one = each->handle.schema();
  for (size_t i = 0; i < list.size() && !impl.recording.ended(); ++i) {
    Impl::Operation part(each->handle);
    part.name = each->name;
    part.facts = factsOf(part.name);
    part.strangeHistory = op.strangeHistory;
    if (i < op.before.size())
      part.before = {op.before[i]};
    for (const c10::Argument &argument : one.arguments())
      part.inputs.push_back(argument.default_value().value_or(c10::IValue()));
    part.lifted.emplace(part.inputs.size(), nullptr);
    for (size_t k = 0; k < op.inputs.size(); ++k) {
      const c10::IValue &input = op.inputs[k];
      size_t place = each->places[k];
      part.inputs[place] = input.isList() ? input.toListRef()[i] : input;
      if (lifted[k].empty())
        continue;
      PyObject *number = lifted[k][input.isList() ? i : 0];
      if (!number)
        continue;
      if (part.facts.takesNumbers &&
          (!part.facts.takesFloatsOnly || PyFloat_Check(number)))
        (*part.lifted)[place] = number;
      else // of a norm, say, whose order makes it another operator
        impl.recording.scalars.specialize(number);
    }
    recordOperator(impl, part, {inPlace ? list[i] : outputs[0].toListRef()[i]});
  }
}
