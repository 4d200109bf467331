//===- TensorOpRecording.cpp - One operator call, recorded ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What becomes of an operator that has returned: its arguments, the line of the
// trace, and the SSA values that its results and the tensors that it wrote have
// from then on. Whether it can be recorded is in TensorOpChecks.cpp.
//
//===----------------------------------------------------------------------===//

#include "numbers/DropRates.h"
#include "numbers/HandedNumbers.h"
#include "numbers/LiftedArguments.h"
#include "tensors/AttentionKernel.h"
#include "tensors/FusedOptimizers.h"
#include "tensors/OperatorRecording.h"
#include "tensors/TensorOpFacts.h"

#include <ATen/ExpandUtils.h>
#include <ATen/core/Tensor.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <set>

using namespace pyjit;
using namespace pyjit::capture;

void pyjit::capture::collectTensors(const c10::IValue &v,
                                    std::vector<at::Tensor> &out) {
  if (v.isTensor()) {
    if (v.toTensor().defined())
      out.push_back(v.toTensor());
  } else if (v.isList()) {
    for (const c10::IValue &element : v.toListRef())
      collectTensors(element, out);
  } else if (v.isTuple()) {
    for (const c10::IValue &element : v.toTupleRef().elements())
      collectTensors(element, out);
  }
}

static bool isTensorValue(const c10::IValue &v) {
  return v.isTensor() && v.toTensor().defined();
}

/// Tensors that Torch makes of Python's numbers behind the dispatcher's back.
void OperatorRecording::bindNumbers() {
  // `x[i] = 2.0` fills a tensor of the number.
  if (op.name == operators::aten::lift_fresh && recording.now.storingNumber &&
      op.inputs[0].isTensor() && op.inputs[0].toTensor().dim() == 0 &&
      !impl.find(op.inputs[0].toTensor()))
    impl.constant(op.inputs[0].toTensor());

  // So do lists between a tensor's brackets; for a device they are moved there.
  if (recording.now.numbersAsTensors && op.name == operators::aten::_to_copy &&
      op.inputs[0].isTensor())
    if (TensorInfo *info = impl.find(op.inputs[0].toTensor());
        info && info->uninitialized)
      impl.constant(op.inputs[0].toTensor());
  if (recording.now.numbersAsTensors && op.facts.takesIndexLists &&
      op.inputs.size() > 1 && op.inputs[1].isList())
    for (const c10::IValue &index : op.inputs[1].toListRef())
      if (isTensorValue(index)) {
        TensorInfo *info = impl.find(index.toTensor());
        if (!info || info->uninitialized)
          impl.constant(index.toTensor());
      }
}

/// Zeros of this type and shape.
static OperatorCall zeros(TraceWriter &writer, at::IntArrayRef shape,
                          at::ScalarType type, const at::Device &device) {
  std::vector<PyjitAttribute> sizes;
  for (int64_t size : shape)
    sizes.push_back(writer.integer(size));
  OperatorCall call;
  call.overload = operators::aten::full;
  call.arguments = {writer.list(sizes),          writer.real(0),
                    writer.integer(int(type)),   writer.none(),
                    writer.device(device.str()), writer.none()};
  return call;
}

static PyjitType rowMajorType(TraceWriter &writer, const at::Tensor &t) {
  std::vector<int64_t> strides(t.dim(), 1);
  for (int64_t i = t.dim() - 1; i > 0; --i)
    strides[i - 1] = strides[i] * std::max<int64_t>(t.size(i), 1);
  return writer.tensor(t.sizes().data(), strides.data(), size_t(t.dim()),
                       elementOf(t.scalar_type()), t.device().str());
}

