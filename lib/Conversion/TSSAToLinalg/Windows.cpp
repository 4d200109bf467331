//===- Windows.cpp - Pools over small windows -----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A pool of a small window is a chain over the window's places: each of them
// reads the operand along the windows' strides, so that neighbouring windows
// are the lanes of a vector. Where windows reach past the operand, a padded one
// is made first, by a kernel of its own.
//
// The chains go through a window in row-major order, as ATen does
// (aten/src/ATen/native/cpu/{MaxPoolKernel,AvgPoolKernel}.cpp): the first of
// several equal elements stands, and so does its sign of zero; of several that
// are no numbers the last one's place is told; sums round as eager's.
//
//===----------------------------------------------------------------------===//

#include "Structured.h"
#include "dialects/tssa/IR/Calls.h"
#include "dialects/tssa/IR/Views.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "pyjit/Operators/CallArguments.h"

using namespace mlir;

namespace pyjit {
namespace {

/// Larger windows are read by the library: a chain of them is long code, and
/// wants to be a loop.
constexpr int64_t kMaxPlaces = 32;

/// The windows that a pool slides along the last dimensions of its operand.
struct Windows {
  unsigned first = 0; ///< the dimension of the first of these
  SmallVector<int64_t> size, stride, padding, dilation;
  /// So many elements windows reach past the end of the operand.
  SmallVector<int64_t> behind;

