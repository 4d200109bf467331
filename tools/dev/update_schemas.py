"""Writes lib/Operators/Schemas.td: the schemas that pyjit knows, as torch prints them.

Run it with the project's Python after adding a name below; the test
test/lib/Operators/test_schemas.py fails when file and torch disagree.
"""

from pathlib import Path

import torch

# Base names; every overload that returns tensors is taken, with the in-place one.
NAMES = """
add sub mul div true_divide floor_divide remainder fmod pow rsub subtract multiply divide
maximum minimum fmax fmin atan2 hypot copysign
neg negative abs absolute sign floor ceil trunc round frac sqrt rsqrt reciprocal square
exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh
asinh acosh atanh erf erfc sigmoid logit relu relu6 gelu silu mish elu selu celu leaky_relu
hardtanh hardswish hardsigmoid softplus softsign threshold prelu log_sigmoid softshrink
hardshrink tanhshrink glu lgamma digamma erfinv sinc deg2rad rad2deg xlogy logaddexp
logaddexp2 nan_to_num heaviside
eq ne lt le gt ge isnan isinf isfinite signbit isposinf isneginf isclose
logical_and logical_or logical_xor logical_not
bitwise_and bitwise_or bitwise_xor bitwise_not bitwise_left_shift bitwise_right_shift
__and__ __or__ __xor__ __lshift__ __rshift__
where clamp clamp_min clamp_max clip lerp addcmul addcdiv masked_fill fill zero copy clone
sum mean amax amin max min var std prod any all argmax argmin logsumexp norm var_mean
std_mean count_nonzero nansum median cumsum cumprod aminmax
softmax log_softmax _softmax _log_softmax layer_norm native_layer_norm batch_norm group_norm
native_group_norm instance_norm rms_norm native_batch_norm linalg_vector_norm
_native_batch_norm_legit_no_training normalize
embedding index_select gather take_along_dim index index_put scatter scatter_add index_add
index_copy index_fill masked_scatter select_scatter slice_scatter diagonal_scatter
as_strided_scatter cat concat stack hstack vstack repeat repeat_interleave flip roll tile
tril triu one_hot sort topk argsort bucketize searchsorted masked_select nonzero unique
full zeros ones empty arange linspace eye zeros_like ones_like empty_like full_like
new_zeros new_ones new_full new_empty scalar_tensor empty_strided
_to_copy to type_as contiguous float
view reshape permute transpose t select slice narrow expand expand_as squeeze unsqueeze
diagonal unfold as_strided split split_with_sizes chunk unbind tensor_split flatten
unflatten alias detach view_as swapaxes swapdims movedim moveaxis numpy_T mT adjoint
_unsafe_view _reshape_alias lift_fresh broadcast_to ravel atleast_1d view_as_real
view_as_complex real imag unsafe_chunk unsafe_split broadcast_tensors reshape_as
linear addmm mm bmm matmul mv dot baddbmm addbmm addmv outer einsum tensordot
convolution conv1d conv2d conv3d conv_transpose1d conv_transpose2d _convolution bilinear
scaled_dot_product_attention max_pool1d max_pool2d max_pool3d avg_pool1d avg_pool2d
avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool2d
max_pool2d_with_indices _adaptive_avg_pool2d lstm gru lstm_cell gru_cell rnn_tanh
upsample_nearest2d upsample_bilinear2d grid_sampler constant_pad_nd pad reflection_pad2d
replication_pad2d pixel_shuffle pixel_unshuffle channel_shuffle
mse_loss l1_loss smooth_l1_loss huber_loss nll_loss cross_entropy_loss
binary_cross_entropy binary_cross_entropy_with_logits kl_div cosine_similarity
dropout feature_dropout alpha_dropout native_dropout bernoulli rand randn rand_like
randn_like randint randperm normal uniform multinomial exponential
cross cdist meshgrid trace diag diag_embed diff
""".split()

# Overloads of other namespaces: what the library plan calls.
OTHERS = """
mkldnn::_reorder_convolution_weight mkldnn::_convolution_pointwise
mkldnn::_convolution_pointwise.binary mkldnn::_linear_pointwise
mkldnn::_linear_pointwise.binary mkldnn::_reorder_linear_weight
mkl::_mkl_reorder_linear_weight mkl::_mkl_linear
""".split()

HEADER = """\
// Schemas exactly as torch prints them. Written by tools/dev/update_schemas.py;
// do not edit.

include "OperatorBase.td"

"""


def overloads() -> list[tuple[str, str]]:
    """(schema, class) of every overload that the names above select."""
    names = set(NAMES) | {f"{name}_" for name in NAMES}
    found = {}
    for schema in torch._C._jit_get_all_schemas():
        namespace, _, base = schema.name.partition("::")
        overload = schema.overload_name
        full = schema.name + (f".{overload}" if overload else "")
        if full in OTHERS:
            found[str(schema)] = "Pure"
        if namespace != "aten" or base not in names:
            continue
        if any(argument.is_out for argument in schema.arguments):
            continue
        results = [str(result.type) for result in schema.returns]
        if any(word in schema.overload_name.lower() for word in ("names", "dimname")):
            continue
        if not any("Tensor" in result for result in results):
            continue
        op = getattr(torch.ops.aten, base, None)
        overload = schema.overload_name or "default"
        try:
            tags = getattr(op, overload).tags
        except AttributeError:  # a TorchScript helper, no dispatcher operator
            continue
        kind = ""
        if torch.Tag.nondeterministic_seeded in tags:
            kind = "Random"
        elif torch.Tag.dynamic_output_shape in tags:
            kind = "Dynamic"
        elif torch.Tag.inplace_view in tags:
            kind = "Metadata"
        found[str(schema)] = kind
    return sorted(found.items())


def render() -> str:
    lines = [HEADER]
    for schema, kind in overloads():
        text = schema.replace("\\", "\\\\").replace('"', '\\"')
        suffix = f', "{kind}"' if kind else ""
        lines.append(f'def : Schema<"{text}"{suffix}>;\n')
    return "".join(lines)


if __name__ == "__main__":
    target = Path(__file__).resolve().parents[2] / "lib/Operators/Schemas.td"
    target.write_text(render())
    print(f"{target}: {len(overloads())} overloads")
