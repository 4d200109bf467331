//===- TensorOps.cpp - Operators as the dispatcher saw them ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A thread-local RecordFunction callback sees every call that goes through the
// dispatcher, nested ones included. Composite operators are looked into, except
// for those that a library or a fused kernel serves whole. What becomes of an
// operator is in TensorOpRecording.cpp.
//
//===----------------------------------------------------------------------===//

#include "numbers/DropRates.h"
#include "numbers/HandedNumbers.h"
#include "tensors/AttentionKernel.h"
#include "tensors/TensorOpFacts.h"
#include "tensors/TensorOpRecording.h"
#include "tensors/Wrappers.h"

#include <ATen/autocast_mode.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <set>

using namespace pyjit::capture;

namespace {

/// Operators run without the interpreter's lock.
struct HoldLock {
  PyGILState_STATE state = PyGILState_Ensure();
  ~HoldLock() { PyGILState_Release(state); }
};

/// Whether it is `item()`, of a tensor.
bool readsNumber(const c10::OperatorHandle &handle) {
  const c10::FunctionSchema &schema = handle.schema();
  return handle.hasTag(at::Tag::data_dependent_output) &&
         schema.arguments().size() == 1 && schema.returns().size() == 1 &&
         schema.returns()[0].type()->kind() == c10::TypeKind::NumberType;
}

/// Whether a native function was given the tensor, and its data are not a
/// constant of the specialization.
bool isGivenForNumber(Recording &recording, const at::Tensor &tensor) {
  TensorInfo *info = recording.tensors->impl->find(tensor);
  auto &given = recording.now.numberTensors;
  return info && !info->constant &&
         std::any_of(given.begin(), given.end(), [&](const auto &argument) {
           return THPVariable_Unpack(argument.tensor).is_same(tensor);
         });
}

/// Null: it is no such `item()`.
std::unique_ptr<TensorRecorder::Impl::Operation>
beginNumber(TensorRecorder::Impl &impl, const c10::OperatorHandle &handle,
            const std::vector<c10::IValue> &inputs) {
  if (!readsNumber(handle) || impl.recording.now.tookTensors ||
      !isGivenForNumber(impl.recording, inputs[0].toTensor()))
    return nullptr;
  auto operation = std::make_unique<TensorRecorder::Impl::Operation>(handle);
  operation->takesNumber = true;
  operation->inputs = inputs;
  return operation;
}

void takeNumber(Recording &recording, const at::Tensor &tensor) {
  PyObject *object = THPVariable_Wrap(tensor);
  if (!recording.scalars.takeNumber(object))
    recording.end(ReasonKind::DataInPython,
                  "a tensor's data read by Python, in the place of a number");
  Py_DECREF(object);
}

std::vector<at::Tensor> tensorsOf(const std::vector<c10::IValue> &inputs) {
  std::vector<at::Tensor> tensors;
  for (const c10::IValue &input : inputs)
    collectTensors(input, tensors);
  return tensors;
}

/// What tensors of the CPU without dimensions hold, if all of them are such.
std::vector<double> numbersIn(const c10::IValue &input) {
  std::vector<at::Tensor> tensors;
  collectTensors(input, tensors);
  std::vector<double> numbers;
  for (const at::Tensor &t : tensors) {
    if (t.dim() || !t.device().is_cpu() || t.scalar_type() != at::kFloat ||
        t.layout() != c10::kStrided || t._is_zerotensor())
      return {};
    numbers.push_back(*static_cast<const float *>(t.const_data_ptr()));
  }
  return numbers;
}

/// Whether autograd has a part in the call.
bool mayHaveGradient(const std::vector<c10::IValue> &inputs) {
  if (!c10::GradMode::is_enabled())
    return false;
  std::vector<at::Tensor> tensors = tensorsOf(inputs);
  return std::any_of(tensors.begin(), tensors.end(),
                     [](const at::Tensor &t) { return t.requires_grad(); });
}

bool hasComplex(const std::vector<c10::IValue> &inputs) {
  std::vector<at::Tensor> tensors = tensorsOf(inputs);
  return std::any_of(tensors.begin(), tensors.end(),
                     [](const at::Tensor &t) { return t.is_complex(); });
}

/// A transform calls an operator with more on the stack beneath.
std::vector<c10::IValue> argumentsOf(const at::RecordFunction &fn,
                                     const c10::FunctionSchema &schema) {
  auto inputs = fn.inputs();
  size_t taken = std::min(inputs.size(), schema.arguments().size());
  return std::vector<c10::IValue>(inputs.end() - taken, inputs.end());
}

/// Whether the dispatcher hands the call to autocast before anybody else.
bool autocastComesFirst(const c10::OperatorHandle &handle,
                        const std::vector<c10::IValue> &inputs) {
  c10::DispatchKeySet keys;
  for (const at::Tensor &tensor : tensorsOf(inputs))
    keys = keys | tensor.key_set();
  for (auto key :
       {c10::DispatchKey::AutocastCPU, c10::DispatchKey::AutocastCUDA})
    if (keys.has(key) && !c10::impl::tls_is_dispatch_key_excluded(key) &&
        handle.hasKernelForDispatchKey(key))
      return true;
  return false;
}

/// Whether it is made of others on the device where it runs: `mish_backward` is
/// one kernel of the CPU, which fills by itself what it has made.
bool isComposite(const c10::OperatorHandle &handle,
                 const std::vector<c10::IValue> &inputs) {
  std::vector<at::Tensor> tensors = tensorsOf(inputs);
  bool isOnGpu = !tensors.empty() && tensors[0].is_cuda();
  return handle.hasKernelForDispatchKey(
             c10::DispatchKey::CompositeImplicitAutograd) &&
         !handle.hasKernelForDispatchKey(isOnGpu ? c10::DispatchKey::CUDA
                                                 : c10::DispatchKey::CPU);
}

void refuseReading(Recording &recording, const std::string &name) {
  HoldLock lock;
  recording.end(ReasonKind::Operator,
                name + ": it reads what an operand holds");
}

/// Its parts are recorded; null where that is all.
std::unique_ptr<at::ObserverContext>
beginComposite(TensorRecorder::Impl &impl, const c10::OperatorHandle &handle,
               const std::string &name, const PyjitOperatorFacts &facts,
               const std::vector<c10::IValue> &inputs) {
  Recording &recording = impl.recording;
  if (facts.readsDataUnsaid) {
    refuseReading(recording, name);
    return nullptr;
  }
  // A constant margin is handed on as it was given; a cast takes no number.
  bool handsOn = name == pyjit::operators::aten::pad ||
                 impl.casts.isCasting() ||
                 (facts.handsOnSizes && inputs[1].isIntList());
  if (OperatorUse *use = recording.scalars.use(); use && !handsOn) {
    HoldLock lock;
    const c10::FunctionSchema &schema = handle.schema();
    use->composite |= !followRate(recording, facts, schema, inputs) &&
                      !followHanded(recording, facts, schema, inputs);
  }
  if (!recording.sizes.followed &&
      name != pyjit::operators::aten::fill_diagonal_)
    return nullptr;
  HoldLock lock;
  auto operation = std::make_unique<TensorRecorder::Impl::Operation>(handle);
  operation->composite = true;
  impl.composites.begin(name, facts, inputs);
  return operation;
}

} // namespace

