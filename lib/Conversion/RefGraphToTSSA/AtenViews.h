//===- AtenViews.h - ATen's view operators as view paths --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_LIB_CONVERSION_REFGRAPHTOTSSA_ATENVIEWS_H
#define PYJIT_LIB_CONVERSION_REFGRAPHTOTSSA_ATENVIEWS_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"

namespace pyjit::conversion {

/// The path that result number `result` of a view operator shows of its first
/// operand. `overload` is an ATen overload name, `args` its arguments, `source`
/// and `shown` the types of operand and result. Null where no rule is known.
///
/// The caller compares the path's inferred type with what was recorded, so a
/// rule that does not fit a case is noticed and never believed.
mlir::ArrayAttr getViewPath(llvm::StringRef overload, mlir::ArrayAttr args,
                            mlir::RankedTensorType source,
                            mlir::RankedTensorType shown, unsigned result);

} // namespace pyjit::conversion

#endif // PYJIT_LIB_CONVERSION_REFGRAPHTOTSSA_ATENVIEWS_H
