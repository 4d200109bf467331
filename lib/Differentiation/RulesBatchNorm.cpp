//===- RulesBatchNorm.cpp - Derivative of batch norms in training ---------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Formula: native_batch_norm_backward, as derivatives.yaml says.
//
//===----------------------------------------------------------------------===//

#include "Adjoint.h"

#include "pyjit/Operators/OperatorNames.h"

using namespace mlir;
using namespace pyjit;
using namespace pyjit::differentiation;
using tssa::typeOf;

/// Gradients flow through the first result alone: the statistics, and what is
/// kept of them, are written out of autograd's sight.
LogicalResult gradient_rules::BatchNormTraining(Adjoint &a) {
  GradientBuilder &build = a.build;
  bool kept = a.call.getOverload() !=
              operators::aten::_native_batch_norm_legit_no_stats;
  unsigned numbers = kept ? 5 : 3;
  if (!a.number(numbers + 2))
    return a.refuse("its epsilon differs between calls");
  if (!a.gradient())
    return success();
  Value input = a.tensor(0), weight = a.tensor(1), bias = a.tensor(2);
  bool wanted[] = {a.wants(0u), weight && a.wants(1), bias && a.wants(2)};
  Type element = typeOf(weight ? weight : bias ? bias : input).getElementType();
  // As many as there are means: channels may differ between calls.
  RankedTensorType perChannel =
      gradientTypeOf(typeOf(Value(a.call.getResult(1))).clone(element));
  ValueRange gradients = build.callAll(
      operators::aten::native_batch_norm_backward,
      {a.gradient(), input, build.optional(weight), build.none(),
       build.none(), // training reads no running statistics
       Value(a.call.getResult(1)), Value(a.call.getResult(2)),
       build.boolean(true), a.constant(numbers + 2),
       build.list({build.boolean(wanted[0]), build.boolean(wanted[1]),
                   build.boolean(wanted[2])})},
      {gradientTypeOf(typeOf(input)), perChannel, perChannel});
  for (unsigned i = 0; i < 3; ++i)
    if (wanted[i])
      a.give(i, gradients[i]);
  return success();
}
