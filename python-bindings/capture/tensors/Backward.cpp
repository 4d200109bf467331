//===- Backward.cpp - A run of autograd's engine within the call ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tensors/Backward.h"

#include "pyjit-rt/Hooks.h"
#include "tensors/Gradients.h"
#include "tensors/TensorOpFacts.h"

#include <ATen/SavedTensorHooks.h>
#include <torch/csrc/autograd/anomaly_mode.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <cstring>
#include <typeinfo>

using namespace pyjit;
using namespace pyjit::capture;
namespace autograd = torch::autograd;

//===----------------------------------------------------------------------===//
// Before the engine runs
//===----------------------------------------------------------------------===//

bool EngineRun::refuse(const std::string &why) {
  recording.end(ReasonKind::Backward, "backward: " + why);
  return false;
}

bool EngineRun::refuseCall(const std::string &why) {
  recording.endWhole(ReasonKind::Backward, "backward: " + why);
  return false;
}

bool EngineRun::refuseCheckpoint(const std::string &why) {
  recording.endWhole(ReasonKind::Checkpoint,
                     "backward: it calls a function under checkpoint again, "
                     "and " +
                         why);
  return false;
}

bool EngineRun::take(PyObject *tensors, std::vector<at::Tensor> &out) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tensors); ++i) {
    PyObject *item = PyTuple_GET_ITEM(tensors, i);
    if (!ObjectTable::isTensor(item))
      return refuse("given a " + typeName(item) + " for a tensor");
    const at::Tensor &tensor = THPVariable_Unpack(item);
    const TensorInfo *info = impl.find(tensor);
    recording.breaks.lacksHistory = recording.breaks.resumed && !info &&
                                    gradientOf(tensor) == Gradient::Computed;
    if (!info || info->value < 0 ||
        !(tensor.is_floating_point() || tensor.is_complex()))
      return refuse("of a tensor that no recorded operator has made");
    if (const char *why = impl.earlier.leaves.whyNotTaken(
            tensor, *info, /*writes=*/false, /*flows=*/true))
      return refuse(why);
    out.push_back(tensor);
  }
  return true;
}

/// Whether it is an autograd.Function's, whose class Torch does not export.
static bool isOfPython(autograd::Node &node) {
  return !std::strcmp(typeid(node).name(), "N5torch8autograd6PyNodeE");
}

bool EngineRun::visit(const std::shared_ptr<autograd::Node> &shared) {
  autograd::Node *node = shared.get();
  if (rt::isHooked(*node))
    return refuse("hooks on its way");
  if (isOfPython(*node))
    return refuse("it goes through an autograd.Function");
  if (foreign.count(node)) {
    // By the call itself, where a first call has a graph break that later ones
    // have not.
    recording.breaks.lacksHistory = recording.breaks.resumed;
    recording.endOnce(ReasonKind::Backward,
                      "backward: it goes on to what was computed before");
    return false;
  }
  // A part of the call that ends in front of it would save what its program
  // finds best, which those writes would reach or not.
  if (impl.earlier.checkpointed && impl.earlier.leaves.isOlder(*node))
    return refuseCheckpoint("a leaf was written since");
  if (const char *why = recording.checkpoint.whyNotAgain(node->sequence_nr()))
    return refuseCheckpoint(why);
  if (impl.earlier.leaves.isUndermined(shared))
    return refuseCall("it goes through an operator that has saved a tensor "
                      "whose `.data` was written since");
  if (auto *leaf = dynamic_cast<autograd::AccumulateGrad *>(node))
    leaves.push_back(leaf->variable);
  return true;
}

/// Finds the leaves. Each node has to be one that recorded operators have made.
bool EngineRun::walk() {
  for (auto &entry : impl.tensors)
    if (at::TensorBase t(entry.second.impl);
        entry.second.external && gradientOf(t) == Gradient::Computed)
      foreign.insert(t.grad_fn().get());
  std::unordered_set<autograd::Node *> seen;
  auto meet = [&](const std::shared_ptr<autograd::Node> &node) {
    if (node && seen.insert(node.get()).second)
      graph.push_back(node);
  };
  for (const at::Tensor &root : roots)
    meet(autograd::impl::gradient_edge(root).function);
  for (size_t i = 0; i < graph.size(); ++i) {
    if (!visit(graph[i]))
      return false;
    for (const autograd::Edge &edge : graph[i]->next_edges())
      meet(edge.function);
  }
  return true;
}

