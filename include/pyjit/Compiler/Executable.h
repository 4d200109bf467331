//===- Executable.h - What a compilation makes ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_COMPILER_EXECUTABLE_H
#define PYJIT_COMPILER_EXECUTABLE_H

#include "pyjit/Codegen/X86/JIT.h"
#include "pyjit/Compiler/Pipelines.h"
#include "pyjit/Executable/GuardProgram.h"
#include "pyjit/Executable/LaunchEncoding.h"
#include "pyjit/Executable/MockProgram.h"

#include "pyjit-c/Compiler.h"

#include <functional>
#include <map>
#include <mutex>

namespace pyjit::compiler {

struct StageTime {
  Stage stage;
  double seconds;
};

/// What an executable can tell a reader.
enum class Report {
  Guards,           ///< the guard program, then the mock program
  Graph,            ///< the functional tensor program
  Fusion,           ///< what calls the kernels
  Kernels,          ///< kernels before code generation; for a GPU, their PTX
  CudaGraph,        ///< the launch program of a device, planned
  Launch,           ///< the launch programs as they were encoded
  SpecializedSizes, ///< a line for each size that was to differ and could not
};

/// One compiled function: programs that the runtime executes, and the machine
/// code that they call. Immutable but for reports, which are made when they are
/// first asked for; safe on several threads.
class Executable {
public:
  /// A launch program (runtime/include/pyjit-rt/Launch.h) and the code of its
  /// kernels, in its order.
  struct Program {
    executable::LaunchProgram launch;
    std::vector<x86::KernelFunction> kernels;
  };

  /// Of a trace; empty for a function without one.
  executable::GuardProgram guards;
  executable::MockProgram mock;
  /// Runs at each call.
  Program main;
  /// Computes, from the inputs of `main` that are parameters, what `main` takes
  /// as cached values. Without a blob there is nothing to prepare.
  Program prepare;
  /// Inputs of `main` that `prepare` reads, in its order.
  std::vector<uint32_t> prepareInputs;
  /// What is known of a result of `prepare`: values of the same digest that
  /// come from the same memory are the same.
  struct PreparedValue {
    std::string digest;
    std::vector<uint32_t> sources; ///< inputs of `prepare`
  };
  std::vector<PreparedValue> preparedValues; ///< empty: nothing is known
  /// Computes gradients of inputs of `main` from those of its results. Without
  /// a blob nothing requires grad.
  Program backward;
  /// Where the backward program's arguments come from, what its results are
  /// the gradients of, which results of `main` require grad, and how many there
  /// are without the saved ones behind them.
  struct Gradients {
    std::vector<PyjitBackwardArgument> arguments;
    std::vector<uint32_t> inputs, results;
    /// Row by row: whether gradient i depends on that of differentiable result
    /// k.
    std::vector<uint8_t> reaches;
    /// Of each differentiable result, its group (PyjitBackward).
    std::vector<uint32_t> groups;
    /// Inputs of `main` that gradients depend on in any way, sizes included,
    /// and row by row: whether gradient i depends on elements of input k, and
    /// whether it varies with them.
    std::vector<uint32_t> reads;
    std::vector<uint8_t> uses, varies;
    /// Row by row: whether gradient i is computed from argument k.
    std::vector<uint8_t> needs;
    /// Where results were computed from others (PyjitBackward).
    std::vector<uint8_t> leads, reachesDirectly, keeps;
    std::vector<uint32_t> stops;
    uint32_t numResults = 0;
    /// The same, as the C API shows it.
    PyjitBackward view;
  };
  std::optional<Gradients> gradients;
  /// Whether `main` may pack parameters with gradients in each call, which
  /// `keepParameters` saves.
  bool packsTrained = false;
  /// How many sizes are taken as they come.
  size_t numSymbols = 0;
  std::vector<StageTime> stages;

  /// Takes about as long as the stages that lead there, once.
  llvm::StringRef getReport(Report topic) const;

  /// For gradients of gradients: an executable whose main program takes the
  /// inputs of `main` and then the gradients of its differentiable results, and
  /// gives the gradients of `gradients->inputs`. `order`: 2, or 3 for gradients
  /// of those, which take their gradients behind. Null where that cannot be.
  std::unique_ptr<Executable>
  differentiate(unsigned order,
                std::function<void(llvm::StringRef)> onDiagnostic) const;
  /// A backward program that is given no gradients of these results, without a
  /// main program. Null where that cannot be.
  std::unique_ptr<Executable>
  dropGradients(std::vector<uint32_t> results, bool stops,
                std::function<void(llvm::StringRef)> onDiagnostic) const;
  /// For calls that find parameters with gradients as the call before did: a
  /// main program that takes and gives what this one does, and the prepare
  /// program of what it keeps of them. Null where that cannot be.
  std::unique_ptr<Executable>
  keepParameters(std::function<void(llvm::StringRef)> onDiagnostic) const;

private:
  friend class Session;
  /// The same trace, with other options.
  std::unique_ptr<Executable>
  compileAgain(CompileOptions changed,
               std::function<void(llvm::StringRef)> onDiagnostic) const;
  std::string makeReport(Report topic) const;

  std::unique_ptr<x86::JitLibrary> library; ///< the kernels, on the CPU
  std::vector<std::string> ptx;             ///< the kernels, on a GPU
  std::string trace;                        ///< serialized, for reports
  CompileOptions options;
  mutable std::mutex lock; ///< guards `reports`
  mutable std::map<Report, std::string> reports;
};

} // namespace pyjit::compiler

#endif // PYJIT_COMPILER_EXECUTABLE_H
