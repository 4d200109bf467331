//===- Converter.h - One graph on its way to tssa ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_LIB_CONVERSION_REFGRAPHTOTSSA_CONVERTER_H
#define PYJIT_LIB_CONVERSION_REFGRAPHTOTSSA_CONVERTER_H

#include "dialects/refgraph/IR/RefGraph.h"
#include "dialects/tssa/IR/TSSA.h"
#include "pyjit/Operators/CallArguments.h"
#include "pyjit/Operators/OperatorInfo.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/DenseMap.h"

namespace pyjit::conversion {

/// What a tensor of this type holds.
mlir::RankedTensorType contentsOf(refgraph::TensorType type);
mlir::RankedTensorType contentsOf(mlir::Type type);

/// Converts one graph.
class Converter {
public:
  /// `accelerator`: the device whose tensors a launch program is for; empty for
  /// any but the CPU.
  Converter(refgraph::GraphOp graph, llvm::StringRef accelerator)
      : graph(graph), builder(graph.getContext()), accelerator(accelerator) {}
  mlir::LogicalResult run();

private:
  mlir::MLIRContext *context() { return builder.getContext(); }
  mlir::LogicalResult findDevice();
  void placeCall(refgraph::TensorOp op, tssa::AtenOp call);
  /// All but the terminator.
  mlir::LogicalResult convert(mlir::Block &block);
  mlir::LogicalResult convert(refgraph::TensorOp op);
  // ControlToSCF.cpp.
  mlir::LogicalResult convert(refgraph::WhileOp op);
  mlir::LogicalResult convert(refgraph::IfOp op);
  mlir::LogicalResult convert(refgraph::DecideOp op);
  mlir::LogicalResult convert(refgraph::SpeculateOp op);
  mlir::Value makeFlag(mlir::Location loc, mlir::Value contents, bool outcome);
  mlir::LogicalResult convertView(refgraph::TensorOp op);
  mlir::LogicalResult convertRetyped(refgraph::TensorOp op);
  mlir::LogicalResult convertInPlace(refgraph::TensorOp op,
                                     const operators::OperatorInfo &info);
  void convertCall(refgraph::TensorOp op);
  mlir::FailureOr<mlir::ArrayAttr>
  findPath(refgraph::TensorOp op, mlir::Value source, unsigned result);
  bool functionalFormFits(refgraph::TensorOp op,
                          const operators::OperatorInfo &info);
  bool endsGradients(refgraph::TensorOp op);
  mlir::Attribute detached();
  mlir::Value detachIf(refgraph::TensorOp op, mlir::Value contents);

  mlir::Value load(mlir::Location loc, mlir::Value recorded) {
    mlir::Value handle = handles.lookup(recorded);
    auto type = mlir::cast<tssa::RefType>(handle.getType()).getTensor();
    return tssa::LoadOp::create(builder, loc, type, handle);
  }
  /// A new tensor with these contents, standing for `recorded`.
  void define(mlir::Value recorded, mlir::Value contents) {
    auto type = tssa::RefType::get(
        context(), mlir::cast<mlir::RankedTensorType>(contents.getType()));
    handles[recorded] =
        tssa::RefOp::create(builder, contents.getLoc(), type, contents);
  }

  refgraph::GraphOp graph;
  mlir::OpBuilder builder;
  llvm::StringRef accelerator;
  /// The one device of the program that is not the CPU, or empty.
  llvm::StringRef device;
  llvm::DenseMap<mlir::Value, mlir::Value> handles;
  /// Storage offset, in elements, of handles whose storage begins at a tensor
  /// made here; what is viewed of an input has none that is known.
  llvm::DenseMap<mlir::Value, int64_t> offsets;
};

} // namespace pyjit::conversion

#endif // PYJIT_LIB_CONVERSION_REFGRAPHTOTSSA_CONVERTER_H
