// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How gradients reach operands: the column of derivatives. The formulas are
// those of PyTorch's tools/autograd/derivatives.yaml; a test compares which
// overloads and operands the two have, and every value with autograd's.

#ifndef PYJIT_OPERATORS_DERIVATIVES_TD
#define PYJIT_OPERATORS_DERIVATIVES_TD

include "OperatorBase.td"

//===----------------------------------------------------------------------===//
// What the nodes call
//===----------------------------------------------------------------------===//

foreach op = [Neg, Abs, Sign, Sqrt, Rsqrt, Reciprocal, Exp, Exp2, Expm1, Log,
              Log2, Log10, Log1p, Sin, Cos, Tan, Asin, Acos, Atan, Sinh, Cosh,
              Tanh, Asinh, Acosh, Atanh, Erf, Erfc, Sigmoid, Maximum, Minimum,
              Floor, Trunc] in
  def : Called<"aten::" # op.Aten, op>;
foreach op = [Eq, Ne, Lt, Le, Gt, Ge] in
  def : Called<"aten::" # op.Aten # ".Tensor", op>;
def : Called<"aten::logical_and", BitAnd>;
def : Called<"aten::logical_or", BitOr>;
def : Called<"aten::logical_not", BitNot>;
def : Called<"aten::isnan", IsNan>;
def : Called<"aten::add.Tensor", Add>;
def : Called<"aten::sub.Tensor", Sub>;
def : Called<"aten::mul.Tensor", Mul>;
def : Called<"aten::div.Tensor", Div>;
def : Called<"aten::pow.Tensor_Scalar", Pow>;
def : Called<"aten::where.self", Select>;

//===----------------------------------------------------------------------===//
// Pointwise, one operand
//===----------------------------------------------------------------------===//

class OfSelf<string name, dag expression>
    : Derivative<"aten::" # name, "self", expression>;
defvar zero = (Call<"aten::zeros_like"> $grad);

foreach name = ["neg", "negative"] in
  def : OfSelf<name, (Neg $grad)>;
foreach name = ["abs", "absolute"] in
  def : OfSelf<name, (IfComplex $self, (Mul $grad, (Call<"aten::sgn"> $self)),
                                       (Mul $grad, (Sign $self)))>;
// Steps: their derivative is zero, and eager says so.
foreach name = ["sign", "floor", "ceil", "trunc", "round", "round.decimals",
                "bernoulli"] in
  def : OfSelf<name, zero>;
def : OfSelf<"frac", (Value $grad)>;
def : OfSelf<"sqrt", (Div $grad, (Mul $result, 2))>;
def : OfSelf<"rsqrt", (Mul (Mul $grad, "-0.5"), (Pow $result, 3))>;
def : OfSelf<"reciprocal", (Mul (Neg $grad), (Mul $result, $result))>;
def : OfSelf<"square", (Mul $grad, (Mul $self, 2))>;
def : OfSelf<"exp", (Mul $grad, $result)>;
def : OfSelf<"exp2", (Mul (Mul $grad, $result), "0.69314718055994530942")>;
def : OfSelf<"expm1", (Mul $grad, (Add $result, 1))>;
def : OfSelf<"log", (Div $grad, $self)>;
def : OfSelf<"log2", (Div $grad, (Mul $self, "0.69314718055994530942"))>;
def : OfSelf<"log10", (Div $grad, (Mul $self, "2.3025850929940456840"))>;
def : OfSelf<"log1p", (Div $grad, (Add $self, 1))>;
def : OfSelf<"sin", (Mul $grad, (Cos $self))>;
def : OfSelf<"cos", (Mul $grad, (Neg (Sin $self)))>;
def : OfSelf<"tan", (Mul $grad, (Add (Mul $result, $result), 1))>;
def : OfSelf<"asin", (Mul $grad, (Rsqrt (Add (Neg (Mul $self, $self)), 1)))>;
def : OfSelf<"acos", (Mul $grad, (Neg (Rsqrt (Add (Neg (Mul $self, $self)), 1))))>;
def : OfSelf<"atan", (Div $grad, (Add (Mul $self, $self), 1))>;
def : OfSelf<"sinh", (Mul $grad, (Cosh $self))>;
def : OfSelf<"cosh", (Mul $grad, (Sinh $self))>;
def : OfSelf<"tanh", (Mul $grad, (Add (Neg (Mul $result, $result)), 1))>;
def : OfSelf<"asinh", (Mul $grad, (Rsqrt (Add (Mul $self, $self), 1)))>;
def : OfSelf<"acosh",
             (Mul $grad, (Rsqrt (Sub (Mul $self, $self), 1)))>;
def : OfSelf<"atanh", (Div $grad, (Add (Neg (Mul $self, $self)), 1))>;
def : OfSelf<"erf", (Mul (Mul (Exp (Neg (Mul $self, $self))),
                              "1.1283791670955125739"), $grad)>;
def : OfSelf<"erfc", (Mul (Mul (Exp (Neg (Mul $self, $self))),
                               "-1.1283791670955125739"), $grad)>;
def : OfSelf<"sigmoid",
             (Mul $grad, (Mul (Add (Neg $result), 1), $result))>;
def : OfSelf<"erfinv", (Let $inverse, (Call<"aten::erfinv"> $self),
  (Mul (Mul (Exp (Mul $inverse, $inverse)), "0.88622692545275801365"), $grad))>;
def : OfSelf<"special_erfcx",
             (Mul (Sub (Mul (Mul $self, 2), $result), "1.1283791670955125739"),
                  $grad)>;
def : OfSelf<"special_ndtri",
             (Mul (Mul $grad, "2.5066282746310002416"),
                  (Exp (Div (Mul $result, $result), 2)))>;
def : OfSelf<"special_log_ndtr",
             (Mul (Div $grad, "2.5066282746310002416"),
                  (Exp (Neg (Add $result, (Div (Mul $self, $self), 2)))))>;
def : OfSelf<"special_entr", (Mul $grad, (Neg (Add (Log $self), 1)))>;
def : OfSelf<"lgamma", (Mul $grad, (Call<"aten::digamma"> $self))>;
def : OfSelf<"digamma", (Mul $grad, (Call<"aten::polygamma"> 1, $self))>;
def : OfSelf<"polygamma",
             (Mul $grad, (Call<"aten::polygamma"> (Add $n, 1), $self))>;
def : OfSelf<"i0", (Mul $grad, (Call<"aten::special_i1"> $self))>;
def : OfSelf<"special_i0e",
  (Mul $grad, (Sub (Call<"aten::special_i1e"> $self), (Mul (Sign $self), $result)))>;
