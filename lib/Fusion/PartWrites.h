//===- PartWrites.h - What replaces a part of a value -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A part write makes a value of another one by replacing a part: `tssa.assign`,
// and vendor calls such as `index_copy_`. Where nobody looks at the old value
// behind it, both lie in the same memory and only the part is touched.
//
//===----------------------------------------------------------------------===//

#ifndef PYJIT_LIB_FUSION_PARTWRITES_H
#define PYJIT_LIB_FUSION_PARTWRITES_H

#include "Order.h"

#include "mlir/IR/Value.h"
#include "llvm/ADT/SetVector.h"

namespace pyjit::fusion {

struct PartWrite {
  mlir::Operation *op = nullptr;
  mlir::Value target; ///< the value of which a part is replaced
  mlir::Value result;
};

/// `op` as a part write. A vendor call is one if the operator table says how
/// the part is saved and put back (PartWrite), and its indices can be.
std::optional<PartWrite> getPartWrite(mlir::Operation *op);

/// The part writes, first to last, that make `contents` of `input`, all in the
/// input's block. Nothing where anything else does, or nothing at all.
std::optional<llvm::SmallVector<PartWrite>>
findPartWrites(mlir::Value contents, mlir::BlockArgument input);

/// Who looks at the memory of a value.
struct Readers {
  /// Operations of the value's block, its terminator among them.
  llvm::SetVector<mlir::Operation *> ops;
  /// A region hands the value on.
  bool escapes = false;
};

/// Who looks at `value`, through views or not, besides `write`, which puts
/// something else in its place and itself takes it by that name. A write that
/// looks at it under another name is its own reader, but for an assignment,
/// whose source is read before.
Readers findReaders(mlir::Value value, mlir::Operation *write);

/// For the part writes of a block that are marked (`pyjit.part`): whoever looks
/// at the old value, and the write, in front of which it has to stand.
llvm::SmallVector<Edge> findReadsBefore(mlir::Block &block);

} // namespace pyjit::fusion

#endif // PYJIT_LIB_FUSION_PARTWRITES_H
