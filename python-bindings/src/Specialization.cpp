//===- Specialization.cpp - One compiled recording ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Specialization.h"

#include "BackwardPrograms.h"
#include "Reference.h"

#include "pyjit-rt/cuda/Driver.h"

#include <ATen/SavedTensorHooks.h>
#include <ATen/record_function.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <optional>

namespace pyjit::python {
namespace {

/// Whether the user wants to see what autograd saves
/// (`torch.autograd.graph.saved_tensors_hooks`): a compiled call saves other
/// tensors than eager.
bool showsSavedTensors() {
  return !at::SavedTensorDefaultHooks::get_tls_state().stack.empty();
}

/// Lets Python's signal handlers run while a loop does.
bool signalsRaise() {
  PyGILState_STATE state = PyGILState_Ensure();
  bool raised = PyErr_CheckSignals() < 0;
  PyGILState_Release(state);
  return raised;
}

} // namespace

void appendDiagnostic(PyjitString message, void *user) {
  auto *text = static_cast<std::string *>(user);
  if (!text->empty())
    *text += '\n';
  text->append(message.data, message.size);
}

std::unique_ptr<Specialization>
Specialization::build(const PyjitTrace *trace, PyObject *objects,
                      Py_ssize_t nargs, PyObject *kwnames,
                      PyjitCompileOptions options, std::string &error) {
  options.diagnostic = appendDiagnostic;
  options.user = &error;
  if (int number = pyjitTraceCudaDevice(trace); number >= 0) {
    rt::cuda::DeviceFacts device = rt::describeCudaDevice(number);
    options.gpu = {device.capability, device.multiprocessors,
                   device.threadsPerMultiprocessor};
  }

  std::unique_ptr<Specialization> specialization(new Specialization);
  // Other Python threads go on meanwhile; the compiler knows nothing of Python.
  PyThreadState *thread = PyEval_SaveThread();
  specialization->exe.reset(pyjitCompile(trace, &options),
                            pyjitExecutableDestroy);
  PyEval_RestoreThread(thread);
  if (!specialization->exe)
    return nullptr;
  const PyjitExecutable *exe = specialization->exe.get();

  specialization->numArguments = nargs;
  specialization->keywordNames = Py_XNewRef(kwnames);
  specialization->mock = std::make_unique<Mock>();
  specialization->guards = std::make_unique<Guards>();
  const PyjitGuardProgram &guards = *pyjitExecutableGuards(exe);
  if (!specialization->mock->load(*pyjitExecutableMock(exe), objects, error) ||
      !specialization->guards->load(guards, objects, error))
    return nullptr;
  specialization->launch = makeExecutor(exe, PyjitProgramMain, error);
  if (!specialization->launch)
    return nullptr;
  specialization->launch->onInterrupt(signalsRaise);
  if (pyjitExecutableLaunch(exe, PyjitProgramPrepare).size) {
    specialization->prepared = Prepared::load(exe, /*hashes=*/true, error);
    if (!specialization->prepared)
      return nullptr;
  }
  if (specialization->launch->numInputs() != guards.numInputs) {
    error = "the launch program takes " +
            std::to_string(specialization->launch->numInputs()) +
            " inputs, the guards give " + std::to_string(guards.numInputs);
    return nullptr;
  }
  std::string why;
  specialization->backward =
      loadBackward(specialization->exe, *specialization->launch,
                   *specialization->guards, *specialization->mock, why);
  if (!why.empty()) {
    error = why;
    return nullptr;
  }
  specialization->trained = TrainedWeights::create(
      specialization->exe, *specialization->launch, specialization->backward);
  specialization->dispatch = DispatchState::current();
  specialization->kernelCount = specialization->launch->numKernelSteps();
  specialization->callCount = specialization->launch->numCallSteps();
  return specialization;
}

Specialization::~Specialization() {
  Py_XDECREF(keywordNames);
  Py_XDECREF(resumption);
}

bool Specialization::matchesSignature(Py_ssize_t nargs,
                                      PyObject *kwnames) const {
  if (nargs != numArguments)
    return false;
  Py_ssize_t keywords = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
  if (keywords != (keywordNames ? PyTuple_GET_SIZE(keywordNames) : 0))
    return false;
  for (Py_ssize_t i = 0; i < keywords; ++i) {
    PyObject *a = PyTuple_GET_ITEM(kwnames, i);
    PyObject *b = PyTuple_GET_ITEM(keywordNames, i);
    if (a != b && PyUnicode_Compare(a, b) != 0)
      return false;
  }
  return true;
}

void Specialization::collectChangedNumbers(
    PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames,
    std::vector<capture::AccessPath> &changed) {
  if (!matchesSignature(nargs, kwnames))
    return;
  std::unique_ptr<Frame> frame = takeFrame();
  guards->collectChangedNumbers(*frame, args, nargs, changed);
  frames.push_back(std::move(frame));
}

PyObject *Specialization::failedGuard(PyObject *const *args, Py_ssize_t nargs,
                                      PyObject *kwnames) {
  if (!matchesSignature(nargs, kwnames))
    return Py_BuildValue("(iO)", -1, Py_None);
  if (!(DispatchState::current() == dispatch))
    return Py_BuildValue("(iO)", -2, Py_None);
  std::unique_ptr<Frame> frame = takeFrame();
  frame->asked = true;
  PyObject *failure = guards->firstFailure(*frame, args, nargs);
  frame->asked = false;
  giveFrame(std::move(frame));
  return failure;
}

PyObject *Specialization::inputRegisters() const {
  PyObject *list = PyList_New(0);
  for (uint32_t i = 0; list && i < numInputs(); ++i) {
    bool number = guards->isNumberInput(i), cast = guards->isKeptCast(i);
    long reg = cast     ? -1
               : number ? long(guards->numberRegister(i))
                        : long(*guards->inputRegister(i));
    Reference entry = Reference::steal(
        Py_BuildValue("(lO)", reg, number ? Py_True : Py_False));
    if (!entry || PyList_Append(list, entry.get()) < 0)
      Py_CLEAR(list);
  }
  return list;
}

PyObject *Specialization::inputsOf(PyObject *const *args, Py_ssize_t nargs,
                                   PyObject *kwnames) {
  if (!matchesSignature(nargs, kwnames) ||
      !(DispatchState::current() == dispatch))
    return Py_NewRef(Py_None);
  std::unique_ptr<Frame> frame = takeFrame();
  PyObject *found = nullptr;
  if (!guards->check(*frame, args, nargs) ||
      (guards->hasKeptCasts() && !guards->takeKeptCasts(*frame)))
    found = Py_NewRef(Py_None);
  else
    found = PyTuple_New(numInputs());
  for (uint32_t i = 0; found && found != Py_None && i < numInputs(); ++i) {
    bool number = guards->isNumberInput(i), cast = guards->isKeptCast(i);
    PyObject *input = nullptr;
    if (number || cast) {
      c10::TensorImpl *impl =
          number ? guards->numberInput(*frame, i) : guards->keptCast(*frame, i);
      at::Tensor shared(
          c10::intrusive_ptr<c10::TensorImpl>::reclaim_copy(impl));
      // The next call writes its numbers into the same tensors.
      input = THPVariable_Wrap(number ? shared.clone() : shared);
    } else {
      input = Py_NewRef(guards->input(*frame, i));
    }
    if (!input)
      Py_CLEAR(found);
    else
      PyTuple_SET_ITEM(found, i, input);
  }
  frame->dropCasts();
  giveFrame(std::move(frame));
  return found;
}

std::unique_ptr<Frame> Specialization::takeFrame() {
  if (!frames.empty()) {
    auto frame = std::move(frames.back());
    frames.pop_back();
    return frame;
  }
  auto frame = std::make_unique<Frame>();
  frame->registers.resize(
      std::max(mock->numRegisters(), guards->numRegisters()));
  guards->makeNumbers(*frame);
  frame->inputs.resize(launch->numInputs());
  frame->outputs.resize(launch->numOutputs());
  return frame;
}

/// What the call let go of ends behind it: a finalizer may call again.
void Specialization::giveFrame(std::unique_ptr<Frame> frame) {
  std::vector<Reference> dropped;
  if (!frame->dropped.empty())
    dropped.swap(frame->dropped);
  frames.push_back(std::move(frame));
}

Specialization::Outcome Specialization::call(PyObject *const *args,
                                             Py_ssize_t nargs,
                                             PyObject *kwnames,
                                             PyObject **result) {
  std::chrono::steady_clock::time_point start;
  if (measuring)
    start = std::chrono::steady_clock::now();
  if (!matchesSignature(nargs, kwnames))
    return Outcome::Miss;
  std::unique_ptr<Frame> frame = takeFrame();
  Outcome outcome = Outcome::Miss;
  if (DispatchState::current() == dispatch &&
      guards->check(*frame, args, nargs)) {
    if (isEagers(args, nargs) || (backward && showsSavedTensors()))
      outcome = Outcome::Eager;
    else if (!guards->hasKeptCasts() || guards->takeKeptCasts(*frame))
      outcome = answer(*frame, result);
  }
  if (guards->hasKeptCasts())
    frame->dropCasts();
  if (measuring && outcome == Outcome::Hit)
    noteHostTime(std::chrono::steady_clock::now() - start - frame->launchTime);
  giveFrame(std::move(frame));
  if (outcome == Outcome::Hit && trained && trained->wantsCompilation())
    trained->compile(signalsRaise);
  return outcome;
}

bool Specialization::accepts(PyObject *const *args, Py_ssize_t nargs,
                             PyObject *kwnames) {
  if (!matchesSignature(nargs, kwnames) ||
      !(DispatchState::current() == dispatch))
    return false;
  std::unique_ptr<Frame> frame = takeFrame();
  bool accepted = guards->check(*frame, args, nargs);
  giveFrame(std::move(frame));
  return accepted;
}

bool Specialization::settle() {
  if (!launch->onDevice())
    return true;
  PyThreadState *thread = PyEval_SaveThread();
  bool settled = launch->settle();
  PyEval_RestoreThread(thread);
  return settled;
}

bool Specialization::isEagers(PyObject *const *args, Py_ssize_t nargs) const {
  return eager &&
         (!eagerFor ||
          *eagerFor == signatureOf(args, nargs, modesNow(), Sizes::Octaves));
}

bool Specialization::noteMistake() {
  constexpr unsigned kOften = 3;
  constexpr uint64_t kHits = 64; // in between: a device out of memory, say
  if (hits - hitsAtMistake > kHits)
    mistakes = 0;
  hitsAtMistake = hits;
  return ++mistakes == kOften;
}

Specialization::Outcome Specialization::answer(Frame &frame,
                                               PyObject **result) {
  // While the GIL is released, another thread may drop what registers borrow;
  // and what the mock does may.
  for (uint32_t reg : mock->externals())
    Py_INCREF(frame.registers[reg]);
  // What the call makes inside `with torch.inference_mode()` shows it.
  std::optional<c10::InferenceMode> mode;
  if (inference >= 0)
    mode.emplace(inference);
  Outcome outcome = launchGraph(frame);
  if (outcome == Outcome::Hit) {
    frame.castBatch.keep();
    *result =
        mock->run(frame.registers, frame.numbers, frame.outputs, frame.views);
    outcome = *result && (!backward || saveOutputs(frame)) ? Outcome::Hit
                                                           : Outcome::Raise;
    if (outcome == Outcome::Raise)
      Py_CLEAR(*result);
    mode.reset();
    if (*result && gradMode >= 0)
      c10::GradMode::set_enabled(gradMode);
  }
  for (uint32_t reg : mock->externals())
    Py_DECREF(frame.registers[reg]);
  for (at::Tensor &output : frame.outputs)
    output.reset();
  frame.views.clear();
  if (backward) {
    frame.nodes.clear();
    frame.saved.reset();
  }
  return outcome;
}

/// Only now do outputs have the versions that the user sees.
bool Specialization::saveOutputs(Frame &frame) {
  if (frame.nodes.empty())
    return true;
  try {
    frame.nodes.connectViews(frame.views);
    frame.nodes.save(frame.outputs, frame.saved);
    return true;
  } catch (const std::exception &error) {
    PyErr_Format(PyExc_RuntimeError, "pyjit: saving outputs: %s", error.what());
    return false;
  }
}

namespace {

/// The inputs of a launch that runs without the GIL: owned, apart from those
/// that watched dicts hold.
class Owned final : public Borrower {
public:
  Owned(Guards &guards, const Frame &frame) : guards(guards), frame(frame) {}
  ~Owned() {
    if (borrows)
      guards.dicts().release(*this);
  }

