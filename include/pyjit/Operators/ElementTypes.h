//===- ElementTypes.h - PyTorch's dtypes and type promotion -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef PYJIT_OPERATORS_ELEMENTTYPES_H
#define PYJIT_OPERATORS_ELEMENTTYPES_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/TypeRange.h"
#include "pyjit/Operators/OperatorInfo.h"

namespace pyjit::operators {

/// The element type that c10::ScalarType `number` stands for (as a dtype
/// argument shows it), or null; and back, or -1. torch.bool is i1, torch.uint8
/// is ui8.
mlir::Type getElementType(mlir::MLIRContext *context, int64_t number);
int64_t getScalarType(mlir::Type elementType);

/// Whether tensors may have elements of this type.
bool isElementType(mlir::Type type);

/// The type in which ATen computes with elements of this type: f32 for f16 and
/// bf16, else the type itself.
mlir::Type getComputeType(mlir::Type elementType);

/// torch.promote_types.
mlir::Type promoteTypes(mlir::Type a, mlir::Type b);

/// What torch.result_type says of the call's promoted arguments: tensors with
/// dimensions decide, then 0-dim tensors, then numbers; a higher category
/// (bool, integer, float, complex) wins. Null where nothing takes part.
/// `defaultFloat` is torch.get_default_dtype().
mlir::Type getCommonType(const OperatorInfo &info, mlir::ArrayAttr args,
                         mlir::TypeRange operands, mlir::Type defaultFloat);

/// The element type that the overload's result has by the table's rule, or
/// null where only the call itself tells (ResultRule::Stated).
mlir::Type inferResultElementType(const OperatorInfo &info,
                                  mlir::ArrayAttr args,
                                  mlir::TypeRange operands,
                                  mlir::Type defaultFloat);

} // namespace pyjit::operators

#endif // PYJIT_OPERATORS_ELEMENTTYPES_H
