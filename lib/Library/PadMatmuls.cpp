//===- PadMatmuls.cpp - Matmuls of sizes that tensor cores take -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Contract: values equal up to rounding. What is added is zeros: along a dim
// that is summed over they change no sum, along another one they make rows or
// columns that nobody reads.
//
//===----------------------------------------------------------------------===//

#include "dialects/pyjit/IR/Attributes.h"
#include "pyjit/Library/Passes.h"
#include "pyjit/Operators/OperatorNames.h"

#include "Calls.h"
#include "Parts.h"

#include "dialects/tssa/IR/Views.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/Support/MathExtras.h"

namespace pyjit::library {
#define GEN_PASS_DEF_PADMATMULSPASS
#include "lib/Library/Passes.h.inc"
} // namespace pyjit::library

using namespace mlir;
using namespace pyjit;
using namespace pyjit::library;

namespace {

/// Sixteen bytes of half precision: what cuBLAS wants rows to be aligned to.
constexpr int64_t kAligned = 8;
/// Fewer multiplications take no longer than to pad their operands.
constexpr int64_t kLarge = int64_t(1) << 30;
/// As many rows make a matmul of it, which does not just stream the weight.
constexpr int64_t kManyRows = 64;

int64_t padded(int64_t size) { return llvm::alignTo(size, kAligned); }

/// rows x depth times depth x columns.
struct Sizes {
  int64_t rows, depth, columns;
  bool isOdd() const {
    return rows % kAligned || depth % kAligned || columns % kAligned;
  }
};

bool isHalfMatrix(Value value) {
  RankedTensorType type = typeOf(value);
  return type.hasStaticShape() && type.getNumElements() != 0 &&
         (type.getElementType().isBF16() || type.getElementType().isF16());
}

/// A parameter that lasts is read where it is: to pad it would keep it twice.
bool isKept(Value value) {
  while (auto access = value.getDefiningOp<tssa::AccessOp>())
    value = access.getSource();
  auto arg = dyn_cast<BlockArgument>(value);
  return arg && isLastingParameter(arg);
}

/// What was padded along which dim, in a block.
using Known = llvm::MapVector<std::tuple<Value, int64_t, Block *>, Value>;

class Padder {
public:
  Padder(tssa::AtenOp op, Known &known)
      : op(op), known(known), builder(op), calls(builder, op.getLoc()) {}

  bool padLinear();
  bool padMatmul();

private:
  Value transposed(Value value);
  Value pad(Value value, int64_t dim);
  bool replace(ArrayRef<Argument> arguments, ArrayRef<int64_t> dims);

