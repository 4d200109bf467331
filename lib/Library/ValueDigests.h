//===- ValueDigests.h - Which computation a value is of ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_LIBRARY_VALUEDIGESTS_H
#define PYJIT_LIBRARY_VALUEDIGESTS_H

#include "mlir/IR/Operation.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include <string>

namespace pyjit::library {

/// Tells values of different programs apart by what computes them. Values of
/// the same digest are the same function of their sources, given in order:
/// operations, attributes, types and how they are connected are all part of it;
/// which arguments the sources are is not.
class ValueDigests {
public:
  struct Digest {
    std::string bytes;
    /// Arguments of the block that the value depends on, each once, in the
    /// order in which the computation comes to them.
    llvm::SmallVector<unsigned, 2> sources;
  };

  /// `circumstances`: what values depend on besides.
  explicit ValueDigests(mlir::Attribute circumstances)
      : circumstances(circumstances) {}

  /// Of a result of an operation without regions, whose operands are such
  /// results and arguments of one block. Valid until the next call.
  const Digest &of(mlir::Value value);

private:
  Digest compute(mlir::Value value);

  mlir::Attribute circumstances;
  llvm::DenseMap<mlir::Value, Digest> known;
};

/// In hexadecimal digits.
std::string printDigest(const ValueDigests::Digest &digest);

} // namespace pyjit::library

#endif // PYJIT_LIBRARY_VALUEDIGESTS_H
