//===- TorchExecutor.cpp - Runs launch programs on PyTorch's runtime ------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "pyjit-rt/TorchExecutor.h"

#include "pyjit-rt/Generators.h"

#include "DeviceExecutor.h"
#include "Parallel.h"
#include "SymbolicExecutor.h"

#include "pyjit-rt/ControlFlow.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/record_function.h>
#include <c10/util/ScopeExit.h>

using namespace pyjit::rt;

std::unique_ptr<TorchExecutor>
TorchExecutor::create(Program program, std::vector<KernelFn> kernels,
                      std::string &error) {
  if (program.header().variants && program.numSymbols() == 0)
    return DeviceExecutor::create(std::move(program), std::move(kernels),
                                  error);
  bool onDevice = program.header().variants != 0;
  if (!onDevice && kernels.size() != program.numKernels()) {
    error = "launch program names " + std::to_string(program.numKernels()) +
            " kernels, " + std::to_string(kernels.size()) + " were given";
    return nullptr;
  }
  bool symbolic = program.numSymbols() != 0;
  std::unique_ptr<TorchExecutor> executor(
      symbolic ? new SymbolicExecutor(std::move(program), std::move(kernels))
               : new TorchExecutor(std::move(program), std::move(kernels)));
  if (!executor->plan(error))
    return nullptr;
  // On a device each input's address is asked for.
  if (!onDevice)
    executor->planUses();
  return executor;
}

void TorchExecutor::planUses() {
  needsTensor.assign(program.numSlots(), false);
  std::vector<bool> read(program.numSlots(), false);
  // Kernels too small for a second thread take some microseconds each.
  constexpr size_t kBriefKernels = 64;
  briefRun = calls.empty() && kernelSteps <= kBriefKernels &&
             !hasLoops(program) && program.numSymbols() == 0;
  for (uint32_t i = 0; i < program.numSteps(); ++i) {
    const Step &step = program.steps()[i];
    // The host looks at flags, numbers and what it copies.
    switch (step.kind) {
    case StepKind::WhileTest:
    case StepKind::If:
    case StepKind::Speculate:
      read[step.a] = true;
      break;
    case StepKind::Copy:
      read[step.a] = read[step.b] = true;
      break;
    case StepKind::For:
      for (uint32_t k = 0; k < 4; k += 2)
        if (program.ints()[step.b + k])
          read[program.ints()[step.b + k + 1]] = true;
      break;
    case StepKind::View:
      if (step.flags & kStepDynamic)
        for (int64_t k = 0; k < program.ints()[step.c + 1]; ++k)
          read[program.ints()[step.c + 2 + 5 * k]] = true;
      break;
    case StepKind::Pick:
      read[program.ints()[step.b]] = true;
      break;
    default:
      break;
    }
    if (step.kind != StepKind::Kernel)
      continue;
    const Kernel &kernel = program.kernels()[step.a];
    briefRun &= kernel.work <= kernel.grain;
    for (uint32_t k = 0; k < step.c; ++k)
      read[program.ints()[step.b + k]] = true;
  }
  for (const CallPlan &call : calls)
    for (const TensorArgument &argument : call.tensors)
      for (int64_t slot : argument.slots)
        if (slot >= 0)
          needsTensor[slot] = true;
  for (uint32_t i = 0; i < program.numOutputs(); ++i)
    if (!program.isInPlace(i) && !(savedPlan && savedPlan->has(i)))
      needsTensor[program.outputSlot(i)] = true;
  // What a view or another name is asked for, its base is asked for.
  for (bool changed = true; changed;) {
    changed = false;
    for (uint32_t i = program.numSteps(); i-- > 0;) {
      const Step &step = program.steps()[i];
      auto ask = [&](int64_t base) {
        changed |= (needsTensor[step.a] && !needsTensor[base]) ||
                   (read[step.a] && !read[base]);
        needsTensor[base] = needsTensor[base] || needsTensor[step.a];
        read[base] = read[base] || read[step.a];
      };
      if (step.kind == StepKind::View || step.kind == StepKind::Move)
        ask(step.b);
      if (step.kind == StepKind::Pick)
        for (int64_t k = 0; k < program.ints()[step.b + 3]; ++k)
          ask(program.ints()[step.b + 4 + k]);
    }
  }
  inputUsed.assign(program.numInputs(), false);
  for (uint32_t i = 0; i < program.numSlots(); ++i) {
    const Slot &slot = program.slots()[i];
    if (slot.kind == SlotKind::Input && (read[i] || needsTensor[i]))
      inputUsed[slot.place] = true;
  }
  for (uint32_t i = 0; i < program.numSymbols(); ++i)
    inputUsed[program.symbolSource(i).first] = true;
  usesDispatcher = !briefRun || savedPlan;
  for (uint32_t i = 0; i < program.numOutputs(); ++i) // else copied (Outputs)
    usesDispatcher |=
        !program.isInPlace(i) &&
        program.slots()[program.outputSlot(i)].kind != SlotKind::Fresh;
}

