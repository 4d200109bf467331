//===- PyjitPrecompiled.h - What nearly every compiler source includes ----===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Precompiled once (target pyjit_precompiled) and reused by every library that
// add_pyjit_library makes. Files still include what they use: with
// -DPYJIT_PRECOMPILED_HEADERS=OFF the tree builds without this one.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/ADT/TypeSwitch.h"
