// The language of the operator table: see README.md in this folder.

#ifndef PYJIT_OPERATORS_OPERATORBASE_TD
#define PYJIT_OPERATORS_OPERATORBASE_TD

/// One overload, as torch prints it. `kind` is given where the schema's alias
/// marks do not tell it: Random, Metadata, Dynamic.
class Schema<string text, string kind = ""> {
  string Text = text;
  string Kind = kind;
}

/// How one overload lowers. The name joins it to its schema.
class Lowering<string name> {
  string Name = name;
}

/// By an expression over the schema's arguments.
///   compute: element type in which it is evaluated: Result (the result's
///            type), Promote (PyTorch's common type of the promoted
///            arguments), Self (of the first operand)
///   result:  element type of the result: Promote, Float (promoted, integers
///            become the default float type), Bool, Self, Stated (by the call)
///   numbers: what eager makes of a Python number beside half precision: Wide
///            (computes with it as it is), Narrow (rounds it to half precision
///            first), NarrowOnCPU, NarrowOnDevice, WideScalar (as Wide, and on the CPU a second
///            operand of one element is taken as it is, too)
class Op<string name, dag expression, string compute = "Result",
         string result = "Promote", string numbers = "Wide"> : Lowering<name> {
  dag Expression = expression;
  string Compute = compute;
  string Result = result;
  string Numbers = numbers;
}

/// By a view of the first operand.
class View<string name, string rule> : Lowering<name> {
  string Rule = rule;
}

/// By a rule of lib/Conversion/TSSAToLinalg: joins, indexed reads, positions.
class Structured<string name, string rule> : Lowering<name> {
  string Rule = rule;
}

/// An overload that raises for some values of its operands (an index out of
/// range), and so has to run though nothing uses its result; `integers`: only
/// where its result is one of integers (a division by zero).
class Raises<string name, bit integers = 0> {
  string Name = name;
  bit Integers = integers;
}

/// All overloads of an operator whose work is more than that of reading its
/// operands and writing its results once: no call should do it twice.
class Costly<string name> {
  string Name = name;
}

/// A library call, although its functional form has a kernel: eager computes the
/// two in different ways.
class Library<string name> : Lowering<name>;

class Node;

/// A ScalarOp; `aten` where an operator of this name is just this node.
class ScalarNode<string aten = ""> : Node {
  string Aten = aten;
}

def Add : ScalarNode;
def Sub : ScalarNode;
def Mul : ScalarNode;
def Div : ScalarNode;
def TruncDiv : ScalarNode;
def FloorDiv : ScalarNode;
def Remainder : ScalarNode;
def Fmod : ScalarNode;
def Pow : ScalarNode;
def Maximum : ScalarNode<"maximum">;
def Minimum : ScalarNode<"minimum">;
def ClampMin : ScalarNode; // (ClampMin x, low), (ClampMax x, high)
def ClampMax : ScalarNode;
def Fmax : ScalarNode<"fmax">;
def Fmin : ScalarNode<"fmin">;
def Atan2 : ScalarNode<"atan2">;
def Hypot : ScalarNode<"hypot">;
def Copysign : ScalarNode<"copysign.Tensor">;
def Neg : ScalarNode<"neg">;
def Abs : ScalarNode<"abs">;
def Sign : ScalarNode<"sign">;
def Floor : ScalarNode<"floor">;
def Ceil : ScalarNode<"ceil">;
def Trunc : ScalarNode<"trunc">;
def Round : ScalarNode<"round">;
def Sqrt : ScalarNode<"sqrt">;
def Rsqrt : ScalarNode<"rsqrt">;
def Reciprocal : ScalarNode<"reciprocal">;
def Exp : ScalarNode<"exp">;
def Exp2 : ScalarNode<"exp2">;
def Expm1 : ScalarNode<"expm1">;
def Log : ScalarNode<"log">;
def Log2 : ScalarNode<"log2">;
def Log10 : ScalarNode<"log10">;
def Log1p : ScalarNode<"log1p">;
def Sin : ScalarNode<"sin">;
def Cos : ScalarNode<"cos">;
def Tan : ScalarNode<"tan">;
def Asin : ScalarNode<"asin">;
def Acos : ScalarNode<"acos">;
def Atan : ScalarNode<"atan">;
def Sinh : ScalarNode<"sinh">;
def Cosh : ScalarNode<"cosh">;
def Tanh : ScalarNode<"tanh">;
def Asinh : ScalarNode<"asinh">;
def Acosh : ScalarNode<"acosh">;
def Atanh : ScalarNode<"atanh">;
def Erf : ScalarNode<"erf">;
def Erfc : ScalarNode<"erfc">;
def Sigmoid : ScalarNode<"sigmoid">;
def BitAnd : ScalarNode<"bitwise_and">;
def BitOr : ScalarNode<"bitwise_or">;
def BitXor : ScalarNode<"bitwise_xor">;
def BitNot : ScalarNode<"bitwise_not">;
def Shl : ScalarNode<"bitwise_left_shift">;
def Shr : ScalarNode<"bitwise_right_shift">;
def Fma : ScalarNode;             // (Fma a, b, c): a * b + c, rounded once
def Eq : ScalarNode<"eq">;
def Ne : ScalarNode<"ne">;
def Lt : ScalarNode<"lt">;
def Le : ScalarNode<"le">;
def Gt : ScalarNode<"gt">;
def Ge : ScalarNode<"ge">;
def IsNan : ScalarNode;
def IsInf : ScalarNode;
def SignBit : ScalarNode;
def Select : ScalarNode;

