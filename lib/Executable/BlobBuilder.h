//===- BlobBuilder.h - Tables of a launch program in the making -*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_LIB_EXECUTABLE_BLOBBUILDER_H
#define PYJIT_LIB_EXECUTABLE_BLOBBUILDER_H

#include "pyjit-rt/Launch.h"
#include "pyjit/Analysis/SizeExpr.h"
#include "pyjit/Executable/LaunchEncoding.h"

#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"

namespace pyjit::executable {

/// What both encoders share: slots, steps, kernels, words, strings.
class BlobBuilder {
public:
  /// Reserves the output list, which comes first among the words.
  explicit BlobBuilder(unsigned numOutputs) { ints.resize(numOutputs); }

  /// A slot for values of `type`; fails, at `loc`, on what no slot can hold.
  llvm::FailureOr<uint32_t> addSlot(mlir::Location loc, mlir::Type type,
                                    rt::SlotKind kind, uint64_t place,
                                    uint8_t flags = 0);
  /// The kernel's number; `info` is asked for when it is new.
  uint32_t addKernel(llvm::StringRef name,
                     llvm::function_ref<KernelInfo(llvm::StringRef)> info);
  uint32_t string(llvm::StringRef text);
  uint32_t words(llvm::ArrayRef<int64_t> values);
  void step(rt::StepKind kind, uint32_t a, uint32_t b = 0, uint32_t c = 0,
            uint16_t flags = 0) {
    steps.push_back({kind, flags, a, b, c});
  }
  /// The words of a call's arguments; `slots` are those of its operands.
  llvm::FailureOr<uint32_t> addArguments(mlir::Operation *op,
                                         mlir::ArrayAttr args,
                                         llvm::ArrayRef<uint32_t> slots);
  /// A number of the program that an expression gives in each call.
  void patch(rt::PatchKind kind, int64_t index, mlir::AffineExpr value) {
    patches.push_back({kind, index, value});
  }
  /// Where `pyjit.symbols` says that symbols are read from.
  llvm::LogicalResult readSymbols(mlir::Operation *program);
  uint32_t numSymbols() const { return symbolSources.size() / 2; }
  /// The slot that shows kernels the values of the symbols.
  uint32_t symbolSlot();
  /// The slot that is the value of symbol `number`.
  uint32_t symbolValue(uint32_t number);
  /// The bytes of a slot's value.
  analysis::Size bytesOf(uint32_t slot) const {
    auto found = symbolicBytes.find(slot);
    return found == symbolicBytes.end() ? analysis::Size(slots[slot].bytes)
                                        : found->second;
  }
  /// Gives slots of kind Fresh a place in the block of saved values; its size.
  uint64_t placeSaved(llvm::ArrayRef<uint32_t> owners, int64_t alignment);
  /// All of it as bytes; the counts of `header` are filled in.
  LaunchProgram assemble(rt::Header header);

  std::vector<rt::Slot> slots;
  std::vector<rt::Step> steps;
  std::vector<int64_t> ints;

private:
  llvm::LogicalResult addArgument(mlir::Operation *op, mlir::Attribute arg,
                                  llvm::ArrayRef<uint32_t> &slots);

  struct Patch {
    rt::PatchKind kind;
    int64_t index;
    mlir::AffineExpr value;
  };
  /// The words of an expression; their index.
  uint32_t expression(mlir::AffineExpr value);

  std::vector<Patch> patches;
  std::vector<int64_t> symbolSources;
  mlir::MLIRContext *context = nullptr; ///< set with them
  /// Where the symbols' values lie among the words.
  uint64_t symbolWords();

  std::optional<uint32_t> wordsSlot;
  std::optional<uint64_t> symbolsAt;
  llvm::DenseMap<uint32_t, uint32_t> valueSlots;
  llvm::DenseMap<uint32_t, analysis::Size> symbolicBytes;
  std::vector<rt::Kernel> kernels;
  std::vector<std::string> kernelNames;
  std::string chars;
  llvm::StringMap<uint32_t> strings;
  llvm::StringMap<uint32_t> kernelIndex;
};

} // namespace pyjit::executable

#endif // PYJIT_LIB_EXECUTABLE_BLOBBUILDER_H
