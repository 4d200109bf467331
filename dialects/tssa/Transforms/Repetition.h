//===- Repetition.h - Equal iterations in straight-line code ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A block of functional tensor code as a sequence of operations, and the parts
// of it in which one window of operations comes several times in a row. Nothing
// is changed here: a repetition is data, which `tssa-reroll-loops` carries out.
//
// Views are no part of the sequence. An operand is read as the value that its
// views start from (its root) and the path that they follow, so that it makes
// no difference where a view stands, nor which of two equal ones is used.
//
//===----------------------------------------------------------------------===//

#ifndef PYJIT_DIALECTS_TSSA_TRANSFORMS_REPETITION_H
#define PYJIT_DIALECTS_TSSA_TRANSFORMS_REPETITION_H

#include "dialects/tssa/IR/TSSA.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/MapVector.h"

namespace pyjit::tssa {

/// An operand.
struct Reading {
  mlir::Value value, root;
  mlir::ArrayAttr path; ///< empty: the root itself
  /// Which item of the sequence makes the root, or -1, and as which result.
  int item = -1;
  unsigned result = 0;
};

/// One operation of the sequence.
struct Item {
  mlir::Operation *op;
  /// Equal for operations that differ in their operands' values only, and in
  /// the numbers of the path of an assignment.
  unsigned kind;
  /// Whether a kernel may hold it together with those that make its operands,
  /// and together with its users. (Matmuls: with users only.)
  bool joins, leads;
  mlir::ArrayAttr path; ///< of an assignment
  llvm::SmallVector<Reading, 3> reads;
};

class Sequence {
public:
  explicit Sequence(mlir::Block &block);

  mlir::Block &block;
  std::vector<Item> items;
  /// Operations without operands (constants, empty tensors): they may stand
  /// anywhere, and equal ones are one.
  llvm::SmallVector<mlir::Operation *> free;

  Reading read(mlir::Value value);
  /// Makes equal ones of `free` one, at the block's beginning.
  void gatherFree();

private:
  llvm::DenseMap<mlir::Operation *, int> itemOf;
  llvm::DenseMap<mlir::Value, mlir::Value> freeOf;
  mlir::ArrayAttr none;
};

/// The path of the same operand in each iteration: always the same, or with one
/// index that grows by a constant.
struct PathFamily {
  mlir::ArrayAttr base;
  int64_t first = 0; ///< the iteration of `base`
  int view = -1;     ///< which view of the path has the index
  int64_t slope = 0;
  bool settled = false;

  /// Takes in iteration `w`, or says that its path is another one.
  bool add(int64_t w, mlir::ArrayAttr path);
  /// Whether `path` is that of iteration `w`.
  bool fits(int64_t w, mlir::ArrayAttr path) const;
  bool isIndexed() const { return slope != 0; }
  /// The index in iteration `w`.
  int64_t indexAt(int64_t w) const;
};

/// What one operand is in all iterations.
struct Family {
  /// How many iterations ago the root was made, at which place of the window;
  /// -1: it comes from before the loop.
  int distance = -1;
  unsigned position = 0, result = 0;
  bool sameRoot = true, samePath = true;
  PathFamily path;
};

/// A value that later iterations read.
struct Chain {
  /// For how many iterations it is kept: what the first ones find, the value of
  /// iteration -1 first.
  llvm::SmallVector<Reading> inits;
};

/// Values of all iterations that are needed after the loop, as parts of one
/// tensor along `dim`, of which each takes so much.
struct Collection {
  mlir::RankedTensorType type;
  int64_t dim = 0;
  llvm::SmallVector<int64_t> lengths;
  /// The aten::cat or aten::stack of them whose result the tensor is; the
  /// iterations' are its operands from this one on. Or none: one more
  /// dimension.
  AtenOp join;
  bool isCat = false;
  unsigned firstOperand = 0;
  /// What the join takes of each value.
  mlir::ArrayAttr path;
};

struct Repetition {
  int start = 0, period = 0, trips = 0;
  std::vector<llvm::SmallVector<Family, 3>> families; ///< by position
  std::vector<PathFamily> paths;                      ///< of assignments
  /// By position and result.
  llvm::MapVector<std::pair<unsigned, unsigned>, Chain> chains;
  llvm::MapVector<std::pair<unsigned, unsigned>, Collection> collections;
  llvm::SmallVector<std::pair<unsigned, unsigned>> finals;
  /// Operations that become kernels of their own because it is a loop.
  unsigned split = 0;

  int end() const { return start + period * trips; }
  int saved() const { return period * (trips - 1); }
};

/// All repetitions that leave out `minSaved` operations or more, the largest
/// first. They may overlap.
std::vector<Repetition> findRepetitions(Sequence &sequence, int minSaved);

} // namespace pyjit::tssa

#endif // PYJIT_DIALECTS_TSSA_TRANSFORMS_REPETITION_H
