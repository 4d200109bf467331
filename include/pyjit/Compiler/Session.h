//===- Session.h - Compiling ------------------------------------*- C++ -*-===//
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

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"

#include <functional>

namespace pyjit::compiler {

/// What Python did in one call, or in a part of one: a module with one
/// `refgraph.trace`.
struct Trace {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::string text; ///< what it was parsed from; empty where it was made

  explicit operator bool() const { return static_cast<bool>(module); }
  /// The record's, which its functions have, too.
  llvm::StringRef getName() const;
  /// With locations, so that it can be parsed again.
  std::string print() const;
};

/// A context and what is compiled in it. On one thread at a time; several
/// sessions may work side by side.
class Session {
public:
  /// `onDiagnostic` is told of errors and warnings, each with its location and
  /// notes in one line.
  explicit Session(CompileOptions options,
                   std::function<void(llvm::StringRef)> onDiagnostic = nullptr);

  mlir::MLIRContext &getContext() { return context; }
  const CompileOptions &getOptions() const { return options; }

  /// Empty, with a diagnostic, where the text is no IR of pyjit's.
  Trace parse(llvm::StringRef text);
  /// One trace of the parts of a call that was cut at a branch on a tensor's
  /// data (pass refgraph-merge-branches). `attributes` says of each part which
  /// one it is: a dictionary of the attributes that the pass reads. Empty, with
  /// a diagnostic, where that cannot be.
  Trace merge(llvm::ArrayRef<llvm::StringRef> parts,
              llvm::ArrayRef<llvm::StringRef> attributes);

  /// All stages. Consumes the trace's module. Null, with a diagnostic, where it
  /// does not compile.
  std::unique_ptr<Executable> compile(Trace &trace);

  /// The stages that `module` has before it still, from a trace, a tensor
  /// program on handles, a functional one or kernels: up to the LLVM dialect.
  llvm::LogicalResult lower(mlir::ModuleOp module);
  /// The executable of the function `name` (a `func.func` or a
  /// `cudagraph.program`) of a lowered module.
  std::unique_ptr<Executable> emit(mlir::ModuleOp module, llvm::StringRef name);

private:
  friend class Executable;
  using BuildPipeline = void (*)(mlir::OpPassManager &, const CompileOptions &);

  llvm::LogicalResult time(Stage stage,
                           llvm::function_ref<llvm::LogicalResult()> body);
  llvm::LogicalResult run(Stage stage, mlir::ModuleOp module,
                          BuildPipeline build);
  llvm::LogicalResult lowerKernels(mlir::ModuleOp module, bool onDevice);
  llvm::LogicalResult findAlignments(mlir::ModuleOp module);
  llvm::LogicalResult emitKernels(mlir::ModuleOp module, Executable &exe);
  llvm::LogicalResult encode(mlir::ModuleOp module, llvm::StringRef name,
                             Executable &exe);
  llvm::LogicalResult encodeProgram(mlir::ModuleOp module,
                                    llvm::StringRef symbol, Executable &exe,
                                    Executable::Program &program);
  std::string makeReport(llvm::StringRef trace, Report topic);
  void dump(llvm::StringRef stage, mlir::ModuleOp module);

  CompileOptions options;
  mlir::MLIRContext context;
  std::optional<mlir::ScopedDiagnosticHandler> handler;
  std::vector<StageTime> stages; ///< of the executable in the making
  std::string name;              ///< what dumps are named by
  /// For a simulated device: what a GPU's code of a kernel would rely on.
  std::map<std::string, llvm::SmallVector<uint32_t>, std::less<>> alignments;
};

} // namespace pyjit::compiler

#endif // PYJIT_COMPILER_SESSION_H
