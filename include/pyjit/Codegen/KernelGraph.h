// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===- KernelGraph.h - What a kernel computes, element by element -*- C++ -*-=//
//
// A kernel's linalg operations, seen from its results: every value is asked for
// at a point of one iteration domain, and every use is resolved to the point of
// its operand. What remains are loads at affine offsets, scalar expressions,
// reductions and stores: the form that a schedule arranges into loops.
//
// The domain has parallel dimensions and, where the kernel reduces, reduction
// dimensions shared by all its reductions. A set of linalg operations that
// cannot be seen this way is no kernel, and the reason is reported: the fusion
// plan asks the same question before it puts operations together.
//
//===----------------------------------------------------------------------===//

#ifndef PYJIT_CODEGEN_KERNELGRAPH_H
#define PYJIT_CODEGEN_KERNELGRAPH_H

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "pyjit/Codegen/IndexMath.h"
#include "llvm/ADT/SmallBitVector.h"
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace pyjit::codegen {

/// A dimension of the domain. Where its size differs between calls, `size` is
/// `kDynamic` and `extent` says it.
struct Dim {
  int64_t size;
  bool reduction;
  mlir::AffineExpr extent;

  static Dim of(const analysis::Size &size, bool reduction);
  bool isSymbolic() const { return static_cast<bool>(extent); }
  analysis::Size getSize() const {
    return extent ? analysis::Size(extent) : analysis::Size(size);
  }
  /// For costs and orders, never for correctness.
  int64_t estimate() const {
    return extent ? analysis::estimateSize(extent) : size;
  }
  bool isMultipleOf(int64_t number) const;
  void print(llvm::raw_ostream &os) const;
};

/// One value at one (symbolic) point of the domain.
struct Node {
  enum class Kind {
    Load,     ///< element `offset` of buffer `buffer`
    Constant, ///< `constant`
    Compute,  ///< body value `element` of `op`, inputs by block argument
    Reduce    ///< `combiner` over inputs[0] along all reduction dims, with init
  };
  Kind kind;
  mlir::Type type;

  unsigned buffer = 0;
  mlir::AffineExpr offset;

  mlir::TypedAttr constant;

  mlir::linalg::GenericOp op;
  mlir::Value element;
  /// Per block argument of `op`; null where `element` does not need it.
  llvm::SmallVector<Node *, 4> inputs;
  /// The point in op's own iteration space.
  llvm::SmallVector<mlir::AffineExpr, 4> loops;

  mlir::Operation *combiner = nullptr;
  Node *init = nullptr;

  /// Domain dimensions that the value depends on.
  llvm::SmallBitVector dims;
  /// The stage loop in which a value that depends on reduction dimensions can
  /// first be computed; a Reduce is known after the loop of its input's stage.
  unsigned stage = 0;
  /// Scalar operations to compute it again, transcendental ones weighted.
  unsigned cost = 0;
};

struct Store {
  Node *node;
  unsigned buffer;
  mlir::AffineExpr offset;
  llvm::SmallBitVector dims; ///< of node and offset
  /// Operands where it may lie (Overlap.h): they are loaded before it is
  /// stored.
  llvm::SmallVector<unsigned, 1> overlaps = {};
};

struct KernelGraph {
  /// Sees `roots` as functions of `inputs`. Buffers are numbered inputs first.
  /// Returns null and sets `reason` if that is not possible.
  static std::unique_ptr<KernelGraph> build(llvm::ArrayRef<mlir::Value> inputs,
                                            llvm::ArrayRef<mlir::Value> roots,
                                            std::string &reason);

  llvm::SmallVector<Dim> dims;
  /// In dependence order: inputs before users.
  std::vector<std::unique_ptr<Node>> nodes;
  llvm::SmallVector<Store> stores;
  unsigned numStages = 1;

  llvm::SmallVector<int64_t> sizes() const;
  bool hasReduction() const;
  /// Whether a size, a stride or a number of it differs between calls.
  bool usesSymbols() const;
  /// Applies `rewrite` to every index expression, and recomputes what depends
  /// on them. The dims must be replaced by the caller first.
  void rewriteIndices(
      llvm::function_ref<mlir::AffineExpr(mlir::AffineExpr)> rewrite);
  /// Every index expression that matters for addresses, with its buffer or ~0u.
  void forEachIndex(
      llvm::function_ref<void(mlir::AffineExpr, unsigned buffer, bool store)>
          visit) const;
  /// Recomputes dims, stage and cost of every node and store.
  void update();
  /// Where a row has no elements, a reduction is its init and nothing is read:
  /// what is the same for all of a row is computed in front of its loop, and so
  /// would read an empty buffer.
  void dropEmptyRows();
  void print(llvm::raw_ostream &os) const;
};

/// A sum of products of two loaded factors of one float type.
struct Contraction {
  Node *left, *right;
};
/// `reduce` as a sum of products whose operands are reused: each factor is a
/// load that lacks a parallel dim that the other one has. Matmuls and
/// convolutions look so.
std::optional<Contraction> asContraction(const Node *reduce);

/// Whether the elements of a load lie side by side along `dim`.
bool liesAlong(const Node *load, unsigned dim);

/// What a reduction begins with, of its node's type: combining it with a value
/// gives that value. `negativeZero`: a floating-point sum begins with -0.0.
mlir::TypedAttr identityOf(const Node *reduce, bool negativeZero);

/// Whether `op` inside a generic's body can be computed on lanes.
bool isSupportedBodyOp(mlir::Operation *op);

} // namespace pyjit::codegen

#endif
