//===- SumMatmuls.cpp - Sums of matmuls as one matmul ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Contract: values equal up to rounding.
//
//===----------------------------------------------------------------------===//

#include "dialects/pyjit/IR/Attributes.h"
#include "pyjit/Library/Passes.h"

#include "Calls.h"

#include "dialects/tssa/IR/Views.h"
#include "pyjit/Operators/CallArguments.h"
#include "pyjit/Operators/OperatorNames.h"

#include "llvm/ADT/MapVector.h"

namespace pyjit::library {
#define GEN_PASS_DEF_SUMMATMULSPASS
#include "lib/Library/Passes.h.inc"
} // namespace pyjit::library

using namespace mlir;
using namespace pyjit;
using namespace pyjit::library;

namespace {

/// The call that makes `value`, if it adds two tensors of its type.
tssa::AtenOp matchAdd(Value value) {
  tssa::AtenOp add = tssa::matchCall(value, operators::aten::add_Tensor);
  if (!add || add->hasAttr(attribute::kVendorCall) ||
      !typeOf(value).hasStaticShape() ||
      !isa<FloatType>(typeOf(value).getElementType()))
    return nullptr;
  Value a = tensorArgument(add, 0), b = tensorArgument(add, 1);
  bool same = a && b && a.getType() == value.getType() &&
              b.getType() == value.getType();
  return same && numberArgument(add, 2) == 1.0 ? add : nullptr;
}

/// What a tree of additions adds up; nobody else reads the sums within it.
struct Sum {
  tssa::AtenOp root;
  SmallVector<Value> terms;
};

SmallVector<Sum> collectSums(Block &block) {
  SmallVector<Sum> sums;
  llvm::SmallPtrSet<Operation *, 16> inner;
  for (Operation &op : llvm::reverse(block)) {
    if (op.getNumResults() != 1 || inner.contains(&op))
      continue;
    tssa::AtenOp root = matchAdd(op.getResult(0));
    if (!root)
      continue;
    Sum sum{root, {}};
    SmallVector<tssa::AtenOp> pending{root};
    while (!pending.empty()) {
      tssa::AtenOp add = pending.pop_back_val();
      inner.insert(add);
      for (Value operand : {tensorArgument(add, 0), tensorArgument(add, 1)}) {
        tssa::AtenOp next = operand.hasOneUse() ? matchAdd(operand) : nullptr;
        if (next && next->getBlock() == &block)
          pending.push_back(next);
        else
          sum.terms.push_back(operand);
      }
    }
    sums.push_back(std::move(sum));
  }
  return sums;
}

/// Of a matrix of floats.
int64_t bytesOf(Value matrix) {
  auto type = typeOf(matrix);
  return type.getNumElements() * (type.getElementTypeBitWidth() / 8);
}

/// One factor of a matmul, as it lies in memory.
struct Factor {
  Value matrix; // null: none that can be joined
  bool isTransposed;

  explicit Factor(Value value)
      : matrix(transposedBy(value)), isTransposed(bool(matrix)) {
    if (!matrix && !typeOf(value).getEncoding())
      matrix = value;
    if (matrix && !typeOf(matrix).hasStaticShape())
      matrix = nullptr;
  }
};

/// Factors that lie alike, side by side along the loop of the sum: the `dim` of
/// what the matmul reads.
Value join(CallBuilder &calls, ArrayRef<Factor> factors, int64_t dim) {
  bool isTransposed = factors.front().isTransposed;
  int64_t along = isTransposed ? 1 - dim : dim;
  auto matrices =
      llvm::map_to_vector(factors, [](const Factor &f) { return f.matrix; });
  Value joined = calls.concatenate(matrices, along);
  return isTransposed ? calls.permute(joined, {1, 0}) : joined;
}

struct Product {
  Value result;
  Factor left, right;

  int64_t bytes() const { return bytesOf(left.matrix) + bytesOf(right.matrix); }
};

std::optional<Product> matchProduct(Value value) {
  tssa::AtenOp op = tssa::matchCall(value, operators::aten::mm);
  if (!op || !value.hasOneUse() || op->hasAttr(attribute::kVendorCall) ||
      typeOf(value).getEncoding())
    return std::nullopt;
  Product product{value, Factor(tensorArgument(op, 0)),
                  Factor(tensorArgument(op, 1))};
  if (!product.left.matrix || !product.right.matrix)
    return std::nullopt;
  return product;
}

/// The matrix whose rows `value` is the sum of, or null.
Value matchRowSum(Value value) {
  auto access = value.getDefiningOp<tssa::AccessOp>();
  if (!access || !value.hasOneUse() || access.getPath().size() != 1)
    return nullptr;
  auto view = cast<tssa::ViewAttr>(access.getPath()[0]);
  if (view.getKind() != tssa::ViewKind::squeeze)
    return nullptr;
  tssa::AtenOp sum =
      tssa::matchCall(access.getSource(), operators::aten::sum_dim_IntList);
  Value matrix = sum ? tensorArgument(sum, 0) : nullptr;
  if (!matrix || !sum->hasOneUse() || typeOf(matrix).getRank() != 2 ||
      typeOf(matrix).getEncoding() || !typeOf(matrix).hasStaticShape())
    return nullptr;
  Builder builder(value.getContext());
  bool overRows =
      constantArgument(sum, 1) == builder.getI64ArrayAttr({0}) &&
      constantArgument(sum, 2) == builder.getBoolAttr(true) &&
      typeOf(matrix).getElementType() == typeOf(value).getElementType();
  return overRows ? matrix : nullptr;
}

struct SumMatmuls : pyjit::library::impl::SumMatmulsPassBase<SumMatmuls> {
  using SumMatmulsPassBase::SumMatmulsPassBase;