  tssa::AtenOp op;
  Known &known;
  OpBuilder builder;
  CallBuilder calls;
};

/// What a transposed matrix is the transpose of, or null.
Value Padder::transposed(Value value) {
  auto access = value.getDefiningOp<tssa::AccessOp>();
  if (!access || typeOf(value).getRank() != 2 || !access.getIndices().empty())
    return nullptr;
  ArrayRef<Attribute> path = access.getPath().getValue();
  if (path.back() !=
      tssa::ViewAttr::get(op.getContext(), tssa::ViewKind::permute, {1, 0}))
    return nullptr;
  auto before = builder.getArrayAttr(path.drop_back());
  RankedTensorType type = tssa::inferPathType(
      before, typeOf(access.getSource()), [&] { return op->emitError(); });
  if (type == typeOf(access.getSource()) &&
      tssa::getPathMap(before, type).isIdentity())
    return access.getSource();
  // The other matmul reads it without the transpose.
  for (Operation *user : access.getSource().getUsers())
    if (auto other = dyn_cast<tssa::AccessOp>(user);
        other && other.getPath() == before &&
        other->getBlock() == op->getBlock() && other->isBeforeInBlock(op))
      return other;
  return tssa::AccessOp::create(builder, op.getLoc(), type, access.getSource(),
                                before, ValueRange());
}

/// `value` with zeros behind its last element along `dim`; a transposed one is
/// padded before it is transposed, so that its transpose may be, too.
Value Padder::pad(Value value, int64_t dim) {
  RankedTensorType type = typeOf(value);
  int64_t size = type.getDimSize(dim);
  if (size == padded(size))
    return value;
  if (Value source = transposed(value))
    return calls.permute(pad(source, 1 - dim), {1, 0});
  Value &made = known[{value, dim, op->getBlock()}];
  if (made)
    return made;
  SmallVector<int64_t> shape(type.getShape());
  shape[dim] = padded(size);
  auto larger = RankedTensorType::get(shape, type.getElementType());
  // In front of whoever else reads it.
  OpBuilder::InsertionGuard guard(builder);
  if (Operation *maker = value.getDefiningOp();
      maker && maker->getBlock() == op->getBlock())
    builder.setInsertionPointAfter(maker);
  Value zero = arith::ConstantOp::create(
      builder, op.getLoc(), builder.getZeroAttr(type.getElementType()));
  Value zeros =
      linalg::FillOp::create(builder, op.getLoc(), zero,
                             tssa::makeEmpty(builder, op.getLoc(), larger))
          .getResult(0);
  auto path = builder.getArrayAttr(tssa::ViewAttr::get(
      op.getContext(), tssa::ViewKind::slice, {dim, 0, size, 1}));
  return made = tssa::AssignOp::create(builder, op.getLoc(), larger, zeros,
                                       value, path, ValueRange());
}

/// Calls the operator on padded operands, which makes its result larger along
/// `dims`; the result is a part of that.
bool Padder::replace(ArrayRef<Argument> arguments, ArrayRef<int64_t> dims) {
  RankedTensorType type = typeOf(op.getResult(0));
  SmallVector<int64_t> shape(type.getShape());
  SmallVector<Attribute> slices;
  for (int64_t dim : dims)
    if (shape[dim] != padded(shape[dim])) {
      slices.push_back(tssa::ViewAttr::get(
          op.getContext(), tssa::ViewKind::slice, {dim, 0, shape[dim], 1}));
      shape[dim] = padded(shape[dim]);
    }
  auto larger = RankedTensorType::get(shape, type.getElementType());
  Value whole = calls.call(op.getOverload(), arguments, larger);
  if (!slices.empty())
    whole = tssa::AccessOp::create(builder, op.getLoc(),
                                   op.getResult(0).getType(), whole,
                                   builder.getArrayAttr(slices), ValueRange());
  op.getResult(0).replaceAllUsesWith(whole);
  op->erase();
  return true;
}

/// The type of the first `type.getDimSize(dim)` places of a larger result.
RankedTensorType partOf(RankedTensorType type, ArrayRef<int64_t> dims) {
  SmallVector<int64_t> strides(type.getRank(), 1);
  for (int64_t d = type.getRank() - 1; d > 0; --d) {
    int64_t size = type.getDimSize(d);
    strides[d - 1] =
        strides[d] * (llvm::is_contained(dims, d) ? padded(size) : size);
  }
  return tssa::getTensorType(type.getShape(), strides, type.getElementType());
}

bool isLarge(const Sizes &s) {
  return s.isOdd() && s.rows >= kManyRows && s.columns >= kManyRows &&
         s.depth >= kManyRows &&
         double(s.rows) * double(s.columns) * double(s.depth) >= double(kLarge);
}

bool Padder::padLinear() {
  Value input = tensorArgument(op, 0), weight = tensorArgument(op, 1),
        bias = tensorArgument(op, 2);
  if (!input || !weight || !isHalfMatrix(input) || !isHalfMatrix(weight) ||
      typeOf(weight).getRank() != 2 || isKept(weight) ||
      typeOf(op.getResult(0)).getEncoding())
    return false;
  RankedTensorType type = typeOf(op.getResult(0));
  int64_t last = type.getRank() - 1;
  int64_t depth = typeOf(weight).getDimSize(1);
  Sizes sizes{typeOf(input).getNumElements() / depth, depth,
              typeOf(weight).getDimSize(0)};
  Retyping changes;
  // Rows are as long as they are: they lie behind each other already.
  if (depth % kAligned || sizes.columns % kAligned == 0 || !isLarge(sizes) ||
      !canLieElsewhere(op.getResult(0), partOf(type, {last}), changes))
    return false;
  retype(changes);
  return replace(
      {input, pad(weight, 0), calls.optional(bias ? pad(bias, 0) : Value())},
      {last});
}

bool Padder::padMatmul() {
  Value a = tensorArgument(op, 0), b = tensorArgument(op, 1);
  if (!a || !b || !isHalfMatrix(a) || !isHalfMatrix(b) || isKept(a) ||
      isKept(b) || typeOf(op.getResult(0)).getEncoding())
    return false;
  Sizes sizes{typeOf(a).getDimSize(0), typeOf(a).getDimSize(1),
              typeOf(b).getDimSize(1)};
  Retyping changes;
  if (!isLarge(sizes) ||
      !canLieElsewhere(op.getResult(0), partOf(typeOf(op.getResult(0)), {1}),
                       changes))
    return false;
  retype(changes);
  return replace({pad(pad(a, 0), 1), pad(pad(b, 0), 1)}, {0, 1});
}

/// Who else reads what was padded reads a part of that: one kernel then writes
/// the padded value, and none the value itself.
void readPadded(Value value, tssa::AssignOp padded) {
  if (!value.getDefiningOp<tssa::AtenOp>() || value.hasOneUse())
    return;
  OpBuilder builder(padded->getContext());
  builder.setInsertionPointAfter(padded);
  auto part = tssa::AccessOp::create(builder, padded.getLoc(), typeOf(value),
                                     padded.getResult(), padded.getPath(),
                                     ValueRange());
  value.replaceAllUsesExcept(part, padded);
  RankedTensorType type =
      tssa::inferPathType(padded.getPath(), typeOf(padded.getResult()),
                          [&] { return padded.emitError(); });
  Retyping changes;
  if (type && canLieElsewhere(part, type, changes))
    return retype(changes);
  part.getResult().replaceAllUsesWith(value);
  part.erase();
}

struct PadMatmuls : pyjit::library::impl::PadMatmulsPassBase<PadMatmuls> {
  using PadMatmulsPassBase::PadMatmulsPassBase;

  void runOnOperation() override {
    SmallVector<tssa::AtenOp> matmuls;
    getOperation().walk([&](tssa::AtenOp op) {
      if (!op->hasAttr(attribute::kVendorCall) &&
          (op.getOverload() == operators::aten::linear ||
           op.getOverload() == operators::aten::mm))
        matmuls.push_back(op);
    });
    Known known;
    for (tssa::AtenOp op : matmuls) {
      Padder padder(op, known);
      numPadded += op.getOverload() == operators::aten::mm ? padder.padMatmul()
                                                           : padder.padLinear();
    }
    for (auto &[place, padded] : known)
      readPadded(std::get<Value>(place),
                 padded.getDefiningOp<tssa::AssignOp>());
  }
};

} // namespace
