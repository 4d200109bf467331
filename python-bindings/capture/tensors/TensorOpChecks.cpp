//===- TensorOpChecks.cpp - What of an operator cannot be recorded --------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The reasons why an operator that has returned is no line of the trace, and
// what its results alias.
//
//===----------------------------------------------------------------------===//

#include "tensors/OperatorRecording.h"
#include "tensors/TensorOpFacts.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/count_nonzero.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <utility>

using namespace pyjit;
using namespace pyjit::capture;

using Impl = TensorRecorder::Impl;

//===----------------------------------------------------------------------===//
// Questions about values
//===----------------------------------------------------------------------===//

static bool holdsOtherThanTensors(const c10::IValue &v) {
  if (v.isTensor() || v.isNone())
    return false;
  if (v.isTensorList() || v.isOptionalTensorList())
    return false;
  return true;
}

static bool contains(const std::vector<size_t> &list, size_t element) {
  return std::find(list.begin(), list.end(), element) != list.end();
}

/// Whether all that is unusual about it is that it is still to be conjugated or
/// negated, and that the call has made it so: its value is conjugated.
static bool isLeftPending(const at::Tensor &t, bool external) {
  return !external && (t.is_conj() || t.is_neg()) &&
         !unsupportedTensor(t, /*pending=*/true);
}

//===----------------------------------------------------------------------===//
// Checks
//===----------------------------------------------------------------------===//

/// How Python gets to see operands' data by way of the result, or null.
const char *OperatorRecording::whyDataDependent() const {
  bool dynamicShape = op.handle.hasTag(at::Tag::dynamic_output_shape) ||
                      op.facts.readsDataUnsaid;
  if (op.facts.takesIndexLists) {
    // Only masks make the result's shape depend on data.
    dynamicShape = false;
    for (size_t j = 1; op.facts.readsAtIndices && j < arguments.operands.size();
         ++j) {
      at::ScalarType type = arguments.operands[j].scalar_type();
      dynamicShape |= type == at::kBool || type == at::kByte;
    }
  }
  if (op.name == operators::aten::one_hot) // with a number of classes given
    dynamicShape = false;
  if (op.handle.hasTag(at::Tag::data_dependent_output))
    return "its tensor's data flows into Python";
  return dynamicShape ? "the result's shape depends on data" : nullptr;
}

/// The operands of which it counts the elements that are not zero: how many
/// there are decides about the result's size. None where anything else does.
std::vector<size_t> OperatorRecording::findCounted() const {
  size_t count = arguments.operands.size();
  std::vector<size_t> counted;
  if (op.name == operators::aten::nonzero && count == 1)
    counted = {0};
  else if (op.name == operators::aten::masked_select && count == 2)
    counted = {1};
  else if (op.name == operators::aten::index_Tensor)
    for (size_t j = 1; j < count; ++j)
      if (arguments.operands[j].scalar_type() == at::kBool)
        counted.push_back(j);
  bool known = std::all_of(counted.begin(), counted.end(), [&](size_t j) {
    const TensorInfo *info = arguments.infos[j];
    return info && info->value >= 0 && !info->uninitialized;
  });
  return known ? counted : std::vector<size_t>();
}

/// Records on with the size that the result has, if the run does so here: a
/// `speculate` checks each count.
bool OperatorRecording::goesBySize() {
  std::vector<size_t> counted = findCounted();
  if (counted.empty() || !recording.decisions.atSize ||
      !recording.decisions.atSize())
    return false;
  TraceWriter &writer = recording.writer;
  auto scalar = [&](PyjitElement element, const at::Tensor &t) {
    return writer.tensor(nullptr, nullptr, 0, element, t.device().str());
  };
  for (size_t j : counted) {
    const at::Tensor &mask = arguments.operands[j];
    bool was = std::exchange(impl.suspended, true);
    int64_t count = at::count_nonzero(mask).item<int64_t>();
    impl.suspended = was;
    recording.breaks.noteFixed(GraphBreaks::Fixes::Size, count);
    PyjitValue number = impl.add({operators::aten::count_nonzero,
                                  {arguments.infos[j]->value},
                                  {writer.operand(), writer.none()},
                                  {},
                                  {},
                                  /*noGrad=*/true},
                                 {scalar(PyjitElementI64, mask)}, {});
    PyjitValue flag = impl.add({operators::aten::eq_Scalar,
                                {number},
                                {writer.operand(), writer.integer(count)},
                                {},
                                {},
                                /*noGrad=*/true},
                               {scalar(PyjitElementBool, mask)}, {});
    recording.decisions.speculate(flag, true);
  }
  return !recording.ended();
}