  /// Joining reads and writes the factors once more; it saves a result's way
  /// to memory and back, and a launch.
  bool pays(ArrayRef<Product> products) {
    int64_t result = bytesOf(products.front().result);
    int64_t total = 0, largest = 0;
    for (const Product &product : products) {
      total += product.bytes();
      largest = std::max(largest, product.bytes());
    }
    return total <= maxBytes && (largest <= fewBytes || largest <= result);
  }

  /// The sum of what `joined` is of some of the terms, and of the others.
  static void replace(Sum &sum, Value joined,
                      const llvm::SmallPtrSetImpl<void *> &taken,
                      CallBuilder &calls) {
    Value total = joined;
    for (Value term : sum.terms)
      if (!taken.contains(term.getAsOpaquePointer()))
        total = calls.call(operators::aten::add_Tensor,
                           {total, term, calls.integer(1)}, total.getType());
    sum.root.getResult(0).replaceAllUsesWith(total);
  }

  bool joinProducts(Sum &sum) {
    llvm::MapVector<std::tuple<int, int, Type>, SmallVector<Product>> alike;
    for (Value term : sum.terms)
      if (std::optional<Product> product = matchProduct(term))
        alike[{product->left.isTransposed, product->right.isTransposed,
               typeOf(product->left.matrix).getElementType()}]
            .push_back(*product);
    for (auto &[key, products] : alike) {
      if (products.size() < 2 || !pays(products))
        continue;
      // As the program has them: joins of the same parts are one.
      llvm::sort(products, [](const Product &a, const Product &b) {
        return a.result.getDefiningOp()->isBeforeInBlock(
            b.result.getDefiningOp());
      });
      OpBuilder builder(sum.root);
      SmallVector<Location> locations;
      SmallVector<Factor> left, right;
      llvm::SmallPtrSet<void *, 16> taken;
      for (const Product &product : products) {
        locations.push_back(product.result.getLoc());
        left.push_back(product.left);
        right.push_back(product.right);
        taken.insert(product.result.getAsOpaquePointer());
      }
      CallBuilder calls(builder, FusedLoc::get(&getContext(), locations));
      Value joined = calls.call(operators::aten::mm,
                                {join(calls, left, 1), join(calls, right, 0)},
                                sum.root.getResult(0).getType());
      replace(sum, joined, taken, calls);
      ++numJoined;
      return true;
    }
    return false;
  }

  /// Gradients of a bias: sums over the rows of what is joined anyway.
  bool joinRowSums(Sum &sum) {
    SmallVector<std::pair<Operation *, Value>> found;
    for (Value term : sum.terms)
      if (Value matrix = matchRowSum(term))
        found.emplace_back(term.getDefiningOp(), matrix);
    if (found.size() < 2)
      return false;
    llvm::sort(found, [](const auto &a, const auto &b) {
      return a.first->isBeforeInBlock(b.first);
    });
    SmallVector<Value> matrices;
    SmallVector<Location> locations;
    llvm::SmallPtrSet<void *, 16> taken;
    for (auto [op, matrix] : found) {
      matrices.push_back(matrix);
      locations.push_back(op->getLoc());
      taken.insert(op->getResult(0).getAsOpaquePointer());
    }
    bool isJoined =
        llvm::any_of(matrices.front().getUsers(), [&](Operation *user) {
          return user->getNumResults() == 1 &&
                 tssa::matchCall(user->getResult(0), operators::aten::cat) &&
                 llvm::equal(user->getOperands(), matrices);
        });
    if (!isJoined)
      return false;
    OpBuilder builder(sum.root);
    CallBuilder calls(builder, FusedLoc::get(&getContext(), locations));
    auto type = typeOf(sum.root.getResult(0));
    Value whole = calls.concatenate(matrices, 0);
    Value total = calls.call(
        operators::aten::sum_dim_IntList,
        {whole, calls.integers({0}), calls.boolean(false), calls.none()}, type);
    replace(sum, total, taken, calls);
    return true;
  }

  void runOnOperation() override {
    getOperation().walk([&](Block *block) {
      SmallVector<Sum> sums = collectSums(*block);
      bool changed = false;
      for (Sum &sum : sums)
        changed |= joinProducts(sum);
      if (!changed)
        return;
      for (Sum &sum : sums)
        if (!sum.root.getResult(0).use_empty())
          joinRowSums(sum);
      tssa::eraseUnused(*block);
    });
  }
};

} // namespace
