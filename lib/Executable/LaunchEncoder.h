//===- LaunchEncoder.h - A planned function as a launch program -*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_LIB_EXECUTABLE_LAUNCHENCODER_H
#define PYJIT_LIB_EXECUTABLE_LAUNCHENCODER_H

#include "ArenaPlan.h"
#include "BlobBuilder.h"
#include "ValueLifetimes.h"

#include "dialects/tssa/IR/TSSA.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/SetVector.h"

namespace pyjit::executable {

/// Encodes one function. Every value has a slot; values that are names of the
/// same memory (what a loop carries and what it returns) may have the same one.
class LaunchEncoder {
public:
  LaunchEncoder(mlir::func::FuncOp function,
                llvm::function_ref<KernelInfo(llvm::StringRef)> lookup,
                unsigned firstSaved)
      : function(function), lookup(lookup), firstSaved(firstSaved),
        lifetimes(function), blob(function.getNumResults()) {}

  llvm::FailureOr<LaunchProgram> run();

private:
  using Slots = llvm::SmallVector<uint32_t>;
  /// A number that the host computes from one that a slot holds.
  struct HostNumber {
    std::optional<uint32_t> slot; ///< none: the number is `add`
    int64_t multiply = 1, add = 0;
  };

  // LaunchEncoding.cpp: slots, and a function from its first step to the last.
  llvm::FailureOr<uint32_t> newSlot(mlir::Location loc, mlir::Type type,
                                    rt::SlotKind kind, uint64_t place = 0);
  /// A slot of memory that the encoder places, needed from `first` on.
  llvm::FailureOr<uint32_t> newBuffer(mlir::Location loc, mlir::Type type,
                                      int64_t first, int64_t last = -1);
  void bind(mlir::Value value, uint32_t slot);
  llvm::LogicalResult addSlot(mlir::Value value, rt::SlotKind kind,
                              uint64_t place = 0);
  llvm::LogicalResult encode(mlir::Block &block);
  llvm::LogicalResult encode(mlir::Operation *op);
  /// Puts new contents of inputs where they belong that no kernel left there,
  /// behind everything else.
  llvm::LogicalResult finishUpdates();
  /// Memory of its own for what the call returns: to ask for it behind a write
  /// might fail.
  llvm::LogicalResult ownResult(unsigned number, mlir::Value value);
  /// The buffer that the caller gets as result `number`: what the result is, or
  /// shows all of.
  std::optional<uint32_t> givenBuffer(unsigned number);
  bool showsWritten(uint32_t slot) const;
  /// Whether no name of the slot's memory is needed after `op`, or, with
  /// `before`, at it.
  bool isFree(uint32_t slot, mlir::Operation *op, bool before);
  void releaseAt(int64_t position);
  void placeBuffers();

  // LaunchSteps.cpp: the steps of straight-line code.
  llvm::LogicalResult encodeCall(tssa::AtenOp op);
  llvm::LogicalResult encodeCopy(tssa::AtenOp op, mlir::Value written,
                                 mlir::Value version);
  llvm::LogicalResult encodeKernel(mlir::func::CallOp op);
  llvm::LogicalResult encodeView(mlir::Operation *op, mlir::ArrayAttr path,
                                 mlir::ValueRange indices,
                                 mlir::RankedTensorType source, uint32_t from,
                                 uint32_t to);
  llvm::LogicalResult encodeAccess(tssa::AccessOp op);
  llvm::LogicalResult encodePick(tssa::PickOp op);
  llvm::LogicalResult encodeAssign(tssa::AssignOp op);
  /// Whether nobody reads what the value holds.
  static bool isEmpty(mlir::Value value);

  // EncodeParts.cpp: writes to parts of inputs, and what undoes them.
  void keepIndices();
  llvm::LogicalResult encodePart(tssa::AssignOp op);
  llvm::LogicalResult encodePart(tssa::AtenOp op);
  llvm::LogicalResult encodeSaved(tssa::AtenOp op);

  // SavedValues.cpp: what is left for the backward program.
  std::optional<uint32_t> savedRoot(uint32_t slot) const;
  uint64_t placeSaved();

  // LaunchControl.cpp: numbers of the host, loops and branches.
  llvm::LogicalResult encodeNumber(mlir::Operation *op);
  llvm::FailureOr<HostNumber> numberOf(mlir::Operation *user,
                                       mlir::Value value);
  llvm::FailureOr<uint32_t> flagOf(mlir::Operation *user, mlir::Value value);
  llvm::LogicalResult encodeWhile(mlir::scf::WhileOp op);
  llvm::LogicalResult encodeFor(mlir::scf::ForOp op);
  llvm::LogicalResult encodeIf(mlir::scf::IfOp op);
  llvm::LogicalResult enterLoop(mlir::Operation *op, mlir::ValueRange inits,
                                mlir::ValueRange arguments);
  llvm::LogicalResult nextIteration(mlir::Operation *yield);
  /// The loop-carried buffer in which a kernel may leave its result for the
  /// next iteration.
  std::optional<uint32_t> carriedBuffer(mlir::OpResult result);

  uint32_t step(rt::StepKind kind, uint32_t a = 0, uint32_t b = 0,
                uint32_t c = 0, uint16_t flags = 0) {
    blob.step(kind, a, b, c, flags);
    return blob.steps.size() - 1;
  }

  mlir::func::FuncOp function;
  llvm::function_ref<KernelInfo(llvm::StringRef)> lookup;
  /// Results from this one on are for the backward program alone.
  unsigned firstSaved;
  ValueLifetimes lifetimes;
  BlobBuilder blob;

  llvm::DenseMap<mlir::Value, uint32_t> slotOf;
  llvm::DenseMap<uint32_t, llvm::SmallVector<mlir::Value, 2>> valuesOf;
  /// By slot of a view or name: the slots whose memory it may show.
  llvm::DenseMap<uint32_t, llvm::SmallVector<uint32_t, 2>> rootsOf;
  /// Views that begin and end where their roots do.
  llvm::DenseSet<uint32_t> wholes;
  /// Buffers: when they are needed.
  llvm::MapVector<uint32_t, Lifetime> buffers;
  /// Buffers that count: nobody else writes them.
  llvm::DenseSet<uint32_t> counters;
  /// By loop: the buffers of its loop-carried values.
  llvm::DenseMap<mlir::Operation *, Slots> carried;
  /// Results that are new contents of inputs: the input's slot.
  llvm::MapVector<unsigned, uint32_t> updates;
  /// By position: slots whose tensors are dropped then.
  llvm::DenseMap<int64_t, Slots> releases;
  uint64_t arenaBytes = 0, savedBytes = 0;
  uint32_t numInputs = 0;
};

} // namespace pyjit::executable

#endif // PYJIT_LIB_EXECUTABLE_LAUNCHENCODER_H
