// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===- TorchExecutor.h - Runs launch programs on PyTorch's runtime -*- C++
//-*-===//

#ifndef PYJIT_RT_TORCHEXECUTOR_H
#define PYJIT_RT_TORCHEXECUTOR_H

#include "pyjit-rt/Program.h"
#include "pyjit-rt/SavedValues.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace pyjit::rt::cuda {
struct DeviceFacts;
} // namespace pyjit::rt::cuda

namespace pyjit::rt {
class Generators;

/// Thrown by a run that was told to end.
struct Interrupted final : std::exception {
  const char *what() const noexcept override { return "interrupted"; }
};

/// Asks from time to time whether a run shall end: a loop may go on for ever.
class Interruption {
public:
  using Ask = bool (*)();
  explicit Interruption(Ask ask) : ask(ask) {}
  /// For each round of a loop. Throws `Interrupted`.
  void check() {
    if (!ask)
      return;
    auto now = std::chrono::steady_clock::now();
    if (now < next)
      return;
    bool first = next == decltype(next)();
    next = now + std::chrono::milliseconds(20);
    if (!first && ask())
      throw Interrupted();
  }

private:
  Ask ask;
  std::chrono::steady_clock::time_point next;
};

/// An argument that differs between calls: tensors, alone or in a list, and
/// numbers that 0-dim tensors hold.
struct TensorArgument {
  enum Form : uint8_t { Tensor, List, WrappedNumber, Number };
  uint32_t argument;
  Form form;
  bool optionalElements;
  std::vector<int64_t> slots; // -1: None inside a list of optional tensors
};

/// A vendor call, resolved: its operator, constants, and what each run fills
/// in.
struct CallPlan {
  c10::OperatorHandle op;
  std::vector<c10::IValue> arguments; // tensors left None
  std::vector<TensorArgument> tensors;
  const int64_t *results; // into the program: slots, -1 for unused
  int64_t numResults;
  bool writes; // some argument
};

/// Runs one launch program with ATen's allocator, dispatcher and thread pool.
///
/// A call writes fresh outputs, and the inputs that the program says it writes,
/// these behind everything that may fail: a failed call (an exception of a
/// vendor call) may be answered again by eager PyTorch, random numbers aside.
class TorchExecutor {
public:
  /// Resolves every operator and builds every constant argument. Returns null
  /// and says in `error` which operator is missing or does not fit its schema.
  ///
  /// A program of a device runs there: by the CUDA driver, or, if it names the
  /// processor as its device, by a simulated driver.
  static std::unique_ptr<TorchExecutor>
  create(Program program, std::vector<KernelFn> kernels, std::string &error);
  virtual ~TorchExecutor();

  const Program &launchProgram() const { return program; }
  uint32_t numInputs() const { return program.numInputs(); }
  uint32_t numOutputs() const { return program.numOutputs(); }
  /// How an input or an output lies in memory. Nothing where the program does
  /// not say: an input that it does not look at, sizes that differ between
  /// calls.
  struct Dims {
    at::IntArrayRef sizes, strides;
    at::ScalarType type;
  };
  std::optional<Dims> inputDims(uint32_t i) const;
  std::optional<Dims> outputDims(uint32_t i) const;
  /// The input whose new contents output `i` is, if a run writes it. Such an
  /// output stays undefined.
  std::optional<uint32_t> updatedInput(uint32_t output) const;
  /// Kernels launched, and vendor calls made, by one run.
  size_t numKernelSteps() const { return kernelSteps; }
  size_t numCallSteps() const { return calls.size(); }
  /// Whether a run may end without an answer.
  bool mayNotAnswer() const { return speculates; }

  /// Whether a run takes microseconds and calls no library: the caller may keep
  /// a lock of its own meanwhile.
  bool brief() const { return briefRun; }
  /// Whether a run looks at input `i` at all.
  bool usesInput(uint32_t i) const { return inputUsed.empty() || inputUsed[i]; }

  /// `inputs`: numInputs() tensors whose metadata the guards have checked.
  /// `cached`: the outputs of the prepare program, or null when there is none.
  /// `outputs`: numOutputs() tensors to assign; with `saved`, those stay
  /// undefined that lie in its block.
  /// False where a speculation (StepKind::Speculate) did not hold: the program
  /// does not answer this call, `outputs` are as they were, and nothing
  /// happened.
  /// Throws what vendor calls throw, and `Interrupted`. Safe on several
  /// threads at once.
  virtual bool run(const at::Tensor *inputs, const at::Tensor *cached,
                   at::Tensor *outputs, SavedValues *saved = nullptr);
  /// `run`, after which PyTorch's generators are as they were before it unless
  /// it has answered: eager does then, and draws the same numbers.
  bool runOrRestore(const at::Tensor *inputs, const at::Tensor *cached,
                    at::Tensor *outputs, SavedValues *saved = nullptr);
  /// `run` of a program that takes nothing cached, for the outputs that are
  /// `wanted`: steps that the others alone take are left out where that can be
  /// told. These outputs are undefined or not.
  void runFor(const std::vector<bool> &wanted, const at::Tensor *inputs,
              at::Tensor *outputs);
  /// Gives back the memory of intermediates that no run is using. For a program
  /// that another one answers for.
  void dropIdleMemory();
  /// What a run would draw from now; null where it draws nothing.
  std::shared_ptr<const Generators> generators() const;
  /// `run` with the random numbers that were to come `then`; the generators are
  /// left as they are.
  bool runAgain(const Generators &then, const at::Tensor *inputs,
                at::Tensor *outputs, SavedValues *saved);
  /// Waits until the device has done everything that it was told; false where
  /// that cannot be asked now. Nothing to wait for on the CPU.
  virtual bool settle() { return true; }
  bool onDevice() const { return program.header().variants != 0; }
  /// From now on runs that loop ask this whether to end, on their own thread.
  void onInterrupt(Interruption::Ask ask) { interrupt = ask; }
  /// Where there is a choice: launch so, and measure nothing, if the program
  /// offers it and it works. Before the first run.
  virtual void prefer(Variant) {}
  /// How the program is launched and what was measured, for readers; empty
  /// where there is nothing to choose.
  virtual std::string report() const { return ""; }

protected:
  TorchExecutor(Program program, std::vector<KernelFn> kernels)
      : program(std::move(program)), kernels(std::move(kernels)) {}