bool EngineRun::addTarget(const at::Tensor &tensor) {
  const TensorInfo *info = impl.find(tensor);
  if (!info || info->value < 0)
    return refuse("it comes to a leaf that the call has not read");
  c10::TensorImpl *replaced = impl.earlier.replaced.before(tensor);
  if (replaced && impl.writtenStorages.count(
                      replaced->unsafe_storage().unsafeGetStorageImpl()))
    return refuse("it comes to a leaf that the call has written, and whose "
                  "`.data` it has set");
  Target target;
  target.tensor = tensor;
  Node *node = nullptr;
  if (info->external || replaced) {
    PyObject *object = THPVariable_Wrap(tensor);
    node = recording.objects.find(object);
    Py_DECREF(object);
    if (!node)
      return refuse("it comes to a leaf that the call has not read");
    recording.reads.unhooked(node);
  }
  target.node = node;
  if (accumulates && !addLeaf(target))
    return false;
  targets.push_back(std::move(target));
  return !recording.dead;
}

/// The leaf's gradient is in its `.grad`, summed to what was there.
bool EngineRun::addLeaf(Target &target) {
  const at::Tensor &tensor = target.tensor;
  if (gradientOf(tensor) != Gradient::Leaf || !tensor.is_leaf() ||
      (!target.node && !isOwnLeaf(*impl.find(tensor), tensor)))
    return refuse("it comes to a view that the call has made under no_grad");
  if (target.node) {
    PyObject *before = gradOf(recording, target.node->object);
    if (!target.node->gradientWritten)
      recording.reads.read(target.node, Select::Grad, nullptr, before);
  }
  target.before = tensor.grad();
  if (!target.before.defined())
    return true;
  if (target.before.requires_grad() || !impl.find(target.before))
    return refuse("a leaf whose gradient is not known, or has a history");
  target.version = versionOf(target.before);
  return true;
}

bool EngineRun::begin(const EngineCall &call) {
  keepsGraph = call.keepsGraph;
  createsGraph = call.createsGraph;
  accumulates = call.accumulates;
  isWhole = !call.inputs;
  if (autograd::AnomalyMode::is_enabled())
    return refuse("anomalies are looked for");
  if (!at::SavedTensorDefaultHooks::get_tls_state().stack.empty())
    return refuse("hooks on saved tensors are active");
  if (!impl.earlier.unseenWrite.empty())
    return refuse("an operator before it (" + impl.earlier.unseenWrite +
                  ") wrote memory of a tensor that requires grad, and autograd "
                  "did not see that");
  if (!take(call.roots, roots) || !take(call.gradients, gradients))
    return false;
  if (createsGraph && accumulates)
    return refuse("create_graph=True, and `.grad` keeps the history");
  if (createsGraph && !keepsGraph)
    return refuse("create_graph=True with retain_graph=False");
  if (gradients.size() != roots.size())
    return refuse("as many gradients as tensors are needed");
  for (const at::Tensor &root : roots)
    if (gradientOf(root) != Gradient::Computed)
      return refuse("of a tensor that nothing was computed for");
  if (!walk())
    return false;
  std::vector<at::Tensor> wanted;
  if (!call.inputs)
    wanted = leaves;
  else if (!take(call.inputs, wanted))
    return false;
  for (const at::Tensor &tensor : wanted) {
    // One that is named twice accumulates once.
    bool isNamedBefore =
        accumulates &&
        std::any_of(targets.begin(), targets.end(), [&](const Target &known) {
          return known.tensor.is_same(tensor);
        });
    if (!isNamedBefore && !addTarget(tensor))
      return false;
  }
  return !targets.empty() || refuse("it comes to no leaf");
}

