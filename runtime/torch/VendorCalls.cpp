//===- VendorCalls.cpp - Runs one vendor call of a launch program ---------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "pyjit-rt/RelaidResults.h"
#include "pyjit-rt/TorchExecutor.h"

#include <ATen/ScalarOps.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

using namespace pyjit::rt;

/// Whether these strides show the same elements: those of dimensions of one
/// show nothing.
static bool sameMemory(const at::Tensor &tensor, at::IntArrayRef strides) {
  for (int64_t i = 0; i < tensor.dim(); ++i)
    if (tensor.size(i) > 1 && tensor.stride(i) != strides[i])
      return false;
  return tensor.numel() != 0;
}

/// A number that the program computed, which lies on the CPU.
static c10::Scalar numberIn(const at::Tensor &value) {
  const void *data = value.const_data_ptr();
  return value.scalar_type() == at::kDouble
             ? c10::Scalar(*static_cast<const double *>(data))
             : c10::Scalar(*static_cast<const int64_t *>(data));
}

/// What the operator is given in place of `argument`; `values` is by slot.
static c10::IValue argumentOf(const TensorArgument &argument,
                              const std::vector<at::Tensor> &values) {
  switch (argument.form) {
  case TensorArgument::Tensor:
    return values[argument.slots.front()];
  case TensorArgument::Number:
    return numberIn(values[argument.slots.front()]);
  case TensorArgument::List:
    break;
  default: {
    at::Tensor wrapped =
        at::scalar_to_tensor(numberIn(values[argument.slots.front()]));
    wrapped.unsafeGetTensorImpl()->set_wrapped_number(true);
    return wrapped;
  }
  }
  if (argument.optionalElements) {
    c10::List<std::optional<at::Tensor>> list;
    for (int64_t slot : argument.slots)
      list.push_back(slot < 0 ? std::optional<at::Tensor>() : values[slot]);
    return list;
  }
  c10::List<at::Tensor> list;
  for (int64_t slot : argument.slots)
    list.push_back(values[slot]);
  return list;
}

/// A copy of a result of `op`, laid out as kernels that read it expect.
static at::Tensor relaid(const at::Tensor &result, at::IntArrayRef sizes,
                         at::IntArrayRef strides,
                         const c10::OperatorName &name) {
  noteRelaidResult(name.overload_name.empty()
                       ? name.name
                       : name.name + "." + name.overload_name);
  at::Tensor value = at::empty_strided(sizes, strides, result.options());
  value.copy_(result);
  return value;
}

void TorchExecutor::runCall(const CallPlan &plan, Arena &arena) const {
  c10::Stack stack(plan.arguments);
  for (const TensorArgument &argument : plan.tensors)
    stack[argument.argument] = argumentOf(argument, arena.values);
  // What autocast did is part of the program: the casts are calls of their own.
  c10::impl::ExcludeDispatchKeyGuard noAutocast(c10::autocast_dispatch_keyset);
  plan.op.callBoxed(stack);

  // An operator that writes an argument returns it too; the program refers to
  // it by the argument's slot.
  auto isArgument = [&](const at::Tensor &result) {
    for (const TensorArgument &argument : plan.tensors)
      for (int64_t slot : argument.slots)
        if (slot >= 0 && arena.values[slot].is_same(result))
          return true;
    return false;
  };
  int64_t next = 0;
  auto take = [&](const at::Tensor &result) {
    if (plan.writes && isArgument(result))
      return;
    int64_t index = next < plan.numResults ? plan.results[next] : -1;
    ++next;
    if (index < 0)
      return;
    const Slot &slot = program.slots()[index];
    // Only vendor calls look inside.
    if (!result.has_storage() || slot.flags & kSlotOpaque) {
      arena.values[index] = result;
      return;
    }
    // Kernels read memory by the recorded type.
    TORCH_CHECK(
        result.scalar_type() == static_cast<c10::ScalarType>(slot.dtype),
        "pyjit: ", plan.op.schema().name(), " returned ", result.scalar_type(),
        ", recorded was ", static_cast<c10::ScalarType>(slot.dtype));
    at::Tensor value = result;
    // Kernels are compiled for the layout that eager showed; a library is free
    // to choose another one on another day.
    if (value.sizes() != sizes(slot) || value.strides() != strides(slot)) {
      TORCH_CHECK(value.sizes() == sizes(slot),
                  "pyjit: ", plan.op.schema().name(), " returned sizes ",
                  value.sizes(), ", recorded were ", sizes(slot));
      value = sameMemory(value, strides(slot))
                  ? makeView(slot, result, 0)
                  : relaid(result, sizes(slot), strides(slot),
                           plan.op.operator_name());
    }
    arena.buffers[index] = const_cast<void *>(value.const_data_ptr());
    arena.values[index] = std::move(value);
  };
  for (const c10::IValue &result : stack) {
    if (result.isTensor())
      take(result.toTensor());
    else if (result.isTensorList())
      for (const at::Tensor &element : result.toTensorVector())
        take(element);
  }
  TORCH_CHECK(next >= plan.numResults, "pyjit: ", plan.op.schema().name(),
              " returned ", next, " tensors, recorded were ", plan.numResults);
}
