//===- TensorOpRecording.cpp - One operator call, recorded ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What becomes of an operator that has returned: the reasons why it cannot be
// recorded, what its results alias, the line of the trace, and the SSA values
// that its results and the tensors that it wrote have from then on.
//
//===----------------------------------------------------------------------===//

#include "tensors/TensorOpRecording.h"
#include "numbers/DropRates.h"
#include "numbers/LiftedArguments.h"
#include "tensors/AttentionKernel.h"
#include "tensors/FusedOptimizers.h"
#include "tensors/Gradients.h"
#include "tensors/TensorOpArguments.h"
#include "tensors/TensorOpFacts.h"

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

namespace {

using Impl = TensorRecorder::Impl;

//===----------------------------------------------------------------------===//
// Questions about values
//===----------------------------------------------------------------------===//

bool isTensorValue(const c10::IValue &v) {
  return v.isTensor() && v.toTensor().defined();
}

const void *storageOf(const at::TensorBase &t) {
  return t.has_storage() ? t.storage().unsafeGetStorageImpl() : nullptr;
}

bool hasStorage(c10::TensorImpl *t, const void *storage) {
  return t->has_storage() &&
         t->unsafe_storage().unsafeGetStorageImpl() == storage;
}

/// The strides of dimensions of one included.
bool isRowMajor(const at::TensorBase &t) {
  int64_t expected = 1;
  for (int64_t d = t.dim(); d-- > 0;) {
    if (t.stride(d) != expected)
      return false;
    expected *= std::max<int64_t>(1, t.size(d));
  }
  return true;
}

bool holdsOtherThanTensors(const c10::IValue &v) {
  if (v.isTensor() || v.isNone())
    return false;
  if (v.isTensorList() || v.isOptionalTensorList())
    return false;
  return true;
}

bool contains(const std::vector<size_t> &list, size_t element) {
  return std::find(list.begin(), list.end(), element) != list.end();
}

//===----------------------------------------------------------------------===//
// A recording
//===----------------------------------------------------------------------===//

/// The steps of `run`, each of which builds on those before it. A step that
/// returns false has recorded all that there is, or has ended the capture.
class OperatorRecording {
public:
  OperatorRecording(Impl &impl, Impl::Operation &op,
                    const std::vector<c10::IValue> &outputs)
      : impl(impl), recording(impl.recording), op(op),
        schema(op.handle.schema()), outputs(outputs), arguments(impl) {}

  void run() {
    if (outputs.size() != schema.returns().size())
      return; // it raised
    bindNumbers();
    readArguments();
    if (!checkWhatPythonSees() || !checkStorage() || addsOnHost() ||
        multipliesOnHost() || !checkOperands() || !checkWritten() ||
        !findFresh())
      return;
    findAliases();
    if (!checkGradient() || !checkDevices())
      return;
    if (op.facts.shapeChange && mutated == std::vector<size_t>{0} &&
        arguments.operands.size() == 1 && !arguments.infos[0]->external)
      return impl.recordShapeChange({op.name, arguments.values, given,
                                     /*aliases=*/{0}, /*mutates=*/{}, noGrad},
                                    arguments.operands[0]);
    if (!checkRetyped())
      return;
    beginHistories();
    PyjitValue first = append();
    bindFresh(first);
    bindMutated(first + PyjitValue(fresh.size()));
    endPartialGradients();
  }

private:
  bool refuse(const std::string &why, ReasonKind kind = ReasonKind::Operator) {
    recording.end(kind, "operator " + op.name + ": " + why);
    return false;
  }
  bool refuseCall(const std::string &why) {
    recording.endWhole(ReasonKind::Operator,
                       "operator " + op.name + ": " + why);
    return false;
  }

  void bindNumbers();
  void readArguments();
  const char *whyDataDependent() const;
  bool checkWhatPythonSees();
  bool checkStorage();
  bool checkKeptCast();
  bool isOwnConstant(const at::Tensor &t, const TensorInfo &info) const;
  bool addsOnHost();
  bool multipliesOnHost();
  bool takeFromHost(size_t j);
  bool checkOperands();
  bool checkWritten();
  bool findFresh();
  void findAliases();
  bool checkGradient();
  bool checkDevices();
  bool checkFlow(const OperatorGradient &gradient);
  bool checkRetyped();
  void beginHistories();
  PyjitValue append();
  PyjitValue writtenLeaf(const at::Tensor &leaf);
  void noteUse(const at::Tensor &leaf);
  void keepUnwritten();
  void bindFresh(PyjitValue value);
  void bindMutated(PyjitValue value);
  void endPartialGradients();

  Impl &impl;
  Recording &recording;
  Impl::Operation &op;
  const c10::FunctionSchema &schema;
  const std::vector<c10::IValue> &outputs;