  /// Takes what the launch uses.
  template <typename Uses> void take(Uses uses) {
    borrows = guards.dicts().borrow(*this);
    for (uint32_t i = 0; i < frame.inputs.size(); ++i)
      if (!(borrows && guards.isBorrowed(i)) && uses(i))
        owned.push_back(frame.inputs[i]);
  }
  /// Holds the Python objects, not the tensors: a vendor call that copies a
  /// tensor may at this moment have counted its second owner, and wait for the
  /// GIL to make the object live as long. A third would not do that for it.
  void secure() override {
    borrows = false;
    for (uint32_t i = 0; i < frame.inputs.size(); ++i)
      if (guards.isBorrowed(i))
        objects.push_back(Reference::borrow(guards.input(frame, i)));
  }

private:
  Guards &guards;
  const Frame &frame;
  std::vector<at::Tensor> owned;
  std::vector<Reference> objects;
  bool borrows = false;
};

} // namespace

/// The main program for these inputs, and the prepared values that it takes.
Specialization::Launch
Specialization::chooseLaunch(const at::Tensor *inputs) const {
  if (trained)
    if (auto use = trained->begin(inputs))
      return {&trained->launch(), &trained->values(), std::move(*use)};
  if (!prepared)
    return {launch.get(), nullptr, {}};
  return {launch.get(), prepared.get(), prepared->begin(inputs)};
}

/// Runs the programs on the frame's inputs. To count references to hundreds of
/// parameters costs more than to look at them, so they are borrowed where
/// nothing can happen to them: under the GIL, where the program does not look
/// at them, and where a watched dict holds them.
Specialization::Outcome Specialization::launchGraph(Frame &frame) {
  std::vector<at::Tensor> &inputs = frame.inputs;
  auto borrow = [&](uint32_t i) {
    borrowTensor(inputs[i], guards->isNumberInput(i)
                                ? guards->numberInput(frame, i)
                            : guards->isKeptCast(i)
                                ? guards->keptCast(frame, i)
                                : THPVariable_Unpack(guards->input(frame, i))
                                      .unsafeGetTensorImpl());
  };
  if (frame.boundEpoch != guards->currentEpoch()) {
    frame.boundEpoch = guards->currentEpoch();
    for (uint32_t i = 0; i < inputs.size(); ++i)
      borrow(i);
  } else {
    for (uint32_t i : guards->freeInputs())
      borrow(i);
  }
  struct Dropped {
    std::vector<at::Tensor> &inputs;
    const std::vector<uint32_t> &which;
    ~Dropped() {
      for (uint32_t i : which)
        drop(inputs[i]);
    }
  } dropLast{inputs, guards->freeInputs()};

  if (backward && backward->isShownNothing(inputs.data()))
    return Outcome::Eager;
  at::RecordFunction range(at::RecordScope::USER_SCOPE);
  if (range.isActive())
    range.before("pyjit: " + name);
  Launch chosen = chooseLaunch(inputs.data());
  bool keepLock = chosen.program->brief() && !chosen.use.observed;
  Owned owned(*guards, frame);
  if (!keepLock)
    owned.take([&](uint32_t i) {
      return chosen.use.observed || chosen.program->usesInput(i);
    });
  std::chrono::steady_clock::time_point start;
  PyThreadState *thread = nullptr;
  Outcome outcome = Outcome::Hit;
  try {
    if (backward)
      frame.nodes = rt::BackwardNodes::create(backward, inputs.data(),
                                              launch->generators());
    // Grad mode stays on: kernels ask for it (a recurrent layer keeps a
    // workspace then), and the executor calls them below autograd.
    if (!keepLock)
      thread = PyEval_SaveThread();
    const at::Tensor *cached =
        chosen.prepared ? chosen.prepared->values(chosen.use, inputs.data())
                        : nullptr;
    if (measuring)
      start = std::chrono::steady_clock::now();
    if (!chosen.program->runOrRestore(
            inputs.data(), cached, frame.outputs.data(),
            !backward || frame.nodes.empty() ? nullptr : &frame.saved))
      outcome = Outcome::Miss;
    if (measuring)
      frame.launchTime = std::chrono::steady_clock::now() - start;
    if (backward && !frame.nodes.empty() && outcome == Outcome::Hit)
      frame.nodes.connect(frame.outputs);
  } catch (const rt::Interrupted &) {
    outcome = Outcome::Raise;
  } catch (const std::exception &error) {
    outcome = Outcome::Error;
    frame.error = error.what();
  }
  if (thread)
    PyEval_RestoreThread(thread);
  unanswered += outcome == Outcome::Miss;
  if (outcome == Outcome::Error) {
    ++failures;
    lastError = std::move(frame.error);
  } else if (outcome == Outcome::Hit && chosen.prepared) {
    chosen.prepared->end(std::move(chosen.use));
  }
  return outcome;
}

std::unordered_map<const void *, size_t> Specialization::packedMemory() const {
  std::unordered_map<const void *, size_t> bytes;
  if (prepared)
    prepared->collectMemory(bytes);
  if (const Prepared *kept = trained ? trained->kept() : nullptr)
    kept->collectMemory(bytes);
  return bytes;
}

size_t Specialization::sharedWeightBytes() const {
  const Prepared *kept = trained ? trained->kept() : nullptr;
  return (prepared ? prepared->sharedBytes() : 0) +
         (kept ? kept->sharedBytes() : 0);
}

bool Specialization::measuring = false;

void Specialization::noteHostTime(std::chrono::nanoseconds time) {
  constexpr size_t kSamples = 1024;
  if (hostSamples.size() < kSamples)
    hostSamples.push_back(0);
  hostSamples[nextSample++ % hostSamples.size()] = time.count();
}

double Specialization::hostMicroseconds() const {
  if (hostSamples.empty())
    return -1;
  std::vector<uint32_t> sorted = hostSamples;
  auto middle = sorted.begin() + sorted.size() / 2;
  std::nth_element(sorted.begin(), middle, sorted.end());
  return *middle * 1e-3;
}

} // namespace pyjit::python