TorchExecutor::~TorchExecutor() { delete spare.load(); }

std::optional<TorchExecutor::Dims> TorchExecutor::dims(const Slot &slot) const {
  if (program.numSymbols())
    return std::nullopt;
  return Dims{sizes(slot), strides(slot),
              static_cast<at::ScalarType>(slot.dtype)};
}

std::optional<TorchExecutor::Dims> TorchExecutor::inputDims(uint32_t i) const {
  for (uint32_t k = 0; k < program.numSlots(); ++k)
    if (const Slot &slot = program.slots()[k];
        slot.kind == SlotKind::Input && slot.place == i)
      return dims(slot);
  return std::nullopt;
}

std::optional<TorchExecutor::Dims> TorchExecutor::outputDims(uint32_t i) const {
  return dims(program.slots()[program.outputSlot(i)]);
}

/// Storages that are copied when they are written are copied now: then another
/// input that shows the same one is found in its new place, and memory that is
/// not there is an error before anything was written.
void TorchExecutor::makeWritable(const at::Tensor *inputs) const {
  for (uint32_t input : written)
    inputs[input].mutable_data_ptr();
}

std::optional<uint32_t> TorchExecutor::updatedInput(uint32_t output) const {
  if (!program.isInPlace(output))
    return std::nullopt;
  return uint32_t(program.slots()[program.outputSlot(output)].place);
}

bool TorchExecutor::plan(std::string &error) {
  if (!program.numSymbols())
    savedPlan = SavedPlan::of(program);
  planOutputs();
  for (uint32_t i = 0; i < program.numOutputs(); ++i)
    if (auto input = updatedInput(i))
      written.push_back(*input);
  for (uint32_t i = 0; i < program.numSteps(); ++i) {
    const Step &step = program.steps()[i];
    kernelSteps += step.kind == StepKind::Kernel;
    speculates |= step.kind == StepKind::Speculate;
    callOf.push_back(calls.size());
    if (step.kind != StepKind::Call)
      continue;
    if (!planCall(step, error))
      return false;
    random |= calls.back().op.hasTag(at::Tag::nondeterministic_seeded);
  }
  return true;
}

//===----------------------------------------------------------------------===//
// Running
//===----------------------------------------------------------------------===//

bool TorchExecutor::run(const at::Tensor *inputs, const at::Tensor *cached,
                        at::Tensor *outputs, SavedValues *saved) {
  auto arena = takeArena();
  // The tensors are never seen by autograd or by view tracking: where inputs
  // require grad, what gradients flow through is one node (AutogradNode.h).
  std::optional<at::AutoDispatchBelowADInplaceOrView> belowAutograd;
  if (usesDispatcher)
    belowAutograd.emplace();
  if (savedPlan)
    arena->saved = at::detail::empty_cpu({int64_t(program.header().savedBytes)},
                                         at::kByte);
  bool answered = execute(*arena, inputs, cached);
  if (answered)
    giveOutputs(*arena, outputs, saved);
  giveArena(std::move(arena));
  return answered;
}

std::shared_ptr<const Generators> TorchExecutor::generators() const {
  if (!random)
    return nullptr;
  const Header &header = program.header();
  at::Device device = at::kCPU;
  if (header.variants && c10::DeviceType(header.deviceType) != at::kCPU)
    device = at::Device(c10::DeviceType(header.deviceType),
                        c10::DeviceIndex(header.deviceIndex));
  return std::make_shared<Generators>(device);
}

bool TorchExecutor::runAgain(const Generators &then, const at::Tensor *inputs,
                             at::Tensor *outputs, SavedValues *saved) {
  std::shared_ptr<const Generators> now = generators();
  then.restore();
  auto restore = c10::make_scope_exit([&] {
    if (now)
      now->restore();
  });
  return run(inputs, nullptr, outputs, saved);
}