bool OperatorRecording::checkWhatPythonSees() {
  for (TensorInfo *info : arguments.infos)
    constant &= info && info->constant;
  if (arguments.infos.size() == 1 && arguments.infos[0] &&
      arguments.infos[0]->uniform)
    constant |= isAlikeForUniform(op.name, op.inputs);
  if (const char *why = whyDataDependent(); why && !constant && !goesBySize())
    return refuse(why, op.handle.hasTag(at::Tag::data_dependent_output)
                           ? ReasonKind::DataInPython
                           : ReasonKind::DataDependentShape);
  bool other =
      std::any_of(outputs.begin(), outputs.end(), holdsOtherThanTensors);
  if (other && mutated.empty()) {
    if (!constant && !op.facts.asksMetadata)
      return refuse("its tensor's data flows into Python",
                    ReasonKind::DataInPython);
    impl.composites.question(op.name, op.facts, op.inputs);
    return false;
  }
  if (!op.facts.shapeFollows)
    return refuse("nothing is known about it");
  if (op.facts.writesUnsaid)
    return refuse("it writes what its schema does not say");
  if (!arguments.failure.empty())
    return refuse(arguments.failure);
  // The launch program draws from the same generator in the same order.
  if (op.handle.hasTag(at::Tag::nondeterministic_seeded))
    constant = false;
  if (other || outputs.empty())
    return refuse("results other than tensors");
  return true;
}

/// `as_strided` counts from the start of the storage, and how far into its
/// storage an input begins may differ between calls. What a tensor of the call
/// itself does not show of its storage, the program's value does not have, nor
/// would a tensor that it hands over a graph break.
bool OperatorRecording::checkStorage() {
  if (!op.facts.addressesStorage || arguments.operands.empty())
    return true;
  const at::Tensor &source = arguments.operands[0];
  for (auto &entry : impl.tensors)
    if (entry.second.external &&
        storageOf(at::TensorBase(entry.second.impl)) == storageOf(source))
      return refuse("it views an input's storage");
  if (!source.is_non_overlapping_and_dense() || source.storage_offset() != 0 ||
      source.storage().nbytes() != source.nbytes())
    return refuseCall("it views a storage of which its tensor shows a part");
  return true;
}

/// Where the region that autocast keeps a cast in lies inside of the call, the
/// specialization's data flow says what later uses find, even if somebody has
/// written the weight meanwhile.
bool OperatorRecording::checkKeptCast() {
  if (!State::now().isInsideAutocast())
    return refuse("autocast, switched on without a region, keeps the cast of a "
                  "weight for good");
  recording.add(
      PyjitStateOp{.values = recording.writer.state("autocast_nested", false)});
  return true;
}

/// A number, or a constant without dimensions on the CPU.
static std::optional<at::Scalar> knownScalar(const c10::IValue &v,
                                             const TensorInfo *operand) {
  if (!v.isTensor())
    return v.toScalar();
  const at::Tensor &t = v.toTensor();
  if (t.dim() || !t.device().is_cpu() || (operand && !operand->constant))
    return std::nullopt;
  const void *data = t.const_data_ptr();
  switch (t.scalar_type()) {
  case at::kFloat:
    return at::Scalar(*static_cast<const float *>(data));
  case at::kDouble:
    return at::Scalar(*static_cast<const double *>(data));
  case at::kLong:
    return at::Scalar(*static_cast<const int64_t *>(data));
  default:
    return std::nullopt;
  }
}

/// Whether it is a counter that the call has made: what it holds now is a
/// constant, too. A program of a device could not write it. (A loop on data
/// carries its counters in the program.)
bool OperatorRecording::isOwnConstant(const at::Tensor &t,
                                      const TensorInfo &info) const {
  return info.constant && !info.external && t.dim() == 0 &&
         recording.decisions.heads.count == 0 && t.device().is_cpu() &&
         !t.requires_grad() && !t.is_view() &&
         std::none_of(impl.tensors.begin(), impl.tensors.end(),
                      [&](const auto &other) {
                        return other.first != t.unsafeGetTensorImpl() &&
                               hasStorage(other.first, storageOf(t));
                      });
}

