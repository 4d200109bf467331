//===- LiftedArguments.cpp - Lifted numbers in an operator's call ---------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "numbers/LiftedArguments.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/jit_type.h>
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <algorithm>
#include <limits>
#include <optional>

using namespace pyjit;
using namespace pyjit::capture;

namespace {

using Argument = OperatorUse::Argument;

/// "add" of "aten::add.Tensor".
std::string baseName(const std::string &overload) {
  std::string name = overload.substr(overload.find("::") + 2);
  return name.substr(0, name.find('.'));
}

/// A Python number that the dispatcher sees as a tensor, of this type.
bool isWrapped(const c10::IValue &v, at::ScalarType type) {
  return v.isTensor() && v.toTensor().defined() &&
         v.toTensor().unsafeGetTensorImpl()->is_wrapped_number() &&
         v.toTensor().dim() == 0 && v.toTensor().scalar_type() == type;
}

/// The number that an argument is, as the dispatcher shows it.
bool toNumber(const c10::IValue &v, pyjit::rt::Number &number) {
  if (v.isInt())
    number = pyjit::rt::Number::of(int64_t(v.toInt()));
  else if (v.isDouble())
    number = pyjit::rt::Number::of(v.toDouble());
  else if (isWrapped(v, at::kLong))
    number = pyjit::rt::Number::of(
        *static_cast<const int64_t *>(v.toTensor().const_data_ptr()));
  else if (isWrapped(v, at::kDouble))
    number = pyjit::rt::Number::of(
        *static_cast<const double *>(v.toTensor().const_data_ptr()));
  else
    return false;
  return true;
}

/// Whether a Python function calls the operator of that name.
bool calls(const std::string &function, const std::string &name,
           const PyjitOperatorFacts &facts) {
  return function == name || (facts.pythonName && function == facts.pythonName);
}

/// Whether an operator takes a number, or a tensor in its place, there.
bool isNumberPlace(const c10::IValue &input, const c10::Argument &formal,
                   const PyjitOperatorFacts &facts) {
  auto isNumber = [&](const c10::Type &type) {
    return type.kind() == c10::TypeKind::NumberType ||
           (facts.takesFloats && type.kind() == c10::TypeKind::FloatType);
  };
  const c10::Type &type = *formal.real_type();
  return input.isTensor() || isNumber(type) ||
         (type.kind() == c10::TypeKind::OptionalType &&
          isNumber(*type.castRaw<c10::OptionalType>()->getElementType()));
}

/// Whether nothing of the call is a device's.
bool isOnCPU(const std::vector<c10::IValue> &inputs) {
  return std::all_of(inputs.begin(), inputs.end(), [](const c10::IValue &v) {
    if (v.isTensor() && v.toTensor().defined())
      return v.toTensor().is_cpu();
    return !v.isDevice() || v.toDevice().is_cpu();
  });
}

/// The one argument of the operator that `argument` can have become, or
/// nothing.
std::optional<size_t> findPlace(const Argument &argument,
                                const pyjit::rt::Number &wanted,
                                const PyjitOperatorFacts &facts,
                                const c10::FunctionSchema &schema,
                                const std::vector<c10::IValue> &inputs) {
  std::optional<size_t> place;
  for (size_t i = 0; i < inputs.size(); ++i) {
    pyjit::rt::Number number;
    if (!toNumber(inputs[i], number) || number.isFloat != wanted.isFloat ||
        number.bits() != wanted.bits())
      continue;
    const c10::Argument &formal = schema.arguments()[i];
    // `x + n` has an alpha of 1.
    if (argument.keyword.empty() ? formal.name() == "alpha"
                                 : formal.name() != argument.keyword)
      continue;
    if (place || !isNumberPlace(inputs[i], formal, facts))
      return std::nullopt;
    place = i;
  }
  return place;
}

/// `x[n]`, `x[a:b]`: the parts of the subscript become operators one by one.
void findInSubscript(Scalars &scalars, OperatorUse &use,
                     const std::string &overload,
                     const std::vector<c10::IValue> &inputs,
                     std::vector<std::vector<PyObject *>> &found) {
  bool slice = overload == operators::aten::slice_Tensor;
  if ((!slice && overload != operators::aten::select_int) || !inputs[1].isInt())
    return;
  auto [first, second] = use.findPart(overload, inputs[1].toInt());
  for (auto [number, i] : {std::pair(first, 2), std::pair(second, 3)}) {
    pyjit::rt::Number value;
    if (!number || !toNumber(inputs[i], value) ||
        value.bits() != scalars.numberOf(number)->bits())
      continue;
    found[i] = {number};
    ++use.usedInts[number];
  }
}

void findInLists(Scalars &scalars, OperatorUse &use,
                 const std::vector<c10::IValue> &inputs,
                 std::vector<std::vector<PyObject *>> &found) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].isIntList())
      continue;
    std::vector<PyObject *> numbers =
        use.findInts(scalars, inputs[i].toIntVector());
    if (std::any_of(numbers.begin(), numbers.end(),
                    [](PyObject *number) { return number; }))
      found[i] = std::move(numbers);
  }
}

