//===- ScalarExpr.h - scalar expressions as data ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Expressions come in two forms, both trees flattened in prefix order.
//
// The table's (`TableNode`) is untyped: its leaves name schema arguments, and
// some of its nodes ask about a call's constant arguments. Nothing but
// Recipe.cpp reads it.
//
// The resolved form (`ScalarExpr`) belongs to one call: every node has an
// element type, every conversion is a `Cast` node, leaves are inputs, constants
// and iteration indices. Code generation emits it node by node.
//
//===----------------------------------------------------------------------===//

#ifndef PYJIT_OPERATORS_SCALAREXPR_H
#define PYJIT_OPERATORS_SCALAREXPR_H

#include "mlir/IR/BuiltinAttributeInterfaces.h"
#include "mlir/IR/BuiltinTypeInterfaces.h"
#include "mlir/IR/Types.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include <cstdint>

namespace pyjit::operators {

/// Nodes of resolved expressions. Operand types are equal to the node's type
/// unless stated. Float types are f32 and f64 only: f16 and bf16 are widened
/// by Cast at the leaves and narrowed at the root. Integers are signless in
/// MLIR's sense; `ui8` (torch.uint8) is the one unsigned type, on which
/// Div…, Shr, comparisons, Max/Min and casts are unsigned. i1 is torch.bool.
enum class ScalarOp : uint8_t {
  // leaves
  Input, ///< element of the step's input `index`
  Const, ///< `constant`, of the node's type
  Index, ///< iteration index of dimension `index`, as i64
  /// Element of the step's input `index` whose index in dimension `dim` is the
  /// child (i64, in range), the others as the input's map says.
  Gather,

  // any type → node's type. float→int truncates toward zero (out of range:
  // as x86 cvtt, like eager); to i1: x != 0; i1→: 0 or 1
  Cast,

  // arithmetic: float, int (wraps around); i1: Add is or, Mul is and
  Add,
  Sub,
  Mul,
  Div,      ///< float only
  TruncDiv, ///< int: toward zero; float: trunc(a / b)
  /// Python's //. float: as c10::div_floor_floating; int: toward -inf
  FloorDiv,
  Remainder, ///< Python's %: sign of b; float: fmod corrected
  Fmod,      ///< C's: sign of a
  Pow,       ///< float: pow(); int: by squaring, negative exponents as ATen
  /// A NaN in, a NaN out. Of two zeros the second on the CPU (as the vector
  /// code of eager has it), the greater or the less one on a device.
  Maximum,
  Minimum,
  /// x where it is a NaN or the bound is; of two zeros as std::max(x, low) and
  /// std::min(x, high) on the CPU: x.
  ClampMin,
  ClampMax,
  Fmax,
  Fmin, ///< a NaN loses against a number
  Atan2,
  Hypot,
  Copysign,
  Neg,
  Abs,
  Sign, ///< -1, 0, 1; of NaN 0 (as ATen)
  // float only
  Floor,
  Ceil,
  Trunc,
  Round, ///< half to even
  Sqrt,
  Rsqrt,
  Reciprocal,
  Exp,
  Exp2,
  Expm1,
  Log,
  Log2,
  Log10,
  Log1p,
  Sin,
  Cos,
  Tan,
  Asin,
  Acos,
  Atan,
  Sinh,
  Cosh,
  Tanh,
  Asinh,
  Acosh,
  Atanh,
  Erf,
  Erfc,
  /// 1 / (1 + exp(-x)), without overflow
  Sigmoid,

  // int and i1
  BitAnd,
  BitOr,
  BitXor,
  BitNot,
  /// int: as ATen: a shift by less than 0 or at least the width gives 0 (Shl)
  /// or 0 / -1 by sign (Shr)
  Shl,
  Shr,

  // → i1; operands of one type. Ne is true of NaN, the others false
  Eq,
  Ne,
  Lt,
  Le,
  Gt,
  Ge,
  IsNan,   ///< float
  IsInf,   ///< float, either sign
  SignBit, ///< float: sign bit set, NaN included; int: < 0

