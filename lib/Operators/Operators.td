// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How overloads lower. An overload without a record here is a vendor call.

include "Schemas.td"
include "Facts.td"
include "Derivatives.td"

//===----------------------------------------------------------------------===//
// Pointwise, one operand
//===----------------------------------------------------------------------===//

foreach op = [Sqrt, Rsqrt, Reciprocal, Exp, Exp2, Expm1, Log, Log2, Log10,
              Log1p, Sin, Cos, Tan, Asin, Acos, Atan, Sinh, Cosh, Tanh, Asinh,
              Acosh, Atanh, Erf, Erfc, Sigmoid] in
  def : Op<"aten::" # op.Aten, (op $self), "Result", "Float">;
foreach op = [Neg, Abs, Sign, BitNot] in
  def : Op<"aten::" # op.Aten, (op $self)>;
// Integers round to themselves.
foreach op = [Floor, Ceil, Trunc, Round] in
  def : Op<"aten::" # op.Aten, (IfFloat (op $self), $self)>;

def : Op<"aten::negative", (Neg $self)>;
def : Op<"aten::absolute", (Abs $self)>;
def : Op<"aten::frac", (Sub $self, (Trunc $self))>;
def : Op<"aten::square", (Mul $self, $self)>;
def : Op<"aten::deg2rad", (Mul $self, "0.017453292519943295"), "Result", "Float">;
def : Op<"aten::rad2deg", (Mul $self, "57.295779513082323"), "Result", "Float">;

def : Op<"aten::isnan", (IfFloat (IsNan $self), (Ne $self, $self)), "Self", "Bool">;
def : Op<"aten::isinf", (IfFloat (IsInf $self), (Ne $self, $self)), "Self", "Bool">;
def : Op<"aten::isfinite",
         (IfFloat (BitNot (BitOr (IsNan $self), (IsInf $self))), (Eq $self, $self)),
         "Self", "Bool">;
def : Op<"aten::signbit", (SignBit $self), "Self", "Bool">;
def : Op<"aten::logical_not", (BitNot (Bool (Raw $self))), "Self", "Bool">;

// Activations. A NaN stays one.
def : Op<"aten::relu", (ClampMin $self, 0)>;
def : Op<"aten::relu6", (ClampMax (ClampMin $self, 0), 6)>;
def : Op<"aten::hardtanh",
         (Let $inside, (ClampMax (ClampMin $self, $min_val), $max_val),
           (IfFloat (Select (BitOr (IsNan $min_val), (IsNan $max_val)),
                            (Add $min_val, $max_val), $inside),
                    $inside)), "Result", "Promote", "Narrow">;
def : Op<"aten::gelu",
         (IfString $approximate, "tanh",
           (Mul (Mul $self, "0.5"),
                (Add (Tanh (Mul (Add $self, (Mul (Mul (Mul $self, $self), $self),
                                                 "0.044715")),
                                "0.79788456080286535588")), 1)),
           (Mul (Mul $self, "0.5"),
                (Add (Erf (Mul $self, "0.70710678118654752440")), 1)))>;
def : Op<"aten::silu", (Div $self, (Add (Exp (Neg $self)), 1))>;
def : Op<"aten::mish", (Mul $self, (Tanh (Log1p (Exp $self))))>;
// Zero is on the side of the positive numbers, on a device on the other.
defvar isNegative = (IfOnDevice (Le $self, 0), (Lt $self, 0));
def : Op<"aten::elu",
         (Select isNegative,
                 (Mul (Expm1 (Mul $self, $input_scale)), (Mul $alpha, $scale)),
                 (Mul $self, $scale))>;
def : Op<"aten::selu",
         (Select isNegative,
                 (Mul (Expm1 $self), "1.7580993408473768600"),
                 (Mul $self, "1.0507009873554804934"))>;
def : Op<"aten::celu",
         (Select isNegative, (Mul (Expm1 (Mul $self, (Div 1, $alpha))), $alpha),
                 $self)>;
def : Op<"aten::leaky_relu",
         (Select (Gt $self, 0), $self, (Mul $self, $negative_slope))>;
def : Op<"aten::heaviside",
         (Select (Eq $self, 0), $values, (Select (Gt $self, 0), 1, 0))>;
def : Op<"aten::prelu", (Select (Gt $self, 0), $self, (Mul $self, (Channel $weight)))>;
// A device multiplies by a sixth in single precision, doubles too.
defvar ramp = (Minimum (Maximum (Add $self, 3), 0), 6);
def : Op<"aten::hardswish",
         (IfOnDevice (Mul (Mul $self, ramp), sixth), (Div (Mul $self, ramp), 6))>;