  unsigned rank() const { return size.size(); }
  int64_t places() const {
    int64_t product = 1;
    for (int64_t extent : size)
      product *= extent;
    return product;
  }
  bool isPadded() const {
    auto isPositive = [](int64_t n) { return n > 0; };
    return llvm::any_of(padding, isPositive) ||
           llvm::any_of(behind, isPositive);
  }
  /// The position in a window of its place `number`, in row-major order.
  SmallVector<int64_t> position(int64_t number) const {
    SmallVector<int64_t> at(rank());
    for (unsigned d = rank(); d-- > 0; number /= size[d])
      at[d] = number % size[d];
    return at;
  }
};

/// The numbers at schema argument `argument`, one for each dimension of a
/// window: one may stand for all, and none for `byDefault`.
std::optional<SmallVector<int64_t>> numbersAt(StructuredCall &call,
                                              unsigned argument,
                                              ArrayRef<int64_t> byDefault) {
  std::optional<SmallVector<int64_t>> numbers = call.integers(argument);
  if (!numbers || numbers->size() == byDefault.size())
    return numbers;
  if (numbers->empty())
    return SmallVector<int64_t>(byDefault);
  if (numbers->size() == 1)
    return SmallVector<int64_t>(byDefault.size(), numbers->front());
  return std::nullopt;
}

/// The windows of a pool over `rank` dimensions, whose schema begins `self,
/// kernel_size, stride, padding`; std::nullopt, with a reason, where they are
/// not written as a chain.
std::optional<Windows> findWindows(StructuredCall &call, unsigned rank,
                                   bool dilates) {
  auto refuse = [&](StringRef why) {
    call.stays(why);
    return std::nullopt;
  };
  if (call.isOnDevice())
    return refuse("a device, whose library has not been measured beside it");
  auto self = cast<RankedTensorType>(call.op.getInputs()[0].getType());
  RankedTensorType result = call.result();
  if (!isa<FloatType>(self.getElementType()) || self.getRank() < rank ||
      result.getRank() != self.getRank())
    return refuse("an element type or rank that it does not cover");
  Windows windows;
  windows.first = self.getRank() - rank;
  SmallVector<int64_t> ones(rank, 1), zeros(rank, 0);
  auto size = numbersAt(call, 1, ones);
  auto stride = size ? numbersAt(call, 2, *size) : std::nullopt;
  auto padding = numbersAt(call, 3, zeros);
  auto dilation = dilates ? numbersAt(call, 4, ones) : ones;
  if (!size || !stride || !padding || !dilation)
    return refuse("windows that are no constants");
  windows.size = *size, windows.stride = *stride;
  windows.padding = *padding, windows.dilation = *dilation;
  auto isLess = [](int64_t least) {
    return [least](int64_t number) { return number < least; };
  };
  if (llvm::any_of(windows.size, isLess(1)) ||
      llvm::any_of(windows.stride, isLess(1)) ||
      llvm::any_of(windows.dilation, isLess(1)) ||
      llvm::any_of(windows.padding, isLess(0)))
    return refuse("windows that ATen refuses");
  if (llvm::any_of(windows.size, [](int64_t n) { return n > kMaxPlaces; }) ||
      windows.places() > kMaxPlaces)
    return refuse("a large window");
  for (unsigned d = 0; d < rank; ++d) {
    int64_t extent = self.getDimSize(windows.first + d);
    int64_t count = result.getDimSize(windows.first + d);
    if (ShapedType::isDynamic(extent) || ShapedType::isDynamic(count))
      return refuse("windows over a symbolic size");
    int64_t last = (count - 1) * windows.stride[d] +
                   (windows.size[d] - 1) * windows.dilation[d];
    windows.behind.push_back(last + 1 - extent - windows.padding[d]);
  }
  return windows;
}

/// `sizes`, laid out in the order in which `like` is.
RankedTensorType typeLike(RankedTensorType like, ArrayRef<tssa::Size> sizes) {
  SmallVector<tssa::Size> strides = tssa::getRowMajorStrides(sizes);
  if (like.getEncoding() && like.hasStaticShape()) {
    SmallVector<int64_t> given = tssa::getStrides(like);
    auto order = llvm::to_vector(llvm::seq<unsigned>(0, sizes.size()));
    llvm::stable_sort(
        order, [&](unsigned a, unsigned b) { return given[a] < given[b]; });
    tssa::Size next = 1;
    for (unsigned d : order) {
      strides[d] = next;
      next = next * sizes[d];
    }
  }
  return tssa::getSymbolicType(sizes, strides, like.getElementType());
}

/// The operand with `filler` around it.
Value pad(StructuredCall &call, Value operand, const Windows &windows,
          TypedAttr filler) {
  auto type = cast<RankedTensorType>(call.op.getInputs()[0].getType());
  SmallVector<tssa::Size> sizes = tssa::getSizes(type);
  SmallVector<int64_t> before(sizes.size(), 0), behind(sizes.size(), 0);
  for (unsigned w = 0; w < windows.rank(); ++w) {
    unsigned d = windows.first + w;
    before[d] = windows.padding[w];
    behind[d] = std::max<int64_t>(windows.behind[w], 0);
    sizes[d] = before[d] + type.getDimSize(d) + behind[d];
  }
  return padWith(call, operand, before, behind, filler, typeLike(type, sizes));
}

/// How the windows read their places from `operand`, which is padded.
SmallVector<AffineMap> placeMaps(OpBuilder &b, const Windows &windows,
                                 RankedTensorType operand,
                                 RankedTensorType result) {
  SmallVector<AffineMap> maps;
  unsigned rank = operand.getRank();
  for (int64_t number = 0; number < windows.places(); ++number) {
    SmallVector<AffineExpr> exprs;
    for (unsigned d = 0; d < windows.first; ++d)
      exprs.push_back(b.getAffineDimExpr(d));
    SmallVector<int64_t> at = windows.position(number);
    for (unsigned w = 0; w < windows.rank(); ++w) {
      unsigned d = windows.first + w;
      AffineExpr expr = b.getAffineDimExpr(d) * windows.stride[w] +
                        at[w] * windows.dilation[w];
      // A plain dim says that loop and operand have one extent.
      if (isa<AffineDimExpr>(expr) &&
          operand.getDimSize(d) != result.getDimSize(d))
        expr = expr % operand.getDimSize(d);
      exprs.push_back(expr);
    }
    maps.push_back(AffineMap::get(rank, 0, exprs, b.getContext()));
  }
  return maps;
}

/// Results of `windows` over the first operand, all made by `body` from the
/// elements at a window's places; `filler` is what is read past the operand.
Value overPlaces(
    StructuredCall &call, const Windows &windows, TypedAttr filler,
    RankedTensorType type,
    llvm::function_ref<Value(OpBuilder &, Location, ValueRange)> body) {
  Value operand = call.shown(call.op.getInputs()[0]);
  if (windows.isPadded())
    operand = pad(call, operand, windows, filler);
  SmallVector<AffineMap> maps = placeMaps(
      call.b, windows, cast<RankedTensorType>(operand.getType()), type);
  SmallVector<Value> inputs(maps.size(), operand);
  return makeMap(call.b, call.loc(), type, inputs, maps, body);
}

/// Whether `later` takes the place of `earlier`: where it is larger, or is no
/// number.
Value takes(OpBuilder &b, Location loc, Value later, Value earlier) {
  using Predicate = arith::CmpFPredicate;
  Value isNan = arith::CmpFOp::create(b, loc, Predicate::UNO, later, later);
  Value isLarger =
      arith::CmpFOp::create(b, loc, Predicate::OGT, later, earlier);
  return arith::OrIOp::create(b, loc, isLarger, isNan);
}

/// The largest element, or what is no number. In fewer steps than by `takes`:
/// a comparison and a choice by it are one instruction, and one comparison asks
/// two elements whether they are numbers.
Value largest(OpBuilder &b, Location loc, ValueRange elements) {
  using Predicate = arith::CmpFPredicate;
  Value chosen = elements[0], anyNan;
  for (Value element : elements.drop_front()) {
    Value isLarger =
        arith::CmpFOp::create(b, loc, Predicate::OGT, element, chosen);
    chosen = arith::SelectOp::create(b, loc, isLarger, element, chosen);
  }
  for (size_t i = 0; i < elements.size(); i += 2) {
    Value other = elements[std::min(i + 1, elements.size() - 1)];
    Value isNan =
        arith::CmpFOp::create(b, loc, Predicate::UNO, elements[i], other);
    anyNan =
        anyNan ? Value(arith::OrIOp::create(b, loc, anyNan, isNan)) : isNan;
  }
  auto type = cast<FloatType>(chosen.getType());
  Value nan = arith::ConstantOp::create(
      b, loc, b.getFloatAttr(type, APFloat::getNaN(type.getFloatSemantics())));
  return arith::SelectOp::create(b, loc, anyNan, nan, chosen);
}

/// Where the largest element stands in the operand: its number in row-major
/// order over the windows' dimensions, whose extents are `extents`.
Value placeOfLargest(OpBuilder &b, Location loc, ValueRange elements,
                     const Windows &windows, ArrayRef<int64_t> extents) {
  Type i32 = b.getI32Type();
  auto number = [&](int64_t value) -> Value {
    return arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(value));
  };
  // A window's first place, and the first that is no filler.
  Value begin, chosenPlace;
  for (unsigned w = 0; w < windows.rank(); ++w) {
    Value at = arith::IndexCastOp::create(
        b, loc, i32, linalg::IndexOp::create(b, loc, windows.first + w));
    at = arith::MulIOp::create(b, loc, at, number(windows.stride[w]));
    Value inside = at;
    if (windows.padding[w] > 0) {
      at = arith::SubIOp::create(b, loc, at, number(windows.padding[w]));
      inside = arith::MaxSIOp::create(b, loc, at, number(0));
    }
    auto behind = [&](Value sum, Value next) -> Value {
      if (!sum)
        return next;
      sum = arith::MulIOp::create(b, loc, sum, number(extents[w]));
      return arith::AddIOp::create(b, loc, sum, next);
    };
    begin = behind(begin, at);
    chosenPlace = behind(chosenPlace, inside);
  }
  Value chosen = elements[0];
  for (int64_t k = 1; k < windows.places(); ++k) {
    int64_t offset = 0;
    for (auto [w, at] : llvm::enumerate(windows.position(k)))
      offset = offset * extents[w] + at * windows.dilation[w];
    Value place = arith::AddIOp::create(b, loc, begin, number(offset));
    Value taken = takes(b, loc, elements[k], chosen);
    chosen = arith::SelectOp::create(b, loc, taken, elements[k], chosen);
    chosenPlace = arith::SelectOp::create(b, loc, taken, place, chosenPlace);
  }
  return arith::ExtSIOp::create(b, loc, b.getI64Type(), chosenPlace);
}

/// The extents of windows that lie side by side and cover the operand of the
/// pool whose gradient is asked for (the schema begins `grad_output, self,
/// kernel_size, stride, padding`, and goes on with `dilation` if it `dilates`).
std::optional<SmallVector<int64_t>> findTiles(StructuredCall &call,
                                              unsigned rank, bool dilates) {
  SmallVector<int64_t> ones(rank, 1), zeros(rank, 0);
  auto size = numbersAt(call, 2, ones);
  auto stride = size ? numbersAt(call, 3, *size) : std::nullopt;
  if (call.isOnDevice() || !stride || *stride != *size ||
      numbersAt(call, 4, zeros) != zeros ||
      (dilates && numbersAt(call, 5, ones) != ones))
    return std::nullopt;
  RankedTensorType type = call.result();
  auto gradient = cast<RankedTensorType>(call.op.getInputs()[0].getType());
  if (!isa<FloatType>(type.getElementType()) ||
      gradient.getElementType() != type.getElementType() ||
      gradient.getRank() != type.getRank() || type.getRank() < rank)
    return std::nullopt;
  for (unsigned w = 0, d = type.getRank() - rank; w < rank; ++w, ++d)
    if (type.isDynamicDim(d) || gradient.isDynamicDim(d) ||
        gradient.getDimSize(d) * (*size)[w] != type.getDimSize(d))
      return std::nullopt;
  return size;
}

/// From each element of a pool's operand to its window, one of `tiles`.
AffineMap tileMap(OpBuilder &b, unsigned rank, ArrayRef<int64_t> tiles) {
  unsigned first = rank - tiles.size();
  SmallVector<AffineExpr> exprs;
  for (unsigned d = 0; d < rank; ++d) {
    AffineExpr expr = b.getAffineDimExpr(d);
    exprs.push_back(d < first ? expr : expr.floorDiv(tiles[d - first]));
  }
  return AffineMap::get(rank, 0, exprs, b.getContext());
}

/// Whether `type` has its channels last: ATen makes it by a kernel of its own.
bool hasChannelsLast(RankedTensorType type, const Windows &windows) {
  return type.getEncoding() && windows.first > 0 && type.hasStaticShape() &&
         type.getDimSize(windows.first - 1) > 1 &&
         tssa::getStrides(type)[windows.first - 1] == 1;
}

/// What a sum over a window is divided by; std::nullopt where windows differ in
/// that.
std::optional<int64_t> findDivisor(StructuredCall &call,
                                   const Windows &windows) {
  if (windows.rank() > 1) {
    Attribute given = call.op.getArgs()[6];
    if (auto divisor = dyn_cast<IntegerAttr>(given))
      return divisor.getInt();
    if (given != operators::getNoneArgument(call.b.getContext()))
      return std::nullopt;
  }
  auto countsPadding = dyn_cast<BoolAttr>(call.op.getArgs()[5]);
  if (!countsPadding || (windows.isPadded() && !countsPadding.getValue()))
    return std::nullopt;
  for (unsigned w = 0; w < windows.rank(); ++w)
    if (windows.behind[w] > windows.padding[w])
      return std::nullopt;
  return windows.places();
}

} // namespace

