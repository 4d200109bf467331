// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
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

/// A vendor call, although its functional form has a kernel: eager computes the
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

/// A sixth in single precision, which eager's kernels of hardsigmoid and
/// hardswish have for doubles, too.
defvar sixth = "0.16666667163372039794921875";

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
def IfComplex : TableNode<2>;   // (IfComplex $argument, a, b), of derivatives
def IfDivisor : TableNode<2>;   // (IfDivisor $argument, a, b)
def IfFloat : TableNode<2>;     // (IfFloat a, b)
def IfWidened : TableNode<2>;   // (IfWidened a, b): where (Wide x) is wider than x
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
def Unsupported : TableNode<0>; // no recipe for this call: a vendor call

/// DIMS: `$argument`, or (Last $list), as many last dimensions as the list is
/// long, or (Every), all of them.
def Last;
def Every;

//===----------------------------------------------------------------------===//
// Derivatives: see Derivatives.td
//===----------------------------------------------------------------------===//

/// How the gradient of an overload's result reaches one of its operands: an
/// expression in the nodes above, each of which is a call of an ATen overload on
/// whole tensors here (`Called`). Leaves are the arguments of the call, `$grad`,
/// the gradient of its (first) result, `$result` and, of a call with several
/// results, `$result1` and so on. What the expression yields is
/// summed to the operand's shape and converted to its type by itself.
///
/// Of the other nodes it takes Value, Let, IfNone, IfTrue, IfNumber, IfString,
/// IfComplex.
/// Arithmetic on numbers is done when the program is differentiated.
class Derivative<string name, string operand, dag expression> {
  string Name = name;
  string Operand = operand;
  dag Expression = expression;
}

/// The overload that a node of a derivative's expression calls.
class Called<string overload, Node node> {
  string Overload = overload;
  Node Of = node;
}

/// (Call<"aten::gelu_backward"> $grad, $self, ...): any overload, with the
/// arguments of its schema; those that are left out have their defaults.
class Call<string overload> : Node {
  string Overload = overload;
}
/// (Backward<"aten::col2im"> $grad, ...): likewise, of an overload that computes
/// the gradient itself: its result has the type of the operand.
class Backward<string overload> : Call<overload>;
/// (Word<"floor">): a string, where a dag stands.
class Word<string text> : Node {
  string Text = text;
}
/// (Sizes $self): the sizes of a tensor; (LastSizes $self, 2): the last two.
def Sizes : Node;
def LastSizes : Node;

//===----------------------------------------------------------------------===//
// Facts: what neither a schema nor a tag of torch's states of an operator
//===----------------------------------------------------------------------===//

