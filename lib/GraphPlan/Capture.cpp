//===- Capture.cpp - What a CUDA graph can hold ---------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "pyjit/GraphPlan/Capture.h"

#include "pyjit/Operators/OperatorFacts.h"
#include "pyjit/Operators/OperatorInfo.h"
#include "pyjit/Operators/Random.h"

using namespace pyjit;

llvm::StringRef pyjit::graphplan::whyNotCaptured(llvm::StringRef overload,
                                                 mlir::ArrayAttr args) {
  const operators::OperatorFacts &facts = operators::lookupFacts(overload);
  if (facts.deviceAssertion)
    return "";
  const operators::OperatorInfo *info = operators::lookupOperator(overload);
  if (facts.ofCPULibrary)
    return "it is a library of the CPU's";
  if (!info)
    return "the operator table does not know what it does";
  if (info && info->kind == operators::OperatorClass::Random &&
      !operators::drawsNothing(*info, args))
    return "it draws random numbers";
  if (info && info->kind == operators::OperatorClass::Dynamic)
    return "the shape of its result depends on data";
  if (facts.waitsForDevice)
    return "it waits for the device";
  if (facts.expandsMasks)
    return "it may look into its indices";
  return "";
}
