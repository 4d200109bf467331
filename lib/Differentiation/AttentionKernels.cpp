//===- AttentionKernels.cpp - Attention by its own kernels ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "AttentionKernels.h"

#include "dialects/pyjit/IR/Attributes.h"
#include "pyjit/Operators/OperatorNames.h"

#include <limits>

using namespace mlir;
using namespace pyjit;
using namespace pyjit::differentiation;
using tssa::Argument;
using tssa::Size;
using tssa::typeOf;

namespace {

/// Of one call. Schema arguments: query, key, value, mask, dropout_p,
/// is_causal, scale, enable_gqa.
class KernelGradients {
public:
  explicit KernelGradients(Adjoint &a)
      : a(a), query(a.tensor(0)), key(a.tensor(1)), value(a.tensor(2)),
        type(typeOf(query).getElementType()), ahead(a.call),
        forward(ahead, a.call.getLoc()) {}

  bool run() {
    if (!fits())
      return false;
    return takes("flash_cpu")   ? flashOnCpu()
           : takes("efficient") ? efficient()
           : takes("cudnn")     ? cudnn()
                                : false;
  }

private:
  bool takes(StringRef kernel) {
    auto name = a.call->getAttrOfType<StringAttr>(attribute::kTakesKernel);
    return name && name.getValue() == kernel;
  }

  bool fits() {
    // The CPU's kernel drops nothing.
    bool takesRate =
        takes("flash_cpu") ? a.number(4) == 0.0 : a.number(4).has_value();
    if (!takesRate || a.flag(7) || a.wants(3))
      return false;
    return llvm::all_of(ValueRange{query, key, value}, [&](Value operand) {
      return typeOf(operand).getRank() == 4 &&
             typeOf(operand).getElementType() == type;
    });
  }

  bool flashOnCpu() {
    namespace aten = operators::aten;
    Argument p = a.constant(4), causal = a.constant(5), scale = a.constant(6);
    Argument mask = bias(-std::numeric_limits<double>::infinity());
    Type sums = type.isF64() ? type : forward.getBuilder().getF32Type();
    ValueRange made = call(aten::_scaled_dot_product_flash_attention_for_cpu,
                           {query, key, value, p, causal, mask, scale},
                           {rowsFirst(rows(), sums)});
    give(a.build.callAll(
        aten::_scaled_dot_product_flash_attention_for_cpu_backward,
        {a.gradient(), query, key, value, Value(made[0]), Value(made[1]), p,
         causal, mask, scale},
        ofOperands(rowsFirst)));
    return true;
  }

  /// With dropout: as eager draws its numbers, whatever is captured.
  bool efficientDrawing() {
    namespace names = operators::pyjit;
    Argument p = a.constant(4), causal = a.constant(5), scale = a.constant(6);
    Argument mask = bias(-std::numeric_limits<double>::infinity());
    Builder types = forward.getBuilder();
    ValueRange made = call(names::efficient_attention,
                           {query, key, value, mask, p, causal, scale},
                           {rowMajorType(rows(), types.getF32Type()),
                            RankedTensorType::get({2}, types.getI64Type())});
    give(a.build.callAll(names::efficient_attention_backward,
                         {a.gradient(), query, key, value, mask, Value(made[0]),
                          Value(made[1]), Value(made[2]), p, causal, scale},
                         ofOperands(rowsFirst)));
    return true;
  }

  bool efficient() {
    namespace aten = operators::aten;
    if (a.number(4) != 0.0)
      return efficientDrawing();
    std::optional<int64_t> length = lengthOf(query);
    if (a.tensor(3) || !length)
      return false;
    Argument p = a.constant(4), causal = a.constant(5), scale = a.constant(6);
    // The kernel fills whole parts of 32 rows.
    SmallVector<Size> sizes = rows();
    sizes.back() = Size(llvm::alignTo(*length, 32));
    ValueRange made =
        call(aten::_scaled_dot_product_efficient_attention,
             {query, key, value, forward.none(), forward.boolean(true), p,
              causal, scale},
             {rowMajorType(sizes, forward.getBuilder().getF32Type())});
    SmallVector<Type> types = ofOperands(rowsFirst);
    types.push_back(number()); // of the mask: there is none
    Attribute wanted =
        a.build.list({a.build.boolean(a.wants(0u)), a.build.boolean(a.wants(1)),
                      a.build.boolean(a.wants(2)), a.build.boolean(false)});
    give(a.build.callAll(aten::_scaled_dot_product_efficient_attention_backward,
                         {a.gradient(), query, key, value, a.build.none(),
                          Value(made[0]), Value(made[1]),
                          a.build.none(), // no dropout: no numbers drawn
                          a.build.none(), p, wanted, causal, scale},
                         types));
    return true;
  }

