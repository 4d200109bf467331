//===- ScalarExpr.cpp - scalar expressions as data ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "pyjit/Operators/ScalarExpr.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "llvm/Support/raw_ostream.h"

namespace pyjit::operators {

unsigned getNumChildren(ScalarOp op) {
  switch (op) {
  case ScalarOp::Input:
  case ScalarOp::Const:
  case ScalarOp::Index:
    return 0;
  case ScalarOp::Add:
  case ScalarOp::Sub:
  case ScalarOp::Mul:
  case ScalarOp::Div:
  case ScalarOp::TruncDiv:
  case ScalarOp::FloorDiv:
  case ScalarOp::Remainder:
  case ScalarOp::Fmod:
  case ScalarOp::Pow:
  case ScalarOp::Maximum:
  case ScalarOp::Minimum:
  case ScalarOp::ClampMin:
  case ScalarOp::ClampMax:
  case ScalarOp::Fmax:
  case ScalarOp::Fmin:
  case ScalarOp::Atan2:
  case ScalarOp::Hypot:
  case ScalarOp::Copysign:
  case ScalarOp::BitAnd:
  case ScalarOp::BitOr:
  case ScalarOp::BitXor:
  case ScalarOp::Shl:
  case ScalarOp::Shr:
  case ScalarOp::Eq:
  case ScalarOp::Ne:
  case ScalarOp::Lt:
  case ScalarOp::Le:
  case ScalarOp::Gt:
  case ScalarOp::Ge:
    return 2;
  case ScalarOp::Select:
  case ScalarOp::Fma:
    return 3;
  default:
    return 1;
  }
}

llvm::StringRef stringify(ScalarOp op) {
  static const char *const names[] = {
      "Input",   "Const",  "Index",      "Gather",   "Cast",     "Add",
      "Sub",     "Mul",    "Div",        "TruncDiv", "FloorDiv", "Remainder",
      "Fmod",    "Pow",    "Maximum",    "Minimum",  "ClampMin", "ClampMax",
      "Fmax",    "Fmin",   "Atan2",      "Hypot",    "Copysign", "Neg",
      "Abs",     "Sign",   "Floor",      "Ceil",     "Trunc",    "Round",
      "Sqrt",    "Rsqrt",  "Reciprocal", "Exp",      "Exp2",     "Expm1",
      "Log",     "Log2",   "Log10",      "Log1p",    "Sin",      "Cos",
      "Tan",     "Asin",   "Acos",       "Atan",     "Sinh",     "Cosh",
      "Tanh",    "Asinh",  "Acosh",      "Atanh",    "Erf",      "Erfc",
      "Sigmoid", "BitAnd", "BitOr",      "BitXor",   "BitNot",   "Shl",
      "Shr",     "Eq",     "Ne",         "Lt",       "Le",       "Gt",
      "Ge",      "IsNan",  "IsInf",      "SignBit",  "Select",   "Fma"};
  static_assert(std::size(names) == static_cast<size_t>(ScalarOp::Fma) + 1,
                "one name per node");
  return names[static_cast<size_t>(op)];
}

static size_t printNode(llvm::raw_ostream &os, llvm::ArrayRef<ScalarNode> expr,
                        size_t at) {
  const ScalarNode &node = expr[at];
  os << stringify(node.op);
  if (node.op == ScalarOp::Input || node.op == ScalarOp::Gather ||
      node.op == ScalarOp::Index)
    os << node.index;
  os << ":" << node.type;
  if (node.op == ScalarOp::Const) {
    os << "(";
    node.constant.print(os, /*elideType=*/true);
    os << ")";
  }
  size_t next = at + 1;
  for (unsigned i = 0, e = getNumChildren(node.op); i < e; ++i) {
    os << (i ? ", " : "(");
    next = printNode(os, expr, next);
    if (i + 1 == e)
      os << ")";
  }
  return next;
}

void print(llvm::raw_ostream &os, llvm::ArrayRef<ScalarNode> expr) {
  if (!expr.empty())
    printNode(os, expr, 0);
}

} // namespace pyjit::operators
