//===- FusedOptimizers.cpp - Updates that Torch has as one kernel ---------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `_fused_adam_` and its kin update lists of parameters in one kernel, and what
// GradScaler does to gradients is another one. They are recorded as the
// operators that compute the same, tensor by tensor, which the compiler fuses
// again with what is around them. Half precision is computed in single
// precision and rounded once, as those kernels do. A counter of steps is a
// number of the host's where it lies on the CPU (HostScalars.h), and a tensor
// of the program's elsewhere.
//
//===----------------------------------------------------------------------===//

#include "tensors/FusedOptimizers.h"

#include "numbers/LiftedArguments.h"
#include "tensors/TensorOpFacts.h"
#include "tensors/TensorOpRecording.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/GradMode.h>

#include <exception>

using namespace pyjit;
using namespace pyjit::capture;

namespace aten = operators::aten;
using Impl = TensorRecorder::Impl;

namespace {

/// A number of the call's, or one that the guards compute; or a tensor without
/// dimensions.
struct Factor {
  rt::Number number = rt::Number::of(0.0);
  PyjitValue value = -1; ///< of a number that differs between calls
  at::Tensor tensor;     ///< defined: the program computes it
};

/// Writes operators that nobody has called.
class Composition {
public:
  Composition(Impl &impl, Impl::Operation &op)
      : impl(impl), recording(impl.recording), op(op) {}

  /// With these first arguments, and the others' defaults. A result that is no
  /// argument is like `like`. Factors that are numbers are given by name.
  at::Tensor call(const char *name, std::vector<c10::IValue> arguments,
                  const at::Tensor &like,
                  const std::vector<std::pair<const char *, Factor>> &factors);
  at::Tensor call(const char *name, std::vector<c10::IValue> arguments,
                  const at::Tensor &like = {}) {
    return call(name, std::move(arguments), like, {});
  }
  /// `x * factor`, `x / factor`.
  at::Tensor scale(const char *name, const at::Tensor &x, const Factor &factor);
  at::Tensor convert(const at::Tensor &x, at::ScalarType type);

  Factor compute(rt::Arith function, const Factor &a, const Factor &b);
  static Factor number(double value) { return {rt::Number::of(value), -1, {}}; }
  /// What is computed with, and its way back.
  at::Tensor widened(const at::Tensor &x);
  void writeBack();

protected:
  bool refuse(const std::string &why) {
    recording.end(ReasonKind::Operator, "operator " + op.name + ": " + why);
    return false;
  }