/// The nodes of TableOp in include/pyjit/Operators/ScalarExpr.h.
class TableNode<int children> : Node {
  int Children = children;
}
def Value : TableNode<1>;       // (Value x): x, where a dag must stand
def Raw : TableNode<0>;         // (Raw $argument)
def Channel : TableNode<0>;     // (Channel $argument)
def IterIndex : TableNode<0>;   // (IterIndex n): from the last dimension, 1-based
def Exact : TableNode<0>;       // (Exact $argument): not rounded to half precision on the CPU
def Inverse : TableNode<0>;     // (Inverse $argument): of a number, computed as double
def Negated : TableNode<0>;     // (Negated $argument): a number, in its own type
def Bool : TableNode<1>;        // (Bool x)
def Narrowed : TableNode<1>;    // (Narrowed x): to half precision, where eager does
def Wide : TableNode<1>;        // (Wide x): as double on the CPU
def Step : TableNode<1>;        // (Step x)
def IfNone : TableNode<2>;      // (IfNone $argument, a, b)
def IfTrue : TableNode<2>;      // (IfTrue $argument, a, b)
def IfString : TableNode<2>;    // (IfString $argument, "text", a, b)
def IfNumber : TableNode<2>;    // (IfNumber $argument, number, a, b)
def IfDivisor : TableNode<2>;   // (IfDivisor $argument, a, b)
def IfFloat : TableNode<2>;     // (IfFloat a, b)
def IfOnDevice : TableNode<2>;  // (IfOnDevice a, b)
def IfNumberOnDevice : TableNode<2>; // (IfNumberOnDevice $argument, a, b): a number of the host
def IfFloat16OnCPU : TableNode<2>; // (IfFloat16OnCPU a, b): float16, no device
def IfHalfOnCPU : TableNode<2>; // (IfHalfOnCPU a, b): half precision, no device
def IfLastOnCPU : TableNode<2>; // (IfLastOnCPU $dim, a, b): the last dimension, no device
def IfConstant : TableNode<2>;  // (IfConstant $argument, a, b): not lifted
def Let : TableNode<2>;         // (Let $name, value, body)
def ReduceSum : TableNode<1>;   // (ReduceSum x, DIMS), and so on
def ReduceProd : TableNode<1>;
def ReduceMax : TableNode<1>;
def ReduceMin : TableNode<1>;
def ReduceAny : TableNode<1>;
def ReduceAll : TableNode<1>;
def Count : TableNode<1>;       // (Count x, DIMS)
def Unsupported : TableNode<0>; // no recipe for this call: a library call

/// DIMS: `$argument`, or (Last $list), as many last dimensions as the list is
/// long, or (Every), all of them.
def Last;
def Every;

#endif