def : Op<"aten::hardsigmoid", (IfOnDevice (Mul ramp, sixth), (Div ramp, 6))>;
def : Op<"aten::softplus",
         (Select (Gt (Mul $self, $beta), $threshold), $self,
                 (Div (Log1p (Exp (Mul $self, $beta))), $beta))>;
def : Op<"aten::threshold", (Select (Le $self, $threshold), $value, $self),
         "Result", "Promote", "Narrow">;
def : Op<"aten::log_sigmoid",
         (Sub (Minimum $self, 0), (Log1p (Exp (Neg (Abs $self)))))>;
def : Op<"aten::softshrink",
         (Select (BitAnd (Ge $self, (Neg $lambd)), (Le $self, $lambd)), 0,
                 (Select (Gt $self, $lambd), (Sub $self, $lambd),
                         (Add $self, $lambd))),
         "Result", "Promote", "NarrowOnDevice">;
def : Op<"aten::hardshrink",
         (Select (BitAnd (Ge $self, (Neg $lambd)), (Le $self, $lambd)), 0, $self),
         "Result", "Promote", "Narrow">;

//===----------------------------------------------------------------------===//
// Pointwise, more operands
//===----------------------------------------------------------------------===//

// A device multiplies by a number's inverse instead of dividing by it.
defvar quotient =
    (IfNumberOnDevice $other, (Mul $self, (Inverse $other)), (Div $self, $other));
// ... and here it takes the inverse in the computation's type.
defvar truncQuotient =
    (IfNumberOnDevice $other, (Trunc (Mul $self, (Div 1, $other))),
                              (TruncDiv $self, $other));
defvar floorQuotient =
    (IfNumberOnDevice $other, (Unsupported), (FloorDiv $self, $other));
foreach ov = ["Tensor", "Scalar"] in {
  def : Op<"aten::add." # ov,
           (IfNumber $alpha, 1, (Add $self, $other),
             (IfFloat (Fma $other, $alpha, $self), (Add $self, (Mul $other, $alpha)))),
           "Result", "Promote", "NarrowOnCPU">;
  foreach name = ["sub", "subtract"] in
    def : Op<"aten::" # name # "." # ov,
             (IfNumber $alpha, 1, (Sub $self, $other),
               (IfFloat (Fma $other, (Negated $alpha), $self),
                        (Sub $self, (Mul $other, $alpha)))),
             "Result", "Promote", "NarrowOnCPU">;
  def : Op<"aten::rsub." # ov,
           (IfNumber $alpha, 1, (Sub $other, $self),
             (IfFloat (Fma $self, (Negated $alpha), $other),
                      (Sub $other, (Mul $self, $alpha)))),
           "Result", "Promote", "NarrowOnCPU">;
  foreach name = ["mul", "multiply"] in
    def : Op<"aten::" # name # "." # ov, (Mul $self, $other), "Result", "Promote",
             "WideScalar">;
  foreach name = ["div", "divide", "true_divide"] in
    def : Op<"aten::" # name # "." # ov, quotient, "Result", "Float", "WideScalar">;
  // Without rounding an integer quotient is a float; with it, it is computed
  // in integers, where division by zero raises: only a constant divisor that
  // is not zero is ours.
  foreach name = ["div", "divide"] in
    def : Op<"aten::" # name # "." # ov # "_mode",
             (IfNone $rounding_mode, quotient,
               (IfString $rounding_mode, "trunc",
                 (IfFloat truncQuotient,
                          (IfDivisor $other, (TruncDiv $self, $other), (Unsupported))),
                 (IfFloat floorQuotient,
                          (IfDivisor $other, (FloorDiv $self, $other), (Unsupported))))),
             "Result", "Promote", "WideScalar">;
  def : Op<"aten::remainder." # ov,
           (IfFloat (Remainder $self, $other),
                    (IfDivisor $other, (Remainder $self, $other), (Unsupported))),
           "Result", "Promote", "Narrow">;
  def : Op<"aten::fmod." # ov,
           (IfFloat (Fmod $self, $other),
                    (IfDivisor $other, (Fmod $self, $other), (Unsupported))),
           "Result", "Promote", "Narrow">;
  foreach op = [Eq, Ne, Lt, Le, Gt, Ge] in
    def : Op<"aten::" # op.Aten # "." # ov, (op $self, $other), "Promote", "Bool",
             "Narrow">;
  foreach op = [BitAnd, BitOr, BitXor] in
    def : Op<"aten::" # op.Aten # "." # ov, (op $self, $other)>;
  def : Op<"aten::__and__." # ov, (BitAnd $self, $other)>;
  def : Op<"aten::__or__." # ov, (BitOr $self, $other)>;
  def : Op<"aten::__xor__." # ov, (BitXor $self, $other)>;
}
foreach ov = ["Tensor", "Tensor_Scalar"] in
  foreach op = [Shl, Shr] in
    def : Op<"aten::" # op.Aten # "." # ov, (op $self, $other)>;