/// `counter += 1`, of a number that the host keeps.
bool OperatorRecording::addsOnHost() {
  if ((op.name != operators::aten::add__Tensor &&
       op.name != operators::aten::add__Scalar) ||
      arguments.operands.empty() || arguments.operands.size() > 2 ||
      !arguments.infos[0])
    return false;
  // A lifted number is an operand, and no constant.
  bool second = arguments.operands.size() == 2;
  if (second && !arguments.infos[1])
    return false;
  std::optional<at::Scalar> number =
      knownScalar(op.inputs[1], second ? arguments.infos[1] : nullptr);
  if (!number || op.inputs[2].toScalar().toDouble() != 1.0)
    return false;
  if (isOwnConstant(arguments.operands[0], *arguments.infos[0]))
    return impl.constant(arguments.operands[0]);
  return impl.host.add(arguments.operands[0],
                       number->isFloatingPoint()
                           ? rt::Number::of(number->toDouble())
                           : rt::Number::of(number->toLong()));
}

/// `product *= number`, of numbers that the host keeps and computes.
bool OperatorRecording::multipliesOnHost() {
  if ((op.name != operators::aten::mul__Tensor &&
       op.name != operators::aten::mul__Scalar) ||
      op.before.size() != 1 || arguments.operands.size() != 2 ||
      !arguments.infos[0] || arguments.infos[1])
    return false;
  std::optional<at::Scalar> factor = knownScalar(op.inputs[1], nullptr);
  return factor && factor->isFloatingPoint() &&
         impl.host.multiply(arguments.operands[0], op.before[0],
                            factor->toDouble(), arguments.values[1]);
}

/// Operand `j` holds what the host has computed: the program makes a tensor of
/// that. (A device's has no such tensor.)
bool OperatorRecording::takeFromHost(size_t j) {
  bool shows = op.name == operators::aten::detach;
  if (impl.earlier.onDevice || (!viewed.empty() && !shows))
    return false;
  PyjitValue value = impl.host.tensorOf(arguments.operands[j]);
  if (value < 0)
    return false;
  arguments.values[j] = value;
  impl.earlier.hostPart = op.name;
  return true;
}

/// Rules of `vmap` give gradients of one operand something of the shape of that
/// operand.
bool OperatorRecording::isUnread(size_t j) const {
  if (!op.facts.linearGradients || !j || j > outputs.size())
    return false;
  for (size_t k = 0; k < outputs.size(); ++k)
    if (!outputs[k].isTensor() ||
        outputs[k].toTensor().defined() != (k + 1 == j))
      return false;
  return true;
}

bool OperatorRecording::checkOperands() {
  if (op.castKept && !checkKeptCast())
    return false;
  for (size_t j = 0; j < arguments.operands.size(); ++j) {
    const at::Tensor &t = arguments.operands[j];
    const TensorInfo *info = arguments.infos[j];
    if (!info)
      continue; // a number
    const char *why = t._is_zerotensor() ? nullptr : unsupportedTensor(t);
    if (why && !isLeftPending(t, info->external))
      return refuseCall(why);
    bool writes = contains(mutated, j);
    if (impl.host.isWritten(t) && (writes || !takeFromHost(j)))
      return refuse("it takes a tensor whose number the host has changed");
    if (info->uninitialized && !writes && viewed.empty() &&
        op.facts.overwrites != int(j)) {
      if (!isUnread(j))
        return refuse("it reads memory that no operator has filled");
      fillUnread(j);
    }
    if (writes && (mayOverlap(t) || info->readOnly))
      return refuse("it writes through a view that shows an element twice, or "
                    "that no kernel can write");
    if (const char *why = impl.earlier.leaves.whyNotTaken(t, *info, writes,
                                                          /*flows=*/false))
      return refuse(why);
    if (writes && info->data && impl.earlier.graph)
      return refuse("it writes a tensor's `.data`, and a backward might read "
                    "what was there");
    if (writes && impl.earlier.frozen.has(t))
      return refuse(
          "it writes a tensor whose requires_grad the call has turned "
          "off");
    if (writes && impl.casts.isMemoryOf(t))
      return refuse("it writes a weight's cast, which autocast keeps");
    if (writes && impl.type(t) != info->type &&
        !(op.facts.shapeChange && !info->external))
      return refuse("it changes the shape of a tensor in place");
  }
  return true;
}

static bool showsTheSame(const at::TensorBase &a, const at::TensorBase &b) {
  return a.const_data_ptr() == b.const_data_ptr() && a.sizes() == b.sizes() &&
         a.strides() == b.strides() && a.dtype() == b.dtype();
}

/// Whether the trace says of all that shows this memory what it is a view of:
/// refgraph-lift-sizes then sees to it that such tensors stay equal, or apart.
static bool hasOneOrigin(const Impl &impl, const void *storage) {
  int inputs = 0;
  for (const auto &[tensor, info] : impl.tensors)
    if (hasStorage(tensor, storage)) {
      inputs += info.external;
      if (info.data)
        return false;
    }
  return inputs <= 1;
}

