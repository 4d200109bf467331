//===- Session.h - Compiling ------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//   compiler::Session session(options);
//   compiler::Trace trace = session.parse(text);
//   std::unique_ptr<compiler::Executable> exe = session.compile(trace);
//
// The stages of a compilation are chosen here and nowhere else.
//
//===----------------------------------------------------------------------===//

#ifndef PYJIT_COMPILER_SESSION_H
#define PYJIT_COMPILER_SESSION_H

#include "pyjit/Compiler/Executable.h"
#include "pyjit/Compiler/Pipelines.h"
#include "pyjit/Compiler/Trace.h"

#include "mlir/IR/Diagnostics.h"

#include <functional>

namespace pyjit::compiler {

/// Compilations with the same options, one after the other. On one thread at a
/// time; several sessions may work side by side, in one context, too.
class Session {
public:
  /// `onDiagnostic` is told of errors and warnings, each with its location and
  /// notes in one line. Traces that the session is given are of its context.
  explicit Session(CompileOptions options,
                   std::function<void(llvm::StringRef)> onDiagnostic = nullptr,
                   std::shared_ptr<Context> context = nullptr);

  mlir::MLIRContext &getContext() { return context->get(); }
  const CompileOptions &getOptions() const { return options; }

  /// Empty, with a diagnostic, where the text (or bytecode) is no IR of
  /// pyjit's.
  Trace parse(llvm::StringRef text);
  /// One trace of the segments of a call (pass refgraph-merge-branches), which
  /// stay as they are. Empty, with a diagnostic, where that cannot be.
  Trace merge(llvm::ArrayRef<Segment> segments);

  /// All stages, of a copy. Null, with a diagnostic, where it does not compile.
  std::unique_ptr<Executable> compile(const Trace &trace);

  /// The stages that `module` has before it still, from a trace, a tensor
  /// program on handles or whatever a stage has left (`getStage`): up to the
  /// LLVM dialect.
  llvm::LogicalResult lower(mlir::ModuleOp module);
  /// The executable of the function `name` (a `func.func` or a
  /// `cudagraph.program`) of a lowered module.
  std::unique_ptr<Executable> emit(mlir::ModuleOp module, llvm::StringRef name);

private:
  friend class Executable;
  llvm::LogicalResult time(Stage stage,
                           llvm::function_ref<llvm::LogicalResult()> body);
  llvm::LogicalResult run(Stage stage, mlir::ModuleOp module);
  llvm::LogicalResult lowerKernels(mlir::ModuleOp module, Placement placement);
  llvm::LogicalResult findAlignments(mlir::ModuleOp module);
  llvm::LogicalResult emitKernels(mlir::ModuleOp module, Executable &exe);
  llvm::LogicalResult encode(mlir::ModuleOp module, llvm::StringRef name,
                             Executable &exe);
  void readGradients(mlir::ModuleOp module);
  void selectPart(mlir::ModuleOp module);
  llvm::LogicalResult encodeBackward(mlir::ModuleOp module, Executable &exe);
  llvm::LogicalResult encodeProgram(mlir::ModuleOp module,
                                    llvm::StringRef symbol, Executable &exe,
                                    Executable::Program &program,
                                    unsigned firstSaved = ~0u);
  std::string makeReport(llvm::StringRef bytecode, Report topic);
  void dump(llvm::StringRef stage, mlir::ModuleOp module);

  CompileOptions options;
  std::shared_ptr<Context> context;
  std::optional<mlir::ScopedDiagnosticHandler> handler;
  std::vector<StageTime> stages; ///< of the executable in the making
  std::string name;              ///< what dumps are named by
  /// What the frontend has said of the backward program.
  std::optional<Executable::Gradients> gradients;
  bool packsTrained = false; ///< see Executable
  /// For a simulated device: what a GPU's code of a kernel would rely on.
  std::map<std::string, llvm::SmallVector<uint32_t>, std::less<>> alignments;
};

} // namespace pyjit::compiler

#endif // PYJIT_COMPILER_SESSION_H
