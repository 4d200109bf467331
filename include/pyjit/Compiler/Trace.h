//===- Trace.h - What Python did in one call --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_COMPILER_TRACE_H
#define PYJIT_COMPILER_TRACE_H

#include "dialects/refgraph/IR/RefGraph.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/Support/ThreadPool.h"

#include <memory>
#include <optional>
#include <string>

namespace pyjit::compiler {

/// Where IR lives: every dialect of pyjit's, types, attributes, locations.
/// Several threads may use one context, each on modules of its own.
class Context {
public:
  Context();
  mlir::MLIRContext &get() { return context; }

private:
  /// Runs what it is given at once, in the same thread: the context is safe on
  /// several threads and starts none, which a fork would lose.
  class Inline : public llvm::ThreadPoolInterface {
    void asyncEnqueue(llvm::unique_function<void()> task,
                      llvm::ThreadPoolTaskGroup *) override {
      task();
    }
    void wait() override {}
    void wait(llvm::ThreadPoolTaskGroup &) override {}
    unsigned getMaxConcurrency() const override { return 1; }
  };
  Inline threads;
  mlir::MLIRContext context;
};

/// What Python did in one call, or in a segment of one: a module with one
/// `refgraph.trace`.
struct Trace {
  std::shared_ptr<Context> context; ///< outlives the module
  mlir::OwningOpRef<mlir::ModuleOp> module;

  /// An empty one, and one that holds a copy.
  static Trace create(std::shared_ptr<Context> context, llvm::StringRef name);
  Trace clone() const;

  explicit operator bool() const { return static_cast<bool>(module); }
  /// Null where the module has none.
  refgraph::TraceOp getOp() const;
  /// The specialization's, which its functions have, too.
  llvm::StringRef getName() const;
  /// With locations, so that it can be parsed again.
  std::string print() const;
  /// In MLIR's bytecode, which `Session::parse` reads as well as text.
  std::string serialize() const;

  /// The same operations on the same objects; locations may differ. Traces of
  /// two contexts are not equal.
  bool equals(const Trace &other) const;
  /// The number of the CUDA device that its tensors are on, if they are on one.
  std::optional<unsigned> getCudaDevice() const;
  /// Whether sizes of tensors that it reads are to differ between calls.
  bool liftsSizes() const;
  /// Whether an operator takes a size that is a number of the trace.
  bool computesSizes() const;
  /// Whether it goes on through branches on tensors' data.
  bool decides() const;
  /// Of a trace that ends at a graph break, with a tuple of values for each
  /// frame: whether value `index` of the innermost frame hangs from operators
  /// that no call should carry out twice. True where there is no such value.
  bool isCostly(size_t index) const;
};

/// A segment of a call with a graph break at a branch on a tensor's data.
struct Segment {
  enum class Kind {
    Prefix, ///< up to the branch
    True,   ///< what follows where the condition is true
    False,
    Rest ///< what follows once that has returned
  };
  const Trace &trace;
  Kind kind = Kind::Prefix;
  /// Of the prefix: which value of the innermost frame is the condition, and
  /// the entry of the object table that is torch.Tensor, or -1.
  int64_t condition = 0, tensorClass = -1;
  /// Of the others: which values of the frame that they go on from are their
  /// arguments (-1: what the frame above returned), and for each entry of their
  /// object table the one of the merged table.
  llvm::ArrayRef<int64_t> takes, objects;
  /// Whether it ends with a graph break, and not with its function.
  bool endsAtGraphBreak = false;
  /// The grad mode that it leaves behind, if it set it.
  std::optional<bool> leavesGradMode;
};

} // namespace pyjit::compiler

#endif // PYJIT_COMPILER_TRACE_H