// At nan, too, eager says one half.
def : OfSelf<"special_i1",
  (Let $there, (Gt (Abs $self), 0),
  (Let $safe, (Select $there, $self, 1),
    (Mul $grad, (Select $there, (Sub (Call<"aten::i0"> $safe), (Div $result, $safe)),
                                "0.5"))))>;
def : OfSelf<"special_i1e",
  (Let $there, (Gt (Abs $self), 0),
  (Let $safe, (Select $there, $self, 1),
    (Mul $grad, (Select $there,
                        (Sub (Call<"aten::special_i0e"> $safe),
                             (Mul $result, (Add (Sign $safe), (Reciprocal $safe)))),
                        "0.5"))))>;
def : OfSelf<"sinc",
  (Let $angle, (Mul $self, "3.1415926535897932385"),
  (Let $square, (Mul (Mul $self, $self), "3.1415926535897932385"),
    (Select (Eq $square, 0), 0,
            (Mul $grad, (Div (Sub (Mul $angle, (Cos $angle)), (Sin $angle)),
                             $square)))))>;
def : OfSelf<"logit",
  (IfNone $eps,
    (Select (BitAnd (Ge $self, 0), (Le $self, 1)),
            (Div $grad, (Mul $self, (Sub 1, $self))), "nan"),
    (Select (BitAnd (Ge $self, $eps), (Le $self, (Sub 1, $eps))),
            (Div $grad, (Mul $self, (Sub 1, $self))), 0))>;
def : OfSelf<"nan_to_num", (Mul $grad, (Call<"aten::isfinite"> $self))>;
def : OfSelf<"deg2rad", (Mul $grad, "0.017453292519943295")>;
def : OfSelf<"rad2deg", (Mul $grad, "57.295779513082323")>;

// Activations. At a kink eager takes one side.
def : OfSelf<"relu", (Select (Le $result, 0), 0, $grad)>;
def : OfSelf<"relu6", (Select (BitOr (Le $self, 0), (Ge $self, 6)), 0, $grad)>;
def : OfSelf<"hardtanh",
             (Select (BitOr (Le $self, $min_val), (Ge $self, $max_val)), 0,
                     $grad)>;
defvar ofGelu =
  (IfString $approximate, "tanh",
    (Let $square, (Mul $self, $self),
    (Let $inner, (Mul (Add $self, (Mul (Mul $square, $self), "0.044715")),
                      "0.79788456080286535588"),
    (Let $tanh, (Tanh $inner),
      (Mul $grad,
        (Add (Mul (Add $tanh, 1), "0.5"),
             (Mul (Mul (Mul $self, "0.5"), (Sub 1, (Mul $tanh, $tanh))),
                  (Mul (Add (Mul $square, "0.134145"), 1),
                       "0.79788456080286535588"))))))),
    (Mul $grad,
      (Add (Mul (Add (Erf (Mul $self, "0.70710678118654752440")), 1), "0.5"),
           (Mul $self, (Mul (Exp (Mul (Mul $self, $self), "-0.5")),
                            "0.39894228040143267794")))));
def : OfSelf<"gelu", ofGelu>;
def : OfSelf<"silu",
  (Let $sigmoid, (Sigmoid $self),
    (Mul (Mul $grad, $sigmoid),
         (Add (Mul $self, (Sub 1, $sigmoid)), 1)))>;
def : OfSelf<"mish",
  (Let $sigmoid, (Sigmoid $self),
  (Let $tanh, (Tanh (Log1p (Exp $self))),
    (Mul $grad, (Add $tanh, (Mul (Mul $self, $sigmoid),
                                 (Sub 1, (Mul $tanh, $tanh)))))))>;
// What is not chosen is differentiated all the same, and zero times infinity is
// no number: exponentials are of what is not positive, sigmoids are finite.
defvar negative = (Select (Lt $self, 0), $self, 0);
def : OfSelf<"elu",
  (Select (Le $self, 0),
          (Mul $grad, (Mul (Mul (Mul $input_scale, $alpha), $scale),
                           (Exp (Mul negative, $input_scale)))),
          (Mul $grad, $scale))>;
def : OfSelf<"selu",
  (Select (Le $self, 0),
          (Mul $grad, (Mul (Exp negative), "1.7580993408473768600")),
          (Mul $grad, "1.0507009873554804934"))>;
def : OfSelf<"celu",
  (Select (Le $self, 0), (Mul $grad, (Exp (Mul negative, (Div 1, $alpha)))), $grad)>;
def : OfSelf<"leaky_relu",
  (Select (Gt $self, 0), $grad, (Mul $grad, $negative_slope))>;
defvar ofHardswish =
  (Select (Le $self, -3), 0,
    (Select (Lt $self, 3), (Mul $grad, (Add (Div $self, 3), "0.5")), $grad));
def : OfSelf<"hardswish", ofHardswish>;
// The backward multiplies by a sixth in single precision on every device.
def : OfSelf<"hardsigmoid",
  (Select (BitAnd (Gt $self, -3), (Lt $self, 3)), (Mul $grad, sixth), 0)>;
defvar ofSoftplus =
  (Let $scaled, (Mul $self, $beta),
    (Select (Gt $scaled, $threshold), $grad, (Mul $grad, (Sigmoid $scaled))));
def : OfSelf<"softplus", ofSoftplus>;
def : OfSelf<"threshold", (Select (Le $self, $threshold), 0, $grad)>;
foreach name = ["log_sigmoid", "log_sigmoid_forward"] in
  def : OfSelf<name, (Mul $grad, (Sigmoid (Neg $self)))>;
foreach name = ["hardshrink", "softshrink"] in
  def : OfSelf<name,
    (Select (Le (Abs $self), $lambd), 0, $grad)>;
def : OfSelf<"_prelu_kernel",
             (Select (Gt $self, 0), $grad, (Mul $weight, $grad))>;
def : Derivative<"aten::_prelu_kernel", "weight",
                 (Select (Gt $self, 0), 0, (Mul $self, $grad))>;
def : GradientRule<"ParametricBackward", One<["_prelu_kernel_backward"]>.Of>;

//===----------------------------------------------------------------------===//
// Pointwise, more operands
//===----------------------------------------------------------------------===//

class OfOther<string name, dag expression>
    : Derivative<"aten::" # name, "other", expression>;

// Of integers, and of numbers, there is no gradient.
defvar scaled = (IfNumber $alpha, 1, (Value $grad), (Mul $grad, $alpha));
foreach ov = ["Tensor", "Scalar"] in {
  foreach name = ["add", "sub", "subtract"] in
    def : OfSelf<name # "." # ov, (Value $grad)>;
  def : OfSelf<"rsub." # ov, (Neg scaled)>;
  foreach name = ["mul", "multiply"] in
    def : OfSelf<name # "." # ov, (Mul $grad, $other)>;
  foreach name = ["div", "divide", "true_divide"] in
    def : OfSelf<name # "." # ov, (Div $grad, $other)>;
  foreach name = ["div", "divide"] in
    def : OfSelf<name # "." # ov # "_mode",
                 (IfNone $rounding_mode, (Div $grad, $other), zero)>;
  foreach name = ["remainder", "fmod"] in
    def : OfSelf<name # "." # ov, (Value $grad)>;
}
def : OfOther<"remainder.Tensor",
              (Mul (Neg $grad), (Call<"aten::div.Tensor_mode"> $self, $other, (Word<"floor">)))>;