def : Op<"aten::floor_divide",
         (IfFloat floorQuotient,
                  (IfDivisor $other, (FloorDiv $self, $other), (Unsupported)))>;
def : Op<"aten::floor_divide.Scalar",
         (IfFloat floorQuotient,
                  (IfDivisor $other, (FloorDiv $self, $other), (Unsupported)))>;
foreach op = [Maximum, Minimum, Fmax, Fmin] in
  def : Op<"aten::" # op.Aten, (op $self, $other)>;
def : Op<"aten::max.other", (Maximum $self, $other)>;
def : Op<"aten::min.other", (Minimum $self, $other)>;
foreach op = [Atan2, Copysign] in
  def : Op<"aten::" # op.Aten, (op $self, $other), "Result", "Float", "Narrow">;
def : Op<"aten::hypot", (Hypot $self, $other)>;
def : Op<"aten::logical_and", (BitAnd (Ne $self, 0), (Ne $other, 0)), "Promote", "Bool",
         "Narrow">;
def : Op<"aten::logical_or", (BitOr (Ne $self, 0), (Ne $other, 0)), "Promote", "Bool",
         "Narrow">;
def : Op<"aten::logical_xor", (BitXor (Ne $self, 0), (Ne $other, 0)), "Promote", "Bool",
         "Narrow">;
foreach ov = ["Tensor", "Scalar_Self", "Scalar_Other"] in
  def : Op<"aten::xlogy." # ov,
           (Select (IsNan $other), $other,
                   (Select (Eq $self, 0), 0, (Mul $self, (Log $other)))),
           "Result", "Float", "Narrow">;

// ATen's own special cases of exponents.
// A device multiplies in half precision.
defvar square = (IfOnDevice (Narrowed (Mul $self, $self)), (Mul $self, $self));
// pow(x, 0.5), which is no square root at -0 and -inf: eager asks for the root in
// every type but float16.
defvar powHalf = (Select (IsInf $self), (Abs $self), (Sqrt (Add $self, 0)));
// Eager fills with ones for an exponent of 0 and a base of 1, where pow answers
// nan to a signalling nan.
def : Op<"aten::pow.Tensor_Scalar",
         (IfNumber $exponent, 0, 1,
         (IfNumber $exponent, 2, (Mul $self, $self),
         (IfNumber $exponent, 3, (Mul square, $self),
         (IfNumber $exponent, 1, $self,
         (IfFloat
           (IfNumber $exponent, "0.5", (IfFloat16OnCPU powHalf, (Sqrt $self)),
           (IfNumber $exponent, "-0.5",
             (IfFloat16OnCPU (Reciprocal powHalf), (Rsqrt $self)),
           (IfNumber $exponent, -1, (Reciprocal $self),
           (IfNumber $exponent, -2, (Reciprocal square),
             // One that differs between calls may be any of these.
             (IfConstant $exponent, (Pow $self, $exponent), (Unsupported)))))),
           (Unsupported)))))), "Result", "Promote", "Narrow">;
def : Op<"aten::pow.Tensor_Tensor",
         (IfFloat (Pow $self, $exponent), (Unsupported)),
         "Result", "Promote", "Narrow">;
def : Op<"aten::pow.Scalar",
         (IfFloat (Select (Eq $self, 1), 1, (Pow $self, $exponent)),
           (Unsupported)),
         "Result", "Promote", "Narrow">;

foreach ov = ["self", "ScalarSelf", "ScalarOther", "Scalar"] in
  def : Op<"aten::where." # ov, (Select (Bool (Raw $condition)), $self, $other)>;
foreach ov = ["Tensor", "Scalar"] in
  def : Op<"aten::masked_fill." # ov,
           (Select (Bool (Raw $mask)), $value, $self), "Result", "Self">;