static std::string toName(const c10::OperatorName &name) {
  return name.overload_name.empty() ? name.name
                                    : name.name + "." + name.overload_name;
}

static bool anyIsWrapper(const std::vector<c10::IValue> &inputs) {
  std::vector<at::Tensor> tensors = tensorsOf(inputs);
  return std::any_of(tensors.begin(), tensors.end(),
                     [](const at::Tensor &t) { return isWrapper(t); });
}

static void fixLayouts(TensorRecorder::Impl &impl,
                       const std::vector<c10::IValue> &inputs) {
  HoldLock lock;
  for (const at::Tensor &t : tensorsOf(inputs))
    if (TensorInfo *info = impl.find(t))
      impl.recording.transforms.fixLayout(info->value);
}

/// What the transforms' rules compute with sizes, in C++ and unseen, is right
/// for these sizes alone; they take numbers as literals, too. Null: no
/// transform has a part in the operator.
static std::unique_ptr<TensorRecorder::Impl::Operation>
beginTransformed(TensorRecorder::Impl &impl, const c10::OperatorHandle &handle,
                 const std::vector<c10::IValue> &inputs) {
  Recording &s = impl.recording;
  if (!s.transforms.wasEntered())
    return nullptr;
  if (!isTransforming() && !anyIsWrapper(inputs)) {
    if (s.transforms.runsEngine)
      fixLayouts(impl, inputs);
    return nullptr;
  }
  HoldLock lock;
  s.now.tookTensors = true;
  std::string name = toName(handle.operator_name());
  if (factsOf(name).readsDataUnsaid)
    refuseReading(s, name);
  if (at::autocast::is_autocast_enabled(at::kCPU) ||
      at::autocast::is_autocast_enabled(at::kCUDA))
    s.end(ReasonKind::Autocast, "autocast under a transform");
  if (OperatorUse *use = s.scalars.use()) {
    use->composite = true;
    use->target = at::Tensor();
  }
  for (const at::Tensor &t : tensorsOf(inputs))
    if (!t.is_cpu())
      s.end(ReasonKind::Operator,
            "operator " + handle.operator_name().name +
                ": under a transform, of a tensor that is not the CPU's");
  fixLayouts(impl, inputs);
  auto operation = std::make_unique<TensorRecorder::Impl::Operation>(handle);
  operation->transformed = true;
  ++s.transforms.operatorDepth;
  return operation;
}

