//===- AtenViews.cpp - ATen's view operators as view paths ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "AtenViews.h"

#include "dialects/tssa/IR/TSSA.h"
#include "dialects/tssa/IR/Views.h"
#include "pyjit/Operators/CallArguments.h"
#include "pyjit/Operators/OperatorFacts.h"

using namespace mlir;
using namespace pyjit;
using namespace pyjit::conversion;
using analysis::Size;
using tssa::ViewKind;

namespace {

/// One view operator call, with PyTorch's conventions for its arguments.
struct Call {
  ArrayAttr args;
  ArrayRef<Size> source; ///< sizes
  ArrayRef<Size> shown;  ///< sizes
  unsigned result;

  int64_t rank() const { return source.size(); }
  std::optional<int64_t> integer(unsigned i) const {
    if (i < args.size())
      if (auto value = dyn_cast<IntegerAttr>(args[i]))
        return value.getInt();
    return std::nullopt;
  }
  /// An int, or one that differs between calls.
  static std::optional<Size> asSize(Attribute arg) {
    if (auto value = dyn_cast<IntegerAttr>(arg))
      return Size(value.getInt());
    if (AffineExpr size = operators::getSizeArgument(arg))
      return Size(size);
    return std::nullopt;
  }
  std::optional<Size> size(unsigned i) const {
    return i < args.size() ? asSize(args[i]) : std::nullopt;
  }
  SmallVector<Size> sizes(unsigned i) const {
    SmallVector<Size> values;
    if (i < args.size())
      if (auto list = dyn_cast<ArrayAttr>(args[i]))
        for (Attribute element : list)
          if (auto value = asSize(element))
            values.push_back(*value);
    return values;
  }
  SmallVector<int64_t> integers(unsigned i) const {
    SmallVector<int64_t> values;
    for (const Size &value : sizes(i))
      if (value.isConstant())
        values.push_back(value.constant());
    return values;
  }
  /// A dimension that counts from the end if negative.
  int64_t dim(unsigned i, int64_t otherwise = 0) const {
    return wrap(integer(i).value_or(otherwise), rank());
  }
  static int64_t wrap(int64_t dim, int64_t rank) {
    return dim < 0 ? dim + rank : dim;
  }
  /// A position in a dimension, from its end if negative. Where that depends on
  /// the call, refgraph-lift-sizes has counted from the front.
  static Size wrap(const Size &at, const Size &size) {
    return at.isConstant() && at.constant() < 0 ? at + size : at;
  }
};

struct Step {
  ViewKind kind;
  SmallVector<Size> numbers;
};
using Steps = SmallVector<Step, 2>;
using Rule = std::optional<Steps> (*)(const Call &);

Steps one(ViewKind kind, SmallVector<Size> numbers) {
  Steps steps;
  steps.push_back({kind, std::move(numbers)});
  return steps;
}

Steps one(ViewKind kind, ArrayRef<int64_t> numbers) {
  return one(kind, SmallVector<Size>(numbers.begin(), numbers.end()));
}

std::optional<Steps> swapped(const Call &call, int64_t a, int64_t b) {
  if (call.rank() < 2)
    return one(ViewKind::alias, ArrayRef<int64_t>());
  auto order = llvm::to_vector(llvm::seq<int64_t>(0, call.rank()));
  if (a < 0 || b < 0 || a >= call.rank() || b >= call.rank())
    return std::nullopt;
  std::swap(order[a], order[b]);
  return one(ViewKind::permute, order);
}

std::optional<Steps> sliced(int64_t dim, const Size &start, const Size &length,
                            int64_t step = 1) {
  return one(ViewKind::slice, SmallVector<Size>{dim, start, length, step});
}

std::optional<Steps> alias(const Call &) {
  return one(ViewKind::alias, ArrayRef<int64_t>());
}

std::optional<Steps> reshaped(const Call &call) {
  return one(ViewKind::view, SmallVector<Size>(call.shown));
}

std::optional<Steps> expanded(const Call &call) {
  return one(ViewKind::expand, SmallVector<Size>(call.shown));
}

std::optional<Steps> select(const Call &call) {
  int64_t dim = call.dim(1);
  if (dim < 0 || dim >= call.rank())
    return std::nullopt;
  Size index = call.size(2).value_or(0);
  return one(ViewKind::select,
             SmallVector<Size>{dim, Call::wrap(index, call.source[dim])});
}

/// slice(self, dim, start, end, step): bounds wrap and are clamped.
std::optional<Steps> slice(const Call &call) {
  int64_t dim = call.dim(1), step = call.integer(4).value_or(1);
  if (dim < 0 || dim >= call.rank())
    return std::nullopt;
  const Size &size = call.source[dim];
  Size start = Call::wrap(call.size(2).value_or(0), size);
  if (start.isConstant() && size.isConstant())
    start = std::clamp<int64_t>(start.constant(), 0, size.constant());
  return sliced(dim, start, call.shown[dim], step);
}

std::optional<Steps> split(const Call &call) {
  int64_t dim = call.dim(2);
  Size size = call.size(1).value_or(0);
  return sliced(dim, size * Size(call.result), call.shown[dim]);
}

std::optional<Steps> splitWithSizes(const Call &call) {
  int64_t dim = call.dim(2);
  Size start = 0;
  SmallVector<Size> sizes = call.sizes(1);
  for (unsigned i = 0; i < call.result && i < sizes.size(); ++i)
    start += sizes[i];
  return sliced(dim, start, call.shown[dim]);
}

std::optional<Steps> permute(const Call &call) {
  SmallVector<int64_t> order = call.integers(1);
  for (int64_t &dim : order)
    dim = Call::wrap(dim, call.rank());
  return one(ViewKind::permute, order);
}

std::optional<Steps> squeeze(const Call &call) {
  SmallVector<int64_t> dims;
  if (call.args.size() == 1)
    dims = llvm::to_vector(llvm::seq<int64_t>(0, call.rank()));
  else if (auto dim = call.integer(1))
    dims.push_back(*dim);
  else
    dims = call.integers(1);
  SmallVector<int64_t> gone;
  for (int64_t dim : dims)
    if (dim = Call::wrap(dim, call.rank());
        dim >= 0 && dim < call.rank() && call.source[dim].is(1))
      gone.push_back(dim);
  llvm::sort(gone);
  return one(gone.empty() ? ViewKind::alias : ViewKind::squeeze, gone);
}

std::optional<Steps> unsqueeze(const Call &call) {
  return one(ViewKind::unsqueeze,
             ArrayRef<int64_t>{
                 Call::wrap(call.integer(1).value_or(0), call.rank() + 1)});
}

std::optional<Steps> diagonal(const Call &call) {
  return one(ViewKind::diagonal,
             ArrayRef<int64_t>{call.integer(1).value_or(0), call.dim(2, 0),
                               call.dim(3, 1)});
}

std::optional<Steps> unfold(const Call &call) {
  if (call.rank() == 0) { // one window of the only element
    if (call.shown.size() != 1 || !call.shown[0].is(1))
      return std::nullopt;
    return one(ViewKind::unsqueeze, ArrayRef<int64_t>{0});
  }
  int64_t dim = call.dim(1), length = call.integer(2).value_or(0),
          step = call.integer(3).value_or(1);
  if (call.source[dim].isConstant() || step == 1)
    return one(ViewKind::unfold, ArrayRef<int64_t>{dim, length, step});
  // How many windows there are is a symbol: some of those at each element.
  Steps each = one(ViewKind::unfold, ArrayRef<int64_t>{dim, length, 1});
  each.push_back({ViewKind::slice, {dim, 0, call.shown[dim], step}});
  return each;
}

std::optional<Steps> unbind(const Call &call) {
  return one(ViewKind::select,
             ArrayRef<int64_t>{call.dim(1), int64_t(call.result)});
}

std::optional<Steps> narrow(const Call &call) {
  int64_t dim = call.dim(1);
  return sliced(dim, Call::wrap(call.size(2).value_or(0), call.source[dim]),
                call.shown[dim]);
}

std::optional<Steps> t(const Call &call) { return swapped(call, 0, 1); }

std::optional<Steps> transpose(const Call &call) {
  return swapped(call, call.dim(1), call.dim(2));
}

/// Overloads of one name take their arguments alike.
Rule findRule(StringRef overload) {
  static constexpr Rule functions[] = {
      nullptr,
#define PYJIT_VIEW_RULE(Name, name) name,
#include "pyjit-c/OperatorFacts.h.inc"
  };
  auto rule = operators::lookupFacts(overload).viewRule;
  return functions[static_cast<unsigned>(rule)];
}

} // namespace

ArrayAttr conversion::getViewPath(StringRef overload, ArrayAttr args,
                                  RankedTensorType source,
                                  RankedTensorType shown, unsigned result) {
  Rule rule = findRule(overload);
  if (!rule || source.getElementType() != shown.getElementType())
    return {};
  SmallVector<Size> from = tssa::getSizes(source), to = tssa::getSizes(shown);
  std::optional<Steps> steps = rule({args, from, to, result});
  if (!steps)
    return {};
  MLIRContext *context = source.getContext();
  SmallVector<Attribute> path;
  for (const Step &step : *steps) {
    SmallVector<AffineExpr> numbers;
    for (const Size &number : step.numbers)
      numbers.push_back(number.toExpr(context));
    path.push_back(tssa::ViewAttr::getSymbolic(context, step.kind, numbers));
  }
  return ArrayAttr::get(context, path);
}