// A number as a bound: where it is NaN all elements are, but those of `clamp` with
// one bound stay.
foreach name = ["clamp", "clip"] in {
  def : Op<"aten::" # name,
           (IfNone $min,
             (ClampMax $self, $max),
             (IfNone $max, (ClampMin $self, $min),
               (Let $inside, (ClampMax (ClampMin $self, $min), $max),
                 (IfFloat (Select (BitOr (IsNan $min), (IsNan $max)),
                                  (Add $min, $max), $inside),
                          $inside)))), "Result", "Promote", "Narrow">;
  def : Op<"aten::" # name # ".Tensor",
           (IfNone $min,
             (Minimum $self, $max),
             (IfNone $max, (Maximum $self, $min),
               (Minimum (Maximum $self, $min), $max)))>;
}
def : Op<"aten::clamp_min",
         (IfFloat (Select (IsNan $min), $min, (ClampMin $self, $min)),
                  (ClampMin $self, $min)), "Result", "Promote", "Narrow">;
def : Op<"aten::clamp_max",
         (IfFloat (Select (IsNan $max), $max, (ClampMax $self, $max)),
                  (ClampMax $self, $max)), "Result", "Promote", "Narrow">;
def : Op<"aten::clamp_min.Tensor", (Maximum $self, $min)>;
def : Op<"aten::clamp_max.Tensor", (Minimum $self, $max)>;
foreach ov = ["Scalar", "Tensor"] in
  def : Op<"aten::lerp." # ov,
           (Select (Lt (Abs $weight), "0.5"),
                   (Fma $weight, (Sub $end, $self), $self),
                   (IfOnDevice
                     (Fma (Neg (Sub $end, $self)), (Sub 1, $weight), $end),
                     (Fma (Sub $weight, 1), (Sub $end, $self), $end)))>;
// A device multiplies by the value last.
def : Op<"aten::addcmul",
         (IfFloat
           (IfOnDevice
             (IfNumber $value, 1, (Fma $tensor1, $tensor2, $self),
                       (Fma (Mul $tensor1, $tensor2), $value, $self)),
             (Fma (Mul $tensor1, $value), $tensor2, $self)),
           (Add $self, (Mul (Mul $tensor1, $value), $tensor2)))>;
def : Op<"aten::addcdiv",
         (IfFloat
           (IfOnDevice
             (Fma (Div $tensor1, $tensor2), $value, $self),
             (Add $self, (Div (Mul $tensor1, $value), $tensor2))),
           (Unsupported))>;

//===----------------------------------------------------------------------===//
// Copies, casts, constants
//===----------------------------------------------------------------------===//

foreach name = ["clone", "_to_copy", "contiguous", "to.dtype", "to.dtype_layout",
                "to.other", "to.device", "type_as"] in
  def : Op<"aten::" # name, (Value $self), "Result", "Stated">;
def : Op<"aten::copy", (Value $src), "Result", "Self">;
def : Op<"aten::fill.Scalar", (Value $value), "Result", "Self">;
def : Op<"aten::fill.Tensor", (Value $value), "Result", "Self">;
def : Op<"aten::zero", (Value 0), "Result", "Self">;
foreach name = ["zeros", "new_zeros", "zeros_like"] in
  def : Op<"aten::" # name, (Value 0), "Result", "Stated">;
foreach name = ["ones", "new_ones", "ones_like"] in
  def : Op<"aten::" # name, (Value 1), "Result", "Stated">;
foreach name = ["full", "new_full", "full_like"] in
  def : Op<"aten::" # name, (Value $fill_value), "Result", "Stated">;
def : Op<"aten::scalar_tensor", (Value $s), "Result", "Stated">;
// Eager computes a float range in wider arithmetic: left to the vendor library.
def : Op<"aten::arange", (IfFloat (Unsupported), (IterIndex 1)), "Result", "Stated">;
def : Op<"aten::arange.start",
         (IfFloat (Unsupported), (Add $start, (IterIndex 1))), "Result", "Stated">;
def : Op<"aten::arange.start_step",
         (IfFloat (Unsupported), (Add $start, (Mul $step, (IterIndex 1)))),
         "Result", "Stated">;
// The difference of two indices does not overflow.
def : Op<"aten::tril",
         (Select (Le (Sub (IterIndex 1), (IterIndex 2)), (Raw $diagonal)), $self, 0)>;
def : Op<"aten::triu",
         (Select (Ge (Sub (IterIndex 1), (IterIndex 2)), (Raw $diagonal)), $self, 0)>;

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