SmallVector<Value> lowerMaxPool(StructuredCall &call, unsigned rank) {
  std::optional<Windows> windows = findWindows(call, rank, /*dilates=*/true);
  if (!windows)
    return {};
  auto self = cast<RankedTensorType>(call.op.getInputs()[0].getType());
  auto element = cast<FloatType>(self.getElementType());
  auto filler = FloatAttr::get(
      element, APFloat::getInf(element.getFloatSemantics(), /*Negative=*/true));
  ArrayRef<int64_t> extents = self.getShape().drop_front(windows->first);
  // Where nobody asks for places, the library tells them all the same.
  bool tellsPlaces = call.op.getNumResults() == 2;
  bool both = tellsPlaces && !call.op.getResult(1).use_empty();
  if (both) {
    int64_t elements = 1;
    for (int64_t extent : extents)
      elements *= extent;
    bool dilates =
        llvm::any_of(windows->dilation, [](int64_t d) { return d > 1; });
    if (elements > std::numeric_limits<int32_t>::max() ||
        (dilates && windows->isPadded()))
      return call.stays("places of padded and dilated windows, or far ones");
    // ATen tells another place there where all elements are -inf.
    if (rank == 3 && hasChannelsLast(self, *windows))
      return call.stays("places in volumes whose channels are last");
  }
  SmallVector<Value> results{
      overPlaces(call, *windows, filler, call.result(), largest)};
  if (both)
    results.push_back(
        overPlaces(call, *windows, filler, call.result(1),
                   [&](OpBuilder &b, Location loc, ValueRange elements) {
                     return placeOfLargest(b, loc, elements, *windows, extents);
                   }));
  return results;
}