std::unique_ptr<at::ObserverContext>
TensorRecorder::Impl::begin(const at::RecordFunction &fn) {
  recording.now.operatorBegan = true;
  if (recording.ended() || suspended || engine || recording.now.deciding ||
      depth > 0)
    return nullptr;
  auto operatorName = fn.operator_name();
  if (!operatorName)
    return nullptr;
  auto handle = c10::Dispatcher::singleton().findSchema(*operatorName);
  if (!handle)
    return nullptr;
  std::string name = toName(*operatorName);
  size_t numResults = handle->schema().returns().size();
  std::vector<c10::IValue> copies = argumentsOf(fn, handle->schema());
  if (auto operation = beginTransformed(*this, *handle, copies))
    return operation;
  asLeakyRelu(handle, name, copies);
  if (composites.isIn(operators::aten::fill_diagonal_))
    asDiagonal(handle, name, copies);
  if (auto operation = beginNumber(*this, *handle, copies)) {
    ++depth;
    return operation;
  }
  recording.now.tookTensors = true;
  // Autocast casts the operands and calls the operator again.
  if (autocastComesFirst(*handle, copies)) {
    auto operation = std::make_unique<Operation>(*handle);
    operation->autocast = true;
    casts.enter(*handle, copies);
    return operation;
  }
  bool castKept = casts.isKept(*handle, copies);
  if (castKept && casts.outlast()) {
    auto operation = std::make_unique<Operation>(*handle);
    operation->hasNoLine = true;
    ++depth;
    return operation;
  }
  casts.bindOperands(*handle, copies);
  if (recording.ended())
    return nullptr;
  PyjitOperatorFacts facts = factsOf(name);
  bool training = isTrainingBatchNorm(facts, copies) &&
                  (keepsStatistics(copies) || mayHaveGradient(copies));
  bool composite = isComposite(*handle, copies);
  // With a number of classes given, the result's shape follows from it.
  bool oneHot = name == operators::aten::one_hot && copies.size() == 2 &&
                copies[1].isInt() && copies[1].toInt() > 0;
  bool whole =
      facts.keptWhole || oneHot || composites.keepsWhole(name, facts, copies);
  if ((facts.keptOnDevice || facts.keptWithLengths) &&
      drawsNumbers(*handle, facts, copies))
    whole = false;
  // There may be derivatives of its parts: what was dropped, only they know.
  if (composite && whole && !facts.wholeView && mayHaveGradient(copies))
    whole = pyjitOperatorDifferentiable(view(name), hasComplex(copies)) &&
            (!drawsNumbers(*handle, facts, copies) ||
             drawsInAttention(name, copies));
  if (composite && (!whole || training))
    return beginComposite(*this, *handle, name, facts, copies);
  if (training && !asStatisticsUpdate(handle, name, copies)) {
    HoldLock lock;
    recording.end(ReasonKind::Operator,
                  "a batch norm whose statistics are kept in part, or require "
                  "grad");
    return nullptr;
  }
  if (training)
    facts = factsOf(name);
  auto operation = std::make_unique<Operation>(*handle);
  operation->castKept = castKept;
  operation->updatesStatistics = training;
  operation->numResults = numResults;
  std::vector<at::Tensor> operands = tensorsOf(copies);
  operation->strangeHistory =
      std::any_of(operands.begin(), operands.end(),
                  [&](const at::Tensor &t) { return hasStrangeHistory(t); });
  operation->detaches =
      name == operators::aten::detach_ && copies[0].toTensor().requires_grad();
  operation->name = std::move(name);
  operation->facts = facts;
  operation->overLists = isOverLists(operation->name);
  if (operation->overLists || operation->name == operators::aten::mul__Tensor)
    operation->before = numbersIn(copies[0]);
  operation->inputs = std::move(copies);
  ++depth;
  return operation;
}