def : Op<"aten::sum", (ReduceSum $self, (Every)), "Result", "Stated">;
def : Op<"aten::sum.dim_IntList", (ReduceSum $self, $dim), "Result", "Stated">;
// In half precision the CPU rounds each partial product.
def : Op<"aten::prod",
         (IfHalfOnCPU (Unsupported), (ReduceProd $self, (Every))), "Result", "Stated">;
def : Op<"aten::prod.dim_int",
         (IfHalfOnCPU (Unsupported), (ReduceProd $self, $dim)), "Result", "Stated">;
// On the CPU a mean in half precision is one of single precision, then rounded.
def : Op<"aten::mean",
         (Div (ReduceSum (Exact $self), (Every)), (Count $self, (Every))),
         "Result", "Stated">;
def : Op<"aten::mean.dim",
         (Div (ReduceSum (Exact $self), $dim), (Count $self, $dim)),
         "Result", "Stated">;
def : Op<"aten::amax", (ReduceMax $self, $dim)>;
def : Op<"aten::amin", (ReduceMin $self, $dim)>;
def : Op<"aten::max", (ReduceMax $self, (Every))>;
def : Op<"aten::min", (ReduceMin $self, (Every))>;
foreach name = ["any", "_is_any_true"] in
  def : Op<"aten::" # name, (ReduceAny (Bool (Raw $self)), (Every)), "Self", "Stated">;
foreach name = ["all", "_is_all_true"] in
  def : Op<"aten::" # name, (ReduceAll (Bool (Raw $self)), (Every)), "Self", "Stated">;
foreach ov = ["dim", "dims"] in {
  def : Op<"aten::any." # ov, (ReduceAny (Bool (Raw $self)), $dim), "Self", "Stated">;
  def : Op<"aten::all." # ov, (ReduceAll (Bool (Raw $self)), $dim), "Self", "Stated">;
}

// Two passes, as exact as eager's Welford, which runs in double on the CPU. The
// divisor is never negative. A mean that was rounded is brought back between the
// least and the largest element: equal numbers have no variance (`std == 0`).
defvar squaresOverDim =
    (ReduceSum (Mul (Sub (Wide $self), $mean), (Sub (Wide $self), $mean)), $dim);
defvar roundedMean = (Div (ReduceSum (Wide $self), $dim), (Wide (Count $self, $dim)));
defvar meanOverDim =
    (IfWidened roundedMean,
               (Maximum (Minimum roundedMean, (ReduceMax $self, $dim)),
                        (ReduceMin $self, $dim)));
defvar varOverDim =
    (Let $mean, meanOverDim,
      (Div squaresOverDim,
           (Wide (Maximum (Sub (Count $self, $dim),
                               (IfNone $correction, 1, $correction)), 0))));
defvar varUnbiased =
    (Let $mean, meanOverDim,
      (Div squaresOverDim,
           (Wide (Maximum (Sub (Count $self, $dim), (IfTrue $unbiased, 1, 0)), 0))));
def : Op<"aten::var.correction", varOverDim, "Result", "Self">;
def : Op<"aten::std.correction", (Sqrt varOverDim), "Result", "Self">;
def : Op<"aten::var.dim", varUnbiased, "Result", "Self">;
def : Op<"aten::std.dim", (Sqrt varUnbiased), "Result", "Self">;

// Eager has each step in memory.
def : Op<"aten::logsumexp",
         (Let $top, (ReduceMax $self, $dim),
         (Let $shift, (Select (IsInf $top), 0, $top),
           (Add (Narrowed (Log (Narrowed (ReduceSum
                  (Narrowed (Exp (Narrowed (Sub $self, $shift)))), $dim)))),
                $shift))),
         "Result", "Float">;
def : Op<"aten::linalg_vector_norm",
         (IfNumber $ord, 2, (Sqrt (ReduceSum (Mul $self, $self), $dim)),
         (IfNumber $ord, 1, (ReduceSum (Abs $self), $dim), (Unsupported))),
         "Result", "Stated">;
def : Op<"aten::norm.ScalarOpt_dim",
         (IfNumber $p, 2, (Sqrt (ReduceSum (Mul $self, $self), $dim)),
         (IfNumber $p, 1, (ReduceSum (Abs $self), $dim), (Unsupported))),
         "Result", "Stated">;

//===----------------------------------------------------------------------===//
// Softmax, norms, losses
//===----------------------------------------------------------------------===//

foreach name = ["softmax.int", "_softmax"] in
  def : Op<"aten::" # name,
           (Let $power, (Step (Exp (Sub $self, (ReduceMax $self, $dim)))),
             (Div $power, (ReduceSum $power, $dim))), "Result", "Stated">;