/// Of windows that meet no others and leave nothing out, each element's
/// gradient is its window's where it was the largest.
SmallVector<Value> lowerMaxPoolBackward(StructuredCall &call, unsigned rank) {
  RankedTensorType type = call.result();
  auto windows = findTiles(call, rank, /*dilates=*/true);
  Value gradient = call.tensor(0), places = call.tensor(7);
  if (!windows || !gradient || !places)
    return call.stays("a device, or windows that meet or leave something out");
  OpBuilder &b = call.b;
  unsigned first = type.getRank() - rank;
  AffineMap map = tileMap(b, type.getRank(), *windows);
  auto body = [&](OpBuilder &in, Location at, ValueRange x) -> Value {
    AffineExpr place = in.getAffineConstantExpr(0);
    for (unsigned d = first; d < type.getRank(); ++d)
      place = place * type.getDimSize(d) + in.getAffineDimExpr(d);
    Value own = arith::IndexCastOp::create(in, at, in.getI64Type(),
                                           emitIndex(in, at, place));
    Value isOwn =
        arith::CmpIOp::create(in, at, arith::CmpIPredicate::eq, own, x[1]);
    Value zero = arith::ConstantOp::create(
        in, at, in.getFloatAttr(type.getElementType(), 0));
    // ATen adds it to a zero, which takes a negative one's sign.
    return arith::SelectOp::create(
        in, at, isOwn, arith::AddFOp::create(in, at, x[0], zero), zero);
  };
  return {makeMap(b, call.loc(), type,
                  {call.shown(gradient), call.shown(places)}, {map, map},
                  body)};
}