/// A fact about operators, each by its name:
///   "aten::squeeze_.dim"  one overload ("aten::squeeze_": the one without a
///                         name of its own)
///   "aten::cdist.*"       all overloads of an operator
///   "prims::*"            all operators of a library
/// An operator needs no schema in Schemas.td for that; a test looks the names
/// up in torch.
class Fact<list<string> operators> {
  list<string> Operators = operators;
}
/// The names of these operators of ATen's: all overloads, or those without a
/// name of their own (or with the name that is given).
class All<list<string> names> {
  list<string> Of = !foreach(name, names, "aten::" # name # ".*");
}
class One<list<string> names> {
  list<string> Of = !foreach(name, names, "aten::" # name);
}

/// A fact that holds of an operator or does not: `Fact::NAME` in C++, and
/// `PyjitFactNAME` in C.
class Flag<list<string> operators> : Fact<operators>;
/// A fact that is one of several: an enumerator `NAME::Value`.
class Choice<string value, list<string> operators> : Fact<operators> {
  string Value = value;
}
/// A fact that is a text, or a name.
class Text<string value, list<string> operators> : Fact<operators> {
  string Value = value;
}

/// No fact: C++ code names these operators (OperatorNames.h), which Schemas.td
/// and the facts do not mention otherwise.
class Named<list<string> operators> : Fact<operators>;

// Cost, memory.

/// The work is more than that of reading the operands and writing the results
/// once: no call should do it twice.
class Costly<list<string> operators> : Flag<operators>;
/// Hands out memory that nobody has written.
class Allocates<list<string> operators> : Flag<operators>;
/// The result is a new tensor, whatever the operands are; of the first one only
/// type and shape are asked for.
class MakesTensor<list<string> operators> : Flag<operators>;
/// The last result is memory that only the operator's backward looks into: how
/// large it is the library knows.
class LastResultOpaque<list<string> operators> : Flag<operators>;
/// Does not read what operand number `operand` holds: the call asks for its type
/// only, or overwrites it whole.
class Overwrites<int operand, list<string> operators> : Fact<operators> {
  int Operand = operand;
}
/// Counts from the start of the first operand's storage, not from where the
/// operand begins.
class AddressesStorage<list<string> operators> : Flag<operators>;
/// Writes what its schema does not say. It blocks capture.
class WritesUnsaid<list<string> operators> : Flag<operators>;
/// A composite whose C++ code reads what an operand holds, past the dispatcher:
/// its parts have those numbers as constants. Or an operator whose result is as
/// long as an operand says, without PyTorch's tag. It blocks capture.
class ReadsDataUnsaid<list<string> operators> : Flag<operators>;
/// `form` computes the same into its last argument, a tensor of the result's
/// type, and makes nothing on the way.
class DestinationForm<string form, list<string> operators>
    : Text<form, operators>;
/// Gives the first operand another storage.
class ReplacesStorage<list<string> operators> : Flag<operators>;
/// The tensor becomes a view of what it was, in place; `view` is that view.
class ShapeChange<string view, list<string> operators> : Text<view, operators>;
/// A view as elements of another type; `copy` computes the same as a copy.
class RetypedView<string copy, list<string> operators> : Text<copy, operators>;
/// Writes several operands; `form` returns their new contents instead, behind
/// its other results.
class FunctionalForm<string form, list<string> operators> : Text<form, operators>;

/// Writes a part of its first operand, which the operands behind it say; how the
/// part is saved before and put back (where a launch fails later on). `Rows`:
/// `index_select` and `index_copy_` along a dimension; `Elements`: `gather` and
/// `scatter_`; `Indexed`: `index` and `index_put_`. What reads refuses an index
/// out of range before anything is written.
class PartWrite<string how, list<string> operators> : Choice<how, operators>;

// Sizes.

/// How the sizes of the results follow from those of the operands: a function of
/// dialects/refgraph/Transforms/Size*.cpp, in namespace size_rules. It holds of
/// in-place forms, too.
class SizeRule<string rule, list<string> operators> : Choice<rule, operators>;
/// How the numbers of a view are read from the arguments and the sizes: a
/// function of lib/Conversion/RefGraphToTSSA/AtenViews.cpp.
class ViewRule<string rule, list<string> operators> : Choice<rule, operators>;
/// A view of the whole first operand, or a copy where its memory allows none: it
/// is replaced by `view` of computed sizes.
class WholeView<list<string> operators> : Flag<operators>;
/// The shapes of the results follow from those of the operands, or else a tag of
/// torch's says so. Nothing is known of an operator without this fact: it blocks
/// capture.
class ShapeFollows<list<string> operators> : Flag<operators>;

// Capture: what is recorded whole, what blocks it, whose numbers are lifted.

/// In place, on the CPU, it rounds its number to half precision, and its
/// functional form does not.
class RoundsNumbers<list<string> operators> : Flag<operators>;
/// Of an operator on lists of tensors (`_foreach_maximum`): the operator that is
/// recorded for each of them, where that is none of the name behind `_foreach_`.
class EachTensor<string name, list<string> operators> : Text<name, operators>;
/// Composite, but recorded whole.
class KeptWhole<list<string> operators> : Flag<operators>;
/// Likewise where sizes are lifted: its parts would be given numbers computed
/// from sizes.
class KeptWithSizes<list<string> operators> : Flag<operators>;
/// On a device it is recorded whole, where it draws no random numbers: its parts
/// look at several operands by one tensor on their storage.
class KeptOnDevice<list<string> operators> : Flag<operators>;
/// Of the CPU: its parts are as many as a dimension is long. Recorded whole
/// where that differs between calls.
class KeptWithLengths<list<string> operators> : Flag<operators>;
/// Of one that is recorded whole: one of its parts transposes the weight, its
/// second operand. Autograd comes to that behind the bias.
class TransposesWeight<list<string> operators> : Flag<operators>;
/// The gradients of an operator that is linear in each of its operands: result k
/// is that of operand k + 1, and does not vary with it.
class LinearGradients<list<string> operators> : Flag<operators>;
/// The second result is drawn, whatever the first operand holds.
class DrawsMask<list<string> operators> : Flag<operators>;
/// Of one that is recorded whole: its parts are given views of operands, and
/// autograd saves these views. Of which operands is said by a function of
/// lib/Differentiation/SeenInputs.cpp.
class SavesViews<string rule, list<string> operators>
    : Choice<rule, operators>;
/// Of a composite whose parts are recorded: what sizes the parts are given
/// (python-bindings/capture/tensors/Composites.cpp). `Transparent`: nothing but
/// what the composite was given, and they are the same parts for all sizes other
/// than zero and one.
class PartSizes<string rule, list<string> operators> : Choice<rule, operators>;
/// New sizes are the old ones times factors.
class Resizes<list<string> operators> : Flag<operators>;
/// A composite that hands a list of sizes on to its one part as it was given.
class HandsOnSizes<list<string> operators> : Flag<operators>;
/// A part of composites that is given a list of computed sizes.
class TakesSizesAsPart<list<string> operators> : Flag<operators>;
/// Answers about metadata, which the tensor's guard covers. Any other operator
/// that hands out Python values reads data, which blocks capture.
class AsksMetadata<list<string> operators> : Flag<operators>;
/// Normalises with statistics of the batch, and in training mode updates the
/// running ones, which no schema says: that blocks capture.
class BatchStatistics<list<string> operators> : Flag<operators>;
/// Reads or writes at places that a list of indices or masks gives.
class TakesIndexLists<list<string> operators> : Flag<operators>;
/// Of those: reads, so that masks decide the shape of the result.
class ReadsAtIndices<list<string> operators> : Flag<operators>;
/// Its Python function hands numbers on as they are, and no number decides shape
/// or type of the result.
class TakesNumbers<list<string> operators> : Flag<operators>;
/// Of those: takes Python floats only so; ints may raise.
class TakesFloatsOnly<list<string> operators> : Flag<operators>;
/// Draws random numbers by floats that its Python function hands on as they are.
class TakesFloats<list<string> operators> : Flag<operators>;
/// A composite that gives this argument, a number, to its parts as it was given,
/// and the parts that take it.
class HandsOn<string argument, list<string> operators>
    : Text<argument, operators>;
/// A composite that gives its probability to the parts of dropouts alone.
class HandsOnRate<list<string> operators> : Flag<operators>;
/// Of those: one of the operators of ATen's Dropout.cpp.
class Dropout<list<string> operators> : Flag<operators>;
/// Takes sizes in lists, as its Python function was given them.
class TakesSizes<list<string> operators> : Flag<operators>;
/// Takes single ints on which the shape of the result depends.
class TakesInts<list<string> operators> : Flag<operators>;
/// The Python function that calls it, where that has another name.
class PythonName<string name, list<string> operators> : Text<name, operators>;
/// An instruction of TorchScript that reads tensor data, calls back into Python
/// or does something besides computing.
class StopsScript<list<string> operators> : Flag<operators>;
/// An instruction of TorchScript that computes with Python data and tensors'
/// metadata alone.
class PlainInScript<list<string> operators> : Flag<operators>;
/// An instruction of TorchScript's optimizer around a graph that is run apart,
/// for gradients. The text shows that graph, but not whether it has been fused.
class RunsApartInScript<list<string> operators> : Flag<operators>;

// Gradients.

/// How the gradient reaches the operands, where no expression says it: a
/// function of lib/Differentiation/Rules*.cpp, in namespace gradient_rules.
class GradientRule<string rule, list<string> operators>
    : Choice<rule, operators>;
/// How the expressions or the rule of an overload hold for complex numbers, of
/// which the gradient is the conjugate of PyTorch's ("Autograd for Complex
/// Numbers" in its autograd notes):
///   Linear       as they are: they look at no element
///   Holomorphic  at the conjugates of the operands and results that the
///                expressions read (rules take them themselves)
///   Stated       they tell complex operands from real ones
/// None: calls of complex tensors are not differentiated.
class ComplexGradient<string how, list<string> operators>
    : Choice<how, operators>;

// CUDA graphs.

/// The CUDA implementation copies to or from the host, or waits for the device,
/// although the schema does not show it.
class WaitsForDevice<list<string> operators> : Flag<operators>;
/// Takes a boolean mask for indices, and expands it by its contents.
class ExpandsMasks<list<string> operators> : Flag<operators>;
/// Stops the device where a check fails, and waits for nothing.
class DeviceAssertion<list<string> operators> : Flag<operators>;
/// Of a library of the CPU's.
class OfCPULibrary<list<string> operators> : Flag<operators>;

// Random numbers.

/// Draws nothing where the argument `argument`, a probability, is 0. Not every
/// operator with a probability has such a test: `bernoulli(0.0)` and
/// `native_dropout(x, 0.0)` draw, and throw away what they drew.
class DrawsByProbability<string argument, list<string> operators>
    : Text<argument, operators>;
/// Draws nothing where the argument `argument` is false.
class DrawsByFlag<string argument, list<string> operators>
    : Text<argument, operators>;

// Vendor libraries.

/// The result has the layout of the operands; or the operator takes any layout
/// and states its own. In-place forms: where the functional one does.
class KeepsLayout<list<string> operators> : Flag<operators>;
/// The result is in channels-last layout.
class GivesChannelsLast<list<string> operators> : Flag<operators>;
/// What oneDNN calls it as an activation after a convolution.
class OneDNNActivation<string name, list<string> operators>
    : Text<name, operators>;

#endif