/// Forward-mode differentiation uses tensors of zeros without memory; with them
/// operators leave out what they would compute. False: it is an operator like
/// others.
bool OperatorRecording::recordZeros() {
  auto isZero = [](const at::Tensor &t) {
    return t.defined() && t._is_zerotensor();
  };
  auto isZeroResult = [&](const c10::IValue &v) {
    return v.isTensor() && isZero(v.toTensor());
  };
  bool result = std::any_of(outputs.begin(), outputs.end(), isZeroResult) ||
                std::any_of(mutated.begin(), mutated.end(), [&](size_t j) {
                  return isZero(arguments.operands[j]);
                });
  bool isSum =
      (op.name == operators::aten::add_Tensor ||
       op.name == operators::aten::sub_Tensor) &&
      std::any_of(arguments.operands.begin(), arguments.operands.end(), isZero);
  if (!result && !isSum)
    return false;
  const char *why = "of a tensor of zeros without memory";
  if (outputs.size() != 1 || !mutated.empty())
    return !refuse(why);
  const at::Tensor &t = outputs[0].toTensor();
  std::optional<size_t> shown;
  if (!result) {
    bool second = isZero(arguments.operands[0]);
    shown = second ? 1 : 0;
    if (arguments.operands.size() != 2 || !arguments.infos[*shown] ||
        isZero(arguments.operands[*shown]) ||
        (second && op.name == operators::aten::sub_Tensor &&
         !arguments.operands[1].is_non_overlapping_and_dense()) ||
        op.inputs[2].toScalar().toDouble() != 1.0 ||
        arguments.operands[*shown].scalar_type() != t.scalar_type())
      return !refuse(why);
  }
  if (shown ? !t.is_non_overlapping_and_dense() : !t.is_contiguous())
    return !refuse(why);
  fresh = {t};
  if (!checkGradient())
    return true;
  beginHistories();
  OperatorCall call =
      zeros(recording.writer, t.sizes(), t.scalar_type(), t.device());
  call.noGrad = noGrad;
  PyjitValue value = impl.add(call, {rowMajorType(recording.writer, t)}, {});
  // What is added to them is the result, the sign of its zeros included.
  if (shown) {
    PyjitValue other = differentiableValue(*shown);
    if (*shown == 1 && op.name == operators::aten::sub_Tensor)
      other = impl.add({operators::aten::neg,
                        {other},
                        {recording.writer.operand()},
                        {},
                        {},
                        noGrad},
                       {arguments.operands[1]});
    value = addChoice(false, value, other, t);
  }
  for (size_t j = 0; flows && j < arguments.operands.size(); ++j)
    if (j != shown && arguments.infos[j] &&
        arguments.operands[j].requires_grad())
      value = addZeroGradient(value, t, j);
  TensorInfo &info = impl.bind(t, value);
  info.external = info.constant = info.uninitialized = false;
  return true;
}

/// One of two values, broadcast to the result; the other one's gradient is
/// zero.
PyjitValue OperatorRecording::addChoice(bool takesFirst, PyjitValue first,
                                        PyjitValue second,
                                        const at::Tensor &result) {
  TraceWriter &writer = recording.writer;
  OperatorCall constant = zeros(writer, {}, at::kBool, result.device());
  constant.arguments[1] = writer.real(takesFirst);
  std::string device = result.device().str();
  PyjitValue condition = impl.add(
      constant, {writer.tensor(nullptr, nullptr, 0, PyjitElementBool, device)},
      {});
  PyjitAttribute slot = writer.operand();
  return impl.add({operators::aten::where_self,
                   {condition, first, second},
                   {slot, slot, slot},
                   {},
                   {},
                   noGrad},
                  {result});
}

/// The value again, such that operand `j` has a gradient of zeros, as in eager:
/// what the operand holds, infinities included, does not count.
PyjitValue OperatorRecording::addZeroGradient(PyjitValue value,
                                              const at::Tensor &result,
                                              size_t j) {
  const at::Tensor &operand = arguments.operands[j];
  if (operand.scalar_type() != result.scalar_type() ||
      !at::is_expandable_to(operand.sizes(), result.sizes())) {
    refuse(
        "of a tensor of zeros without memory, and gradients flow through it");
    return value;
  }
  return addChoice(true, value, differentiableValue(j), result);
}