// Along the last dimension the CPU keeps the sum and its logarithm in the
// result's type: in float16 65,520 equal elements give -inf.
defvar powers = (ReduceSum (Exp (Sub $self, $top)), $dim);
foreach name = ["log_softmax.int", "_log_softmax"] in
  def : Op<"aten::" # name,
           (Let $top, (ReduceMax $self, $dim),
             (Sub (Sub $self, $top),
                  (IfLastOnCPU $dim, (Narrowed (Log (Narrowed powers))),
                                     (Log powers)))),
           "Result", "Stated">;

// A mean that is off by a rounding, as that of many equal numbers is, would be
// divided by a deviation of almost nothing. What it is off by is the mean of
// the differences, which are exact where it matters.
class MeanOverLast<dag value> {
  dag is = (Div (ReduceSum value, (Last $normalized_shape)),
                (Count $input, (Last $normalized_shape)));
}
class NormOverLast<dag normalised> {
  dag is = (Let $near, MeanOverLast<(Value $input)>.is,
           (Let $far, (Sub $input, $near),
           (Let $off, MeanOverLast<(Value $far)>.is,
           (Let $mean, (Add $near, $off),
           (Let $square, MeanOverLast<(Mul $far, $far)>.is,
           (Let $variance, (Maximum (Sub $square, (Mul $off, $off)), 0),
           (Let $inverse, (Rsqrt (Add $variance, $eps)), normalised)))))));
}
def : Op<"aten::layer_norm",
         NormOverLast<
         (Let $normal, (Mul (Sub $input, $mean), $inverse),
         (Let $scaled, (IfNone $weight, $normal, (Mul $normal, $weight)),
           (IfNone $bias, $scaled, (Add $scaled, $bias))))>.is, "Result", "Self">;
// What the autograd engine does, as the recorder writes it: tssa-expand-backward
// puts the gradients in its place.
def : Schema<"pyjit::backward(Tensor[] roots, Tensor[] gradients, Tensor[] inputs) -> Tensor[]">;
// A leaf in front of a write that autograd does not see, as gradients know it:
// the one that `pyjit::backward` is given goes on to what `self` is.
def : Schema<"pyjit::unwritten(Tensor self) -> Tensor">;
def : Op<"pyjit::unwritten", (Value $self)>;
// What was written into `self` in autograd's absence, in its place: the gradient
// passes on to what `self` was.
def : Schema<"pyjit::written(Tensor value, Tensor self) -> Tensor">;
def : Op<"pyjit::written", (Value $value)>;
// An input as the call finds it: the memory that it shows then, whatever it is
// made to show later (`x.data = y`). For a backward program.
def : Schema<"pyjit::seen(Tensor self) -> Tensor">;
def : Op<"pyjit::seen", (Value $self)>;
// Attention that draws numbers on a device, and its backward: their seed and
// offset, and the sums, as values of one place and size (runtime/torch/
// AttentionCalls.cpp). The mask is one to add, or none.
def : Schema<"pyjit::efficient_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_bias, float dropout_p, bool is_causal, float? scale) -> (Tensor, Tensor, Tensor)", "Random">;
def : Schema<"pyjit::efficient_attention_backward(Tensor grad_out, Tensor query, Tensor key, Tensor value, Tensor? attn_bias, Tensor output, Tensor logsumexp, Tensor numbers, float dropout_p, bool is_causal, float? scale) -> (Tensor, Tensor, Tensor)">;
// The gradients of a recurrent layer of cuDNN's, whose forward pass it runs
// again: of the input, the states and the weights, in that order
// (runtime/torch/RecurrentCalls.cpp). `mode` is cuDNN's number of the kind.
def : Schema<"pyjit::recurrence_backward(Tensor[] gradients, Tensor input, Tensor[] hx, Tensor[] params, int mode, bool has_biases, int num_layers, bool bidirectional, bool batch_first) -> Tensor[]">;
// A GRU or RNN of the CPU that keeps its gates, its gradients, and theirs: of the
// gradients that it was given, the input, the state and the weights
// (runtime/torch/HostRecurrence.cpp).
def : Schema<"pyjit::host_recurrence(Tensor input, Tensor hx, Tensor[] params, int mode, bool has_biases, int num_layers, bool bidirectional, bool batch_first) -> (Tensor, Tensor, Tensor)">;
def : Schema<"pyjit::host_recurrence_backward(Tensor[] gradients, Tensor input, Tensor hx, Tensor[] params, Tensor kept, int mode, bool has_biases, int num_layers, bool bidirectional, bool batch_first) -> Tensor[]">;
def : Schema<"pyjit::host_recurrence_double_backward(Tensor[] second, Tensor[] gradients, Tensor input, Tensor hx, Tensor[] params, int mode, bool has_biases, int num_layers, bool bidirectional, bool batch_first) -> Tensor[]">;
// Group norm of groups x channels x points; eager multiplies the mean by the
// weight before it subtracts it, which shows where a weight is infinite.
def : Schema<"pyjit::grouped_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias, float eps) -> Tensor">;
def : Op<"pyjit::grouped_norm",
         NormOverLast<
         (Let $scale, (IfNone $weight, $inverse, (Mul $inverse, $weight)),
           (Add (Mul $input, $scale),
                (IfNone $bias, (Neg (Mul $mean, $scale)),
                               (Sub $bias, (Mul $mean, $scale)))))>.is,
         "Result", "Self">;
