//===- Converter.h - One function as a launch program -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_LIB_CONVERSION_TSSATOCUDAGRAPH_CONVERTER_H
#define PYJIT_LIB_CONVERSION_TSSATOCUDAGRAPH_CONVERTER_H

#include "dialects/cudagraph/IR/CudaGraph.h"
#include "dialects/tssa/IR/TSSA.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/MapVector.h"

namespace pyjit::conversion {

/// Gives each value of one function a buffer and each op its launches.
class LaunchConverter {
public:
  explicit LaunchConverter(mlir::func::FuncOp function)
      : function(function), builder(function) {}
  llvm::LogicalResult run();

private:
  // TSSAToCudaGraph.cpp: straight-line code.
  llvm::LogicalResult convert(mlir::Block &block);
  llvm::LogicalResult convert(mlir::Operation *op);
  llvm::LogicalResult convert(mlir::func::CallOp op);
  llvm::LogicalResult convert(tssa::AtenOp op);
  bool convertLinear(tssa::AtenOp op);
  llvm::LogicalResult convert(tssa::AccessOp op);
  llvm::LogicalResult convert(tssa::AssignOp op);
  llvm::FailureOr<mlir::Value> bufferToAssign(tssa::AssignOp op);
  llvm::FailureOr<mlir::Value> show(mlir::Operation *op, mlir::ArrayAttr path,
                                    mlir::ValueRange indices,
                                    mlir::RankedTensorType source,
                                    mlir::Value from,
                                    mlir::RankedTensorType type);
  llvm::LogicalResult describePrepare();
  void declareInputs();
  bool isReturned(mlir::Value value);
  mlir::Value makeBuffer(mlir::Value value);
  mlir::Value outputBuffer(mlir::Value value);
  void findUpdates();
  void copyUpdates();
  bool showsUpdated(mlir::Value buffer);

  // ControlToLaunches.cpp: loops and branches.
  llvm::LogicalResult convert(mlir::scf::WhileOp op);
  llvm::LogicalResult convert(mlir::scf::ForOp op);
  llvm::LogicalResult convert(mlir::scf::IfOp op);
  llvm::LogicalResult convert(mlir::tensor::FromElementsOp op);
  /// A number that is known while the program is made.
  std::optional<int64_t> numberOf(mlir::Value value);
  llvm::FailureOr<mlir::Value> flagOf(mlir::Operation *user, mlir::Value flag);
  /// A planned buffer that what happens in regions and around them shares.
  mlir::Value sharedBuffer(mlir::Location loc, mlir::Type type);
  llvm::LogicalResult copy(mlir::Location loc, mlir::Value source,
                           mlir::Value target);
  /// All at once, as far as anyone can see.
  llvm::LogicalResult copyTogether(mlir::Location loc,
                                   mlir::ArrayRef<mlir::Value> sources,
                                   mlir::ArrayRef<mlir::Value> targets);

  cudagraph::BufferType
  typeOf(mlir::Value value, cudagraph::Space space = cudagraph::Space::device) {
    return cudagraph::BufferType::get(
        mlir::cast<mlir::RankedTensorType>(value.getType()), space);
  }
  cudagraph::Space spaceOf(mlir::Value value) {
    return mlir::cast<cudagraph::BufferType>(buffers.lookup(value).getType())
        .getSpace();
  }

  mlir::func::FuncOp function;
  mlir::OpBuilder builder;
  cudagraph::ProgramOp program;
  mlir::IRMapping buffers;
  /// Where values of a region that is launched twice live both times.
  llvm::DenseMap<mlir::Value, mlir::Value> fixed;
  /// Counters of the loops that are being unrolled.
  llvm::DenseMap<mlir::Value, int64_t> counters;
  int64_t outputs = 0;
  /// Results that are new contents of inputs: the input's argument.
  llvm::MapVector<int64_t, int64_t> updates;
};

/// Takes copies away whose source could have been written where they go, or
/// whose target may stay where the source is.
void dropCopies(cudagraph::ProgramOp program);

} // namespace pyjit::conversion

#endif // PYJIT_LIB_CONVERSION_TSSATOCUDAGRAPH_CONVERTER_H