  TensorOpArguments arguments;
  std::vector<PyjitAttribute> given; ///< the arguments
  /// Numbers of operands that the schema says are written, or shown by results.
  std::vector<size_t> mutated, viewed;
  bool constant = true; ///< a function of constants
  bool noGrad = false;  ///< gradients end here
  bool flows = false;   ///< gradients flow through it
  /// Of each operand that is written, the leaf whose memory it shows, where
  /// autograd does not see the write; else empty.
  std::vector<at::Tensor> leaves;
  std::vector<PyjitValue> unwritten; ///< of each of them
  /// The value that is replaced where autograd does not see the write; else -1.
  PyjitValue replaced = -1;
  /// Results that are not the very operand that went in.
  std::vector<at::Tensor> fresh;
  /// Numbers of operands that the fresh results share storage with.
  std::vector<size_t> aliases;
};

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

void OperatorRecording::readArguments() {
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

/// How Python gets to see operands' data by way of the result, or null.
const char *OperatorRecording::whyDataDependent() const {
  bool dynamicShape = op.handle.hasTag(at::Tag::dynamic_output_shape);
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

bool OperatorRecording::checkWhatPythonSees() {
  for (TensorInfo *info : arguments.infos)
    constant &= info && info->constant;
  if (arguments.infos.size() == 1 && arguments.infos[0] &&
      arguments.infos[0]->uniform)
    constant |= isAlikeForUniform(op.name, op.inputs);
  if (const char *why = whyDataDependent(); why && !constant)
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

bool OperatorRecording::checkOperands() {
  if (op.castKept && !checkKeptCast())
    return false;
  for (size_t j = 0; j < arguments.operands.size(); ++j) {
    const at::Tensor &t = arguments.operands[j];
    const TensorInfo *info = arguments.infos[j];
    if (!info)
      continue; // a number
    if (const char *why = unsupportedTensor(t))
      return refuseCall(why);
    bool writes = contains(mutated, j);
    if (impl.host.isWritten(t) && (writes || !takeFromHost(j)))
      return refuse("it takes a tensor whose number the host has changed");
    if (info->uninitialized && !writes && viewed.empty())
      return refuse("it reads memory that no operator has filled");
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
bool hasOneOrigin(const Impl &impl, const void *storage) {
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
    if (impl.earlier.leafStorages.count(storageOf(arguments.operands[written])))
      return refuse("it writes memory that a leaf of the call's own shares");
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
  std::vector<at::Tensor> returned;
  for (const c10::IValue &output : outputs)
    collectTensors(output, returned);
  for (const at::Tensor &t : returned) {
    bool isOperand = false;
    for (const at::Tensor &operand : arguments.operands)
      isOperand |= operand.defined() && operand.is_same(t);
    if (isOperand)
      continue;
    if (const char *why = unsupportedTensor(t))
      return refuse(why);
    fresh.push_back(t);
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
  bool known = (!op.facts.addressesStorage || isStridedView) &&
               (op.facts.wholeView || !aliases.empty() ||
                (op.facts.shapeChange && !arguments.infos[0]->external) ||
                pyjitOperatorDifferentiable(view(op.name)));
  if (!known) {
    recording.end(ReasonKind::NotDifferentiable,
                  "cannot be differentiated: " + op.name);
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
    if (fresh[0].scalar_type() == source.scalar_type())
      continue;
    if (fresh.size() != 1 || !isRowMajor(fresh[0]) || !op.facts.retypedView)
      return refuse("its result shows memory as numbers of another type");
    impl.retypedStorages.emplace(storageOf(source), op.name);
    for (auto &entry : impl.tensors)
      if (entry.second.external && entry.second.value >= 0 &&
          hasStorage(entry.first, storageOf(source)))
        impl.readOffset(at::TensorBase(entry.second.impl), entry.second.value);
  }
  return true;
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

/// Returns the value of the first fresh result; the others follow, and then the
/// new versions of the mutated operands.
PyjitValue OperatorRecording::append() {
  keepUnwritten();
  OperatorCall call{op.name,
                    arguments.values,
                    given,
                    {aliases.begin(), aliases.end()},
                    {mutated.begin(), mutated.end()},
                    noGrad,
                    flows ? attentionKernel(op.name, op.inputs) : nullptr};
  std::vector<at::Tensor> results = fresh;
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
    if (PyjitValue written =
            arguments.infos[j] ? writtenLeaf(arguments.operands[j]) : -1;
        written >= 0)
      call.operands[j] = written;
  return impl.add(call, results);
}

void OperatorRecording::bindFresh(PyjitValue value) {
  bool uninitialized = op.facts.allocates;
  bool readOnly = !aliases.empty() && (op.name == operators::aten::unfold ||
                                       op.name == operators::aten::as_strided);
  for (size_t j : aliases) {
    uninitialized |= arguments.infos[j]->uninitialized;
    readOnly |= arguments.infos[j]->readOnly ||
                mayOverlap(arguments.operands[j]) ||
                arguments.operands[j].is_complex();
  }
  bool made = op.facts.makesTensor ||
              std::none_of(arguments.infos.begin(), arguments.infos.end(),
                           [](TensorInfo *operand) { return operand; });
  for (size_t i = 0; i < fresh.size(); ++i) {
    TensorInfo &info = impl.bind(fresh[i], value + PyjitValue(i));
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
    if (some && t.is_floating_point() && !t.requires_grad())
      impl.bind(t, impl.addDetach(impl.find(t)->value, t, /*noGrad=*/true));
}

} // namespace

void TensorRecorder::Impl::bindWritten(const at::TensorBase &t, int value,
                                       const std::string &overload,
                                       bool constant) {
  bind(t, value);
  const void *storage = storageOf(t);
  if (earlier.leafStorages.count(storage))
    recording.endWhole(ReasonKind::Operator,
                       "operator " + overload +
                           ": it writes memory that a leaf of the call's own "
                           "shares");
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

void pyjit::capture::recordOperator(Impl &impl, Impl::Operation &op,
                                    const std::vector<c10::IValue> &outputs) {
  OperatorRecording(impl, op, outputs).run();
}

/// The tensor's next version is a view of the last.
void TensorRecorder::Impl::recordShapeChange(OperatorCall call,
                                             const at::Tensor &t) {
  call.overload = factsOf(call.overload).shapeChange;
  const TensorInfo *before = find(t);
  bool isOwn = before && (!before->isView || before->isReshaped);
  TensorInfo &info = bind(t, add(call, {t}));
  info.isView = true;
  info.isReshaped = isOwn;
}
