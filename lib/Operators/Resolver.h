//===- Resolver.h - walks a table expression for one call -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Inside lib/Operators: the walk whose expression half stands in
// RecipeExpression.cpp and whose steps stand in RecipeSteps.cpp.
//
//===----------------------------------------------------------------------===//

#ifndef PYJIT_LIB_OPERATORS_RESOLVER_H
#define PYJIT_LIB_OPERATORS_RESOLVER_H

#include "mlir/IR/Builders.h"
#include "pyjit/Operators/CallArguments.h"
#include "pyjit/Operators/Recipe.h"
#include <vector>

namespace pyjit::operators {
using namespace mlir;

/// Something to read: an operand or an earlier step's result, seen with a
/// shape that broadcasts as PyTorch's do. `dims[i]` is the dimension of that
/// shape along which the tensor's own dimension i lies.
struct Source {
  bool isStep;
  unsigned number;
  SmallVector<int64_t> shape;
  SmallVector<unsigned> dims;
  bool operator==(const Source &other) const {
    return isStep == other.isStep && number == other.number &&
           shape == other.shape && dims == other.dims;
  }
};

/// A partial expression. Input nodes are numbered by source; Index nodes count
/// dimensions from the last one, from 1.
struct Value {
  ScalarExpr nodes;
  SmallVector<int64_t> shape;
  Type type() const { return nodes.front().type; }
};

class Resolver {
public:
  Resolver(const OperatorInfo &info, ArrayAttr args, TypeRange operands,
           RankedTensorType result, const CallPlace &place)
      : info(info), args(args), operands(operands), result(result),
        builder(args.getContext()), place(place),
        defaultFloat(place.defaultFloat ? place.defaultFloat
                                        : builder.getF32Type()),
        narrowNumbers(info.numbers == NumberRule::Narrow ||
                      info.numbers == (place.onDevice
                                           ? NumberRule::NarrowOnDevice
                                           : NumberRule::NarrowOnCPU)) {
    walkCallArguments(args, [&](unsigned, Attribute, unsigned first) {
      firstOperand.push_back(first);
    });
  }

  FailureOr<Recipe> run();

private:
  using MaybeValue = FailureOr<Value>;

  // The expression
  MaybeValue eval(Type expected);
  MaybeValue evalArgument(unsigned index, Type type);
  MaybeValue evalNegated(unsigned index);
  MaybeValue evalInverse(unsigned index);
  MaybeValue literal(TypedAttr number, Type type);
  bool isRounded(unsigned index, RankedTensorType type);
  MaybeValue evalScalar(ScalarOp op, Type expected);
  MaybeValue evalReduction(const TableNode &node, Type expected);
  /// What a reduction combines elements of `type` with, and what it begins
  /// with.
  std::pair<ScalarOp, TypedAttr> combination(TableOp op, Type type);
  MaybeValue choose(bool first, Type expected);
  void skip();
  const TableNode &peek() const { return info.expression[cursor]; }

  // Values
  MaybeValue constant(Attribute number, Type type);
  Value read(Source source, Type elementType);
  Value convert(Value value, Type type);
  Value roundToCommon(Value value);
  MaybeValue combine(ScalarOp op, Type type, ArrayRef<Value> children);
  std::optional<SmallVector<int64_t>> broadcast(ArrayRef<int64_t> a,
                                                ArrayRef<int64_t> b);

  // Steps
  LogicalResult addStep(const Value &value, ArrayRef<int64_t> shape,
                        ArrayRef<int64_t> positions);
  Value materialize(const Value &value);
  LogicalResult finish(Value value);
  FailureOr<SmallVector<unsigned>> reducedDims(const TableNode &node,
                                               unsigned rank);

  const OperatorInfo &info;
  ArrayAttr args;
  TypeRange operands;
  RankedTensorType result;
  Builder builder;
  const CallPlace &place;
  Type defaultFloat;
  bool narrowNumbers;
  SmallVector<unsigned> firstOperand;
  size_t cursor = 0;
  Type common;  ///< what eager converts operands to
  Type compute; ///< the same, f32 and up
  SmallVector<Source> sources;
  std::vector<Value> locals;
  Recipe recipe;
};

/// Dimensions 0, 1, … of a shape.
inline SmallVector<int64_t> iota(size_t count) {
  return llvm::to_vector(llvm::seq<int64_t>(count));
}

} // namespace pyjit::operators

#endif // PYJIT_LIB_OPERATORS_RESOLVER_H