def : OfOther<"fmod.Tensor", (Mul (Neg $grad), (Trunc (Div $self, $other)))>;
def : OfOther<"add.Tensor", scaled>;
foreach name = ["sub", "subtract"] in
  def : OfOther<name # ".Tensor", (Neg scaled)>;
def : OfOther<"rsub.Tensor", (Value $grad)>;
foreach name = ["mul", "multiply"] in
  def : OfOther<name # ".Tensor", (Mul $grad, $self)>;
defvar ofDivisor = (Mul (Neg $grad), (Div (Div $self, $other), $other));
foreach name = ["div", "divide", "true_divide"] in
  def : OfOther<name # ".Tensor", ofDivisor>;
foreach name = ["div", "divide"] in
  def : OfOther<name # ".Tensor_mode",
                (IfNone $rounding_mode, ofDivisor, zero)>;

def : OfSelf<"pow.Tensor_Scalar",
  (IfNumber $exponent, 0, zero,
    (Mul $grad, (Mul (Pow $self, (Sub $exponent, 1)), $exponent)))>;
def : OfSelf<"pow.Tensor_Tensor",
  (Select (Eq $exponent, 0), 0,
    (Mul $grad, (Mul $exponent,
                     (Call<"aten::pow.Tensor_Tensor"> $self, (Sub $exponent, 1)))))>;
def : Derivative<"aten::pow.Tensor_Tensor", "exponent",
  (Mul $grad, (Select (BitAnd (Eq $self, 0), (Ge $exponent, 0)), 0,
                      (Mul $result, (Log $self))))>;

def : GradientRule<"PowerOfNumber", One<["pow.Scalar"]>.Of>;

// At the origin, zero.
class OfAngle<string operand, dag numerator>
    : Derivative<"aten::atan2", operand,
        (Let $squares, (Add (Mul $self, $self), (Mul $other, $other)),
          (Mul $grad,
               (Mul numerator,
                    (Select (Eq $squares, 0), 0, (Reciprocal $squares)))))>;
def : OfAngle<"self", (Value $other)>;
def : OfAngle<"other", (Neg $self)>;
def : OfSelf<"hypot", (Div (Mul $grad, $self), $result)>;
def : OfOther<"hypot", (Div (Mul $grad, $other), $result)>;
foreach ov = ["Tensor", "Scalar"] in
  def : OfSelf<"copysign." # ov,
               (Mul $grad, (Select (Eq $self, 0), 0, (Div $result, $self)))>;
def : OfOther<"copysign.Tensor", zero>;
def : OfSelf<"logaddexp", (Div $grad, (Add (Exp (Sub $other, $self)), 1))>;
def : OfOther<"logaddexp", (Div $grad, (Add (Exp (Sub $self, $other)), 1))>;
def : OfSelf<"logaddexp2", (Div $grad, (Add (Exp2 (Sub $other, $self)), 1))>;
def : OfOther<"logaddexp2", (Div $grad, (Add (Exp2 (Sub $self, $other)), 1))>;
def : OfSelf<"xlogy.Tensor",
  (Select (BitAnd (Eq $self, 0), (Le $other, 0)), 0,
          (Call<"aten::xlogy.Tensor"> $grad, $other))>;
def : OfOther<"xlogy.Tensor", (Div (Mul $grad, $self), $other)>;
def : OfOther<"xlogy.Scalar_Self", (Div (Mul $grad, $self), $other)>;
def : OfSelf<"xlogy.Scalar_Other",
  (Let $whole, (Call<"aten::xlogy.Scalar_Other"> $grad, $other),
    (Select (BitAnd (Eq $self, 0), (Le (Call<"aten::full_like"> $self, $other), 0)),
            0, $whole))>;
def : OfSelf<"special_xlog1py",
  (Select (BitAnd (Eq $self, 0), (Le $other, -1)), 0,
          (Call<"aten::special_xlog1py"> $grad, $other))>;
def : OfOther<"special_xlog1py", (Div (Mul $grad, $self), (Add $other, 1))>;
def : OfOther<"special_xlog1py.self_scalar",
              (Div (Mul $grad, $self), (Add $other, 1))>;
def : OfSelf<"special_xlog1py.other_scalar",
  (Let $whole, (Call<"aten::special_xlog1py.other_scalar"> $grad, $other),
    (Select (BitAnd (Eq $self, 0), (Le (Call<"aten::full_like"> $self, $other), -1)),
            0, $whole))>;
defvar ofGamma = (Exp (Sub (Sub (Mul (Sub $self, 1), (Log $other)), $other),
                           (Call<"aten::lgamma"> $self)));
def : OfOther<"igamma", (Mul $grad, ofGamma)>;
def : OfOther<"igammac", (Mul (Neg $grad), ofGamma)>;
def : OfOther<"special_zeta",
  (Mul (Mul $grad, (Neg $self)), (Call<"aten::special_zeta"> (Add $self, 1), $other))>;
def : OfSelf<"ldexp.Tensor", (Mul $grad, (Call<"aten::pow.Scalar"> 2, $other))>;
def : OfOther<"ldexp.Tensor",
              (Mul (Mul $grad, $result), "0.69314718055994530942")>;

// Of the greatest that is no nan; the first where they are equal.
multiclass ExtremeNumber<string name, Node wins> {
  def : OfSelf<name, (Select (BitOr (wins $self, $other), (IsNan $other)),
                             $grad, 0)>;
  def : OfOther<name, (Select (BitOr (wins $self, $other), (IsNan $other)),
                              0, $grad)>;
}
defm : ExtremeNumber<"fmax", Ge>;
defm : ExtremeNumber<"fmin", Le>;

// Both get half where they are equal.
multiclass Extreme<string name, Node loses> {
  def : OfSelf<name, (Select (loses $self, $other), 0,
                             (Select (Eq $self, $other), (Div $grad, 2), $grad))>;
  def : OfOther<name, (Select (loses $other, $self), 0,
                              (Select (Eq $self, $other), (Div $grad, 2), $grad))>;
}
defm : Extreme<"maximum", Lt>;
defm : Extreme<"minimum", Gt>;
def : OfSelf<"clamp",
  (IfNone $min, (Select (Le $self, $max), $grad, 0),
  (IfNone $max, (Select (Ge $self, $min), $grad, 0),
    (Select (BitAnd (Ge $self, $min), (Le $self, $max)), $grad, 0)))>;
