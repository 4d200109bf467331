//===- ProgramPools.h - what flat programs refer to -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The pools of include/pyjit-c/Programs.h, while they grow. Equal entries are
// stored once.
//
//===----------------------------------------------------------------------===//

#ifndef PYJIT_EXECUTABLE_PROGRAMPOOLS_H
#define PYJIT_EXECUTABLE_PROGRAMPOOLS_H

#include "dialects/refgraph/IR/RefGraph.h"
#include "pyjit-c/Programs.h"
#include "llvm/ADT/DenseMap.h"
#include <vector>

namespace pyjit::executable {

class ProgramPools {
public:
  /// `value` is a Python value (dialects/refgraph/IR/PythonValues.h).
  uint32_t addConstant(mlir::Attribute value);
  /// Metadata without flags; fails, with an error at `op`, for an element type
  /// or device that PyTorch does not have.
  llvm::FailureOr<PyjitTensorMeta> makeTensor(mlir::Operation *op,
                                              refgraph::TensorType type);
  uint32_t addTensor(const PyjitTensorMeta &meta);
  llvm::FailureOr<uint32_t> addState(refgraph::StateOp op);
  /// Where `registers` begin in the lists.
  uint32_t addList(llvm::ArrayRef<uint32_t> registers);

  uint32_t addInts(llvm::ArrayRef<int64_t> numbers);

  PyjitPools view() const;

private:
  std::vector<PyjitConstant> constants;
  std::vector<PyjitTensorMeta> tensors;
  std::vector<PyjitState> states;
  std::vector<int64_t> ints;
  std::vector<uint32_t> lists;
  std::vector<char> bytes;
  llvm::DenseMap<mlir::Attribute, uint32_t> constantIndex;
  llvm::DenseMap<mlir::Type, uint32_t> dimsIndex;
};

/// c10::ScalarType's number, or nothing.
std::optional<int8_t> getScalarType(mlir::Type elementType);

} // namespace pyjit::executable

#endif // PYJIT_EXECUTABLE_PROGRAMPOOLS_H
