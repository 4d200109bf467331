//===- Raises.h - Operators that raise for some values ----------*- C++ -*-===//

#ifndef PYJIT_OPERATORS_RAISES_H
#define PYJIT_OPERATORS_RAISES_H

#include "llvm/ADT/StringRef.h"

namespace pyjit::operators {

/// Whether an overload of the table may raise because of its operands' values:
/// a call of it has to run though nothing uses its result.
bool mayRaise(llvm::StringRef overload);

/// The attribute (of refgraph.tensor_op and tssa.aten) of a call that has to
/// run for that reason alone.
inline constexpr llvm::StringLiteral kMustRun = "pyjit.must_run";

} // namespace pyjit::operators

#endif // PYJIT_OPERATORS_RAISES_H
