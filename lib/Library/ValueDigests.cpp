//===- ValueDigests.cpp - Which computation a value is of -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ValueDigests.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/BLAKE3.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace pyjit::library;

/// So long that nobody comes across two computations of one digest: values are
/// taken for one another by it alone.
static constexpr size_t kDigestBytes = 16;

const ValueDigests::Digest &ValueDigests::of(Value value) {
  // Operands first, without recursion: a chain may be long.
  SmallVector<Value> todo{value};
  while (!todo.empty()) {
    Value next = todo.back();
    size_t size = todo.size();
    if (Operation *op = known.contains(next) ? nullptr : next.getDefiningOp())
      llvm::copy_if(op->getOperands(), std::back_inserter(todo),
                    [&](Value operand) { return !known.contains(operand); });
    if (todo.size() > size)
      continue;
    todo.pop_back();
    if (!known.contains(next)) {
      Digest digest = compute(next);
      known.try_emplace(next, std::move(digest));
    }
  }
  return known.find(value)->second;
}

/// Of a value whose operands' digests are known.
ValueDigests::Digest ValueDigests::compute(Value value) {
  Digest digest;
  std::string text;
  llvm::raw_string_ostream os(text);
  os << circumstances << '\n' << value.getType() << '\n';
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    digest.sources.push_back(argument.getArgNumber());
  } else {
    auto result = cast<OpResult>(value);
    Operation *op = result.getOwner();
    assert(op->getNumRegions() == 0 && "what regions do is not looked at");
    os << result.getResultNumber() << ' ' << op->getName() << ' '
       << op->getAttrDictionary() << '\n';
    for (Value operand : op->getOperands()) {
      const Digest &part = known.find(operand)->second;
      os << printDigest(part);
      for (unsigned source : part.sources) {
        auto *at = llvm::find(digest.sources, source);
        os << ' ' << at - digest.sources.begin();
        if (at == digest.sources.end())
          digest.sources.push_back(source);
      }
      os << '\n';
    }
  }
  auto hash =
      llvm::BLAKE3::hash<kDigestBytes>(llvm::arrayRefFromStringRef(text));
  digest.bytes.assign(reinterpret_cast<const char *>(hash.data()), hash.size());
  return digest;
}

std::string pyjit::library::printDigest(const ValueDigests::Digest &digest) {
  return llvm::toHex(digest.bytes, /*LowerCase=*/true);
}