void OperatorRecording::readArguments() {
  if (!outputs.empty() && outputs[0].isTensor() &&
      outputs[0].toTensor().defined() && outputs[0].toTensor().is_complex())
    arguments.complexResult = outputs[0].toTensor();
  std::vector<PyObject *> lifted =
      op.lifted ? *op.lifted
                : findLiftedNumbers(recording.scalars, op.name, op.facts,
                                    schema, op.inputs);
  std::vector<std::vector<PyObject *>> sizes(op.inputs.size());
  if (recording.sizes.followed)
    sizes = findLiftedSizes(recording.scalars, op.name, op.facts, schema,
                            op.inputs);
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    size_t first = arguments.operands.size();
    if (!sizes[i].empty()) {
      given.push_back(arguments.sizes(op.inputs[i], sizes[i]));
      continue;
    }
    if (PyjitAttribute part = impl.composites.argument(
            op.name, op.facts, op.inputs, i, arguments)) {
      given.push_back(part);
      continue;
    }
    if (!op.computed.empty() && op.computed[i] >= 0) {
      given.push_back(arguments.computed(op.computed[i], PyjitNumberScalar));
      continue;
    }
    if (int value = findOfRate(recording, op.name, op.inputs, i); value >= 0) {
      given.push_back(arguments.computed(value, PyjitNumberScalar));
      continue;
    }
    if (PyObject *handed = lifted[i] ? nullptr
                                     : findHandedNumber(recording, op.facts,
                                                        schema, op.inputs, i)) {
      given.push_back(arguments.number(
          handed, op.inputs[i].isInt() ? PyjitNumberSize : PyjitNumberScalar));
      continue;
    }
    given.push_back(lifted[i]
                        ? arguments.number(lifted[i], op.inputs[i].isTensor()
                                                          ? PyjitNumberWrapped
                                                          : PyjitNumberScalar)
                        : arguments.argument(op.inputs[i]));
    if (i >= schema.arguments().size())
      continue;
    const c10::AliasInfo *alias = schema.arguments()[i].alias_info();
    for (size_t j = first; alias && j < arguments.operands.size(); ++j)
      (alias->isWrite() ? mutated : viewed).push_back(j);
  }

  for (size_t i = 0; i < op.inputs.size(); ++i)
    if (lifted[i] && !op.inputs[i].isTensor() && !outputs.empty() &&
        outputs[0].isTensor() &&
        !(outputs[0].toTensor().scalar_type() == at::kFloat &&
          recording.dataNumbers.isSingle(recording.scalars.proxyOf(lifted[i]))))
      keepWithin(recording.scalars, lifted[i],
                 outputs[0].toTensor().scalar_type());

  if (recording.now.makesEmpty) {
    EmptyFilling filling =
        fillEmpty(op.name, op.inputs, outputs[0].toTensor().scalar_type());
    if (filling.dropsLast)
      given.pop_back();
    if (filling.value)
      given.insert(given.begin() + long(filling.place),
                   arguments.argument(*filling.value));
    op.facts = factsOf(op.name); // it may be another operator now
  }
}

/// A graph that cannot leave the call is made behind a graph break here.
void OperatorRecording::noteUse(const at::Tensor &leaf) {
  PyObject *object = THPVariable_Wrap(leaf);
  recording.objects.keep(object);
  Py_DECREF(object);
  recording.breaks.noteSite(object);
  impl.earlier.leaves.noteUse(object);
}

/// What the leaf, which the call has written before, holds now, and whose
/// gradient is the leaf's; -1 of any other tensor.
PyjitValue OperatorRecording::writtenLeaf(const at::Tensor &leaf) {
  PyjitValue unwritten = impl.earlier.leaves.unwritten(leaf);
  PyjitValue written = impl.earlier.leaves.written(leaf);
  if (unwritten < 0 || impl.earlier.frozen.has(leaf))
    return -1;
  if (written >= 0)
    return written;
  PyjitAttribute operand = recording.writer.operand();
  // Where a part was written, autograd's history does not go on to the rest.
  PyjitValue contents =
      impl.addDetach(impl.find(leaf)->value, leaf, /*noGrad=*/true);
  written = impl.add({operators::pyjit::written,
                      {contents, unwritten},
                      {operand, operand},
                      {},
                      {}},
                     {leaf});
  impl.earlier.leaves.setWritten(leaf, written);
  noteUse(leaf);
  return written;
}

/// The value of operand `j` where gradients flow through the operator.
PyjitValue OperatorRecording::differentiableValue(size_t j) {
  PyjitValue written =
      flows && arguments.infos[j] ? writtenLeaf(arguments.operands[j]) : -1;
  return written >= 0 ? written : arguments.values[j];
}

/// What nobody reads need not have been filled: zeros stand there.
void OperatorRecording::fillUnread(size_t j) {
  const at::Tensor &t = arguments.operands[j];
  arguments.values[j] =
      impl.add(zeros(recording.writer, t.sizes(), t.scalar_type(), t.device()),
               {rowMajorType(recording.writer, t)}, {});
}