  Impl &impl;
  Recording &recording;
  Impl::Operation &op;

private:
  std::vector<std::pair<at::Tensor, at::Tensor>> copies;
};

at::Tensor
Composition::call(const char *name, std::vector<c10::IValue> arguments,
                  const at::Tensor &like,
                  const std::vector<std::pair<const char *, Factor>> &factors) {
  std::string full = name;
  size_t dot = full.find('.');
  auto handle = c10::Dispatcher::singleton().findSchema(
      {full.substr(0, dot),
       dot == std::string::npos ? "" : full.substr(dot + 1)});
  if (!handle || recording.ended())
    return like;
  Impl::Operation part(*handle);
  part.name = full;
  part.facts = factsOf(full);
  part.inputs = std::move(arguments);
  const c10::FunctionSchema &schema = handle->schema();
  for (size_t i = part.inputs.size(); i < schema.arguments().size(); ++i)
    part.inputs.push_back(
        schema.arguments()[i].default_value().value_or(c10::IValue()));
  part.lifted.emplace(part.inputs.size(), nullptr);
  part.computed.assign(part.inputs.size(), -1);
  for (auto &[argument, factor] : factors) {
    size_t place = *schema.argumentIndexWithName(argument);
    part.inputs[place] = factor.number.toDouble();
    part.computed[place] = factor.value;
  }
  at::Tensor result =
      like.defined() ? at::empty_like(like) : part.inputs[0].toTensor();
  recordOperator(impl, part, {result});
  return result;
}

at::Tensor Composition::scale(const char *name, const at::Tensor &x,
                              const Factor &factor) {
  bool multiplies = std::string(name) == aten::mul_Tensor;
  if (factor.tensor.defined())
    return call(name, {x, factor.tensor}, x);
  return call(multiplies ? aten::mul_Scalar : aten::div_Scalar, {x}, x,
              {{"other", factor}});
}

at::Tensor Composition::convert(const at::Tensor &x, at::ScalarType type) {
  return call(aten::_to_copy, {x, int64_t(type)},
              at::empty_like(x, x.options().dtype(type)));
}

/// As Python, and C++, compute with doubles.
Factor Composition::compute(rt::Arith function, const Factor &a,
                            const Factor &b) {
  Factor result;
  if (!rt::compute(function, a.number, b.number, result.number)) {
    refuse("its numbers divide by zero");
    return result;
  }
  if (a.value < 0 && b.value < 0)
    return result;
  auto operand = [&](const Factor &factor) {
    if (factor.value >= 0)
      return factor.value;
    return recording.objects.addConstant(
        makeNumber(recording, rt::Number::of(factor.number.toDouble())));
  };
  std::vector<PyjitValue> operands{operand(a)};
  if (!rt::isUnary(function))
    operands.push_back(operand(b));
  result.value = recording.add(
      PyjitArithOp{.function = view(rt::kArithNames[unsigned(function)]),
                   .operands = view(operands),
                   .value = recording.writer.real(result.number.real),
                   .resultType = recording.writer.object("float")});
  return result;
}

at::Tensor Composition::widened(const at::Tensor &x) {
  if (x.scalar_type() != at::kHalf && x.scalar_type() != at::kBFloat16)
    return x;
  copies.emplace_back(x, convert(x, at::kFloat));
  return copies.back().second;
}

void Composition::writeBack() {
  for (auto &[narrow, wide] : copies)
    call(aten::copy_, {narrow, wide});
  copies.clear();
}

//===----------------------------------------------------------------------===//
// Updates
//===----------------------------------------------------------------------===//

class FusedUpdate : Composition {
public:
  using Composition::Composition;
  void run();

private:
  const c10::IValue &argument(const char *name) {
    return op.inputs[*op.handle.schema().argumentIndexWithName(name)];
  }
  bool flag(const char *name) { return argument(name).toBool(); }
  at::Tensor element(const char *list, size_t i);
  Factor option(const char *name);
  bool readRate();
  bool readStep(const at::Tensor &step, Factor &result);
  bool areAlike(const std::vector<at::Tensor> &tensors);
  Factor correction(const Factor &beta, const Factor &step,
                    at::ScalarType type);
  void adam(size_t i, bool decoupled);
  void descent(size_t i);