//===----------------------------------------------------------------------===//
// Behind it
//===----------------------------------------------------------------------===//

/// As eager's layout contract has it: of the value where that is dense, else
/// row-major. Only what is summed to another gradient has no tensor that says.
PyjitType EngineRun::gradientType(const Target &target) {
  if (target.gradient.defined())
    return impl.type(target.gradient);
  const at::Tensor &t = target.tensor;
  if (t.is_non_overlapping_and_dense())
    return impl.type(t);
  std::vector<int64_t> strides(t.dim(), 1);
  for (int64_t d = t.dim() - 1; d > 0; --d)
    strides[d - 1] = strides[d] * std::max<int64_t>(1, t.size(d));
  return recording.writer.tensor(t.sizes().data(), strides.data(),
                                 size_t(t.dim()), elementOf(t.scalar_type()),
                                 t.device().str());
}

PyjitValue EngineRun::append(const std::vector<Target *> &reached) {
  std::vector<PyjitValue> operands;
  std::vector<PyjitAttribute> lists;
  auto addList = [&](const std::vector<PyjitValue> &values) {
    operands.insert(operands.end(), values.begin(), values.end());
    std::vector<PyjitAttribute> marks(values.size(),
                                      recording.writer.operand());
    lists.push_back(recording.writer.list(marks));
  };
  // Gradients flow from what a leaf has shown (`checkFlow`).
  auto valueOf = [&](const at::Tensor &leaf) {
    PyjitValue unwritten = impl.earlier.leaves.unwritten(leaf);
    if (unwritten >= 0)
      return unwritten;
    c10::TensorImpl *before = impl.earlier.replaced.before(leaf);
    return PyjitValue(before ? impl.tensors.find(before)->second.value
                             : impl.find(leaf)->value);
  };
  auto valuesOf = [&](const std::vector<at::Tensor> &tensors) {
    std::vector<PyjitValue> values;
    for (const at::Tensor &t : tensors)
      values.push_back(impl.find(t)->value);
    return values;
  };
  if (createsGraph)
    for (const at::Tensor &gradient : gradients)
      beginHistory(impl, gradient);
  addList(valuesOf(roots));
  addList(valuesOf(gradients));
  std::vector<PyjitValue> inputs;
  std::vector<PyjitType> types;
  for (Target *target : reached) {
    inputs.push_back(valueOf(target->tensor));
    types.push_back(gradientType(*target));
  }
  addList(inputs);
  return recording.add(
      PyjitTensorOp{.overload = view(operators::pyjit::backward),
                    .inputs = view(operands),
                    .args = recording.writer.list(lists),
                    .noGrad = !createsGraph,
                    .resultTypes = view(types)});
}

/// A gradient that the engine made.
void EngineRun::bindGradient(Target &target, PyjitValue value) {
  if (createsGraph && !target.gradient.requires_grad())
    value = impl.addDetach(value, target.gradient, /*noGrad=*/true);
  impl.bind(target.gradient, value).external = false;
  PyObject *object = THPVariable_Wrap(target.gradient);
  recording.objects.keep(object);
  Py_DECREF(object);
  if (accumulates && target.node)
    recording.effects.noteGradient(target.node);
}

/// What the engine has added to a gradient that was there.
void EngineRun::accumulate(Target &target, PyjitValue value) {
  OperatorCall sum;
  sum.overload = operators::aten::add__Tensor;
  sum.operands = {impl.find(target.before)->value, value};
  sum.arguments = {recording.writer.operand(), recording.writer.operand(),
                   recording.writer.integer(1)};
  sum.mutates = {0};
  impl.bindWritten(target.before, impl.add(sum, {target.before}), sum.overload,
                   /*constant=*/false);
}