/// In front of a leaf's first write.
void OperatorRecording::keepUnwritten() {
  for (const at::Tensor &leaf : leaves)
    unwritten.push_back(impl.earlier.leaves.unwritten(leaf) >= 0
                            ? impl.earlier.leaves.unwritten(leaf)
                            : impl.add({operators::pyjit::unwritten,
                                        {impl.find(leaf)->value},
                                        {recording.writer.operand()},
                                        {},
                                        {}},
                                       {leaf}));
}

/// Of operands that are leaves of the call's own.
void OperatorRecording::beginHistories() {
  for (size_t j = 0; flows && j < arguments.operands.size(); ++j) {
    const TensorInfo *info = arguments.infos[j];
    if (!info || !isOwnLeaf(*info, arguments.operands[j]))
      continue;
    beginHistory(impl, arguments.operands[j]);
    arguments.values[j] = info->value;
  }
}

/// The results, with undefined ones where a mask leaves some out.
std::vector<at::Tensor> OperatorRecording::resultsInPlaces() const {
  std::vector<at::Tensor> results(numResults);
  for (size_t i = 0; i < fresh.size(); ++i)
    results[places[i]] = fresh[i];
  return results;
}

/// Returns the value of the first result; the others follow, and then the new
/// versions of the mutated operands.
PyjitValue OperatorRecording::append() {
  keepUnwritten();
  OperatorCall call{op.name,
                    arguments.values,
                    given,
                    {aliases.begin(), aliases.end()},
                    {mutated.begin(), mutated.end()},
                    noGrad,
                    flows ? attentionKernel(op.name, op.inputs) : nullptr};
  std::vector<at::Tensor> results = resultsInPlaces();
  for (size_t j : mutated)
    results.push_back(arguments.operands[j]);
  if (replaced >= 0) { // the value before has to stay
    PyjitAttribute operand = recording.writer.operand();
    call.operands[mutated[0]] = impl.add({operators::aten::clone,
                                          {replaced},
                                          {operand, recording.writer.none()},
                                          {},
                                          {},
                                          /*noGrad=*/true},
                                         {results[0]});
  }
  for (size_t j = 0; flows && j < arguments.operands.size(); ++j)
    if (PyjitValue value = differentiableValue(j); value != arguments.values[j])
      call.operands[j] = value;
  return impl.add(call, results);
}

void OperatorRecording::bindFresh(PyjitValue value) {
  bool uninitialized = op.facts.allocates;
  bool readOnly = !aliases.empty() && (op.name == operators::aten::unfold ||
                                       op.name == operators::aten::as_strided);
  for (size_t j : aliases) {
    uninitialized |= arguments.infos[j]->uninitialized;
    readOnly |=
        arguments.infos[j]->readOnly || mayOverlap(arguments.operands[j]);
  }
  bool made = op.facts.makesTensor ||
              std::none_of(arguments.infos.begin(), arguments.infos.end(),
                           [](TensorInfo *operand) { return operand; });
  for (size_t i = 0; i < fresh.size(); ++i) {
    TensorInfo &info = impl.bind(fresh[i], value + PyjitValue(places[i]));
    info.external = false;
    info.constant = constant && !uninitialized;
    info.uniform = drawsUniformNumbers(op.name);
    info.isCount = (!arguments.operands.empty() &&
                    countsElements(op.name, arguments.operands[0])) ||
                   std::any_of(aliases.begin(), aliases.end(), [&](size_t j) {
                     return arguments.infos[j]->isCount;
                   });
    info.uninitialized = uninitialized && fresh[i].numel() > 0;
    info.readOnly = readOnly;
    if (fresh[i].is_conj() || fresh[i].is_neg())
      noteSite(recording, fresh[i]); // it must not leave the call
    info.isView = !aliases.empty();
    info.isPart = !aliases.empty() && viewed.empty() && !fresh[i].is_view() &&
                  !op.facts.wholeView && op.name != operators::aten::detach;
    info.showsWritten =
        std::any_of(aliases.begin(), aliases.end(), [&](size_t j) {
          return arguments.infos[j]->showsWritten ||
                 (flows &&
                  impl.earlier.leaves.unwritten(arguments.operands[j]) >= 0);
        });
    info.data = nullptr;
    for (size_t j : aliases)
      if (!info.data)
        info.data = arguments.infos[j]->data;
    info.isStale = !aliases.empty() && arguments.infos[aliases[0]]->isStale;
    if (made)
      impl.factories.push_back(fresh[i].unsafeGetTensorImpl());
  }
  if (OperatorUse *use = recording.scalars.use();
      use && aliases.size() == 1 &&
      arguments.operands[aliases[0]].is_same(use->target))
    use->target = fresh[0];
  if (fresh.size() == 1 && arguments.operands.size() == 1 &&
      op.inputs.size() == 2 && op.inputs[1].isScalar())
    impl.host.noteComparison(op.name, arguments.operands[0],
                             op.inputs[1].toScalar(), fresh[0]);
}

