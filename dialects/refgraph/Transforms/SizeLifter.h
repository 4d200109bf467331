//===- SizeLifter.h - Solving for sizes of one trace ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The state of refgraph-lift-sizes. A symbol is given to every lifted size and
// to every number that stands in a size's place. Going through the trace, rules
// ask the solver (pyjit/Analysis/SizeSolver.h) for facts; when it has replaced
// a symbol, the trace is gone through again.
//
// LiftSizes.cpp goes through the trace, SizeSources.cpp has what symbols come
// from, SizeLayouts.cpp strides, SizeWriter.cpp the trace as it is left.
//
//===----------------------------------------------------------------------===//

#ifndef PYJIT_DIALECTS_REFGRAPH_TRANSFORMS_SIZELIFTER_H
#define PYJIT_DIALECTS_REFGRAPH_TRANSFORMS_SIZELIFTER_H

#include "dialects/refgraph/Transforms/SizeRules.h"
#include "mlir/IR/Builders.h"
#include "pyjit/Analysis/SizeSolver.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"

namespace pyjit::refgraph {

/// Operators that the recorder keeps whole for their sizes' sake.
bool isWholeView(TensorOp call);
/// What a number was in the recorded run.
std::optional<int64_t> recordedValue(mlir::Value number);

class SizeLifter : public SizeFacts {
public:
  SizeLifter(TraceOp trace, bool specializeAll)
      : trace(trace), builder(trace.getContext()),
        solver([this] { return describeReason(); }),
        specializeEverything(specializeAll) {}

  void run();
  /// One line for each size that keeps its value.
  llvm::SmallVector<std::string> explainSpecialized() const;
  unsigned numLifted = 0, numKept = 0;

  int64_t evaluate(const SizePolynomial &size) const override {
    return solver.evaluate(size);
  }
  bool requireEqual(const SizePolynomial &a, const SizePolynomial &b) override {
    return solver.requireEqual(a, b);
  }
  bool requireNotNegative(const SizePolynomial &size) override {
    return solver.requireNotNegative(size);
  }
  bool requireDifferent(const SizePolynomial &a,
                        const SizePolynomial &b) override {
    return solver.requireDifferent(a, b);
  }
  std::optional<SizePolynomial> floorDivide(const SizePolynomial &size,
                                            int64_t by) override {
    return solver.floorDivide(size, by);
  }
  bool requireRecorded(const SizePolynomial &size) override {
    return solver.requireRecorded(size);
  }
  const SymbolicShape &shapeOf(mlir::Value tensor) override {
    return shapes[tensor];
  }
  SizePolynomial sizeOf(mlir::Value number) override;

private:
  /// Where a symbol comes from. A quotient has no value.
  struct Source {
    enum Kind : unsigned { Quotient, Number, Size, Stride };
    Kind kind = Quotient;
    mlir::Value value; ///< a number, or a tensor that was read
    unsigned dim = 0;  ///< of the tensor

    bool ofTensor() const { return kind == Size || kind == Stride; }
    std::tuple<mlir::Value, unsigned, unsigned> key() const {
      return {value, kind, dim};
    }
  };

  void visit(mlir::Operation &op);
  void visit(GetOp get);
  void visit(TensorOp call);
  void visit(ArithOp arith);
  bool followsSizes(mlir::Value number);
  void visitLayout(LayoutOp op);
  bool staysContiguous(const SymbolicShape &shape);
  /// Whether refgraph-lift makes a constant of a number.
  bool keepsValue(mlir::Value number) const;

  SizePolynomial getSymbol(Source source, int64_t value);
  std::string describeReason() const;
  void specialize(const SymbolicShape &shape);
  void specializeOperands(TensorOp call);
  void noteMemory(TensorOp call);
  mlir::Value memoryOf(mlir::Value tensor) const {
    mlir::Value known = memory.lookup(tensor);
    return known ? known : tensor;
  }
  void joinReads();
  void keepApart(TensorOp call);
  bool areApart(const SymbolicShape &a, const SymbolicShape &b);
  SymbolicShape constantShape(TensorType type) const;
  bool order(SymbolicShape &shape, TensorType recorded, bool dense,
             GetOp read = {});
  bool settle(SymbolicShape &shape, TensorType recorded);
  bool lookAtStrides(const SymbolicShape &shape);

  // The end.
  void write();
  void writeSources();
  void writeTypes();
  void writeNumbers();
  void writeCalls();
  void writeStart(TensorOp call);
  void writeWholeViews();
  void writeConditions();
  mlir::Attribute fold(mlir::Attribute arg, mlir::OperandRange operands,
                       unsigned &next,
                       llvm::SmallVectorImpl<mlir::Value> &kept);
  void findShown();
  void findShifts();
  mlir::Value numberOf(const SizePolynomial &size);
  mlir::Value numberOf(unsigned symbol);
  mlir::Value constant(int64_t value);
  mlir::Value arith(llvm::StringRef function, mlir::Value a, mlir::Value b,
                    int64_t value);
  void compare(llvm::StringRef function, const SizePolynomial &a,
               const SizePolynomial &b, bool outcome);
  SizePolynomial shifted(SizePolynomial size) const;
  SizePolynomial renumber(SizePolynomial size) const;
  TensorType typeOf(const SymbolicShape &shape, TensorType recorded) const;

  TraceOp trace;
  mlir::OpBuilder builder;
  analysis::SizeSolver solver;
  bool specializeEverything;

  llvm::DenseMap<std::tuple<mlir::Value, unsigned, unsigned>, unsigned> symbols;
  llvm::DenseMap<unsigned, Source> sources; ///< of symbols but quotients

  // Of one way through the trace.
  mlir::Operation *at = nullptr; ///< where it is
  std::string why;               ///< more than that two sizes have to be equal
  llvm::DenseMap<mlir::Value, SymbolicShape> shapes;
  /// Of views and new versions, the tensor that they show.
  llvm::DenseMap<mlir::Value, mlir::Value> memory;
  llvm::DenseMap<mlir::Value, SizePolynomial> numbers;
  llvm::DenseSet<mlir::Value> kept; ///< made of numbers that keep their value

  // While writing.
  llvm::DenseSet<unsigned> shown; ///< quotients in types and arguments
  llvm::DenseMap<unsigned, unsigned> finalNumber;
  llvm::DenseMap<unsigned, int64_t> shifts; ///< what a symbol is less by
  llvm::DenseMap<unsigned, mlir::Value> sourceNumber;
};

} // namespace pyjit::refgraph

#endif // PYJIT_DIALECTS_REFGRAPH_TRANSFORMS_SIZELIFTER_H