  /// child 0 (i1) ? child 1 : child 2
  Select,
  /// float: child 0 * child 1 + child 2, rounded once; int: wraps around
  Fma,
};

/// How many children a node has.
unsigned getNumChildren(ScalarOp op);
llvm::StringRef stringify(ScalarOp op);

struct ScalarNode {
  ScalarOp op;
  mlir::Type type;
  unsigned index = 0;       ///< Input, Gather: which input; Index: dimension
  unsigned dim = 0;         ///< Gather
  mlir::TypedAttr constant; ///< Const
};

/// Prefix order: a node, then its children's subtrees.
using ScalarExpr = llvm::SmallVector<ScalarNode, 8>;

/// For readers: `Add:f32(Input0:f32, Const(1.0))`.
void print(llvm::raw_ostream &os, llvm::ArrayRef<ScalarNode> expr);

//===----------------------------------------------------------------------===//
// The table's form
//===----------------------------------------------------------------------===//

/// Nodes of table expressions beyond those of ScalarOp.
enum class TableOp : uint8_t {
  Scalar,     ///< a ScalarOp, in `scalar`
  Argument,   ///< schema argument `index`, converted to the computation's type
  Raw,        ///< schema argument `index`, in its own type
  Channel,    ///< argument `index`, its dimension 0 laid along dimension 1
  Exact,      ///< argument `index` as Argument, not rounded to half on the CPU
  Inverse,    ///< 1 / argument `index`, of a number in double
  Negated,    ///< argument `index`, a number, negated before it is converted
  Number,     ///< `number`
  IterIndex,  ///< index (i64) in the `index`-th dimension from the last, from 1
  Value,      ///< child
  Bool,       ///< child != 0, as i1
  Narrowed,   ///< child, rounded to the type that eager keeps it in
  Wide,       ///< child, a float on the CPU as double
  Step,       ///< child, computed once per element in a step of its own
  IfNone,     ///< argument `index` is none ? child 0 : child 1
  IfTrue,     ///< argument `index` is true or not 0 ? child 0 : child 1
  IfString,   ///< argument `index` is the string `text` ? child 0 : child 1
  IfNumber,   ///< argument `index` is the number `number` ? child 0 : child 1
  IfDivisor,  ///< argument `index` is a number but not 0 ? child 0 : child 1
  IfFloat,    ///< the computation's type is a float type ? child 0 : child 1
  IfWidened,  ///< Wide is wider than the computation ? child 0 : child 1
  IfOnDevice, ///< computed on a device ? child 0 : child 1
  IfNumberOnDevice, ///< on a device, and argument `index` a number or 0-dim
                    ///< tensor of the host ? child 0 : child 1
  IfHalfOnCPU,      ///< in half precision on the CPU ? child 0 : child 1
  IfLastOnCPU,      ///< argument `index` is the last dimension, no device ? …
  IfFloat16OnCPU,   ///< in float16 on the CPU ? child 0 : child 1
  IfConstant, ///< argument `index` is no number that differs between calls ?
  Let,        ///< child 0 named as local `index`; then child 1
  Local,      ///< local `index`
  // Reductions of the child over `dims`; the result keeps these as size 1.
  ReduceSum,
  ReduceProd,
  ReduceMax,
  ReduceMin,
  ReduceAny,
  ReduceAll,
  Count,      ///< how many elements such a reduction joins
  Unsupported ///< no recipe for this call
};

/// Over which dimensions a node reduces.
enum class TableDims : uint8_t {
  None,
  Argument, ///< those that argument `index` names: int, list; none or []: all
  Last,     ///< as many last ones as the list in argument `index` is long
  Every
};

struct TableNode {
  TableOp op;
  ScalarOp scalar;
  uint8_t index;
  TableDims dims;
  double number;
  const char *text;
};

} // namespace pyjit::operators

#endif // PYJIT_OPERATORS_SCALAREXPR_H