/// In the tensor program an operator reads all before it writes anything. In
/// eager, one that writes what it still has to read finds its own results
/// there, in an order that is its kernel's alone.
bool OperatorRecording::checkWritten() {
  // Each element is read just before it is written.
  bool elementwise =
      op.handle.hasTag(at::Tag::pointwise) || op.name == operators::aten::copy_;
  for (size_t written : mutated) {
    const void *storage = storageOf(arguments.operands[written]);
    if (impl.earlier.leafStorages.count(storage))
      return refuse("it writes memory that a leaf of the call's own shares");
    if (auto view = impl.retypedStorages.find(storage);
        view != impl.retypedStorages.end())
      return refuse("it writes memory that a view (" + view->second +
                    ") shows as other numbers");
    if (wasThereBefore(impl, arguments.operands[written]))
      return refuse("it writes what a function under checkpoint was given, and "
                    "the backward pass calls that again");
    for (size_t j = 0; j < arguments.operands.size(); ++j) {
      const at::Tensor &t = arguments.operands[written],
                       &other = arguments.operands[j];
      bool bothWritten = contains(mutated, j);
      if (j == written || (bothWritten && j < written) || !arguments.infos[j] ||
          !other.defined() || !t.has_storage() || !other.has_storage() ||
          !t.storage().is_alias_of(other.storage()))
        continue;
      bool same = showsTheSame(t, other);
      if (mayShareElements(t, other) && (bothWritten || !same || !elementwise))
        return refuse("it writes memory that it reads as another tensor");
      // Of other sizes they could overlap, but for the parts into which a
      // composite divides what it has made (gates of a recurrent cell).
      if (!t.is_same(other) && !impl.composites.owns(t) &&
          recording.sizes.followed && !hasOneOrigin(impl, storageOf(t)))
        for (size_t k : {written, j})
          recording.add(PyjitLayoutOp{.tensor = arguments.infos[k]->value,
                                      .question = view("all")});
    }
  }
  return true;
}

bool OperatorRecording::findFresh() {
  for (const c10::IValue &output : outputs) {
    std::vector<at::Tensor> returned;
    collectTensors(output, returned);
    numResults += returned.empty() && output.isTensor(); // left out
    for (const at::Tensor &t : returned) {
      bool isOperand = false;
      for (const at::Tensor &operand : arguments.operands)
        isOperand |= operand.defined() && operand.is_same(t);
      if (isOperand)
        continue;
      const char *why = unsupportedTensor(t);
      if (why && !isLeftPending(t, /*external=*/false))
        return refuse(why);
      fresh.push_back(t);
      places.push_back(numResults++);
    }
  }
  return !fresh.empty() || !mutated.empty();
}

/// Of the operands that the schema says results are views of, or else of all.
void OperatorRecording::findAliases() {
  std::set<const void *> freshStorages;
  for (const at::Tensor &t : fresh)
    if (storageOf(t))
      freshStorages.insert(storageOf(t));
  std::vector<size_t> others;
  for (size_t j = 0; j < arguments.operands.size(); ++j)
    if (arguments.infos[j] &&
        freshStorages.count(storageOf(arguments.operands[j])))
      (contains(viewed, j) ? aliases : others).push_back(j);
  if (aliases.empty())
    aliases = std::move(others);
}

/// Says whether gradients end at the operator, and refuses it where a compiled
/// backward would let them flow otherwise than eager's.
bool OperatorRecording::checkGradient() {
  // A cast that is kept turns grad mode on.
  if ((op.castKept && !impl.casts.gradModeAround()) ||
      (!impl.state.gradMode && !c10::GradMode::is_enabled()))
    return true;
  if (op.detaches)
    return refuse("it takes a tensor's gradient away");
  static const std::vector<size_t> kNone;
  OperatorGradient gradient(impl, arguments, fresh,
                            op.updatesStatistics ? kNone : mutated);
  noGrad = gradient.ends();
  if (op.strangeHistory && (gradient.flows() || !mutated.empty()))
    return refuse("it reads a tensor whose history no recorded operator has "
                  "made");
  flows = gradient.flows();
  if (flows)
    return checkFlow(gradient);
  if (!gradient.writesUnseen())
    return true;
  if (gradient.replacesUnseen()) {
    replaced = arguments.infos[mutated[0]]->value;
    return true;
  }
  if (impl.earlier.graph)
    return refuse("it writes memory of a tensor that requires grad, and "
                  "autograd does not see that");
  leaves = gradient.leavesWritten();
  if (!leaves.empty())
    return true;
  impl.earlier.unseenWrite = op.name;
  return true;
}

