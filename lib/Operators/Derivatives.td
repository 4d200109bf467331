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
  def : OfSelf<name, (Mul $grad, (Sign $self))>;
// Steps: their derivative is zero, and eager says so.
foreach name = ["sign", "floor", "ceil", "trunc", "round"] in
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
def : OfSelf<"deg2rad", (Mul $grad, "0.017453292519943295")>;
def : OfSelf<"rad2deg", (Mul $grad, "57.295779513082323")>;

// Activations. At a kink eager takes one side.
def : OfSelf<"relu", (Select (Le $result, 0), 0, $grad)>;
def : OfSelf<"relu6", (Select (BitOr (Le $self, 0), (Ge $self, 6)), 0, $grad)>;
def : OfSelf<"hardtanh",
             (Select (BitOr (Le $self, $min_val), (Ge $self, $max_val)), 0,
                     $grad)>;
def : OfSelf<"gelu",
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
                            "0.39894228040143267794")))))>;
def : OfSelf<"silu",
  (Let $sigmoid, (Sigmoid $self),
    (Mul (Mul $grad, $sigmoid),
         (Add (Mul $self, (Sub 1, $sigmoid)), 1)))>;
def : OfSelf<"mish",
  (Let $sigmoid, (Sigmoid $self),
  (Let $tanh, (Tanh (Log1p (Exp $self))),
    (Mul $grad, (Add $tanh, (Mul (Mul $self, $sigmoid),
                                 (Sub 1, (Mul $tanh, $tanh)))))))>;
def : OfSelf<"elu",
  (Select (Le $self, 0),
          (Mul $grad, (Mul (Mul (Mul $input_scale, $alpha), $scale),
                           (Exp (Mul $self, $input_scale)))),
          (Mul $grad, $scale))>;
def : OfSelf<"selu",
  (Select (Le $self, 0),
          (Mul $grad, (Mul (Exp $self), "1.7580993408473768600")),
          (Mul $grad, "1.0507009873554804934"))>;
def : OfSelf<"celu",
  (Select (Le $self, 0), (Mul $grad, (Exp (Mul $self, (Div 1, $alpha)))), $grad)>;
def : OfSelf<"leaky_relu",
  (Select (Gt $self, 0), $grad, (Mul $grad, $negative_slope))>;
def : OfSelf<"hardswish",
  (Select (Le $self, -3), 0,
    (Select (Lt $self, 3), (Mul $grad, (Add (Div $self, 3), "0.5")), $grad))>;
def : OfSelf<"hardsigmoid",
  (Select (BitAnd (Gt $self, -3), (Lt $self, 3)), (Div $grad, 6), 0)>;
def : OfSelf<"softplus",
  (Let $power, (Exp (Mul $self, $beta)),
    (Select (Gt (Mul $self, $beta), $threshold), $grad,
            (Mul $grad, (Div $power, (Add $power, 1)))))>;
def : OfSelf<"threshold", (Select (Le $self, $threshold), 0, $grad)>;
def : OfSelf<"log_sigmoid", (Mul $grad, (Sigmoid (Neg $self)))>;

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
def : Derivative<"aten::copy", "src", (Value $grad)>;
def : Derivative<"aten::fill.Tensor", "value", (Value $grad)>;
// What is overwritten gets no gradient (`Overwrites`).
foreach name = ["tril", "triu"] in
  def : OfSelf<name, (Call<"aten::" # name> $grad, $diagonal)>;

//===----------------------------------------------------------------------===//
// Softmax
//===----------------------------------------------------------------------===//

foreach name = ["softmax.int", "_softmax"] in
  def : OfSelf<name,
    (Let $product, (Mul $grad, $result),
      (Sub $product,
           (Mul $result, (Call<"aten::sum.dim_IntList"> $product, $dim, 1))))>;
foreach name = ["log_softmax.int", "_log_softmax"] in
  def : OfSelf<name,
    (Sub $grad,
         (Mul (Exp $result), (Call<"aten::sum.dim_IntList"> $grad, $dim, 1)))>;

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

def : GradientRule<"Sum", One<["sum", "sum.dim_IntList"]>.Of>;
def : GradientRule<"Mean", One<["mean", "mean.dim"]>.Of>;
def : GradientRule<"Extreme", One<["amax", "amin", "max", "min"]>.Of>;
def : GradientRule<"ExtremeAt", One<["max.dim", "min.dim"]>.Of>;
def : GradientRule<"LogSumExp", One<["logsumexp"]>.Of>;
def : GradientRule<"Variance", One<["var.correction", "std.correction"]>.Of>;
def : GradientRule<"VectorNorm", One<["linalg_vector_norm"]>.Of>;
def : GradientRule<"CumulativeSum", One<["cumsum"]>.Of>;

//===----------------------------------------------------------------------===//
// Products, joins
//===----------------------------------------------------------------------===//

def : GradientRule<"Linear", One<["linear"]>.Of>;
def : GradientRule<"MatrixProduct", One<["mm", "bmm", "matmul", "mv", "dot"]>.Of>;
def : GradientRule<"AddMatrixProduct", One<["addmm", "baddbmm"]>.Of>;
def : GradientRule<"Concatenation", One<["cat", "concat"]>.Of>;
def : GradientRule<"Stack", One<["stack"]>.Of>;
def : GradientRule<"Repeat", One<["repeat"]>.Of>;
def : GradientRule<"Pad", One<["constant_pad_nd"]>.Of>;
def : GradientRule<"Flip", One<["flip"]>.Of>;

//===----------------------------------------------------------------------===//
// Indexed reads
//===----------------------------------------------------------------------===//

def : GradientRule<"Embedding", One<["embedding"]>.Of>;
def : GradientRule<"Gather", One<["gather"]>.Of>;
def : GradientRule<"IndexSelect", One<["index_select"]>.Of>;
def : GradientRule<"Index", One<["index.Tensor"]>.Of>;

//===----------------------------------------------------------------------===//
// Layers
//===----------------------------------------------------------------------===//

def : GradientRule<"LayerNorm", One<["layer_norm"]>.Of>;
def : GradientRule<"BatchNorm", One<["batch_norm"]>.Of>;
def : GradientRule<"Convolution", One<["conv1d", "conv2d", "conv3d"]>.Of>;
def : GradientRule<"MaxPool", One<["max_pool2d"]>.Of>;
def : GradientRule<"AveragePool", One<["avg_pool2d"]>.Of>;
def : GradientRule<"AdaptiveAveragePool", One<["adaptive_avg_pool2d"]>.Of>;
def : GradientRule<"Dropout", One<["native_dropout"]>.Of>;
def : GradientRule<"Attention", One<["scaled_dot_product_attention"]>.Of>;
def : GradientRule<"Loss", One<["mse_loss", "l1_loss"]>.Of>;
def : GradientRule<"ClassLoss", One<["nll_loss_forward", "nll_loss2d_forward"]>.Of>;

#endif
