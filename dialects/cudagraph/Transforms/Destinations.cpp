//===- Destinations.cpp - Calls that write where they are told ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Destinations.h"

#include "pyjit/Operators/CallArguments.h"
#include "pyjit/Operators/OperatorFacts.h"

using namespace mlir;
using namespace pyjit;
using namespace pyjit::cudagraph;

CallOp cudagraph::giveDestination(CallOp call) {
  if (call.getMutates() || call.getNumResults() != 1)
    return {};
  StringRef form = operators::lookupFacts(call.getOverload()).destinationForm;
  if (form.empty())
    return {};
  OpBuilder builder(call);
  SmallVector<Value> inputs(call.getInputs());
  SmallVector<Attribute> args(call.getArgs().getValue());
  Value target = BufferOp::create(builder, call.getLoc(),
                                  call.getResult(0).getType(), IntegerAttr());
  inputs.push_back(target);
  args.push_back(operators::getOperandPlaceholder(call.getContext()));
  auto told =
      CallOp::create(builder, call.getLoc(), TypeRange(), form, inputs,
                     builder.getArrayAttr(args),
                     builder.getDenseI64ArrayAttr(int64_t(inputs.size()) - 1));
  call.getResult(0).replaceAllUsesWith(target);
  call.erase();
  return told;
}