bool TorchExecutor::runOrRestore(const at::Tensor *inputs,
                                 const at::Tensor *cached, at::Tensor *outputs,
                                 SavedValues *saved) {
  std::shared_ptr<const Generators> before = generators();
  if (!before)
    return run(inputs, cached, outputs, saved);
  try {
    bool answered = run(inputs, cached, outputs, saved);
    if (!answered)
      before->restore();
    return answered;
  } catch (...) {
    before->restore();
    throw;
  }
}

/// The first element of a tensor with a storage, by the shortest way: programs
/// have hundreds of inputs.
static void *addressOf(const at::Tensor &tensor) {
  const c10::TensorImpl *impl = tensor.unsafeGetTensorImpl();
  const void *data = impl->unsafe_storage().unsafeGetStorageImpl()->data();
  return static_cast<char *>(const_cast<void *>(data)) +
         impl->storage_offset() * impl->itemsize();
}

/// The memory of each slot that has one before the first step.
void TorchExecutor::bindSlots(Arena &arena, const at::Tensor *inputs,
                              const at::Tensor *cached, const Part *part) {
  for (uint32_t i = 0; i < program.numSlots(); ++i) {
    if (part && !part->slots[i])
      continue;
    const Slot &slot = program.slots()[i];
    switch (slot.kind) {
    case SlotKind::Input:
      if (!inputUsed[slot.place])
        continue;
      if (!needsTensor[i]) {
        arena.buffers[i] = addressOf(inputs[slot.place]);
        continue;
      }
      arena.values[i] = inputs[slot.place];
      break;
    case SlotKind::Cached:
      arena.values[i] = cached[slot.place];
      break;
    case SlotKind::Fresh:
      if (slot.flags & kSlotSaved) {
        bindSaved(i, arena, needsTensor[i]);
        continue;
      }
      arena.values[i] = at::detail::empty_strided_cpu(
          sizes(slot), strides(slot), static_cast<c10::ScalarType>(slot.dtype));
      break;
    case SlotKind::Arena:
      if (needsTensor[i])
        arena.values[i] = arena.slots[i];
      continue;
    case SlotKind::Words:
      arena.buffers[i] = const_cast<int64_t *>(program.ints() + slot.place);
      continue;
    case SlotKind::Result:
    case SlotKind::View:
      continue;
    }
    if (arena.values[i].has_storage()) // else an opaque packed weight
      arena.buffers[i] = const_cast<void *>(arena.values[i].const_data_ptr());
  }
}

/// See `run`. A run that does not end leaves inputs as they were.
bool TorchExecutor::execute(Arena &arena, const at::Tensor *inputs,
                            const at::Tensor *cached) {
  makeWritable(inputs);
  bindSlots(arena, inputs, cached);
  arena.undo.clear();
  auto restore = c10::make_scope_exit([&] { undo(arena); });
  bool answered = runSteps(arena);
  if (answered)
    restore.release();
  return answered;
}

/// The last first: a later one may have written the same elements.
void TorchExecutor::undo(Arena &arena) const {
  while (!arena.undo.empty()) {
    uint32_t begin = arena.undo.back() + 1;
    arena.undo.pop_back();
    uint32_t end = begin + program.steps()[begin - 1].a;
    for (uint32_t i = begin; i < end; ++i)
      if (program.steps()[i].kind == StepKind::Call)
        runCall(calls[callOf[i]], arena);
      else
        runCopy(program.steps()[i], arena);
  }
}

void TorchExecutor::runCopy(const Step &step, Arena &arena) const {
  copySlot(program, program.slots()[step.a], arena.buffers[step.a],
           program.slots()[step.b], arena.buffers[step.b]);
}