  /// Memory that the executors of one program's sizes take in turn.
  struct StorageCache {
    std::mutex lock;
    std::vector<at::Tensor> storages;
    /// One of at least `bytes`; a smaller one is given up for it.
    at::Tensor take(int64_t bytes);
    void give(at::Tensor storage);
  };
  struct Arena {
    at::Tensor storage;
    const void *filledFor = nullptr; ///< the storage's data, of a shared one
    std::vector<at::Tensor> slots;   // by slot number; undefined unless Arena
    std::vector<at::Tensor> values;
    std::vector<void *> buffers;
    at::Tensor saved;           ///< the present call's block
    std::vector<uint32_t> undo; ///< the present call's Undo steps so far
  };

  /// Lets `other` use this executor's memory for intermediates.
  void shareStorage(TorchExecutor &other) const {
    other.sharedStorage = sharedStorage;
  }
  void makeWritable(const at::Tensor *inputs) const;
  bool plan(std::string &error);
  void planUses();
  std::vector<int64_t> findOwnMemory() const;
  void planOutputs();
  bool planCall(const Step &step, std::string &error);
  std::unique_ptr<Arena> takeArena();
  void giveArena(std::unique_ptr<Arena> arena);
  bool execute(Arena &arena, const at::Tensor *inputs,
               const at::Tensor *cached);
  /// What a run for some outputs takes of the program.
  struct Part {
    std::vector<bool> steps, slots;
  };
  Part partFor(const std::vector<bool> &wanted) const;
  std::vector<int64_t> slotsOf(uint32_t step) const;
  /// `part`: null for all of the program.
  void bindSlots(Arena &arena, const at::Tensor *inputs,
                 const at::Tensor *cached, const Part *part = nullptr);
  bool runSteps(Arena &arena, const Part *part = nullptr);
  void undo(Arena &arena) const;
  void runCopy(const Step &step, Arena &arena) const;
  void runKernel(const Step &step, Arena &arena) const;
  void runProfiled(const Step &step, Arena &arena) const;
  void runView(const Step &step, Arena &arena) const;
  void runCall(const CallPlan &plan, Arena &arena) const;
  void fillArena(Arena &arena, at::Tensor storage,
                 const std::vector<bool> &without = {}) const;
  void giveOutputs(Arena &arena, at::Tensor *outputs, SavedValues *saved) const;
  at::Tensor ownOutput(const Arena &arena, uint32_t i) const;
  void bindSaved(uint32_t slot, Arena &arena, bool asTensor) const;
  /// A tensor of a slot's sizes that begins where `storage` does.
  at::Tensor makeTensor(const Slot &slot, c10::Storage storage) const;
  /// One on memory that somebody else keeps.
  at::Tensor makeTensorAt(const Slot &slot, void *data,
                          c10::Device device) const;
  at::Tensor makeView(const Slot &slot, const at::Tensor &base,
                      int64_t offset) const;
  at::IntArrayRef sizes(const Slot &slot) const {
    return {program.ints() + slot.dims, slot.rank};
  }
  at::IntArrayRef strides(const Slot &slot) const {
    return {program.ints() + slot.dims + slot.rank, slot.rank};
  }
  std::optional<Dims> dims(const Slot &slot) const;

  Interruption::Ask interrupt = nullptr;
  Program program;
  std::vector<KernelFn> kernels;
  std::vector<CallPlan> calls; // in step order
  std::vector<size_t> callOf;  // by step: the plan of a Call
  size_t kernelSteps = 0;
  bool speculates = false;
  bool random = false; ///< some call draws from a generator
  bool briefRun = false;
  bool usesDispatcher = true;    ///< ATen's, for calls and for copied outputs
  std::vector<uint32_t> written; ///< inputs that a run writes
  std::vector<bool> inputUsed;
  /// By slot: a vendor call, a view or the caller sees the tensor; a kernel
  /// sees the address alone.
  std::vector<bool> needsTensor;
  /// How the caller gets an output: what its slot holds, that if it shows all
  /// of some memory, or a copy.
  enum class Giving : uint8_t { Own, Whole, Copy };
  std::vector<Giving> givings;                 ///< by output
  std::shared_ptr<const SavedPlan> savedPlan;  ///< null: calls leave no block
  std::shared_ptr<StorageCache> sharedStorage; // null: arenas keep theirs
  /// Idle arenas: one that a call takes without a lock, and what calls at the
  /// same time left.
  std::atomic<Arena *> spare = nullptr;
  std::mutex lock; // guards `arenas`
  std::vector<std::unique_ptr<Arena>> arenas;
};

/// See pyjit-rt/cuda/Driver.h; nothing where there is no driver.
cuda::DeviceFacts describeCudaDevice(int device);

} // namespace pyjit::rt

#endif // PYJIT_RT_TORCHEXECUTOR_H