def : Op<"aten::rms_norm",
         (IfNone $eps, (Unsupported),
         (Let $normal,
           (Mul $input,
                (Rsqrt (Add (Div (ReduceSum (Mul $input, $input),
                                            (Last $normalized_shape)),
                                 (Count $input, (Last $normalized_shape))),
                            $eps))),
           (IfNone $weight, $normal, (Mul $normal, $weight)))), "Result", "Self">;
// With running statistics: a scale and a shift per channel, as eager has them.
def : Op<"aten::batch_norm",
         (IfTrue $training, (Unsupported),
         (Let $inverse, (Rsqrt (Add (Channel $running_var), $eps)),
         (Let $scale, (IfNone $weight, $inverse, (Mul $inverse, (Channel $weight))),
         (Let $mean, (Mul (Channel $running_mean), $scale),
           (Add (Mul $input, $scale),
                (IfNone $bias, (Neg $mean), (Sub (Channel $bias), $mean))))))),
         "Result", "Self">;

multiclass Loss<string name, dag value> {
  def : Op<"aten::" # name,
           // Of integers eager's differences wrap around in their own type.
           (IfFloat
             (IfNumber $reduction, 0, value,
             (IfNumber $reduction, 1, (Div (ReduceSum value, (Every)), (Count value, (Every))),
               (ReduceSum value, (Every)))),
             (Unsupported))>;
}
// Eager has the losses of elements in memory before it adds them up.
defvar error = (Narrowed (Sub $self, $target));
defm : Loss<"mse_loss", (Narrowed (Mul error, error))>;
defm : Loss<"l1_loss", (Abs error)>;

//===----------------------------------------------------------------------===//
// What no scalar expression says
//===----------------------------------------------------------------------===//

def : Structured<"aten::cat", "cat">;
def : Structured<"aten::concat", "cat">;
def : Structured<"aten::stack", "stack">;
def : Structured<"aten::repeat", "repeat">;
foreach name = ["pixel_shuffle", "pixel_unshuffle", "flip", "roll",
                "constant_pad_nd"] in
  def : Structured<"aten::" # name, name>;
def : Structured<"aten::embedding", "embedding">;
def : Structured<"aten::index_select", "index_select">;
def : Structured<"aten::index_copy", "index_copy">;
def : Structured<"aten::gather", "gather">;
def : Structured<"aten::index.Tensor", "index">;
def : Structured<"aten::argmax", "max">;
def : Structured<"aten::argmin", "min">;
def : Structured<"aten::max.dim", "max">;
def : Structured<"aten::min.dim", "min">;
def : Structured<"aten::group_norm", "group_norm">;
foreach rank = ["1d", "2d", "3d"] in {
  def : Structured<"aten::max_pool" # rank, "max_pool" # rank>;
  def : Structured<"aten::avg_pool" # rank, "avg_pool" # rank>;
}
foreach rank = ["2d", "3d"] in {
  def : Structured<"aten::max_pool" # rank # "_with_indices", "max_pool" # rank>;
  def : Structured<"aten::max_pool" # rank # "_with_indices_backward",
                   "max_pool" # rank # "_backward">;
  def : Structured<"aten::avg_pool" # rank # "_backward",
                   "avg_pool" # rank # "_backward">;
}

//===----------------------------------------------------------------------===//
// Views
//===----------------------------------------------------------------------===//