bool OperatorRecording::checkFlow(const OperatorGradient &gradient) {
  if (!impl.state.gradMode) {
    recording.breaks.lacksHistory = recording.breaks.resumed;
    return refuse("the call has turned grad mode on, and an operand requires "
                  "grad",
                  ReasonKind::GradMode);
  }
  // Checkpoint's own hooks are those of the region.
  if (!recording.checkpoint.repeats() && savesThroughHooks())
    return refuseCall("hooks on saved tensors are active, and an input "
                      "requires grad");
  bool isStridedView = op.name == operators::aten::as_strided;
  bool ofComplex = gradient.isOfComplex();
  bool known = (!op.facts.addressesStorage || isStridedView) &&
               (op.facts.wholeView || !aliases.empty() ||
                (op.facts.shapeChange && !arguments.infos[0]->external) ||
                pyjitOperatorDifferentiable(view(op.name), ofComplex));
  if (!known) {
    recording.end(ReasonKind::NotDifferentiable,
                  "cannot be differentiated: " + op.name +
                      (ofComplex ? " of complex numbers" : ""));
    return false;
  }
  if (const char *why = gradient.whyNotAsEager())
    return refuse(why);
  for (size_t j = 0; j < arguments.operands.size(); ++j)
    if (const TensorInfo *info = arguments.infos[j]) {
      const at::Tensor &t = arguments.operands[j];
      if (t.requires_grad() && impl.earlier.replaced.has(t))
        return refuse("gradients flow to a leaf whose `.data` the call has "
                      "set");
      if (const char *why = impl.earlier.leaves.whyNotTaken(
              t, *info, /*writes=*/false, /*flows=*/true))
        return refuse(why);
    }
  if (!impl.earlier.unseenWrite.empty())
    return refuse("an operator before it (" + impl.earlier.unseenWrite +
                  ") wrote memory of a tensor that requires grad, and autograd "
                  "did not see that");
  impl.gradientFlows = flows = true;
  // A sum of losses that backwards have been through, say, has a history that
  // nobody can go through any more.
  impl.earlier.graph |= impl.freed.empty() || !gradient.isFreed();
  recording.breaks.noteGradient();
  return true;
}

/// Of a tensor of the CPU, a program of a device replaces the whole, but no
/// part (RefGraphToTSSA).
bool OperatorRecording::checkDevices() {
  auto isOnDevice = [](const at::Tensor &t) {
    return t.defined() && !t.is_cpu();
  };
  bool writesPart = std::any_of(mutated.begin(), mutated.end(), [&](size_t j) {
    return arguments.operands[j].is_cpu() && arguments.infos[j]->isView;
  });
  bool meetsDevice = std::any_of(fresh.begin(), fresh.end(), isOnDevice) ||
                     std::any_of(arguments.operands.begin(),
                                 arguments.operands.end(), isOnDevice);
  if (writesPart && (impl.earlier.onDevice || meetsDevice))
    return refuse("it writes a part of a tensor of the CPU, among operators of "
                  "a device");
  if (meetsDevice && !impl.earlier.hostPart.empty())
    return refuse("it is a device's, and an operator before it (" +
                  impl.earlier.hostPart +
                  ") wrote a part of a tensor of the CPU");
  impl.earlier.onDevice |= meetsDevice;
  if (arguments.onCurrentDevice && !fresh.empty() && fresh.front().is_cuda() &&
      !std::exchange(impl.earlier.onCurrentDevice, true))
    recording.add(PyjitStateOp{
        .values = recording.writer.currentDevice(fresh.front().get_device())});
  if (writesPart)
    impl.earlier.hostPart = op.name;
  return true;
}

/// A view with another element type becomes a copy; see convertRetyped.
bool OperatorRecording::checkRetyped() {
  for (size_t j : aliases) {
    const at::Tensor &source = arguments.operands[j];
    if (fresh[0].scalar_type() == source.scalar_type() &&
        (op.facts.viewRule != PyjitViewRuleNone || !op.facts.retypedView))
      continue;
    if (fresh.size() != 1 || !fresh[0].is_non_overlapping_and_dense() ||
        !op.facts.retypedView)
      return refuse("its result shows memory as other numbers");
    impl.retypedStorages.emplace(storageOf(source), op.name);
    for (auto &entry : impl.tensors)
      if (entry.second.external && entry.second.value >= 0 &&
          hasStorage(entry.first, storageOf(source)))
        impl.readOffset(at::TensorBase(entry.second.impl), entry.second.value);
  }
  return true;
}
