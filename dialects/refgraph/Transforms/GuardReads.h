//===- GuardReads.h - what a trace read, each source once -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The first half of refgraph-generate-guards: the reads of a trace, with equal
// ones merged, told apart by how their results may change.
//
// Source: holder, selector, key. Pinned: known by identity. Stable: reached
// from a pinned object through sources whose changes a watcher reports, or that
// cannot change; a stable object is the same one until a watcher fires.
//
//===----------------------------------------------------------------------===//

#ifndef PYJIT_DIALECTS_REFGRAPH_TRANSFORMS_GUARDREADS_H
#define PYJIT_DIALECTS_REFGRAPH_TRANSFORMS_GUARDREADS_H

#include "dialects/refgraph/Transforms/SpecializationPlan.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SetVector.h"
#include <memory>

namespace pyjit::refgraph {

/// An object that the guards look at: a pinned one, or what a source holds.
struct GuardRead {
  mlir::Location loc;
  mlir::Type type;
  // Pinned: `object`, else a source; `holder` is null for arguments.
  mlir::IntegerAttr object = {};
  mlir::StringAttr hint = {};
  GuardRead *holder = nullptr;
  SelectorAttr selector = {};
  mlir::Attribute key = {};
  mlir::StringAttr label = {};
  // What must be found.
  mlir::IntegerAttr exactType = {};
  mlir::Attribute equals = {};
  mlir::IntegerAttr identity = {};
  mlir::BoolAttr requiresGrad = {};
  mlir::IntegerAttr keyset = {};
  mlir::IntegerAttr offset = {};

  /// A number that is lifted: looked at in each call.
  bool lift = false;
  bool stable = false;
  /// Hangs from an argument.
  bool fromArgument = false;

  bool isTensor() const { return llvm::isa<TensorType>(type); }
  /// Autocast's cast of a weight: reading it makes it, where there is none yet.
  bool isKeptCast() const {
    return selector && selector.getValue() == Selector::kept_cast;
  }
  bool hasTypeName(llvm::StringRef name) const;
  /// An object of its builtin type keeps that type.
  bool hasStaticType() const;
  /// Every change of its entries is reported, moves of an OrderedDict's
  /// entries apart.
  bool isWatchedDict() const;
  bool hasChecks() const { return exactType || equals || identity; }
  /// A read that always finds something: it matters only where it is used.
  bool cannotFail() const;
};

/// A condition on reads: the op says which.
struct GuardCondition {
  mlir::Operation *op;
  GuardRead *lhs = nullptr;
  GuardRead *rhs = nullptr;
  // The source of `absent`.
  SelectorAttr selector = {};
  mlir::Attribute key = {};
};

class GuardReads {
public:
  /// Fails, with an error at the op, if two reads contradict each other or hang
  /// from something that the call made.
  static llvm::FailureOr<GuardReads> collect(TraceOp trace,
                                             const SpecializationPlan &plan);

  /// In the order of the trace: a holder stands before what it holds.
  std::vector<std::unique_ptr<GuardRead>> reads;
  std::vector<GuardCondition> conditions;

  /// The read that stands for an external value of the trace.
  GuardRead *lookup(mlir::Value value) const { return readOf.lookup(value); }
  /// Likewise, any of its versions; the pinned object where it is known.
  GuardRead *lookupHolder(mlir::Value value) const;
  /// Whether a watcher on the holder (or the holder's own nature) vouches for
  /// what a stable holder's source holds.
  static bool isWatchable(const GuardRead &holder, Selector selector,
                          mlir::Attribute key);

private:
  GuardRead *add(GuardRead read);
  GuardRead *getPinned(mlir::IntegerAttr index, mlir::Type type,
                       mlir::Location loc);
  /// `attr(k)` for the entry k of an instance's `__dict__`, however it was
  /// read.
  void normalise(GuardRead *&holder, SelectorAttr &selector,
                 mlir::Attribute key) const;
  llvm::LogicalResult visit(GetOp get);
  llvm::LogicalResult merge(GetOp get, GuardRead &into, const GuardRead &from);
  llvm::LogicalResult visitCondition(mlir::Operation *op);
  void dropImplied();

  const SpecializationPlan *plan = nullptr;
  using Source = std::tuple<GuardRead *, int, mlir::Attribute>;
  llvm::DenseMap<mlir::Value, GuardRead *> readOf;
  llvm::DenseMap<int64_t, GuardRead *> pinned;
  llvm::DenseMap<Source, GuardRead *> sources;
};

/// Names of builtin types whose instances never change their type.
bool isStaticTypeName(llvm::StringRef name);

} // namespace pyjit::refgraph

#endif // PYJIT_DIALECTS_REFGRAPH_TRANSFORMS_GUARDREADS_H