void TensorRecorder::Impl::end(const at::RecordFunction &fn,
                               Operation &operation) {
  if (operation.transformed) {
    --recording.transforms.operatorDepth;
    return;
  }
  if (operation.composite)
    return composites.end();
  if (operation.autocast)
    return casts.leave();
  --depth;
  if (operation.hasNoLine || recording.ended() || suspended || engine)
    return;
  HoldLock lock;
  if (operation.takesNumber)
    return takeNumber(recording, operation.inputs[0].toTensor());
  record(fn, operation);
}

bool TensorRecorder::isOperator(const std::string &name) {
  static const std::set<std::string> *names = [] {
    auto *all = new std::set<std::string>;
    for (const c10::OperatorName &op :
         c10::Dispatcher::singleton().getAllOpNames())
      all->insert(op.name);
    return all;
  }();
  return names->count(name);
}

std::unique_ptr<at::ObserverContext>
TensorRecorder::Impl::beginOperator(const at::RecordFunction &fn) {
  Recording *recording = Recording::current;
  return recording ? recording->tensors->impl->begin(fn) : nullptr;
}

void TensorRecorder::Impl::endOperator(const at::RecordFunction &fn,
                                       at::ObserverContext *context) {
  Recording *recording = Recording::current;
  if (recording && context)
    recording->tensors->impl->end(fn, *static_cast<Operation *>(context));
}

void TensorRecorder::start() {
  stop();
  at::addThreadLocalCallback(
      at::RecordFunctionCallback(Impl::beginOperator, Impl::endOperator)
          .needsInputs(true)
          .needsOutputs(true)
          .scopes({at::RecordScope::FUNCTION}));
}

void TensorRecorder::stop() {
  std::vector<at::CallbackHandle> left;
  for (const auto &entry : at::get_record_function_tls_().sorted_tls_callbacks_)
    if (entry.callback_.start() == &Impl::beginOperator)
      left.push_back(entry.handle_);
  for (at::CallbackHandle handle : left)
    at::removeCallback(handle);
}