  bool cudnn() {
    namespace aten = operators::aten;
    auto length = [&](Value operand) {
      return cast<ArrayAttr>(a.build.sizes(typeOf(operand)))[2];
    };
    Argument p = a.constant(4), causal = a.constant(5), scale = a.constant(6);
    // What eager's conversion of boolean masks has for "never" here.
    Argument mask = bias(-65504.0);
    SmallVector<Size> sizes = rows();
    sizes.push_back(Size(1));
    // Two of the tensors that it returns are undefined.
    ValueRange made =
        call(aten::_scaled_dot_product_cudnn_attention,
             {query, key, value, mask, forward.boolean(true), p, causal,
              forward.boolean(false), scale},
             {rowMajorType(sizes, forward.getBuilder().getF32Type()), number(),
              number(), number(), number()});
    give(a.build.callAll(aten::_scaled_dot_product_cudnn_attention_backward,
                         {a.gradient(), query, key, value, Value(made[0]),
                          Value(made[1]), Value(made[4]), Value(made[5]), mask,
                          a.build.none(), a.build.none(), length(query),
                          length(key), p, causal, scale},
                         ofOperands(like)));
    return true;
  }

  /// Instead of the call, which would draw a second time: what it returned, and
  /// behind it what `others` names.
  ValueRange call(StringRef overload, ArrayRef<Argument> arguments,
                  ArrayRef<Type> others) {
    SmallVector<Type> types{a.call.getResult(0).getType()};
    llvm::append_range(types, others);
    ValueRange made = forward.callAll(overload, arguments, types);
    a.call.getResult(0).replaceAllUsesWith(made[0]);
    return made;
  }

  /// The mask as something to add, of the query's element type; or none.
  Argument bias(double never) {
    Value mask = a.tensor(3);
    if (!mask || !typeOf(mask).getElementType().isInteger(1))
      return forward.optional(mask);
    Value zeros =
        forward.zeros(rowMajorType(tssa::getSizes(typeOf(mask)), type));
    return forward.select(mask, zeros, forward.wrapped(never));
  }

  SmallVector<Size> rows() {
    SmallVector<Size> sizes = tssa::getSizes(typeOf(query));
    sizes.pop_back();
    return sizes;
  }
  std::optional<int64_t> lengthOf(Value operand) {
    Size size = tssa::getSizes(typeOf(operand))[2];
    if (!size.isConstant())
      return std::nullopt;
    return size.constant();
  }
  /// A seed, or an offset, of random numbers.
  Type number() {
    return RankedTensorType::get({}, forward.getBuilder().getI64Type());
  }
  /// The layouts of the gradients as the kernels leave them: others would be
  /// copied behind each call.
  SmallVector<Type>
  ofOperands(RankedTensorType (*layout)(RankedTensorType operand)) {
    SmallVector<Type> types;
    for (Value operand : {query, key, value})
      types.push_back(layout(typeOf(operand)));
    return types;
  }
  /// The heads of a row lie beside each other: the sizes name heads, then rows.
  static RankedTensorType rowsFirst(SmallVector<Size> sizes, Type elements) {
    std::swap(sizes[1], sizes[2]);
    SmallVector<Size> strides = tssa::getRowMajorStrides(sizes);
    std::swap(sizes[1], sizes[2]);
    std::swap(strides[1], strides[2]);
    return tssa::getSymbolicType(sizes, strides, elements);
  }
  static RankedTensorType rowsFirst(RankedTensorType operand) {
    return rowsFirst(tssa::getSizes(operand), operand.getElementType());
  }
  /// As ATen's `empty_like`: the operand's dimensions in their order in memory,
  /// without gaps.
  static RankedTensorType like(RankedTensorType operand) {
    SmallVector<int64_t> strides = tssa::getStrides(operand);
    bool rowsLieOutside =
        !ShapedType::isDynamic(strides[1]) &&
        (ShapedType::isDynamic(strides[2]) || strides[1] < strides[2]);
    return !tssa::isDense(operand) && rowsLieOutside ? rowsFirst(operand)
                                                     : gradientTypeOf(operand);
  }
  void give(ValueRange gradients) {
    for (unsigned i = 0; i < 3; ++i)
      if (a.wants(i))
        a.give(i, gradients[i]);
    a.call.erase();
  }

  Adjoint &a;
  Value query, key, value;
  Type type;
  OpBuilder ahead;
  GradientBuilder forward;
};

} // namespace

bool differentiation::differentiateByKernel(Adjoint &adjoint) {
  return KernelGradients(adjoint).run();
}
