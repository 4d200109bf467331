//===- CallPlan.cpp - Vendor calls, resolved at load ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Turns the encoded arguments of a vendor call into boxed constants plus the
// list of tensor arguments that each run fills in.
//
//===----------------------------------------------------------------------===//

#include "OwnCalls.h"
#include "pyjit-rt/TorchExecutor.h"

#include <ATen/ScalarOps.h>
#include <ATen/core/jit_type.h>

#include <cstring>

using namespace pyjit::rt;

namespace {

double toDouble(int64_t bits) {
  double value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

at::Tensor wrapped(const c10::Scalar &value) {
  at::Tensor tensor = at::scalar_to_tensor(value);
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

/// The type that an argument's list elements have, below Optional[].
c10::TypePtr elementType(c10::TypePtr type) {
  if (auto optional = type->cast<c10::OptionalType>())
    type = optional->getElementType();
  if (auto list = type->cast<c10::ListType>())
    return list->getElementType();
  return nullptr;
}

struct Reader {
  const Program &program;
  const int64_t *at;

  ArgTag tag() { return static_cast<ArgTag>(*at++); }

  /// A non-tensor, non-list argument whose tag was just read.
  c10::IValue scalar(ArgTag tag) {
    switch (tag) {
    case ArgTag::Int:
      return *at++;
    case ArgTag::Bool:
      return *at++ != 0;
    case ArgTag::Double:
      return toDouble(*at++);
    case ArgTag::String:
      return std::string(program.string(*at++));
    case ArgTag::Device:
      return c10::Device(program.string(*at++));
    case ArgTag::WrappedInt:
      return wrapped(*at++);
    case ArgTag::WrappedBool:
      return wrapped(*at++ != 0);
    case ArgTag::WrappedDouble:
      return wrapped(toDouble(*at++));
    default:
      return {};
    }
  }
};

/// A constant list in the boxed form that `element` asks for.
c10::IValue boxedList(const std::vector<c10::IValue> &items,
                      const c10::TypePtr &element) {
  switch (element->kind()) {
  case c10::TypeKind::IntType:
  case c10::TypeKind::SymIntType: {
    c10::List<int64_t> list;
    for (const c10::IValue &item : items)
      list.push_back(item.toInt());
    return list;
  }
  case c10::TypeKind::BoolType: {
    c10::List<bool> list;
    for (const c10::IValue &item : items)
      list.push_back(item.toBool());
    return list;
  }
  case c10::TypeKind::FloatType: {
    c10::List<double> list;
    for (const c10::IValue &item : items)
      list.push_back(item.isInt() ? double(item.toInt()) : item.toDouble());
    return list;
  }
  default: {
    c10::impl::GenericList list(element);
    for (const c10::IValue &item : items)
      list.push_back(item);
    return list;
  }
  }
}

/// The list whose tag was just read, the argument `index` of a call: its
/// tensors, or a constant. False: the schema takes no list there.
bool planList(Reader &reader, const c10::TypePtr &type, uint32_t index,
              CallPlan &plan) {
  c10::TypePtr element = elementType(type);
  if (!element)
    return false;
  int64_t count = *reader.at++;
  bool optionalElements = element->kind() == c10::TypeKind::OptionalType;
  c10::TypePtr inner =
      optionalElements ? element->castRaw<c10::OptionalType>()->getElementType()
                       : element;
  bool tensors = inner->kind() == c10::TypeKind::TensorType;
  TensorArgument list{index, TensorArgument::List, optionalElements, {}};
  std::vector<c10::IValue> items;
  for (int64_t i = 0; i < count; ++i) {
    ArgTag tag = reader.tag();
    if (tensors)
      list.slots.push_back(tag == ArgTag::Tensor ? *reader.at++ : -1);
    else
      items.push_back(reader.scalar(tag));
  }
  if (tensors)
    plan.tensors.push_back(std::move(list));
  plan.arguments.push_back(tensors ? c10::IValue() : boxedList(items, element));
  return true;
}

/// The argument, no list, whose tag was just read.
void planArgument(Reader &reader, ArgTag tag, const c10::TypePtr &type,
                  uint32_t index, CallPlan &plan) {
  std::optional<TensorArgument::Form> form;
  if (tag == ArgTag::Tensor)
    form = TensorArgument::Tensor;
  else if (tag == ArgTag::WrappedSlot)
    form = TensorArgument::WrappedNumber;
  else if (tag == ArgTag::NumberSlot)
    form = TensorArgument::Number;
  if (form) {
    plan.tensors.push_back({index, *form, false, {*reader.at++}});
    plan.arguments.emplace_back();
    return;
  }
  c10::IValue value = reader.scalar(tag);
  // Undefined, where a tensor has to stand.
  if (value.isNone() && type->kind() == c10::TypeKind::TensorType)
    value = at::Tensor();
  plan.arguments.push_back(std::move(value));
}

/// Whether an operator makes as many results as the program takes of it.
bool makesResults(const c10::FunctionSchema &schema, int64_t wanted,
                  const std::string &name, std::string &error) {
  // An argument that is returned after it was written is no result: see
  // runCall.
  int64_t made = 0;
  bool lists = false;
  for (const c10::Argument &result : schema.returns()) {
    const c10::AliasInfo *alias = result.alias_info();
    made += !(alias && alias->isWrite());
    lists |= result.type()->kind() == c10::TypeKind::ListType;
  }
  if (lists || wanted <= made)
    return true;
  error = name + ": " + std::to_string(wanted) + " results, it makes " +
          std::to_string(made);
  return false;
}

} // namespace

bool TorchExecutor::planCall(const Step &step, std::string &error) {
  std::string full = program.string(step.a);
  size_t dot = full.find(
      '.', full.find("::") == std::string::npos ? 0 : full.find("::"));
  std::string name = full.substr(0, dot);
  std::string overload = dot == std::string::npos ? "" : full.substr(dot + 1);
  if (name.compare(0, 7, "pyjit::") == 0)
    registerOwnCalls();
  auto handle = c10::Dispatcher::singleton().findSchema({name, overload});
  if (!handle) {
    error = "this PyTorch has no operator " + full;
    return false;
  }
  CallPlan plan{*handle,
                {},
                {},
                program.ints() + step.c + 1,
                program.ints()[step.c],
                handle->schema().is_mutable()};
  const auto &schema = handle->schema().arguments();

  Reader reader{program, program.ints() + step.b};
  for (ArgTag tag = reader.tag(); tag != ArgTag::End; tag = reader.tag()) {
    uint32_t index = plan.arguments.size();
    if (index >= schema.size()) {
      error = full + ": more arguments than its schema has";
      return false;
    }
    const c10::TypePtr &type = schema[index].type();
    if (tag != ArgTag::List) {
      planArgument(reader, tag, type, index, plan);
    } else if (!planList(reader, type, index, plan)) {
      error = full + ": argument " + std::to_string(index) + " takes no list";
      return false;
    }
  }
  if (plan.arguments.size() != schema.size()) {
    error = full + ": " + std::to_string(plan.arguments.size()) +
            " arguments, its schema has " + std::to_string(schema.size());
    return false;
  }
  if (!makesResults(handle->schema(), plan.numResults, full, error))
    return false;
  calls.push_back(std::move(plan));
  return true;
}