void EngineRun::end(PyObject *result) {
  std::vector<Target *> reached;
  for (size_t i = 0; i < targets.size(); ++i) {
    Target &target = targets[i];
    if (!accumulates) {
      PyObject *item =
          PyTuple_Check(result) ? PyTuple_GET_ITEM(result, i) : Py_None;
      if (ObjectTable::isTensor(item))
        target.gradient = THPVariable_Unpack(item);
    } else if (!target.before.defined()) {
      target.gradient = target.tensor.grad();
    } else if (!target.tensor.grad().is_same(target.before)) {
      return recording.end(ReasonKind::Backward,
                           "backward: a gradient was replaced by a sum");
    } else if (versionOf(target.before) == target.version) {
      continue;
    }
    if (target.gradient.defined() ? !unsupportedTensor(target.gradient)
                                  : target.before.defined())
      reached.push_back(&target);
    else if (target.gradient.defined())
      return recording.end(ReasonKind::Backward,
                           "backward: a gradient of an unusual kind");
  }
  if (reached.empty())
    return recording.end(ReasonKind::Backward,
                         "backward: no gradient comes to a leaf");
  PyjitValue value = append(reached);
  for (Target *target : reached) {
    if (target->gradient.defined())
      bindGradient(*target, value++);
    else
      accumulate(*target, value++);
  }
  if (createsGraph) {
    impl.gradientFlows = impl.earlier.graph = true;
    recording.breaks.noteGradient();
  }
  if (keepsGraph)
    return;
  if (!impl.freed.add(graph, isWhole))
    return;
  // What is written from here on, unseen by autograd, meets no backward of it.
  impl.gradientFlows = impl.earlier.graph = false;
}

//===----------------------------------------------------------------------===//
// The recorder's part
//===----------------------------------------------------------------------===//

PyObject *pyjit::capture::gradOf(Recording &recording, PyObject *object) {
  PyObject *gradient = THPVariable_Wrap(THPVariable_Unpack(object).grad());
  recording.objects.keep(gradient);
  Py_DECREF(gradient);
  return gradient;
}

bool pyjit::capture::ranBackward(const Recording &recording) {
  return !recording.tensors->impl->freed.empty();
}

bool pyjit::capture::runsEngine(const Recording &recording) {
  return recording.tensors->impl->engine != nullptr;
}

bool pyjit::capture::isLeaf(PyObject *object) {
  return THPVariable_Unpack(object).is_leaf();
}

bool pyjit::capture::mayBecomeLeaf(Recording &recording, PyObject *object) {
  const at::Tensor &t = THPVariable_Unpack(object);
  if (t.requires_grad())
    return true;
  TensorInfo *info = recording.tensors->impl->find(t);
  if (!info || info->value < 0 || info->external || t.is_view() ||
      t.is_inference() || !t.is_floating_point())
    return false;
  recording.objects.keep(object);
  recording.breaks.noteSite(object);
  return true;
}

const char *pyjit::capture::whyNotGradientOf(Recording &recording,
                                             PyObject *object,
                                             PyObject *value) {
  TensorRecorder::Impl *impl = recording.tensors->impl.get();
  if (!isLeaf(object) || (!dataSet(recording, object) &&
                          !impl->find(THPVariable_Unpack(object))->external))
    return "of a tensor that the call computes";
  if (value == Py_None)
    return nullptr;
  if (!ObjectTable::isTensor(value) || !impl->find(THPVariable_Unpack(value)))
    return "that is no tensor that is known";
  const at::Tensor &tensor = THPVariable_Unpack(object);
  const at::Tensor &gradient = THPVariable_Unpack(value);
  if (tensor.is_same(gradient) || gradient.requires_grad() ||
      gradient.scalar_type() != tensor.scalar_type() ||
      gradient.device() != tensor.device() ||
      !gradient.sizes().equals(tensor.sizes()))
    return "of another kind than the tensor";
  return nullptr;
}

void TensorRecorder::beginBackward(const EngineCall &call) {
  auto run = std::make_shared<EngineRun>(*impl);
  if (run->begin(call))
    impl->engine = std::move(run);
}

void TensorRecorder::endBackward(PyObject *result) {
  impl->recording.transforms.runsEngine = false;
  std::shared_ptr<EngineRun> run = std::move(impl->engine);
  if (run && result)
    run->end(result);
}