  std::vector<std::vector<PyObject *>> lifted;
  Factor rate;
};

at::Tensor FusedUpdate::element(const char *list, size_t i) {
  auto elements = argument(list).toListRef();
  return i < elements.size() ? elements[i].toTensor() : at::Tensor();
}

Factor FusedUpdate::option(const char *name) {
  size_t place = *op.handle.schema().argumentIndexWithName(name);
  Factor result = number(op.inputs[place].toDouble());
  if (!lifted[place].empty())
    result.value = recording.scalars.valueOf(lifted[place][0]);
  return result;
}

bool FusedUpdate::readRate() {
  if (!argument("lr").isTensor()) {
    rate = option("lr");
    return true;
  }
  return readStep(argument("lr").toTensor(), rate) &&
         (!rate.tensor.defined() ||
          refuse("its learning rate is a tensor that is not the host's"));
}

bool FusedUpdate::readStep(const at::Tensor &step, Factor &result) {
  TensorInfo *info = impl.find(step);
  if (!info || info->value < 0)
    return refuse("a number of unknown origin");
  if (info->constant && step.numel() == 1 && step.device().is_cpu() &&
      step.scalar_type() == at::kFloat) {
    result = number(*static_cast<const float *>(step.const_data_ptr()));
    return true;
  }
  if (!step.dim()) {
    result.value = impl.host.read(step, result.number);
    if (result.value >= 0)
      return result.number.isFloat || refuse("a counter that is an int");
  }
  result.tensor = step;
  return true;
}

/// Torch's own kernels on devices ask for the same.
bool FusedUpdate::areAlike(const std::vector<at::Tensor> &tensors) {
  const at::Tensor &first = tensors[0];
  for (const at::Tensor &t : tensors) {
    if (!t.defined() || t.scalar_type() != first.scalar_type() ||
        t.device() != first.device() || t.sizes() != first.sizes() ||
        t.strides() != first.strides() || !t.is_non_overlapping_and_dense())
      return refuse("its tensors are of different types or layouts");
    TensorInfo *info = impl.find(t);
    if (!info || info->value < 0)
      return refuse("a tensor of unknown origin");
  }
  if (!at::isFloatingType(first.scalar_type()))
    return refuse("its tensors are no floats");
  return true;
}

/// `1 - beta ** step`.
Factor FusedUpdate::correction(const Factor &beta, const Factor &step,
                               at::ScalarType type) {
  if (!step.tensor.defined())
    return compute(rt::Arith::Sub, number(1.0),
                   compute(rt::Arith::Pow, beta, step));
  at::Tensor wide = step.tensor.scalar_type() == type
                        ? step.tensor
                        : convert(step.tensor, type);
  at::Tensor power = call(aten::pow_Scalar, {beta.number.toDouble(), wide},
                          wide, {{"self", beta}});
  return {{}, -1, call(aten::rsub_Scalar, {power, 1.0}, power)};
}

void FusedUpdate::adam(size_t i, bool decoupled) {
  at::Tensor param = element("self", i), grad = element("grads", i),
             mean = element("exp_avgs", i), square = element("exp_avg_sqs", i);
  std::vector<at::Tensor> all{param, grad, mean, square};
  at::Tensor greatest;
  if (flag("amsgrad"))
    all.push_back(greatest = element("max_exp_avg_sqs", i));
  Factor step;
  if (!areAlike(all) || !readStep(element("state_steps", i), step))
    return;
  Factor beta1 = option("beta1"), beta2 = option("beta2"),
         decay = option("weight_decay"), one = number(1.0);
  at::Tensor p = widened(param), m = widened(mean), v = widened(square);
  at::Tensor g = param.scalar_type() == p.scalar_type()
                     ? grad
                     : convert(grad, p.scalar_type());
  if (flag("maximize"))
    g = call(aten::neg, {g}, g);
  if (decay.number.toDouble() != 0 && decoupled)
    call(aten::mul__Scalar, {p}, {},
         {{"other", compute(rt::Arith::Sub, one,
                            compute(rt::Arith::Mul, rate, decay))}});
  else if (decay.number.toDouble() != 0)
    g = call(aten::add_Tensor, {g, p}, g, {{"alpha", decay}});
  call(aten::lerp__Scalar, {m, g}, {},
       {{"weight", compute(rt::Arith::Sub, one, beta1)}});
  call(aten::mul__Scalar, {v}, {}, {{"other", beta2}});
  call(aten::addcmul_, {v, g, g}, {},
       {{"value", compute(rt::Arith::Sub, one, beta2)}});
  at::Tensor reached = v;
  if (greatest.defined()) {
    reached = widened(greatest);
    call(aten::copy_, {reached, call(aten::maximum, {reached, v}, v)});
  }
  Factor first = correction(beta1, step, p.scalar_type()),
         second = correction(beta2, step, p.scalar_type());
  if (step.tensor.defined())
    second.tensor = call(aten::sqrt, {second.tensor}, second.tensor);
  else
    second = compute(rt::Arith::Sqrt, second, {});
  at::Tensor root =
      scale(aten::div_Tensor, call(aten::sqrt, {reached}, reached), second);
  call(aten::add__Scalar, {root}, {}, {{"other", option("eps")}});
  if (step.tensor.defined()) {
    at::Tensor size =
        scale(aten::mul_Tensor,
              call(aten::reciprocal, {first.tensor}, first.tensor), rate);
    call(aten::addcdiv_, {p, scale(aten::mul_Tensor, m, {{}, -1, size}), root},
         {}, {{"value", number(-1.0)}});
  } else {
    Factor size = compute(rt::Arith::TrueDiv, rate, first);
    call(aten::addcdiv_, {p, m, root}, {},
         {{"value", compute(rt::Arith::Neg, size, {})}});
  }
  writeBack();
}

void FusedUpdate::descent(size_t i) {
  at::Tensor param = element("self", i), grad = element("grads", i), buffer;
  Factor momentum = option("momentum"), decay = option("weight_decay");
  bool onDevice = !param.device().is_cpu(), maximizes = flag("maximize"),
       moves = momentum.number.toDouble() != 0;
  std::vector<at::Tensor> all{param, grad};
  if (moves)
    all.push_back(buffer = element("momentum_buffer_list", i));
  if (!areAlike(all))
    return;
  // Torch's loop over half precision reads its buffer as single precision.
  if (!onDevice && at::isReducedFloatingType(param.scalar_type())) {
    refuse("half precision on the CPU");
    return;
  }
  at::Tensor p = widened(param);
  at::Tensor g = param.scalar_type() == p.scalar_type()
                     ? grad
                     : convert(grad, p.scalar_type());
  // The two kernels turn the sign before and behind the decay.
  if (maximizes && !onDevice)
    g = call(aten::neg, {g}, g);
  if (decay.number.toDouble() != 0)
    g = call(aten::add_Tensor, {g, p}, g, {{"alpha", decay}});
  if (moves) {
    at::Tensor b = flag("is_first_step") ? buffer : widened(buffer);
    if (flag("is_first_step")) {
      call(aten::copy_, {b, g});
    } else {
      call(aten::mul__Scalar, {b}, {}, {{"other", momentum}});
      call(aten::add__Tensor, {b, g}, {},
           {{"alpha",
             compute(rt::Arith::Sub, number(1.0), option("dampening"))}});
    }
    if (flag("nesterov"))
      g = call(aten::add_Tensor, {g, flag("is_first_step") ? g : b}, g,
               {{"alpha", momentum}});
    else if (!flag("is_first_step"))
      g = b;
  }
  call(aten::add__Tensor, {p, g}, {},
       {{"alpha",
         maximizes && onDevice ? rate : compute(rt::Arith::Neg, rate, {})}});
  writeBack();
}

void FusedUpdate::run() {
  lifted = findLiftedElements(recording.scalars, op.handle.schema(), op.inputs);
  // Which terms there are depends on these.
  for (const char *name : {"weight_decay", "momentum"})
    if (auto place = op.handle.schema().argumentIndexWithName(name);
        place && !lifted[*place].empty()) {
      recording.scalars.specialize(lifted[*place][0]);
      lifted[*place].clear();
    }
  if (c10::GradMode::is_enabled()) {
    refuse("grad mode is on");
    return;
  }
  for (const char *name : {"grad_scale", "found_inf"})
    if (argument(name).isTensor() && argument(name).toTensor().defined()) {
      refuse("scaled gradients");
      return;
    }
  if (!readRate())
    return;
  bool decoupled = op.name == aten::_fused_adamw_ ||
                   op.name == aten::_fused_adamw__tensor_lr;
  bool descends =
      op.name == aten::_fused_sgd_ || op.name == aten::_fused_sgd__tensor_lr;
  size_t count = argument("self").toListRef().size();
  for (size_t i = 0; i < count && !recording.ended(); ++i)
    descends ? descent(i) : adam(i, decoupled);
}

//===----------------------------------------------------------------------===//
// Gradients that were scaled
//===----------------------------------------------------------------------===//

/// Multiplies them by the inverse of their scale, and notes whether all were
/// finite before.
class Unscaling : Composition {
public:
  using Composition::Composition;
  void run();
};

void Unscaling::run() {
  const std::vector<at::Tensor> gradients = op.inputs[0].toTensorVector();
  const at::Tensor found = op.inputs[1].toTensor();
  if (c10::GradMode::is_enabled()) {
    refuse("grad mode is on");
    return;
  }
  std::vector<at::Tensor> finite;
  for (const at::Tensor &gradient : gradients) {
    if (!at::isFloatingType(gradient.scalar_type())) {
      refuse("its tensors are no floats");
      return;
    }
    auto truths = gradient.options().dtype(at::kBool);
    at::Tensor each =
        call(aten::isfinite, {gradient}, at::empty_like(gradient, truths));
    finite.push_back(call(aten::all, {each}, at::empty({}, truths)));
    at::Tensor wide = widened(gradient);
    call(aten::mul__Tensor, {wide, op.inputs[2]});
    writeBack();
  }
  if (finite.empty())
    return;
  at::Tensor all = finite[0];
  if (finite.size() > 1)
    all = call(aten::all,
               {call(aten::stack, {finite},
                     at::empty({int64_t(finite.size())}, all.options()))},
               all);
  call(aten::masked_fill__Scalar,
       {found, call(aten::logical_not, {all}, all), 1.0});
}

bool unscales(const std::string &name) {
  return name == aten::_amp_foreach_non_finite_check_and_unscale_;
}

} // namespace

bool pyjit::capture::isFusedUpdate(const std::string &name) {
  return name == aten::_fused_adam_ || name == aten::_fused_adam__tensor_lr ||
         name == aten::_fused_adamw_ || name == aten::_fused_adamw__tensor_lr ||
         name == aten::_fused_sgd_ || name == aten::_fused_sgd__tensor_lr ||
         unscales(name);
}

void pyjit::capture::recordFusedUpdate(Impl &impl, Impl::Operation &op) {
  // It has no outputs, raise it or not.
  if (std::uncaught_exceptions())
    return;
  at::DisableRecordFunctionGuard unseen;
  if (unscales(op.name))
    Unscaling(impl, op).run();
  else
    FusedUpdate(impl, op).run();
}