def : View<"aten::alias", "alias">;
def : View<"aten::detach", "alias">;
def : View<"aten::lift_fresh", "alias">;
def : View<"aten::view_as", "view">;
def : View<"aten::reshape_as", "view">;
foreach name = ["view", "reshape", "flatten.using_ints", "unflatten.int",
                "_unsafe_view", "ravel", "_reshape_alias", "atleast_1d"] in
  def : View<"aten::" # name, "view">;
foreach name = ["permute", "transpose.int", "t", "numpy_T", "mT", "swapaxes", "swapdims",
                "movedim.int", "movedim.intlist", "moveaxis.int", "moveaxis.intlist",
                "adjoint"] in
  def : View<"aten::" # name, "permute">;
def : View<"aten::select.int", "select">;
foreach name = ["slice.Tensor", "narrow", "split.Tensor", "split.sizes",
                "split_with_sizes", "chunk", "tensor_split.sections",
                "tensor_split.indices"] in
  def : View<"aten::" # name, "slice">;
def : View<"aten::unbind.int", "select">;
foreach name = ["expand", "expand_as", "broadcast_to", "broadcast_tensors"] in
  def : View<"aten::" # name, "expand">;
foreach name = ["squeeze", "squeeze.dim", "squeeze.dims"] in
  def : View<"aten::" # name, "squeeze">;
def : View<"aten::unsqueeze", "unsqueeze">;
def : View<"aten::diagonal", "diagonal">;
def : View<"aten::unfold", "unfold">;
def : View<"aten::as_strided", "as_strided">;

//===----------------------------------------------------------------------===//
// Errors
//===----------------------------------------------------------------------===//

// Indices out of range, classes that there are not.
foreach name = ["embedding", "gather", "index.Tensor", "index.Tensor_hacked_twin",
                "index_add", "index_add_", "index_copy", "index_copy_",
                "index_fill.int_Scalar", "index_fill.int_Tensor",
                "index_fill_.int_Scalar", "index_fill_.int_Tensor", "index_put",
                "index_put.hacked_twin", "index_put_", "index_put_.hacked_twin",
                "put", "put_",
                "index_select", "scatter.reduce", "scatter.src", "scatter.value",
                "scatter.value_reduce", "scatter_.reduce", "scatter_.src",
                "scatter_.value", "scatter_.value_reduce", "scatter_add",
                "scatter_add_", "cross_entropy_loss", "nll_loss",
                "one_hot", "repeat_interleave.Tensor",
                "repeat_interleave.self_Tensor", "_embedding_bag", "linalg_cholesky",
                "linalg_inv", "linalg_solve", "cholesky", "cholesky_inverse",
                "linalg_pinv",
                "linalg_pinv.atol_rtol_float", "linalg_pinv.atol_rtol_tensor",
                "_linalg_svd", "lu_unpack", "take", "multi_margin_loss",
                "multilabel_margin_loss_forward", "max_unpool3d", "nll_loss_forward",
                "nll_loss2d_forward", "scatter_reduce.two", "scatter_reduce_.two"] in
  def : Raises<"aten::" # name>;
// Probabilities outside of [0, 1], a source with too few elements, numbers out of
// range (a number that differs between calls is an operand).
foreach name = ["binary_cross_entropy", "masked_scatter", "masked_scatter_",
                "_cdist_forward", "huber_loss", "linalg_vector_norm"] in
  def : Raises<"aten::" # name>;
// Numbers that the type of the elements does not have; negative exponents.
foreach name = ["constant_pad_nd", "copy_.float", "fill_.Scalar", "full", "full_like",
                "hardtanh", "hardtanh_", "masked_fill.Scalar",
                "masked_fill_.Scalar", "new_full", "pow.Tensor_Scalar",
                "pow_.Scalar", "scalar_tensor", "threshold", "threshold_"] in
  def : Raises<"aten::" # name, /*integers=*/1>;
// Division of integers by zero.
foreach name = ["div.Tensor_mode", "div_.Tensor_mode", "div.Scalar_mode",
                "div_.Scalar_mode", "divide.Scalar_mode",
                "divide.Tensor_mode", "divide_.Scalar_mode", "divide_.Tensor_mode",
                "floor_divide", "floor_divide.Scalar",
                "floor_divide_.Scalar", "floor_divide_.Tensor", "fmod.Scalar",
                "fmod.Tensor", "fmod_.Scalar", "fmod_.Tensor", "remainder.Scalar",
                "remainder.Scalar_Tensor", "remainder.Tensor", "remainder_.Scalar",
                "remainder_.Tensor"] in
  def : Raises<"aten::" # name, /*integers=*/1>;
