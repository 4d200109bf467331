//===- Overlap.h - Results that lie where operands do -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A kernel may write a result into the memory of an operand, element for
// element, if it reads each element of that operand before it writes the
// element, or not at all. Whoever computes an element is one thread in one
// iteration; what remains to be shown is that it reads nothing but the element
// that it writes, and nothing of it in a later walk over a reduction.
//
//===----------------------------------------------------------------------===//

#ifndef PYJIT_CODEGEN_OVERLAP_H
#define PYJIT_CODEGEN_OVERLAP_H

#include "pyjit/Codegen/KernelGraph.h"

namespace pyjit::codegen {

/// Whether result `result` of the kernel, whose type is that of operand
/// `operand`, may lie where that operand does: every load of the operand is of
/// the element that the same point of the domain stores, and no load comes in a
/// later stage than the store. Says why not in `reason`.
bool mayOverlap(const KernelGraph &graph, mlir::Value operand, unsigned number,
                unsigned result, std::string &reason);

} // namespace pyjit::codegen

#endif // PYJIT_CODEGEN_OVERLAP_H