SmallVector<Value> lowerAvgPool(StructuredCall &call, unsigned rank) {
  std::optional<Windows> windows = findWindows(call, rank, /*dilates=*/false);
  if (!windows)
    return {};
  std::optional<int64_t> divisor = findDivisor(call, *windows);
  if (!divisor || *divisor == 0)
    return call.stays("windows that are divided by different numbers");
  auto self = cast<RankedTensorType>(call.op.getInputs()[0].getType());
  auto element = cast<FloatType>(self.getElementType());
  bool startsAtZero = !hasChannelsLast(call.result(), *windows);
  auto mean = [&](OpBuilder &b, Location loc, ValueRange elements) -> Value {
    FloatType sums = element.getWidth() < 32 ? b.getF32Type() : element;
    auto number = [&](FloatType type, double value) -> Value {
      return arith::ConstantOp::create(b, loc, b.getFloatAttr(type, value));
    };
    Value sum = number(sums, 0);
    for (Value x : elements) {
      if (sums != element)
        x = arith::ExtFOp::create(b, loc, sums, x);
      sum = arith::AddFOp::create(b, loc, sum, x);
    }
    Value quotient =
        arith::DivFOp::create(b, loc, sum, number(sums, double(*divisor)));
    if (sums != element)
      quotient = arith::TruncFOp::create(b, loc, element, quotient);
    // ATen adds it to a zero there, which takes a negative one's sign.
    if (startsAtZero)
      quotient = arith::AddFOp::create(b, loc, quotient, number(element, 0));
    return quotient;
  };
  return {overPlaces(call, *windows, FloatAttr::get(element, 0.0),
                     call.result(), mean)};
}

/// Of windows that meet no others and leave nothing out, each element's
/// gradient is a part of its window's.
SmallVector<Value> lowerAvgPoolBackward(StructuredCall &call, unsigned rank) {
  RankedTensorType type = call.result();
  auto windows = findTiles(call, rank, /*dilates=*/false);
  Value gradient = call.tensor(0);
  Attribute given = call.op.getArgs()[7];
  auto divisor = dyn_cast<IntegerAttr>(given);
  if (!windows || !gradient ||
      (!divisor && given != operators::getNoneArgument(call.b.getContext())))
    return call.stays("a device, or windows that meet or leave something out");
  int64_t parts = divisor ? divisor.getInt() : 1;
  if (!divisor)
    for (int64_t extent : *windows)
      parts *= extent;
  auto element = cast<FloatType>(type.getElementType());
  auto body = [&](OpBuilder &in, Location at, ValueRange x) -> Value {
    FloatType wide = element.getWidth() < 32 ? in.getF32Type() : element;
    auto number = [&](FloatType of, double value) -> Value {
      return arith::ConstantOp::create(in, at, in.getFloatAttr(of, value));
    };
    Value part = x[0];
    if (wide != element)
      part = arith::ExtFOp::create(in, at, wide, part);
    part = arith::DivFOp::create(in, at, part, number(wide, double(parts)));
    if (wide != element)
      part = arith::TruncFOp::create(in, at, element, part);
    // ATen adds it to a zero, which takes a negative one's sign.
    return arith::AddFOp::create(in, at, part, number(element, 0));
  };
  AffineMap map = tileMap(call.b, type.getRank(), *windows);
  return {
      makeMap(call.b, call.loc(), type, {call.shown(gradient)}, {map}, body)};
}

} // namespace pyjit