bool TorchExecutor::runSteps(Arena &arena, const Part *part) {
  Interruption interruption(interrupt);
  bool profiled =
      at::getStepCallbacksUnlessEmpty(at::RecordScope::USER_SCOPE).has_value();
  for (uint32_t i = 0; i < program.numSteps();
       i = followStep(program, i, arena.buffers.data())) {
    if (part && !part->steps[i])
      continue;
    const Step &step = program.steps()[i];
    switch (step.kind) {
    case StepKind::Kernel:
      if (profiled)
        runProfiled(step, arena);
      else
        runKernel(step, arena);
      break;
    case StepKind::Call:
      runCall(calls[callOf[i]], arena);
      break;
    case StepKind::View:
      runView(step, arena);
      break;
    case StepKind::Move:
      arena.buffers[step.a] = arena.buffers[step.b];
      if (needsTensor[step.a])
        arena.values[step.a] = arena.values[step.b];
      break;
    case StepKind::Pick: {
      uint32_t picked = 0;
      TORCH_CHECK_INDEX(pickSlot(program, step, arena.buffers.data(), picked),
                        "pyjit: index out of range");
      arena.buffers[step.a] = arena.buffers[picked];
      if (needsTensor[step.a])
        arena.values[step.a] = arena.values[picked];
      break;
    }
    case StepKind::Copy:
      runCopy(step, arena);
      break;
    case StepKind::Undo:
      arena.undo.push_back(i);
      break;
    case StepKind::Release:
      arena.values[step.a].reset();
      break;
    case StepKind::WhileEnd:
    case StepKind::ForEnd:
      interruption.check();
      break;
    case StepKind::HostValue:
    case StepKind::GraphBegin:
    case StepKind::GraphEnd:
      break; // of devices only
    case StepKind::While:
    case StepKind::WhileTest:
    case StepKind::For:
    case StepKind::If:
    case StepKind::Else:
    case StepKind::IfEnd:
      break; // followStep
    case StepKind::Speculate:
      if (!*static_cast<const uint8_t *>(arena.buffers[step.a]))
        return false;
      break;
    }
  }
  return true;
}

void TorchExecutor::runView(const Step &step, Arena &arena) const {
  int64_t offset;
  TORCH_CHECK_INDEX(viewOffset(program, step, arena.buffers.data(), offset),
                    "pyjit: index out of range");
  const Slot &slot = program.slots()[step.a];
  arena.buffers[step.a] =
      static_cast<char *>(arena.buffers[step.b]) +
      offset *
          int64_t(c10::elementSize(static_cast<c10::ScalarType>(slot.dtype)));
  if (needsTensor[step.a])
    arena.values[step.a] = makeView(slot, arena.values[step.b], offset);
}

void TorchExecutor::runKernel(const Step &step, Arena &arena) const {
  constexpr uint32_t kInline = 32;
  void *inlineBuffers[kInline];
  std::vector<void *> many;
  void **buffers = inlineBuffers;
  if (step.c > kInline) {
    many.resize(step.c);
    buffers = many.data();
  }
  for (uint32_t k = 0; k < step.c; ++k)
    buffers[k] = arena.buffers[program.ints()[step.b + k]];
  parallelFor(program.kernels()[step.a], kernels[step.a], buffers);
}

/// As a range of profilers, which see vendor calls by themselves: its name and
/// the program's line.
void TorchExecutor::runProfiled(const Step &step, Arena &arena) const {
  at::RecordFunction range(at::RecordScope::USER_SCOPE);
  if (range.isActive()) {
    const Kernel &kernel = program.kernels()[step.a];
    std::string name = std::string("pyjit::") + program.string(kernel.name);
    if (kernel.location != kNone)
      name += std::string(" (") + program.string(kernel.location) + ")";
    range.before(std::move(name));
  }
  runKernel(step, arena);
}

at::Tensor TorchExecutor::makeTensor(const Slot &slot,
                                     c10::Storage storage) const {
  bool onGpu = storage.device().is_cuda();
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage),
      c10::DispatchKeySet(onGpu ? c10::DispatchKey::CUDA
                                : c10::DispatchKey::CPU),
      c10::scalarTypeToTypeMeta(static_cast<c10::ScalarType>(slot.dtype)));
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(sizes(slot),
                                                      strides(slot));
  return tensor;
}

at::Tensor TorchExecutor::makeTensorAt(const Slot &slot, void *data,
                                       c10::Device device) const {
  return makeTensor(slot, c10::Storage(c10::Storage::use_byte_size_t(),
                                       slot.bytes, at::DataPtr(data, device)));
}

at::Tensor TorchExecutor::makeView(const Slot &slot, const at::Tensor &base,
                                   int64_t offset) const {
  at::Tensor view = at::detail::make_tensor<c10::TensorImpl>(
      c10::TensorImpl::VIEW, c10::Storage(base.storage()), base.key_set(),
      base.dtype());
  view.unsafeGetTensorImpl()->set_sizes_and_strides(
      sizes(slot), strides(slot), base.storage_offset() + offset);
  return view;
}