def : OfSelf<"clamp_min", (Select (Ge $self, $min), $grad, 0)>;
def : OfSelf<"clamp_max", (Select (Le $self, $max), $grad, 0)>;

def : OfSelf<"clamp.Tensor",
  (IfNone $min, (Select (Le $self, $max), $grad, 0),
  (IfNone $max, (Select (Ge $self, $min), $grad, 0),
    (Select (BitAnd (Ge $self, $min), (Le $self, $max)), $grad, 0)))>;
def : Derivative<"aten::clamp.Tensor", "min",
  (IfNone $max, (Select (Lt $self, $min), $grad, 0),
    (Select (BitAnd (Lt $min, $max), (Lt $self, $min)), $grad, 0))>;
def : Derivative<"aten::clamp.Tensor", "max",
  (IfNone $min, (Select (Gt $self, $max), $grad, 0),
    (Select (BitOr (Gt $self, $max), (Lt $max, $min)), $grad, 0))>;
def : OfSelf<"clamp_min.Tensor", (Select (Ge $self, $min), $grad, 0)>;
def : Derivative<"aten::clamp_min.Tensor", "min",
                 (Select (Lt $self, $min), $grad, 0)>;
def : OfSelf<"clamp_max.Tensor", (Select (Le $self, $max), $grad, 0)>;
def : Derivative<"aten::clamp_max.Tensor", "max",
                 (Select (Gt $self, $max), $grad, 0)>;

foreach ov = ["self", "ScalarOther"] in
  def : OfSelf<"where." # ov, (Select $condition, $grad, 0)>;
foreach ov = ["self", "ScalarSelf"] in
  def : OfOther<"where." # ov, (Select $condition, 0, $grad)>;
foreach ov = ["Tensor", "Scalar"] in
  def : OfSelf<"masked_fill." # ov, (Select $mask, 0, $grad)>;
def : Derivative<"aten::masked_fill.Tensor", "value", (Select $mask, $grad, 0)>;

def : OfSelf<"addcmul", (Value $grad)>;
def : Derivative<"aten::addcmul", "tensor1", (Mul $grad, (Mul $tensor2, $value))>;
def : Derivative<"aten::addcmul", "tensor2", (Mul $grad, (Mul $tensor1, $value))>;
def : OfSelf<"addcdiv", (Value $grad)>;
def : Derivative<"aten::addcdiv", "tensor1", (Mul $grad, (Div $value, $tensor2))>;
def : Derivative<"aten::addcdiv", "tensor2",
  (Mul (Neg $grad), (Div (Mul $tensor1, $value), (Mul $tensor2, $tensor2)))>;
foreach ov = ["Scalar", "Tensor"] in {
  def : OfSelf<"lerp." # ov, (Mul $grad, (Sub 1, $weight))>;
  def : Derivative<"aten::lerp." # ov, "end", (Mul $grad, $weight)>;
}
def : Derivative<"aten::lerp.Tensor", "weight", (Mul $grad, (Sub $end, $self))>;

//===----------------------------------------------------------------------===//
// Copies, constants
//===----------------------------------------------------------------------===//

foreach name = ["clone", "_to_copy", "contiguous", "to.dtype", "to.dtype_layout",
                "to.other", "to.device", "type_as"] in
  def : OfSelf<name, (Value $grad)>;
def : Derivative<"pyjit::written", "self", (Value $grad)>;
def : Derivative<"pyjit::unwritten", "self", (Value $grad)>;
def : Derivative<"pyjit::seen", "self", (Value $grad)>;
def : Derivative<"aten::copy", "src", (Value $grad)>;
def : Derivative<"aten::fill.Tensor", "value", (Value $grad)>;
foreach name = ["copy", "fill.Tensor", "fill.Scalar", "zero"] in
  def : OfSelf<name, zero>;
