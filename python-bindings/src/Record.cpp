//===- Record.cpp - One specialisation of a compiled function -------------===//

#include "Record.h"

#include "Reference.h"

#include <c10/core/GradMode.h>

namespace pyjit::python {
namespace {

std::unique_ptr<rt::TorchExecutor> makeExecutor(const PyjitExecutable *exe,
                                                PyjitProgramKind kind,
                                                std::string &error) {
  PyjitString blob = pyjitExecutableLaunch(exe, kind);
  rt::Program program;
  if (!program.load(blob.data, blob.size, error))
    return nullptr;
  rt::KernelFn const *functions = nullptr;
  size_t count = pyjitExecutableKernels(exe, kind, &functions);
  return rt::TorchExecutor::create(
      std::move(program),
      std::vector<rt::KernelFn>(functions, functions + count), error);
}

void appendDiagnostic(PyjitString message, void *user) {
  auto *text = static_cast<std::string *>(user);
  if (!text->empty())
    *text += '\n';
  text->append(message.data, message.size);
}

} // namespace

std::unique_ptr<Record> Record::build(const std::string &trace,
                                      PyObject *objects, Py_ssize_t nargs,
                                      PyObject *kwnames, bool eagerRounding,
                                      const std::string &dumpDirectory,
                                      std::string &error) {
  PyjitCompileOptions options{};
  options.size = sizeof options;
  options.eagerRounding = eagerRounding;
  options.dumpDirectory = {dumpDirectory.data(), dumpDirectory.size()};
  options.diagnostic = appendDiagnostic;
  options.user = &error;

  std::unique_ptr<Record> record(new Record);
  // Other Python threads go on meanwhile; the compiler knows nothing of Python.
  PyThreadState *thread = PyEval_SaveThread();
  record->exe.reset(pyjitCompile({trace.data(), trace.size()}, &options));
  PyEval_RestoreThread(thread);
  if (!record->exe)
    return nullptr;
  const PyjitExecutable *exe = record->exe.get();

  record->numArguments = nargs;
  record->keywordNames = Py_XNewRef(kwnames);
  record->mock = std::make_unique<Mock>();
  record->guards = std::make_unique<Guards>();
  const PyjitGuardProgram &guards = *pyjitExecutableGuards(exe);
  if (!record->mock->load(*pyjitExecutableMock(exe), objects, error) ||
      !record->guards->load(guards, record->mock->numRegisters(), objects,
                            error))
    return nullptr;
  record->launch = makeExecutor(exe, PyjitProgramMain, error);
  if (!record->launch)
    return nullptr;
  if (pyjitExecutableLaunch(exe, PyjitProgramPrepare).size) {
    auto prepare = makeExecutor(exe, PyjitProgramPrepare, error);
    if (!prepare)
      return nullptr;
    const uint32_t *sources = nullptr;
    size_t count = pyjitExecutablePrepareInputs(exe, &sources);
    record->prepared = std::make_unique<Prepared>(
        std::move(prepare), std::vector<uint32_t>(sources, sources + count));
  }
  if (record->launch->numInputs() != guards.numInputs) {
    error = "the launch program takes " +
            std::to_string(record->launch->numInputs()) +
            " inputs, the guards give " + std::to_string(guards.numInputs);
    return nullptr;
  }
  record->inputs.resize(record->launch->numInputs());
  record->outputs.resize(record->launch->numOutputs());
  record->dispatch = DispatchState::current();
  record->kernelCount = record->launch->numKernelSteps();
  record->callCount = record->launch->numCallSteps();
  return record;
}

Record::~Record() {
  Py_XDECREF(keywordNames);
  Py_XDECREF(cut);
}

bool Record::matchesSignature(Py_ssize_t nargs, PyObject *kwnames) const {
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

Record::Outcome Record::call(PyObject *const *args, Py_ssize_t nargs,
                             PyObject *kwnames, PyObject **result) {
  if (!matchesSignature(nargs, kwnames))
    return Outcome::Miss;
  // The register file and the scratch belong to one call at a time; a reentrant
  // or concurrent one is rare and runs in eager.
  if (running)
    return Outcome::Error;
  if (!(DispatchState::current() == dispatch) || !guards->check(args, nargs))
    return Outcome::Miss;
  struct Busy {
    bool &flag;
    explicit Busy(bool &flag) : flag(flag) { flag = true; }
    ~Busy() { flag = false; }
  } busy(running);

  guards->collectInputs(inputs);
  // While the GIL is released, another thread may drop what registers borrow.
  std::vector<PyObject *> &registers = guards->registerFile();
  for (uint32_t reg : mock->externals())
    Py_INCREF(registers[reg]);
  Outcome outcome = Outcome::Hit;
  Prepared::Use use{};
  if (prepared)
    use = prepared->begin(inputs.data());
  PyThreadState *thread = PyEval_SaveThread();
  try {
    const at::Tensor *cached =
        prepared ? prepared->values(use, inputs.data()) : nullptr;
    launch->run(inputs.data(), cached, outputs.data());
  } catch (const std::exception &error) {
    lastError = error.what();
    outcome = Outcome::Error;
  }
  PyEval_RestoreThread(thread);
  if (prepared && outcome == Outcome::Hit)
    prepared->end(std::move(use));
  for (at::Tensor &input : inputs)
    input.reset();
  if (outcome == Outcome::Hit) {
    *result = mock->run(registers, outputs);
    if (!*result)
      outcome = Outcome::Raise;
    else if (gradMode >= 0)
      c10::GradMode::set_enabled(gradMode);
  }
  for (uint32_t reg : mock->externals())
    Py_DECREF(registers[reg]);
  for (at::Tensor &output : outputs)
    output.reset();
  return outcome;
}

} // namespace pyjit::python