void findInts(Scalars &scalars, OperatorUse &use,
              const c10::FunctionSchema &schema,
              const std::vector<c10::IValue> &inputs,
              std::vector<std::vector<PyObject *>> &found) {
  for (Argument &argument : use.arguments) {
    if (!scalars.isFollowed(argument.number))
      continue; // of data, a tensor, or known
    const pyjit::rt::Number &wanted = *scalars.numberOf(argument.number);
    std::vector<size_t> equal;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs[i].isInt() || wanted.isFloat ||
          inputs[i].toInt() != wanted.integer)
        continue;
      const std::string &formal = schema.arguments()[i].name();
      if (argument.keyword.empty() || formal == argument.keyword)
        equal.push_back(i);
    }
    if (equal.size() != 1 || !found[equal[0]].empty())
      continue;
    found[equal[0]] = {argument.number};
    argument.used = true;
  }
}

} // namespace

std::string pyjit::capture::functionOf(const std::string &overload) {
  std::string name = baseName(overload);
  if (!name.empty() && name.back() == '_')
    name.pop_back();
  return name;
}

std::vector<PyObject *>
pyjit::capture::findLiftedNumbers(Scalars &scalars, const std::string &overload,
                                  const PyjitOperatorFacts &facts,
                                  const c10::FunctionSchema &schema,
                                  const std::vector<c10::IValue> &inputs) {
  std::vector<PyObject *> lifted(inputs.size(), nullptr);
  OperatorUse *use = scalars.use();
  if (!use || ++use->operators > 1 || use->composite)
    return lifted;
  if (!calls(use->name, functionOf(overload), facts) ||
      !(facts.takesNumbers || (facts.takesFloats && isOnCPU(inputs))))
    return lifted;
  for (Argument &argument : use->arguments) {
    const pyjit::rt::Number &wanted = *scalars.numberOf(argument.number);
    std::optional<size_t> place =
        findPlace(argument, wanted, facts, schema, inputs);
    if (!place || lifted[*place])
      continue;
    if (facts.takesFloatsOnly && !wanted.isFloat)
      continue;
    lifted[*place] = argument.number;
    argument.used = true;
  }
  return lifted;
}

std::vector<std::vector<PyObject *>>
pyjit::capture::findLiftedElements(Scalars &scalars,
                                   const c10::FunctionSchema &schema,
                                   const std::vector<c10::IValue> &inputs) {
  std::vector<std::vector<PyObject *>> lifted(inputs.size());
  OperatorUse *use = scalars.use();
  if (!use || ++use->operators > 1 || use->composite ||
      "aten::" + use->name != schema.name())
    return lifted;
  for (Argument &argument : use->arguments) {
    std::optional<int> named =
        argument.keyword.empty()
            ? std::optional<int>(int(argument.position))
            : schema.argumentIndexWithName(argument.keyword);
    if (!named || size_t(*named) >= inputs.size())
      continue;
    const c10::IValue &input = inputs[*named];
    bool isElement = argument.element >= 0;
    if (input.isList() != isElement)
      continue;
    size_t at = isElement ? argument.element : 0;
    size_t size = isElement ? input.toListRef().size() : 1;
    const pyjit::rt::Number &wanted = *scalars.numberOf(argument.number);
    pyjit::rt::Number number;
    if (at >= size ||
        !toNumber(isElement ? input.toListRef()[at] : input, number) ||
        number.isFloat != wanted.isFloat || number.bits() != wanted.bits())
      continue;
    lifted[*named].resize(size, nullptr);
    lifted[*named][at] = argument.number;
    argument.used = true;
  }
  return lifted;
}

std::vector<std::vector<PyObject *>>
pyjit::capture::findLiftedSizes(Scalars &scalars, const std::string &overload,
                                const PyjitOperatorFacts &facts,
                                const c10::FunctionSchema &schema,
                                const std::vector<c10::IValue> &inputs) {
  std::vector<std::vector<PyObject *>> found(inputs.size());
  OperatorUse *use = scalars.use();
  if (!use || use->composite)
    return found;
  if (use->name == "getitem") {
    findInSubscript(scalars, *use, overload, inputs, found);
    return found;
  }
  if (use->operators != 1)
    return found;
  if (!calls(use->name, baseName(overload), facts))
    return found;
  if (facts.takesSizes)
    findInLists(scalars, *use, inputs, found);
  if (facts.takesInts)
    findInts(scalars, *use, schema, inputs, found);
  return found;
}

void pyjit::capture::keepWithin(Scalars &scalars, PyObject *number,
                                at::ScalarType type) {
  // Of the type's own numbers, least and greatest.
  auto within = [&](auto example) {
    using Limits = std::numeric_limits<decltype(example)>;
    scalars.keepWithin(number, double(Limits::lowest()), double(Limits::max()));
  };
  switch (type) {
  case at::kHalf:
    return within(c10::Half());
  case at::kBFloat16:
    return within(c10::BFloat16());
  case at::kFloat:
    if (PyFloat_Check(number))
      within(float());
    return;
  case at::kByte: // eager wraps what is negative
    return scalars.keepWithin(number, -255, 255);
  case at::kChar:
    return within(int8_t());
  case at::kShort:
    return within(int16_t());
  case at::kInt:
    return within(int32_t());
  default:
    return;
  }
}