foreach name = ["tril", "triu"] in
  def : OfSelf<name, (Call<"aten::" # name> $grad, $diagonal)>;

//===----------------------------------------------------------------------===//
// Softmax
//===----------------------------------------------------------------------===//

foreach name = ["softmax.int", "_softmax", "_safe_softmax"] in
  def : OfSelf<name,
    (Let $product, (Mul $grad, $result),
      (Sub $product,
           (Mul $result, (Call<"aten::sum.dim_IntList"> $product, $dim, 1))))>;
foreach name = ["log_softmax.int", "_log_softmax"] in
  def : OfSelf<name,
    (Sub $grad,
         (Mul (Exp $result), (Call<"aten::sum.dim_IntList"> $grad, $dim, 1)))>;

//===----------------------------------------------------------------------===//
// Overloads that compute gradients themselves, and what they are linear in
//===----------------------------------------------------------------------===//

class OfGradient<string name, dag expression>
    : Derivative<"aten::" # name, "grad_output", expression>;
class OfOutput<string name, dag expression>
    : Derivative<"aten::" # name, "output", expression>;

// Of piecewise linear functions: by what decides between the pieces, eager has
// zeros.
def : OfGradient<"threshold_backward", (Select (Le $self, $threshold), 0, $grad)>;
def : OfGradient<"hardtanh_backward",
  (Select (BitOr (Le $self, $min_val), (Ge $self, $max_val)), 0, $grad)>;
def : OfGradient<"leaky_relu_backward",
  (Select (Gt $self, 0), $grad, (Mul $grad, $negative_slope))>;
def : OfGradient<"softshrink_backward", (Select (Le (Abs $self), $lambd), 0, $grad)>;
def : Derivative<"aten::hardshrink_backward", "grad_out",
  (Select (Le (Abs $self), $lambd), 0, $grad)>;
foreach name = ["threshold", "hardtanh", "leaky_relu", "softshrink", "hardshrink"] in
  def : OfSelf<name # "_backward", zero>;
def : OfGradient<"native_dropout_backward", (Mul $grad, (Mul $mask, $scale))>;

// Of smooth ones.
def : OfGradient<"sigmoid_backward", (Mul $grad, (Mul (Sub 1, $output), $output))>;
def : OfOutput<"sigmoid_backward",
  (Mul (Mul $grad, $grad_output), (Sub 1, (Mul $output, 2)))>;
def : OfGradient<"tanh_backward", (Mul $grad, (Sub 1, (Mul $output, $output)))>;
def : OfOutput<"tanh_backward", (Mul $grad, (Mul (Mul $output, $grad_output), -2))>;
def : OfGradient<"log_sigmoid_backward", (Mul $grad, (Sigmoid (Neg $self)))>;
def : OfSelf<"log_sigmoid_backward",
  (Let $sigmoid, (Sigmoid $self),
    (Mul (Mul $grad, $grad_output), (Mul (Sub $sigmoid, 1), $sigmoid)))>;
def : OfGradient<"hardswish_backward", ofHardswish>;
def : OfSelf<"hardswish_backward",
  (Select (BitAnd (Gt $self, -3), (Lt $self, 3)),
          (Div (Mul $grad, $grad_output), 3), 0)>;
def : OfGradient<"softplus_backward", ofSoftplus>;
def : OfSelf<"softplus_backward",
  (Let $scaled, (Mul $self, $beta),
  (Let $sigmoid, (Sigmoid $scaled),
    (Mul (Mul (Mul $grad, $grad_output), (Mul (Sub 1, $sigmoid), $sigmoid)),
         (Mul (Lt $scaled, $threshold), $beta))))>;
defvar negativePart = (Mul (Mul (Mul $input_scale, $alpha), $scale),
  (Exp (Mul (Select (Lt $self_or_result, 0), $self_or_result, 0), $input_scale)));
def : OfGradient<"elu_backward",
  (Select (Gt $self_or_result, 0), (Mul $grad, $scale),
    (IfTrue $is_result,
      (Mul $grad, (Mul (Add $self_or_result, (Mul $alpha, $scale)), $input_scale)),
      (Mul $grad, negativePart)))>;
def : Derivative<"aten::elu_backward", "self_or_result",
  (Let $product, (Mul (Mul $grad, $grad_output), $input_scale),
    (Select (Lt $self_or_result, 0),
            (IfTrue $is_result, (Value $product), (Mul $product, negativePart)), 0))>;
def : OfGradient<"gelu_backward", ofGelu>;
// With tanh: f = x / 2, g = 1 - tanh(u)^2, h = du/dx; 2 f' g h + f g' h + f g h'.
def : OfSelf<"gelu_backward",
  (IfString $approximate, "tanh",
    (Let $square, (Mul $self, $self),
    (Let $tanh, (Tanh (Mul (Add $self, (Mul (Mul $square, $self), "0.044715")),
                           "0.79788456080286535588")),
    (Let $slope, (Mul (Add (Mul $square, "0.134145"), 1), "0.79788456080286535588"),
    (Let $rest, (Sub 1, (Mul $tanh, $tanh)),
      (Mul (Mul (Mul $grad, $grad_output), $rest),
           (Add (Sub $slope, (Mul (Mul $self, $tanh), (Mul $slope, $slope))),
                (Mul $square, "0.10703222440890037"))))))),
    (Mul (Mul $grad, $grad_output),
         (Mul (Mul (Exp (Mul (Mul $self, $self), "-0.5")),
                   "0.39894228040143267794"),
              (Sub 2, (Mul $self, $self)))))>;

def : OfGradient<"_softmax_backward_data",
  (Let $product, (Mul $grad, $output),
    (Sub $product,
         (Mul $output, (Call<"aten::sum.dim_IntList"> $product, $dim, 1))))>;
def : OfOutput<"_softmax_backward_data",
  (Sub (Mul $grad, (Sub $grad_output,
                        (Call<"aten::sum.dim_IntList"> (Mul $grad_output, $output), $dim, 1))),
       (Mul $grad_output,
            (Call<"aten::sum.dim_IntList"> (Mul $grad, $output), $dim, 1)))>;
def : OfGradient<"_log_softmax_backward_data",
  (Sub $grad,
       (Call<"aten::sum.dim_IntList"> (Mul $grad, (Exp $output)), $dim, 1))>;
def : OfOutput<"_log_softmax_backward_data",
  (Mul (Mul (Neg (Call<"aten::sum.dim_IntList"> $grad_output, $dim, 1)),
            (Exp $output)), $grad)>;

// Of what shows a part.
def : OfGradient<"slice_backward",
  (Backward<"aten::slice_copy.Tensor"> $grad, $dim, $start, $end, $step)>;
def : OfGradient<"select_backward",
  (Backward<"aten::select_copy.int"> $grad, $dim, $index)>;
def : OfGradient<"diagonal_backward",
  (Backward<"aten::diagonal_copy"> $grad, $offset, $dim1, $dim2)>;
def : Derivative<"aten::unfold_backward", "grad_in",
  (Backward<"aten::unfold_copy"> $grad, $dim, $size, $step)>;
def : OfGradient<"masked_scatter_backward",
  (Backward<"aten::masked_scatter"> (Call<"aten::zeros_like"> $grad_output), $mask, $grad)>;

foreach n = [1, 2, 3] in
  foreach kind = ["reflection_pad", "replication_pad"] in {
    defvar name = kind # n # "d";
    def : OfSelf<name, (Backward<"aten::" # name # "_backward">
                         $grad, $self, $padding)>;
    def : OfGradient<name # "_backward",
                     (Backward<"aten::" # name> $grad, $padding)>;
  }

// Resized images.
foreach name = ["upsample_nearest1d", "_upsample_nearest_exact1d"] in {
  def : OfSelf<name, (Backward<"aten::" # name # "_backward">
    $grad, $output_size, (Sizes $self), $scales)>;
  def : OfGradient<name # "_backward",
                   (Backward<"aten::" # name> $grad, $output_size, $scales)>;
}
foreach name = ["upsample_nearest2d", "_upsample_nearest_exact2d"] in {
  def : OfSelf<name, (Backward<"aten::" # name # "_backward">
    $grad, $output_size, (Sizes $self), $scales_h, $scales_w)>;
  def : OfGradient<name # "_backward",
                   (Backward<"aten::" # name> $grad, $output_size, $scales_h, $scales_w)>;
}
foreach name = ["upsample_nearest3d", "_upsample_nearest_exact3d"] in {
  def : OfSelf<name, (Backward<"aten::" # name # "_backward">
    $grad, $output_size, (Sizes $self), $scales_d, $scales_h, $scales_w)>;
  def : OfGradient<name # "_backward",
                   (Backward<"aten::" # name> $grad, $output_size, $scales_d, $scales_h, $scales_w)>;
}
foreach name = ["upsample_linear1d"] in {
  def : OfSelf<name, (Backward<"aten::" # name # "_backward">
    $grad, $output_size, (Sizes $self), $align_corners, $scales)>;
  def : OfGradient<name # "_backward",
                   (Backward<"aten::" # name> $grad, $output_size, $align_corners, $scales)>;
}
foreach name = ["upsample_bilinear2d", "upsample_bicubic2d", "_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa"] in {
  def : OfSelf<name, (Backward<"aten::" # name # "_backward">
    $grad, $output_size, (Sizes $self), $align_corners, $scales_h, $scales_w)>;
  def : OfGradient<name # "_backward",
                   (Backward<"aten::" # name> $grad, $output_size, $align_corners, $scales_h, $scales_w)>;
}
foreach name = ["upsample_trilinear3d"] in {
  def : OfSelf<name, (Backward<"aten::" # name # "_backward">
    $grad, $output_size, (Sizes $self), $align_corners, $scales_d, $scales_h, $scales_w)>;
  def : OfGradient<name # "_backward",
                   (Backward<"aten::" # name> $grad, $output_size, $align_corners, $scales_d, $scales_h, $scales_w)>;
}

foreach name = ["avg_pool2d", "avg_pool3d"] in {
  def : OfSelf<name,
    (Backward<"aten::" # name # "_backward">
      $grad, $self, $kernel_size, $stride, $padding, $ceil_mode,
      $count_include_pad, $divisor_override)>;
  def : OfGradient<name # "_backward",
    (Backward<"aten::" # name>
      $grad, $kernel_size, $stride, $padding, $ceil_mode, $count_include_pad,
      $divisor_override)>;
}
foreach n = [2, 3] in {
  defvar name = "_adaptive_avg_pool" # n # "d";
  def : OfSelf<name, (Backward<"aten::" # name # "_backward"> $grad, $self)>;
  def : OfGradient<name # "_backward",
                   (Backward<"aten::" # name> $grad, (LastSizes $grad_output, n))>;
  def : OfSelf<"adaptive_max_pool" # n # "d",
    (Backward<"aten::adaptive_max_pool" # n # "d_backward">
      $grad, $self, $result1)>;
  def : OfSelf<"max_pool" # n # "d_with_indices",
    (Backward<"aten::max_pool" # n # "d_with_indices_backward">
      $grad, $self, $kernel_size, $stride, $padding, $dilation, $ceil_mode,
      $result1)>;
}
foreach n = [2, 3] in
  def : OfSelf<"fractional_max_pool" # n # "d",
    (Backward<"aten::fractional_max_pool" # n # "d_backward">
      $grad, $self, $kernel_size, $output_size, $result1)>;
def : OfSelf<"frexp.Tensor", (Div $grad, (Exp2 $result1))>;
def : GradientRule<"PooledPlaces",
                   One<["max_pool2d_with_indices_backward",
                        "max_pool3d_with_indices_backward",
                        "adaptive_max_pool2d_backward",
                        "adaptive_max_pool3d_backward",
                        "fractional_max_pool2d_backward",
                        "fractional_max_pool3d_backward", "max_unpool2d",
                        "max_unpool3d"]>.Of>;

// Of what the forward call was given they ask for the sizes alone. Eager gives
// it zeros: a parameter whose gradient is zero is not one without.
foreach name = ["reflection_pad1d", "reflection_pad2d", "reflection_pad3d",
                "replication_pad1d", "replication_pad2d", "replication_pad3d",
                "avg_pool2d", "avg_pool3d", "_adaptive_avg_pool2d",
                "_adaptive_avg_pool3d"] in {
  def : Overwrites<1, ["aten::" # name # "_backward"]>;
  def : OfSelf<name # "_backward", zero>;
}

// Pieces of images, and images of pieces.
def : OfSelf<"im2col", (Backward<"aten::col2im"> $grad, (LastSizes $self, 2),
                         $kernel_size, $dilation, $padding, $stride)>;
def : OfSelf<"col2im", (Backward<"aten::im2col"> $grad, $kernel_size, $dilation,
                         $padding, $stride)>;
def : OfSelf<"pixel_shuffle",
             (Backward<"aten::pixel_unshuffle"> $grad, $upscale_factor)>;
def : OfSelf<"pixel_unshuffle",
             (Backward<"aten::pixel_shuffle"> $grad, $downscale_factor)>;

def : OfSelf<"multi_margin_loss",
  (Backward<"aten::multi_margin_loss_backward">
    $grad, $self, $target, $p, $margin, $weight, $reduction)>;
def : OfSelf<"multilabel_margin_loss_forward",
  (Backward<"aten::multilabel_margin_loss_backward">
    $grad, $self, $target, $reduction, $result1)>;
def : OfSelf<"_pdist_forward",
             (Backward<"aten::_pdist_backward"> $grad, $self, $p, $result)>;
def : OfSelf<"take", (Backward<"aten::put"> (Call<"aten::zeros_like"> $self),
                       $index, $grad, 1)>;
def : OfSelf<"linalg_cross", (Call<"aten::linalg_cross"> $other, $grad, $dim)>;
def : OfOther<"linalg_cross", (Call<"aten::linalg_cross"> $grad, $self, $dim)>;

def : Derivative<"aten::affine_grid_generator", "theta",
  (Backward<"aten::affine_grid_generator_backward"> $grad, $size, $align_corners)>;
def : Derivative<"aten::affine_grid_generator_backward", "grad",
  (Backward<"aten::affine_grid_generator"> $grad, $size, $align_corners)>;

// Copies with a part replaced. (as_strided_scatter is told by strides: it stays
// eager's.)
def : OfSelf<"slice_scatter", (Backward<"aten::slice_scatter">
  $grad, (Call<"aten::zeros_like"> $src), $dim, $start, $end, $step)>;
def : Derivative<"aten::slice_scatter", "src",
  (Backward<"aten::slice_copy.Tensor"> $grad, $dim, $start, $end, $step)>;
def : OfSelf<"slice_copy.Tensor", (Backward<"aten::slice_backward">
  $grad, (Sizes $self), $dim, (IfNone $start, 0, $start),
  (IfNone $end, 9007199254740992, $end), $step)>;
def : OfSelf<"select_scatter", (Backward<"aten::select_scatter">
  $grad, (Call<"aten::zeros_like"> $src), $dim, $index)>;
def : Derivative<"aten::select_scatter", "src",
  (Backward<"aten::select_copy.int"> $grad, $dim, $index)>;
def : OfSelf<"select_copy.int", (Backward<"aten::select_backward">
  $grad, (Sizes $self), $dim, $index)>;
def : OfSelf<"diagonal_scatter", (Backward<"aten::diagonal_scatter">
  $grad, (Call<"aten::zeros_like"> $src), $offset, $dim1, $dim2)>;
def : Derivative<"aten::diagonal_scatter", "src",
  (Backward<"aten::diagonal_copy"> $grad, $offset, $dim1, $dim2)>;

class Trilinear<string operand, dag expression>
    : Derivative<"aten::_trilinear", operand, expression>;
def : Trilinear<"i1", (Backward<"aten::_trilinear">
  $grad, $i2, $i3, $sumdim, $expand2, $expand3, $expand1, $unroll_dim)>;
def : Trilinear<"i2", (Backward<"aten::_trilinear">
  $i1, $grad, $i3, $expand1, $sumdim, $expand3, $expand2, $unroll_dim)>;
def : Trilinear<"i3", (Backward<"aten::_trilinear">
  $i1, $i2, $grad, $expand1, $expand2, $sumdim, $expand3, $unroll_dim)>;

//===----------------------------------------------------------------------===//
// Complex numbers
//===----------------------------------------------------------------------===//

def : OfSelf<"_conj_physical", (Call<"aten::_conj_physical"> $grad)>;
def : GradientRule<"Direction", One<["sgn"]>.Of>;
def : GradientRule<"Angle", One<["angle"]>.Of>;
def : GradientRule<"OfParts", One<["complex"]>.Of>;
def : GradientRule<"Polar", One<["polar"]>.Of>;
def : GradientRule<"ViewAsReal", One<["view_as_real", "view_as_real_copy"]>.Of>;
def : GradientRule<"ViewAsComplex",
                   One<["view_as_complex", "view_as_complex_copy"]>.Of>;
def : GradientRule<"FourierTransform", One<["_fft_c2c"]>.Of>;
def : GradientRule<"FourierOfReal", One<["_fft_r2c"]>.Of>;
def : GradientRule<"FourierToReal", One<["_fft_c2r"]>.Of>;

def : ComplexGradient<"Stated",
  One<["_conj_physical", "_fft_c2c", "_fft_c2r", "_fft_r2c", "abs",
       "absolute", "addbmm", "addmm", "addmv", "angle", "baddbmm", "bmm",
       "complex", "dot", "linalg_vector_norm", "linear",
       "matmul", "mm", "mv", "norm.Scalar", "norm.ScalarOpt_dim", "polar",
       "sgn", "view_as_complex", "view_as_complex_copy", "view_as_real",
       "view_as_real_copy"]>.Of>;
def : ComplexGradient<"Holomorphic",
  One<["cos", "cosh", "exp", "expm1", "log", "log10", "log1p", "log2",
       "pow.Tensor_Scalar", "reciprocal", "rsqrt", "sigmoid", "sin", "sinh",
       "sqrt", "square", "tan", "tanh"]>.Of
  # All<["add", "addcdiv", "addcmul", "div", "divide", "mul", "multiply", "neg",
         "negative", "rsub", "sub", "subtract", "true_divide"]>.Of>;
def : ComplexGradient<"Linear",
  All<["_to_copy", "cat", "clone", "concat", "constant_pad_nd", "contiguous",
       "copy", "cumsum", "diag_embed", "diagonal_copy", "diagonal_scatter",
       "fill", "flip", "gather", "index", "index_add", "index_copy",
       "index_fill", "index_put", "index_select", "masked_fill",
       "masked_scatter", "mean", "repeat", "roll", "rot90", "scatter",
       "scatter_add", "select_copy", "select_scatter", "slice_copy",
       "slice_scatter", "stack", "sum", "to", "trace", "tril", "triu",
       "type_as", "where", "zero"]>.Of
  # ["pyjit::seen", "pyjit::unwritten", "pyjit::written"]>;

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

def : GradientRule<"Sum", One<["sum", "sum.dim_IntList"]>.Of>;
def : GradientRule<"Mean", One<["mean", "mean.dim"]>.Of>;
def : GradientRule<"AdaptiveAverage", One<["adaptive_avg_pool2d",
                                           "adaptive_avg_pool3d"]>.Of>;
def : GradientRule<"Extreme", One<["amax", "amin"]>.Of>;
def : GradientRule<"Chosen", One<["max", "min", "median", "nanmedian"]>.Of>;
def : GradientRule<"ChosenAt", One<["max.dim", "min.dim", "median.dim",
                                    "nanmedian.dim", "mode", "kthvalue",
                                    "sort", "sort.stable", "topk"]>.Of>;
def : GradientRule<"LogSumExp", One<["logsumexp"]>.Of>;
def : GradientRule<"Variance", One<["var.correction", "std.correction",
                                    "var_mean.correction",
                                    "std_mean.correction"]>.Of>;
def : GradientRule<"VectorNorm",
                   One<["linalg_vector_norm", "norm.Scalar", "norm.ScalarOpt_dim",
                        "norm.ScalarOpt_dtype", "norm.ScalarOpt_dim_dtype"]>.Of>;
def : GradientRule<"Distance", One<["dist"]>.Of>;
def : GradientRule<"SumOfNumbers", One<["nansum"]>.Of>;
def : GradientRule<"Product", One<["prod", "prod.dim_int"]>.Of>;
def : GradientRule<"CumulativeSum", One<["cumsum"]>.Of>;
def : GradientRule<"CumulativeProduct", One<["cumprod"]>.Of>;
def : GradientRule<"CumulativeLogSumExp", One<["logcumsumexp"]>.Of>;
def : GradientRule<"CumulativeExtreme", One<["cummax", "cummin"]>.Of>;

//===----------------------------------------------------------------------===//
// Products, joins
//===----------------------------------------------------------------------===//

def : GradientRule<"Linear", One<["linear"]>.Of>;
def : GradientRule<"MatrixProduct", One<["mm", "bmm", "matmul", "mv", "dot",
                                         "vdot"]>.Of>;
def : GradientRule<"GroupedProduct", One<["_grouped_mm"]>.Of>;
def : GradientRule<"AddMatrixProduct", One<["addmm", "baddbmm", "addmv"]>.Of>;
def : GradientRule<"AddSumOfProducts", One<["addbmm"]>.Of>;
def : GradientRule<"AddOuterProduct", One<["addr"]>.Of>;
def : GradientRule<"Distances", One<["_cdist_forward"]>.Of>;
def : GradientRule<"EuclideanDistances", One<["_euclidean_dist"]>.Of>;
def : GradientRule<"InverseMatrix", One<["linalg_inv", "linalg_inv_ex",
                                         "inverse"]>.Of>;
def : GradientRule<"Solution", One<["linalg_solve"]>.Of>;
def : GradientRule<"TriangularSolution", One<["linalg_solve_triangular"]>.Of>;
def : GradientRule<"Cholesky", One<["linalg_cholesky", "linalg_cholesky_ex",
                                    "cholesky"]>.Of>;
def : GradientRule<"CholeskySolution", One<["cholesky_solve"]>.Of>;
def : GradientRule<"CholeskyInverse", One<["cholesky_inverse"]>.Of>;
def : GradientRule<"Eigenvectors", One<["_linalg_eigh"]>.Of>;
def : GradientRule<"SingularValues", One<["_linalg_svd"]>.Of>;
def : GradientRule<"OrthogonalFactor", One<["linalg_qr"]>.Of>;
def : GradientRule<"Factors", One<["linalg_lu_factor", "linalg_lu_factor_ex"]>.Of>;
def : GradientRule<"SeparateFactors", One<["linalg_lu"]>.Of>;
def : GradientRule<"UnpackedFactors", One<["lu_unpack"]>.Of>;
def : GradientRule<"SolutionOfFactors", One<["linalg_lu_solve"]>.Of>;
def : GradientRule<"Determinant", One<["_linalg_det"]>.Of>;
def : GradientRule<"LogDeterminant", One<["_linalg_slogdet"]>.Of>;
def : GradientRule<"MatrixExponential", One<["linalg_matrix_exp"]>.Of>;
def : GradientRule<"PseudoInverse", One<["linalg_pinv.atol_rtol_tensor"]>.Of>;
def : GradientRule<"BlockDiagonal", One<["block_diag"]>.Of>;
def : GradientRule<"Concatenation", One<["cat", "concat"]>.Of>;
def : GradientRule<"Stack", One<["stack"]>.Of>;
def : GradientRule<"Repeat", One<["repeat"]>.Of>;
def : GradientRule<"Pad", One<["constant_pad_nd"]>.Of>;
def : GradientRule<"Flip", One<["flip"]>.Of>;
def : GradientRule<"Roll", One<["roll"]>.Of>;
def : GradientRule<"Rotation", One<["rot90"]>.Of>;
def : GradientRule<"ChannelShuffle", One<["channel_shuffle"]>.Of>;
def : GradientRule<"Diagonal", One<["diagonal_copy", "trace"]>.Of>;
def : GradientRule<"DiagonalMatrix", One<["diag_embed"]>.Of>;
def : GradientRule<"Gated", One<["glu"]>.Of>;
def : GradientRule<"GatedBackward", One<["glu_backward"]>.Of>;

//===----------------------------------------------------------------------===//
// Indexed reads
//===----------------------------------------------------------------------===//

def : GradientRule<"Embedding", One<["embedding"]>.Of>;
def : GradientRule<"Gather", One<["gather"]>.Of>;
def : GradientRule<"IndexSelect", One<["index_select"]>.Of>;
def : GradientRule<"Index", One<["index.Tensor"]>.Of>;
def : GradientRule<"EmbeddingBackward", One<["embedding_dense_backward"]>.Of>;
def : GradientRule<"EmbeddingBag", One<["_embedding_bag"]>.Of>;

//===----------------------------------------------------------------------===//
// Indexed writes
//===----------------------------------------------------------------------===//

def : GradientRule<"Scatter", One<["scatter.src", "scatter.value"]>.Of>;
def : GradientRule<"ScatterAdd", One<["scatter_add"]>.Of>;
def : GradientRule<"ScatterReduce", One<["scatter_reduce.two"]>.Of>;
def : GradientRule<"IndexAdd", One<["index_add"]>.Of>;
def : GradientRule<"IndexCopy", One<["index_copy"]>.Of>;
def : GradientRule<"IndexFill", One<["index_fill.int_Scalar",
                                     "index_fill.int_Tensor"]>.Of>;
def : GradientRule<"IndexPut", One<["index_put"]>.Of>;
def : GradientRule<"Put", One<["put"]>.Of>;
def : GradientRule<"MaskedScatter", One<["masked_scatter"]>.Of>;

//===----------------------------------------------------------------------===//
// Layers
//===----------------------------------------------------------------------===//

def : GradientRule<"LayerNorm", One<["layer_norm", "native_layer_norm"]>.Of>;
def : GradientRule<"LayerNormBackward", One<["native_layer_norm_backward"]>.Of>;
def : GradientRule<"GroupNorm", One<["group_norm", "native_group_norm"]>.Of>;
def : GradientRule<"RmsNorm", One<["rms_norm", "_fused_rms_norm"]>.Of>;
def : GradientRule<"WeightNorm", One<["_weight_norm_interface"]>.Of>;
def : GradientRule<"BatchNorm", One<["batch_norm", "native_batch_norm"]>.Of>;
def : GradientRule<"BatchNormBackward", One<["native_batch_norm_backward"]>.Of>;
def : GradientRule<"BatchNormTraining",
                   One<["_native_batch_norm_legit",
                        "_native_batch_norm_legit.no_stats",
                        "_native_batch_norm_legit_functional"]>.Of>;
def : GradientRule<"Convolution", One<["conv1d", "conv2d", "conv3d"]>.Of>;
def : GradientRule<"GeneralConvolution", One<["convolution", "_convolution"]>.Of>;
def : GradientRule<"ConvolutionBackward", One<["convolution_backward"]>.Of>;
def : LinearGradients<One<["convolution_backward"]>.Of>;
def : GradientRule<"MaxPool", One<["max_pool2d"]>.Of>;
def : GradientRule<"GridSampler", One<["grid_sampler_2d", "grid_sampler_3d"]>.Of>;
def : GradientRule<"RnnLayer", One<["mkldnn_rnn_layer"]>.Of>;
def : GradientRule<"Recurrence", One<["lstm.input", "gru.input",
                                      "rnn_tanh.input", "rnn_relu.input"]>.Of>;
def : GradientRule<"HostRecurrence", ["pyjit::host_recurrence"]>;
def : GradientRule<"HostRecurrenceBackward", ["pyjit::host_recurrence_backward"]>;
def : GradientRule<"LSTMCell", One<["_thnn_fused_lstm_cell"]>.Of>;
def : GradientRule<"GRUCell", One<["_thnn_fused_gru_cell"]>.Of>;
def : GradientRule<"Dropout", One<["native_dropout"]>.Of>;
def : DrawsMask<One<["native_dropout"]>.Of>;
def : GradientRule<"Attention", One<["scaled_dot_product_attention"]>.Of>;
def : GradientRule<"Loss", One<["mse_loss", "l1_loss", "smooth_l1_loss",
                                "huber_loss"]>.Of>;
def : GradientRule<"LossBackward", One<["mse_loss_backward",
                                        "smooth_l1_loss_backward",
                                        "huber_loss_backward"]>.Of>;
def : GradientRule<"SoftMargin", One<["soft_margin_loss"]>.Of>;
def : GradientRule<"SoftMarginBackward", One<["soft_margin_loss_backward"]>.Of>;
def : GradientRule<"CrossEntropy", One<["binary_cross_entropy"]>.Of>;
def : GradientRule<"CrossEntropyBackward",
                   One<["binary_cross_entropy_backward"]>.Of>;
def : GradientRule<"CrossEntropyOfLogits",
                   One<["binary_cross_entropy_with_logits"]>.Of>;
def : GradientRule<"ClassLoss", One<["nll_loss_forward", "nll_loss2d_forward"]>.Of>;
def : GradientRule<"ClassLossBackward", One<["nll_loss_backward",
                                             "nll_loss2d_backward"]>.Of>;

#endif