void OperatorRecording::bindMutated(PyjitValue value) {
  for (size_t i = 0; i < mutated.size(); ++i)
    impl.bindWritten(arguments.operands[mutated[i]], value + PyjitValue(i),
                     op.name, constant);
  for (size_t i = 0; i < leaves.size(); ++i)
    impl.earlier.leaves.note(leaves[i], unwritten[i], value + PyjitValue(i));
  for (size_t j : mutated)
    if (arguments.infos[j]->data)
      impl.earlier.leaves.noteData(arguments.operands[j]);
  if (replaced < 0)
    return;
  PyjitAttribute operand = recording.writer.operand();
  const at::Tensor &t = arguments.operands[mutated[0]];
  impl.bind(t, impl.add({operators::pyjit::written,
                         {value, replaced},
                         {operand, operand},
                         {},
                         {}},
                        {t}));
}

/// Where gradients flow through some of the results only, `detach` says that
/// they end at the others.
void OperatorRecording::endPartialGradients() {
  if (!impl.gradientFlows || noGrad)
    return;
  bool some = std::any_of(fresh.begin(), fresh.end(), [](const at::Tensor &t) {
    return t.requires_grad();
  });
  for (const at::Tensor &t : fresh)
    if (some && (t.is_floating_point() || t.is_complex()) && !t.requires_grad())
      impl.bind(t, impl.addDetach(impl.find(t)->value, t, /*noGrad=*/true));
}

void TensorRecorder::Impl::bindWritten(const at::TensorBase &t, int value,
                                       const std::string &overload,
                                       bool constant) {
  const void *storage = storageOf(t);
  if (const TensorInfo &info = bind(t, value); info.external && !info.data)
    earlier.writtenInputs.insert(info.impl.get());
  else
    earlier.shownAndWritten.insert(storage);
  if (earlier.leafStorages.count(storage))
    recording.endWhole(ReasonKind::Operator,
                       "operator " + overload +
                           ": it writes memory that a leaf of the call's own "
                           "shares");
  recording.checkpoint.noteWrite(storage);
  writtenStorages.emplace(storage, overload);
  // Whatever shows this memory holds what was written.
  for (auto &entry : tensors) {
    if (!hasStorage(entry.first, storage))
      continue;
    entry.second.uninitialized = false;
    entry.second.isComputed =
        gradientOf(at::TensorBase(entry.second.impl)) == Gradient::Computed;
    entry.second.constant &= constant;
    entry.second.uniform = entry.second.isCount = false;
  }
}

void TensorRecorder::Impl::record(const at::RecordFunction &fn, Operation &op) {
  std::vector<c10::IValue> outputs = fn.outputs();
  // Likewise its results, with more beneath.
  if (outputs.size() > op.numResults)
    outputs.erase(outputs.begin(),
                  outputs.end() - std::ptrdiff_t(op.numResults));
  // cuDNN's fourth result is its own memory for the backward pass.
  if (op.updatesStatistics && outputs.size() > 3)
    outputs.resize(3);
  if (isFusedUpdate(op.name))
    recordFusedUpdate(*this, op);
  else if (op.overLists)
    recordOverLists(*this, op, outputs);
  else
    recordOperator(*this, op, outputs);
}

void pyjit::capture::recordOperator(TensorRecorder::Impl &impl,
                                    TensorRecorder::Impl::Operation &op,
                                    const std::vector<c10::IValue> &outputs) {
  OperatorRecording(impl, op, outputs).run();
}

/// The tensor's next version is a view of the last.
void TensorRecorder::Impl::recordShapeChange(OperatorCall call,
                                             const at::Tensor &t) {
  call.overload = factsOf(call.overload).shapeChange;
  recording.checkpoint.noteWrite(storageOf(t));
  const TensorInfo *before = find(t);
  bool isOwn = before && (!before->isView || before->isReshaped);
  TensorInfo &info = bind(t, add(call, {t}));
  info.isView = true;
  info.isReshaped = isOwn;
}
